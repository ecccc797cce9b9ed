//! Assumed objects: what a plugin decided in Reserve counts for all pods that come after, before the API server has it.
//!
//! A plugin says how an object is going to look once its decision is written. From then on every point sees the object so.
//! When the API server has a newer version, the change is made to that one as well, unless the object says by itself that
//! it is no longer needed: because it has been written, or because somebody else wrote something else. What is assumed for
//! a pod is taken back when the pod gives its node up or goes, and when the object goes.
//!
//! Hints and the queue hear of what the API server says, not of what is assumed. A pod that waits because of an assumption
//! is woken, if it is taken back, by the pod that leaves its node: plugins that assume listen to that.

use std::{fmt, sync::Arc};

use crate::{
    guard::{Call, PointError, caught},
    resource::{AnyCustom, Custom, CustomKey, Resource, ResourceKind, ResourceName},
};

/// Takes what a plugin assumes while it reserves.
#[derive(Debug)]
pub struct Assume {
    plugin: &'static str,
    assumptions: Vec<Assumption>,
}

/// How one object is going to look.
#[derive(Clone)]
pub(crate) struct Assumption {
    pub(crate) kind: ResourceKind,
    pub(crate) key: CustomKey,
    plugin: &'static str,
    change: Change,
}

/// Makes of the API server's object the assumed one; `None` if there is nothing left to assume.
type Change = Arc<dyn Fn(&AnyCustom) -> Option<AnyCustom> + Send + Sync>;

impl Assume {
    /// Nothing assumed yet, by that plugin.
    pub fn by(plugin: &'static str) -> Self {
        Self { plugin, assumptions: Vec::new() }
    }

    pub(crate) fn into_assumptions(self) -> Vec<Assumption> {
        self.assumptions
    }

    /// From now on the object looks as `change` makes it. `change` gets the object as the API server has it, with the
    /// assumptions of earlier pods, once now and again when that changes. It returns whether it still has to be assumed: `false`
    /// when the object says so already, or when it speaks against it; it is not asked again then. Nothing is assumed
    /// of an object that is not there.
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
    /// The object as assumed; `None` if there is nothing left to assume.
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
