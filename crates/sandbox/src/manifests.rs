//! From manifests to objects in the store.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use harbormaster_apiserver::Store;
use harbormaster_sim::{Cluster, Source};
use serde_json::{Value, json};
use serde_saphyr::{Budget, options::DuplicateKeyPolicy};

use crate::{
    fields::{condition, controller, is_ending, is_finished, name, namespace, text, uid},
    nodes,
    sandbox::SandboxError,
};

/// The kinds that are taken over, with their groups and resources: owners before what they own.
const KINDS: &[(&str, &str, &str)] = &[
    ("Namespace", "", "namespaces"),
    ("PriorityClass", "scheduling.k8s.io", "priorityclasses.scheduling.k8s.io"),
    ("CustomResourceDefinition", "apiextensions.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"),
    ("Node", "", "nodes"),
    ("StorageClass", "storage.k8s.io", "storageclasses.storage.k8s.io"),
    ("PersistentVolume", "", "persistentvolumes"),
    ("PersistentVolumeClaim", "", "persistentvolumeclaims"),
    ("ConfigMap", "", "configmaps"),
    ("Secret", "", "secrets"),
    ("Service", "", "services"),
    ("PodDisruptionBudget", "policy", "poddisruptionbudgets.policy"),
    ("Deployment", "apps", "deployments.apps"),
    ("ReplicaSet", "apps", "replicasets.apps"),
    ("ReplicationController", "", "replicationcontrollers"),
    ("StatefulSet", "apps", "statefulsets.apps"),
    ("Job", "batch", "jobs.batch"),
    ("Pod", "", "pods"),
];
/// Kinds of [`KINDS`] without namespaces.
const CLUSTER_WIDE: &[&str] =
    &["Namespace", "PriorityClass", "CustomResourceDefinition", "Node", "StorageClass", "PersistentVolume"];
/// The classes that every cluster has.
const SYSTEM_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// An object of a manifest.
#[derive(Debug)]
struct Written {
    value: Value,
    /// For messages: file, document, and member of a list.
    place: String,
    /// Its row in [`KINDS`].
    rank: usize,
}

/// Puts nodes from nothing and the objects of manifests into the store. Returns what the user should know.
pub(crate) fn load(
    store: &Store,
    sources: &[Source],
    made_nodes: usize,
) -> Result<Vec<String>, SandboxError> {
    let (mut objects, ignored) = read(sources)?;
    for value in nodes::made(made_nodes) {
        objects.push(Written { value, place: "--nodes".to_owned(), rank: rank_of("Node") });
    }
    add_missing_owners(&mut objects);
    add_missing_classes(&mut objects);
    add_missing_namespaces(&mut objects);
    objects.sort_by_key(|object| object.rank);
    create(store, objects)?;
    let mut notices = Vec::new();
    if !ignored.is_empty() {
        let kinds: Vec<String> = ignored.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        notices.push(format!("ignored: {}", kinds.join(", ")));
    }
    Ok(notices)
}

fn rank_of(kind: &str) -> usize {
    KINDS.iter().position(|(known, _, _)| *known == kind).unwrap_or(KINDS.len())
}

/// All objects of kinds that are taken over, and how many of each other kind there are.
fn read(sources: &[Source]) -> Result<(Vec<Written>, BTreeMap<String, usize>), SandboxError> {
    // Finds most mistakes, with files, documents, lines and fields.
    Cluster::from_sources(sources)?;
    let (mut objects, mut ignored) = (Vec::new(), BTreeMap::new());
    for source in sources {
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&source.text, options())
            .map_err(|e| SandboxError::Manifest(format!("{}: {e}", source.name)))?;
        for (number, document) in (1..).zip(documents) {
            let place = format!("{}: document {number}", source.name);
            flatten(document, place, &mut |value, place| match rank(&value) {
                Some(_) if is_over(&value) => {}
                Some(rank) => objects.push(Written { value: cleaned(value), place, rank }),
                None => *ignored.entry(text(&value, "/kind").to_owned()).or_default() += 1,
            });
        }
    }
    Ok((objects, ignored))
}

/// The files are the user's own, and dumps of large clusters are large.
fn options() -> serde_saphyr::Options {
    let mut budget = Budget::default();
    budget.max_events = usize::MAX;
    budget.max_nodes = usize::MAX;
    budget.max_documents = usize::MAX;
    budget.max_total_scalar_bytes = usize::MAX;
    serde_saphyr::options! {
        budget: Some(budget),
        legacy_octal_numbers: true,
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
    }
}

/// `List`, `PodList` and the like become their members.
fn flatten(mut value: Value, place: String, each: &mut impl FnMut(Value, String)) {
    let kind = text(&value, "/kind").to_owned();
    let Some(Value::Array(items)) =
        value.get_mut("items").filter(|_| kind.ends_with("List")).map(Value::take)
    else {
        return each(value, place);
    };
    for (i, mut item) in items.into_iter().enumerate() {
        // Members of typed lists do not repeat their kind.
        if let Some(fields) = item.as_object_mut().filter(|_| kind != "List") {
            fields.entry("kind").or_insert_with(|| kind.trim_end_matches("List").into());
            fields.entry("apiVersion").or_insert_with(|| value["apiVersion"].clone());
        }
        flatten(item, format!("{place} items[{i}]"), each);
    }
}

/// Manifests without a version mean the kind of Kubernetes; other groups have kinds of the same name.
fn rank(object: &Value) -> Option<usize> {
    let (kind, version) = (text(object, "/kind"), text(object, "/apiVersion"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    KINDS.iter().position(|(known, of, _)| *known == kind && (version.is_empty() || *of == group))
}

/// Whether an object of a dump has come to its end, or soon will.
fn is_over(object: &Value) -> bool {
    let finished = match text(object, "/kind") {
        "Pod" => is_finished(object),
        "Job" => ["Complete", "Failed"].iter().any(|end| condition(object, end).is_some()),
        _ => false,
    };
    finished || is_ending(object)
}

/// Without what only the server that it came from could say.
fn cleaned(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "managedFields", "selfLink"] {
            metadata.remove(field);
        }
    }
    if let Some(object) = object.as_object_mut() {
        object.entry("apiVersion").or_insert(Value::Null);
    }
    if object["apiVersion"].is_null()
        && let Some((_, group, _)) = KINDS.get(rank(&object).unwrap_or(KINDS.len()))
    {
        object["apiVersion"] = if group.is_empty() { "v1".into() } else { format!("{group}/v1").into() };
    }
    if text(&object, "/kind") == "Pod" {
        take_merged_keys(&mut object["spec"]);
    }
    object
}

/// Takes what the server has added to selectors because of `matchLabelKeys` and `mismatchLabelKeys` out of them again:
/// it adds it to every new pod, and refuses those that have it.
fn take_merged_keys(spec: &mut Value) {
    fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
        list.and_then(Value::as_array_mut).into_iter().flatten()
    }
    items(spec.get_mut("topologySpreadConstraints")).for_each(take_keys);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.pointer_mut(&format!("/affinity/{kind}")) else { continue };
        items(affinity.get_mut("requiredDuringSchedulingIgnoredDuringExecution")).for_each(take_keys);
        items(affinity.get_mut("preferredDuringSchedulingIgnoredDuringExecution"))
            .filter_map(|weighted| weighted.get_mut("podAffinityTerm"))
            .for_each(take_keys);
    }
}

fn take_keys(term: &mut Value) {
    let added: Vec<(Value, &str)> = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")]
        .into_iter()
        .flat_map(|(field, operator)| {
            let keys = term[field].as_array().into_iter().flatten();
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

fn space(object: &Value) -> &str {
    match namespace(object) {
        "" => "default",
        namespace => namespace,
    }
}

/// Where a dump has Deployments and pods but not the ReplicaSets between them, these are made anew, so that the
/// Deployments know their pods.
fn add_missing_owners(objects: &mut Vec<Written>) {
    let uids: HashSet<&str> = objects.iter().map(|object| uid(&object.value)).collect();
    let mut made: BTreeMap<String, Written> = BTreeMap::new();
    let mut replicas: HashMap<String, usize> = HashMap::new();
    for pod in objects.iter().filter(|object| text(&object.value, "/kind") == "Pod") {
        let Some(owner) = controller(&pod.value) else { continue };
        let (set_uid, set_name) = (text(owner, "/uid"), text(owner, "/name"));
        if owner["kind"] != "ReplicaSet" || set_uid.is_empty() || uids.contains(set_uid) {
            continue;
        }
        let Some((deployment, hash)) = set_name.rsplit_once('-') else { continue };
        let deployment = objects.iter().map(|object| &object.value).find(|object| {
            text(object, "/kind") == "Deployment"
                && name(object) == deployment
                && space(object) == space(&pod.value)
        });
        let Some(deployment) = deployment else { continue };
        *replicas.entry(set_uid.to_owned()).or_default() += 1;
        made.entry(set_uid.to_owned()).or_insert_with(|| Written {
            value: set_of(deployment, set_name, set_uid, hash),
            place: pod.place.clone(),
            rank: rank_of("ReplicaSet"),
        });
    }
    for (uid, mut set) in made {
        set.value["spec"]["replicas"] = json!(replicas.get(&uid));
        objects.push(set);
    }
}

fn set_of(deployment: &Value, name: &str, set_uid: &str, hash: &str) -> Value {
    let mut spec = json!({
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
            "name": name, "namespace": space(deployment), "uid": set_uid,
            "labels": spec["template"]["metadata"]["labels"],
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": crate::fields::owned_by(deployment),
        },
    })
}

/// Dumps of pods carry their priorities, but seldom come with the classes that these are from.
fn add_missing_classes(objects: &mut Vec<Written>) {
    let known: HashSet<&str> = objects
        .iter()
        .filter(|object| text(&object.value, "/kind") == "PriorityClass")
        .map(|object| name(&object.value))
        .chain(SYSTEM_CLASSES)
        .collect();
    let mut made: BTreeMap<&str, Value> = BTreeMap::new();
    for object in objects.iter().filter(|object| text(&object.value, "/kind") == "Pod") {
        let spec = &object.value["spec"];
        let class = text(spec, "/priorityClassName");
        if class.is_empty() || known.contains(class) || !spec["priority"].is_i64() {
            continue;
        }
        let mut value = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": class}, "value": spec["priority"],
        });
        if spec["preemptionPolicy"].is_string() {
            value["preemptionPolicy"] = spec["preemptionPolicy"].clone();
        }
        made.entry(class).or_insert(value);
    }
    let rank = rank_of("PriorityClass");
    let made: Vec<Value> = made.into_values().collect();
    objects.extend(made.into_iter().map(|value| Written { value, place: String::new(), rank }));
}

fn add_missing_namespaces(objects: &mut Vec<Written>) {
    let is_namespace = |object: &&Written| text(&object.value, "/kind") == "Namespace";
    let given: HashSet<&str> =
        objects.iter().filter(is_namespace).map(|object| name(&object.value)).collect();
    let needed: BTreeSet<String> = objects
        .iter()
        .filter(|object| !CLUSTER_WIDE.contains(&text(&object.value, "/kind")))
        .map(|object| space(&object.value))
        .filter(|namespace| !given.contains(namespace))
        .map(str::to_owned)
        .collect();
    for namespace in needed {
        let value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        objects.push(Written { value, place: String::new(), rank: rank_of("Namespace") });
    }
}

fn create(store: &Store, objects: Vec<Written>) -> Result<(), SandboxError> {
    // Owners get other identities than they had.
    let mut identities: HashMap<String, Value> = HashMap::new();
    let (mut nodes, mut wrong) = (0, Vec::new());
    for Written { mut value, place, rank } in objects {
        let Some((kind, _, resource)) = KINDS.get(rank) else { continue };
        if *kind == "Node" {
            nodes += 1;
            nodes::complete(&mut value, nodes);
        }
        let old = uid(&value).to_owned();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("uid");
        }
        let owners = value.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            if let Some(new) = owner["uid"].as_str().and_then(|uid| identities.get(uid)) {
                owner["uid"] = new.clone();
            }
        }
        let about = match CLUSTER_WIDE.contains(kind) {
            true => format!("{kind} {}", name(&value)),
            false => format!("{kind} {}/{}", space(&value), name(&value)),
        };
        match store.create(resource, value) {
            Ok(_) if old.is_empty() => {}
            Ok(object) => {
                identities.insert(old, object.value()["metadata"]["uid"].clone());
            }
            // Every cluster has some objects; a dump of another one has them as well.
            Err(failure) if failure.reason == "AlreadyExists" && is_given(&about) => {}
            Err(failure) if place.is_empty() => wrong.push(format!("{about}: {failure}")),
            Err(failure) => wrong.push(format!("{place}: {about}: {failure}")),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(SandboxError::Manifest(wrong.join("\n"))) }
}

/// Whether the server has an object of that name from the beginning.
fn is_given(about: &str) -> bool {
    match about.split_once(' ') {
        Some(("Namespace", _)) => true,
        Some(("PriorityClass", name)) => SYSTEM_CLASSES.contains(&name),
        _ => false,
    }
}
