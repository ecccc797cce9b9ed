//! The real scheduler with a plugin whose source is an HTTP server.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use std::time::Duration;

use harbormaster::{
    Scheduler,
    sandbox::{Board, Options, Sandbox, Source},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use trimaran::LoadVariationRiskBalancing;

const PATIENCE: Duration = Duration::from_secs(30);

const CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: busy}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}, allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: idle}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}, allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: default}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: second, namespace: default}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: third, namespace: default}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
"#;

/// Starts a load-watcher that always sends the same answer, and returns its address.
async fn load_watcher(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            // The scheduler may have gone.
            let _ = stream.read(&mut request).await;
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    address
}

async fn sandbox(address: &str) -> Sandbox {
    let config = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n    \
         score: {{enabled: [{{name: LoadVariationRiskBalancing, weight: 100}}]}}\n  pluginConfig:\n  - name: \
         LoadVariationRiskBalancing\n    args: {{watcherAddress: \"{address}\"}}\n"
    );
    let builder =
        Scheduler::builder().plugin::<LoadVariationRiskBalancing>().config("scheduler.yaml", config);
    let manifests = vec![Source { name: "cluster.yaml".to_owned(), text: CLUSTER.to_owned() }];
    let options = Options { manifests, ..Options::default() };
    builder.build().unwrap().sandbox(options).await.unwrap()
}

fn nodes(board: &Board) -> Vec<String> {
    let node = |pod: &str| board.pod(pod).and_then(|pod| pod.node.clone()).unwrap_or_default();
    ["default/first", "default/second", "default/third"].map(node).to_vec()
}

#[tokio::test]
async fn pods_avoid_the_node_that_load_watcher_reports_as_busy() {
    let report = r#"{"timestamp": 1, "window": {"duration": "15m", "end": 0}, "source": "Prometheus", "data": {"NodeMetricsMap": {
        "busy": {"metrics": [{"type": "CPU", "operator": "AVG", "value": 90}]},
        "idle": {"metrics": [{"type": "CPU", "operator": "AVG", "value": 10}]}}}}"#;
    let mut sandbox = sandbox(&load_watcher(report).await).await;
    let there = sandbox.shows(PATIENCE, |board| nodes(board) == ["idle"; 3]).await;
    assert!(there, "{:?}", nodes(&sandbox.board));
}

#[tokio::test]
async fn pods_are_placed_even_if_the_source_is_broken() {
    for address in ["http://127.0.0.1:1".to_owned(), load_watcher("nonsense").await] {
        let mut sandbox = sandbox(&address).await;
        let placed = |board: &Board| nodes(board).iter().all(|node| !node.is_empty());
        assert!(sandbox.shows(PATIENCE, placed).await, "{:?}", nodes(&sandbox.board));
    }
}
