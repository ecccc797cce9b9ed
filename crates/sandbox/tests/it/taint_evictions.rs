//! Pods leave nodes whose taints they do not tolerate, immediately or after a while.

use harbormaster_sandbox::STOPPED;

use super::*;

fn tolerating(name: &str, toleration: &str) -> String {
    pod(name, "100m").trim_end_matches("---\n").to_owned()
        + &format!("  tolerations: [{{{toleration}}}]\n---\n")
}

fn taint(sandbox: &Sandbox, taints: &Value) {
    sandbox.store().merge("nodes", "", "node-1", false, &json!({"spec": {"taints": taints}})).unwrap();
}

fn names(sandbox: &Sandbox) -> Vec<String> {
    sandbox.board.pods().map(|pod| pod.name.clone()).collect()
}

fn messages(sandbox: &Sandbox) -> Vec<String> {
    let (events, _) = sandbox.store().list("events", "", "", "reason=TaintManagerEviction").unwrap();
    let mut all: Vec<String> =
        events.iter().map(|event| event.value()["message"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_no_execute_taint_evicts_pods_immediately_or_when_their_toleration_ends() {
    let (some, all) =
        ("key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 60", "operator: Exists");
    let pods = [pod("plain", "100m"), tolerating("patient", some), tolerating("stays", all)].concat();
    let options = options(1, &pods);
    let clock = options.clock.clone();
    let mut sandbox = Sandbox::start(options).await.unwrap();
    assert!(sandbox.settled(LIMIT).await);
    taint(&sandbox, &json!([{"key": "a", "effect": "NoExecute"}]));
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(names(&sandbox), ["default/patient", "default/stays"]);
    assert_eq!(messages(&sandbox), ["Marking for deletion Pod default/plain"]);
    clock.advance(Duration::from_secs(61));
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(names(&sandbox), ["default/stays"]);
}

#[tokio::test]
async fn a_pod_whose_node_recovers_in_time_stays() {
    let options = options(1, &pod("web", "100m"));
    let clock = options.clock.clone();
    let mut sandbox = Sandbox::start(options).await.unwrap();
    assert!(sandbox.settled(LIMIT).await);
    let stop = |stopped: Value| {
        let patch = json!({"metadata": {"annotations": {STOPPED: stopped}}});
        sandbox.store().merge("nodes", "", "node-1", false, &patch).unwrap();
    };
    stop(json!("true"));
    // Nothing observable shows that the controller has seen the taint.
    tokio::time::sleep(Duration::from_secs(2)).await;
    clock.advance(Duration::from_secs(200));
    stop(Value::Null);
    eventually(|| messages(&sandbox) == ["Cancelling deletion of Pod default/web"]).await;
    stop(json!("true"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    clock.advance(Duration::from_secs(200));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(names(&sandbox), ["default/web"], "the 300 s start again");
    clock.advance(Duration::from_secs(301));
    assert!(sandbox.shows(LIMIT, |board| board.count(PodState::Ending) == 1).await);
}
