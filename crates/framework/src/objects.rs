//! Objects other than nodes and pods that plugins read: namespaces, services, owners of pods, disruption budgets, and
//! custom resources.

mod custom;

use std::collections::BTreeMap;

use harbormaster_api::{
    Labels, Object, ObjectKey, ObjectKind, PodDisruptionBudget, Service, Str, Workload, WorkloadKind,
};
use rustc_hash::FxHashMap;

use crate::{
    assume::{Assumption, Creation},
    guard::PointError,
    resource::{AnyCustom, CustomKey, RawObject, Resource, ResourceKind},
};

use custom::CustomObjects;

/// Identifies an object that is neither a node nor a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectId {
    /// An object of a kind that every scheduler watches.
    BuiltIn(ObjectKey),
    /// An object of a kind that a plugin names.
    Custom(CustomKey),
}

/// All objects by namespace and name. Plugins read custom objects with
/// [`Watches::watched`](crate::resource::Watches::watched).
#[derive(Debug, Default)]
pub struct Objects {
    namespaces: FxHashMap<Str, Labels>,
    services: FxHashMap<Str, BTreeMap<Str, Service>>,
    workloads: FxHashMap<(WorkloadKind, Str, Str), Workload>,
    budgets: FxHashMap<Str, BTreeMap<Str, PodDisruptionBudget>>,
    custom: CustomObjects,
}

impl Objects {
    /// Returns the labels of a namespace; `None` if it does not exist.
    pub fn namespace_labels(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    /// Services of a namespace, in name order.
    pub fn services(&self, namespace: &str) -> impl Iterator<Item = &Service> {
        self.services.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns a workload (a possible owner of pods).
    pub fn workload(&self, kind: WorkloadKind, namespace: &Str, name: &Str) -> Option<&Workload> {
        self.workloads.get(&(kind, namespace.clone(), name.clone()))
    }

    /// Disruption budgets of a namespace, in name order.
    pub fn budgets(&self, namespace: &str) -> impl Iterator<Item = &PodDisruptionBudget> {
        self.budgets.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Custom objects of a kind by namespace and name; `None` if no plugin watches the kind.
    pub(crate) fn custom<R: Resource>(&self) -> Option<&BTreeMap<Str, BTreeMap<Str, AnyCustom>>> {
        self.custom.objects::<R>()
    }

    /// Custom objects of a kind that have this key, ordered by namespace and name.
    pub(crate) fn custom_with_key<R: Resource>(&self, key: &str) -> impl Iterator<Item = &AnyCustom> {
        self.custom.with_key::<R>(key)
    }

    /// Returns true if the object exists.
    pub(crate) fn contains(&self, id: &ObjectId) -> bool {
        let key = match id {
            ObjectId::BuiltIn(key) => key,
            ObjectId::Custom(key) => return self.custom.contains(key),
        };
        let has = |names: Option<bool>| names.unwrap_or_default();
        match key.kind {
            ObjectKind::Namespace => self.namespaces.contains_key(&key.name),
            ObjectKind::Service => {
                has(self.services.get(&key.namespace).map(|some| some.contains_key(&key.name)))
            }
            ObjectKind::PodDisruptionBudget => {
                has(self.budgets.get(&key.namespace).map(|some| some.contains_key(&key.name)))
            }
            ObjectKind::Workload(kind) => self.workload(kind, &key.namespace, &key.name).is_some(),
        }
    }

    /// Keys of the custom objects, for building indexes.
    pub(crate) fn custom_keys(&self) -> impl Iterator<Item = CustomKey> + '_ {
        self.custom.keys()
    }

    /// Stores objects of the given kind from now on.
    pub(crate) fn add_resource(&mut self, kind: ResourceKind) {
        self.custom.add_kind(kind);
    }

    /// Adds or replaces a custom object.
    pub(crate) fn set_custom(&mut self, raw: &RawObject) -> custom::CustomOutcome {
        self.custom.set(raw)
    }

    /// Removes a custom object.
    pub(crate) fn remove_custom(&mut self, key: &CustomKey) -> custom::CustomOutcome {
        self.custom.remove(key)
    }

    /// Applies an assumption made for a pod to a custom object. Returns true if the object changed.
    pub(crate) fn assume(&mut self, pod: &Str, assumption: Assumption) -> Result<bool, PointError> {
        self.custom.assume(pod, assumption)
    }

    /// Shows plugins a custom object that does not exist yet. Returns false if no plugin reads its kind.
    pub(crate) fn expect(&mut self, pod: &Str, creation: Creation) -> bool {
        self.custom.expect(pod, creation)
    }

    /// Reverts the assumptions made for a pod. Returns the objects that changed and any errors.
    pub(crate) fn revert_assumptions(&mut self, pod: &str) -> (Vec<CustomKey>, Vec<PointError>) {
        self.custom.revert_assumptions(pod)
    }

    /// Adds or replaces an object.
    pub(crate) fn set(&mut self, object: Object) {
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

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
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
