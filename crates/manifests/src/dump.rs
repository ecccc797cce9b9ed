//! Dumps of clusters: removal of fields that only a server sets, and restoration of objects that dumps lack.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use harbormaster_validation::{
    Kind,
    admission::SYSTEM_CLASSES,
    kinds::Rules,
    value::{controller, list, list_mut, name, namespace, owned_by, remove, text, uid},
};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use crate::{documents::Location, manifests::Manifest, shape::Shape};

/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// References between the objects of the input, collected while it is read.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    uids: FxHashSet<String>,
    namespaces: BTreeSet<String>,
    /// Priority classes of pods and pod groups whose priority is set.
    priority_classes: BTreeMap<String, Value>,
    /// Runtime classes of pods whose overhead is set.
    runtime_classes: BTreeMap<String, Value>,
    /// ReplicaSets that own pods, by UID.
    sets: BTreeMap<String, ReplicaSetPods>,
    /// Kinds in the input.
    kinds: HashSet<String>,
    /// Names of referenced objects, by kind.
    named: BTreeMap<&'static str, BTreeSet<String>>,
}

/// A ReplicaSet, described by the pods that it owns.
#[derive(Debug)]
struct ReplicaSetPods {
    namespace: String,
    name: String,
    pods: usize,
    location: Location,
}

/// Removes some of an object's fields that only a server sets.
pub(crate) fn strip(kind: &Kind, object: &mut Value) {
    for field in ["resourceVersion", "managedFields", "selfLink"] {
        remove(&mut object["metadata"], field);
    }
    if !kind.is_namespaced() {
        remove(&mut object["metadata"], "namespace");
    }
    if kind.rules == Rules::Pod && !uid(object).is_empty() {
        take_merged_keys(&mut object["spec"]);
        // Only a running pod can have ephemeral containers.
        remove(&mut object["spec"], "ephemeralContainers");
    }
}

impl Dump {
    /// Records the objects to which an object refers.
    pub(crate) fn note(&mut self, kind: &Kind, object: &Value, location: &Location) {
        if !self.kinds.contains(&kind.kind) {
            self.kinds.insert(kind.kind.clone());
        }
        match kind.rules {
            Rules::Claim => {
                self.name("PersistentVolume", text(object, "/spec/volumeName"));
                // The class of a new claim may exist only in the cluster where the input is used.
                if !uid(object).is_empty() {
                    self.name("StorageClass", text(object, "/spec/storageClassName"));
                }
            }
            Rules::Pod => {
                let volumes = list(object, "/spec/volumes").iter();
                let of = namespace(object);
                let claims = volumes.map(|volume| text(volume, "/persistentVolumeClaim/claimName"));
                for claim in claims.filter(|claim| !claim.is_empty()) {
                    self.name("PersistentVolumeClaim", &format!("{of}/{claim}"));
                }
                let named = list(object, "/spec/resourceClaims").iter();
                let claims = named.chain(list(object, "/status/resourceClaimStatuses"));
                for claim in claims.map(|claim| text(claim, "/resourceClaimName")).filter(|c| !c.is_empty()) {
                    self.name("ResourceClaim", &format!("{of}/{claim}"));
                }
            }
            _ => {}
        }
        if !uid(object).is_empty() {
            self.uids.insert(uid(object).to_owned());
        }
        if kind.is_namespaced() {
            self.namespaces.insert(namespace(object).to_owned());
        }
        match kind.rules {
            Rules::Pod => self.pod(object, location),
            Rules::PodGroup => self.priority_class(object),
            _ => {}
        }
    }

    /// Remembers the priority class of an object from a cluster, which has the value of its class.
    fn priority_class(&mut self, object: &Value) {
        let class = text(object, "/spec/priorityClassName");
        if let Some(priority) =
            object.pointer("/spec/priority").filter(|_| !class.is_empty() && !uid(object).is_empty())
        {
            let policy =
                object.pointer("/spec/preemptionPolicy").cloned().unwrap_or("PreemptLowerPriority".into());
            self.priority_classes.entry(class.to_owned()).or_insert_with(|| {
                json!({
                    "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": class},
                    "value": priority, "preemptionPolicy": policy,
                })
            });
        }
    }

    fn name(&mut self, kind: &'static str, name: &str) {
        if !name.is_empty() {
            self.named.entry(kind).or_default().insert(name.to_owned());
        }
    }

    /// Returns a line with the kinds that other objects refer to but that do not occur in the input.
    pub(crate) fn lacks(&self) -> Option<String> {
        let lacking = self.named.iter().filter(|(kind, _)| !self.kinds.contains(**kind));
        let names = lacking.map(|(kind, names)| {
            let first = names.first().map_or("", String::as_str);
            match names.len() {
                1 => format!("{kind} {first}"),
                more => format!("{more} {kind}{} ({first}, …)", if kind.ends_with('s') { "es" } else { "s" }),
            }
        });
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| {
            format!(
                "the input refers to {}, but does not contain them; the `dump` command writes everything \
                 that is needed",
                names.join(" and ")
            )
        })
    }

    /// Records a pod of the same shape as another one that has been recorded.
    pub(crate) fn note_like(&mut self, shape: &Shape, uid: &str) {
        if !uid.is_empty() {
            self.uids.insert(uid.to_owned());
        }
        if let Some(set) = shape.set.as_ref().and_then(|set| self.sets.get_mut(set)) {
            set.pods += 1;
        }
    }

    fn pod(&mut self, pod: &Value, location: &Location) {
        self.priority_class(pod);
        let class = text(pod, "/spec/runtimeClassName");
        if !class.is_empty() && !uid(pod).is_empty() {
            let value = || runtime_class(class, pod.pointer("/spec/overhead"));
            self.runtime_classes.entry(class.to_owned()).or_insert_with(value);
        }
        if let Some(owner) = controller(pod).filter(|owner| owner["kind"] == "ReplicaSet") {
            let set = self.sets.entry(text(owner, "/uid").to_owned()).or_insert_with(|| ReplicaSetPods {
                namespace: namespace(pod).to_owned(),
                name: text(owner, "/name").to_owned(),
                pods: 0,
                location: location.clone(),
            });
            set.pods += 1;
        }
    }

    /// Returns the missing objects that other objects refer to and that can be restored.
    pub(crate) fn missing(
        &self,
        objects: &[Manifest],
        kind: &dyn Fn(&str) -> Option<Arc<Kind>>,
    ) -> Vec<(Arc<Kind>, Value, Location)> {
        let all = |rules: Rules| objects.iter().filter(move |object| object.kind.rules == rules);
        let named = |rules| all(rules).map(|object| object.name.as_str()).collect::<HashSet<_>>();
        let mut missing = Vec::new();
        if let Some(kind) = kind("Namespace") {
            let known = named(Rules::Namespace);
            let needed = self.namespaces.iter().filter(|name| !known.contains(name.as_str()));
            missing.extend(needed.filter(|name| !NAMESPACES.contains(&name.as_str())).map(|name| {
                let value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                (kind.clone(), value, Location::default())
            }));
        }
        if let Some(kind) = kind("PriorityClass") {
            let known = named(Rules::PriorityClass);
            let is_known = |name: &str| {
                known.contains(name) || SYSTEM_CLASSES.iter().any(|(system, ..)| *system == name)
            };
            let needed = self.priority_classes.iter().filter(|(name, _)| !is_known(name));
            missing.extend(needed.map(|(_, value)| (kind.clone(), value.clone(), Location::default())));
        }
        if let Some(kind) = kind("RuntimeClass") {
            let known = named(Rules::RuntimeClass);
            let needed = self.runtime_classes.iter().filter(|(name, _)| !known.contains(name.as_str()));
            missing.extend(needed.map(|(_, value)| (kind.clone(), value.clone(), Location::default())));
        }
        if let Some(kind) = kind("ReplicaSet") {
            let deployments: Vec<Value> = all(Rules::Workload)
                .filter(|object| object.kind.kind == "Deployment")
                .map(Manifest::value)
                .collect();
            for deployment in deployments {
                let sets = self.sets_of(&deployment);
                missing.extend(sets.into_iter().map(|(value, location)| (kind.clone(), value, location)));
            }
        }
        missing
    }

    /// Restores the ReplicaSets between a Deployment and its pods, so that the pods belong to the Deployment. The
    /// ReplicaSet with the most pods is treated as the current one and gets the missing replicas.
    fn sets_of(&self, deployment: &Value) -> Vec<(Value, Location)> {
        let is_missing = |(uid, set): &(&String, &ReplicaSetPods)| {
            let of_deployment = set.name.rsplit_once('-').is_some_and(|(owner, _)| owner == name(deployment));
            of_deployment && set.namespace == namespace(deployment) && !self.uids.contains(uid.as_str())
        };
        let mut sets: Vec<(&String, &ReplicaSetPods)> = self.sets.iter().filter(is_missing).collect();
        sets.sort_by_key(|(_, set)| std::cmp::Reverse(set.pods));
        let pods: usize = sets.iter().map(|(_, set)| set.pods).sum();
        let wanted = deployment.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
        let lacking = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_sub(pods);
        let of = |(i, (uid, set)): (usize, (&String, &ReplicaSetPods))| {
            let replicas = set.pods + if i == 0 { lacking } else { 0 };
            (replica_set(deployment, &set.name, uid, replicas), set.location.clone())
        };
        sets.into_iter().enumerate().map(of).collect()
    }
}

fn replica_set(deployment: &Value, set_name: &str, set_uid: &str, replicas: usize) -> Value {
    let hash = set_name.rsplit_once('-').map_or("", |(_, hash)| hash);
    let mut spec = json!({
        "replicas": replicas,
        "selector": deployment["spec"]["selector"],
        "template": deployment["spec"]["template"],
    });
    for labels in ["/template/metadata/labels", "/selector/matchLabels"] {
        if let Some(labels) = spec.pointer_mut(labels).and_then(Value::as_object_mut) {
            labels.insert("pod-template-hash".into(), hash.into());
        }
    }
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": spec,
        "metadata": {
            "name": set_name, "namespace": namespace(deployment), "uid": set_uid,
            "labels": spec["template"]["metadata"]["labels"],
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": owned_by(deployment),
        },
    })
}

/// Removes the requirements that the server added to selectors because of `matchLabelKeys` and `mismatchLabelKeys`. A
/// server adds the requirements to every new pod, and refuses pods that already have them.
fn take_merged_keys(spec: &mut Value) {
    list_mut(spec, "/topologySpreadConstraints").iter_mut().for_each(take_keys);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = format!("/affinity/{kind}/requiredDuringSchedulingIgnoredDuringExecution");
        list_mut(spec, &terms).iter_mut().for_each(take_keys);
        let weighted = format!("/affinity/{kind}/preferredDuringSchedulingIgnoredDuringExecution");
        let terms = list_mut(spec, &weighted).iter_mut();
        terms.filter_map(|weighted| weighted.get_mut("podAffinityTerm")).for_each(take_keys);
    }
}

fn take_keys(term: &mut Value) {
    let added: Vec<(Value, &str)> = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")]
        .into_iter()
        .flat_map(|(field, operator)| {
            let keys = term.get(field).and_then(Value::as_array).into_iter().flatten();
            keys.map(move |key| (key.clone(), operator)).collect::<Vec<_>>()
        })
        .collect();
    let expressions = term.pointer_mut("/labelSelector/matchExpressions").and_then(Value::as_array_mut);
    if let Some(expressions) = expressions {
        expressions.retain(|has| {
            !added.iter().any(|(key, operator)| has["key"] == *key && has["operator"] == *operator)
        });
    }
}

/// Returns a runtime class with the given overhead. Its handler is irrelevant here.
fn runtime_class(name: &str, overhead: Option<&Value>) -> Value {
    let mut class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "unknown",
    });
    if let Some(overhead) = overhead {
        class["overhead"] = json!({"podFixed": overhead});
    }
    class
}
