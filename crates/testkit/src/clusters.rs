//! Clusters and profiles for tests.

use std::sync::Arc;

use harbormaster_api::{features::Features, points::ExtensionPoint};
use harbormaster_framework::{
    cluster::Cluster,
    pod::SpecTable,
    profile::{Profile, ProfileSpec},
    registry::{BuildCycle, Registry},
};
use serde_json::Value;

use crate::{
    nodes::NodeBuilder,
    pods::{PodBuilder, with_group},
};

/// Returns a cluster with the given nodes and bound pods, ready for an attempt.
///
/// # Panics
/// If a pod is not bound.
pub fn cluster(
    nodes: impl IntoIterator<Item = NodeBuilder>,
    pods: impl IntoIterator<Item = PodBuilder>,
) -> Cluster {
    let mut table = Cluster::default();
    for node in nodes {
        table.set_node(node.into());
    }
    let mut specs = SpecTable::default();
    for pod in pods {
        let pod = with_group(pod.build(), &mut specs);
        let Some(node) = pod.node_name.clone() else {
            panic!("{pod:?} is not bound; call `on` with its node")
        };
        table.add_pod(&node, Arc::new(pod));
    }
    table.refresh();
    table
}

/// Replaces the nominated pods of the cluster.
///
/// # Panics
/// If a pod has no nominated node; call [`PodBuilder::nominated_to`].
pub fn nominate(cluster: &mut Cluster, pods: impl IntoIterator<Item = PodBuilder>) {
    let pairs = pods.into_iter().map(|pod| {
        let pod = pod.info();
        let node = pod.status.nominated_node_name.clone();
        (node.unwrap_or_else(|| panic!("{pod:?} has no nominated node")), pod)
    });
    cluster.set_nominations(pairs.collect());
}

/// Returns a profile named `default-scheduler` with the given plugins at the given points (`Filter`, `Score`, …), with
/// weight 1 and without arguments.
///
/// # Panics
/// If a point or plugin does not exist.
pub fn profile(registry: &Registry, points: &[(&str, &[&str])]) -> Arc<Profile> {
    profile_with_args(registry, points, &[])
}

/// Like [`profile`], with arguments for each plugin.
///
/// # Panics
/// If a point or plugin does not exist, or a plugin rejects its arguments.
pub fn profile_with_args(
    registry: &Registry,
    points: &[(&str, &[&str])],
    args: &[(&str, Value)],
) -> Arc<Profile> {
    profile_for(Features::default(), registry, points, args)
}

/// Like [`profile_with_args`], with weights.
///
/// # Panics
/// If a point or plugin does not exist, or a plugin rejects its arguments.
pub fn profile_with_weights(
    registry: &Registry,
    points: &[(&str, Vec<(&str, i64)>)],
    args: &[(&str, Value)],
) -> Arc<Profile> {
    build(Features::default(), registry, points, args)
}

/// Like [`profile_with_args`], for a release of Kubernetes and its feature gates.
///
/// # Panics
/// If a point or plugin does not exist, or a plugin rejects its arguments.
pub fn profile_for(
    features: Features,
    registry: &Registry,
    points: &[(&str, &[&str])],
    args: &[(&str, Value)],
) -> Arc<Profile> {
    let weighted = points.iter().map(|(point, names)| (*point, names.iter().map(|n| (*n, 1)).collect()));
    build(features, registry, &weighted.collect::<Vec<_>>(), args)
}

fn build(
    features: Features,
    registry: &Registry,
    points: &[(&str, Vec<(&str, i64)>)],
    args: &[(&str, Value)],
) -> Arc<Profile> {
    let list = |plugins: &[(&str, i64)]| {
        plugins.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect()
    };
    let spec = ProfileSpec {
        name: "default-scheduler".to_owned(),
        points: points.iter().map(|(point, plugins)| (point_named(point), list(plugins))).collect(),
        args: args.iter().map(|(plugin, args)| ((*plugin).to_owned(), args.clone())).collect(),
        percentage_of_nodes_to_score: None,
    };
    match Profile::build(&spec, registry, &BuildCycle { features }) {
        Ok(profile) => Arc::new(profile),
        Err(error) => panic!("{error}"),
    }
}

fn point_named(name: &str) -> ExtensionPoint {
    let found = ExtensionPoint::ALL.into_iter().find(|point| point.name() == name);
    found.unwrap_or_else(|| panic!("no extension point {name:?}"))
}
