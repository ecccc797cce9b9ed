//! All objects, and the operations that requests perform on them, independent of HTTP.

mod define;
mod delete;
mod public;
mod write;

#[cfg(test)]
mod define_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use harbormaster_api::features::Feature;
use serde_json::{Value, json};

pub(crate) use delete::{Deleted, Deletion};
pub(crate) use write::{Manner, Part, Tracking};

use crate::{
    Options,
    admission::{self, Context, Others, Refusal},
    kinds::{Kind, Kinds, Rules},
    random::Random,
    shelf::{Range, Versions},
    status::{Failure, Result},
    time::now,
};

/// The objects of a server. Clones share them. Stand-ins for controllers and kubelets in the same process read and
/// write objects here.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    versions: Versions,
    kinds: RwLock<Arc<Kinds>>,
    random: Random,
    /// Held while the served kinds change to match a definition.
    defining: Mutex<()>,
    /// Held while a service receives addresses and ports.
    addressing: Mutex<()>,
}

/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

impl Store {
    /// Creates a store with the objects that every cluster has: the `kubernetes` service, priority classes, and
    /// namespaces with their service accounts.
    pub(crate) fn new(options: Options) -> Self {
        let versions = Versions::new();
        let kinds = RwLock::new(Arc::new(Kinds::of_table(options.features, &versions, options.history)));
        let random = Random::new(options.seed);
        let store = Self(Arc::new(Inner {
            options,
            versions,
            kinds,
            random,
            defining: Mutex::new(()),
            addressing: Mutex::new(()),
        }));
        for name in NAMESPACES {
            store.at_start("namespaces", json!({"metadata": {"name": name}}));
        }
        for (name, value, description) in admission::SYSTEM_CLASSES {
            let class = json!({"metadata": {"name": name}, "value": value, "description": description});
            store.at_start("priorityclasses.scheduling.k8s.io", class);
        }
        let labels = json!({"component": "apiserver", "provider": "kubernetes"});
        let ports = json!([{"name": "https", "port": 443, "targetPort": 6443}]);
        let service = json!({"metadata": {"name": "kubernetes", "labels": labels}, "spec": {"ports": ports}});
        store.at_start("services", service);
        store
    }

    fn at_start(&self, resource: &str, object: Value) {
        if let Err(failure) = self.create(resource, object) {
            tracing::error!(resource, err = %failure, "Cannot create an object that every cluster has");
        }
    }

    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        self.0.kinds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// Returns a new UID.
    pub(crate) fn new_uid(&self) -> String {
        self.0.random.uid()
    }

    /// Returns the version of Kubernetes that the server reports, for example `v1.36.1`.
    pub fn kubernetes_version(&self) -> String {
        self.0.options.kubernetes_version()
    }

    /// Returns true if a feature gate of the API server is on.
    pub fn enabled(&self, gate: Feature) -> bool {
        self.0.options.features.enabled(gate)
    }

    /// Returns the latest resource version.
    pub fn version(&self) -> u64 {
        self.0.versions.now()
    }

    /// Calls `apply` with the context of admission, and converts a refusal into a failure about the object `name`.
    fn rules(
        &self,
        kind: &Kind,
        name: &str,
        part: Part,
        apply: impl FnOnce(&Context<'_>) -> std::result::Result<(), Refusal>,
    ) -> Result<()> {
        let Options { features, default_tolerations, taint_new_nodes, .. } = self.0.options;
        let others = &*self.kinds();
        let status_only = part == Part::Status;
        let now = now();
        let context =
            Context { kind, others, now, features, default_tolerations, taint_new_nodes, status_only };
        apply(&context).map_err(|refusal| match refusal {
            Refusal::Unfit(why) => Failure::bad_request(kind.cannot_be_handled(&why)),
            Refusal::Forbidden { why, .. } => Failure::forbidden(kind.about(name), &why),
            Refusal::Invalid(errors) => Failure::invalid(kind.about(name), &errors),
        })
    }

    /// Locks the assignment of service addresses and ports until the guard is dropped. Returns `None` for kinds other
    /// than services.
    fn addressing(&self, kind: &Kind) -> Option<MutexGuard<'_, ()>> {
        let lock = || self.0.addressing.lock().unwrap_or_else(PoisonError::into_inner);
        (kind.rules == Rules::Service).then(lock)
    }

    /// Removes all objects of a namespace, as the namespace controller would eventually.
    fn empty_namespace(&self, namespace: &str) {
        for kind in self.kinds().stored().filter(|kind| kind.is_namespaced()) {
            clear(kind, namespace);
        }
    }
}

impl Others for Kinds {
    fn all(&self, resource: &str) -> Vec<Value> {
        let page = self.named(resource).and_then(|kind| kind.shelf.list(&Range::ALL, |_| true).ok());
        page.unwrap_or_default().objects.iter().map(|object| object.value()).collect()
    }

    fn get(&self, resource: &str, name: &str) -> Option<Value> {
        Some(self.named(resource)?.shelf.get(name)?.value())
    }
}

/// Removes all objects of a kind, in a namespace or everywhere.
fn clear(kind: &Kind, namespace: &str) {
    let page = kind.shelf.list(&Range { namespace, ..Range::ALL }, |_| true).unwrap_or_default();
    for object in page.objects {
        let mut version = object.version();
        // If another writer was faster, the version that it wrote must be removed.
        while kind.shelf.remove(&object.key, version, None).is_err() {
            match kind.shelf.get(&object.key) {
                Some(other) => version = other.version(),
                None => break,
            }
        }
    }
}
