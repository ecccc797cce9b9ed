//! Every watch reports the events of a naive model, which keeps all states and compares each state with the next.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    http::Request,
};
use futures_util::{StreamExt, stream::Fuse};
use harbormaster_apiserver::{ApiServer, Options};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use tokio::time::{advance, sleep, timeout};
use tower::ServiceExt;

/// Longer than the interval between bookmarks.
const PAUSE: Duration = Duration::from_secs(61);

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8),
    Label(u8, u8),
    Cordon(u8, bool),
    Delete(u8),
    /// A write that no watcher sees.
    Elsewhere,
    /// A watcher of a view joins. It starts the given number of versions back.
    Watch(usize, u64),
    /// A watcher reads its pending events.
    Read(usize),
    /// Nothing happens for so long that bookmarks fall due.
    Pause,
    /// A new watcher continues at the position of an existing one.
    Resume(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8, 0..3u8).prop_map(|(node, label)| Step::Create(node, label)),
        4 => (0..6u8, 0..3u8).prop_map(|(node, label)| Step::Label(node, label)),
        3 => (0..6u8, any::<bool>()).prop_map(|(node, on)| Step::Cordon(node, on)),
        2 => (0..6u8).prop_map(Step::Delete),
        1 => Just(Step::Elsewhere),
        2 => (0..VIEWS.len(), 0..12u64).prop_map(|(view, back)| Step::Watch(view, back)),
        3 => (0..8usize).prop_map(Step::Read),
        1 => Just(Step::Pause),
        1 => (0..8usize).prop_map(Step::Resume),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    version: u64,
    label: u8,
    cordoned: bool,
}

type State = BTreeMap<u8, Node>;

/// Query of a view, and the filter that selects the same nodes.
type View = (&'static str, fn(u8, &Node) -> bool);

const VIEWS: [View; 6] = [
    ("", |_, _| true),
    ("&labelSelector=l%3D1", |_, node| node.label == 1),
    ("&labelSelector=l%21%3D1", |_, node| node.label != 1),
    ("&fieldSelector=spec.unschedulable%3Dtrue", |_, node| node.cordoned),
    ("&fieldSelector=metadata.name%3Dnode-2", |name, _| name == 2),
    ("&fieldSelector=spec.unschedulable%3Dfalse&labelSelector=l%20in%20(0,2)", |_, node| {
        !node.cordoned && node.label != 1
    }),
];

/// Type of an event; name and version of its object.
type Told = (String, String, u64);

/// All states so far with their versions, the oldest first.
struct Model(Vec<(u64, State)>);

impl Model {
    fn now(&self) -> &State {
        self.0.last().map(|(_, state)| state).unwrap()
    }

    /// Returns the events after a version for the selected nodes.
    fn told(&self, selects: fn(u8, &Node) -> bool, behind: u64) -> Vec<Told> {
        let mut told = Vec::new();
        for pair in self.0.windows(2) {
            let [(_, old), (version, new)] = pair else { continue };
            for name in 0..6 {
                let at = |state: &State| state.get(&name).copied();
                let seen = |state: &State| at(state).is_some_and(|node| selects(name, &node));
                let event = match (seen(old), seen(new)) {
                    (false, true) => "ADDED",
                    (true, false) => "DELETED",
                    (true, true) if at(old) != at(new) => "MODIFIED",
                    _ => continue,
                };
                if *version > behind {
                    told.push((event.to_owned(), format!("node-{name}"), *version));
                }
            }
        }
        told
    }
}

struct Watcher {
    view: View,
    start: u64,
    pieces: Fuse<BodyDataStream>,
    told: Vec<Told>,
    /// Version of the last bookmark.
    bookmark: u64,
    expired: bool,
}

impl Watcher {
    async fn new(server: &ApiServer, view: View, start: u64) -> Self {
        let uri = format!(
            "/api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds=100000&resourceVersion={start}{}",
            view.0
        );
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        let response = server.router().oneshot(request).await.unwrap();
        let pieces = response.into_body().into_data_stream().fuse();
        Self { view, start, pieces, told: Vec::new(), bookmark: 0, expired: false }
    }

    /// Reads all pending events.
    async fn read(&mut self) {
        while self.read_piece(Duration::from_millis(1)).await {}
    }

    /// Reads the next piece. Returns false if none arrives within `patience`. Time advances only when nothing else can
    /// run.
    async fn read_piece(&mut self, patience: Duration) -> bool {
        let Ok(Some(piece)) = timeout(patience, self.pieces.next()).await else { return false };
        assert!(!self.expired, "nothing comes after the error");
        for line in piece.unwrap().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            let (object, kind) = (&event["object"], event["type"].as_str().unwrap());
            let version = || object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            match kind {
                "BOOKMARK" => {
                    assert!(version() >= self.last(), "the bookmark is older than an event before it");
                    self.bookmark = version();
                }
                "ERROR" => {
                    assert_eq!((&object["code"], &object["reason"]), (&json!(410), &json!("Expired")));
                    self.expired = true;
                }
                _ => {
                    assert!(version() > self.bookmark, "the event is older than a bookmark before it");
                    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                    self.told.push((kind.to_owned(), name, version()));
                }
            }
        }
        true
    }

    fn last(&self) -> u64 {
        self.told.last().map_or(self.start, |told| told.2).max(self.bookmark)
    }
}

async fn play(steps: Vec<Step>, history: usize) {
    let server = ApiServer::new(Options { history, ..Options::default() });
    let store = server.store();
    let mut model = Model(vec![(store.version(), State::new())]);
    let mut watchers: Vec<Watcher> = Vec::new();
    for step in steps {
        let mut state = model.now().clone();
        let label = |label: u8| json!({"l": label.to_string()});
        match step {
            Step::Create(name, number) => {
                let node = json!({"metadata": {"name": format!("node-{name}"), "labels": label(number)}});
                let created = store.create("nodes", node);
                assert_eq!(created.is_ok(), !state.contains_key(&name));
                state.entry(name).or_insert(Node { version: 0, label: number, cordoned: false });
            }
            Step::Label(name, number) => {
                let patch = json!({"metadata": {"labels": label(number)}});
                let patched = store.merge("nodes", "", &format!("node-{name}"), false, &patch);
                assert_eq!(patched.is_ok(), state.contains_key(&name));
                state.entry(name).and_modify(|node| node.label = number);
            }
            Step::Cordon(name, on) => {
                let patch = json!({"spec": {"unschedulable": on.then_some(true)}});
                let patched = store.merge("nodes", "", &format!("node-{name}"), false, &patch);
                assert_eq!(patched.is_ok(), state.contains_key(&name));
                state.entry(name).and_modify(|node| node.cordoned = on);
            }
            Step::Delete(name) => {
                let deleted = store.delete("nodes", "", &format!("node-{name}"), None);
                assert_eq!(deleted.is_ok(), state.remove(&name).is_some());
            }
            Step::Elsewhere => {
                store.create("configmaps", json!({"metadata": {"generateName": "x"}})).unwrap();
            }
            Step::Watch(view, back) => {
                let start = store.version().saturating_sub(back).max(1);
                watchers.push(Watcher::new(&server, VIEWS[view], start).await);
            }
            Step::Read(which) => {
                if let Some(watcher) = watchers.get_mut(which) {
                    watcher.read().await;
                }
            }
            Step::Pause => sleep(PAUSE).await,
            Step::Resume(which) => {
                if let Some(watcher) = watchers.get(which).filter(|watcher| !watcher.expired) {
                    watchers.push(Watcher::new(&server, watcher.view, watcher.last()).await);
                }
            }
        }
        if &state != model.now() {
            let version = store.version();
            for (name, node) in &mut state {
                if model.now().get(name) != Some(node) {
                    node.version = version;
                }
            }
            model.0.push((version, state));
        }
    }
    for mut watcher in watchers {
        // The last bookmark follows all other events.
        while watcher.bookmark < store.version() && watcher.read_piece(Duration::from_secs(100)).await {}
        let expected = model.told(watcher.view.1, watcher.start);
        if watcher.expired {
            assert!(expected.starts_with(&watcher.told), "{:?} {expected:?}", watcher.told);
            let ahead = model.0.iter().filter(|(version, _)| *version > watcher.last()).count();
            assert!(
                ahead > history || watcher.start < model.0[0].0,
                "the watch expired although the history contained all that it needed"
            );
        } else {
            assert_eq!(watcher.told, expected, "{}", watcher.view.0);
            assert_eq!(watcher.bookmark, store.version());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_watch_reports_the_events_of_a_naive_model(steps in vec(step(), 0..120), history in prop_oneof![Just(1000), 1..12usize]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(steps, history));
    }
}

/// A bookmark falls due while the first list is still being read. Changes must nevertheless come after the list.
#[tokio::test(start_paused = true)]
async fn changes_follow_the_first_list_even_if_a_bookmark_falls_due_before_its_end() {
    let server = ApiServer::new(Options::default());
    let store = server.store();
    for i in 0..3000 {
        store.create("nodes", json!({"metadata": {"name": format!("node-{i:04}")}})).unwrap();
    }
    let mut watcher = Watcher::new(&server, VIEWS[0], 0).await;
    let first = watcher.pieces.next().await.unwrap().unwrap();
    assert!(first.len() < 200_000, "the list comes in pieces");
    store.merge("nodes", "", "node-2999", false, &json!({"spec": {"unschedulable": true}})).unwrap();
    advance(Duration::from_secs(61)).await;
    watcher.read().await;
    let (last, initial) = watcher.told.split_last().unwrap();
    assert!(initial.iter().all(|told| told.0 == "ADDED") && initial.is_sorted_by_key(|told| &told.1));
    assert_eq!((last.0.as_str(), last.1.as_str()), ("MODIFIED", "node-2999"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_in_the_future_is_silent_until_then() {
    let server = ApiServer::new(Options::default());
    let store = server.store();
    let start = store.version() + 2;
    let mut watcher = Watcher::new(&server, VIEWS[0], start).await;
    for i in 0..3 {
        store.create("nodes", json!({"metadata": {"name": format!("node-{i}")}})).unwrap();
    }
    watcher.read().await;
    assert_eq!(watcher.told, [("ADDED".to_owned(), "node-2".to_owned(), start + 1)]);
}

/// A resource that is removed and added again is a new resource, so no watch of the old resource may continue.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_custom_resource_ends_with_its_definition() {
    let server = ApiServer::new(Options::default());
    let store = server.store();
    let definition = |fields: Value| {
        json!({"metadata": {"name": "ships.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": fields,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                    "properties": {"size": {"type": "string"}}}}}}}]}})
    };
    let (definitions, ships) = ("customresourcedefinitions.apiextensions.k8s.io", "ships.example.com");
    let watch = |start: u64| {
        let path = format!("/apis/example.com/v1/ships?watch=true&resourceVersion={start}");
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = server.router().oneshot(request);
        async { response.await.unwrap().into_body().into_data_stream() }
    };
    let types = async |mut pieces: BodyDataStream| {
        let mut all = Vec::new();
        while let Some(piece) = timeout(Duration::from_secs(1), pieces.next()).await.expect("the watch ends")
        {
            all.extend_from_slice(&piece.unwrap());
        }
        let lines = all.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let event =
            |line| serde_json::from_slice::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned();
        lines.map(event).collect::<Vec<_>>()
    };
    store.create(definitions, definition(json!([]))).unwrap();
    let old = watch(store.version()).await;
    let ship = store.create(ships, json!({"metadata": {"name": "a"}, "spec": {"size": "large"}})).unwrap();
    store
        .update(definitions, "", ships, |it| {
            *it = {
                let mut new = definition(json!([{"jsonPath": ".spec.size"}]));
                new["metadata"] = it["metadata"].clone();
                new
            }
        })
        .unwrap();
    assert_eq!(types(old).await, ["ADDED", "ERROR"]);
    let (found, _) = store.list(ships, "", "", "spec.size=large").unwrap();
    assert_eq!(found[0].version(), ship.version(), "the objects are still there");
    let old = watch(store.version()).await;
    let before = store.version();
    store.delete(definitions, "", ships, None).unwrap();
    assert_eq!(types(old).await, ["DELETED", "ERROR"]);
    store.create(definitions, definition(json!([]))).unwrap();
    assert_eq!(types(watch(before).await).await, ["ERROR"]);
}
