//! Asks for fewer devices in the claims of a pod.

use harbormaster_framework::attempt::AttemptError;
use harbormaster_validation::value::{list, present, text};
use serde_json::Value;

use super::{Change, objects::device_claim, trials::Trials};

impl Trials {
    /// Returns, for each request of the pod's claims that asks for several devices, the change to a single one. Claims
    /// that have devices already do not hold the pod up by their number.
    pub(super) fn fewer_devices(&self) -> Vec<Change> {
        let mut found = Vec::new();
        for entry in &self.pod.spec.resource_claims {
            let claim = device_claim(&self.pod, &entry.name);
            let claim = claim.and_then(|name| self.objects.find("ResourceClaim", name));
            let Some(claim) = claim.filter(|claim| present(claim, "/status/allocation").is_none()) else {
                continue;
            };
            for request in list(claim, "/spec/devices/requests") {
                let (name, from) = (text(request, "/name").to_owned(), count(request));
                if from > 1 {
                    let claim = entry.name.clone();
                    found.push(Change::FewerDevices { claim, request: name, from, to: 1 });
                }
            }
        }
        found
    }

    /// Raises the number of devices again as far as the pod still fits.
    pub(super) fn narrow_devices(&mut self, changes: &mut [Change], at: usize) -> Result<(), AttemptError> {
        let Change::FewerDevices { from, .. } = changes[at] else { return Ok(()) };
        let (mut enough, mut too_many) = (1, from);
        while enough + 1 < too_many {
            let middle = enough + (too_many - enough) / 2;
            changes[at].ask_for(middle);
            if self.fits(changes)?.is_empty() { too_many = middle } else { enough = middle }
        }
        changes[at].ask_for(enough);
        Ok(())
    }
}

impl Change {
    fn ask_for(&mut self, devices: i64) {
        if let Self::FewerDevices { to, .. } = self {
            *to = devices;
        }
    }
}

/// Returns the number of devices that a request asks for; 0 if it asks for all, or lists alternatives.
fn count(request: &Value) -> i64 {
    let Some(exactly) = present(request, "/exactly") else { return 0 };
    match text(exactly, "/allocationMode") {
        "" | "ExactCount" => exactly["count"].as_i64().unwrap_or(1),
        _ => 0,
    }
}

/// Sets the number of devices of a request.
pub(super) fn set_count(claim: &mut Value, request: &str, to: i64) {
    let requests = claim.pointer_mut("/spec/devices/requests").and_then(Value::as_array_mut);
    for known in requests.into_iter().flatten().filter(|known| known["name"] == request) {
        known["exactly"]["count"] = to.into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_exact_numbers_are_counted_and_changed() {
        for (exactly, expected) in [
            (json!({"count": 4}), 4),
            (json!({"allocationMode": "ExactCount", "count": 2}), 2),
            (json!({"allocationMode": "ExactCount"}), 1),
            (json!({"allocationMode": "All"}), 0),
            (json!(null), 0),
        ] {
            assert_eq!(count(&json!({"name": "r", "exactly": exactly})), expected, "{exactly}");
        }
        let requests =
            json!([{"name": "a", "exactly": {"count": 4}}, {"name": "b", "exactly": {"count": 4}}]);
        let mut claim = json!({"spec": {"devices": {"requests": requests}}});
        set_count(&mut claim, "b", 3);
        assert_eq!(list(&claim, "/spec/devices/requests").iter().map(count).collect::<Vec<_>>(), [4, 3]);
    }
}
