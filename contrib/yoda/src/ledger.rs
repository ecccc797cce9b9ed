//! The ledger: which pods hold which cards.
//!
//! It is made of the pods on the nodes. What a pod holds is in its annotation [`CARDS`], which PreBind writes before the
//! binding; how much of each card its labels say. Between Reserve and the news of that annotation, [`Chosen`] knows.
//!
//! A pod that sits on a node with a wish and without an annotation was placed by somebody else. It counts as holding the
//! cards that it most likely has: see [`Cards::take_unknown`]. If there are several, the oldest is served first.
//! A pod whose labels cannot be read holds the cards of its annotation whole; without one, nothing is known of it but what
//! the sniffer measures.

use std::collections::HashMap;

use harbormaster::{
    api::{Pod, Str, Timestamp},
    prelude::{ClusterView, Index, NodeIdx, PodInfo},
};

use crate::{cards::Cards, literal, scv::ScvStatus, wish::Wish};

/// The annotation with the ids of the cards that a pod holds: `0,2`.
pub const CARDS: &str = "scv/cards";

/// The value of [`CARDS`].
pub fn written(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    ids.join(",")
}

/// What [`CARDS`] says; `None` if it says nothing.
pub fn read(annotation: &str) -> Option<Vec<u32>> {
    annotation.split(',').map(|id| id.trim().parse().ok()).collect()
}

/// What a pod on a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    uid: Str,
    created: Option<Timestamp>,
    number: u32,
    /// MiB of each card, or the whole of it.
    memory: Option<u64>,
    /// Which cards, if its annotation says so.
    ids: Option<Vec<u32>>,
}

impl Holding {
    /// What the pod holds if it is on a node and has not finished.
    pub fn of(pod: &Pod) -> Option<Self> {
        if pod.is_terminal() {
            return None;
        }
        let ids = pod.annotations.get(CARDS).and_then(|text| read(text));
        let wish = Wish::of(&pod.labels).ok().flatten();
        if wish.is_none() && ids.is_none() {
            return None;
        }
        Some(Self {
            uid: pod.uid.clone(),
            created: pod.created,
            number: wish.map_or(0, |wish| wish.number),
            memory: wish.and_then(|wish| wish.memory),
            ids,
        })
    }
}

/// The holdings on every node, kept while pods come and go.
#[derive(Debug, Default)]
pub struct Ledger(HashMap<NodeIdx, Row>);

#[derive(Debug, Default)]
struct Row {
    holdings: Vec<Holding>,
    labelled: literal::Labelled,
}

impl Ledger {
    fn holdings(&self, row: NodeIdx) -> &[Holding] {
        self.0.get(&row).map_or(&[], |row| &row.holdings)
    }

    /// What the original's Score counts on a node.
    pub fn labelled(&self, row: NodeIdx) -> literal::Labelled {
        self.0.get(&row).map(|row| row.labelled).unwrap_or_default()
    }
}

impl Index for Ledger {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let labelled = literal::Labelled::of(pod);
        let holding = Holding::of(pod);
        if holding.is_some() || labelled != literal::Labelled::default() {
            let row = self.0.entry(row).or_default();
            row.holdings.extend(holding);
            row.labelled.add(labelled);
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if let Some(row) = self.0.get_mut(&row) {
            row.holdings.retain(|holding| holding.uid != pod.uid);
            row.labelled.subtract(literal::Labelled::of(pod));
        }
    }
}

/// What Reserve chose, for pods whose annotation is not known to be written yet. It counts for more than an annotation,
/// which may be left over from an earlier try.
#[derive(Debug, Default)]
pub struct Chosen {
    by_uid: HashMap<Str, (NodeIdx, Vec<u32>)>,
    tidy_at: usize,
}

impl Chosen {
    /// Reserve chose these cards.
    pub fn insert(&mut self, uid: &Str, row: NodeIdx, ids: Vec<u32>, ledger: &Ledger) {
        if self.by_uid.len() >= self.tidy_at.max(64) {
            // Once an annotation says the same, or the pod is gone, the choice is of no more use.
            self.by_uid.retain(|uid, (row, ids)| {
                let holding = ledger.holdings(*row).iter().find(|holding| holding.uid == *uid);
                holding.is_some_and(|holding| holding.ids.as_ref() != Some(ids))
            });
            self.tidy_at = self.by_uid.len() * 2;
        }
        self.by_uid.insert(uid.clone(), (row, ids));
    }

    /// The pod gives its cards back.
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

/// A question of the form "what if": pods that are thought away from a node, and pods that are thought onto it.
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    gone: Vec<Holding>,
    joined: Vec<Holding>,
}

impl WhatIf {
    /// A pod joins.
    pub fn add(&mut self, pod: &PodInfo) {
        shift(&mut self.gone, &mut self.joined, pod);
    }

    /// A pod leaves.
    pub fn remove(&mut self, pod: &PodInfo) {
        shift(&mut self.joined, &mut self.gone, pod);
    }
}

/// Takes the pod out of `from`, or, if it is not in there, adds it to `to`.
fn shift(from: &mut Vec<Holding>, to: &mut Vec<Holding>, pod: &PodInfo) {
    match from.iter().position(|holding| holding.uid == pod.uid) {
        Some(at) => drop(from.swap_remove(at)),
        None => to.extend(Holding::of(pod)),
    }
}

/// The cards of a node with what all pods but `asking` hold of them.
pub fn cards<'a>(
    status: &'a ScvStatus,
    row: NodeIdx,
    ledger: &Ledger,
    chosen: &Chosen,
    what_if: Option<&WhatIf>,
    asking: &Str,
) -> Cards<'a> {
    let mut cards = Cards::of(status);
    let (gone, joined) = what_if.map_or((&[][..], &[][..]), |what_if| (&what_if.gone, &what_if.joined));
    for holding in gone {
        if let Some(ids) = chosen.ids(holding, row) {
            cards.give_back(ids, holding.memory);
        }
    }
    let is_there =
        |holding: &&Holding| holding.uid != *asking && !gone.iter().any(|gone| gone.uid == holding.uid);
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
    use crate::{Yoda, wish::NUMBER};

    #[test]
    fn an_annotation_is_read_as_it_is_written() {
        for ids in [vec![0], vec![0, 2], vec![31, 4, 7]] {
            assert_eq!(read(&written(&ids)), Some(ids));
        }
        assert_eq!(read("0, 2"), Some(vec![0, 2]));
        for nonsense in ["", "0,", "a", "-1", "0;1"] {
            assert_eq!(read(nonsense), None, "{nonsense:?}");
        }
    }

    /// What the plugin's index makes of these pods on the node `n1`, whose row is the first.
    fn with_ledger(pods: usize, annotated: bool, ask: impl FnOnce(&<Yoda as Indexed>::Index)) {
        let on_node = (0..pods).map(|at| {
            let annotations = if annotated { labels(&[(CARDS, "0")]) } else { labels(&[]) };
            pod(&at.to_string()).label(NUMBER, "1").on("n1").pod(|pod| pod.annotations = annotations)
        });
        let nodes = cluster([node("n1")], on_node);
        let mut registry = harbormaster::prelude::Registry::default();
        registry.register::<Yoda>();
        let yoda = registry.build("yoda", None, &harbormaster::prelude::BuildCycle::default()).unwrap();
        let indexes = Trial::of_made(yoda).indexes(&nodes, &pod("asking").info());
        ask(indexes.get().unwrap());
    }

    #[test]
    fn choices_are_forgotten_once_they_are_known_from_the_pods_or_the_pods_are_gone() {
        for (pods, annotated, left) in [(100, false, 100), (100, true, 0), (0, false, 0)] {
            with_ledger(pods, annotated, |ledger| {
                let mut chosen = Chosen::default();
                let uid = |at: usize| pod(&at.to_string()).build().uid;
                for at in 0..1000 {
                    chosen.insert(&uid(at), NodeIdx(0), vec![0], ledger);
                }
                assert!(chosen.by_uid.len() <= 2 * left + 64, "{} are left", chosen.by_uid.len());
                let kept = (0..100).filter(|at| chosen.by_uid.contains_key(&uid(*at))).count();
                assert_eq!(kept, left, "{pods} pods, annotated: {annotated}");
            });
        }
    }
}
