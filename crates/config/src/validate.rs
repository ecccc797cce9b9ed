//! Validation of a configuration, with kube-scheduler's messages.

use harbormaster_api::{features::Features, labels, points::ExtensionPoint, resources::is_extended};
use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::{
    args_rules,
    config::{API_VERSION, Extender, KubeSchedulerConfiguration, LeaderElection, Profile},
    error::ConfigErrors,
    fields::{FieldErrors, quoted},
    in_tree::{self, REMOVED_IN_V1},
    plugin_args::PluginArgs,
    plugins::{PluginRef, PluginSet},
};

/// Validates a configuration to which the flags have been applied.
///
/// As in kube-scheduler, the arguments of NodeResourcesFit are validated later, when profiles are
/// [planned](crate::plan_profiles).
///
/// # Errors
/// All errors, in kube-scheduler's order.
pub fn validate(config: &KubeSchedulerConfiguration, features: &Features) -> Result<(), ConfigErrors> {
    let mut errors = FieldErrors::new(&config.source);
    if config.client_connection.burst < 0 {
        errors.invalid("clientConnection.burst", config.client_connection.burst, "must be non-negative");
    }
    check_leader_election(&config.leader_election, &mut errors);
    if config.parallelism <= 0 {
        errors.invalid("parallelism", config.parallelism, "should be an integer value greater than zero");
    }
    check_profiles(&config.profiles, features, &mut errors);
    check_percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score, &mut errors);
    let (initial, max) = (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds);
    if initial <= 0 {
        errors.invalid("podInitialBackoffSeconds", initial, "must be greater than 0");
    }
    if max < initial {
        let detail = "must be greater than or equal to PodInitialBackoffSeconds";
        errors.invalid("podMaxBackoffSeconds", max, detail);
    }
    check_extenders(&config.extenders, &mut errors);
    ConfigErrors::from(errors.into_errors()).into_result()
}

fn check_leader_election(lease: &LeaderElection, errors: &mut FieldErrors<'_>) {
    if !lease.leader_elect {
        return;
    }
    for (field, duration) in [
        ("leaseDuration", lease.lease_duration),
        ("renewDeadline", lease.renew_deadline),
        ("retryPeriod", lease.retry_period),
    ] {
        if duration.nanos() <= 0 {
            errors.invalid(&format!("leaderElection.{field}"), quoted(duration), "must be greater than zero");
        }
    }
    if lease.lease_duration <= lease.renew_deadline {
        // kube-scheduler's message contains the value of the deadline, although the field is the lease duration.
        let value = quoted(lease.renew_deadline);
        errors.invalid("leaderElection.leaseDuration", value, "must be greater than `RenewDeadline`");
    }
    for (field, text) in [
        ("resourceLock", &lease.resource_lock),
        ("resourceNamespace", &lease.resource_namespace),
        ("resourceName", &lease.resource_name),
    ] {
        if text.is_empty() {
            errors.required(&format!("leaderElection.{field}"), "");
        }
    }
    if lease.resource_lock != "leases" {
        let detail = "resourceLock value must be \"leases\"";
        errors.invalid("leaderElection.resourceLock", quoted(&lease.resource_lock), detail);
    }
}

fn check_percentage(path: &str, percentage: Option<i32>, errors: &mut FieldErrors<'_>) {
    if let Some(percentage) = percentage.filter(|p| !(0..=100).contains(p)) {
        errors.invalid(path, percentage, "not in valid range [0-100]");
    }
}

fn check_profiles(profiles: &[Profile], features: &Features, errors: &mut FieldErrors<'_>) {
    if profiles.is_empty() {
        errors.required("profiles", "");
    }
    let mut names = FxHashSet::default();
    for (i, profile) in profiles.iter().enumerate() {
        let path = format!("profiles[{i}]");
        if profile.scheduler_name.is_empty() {
            errors.required(&format!("{path}.schedulerName"), "");
        }
        let percentage = format!("{path}.percentageOfNodesToScore");
        check_percentage(&percentage, profile.percentage_of_nodes_to_score, errors);
        check_removed_plugins(&path, profile, errors);
        check_plugin_config(&path, profile, features, errors);
        if !names.insert(profile.scheduler_name.as_str()) {
            // kube-scheduler passes a path as the value, which is printed as an empty structure.
            errors.duplicate(&format!("{path}.schedulerName"), "{}");
            let same = |other: &&Profile| other.scheduler_name == profile.scheduler_name;
            let first = profiles.iter().position(|other| same(&other)).unwrap_or_default();
            let name = &profile.scheduler_name;
            errors.help(Some(&format!("{name:?} is already the name of profiles[{first}]")));
        }
    }
    check_queue_sort(profiles, errors);
}

fn check_removed(path: &str, name: &str, errors: &mut FieldErrors<'_>) -> bool {
    let is_removed = REMOVED_IN_V1.contains(&name);
    if is_removed {
        let detail =
            format!("was invalid in version \"v1\" (KubeSchedulerConfiguration is version {API_VERSION:?})");
        errors.invalid(path, quoted(name), &detail);
        errors.help(in_tree::replacement(name));
    }
    is_removed
}

fn check_removed_plugins(path: &str, profile: &Profile, errors: &mut FieldErrors<'_>) {
    for point in ExtensionPoint::ALL {
        use ExtensionPoint::{PlacementGenerate, PlacementScore, PodGroupPostFilter};
        if matches!(point, PodGroupPostFilter | PlacementGenerate | PlacementScore) {
            continue;
        }
        for (i, plugin) in profile.plugins.at(point).enabled.iter().enumerate() {
            check_removed(&format!("{path}.plugins.{}.enabled[{i}]", point.field()), &plugin.name, errors);
        }
    }
}

fn check_plugin_config(path: &str, profile: &Profile, features: &Features, errors: &mut FieldErrors<'_>) {
    let mut seen = FxHashSet::default();
    for (i, config) in profile.plugin_config.iter().enumerate() {
        let path = format!("{path}.pluginConfig[{i}]");
        if !seen.insert(config.name.as_str()) {
            errors.duplicate(&path, quoted(&config.name));
        }
        if !check_removed(&path, &config.name, errors) {
            args_rules::check(&format!("{path}.args"), &config.args, features, errors);
        }
    }
}

/// Checks that all profiles sort the queue in the same way, because they share it.
fn check_queue_sort(profiles: &[Profile], errors: &mut FieldErrors<'_>) {
    let Some((first, others)) = profiles.split_first() else { return };
    let expected = &first.plugins.queue_sort;
    if expected.enabled.len() > 1 {
        let detail = "only one queue sort plugin can be enabled";
        errors.invalid("profiles[0].plugins.queueSort.Enabled", expected.enabled.len(), detail);
    }
    let sorter = expected.enabled.first().map(|p| p.name.as_str()).filter(|name| !name.is_empty());
    let args = |profile: &Profile| sorter.and_then(|name| profile.args(name)).and_then(PluginArgs::to_value);
    for (i, profile) in others.iter().enumerate() {
        let path = format!("profiles[{}]", i + 1);
        let own = &profile.plugins.queue_sort;
        if own != expected {
            let value = go_plugin_set(own);
            errors.invalid(&format!("{path}.plugins.queueSort"), value, "must be the same for all profiles");
        }
        let configured = sorter.is_some_and(|name| profile.args(name).is_some());
        if configured && args(profile) != args(first) {
            let value = args(profile).unwrap_or(Value::Null);
            let detail = "queueSort must be the same for all profiles";
            errors.invalid(&format!("{path}.pluginConfig.args"), value, detail);
        }
    }
}

/// Formats a plugin set as kube-scheduler's field errors do: with the field names and field order of the Go struct.
fn go_plugin_set(set: &PluginSet) -> String {
    let list = |plugins: &[PluginRef]| {
        let plugins: Vec<_> =
            plugins.iter().map(|p| format!("{{\"Name\":{:?},\"Weight\":{}}}", p.name, p.weight)).collect();
        if plugins.is_empty() { "null".to_owned() } else { format!("[{}]", plugins.join(",")) }
    };
    format!("{{\"Enabled\":{},\"Disabled\":{}}}", list(&set.enabled), list(&set.disabled))
}

fn check_extenders(extenders: &[Extender], errors: &mut FieldErrors<'_>) {
    let mut managed = FxHashSet::default();
    for (i, extender) in extenders.iter().enumerate() {
        let path = format!("extenders[{i}]");
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let detail = "must have a positive weight applied to it";
            errors.invalid(&format!("{path}.weight"), extender.weight, detail);
        }
        for (j, resource) in extender.managed_resources.iter().enumerate() {
            let path = format!("{path}.managedResources[{j}].name");
            let syntax = labels::qualified_name_errors(&resource.name);
            for error in &syntax {
                errors.invalid(&path, quoted(&resource.name), error);
            }
            if syntax.is_empty() && !is_extended(&resource.name) {
                errors.invalid(&path, quoted(&resource.name), "is an invalid extended resource name");
            }
            if !managed.insert(resource.name.as_str()) {
                errors.invalid(&path, quoted(&resource.name), "duplicate extender managed resource name");
            }
        }
    }
    let binders = extenders.iter().filter(|e| !e.bind_verb.is_empty()).count();
    if binders > 1 {
        let value = quoted(format!("found {binders} extenders implementing bind"));
        errors.invalid("extenders", value, "only one extender can implement bind");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::load;

    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    /// Returns a configuration's errors in kube-scheduler's format; empty if the configuration is valid.
    pub(crate) fn errors_with(text: &str, features: &Features) -> String {
        let config =
            load(&format!("{HEAD}{text}"), "s.yaml", features).unwrap_or_else(|e| panic!("{text}: {e}"));
        validate(&config, features).map_or_else(|errors| errors.kube_text(), |()| String::new())
    }

    fn errors(text: &str) -> String {
        errors_with(text, &Features::default())
    }

    #[test]
    fn defaults_are_valid() {
        assert_eq!(errors(""), "");
        assert_eq!(
            errors("percentageOfNodesToScore: 100\npodInitialBackoffSeconds: 7\npodMaxBackoffSeconds: 7\n"),
            ""
        );
    }

    #[test]
    fn invalid_fields_are_reported_in_kube_schedulers_words() {
        for (text, message) in [
            (
                "clientConnection: {burst: -1}",
                "clientConnection.burst: Invalid value: -1: must be non-negative",
            ),
            (
                "leaderElection: {leaseDuration: -1s, renewDeadline: -2s}",
                "[leaderElection.leaseDuration: Invalid value: \"-1s\": must be greater than zero, \
                 leaderElection.renewDeadline: Invalid value: \"-2s\": must be greater than zero]",
            ),
            (
                "leaderElection: {retryPeriod: -1m}",
                "leaderElection.retryPeriod: Invalid value: \"-1m0s\": must be greater than zero",
            ),
            (
                "leaderElection: {leaseDuration: 5s}",
                "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`",
            ),
            (
                "leaderElection: {resourceLock: endpoints}",
                "leaderElection.resourceLock: Invalid value: \"endpoints\": resourceLock value must be \"leases\"",
            ),
            ("leaderElection: {resourceLock: endpoints, leaderElect: false, leaseDuration: -1s}", ""),
            ("parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater than zero"),
            (
                "percentageOfNodesToScore: 101",
                "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
            ),
            (
                "profiles: [{percentageOfNodesToScore: -1}]",
                "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
            ),
            (
                "podInitialBackoffSeconds: 0",
                "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
            ),
            (
                "podInitialBackoffSeconds: 20",
                "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
            ),
            ("profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: Required value"),
            (
                "profiles: [{schedulerName: a}, {schedulerName: a}]",
                "profiles[1].schedulerName: Duplicate value: {}",
            ),
            (
                "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: Mine}]}}}]",
                "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
            ),
            (
                "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: Mine}]}}}]",
                "profiles[1].plugins.queueSort: Invalid value: {\"Enabled\":[{\"Name\":\"Mine\",\"Weight\":0}],\
                 \"Disabled\":null}: must be the same for all profiles",
            ),
            (
                "profiles: [{schedulerName: a, plugins: &p {queueSort: {enabled: [{name: Mine}]}}, pluginConfig: [{name: \
                 Mine, args: {a: 1}}]}, {schedulerName: b, plugins: *p, pluginConfig: [{name: Mine, args: {a: 2}}]}]",
                "profiles[1].pluginConfig.args: Invalid value: {\"a\":2}: queueSort must be the same for all profiles",
            ),
            (
                "profiles: [{pluginConfig: [{name: X}, {name: X}]}]",
                "profiles[0].pluginConfig[1]: Duplicate value: \"X\"",
            ),
            (
                "profiles: [{pluginConfig: [{name: EBSLimits}]}]",
                "profiles[0].pluginConfig[0]: Invalid value: \"EBSLimits\": was invalid in version \"v1\" \
                 (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")",
            ),
            (
                "profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: CinderLimits}]}}}]",
                "profiles[0].plugins.filter.enabled[1]: Invalid value: \"CinderLimits\": was invalid in version \"v1\" \
                 (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")",
            ),
            ("profiles: [{plugins: {multiPoint: {enabled: [{name: CinderLimits}]}}}]", ""),
            (
                "extenders: [{prioritizeVerb: p}]",
                "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
            ),
            (
                "extenders: [{managedResources: [{name: cpu}]}]",
                "extenders[0].managedResources[0].name: Invalid value: \"cpu\": is an invalid extended resource name",
            ),
            (
                "extenders: [{managedResources: [{name: a.b/c}]}, {managedResources: [{name: a.b/c}]}]",
                "extenders[1].managedResources[0].name: Invalid value: \"a.b/c\": duplicate extender managed resource name",
            ),
            (
                "extenders: [{managedResources: [{name: kubernetes.io/c}]}]",
                "extenders[0].managedResources[0].name: Invalid value: \"kubernetes.io/c\": is an invalid extended resource name",
            ),
            (
                "extenders: [{managedResources: [{name: requests.a.b/c}]}]",
                "extenders[0].managedResources[0].name: Invalid value: \"requests.a.b/c\": is an invalid extended resource name",
            ),
            (
                "extenders: [{managedResources: [{name: /c}]}]",
                "extenders[0].managedResources[0].name: Invalid value: \"/c\": prefix part must be non-empty",
            ),
            (
                "extenders: [{bindVerb: b}, {bindVerb: b}]",
                "extenders: Invalid value: \"found 2 extenders implementing bind\": only one extender can implement bind",
            ),
        ] {
            assert_eq!(errors(text), message, "{text}");
        }
    }

    #[test]
    fn all_errors_are_reported_in_order_with_their_lines() {
        let text = format!(
            "{HEAD}profiles:\n- schedulerName: a\n- percentageOfNodesToScore: 200\nparallelism: -4\n"
        );
        let config = load(&text, "s.yaml", &Features::default()).unwrap();
        let errors = validate(&config, &Features::default()).unwrap_err();
        assert_eq!(
            errors.to_string(),
            "s.yaml:6:1: parallelism: Invalid value: -4: should be an integer value greater than zero\n\
             s.yaml:5:3: profiles[1].schedulerName: Required value\n\
             s.yaml:5:3: profiles[1].percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]"
        );
    }

    #[test]
    fn empty_values_that_replace_the_defaults_are_rejected() {
        let mut config = KubeSchedulerConfiguration::default_config();
        config.leader_election.resource_name.clear();
        config.profiles.clear();
        let errors = validate(&config, &Features::default()).unwrap_err();
        assert_eq!(
            errors.to_string(),
            "leaderElection.resourceName: Required value\nprofiles: Required value"
        );
    }
}
