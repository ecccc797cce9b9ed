//! Changes to a cluster that people ask about: nodes that leave or arrive, workloads that grow, shrink or go.
//!
//! An edit changes the manifests, as a person with an editor would, so everything that is read later follows. One kind of
//! edit changes the scheduler's configuration instead.

mod nodes;
mod objects;

use std::{fmt, str::FromStr, sync::Arc};

use harbormaster_validation::{
    Kind,
    value::{list, namespace, remove, text, uid},
};
use serde_json::Value;

pub use nodes::{node_of_part, part_for};

use crate::{documents::Location, error::ManifestError, manifests::Manifest, notices::shortened};

/// A change to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The node is cordoned and its pods become pending, except for DaemonSet and static pods.
    Drain {
        /// Name of the node.
        node: String,
    },
    /// The node is removed and its pods become pending, except for DaemonSet and static pods, which are removed, too.
    Remove {
        /// Name of the node.
        node: String,
    },
    /// The cluster gets empty nodes like an existing one.
    Add {
        /// Number of new nodes.
        count: usize,
        /// Name of the existing node.
        like: String,
    },
    /// All pods with a node become pending, except for DaemonSet and static pods.
    Repack,
    /// A workload gets another number of replicas.
    Scale {
        /// The workload.
        workload: ObjectName,
        /// Its new number of replicas.
        replicas: u32,
    },
    /// An object is deleted, with everything that it owns.
    Delete {
        /// The object.
        object: ObjectName,
    },
    /// A field of the scheduler's configuration gets another value. The manifests stay as they are.
    Set {
        /// Path of the field.
        path: String,
        /// Its new value.
        value: Value,
    },
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drain { node } => write!(f, "drain node {node}"),
            Self::Remove { node } => write!(f, "remove node {node}"),
            Self::Add { count: 1, like } => write!(f, "add a node like {like}"),
            Self::Add { count, like } => write!(f, "add {count} nodes like {like}"),
            Self::Repack => write!(f, "place all pods anew"),
            Self::Scale { workload, replicas } => write!(f, "scale {workload} to {replicas}"),
            Self::Delete { object } => write!(f, "delete {object}"),
            Self::Set { path, value: Value::String(text) } => write!(f, "set {path} to {text}"),
            Self::Set { path, value } => write!(f, "set {path} to {value}"),
        }
    }
}

/// An object as a person names it: `deployment/web` or `deployment/shop/web`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Kind, plural, singular or short name of the resource, in any case.
    pub kind: String,
    /// Namespace; `None` for an object of any namespace, or of none.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace), name),
            _ => ("", None, ""),
        };
        if [kind, name].contains(&"") || namespace == Some("") {
            return Err(format!("expected KIND/NAME or KIND/NAMESPACE/NAME, got {text:?}"));
        }
        Ok(Self { kind: kind.to_owned(), namespace: namespace.map(str::to_owned), name: name.to_owned() })
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        match namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{name}"),
            None => write!(f, "{kind} {name}"),
        }
    }
}

/// An edit and the place where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The edit.
    pub edit: Edit,
    /// File or flag that contains the edit.
    pub source: Arc<str>,
    /// Line in the file, counted from 1.
    pub line: Option<u64>,
    /// Field in the file; empty for a flag.
    pub field: String,
}

impl Step {
    /// Returns an error about this step.
    fn error(&self, message: String) -> ManifestError {
        ManifestError {
            location: Location { file: self.source.clone(), ..Location::default() },
            line: self.line,
            object: String::new(),
            field: self.field.clone(),
            message,
        }
    }
}

/// Results of applying edits, other than the edited objects.
#[derive(Debug, Default)]
pub(crate) struct Edited {
    pub(crate) errors: Vec<ManifestError>,
    pub(crate) warnings: Vec<String>,
    /// Namespace and UID of pods that left their node and had resource claims.
    pub(crate) left: Vec<(String, String)>,
    /// Labels of workloads whose missing pods are created in any case.
    pub(crate) scaled: Vec<String>,
    /// Pods that left their node and that no controller would create again.
    orphans: Vec<String>,
}

/// Applies the steps one after the other.
pub(crate) fn apply(steps: &[Step], objects: &mut Vec<Manifest>, kinds: &[Arc<Kind>]) -> Edited {
    let mut edited = Edited::default();
    for step in steps {
        let done = match &step.edit {
            Edit::Drain { node } => nodes::drain(node, objects, &mut edited),
            Edit::Remove { node } => nodes::remove(node, objects, &mut edited),
            Edit::Add { count, like } => nodes::add(*count, like, objects),
            Edit::Repack => {
                nodes::vacate(|_| true, objects, &mut edited, true);
                Ok(())
            }
            Edit::Scale { workload, replicas } => {
                objects::scale(workload, *replicas, objects, kinds, &mut edited)
            }
            Edit::Delete { object } => objects::delete(object, objects, kinds, &mut edited),
            // Whoever reads the configuration makes this change.
            Edit::Set { .. } => Ok(()),
        };
        edited.errors.extend(done.err().map(|message| step.error(message)));
    }
    if !edited.orphans.is_empty() {
        edited.warnings.push(format!(
            "{} pod(s) without a controller leave their node and are treated as pending, but nobody would create them \
             again: {}",
            edited.orphans.len(),
            shortened(&edited.orphans)
        ));
    }
    edited
}

impl Edited {
    /// Records that a pod is not on its node any more, so that its claims are released.
    fn leaves(&mut self, pod: &Value) {
        if !list(pod, "/spec/resourceClaims").is_empty() {
            self.left.push((namespace(pod).to_owned(), uid(pod).to_owned()));
        }
    }
}

/// Returns true for pods of DaemonSets and static pods, which belong to their node.
pub(crate) fn belongs_to_node(pod: &Value) -> bool {
    let owner = harbormaster_validation::value::controller(pod).map_or("", |owner| text(owner, "/kind"));
    ["DaemonSet", "Node"].contains(&owner) || !text(pod, MIRROR).is_empty()
}

/// Annotation of the API server's copies of static pods.
const MIRROR: &str = "/metadata/annotations/kubernetes.io~1config.mirror";

/// Makes a pod pending.
pub(crate) fn make_pending(pod: &mut Value) {
    remove(&mut pod["spec"], "nodeName");
    remove(pod, "status");
}

#[cfg(test)]
mod tests;
