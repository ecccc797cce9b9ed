//! The ledger: the cards that each pod holds.
//!
//! The ledger is built from the pods on the nodes. A pod's annotation [`CARDS`] names its cards, and its labels specify
//! how much of each card it holds. PreBind writes the annotation before the binding. Until the scheduler sees the
//! annotation, [`PendingChoices`] contains the cards that Reserve chose.
//!
//! A pod with a request but no annotation was placed by another scheduler. It is assumed to hold the most likely cards
//! (see [`Cards::take_unknown`]), oldest pod first. A pod with invalid labels holds all the cards in its annotation as
//! whole cards; if it also has no annotation, only the sniffer's measurements account for it.

use std::collections::HashMap;

use harbormaster::{
    api::{Pod, Str, Timestamp},
    prelude::{ClusterView, Index, NodeIdx, PodInfo},
};

use crate::{cards::Cards, literal, request::Request, scv::ScvStatus};

/// Annotation with the IDs of the cards that a pod holds, such as `0,2`.
pub const CARDS: &str = "scv/cards";

/// Formats a value of [`CARDS`].
pub fn format_ids(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    ids.join(",")
}

/// Parses a value of [`CARDS`]; returns `None` if it is invalid.
pub fn parse_ids(annotation: &str) -> Option<Vec<u32>> {
    annotation.split(',').map(|id| id.trim().parse().ok()).collect()
}

/// Cards that a pod on a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    uid: Str,
    created: Option<Timestamp>,
    number: u32,
    /// Memory in MiB of each card; `None` means the whole card.
    memory: Option<u64>,
    /// IDs of the cards, if the annotation is valid.
    ids: Option<Vec<u32>>,
}

impl Holding {
    /// Returns what the pod holds on its node, or `None` if the pod has finished or holds nothing.
    pub fn of(pod: &Pod) -> Option<Self> {
        if pod.is_terminal() {
            return None;
        }
        let ids = pod.annotations.get(CARDS).and_then(|text| parse_ids(text));
        let request = Request::of(&pod.labels).ok().flatten();
        if request.is_none() && ids.is_none() {
            return None;
        }
        Some(Self {
            uid: pod.uid.clone(),
            created: pod.created,
            number: request.map_or(0, |request| request.number),
            memory: request.and_then(|request| request.memory),
            ids,
        })
    }
}

/// An index: for each node, the cards that its pods hold and the sum of their `scv/memory` labels.
#[derive(Debug, Default)]
pub struct Ledger(HashMap<NodeIdx, Row>);

#[derive(Debug, Default)]
struct Row {
    holdings: Vec<Holding>,
    labelled: literal::LabelledMemory,
}

impl Ledger {
    fn holdings(&self, row: NodeIdx) -> &[Holding] {
        self.0.get(&row).map_or(&[], |row| &row.holdings)
    }

    /// Returns the sum of the `scv/memory` labels of a node's pods, as the original's Score computes it.
    pub fn labelled(&self, row: NodeIdx) -> literal::LabelledMemory {
        self.0.get(&row).map(|row| row.labelled).unwrap_or_default()
    }
}

impl Index for Ledger {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let labelled = literal::LabelledMemory::of(pod);
        let holding = Holding::of(pod);
        if holding.is_some() || labelled != literal::LabelledMemory::default() {
            let row = self.0.entry(row).or_default();
            row.holdings.extend(holding);
            row.labelled.add(labelled);
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if let Some(row) = self.0.get_mut(&row) {
            row.holdings.retain(|holding| holding.uid != pod.uid);
            row.labelled.subtract(literal::LabelledMemory::of(pod));
        }
    }
}

/// Cards that Reserve chose for pods whose annotation the scheduler has not seen yet. They take precedence over an
/// annotation, which may be left over from an earlier attempt.
#[derive(Debug, Default)]
pub struct PendingChoices {
    by_uid: HashMap<Str, (NodeIdx, Vec<u32>)>,
    tidy_at: usize,
}

impl PendingChoices {
    /// Records the cards that Reserve chose.
    pub fn insert(&mut self, uid: &Str, row: NodeIdx, ids: Vec<u32>, ledger: &Ledger) {
        if self.by_uid.len() >= self.tidy_at.max(64) {
            // Forget choices that an annotation confirms, and choices of deleted pods.
            self.by_uid.retain(|uid, (row, ids)| {
                let holding = ledger.holdings(*row).iter().find(|holding| holding.uid == *uid);
                holding.is_some_and(|holding| holding.ids.as_ref() != Some(ids))
            });
            self.tidy_at = self.by_uid.len() * 2;
        }
        self.by_uid.insert(uid.clone(), (row, ids));
    }

    /// Forgets the pod's cards.
    pub fn remove(&mut self, uid: &Str) {
        self.by_uid.remove(uid);
    }

    fn ids<'a>(&'a self, holding: &'a Holding, row: NodeIdx) -> Option<&'a [u32]> {
        match self.by_uid.get(&holding.uid) {
            Some((on, ids)) if *on == row => Some(ids),
            _ => holding.ids.as_deref(),
        }
    }
}

/// Pods that a what-if question removes from or adds to a node.
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    gone: Vec<Holding>,
    joined: Vec<Holding>,
}

impl WhatIf {
    /// Adds a pod.
    pub fn add(&mut self, pod: &PodInfo) {
        shift(&mut self.gone, &mut self.joined, pod);
    }

    /// Removes a pod.
    pub fn remove(&mut self, pod: &PodInfo) {
        shift(&mut self.joined, &mut self.gone, pod);
    }
}

/// Removes the pod from `from`, or adds it to `to` if `from` does not have it.
fn shift(from: &mut Vec<Holding>, to: &mut Vec<Holding>, pod: &PodInfo) {
    match from.iter().position(|holding| holding.uid == pod.uid) {
        Some(at) => drop(from.swap_remove(at)),
        None => to.extend(Holding::of(pod)),
    }
}

/// Returns the cards of a node, of which all its pods except the one with the UID `except` have taken their shares.
pub fn cards<'a>(
    status: &'a ScvStatus,
    row: NodeIdx,
    ledger: &Ledger,
    chosen: &PendingChoices,
    what_if: Option<&WhatIf>,
    except: &Str,
) -> Cards<'a> {
    let mut cards = Cards::of(status);
    let (gone, joined) = what_if.map_or((&[][..], &[][..]), |what_if| (&what_if.gone, &what_if.joined));
    for holding in gone {
        if let Some(ids) = chosen.ids(holding, row) {
            cards.give_back(ids, holding.memory);
        }
    }
    let is_there =
        |holding: &&Holding| holding.uid != *except && !gone.iter().any(|gone| gone.uid == holding.uid);
    let mut unknown = Vec::new();
    for holding in ledger.holdings(row).iter().chain(joined).filter(is_there) {
        match chosen.ids(holding, row) {
            Some(ids) => cards.take(ids, holding.memory),
            None => unknown.push(holding),
        }
    }
    unknown.sort_by_key(|holding| (holding.created, &holding.uid));
    for holding in unknown {
        cards.take_unknown(holding.number, holding.memory);
    }
    cards
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        prelude::Indexed,
        testkit::{Trial, cluster, labels, node, pod},
    };

    use super::*;
    use crate::{Yoda, request::NUMBER};

    #[test]
    fn an_annotation_survives_a_round_trip() {
        for ids in [vec![0], vec![0, 2], vec![31, 4, 7]] {
            assert_eq!(parse_ids(&format_ids(&ids)), Some(ids));
        }
        assert_eq!(parse_ids("0, 2"), Some(vec![0, 2]));
        for nonsense in ["", "0,", "a", "-1", "0;1"] {
            assert_eq!(parse_ids(nonsense), None, "{nonsense:?}");
        }
    }

    /// Builds the index from the given number of pods on node `n1` (the first row) and passes the index to `ask`.
    fn with_ledger(pods: usize, annotated: bool, ask: impl FnOnce(&<Yoda as Indexed>::Index)) {
        let on_node = (0..pods).map(|at| {
            let annotations = if annotated { labels(&[(CARDS, "0")]) } else { labels(&[]) };
            pod(&at.to_string()).label(NUMBER, "1").on("n1").pod(|pod| pod.annotations = annotations)
        });
        let nodes = cluster([node("n1")], on_node);
        let mut registry = harbormaster::prelude::Registry::default();
        registry.register::<Yoda>();
        let yoda = registry.build("yoda", None, &harbormaster::prelude::BuildCycle::default()).unwrap();
        let indexes = Trial::of_made(yoda).indexes(&nodes, &pod("except").info());
        ask(indexes.get().unwrap());
    }

    #[test]
    fn choices_are_forgotten_once_the_pods_are_annotated_or_gone() {
        for (pods, annotated, left) in [(100, false, 100), (100, true, 0), (0, false, 0)] {
            with_ledger(pods, annotated, |ledger| {
                let mut chosen = PendingChoices::default();
                let uid = |at: usize| pod(&at.to_string()).build().uid;
                for at in 0..1000 {
                    chosen.insert(&uid(at), NodeIdx(0), vec![0], ledger);
                }
                assert!(chosen.by_uid.len() <= 2 * left + 64, "{} choices are left", chosen.by_uid.len());
                let kept = (0..100).filter(|at| chosen.by_uid.contains_key(&uid(*at))).count();
                assert_eq!(kept, left, "{pods} pods, annotated: {annotated}");
            });
        }
    }
}
