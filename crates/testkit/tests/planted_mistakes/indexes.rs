//! Indexes that miss a change.

use std::{collections::BTreeMap, fmt::Debug};

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use harbormaster_testkit::{index_equals_rebuilt_one, node, pod};

use super::Planted;

const FORGETS_PODS_THAT_LEAVE: u8 = 1;
const KEEPS_A_SET: u8 = 2;
const MISSES_LABELS: u8 = 3;
const REMEMBERS_THE_ORDER: u8 = 4;
const REMEMBERS_THE_ZONE: u8 = 5;
const PANICS_AT_UNKNOWN_NODES: u8 = 6;

/// Number of pods of each color; with `REMEMBERS_THE_ZONE`, of each zone and color.
#[derive(Debug, Default, PartialEq)]
struct Colours<const WRONG: u8> {
    counts: BTreeMap<Str, usize>,
    order: Vec<Str>,
}

fn colour(pod: &PodInfo) -> Str {
    pod.labels.get("colour").cloned().unwrap_or_default()
}

impl<const WRONG: u8> Colours<WRONG> {
    fn key(view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) -> Str {
        let zone = view.nodes.node(row).labels().and_then(|labels| labels.get("zone"));
        match WRONG {
            REMEMBERS_THE_ZONE => format!("{} {}", zone.cloned().unwrap_or_default(), colour(pod)).into(),
            _ => colour(pod),
        }
    }
}

impl<const WRONG: u8> Index for Colours<WRONG> {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if WRONG == PANICS_AT_UNKNOWN_NODES {
            assert!(view.nodes.node(row).object().is_some(), "a pod on an unknown node");
        }
        let count = self.counts.entry(Self::key(view, row, pod)).or_default();
        *count = if WRONG == KEEPS_A_SET { 1 } else { *count + 1 };
        if WRONG == REMEMBERS_THE_ORDER {
            self.order.push(pod.name.clone());
        }
    }

    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if WRONG == FORGETS_PODS_THAT_LEAVE {
            return;
        }
        if let Some(count) = self.counts.get_mut(&Self::key(view, row, pod)) {
            *count -= 1;
        }
        self.counts.retain(|_, count| *count > 0);
        self.order.retain(|name| *name != pod.name);
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        if WRONG != MISSES_LABELS {
            self.pod_left(view, row, old);
            self.pod_joined(view, row, new);
        }
    }
}

fn check<const WRONG: u8>() {
    for seed in 0..5 {
        index_equals_rebuilt_one::<Colours<WRONG>>(
            seed,
            |dice, name| node(name).label("zone", dice.pick(&["z1", "z2"])),
            |dice, name| pod(name).label("colour", dice.pick(&["red", "blue"])),
        );
    }
}

pub(super) fn right() {
    check::<0>();
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "misses pods that leave",
        said: "index (left) differs from a rebuilt one (right); seed 0",
        check: check::<FORGETS_PODS_THAT_LEAVE>,
    },
    Planted {
        wrong: "keeps a set where several pods share a key",
        said: "index (left) differs from a rebuilt one (right); seed",
        check: check::<KEEPS_A_SET>,
    },
    Planted {
        wrong: "misses changes of labels",
        said: "index (left) differs from a rebuilt one (right); seed",
        check: check::<MISSES_LABELS>,
    },
    Planted {
        wrong: "depends on the order in which pods joined",
        said: "index (left) differs from a rebuilt one (right); seed",
        check: check::<REMEMBERS_THE_ORDER>,
    },
    Planted {
        wrong: "keeps the node label that was current when the pod joined",
        said: "index (left) differs from a rebuilt one (right); seed",
        check: check::<REMEMBERS_THE_ZONE>,
    },
    Planted {
        wrong: "panics for pods on nodes that are not known yet",
        said: "a pod on an unknown node",
        check: check::<PANICS_AT_UNKNOWN_NODES>,
    },
];
