//! Events have the same wording as in a real cluster and are no more numerous.

use super::*;

/// Returns `component: reason: message` for all events about objects whose names begin with `name`, sorted.
fn about(sandbox: &Sandbox, kind: &str, name: &str) -> Vec<String> {
    let fields = format!("involvedObject.kind={kind}");
    let (events, _) = sandbox.store().list("events", "", "", &fields).unwrap();
    let mut all: Vec<String> = events
        .iter()
        .map(|event| event.value())
        .filter(|event| event["involvedObject"]["name"].as_str().unwrap().starts_with(name))
        .map(|event| {
            let part = |field: &str| event[field].as_str().unwrap().to_owned();
            let component = event["reportingComponent"].as_str().unwrap().to_owned();
            format!("{component}: {}: {}", part("reason"), part("message"))
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn controllers_and_kubelets_send_events() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: sums}\nspec:\n  template: {spec: {restartPolicy: Never, \
               containers: [{name: c, image: i}]}}\n---\n";
    let mut sandbox = sandbox(1, &[workload("Deployment", 1), job.to_owned()].concat()).await;
    let set = sandbox.store().list("replicasets.apps", "", "", "").unwrap().0[0].name().to_owned();
    let pod = sandbox.store().list("pods", "", "app=web", "").unwrap().0[0].name().to_owned();
    change(&sandbox, "deployments.apps", "web", &json!({"spec": {"replicas": 0}}));
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(
        about(&sandbox, "Deployment", "web"),
        [
            format!("deployment-controller: ScalingReplicaSet: Scaled down replica set {set} from 1 to 0"),
            format!("deployment-controller: ScalingReplicaSet: Scaled up replica set {set} from 0 to 1"),
        ]
    );
    assert_eq!(
        about(&sandbox, "ReplicaSet", "web"),
        [
            format!("replicaset-controller: SuccessfulCreate: Created pod: {pod}"),
            format!("replicaset-controller: SuccessfulDelete: Deleted pod: {pod}"),
        ]
    );
    let of_job = about(&sandbox, "Job", "sums");
    assert_eq!(of_job[0], "job-controller: Completed: Job completed");
    assert!(of_job[1].starts_with("job-controller: SuccessfulCreate: Created pod: sums-"), "{of_job:?}");
    let mut of_pod = about(&sandbox, "Pod", "web");
    of_pod.retain(|event| event.starts_with("kubelet"));
    assert_eq!(
        of_pod,
        [
            "kubelet: Created: Container created",
            "kubelet: Killing: Stopping container c",
            "kubelet: Pulled: Container image \"i\" already present on machine and can be accessed by the pod",
            "kubelet: Started: Container started",
        ]
    );
}

#[tokio::test]
async fn many_pods_do_not_cause_many_events_about_their_owner() {
    let sandbox = sandbox(2, &workload("Deployment", 100)).await;
    let told = about(&sandbox, "ReplicaSet", "web");
    assert_eq!(told.len(), 10);
    assert!(told[0].contains("(combined from similar events): Created pod: web-"), "{told:?}");
}

#[tokio::test]
async fn events_about_stateful_sets_and_daemon_sets_have_their_own_wording() {
    let sets =
        [workload("StatefulSet", 1), workload("DaemonSet", 0).replace("name: web", "name: all")].concat();
    let sandbox = sandbox(1, &workload("StatefulSet", 1)).await;
    let daemon_set: Value = {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&sets).unwrap();
        let mut set = documents[1].clone();
        set["spec"].as_object_mut().unwrap().remove("replicas");
        set
    };
    sandbox.store().create("daemonsets.apps", daemon_set).unwrap();
    assert_eq!(
        about(&sandbox, "StatefulSet", "web"),
        ["statefulset-controller: SuccessfulCreate: create Pod web-0 in StatefulSet web successful"]
    );
    eventually(|| !about(&sandbox, "DaemonSet", "all").is_empty()).await;
    let told = about(&sandbox, "DaemonSet", "all");
    assert!(told[0].starts_with("daemonset-controller: SuccessfulCreate: Created pod: all-"), "{told:?}");
}
