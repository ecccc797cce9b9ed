//! The pods of each node that its topology lacks.
//!
//! An agent writes the topology some time after the kubelet has given NUMA nodes to a pod, and nobody knows beforehand
//! which of them it will be. So a pod that the topology lacks counts on every NUMA node. Whether it does is found out as
//! follows, from what is known now, so that a restart forgets nothing:
//! - The topology has a fingerprint of pods that are on the node, without the last few: it lacks these.
//! - It has another fingerprint, because pods have left since, or because the kubelet started pods in another order: it
//!   may lack the pods that began less than a minute before it was written, or later, and those that wait to start.
//! - It has no fingerprint: it may lack pods that wait to start.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use harbormaster::{
    api::{Str, Timestamp, pod::Phase},
    framework::RowLog,
    prelude::*,
};

use crate::{
    alignment::owned,
    amount::Requests,
    demand,
    fingerprint::{hash, of_hashes},
    topology::{Fingerprint, NodeResourceTopology},
};

/// Most pods that are assumed to have been placed since the agent looked.
const MOST_NEW: usize = 32;
/// Longest time between the moment at which an agent looks and the moment at which the topology is written.
const WRITING: Duration = Duration::from_secs(60);

/// The pods of all rows.
#[derive(Debug, Default)]
pub struct Books {
    rows: Vec<Page>,
    log: RowLog,
}

/// The pods of a row.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pods: Vec<Arc<PodInfo>>,
    /// The pods that the topology lacks, once somebody has asked.
    lack: OnceLock<Lack>,
}

/// The pods that a topology lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lack {
    /// UIDs of the pods.
    pub(crate) pods: Vec<Str>,
    /// Sum of the resources that these pods own.
    pub(crate) owned: Requests,
    /// True if the topology is known to contain all other pods of the row, and no more.
    pub(crate) is_exact: bool,
}

impl Books {
    /// Rows whose pods or topologies have changed.
    pub(crate) fn log(&self) -> &RowLog {
        &self.log
    }

    pub(crate) fn page(&self, row: NodeIdx) -> Option<&Page> {
        self.rows.get(row.at())
    }

    fn changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        if self.rows.len() <= row.at() {
            self.rows.resize_with(row.at() + 1, Page::default);
        }
        self.rows[row.at()] = Page { pods: view.nodes.node(row).pods().to_vec(), lack: OnceLock::new() };
        self.log.push(row);
        self.log.trim(view.nodes.rows());
    }
}

/// Rows past the end are equal to rows without pods.
impl PartialEq for Books {
    fn eq(&self, other: &Self) -> bool {
        let uids = |books: &Self, at: usize| -> Vec<Str> {
            books
                .rows
                .get(at)
                .map(|page| page.pods.iter().map(|pod| pod.uid.clone()).collect())
                .unwrap_or_default()
        };
        (0..self.rows.len().max(other.rows.len())).all(|at| uids(self, at) == uids(other, at))
    }
}

impl Page {
    /// Returns true if these are the pods of the row. They are not in a dry run.
    pub(crate) fn shows(&self, pods: &[Arc<PodInfo>]) -> bool {
        self.pods.len() == pods.len() && self.pods.iter().zip(pods).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Returns what the topology lacks.
    pub(crate) fn lack(&self, topology: &Custom<NodeResourceTopology>) -> &Lack {
        self.lack.get_or_init(|| Lack::of(&self.pods, topology))
    }

    /// All pods of the row.
    pub(crate) fn pods(&self) -> &[Arc<PodInfo>] {
        &self.pods
    }
}

impl Lack {
    fn of(pods: &[Arc<PodInfo>], topology: &Custom<NodeResourceTopology>) -> Self {
        let Some(fingerprint) = &topology.fingerprint else {
            return Self::new(pods.iter().filter(|pod| is_starting(pod)), false);
        };
        let counts =
            |pod: &&Arc<PodInfo>| !fingerprint.only_exclusive || demand::has_exclusive(pod, topology);
        let (mut counted, others): (Vec<_>, Vec<_>) = pods.iter().partition(counts);
        counted.sort_by_key(|pod| (placed(pod), pod.uid.clone()));
        let written = topology.written;
        let is_later = |pod: &Arc<PodInfo>| written.is_some_and(|written| placed(pod) > written);
        match newest(&counted, fingerprint) {
            Some(new) => {
                let (old, new) = counted.split_at(counted.len() - new);
                // A pod that was placed later only has the name of an earlier one.
                let doubtful = old.iter().copied().filter(|pod| is_later(pod));
                let lacks = new.iter().copied().chain(doubtful);
                Self::new(lacks.chain(others.into_iter().filter(|pod| is_starting(pod))), true)
            }
            None => {
                // The kubelet may have taken its time.
                let began = |pod: &PodInfo| placed(pod).max(pod.status.start_time.unwrap_or_default());
                let is_new = |pod: &Arc<PodInfo>| {
                    is_starting(pod) || written.is_some_and(|written| began(pod) + WRITING > written)
                };
                Self::new(pods.iter().filter(|pod| is_new(pod)), false)
            }
        }
    }

    fn new<'a>(pods: impl Iterator<Item = &'a Arc<PodInfo>>, is_exact: bool) -> Self {
        let mut lack = Self { is_exact, ..Self::default() };
        for pod in pods {
            lack.pods.push(pod.uid.clone());
            add(&mut lack.owned, owned(pod.derived.qos, &demand::of_pod(&pod.spec)));
        }
        lack
    }
}

/// Adds amounts.
pub(crate) fn add(sum: &mut Requests, more: Requests) {
    for (name, amount) in more {
        match sum.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = known.plus(amount),
            None => sum.push((name, amount)),
        }
    }
}

/// Returns how many of the newest pods must be left out so that the others have the fingerprint.
fn newest(pods: &[&Arc<PodInfo>], fingerprint: &Fingerprint) -> Option<usize> {
    let mut hashes: Vec<u64> = pods.iter().map(|pod| hash(&pod.namespace, &pod.name)).collect();
    let by_age = hashes.clone();
    hashes.sort_unstable();
    for new in 0..=pods.len().min(MOST_NEW) {
        if of_hashes(&hashes) == *fingerprint.text {
            return Some(new);
        }
        let next = by_age.len().checked_sub(new + 1).map(|at| by_age[at])?;
        if let Ok(at) = hashes.binary_search(&next) {
            hashes.remove(at);
        }
    }
    None
}

fn is_starting(pod: &PodInfo) -> bool {
    pod.status.phase == Phase::Pending
}

/// Time at which the pod was placed.
fn placed(pod: &PodInfo) -> Timestamp {
    let scheduled = pod.condition("PodScheduled").filter(|condition| condition.status == "True");
    let told = scheduled.and_then(|condition| condition.last_transition).or(pod.status.start_time);
    // A pod of which nothing is known but that it runs has run for a while.
    told.unwrap_or(if is_starting(pod) { Timestamp(i64::MAX) } else { Timestamp::default() })
}

impl Watches for Books {
    type Resources = NodeResourceTopology;
}

impl Index for Books {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, _: &PodInfo) {
        self.changed(view, row);
    }

    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, _: &PodInfo) {
        self.changed(view, row);
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, _: &PodInfo, _: &PodInfo) {
        self.changed(view, row);
    }

    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        self.changed(view, row);
    }

    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        if key.is_of::<NodeResourceTopology>()
            && let Some(row) = view.nodes.find(&key.name)
        {
            self.changed(view, row);
        }
    }
}
