//! A Lease (`coordination.k8s.io/v1`), to the extent that leader election uses it.

use std::time::Duration;

use bytes::Bytes;
use harbormaster_api::Timestamp;
use serde_json::{Map, Value, json};

/// A Lease. Fields that leader election does not use (labels, owners) are preserved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease(Map<String, Value>);

/// The spec of a lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim<'a> {
    /// Empty in a released lease.
    pub(super) holder: &'a str,
    pub(super) seconds: u64,
    /// `metav1.MicroTime`.
    pub(super) acquired: String,
    pub(super) renewed: Timestamp,
    pub(super) transitions: i64,
}

impl Claim<'_> {
    fn spec(&self) -> Value {
        json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.seconds,
            "acquireTime": self.acquired,
            "renewTime": self.renewed.to_rfc3339_micro(),
            "leaseTransitions": self.transitions,
        })
    }
}

impl Lease {
    /// Returns a new lease.
    pub(super) fn new(namespace: &str, name: &str, claim: &Claim<'_>) -> Self {
        Self(Map::from_iter([
            ("apiVersion".to_owned(), "coordination.k8s.io/v1".into()),
            ("kind".to_owned(), "Lease".into()),
            ("metadata".to_owned(), json!({"name": name, "namespace": namespace})),
            ("spec".to_owned(), claim.spec()),
        ]))
    }

    /// Returns the object with a different spec.
    pub(super) fn with_claim(&self, claim: &Claim<'_>) -> Self {
        let mut object = self.0.clone();
        object.insert("spec".to_owned(), claim.spec());
        Self(object)
    }

    pub(super) fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json).map(Self)
    }

    pub(super) fn to_json(&self) -> Bytes {
        serde_json::to_vec(&self.0).unwrap_or_default().into()
    }

    /// Returns true if both leases have the same spec.
    pub(super) fn has_spec_of(&self, other: &Self) -> bool {
        self.0.get("spec") == other.0.get("spec")
    }

    /// Returns the holder; empty if the lease has no holder.
    pub(super) fn holder(&self) -> &str {
        self.spec_field("holderIdentity").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the time for which the lease remains valid after a change has been seen.
    pub(super) fn lasts(&self) -> Duration {
        let seconds = self.spec_field("leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(0);
        // The field has 32 bits.
        Duration::from_secs(seconds.clamp(0, i32::MAX.into()).unsigned_abs())
    }

    /// Returns the number of times that the holder has changed.
    pub(super) fn transitions(&self) -> i64 {
        self.spec_field("leaseTransitions")
            .and_then(Value::as_i64)
            .unwrap_or(0)
            .clamp(0, (i32::MAX - 1).into())
    }

    /// Returns the time when the lease was acquired.
    pub(super) fn acquired(&self) -> Option<&str> {
        self.spec_field("acquireTime")?.as_str()
    }

    /// Returns a string field of the lease's metadata; empty if absent.
    pub(super) fn metadata(&self, field: &str) -> &str {
        let metadata = self.0.get("metadata");
        metadata.and_then(|all| all.get(field)?.as_str()).unwrap_or_default()
    }

    fn spec_field(&self, field: &str) -> Option<&Value> {
        self.0.get("spec")?.get(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &Value) -> Lease {
        Lease::parse(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn missing_and_invalid_fields_are_read_as_empty_values() {
        for spec in [
            json!(null),
            json!(5),
            json!({}),
            json!({"holderIdentity": null, "leaseDurationSeconds": -5, "leaseTransitions": "x"}),
        ] {
            let lease = parsed(&json!({"spec": spec}));
            assert_eq!(
                (lease.holder(), lease.lasts(), lease.transitions()),
                ("", Duration::ZERO, 0),
                "{spec}"
            );
            assert_eq!((lease.acquired(), lease.metadata("uid")), (None, ""));
        }
        assert!(Lease::parse(b"[]").is_err() && Lease::parse(b"{").is_err());
    }

    #[test]
    fn an_update_replaces_the_whole_spec_and_keeps_the_rest_of_the_object() {
        let at = Timestamp::parse("2026-11-21T02:00:00.25Z").unwrap();
        let lease = parsed(&json!({
            "metadata": {"name": "l", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"holderIdentity": "old", "strategy": "OldestEmulationVersion"},
        }));
        let claim =
            Claim { holder: "me", seconds: 15, acquired: "then".to_owned(), renewed: at, transitions: 3 };
        let updated: Value = serde_json::from_slice(&lease.with_claim(&claim).to_json()).unwrap();
        assert_eq!(
            updated,
            json!({
                "metadata": {"name": "l", "resourceVersion": "7", "labels": {"a": "b"}},
                "spec": {
                    "holderIdentity": "me",
                    "leaseDurationSeconds": 15,
                    "acquireTime": "then",
                    "renewTime": "2026-11-21T02:00:00.250000Z",
                    "leaseTransitions": 3,
                },
            })
        );
    }
}
