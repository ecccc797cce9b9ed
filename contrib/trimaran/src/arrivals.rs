//! When pods were placed: the pods that measurements do not contain yet.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use harbormaster::{
    api::{Str, Timestamp, pod::Phase},
    framework::{RowLog, SpecInfo},
    prelude::*,
};

/// A pod on a row.
#[derive(Clone, Debug)]
struct Arrival {
    /// Time at which the pod was placed; the future if the API server has not said yet.
    since: Timestamp,
    uid: Str,
    spec: Arc<SpecInfo>,
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        (self.since, &self.uid) == (other.since, &other.uid) && self.spec.spec == other.spec.spec
    }
}

/// Pods by row, the latest first.
#[derive(Debug, Default)]
pub struct Arrivals {
    rows: BTreeMap<NodeIdx, Vec<Arrival>>,
    /// Rows that have changed.
    log: RowLog,
}

impl PartialEq for Arrivals {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

impl Arrivals {
    /// Rows whose pods have changed, even if the row itself has not.
    pub(crate) fn log(&self) -> &RowLog {
        &self.log
    }

    fn changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        self.log.push(row);
        self.log.trim(view.nodes.rows());
    }

    /// Specs of the pods that were placed on a row after a time. Visits no other pods.
    pub(crate) fn after(&self, row: NodeIdx, time: Timestamp) -> impl Iterator<Item = &SpecInfo> {
        let pods = self.rows.get(&row).into_iter().flatten();
        pods.take_while(move |pod| pod.since > time).map(|pod| &*pod.spec)
    }

    /// Millicores and bytes of memory that these pods request.
    pub(crate) fn requested_after(&self, row: NodeIdx, time: Timestamp) -> (i64, i64) {
        self.after(row, time).fold((0_i64, 0_i64), |(milli_cpu, memory), pod| {
            let request = &pod.request;
            (milli_cpu.saturating_add(request.milli_cpu), memory.saturating_add(request.memory))
        })
    }
}

/// Time at which the pod was placed.
fn placed(pod: &PodInfo) -> Timestamp {
    let condition = pod.status.conditions.iter().find(|condition| condition.type_ == "PodScheduled");
    let scheduled = condition.filter(|condition| condition.status == "True");
    let told = scheduled.and_then(|condition| condition.last_transition).or(pod.status.start_time);
    // A pod of which nothing is known but that it runs has run for a while.
    let unknown = if pod.status.phase == Phase::Pending { Timestamp(i64::MAX) } else { Timestamp::default() };
    told.unwrap_or(unknown)
}

impl Index for Arrivals {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let arrival = Arrival { since: placed(pod), uid: pod.uid.clone(), spec: pod.derived.clone() };
        let pods = self.rows.entry(row).or_default();
        let key = |arrival: &Arrival| (Reverse(arrival.since), arrival.uid.clone());
        let at = pods.partition_point(|other| key(other) < key(&arrival));
        pods.insert(at, arrival);
        self.changed(view, row);
    }

    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let Some(pods) = self.rows.get_mut(&row) else { return };
        pods.retain(|other| other.uid != pod.uid);
        if pods.is_empty() {
            self.rows.remove(&row);
        }
        self.changed(view, row);
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        let is_same_spec = Arc::ptr_eq(&old.derived, &new.derived);
        if placed(old) != placed(new) || old.uid != new.uid || !is_same_spec {
            self.pod_left(view, row, old);
            self.pod_joined(view, row, new);
        }
    }
}
