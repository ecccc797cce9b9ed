//! Decisions of a replay compared with the recorded ones.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster_api::{Str, Timestamp};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Value;

use crate::{effect::Effect, input::Input};

/// Differences between the decisions of a replay and the recorded ones. Names are `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Number of pods that get the same node.
    pub same: usize,
    /// Pods that get another node.
    pub elsewhere: Vec<Moved>,
    /// Pods that got a node in the recording, and still wait when it was there.
    pub waiting: Vec<Moved>,
    /// Pods that get a node only in the replay.
    pub only_now: Vec<Moved>,
    /// Pods for which other pods are evicted.
    pub other_victims: Vec<OtherVictims>,
}

/// A pod and its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The pod.
    pub pod: String,
    /// Time of the decision, in RFC 3339; that of the recording if both decided.
    pub at: String,
    /// The node in the recording.
    pub recorded: Option<String>,
    /// The node in the replay.
    pub now: Option<String>,
}

/// A pod that evicts other pods than in the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherVictims {
    /// The pod, or the UID of a group.
    pub preemptor: String,
    /// Pods that were evicted only in the recording.
    pub only_recorded: Vec<String>,
    /// Pods that are evicted only in the replay.
    pub only_now: Vec<String>,
}

impl Comparison {
    /// Returns true if there is no difference.
    pub fn is_equal(&self) -> bool {
        self.elsewhere.is_empty()
            && self.waiting.is_empty()
            && self.only_now.is_empty()
            && self.other_victims.is_empty()
    }
}

/// Decisions about one pod.
#[derive(Debug, Default)]
struct Fate {
    /// Time and node of the last decision.
    node: Option<(Timestamp, Str)>,
    victims: BTreeSet<Str>,
}

/// Collects the decisions of both sides.
#[derive(Debug, Default)]
pub(super) struct Comparer {
    /// Names of pods by UID.
    names: FxHashMap<Str, String>,
    /// The recorded decisions and those of the replay, by UID.
    fates: BTreeMap<Str, [Fate; 2]>,
}

const RECORDED: usize = 0;
const HERE: usize = 1;

impl Comparer {
    /// Learns the names of pods.
    pub(super) fn see(&mut self, input: &Input) {
        if let Input::Pod(pod) = input
            && !self.names.contains_key(&pod.uid)
        {
            self.names.insert(pod.uid.clone(), pod.full_name());
        }
    }

    /// Adds a recorded effect.
    pub(super) fn recorded(&mut self, effect: &Value, at: Timestamp) {
        let text = |value: &Value| value.as_str().map(Str::from);
        if let (Some(pod), Some(node)) = (text(&effect["bind"]["pod"]), text(&effect["bind"]["node"])) {
            self.of(pod, RECORDED).node = Some((at, node));
        }
        let id = &effect["evict"]["id"];
        if let (Some(preemptor), Some(victim)) = (text(&id["preemptor"]), text(&id["victim"])) {
            self.of(preemptor, RECORDED).victims.insert(victim);
        }
    }

    /// Adds an effect of the replay.
    pub(super) fn here(&mut self, effect: &Effect, at: Timestamp) {
        match effect {
            Effect::Bind(task) => {
                let node = task.node().clone();
                self.of(task.pod().uid.clone(), HERE).node = Some((at, node));
            }
            Effect::Evict(task) => {
                let victim = task.victim.uid.clone();
                self.of(task.preemptor.clone(), HERE).victims.insert(victim);
            }
            _ => {}
        }
    }

    fn of(&mut self, pod: Str, side: usize) -> &mut Fate {
        &mut self.fates.entry(pod).or_default()[side]
    }

    fn name(&self, uid: &Str) -> String {
        self.names.get(uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    pub(super) fn comparison(&self) -> Comparison {
        let mut found = Comparison::default();
        for (uid, [recorded, here]) in &self.fates {
            let node = |fate: &Fate| fate.node.as_ref().map(|(_, node)| node.to_string());
            let at = recorded.node.as_ref().or(here.node.as_ref()).map(|(at, _)| *at).unwrap_or_default();
            let moved =
                Moved { pod: self.name(uid), at: at.to_rfc3339(), recorded: node(recorded), now: node(here) };
            match (&moved.recorded, &moved.now) {
                (None, None) => {}
                (Some(recorded), Some(now)) if recorded == now => found.same += 1,
                (Some(_), Some(_)) => found.elsewhere.push(moved),
                (Some(_), None) => found.waiting.push(moved),
                (None, Some(_)) => found.only_now.push(moved),
            }
            if recorded.victims != here.victims {
                let only = |one: &Fate, other: &Fate| {
                    one.victims.difference(&other.victims).map(|victim| self.name(victim)).collect()
                };
                found.other_victims.push(OtherVictims {
                    preemptor: self.name(uid),
                    only_recorded: only(recorded, here),
                    only_now: only(here, recorded),
                });
            }
        }
        for list in [&mut found.elsewhere, &mut found.waiting, &mut found.only_now] {
            list.sort_by(|a, b| (&a.at, &a.pod).cmp(&(&b.at, &b.pod)));
        }
        found
    }
}
