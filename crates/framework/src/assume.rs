//! Assumed objects, which make a plugin's decision in Reserve visible to all later pods even before the decision
//! reaches the API server.
//!
//! A plugin describes the change that its decision will make to an object, and every point sees the object with that
//! change. When a newer version arrives from the API server, the change is applied to that version again, unless the
//! change reports that it is no longer needed because the API server's version already reflects or contradicts it. The
//! assumptions made for a pod are reverted when the pod loses its node or is deleted. The assumptions about an object
//! are dropped when the object is deleted.
//!
//! An object that does not exist yet can be assumed, too: plugins see the assumed object until the API server reports
//! the real one.
//!
//! Events are changes of the API server's version, so making or reverting an assumption is not an event. When the pod
//! for which an assumption was made loses its node, the pods that wait because of the assumption must be woken, so
//! plugins that assume objects must listen to the deletion of pods: a pod that loses its node causes that event, too.

use std::{fmt, sync::Arc};

use crate::{
    guard::{Call, PointError, caught},
    resource::{AnyCustom, Custom, CustomKey, Metadata, Resource, ResourceKind, ResourceName},
};

/// Collects the assumptions that a plugin makes in Reserve.
#[derive(Debug)]
pub struct Assume {
    plugin: &'static str,
    assumptions: Vec<Assumption>,
    creations: Vec<Creation>,
}

/// Expected new object.
#[derive(Clone)]
pub(crate) struct Creation {
    pub(crate) kind: ResourceKind,
    pub(crate) key: CustomKey,
    pub(crate) object: AnyCustom,
    plugin: &'static str,
    is_created: Arc<dyn Fn(&AnyCustom) -> bool + Send + Sync>,
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
        Self { plugin, assumptions: Vec::new(), creations: Vec::new() }
    }

    pub(crate) fn into_parts(self) -> (Vec<Assumption>, Vec<Creation>) {
        (self.assumptions, self.creations)
    }

    /// Assumes a new object whose real name the API server will choose.
    ///
    /// Plugins see `object` until the API server reports an object of the same kind for which `is_created` returns
    /// true, or until the assumption is reverted. The name of `object` must be one that the API server rejects, so that
    /// it differs from the names of all real objects.
    pub fn creation<R: Resource>(
        &mut self,
        object: Custom<R>,
        is_created: impl Fn(&Custom<R>) -> bool + Send + Sync + 'static,
    ) {
        let resource = ResourceName::of::<R>().to_string().into();
        let Metadata { namespace, name, .. } = &object.metadata;
        self.creations.push(Creation {
            kind: ResourceKind::of::<R>(),
            key: CustomKey { resource, namespace: namespace.clone(), name: name.clone() },
            object: Arc::new(object),
            plugin: self.plugin,
            is_created: Arc::new(move |object| object.downcast_ref().is_some_and(&is_created)),
        });
    }

    /// Assumes a change of an object.
    ///
    /// `change` receives the API server's version of the object with all earlier assumptions applied. It is called when
    /// Reserve has succeeded, and again whenever that version changes or another assumption about the object is
    /// reverted. It returns true if the assumption is still needed, and false if the object already reflects or
    /// contradicts the assumption; after it returns false, it is not called again. Nothing is assumed about a missing
    /// object.
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

impl Creation {
    /// Returns true if the API server's object is the expected one.
    ///
    /// # Errors
    /// When the plugin's `is_created` panics.
    pub(crate) fn is_created(&self, object: &AnyCustom) -> Result<bool, PointError> {
        caught(self.plugin, Call::Assume, || (self.is_created)(object))
    }
}

impl fmt::Debug for Creation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Creation({} of {:?})", self.plugin, self.key)
    }
}

impl fmt::Debug for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Assumption({} of {:?})", self.plugin, self.key)
    }
}
