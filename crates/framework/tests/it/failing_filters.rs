//! Filter plugins that fail for some nodes.

use std::sync::Arc;

use harbormaster_api::{Node, Pod, points::ExtensionPoint};
use harbormaster_framework::{
    attempt::{Attempt, Decision, Runner, Search},
    cluster::Cluster,
    pod::SpecTable,
    prelude::*,
    profile::{Profile, ProfileSpec},
    registry::Registry,
    window::{Rotation, Tie, Window},
};

/// Rejects nodes whose name contains "full", and fails for nodes whose name contains "broken".
struct Fragile;

impl Plugin for Fragile {
    const NAME: &'static str = "Fragile";
    implemented_points!();
}

impl Filter for Fragile {
    fn filter(&self, _: &Cycle<'_>, _: &(), node: NodeRef<'_>) -> Verdict {
        let name = node.name();
        if name.contains("full") {
            return Err(Reject::evictable("full").into());
        }
        if name.contains("broken") { Err(PluginError::from(name.to_string()).into()) } else { Ok(()) }
    }
}

impl Build for Fragile {
    type Args = NoArgs;
    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

fn runner() -> Runner {
    let mut registry = Registry::default();
    registry.register::<Fragile>();
    let spec = ProfileSpec {
        name: "default-scheduler".into(),
        points: vec![(ExtensionPoint::Filter, vec![("Fragile".to_owned(), 0)])],
        ..ProfileSpec::default()
    };
    Runner::new(Arc::new(Profile::build(&spec, &registry, &BuildCycle::default()).unwrap()))
}

/// Searches `nodes` from `start` as kube-scheduler would. Returns the chosen node or the error, and the next start.
fn find(nodes: &[&'static str], start: usize) -> (String, usize) {
    let (mut cluster, mut specs) = (Cluster::default(), SpecTable::default());
    for name in nodes {
        cluster.set_node(Arc::new(Node { name: (*name).into(), ..Node::default() }));
    }
    cluster.refresh();
    let pod = Pod { uid: "p".into(), name: "p".into(), ..Pod::default() };
    let pod = Arc::new(PodInfo::new(pod, &mut specs));
    let mut rotation = Rotation { position: start, ..Rotation::default() };
    let window = Window::Sampled { percentage: 0 };
    let search = Search { window, tie: Tie::FirstOnHeap, ..Search::all(&mut rotation) };
    let found = runner().find(&mut cluster, &pod, search).map(Attempt::into_decision);
    let found = match found {
        Ok(Decision::Node { row, .. }) => cluster.node(row).name().to_string(),
        Ok(Decision::Unschedulable(diagnosis)) => diagnosis.message(),
        Err(error) => error.to_string(),
    };
    (found, rotation.position)
}

#[test]
fn the_failure_that_the_search_reaches_first_is_reported() {
    let nodes = ["broken-0", "full-1", "full-2", "broken-3"];
    for (start, broken, next) in [(0, "broken-0", 0), (1, "broken-3", 3), (3, "broken-3", 3)] {
        let (error, position) = find(&nodes, start);
        assert!(error.ends_with(broken), "{start}: {error}");
        assert_eq!(position, next, "{start}");
    }
}

#[test]
fn a_failure_that_the_search_does_not_reach_does_not_matter() {
    // Without scores, the first node that fits is chosen.
    let (node, position) = find(&["broken-0", "full-1", "free-2", "free-3"], 1);
    assert_eq!((node.as_str(), position), ("free-2", 3));
}
