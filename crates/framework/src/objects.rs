//! What plugins look up beside nodes and pods: namespaces, services, owners of pods, disruption budgets.

use std::collections::BTreeMap;

use harbormaster_api::{
    Labels, Object, ObjectKey, ObjectKind, PodDisruptionBudget, Service, Str, Workload, WorkloadKind,
};
use rustc_hash::FxHashMap;

/// All of them, found by namespace and name.
#[derive(Debug, Default)]
pub struct Objects {
    namespaces: FxHashMap<Str, Labels>,
    services: FxHashMap<Str, BTreeMap<Str, Service>>,
    workloads: FxHashMap<(WorkloadKind, Str, Str), Workload>,
    budgets: FxHashMap<Str, BTreeMap<Str, PodDisruptionBudget>>,
    version: u64,
}

impl Objects {
    /// The labels of a namespace; `None` if there is no such object.
    pub fn namespace_labels(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    /// The services of a namespace, by name.
    pub fn services(&self, namespace: &str) -> impl Iterator<Item = &Service> {
        self.services.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// An owner of pods.
    pub fn workload(&self, kind: WorkloadKind, namespace: &Str, name: &Str) -> Option<&Workload> {
        self.workloads.get(&(kind, namespace.clone(), name.clone()))
    }

    /// The disruption budgets of a namespace, by name.
    pub fn budgets(&self, namespace: &str) -> impl Iterator<Item = &PodDisruptionBudget> {
        self.budgets.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Moves with every change of services and owners.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// An object is new or changed.
    pub(crate) fn set(&mut self, object: Object) {
        self.version += 1;
        match object {
            Object::Namespace(n) => {
                self.namespaces.insert(n.name, n.labels);
            }
            Object::Service(s) => {
                self.services.entry(s.namespace.clone()).or_default().insert(s.name.clone(), s);
            }
            Object::Workload(w) => {
                self.workloads.insert((w.kind, w.namespace.clone(), w.name.clone()), w);
            }
            Object::PodDisruptionBudget(b) => {
                self.budgets.entry(b.namespace.clone()).or_default().insert(b.name.clone(), b);
            }
        }
    }

    /// An object is gone.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.version += 1;
        match key.kind {
            ObjectKind::Namespace => {
                self.namespaces.remove(&key.name);
            }
            ObjectKind::Service => forget(&mut self.services, key),
            ObjectKind::PodDisruptionBudget => forget(&mut self.budgets, key),
            ObjectKind::Workload(kind) => {
                self.workloads.remove(&(kind, key.namespace.clone(), key.name.clone()));
            }
        }
    }
}

fn forget<T>(all: &mut FxHashMap<Str, BTreeMap<Str, T>>, key: &ObjectKey) {
    if let Some(some) = all.get_mut(&key.namespace) {
        some.remove(&key.name);
        if some.is_empty() {
            all.remove(&key.namespace);
        }
    }
}
