//! Device classes: named kinds of devices.

use harbormaster_api::Str;
use harbormaster_framework::resource::{Resource, ResourceScope};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{claim::DeviceSelector, wire};
use crate::storage::wire::or_default;
use harbormaster_api::Timestamp;

/// A device class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireClass")]
pub struct DeviceClass {
    /// `metadata.creationTimestamp`: of two classes for the same extended resource, the newer one counts.
    pub created: Option<Timestamp>,
    /// `spec.selectors`, which a device must all match.
    pub selectors: Vec<DeviceSelector>,
    /// `spec.config`, which the scheduler copies into allocations.
    pub config: Vec<Map<String, Value>>,
    /// `spec.extendedResourceName`: containers that request this resource get devices of the class.
    pub extended_resource_name: Option<Str>,
}

impl Resource for DeviceClass {
    const GROUP: &'static str = "resource.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "DeviceClass";
    const PLURAL: &'static str = "deviceclasses";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireClass {
    #[serde(deserialize_with = "or_default")]
    metadata: WireMetadata,
    #[serde(deserialize_with = "or_default")]
    spec: WireSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    #[serde(with = "wire::time")]
    creation_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    #[serde(deserialize_with = "or_default")]
    selectors: Vec<DeviceSelector>,
    #[serde(deserialize_with = "or_default")]
    config: Vec<Map<String, Value>>,
    extended_resource_name: Option<Str>,
}

impl From<WireClass> for DeviceClass {
    fn from(WireClass { metadata, spec }: WireClass) -> Self {
        Self {
            created: metadata.creation_timestamp,
            selectors: spec.selectors,
            config: spec.config,
            extended_resource_name: spec.extended_resource_name,
        }
    }
}
