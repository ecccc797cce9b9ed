//! Data that clients do not read does not accumulate. This is the only test in its binary, so it has the process's
//! memory to itself.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]
#![cfg(target_os = "linux")]

#[path = "it/wire/mod.rs"]
mod wire;

use harbormaster_apiserver::Options;
use serde_json::json;
use wire::{Client, PODS};

const MAPS: &str = "/api/v1/configmaps";

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_is_not_queued_for_fifty_clients_that_do_not_read() {
    let (server, running) = wire::serve(Options { history: 300, ..Options::default() }).await;
    let (store, address) = (server.store(), running.address());
    let map = |i: usize, text: &str| json!({"metadata": {"name": format!("m{i}")}, "data": {"text": text}});
    for i in 0..20 {
        store.create("configmaps", map(i, "")).unwrap();
    }
    let mut watchers = Vec::new();
    for _ in 0..50 {
        watchers.push(Client::connect(address).await.watch(&format!("{MAPS}?watch=true")).await);
    }
    let before = resident_mib();
    let mut most = 0;
    for round in 0..2500 {
        let text = format!("{round}{}", "x".repeat(60_000));
        store
            .merge("configmaps", "default", &format!("m{}", round % 20), false, &map(round % 20, &text))
            .unwrap();
        if round % 100 == 0 {
            // Other clients are served.
            assert_eq!(Client::connect(address).await.get(PODS).await.code, 200);
            most = most.max(resident_mib() - before);
        }
    }
    // 150 MB have been written, of which the history keeps 18 MB; fifty queues would take 7 GB.
    assert!(most < 120, "{most} MiB");
}
