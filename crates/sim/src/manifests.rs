//! From manifests to a cluster: what kube-apiserver and the controllers would make of them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use harbormaster_api::{Node, Object, ObjectKind, Pod, WorkloadKind, wire::Decoder};
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::{
    documents::{self, Place, Written},
    priority::PriorityClasses,
    workloads,
};

/// Text with the name under which errors mention it.
#[derive(Clone, Debug)]
pub struct Source {
    /// For example the path of a file.
    pub name: String,
    /// YAML or JSON.
    pub text: String,
}

/// Nodes, pods and what plugins look up besides, in the order of the manifests.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Namespaces, services, workloads and disruption budgets.
    pub objects: Vec<Object>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Pods with a node.
    pub bound: Vec<Pod>,
    /// Pods without a node.
    pub pending: Vec<Pod>,
    /// How many objects of which kind were left out.
    pub ignored: BTreeMap<String, usize>,
    /// Where files of workloads came from a cluster: how many workloads were not expanded.
    pub live_workloads: usize,
}

/// One thing that is wrong with the manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The document and, if known, the object's place in it.
    pub place: Place,
    /// The line of the field, counted from 1.
    pub line: Option<u64>,
    /// For example `Pod default/web`; empty if it is not known.
    pub object: String,
    /// For example `spec.containers[0].resources.requests.cpu`; empty for the whole object.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.file.is_empty() {
            write!(f, "{}", self.place.file)?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            write!(f, ": document {}", self.place.document)?;
        } else {
            write!(f, "objects[{}]", self.place.document)?;
        }
        if !self.place.path.is_empty() {
            write!(f, " {}", self.place.path)?;
        }
        for part in [&self.object, &self.field].into_iter().filter(|part| !part.is_empty()) {
            write!(f, ": {part}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Everything that is wrong with the manifests; one line each when printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ManifestErrors(pub Vec<ManifestError>);

impl Cluster {
    /// Reads YAML or JSON: several documents, lists and dumps of `kubectl get -o yaml`.
    ///
    /// # Errors
    /// Everything that is wrong, with file, document, line and field.
    pub fn from_sources(sources: &[Source]) -> Result<Self, ManifestErrors> {
        let mut reader = Reader::new();
        for source in sources {
            let file: Arc<str> = source.name.as_str().into();
            match documents::read(&file, &source.text) {
                Ok(objects) => objects.into_iter().for_each(|object| reader.object(object)),
                Err(unreadable) => reader.errors.push(ManifestError {
                    place: Place { file, document: unreadable.document, ..Place::default() },
                    line: unreadable.line,
                    object: String::new(),
                    field: String::new(),
                    message: unreadable.message,
                }),
            }
        }
        reader.finish().map_err(|mut errors| {
            errors.0.iter_mut().for_each(|error| locate(error, sources));
            errors
        })
    }

    /// Takes objects as they are, with the API server's defaults.
    ///
    /// # Errors
    /// Everything that is wrong, with the object's place in the list and the field.
    pub fn from_objects(objects: Vec<Value>) -> Result<Self, ManifestErrors> {
        let mut reader = Reader::new();
        for (document, value) in objects.into_iter().enumerate() {
            reader.object(Written { value, place: Place { document, ..Place::default() } });
        }
        reader.finish()
    }

    /// What the user should know besides the result; one line each.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if !self.ignored.is_empty() {
            let kinds: Vec<String> = self.ignored.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
            notices.push(format!("ignored: {}", kinds.join(", ")));
        }
        if self.live_workloads > 0 {
            let n = self.live_workloads;
            notices.push(format!("{n} workload(s) come from a cluster: only the pods that are listed count"));
        }
        notices
    }
}

fn locate(error: &mut ManifestError, sources: &[Source]) {
    if error.line.is_some() {
        return;
    }
    let source = sources.iter().find(|s| *s.name == *error.place.file);
    error.line = source.and_then(|s| documents::line_of(&s.text, &error.place, &error.field));
}

/// Pods wait here until all priority classes are known.
struct NewPod {
    value: Value,
    place: Place,
    /// Where the pod's fields stand in the manifest: empty, or a template's `spec.template.`.
    prefix: &'static str,
    label: String,
}

struct Reader {
    decoder: Decoder,
    classes: PriorityClasses,
    pods: Vec<NewPod>,
    cluster: Cluster,
    /// Names given so far, to find those given twice.
    seen: FxHashMap<String, Place>,
    generated: FxHashMap<String, usize>,
    errors: Vec<ManifestError>,
}

impl Reader {
    fn new() -> Self {
        Self {
            decoder: Decoder::new().with_api_defaults(),
            classes: PriorityClasses::default(),
            pods: Vec::new(),
            cluster: Cluster::default(),
            seen: FxHashMap::default(),
            generated: FxHashMap::default(),
            errors: Vec::new(),
        }
    }

    fn object(&mut self, written: Written) {
        let Written { mut value, place } = written;
        let Some(kind) = value.get("kind").and_then(Value::as_str).map(str::to_owned) else {
            let message =
                if value.is_object() { "Object 'Kind' is missing" } else { "is not a Kubernetes object" };
            return self.error(&place, String::new(), "", message);
        };
        let looked_up = object_kind(&value, &kind);
        let is_workload = workloads::is_workload(&kind);
        let is_known = matches!(kind.as_str(), "Node" | "Pod" | "PriorityClass");
        if !is_known && !is_workload && looked_up.is_none() {
            *self.cluster.ignored.entry(kind).or_default() += 1;
            return;
        }
        let Some(name) = self.name(&mut value) else {
            let message = match value.pointer("/metadata/name") {
                None | Some(Value::Null | Value::String(_)) => {
                    "Required value: name or generateName is required".to_owned()
                }
                // YAML takes a bare `n` or `yes` for a truth value.
                Some(other) => format!("expected a string, got {other}"),
            };
            return self.error(&place, kind, "metadata.name", &message);
        };
        let label = match kind.as_str() {
            "Node" | "PriorityClass" | "Namespace" => format!("{kind} {name}"),
            _ => format!("{kind} {}/{name}", namespace(&value)),
        };
        if let Some(first) = self.seen.insert(label.clone(), place.clone()) {
            let message = format!("is given twice, first in {}", described(&first));
            return self.error(&place, label, "metadata.name", &message);
        }
        match kind.as_str() {
            "Node" => self.node(&value, &place, label),
            "PriorityClass" => match self.decoder.priority_class_value(&value) {
                Ok(class) => self.classes.add(class),
                Err(e) => self.error(&place, label, &e.path, &e.problem),
            },
            "Pod" => self.pods.push(NewPod { value, place, prefix: "", label }),
            _ => {
                if let Some(kind) = looked_up {
                    self.looked_up(kind, &value, &place, &label);
                }
                if is_workload {
                    self.workload(&value, &place, label);
                }
            }
        }
    }

    /// `metadata.name`, made from `generateName` if need be.
    fn name(&mut self, value: &mut Value) -> Option<String> {
        let metadata = value.get_mut("metadata")?.as_object_mut()?;
        if let Some(name) = metadata.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) {
            return Some(name.to_owned());
        }
        let prefix = metadata.get("generateName")?.as_str().filter(|prefix| !prefix.is_empty())?.to_owned();
        let number = self.generated.entry(prefix.clone()).or_default();
        *number += 1;
        let name = format!("{prefix}{number}");
        metadata.insert("name".into(), name.clone().into());
        Some(name)
    }

    fn node(&mut self, value: &Value, place: &Place, label: String) {
        match self.decoder.node_value(value) {
            Ok(node) => self.cluster.nodes.push(node),
            Err(e) => self.error(place, label, &e.path, &e.problem),
        }
    }

    fn looked_up(&mut self, kind: ObjectKind, value: &Value, place: &Place, label: &str) {
        match self.decoder.object_value(kind, value) {
            Ok(object) => self.cluster.objects.push(object),
            Err(e) => self.error(place, label.to_owned(), &e.path, &e.problem),
        }
    }

    fn workload(&mut self, value: &Value, place: &Place, label: String) {
        if value["metadata"]["uid"].is_string() {
            self.cluster.live_workloads += 1;
            return;
        }
        if value["kind"] == "Deployment" {
            let kind = ObjectKind::Workload(WorkloadKind::ReplicaSet);
            self.looked_up(kind, &workloads::replica_set_of(value), place, &label);
        }
        match workloads::pods_of(value) {
            Ok(pods) => {
                let new = |value: Value| {
                    let label =
                        format!("{label}: Pod {}", value["metadata"]["name"].as_str().unwrap_or_default());
                    NewPod { value, place: place.clone(), prefix: "spec.template.", label }
                };
                self.pods.extend(pods.into_iter().map(new));
            }
            Err((field, message)) => self.error(place, label, field, &message),
        }
    }

    fn pod(&mut self, new: NewPod) {
        let NewPod { mut value, place, prefix, label } = new;
        if let Err((field, message)) = self.classes.resolve(&mut value) {
            return self.error(&place, label, &format!("{prefix}{field}"), &message);
        }
        match self.decoder.pod_value(&value) {
            Ok(pod) => self.sort(pod),
            Err(e) => self.error(&place, label, &format!("{prefix}{}", e.path), &e.problem),
        }
    }

    /// Finished pods count for nothing.
    fn sort(&mut self, mut pod: Pod) {
        if pod.is_terminal() {
            return;
        }
        if pod.uid.is_empty() {
            pod.uid = pod.full_name().into();
        }
        match &pod.node_name {
            Some(_) => self.cluster.bound.push(pod),
            None => self.cluster.pending.push(pod),
        }
    }

    fn error(&mut self, place: &Place, object: String, field: &str, message: &str) {
        let (place, field, message) = (place.clone(), field.to_owned(), message.to_owned());
        self.errors.push(ManifestError { place, line: None, object, field, message });
    }

    fn finish(mut self) -> Result<Cluster, ManifestErrors> {
        for pod in std::mem::take(&mut self.pods) {
            self.pod(pod);
        }
        if self.errors.is_empty() { Ok(self.cluster) } else { Err(ManifestErrors(self.errors)) }
    }
}

/// Manifests without a version mean the kind of Kubernetes; other groups have kinds of the same name.
fn object_kind(value: &Value, kind: &str) -> Option<ObjectKind> {
    match value["apiVersion"].as_str() {
        Some(api_version) => ObjectKind::of(api_version, kind),
        None => ObjectKind::ALL.into_iter().find(|known| known.name() == kind),
    }
}

fn namespace(value: &Value) -> &str {
    value["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

fn described(place: &Place) -> String {
    match (&*place.file, place.document) {
        ("", at) => format!("objects[{at}]"),
        (file, document) => format!("{file}, document {document}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Cluster, String> {
        let source = Source { name: "f.yaml".into(), text: text.into() };
        Cluster::from_sources(&[source]).map_err(|e| e.to_string())
    }

    #[test]
    fn a_dump_of_a_cluster_becomes_nodes_and_pods() {
        let cluster = read(
            "apiVersion: v1\nkind: List\nitems:\n\
             - {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}\n\
             - {apiVersion: v1, kind: Pod, metadata: {name: a, uid: u}, spec: {nodeName: n1, containers: []}}\n\
             - {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: []}}\n\
             - {apiVersion: v1, kind: Pod, metadata: {name: done}, status: {phase: Succeeded}}\n\
             - {apiVersion: apps/v1, kind: Deployment, metadata: {name: d, uid: live}, spec: {}}\n\
             - {apiVersion: v1, kind: ConfigMap, metadata: {name: s}}\n\
             - {apiVersion: v1, kind: ConfigMap, metadata: {name: t}}\n",
        )
        .unwrap();
        assert_eq!((cluster.nodes.len(), cluster.bound.len(), cluster.pending.len()), (1, 1, 1));
        assert_eq!(cluster.pending[0].uid, "default/b");
        assert_eq!(cluster.pending[0].spec.scheduler_name, "default-scheduler");
        let notices = cluster.notices();
        assert_eq!(notices[0], "ignored: 2 ConfigMap");
        assert!(notices[1].starts_with("1 workload(s) come from a cluster"), "{notices:?}");
    }

    #[test]
    fn pods_of_workloads_and_generated_names_get_priorities_of_classes_that_come_later() {
        let cluster = read(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: x}\nspec:\n  replicas: 2\n  \
             template: {spec: {priorityClassName: high}}\n---\nkind: Pod\nmetadata: {generateName: g-}\n---\n\
             kind: Pod\nmetadata: {generateName: g-}\n---\n\
             {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 9}\n",
        )
        .unwrap();
        let pods: Vec<_> = cluster.pending.iter().map(|p| (p.full_name(), p.spec.priority)).collect();
        let expected = [("x/d-1", 9), ("x/d-2", 9), ("default/g-1", 0), ("default/g-2", 0)];
        assert_eq!(pods, expected.map(|(name, priority)| (name.to_owned(), priority)));
    }

    #[test]
    fn what_plugins_look_up_is_kept_and_workloads_are_expanded_besides() {
        let cluster = read(
            "apiVersion: v1\nkind: ServiceList\nitems:\n- {metadata: {name: s}, spec: {selector: {app: web}}}\n---\n\
             {apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: gold}}}\n---\n\
             {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: live, namespace: team, uid: u}, spec: {}}\n---\n\
             {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {template: {}}}\n---\n\
             {kind: ReplicationController, metadata: {name: old}, spec: {template: {}, replicas: 0}}\n---\n\
             {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: s}}\n---\n\
             {apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: s}}\n",
        )
        .unwrap();
        let keys: Vec<String> = cluster
            .objects
            .iter()
            .map(Object::key)
            .map(|k| format!("{} {}/{}", k.kind.name(), k.namespace, k.name))
            .collect();
        let expected = [
            "Service default/s",
            "Namespace /team",
            "ReplicaSet team/live",
            "StatefulSet default/db",
            "ReplicationController default/old",
            "PodDisruptionBudget default/s",
        ];
        assert_eq!(keys, expected);
        assert_eq!((cluster.pending.len(), cluster.live_workloads), (1, 1));
        assert_eq!(cluster.notices()[0], "ignored: 1 Service");
    }

    #[test]
    fn what_plugins_look_up_is_checked_like_everything_else() {
        let errors = read(
            "kind: Namespace\nmetadata: {name: x}\n---\nkind: Namespace\nmetadata: {name: x, namespace: odd}\n---\n\
             kind: Service\nmetadata: {name: s}\nspec:\n  selector:\n    app: 1\n---\nkind: ReplicaSet\nmetadata: {name: r}\n",
        )
        .unwrap_err();
        let lines: Vec<&str> = errors.lines().collect();
        let [twice, selector, template] = lines.as_slice() else { panic!("{errors}") };
        assert!(twice.contains("document 2: Namespace x: metadata.name: is given twice"), "{twice}");
        let start = "f.yaml:11: document 3: Service default/s: spec.selector.app: ";
        assert!(selector.starts_with(start), "{selector}");
        assert!(template.contains("ReplicaSet default/r: spec.template: required value"), "{template}");
    }

    #[test]
    fn everything_that_is_wrong_is_named_with_file_line_document_and_field() {
        let errors = read(
            "kind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n    resources:\n      requests:\n\
             \x20       cpu: lots\n---\nkind: Node\nmetadata: {}\n---\nmetadata: {name: x}\n---\nkind: Pod\nmetadata: \
             {name: p}\n---\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: many\n---\nkind: Pod\nmetadata: \
             {name: q}\nspec:\n  priorityClassName: none\n",
        )
        .unwrap_err();
        let lines: Vec<&str> = errors.lines().collect();
        let [name, kind, twice, replicas, cpu, class] = lines.as_slice() else { panic!("{errors}") };
        assert_eq!(
            *name,
            "f.yaml:12: document 2: Node: metadata.name: Required value: name or generateName is required"
        );
        assert_eq!(*kind, "f.yaml:14: document 3: Object 'Kind' is missing");
        assert_eq!(
            *twice,
            "f.yaml:17: document 4: Pod default/p: metadata.name: is given twice, first in f.yaml, document 1"
        );
        assert!(
            replicas.starts_with("f.yaml:22: document 5: Deployment default/d: spec.replicas: expected"),
            "{replicas}"
        );
        let start = "f.yaml:9: document 1: Pod default/p: spec.containers[0].resources.requests.cpu: ";
        assert!(cpu.starts_with(start), "{cpu}");
        assert_eq!(
            *class,
            "f.yaml:27: document 6: Pod default/q: spec.priorityClassName: no PriorityClass with name none was found"
        );
    }

    #[test]
    fn unreadable_text_does_not_hide_the_errors_of_other_files() {
        let sources = ["kind: [\n", "kind: Pod\n"].map(|text| Source { name: "f".into(), text: text.into() });
        let errors = Cluster::from_sources(&sources).unwrap_err();
        assert_eq!(errors.0.len(), 2, "{errors}");
        assert!(errors.0[1].message.contains("name or generateName"), "{errors}");
    }

    #[test]
    fn objects_from_memory_are_named_by_their_index() {
        let errors = Cluster::from_objects(vec![serde_json::json!({"kind": "Pod"}), serde_json::json!(1)])
            .unwrap_err();
        let text = errors.to_string();
        let odd = read("kind: Node\nmetadata: {name: n}\n").unwrap_err();
        assert_eq!(odd, "f.yaml:2: document 1: Node: metadata.name: expected a string, got false");
        assert!(
            text.starts_with("objects[0]: Pod: metadata.name: ") && text.contains("\nobjects[1]: is not"),
            "{text}"
        );
    }
}
