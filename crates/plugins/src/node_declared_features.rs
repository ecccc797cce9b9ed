//! NodeDeclaredFeatures: requires the node features that the pod's spec uses (KEP-5328).
//!
//! # What it does
//! Extension points: PreFilter, Filter. Active only with the `NodeDeclaredFeatures` feature gate. Infers the required
//! node features from the spec: `RestartAllContainersOnContainerExits` if a container has a restart rule with the
//! `RestartAllContainers` action, `UserNamespacesHostNetworkSupport` if the pod uses the host's network together with
//! a user namespace, and, from Kubernetes 1.37, `VolumeBindMountOptions` if a container mounts a volume with
//! `bindMountOptions`.
//!
//! # Rejects when
//! The node does not declare all required features in `status.declaredFeatures`: `node(s) didn't match Pod's required
//! features`, which no eviction resolves.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! A new node; a node whose declared features change; an update of the pod that changes its required features.
//!
//! # Differs from kube-scheduler
//! If its PreFilter is disabled, the plugin still filters instead of failing. The order of a node's features does not
//! matter.

use harbormaster_api::{PodSpec, Release, Str, features::Feature};
use harbormaster_framework::prelude::*;

use crate::sign;

const REASON: &str = "node(s) didn't match Pod's required features";

/// A node feature that some pods require.
struct KnownFeature {
    name: &'static str,
    /// The first release whose kube-scheduler infers the feature.
    since: Release,
    is_needed: fn(&PodSpec) -> bool,
}

/// Features that kube-scheduler infers from a spec.
const KNOWN: [KnownFeature; 3] = [
    KnownFeature {
        name: "RestartAllContainersOnContainerExits",
        since: Release::V1_36,
        is_needed: |spec| spec.restarts_all_containers,
    },
    KnownFeature {
        name: "UserNamespacesHostNetworkSupport",
        since: Release::V1_36,
        is_needed: |spec| spec.host_network && spec.host_users == Some(false),
    },
    KnownFeature {
        name: "VolumeBindMountOptions",
        since: Release::V1_37,
        is_needed: |spec| spec.has_mount_options,
    },
];

/// Features in [`KNOWN`] that a pod requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Needs([bool; KNOWN.len()]);

impl Needs {
    fn of(spec: &PodSpec, release: Release) -> Self {
        Self(KNOWN.map(|feature| feature.since <= release && (feature.is_needed)(spec)))
    }

    fn is_empty(self) -> bool {
        !self.0.contains(&true)
    }

    fn met_by(self, declared: &[Str]) -> bool {
        let declares = |name: &str| declared.iter().any(|d| *d == name);
        KNOWN.iter().zip(self.0).all(|(feature, needed)| !needed || declares(feature.name))
    }
}

/// Requires the node features that the spec uses. See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct NodeDeclaredFeatures {
    enabled: bool,
    release: Release,
}

impl Plugin for NodeDeclaredFeatures {
    const NAME: &'static str = "NodeDeclaredFeatures";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{Node, TargetPod};
        if !self.enabled {
            return Some(Vec::new());
        }
        let of_nodes = Action::ADD | Action::UPDATE_NODE_DECLARED_FEATURE;
        Some(vec![
            Registration::hinted(Node, of_nodes, Self::after_node),
            Registration::hinted(TargetPod, Action::UPDATE, Self::after_own_update),
        ])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&self.needs(&pod.spec));
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        let bits: String = self.needs(&pod.spec).0.map(|b| if b { '1' } else { '0' }).iter().collect();
        Ok(vec![sign::features(&bits)])
    }
}

impl Build for NodeDeclaredFeatures {
    type Args = NoArgs;
    fn build(_: NoArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        let enabled = cx.features.enabled(Feature::NodeDeclaredFeatures);
        Ok(Self { enabled, release: cx.features.release() })
    }
}

impl PreFilter<Row> for NodeDeclaredFeatures {
    fn pre_filter(&self, cx: &RowCycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let nothing_to_do = !self.enabled || self.needs(&cx.pod.spec).is_empty();
        Ok(if nothing_to_do { PreFiltered::Skip } else { PreFiltered::state(()) })
    }
}

impl Filter<Row> for NodeDeclaredFeatures {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let fits = !self.enabled || self.needs(&cx.pod.spec).met_by(node.declared_features());
        if fits { Ok(()) } else { Err(Reject::unresolvable(REASON).into()) }
    }
}

impl NodeDeclaredFeatures {
    fn needs(&self, spec: &PodSpec) -> Needs {
        Needs::of(spec, self.release)
    }

    fn after_node(&self, _: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        Ok(match change {
            Change::Node { old: Some(old), new: Some(new) }
                if old.declared_features == new.declared_features =>
            {
                Hint::Skip
            }
            _ => Hint::Queue,
        })
    }

    fn after_own_update(&self, _: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), new: Some(new) } = change else { return Ok(Hint::Queue) };
        let helps = self.needs(&old.spec) != self.needs(&new.spec);
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::features::Features;
    use harbormaster_framework::events::ClusterEvent;
    use harbormaster_testkit::{PodBuilder, Trial, cluster, node, pod};

    use super::*;

    const RESTART: &str = "RestartAllContainersOnContainerExits";
    const USERNS: &str = "UserNamespacesHostNetworkSupport";

    fn trial(enabled: bool) -> Trial {
        let features = Features::default().with(Feature::NodeDeclaredFeatures, enabled);
        Trial::of(NodeDeclaredFeatures::build(NoArgs, &BuildCycle { features }).unwrap())
    }

    fn restarts(pod: PodBuilder) -> PodBuilder {
        pod.spec(|s| s.restarts_all_containers = true)
    }

    fn host_network(pod: PodBuilder, host_users: Option<bool>) -> PodBuilder {
        pod.spec(|s| (s.host_network, s.host_users) = (true, host_users))
    }

    #[test]
    fn a_node_must_declare_everything_that_the_pod_needs() {
        let nodes = cluster(
            [
                node("none"),
                node("one").feature(RESTART),
                node("more").feature(RESTART).feature(USERNS).feature("Z"),
            ],
            [],
        );
        let both = host_network(restarts(pod("both")), Some(false));
        for (pod, fits_on) in [
            (pod("plain"), ["none", "one", "more"].as_slice()),
            (restarts(pod("restarts")), &["one", "more"]),
            (both, &["more"]),
            (host_network(pod("no user namespace"), None), &["none", "one", "more"]),
            (host_network(pod("host users"), Some(true)), &["none", "one", "more"]),
        ] {
            let pod = pod.info();
            for node in ["none", "one", "more"] {
                let verdict = trial(true).verdict(&nodes, &pod, node);
                let refused = Err(Reject::unresolvable("node(s) didn't match Pod's required features"));
                assert_eq!(
                    verdict,
                    if fits_on.contains(&node) { Ok(()) } else { refused },
                    "{} {node}",
                    pod.name
                );
                assert_eq!(trial(false).verdict(&nodes, &pod, node), Ok(()), "gate off");
            }
        }
    }

    #[test]
    fn bind_mount_options_need_a_feature_from_the_release_that_knows_it() {
        let nodes = cluster([node("n"), node("declares").feature("VolumeBindMountOptions")], []);
        let pod = pod("p").spec(|s| s.has_mount_options = true).info();
        for (release, fits) in [(Release::V1_36, [true, true]), (Release::V1_37, [false, true])] {
            let cx = BuildCycle { features: Features::of(release) };
            let trial = Trial::of(NodeDeclaredFeatures::build(NoArgs, &cx).unwrap());
            let found = ["n", "declares"].map(|node| trial.verdict(&nodes, &pod, node).is_ok());
            assert_eq!(found, fits, "{release}");
        }
    }

    #[test]
    fn skips_pods_that_need_nothing_and_all_pods_without_the_gate() {
        let nodes = cluster([node("n")], []);
        let skips = |on, pod: PodBuilder| {
            matches!(trial(on).pre_filter(&nodes, &pod.info()).unwrap(), PreFiltered::Skip)
        };
        assert!(skips(true, pod("p")) && skips(false, restarts(pod("p"))));
        assert!(!skips(true, restarts(pod("p"))));
        assert_eq!(trial(false).plugin().events().unwrap().map(|e| e.len()), Some(0));
    }

    #[test]
    fn changed_declarations_and_changed_needs_wake_the_pod() {
        let (bare, rich) = (node("n").build(), node("n").feature("Anything").build());
        let waiting = restarts(pod("p")).info();
        let update = ClusterEvent::new(EventResource::Node, Action::UPDATE_NODE_DECLARED_FEATURE);
        let hint =
            |old, new| trial(true).hint(update, &waiting, &Change::Node { old: Some(old), new: Some(new) });
        assert_eq!(hint(&bare, &rich), Some(Hint::Queue));
        assert_eq!(hint(&rich, &rich), Some(Hint::Skip));
        let added = ClusterEvent::new(EventResource::Node, Action::ADD);
        let change = Change::Node { old: None, new: Some(&bare) };
        assert_eq!(trial(true).hint(added, &waiting, &change), Some(Hint::Queue));
        let (rich, bare) = (restarts(pod("p")).build(), pod("p").build());
        for (resource, old, expected) in [
            (EventResource::UnschedulablePod, &rich, Some(Hint::Queue)),
            (EventResource::TargetPod, &rich, Some(Hint::Queue)),
            (EventResource::TargetPod, &bare, Some(Hint::Skip)),
            (EventResource::AssignedPod, &rich, None),
        ] {
            let change = Change::Pod { old: Some(old), new: Some(&bare) };
            let generic = ClusterEvent::new(resource, Action::UPDATE);
            assert_eq!(trial(true).hint(generic, &waiting, &change), expected, "{resource}");
        }
    }
}
