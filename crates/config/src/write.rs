//! Writes a configuration as kube-scheduler's `--write-config-to` does.

use harbormaster_api::{Release, points::ExtensionPoint};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::config::{API_VERSION, KIND, KubeSchedulerConfiguration, PluginConfig, Profile};

impl KubeSchedulerConfiguration {
    /// Returns the configuration as YAML with sorted keys, including all defaults and the arguments of every enabled
    /// plugin, as kube-scheduler of this release writes it. Plugins that the profile lists under `multiPoint` stay there.
    /// [`crate::load`] can read the result.
    pub fn to_yaml(&self, release: Release) -> String {
        harbormaster_yaml::write(&self.to_value(release))
    }

    /// Returns the content of [`Self::to_yaml`] as a JSON value.
    pub fn to_value(&self, release: Release) -> Value {
        let mut config = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "parallelism": self.parallelism,
            "leaderElection": value(&self.leader_election),
            "clientConnection": value(&self.client_connection),
            "enableProfiling": self.enable_profiling,
            "enableContentionProfiling": self.enable_contention_profiling,
            "percentageOfNodesToScore": self.percentage_of_nodes_to_score.unwrap_or(0),
            "podInitialBackoffSeconds": self.pod_initial_backoff_seconds,
            "podMaxBackoffSeconds": self.pod_max_backoff_seconds,
            "profiles": self.profiles.iter().map(|profile| profile_value(profile, release)).collect::<Vec<_>>(),
        });
        // Whole numbers are written without a fraction.
        let qps = self.client_connection.qps;
        if qps.fract() == 0.0 && qps.abs() < 1e9 {
            config["clientConnection"]["qps"] = json!(qps as i64);
        }
        if !self.extenders.is_empty() {
            config["extenders"] = value(&self.extenders);
        }
        if self.delay_cache_until_active {
            config["delayCacheUntilActive"] = json!(true);
        }
        config
    }
}

fn value(from: &impl Serialize) -> Value {
    // Serializing structs with string keys cannot fail.
    serde_json::to_value(from).unwrap_or_default()
}

fn profile_value(profile: &Profile, release: Release) -> Value {
    let mut plugins = Map::new();
    let is_left_out = |point| {
        point == ExtensionPoint::PodGroupPostFilter
            && release < Release::V1_37
            && profile.plugins.at(point).is_empty()
    };
    for point in ExtensionPoint::ALL.into_iter().filter(|point| !is_left_out(*point)) {
        plugins.insert(point.field().to_owned(), value(profile.plugins.at(point)));
    }
    plugins.insert("multiPoint".to_owned(), value(&profile.plugins.multi_point));
    let mut written = json!({"schedulerName": profile.scheduler_name, "plugins": plugins});
    let needed = profile.plugins.names();
    let mut configs: Vec<_> =
        profile.plugin_config.iter().filter(|c| needed.contains(&c.name.as_str())).collect();
    configs.sort_by_key(|c| &c.name);
    let configs: Vec<_> = configs.into_iter().filter_map(config_value).collect();
    if !configs.is_empty() {
        written["pluginConfig"] = configs.into();
    }
    if let Some(percentage) = profile.percentage_of_nodes_to_score {
        written["percentageOfNodesToScore"] = json!(percentage);
    }
    written
}

pub(crate) fn config_value(config: &PluginConfig) -> Option<Value> {
    let mut args = config.args.to_value()?;
    if let (Some(kind), Value::Object(fields)) = (config.args.kind(), &mut args) {
        fields.insert("apiVersion".to_owned(), API_VERSION.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    Some(json!({"name": config.name, "args": args}))
}

#[cfg(test)]
mod tests {
    use harbormaster_api::features::Features;

    use super::*;
    use crate::load;

    #[test]
    fn the_default_configuration_is_written_as_kube_scheduler_does() {
        let yaml = KubeSchedulerConfiguration::default_config().to_yaml(Release::V1_36);
        for part in [
            "apiVersion: kubescheduler.config.k8s.io/v1\nclientConnection:\n",
            "  qps: 50\n",
            "  leaseDuration: 15s\n",
            "percentageOfNodesToScore: 0\n",
            "      bindingTimeout: 10m0s\n",
            "    name: DefaultPreemption\n",
            "        weight: 0\n",
            "    score: {}\n",
        ] {
            assert!(yaml.contains(part), "{part:?} is not in\n{yaml}");
        }
    }

    #[test]
    fn each_release_writes_its_own_extension_points() {
        let config = KubeSchedulerConfiguration::default_config();
        let has_point = |release| config.to_yaml(release).contains("\n    podGroupPostFilter: {}\n");
        assert!(!has_point(Release::V1_36) && has_point(Release::V1_37));
    }

    #[test]
    fn a_written_configuration_reads_back_unchanged() {
        let text = r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 12.5}
delayCacheUntilActive: true
extenders: [{urlPrefix: "http://127.0.0.1:1", filterVerb: f, httpTimeout: 3s, enableHTTPS: true}]
profiles:
- schedulerName: "yes"
  percentageOfNodesToScore: 30
  plugins:
    multiPoint: {disabled: [{name: ImageLocality}], enabled: [{name: NodeAffinity, weight: 7}]}
  pluginConfig:
  - name: NodeAffinity
    args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In, values: ["1"]}]}}]}}
"#;
        let features = Features::default();
        let first = load(text, "a", &features).unwrap();
        let written = first.to_yaml(features.release());
        let again = load(&written, "b", &features).unwrap();
        assert_eq!(again.to_yaml(features.release()), written);
        assert_eq!(again.extenders, first.extenders);
        assert_eq!(again.client_connection, first.client_connection);
        assert_eq!(again.profiles[0].scheduler_name, "yes");
        assert_eq!(again.profiles[0].args("NodeAffinity"), first.profiles[0].args("NodeAffinity"));
    }
}
