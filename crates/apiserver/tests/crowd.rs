//! A thousand concurrent watches. This is the only test in its binary, so it has the process's file descriptors to
//! itself.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

#[path = "it/wire/mod.rs"]
mod wire;

use std::time::Duration;

use harbormaster_apiserver::Options;
use serde_json::{Value, json};
use tokio::{runtime::Handle, task::JoinSet, time::sleep};
use wire::{Client, PODS};

/// Returns 1000, or fewer if this process may not open enough files for 1000 clients.
fn crowd() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = files.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(1024);
    // Each watch needs two file descriptors, because both ends of its connection are in this process.
    1000.min(most.saturating_sub(200) / 2)
}

/// Returns an event's type and the version of its object.
fn told(event: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["resourceVersion"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watches_report_everything_and_leave_nothing_behind() {
    const PODS_EACH: usize = 12;
    let (_server, running) = wire::serve(Options::default()).await;
    let address = running.address();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut watchers = JoinSet::new();
    for _ in 0..crowd() {
        let mut lines = Client::connect(address).await.watch("/api/v1/pods?watch=true").await;
        watchers.spawn(async move {
            let mut all = Vec::new();
            while all.len() < 3 * PODS_EACH {
                all.push(told(&lines.next().await.unwrap()));
            }
            (lines, all)
        });
    }
    let mut client = Client::connect(address).await;
    let mut expected = Vec::new();
    let mut expect = |kind: &str, object: &Value| {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap();
        expected.push((kind.to_owned(), version.to_owned()));
    };
    for i in 0..PODS_EACH {
        let path = format!("{PODS}/pod-{i}");
        let pod = json!({"metadata": {"name": format!("pod-{i}")}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        expect("ADDED", &client.post(PODS, &pod).await.json());
        let binding =
            json!({"metadata": {"name": format!("pod-{i}")}, "target": {"kind": "Node", "name": "n"}});
        let bound = client.post(&format!("{path}/binding"), &binding).await;
        assert_eq!(bound.code, 201);
        expect("MODIFIED", &client.get(&path).await.json());
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        expect("MODIFIED", &client.patch(&path, "merge-patch", &patch).await.json());
    }
    let mut open = Vec::new();
    while let Some(watcher) = watchers.join_next().await {
        let (lines, all) = watcher.unwrap();
        assert_eq!(all, expected);
        open.push(lines);
    }
    assert!(tasks() >= before + open.len());
    drop((open, client));
    // The server takes a moment to notice that the watches are gone.
    while tasks() > before {
        sleep(Duration::from_millis(5)).await;
    }
}
