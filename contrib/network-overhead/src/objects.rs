//! AppGroup and NetworkTopology, and the labels that make a pod part of an application.

use harbormaster::{
    api::{Labels, Str, Timestamp},
    prelude::*,
    serde::{Deserialize, Deserializer},
};

/// Pod label: name of the AppGroup.
pub const GROUP: &str = "appgroup.diktyo.x-k8s.io";
/// Pod label: selector of the workload in the AppGroup.
pub const WORKLOAD: &str = "appgroup.diktyo.x-k8s.io.workload";

/// Returns the name of the AppGroup, if there is one.
pub fn group_of(labels: &Labels) -> Option<&Str> {
    labels.get(GROUP).filter(|name| !name.is_empty())
}

/// Returns the selector of the workload; empty if there is none.
pub fn workload_of(labels: &Labels) -> &str {
    labels.get(WORKLOAD).map_or("", Str::as_str)
}

/// Reads a list, of which null is an empty one.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// An application (`appgroup.diktyo.x-k8s.io/v1alpha1`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct AppGroup {
    /// `metadata`
    pub metadata: AppGroupMetadata,
    /// `spec`
    pub spec: AppGroupSpec,
    /// `status`
    pub status: AppGroupStatus,
}

/// `metadata` of an [`AppGroup`], as far as the order of its pods depends on it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct AppGroupMetadata {
    /// `creationTimestamp`
    pub creation_timestamp: Option<String>,
}

/// `status` of an [`AppGroup`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct AppGroupStatus {
    /// `topologyOrder`
    #[serde(deserialize_with = "list")]
    pub topology_order: Vec<Place>,
}

/// Place of a workload in the order of its application.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct Place {
    /// `workload`
    pub workload: WorkloadName,
    /// `index`
    pub index: i64,
}

/// `spec` of an [`AppGroup`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct AppGroupSpec {
    /// `workloads`
    #[serde(deserialize_with = "list")]
    pub workloads: Vec<Workload>,
}

/// A workload of an application.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct Workload {
    /// `workload`
    pub workload: WorkloadName,
    /// `dependencies`
    #[serde(deserialize_with = "list")]
    pub dependencies: Vec<Dependency>,
}

/// Identity of a workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct WorkloadName {
    /// `selector`: value of the pods' label.
    pub selector: Str,
}

/// A workload that another one talks to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct Dependency {
    /// `workload`
    pub workload: WorkloadName,
    /// `maxNetworkCost`: largest acceptable cost.
    pub max_network_cost: i64,
}

impl Resource for AppGroup {
    const GROUP: &'static str = "appgroup.diktyo.x-k8s.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "AppGroup";
    const PLURAL: &'static str = "appgroups";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

impl AppGroup {
    /// Time at which the object was created; the beginning of time if it is not known.
    pub fn created(&self) -> Timestamp {
        let text = self.metadata.creation_timestamp.as_deref();
        text.and_then(|text| Timestamp::parse(text).ok()).unwrap_or_default()
    }

    /// Place of the workload with this selector; -1 if it has none.
    pub fn place_of(&self, selector: &str) -> i64 {
        let places = &self.status.topology_order;
        places.iter().find(|place| place.workload.selector == *selector).map_or(-1, |place| place.index)
    }

    /// Dependencies of the workload with this selector.
    pub fn dependencies_of(&self, selector: &str) -> Vec<&Dependency> {
        let own = self.spec.workloads.iter().filter(|workload| workload.workload.selector == *selector);
        own.flat_map(|workload| &workload.dependencies).collect()
    }
}

/// Costs between regions and zones (`networktopology.diktyo.x-k8s.io/v1alpha1`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct NetworkTopology {
    /// `spec`
    pub spec: NetworkTopologySpec,
}

/// `spec` of a [`NetworkTopology`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct NetworkTopologySpec {
    /// `weights`
    #[serde(deserialize_with = "list")]
    pub weights: Vec<Weights>,
}

/// One set of costs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct Weights {
    /// `name`
    pub name: Str,
    /// `topologyList`
    #[serde(deserialize_with = "list")]
    pub topology_list: Vec<Level>,
}

/// Costs between regions, or between zones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct Level {
    /// `topologyKey`: label of regions or zones.
    pub topology_key: Str,
    /// `originList`
    #[serde(deserialize_with = "list")]
    pub origin_list: Vec<Origin>,
}

/// Costs from one region or zone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct Origin {
    /// `origin`
    pub origin: Str,
    /// `costList`
    #[serde(deserialize_with = "list")]
    pub cost_list: Vec<Cost>,
}

/// Cost to another region or zone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct Cost {
    /// `destination`
    pub destination: Str,
    /// `networkCost`
    pub network_cost: i64,
}

impl Resource for NetworkTopology {
    const GROUP: &'static str = "networktopology.diktyo.x-k8s.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "NetworkTopology";
    const PLURAL: &'static str = "networktopologies";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}
