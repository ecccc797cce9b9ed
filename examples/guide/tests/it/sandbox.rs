//! Runs the guide's plugins in the real scheduler, against an in-process API server.

use std::time::Duration;

use guide::{Gang, Gpu, Headroom, NoMaintenance, Seats, TenantLimit};
use harbormaster::{
    Scheduler,
    sandbox::{Board, Options, PodState, Sandbox},
    serde_json::{Value, json},
    simulation::Source,
};

/// Time limit for a step, far longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a sandbox with the configuration and manifests of one chapter.
async fn sandbox(config: &str, manifests: &[&str]) -> Sandbox {
    let scheduler = Scheduler::builder()
        .plugin::<Gpu>()
        .plugin::<Headroom>()
        .plugin::<NoMaintenance>()
        .plugin::<TenantLimit>()
        .plugin::<Gang>()
        .plugin::<Seats>()
        .config("scheduler.yaml", config)
        .build()
        .unwrap();
    let source = |text: &&str| Source { name: "cluster.yaml".to_owned(), text: (*text).to_owned() };
    let options = Options { manifests: manifests.iter().map(source).collect(), ..Options::default() };
    scheduler.sandbox(options).await.unwrap()
}

fn node_of<'a>(board: &'a Board, pod: &str) -> Option<&'a str> {
    board.pod(pod)?.node.as_deref()
}

fn is_rejected(board: &Board, pod: &str, why: &str) -> bool {
    let message = board.pod(pod).and_then(|pod| pod.message.as_deref());
    message.is_some_and(|message| message.contains(why))
}

fn plain_pod(name: &str, labels: Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

#[tokio::test]
async fn gpu_pods_get_the_best_free_node_and_urgent_pods_choose_first() {
    let config = include_str!("../../gpu/scheduler.yaml");
    let mut sandbox = sandbox(config, &[include_str!("../../gpu/cluster.yaml")]).await;
    let decided = sandbox.shows(PATIENCE, |board| {
        board.count(PodState::Placed) == 2 && board.count(PodState::Unschedulable) == 1
    });
    assert!(decided.await, "{:?}", sandbox.board);
    assert_eq!(node_of(&sandbox.board, "default/urgent"), Some("new"));
    assert_eq!(node_of(&sandbox.board, "default/batch"), Some("old"));
    assert!(is_rejected(&sandbox.board, "default/huge", "3 node(s) have too little GPU memory"));
}

#[tokio::test]
async fn a_deleted_pod_makes_room_for_one_that_headroom_rejected() {
    let config = include_str!("../../headroom/scheduler.yaml");
    let mut sandbox = sandbox(config, &[include_str!("../../headroom/cluster.yaml")]).await;
    let why = "1 node(s) would have too little memory left";
    assert!(sandbox.shows(PATIENCE, |board| is_rejected(board, "default/second", why)).await);
    sandbox.store().delete("pods", "default", "first", Some(0)).unwrap();
    assert!(sandbox.shows(PATIENCE, |board| node_of(board, "default/second").is_some()).await);
}

#[tokio::test]
async fn the_end_of_a_maintenance_wakes_the_pods_that_it_kept_away() {
    let config = include_str!("../../maintenance/scheduler.yaml");
    let definition = include_str!("../../maintenance/definition.yaml");
    let mut sandbox = sandbox(config, &[definition, include_str!("../../maintenance/cluster.yaml")]).await;
    let why = "1 node(s) are under maintenance (new cables)";
    assert!(sandbox.shows(PATIENCE, |board| is_rejected(board, "default/rack-1-only", why)).await);
    sandbox.store().delete("maintenances.example.com", "", "cables", None).unwrap();
    let there = |board: &Board| node_of(board, "default/rack-1-only") == Some("rack-1-a");
    assert!(sandbox.shows(PATIENCE, there).await, "{:?}", sandbox.board);
}

#[tokio::test]
async fn a_tenant_gets_another_pod_when_one_of_its_pods_is_gone() {
    let config = include_str!("../../tenants/scheduler.yaml");
    let nodes = include_str!("../../tenants/cluster.yaml").split("---").next().unwrap();
    let mut sandbox = sandbox(config, &[nodes]).await;
    for name in ["a", "b"] {
        sandbox.store().create("pods", plain_pod(name, json!({"example.com/tenant": "red"}))).unwrap();
    }
    assert!(sandbox.shows(PATIENCE, |board| board.count(PodState::Placed) == 2).await);
    sandbox.store().create("pods", plain_pod("c", json!({"example.com/tenant": "red"}))).unwrap();
    let why = "tenant red has 2 pods, which is all it may have";
    assert!(sandbox.shows(PATIENCE, |board| is_rejected(board, "default/c", why)).await);
    sandbox.store().delete("pods", "default", "a", Some(0)).unwrap();
    assert!(sandbox.shows(PATIENCE, |board| node_of(board, "default/c").is_some()).await);
}

#[tokio::test]
async fn pods_of_a_gang_wait_for_its_last_pod() {
    let config = include_str!("../../gang/scheduler.yaml").replace("10", "600");
    let nodes = include_str!("../../gang/cluster.yaml").split("---").next().unwrap();
    let mut sandbox = sandbox(&config, &[nodes]).await;
    let member = |name| plain_pod(name, json!({"example.com/gang": "g", "example.com/gang-size": "3"}));
    for name in ["a", "b", "alone"] {
        let pod = if name == "alone" { plain_pod(name, json!({})) } else { member(name) };
        sandbox.store().create("pods", pod).unwrap();
    }
    assert!(sandbox.shows(PATIENCE, |board| node_of(board, "default/alone").is_some()).await);
    assert_eq!(sandbox.board.count(PodState::Placed), 1);
    sandbox.store().create("pods", member("c")).unwrap();
    assert!(sandbox.shows(PATIENCE, |board| board.count(PodState::Placed) == 4).await, "{:?}", sandbox.board);
}

#[tokio::test]
async fn a_returned_seat_goes_to_the_pod_that_waits_for_it() {
    let config = include_str!("../../licenses/scheduler.yaml");
    let definition = include_str!("../../licenses/definition.yaml");
    let mut sandbox = sandbox(config, &[definition, include_str!("../../licenses/cluster.yaml")]).await;
    let full =
        |board: &Board| board.count(PodState::Placed) == 2 && board.count(PodState::Unschedulable) == 1;
    assert!(sandbox.shows(PATIENCE, full).await, "{:?}", sandbox.board);
    let license = sandbox.store().get("licenses.example.com", "default", "pro").unwrap();
    let holders = license.value()["status"]["holders"].as_object().unwrap().clone();
    assert_eq!(holders.len(), 2, "{holders:?}");
    let given_back = json!({"status": {"holders": {holders.keys().next().unwrap(): null}}});
    sandbox.store().merge("licenses.example.com", "default", "pro", true, &given_back).unwrap();
    assert!(sandbox.shows(PATIENCE, |board| board.count(PodState::Placed) == 3).await, "{:?}", sandbox.board);
}
