//! Groups of Kubernetes 1.37 that take back what other quotas have borrowed, in simulations.

use capacity_scheduling::CapacityScheduling;
use harbormaster::{
    Scheduler,
    api::{Feature, Features, Release},
    simulation::Source,
};

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: '*'}]}
    podGroupPostFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: '*'}]}
";

/// Two teams that are guaranteed 4 of 8 cores each.
const CLUSTER: &str = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
---
apiVersion: v1
kind: Node
metadata: {name: only}
status: {allocatable: {cpu: '12', memory: 8Gi, pods: '110'}}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-b}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: quota, namespace: team-a}
spec: {min: {cpu: 4}, max: {cpu: 8}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: quota, namespace: team-b}
spec: {min: {cpu: 4}, max: {cpu: 8}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: team-b}
spec: {schedulingPolicy: {gang: {minCount: MINIMUM}}}
";

/// Pods that request a core each.
fn pods(namespace: &str, prefix: &str, count: usize, spec: &str) -> String {
    let pod = |at: usize| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {prefix}-{at}, namespace: {namespace}}}\nspec:\n  \
             containers: [{{name: c, image: i, resources: {{requests: {{cpu: '1'}}}}}}]\n  {spec}\n"
        )
    };
    (0..count).map(pod).collect()
}

/// Members with nodes, and pods that were evicted for them. The group needs `minimum` members.
fn placed_and_evicted(running: usize, minimum: usize, members: usize) -> (usize, usize) {
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
    let scheduler = Scheduler::builder().plugin::<CapacityScheduling>().features(features);
    let scheduler = scheduler.config("scheduler.yaml", CONFIG).build().unwrap();
    let cluster = CLUSTER.replace("MINIMUM", &minimum.to_string());
    let running = pods("team-a", "old", running, "nodeName: only\n  priorityClassName: high");
    let gang = pods("team-b", "new", members, "schedulingGroup: {podGroupName: gang}");
    let source = |name: &str, text: String| Source { name: name.to_owned(), text };
    let definitions = include_str!("../../deploy/crd.yaml").to_owned();
    let sources =
        [source("crd.yaml", definitions), source("cluster.yaml", format!("{cluster}{running}{gang}"))];
    let report = scheduler.simulate(&sources).unwrap().report;
    let placed = report.pods.iter().filter(|pod| pod.pod.contains("new") && pod.node.is_some()).count();
    let evicted = report.pods.iter().filter(|pod| pod.preempted_by.is_some()).count();
    (placed, evicted)
}

#[test]
fn a_gang_within_the_min_of_its_quota_takes_back_what_another_quota_has_borrowed() {
    assert_eq!(placed_and_evicted(6, 4, 4), (4, 2));
}

#[test]
fn a_gang_beyond_the_min_of_its_quota_takes_nothing_from_more_important_pods() {
    assert_eq!(placed_and_evicted(6, 5, 5), (0, 0));
}

#[test]
fn a_gang_takes_nothing_that_is_guaranteed_to_another_quota() {
    assert_eq!(placed_and_evicted(4, 4, 4), (4, 0));
}

#[test]
fn a_gang_counts_with_as_many_members_as_it_needs() {
    assert_eq!(placed_and_evicted(6, 4, 6), (4, 2), "of six members, four are guaranteed");
    assert_eq!(placed_and_evicted(6, 3, 6), (4, 2), "it needs three, and a fourth one is guaranteed, too");
    assert_eq!(placed_and_evicted(8, 1, 2), (2, 2));
}
