//! Field-by-field advice on migrating from older versions of the API.

use crate::{
    config::{API_VERSION, KIND},
    decode::below,
    error::{ConfigError, ConfigErrors, Source},
    in_tree,
    load::not_registered,
};
use harbormaster_yaml::{Content, Node};

/// Versions that kube-scheduler supports or used to support.
const OLD_VERSIONS: [&str; 7] = [
    "componentconfig/v1alpha1",
    "kubescheduler.config.k8s.io/v1alpha1",
    "kubescheduler.config.k8s.io/v1alpha2",
    "kubescheduler.config.k8s.io/v1beta1",
    "kubescheduler.config.k8s.io/v1beta2",
    "kubescheduler.config.k8s.io/v1beta3",
    "kubescheduler.config.k8s.io/v1",
];

/// Fields that were moved or removed: path and message.
const MOVED: &[(&str, &str)] = &[
    (
        "algorithmSource",
        "algorithmSource (a policy or a provider) was removed: list plugins in profiles[].plugins and their arguments \
         in profiles[].pluginConfig",
    ),
    ("schedulerName", "schedulerName was moved to profiles[].schedulerName"),
    ("plugins", "plugins was moved to profiles[].plugins"),
    ("pluginConfig", "pluginConfig was moved to profiles[].pluginConfig"),
    (
        "hardPodAffinitySymmetricWeight",
        "hardPodAffinitySymmetricWeight was moved to profiles[].pluginConfig: args.hardPodAffinityWeight of \
         InterPodAffinity",
    ),
    (
        "bindTimeoutSeconds",
        "bindTimeoutSeconds was moved to profiles[].pluginConfig: args.bindTimeoutSeconds of VolumeBinding",
    ),
    (
        "disablePreemption",
        "disablePreemption was removed: list DefaultPreemption in profiles[].plugins.postFilter.disabled",
    ),
    (
        "healthzBindAddress",
        "healthzBindAddress was removed: health is served over TLS at --bind-address and --secure-port",
    ),
    (
        "metricsBindAddress",
        "metricsBindAddress was removed: metrics are served over TLS at --bind-address and --secure-port",
    ),
    ("failureDomains", "failureDomains was removed: use topology spread constraints in the pods"),
    (
        "leaderElection.lockObjectName",
        "leaderElection.lockObjectName was renamed to leaderElection.resourceName",
    ),
    (
        "leaderElection.lockObjectNamespace",
        "leaderElection.lockObjectNamespace was renamed to leaderElection.resourceNamespace",
    ),
];

/// Top-level fields of a policy: path and message.
const POLICY: &[(&str, &str)] = &[
    (
        "predicates",
        "predicates were replaced by filter plugins, which are enabled by default: disable them in \
         profiles[].plugins.filter.disabled",
    ),
    (
        "priorities",
        "priorities were replaced by score plugins: set their weights in profiles[].plugins.score.enabled",
    ),
    ("alwaysCheckAllPredicates", "alwaysCheckAllPredicates was removed without replacement"),
];

/// Returns the errors for a file whose version or kind is not supported. The first error is about `apiVersion` or
/// `kind`.
pub(crate) fn errors(root: &Node, version: &str, kind: &str, source: &Source) -> ConfigErrors {
    let is_policy = kind == "Policy";
    let is_old = is_policy || OLD_VERSIONS.contains(&version);
    let moved_fields = if is_old { moved(root, is_policy, source) } else { Vec::new() };
    let other_fields = match (is_old, moved_fields.is_empty()) {
        (true, false) => ", and change the fields listed here",
        (true, true) => "; no other field of this file needs to change",
        _ => "",
    };
    let help = if is_policy {
        format!(
            "policy files are no longer supported: write a {KIND} with \"apiVersion: {API_VERSION}\" and translate \
             predicates and priorities into profiles[].plugins{other_fields}"
        )
    } else {
        format!("use \"apiVersion: {API_VERSION}\" and \"kind: {KIND}\"{other_fields}")
    };
    let field = if version == API_VERSION { "kind" } else { "apiVersion" };
    let first = ConfigError { help: Some(help), ..source.error(field, not_registered(kind, version)) };
    std::iter::once(first).chain(moved_fields).collect::<Vec<_>>().into()
}

fn moved(root: &Node, is_policy: bool, source: &Source) -> Vec<ConfigError> {
    let tables = MOVED.iter().chain(if is_policy { POLICY } else { &[] });
    let mut errors: Vec<_> = tables
        .filter(|(path, _)| find(root, path).is_some())
        .map(|(path, message)| source.error(*path, *message))
        .collect();
    removed_plugins(root, "", source, &mut errors);
    errors.sort_by_key(|e| e.position);
    errors
}

fn find<'a>(root: &'a Node, path: &str) -> Option<&'a Node> {
    path.split('.').try_fold(root, |node, key| node.get(key))
}

/// Adds an error for every `name:` of a removed plugin, predicate or priority, and for every use of the removed
/// extension point `unreserve`.
fn removed_plugins(node: &Node, path: &str, source: &Source, errors: &mut Vec<ConfigError>) {
    for (i, item) in node.items().iter().enumerate() {
        removed_plugins(item, &format!("{path}[{i}]"), source, errors);
    }
    for entry in node.entries() {
        let path = below(path, &entry.key);
        match (entry.key.as_str(), &entry.value.content) {
            ("name", Content::String(name)) => {
                if let Some(instead) = in_tree::replacement(name) {
                    errors.push(source.error_at(
                        Some(entry.at),
                        path.clone(),
                        format!("{path}: {name} was removed: {instead}"),
                    ));
                }
            }
            ("unreserve", _) => {
                let message = format!("{path}: unreserve was removed: it is now part of reserve");
                errors.push(source.error_at(Some(entry.at), path.clone(), message));
            }
            _ => {}
        }
        removed_plugins(&entry.value, &path, source, errors);
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::features::Features;

    use crate::load;

    fn lines(text: &str) -> Vec<String> {
        load(text, "f.yaml", &Features::default())
            .unwrap_err()
            .to_string()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn moved_fields_of_an_old_version_are_reported_with_their_positions() {
        let lines = lines(
            "kind: KubeSchedulerConfiguration\n\
             apiVersion: kubescheduler.config.k8s.io/v1alpha1\n\
             schedulerName: mine\n\
             algorithmSource:\n  provider: DefaultProvider\n\
             healthzBindAddress: 0.0.0.0:10251\n\
             leaderElection: {lockObjectName: x}\n\
             plugins:\n  score:\n    enabled:\n    - name: NodeResourcesLeastAllocated\n  unreserve: {}\n",
        );
        assert!(lines[0].starts_with(
            "f.yaml:2:1: no kind \"KubeSchedulerConfiguration\" is registered for version \
             \"kubescheduler.config.k8s.io/v1alpha1\" in scheme"
        ));
        assert!(lines[0].contains("use \"apiVersion: kubescheduler.config.k8s.io/v1\""), "{}", lines[0]);
        let places: Vec<_> = lines[1..].iter().map(|l| l.split(": ").next().unwrap()).collect();
        assert_eq!(
            places,
            [
                "f.yaml:3:1",
                "f.yaml:4:1",
                "f.yaml:6:1",
                "f.yaml:7:18",
                "f.yaml:8:1",
                "f.yaml:11:7",
                "f.yaml:12:3"
            ]
        );
        assert!(lines[2].contains("profiles[].plugins"));
        assert!(lines[3].contains("--secure-port"));
        assert!(lines[6].contains("scoringStrategy.type: LeastAllocated"));
    }

    #[test]
    fn a_version_that_differs_only_in_name_needs_no_other_change() {
        for version in ["v1alpha2", "v1beta1", "v1beta2", "v1beta3"] {
            let lines = lines(&format!(
                "apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\nparallelism: 3\n"
            ));
            assert_eq!(lines.len(), 1, "{version}");
            assert!(
                lines[0].starts_with("f.yaml:1:1: ") && lines[0].contains("no other field"),
                "{}",
                lines[0]
            );
        }
    }

    #[test]
    fn removed_predicates_of_a_policy_are_reported_with_their_replacements() {
        let lines = lines(
            "{\"kind\": \"Policy\", \"apiVersion\": \"v1\",\n\"predicates\": [{\"name\": \"PodFitsResources\"}],\n\
             \"priorities\": [{\"name\": \"LeastRequestedPriority\", \"weight\": 1}]}",
        );
        assert!(
            lines[0].starts_with("f.yaml:1:20: no kind \"Policy\" is registered for version \"v1\""),
            "{}",
            lines[0]
        );
        assert!(lines[0].contains("policy files are no longer supported"));
        assert!(
            lines.iter().any(|l| l.contains("PodFitsResources was removed: use NodeResourcesFit")),
            "{lines:?}"
        );
    }

    #[test]
    fn the_error_about_another_kind_names_the_expected_kind() {
        let lines = lines("apiVersion: v1\nkind: Pod\n");
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("no kind \"Pod\" is registered for version \"v1\""));
        assert!(lines[0].contains("kind: KubeSchedulerConfiguration"));
    }
}
