//! `Scv`: the cards of a node, as reported by its sniffer.

use harbormaster::{
    api::Timestamp,
    prelude::{Resource, ResourceScope},
    serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error},
};

/// `health` of a usable card.
pub const HEALTHY: &str = "Healthy";
/// `health` of an unusable card.
pub const UNHEALTHY: &str = "Unhealthy";

/// A custom object named after the node. `deploy/crd.yaml` has its definition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct Scv {
    /// Desired state.
    pub spec: ScvSpec,
    /// Reported state.
    pub status: ScvStatus,
}

impl Resource for Scv {
    const GROUP: &'static str = "core.run-linux.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Scv";
    const PLURAL: &'static str = "scvs";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// `spec`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct ScvSpec {
    /// Interval between reports, in milliseconds.
    pub update_interval: i64,
}

/// `status`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct ScvStatus {
    /// The cards, in any order.
    pub card_list: Vec<Card>,
    /// Number of cards. Used by `mode: literal` only.
    pub card_number: u64,
    /// Time of the report, by the sniffer's clock.
    #[serde(with = "time")]
    pub update_time: Option<Timestamp>,
    /// Total memory of all cards in MiB. Used by `mode: literal` only.
    pub total_memory_sum: u64,
    /// Free memory of all cards in MiB. Used by `mode: literal` only.
    pub free_memory_sum: u64,
}

impl ScvStatus {
    /// Returns a report of the given cards, with their sums.
    pub fn of(card_list: Vec<Card>, update_time: Timestamp) -> Self {
        let sum = |of: fn(&Card) -> u64| card_list.iter().map(of).fold(0, u64::saturating_add);
        Self {
            card_number: card_list.len() as u64,
            update_time: Some(update_time),
            total_memory_sum: sum(|card| card.total_memory),
            free_memory_sum: sum(|card| card.free_memory),
            card_list,
        }
    }
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase")]
pub struct Card {
    /// Index of the card on the node.
    pub id: u32,
    /// [`HEALTHY`] if the card is usable; any other string if not.
    #[serde(default)]
    pub health: String,
    /// Model, such as `TITAN Xp`.
    #[serde(default)]
    pub model: String,
    /// Power limit in watts.
    #[serde(default)]
    pub power: u64,
    /// Total memory in MiB.
    #[serde(default)]
    pub total_memory: u64,
    /// Memory clock in MHz.
    #[serde(default)]
    pub clock: u64,
    /// Free memory in MiB, as measured.
    #[serde(default)]
    pub free_memory: u64,
    /// Core clock in MHz.
    #[serde(default)]
    pub core: u64,
    /// Bandwidth of the PCI link in MB/s.
    #[serde(default)]
    pub bandwidth: u64,
}

impl Card {
    /// Returns true if the card is usable. Ignores case, since the original's documentation and sniffer spell `health`
    /// differently.
    pub fn is_healthy(&self) -> bool {
        self.health.eq_ignore_ascii_case(HEALTHY)
    }
}

/// Reads and writes `metav1.Time`.
mod time {
    use super::{Deserialize, Deserializer, Error, Serialize, Serializer, Timestamp};

    pub(super) fn serialize<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        at.map(Timestamp::to_rfc3339).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| Timestamp::parse(&text)).transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{serde_json::json, testkit::custom};

    use super::*;

    #[test]
    fn an_object_written_by_the_original_sniffer_can_be_read() {
        let scv = custom::<Scv>(&json!({
            "metadata": {"name": "n1"},
            "spec": {"updateInterval": 1000},
            "status": {
                "cardList": [{
                    "id": 0, "health": "Healthy", "model": "TITAN Xp", "power": 250, "totalMemory": 12194, "clock": 5705,
                    "freeMemory": 12185, "core": 1911, "bandwidth": 15760,
                }],
                "cardNumber": 1, "updateTime": "2020-12-01T08:00:00Z", "totalMemorySum": 12194, "freeMemorySum": 12185,
            },
        }));
        let card = Card {
            id: 0,
            health: HEALTHY.to_owned(),
            model: "TITAN Xp".to_owned(),
            power: 250,
            total_memory: 12194,
            clock: 5705,
            free_memory: 12185,
            core: 1911,
            bandwidth: 15760,
        };
        assert_eq!(scv.spec.update_interval, 1000);
        assert_eq!(scv.status, ScvStatus::of(vec![card], Timestamp::from_secs(1_606_809_600)));
    }

    #[test]
    fn a_report_survives_a_round_trip_and_a_missing_report_is_empty() {
        let status = ScvStatus::of(vec![Card { id: 3, ..Card::default() }], Timestamp::from_secs(1));
        let written = json!({"metadata": {"name": "n"}, "status": status});
        assert_eq!(written["status"]["updateTime"], "1970-01-01T00:00:01Z");
        assert_eq!(custom::<Scv>(&written).status, status);
        assert_eq!(custom::<Scv>(&json!({"metadata": {"name": "n"}})).object, Scv::default());
    }

    #[test]
    #[should_panic(expected = "Scv \"n\" counts as absent: status.updateTime: ")]
    fn an_invalid_time_is_an_error() {
        custom::<Scv>(&json!({"metadata": {"name": "n"}, "status": {"updateTime": "just now"}}));
    }
}
