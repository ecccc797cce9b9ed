//! A plugin as someone outside of this repository would write it, using every extension point: nodes have tickets (a
//! label), pods take some (an annotation), and pods of a pair wait for each other.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use harbormaster_api::{Pod, Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    attempt::{Attempt, Found, NominatedRow, Search},
    cycle::WhatIf,
    plugin::BoxFuture,
    prelude::*,
    registry::Registry,
    table::NodeTable,
    window::{Tie, Window},
};
use harbormaster_testkit::{
    PodBuilder, Trial, adding_and_removing_is_neutral, batch_equals_single, cluster, node, pod,
    profile_with_args, trial::finished,
};
use serde::Deserialize;
use serde_json::json;

// ---- the plugin ----

const LABEL: &str = "example.com/tickets";
const WANTED: &str = "example.com/tickets";
const PAIR: &str = "example.com/pair";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TicketsArgs {
    /// Most tickets that one pod may take; more keeps it out of the queue.
    most_per_pod: Option<i64>,
}

#[derive(Debug, Default)]
struct Tickets {
    most_per_pod: Option<i64>,
    /// Reserved and not yet bound, by pod.
    reserved: Mutex<BTreeMap<String, i64>>,
    printed: Mutex<Vec<String>>,
}

/// Tickets taken per node, and how many the pod wants.
#[derive(Clone, Debug, Default)]
struct Taken {
    by_row: BTreeMap<NodeIdx, i64>,
    wanted: i64,
}

/// The most tickets that any candidate has left.
#[derive(Debug, Default)]
struct MostLeft(i64);

fn wanted(pod: &Pod) -> i64 {
    pod.annotations.get(WANTED).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn offered(node: NodeRef<'_>) -> i64 {
    node.labels().and_then(|labels| labels.get(LABEL)).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn taken(node: NodeRef<'_>) -> i64 {
    node.pods().iter().map(|pod| wanted(pod)).sum()
}

impl Plugin for Tickets {
    const NAME: &'static str = "Tickets";
    type FilterState = Taken;
    type ScoreState = MostLeft;

    fn points(points: &mut Points<Self>) {
        points.pre_enqueue().queue_sort().pre_filter().filter().post_filter().pre_score().score();
        points.reserve().permit().pre_bind().bind().post_bind();
    }

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::hinted(EventResource::Pod, Action::DELETE, Self::after_pod),
            Registration::always(EventResource::Node, Action::ADD | Action::UPDATE_NODE_LABEL),
        ])
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![SignFragment { key: WANTED, value: wanted(pod).to_string() }])
    }
}

impl Build for Tickets {
    type Args = TicketsArgs;

    fn build(args: TicketsArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        if args.most_per_pod.is_some_and(|most| most < 1) {
            return Err("mostPerPod must be at least 1".into());
        }
        Ok(Self { most_per_pod: args.most_per_pod, ..Self::default() })
    }
}

impl Tickets {
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
        let helps = wanted(gone) > 0 && gone.node_name.is_some() && gone.uid != pod.uid;
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

impl PreEnqueue for Tickets {
    fn pre_enqueue(&self, pod: &PodInfo) -> PluginResult<Verdict> {
        if self.most_per_pod.is_some_and(|most| wanted(pod) > most) {
            return Ok(Err(Reject::unresolvable("pod wants too many tickets")));
        }
        Ok(Ok(()))
    }
}

impl QueueSort for Tickets {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        (wanted(b.pod), a.since) < (wanted(a.pod), b.since)
    }
}

impl PreFilter for Tickets {
    fn pre_filter(&self, cx: &Cycle<'_>) -> PluginResult<PreFiltered<Taken>> {
        let wanted = wanted(cx.pod);
        if wanted == 0 {
            return Ok(PreFiltered::Skip);
        }
        if wanted < 0 {
            return Ok(PreFiltered::Reject(Reject::unresolvable("pod wants less than no ticket")));
        }
        let offering = || cx.nodes.nodes().filter(|node| offered(*node) > 0);
        Ok(PreFiltered::Continue {
            state: Taken { by_row: offering().map(|node| (node.idx(), taken(node))).collect(), wanted },
            only: Some(offering().map(NodeRef::idx).collect()),
        })
    }

    fn add_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut Taken,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        *state.by_row.entry(node.idx()).or_default() += wanted(pod);
        Ok(())
    }

    fn remove_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut Taken,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        *state.by_row.entry(node.idx()).or_default() -= wanted(pod);
        Ok(())
    }
}

impl Filter for Tickets {
    fn filter(&self, _: &Cycle<'_>, state: &Taken, node: NodeRef<'_>) -> PluginResult<Verdict> {
        let taken = state.by_row.get(&node.idx()).copied().unwrap_or(0);
        if taken + state.wanted > offered(node) {
            return Ok(Err(Reject::evictable("Insufficient tickets")));
        }
        Ok(Ok(()))
    }
}

impl PostFilter for Tickets {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>) -> PluginResult<PostFiltered> {
        for row in cx.what_if.evictable_rows().iter() {
            let node = cx.what_if.nodes().node(row);
            let (name, least) =
                (node.name().clone(), node.pods().iter().min_by_key(|pod| pod.priority()).cloned());
            let Some(least) = least.filter(|pod| pod.priority() < cx.pod.priority()) else { continue };
            if cx.what_if.fits_without(row, std::slice::from_ref(&least.uid))?.is_ok() {
                return Ok(PostFiltered::Nominate { node: name });
            }
        }
        Ok(PostFiltered::NoHelp {
            reasons: vec!["no ticket holder to make way".into()],
            nomination: Nomination::Keep,
        })
    }
}

impl PreScore for Tickets {
    fn pre_score(&self, cx: &Cycle<'_>, candidates: &NodeSet) -> PluginResult<PreScored<MostLeft>> {
        let left = candidates.iter().map(|row| cx.nodes.node(row)).map(|node| offered(node) - taken(node));
        Ok(match left.max() {
            Some(most) if wanted(cx.pod) > 0 => PreScored::Continue(MostLeft(most)),
            _ => PreScored::Skip,
        })
    }
}

impl Score for Tickets {
    const NORMALIZE: Normalize = Normalize::Custom;

    fn score(&self, _: &Cycle<'_>, _: &MostLeft, node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(offered(node) - taken(node))
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        state: &MostLeft,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        for row in candidates {
            scores[row.at()] = 100 * scores[row.at()] / state.0.max(1);
        }
        Ok(())
    }
}

impl Reserve for Tickets {
    fn reserve(&self, cx: &Cycle<'_>, state: &Taken, node: NodeRef<'_>) -> PluginResult<Verdict> {
        if node.unschedulable() {
            return Ok(Err(Reject::evictable("tickets are not sold here any more")));
        }
        self.reserved.lock().map_err(|e| e.to_string())?.insert(cx.pod.full_name(), state.wanted);
        Ok(Ok(()))
    }

    fn unreserve(&self, pod: &PodInfo, _: &Str) {
        if let Ok(mut reserved) = self.reserved.lock() {
            reserved.remove(&pod.full_name());
        }
    }
}

impl Permit for Tickets {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut dyn WaitingPods) -> PluginResult<Permitted> {
        let Some(pair) = cx.pod.annotations.get(PAIR) else { return Ok(Permitted::Allow) };
        if pair.is_empty() {
            return Ok(Permitted::Reject(Reject::evictable("a pair needs a name")));
        }
        let listed = waiting.list();
        let partner = listed.iter().find(|(other, _)| other.annotations.get(PAIR) == Some(pair));
        match partner {
            Some((partner, _)) => {
                waiting.allow(&partner.uid, Self::NAME);
                Ok(Permitted::Allow)
            }
            None => {
                waiting.activate(format!("{}/{pair}", cx.pod.namespace));
                Ok(Permitted::Wait(Duration::from_secs(30)))
            }
        }
    }
}

impl PreBind for Tickets {
    fn pre_flight(&self, pod: &PodInfo, _: &Str) -> PluginResult<PreFlight> {
        Ok(if wanted(pod) > 0 { PreFlight::Work { parallel: true } } else { PreFlight::NothingToDo })
    }

    async fn pre_bind(&self, cx: &BindCycle) -> Result<(), BindFailure> {
        let mut printed = self.printed.lock().map_err(|e| e.to_string())?;
        printed.push(format!("{} tickets for {} on {}", wanted(&cx.pod), cx.pod.name, cx.node));
        Ok(())
    }
}

impl Bind for Tickets {
    async fn bind(&self, cx: &BindCycle) -> Result<Bound, BindFailure> {
        if wanted(&cx.pod) == 0 {
            return Ok(Bound::NotMine);
        }
        cx.api.bind(&cx.pod, &cx.node).await?;
        Ok(Bound::Done)
    }
}

impl PostBind for Tickets {
    fn post_bind(&self, cx: &BindCycle) {
        if let Ok(mut reserved) = self.reserved.lock() {
            reserved.remove(&cx.pod.full_name());
        }
    }
}

// ---- its tests ----

fn wants(name: &str, tickets: i64) -> PodBuilder {
    annotated(pod(name), WANTED, &tickets.to_string())
}

fn annotated(pod: PodBuilder, key: &str, value: &str) -> PodBuilder {
    pod.pod(|p| {
        let old = p.annotations.iter().map(|(k, v)| (k.clone(), v.clone()));
        p.annotations = old.chain([(Str::from(key), Str::from(value))]).collect();
    })
}

fn theatre() -> NodeTable {
    cluster(
        [node("none"), node("few").label(LABEL, "2"), node("many").label(LABEL, "9")],
        [wants("there", 5).on("many"), wants("first", 2).on("few")],
    )
}

fn attempt() -> Attempt {
    let mut registry = Registry::default();
    registry.register::<Tickets>();
    let everywhere: Vec<(&str, &[&str])> = registry
        .points("Tickets")
        .into_iter()
        .flat_map(|points| points.iter())
        .map(|point| (point.name(), ["Tickets"].as_slice()))
        .collect();
    assert_eq!(everywhere.len(), 12, "every point but those of pod groups");
    Attempt::new(profile_with_args(&registry, &everywhere, &[("Tickets", json!({"mostPerPod": 6}))]))
}

const ALL_NODES: Search = Search { window: Window::All, tie: Tie::Rotate };

#[test]
fn the_queue_holds_back_greedy_pods_and_serves_large_orders_first() {
    let attempt = attempt();
    let plugin = attempt.profile().plugins()[0].clone();
    assert_eq!(plugin.pre_enqueue(&wants("p", 6).info()).unwrap(), Ok(()));
    assert!(plugin.pre_enqueue(&wants("p", 7).info()).unwrap().is_err());
    let (small, large) = (wants("small", 1).info(), wants("large", 5).info());
    let queued = |pod, since| Queued { pod, since: Timestamp(since) };
    assert!(attempt.profile().less(queued(&large, 2), queued(&small, 1)));
    assert!(attempt.profile().less(queued(&small, 1), queued(&small, 2)));
}

#[test]
fn only_nodes_with_tickets_left_are_chosen_and_the_message_says_why_not() {
    let (mut attempt, mut nodes) = (attempt(), theatre());
    let found = attempt.find(&mut nodes, &wants("p", 3).info(), ALL_NODES, &mut 0, &[], &[]).unwrap();
    let Found::Node { row, .. } = found else { panic!("{found:?}") };
    assert_eq!(nodes.node(row).name(), "many");
    let found = attempt.find(&mut nodes, &wants("p", 5).info(), ALL_NODES, &mut 0, &[], &[]).unwrap();
    let Found::Nowhere(diagnosis) = found else { panic!("{found:?}") };
    assert_eq!(
        diagnosis.message(),
        "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [Tickets], 2 Insufficient tickets."
    );
    let found = attempt.find(&mut nodes, &wants("p", -1).info(), ALL_NODES, &mut 0, &[], &[]).unwrap();
    let Found::Nowhere(diagnosis) = found else { panic!("{found:?}") };
    assert_eq!(diagnosis.message(), "0/3 nodes are available: pod wants less than no ticket.");
}

#[test]
fn tickets_of_nominated_pods_count() {
    let (mut attempt, mut nodes) = (attempt(), theatre());
    let row = nodes.find("many").unwrap();
    let nominated = [NominatedRow { row, pods: vec![wants("nominated", 3).priority(9).info()] }];
    let pod = wants("p", 2).info();
    let found = attempt.find(&mut nodes, &pod, ALL_NODES, &mut 0, &nominated, &[]).unwrap();
    assert!(matches!(found, Found::Nowhere(_)), "{found:?}");
    let found = attempt.find(&mut nodes, &pod, ALL_NODES, &mut 0, &[], &[]).unwrap();
    assert!(matches!(found, Found::Node { .. }), "{found:?}");
}

#[test]
fn scores_are_shares_of_the_most_that_is_left() {
    let nodes =
        cluster([node("a").label(LABEL, "4"), node("b").label(LABEL, "8"), node("c").label(LABEL, "6")], []);
    let trial = Trial::of(Tickets::default());
    assert_eq!(trial.scores(&nodes, &wants("p", 1).info()).unwrap(), Some(vec![50, 100, 75]));
    assert_eq!(trial.scores(&nodes, &pod("plain").info()).unwrap(), None);
    let explained = attempt().explain(&mut theatre(), &wants("p", 1).info()).unwrap();
    assert_eq!(explained.scores.len(), 1);
    assert_eq!(explained.scores[0].1.plugins, [("Tickets", 4, 100, 100)]);
}

#[test]
fn it_passes_the_conformance_checks() {
    let trial = Trial::of(Tickets::default());
    let mut nodes = theatre();
    for tickets in 0..6 {
        batch_equals_single(&trial, &nodes, &wants("p", tickets).info());
        adding_and_removing_is_neutral(
            &trial,
            &mut nodes,
            &wants("p", tickets).info(),
            &wants("other", 3).info(),
        );
    }
}

/// Questions about a table: what an engine would answer, for this one plugin.
struct Question<'a> {
    nodes: NodeTable,
    pod: &'a PodInfo,
}

impl Question<'_> {
    fn verdict(&self, row: NodeIdx) -> PluginResult<Verdict> {
        Trial::of(Tickets::default()).verdict(&self.nodes, self.pod, self.nodes.node(row).name())
    }
}

impl WhatIf for Question<'_> {
    fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    fn rejection(&self, row: NodeIdx) -> Option<Reject> {
        self.verdict(row).ok()?.err()
    }

    fn fits_without(&mut self, row: NodeIdx, gone: &[Str]) -> PluginResult<Verdict> {
        let removed = self.nodes.what_if_removed(row, gone);
        let verdict = self.verdict(row);
        removed.into_iter().for_each(|pod| self.nodes.what_if_added(row, pod));
        verdict
    }

    fn evictable_rows(&self) -> NodeSet {
        let evictable = |row: &NodeIdx| self.rejection(*row).is_some_and(|r| r.fix == Fix::EvictionMayHelp);
        self.nodes.order().iter().copied().filter(evictable).collect()
    }
}

#[test]
fn a_node_is_nominated_if_the_pod_would_fit_without_its_least_important_holder() {
    let attempt = attempt();
    let answer = |pod: &PodInfo| {
        let mut what_if = Question { nodes: theatre(), pod };
        let mut cx = PostFilterCycle { pod, what_if: &mut what_if };
        attempt.profile().plugins()[0].post_filter(&mut cx).unwrap()
    };
    assert_eq!(answer(&wants("p", 6).priority(1).info()), PostFiltered::Nominate { node: "many".into() });
    for hopeless in [wants("as important", 6), wants("too much for any node", 10).priority(1)] {
        let PostFiltered::NoHelp { reasons, .. } = answer(&hopeless.info()) else { panic!("helps") };
        assert_eq!(reasons, ["no ticket holder to make way"]);
    }
}

#[derive(Default)]
struct Room {
    waiting: Vec<(Arc<PodInfo>, Str)>,
    allowed: Vec<String>,
    activated: Vec<String>,
}

impl WaitingPods for Room {
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)> {
        self.waiting.clone()
    }
    fn allow(&mut self, uid: &str, plugin: &'static str) {
        self.allowed.push(format!("{uid} {plugin}"));
    }
    fn reject(&mut self, uid: &str, plugin: &'static str, message: String) {
        panic!("{plugin} rejects {uid}: {message}");
    }
    fn activate(&mut self, full_name: String) {
        self.activated.push(full_name);
    }
}

#[test]
fn pods_of_a_pair_wait_for_each_other() {
    let (attempt, nodes) = (attempt(), theatre());
    let plugin = &attempt.profile().plugins()[0];
    let mut room = Room::default();
    let permit = |pod: &Arc<PodInfo>, room: &mut Room| {
        plugin.permit(&Cycle { nodes: &nodes, pod }, &"many".into(), room).unwrap()
    };
    let (one, two) =
        (annotated(wants("one", 1), PAIR, "x").info(), annotated(wants("two", 1), PAIR, "x").info());
    assert_eq!(permit(&wants("alone", 1).info(), &mut room), Permitted::Allow);
    assert_eq!(permit(&one, &mut room), Permitted::Wait(Duration::from_secs(30)));
    assert_eq!(room.activated, ["default/x"]);
    room.waiting.push((one, "many".into()));
    assert_eq!(permit(&two, &mut room), Permitted::Allow);
    assert_eq!(room.allowed, ["uid-one Tickets"]);
    let nameless = annotated(wants("nameless", 1), PAIR, "").info();
    assert!(matches!(permit(&nameless, &mut room), Permitted::Reject(_)));
}

#[derive(Default)]
struct Server(Mutex<Vec<String>>);

impl ClusterApi for Server {
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(async move {
            self.0.lock().map_err(|e| e.to_string())?.push(format!("{} to {node}", pod.name));
            Ok(())
        })
    }
}

#[test]
fn a_choice_is_reserved_prepared_bound_and_released() {
    let (mut attempt, mut nodes) = (attempt(), theatre());
    let pod = wants("p", 3).info();
    let found = attempt.find(&mut nodes, &pod, ALL_NODES, &mut 0, &[], &[]).unwrap();
    let Found::Node { row, .. } = found else { panic!("{found:?}") };
    assert!(attempt.reserve(&nodes, &pod, row).unwrap().is_ok());
    let node = nodes.node(row).name().clone();
    attempt.unreserve(&pod, &node);
    assert!(attempt.reserve(&nodes, &pod, row).unwrap().is_ok());
    let server = Arc::new(Server::default());
    let cx = BindCycle { pod, node: node.clone(), api: server.clone() };
    let plugin = &attempt.profile().plugins()[0];
    assert_eq!(plugin.pre_flight(&cx.pod, &node).unwrap(), PreFlight::Work { parallel: true });
    assert_eq!(
        plugin.pre_flight(&harbormaster_testkit::pod("plain").info(), &node).unwrap(),
        PreFlight::NothingToDo
    );
    finished(plugin.pre_bind(&cx)).unwrap();
    assert_eq!(finished(plugin.bind(&cx)).unwrap(), Bound::Done);
    plugin.post_bind(&cx);
    assert_eq!(*server.0.lock().unwrap(), ["p to many"]);
    let plain = BindCycle { pod: harbormaster_testkit::pod("plain").info(), ..cx };
    assert_eq!(finished(plugin.bind(&plain)).unwrap(), Bound::NotMine);
}

#[test]
fn unreserving_gives_back_exactly_what_was_reserved() {
    let (plugin, nodes) = (Tickets::default(), theatre());
    let pod = wants("p", 3).info();
    let cx = Cycle { nodes: &nodes, pod: &pod };
    let PreFiltered::Continue { state, only: Some(only) } = plugin.pre_filter(&cx).unwrap() else {
        panic!("skipped")
    };
    assert_eq!((state.wanted, only.len()), (3, 2));
    let many = nodes.node(nodes.find("many").unwrap());
    plugin.reserve(&cx, &state, many).unwrap().unwrap();
    assert_eq!(plugin.reserved.lock().unwrap().get("default/p"), Some(&3));
    plugin.unreserve(&pod, many.name());
    assert!(plugin.reserved.lock().unwrap().is_empty());
    let cordoned = cluster([node("n").label(LABEL, "9").unschedulable()], []);
    let there = cordoned.node(cordoned.order()[0]);
    assert!(plugin.reserve(&Cycle { nodes: &cordoned, pod: &pod }, &state, there).unwrap().is_err());
}

#[test]
fn its_events_and_its_signature_are_its_own() {
    let trial = Trial::of(Tickets::default());
    let waiting = wants("p", 3).info();
    let event = harbormaster_framework::events::ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
    for (gone, expected) in [(wants("holder", 1).on("n"), Hint::Queue), (pod("plain").on("n"), Hint::Skip)] {
        let gone = gone.build();
        assert_eq!(trial.hint(event, &waiting, &Change::Pod { old: Some(&gone), new: None }), Some(expected));
    }
    let added = harbormaster_framework::events::ClusterEvent::new(EventResource::Node, Action::ADD);
    assert_eq!(trial.hint(added, &waiting, &Change::Other), Some(Hint::Queue));
    assert_eq!(trial.plugin().sign(&waiting), trial.plugin().sign(&wants("q", 3).info()));
    assert_ne!(trial.plugin().sign(&waiting), trial.plugin().sign(&wants("q", 4).info()));
}

#[test]
fn wrong_arguments_are_refused_with_the_plugins_own_words() {
    let mut registry = Registry::default();
    registry.register::<Tickets>();
    let build = |args: serde_json::Value| registry.build("Tickets", Some(&args), &BuildCycle::default());
    assert!(build(json!({"mostPerPod": 3})).is_ok_and(|p| p.implements(ExtensionPoint::Permit)));
    let Err(error) = build(json!({"mostPerPod": 0})) else { panic!("accepted") };
    assert_eq!(error.to_string(), "initializing plugin \"Tickets\": mostPerPod must be at least 1");
    assert!(build(json!({"mostPerPods": 3})).is_err(), "a typing error");
}
