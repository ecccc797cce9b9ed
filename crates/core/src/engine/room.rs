//! Room for copies of a pod that does not exist: a question without effects.

use std::sync::Arc;

use harbormaster_api::{Pod, Resources};
use harbormaster_framework::{
    attempt::{Attempt, AttemptError, Decision, Runner, Search},
    pod::PodInfo,
    table::NodeRef,
    window::Rotation,
};
use serde::Serialize;

use super::Engine;

/// Room for copies of a pod, as [`Engine::room_for`] returns it. The JSON form is stable, since tools read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Room {
    /// Number of nodes on which the pod fits.
    pub nodes: usize,
    /// Number of all nodes.
    pub of: usize,
    /// Number of copies for which the free amounts of these nodes suffice. Rules that keep copies apart do not count.
    pub copies: u64,
    /// The reason why the pod fits on no node, in kube-scheduler's words.
    pub message: Option<String>,
}

impl Engine {
    /// Returns the room for copies of a pod; `None` if no profile has the pod's scheduler name. Extenders are not asked,
    /// and nothing is cached, so later decisions are the same as without the question. The cost is that of a first
    /// attempt.
    pub fn room_for(&mut self, pod: Pod) -> Option<Room> {
        let profile = self.queue.profile(self.queue.profile_of(&pod.spec.scheduler_name)?)?.clone();
        let pod = PodInfo::standalone(pod);
        let mut runner = Runner::new(Arc::new(profile.unmetered()));
        Some(self.room_by(&mut runner, &pod).unwrap_or_else(|error| Room {
            of: self.cache.cluster.node_count(),
            message: Some(error.to_string()),
            ..Room::default()
        }))
    }

    fn room_by(&mut self, runner: &mut Runner, pod: &Arc<PodInfo>) -> Result<Room, AttemptError> {
        let cluster = &mut self.cache.cluster;
        cluster.refresh();
        let of = cluster.node_count();
        if of == 0 {
            return Ok(Room {
                message: Some("no nodes available to schedule pods".to_owned()),
                ..Room::default()
            });
        }
        let rows = runner.fitting(cluster, pod)?;
        let copies = rows.iter().map(|row| copies_on(cluster.node(*row), pod.request())).sum();
        let mut room = Room { nodes: rows.len(), of, copies, message: None };
        if rows.is_empty()
            && let Decision::Unschedulable(diagnosis) = runner
                .find(cluster, pod, Search::all(&mut Rotation::default()))
                .map(Attempt::into_decision)?
        {
            room.message = Some(diagnosis.message());
        }
        Ok(room)
    }
}

/// Returns the number of copies for which the free amounts of a node suffice.
fn copies_on(node: NodeRef<'_>, request: &Resources) -> u64 {
    let mut free = node.allocatable();
    let used = i64::try_from(node.pods().len()).unwrap_or(i64::MAX);
    let places = free.pods.saturating_sub(used);
    free.sub(&node.requested());
    let amounts = [
        (free.milli_cpu, request.milli_cpu),
        (free.memory, request.memory),
        (free.ephemeral_storage, request.ephemeral_storage),
    ];
    let scalars = request.scalars.iter().map(|(name, amount)| (free.scalar(name), *amount));
    let all = amounts.into_iter().chain(scalars).filter(|(_, amount)| *amount > 0);
    let copies = all.map(|(free, amount)| free / amount).fold(places, i64::min);
    u64::try_from(copies).unwrap_or_default()
}
