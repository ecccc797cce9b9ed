//! Preemption for cards, with the other plugins of a default profile.

use std::collections::BTreeSet;

use harbormaster::{Scheduler, simulation::Source};

const CONFIG: &str = include_str!("../../../../examples/yoda/scheduler.yaml");
const DEFINITION: &str = include_str!("../../deploy/crd.yaml");
const CLUSTER: &str = "
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: middle}, value: 20}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
---
apiVersion: core.run-linux.com/v1
kind: Scv
metadata: {name: n1}
status:
  updateTime: '2026-01-01T00:00:00Z'
  cardList:
  - {id: 0, health: Healthy, totalMemory: 16000, freeMemory: 1000}
  - {id: 1, health: Healthy, totalMemory: 16000, freeMemory: 15990}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {schedulerName: yoda-scheduler, nodeName: n1, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: shares, namespace: default, labels: {scv/memory: '14000'}, annotations: {scv/cards: '0'}}
spec: {schedulerName: yoda-scheduler, nodeName: n1, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: whole, namespace: default, labels: {scv/number: '1'}, annotations: {scv/cards: '1'}}
spec: {schedulerName: yoda-scheduler, nodeName: n1, priorityClassName: middle, containers: [{name: c, image: i}]}
---
";

/// Returns the node of a high-priority pod with the given labels, and the pods that are evicted for it.
fn placed(labels: &str) -> (Option<String>, BTreeSet<String>) {
    let pod = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: important, namespace: default, labels: {labels}}}, \
         spec: {{schedulerName: yoda-scheduler, priorityClassName: high, containers: [{{name: c, image: i}}]}}}}"
    );
    let source = |name: &str, text: String| Source { name: name.to_owned(), text };
    let manifests =
        [source("crd.yaml", DEFINITION.to_owned()), source("cluster.yaml", format!("{CLUSTER}{pod}"))];
    let scheduler =
        Scheduler::builder().plugin::<yoda::Yoda>().config("scheduler.yaml", CONFIG).build().unwrap();
    let pods = scheduler.simulate(&manifests).unwrap().report.pods;
    let node = pods.iter().find(|pod| pod.pod == "default/important").unwrap().node.clone();
    let evicted = pods.into_iter().filter(|pod| pod.preempted_by.is_some()).map(|pod| pod.pod);
    (node, evicted.collect())
}

#[test]
fn only_pods_that_hold_the_requested_cards_are_evicted() {
    for (labels, node, evicted) in [
        ("{scv/memory: '900'}", Some("n1"), &[][..]),
        // The evicted pod's memory is measured as used until the next report, which never arrives in this test.
        ("{scv/memory: '12000'}", Some("n1"), &["default/shares"]),
        ("{scv/number: '1'}", Some("n1"), &["default/shares"]),
        ("{scv/number: '2'}", Some("n1"), &["default/shares", "default/whole"]),
        ("{scv/number: '3'}", None, &[]),
    ] {
        let evicted = evicted.iter().map(|pod| (*pod).to_owned()).collect();
        assert_eq!(placed(labels), (node.map(str::to_owned), evicted), "{labels}");
    }
}
