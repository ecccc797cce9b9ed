//! Checks of indexes.

use std::{fmt::Debug, sync::Arc};

use harbormaster_api::Str;
use harbormaster_framework::{
    cluster::Cluster,
    index::{ClusterView, Index, IndexKind, Indexes},
    pod::{PodInfo, SpecTable},
};

use crate::{nodes::NodeBuilder, pods::PodBuilder, random::Dice};

/// Checks that an index equals one rebuilt from the cluster after a random sequence of additions, changes and removals
/// of pods and nodes. `node` and `pod` build objects from names. The sequence depends only on the seed.
///
/// # Panics
/// If the check or the index fails.
pub fn index_equals_rebuilt_one<I: Index + PartialEq + Debug>(
    seed: u64,
    node: impl Fn(&mut Dice, &str) -> NodeBuilder,
    pod: impl Fn(&mut Dice, &str) -> PodBuilder,
) {
    let kind = IndexKind::of::<I>();
    let (mut dice, mut cluster, mut specs) = (Dice::new(seed), Cluster::default(), SpecTable::default());
    let mut placed: Vec<(Str, String, Str)> = Vec::new();
    for step in 0..200 {
        if step == 20 {
            cluster.add_index(kind);
        }
        let name = format!("n{}", dice.below(5));
        match dice.below(6) {
            0 => {
                cluster.set_node(node(&mut dice, &name).into());
            }
            1 => {
                cluster.remove_node(&name);
            }
            2 | 3 => {
                let pod_name = format!("p{step}");
                let pod = pod(&mut dice, &pod_name).on(&name).build();
                placed.push((name.as_str().into(), pod_name, pod.uid.clone()));
                cluster.add_pod(&name.into(), Arc::new(PodInfo::new(pod, &mut specs)));
            }
            _ if placed.is_empty() => {}
            4 => {
                let (node, name, uid) = &placed[dice.below(placed.len() as u64) as usize];
                let pod = pod(&mut dice, name).uid(uid).on(node).build();
                cluster.replace_pod(node, &Arc::new(PodInfo::new(pod, &mut specs)));
            }
            _ => {
                let (node, _, uid) = placed.swap_remove(dice.below(placed.len() as u64) as usize);
                cluster.remove_pod(&node, &uid);
            }
        }
        if let Some(trouble) = cluster.take_errors().first() {
            panic!("seed {seed}, step {step}: {trouble}");
        }
        if step >= 20 {
            let mut rebuilt = Indexes::default();
            let made = rebuilt.add(kind, ClusterView { nodes: cluster.nodes(), objects: cluster.objects() });
            made.unwrap_or_else(|trouble| panic!("seed {seed}, step {step}: {trouble}"));
            let (kept, rebuilt) = (cluster.indexes().get::<I>(), rebuilt.get::<I>());
            assert_eq!(
                kept.ok(),
                rebuilt.ok(),
                "index (left) differs from a rebuilt one (right); seed {seed}, step {step}"
            );
        }
    }
}
