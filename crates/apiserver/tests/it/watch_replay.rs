//! Watches are complete: a client that applies the events of a watch to its state has, at every version, the state that
//! a list would show. Many clients write concurrently; watchers come, go, resume and fall behind.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harbormaster_apiserver::Options;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::wire::{self, Client, Lines};

/// Random numbers that are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as usize % end
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Watched views: a collection and a selector.
const VIEWS: [&str; 10] = [
    "/api/v1/pods?",
    "/api/v1/namespaces/default/pods?",
    "/api/v1/namespaces/other/pods?labelSelector=app",
    "/api/v1/pods?labelSelector=app%3Da",
    "/api/v1/pods?labelSelector=app%20notin%20(a,b)",
    "/api/v1/pods?fieldSelector=spec.nodeName%3D",
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1,status.phase%21%3DFailed&labelSelector=app%21%3Dc",
    "/api/v1/pods?fieldSelector=status.phase%3DRunning",
    "/api/v1/nodes?",
    "/api/v1/nodes?labelSelector=zone%3Da",
];

/// State known to a watcher: versions by namespace and name.
type Known = BTreeMap<(String, String), u64>;

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn key(object: &Value) -> (String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

async fn list(client: &mut Client, view: &str, more: &str) -> (Known, u64) {
    let answer = client.get(&format!("{view}{more}")).await;
    assert_eq!(answer.code, 200, "{view}{more}");
    let list = answer.json();
    let items = list["items"].as_array().unwrap();
    (items.iter().map(|item| (key(item), version(item))).collect(), version(&list))
}

/// A watch that is being replayed.
#[derive(Debug, Default)]
struct Replay {
    known: Known,
    /// Last version reported.
    version: u64,
    /// True if all events so far may belong to the first list, because they are in key order.
    first: bool,
}

impl Replay {
    /// Applies an event. Returns true for a bookmark.
    fn apply(&mut self, event: &Value) -> bool {
        let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
        let now = version(object);
        if kind == "BOOKMARK" {
            assert!(self.first || now >= self.version, "{event} behind {}", self.version);
            self.version = self.version.max(now);
            self.first &= object["metadata"]["annotations"]["k8s.io/initial-events-end"] != "true";
            return true;
        }
        let key = key(object);
        self.first &= kind == "ADDED" && self.known.keys().next_back().is_none_or(|last| *last < key);
        assert!(self.first || now > self.version, "{event} behind {}", self.version);
        let before = match kind {
            "ADDED" | "MODIFIED" => self.known.insert(key, now),
            "DELETED" => self.known.remove(&key),
            _ => panic!("{event}"),
        };
        assert_eq!(before.is_some(), kind != "ADDED", "{event}");
        assert!(before < Some(now), "{event}");
        self.version = self.version.max(now);
        false
    }
}

const NAMESPACES: [&str; 2] = ["default", "other"];
const NODES: [&str; 4] = ["node-0", "node-1", "node-2", "node-3"];

/// Writes at random. Some writes fail because of concurrent writes.
async fn write(address: SocketAddr, mut random: Random, written: Arc<AtomicUsize>) {
    let mut client = Client::connect(address).await;
    for _ in 0..ROUNDS {
        let name = format!("pod-{}", random.below(30));
        let base = format!("/api/v1/namespaces/{}/pods", random.of(&NAMESPACES));
        let path = format!("{base}/{name}");
        let app = random.of(&["a", "b", "c"]);
        let node = random.of(&NODES);
        let answer = match random.below(16) {
            0..5 => {
                let finalizers = if random.below(4) == 0 { json!(["example.com/wait"]) } else { json!([]) };
                let labels = if random.below(5) == 0 { json!({}) } else { json!({"app": app}) };
                let metadata = json!({"name": name, "labels": labels, "finalizers": finalizers});
                let spec = json!({"containers": [{"name": "c", "image": "i"}]});
                client.post(&base, &json!({"metadata": metadata, "spec": spec})).await
            }
            5 => {
                let found = client.get(&path).await;
                let mut pod =
                    if found.code == 200 { found.json() } else { json!({"metadata": {"name": name}}) };
                pod["metadata"]["labels"] = json!({"app": app});
                client.send("PUT", &path, wire::JSON, pod.to_string()).await
            }
            6 => client.patch(&path, "merge-patch", &json!({"metadata": {"labels": {"app": app}}})).await,
            7 => {
                let patch = json!({"metadata": {"labels": {"app": null}, "finalizers": null}});
                client.patch(&path, "strategic-merge-patch", &patch).await
            }
            8 => {
                let patch = json!([{"op": "test", "path": "/metadata/labels/app", "value": "a"},
                                   {"op": "replace", "path": "/metadata/labels/app", "value": "b"}]);
                client.patch(&path, "json-patch", &patch).await
            }
            9 => {
                let phase = random.of(&["Running", "Succeeded", "Failed"]);
                client
                    .patch(&format!("{path}/status"), "merge-patch", &json!({"status": {"phase": phase}}))
                    .await
            }
            10..12 => {
                let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
                client.post(&format!("{path}/binding"), &binding).await
            }
            12 => client.send("DELETE", &path, wire::JSON, "").await,
            13 => client.send("DELETE", &format!("{path}?gracePeriodSeconds=0"), wire::JSON, "").await,
            14 => {
                let labels = json!({"zone": random.of(&["a", "b"])});
                client.post("/api/v1/nodes", &json!({"metadata": {"name": node, "labels": labels}})).await
            }
            _ => {
                let path = format!("/api/v1/nodes/{node}");
                if random.below(3) == 0 {
                    client.send("DELETE", &path, wire::JSON, "").await
                } else {
                    let patch = json!({"metadata": {"labels": {"zone": random.of(&["a", "b"])}}});
                    client.patch(&path, "merge-patch", &patch).await
                }
            }
        };
        written.fetch_add(1, Ordering::Relaxed);
        assert!(matches!(answer.code, 200 | 201 | 404 | 409 | 422), "{} {}", answer.code, answer.json());
    }
}

/// State that all watchers of a test share.
#[derive(Clone)]
struct Scene {
    address: SocketAddr,
    /// Number of completed requests.
    written: Arc<AtomicUsize>,
    /// Final lists, in the order of the views; empty until everything is written.
    last: watch::Receiver<Vec<Known>>,
}

/// The way in which a watcher starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Lists, then watches from the version of the list.
    List,
    /// Watches without a version, so existing objects come first.
    Now,
    /// Streams the list (`sendInitialEvents`).
    Stream,
}

impl Scene {
    async fn begin(&self, view: &str, start: Start) -> (Replay, Lines) {
        let mut client = Client::connect(self.address).await;
        let mut replay = Replay { first: start != Start::List, ..Replay::default() };
        let query = match start {
            Start::List => {
                (replay.known, replay.version) = list(&mut client, view, "").await;
                format!("resourceVersion={}&allowWatchBookmarks=true", replay.version)
            }
            Start::Now => "allowWatchBookmarks=true".to_owned(),
            Start::Stream => {
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned()
            }
        };
        (replay, client.watch(&format!("{view}&watch=true&{query}")).await)
    }

    /// Continues a watch at the last version that it reported.
    async fn resume(&self, view: &str, replay: &Replay) -> Lines {
        let client = Client::connect(self.address).await;
        client.watch(&format!("{view}&watch=true&resourceVersion={}", replay.version)).await
    }

    /// Watches until everything is written and the watcher knows the final list. Events that still arrive afterwards
    /// must lead back to the same list. `restless` is the number of events after which the watcher reconnects. A
    /// watcher that is not `eager` reads nothing until everything is written.
    async fn replay(self, view: usize, start: Start, restless: Option<usize>, eager: bool) {
        let (path, mut last) = (VIEWS[view], self.last.clone());
        let mut client = Client::connect(self.address).await;
        let (mut replay, mut lines) = self.begin(path, start).await;
        if !eager {
            last.wait_for(|last| !last.is_empty()).await.unwrap();
        }
        let mut count = 0;
        while last.borrow().get(view) != Some(&replay.known) {
            let event = tokio::select! {
                event = lines.next() => event.expect("the watch continues"),
                Ok(()) = last.changed() => continue,
            };
            if replay.apply(&event) {
                let exact = format!("&resourceVersion={}&resourceVersionMatch=Exact", replay.version);
                assert_eq!(list(&mut client, path, &exact).await.0, replay.known, "{path}");
            }
            count += 1;
            if restless.is_some_and(|events| count % events == 0) && !replay.first {
                lines = self.resume(path, &replay).await;
            }
        }
        while let Ok(event) = timeout(Duration::from_millis(20), lines.next()).await {
            replay.apply(&event.expect("the watch continues"));
        }
        assert_eq!(last.borrow().get(view), Some(&replay.known), "{path}");
    }
}

const WRITERS: u64 = 6;
const ROUNDS: usize = 150;

async fn everybody_at_once(seed: u64) {
    let (_server, running) = wire::serve(Options { seed: Some(seed), ..Options::default() }).await;
    let (sender, last) = watch::channel(Vec::new());
    let scene = Scene { address: running.address(), written: Arc::default(), last };
    let mut client = Client::connect(scene.address).await;
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await;

    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (address, written) = (scene.address, scene.written.clone());
        writers.spawn(write(address, Random(seed << 8 | writer), written));
    }
    let mut watchers = JoinSet::new();
    let mut random = Random(!seed);
    for wave in 0..3 {
        // The first watchers start together with the writers, all later ones while the writers are writing.
        while scene.written.load(Ordering::Relaxed) < wave * 2 * ROUNDS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for view in 0..VIEWS.len() {
            for start in [Start::List, Start::Now, Start::Stream] {
                let restless = (random.below(2) == 0).then(|| 1 + random.below(40));
                watchers.spawn(scene.clone().replay(view, start, restless, random.below(4) > 0));
            }
        }
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    let mut lists = Vec::new();
    for view in VIEWS {
        lists.push(list(&mut client, view, "").await.0);
    }
    sender.send_replace(lists);
    while let Some(ended) = timeout(Duration::from_secs(120), watchers.join_next()).await.unwrap() {
        ended.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn applied_events_lead_to_the_listed_state() {
    for seed in 1..=3 {
        everybody_at_once(seed).await;
    }
}
