//! What became of the pods.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::extenders::in_order;

/// The name of [`PodOutcome::event`] in [`PodOutcome::fields`].
pub(super) const EVENT: &str = "FailedScheduling event";

/// What a scheduler wrote about one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOutcome {
    /// `spec.nodeName`.
    pub node: String,
    /// The condition PodScheduled: status, reason, message.
    pub condition: [String; 3],
    /// The note of the last FailedScheduling event.
    pub event: String,
    /// Whether that event happened more than once. Its note is then that of the
    /// first time: client-go's recorder counts what differs in nothing but the note.
    pub event_is_repeated: bool,
    /// Whether what was said last is not to be known: it was counted onto an event
    /// that one scheduler has and the other may not have.
    pub event_is_hidden: bool,
    /// `status.nominatedNodeName`.
    pub nominated_node: String,
    /// The note of the last Preempted event, with the preemptor's name.
    pub preempted: String,
    /// The condition DisruptionTarget: status, reason and message.
    pub disruption: String,
    /// Its claims and what they are bound to, volumes that were made for them by
    /// class and topology.
    pub claims: String,
    /// `terminating`, or `gone` for a preempted pod that does not exist any more.
    pub end: &'static str,
}

impl PodOutcome {
    /// The outcome in a pod object and the note of its last event.
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
            condition: [status, reason, in_order(message)],
            event: in_order(event.unwrap_or_default()),
            event_is_repeated: false,
            event_is_hidden: false,
            nominated_node: text(&pod["status"]["nominatedNodeName"]),
            preempted: String::new(),
            disruption: fields("DisruptionTarget").join(" ").trim().to_owned(),
            claims: String::new(),
            end: if pod["metadata"]["deletionTimestamp"].is_null() { "" } else { "terminating" },
        }
    }

    /// Whether the event's note is older than the condition. Which attempts are
    /// counted together depends on how often the pod was tried meanwhile.
    #[must_use]
    pub fn event_is_stale(&self) -> bool {
        self.event_is_repeated && self.event != self.condition[2]
    }

    /// The fields with their names, for a comparison.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, &str); 10] {
        let [status, reason, message] = &self.condition;
        [
            ("node", &self.node),
            ("PodScheduled status", status),
            ("PodScheduled reason", reason),
            ("PodScheduled message", message),
            (EVENT, &self.event),
            ("nominated node", &self.nominated_node),
            ("Preempted event", &self.preempted),
            ("DisruptionTarget", &self.disruption),
            ("claims", &self.claims),
            ("end", self.end),
        ]
    }
}

/// The outcomes of all pods, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes(pub BTreeMap<String, PodOutcome>);

impl Outcomes {
    /// How many pods there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many have no node.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.0.values().filter(|outcome| outcome.node.is_empty() && outcome.end != "gone").count()
    }

    /// How many have been preempted, those that are gone included.
    #[must_use]
    pub fn preempted(&self) -> usize {
        self.0.values().filter(|outcome| !outcome.preempted.is_empty()).count()
    }

    /// How many have a node, and claims that are bound.
    #[must_use]
    pub fn claiming(&self) -> usize {
        self.0.values().filter(|outcome| !outcome.node.is_empty() && outcome.claims.contains("Bound")).count()
    }
}
