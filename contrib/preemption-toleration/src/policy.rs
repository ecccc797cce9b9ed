//! PriorityClass (`scheduling.k8s.io/v1`), and the annotations that protect its pods.

use std::{collections::BTreeMap, time::Duration};

use harbormaster::{
    api::{Pod, Timestamp},
    prelude::*,
    serde::Deserialize,
};

/// Annotation: the lowest priority that may preempt pods of the class at any time.
pub const MINIMUM: &str = "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority";
/// Annotation: for how many seconds a pod of the class is protected once it is scheduled; negative means for ever.
pub const SECONDS: &str = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds";

/// A priority class, reduced to what protects its pods. A class with a malformed annotation cannot be decoded, so it is
/// reported and protects no pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde", try_from = "Wire")]
pub struct PriorityClass {
    /// Lowest priority that may preempt the pods at any time.
    pub minimum: i64,
    /// Seconds of protection from other priorities; negative means for ever.
    pub seconds: i64,
}

impl Resource for PriorityClass {
    const GROUP: &'static str = "scheduling.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PriorityClass";
    const PLURAL: &'static str = "priorityclasses";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

#[derive(Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct Wire {
    metadata: WireMetadata,
    value: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct WireMetadata {
    annotations: Option<BTreeMap<String, String>>,
}

impl TryFrom<Wire> for PriorityClass {
    type Error = String;

    fn try_from(Wire { metadata, value }: Wire) -> Result<Self, String> {
        let annotations = metadata.annotations.unwrap_or_default();
        let wrong = |key: &str, text: &str, limit: &str| {
            Err(format!("annotation {key}: {text:?} is not {limit}; the class protects no pods"))
        };
        let minimum = match annotations.get(MINIMUM).map(|text| (text, text.parse::<i32>())) {
            None => i64::from(value) + 1,
            Some((_, Ok(number))) => i64::from(number),
            Some((text, Err(_))) => return wrong(MINIMUM, text, "a priority"),
        };
        let seconds = match annotations.get(SECONDS).map(|text| (text, text.parse::<i64>())) {
            None => 0,
            Some((_, Ok(number))) => number,
            Some((text, Err(_))) => return wrong(SECONDS, text, "a number of seconds"),
        };
        Ok(Self { minimum, seconds })
    }
}

/// End of a protection that never ends.
pub const NEVER: Timestamp = Timestamp(i64::MAX);

impl PriorityClass {
    /// Returns the time until which the class protects its pod from a pod of the given priority; `None` if it does not
    /// protect the pod now.
    pub fn protected_until(&self, pod: &Pod, preemptor: i32, now: Timestamp) -> Option<Timestamp> {
        if i64::from(preemptor) >= self.minimum {
            return None;
        }
        let Ok(seconds) = u64::try_from(self.seconds) else { return Some(NEVER) };
        let scheduled = pod.condition("PodScheduled").filter(|condition| condition.status == "True");
        match scheduled {
            // The pod is not scheduled for long enough, because it is not scheduled at all.
            None => Some(now + Duration::from_secs(seconds.max(1))),
            Some(condition) => {
                let since = condition.last_transition.unwrap_or_default();
                Some(since + Duration::from_secs(seconds)).filter(|end| *end > now)
            }
        }
    }
}
