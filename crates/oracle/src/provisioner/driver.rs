//! CSI drivers and their behaviour for each claim.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A simulated CSI driver. It creates volumes for claims whose class specifies it as the provisioner. Its behaviour
/// depends only on the fields of this type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Driver {
    /// Name, which is the `provisioner` of the driver's classes.
    pub name: String,
    /// Node labels in a volume's node affinity. If there are none, the driver's volumes can be used on every node.
    pub topology_keys: Vec<String>,
    /// Behaviour for all other claims.
    #[serde(default)]
    pub default: Behaviour,
    /// Behaviour by class name.
    #[serde(default)]
    pub classes: BTreeMap<String, Behaviour>,
    /// Behaviour by `namespace/name` of a claim; takes precedence over the behaviour for its class.
    #[serde(default)]
    pub claims: BTreeMap<String, Behaviour>,
}

/// A driver's behaviour for a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behaviour {
    /// Time from the request for a volume to the driver's answer, and between two tries.
    pub delay: Duration,
    /// The answer.
    pub outcome: Outcome,
}

/// Result of the tries to create a volume. Tries are counted per claim, regardless of the selected node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Creates the volume.
    #[default]
    Make,
    /// Fails this many tries while the node remains selected, then creates the volume.
    FailTimes(u32),
    /// For this many tries, acts as if the selected node were out of capacity: removes the annotation that names the
    /// node, which makes the scheduler select a node again. After these tries, creates the volume. Claims without a
    /// selected node fail as with [`Outcome::FailTimes`].
    RemoveSelectedNode(u32),
    /// Never answers.
    Never,
}

impl Behaviour {
    /// Creates volumes after `delay`.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self { delay, outcome: Outcome::Make }
    }

    /// Replaces the outcome.
    #[must_use]
    pub fn with(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }
}

impl Driver {
    /// A driver that creates every volume immediately.
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

    /// Sets the behaviour for claims that have no behaviour of their own and whose class has none either.
    #[must_use]
    pub fn with_default(self, behaviour: Behaviour) -> Self {
        Self { default: behaviour, ..self }
    }

    /// Sets the behaviour for the claims of a class.
    #[must_use]
    pub fn for_class(mut self, class: &str, behaviour: Behaviour) -> Self {
        self.classes.insert(class.to_owned(), behaviour);
        self
    }

    /// Sets the behaviour for the claim `namespace/name`.
    #[must_use]
    pub fn for_claim(mut self, claim: &str, behaviour: Behaviour) -> Self {
        self.claims.insert(claim.to_owned(), behaviour);
        self
    }

    pub(super) fn behaviour(&self, claim: &Value) -> Behaviour {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &claim["metadata"];
        let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
        let by_class = || self.classes.get(&text(&claim["spec"]["storageClassName"]));
        *self.claims.get(&name).or_else(by_class).unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_takes_precedence_over_its_class_and_a_class_over_the_default() {
        let [one, two, three] = [1, 2, 3].map(|seconds| Behaviour::after(Duration::from_secs(seconds)));
        let driver =
            Driver::new("d", []).with_default(one).for_class("slow", two).for_claim("default/mine", three);
        for (claim, class, expected) in
            [("mine", "slow", three), ("other", "slow", two), ("other", "fast", one)]
        {
            let claim = json!({"metadata": {"namespace": "default", "name": claim},
                "spec": {"storageClassName": class}});
            assert_eq!(driver.behaviour(&claim), expected, "{claim}");
        }
    }
}
