//! The plugin in simulations: the scenarios of scheduler-plugins' own integration tests. The controller on a cluster.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod controller;

use std::collections::BTreeSet;

use coscheduling::Coscheduling;
use harbormaster::{Scheduler, simulation::Source};

const CONFIG: &str = include_str!("../../deploy/scheduler-config.yaml");
const CRD: &str = include_str!("../../deploy/crd.yaml");

/// A node with 300 units of memory, and two priorities.
const CLUSTER: &str = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 1
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
---
apiVersion: v1
kind: Node
metadata: {name: fake-node}
status: {allocatable: {cpu: \"32\", memory: \"300\", pods: \"32\"}}
";

fn group(name: &str, min_member: u32) -> String {
    format!(
        "---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\n\
         metadata: {{name: {name}, namespace: default}}\nspec: {{minMember: {min_member}}}\n"
    )
}

/// Pods that request memory; without a name of a group, they are on their own.
fn pods(prefix: &str, count: usize, group: &str, memory: u32, class: &str) -> String {
    let label =
        if group.is_empty() { String::new() } else { format!("scheduling.x-k8s.io/pod-group: {group}") };
    let pod = |at: usize| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {prefix}-{at}, namespace: default, labels: {{{label}}}}}\n\
             spec: {{priorityClassName: {class}, containers: [{{name: c, image: i, resources: {{requests: {{memory: \"{memory}\"}}}}}}]}}\n"
        )
    };
    (0..count).map(pod).collect()
}

/// Names of the pods that get nodes.
fn placed_with(config: &str, objects: &[String]) -> BTreeSet<String> {
    let scheduler =
        Scheduler::builder().plugin::<Coscheduling>().config("scheduler.yaml", config).build().unwrap();
    let source = |name: &str, text: String| Source { name: name.to_owned(), text };
    let cluster = format!("{CLUSTER}{}", objects.concat());
    let sources = [source("crd.yaml", CRD.to_owned()), source("cluster.yaml", cluster)];
    let simulation = scheduler.simulate(&sources).unwrap();
    let placed = simulation.report.pods.iter().filter(|pod| pod.node.is_some());
    placed.map(|pod| pod.pod.trim_start_matches("default/").to_owned()).collect()
}

fn placed(objects: &[String]) -> BTreeSet<String> {
    placed_with(CONFIG, objects)
}

fn names(prefix: &str, count: usize) -> BTreeSet<String> {
    (0..count).map(|at| format!("{prefix}-{at}")).collect()
}

#[test]
fn of_two_groups_the_one_that_fits_runs() {
    let objects =
        [group("pg1", 3), group("pg2", 4), pods("a", 3, "pg1", 50, "low"), pods("b", 4, "pg2", 100, "low")];
    assert_eq!(placed(&objects), names("a", 3));
}

#[test]
fn a_group_without_enough_pods_takes_no_room_from_others() {
    let objects = [group("pg1", 4), pods("a", 3, "pg1", 50, "low"), pods("plain", 2, "", 100, "low")];
    assert_eq!(placed(&objects), names("plain", 2));
}

#[test]
fn the_more_important_group_runs_first() {
    let objects = [
        group("low", 3),
        group("high", 3),
        pods("low", 3, "low", 100, "low"),
        pods("high", 3, "high", 50, "high"),
    ];
    assert_eq!(placed(&objects), names("high", 3));
}

#[test]
fn a_configuration_that_names_every_point_is_accepted() {
    let config = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: \"*\"}]}
    preFilter: {enabled: [{name: Coscheduling}]}
    postFilter: {enabled: [{name: Coscheduling}]}
    permit: {enabled: [{name: Coscheduling}]}
    reserve: {enabled: [{name: Coscheduling}]}
  pluginConfig:
  - name: Coscheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: CoschedulingArgs
      permitWaitingTimeSeconds: 10
      podGroupBackoffSeconds: 0
";
    let objects = [
        group("pg", 2),
        pods("a", 2, "pg", 100, "low"),
        group("large", 2),
        pods("b", 2, "large", 100, "low"),
    ];
    assert_eq!(placed_with(config, &objects), names("a", 2));
}
