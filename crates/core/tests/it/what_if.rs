//! Dry runs of PostFilter plugins, through the engine.

use std::sync::Arc;

use harbormaster_api::points::ExtensionPoint;
use harbormaster_core::{EngineConfig, Outcome};
use harbormaster_framework::{
    prelude::*,
    profile::{Profile, ProfileSpec},
    registry::Registry,
};

use crate::world::{World, node, pod};

/// A plugin that allows two pods in the whole cluster. It nominates a node where removing one pod is enough.
#[derive(Default)]
struct Quota;

impl Plugin for Quota {
    const NAME: &'static str = "Quota";
    implemented_points!();
}

impl PreFilter<WholeCluster, usize> for Quota {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<usize>, Stop> {
        Ok(PreFiltered::state(cx.nodes.nodes().map(|n| n.pods().len()).sum()))
    }

    fn add_pod(&self, _: &Cycle<'_>, pods: &mut usize, _: &PodInfo, _: NodeRef<'_>) -> PluginResult<()> {
        *pods += 1;
        Ok(())
    }

    fn remove_pod(&self, _: &Cycle<'_>, pods: &mut usize, _: &PodInfo, _: NodeRef<'_>) -> PluginResult<()> {
        *pods -= 1;
        Ok(())
    }
}

impl Filter<WholeCluster, usize> for Quota {
    fn filter(&self, _: &Cycle<'_>, pods: &usize, _: NodeRef<'_>) -> Verdict {
        if *pods < 2 { Ok(()) } else { Err(Reject::evictable("the cluster is full").into()) }
    }
}

impl PostFilter<usize> for Quota {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &usize) -> PluginResult<PostFiltered> {
        for row in cx.what_if.evictable_rows() {
            let node = cx.what_if.nodes().node(row);
            let (name, first) = (node.name().clone(), node.pods().first().cloned());
            let Some(first) = first else { continue };
            let mut dry_run = cx.what_if.dry_run(row);
            dry_run.remove_pod(&first)?;
            let fits_without = dry_run.rejection()?.is_none();
            dry_run.add_pod(&first)?;
            let fits_with = dry_run.rejection()?.is_none();
            // The plugin returns while the pod is still removed; the cluster is restored nevertheless.
            dry_run.remove_pod(&first)?;
            if fits_without && !fits_with {
                let (victims, reasons) = (Vec::new(), Vec::new());
                return Ok(PostFiltered::Nominate { node: name, victims, violations: 0, reasons });
            }
        }
        Ok(PostFiltered::NoHelp {
            reasons: vec!["nobody can make way".into()],
            nomination: Nomination::Clear,
        })
    }
}

fn world() -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Quota>();
    let one = |name: &str| vec![(name.to_owned(), 0)];
    let spec = ProfileSpec {
        name: "default-scheduler".into(),
        points: vec![
            (ExtensionPoint::QueueSort, one("PrioritySort")),
            (ExtensionPoint::PreFilter, one("Quota")),
            (ExtensionPoint::Filter, one("Quota")),
            (ExtensionPoint::PostFilter, one("Quota")),
            (ExtensionPoint::Bind, one("DefaultBinder")),
        ],
        ..ProfileSpec::default()
    };
    let profile = Profile::build(&spec, &registry, &BuildCycle::default()).unwrap();
    World::with(EngineConfig::new(vec![Arc::new(profile)]))
}

#[test]
fn plugins_see_pods_leave_and_return_in_a_dry_run_that_changes_nothing() {
    let mut world = world();
    world.set_node(node("empty", 1000));
    world.set_node(node("used", 1000));
    for name in ["x", "y"] {
        world.add_bound_pod(pod(name, 1), "used");
    }
    world.add_pod(pod("p", 1));
    let message = "0/2 nodes are available: 2 the cluster is full.";
    assert_eq!(world.attempt().unwrap().outcome, Outcome::Unschedulable(message.into()));
    assert_eq!(world.nominations(), [("p".to_owned(), Some("used".to_owned()))]);
    let nodes = &world.engine.cache().cluster;
    assert_eq!(nodes.node(nodes.find("used").unwrap()).requested().pods, 2);
}

#[test]
fn the_reasons_of_post_filter_follow_the_message_if_no_dry_run_helps() {
    let mut world = world();
    world.set_node(node("used", 1000));
    for name in ["x", "y", "z"] {
        world.add_bound_pod(pod(name, 1), "used");
    }
    world.add_pod(pod("p", 1));
    let message = "0/1 nodes are available: 1 the cluster is full. nobody can make way";
    assert_eq!(world.attempt().unwrap().outcome, Outcome::Unschedulable(message.into()));
}
