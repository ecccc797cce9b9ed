//! Compares the index with a recount of the cluster.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::{
    Namespace, Object, ObjectKey, ObjectKind, Str, Timestamp,
    pod::{PodAffinity, PodAffinityTerm},
    selector::{LabelSelector, Operator, Requirement},
};
use harbormaster_framework::{index::IndexKind, pod::SpecTable, prelude::*};
use harbormaster_testkit::{labels, node, pod, random::Dice};

use super::{PodIndex, PodSelector, PodTerm, well_formed};

const NAMESPACES: [&str; 4] = ["default", "red", "blue", "nowhere"];
const APPS: [&str; 3] = ["web", "db", "job"];
/// Number of values of the label that distinguishes pods.
const OWN: u64 = 400;
const TEAMS: [&str; 3] = ["a", "b", ""];
const KEYS: [&str; 3] = ["zone", "rack", "kubernetes.io/hostname"];

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { key: key.into(), operator, values: values.iter().map(|v| Str::from(*v)).collect() }
}

fn pod_labels(dice: &mut Dice) -> LabelSelector {
    let app = dice.pick(&APPS);
    let own = dice.below(OWN).to_string();
    let expressions = match dice.below(8) {
        0 => Vec::new(),
        1 => vec![requirement("app", Operator::NotIn, &[app])],
        2 => vec![requirement("tier", Operator::Exists, &[])],
        3 => vec![requirement("app", Operator::In, &[app, "db", "db"])],
        4 => {
            vec![
                requirement("own", Operator::NotIn, &[&own]),
                requirement("app", Operator::In, &[app, "none"]),
            ]
        }
        5 => {
            vec![requirement("own", Operator::Exists, &[]), requirement("tier", Operator::DoesNotExist, &[])]
        }
        6 => {
            return LabelSelector {
                match_labels: labels(&[("own", &own), ("app", app)]),
                ..Default::default()
            };
        }
        _ => return LabelSelector { match_labels: labels(&[("app", app)]), ..LabelSelector::default() },
    };
    LabelSelector { match_expressions: expressions, ..LabelSelector::default() }
}

fn namespaces(dice: &mut Dice) -> Option<LabelSelector> {
    let team = dice.pick(&["a", "b"]);
    let expressions = match dice.below(5) {
        0 => return None,
        1 => Vec::new(),
        2 => vec![requirement("team", Operator::In, &[team])],
        3 => vec![requirement("team", Operator::NotIn, &[team])],
        _ => vec![requirement("team", Operator::DoesNotExist, &[])],
    };
    Some(LabelSelector { match_expressions: expressions, ..LabelSelector::default() })
}

fn affinity_term(dice: &mut Dice) -> PodAffinityTerm {
    let mut term = PodAffinityTerm {
        label_selector: (!dice.one_in(8)).then(|| pod_labels(dice)),
        topology_key: dice.pick(&KEYS).into(),
        ..PodAffinityTerm::default()
    };
    if dice.one_in(2) {
        term.namespace_selector = namespaces(dice);
    }
    if dice.one_in(3) {
        term.namespaces = vec![dice.pick(&NAMESPACES).into()];
    }
    if dice.one_in(16) {
        let broken = requirement("-broken-", Operator::Exists, &[]);
        term.label_selector = Some(LabelSelector { match_expressions: vec![broken], ..Default::default() });
    }
    term
}

fn affinity(dice: &mut Dice) -> PodAffinity {
    PodAffinity {
        required: (0..dice.below(3)).map(|_| affinity_term(dice)).collect(),
        preferred: (0..dice.below(3)).map(|_| (dice.below(3) as i32, affinity_term(dice))).collect(),
    }
}

/// A random pod with labels and affinity.
pub(crate) fn random_pod(dice: &mut Dice, name: &str, specs: &mut SpecTable) -> Arc<PodInfo> {
    let mut built = pod(name).namespace(dice.pick(&NAMESPACES));
    if !dice.one_in(6) {
        built = built.label("app", dice.pick(&APPS));
    }
    if dice.one_in(2) {
        built = built.label("tier", "one");
    }
    if dice.one_in(4) {
        built = built.label("own", &dice.below(OWN).to_string());
    }
    if dice.one_in(5) {
        built = built.terminating();
    }
    let (likes, avoids) = (dice.one_in(3).then(|| affinity(dice)), dice.one_in(3).then(|| affinity(dice)));
    let built = built.spec(|spec| (spec.pod_affinity, spec.pod_anti_affinity) = (likes, avoids));
    Arc::new(PodInfo::new(built.build(), specs))
}

fn random_selector(dice: &mut Dice) -> PodSelector {
    let term = |dice: &mut Dice| PodTerm {
        namespaces: if dice.one_in(3) { Vec::new() } else { vec![dice.pick(&NAMESPACES).into()] },
        namespace_selector: namespaces(dice),
        labels: pod_labels(dice),
        selects_as_unlabeled: dice.one_in(2),
    };
    PodSelector { all_of: (0..=dice.below(2)).map(|_| term(dice)).collect(), live_only: dice.one_in(2) }
}

/// A cluster with random changes, and the expected state of its pods.
struct ChangingCluster {
    dice: Dice,
    cluster: Cluster,
    specs: SpecTable,
    placed: Vec<(Str, Arc<PodInfo>)>,
    watched: Vec<PodSelector>,
    asked_about: Vec<Arc<PodInfo>>,
    next: u32,
}

impl ChangingCluster {
    fn new(seed: u64) -> Self {
        let mut cluster = Cluster::default();
        cluster.add_index(IndexKind::of::<PodIndex>());
        Self {
            dice: Dice::new(seed),
            cluster,
            specs: SpecTable::default(),
            placed: Vec::new(),
            watched: Vec::new(),
            asked_about: Vec::new(),
            next: 0,
        }
    }

    fn step(&mut self) {
        match self.dice.below(16) {
            0..=5 => self.pod_comes(),
            6..=8 => self.pod_goes(),
            9 => self.pod_changes(),
            10 | 11 => self.node_changes(),
            12 => self.node_goes(),
            13 => self.namespace_changes(),
            14 => self.ask_about_pods(),
            _ => self.ask_about_terms(),
        }
    }

    fn node_name(&mut self) -> Str {
        format!("n{}", self.dice.below(5)).into()
    }

    fn pod_comes(&mut self) {
        self.next += 1;
        let new = random_pod(&mut self.dice, &format!("p{}", self.next), &mut self.specs);
        let node = self.node_name();
        self.cluster.add_pod(&node, new.clone());
        self.placed.push((node, new));
    }

    fn pod_goes(&mut self) {
        if !self.placed.is_empty() {
            let at = self.dice.below(self.placed.len() as u64) as usize;
            let (node, gone) = self.placed.swap_remove(at);
            assert!(self.cluster.remove_pod(&node, &gone.uid));
        }
    }

    /// Changes a pod's labels or marks it as terminating, as an update does.
    fn pod_changes(&mut self) {
        if self.placed.is_empty() {
            return;
        }
        let at = self.dice.below(self.placed.len() as u64) as usize;
        let (node, old) = self.placed[at].clone();
        let mut changed = harbormaster_api::Pod::clone(&old.pod);
        if self.dice.one_in(2) {
            changed.deleted = Some(Timestamp::default());
        } else {
            changed.labels = labels(&[("app", self.dice.pick(&APPS))]);
        }
        let new = Arc::new(PodInfo::new(changed, &mut self.specs));
        assert!(self.cluster.replace_pod(&node, &new));
        self.placed[at].1 = new;
    }

    fn node_changes(&mut self) {
        let name = self.node_name();
        let mut built = node(&name).label("kubernetes.io/hostname", &name);
        for key in ["zone", "rack"] {
            if !self.dice.one_in(4) {
                built = built.label(key, self.dice.pick(&["1", "2", "3"]));
            }
        }
        self.cluster.set_node(built.into());
    }

    fn node_goes(&mut self) {
        let name = self.node_name();
        self.cluster.remove_node(&name);
    }

    fn namespace_changes(&mut self) {
        let name: Str = self.dice.pick(&NAMESPACES[..3]).into();
        if self.dice.one_in(4) {
            let key = ObjectKey { kind: ObjectKind::Namespace, namespace: Str::default(), name };
            return self.cluster.remove_object(&key);
        }
        let team = self.dice.pick(&TEAMS);
        let labels = if team.is_empty() { labels(&[]) } else { labels(&[("team", team)]) };
        self.cluster.set_object(Object::Namespace(Namespace { name, labels }));
    }

    fn ask_about_pods(&mut self) {
        let selector = random_selector(&mut self.dice);
        let (_, indexes) = self.cluster.split();
        indexes.get_mut::<PodIndex>().unwrap().watch_pods(&selector);
        self.watched.push(selector);
    }

    fn ask_about_terms(&mut self) {
        let asked = random_pod(&mut self.dice, "incoming", &mut self.specs);
        let (known, indexes) = self.cluster.split();
        KEYS.iter().for_each(|key| indexes.get_mut::<PodIndex>().unwrap().watch_key(known, &(*key).into()));
        self.asked_about.push(asked);
    }

    fn check_index(&self) {
        let index = self.cluster.indexes().get::<PodIndex>().unwrap();
        let known = ClusterView { nodes: self.cluster.nodes(), objects: self.cluster.objects() };
        index.check(known).unwrap();
        for selector in &self.watched {
            let kept: Vec<_> = index.pods(selector).expect("the selector is watched").iter().collect();
            assert_eq!(kept, self.recounted(selector), "{selector:?}");
        }
        for asked in &self.asked_about {
            assert_eq!(kept_terms(index, known, asked), self.recounted_terms(asked), "{asked:?}");
        }
        for key in KEYS {
            let Some(column) = index.key(key) else { continue };
            let label = |row: NodeIdx| self.cluster.node(row).labels().and_then(|l| l.get(key));
            let rows = || (0..self.cluster.rows()).map(NodeIdx::from);
            for (a, b) in rows().flat_map(|a| rows().map(move |b| (a, b))) {
                assert_eq!(column.value(a).is_some(), label(a).is_some());
                if label(a).is_some() {
                    assert_eq!(column.value(a) == column.value(b), label(a) == label(b), "{key}");
                }
            }
        }
    }

    fn recounted(&self, selector: &PodSelector) -> Vec<(NodeIdx, i64)> {
        let objects = self.cluster.objects();
        let matches = |pod: &&Arc<PodInfo>| {
            !(selector.live_only && pod.is_terminating())
                && selector.all_of.iter().all(|term| term.matches_pod(objects, &pod.pod))
        };
        let rows = (0..self.cluster.rows()).map(NodeIdx::from);
        let counts =
            rows.map(|row| (row, self.cluster.node(row).pods().iter().filter(matches).count() as i64));
        counts.filter(|(_, n)| *n > 0).collect()
    }

    fn recounted_terms(&self, asked: &PodInfo) -> Terms {
        let mut all = Terms::new();
        for row in (0..self.cluster.rows()).map(NodeIdx::from) {
            for holder in self.cluster.node(row).pods() {
                let spec = &holder.spec;
                let lists = [(&spec.pod_affinity, false), (&spec.pod_anti_affinity, true)];
                for (affinity, anti) in lists.into_iter().filter_map(|(a, anti)| Some((a.as_ref()?, anti))) {
                    if well_formed(affinity.required.iter()) {
                        let kind = if anti { "anti" } else { "affinity" };
                        let required = affinity.required.iter();
                        required.for_each(|term| self.add(&mut all, asked, holder, term, row, kind, 1));
                    }
                    if well_formed(affinity.preferred.iter().map(|(_, term)| term)) {
                        let sign = if anti { -1 } else { 1 };
                        for (weight, term) in &affinity.preferred {
                            let weight = sign * i64::from(*weight);
                            self.add(&mut all, asked, holder, term, row, "preferred", weight);
                        }
                    }
                }
            }
        }
        all
    }

    #[allow(clippy::too_many_arguments, reason = "a fixture")]
    fn add(
        &self,
        all: &mut Terms,
        asked: &PodInfo,
        holder: &PodInfo,
        term: &PodAffinityTerm,
        row: NodeIdx,
        kind: &'static str,
        amount: i64,
    ) {
        let Some(pods) = PodTerm::new(term, &holder.namespace) else { return };
        if pods.matches_pod(self.cluster.objects(), &asked.pod) {
            *all.entry((term.topology_key.to_string(), kind, row)).or_default() += amount;
        }
    }
}

type Terms = BTreeMap<(String, &'static str, NodeIdx), i64>;

fn kept_terms(index: &PodIndex, known: ClusterView<'_>, asked: &PodInfo) -> Terms {
    let mut all = Terms::new();
    for term in index.terms_about(known.objects, asked) {
        let lists = [("anti", &term.anti), ("affinity", &term.affinity), ("preferred", &term.preferred)];
        for (kind, rows) in lists {
            for (row, amount) in rows.iter() {
                *all.entry((term.key().to_string(), kind, row)).or_default() += amount;
            }
        }
    }
    all
}

#[test]
fn the_index_equals_a_recount_after_every_step_of_three_thousand_random_sequences() {
    for seed in 0..3_000 {
        let mut changing = ChangingCluster::new(seed);
        for _ in 0..24 {
            changing.step();
            changing.check_index();
        }
    }
}

#[test]
fn the_index_stays_correct_over_long_random_sequences() {
    for seed in 0..3 {
        let mut changing = ChangingCluster::new(seed);
        for step in 0..3_000 {
            changing.step();
            changing.watched.truncate(20);
            changing.asked_about.truncate(20);
            if step % 500 == 0 {
                changing.check_index();
            }
        }
    }
}

#[test]
fn groups_and_terms_of_pods_that_have_left_are_dropped() {
    let mut changing = ChangingCluster::new(7);
    changing.cluster.set_node(node("n0").into());
    for at in 0..2_000 {
        let own = at.to_string();
        let label_selector =
            LabelSelector { match_labels: labels(&[("own", own.as_str())]), ..LabelSelector::default() };
        let term = PodAffinityTerm {
            label_selector: Some(label_selector),
            topology_key: "zone".into(),
            ..PodAffinityTerm::default()
        };
        let affinity = PodAffinity { required: vec![term.clone()], preferred: vec![(1, term)] };
        let built = pod(&own).label("own", &own).spec(|spec| spec.pod_anti_affinity = Some(affinity)).build();
        let new = Arc::new(PodInfo::new(built, &mut changing.specs));
        changing.cluster.add_pod(&"n0".into(), new.clone());
        changing.placed.push(("n0".into(), new));
        if at >= 10 {
            let (node, gone) = changing.placed.remove(0);
            assert!(changing.cluster.remove_pod(&node, &gone.uid));
        }
    }
    changing.check_index();
    let index = changing.cluster.indexes().get::<PodIndex>().unwrap();
    assert_eq!((index.groups.len(), index.held.iter().count()), (10, 10));
}

#[test]
fn selectors_that_are_never_used_again_are_dropped_and_those_in_use_are_kept() {
    let mut changing = ChangingCluster::new(8);
    (0..200).for_each(|_| changing.step());
    let selector = |app: String| {
        let labels = LabelSelector { match_labels: labels(&[("app", &app)]), ..LabelSelector::default() };
        let term = PodTerm { namespaces: vec!["default".into()], labels, ..PodTerm::default() };
        PodSelector { all_of: vec![term], live_only: false }
    };
    let often = selector("web".into());
    let (_, indexes) = changing.cluster.split();
    let index = indexes.get_mut::<PodIndex>().unwrap();
    for at in 0..10_000 {
        index.watch_pods(&selector(at.to_string()));
        index.watch_pods(&often);
    }
    assert!(index.selectors.iter().count() <= 2_048);
    assert!(index.pods(&often).is_some() && index.pods(&selector("17".into())).is_none());
    changing.watched = vec![often, selector("9999".into())];
    changing.check_index();
}

#[test]
fn label_keys_that_are_never_used_again_are_dropped_and_those_in_use_are_kept() {
    let mut changing = ChangingCluster::new(9);
    changing.cluster.set_node(node("n0").into());
    let held = PodAffinityTerm {
        label_selector: Some(LabelSelector::default()),
        topology_key: "held".into(),
        ..PodAffinityTerm::default()
    };
    let affinity = PodAffinity { required: vec![held], preferred: Vec::new() };
    let holder = pod("holder").spec(|spec| spec.pod_anti_affinity = Some(affinity)).build();
    let holder = Arc::new(PodInfo::new(holder, &mut changing.specs));
    changing.cluster.add_pod(&"n0".into(), holder.clone());
    for at in 0..1_000 {
        let (known, indexes) = changing.cluster.split();
        let index = indexes.get_mut::<PodIndex>().unwrap();
        index.watch_key(known, &format!("key-{at}").into());
        index.watch_key(known, &"often".into());
        changing.cluster.set_node(node("n0").label("count", &at.to_string()).into());
        changing.check_index();
    }
    let index = changing.cluster.indexes().get::<PodIndex>().unwrap();
    let kept = (0..1_000).filter(|at| index.key(&format!("key-{at}")).is_some()).count();
    assert!(kept <= super::topology::KEYS, "{kept} keys");
    for key in ["key-999", "often", "held"] {
        assert!(index.key(key).is_some(), "{key}");
    }
    assert!(changing.cluster.remove_pod("n0", &holder.uid));
    let (known, indexes) = changing.cluster.split();
    let index = indexes.get_mut::<PodIndex>().unwrap();
    (0..1_000).for_each(|at| index.watch_key(known, &format!("key-{at}").into()));
    changing.cluster.set_node(node("n0").into());
    changing.check_index();
    let index = changing.cluster.indexes().get::<PodIndex>().unwrap();
    assert!(index.key("held").is_none(), "no term holds the key");
}
