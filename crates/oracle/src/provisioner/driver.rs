//! Who makes volumes, and how each claim fares.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A CSI driver: it makes volumes for claims whose class names it as
/// provisioner. What it does with a claim depends on what is given here alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Driver {
    /// The `provisioner` of its classes.
    pub name: String,
    /// The labels of nodes that a volume's node affinity speaks of. Without any
    /// its volumes can be used from everywhere.
    pub topology_keys: Vec<String>,
    /// What it does with all others.
    #[serde(default)]
    pub default: Behaviour,
    /// By name of a class.
    #[serde(default)]
    pub classes: BTreeMap<String, Behaviour>,
    /// By `namespace/name` of a claim; goes before that of its class.
    #[serde(default)]
    pub claims: BTreeMap<String, Behaviour>,
}

/// What becomes of a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behaviour {
    /// From when a volume is asked for until the driver answers, and from one
    /// try to the next.
    pub delay: Duration,
    /// The answer.
    pub outcome: Outcome,
}

/// How the tries to make a volume end. Tries are counted per claim, whatever
/// node is selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// With a volume.
    #[default]
    Make,
    /// The first tries, so many of them, fail, the node stays selected, and the
    /// driver tries again; then it makes the volume.
    FailTimes(u32),
    /// The first tries, so many of them, fail for good on the selected node, as
    /// for want of room: its annotation is removed, which asks the scheduler for
    /// another one. Then the driver makes the volume. Claims for which no node
    /// is selected fail as with [`Outcome::FailTimes`].
    RemoveSelectedNode(u32),
    /// Not at all: the driver never answers.
    Never,
}

impl Behaviour {
    /// Makes volumes after `delay`.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self { delay, outcome: Outcome::Make }
    }

    /// Another outcome.
    #[must_use]
    pub fn with(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }
}

impl Driver {
    /// The driver `name` that makes every volume at once.
    #[must_use]
    pub fn new<'a>(name: &str, topology_keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name: name.to_owned(),
            topology_keys: topology_keys.into_iter().map(str::to_owned).collect(),
            default: Behaviour::default(),
            classes: BTreeMap::new(),
            claims: BTreeMap::new(),
        }
    }

    /// What it does with claims that are not named, nor their class.
    #[must_use]
    pub fn by_default(self, behaviour: Behaviour) -> Self {
        Self { default: behaviour, ..self }
    }

    /// What it does with the claims of a class.
    #[must_use]
    pub fn of_class(mut self, class: &str, behaviour: Behaviour) -> Self {
        self.classes.insert(class.to_owned(), behaviour);
        self
    }

    /// What it does with the claim `namespace/name`.
    #[must_use]
    pub fn of_claim(mut self, claim: &str, behaviour: Behaviour) -> Self {
        self.claims.insert(claim.to_owned(), behaviour);
        self
    }

    pub(super) fn behaviour(&self, claim: &Value) -> Behaviour {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &claim["metadata"];
        let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
        let of_class = || self.classes.get(&text(&claim["spec"]["storageClassName"]));
        *self.claims.get(&name).or_else(of_class).unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_goes_before_its_class_and_a_class_before_the_rest() {
        let [one, two, three] = [1, 2, 3].map(|seconds| Behaviour::after(Duration::from_secs(seconds)));
        let driver =
            Driver::new("d", []).by_default(one).of_class("slow", two).of_claim("default/mine", three);
        for (claim, class, expected) in
            [("mine", "slow", three), ("other", "slow", two), ("other", "fast", one)]
        {
            let claim = json!({"metadata": {"namespace": "default", "name": claim},
                "spec": {"storageClassName": class}});
            assert_eq!(driver.behaviour(&claim), expected, "{claim}");
        }
    }
}
