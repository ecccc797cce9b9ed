//! Nodes.

use serde::Deserialize;

use super::{
    json::{Amount, List, Map, Text},
    meta::Metadata,
};
use crate::{
    Node, Resources, Str,
    node::Image,
    strings::Interner,
    taint::{Taint, TaintEffect},
};

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct WireNode<'a> {
    pub(super) metadata: Option<Metadata<'a>>,
    spec: Option<Spec<'a>>,
    status: Option<Status<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Spec<'a> {
    unschedulable: Option<bool>,
    taints: List<WireTaint<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireTaint<'a> {
    key: Text<'a>,
    value: Text<'a>,
    effect: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Status<'a> {
    capacity: Option<Map<'a, Amount>>,
    allocatable: Option<Map<'a, Amount>>,
    images: List<WireImage<'a>>,
    declared_features: List<Text<'a>>,
    conditions: List<Condition<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireImage<'a> {
    names: List<Text<'a>>,
    size_bytes: Option<i64>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Condition<'a> {
    #[serde(rename = "type")]
    type_: Text<'a>,
    status: Text<'a>,
}

impl WireNode<'_> {
    pub(super) fn into_node(self, interner: &mut Interner, api_defaults: bool) -> Node {
        let metadata = self.metadata.unwrap_or_default();
        let spec = self.spec.unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let capacity = Resources::from_list(&status.capacity.unwrap_or_default().resources(interner));
        let allocatable = match status.allocatable {
            None if api_defaults => capacity.clone(),
            given => Resources::from_list(&given.unwrap_or_default().resources(interner)),
        };
        let mut declared_features: Vec<Str> = status.declared_features.intern(interner);
        declared_features.sort_unstable();
        let conditions = status.conditions.0.iter();
        Node {
            name: metadata.name.intern(interner),
            uid: metadata.uid.unshared(),
            resource_version: metadata.resource_version.0.unshared(),
            labels: metadata.labels.labels(interner),
            annotations: metadata.annotations.labels(interner),
            unschedulable: spec.unschedulable.unwrap_or_default(),
            taints: spec.taints.0.iter().filter_map(|taint| taint.known(interner)).collect(),
            conditions: conditions.map(|c| (c.type_.intern(interner), c.status.intern(interner))).collect(),
            allocatable,
            capacity,
            images: status.images.0.iter().map(|image| image.intern(interner)).collect(),
            declared_features: declared_features.into(),
        }
    }
}

impl WireTaint<'_> {
    fn known(&self, interner: &mut Interner) -> Option<Taint> {
        let effect = TaintEffect::parse(&self.effect)?;
        Some(Taint { key: self.key.intern(interner), value: self.value.intern(interner), effect })
    }
}

impl WireImage<'_> {
    fn intern(&self, interner: &mut Interner) -> Image {
        Image { names: self.names.intern(interner), size_bytes: self.size_bytes.unwrap_or_default() }
    }
}
