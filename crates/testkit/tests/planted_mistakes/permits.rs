//! Permit plugins with wrong waits, releases and rejections.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, cluster, node, permit_lets_all_go, pod};

use super::Planted;

#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    ForgetsTheOthers,
    WaitsForNothing,
    WaitsForAnHour,
    CountsByItself,
    RejectsTheOthers,
    WaitsForOneTooMany,
}

/// Releases the pods of a band together.
struct Band {
    wrong: Wrong,
    seen: Mutex<usize>,
}

/// For each band, the UIDs of its pods that have a node.
#[derive(Debug, Default, PartialEq)]
struct Bands(BTreeMap<Str, BTreeSet<Str>>);

fn band(pod: &PodInfo) -> Str {
    pod.labels.get("band").cloned().unwrap_or_default()
}

impl Index for Bands {
    fn pod_joined(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        self.0.entry(band(pod)).or_default().insert(pod.uid.clone());
    }
    fn pod_left(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        if let Some(members) = self.0.get_mut(&band(pod)) {
            members.remove(&pod.uid);
        }
        self.0.retain(|_, members| !members.is_empty());
    }
}

impl Plugin for Band {
    const NAME: &'static str = "Band";
    implemented_points!();
}

impl Indexed for Band {
    type Index = Bands;
}

impl Permit for Band {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        let there = self.index(cx)?.0.get(&band(cx.pod)).cloned().unwrap_or_default();
        let mut seen = self.seen.lock().unwrap();
        *seen += 1;
        let there_are = if self.wrong == Wrong::CountsByItself { *seen } else { there.len() };
        if there_are < 3 + usize::from(self.wrong == Wrong::WaitsForOneTooMany) {
            return Ok(Permitted::Wait(match self.wrong {
                Wrong::WaitsForNothing => Duration::ZERO,
                Wrong::WaitsForAnHour => Duration::from_secs(3600),
                _ => Duration::from_secs(60),
            }));
        }
        for member in there.iter().filter(|_| self.wrong != Wrong::ForgetsTheOthers) {
            match self.wrong {
                Wrong::RejectsTheOthers => waiting.reject(member, "too late"),
                _ => waiting.allow(member),
            }
        }
        Ok(Permitted::Allow)
    }
}

fn check(wrong: Wrong) {
    let trial = Trial::of(Band { wrong, seen: Mutex::new(0) });
    let mut nodes = cluster([node("n"), node("m")], []);
    let pods = ["a", "b", "c"].map(|name| (pod(name).label("band", "four").info(), "n"));
    permit_lets_all_go(&trial, &mut nodes, &pods);
}

pub(super) fn right() {
    check(Wrong::Nothing);
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "admits the last pod, but releases none of the waiting pods",
        said: "Band: still holds [\"uid-a\", \"uid-b\"] when",
        check: || check(Wrong::ForgetsTheOthers),
    },
    Planted {
        wrong: "waits for zero time",
        said: "Band: lets PodInfo(default/a) wait for zero time, which rejects it",
        check: || check(Wrong::WaitsForNothing),
    },
    Planted {
        wrong: "waits for longer than the limit",
        said: "Band: lets PodInfo(default/a) wait for 3600s, more than the limit of 900s",
        check: || check(Wrong::WaitsForAnHour),
    },
    Planted {
        wrong: "keeps its own count of pods, which includes pods that gave up",
        said: "when they return after a timeout",
        check: || check(Wrong::CountsByItself),
    },
    Planted {
        wrong: "rejects the waiting pods when the last one arrives",
        said: "Band: rejects uid-a, which only waits for the others: too late",
        check: || check(Wrong::RejectsTheOthers),
    },
    Planted {
        wrong: "waits for one pod more than exists",
        said: "Band: still holds [\"uid-a\", \"uid-b\", \"uid-c\"] when",
        check: || check(Wrong::WaitsForOneTooMany),
    },
];
