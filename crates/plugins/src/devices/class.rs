//! Device classes: named kinds of devices.

use harbormaster_api::{
    Str, Timestamp,
    protobuf::{Message, messages},
};
use harbormaster_framework::resource::{OlderVersion, Resource, ResourceScope};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{claim::DeviceSelector, versions, wire};
use crate::storage::wire::or_default;

/// A device class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireClass")]
pub struct DeviceClass {
    /// `metadata.creationTimestamp`. Among the classes for one extended resource, the newest is used.
    pub created: Option<Timestamp>,
    /// `spec.selectors`, all of which a device must match.
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
    const OLDER_VERSIONS: &'static [OlderVersion] = versions::OLDER;
    const PROTOBUF: Option<&'static Message> = Some(&messages::devices::DEVICE_CLASS);

    /// The extended resource that the class provides.
    fn key(&self) -> Option<&Str> {
        self.extended_resource_name.as_ref()
    }
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
