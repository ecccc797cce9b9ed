//! Objects other than pods and nodes that plugins read: namespaces, services and owners that select pods, and
//! disruption budgets.

use serde::{Deserialize, Serialize};

use crate::{Labels, Namespace, Str, selector::LabelSelector};

/// `v1.Service`, reduced to what scheduling reads. The pods that a service selects are spread by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// `metadata.namespace`.
    pub namespace: Str,
    /// `metadata.name`.
    pub name: Str,
    /// `spec.selector`; `None` selects nothing, and an empty selector selects everything.
    pub selector: Option<Labels>,
}

/// Kinds of owners. The pods that an owner's selector matches are spread by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WorkloadKind {
    /// `v1`
    ReplicationController,
    /// `apps/v1`
    ReplicaSet,
    /// `apps/v1`
    StatefulSet,
}

/// An owner of pods, reduced to what scheduling reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Kind of the owner.
    pub kind: WorkloadKind,
    /// `metadata.namespace`.
    pub namespace: Str,
    /// `metadata.name`.
    pub name: Str,
    /// `spec.selector`; a ReplicationController's map is in `match_labels`.
    pub selector: Option<LabelSelector>,
}

/// `policy/v1` PodDisruptionBudget, reduced to what preemption reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// `metadata.namespace`.
    pub namespace: Str,
    /// `metadata.name`.
    pub name: Str,
    /// `spec.selector`.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// Names in `status.disruptedPods`: pods whose eviction is in progress and already counted in `disruptionsAllowed`.
    pub disrupted_pods: Vec<Str>,
}

/// An object of one of the [kinds](ObjectKind).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// A namespace.
    Namespace(Namespace),
    /// A service.
    Service(Service),
    /// An owner of pods.
    Workload(Workload),
    /// A disruption budget.
    PodDisruptionBudget(PodDisruptionBudget),
}

/// The kinds of [`Object`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ObjectKind {
    /// [`Object::Namespace`]
    Namespace,
    /// [`Object::Service`]
    Service,
    /// [`Object::Workload`]
    Workload(WorkloadKind),
    /// [`Object::PodDisruptionBudget`]
    PodDisruptionBudget,
}

/// Key of an [`Object`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Namespace; empty for namespaces themselves.
    pub namespace: Str,
    /// Name.
    pub name: Str,
}

impl Object {
    /// Returns the key.
    pub fn key(&self) -> ObjectKey {
        let (kind, namespace, name) = match self {
            Self::Namespace(n) => (ObjectKind::Namespace, Str::default(), &n.name),
            Self::Service(s) => (ObjectKind::Service, s.namespace.clone(), &s.name),
            Self::Workload(w) => (ObjectKind::Workload(w.kind), w.namespace.clone(), &w.name),
            Self::PodDisruptionBudget(b) => (ObjectKind::PodDisruptionBudget, b.namespace.clone(), &b.name),
        };
        ObjectKey { kind, namespace, name: name.clone() }
    }
}

impl ObjectKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Namespace,
        Self::Service,
        Self::Workload(WorkloadKind::ReplicationController),
        Self::Workload(WorkloadKind::ReplicaSet),
        Self::Workload(WorkloadKind::StatefulSet),
        Self::PodDisruptionBudget,
    ];

    /// The `kind` field of objects of this kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::Workload(WorkloadKind::ReplicationController) => "ReplicationController",
            Self::Workload(WorkloadKind::ReplicaSet) => "ReplicaSet",
            Self::Workload(WorkloadKind::StatefulSet) => "StatefulSet",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
        }
    }

    /// API group; empty for the core group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Namespace | Self::Service | Self::Workload(WorkloadKind::ReplicationController) => "",
            Self::Workload(WorkloadKind::ReplicaSet | WorkloadKind::StatefulSet) => "apps",
            Self::PodDisruptionBudget => "policy",
        }
    }

    /// Returns the kind with the given `apiVersion` and `kind`; the version of the group is ignored.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::ALL.into_iter().find(|known| known.name() == kind && known.group() == group)
    }

    /// Returns true if objects of this kind have a namespace.
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_distinguished_by_group_and_name() {
        for (api_version, kind, expected) in [
            ("v1", "Namespace", Some(ObjectKind::Namespace)),
            ("v1", "Service", Some(ObjectKind::Service)),
            ("apps/v1", "ReplicaSet", Some(ObjectKind::Workload(WorkloadKind::ReplicaSet))),
            ("policy/v1", "PodDisruptionBudget", Some(ObjectKind::PodDisruptionBudget)),
            ("serving.knative.dev/v1", "Service", None),
            ("v1", "StatefulSet", None),
            ("apps/v1", "Deployment", None),
        ] {
            assert_eq!(ObjectKind::of(api_version, kind), expected, "{api_version} {kind}");
        }
    }

    #[test]
    fn the_key_of_a_namespace_has_no_namespace() {
        let namespace = Object::Namespace(Namespace { name: "x".into(), ..Namespace::default() });
        let service = Object::Service(Service { namespace: "x".into(), name: "y".into(), selector: None });
        let kind = ObjectKind::Namespace;
        assert_eq!(namespace.key(), ObjectKey { kind, namespace: Str::default(), name: "x".into() });
        let kind = ObjectKind::Service;
        assert_eq!(service.key(), ObjectKey { kind, namespace: "x".into(), name: "y".into() });
    }
}
