//! What the page shows of a simulation: the report, and the nodes with their pods afterwards.

use std::collections::{BTreeMap, HashMap};

use harbormaster_api::Str;
use harbormaster_core::pod_state::reasons;
use harbormaster_framework::pod::PodInfo;
use harbormaster_page::{Member, Node, PlacedPod, Scene, WaitingRow};
use harbormaster_sim::{NodeUsage, PodReport, Report, UsageBefore, report::Fate};
use serde_json::Value;

use crate::commands::{
    alike::{self, Row},
    table,
};

/// All pods by name, each with its node.
type Pods<'a> = BTreeMap<&'a str, (&'a PodInfo, Option<Str>)>;

/// Returns the scene. `shown` is the part of the report whose waiting pods are shown.
pub(super) fn scene(before: UsageBefore, all: &Report, shown: &Report) -> Scene {
    let pods = before.pods_after(all);
    let waiting = waiting(shown, &pods);
    let placed = placed(all, &pods);
    let usage = before.after(all);
    let places: HashMap<&str, usize> =
        usage.nodes.iter().enumerate().map(|(at, node)| (node.node.as_str(), at)).collect();
    let pods = placed
        .into_iter()
        .filter_map(|(node, pod)| Some(PlacedPod { node: *places.get(node.as_str())?, pod }))
        .collect();
    let notes = all.missing_nodes.iter().map(|(node, pods)| match pods {
        1 => format!("1 pod is on node {node}, which does not exist"),
        pods => format!("{pods} pods are on node {node}, which does not exist"),
    });
    Scene {
        title: "Simulation".to_owned(),
        notes: notes.collect(),
        nodes: usage.nodes.iter().map(node).collect(),
        pods,
        waiting,
        counters: None,
    }
}

fn node(usage: &NodeUsage) -> Node {
    Node {
        name: usage.node.to_string(),
        zone: usage.zone.as_ref().map(ToString::to_string).unwrap_or_default(),
        requested: usage.requested.clone(),
        allocatable: usage.allocatable.clone(),
    }
}

/// Returns the pods that have a node, each with its node.
fn placed(report: &Report, pods: &Pods<'_>) -> Vec<(Str, Member)> {
    let facts: HashMap<&str, Value> = report.pods.iter().map(|pod| (pod.pod.as_str(), facts(pod))).collect();
    let member = |(name, (pod, node)): (&&str, &(&PodInfo, Option<Str>))| {
        let facts = facts.get(name).cloned().unwrap_or_default();
        let member = Member { name: (*name).to_owned(), request: pod.request().clone(), facts };
        Some((node.clone()?, member))
    };
    pods.iter().filter_map(member).collect()
}

/// Returns the pods without a node; similar pods share a row.
fn waiting(report: &Report, pods: &Pods<'_>) -> Vec<WaitingRow> {
    let reports: HashMap<&str, &PodReport> = report.pods.iter().map(|pod| (pod.pod.as_str(), pod)).collect();
    let member = |row: &Row| Member {
        name: row.pod.clone(),
        request: pods.get(row.pod.as_str()).map(|(pod, _)| pod.request().clone()).unwrap_or_default(),
        facts: reports.get(row.pod.as_str()).map(|pod| facts(pod)).unwrap_or_default(),
    };
    let mut rows = Vec::new();
    for fate in Fate::ALL.into_iter().filter(|fate| *fate != Fate::Placed) {
        let alike = report.pods.iter().filter(|pod| pod.fate() == fate).map(table::row).collect();
        rows.extend(alike::together(alike, true).iter().map(|row| WaitingRow {
            pods: alike::pods(row).text().to_owned(),
            state: fate.word().to_owned(),
            message: alike::message(row).text().to_owned(),
            members: row.iter().map(member).collect(),
        }));
    }
    rows
}

/// Returns the report on a pod without its name and node, and with the reasons in its message.
fn facts(pod: &PodReport) -> Value {
    let mut facts = match serde_json::to_value(pod) {
        Ok(Value::Object(facts)) => facts,
        _ => return Value::Null,
    };
    facts.retain(|name, value| !value.is_null() && name != "pod" && name != "node");
    let reasons = pod.message.as_deref().map(reasons).unwrap_or_default();
    if !reasons.is_empty() {
        facts.insert("reasons".to_owned(), serde_json::json!(reasons));
    }
    Value::Object(facts)
}
