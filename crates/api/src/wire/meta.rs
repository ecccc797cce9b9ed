//! Metadata, and kinds from which little else is read.

use serde::Deserialize;

use super::json::{Annotations, Aside, List, Map, Text, Time};
use crate::{ObjectRef, PriorityClass, pod::OwnerReference, strings::Interner};

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Metadata<'a> {
    pub(super) name: Text<'a>,
    pub(super) namespace: Text<'a>,
    pub(super) uid: Text<'a>,
    pub(super) resource_version: Aside<'a>,
    pub(super) generation: Option<i64>,
    pub(super) labels: Map<'a, Text<'a>>,
    pub(super) annotations: Annotations<'a>,
    pub(super) creation_timestamp: Option<Time>,
    pub(super) deletion_timestamp: Option<Time>,
    owner_references: List<Owner<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Owner<'a> {
    api_version: Text<'a>,
    kind: Text<'a>,
    name: Text<'a>,
    uid: Text<'a>,
    controller: Option<bool>,
}

impl Metadata<'_> {
    /// Returns the owner that controls the object.
    pub(super) fn controller(&self, interner: &mut Interner) -> Option<OwnerReference> {
        let owner = self.owner_references.0.iter().find(|owner| owner.controller == Some(true))?;
        Some(OwnerReference {
            api_version: owner.api_version.intern(interner),
            kind: owner.kind.intern(interner),
            name: owner.name.intern(interner),
            uid: owner.uid.intern(interner),
        })
    }
}

/// An object of any kind.
#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct WireObject<'a> {
    api_version: Text<'a>,
    kind: Text<'a>,
    metadata: Option<Metadata<'a>>,
}

impl WireObject<'_> {
    pub(super) fn into_object_ref(self, interner: &mut Interner) -> ObjectRef {
        let metadata = self.metadata.unwrap_or_default();
        ObjectRef {
            api_version: self.api_version.intern(interner),
            kind: self.kind.intern(interner),
            namespace: metadata.namespace.intern(interner),
            name: metadata.name.unshared(),
            uid: metadata.uid.unshared(),
            resource_version: metadata.resource_version.0.unshared(),
        }
    }
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct WirePriorityClass<'a> {
    metadata: Option<Metadata<'a>>,
    value: Option<i32>,
    global_default: Option<bool>,
    preemption_policy: Text<'a>,
}

impl WirePriorityClass<'_> {
    pub(super) fn into_priority_class(self, interner: &mut Interner) -> PriorityClass {
        PriorityClass {
            name: self.metadata.unwrap_or_default().name.intern(interner),
            value: self.value.unwrap_or_default(),
            global_default: self.global_default.unwrap_or_default(),
            never_preempts: *self.preemption_policy == *"Never",
        }
    }
}
