//! With the feature gate WorkloadWithJob, the pods of a Job form a group that the Job defines.

use super::*;

const GROUPS: &str = "podgroups.scheduling.k8s.io";
const WORKLOADS: &str = "workloads.scheduling.k8s.io";

fn job(scheduling: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: sums}}\nspec:\n  parallelism: 2\n  completions: 2\n  \
         {scheduling}\n  template:\n    spec: {{restartPolicy: Never, containers: [{{name: c, image: i, resources: \
         {{requests: {{cpu: 100m}}}}}}]}}\n---\n"
    )
}

/// Starts a sandbox of release 1.37 that runs pods until they are stopped.
async fn start(with_job: bool, manifest: &str) -> Sandbox {
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::WorkloadWithJob, with_job);
    let pace = Pace { run_for: Duration::from_secs(3600), ..options(0, "").pace };
    Sandbox::start(Options { features, pace, ..options(2, manifest) }).await.unwrap()
}

fn all(sandbox: &Sandbox, resource: &str) -> Vec<Value> {
    let (all, _) = sandbox.store().list(resource, "default", "", "").unwrap();
    all.iter().map(|object| object.value()).collect()
}

/// Returns the groups of the pods that have nodes.
fn groups_of_placed_pods(sandbox: &Sandbox) -> Vec<String> {
    let pods = all(sandbox, "pods");
    let placed = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string());
    placed
        .map(|pod| pod["spec"]["schedulingGroup"]["podGroupName"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn a_gang_follows_the_parallelism_of_its_job_and_disappears_with_it() {
    let sandbox = start(true, &job("scheduling: {schedulingPolicy: {gang: {}}}")).await;
    eventually(|| groups_of_placed_pods(&sandbox).len() == 2).await;
    let ([workload], [group]) = (&all(&sandbox, WORKLOADS)[..], &all(&sandbox, GROUPS)[..]) else {
        panic!("one workload and one group")
    };
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let gang = json!({"gang": {"minCount": 2}});
    assert_eq!(workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"], gang);
    assert_eq!(group["spec"]["schedulingPolicy"], gang);
    let reference = json!({"workloadName": name(workload), "templateName": "sums-pgt-0"});
    assert_eq!(group["spec"]["workloadRef"], reference);
    assert_eq!(groups_of_placed_pods(&sandbox), vec![name(group); 2]);
    let owners = |object: &Value| -> Vec<String> {
        let owners = object["metadata"]["ownerReferences"].as_array().unwrap();
        owners.iter().map(|owner| owner["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(owners(group), ["Job", "Workload"]);
    assert_eq!(owners(&all(&sandbox, "pods")[0]), ["Job", "PodGroup"]);

    change(&sandbox, "jobs.batch", "sums", &json!({"spec": {"parallelism": 1}}));
    let minimum = || all(&sandbox, GROUPS)[0]["spec"]["schedulingPolicy"]["gang"]["minCount"].clone();
    eventually(|| minimum() == 1).await;

    sandbox.store().delete("jobs.batch", "default", "sums", None).unwrap();
    eventually(|| [WORKLOADS, GROUPS, "pods"].iter().all(|resource| all(&sandbox, resource).is_empty()))
        .await;
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn without_the_gate_jobs_define_no_groups() {
    let sandbox = start(false, &job("scheduling: {schedulingPolicy: {gang: {}}}")).await;
    eventually(|| groups_of_placed_pods(&sandbox) == ["", ""]).await;
    assert!(all(&sandbox, WORKLOADS).is_empty() && all(&sandbox, GROUPS).is_empty());
    sandbox.stop().await.unwrap();
}
