//! Parses a configuration and fills in defaults.

use std::sync::Arc;

use harbormaster_api::{args::GoDuration, features::Features, similar::similar};
use harbormaster_yaml::{Content, Node};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    config::{
        API_VERSION, ClientConnection, DEFAULT_SCHEDULER_NAME, Extender, KIND, KubeSchedulerConfiguration,
        LeaderElection, PluginConfig, Profile,
    },
    decode,
    error::{ConfigError, ConfigErrors, Source},
    old_versions,
    plugin_args::{ARGS_KINDS, PluginArgs},
    plugins::Plugins,
};

/// The configuration as written in the file. An absent field has its default, unless the default depends on other
/// fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FileConfig {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// Number of workers that filter and score nodes in kube-scheduler; no effect in Harbormaster.
    parallelism: i32,
    /// Leader election among replicas.
    leader_election: LeaderElection,
    /// Connection to the API server.
    client_connection: ClientConnection,
    /// True if the secure port serves /debug/flags/v.
    enable_profiling: bool,
    /// True if kube-scheduler profiles lock contention; no effect in Harbormaster.
    enable_contention_profiling: Option<bool>,
    /// Percentage of nodes that must be found feasible before scoring starts. If it is 0 or absent, Harbormaster
    /// considers all nodes, whereas kube-scheduler (and Harbormaster with --parity) derives the percentage from the
    /// size of the cluster.
    percentage_of_nodes_to_score: Option<i32>,
    /// First backoff of an unschedulable pod, in seconds.
    pod_initial_backoff_seconds: i64,
    /// Longest backoff, in seconds.
    pod_max_backoff_seconds: i64,
    /// Plugins and settings for pods, selected by their scheduler name.
    profiles: Vec<FileProfile>,
    /// HTTP extenders.
    extenders: Vec<Extender>,
    /// True if the cache is filled only while this replica is the leader.
    delay_cache_until_active: bool,
}

impl Default for FileConfig {
    fn default() -> Self {
        Self {
            _api_version: String::new(),
            _kind: String::new(),
            parallelism: 16,
            leader_election: LeaderElection::default(),
            client_connection: ClientConnection::default(),
            enable_profiling: true,
            enable_contention_profiling: None,
            percentage_of_nodes_to_score: None,
            pod_initial_backoff_seconds: 1,
            pod_max_backoff_seconds: 10,
            profiles: Vec::new(),
            extenders: Vec::new(),
            delay_cache_until_active: false,
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "KubeSchedulerProfile")]
/// Plugins and settings for the pods with one scheduler name.
pub(crate) struct FileProfile {
    /// `spec.schedulerName` of the profile's pods. If there is only one profile, the default is default-scheduler.
    scheduler_name: Option<String>,
    /// Overrides the global value for this profile.
    percentage_of_nodes_to_score: Option<i32>,
    /// Plugins to enable and disable, by extension point, in addition to the defaults.
    plugins: Plugins,
    /// Arguments of plugins.
    plugin_config: Vec<FilePluginConfig>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "PluginConfig")]
/// Arguments of one plugin.
pub(crate) struct FilePluginConfig {
    /// Name of the plugin.
    name: String,
    /// Arguments of the plugin.
    // Decoded later from the tree, when the plugin is known.
    #[serde(rename = "args")]
    #[schemars(with = "serde_json::Value")]
    _args: serde::de::IgnoredAny,
}

/// Parses a configuration (YAML or JSON) and fills in the defaults. `file` is the name of the file in errors.
///
/// Decoding is strict, as in kube-scheduler: unknown and duplicate fields are errors. The result is *not* validated:
/// apply the flags, then call [`crate::validate`].
///
/// # Errors
/// All decoding errors, or the errors about an unsupported API version or kind.
pub fn load(text: &str, file: &str, features: &Features) -> Result<KubeSchedulerConfiguration, ConfigErrors> {
    let root = harbormaster_yaml::parse(text).map_err(|e| {
        let source = Source::new(file, Arc::default());
        source.error_at(e.at, "", format!("error converting YAML to JSON: yaml: {}", e.message))
    })?;
    let root = Arc::new(root);
    let source = Source::new(file, root.clone());
    check_type(&root, file, &source)?;

    let repeated = root.repeated_keys().into_iter();
    let mut strict: Vec<_> = repeated
        .map(|(path, at)| {
            let key = path.rsplit('.').next().unwrap_or_default();
            let message = format!("duplicate field {path:?}: key {key:?} already set in map");
            source.error_at(Some(at), path, message)
        })
        .collect();
    let (decoded, unknown) = decode::decode::<FileConfig>(&root);
    strict.extend(unknown.into_iter().map(|f| {
        let message = format!("unknown field {:?}", f.path);
        source.error_at(Some(f.at), f.path.clone(), message).meaning(f.suggestion)
    }));
    let config = match decoded {
        Ok(config) => config,
        Err(wrong) => {
            strict.push(source.error_at(wrong.at, wrong.path.clone(), wrong.to_string()));
            return Err(strict.into());
        }
    };
    let mut args = ArgsReader { root: &root, source: &source, features, strict };
    let mut profiles = Vec::new();
    for (i, profile) in config.profiles.into_iter().enumerate() {
        let plugin_config = args.read_profile(i, &profile.plugin_config)?;
        profiles.push((profile, plugin_config));
    }
    if !args.strict.is_empty() {
        return Err(ConfigErrors::strict_decoding(args.strict));
    }
    let config = FileConfig { profiles: Vec::new(), ..config };
    Ok(with_defaults(config, profiles, source, features))
}

/// Returns the configuration that applies if there is no file.
pub(crate) fn defaults(features: &Features) -> KubeSchedulerConfiguration {
    with_defaults(FileConfig::default(), Vec::new(), Source::default(), features)
}

fn check_type(root: &Node, file: &str, source: &Source) -> Result<(), ConfigErrors> {
    let error = |field: &str, message: String, help: &str| {
        let help = (!help.is_empty()).then(|| help.to_owned());
        Err(ConfigErrors::from(ConfigError { help, ..source.error(field, message) }))
    };
    if !matches!(root.content, Content::Mapping(_) | Content::Null) {
        let what = root.type_name();
        return error(
            "",
            format!("couldn't get version/kind; json parse error: cannot unmarshal {what} into an object"),
            "",
        );
    }
    let text = |key: &str| root.get(key).and_then(Node::text).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let start = format!("start the file with \"apiVersion: {API_VERSION}\" and \"kind: {KIND}\"");
    if kind.is_empty() {
        return error("kind", format!("Object 'Kind' is missing in '{file}'"), &start);
    }
    if version.is_empty() {
        return error("apiVersion", format!("Object 'apiVersion' is missing in '{file}'"), &start);
    }
    if (version, kind) == (API_VERSION, KIND) {
        return Ok(());
    }
    if version == API_VERSION && ARGS_KINDS.contains(&kind) {
        let message = format!(
            "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, Kind={kind}: "
        );
        return error("kind", message, "put the arguments of plugins into profiles[].pluginConfig[].args");
    }
    Err(old_versions::errors(root, version, kind, source))
}

/// Returns kube-scheduler's message about an unknown version or kind.
pub(crate) fn not_registered(kind: &str, version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \
         \"pkg/scheduler/apis/config/scheme/scheme.go:29\""
    )
}

struct ArgsReader<'a> {
    root: &'a Node,
    source: &'a Source,
    features: &'a Features,
    strict: Vec<ConfigError>,
}

impl ArgsReader<'_> {
    fn read_profile(
        &mut self,
        profile: usize,
        configs: &[FilePluginConfig],
    ) -> Result<Vec<PluginConfig>, ConfigErrors> {
        let entries = self.root.get("profiles").map_or(&[][..], Node::items).get(profile);
        let entries = entries.and_then(|p| p.get("pluginConfig")).map_or(&[][..], Node::items);
        let mut read = Vec::new();
        for (i, config) in configs.iter().enumerate() {
            let node = entries.get(i).and_then(|entry| entry.get("args"));
            let path = format!("profiles[{profile}].pluginConfig[{i}]");
            read.push(PluginConfig {
                name: config.name.clone(),
                args: self.read(&config.name, node, &path)?,
            });
        }
        Ok(read)
    }

    fn read(&mut self, plugin: &str, node: Option<&Node>, path: &str) -> Result<PluginArgs, ConfigErrors> {
        let Some(node) = node else { return Ok(PluginArgs::default_for(plugin, self.features)) };
        let expected = format!("{plugin}Args");
        if !ARGS_KINDS.contains(&expected.as_str()) {
            // Arguments that were written for a plugin in Go name their kind, which ours do not have.
            let is_typed = node.get("kind").and_then(Node::text) == Some(&expected);
            let untyped = is_typed.then(|| without_type(node));
            let (args, _) = PluginArgs::read(plugin, untyped.as_ref().unwrap_or(node), self.features);
            return args.map_err(|wrong| self.source.error_at(wrong.at, path, wrong.to_string()).into());
        }
        let text = |key: &str| node.get(key).and_then(Node::text).filter(|text| !text.is_empty());
        let kind = text("kind").unwrap_or(&expected);
        let version = text("apiVersion").unwrap_or(API_VERSION);
        let at = |field: &str| format!("{path}.args.{field}");
        if version != API_VERSION || !ARGS_KINDS.contains(&kind) && kind != KIND {
            let message = format!(
                "decoding .{path}: decoding args for plugin {plugin}: {}",
                not_registered(kind, version)
            );
            let error = match version == API_VERSION {
                true => self.source.error(at("kind"), message).meaning(similar(kind, [expected.as_str()])),
                false => {
                    self.source.error(at("apiVersion"), message).meaning(similar(version, [API_VERSION]))
                }
            };
            return Err(error.into());
        }
        if kind != expected {
            let message = format!(
                "decoding .{path}: args for plugin {plugin} were not of type {expected}.kubescheduler.config.k8s.io, \
                 got {kind}.kubescheduler.config.k8s.io"
            );
            return Err(self.source.error(at("kind"), message).into());
        }
        let (args, unknown) = PluginArgs::read(plugin, &without_type(node), self.features);
        self.strict.extend(unknown.into_iter().map(|field| {
            let message = format!(
                "decoding .{path}: strict decoding error: decoding args for plugin {plugin}: strict decoding error: \
                 unknown field {:?}",
                field.path
            );
            self.source.error_at(Some(field.at), at(&field.path), message).meaning(field.suggestion)
        }));
        args.map_err(|wrong| {
            let message = format!("decoding .{path}: decoding args for plugin {plugin}: {wrong}");
            self.source.error_at(wrong.at, at(&wrong.path), message).into()
        })
    }
}

/// Removes `apiVersion` and `kind`, which arguments may contain although their types lack these fields.
fn without_type(node: &Node) -> Node {
    let mut node = node.clone();
    if let Content::Mapping(entries) = &mut node.content {
        entries.retain(|e| e.key != "apiVersion" && e.key != "kind");
    }
    node
}

fn with_defaults(
    file: FileConfig,
    profiles: Vec<(FileProfile, Vec<PluginConfig>)>,
    source: Source,
    features: &Features,
) -> KubeSchedulerConfiguration {
    let mut profiles = profiles;
    if profiles.is_empty() {
        profiles.push(Default::default());
    }
    let is_only = profiles.len() == 1;
    KubeSchedulerConfiguration {
        parallelism: file.parallelism,
        leader_election: leader_election_with_defaults(file.leader_election),
        client_connection: connection_with_defaults(file.client_connection),
        enable_profiling: file.enable_profiling,
        enable_contention_profiling: file.enable_contention_profiling.unwrap_or(file.enable_profiling),
        percentage_of_nodes_to_score: file.percentage_of_nodes_to_score,
        pod_initial_backoff_seconds: file.pod_initial_backoff_seconds,
        pod_max_backoff_seconds: file.pod_max_backoff_seconds,
        profiles: profiles
            .into_iter()
            .map(|(p, config)| profile_with_defaults(p, config, is_only, features))
            .collect(),
        extenders: file.extenders,
        delay_cache_until_active: file.delay_cache_until_active,
        source,
    }
}

fn profile_with_defaults(
    file: FileProfile,
    mut plugin_config: Vec<PluginConfig>,
    is_only: bool,
    features: &Features,
) -> Profile {
    let default_name = if is_only { DEFAULT_SCHEDULER_NAME } else { "" };
    let multi_point_in_file = file.plugins.multi_point.enabled.iter().map(|p| p.name.clone()).collect();
    let plugins = Plugins::merged(features, file.plugins);
    for name in plugins.names() {
        if plugin_config.iter().any(|c| c.name == name) {
            continue;
        }
        let args = PluginArgs::default_for(name, features);
        if args != PluginArgs::Absent {
            plugin_config.push(PluginConfig { name: name.to_owned(), args });
        }
    }
    Profile {
        scheduler_name: file.scheduler_name.unwrap_or_else(|| default_name.to_owned()),
        percentage_of_nodes_to_score: file.percentage_of_nodes_to_score,
        plugins,
        plugin_config,
        multi_point_in_file,
    }
}

/// Replaces zero durations and empty strings, which mean "not given".
fn leader_election_with_defaults(mut lease: LeaderElection) -> LeaderElection {
    let default = LeaderElection::default();
    let zero = GoDuration::default();
    for (given, default) in [
        (&mut lease.lease_duration, default.lease_duration),
        (&mut lease.renew_deadline, default.renew_deadline),
        (&mut lease.retry_period, default.retry_period),
    ] {
        if *given == zero {
            *given = default;
        }
    }
    for (given, default) in [
        (&mut lease.resource_lock, default.resource_lock),
        (&mut lease.resource_name, default.resource_name),
        (&mut lease.resource_namespace, default.resource_namespace),
    ] {
        if given.is_empty() {
            *given = default;
        }
    }
    lease
}

fn connection_with_defaults(mut client: ClientConnection) -> ClientConnection {
    let default = ClientConnection::default();
    if client.content_type.is_empty() {
        client.content_type = default.content_type;
    }
    if client.qps == 0.0 {
        client.qps = default.qps;
    }
    if client.burst == 0 {
        client.burst = default.burst;
    }
    client
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Release;

    use super::*;

    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    fn read(text: &str) -> Result<KubeSchedulerConfiguration, ConfigErrors> {
        load(&format!("{HEAD}{text}"), "s.yaml", &Features::default())
    }

    #[test]
    fn an_empty_configuration_has_all_defaults() {
        let config = read("").unwrap();
        let default = KubeSchedulerConfiguration::default_config();
        assert_eq!(config.to_yaml(Release::default()), default.to_yaml(Release::default()));
        assert_eq!(
            (config.parallelism, config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds),
            (16, 1, 10)
        );
        assert_eq!((config.enable_profiling, config.enable_contention_profiling), (true, true));
        assert_eq!(config.percentage_of_nodes_to_score, None);
        assert_eq!(config.leader_election, LeaderElection::default());
        assert_eq!(config.client_connection, ClientConnection::default());
        assert_eq!(config.profiles[0].scheduler_name, "default-scheduler");
    }

    #[test]
    fn zero_and_empty_mean_not_given_where_they_do_in_kubernetes() {
        let config = read(
            "leaderElection: {leaseDuration: 0s, resourceName: '', leaderElect: false}\n\
             clientConnection: {qps: 0, burst: 0, contentType: ''}\nenableProfiling: false\n",
        )
        .unwrap();
        assert_eq!(
            config.leader_election,
            LeaderElection { leader_elect: false, ..LeaderElection::default() }
        );
        assert_eq!(config.client_connection, ClientConnection::default());
        assert!(!config.enable_contention_profiling);
        let kept = read("parallelism: 0\npodMaxBackoffSeconds: 0\nclientConnection: {burst: -1}\n").unwrap();
        assert_eq!(
            (kept.parallelism, kept.pod_max_backoff_seconds, kept.client_connection.burst),
            (0, 0, -1)
        );
    }

    #[test]
    fn only_a_single_profile_gets_the_default_name() {
        let names = |text: &str| -> Vec<String> {
            read(text).unwrap().profiles.into_iter().map(|p| p.scheduler_name).collect()
        };
        assert_eq!(names("profiles: [{}]"), ["default-scheduler"]);
        assert_eq!(names("profiles: [{schedulerName: ''}]"), [""]);
        assert_eq!(names("profiles: [{schedulerName: a}, {}]"), ["a", ""]);
    }

    #[test]
    fn all_unknown_fields_are_reported_with_lines_and_kube_schedulers_message() {
        let errors = read(
            "bogus: 1\nprofiles:\n- foo: 2\n  plugins:\n    filter:\n      enabled:\n      - nmae: X\n  pluginConfig:\n  \
             - name: NodeResourcesFit\n    args:\n      zzz: 1\n",
        )
        .unwrap_err();
        assert_eq!(
            errors.kube_text(),
            "strict decoding error: unknown field \"bogus\", unknown field \"profiles[0].foo\", unknown field \
             \"profiles[0].plugins.filter.enabled[0].nmae\", decoding .profiles[0].pluginConfig[0]: strict decoding \
             error: decoding args for plugin NodeResourcesFit: strict decoding error: unknown field \"zzz\""
        );
        let places: Vec<_> =
            errors.to_string().lines().map(|l| l.split(": ").next().unwrap().to_owned()).collect();
        assert_eq!(places, ["s.yaml:3:1", "s.yaml:5:3", "s.yaml:9:9", "s.yaml:13:7"]);
        let fields: Vec<_> = errors.errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(
            fields[2..],
            ["profiles[0].plugins.filter.enabled[0].nmae", "profiles[0].pluginConfig[0].args.zzz"]
        );
    }

    #[test]
    fn similar_names_are_suggested() {
        for (text, expected) in [
            ("paralelism: 1", "unknown field \"paralelism\" (did you mean `parallelism`?)"),
            (
                "profiles: [{plugins: {filtr: {}}}]",
                "unknown field \"profiles[0].plugins.filtr\" (did you mean `filter`?)",
            ),
            (
                "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResource: []}}]}]",
                "unknown field \"ignoredResource\" (did you mean `ignoredResources`?)",
            ),
            (
                "profiles: [{pluginConfig: [{name: NodeAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1, \
                 kind: NodeAffinityArg}}]}]",
                "(did you mean `NodeAffinityArgs`?)",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn fields_of_the_file_are_distinguished_from_defaults() {
        let config = read(
            "leaderElection: {leaderElect: true}\nprofiles: [{plugins: {multiPoint: {enabled: [{name: VolumeZone}]}, \
             score: {enabled: [{name: VolumeBinding}]}}}]",
        )
        .unwrap();
        assert!(config.is_set_in_file("leaderElection.leaderElect"));
        assert!(!config.is_set_in_file("leaderElection.resourceName"));
        let profile = &config.profiles[0];
        let by_name = |plugin: &str| {
            profile.multi_point_in_file.iter().any(|name| name == plugin)
                || harbormaster_api::points::ExtensionPoint::ALL
                    .iter()
                    .any(|point| profile.plugins.at(*point).enables(plugin))
        };
        assert!(by_name("VolumeZone") && by_name("VolumeBinding") && !by_name("NodePorts"));
    }

    #[test]
    fn duplicate_fields_are_rejected() {
        let errors = read("parallelism: 1\nparallelism: 2\n").unwrap_err();
        assert_eq!(
            errors.to_string(),
            "s.yaml:4:1: duplicate field \"parallelism\": key \"parallelism\" already set in map"
        );
    }

    #[test]
    fn values_of_the_wrong_type_are_reported_with_lines() {
        for (text, message) in [
            ("parallelism: many", "s.yaml:3:14: parallelism: cannot unmarshal string into type int32"),
            ("profiles: {}", "s.yaml:3:11: profiles: cannot unmarshal object into type array"),
            (
                "leaderElection: {leaseDuration: 15}",
                "s.yaml:3:33: leaderElection.leaseDuration: cannot unmarshal number into type string",
            ),
            (
                "leaderElection: {leaseDuration: 15 s}",
                "s.yaml:3:33: leaderElection.leaseDuration: time: unknown unit \" s\" in duration \"15 s\"",
            ),
            (
                "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: x}}]}]",
                "s.yaml:3:83: decoding .profiles[0].pluginConfig[0]: decoding args for plugin InterPodAffinity: \
                 hardPodAffinityWeight: cannot unmarshal string into type int32",
            ),
            (
                "profiles: [{schedulerName: yes}]",
                "s.yaml:3:28: profiles[0].schedulerName: cannot unmarshal bool into type string",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn arguments_of_another_kind_are_rejected() {
        let of = |args: &str| {
            read(&format!("profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {args}}}]}}]"))
                .map(|_| ())
                .map_err(|e| e.kube_text())
        };
        assert_eq!(of("{apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeAffinityArgs}"), Ok(()));
        assert_eq!(of("null"), Ok(()));
        assert_eq!(
            of("{kind: InterPodAffinityArgs}").unwrap_err(),
            "decoding .profiles[0].pluginConfig[0]: args for plugin NodeAffinity were not of type \
             NodeAffinityArgs.kubescheduler.config.k8s.io, got InterPodAffinityArgs.kubescheduler.config.k8s.io"
        );
        assert!(
            of("{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: NodeAffinityArgs}")
                .unwrap_err()
                .starts_with(
                    "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: no kind \
                 \"NodeAffinityArgs\" is registered for version \"kubescheduler.config.k8s.io/v1beta3\""
                )
        );
    }

    #[test]
    fn arguments_of_unknown_plugins_are_kept_unchanged() {
        let config =
            read("profiles: [{pluginConfig: [{name: Mine, args: {a: [1]}}, {name: NodeName}, {name: X, args: 3}]}]").unwrap();
        let args = |name: &str| config.profiles[0].args(name).cloned();
        assert_eq!(args("Mine"), Some(PluginArgs::Other(serde_json::json!({"a": [1]}))));
        assert_eq!(args("NodeName"), Some(PluginArgs::Absent));
        assert_eq!(args("X"), Some(PluginArgs::Other(serde_json::json!(3))));
    }

    #[test]
    fn arguments_of_unknown_plugins_lose_the_kind_that_is_named_after_the_plugin() {
        let args = |kind: &str| {
            let args = format!("{{apiVersion: kubescheduler.config.k8s.io/v1, kind: {kind}, a: 1}}");
            let config =
                read(&format!("profiles: [{{pluginConfig: [{{name: Mine, args: {args}}}]}}]")).unwrap();
            config.profiles[0].args("Mine").cloned()
        };
        assert_eq!(args("MineArgs"), Some(PluginArgs::Other(serde_json::json!({"a": 1}))));
        let other =
            serde_json::json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "Other", "a": 1});
        assert_eq!(args("Other"), Some(PluginArgs::Other(other)));
    }

    #[test]
    fn a_file_that_lacks_a_kind_or_version_or_is_not_yaml_is_rejected() {
        let message = |text: &str| load(text, "s.yaml", &Features::default()).unwrap_err().to_string();
        assert!(message("").starts_with("s.yaml: Object 'Kind' is missing in 's.yaml'"));
        assert!(
            message("kind: KubeSchedulerConfiguration")
                .contains("Object 'apiVersion' is missing in 's.yaml'")
        );
        assert!(message("- a").contains("couldn't get version/kind"));
        let broken = message("a: 1\nb: [1,\nc: }");
        assert!(broken.starts_with("s.yaml:2:4: error converting YAML to JSON: yaml: "), "{broken}");
        assert!(
            message("apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs\n")
                .starts_with("s.yaml:2:1: couldn't decode as KubeSchedulerConfiguration, got")
        );
    }

    #[test]
    fn a_configuration_may_be_json() {
        let text = "{\"apiVersion\": \"kubescheduler.config.k8s.io/v1\", \"kind\": \"KubeSchedulerConfiguration\",\n\
                    \t\"parallelism\": 3}";
        assert_eq!(load(text, "s.json", &Features::default()).unwrap().parallelism, 3);
    }
}
