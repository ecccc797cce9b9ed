//! Storage classes.

use harbormaster_api::{Labels, Str};
use harbormaster_framework::resource::{Resource, ResourceScope};
use serde::Deserialize;

use super::wire::or_default;

/// Provisioner of classes whose volumes are created manually.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A storage class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// `provisioner`: an in-tree plugin or a CSI driver; see also [`NO_PROVISIONER`].
    #[serde(deserialize_with = "or_default")]
    pub provisioner: Str,
    /// `volumeBindingMode`. The API server always sets it.
    pub volume_binding_mode: Option<BindingMode>,
    /// `allowedTopologies`: at least one term must match; an empty list allows every node.
    #[serde(deserialize_with = "or_default")]
    pub allowed_topologies: Vec<TopologyTerm>,
}

/// Time at which the claims of a class get their volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum BindingMode {
    /// When a node has been chosen for a pod that uses the claim.
    WaitForFirstConsumer,
    /// When the claim is created.
    #[serde(other)]
    Immediate,
}

/// A `TopologySelectorTerm`. All of its requirements must match; an empty term matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyTerm {
    /// `matchLabelExpressions`
    #[serde(deserialize_with = "or_default")]
    pub match_label_expressions: Vec<TopologyRequirement>,
}

/// Requires that a node label has one of the given values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TopologyRequirement {
    /// `key`
    #[serde(deserialize_with = "or_default")]
    pub key: Str,
    /// `values`
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<Str>,
}

impl Resource for StorageClass {
    const GROUP: &'static str = "storage.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "StorageClass";
    const PLURAL: &'static str = "storageclasses";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

impl StorageClass {
    /// Returns true if claims of the class wait for a pod.
    pub fn waits_for_consumer(&self) -> bool {
        self.volume_binding_mode == Some(BindingMode::WaitForFirstConsumer)
    }

    /// Returns true if volumes of the class are provisioned dynamically.
    pub fn is_provisioned(&self) -> bool {
        !self.provisioner.is_empty() && self.provisioner != NO_PROVISIONER
    }

    /// Returns true if volumes of the class can be provisioned for a node with these labels.
    pub fn allows(&self, node: &Labels) -> bool {
        self.allowed_topologies.is_empty() || self.allowed_topologies.iter().any(|term| term.matches(node))
    }
}

impl TopologyTerm {
    /// Returns true if the term matches a node with these labels.
    pub fn matches(&self, node: &Labels) -> bool {
        let has = |r: &TopologyRequirement| node.get(&r.key).is_some_and(|value| r.values.contains(value));
        !self.match_label_expressions.is_empty() && self.match_label_expressions.iter().all(has)
    }
}

/// Returns the API server's error for a missing class.
pub fn not_found(name: &str) -> String {
    format!("storageclass.storage.k8s.io {name:?} not found")
}
