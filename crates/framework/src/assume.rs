//! Assumed objects: all later pods see what a plugin decided in Reserve before the API server has it.
//!
//! A plugin describes how an object will look once its decision is written, and every point sees the object that way.
//! When a newer version arrives from the API server, the change is applied to it again, unless the change reports that
//! it is no longer needed: because it was written, or because someone wrote something else. The assumptions of a pod
//! are reverted when the pod gives up its node or is deleted, and when the object is deleted.
//!
//! Hints and the queue see the API server's version, not the assumed one. If a pod waits because of an assumption that
//! is reverted, the event that wakes it is the pod that leaves its node; plugins that assume objects listen to that
//! event.

use std::{fmt, sync::Arc};

use crate::{
    guard::{Call, PointError, caught},
    resource::{AnyCustom, Custom, CustomKey, Resource, ResourceKind, ResourceName},
};

/// Collects the assumptions of a plugin in Reserve.
#[derive(Debug)]
pub struct Assume {
    plugin: &'static str,
    assumptions: Vec<Assumption>,
}

/// Expected change of one object.
#[derive(Clone)]
pub(crate) struct Assumption {
    pub(crate) kind: ResourceKind,
    pub(crate) key: CustomKey,
    plugin: &'static str,
    change: Change,
}

/// Returns the assumed version of the API server's object; `None` if there is nothing left to assume.
type Change = Arc<dyn Fn(&AnyCustom) -> Option<AnyCustom> + Send + Sync>;

impl Assume {
    /// Creates an empty collection for that plugin.
    pub fn by(plugin: &'static str) -> Self {
        Self { plugin, assumptions: Vec::new() }
    }

    pub(crate) fn into_assumptions(self) -> Vec<Assumption> {
        self.assumptions
    }

    /// Assumes a change of an object.
    ///
    /// `change` receives the object as the API server has it, with the assumptions of earlier pods: now, and again when
    /// that version changes. It returns true if the assumption is still needed, and false if the object already shows
    /// or contradicts it; it is not called again after that. Nothing is assumed of a missing object.
    pub fn custom<R: Resource + Clone>(
        &mut self,
        namespace: &str,
        name: &str,
        change: impl Fn(&mut Custom<R>) -> bool + Send + Sync + 'static,
    ) {
        let resource = ResourceName::of::<R>().to_string().into();
        self.assumptions.push(Assumption {
            kind: ResourceKind::of::<R>(),
            key: CustomKey { resource, namespace: namespace.into(), name: name.into() },
            plugin: self.plugin,
            change: Arc::new(move |object| {
                let mut object = object.downcast_ref::<Custom<R>>()?.clone();
                let holds = change(&mut object);
                holds.then(|| Arc::new(object) as AnyCustom)
            }),
        });
    }
}

impl Assumption {
    /// Returns the assumed object; `None` if there is nothing left to assume.
    ///
    /// # Errors
    /// When the plugin's change panics.
    pub(crate) fn applied(&self, object: &AnyCustom) -> Result<Option<AnyCustom>, PointError> {
        caught(self.plugin, Call::Assume, || (self.change)(object))
    }
}

impl fmt::Debug for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Assumption({} of {:?})", self.plugin, self.key)
    }
}
