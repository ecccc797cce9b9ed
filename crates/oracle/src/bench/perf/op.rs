//! Operations as the configuration files contain them, before parameters are resolved.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// An operation. Its name is in the field `opcode`.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "opcode", rename_all = "camelCase")]
pub(super) enum Op {
    CreateNodes(CreateNodes),
    CreateNamespaces(CreateNamespaces),
    CreatePods(CreatePods),
    CreatePodSets(CreatePodSets),
    CreatePodGroups(CreateObjects),
    CreateAny(CreateObjects),
    CreateResourceClaims(CreateObjects),
    CreateResourceDriver(CreateResourceDriver),
    AllocResourceClaims(AllocResourceClaims),
    UpdateAny(UpdateAny),
    DeletePods(DeletePods),
    Churn(Churn),
    Barrier(Barrier),
    Sleep(Sleep),
    StartCollectingMetrics(StartCollectingMetrics),
    StopCollectingMetrics(StopCollectingMetrics),
}

/// A number, or the name of the parameter that contains it.
#[derive(Debug, Clone, Default)]
pub(super) struct Count {
    pub(super) value: Option<usize>,
    pub(super) parameter: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateNodes {
    count: Option<usize>,
    count_param: Option<String>,
    pub(super) node_template_path: Option<String>,
    #[serde(default)]
    pub(super) template_params: Map<String, Value>,
    pub(super) node_allocatable_strategy: Option<NodeAllocatable>,
    pub(super) label_node_prepare_strategy: Option<NodeLabels>,
    pub(super) unique_node_label_strategy: Option<UniqueNodeLabel>,
}

/// Changes the allocatable resources of nodes and the volume limits of their CSI drivers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeAllocatable {
    #[serde(default)]
    pub(super) node_allocatable: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) csi_node_allocatable: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) migrated_plugins: Vec<String>,
}

/// Gives nodes the values of a label in turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeLabels {
    pub(super) label_key: String,
    pub(super) label_values: Vec<String>,
}

/// Gives every node a value of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UniqueNodeLabel {
    pub(super) label_key: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateNamespaces {
    #[serde(default)]
    pub(super) prefix: String,
    count: Option<usize>,
    count_param: Option<String>,
    pub(super) namespace_template_path: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreatePods {
    count: Option<usize>,
    count_param: Option<String>,
    pub(super) count_multiplier_param: Option<String>,
    #[serde(default)]
    pub(super) steady_state: bool,
    pub(super) steady_state_param: Option<String>,
    pub(super) duration: Option<String>,
    pub(super) duration_param: Option<String>,
    #[serde(default)]
    pub(super) collect_metrics: bool,
    pub(super) namespace: Option<String>,
    pub(super) pod_template_path: Option<String>,
    #[serde(default)]
    pub(super) skip_wait_to_completion: bool,
    pub(super) persistent_volume_template_path: Option<String>,
    pub(super) persistent_volume_claim_template_path: Option<String>,
    #[serde(default)]
    pub(super) template_params: Map<String, Value>,
    signature_batch_size: Option<usize>,
    signature_batch_size_param: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreatePodSets {
    count: Option<usize>,
    count_param: Option<String>,
    pub(super) namespace_prefix: String,
    /// The operation that each namespace gets: `createPods`.
    pub(super) create_pods_op: Box<Op>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateObjects {
    pub(super) namespace: Option<String>,
    pub(super) template_path: String,
    count: Option<usize>,
    count_param: Option<String>,
    #[serde(default)]
    pub(super) template_params: Map<String, Value>,
}

/// Creates a slice with devices for every node whose name matches a pattern.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateResourceDriver {
    pub(super) driver_name: String,
    max_claims_per_node: Option<usize>,
    max_claims_per_node_param: Option<String>,
    pub(super) nodes: String,
}

/// Allocates claims without a pod.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AllocResourceClaims {
    #[serde(default)]
    pub(super) namespace: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UpdateAny {
    pub(super) namespace: Option<String>,
    pub(super) template_path: String,
    count: Option<usize>,
    count_param: Option<String>,
    #[serde(default)]
    pub(super) update_per_second: u32,
    #[serde(default)]
    pub(super) subresources: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DeletePods {
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) label_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) skip_wait_to_completion: bool,
    #[serde(default)]
    pub(super) delete_pods_per_second: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Churn {
    pub(super) mode: ChurnMode,
    #[serde(default)]
    pub(super) number: usize,
    #[serde(default)]
    pub(super) interval_milliseconds: u64,
    pub(super) namespace: Option<String>,
    pub(super) template_paths: Vec<String>,
}

/// Manner in which churn creates objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ChurnMode {
    /// Objects are created until there are enough.
    Create,
    /// Objects are created in some cycles and deleted in as many.
    Recreate,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Barrier {
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    #[serde(default)]
    pub(super) label_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) stage_requirement: Stage,
}

/// Progress of a pod for which a barrier waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(super) enum Stage {
    /// The pod has a node.
    #[default]
    Scheduled,
    /// The pod has a node or was rejected.
    Attempted,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Sleep {
    pub(super) duration: Option<String>,
    pub(super) duration_param: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StartCollectingMetrics {
    /// Name in the results of `scheduler_perf`.
    #[serde(rename = "name")]
    _name: Option<String>,
    pub(super) namespaces: Vec<String>,
    #[serde(default)]
    pub(super) label_selector: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StopCollectingMetrics {}

macro_rules! counted {
    ($($op:ty)*) => {
        $(impl $op {
            /// Number of things that the operation creates or changes.
            pub(super) fn count(&self) -> Count {
                Count { value: self.count, parameter: self.count_param.clone() }
            }
        })*
    };
}

counted!(CreateNodes CreateNamespaces CreatePods CreatePodSets CreateObjects UpdateAny);

impl CreatePods {
    /// Number of consecutive pods that have the same value of the label `signature`.
    pub(super) fn signature_batch(&self) -> Count {
        Count { value: self.signature_batch_size, parameter: self.signature_batch_size_param.clone() }
    }
}

impl CreateResourceDriver {
    /// Number of devices of a node.
    pub(super) fn devices_per_node(&self) -> Count {
        Count { value: self.max_claims_per_node, parameter: self.max_claims_per_node_param.clone() }
    }
}
