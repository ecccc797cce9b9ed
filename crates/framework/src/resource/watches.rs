//! Declarations of the kinds of objects that plugins and indexes read.

use std::{collections::BTreeMap, marker::PhantomData};

use crate::objects::Objects;

use super::{Custom, Resource, ResourceKind};

/// Declares the kinds of objects that a plugin or an index reads. The scheduler watches them.
///
/// ```
/// # use harbormaster_framework::prelude::*;
/// # #[derive(serde::Deserialize)]
/// # struct Team {}
/// # impl Resource for Team {
/// #     const GROUP: &'static str = "example.com";
/// #     const VERSION: &'static str = "v1";
/// #     const KIND: &'static str = "Team";
/// #     const PLURAL: &'static str = "teams";
/// #     const SCOPE: ResourceScope = ResourceScope::Cluster;
/// # }
/// # struct TeamNodes;
/// # impl Plugin for TeamNodes {
/// #     const NAME: &'static str = "TeamNodes";
/// #     implemented_points!();
/// # }
/// impl Watches for TeamNodes {
///     type Resources = Team;
/// }
///
/// impl Filter for TeamNodes {
///     fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
///         match self.watched(cx.objects).get("", node.name()) {
///             Some(_) => Ok(()),
///             None => Err(Reject::unresolvable("node(s) have no team").into()),
///         }
///     }
/// }
/// ```
///
/// Objects of these kinds cannot be read in any other way, so code that reads unwatched objects does not compile:
///
/// ```compile_fail,E0599
/// # use harbormaster_framework::prelude::*;
/// # struct TeamNodes;
/// # impl Plugin for TeamNodes {
/// #     const NAME: &'static str = "TeamNodes";
/// #     implemented_points!();
/// # }
/// fn teams(this: &TeamNodes, objects: &Objects) { this.watched(objects); }
/// ```
pub trait Watches {
    /// A [`Resource`], or a tuple of several.
    type Resources: ResourceSet;

    /// Returns the objects of the resource, or of each resource in the tuple.
    fn watched<'a>(&self, objects: &'a Objects) -> <Self::Resources as ResourceSet>::Objects<'a> {
        Self::Resources::in_objects(objects)
    }
}

/// A [`Resource`], or a tuple of up to eight.
pub trait ResourceSet {
    /// [`Watched`], or a tuple of them.
    type Objects<'a>;

    /// The kinds.
    fn kinds() -> Vec<ResourceKind>;

    /// Returns the objects of each kind.
    fn in_objects(objects: &Objects) -> Self::Objects<'_>;
}

impl<R: Resource> ResourceSet for R {
    type Objects<'a> = Watched<'a, R>;

    fn kinds() -> Vec<ResourceKind> {
        vec![ResourceKind::of::<R>()]
    }

    fn in_objects(objects: &Objects) -> Watched<'_, R> {
        Watched::new(objects)
    }
}

macro_rules! tuples {
    ($(($($resource:ident),+))*) => {
        $(impl<$($resource: Resource),+> ResourceSet for ($($resource,)+) {
            type Objects<'a> = ($(Watched<'a, $resource>,)+);

            fn kinds() -> Vec<ResourceKind> {
                vec![$(ResourceKind::of::<$resource>()),+]
            }

            fn in_objects(objects: &Objects) -> Self::Objects<'_> {
                ($(Watched::<$resource>::new(objects),)+)
            }
        })*
    };
}

tuples! {
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, F)
    (A, B, C, D, E, F, G)
    (A, B, C, D, E, F, G, H)
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Watched<'a, R> {
    objects: &'a Objects,
    kind: PhantomData<fn() -> R>,
}

impl<R> Clone for Watched<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Watched<'_, R> {}

impl<'a, R: Resource> Watched<'a, R> {
    pub(crate) fn new(objects: &'a Objects) -> Self {
        Self { objects, kind: PhantomData }
    }

    /// Returns an object. The namespace is empty for [`ResourceScope::Cluster`](super::ResourceScope::Cluster).
    pub fn get(self, namespace: &str, name: &str) -> Option<&'a Custom<R>> {
        self.objects.custom::<R>()?.get(namespace)?.get(name)?.downcast_ref()
    }

    /// Objects with this [key](Resource::key), ordered by namespace and name. Visits no other objects.
    pub fn with_key(self, key: &str) -> impl Iterator<Item = &'a Custom<R>> {
        self.objects.custom_with_key::<R>(key).filter_map(|object| object.downcast_ref())
    }

    /// All objects, ordered by namespace and name.
    pub fn all(self) -> impl Iterator<Item = &'a Custom<R>> {
        let all =
            self.objects.custom::<R>().into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        all.filter_map(|object| object.downcast_ref())
    }

    /// Objects of one namespace, in name order.
    pub fn all_in(self, namespace: &str) -> impl Iterator<Item = &'a Custom<R>> {
        let some = self.objects.custom::<R>().and_then(|all| all.get(namespace));
        some.into_iter().flat_map(BTreeMap::values).filter_map(|object| object.downcast_ref())
    }
}
