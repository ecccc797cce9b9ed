//! NodeDeclaredFeatures: requires the node features that the pod's spec uses (KEP-5328).
//!
//! # What it does
//! Extension points: PreFilter, Filter. Active only with the `NodeDeclaredFeatures` feature gate. Infers the required
//! node features from the spec: `RestartAllContainersOnContainerExits` if a container has a restart rule with the
//! `RestartAllContainers` action, and `UserNamespacesHostNetworkSupport` if the pod uses the host's network together
//! with a user namespace.
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

use harbormaster_api::{PodSpec, Str, features::Feature};
use harbormaster_framework::prelude::*;

use crate::sign;

const REASON: &str = "node(s) didn't match Pod's required features";

/// Features known to kube-scheduler 1.36, sorted, with the rules that infer them from a spec.
const KNOWN: [(&str, fn(&PodSpec) -> bool); 5] = [
    ("ExtendWebSocketsToKubelet", |_| false),
    ("InPlacePodLevelResourcesVerticalScaling", |_| false),
    ("InPlacePodVerticalScalingInitContainers", |_| false),
    ("RestartAllContainersOnContainerExits", |spec| spec.restarts_all_containers),
    ("UserNamespacesHostNetworkSupport", |spec| spec.host_network && spec.host_users == Some(false)),
];

/// Features in [`KNOWN`] that a pod requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Needs([bool; KNOWN.len()]);

impl Needs {
    fn of(spec: &PodSpec) -> Self {
        Self(KNOWN.map(|(_, needs)| needs(spec)))
    }

    fn is_empty(self) -> bool {
        !self.0.contains(&true)
    }

    fn met_by(self, declared: &[Str]) -> bool {
        let declares = |name: &str| declared.iter().any(|d| *d == name);
        KNOWN.iter().zip(self.0).all(|((name, _), needed)| !needed || declares(name))
    }
}

/// Requires the node features that the spec uses. See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct NodeDeclaredFeatures {
    enabled: bool,
}

impl Plugin for NodeDeclaredFeatures {
    const NAME: &'static str = "NodeDeclaredFeatures";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{Node, Pod};
        if !self.enabled {
            return Some(Vec::new());
        }
        let of_nodes = Action::ADD | Action::UPDATE_NODE_DECLARED_FEATURE;
        Some(vec![
            Registration::hinted(Node, of_nodes, Self::after_node),
            Registration::hinted(Pod, Action::UPDATE, Self::after_pod),
        ])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&Needs::of(&pod.spec));
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        let bits: String = Needs::of(&pod.spec).0.map(|b| if b { '1' } else { '0' }).iter().collect();
        Ok(vec![sign::features(&bits)])
    }
}

impl Build for NodeDeclaredFeatures {
    type Args = NoArgs;
    fn build(_: NoArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { enabled: cx.features.enabled(Feature::NodeDeclaredFeatures) })
    }
}

impl PreFilter<Row> for NodeDeclaredFeatures {
    fn pre_filter(&self, cx: &RowCycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let nothing_to_do = !self.enabled || Needs::of(&cx.pod.spec).is_empty();
        Ok(if nothing_to_do { PreFiltered::Skip } else { PreFiltered::state(()) })
    }
}

impl Filter<Row> for NodeDeclaredFeatures {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let fits = !self.enabled || Needs::of(&cx.pod.spec).met_by(node.declared_features());
        if fits { Ok(()) } else { Err(Reject::unresolvable(REASON).into()) }
    }
}

impl NodeDeclaredFeatures {
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

    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), new: Some(new) } = change else { return Ok(Hint::Queue) };
        let helps = new.uid == pod.uid && Needs::of(&old.spec) != Needs::of(&new.spec);
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
        let generic = ClusterEvent::new(EventResource::UnschedulablePod, Action::UPDATE);
        for (name, expected) in [("p", Hint::Queue), ("q", Hint::Skip)] {
            let (old, new) = (restarts(pod(name)).build(), pod(name).build());
            let change = Change::Pod { old: Some(&old), new: Some(&new) };
            assert_eq!(trial(true).hint(generic, &waiting, &change), Some(expected));
            let change = Change::Pod { old: Some(&new), new: Some(&new) };
            assert_eq!(trial(true).hint(generic, &waiting, &change), Some(Hint::Skip));
        }
    }
}
