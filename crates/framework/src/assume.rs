//! Assumed objects: a decision that a plugin makes in Reserve is visible to all later pods, even before the decision
//! reaches the API server.
//!
//! A plugin describes the change that its decision will make to an object, and every point sees the object with that
//! change. When a newer version arrives from the API server, the change is applied to that version again, unless the
//! change reports that it is no longer needed because the API server's version already reflects or contradicts it. The
//! assumptions made for a pod are reverted when the pod loses its node or is deleted. The assumptions about an object
//! are dropped when the object is deleted.
//!
//! Hints and the queue see the API server's version, not the assumed one. Reverting an assumption is therefore not an
//! event. When the pod for which an assumption was made leaves its node, the resulting event wakes the pods that wait
//! because of the assumption, so plugins that assume objects listen to that event.

use std::{fmt, sync::Arc};

use crate::{
    guard::{Call, PointError, caught},
    resource::{AnyCustom, Custom, CustomKey, Resource, ResourceKind, ResourceName},
};

/// Collects the assumptions that a plugin makes in Reserve.
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

/// Maps the API server's version of an object to the assumed version; `None` if there is nothing left to assume.
type Change = Arc<dyn Fn(&AnyCustom) -> Option<AnyCustom> + Send + Sync>;

impl Assume {
    /// Creates an empty collection for `plugin`.
    pub fn by(plugin: &'static str) -> Self {
        Self { plugin, assumptions: Vec::new() }
    }

    pub(crate) fn into_assumptions(self) -> Vec<Assumption> {
        self.assumptions
    }

    /// Assumes a change of an object.
    ///
    /// `change` receives the API server's version of the object with all earlier assumptions applied. It is called now,
    /// and again whenever that version changes or another assumption about the object is reverted. It returns true if
    /// the assumption is still needed, and false if the object already reflects or contradicts the assumption; after it
    /// returns false, it is not called again. Nothing is assumed about a missing object.
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
