//! A plugin that panics at each extension point in turn. The affected pod gets an error that names the plugin and the
//! point, and is retried; every other pod is scheduled; and every cache is correct afterwards. PreBind, Bind and
//! PostBind run in the driver and are tested there.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use harbormaster_api::{Labels, Namespace, Node, Object, Pod, Str};
use harbormaster_core::{BindOutcome, Effect, EngineConfig, Input, Note, Outcome};
use harbormaster_framework::{prelude::*, profile::Profile, registry::Registry};

use crate::world::{World, node, pod, with_priority};

/// The call at which [`Bomb`] panics.
static ARMED: Mutex<Option<&str>> = Mutex::new(None);

fn is_armed(call: &str) -> bool {
    *ARMED.lock().unwrap() == Some(call)
}

/// Panics if the bomb is armed for `call` and `name` is "bad".
fn spark(call: &str, name: &str) {
    assert!(!(name == "bad" && is_armed(call)), "boom");
}

/// A plugin that implements every extension point that the engine itself calls.
#[derive(Default)]
struct Bomb;

/// Index of the pods on nodes.
#[derive(Debug, Default)]
struct Ledger {
    pods: BTreeMap<Str, NodeIdx>,
    nodes: BTreeMap<NodeIdx, Str>,
    prepared: usize,
}

impl Index for Ledger {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        self.pods.insert(pod.uid.clone(), row);
        spark("pod_joined", &pod.name);
    }
    fn pod_left(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        spark("pod_left", &pod.name);
        self.pods.remove(&pod.uid);
    }
    fn pod_changed(&mut self, _: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        self.pods.remove(&old.uid);
        spark("pod_changed", &new.name);
        self.pods.insert(new.uid.clone(), row);
    }
    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        let node = view.nodes.node(row);
        self.nodes.remove(&row);
        spark("node_changed", node.labels().and_then(|l| l.get("mood")).map_or("", |mood| mood.as_str()));
        if node.object().is_some() {
            self.nodes.insert(row, node.name().clone());
        }
    }
    fn object_changed(&mut self, _: ClusterView<'_>, id: &ObjectId) {
        if let ObjectId::BuiltIn(key) = id {
            spark("object_changed", &key.name);
        }
    }
}

impl Plugin for Bomb {
    const NAME: &'static str = "Bomb";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::hinted(
                EventResource::Node,
                Action::ADD | Action::UPDATE_NODE_LABEL,
                |_, pod, _| {
                    spark("QueueingHint", &pod.name);
                    Ok(Hint::Queue)
                },
            ),
            Registration::always(EventResource::Pod, Action::DELETE),
        ])
    }
    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        spark("Sign", &pod.name);
        Ok(Vec::new())
    }
}

impl Indexed for Bomb {
    type Index = Ledger;
    fn prepare(&self, index: &mut Ledger, _: ClusterView<'_>, pod: &PodInfo) {
        index.prepared += 1;
        spark("Index", &pod.name);
    }
}

impl PreEnqueue for Bomb {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        spark("PreEnqueue", &cx.pod.name);
        if cx.pod.name == "chosen" { Err(Reject::unresolvable("held back").into()) } else { Ok(()) }
    }
}

impl QueueSort for Bomb {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        spark("QueueSort", &a.pod.name);
        spark("QueueSort", &b.pod.name);
        a.since < b.since
    }
}

impl PreFilter<WholeCluster, usize> for Bomb {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<usize>, Stop> {
        spark("PreFilter", &cx.pod.name);
        Ok(PreFiltered::state(0))
    }
    fn add_pod(&self, cx: &Cycle<'_>, state: &mut usize, _: &PodInfo, _: NodeRef<'_>) -> PluginResult<()> {
        spark("AddPod", &cx.pod.name);
        *state += 1;
        Ok(())
    }
    fn remove_pod(&self, cx: &Cycle<'_>, _: &mut usize, _: &PodInfo, _: NodeRef<'_>) -> PluginResult<()> {
        spark("RemovePod", &cx.pod.name);
        Ok(())
    }
}

impl Filter<WholeCluster, usize> for Bomb {
    fn filter(&self, cx: &Cycle<'_>, _: &usize, node: NodeRef<'_>) -> Verdict {
        spark("Filter", &cx.pod.name);
        if cx.pod.name == "bad" && is_armed("QueueingHint") {
            return Err(Reject::unresolvable("not now").into());
        }
        if cx.pod.name == "probe" {
            let ledger: &Ledger = self.index(cx)?;
            let here = ledger.pods.values().filter(|row| **row == node.idx()).count();
            let known = ledger.nodes.contains_key(&node.idx());
            return Err(Reject::unresolvable(format!("{} {known} {here}", node.name())).into());
        }
        Ok(())
    }
}

impl PostFilter<usize> for Bomb {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &usize) -> PluginResult<PostFiltered> {
        spark("PostFilter", &cx.pod.name);
        Ok(PostFiltered::NoHelp { reasons: Vec::new(), nomination: Nomination::Keep })
    }
}

impl PreScore<WholeCluster, usize> for Bomb {
    fn pre_score(&self, cx: &Cycle<'_>, _: &usize, _: &NodeSet) -> PluginResult<PreScored<()>> {
        spark("PreScore", &cx.pod.name);
        Ok(PreScored::Continue(()))
    }
}

impl Score for Bomb {
    const NORMALIZE: Normalize = Normalize::Custom;
    fn score(&self, cx: &Cycle<'_>, _: &(), _: NodeRef<'_>) -> PluginResult<i64> {
        spark("Score", &cx.pod.name);
        Ok(0)
    }
    fn normalize(&self, cx: &Cycle<'_>, _: &(), _: &NodeSet, _: &mut [i64]) -> PluginResult<()> {
        spark("NormalizeScore", &cx.pod.name);
        Ok(())
    }
}

impl Reserve<usize> for Bomb {
    type Reserved = ();
    fn reserve(&self, cx: &Cycle<'_>, _: &usize, _: NodeRef<'_>, _: &mut Assume) -> Verdict {
        spark("Reserve", &cx.pod.name);
        Ok(())
    }
    fn unreserve(&self, placement: &Placement, _: &mut Vec<ApiCall>) {
        spark("Unreserve", &placement.pod.name);
    }
}

impl Permit for Bomb {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, _: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        spark("Permit", &cx.pod.name);
        if cx.pod.name == "bad" && is_armed("Unreserve") {
            return Err(Reject::evictable("not now").into());
        }
        Ok(Permitted::Allow)
    }
}

impl PreBind for Bomb {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        spark("PreBindPreFlight", &placement.pod.name);
        Ok(PreFlight::NothingToDo)
    }
    async fn pre_bind(&self, _: &BindCycle) -> Verdict {
        Ok(())
    }
}

fn profile() -> Arc<Profile> {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Bomb>();
    harbormaster_testkit::profile(
        &registry,
        &[
            ("PreEnqueue", &["Bomb"]),
            ("QueueSort", &["Bomb"]),
            ("PreFilter", &["NodeResourcesFit", "Bomb"]),
            ("Filter", &["NodeResourcesFit", "Bomb"]),
            ("PostFilter", &["Bomb", "DefaultPreemption"]),
            ("PreScore", &["Bomb"]),
            ("Score", &["NodeResourcesFit", "Bomb"]),
            ("Reserve", &["Bomb"]),
            ("Permit", &["Bomb"]),
            ("PreBind", &["Bomb"]),
            ("Bind", &["DefaultBinder"]),
        ],
    )
}

fn world() -> World {
    let mut config = EngineConfig::new(vec![profile()]);
    // Makes the engine sign pods.
    (config.parity, config.batching) = (true, true);
    World::with(config)
}

fn labelled(name: &str, milli_cpu: i64, mood: &str) -> Node {
    Node { labels: [("mood", mood)].into_iter().collect::<Labels>(), ..node(name, milli_cpu) }
}

/// All reports: conditions, events and plugin failures.
#[derive(Default)]
struct Reports(Vec<String>);

impl Reports {
    /// Schedules until no pod is ready, and confirms all bindings.
    fn drive(&mut self, world: &mut World, bound: &mut BTreeMap<String, String>) {
        for _ in 0..20 {
            let attempted = world.attempt();
            for effect in world.all_effects() {
                match effect {
                    Effect::Bind(task) => {
                        world.bind_finished(&task.pod().uid, BindOutcome::Bound);
                        world.add_bound_pod(Pod::clone(&task.pod().pod), task.node());
                        bound.insert(task.pod().name.to_string(), task.node().to_string());
                    }
                    Effect::PatchStatus(patch) => {
                        self.0.extend(patch.condition.map(|c| format!("{}: {}", patch.pod.name, c.message)));
                    }
                    Effect::Event(event) => self.0.push(format!("{}: {}", event.pod.name, event.note)),
                    Effect::Evict(_)
                    | Effect::CallOff(_)
                    | Effect::Call(_)
                    | Effect::Group(_)
                    | Effect::Ask(_) => {}
                }
            }
            self.0.extend(world.engine.take_notes().into_iter().filter_map(|note| match note {
                Note::PluginFailed { error, .. } => Some(error),
                _ => None,
            }));
            if attempted.is_none() {
                return;
            }
        }
        panic!("pods are retried forever: {:?}", self.0);
    }

    fn names(&self, what: &[&str]) -> bool {
        self.0.iter().any(|line| what.iter().all(|word| line.contains(word)))
    }
}

/// Returns the engine's state, as shown by the message about a pod that is rejected on every node.
fn known(world: &mut World) -> String {
    world.add_pod(pod("probe", 1));
    let attempted = std::iter::from_fn(|| world.attempt()).find(|a| a.pod.name == "probe").unwrap();
    let Outcome::Unschedulable(message) = attempted.outcome else { panic!("{attempted:?}") };
    message
}

/// Creates a new engine that knows all nodes, and those of `pods` that are bound.
fn world_anew(nodes: &[Node], bound: &BTreeMap<String, String>, pods: &[Pod]) -> World {
    let mut world = world();
    nodes.iter().for_each(|node| world.set_node(node.clone()));
    for pod in pods {
        if let Some(node) = bound.get(pod.name.as_str()) {
            world.add_bound_pod(pod.clone(), node);
        }
    }
    world
}

/// Makes the bomb panic at the given call. `prepare` changes the cluster before "bad" and "good" are scheduled in it.
/// `defused` changes the cluster so that "bad" fits once the bomb is disarmed.
fn set_off(
    call: &'static str,
    plugin: &str,
    bad: &Pod,
    prepare: impl Fn(&mut World),
    defused: impl Fn(&mut World),
) {
    let (mut world, mut reports, mut bound) = (world(), Reports::default(), BTreeMap::new());
    let nodes = [labelled("a", 1000, "calm"), labelled("b", 1000, "calm")];
    nodes.iter().for_each(|node| world.set_node(node.clone()));
    prepare(&mut world);
    *ARMED.lock().unwrap() = Some(call);
    world.add_pod(bad.clone());
    world.add_pod(pod("good", 50));
    reports.drive(&mut world, &mut bound);
    world.input(Input::Node(labelled("a", 1000, "changed")));
    world.wait(Duration::from_secs(4));
    reports.drive(&mut world, &mut bound);
    let named = if plugin == "Ledger" { "Index" } else { call };
    assert!(reports.names(&[plugin, named, "boom"]), "{call}: {:?}", reports.0);
    assert!(bound.contains_key("good"), "{call}: {:?}", reports.0);
    *ARMED.lock().unwrap() = None;
    defused(&mut world);
    world.input(Input::Node(labelled("a", 1000, "calm")));
    world.wait(Duration::from_secs(30));
    reports.drive(&mut world, &mut bound);
    assert!(bound.contains_key("bad"), "{call}: {:?}", reports.0);
    let pods = world.pods().to_vec();
    for pod in &pods {
        bound.extend(pod.node_name.as_ref().map(|node| (pod.name.to_string(), node.to_string())));
    }
    assert_eq!(known(&mut world), known(&mut world_anew(&world.nodes(), &bound, &pods)), "{call}");
}

/// The plugin panics when a pod is taken out of the queue, because the remaining pods are then compared.
fn a_panic_in_queue_sort_is_reported_after_every_pod_has_entered() {
    let (mut world, mut reports, mut bound) = (world(), Reports::default(), BTreeMap::new());
    world.set_node(labelled("a", 1000, "calm"));
    for name in ["first", "bad", "good"] {
        world.add_pod(pod(name, 50));
    }
    *ARMED.lock().unwrap() = Some("QueueSort");
    reports.drive(&mut world, &mut bound);
    *ARMED.lock().unwrap() = None;
    assert!(reports.names(&["Bomb", "QueueSort", "boom"]), "{:?}", reports.0);
    assert_eq!(bound.len(), 3, "{:?}", reports.0);
}

#[test]
fn a_panic_at_any_point_fails_its_pod_and_affects_no_other_pod() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some("boom") {
            usual(panic);
        }
    }));
    let (bad, nothing) = (pod("bad", 100), |_: &mut World| {});
    for call in [
        "PreEnqueue",
        "QueueSort",
        "Sign",
        "PreFilter",
        "Filter",
        "PreScore",
        "Score",
        "NormalizeScore",
        "Reserve",
        "Unreserve",
        "Permit",
        "PreBindPreFlight",
        "QueueingHint",
        "Index",
    ] {
        set_off(call, "Bomb", &bad, nothing, nothing);
    }
    let chosen = |world: &mut World| {
        let mut chosen = with_priority(pod("chosen", 10), 10);
        chosen.status.nominated_node_name = Some("a".into());
        world.add_pod(chosen);
    };
    set_off("AddPod", "Bomb", &bad, chosen, nothing);
    let large = pod("bad", 5000);
    let room = |world: &mut World| world.set_node(labelled("c", 6000, "calm"));
    set_off("PostFilter", "Bomb", &large, nothing, room);
    let full = |world: &mut World| {
        world.add_bound_pod(pod("low-a", 900), "a");
        world.add_bound_pod(pod("low-b", 900), "b");
    };
    let preemptor = with_priority(pod("bad", 900), 10);
    set_off("RemovePod", "Bomb", &preemptor, full, |world| world.remove_pod("low-a"));
    // These are not separate tests, because tests run in parallel and share the static `ARMED`.
    a_panic_in_queue_sort_is_reported_after_every_pod_has_entered();
    an_index_is_complete_again_after_a_panic();
}

/// Applies `news`, a change on which the index panics between two scheduling cycles, and then `other`, another change
/// to the same object. Checks that the index is complete afterwards.
fn disturb_index(
    call: &'static str,
    prepare: impl Fn(&mut World),
    news: impl Fn(&mut World),
    other: impl Fn(&mut World),
) {
    let (mut world, mut reports, mut bound) = (world(), Reports::default(), BTreeMap::new());
    let nodes = [labelled("a", 1000, "calm"), labelled("b", 1000, "calm")];
    nodes.iter().for_each(|node| world.set_node(node.clone()));
    prepare(&mut world);
    *ARMED.lock().unwrap() = Some(call);
    news(&mut world);
    world.add_pod(pod("good", 50));
    reports.drive(&mut world, &mut bound);
    assert!(reports.names(&["Ledger", "boom"]), "{call}: {:?}", reports.0);
    assert!(bound.contains_key("good"), "{call}: {:?}", reports.0);
    *ARMED.lock().unwrap() = None;
    other(&mut world);
    let pods = world.pods().to_vec();
    let there = pods.iter().filter_map(|p| Some((p.name.to_string(), p.node_name.as_ref()?.to_string())));
    bound.extend(there);
    assert_eq!(known(&mut world), known(&mut world_anew(&world.nodes(), &bound, &pods)), "{call}");
}

fn an_index_is_complete_again_after_a_panic() {
    let (bad, nothing) = (pod("bad", 100), |_: &mut World| {});
    set_off("pod_joined", "Ledger", &bad, nothing, nothing);
    let bound = |world: &mut World| world.add_bound_pod(pod("bad", 100), "a");
    disturb_index("pod_left", bound, |world| world.remove_pod("bad"), nothing);
    disturb_index("pod_changed", bound, bound, bound);
    let node = |mood: &'static str| move |world: &mut World| world.set_node(labelled("b", 1000, mood));
    disturb_index("node_changed", nothing, node("bad"), node("calm"));
    let namespace = |world: &mut World| {
        world.input(Input::Object(Object::Namespace(Namespace {
            name: "bad".into(),
            ..Namespace::default()
        })));
    };
    disturb_index("object_changed", nothing, namespace, nothing);
}

/// A plugin whose index cannot be constructed.
#[derive(Default)]
struct Hollow;

#[derive(Debug)]
struct Unconstructible;

impl Default for Unconstructible {
    fn default() -> Self {
        panic!("no index today")
    }
}

impl Index for Unconstructible {
    fn pod_joined(&mut self, _: ClusterView<'_>, _: NodeIdx, _: &PodInfo) {}
    fn pod_left(&mut self, _: ClusterView<'_>, _: NodeIdx, _: &PodInfo) {}
}

impl Plugin for Hollow {
    const NAME: &'static str = "Hollow";
    implemented_points!();
}

impl Indexed for Hollow {
    type Index = Unconstructible;
}

impl Filter for Hollow {
    fn filter(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> Verdict {
        Ok(())
    }
}

#[test]
fn an_index_that_cannot_be_constructed_fails_each_pod_with_an_error_that_names_it() {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Hollow>();
    let points: &[(&str, &[&str])] =
        &[("QueueSort", &["PrioritySort"]), ("Filter", &["Hollow"]), ("Bind", &["DefaultBinder"])];
    let mut world = World::with(EngineConfig::new(vec![harbormaster_testkit::profile(&registry, points)]));
    world.set_node(node("a", 1000));
    world.add_pod(pod("p", 1));
    let attempted = world.attempt().unwrap();
    let Outcome::Error(error) = &attempted.outcome else { panic!("{attempted:?}") };
    assert!(error.contains("Hollow") && error.contains("Unconstructible"), "{error}");
}
