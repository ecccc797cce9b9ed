//! Older versions of the API: what to write instead, field by field.

use crate::{
    config::{API_VERSION, KIND},
    decode::below,
    error::{ConfigError, ConfigErrors, Source},
    in_tree,
    load::not_registered,
};
use harbormaster_yaml::{Content, Node};

/// Versions that kube-scheduler once read.
const OLD_VERSIONS: [&str; 7] = [
    "componentconfig/v1alpha1",
    "kubescheduler.config.k8s.io/v1alpha1",
    "kubescheduler.config.k8s.io/v1alpha2",
    "kubescheduler.config.k8s.io/v1beta1",
    "kubescheduler.config.k8s.io/v1beta2",
    "kubescheduler.config.k8s.io/v1beta3",
    "kubescheduler.config.k8s.io/v1",
];

/// Fields that moved or went, by path from the top.
const MOVED: &[(&str, &str)] = &[
    (
        "algorithmSource",
        "algorithmSource (a policy or a provider) is gone: list plugins under profiles[].plugins and their arguments \
         under profiles[].pluginConfig",
    ),
    ("schedulerName", "schedulerName moved to profiles[].schedulerName"),
    ("plugins", "plugins moved to profiles[].plugins"),
    ("pluginConfig", "pluginConfig moved to profiles[].pluginConfig"),
    (
        "hardPodAffinitySymmetricWeight",
        "hardPodAffinitySymmetricWeight moved to profiles[].pluginConfig: name InterPodAffinity, \
         args.hardPodAffinityWeight",
    ),
    (
        "bindTimeoutSeconds",
        "bindTimeoutSeconds moved to profiles[].pluginConfig: name VolumeBinding, args.bindTimeoutSeconds",
    ),
    (
        "disablePreemption",
        "disablePreemption is gone: list DefaultPreemption under profiles[].plugins.postFilter.disabled",
    ),
    (
        "healthzBindAddress",
        "healthzBindAddress is gone: health is served over TLS at --bind-address and --secure-port",
    ),
    (
        "metricsBindAddress",
        "metricsBindAddress is gone: metrics are served over TLS at --bind-address and --secure-port",
    ),
    ("failureDomains", "failureDomains is gone: use topology spread constraints in the pods"),
    ("leaderElection.lockObjectName", "leaderElection.lockObjectName is now leaderElection.resourceName"),
    (
        "leaderElection.lockObjectNamespace",
        "leaderElection.lockObjectNamespace is now leaderElection.resourceNamespace",
    ),
];

/// Top-level fields of a policy.
const POLICY: &[(&str, &str)] = &[
    (
        "predicates",
        "predicates became filter plugins, on by default: turn them off under profiles[].plugins.filter.disabled",
    ),
    (
        "priorities",
        "priorities became score plugins: change their weights under profiles[].plugins.score.enabled",
    ),
    ("alwaysCheckAllPredicates", "alwaysCheckAllPredicates is gone without replacement"),
];

/// The errors for a file of any other version or kind, starting at its `apiVersion`.
pub(crate) fn errors(root: &Node, version: &str, kind: &str, source: &Source) -> ConfigErrors {
    let policy = kind == "Policy";
    let old = policy || OLD_VERSIONS.contains(&version);
    let moved_fields = if old { moved(root, policy, source) } else { Vec::new() };
    let what_else = match (old, moved_fields.is_empty()) {
        (true, false) => ", and change the fields listed here",
        (true, true) => "; no other field of this file has moved",
        _ => "",
    };
    let help = if policy {
        format!(
            "policy files are gone: write a {KIND} with \"apiVersion: {API_VERSION}\" and translate predicates and \
             priorities into profiles[].plugins{what_else}"
        )
    } else {
        format!("write \"apiVersion: {API_VERSION}\" and \"kind: {KIND}\"{what_else}")
    };
    let field = if version == API_VERSION { "kind" } else { "apiVersion" };
    let first = ConfigError { help: Some(help), ..source.error(field, not_registered(kind, version)) };
    std::iter::once(first).chain(moved_fields).collect::<Vec<_>>().into()
}

fn moved(root: &Node, policy: bool, source: &Source) -> Vec<ConfigError> {
    let tables = MOVED.iter().chain(if policy { POLICY } else { &[] });
    let mut errors: Vec<_> = tables
        .filter(|(path, _)| find(root, path).is_some())
        .map(|(path, message)| source.error(*path, *message))
        .collect();
    gone_plugins(root, "", source, &mut errors);
    errors.sort_by_key(|e| e.position);
    errors
}

fn find<'a>(root: &'a Node, path: &str) -> Option<&'a Node> {
    path.split('.').try_fold(root, |node, key| node.get(key))
}

/// Every `name:` in the file that names a plugin, predicate or priority that is gone, and every point that is.
fn gone_plugins(node: &Node, path: &str, source: &Source, errors: &mut Vec<ConfigError>) {
    for (i, item) in node.items().iter().enumerate() {
        gone_plugins(item, &format!("{path}[{i}]"), source, errors);
    }
    for entry in node.entries() {
        let path = below(path, &entry.key);
        match (entry.key.as_str(), &entry.value.content) {
            ("name", Content::String(name)) => {
                if let Some(instead) = in_tree::replacement(name) {
                    errors.push(source.error_at(
                        Some(entry.at),
                        path.clone(),
                        format!("{path}: {name} is gone: {instead}"),
                    ));
                }
            }
            ("unreserve", _) => {
                let message = format!("{path}: unreserve is gone: a reserve plugin unreserves as well");
                errors.push(source.error_at(Some(entry.at), path.clone(), message));
            }
            _ => {}
        }
        gone_plugins(&entry.value, &path, source, errors);
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
    fn an_old_version_says_which_fields_moved_where() {
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
        assert!(lines[0].contains("write \"apiVersion: kubescheduler.config.k8s.io/v1\""), "{}", lines[0]);
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
    fn a_version_that_only_changed_its_name_needs_no_more() {
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
    fn a_policy_is_told_what_replaced_it() {
        let lines = lines(
            "{\"kind\": \"Policy\", \"apiVersion\": \"v1\",\n\"predicates\": [{\"name\": \"PodFitsResources\"}],\n\
             \"priorities\": [{\"name\": \"LeastRequestedPriority\", \"weight\": 1}]}",
        );
        assert!(
            lines[0].starts_with("f.yaml:1:20: no kind \"Policy\" is registered for version \"v1\""),
            "{}",
            lines[0]
        );
        assert!(lines[0].contains("policy files are gone"));
        assert!(
            lines.iter().any(|l| l.contains("PodFitsResources is gone: use NodeResourcesFit")),
            "{lines:?}"
        );
    }

    #[test]
    fn another_kind_is_told_what_to_write() {
        let lines = lines("apiVersion: v1\nkind: Pod\n");
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("no kind \"Pod\" is registered for version \"v1\""));
        assert!(lines[0].contains("kind: KubeSchedulerConfiguration"));
    }
}
