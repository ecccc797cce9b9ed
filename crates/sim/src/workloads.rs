//! Pods of workloads, as their controllers would create them.

use std::collections::{HashMap, HashSet};

use harbormaster_api::{Node, wire::Decoder};
use harbormaster_objects::{
    Kind,
    value::{controller, is_true, name, namespace, number, text, uid},
};
use serde_json::{Map, Value, json};

use crate::{
    daemons::{Fit, fits, target, tie, tolerate},
    inventory::key,
    volumes::brought,
};

/// More pods than this in one workload are a typing error.
const MAX_PODS: i64 = 1_000_000;

/// A field and what is wrong with it.
type Wrong = (&'static str, String);

/// Kinds whose pods are made here.
pub(crate) fn is_workload(kind: &Kind) -> bool {
    let known = [
        "apps/Deployment",
        "apps/ReplicaSet",
        "apps/StatefulSet",
        "apps/DaemonSet",
        "batch/Job",
        "batch/CronJob",
        "/ReplicationController",
    ];
    known.contains(&format!("{}/{}", kind.group, kind.kind).as_str())
}

/// The pods that there are.
#[derive(Debug, Default)]
pub(crate) struct Existing {
    /// `namespace/name` of all.
    names: HashSet<String>,
    /// By the key of the owner.
    of: HashMap<String, Vec<Owned>>,
}

/// A pod that somebody owns.
#[derive(Debug)]
struct Owned {
    name: String,
    /// The node that it is on or meant for; empty for none.
    node: String,
    created: String,
    is_ending: bool,
}

impl Existing {
    /// Another pod.
    pub(crate) fn add(&mut self, pod: &Value) {
        self.names.insert(format!("{}/{}", namespace(pod), name(pod)));
        let Some(owner) = controller(pod) else { return };
        let owner = format!("{}/{}/{}", text(owner, "/kind"), namespace(pod), text(owner, "/name"));
        self.of.entry(owner).or_default().push(Owned {
            name: name(pod).to_owned(),
            node: target(pod).unwrap_or_default().to_owned(),
            created: text(pod, "/metadata/creationTimestamp").to_owned(),
            is_ending: !text(pod, "/metadata/deletionTimestamp").is_empty(),
        });
    }

    /// Whether the owner of that key has any.
    pub(crate) fn any_of(&self, key: &str) -> bool {
        self.of.contains_key(key)
    }

    fn owned_by(&self, key: &str) -> &[Owned] {
        self.of.get(key).map_or(&[], Vec::as_slice)
    }
}

/// A workload whose pods may have to be made.
#[derive(Debug)]
pub(crate) struct Workload {
    /// `Deployment default/web`.
    pub(crate) label: String,
    /// `Deployment/default/web`.
    pub(crate) key: String,
    /// Whether it comes from a cluster.
    pub(crate) is_live: bool,
    /// Where its manifest stands.
    pub(crate) order: usize,
    kind: String,
    value: Value,
    /// How many pods it wants; a DaemonSet's depend on the nodes.
    wanted: usize,
}

impl Workload {
    pub(crate) fn new(label: String, order: usize, value: Value) -> Result<Self, Wrong> {
        let kind = text(&value, "/kind").to_owned();
        let wanted = wanted(&kind, &value)?;
        Ok(Self {
            label,
            key: key(&kind, &value),
            is_live: !uid(&value).is_empty(),
            order,
            kind,
            value,
            wanted,
        })
    }

    /// The key of its owner.
    pub(crate) fn owner(&self) -> Option<String> {
        let owner = controller(&self.value)?;
        Some(format!("{}/{}/{}", text(owner, "/kind"), namespace(&self.value), text(owner, "/name")))
    }

    /// A Deployment owns its pods through a ReplicaSet: here one of the same name.
    pub(crate) fn replica_set(&self) -> Option<Value> {
        let metadata = json!({"name": name(&self.value), "namespace": namespace(&self.value)});
        let spec = json!({"selector": self.value["spec"]["selector"]});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec});
        (self.kind == "Deployment").then_some(set)
    }

    /// The pods that its controller would make beside those that there are.
    pub(crate) fn missing_pods(
        &self,
        existing: &Existing,
        nodes: &[Node],
        decoder: &mut Decoder,
    ) -> Vec<Value> {
        match self.kind.as_str() {
            "DaemonSet" => self.daemons(existing, nodes, decoder),
            "StatefulSet" => {
                let first = number(&self.value, "/spec/ordinals/start");
                let all =
                    (first..).take(self.wanted).map(|ordinal| format!("{}-{ordinal}", name(&self.value)));
                all.filter(|name| !self.is_taken(existing, name)).map(|name| self.pod(&name)).collect()
            }
            _ => {
                let lacking = self.wanted.saturating_sub(existing.owned_by(&self.key).len());
                let all = (1_usize..).map(|number| format!("{}-{number}", name(&self.value)));
                let free = all.filter(|name| !self.is_taken(existing, name));
                free.take(lacking).map(|name| self.pod(&name)).collect()
            }
        }
    }

    /// The names of the pods that its controller would delete since it wants fewer: those without a node first, then the
    /// youngest; of a StatefulSet those with the highest ordinals.
    pub(crate) fn surplus_pods(&self, existing: &Existing) -> Vec<String> {
        let is_scaled = ["ReplicaSet", "ReplicationController", "StatefulSet"].contains(&self.kind.as_str());
        if !self.is_live || !is_scaled {
            return Vec::new();
        }
        let pods = existing.owned_by(&self.key).iter();
        let mut pods: Vec<&Owned> = pods.filter(|pod| !pod.is_ending).collect();
        let surplus = pods.len().saturating_sub(self.wanted);
        let ordinal = |pod: &Owned| pod.name.rsplit('-').next().and_then(|end| end.parse::<u64>().ok());
        if self.kind == "StatefulSet" {
            pods.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
        } else {
            pods.sort_by(|a, b| {
                let with_node = a.node.is_empty().cmp(&b.node.is_empty()).reverse();
                with_node.then_with(|| b.created.cmp(&a.created)).then_with(|| b.name.cmp(&a.name))
            });
        }
        pods.iter().take(surplus).map(|pod| format!("{}/{}", namespace(&self.value), pod.name)).collect()
    }

    /// Number of pods that it wants.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    fn is_taken(&self, existing: &Existing, name: &str) -> bool {
        existing.names.contains(&format!("{}/{name}", namespace(&self.value)))
    }

    fn template(&self) -> &Value {
        match self.kind.as_str() {
            "CronJob" => &self.value["spec"]["jobTemplate"]["spec"]["template"],
            _ => &self.value["spec"]["template"],
        }
    }

    fn pod(&self, pod_name: &str) -> Value {
        let template = self.template();
        let mut metadata = template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.insert("name".into(), json!(pod_name));
        metadata.insert("namespace".into(), namespace(&self.value).into());
        metadata.remove("generateName");
        // A CronJob owns its pods through a Job of the same name.
        let (version, owner) = match self.kind.as_str() {
            "Deployment" => (json!("apps/v1"), "ReplicaSet"),
            "CronJob" => (json!("batch/v1"), "Job"),
            kind => (self.value["apiVersion"].clone(), kind),
        };
        let of_owner = match uid(&self.value) {
            "" => key(owner, &self.value),
            uid => uid.to_owned(),
        };
        metadata.insert(
            "ownerReferences".into(),
            json!([{
                "apiVersion": version, "kind": owner, "name": name(&self.value), "uid": of_owner, "controller": true,
            }]),
        );
        let mut spec = template.get("spec").cloned().unwrap_or_else(|| Map::new().into());
        if self.kind == "StatefulSet"
            && let Some(spec) = spec.as_object_mut()
        {
            brought::mount(&self.value, pod_name, spec);
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    /// The claims that one of its pods has of its own.
    pub(crate) fn claims_of(&self, pod_name: &str) -> Vec<Value> {
        let is_set = self.kind == "StatefulSet";
        brought::of_stateful_set(&self.value, pod_name).filter(|_| is_set).collect()
    }

    /// One pod for each node that the template allows and that has none yet.
    fn daemons(&self, existing: &Existing, nodes: &[Node], decoder: &mut Decoder) -> Vec<Value> {
        let mut general = self.pod(name(&self.value));
        tolerate(&mut general["spec"]);
        let Ok(decoded) = decoder.pod_value(&general) else { return vec![general] };
        let has: HashSet<&str> = existing.owned_by(&self.key).iter().map(|pod| pod.node.as_str()).collect();
        let lacks = |(node, fit): (&Node, Fit)| fit == Fit::Runs && !has.contains(node.name.as_str());
        let pod = |node: &Node| {
            let mut pod = general.clone();
            pod["metadata"]["name"] = format!("{}-{}", name(&self.value), node.name).into();
            tie(&mut pod["spec"], node.name.as_str());
            pod
        };
        fits(&decoded, nodes).filter(|of| lacks(*of)).map(|(node, _)| pod(node)).collect()
    }
}

fn wanted(kind: &str, workload: &Value) -> Result<usize, Wrong> {
    let of = |spec: &Value, field: &str, path: &'static str, default| match &spec[field] {
        Value::Null => Ok(default),
        value => match value.as_i64() {
            Some(n @ 0..=MAX_PODS) => Ok(n),
            _ => Err((path, format!("expected a number from 0 to {MAX_PODS}, got {value}"))),
        },
    };
    let spec = &workload["spec"];
    let job = match kind {
        "DaemonSet" => return Ok(0),
        "Job" => spec,
        "CronJob" => &spec["jobTemplate"]["spec"],
        _ => return of(spec, "replicas", "spec.replicas", 1).map(size),
    };
    if is_true(spec, "/suspend") || is_true(job, "/suspend") {
        return Ok(0);
    }
    let parallelism = of(job, "parallelism", "spec.parallelism", 1)?;
    let completions = of(job, "completions", "spec.completions", i64::MAX)?;
    Ok(size(parallelism.min(completions - number(workload, "/status/succeeded")).max(0)))
}

fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests;
