//! The objects of one resource, decoded and kept up to date.

use std::collections::BTreeMap;

use harbormaster_apiserver::{Event, EventType, Expired, Store, Watch};
use serde_json::Value;

use crate::sandbox::SandboxError;

/// The objects of one resource as of the last [`Mirror::changed`] or [`Mirror::catch_up`]. `catch_up` sees all earlier
/// writes by this process.
#[derive(Debug)]
pub(crate) struct Mirror {
    store: Store,
    resource: &'static str,
    watch: Watch,
    /// Keyed by namespace and name.
    objects: BTreeMap<String, Value>,
    /// Deleted objects that have not been taken yet, in their last version.
    gone: Vec<Value>,
    /// Number of changes so far.
    revision: u64,
}

impl Mirror {
    pub(crate) fn new(store: &Store, resource: &'static str) -> Result<Self, SandboxError> {
        let watch = store.watch(resource, "", "", "").map_err(|e| SandboxError::Store(e.to_string()))?;
        Ok(Self {
            store: store.clone(),
            resource,
            watch,
            objects: BTreeMap::new(),
            gone: Vec::new(),
            revision: 0,
        })
    }

    /// Waits until something changes.
    pub(crate) async fn changed(&mut self) {
        let events = self.watch.next().await;
        self.apply(events);
    }

    /// Applies all changes so far.
    pub(crate) async fn catch_up(&mut self) {
        loop {
            let events = tokio::select! {
                biased;
                events = self.watch.next() => events,
                () = std::future::ready(()) => return,
            };
            self.apply(events);
        }
    }

    fn apply(&mut self, events: Result<Vec<Event>, Expired>) {
        self.revision += 1;
        let Ok(events) = events else {
            match self.store.watch(self.resource, "", "", "") {
                Ok(watch) => self.watch = watch,
                Err(error) => {
                    tracing::error!(err = %error, resource = self.resource, "A resource cannot be watched");
                }
            }
            self.objects.clear();
            return;
        };
        for Event { event, object } in events {
            let key = format!("{}/{}", object.namespace(), object.name());
            match event {
                EventType::Added | EventType::Modified => {
                    self.objects.insert(key, object.value());
                }
                EventType::Deleted => self.gone.extend(self.objects.remove(&key)),
            }
        }
    }

    /// Returns all objects, ordered by namespace and name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// Returns a number that changes with every change of an object.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the objects that were deleted since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.gone)
    }
}
