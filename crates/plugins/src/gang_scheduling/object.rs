//! `scheduling.k8s.io/v1beta1` PodGroup.

use harbormaster_api::{
    Str, Timestamp,
    protobuf::{Message, messages},
};
use harbormaster_framework::prelude::*;
use serde::Deserialize;
use serde_json::Value;

/// Type of the condition that tells whether a group has been scheduled.
pub(super) const CONDITION: &str = "PodGroupInitiallyScheduled";

/// A PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "WireGroup")]
pub struct PodGroupObject {
    /// Its description, without the preemption policy.
    pub spec: GroupSpec,
    /// True if the group preempts no other pods.
    pub never_preempts: bool,
}

impl Resource for PodGroupObject {
    const GROUP: &'static str = "scheduling.k8s.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "PodGroup";
    const PLURAL: &'static str = "podgroups";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
    const PROTOBUF: Option<&'static Message> = Some(&messages::groups::POD_GROUP);
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireGroup {
    spec: WireSpec,
    status: Option<WireStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    scheduling_policy: WirePolicy,
    scheduling_constraints: Option<WireConstraints>,
    disruption_mode: Option<WireMode>,
    priority: Option<i32>,
    preemption_policy: Option<Str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WirePolicy {
    gang: Option<WireGang>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireGang {
    min_count: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireConstraints {
    topology: Option<Vec<WireTopology>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireTopology {
    key: Str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireMode {
    all: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    conditions: Option<Vec<WireCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireCondition {
    r#type: Str,
    status: Str,
    reason: Str,
    message: String,
    observed_generation: i64,
    last_transition_time: Option<Str>,
}

impl From<WireGroup> for PodGroupObject {
    fn from(WireGroup { spec, status }: WireGroup) -> Self {
        let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition.r#type == CONDITION);
        let policy = match spec.scheduling_policy.gang {
            Some(gang) => GroupPolicy::Gang { min_count: gang.min_count.max(1) as usize },
            None => GroupPolicy::Basic,
        };
        let topology = spec.scheduling_constraints.and_then(|constraints| constraints.topology);
        let disrupts_all = spec.disruption_mode.is_some_and(|mode| mode.all.is_some());
        Self {
            never_preempts: spec.preemption_policy.is_some_and(|policy| policy == "Never"),
            spec: GroupSpec {
                policy,
                // Admission sets the priority. Without it, a group counts as one of priority 0.
                priority: Some(spec.priority.unwrap_or(0)),
                never_preempts: None,
                disruption: if disrupts_all { Disruption::All } else { Disruption::Single },
                topology_key: topology.and_then(|all| all.into_iter().next()).map(|one| one.key),
                condition: condition.map(GroupCondition::from),
            },
        }
    }
}

impl From<WireCondition> for GroupCondition {
    fn from(condition: WireCondition) -> Self {
        let since = condition.last_transition_time.and_then(|at| Timestamp::parse(&at).ok());
        Self {
            is_scheduled: condition.status == "True",
            reason: condition.reason,
            message: condition.message,
            observed_generation: condition.observed_generation,
            last_transition: since.unwrap_or_default(),
        }
    }
}
