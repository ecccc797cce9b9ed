//! Outcomes of pods.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::extenders::with_sorted_errors;

/// Name of [`PodOutcome::event`] in [`PodOutcome::fields`].
pub(super) const EVENT: &str = "FailedScheduling event";

/// Names of the parts of [`PodOutcome::condition`] in [`PodOutcome::fields`].
pub(super) const CONDITION: [&str; 3] =
    ["PodScheduled status", "PodScheduled reason", "PodScheduled message"];

/// End of kube-scheduler's message if another member of the group has written a shared claim.
const LOST_WRITE: &str = " got allocated elsewhere in the meantime";

/// Everything that a scheduler wrote about one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOutcome {
    /// `spec.nodeName`.
    pub node: String,
    /// The `PodScheduled` condition: status, reason and message.
    pub condition: [String; 3],
    /// Note of the last FailedScheduling event.
    pub event: String,
    /// True if that event occurred more than once. Its note is then that of the first occurrence, because client-go's
    /// recorder ignores the note when it counts repetitions.
    pub event_is_repeated: bool,
    /// True if the last note is unknown because the last event was counted as a repetition of an event that the other
    /// scheduler may not have written.
    pub event_is_hidden: bool,
    /// `status.nominatedNodeName`.
    pub nominated_node: String,
    /// Note of the last Preempted event, with the preemptor's name.
    pub preempted: String,
    /// The `DisruptionTarget` condition: status, reason and message.
    pub disruption: String,
    /// The pod's claims and their volumes. Volumes that were created for the claims are described by class and
    /// topology.
    pub claims: String,
    /// The resource claims that the pod's status names.
    pub resource_claims: String,
    /// The condition `PodGroupInitiallyScheduled` of the pod's group: status, reason and message.
    pub group: String,
    /// `terminating`, or `gone` for a preempted pod that no longer exists.
    pub end: &'static str,
}

impl PodOutcome {
    /// Creates an outcome from a pod object and the note of its last event.
    #[must_use]
    pub fn new(pod: &Value, event: Option<String>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let fields = |kind: &str| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let condition = conditions.into_iter().find(|item| item["type"] == kind);
            ["status", "reason", "message"]
                .map(|field| condition.map(|condition| text(&condition[field])).unwrap_or_default())
        };
        let [status, reason, message] = fields("PodScheduled");
        Self {
            node: text(&pod["spec"]["nodeName"]),
            condition: [status, reason, with_sorted_errors(message)],
            event: with_sorted_errors(event.unwrap_or_default()),
            event_is_repeated: false,
            event_is_hidden: false,
            nominated_node: text(&pod["status"]["nominatedNodeName"]),
            preempted: String::new(),
            disruption: fields("DisruptionTarget").join(" ").trim().to_owned(),
            claims: String::new(),
            resource_claims: String::new(),
            group: String::new(),
            end: if pod["metadata"]["deletionTimestamp"].is_null() { "" } else { "terminating" },
        }
    }

    /// Returns true if the event's note is older than the condition, because the event recorder counted a later attempt
    /// as a repetition. Whether it does so depends on the number of attempts in between.
    #[must_use]
    pub fn event_is_stale(&self) -> bool {
        self.event_is_repeated && self.event != self.condition[2]
    }

    /// Returns true if the pod has a node although an attempt to write a claim has failed. Its condition then says
    /// either that it is scheduled or that the write failed, whichever was written last.
    #[must_use]
    pub fn lost_a_write(&self) -> bool {
        let texts = [&self.condition[2], &self.event];
        !self.node.is_empty() && texts.into_iter().any(|text| text.ends_with(LOST_WRITE))
    }

    /// Returns the fields with their names, for comparison.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, &str); 12] {
        let [status, reason, message] = &self.condition;
        [
            ("node", &self.node),
            (CONDITION[0], status),
            (CONDITION[1], reason),
            (CONDITION[2], message),
            (EVENT, &self.event),
            ("nominated node", &self.nominated_node),
            ("Preempted event", &self.preempted),
            ("DisruptionTarget", &self.disruption),
            ("claims", &self.claims),
            ("resource claims", &self.resource_claims),
            ("group", &self.group),
            ("end", self.end),
        ]
    }
}

/// Outcomes of all pods and resource claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcomes {
    /// Outcomes of pods by name.
    pub pods: BTreeMap<String, PodOutcome>,
    /// Status and finalizers of resource claims, by namespace and name.
    pub resource_claims: BTreeMap<String, String>,
}

impl Outcomes {
    /// Number of pods.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Returns true if there are no pods.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Number of pods without a node.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pods.values().filter(|outcome| outcome.node.is_empty() && outcome.end != "gone").count()
    }

    /// Number of preempted pods, including those that no longer exist.
    #[must_use]
    pub fn preempted(&self) -> usize {
        self.pods.values().filter(|outcome| !outcome.preempted.is_empty()).count()
    }

    /// Number of members of groups that have been scheduled.
    #[must_use]
    pub fn in_scheduled_groups(&self) -> usize {
        let is_scheduled = |outcome: &&PodOutcome| outcome.group.starts_with("True");
        self.pods.values().filter(is_scheduled).count()
    }

    /// Number of pods with a node and bound claims.
    #[must_use]
    pub fn with_volumes(&self) -> usize {
        let is_bound = |outcome: &&PodOutcome| !outcome.node.is_empty() && outcome.claims.contains("Bound");
        self.pods.values().filter(is_bound).count()
    }

    /// Number of resource claims with devices for pods.
    #[must_use]
    pub fn with_devices(&self) -> usize {
        self.resource_claims.values().filter(|claim| claim.contains("reservedFor")).count()
    }
}
