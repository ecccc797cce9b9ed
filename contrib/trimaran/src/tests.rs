//! The examples of scheduler-plugins' own tests, and what differs from them.

mod collecting;
mod conformance;
mod load_variation;
mod low_risk;
mod peaks;
mod target_load;

use std::sync::Arc;

use harbormaster::{
    api::{
        Timestamp,
        pod::{Phase, PodCondition},
    },
    serde_json::{Value, from_value, json},
    testkit::{NodeBuilder, PodBuilder, Trial, cluster, node, pod, set_custom},
};

use harbormaster::prelude::*;

use crate::report::NodeLoads;

/// End of the measured window of every report.
const NOW: i64 = 1_800_000_000;
/// A measurement: type, operator and value.
type Measurement = (&'static str, &'static str, f64);

/// Builds a plugin with arguments.
fn built<P: Build>(args: Value) -> Result<P, String> {
    let args: P::Args = from_value(args).map_err(|error| error.to_string())?;
    P::build(args, &BuildCycle::default()).map_err(|error| error.to_string())
}

fn trial<P: Build>(args: Value) -> Trial {
    Trial::of(built::<P>(args).unwrap())
}

/// A report of metrics-server's source, which is the default.
fn report(nodes: &[(&str, &[Measurement])]) -> Value {
    let metrics = |metrics: &&[Measurement]| {
        let metric = |(kind, operator, value): &Measurement| json!({"type": kind, "operator": operator, "value": value});
        json!({"metrics": metrics.iter().map(metric).collect::<Vec<_>>()})
    };
    let nodes: Value = nodes.iter().map(|(name, list)| ((*name).to_owned(), metrics(list))).collect();
    json!({
        "metadata": {"name": "kubernetes-metrics-server"},
        "window": {"end": NOW},
        "data": {"NodeMetricsMap": nodes},
    })
}

/// A node whose pods can get all of its machine.
fn sized(name: &str, cpu: &str, memory: &str) -> NodeBuilder {
    node(name).allocatable(cpu, memory, 110).capacity("cpu", cpu).capacity("memory", memory)
}

/// Score of a node `n` with these measurements for a pod.
fn score_of(trial: &Trial, nodes: Cluster, metrics: &[Measurement], pod: &PodInfo) -> i64 {
    let mut nodes = nodes;
    set_custom::<NodeLoads>(&mut nodes, [report(&[("n", metrics)])]);
    trial.scores(&nodes, pod).unwrap().map_or(0, |scores| scores[0])
}

/// A pod that was placed some seconds before the end of the measured window.
fn placed(name: &str, on: &str, seconds_before: i64) -> PodBuilder {
    let at = Timestamp::from_secs(NOW - seconds_before);
    pod(name).on(on).pod(|pod| {
        pod.status.phase = Phase::Running;
        pod.status.conditions = vec![PodCondition {
            type_: "PodScheduled".into(),
            status: "True".into(),
            last_transition: Some(at),
            ..PodCondition::default()
        }];
    })
}

/// Sets a limit of the last container.
fn limited(pod: PodBuilder, name: &str, amount: i64) -> PodBuilder {
    let name = name.to_owned();
    pod.spec(move |spec| {
        if let Some(last) = spec.containers.last_mut() {
            last.limits.push((name.as_str().into(), amount));
            last.limits.sort();
        }
    })
}

fn info(pod: PodBuilder) -> Arc<PodInfo> {
    pod.info()
}
