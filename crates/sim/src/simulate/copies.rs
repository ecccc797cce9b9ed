//! Places copies of a pod until none fits.

use std::sync::Arc;

use harbormaster_api::{Pod, node::LABEL_ZONE};
use harbormaster_core::{EngineConfig, Input};
use harbormaster_framework::pod::PodInfo;

use super::{SimulatedCluster, checkpoint::Checkpoint};
use crate::{capacity::Capacity, inventory::Inventory, original::Original, report::PodReport};

/// A cluster in which copies of pods are placed.
pub(crate) struct Copies {
    world: SimulatedCluster<'static>,
    start: Checkpoint,
    placed: Vec<Arc<PodInfo>>,
}

impl Copies {
    /// Schedules the pending pods of the cluster as far as they fit, and removes the others.
    pub(crate) fn new(config: EngineConfig, cluster: Inventory) -> Self {
        let mut world = SimulatedCluster::new(config, cluster, None);
        world.run(&mut |_, _| {});
        world.dismiss_waiting();
        Self { start: world.checkpoint(), world, placed: Vec::new() }
    }

    /// Places up to `limit` copies of the pod. Calls `progress` after every copy with their number.
    pub(crate) fn count(
        &mut self,
        original: &Original,
        limit: usize,
        progress: &mut dyn FnMut(usize),
    ) -> Capacity {
        let cluster = &self.world.engine.cache().cluster;
        let nodes = cluster.nodes().all().filter(|node| node.object().is_some());
        let nodes = nodes.map(|node| (node.name().as_str().to_owned(), 0)).collect();
        let mut capacity = Capacity { nodes, ..Capacity::default() };
        while capacity.copies < limit {
            let (copy, claims) = original.copy(capacity.copies + 1);
            self.world.add_claims(claims);
            match self.place(copy) {
                Ok(node) => {
                    capacity.copies += 1;
                    if let Some(zone) = self.zone_of(&node) {
                        *capacity.zones.entry(zone).or_default() += 1;
                    }
                    *capacity.nodes.entry(node).or_default() += 1;
                    progress(capacity.copies);
                }
                Err(message) => {
                    capacity.message = Some(message);
                    break;
                }
            }
        }
        capacity
    }

    /// Returns the node of the copy, or the reason why it has none.
    fn place(&mut self, copy: Pod) -> Result<String, String> {
        let (uid, info) = (copy.uid.clone(), PodInfo::standalone(copy.clone()));
        self.world.reports.insert(uid.clone(), PodReport::of(&info));
        self.world.objects.insert(uid.clone(), copy.clone());
        self.world.input(Input::Pod(copy));
        self.world.run(&mut |_, _| {});
        self.placed.push(info);
        let report = self.world.reports.remove(&uid).unwrap_or_default();
        report.node.ok_or_else(|| first_sentence(&report.message.unwrap_or_default()))
    }

    fn zone_of(&self, node: &str) -> Option<String> {
        let zone = self.world.engine.cache().node(node)?.labels.get(LABEL_ZONE)?;
        Some(zone.as_str().to_owned())
    }

    /// Removes all copies, and makes all claims and volumes what they were.
    pub(crate) fn remove_all(&mut self) {
        for copy in std::mem::take(&mut self.placed) {
            self.world.objects.remove(&copy.uid);
            self.world.input(Input::PodGone(copy.uid.clone()));
        }
        self.world.restore(&self.start);
        self.world.fruitless.clear();
    }
}

/// Returns the message without what follows about preemption.
fn first_sentence(message: &str) -> String {
    match message.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => message.to_owned(),
    }
}
