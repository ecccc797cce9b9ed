//! A view of the API server's resource claims.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::paths::path;

/// The claims passed to [`ResourceClaims::change`], by path.
#[derive(Debug, Default)]
pub(super) struct ResourceClaims(BTreeMap<String, Value>);

impl ResourceClaims {
    /// Updates a claim.
    pub(super) fn change(&mut self, is_deleted: bool, claim: Value) {
        if is_deleted {
            self.0.remove(&path(&claim));
        } else {
            self.0.insert(path(&claim), claim);
        }
    }

    /// All claims, in the order of their paths.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.values()
    }

    /// UIDs of the pods for which claims are reserved, each with the path of the claim.
    pub(super) fn reservations(&self) -> impl Iterator<Item = (&str, &String)> {
        self.0.iter().flat_map(|(path, claim)| {
            let consumers = claim["status"]["reservedFor"].as_array().into_iter().flatten();
            consumers.filter_map(move |consumer| Some((consumer["uid"].as_str()?, path)))
        })
    }

    /// Returns true if a claim of `pod` does not exist or is being deleted. The pod is then not tried.
    pub(super) fn is_incomplete(&self, pod: &Value) -> bool {
        let is_ready = |name: &str| {
            let reference = json!({
                "kind": "ResourceClaim",
                "metadata": {"namespace": pod["metadata"]["namespace"], "name": name},
            });
            let claim = self.0.get(&path(&reference));
            claim.is_some_and(|claim| claim["metadata"]["deletionTimestamp"].is_null())
        };
        let mut entries = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
        entries.any(|entry| !claim_name(pod, entry).is_some_and(is_ready))
    }

    /// Describes every claim, without UIDs and names that differ from run to run. `names` are the names of pods by UID.
    pub(super) fn outcomes(&self, names: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let described = self.0.values().map(|claim| {
            let name = &stable_name(claim);
            (format!("{}/{name}", text(&claim["metadata"]["namespace"])), describe(claim, names))
        });
        described.collect()
    }
}

/// Describes the claims that the status of `pod` names.
pub(super) fn statuses(pod: &Value) -> String {
    let (generated, extended) =
        (&pod["status"]["resourceClaimStatuses"], pod["status"].get("extendedResourceClaimStatus"));
    let mut parts = Vec::new();
    if !generated.is_null() {
        parts.push(generated.to_string());
    }
    if let Some(extended) = extended {
        let mut extended = extended.clone();
        extended["resourceClaimName"] = without_suffix(&text(&extended["resourceClaimName"])).into();
        parts.push(extended.to_string());
    }
    parts.join(" ")
}

/// Name of the claim for an entry of `spec.resourceClaims`, if it is known.
fn claim_name<'a>(pod: &'a Value, entry: &'a Value) -> Option<&'a str> {
    if let Some(name) = entry["resourceClaimName"].as_str() {
        return Some(name);
    }
    let mut statuses = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
    statuses.find(|status| status["name"] == entry["name"])?["resourceClaimName"].as_str()
}

fn describe(claim: &Value, names: &BTreeMap<String, String>) -> String {
    let (metadata, mut status) = (&claim["metadata"], claim["status"].clone());
    for consumer in status["reservedFor"].as_array_mut().into_iter().flatten() {
        consumer["uid"] = names.get(&text(&consumer["uid"])).cloned().unwrap_or_default().into();
    }
    if let Some(allocation) = status.get_mut("allocation") {
        // kube-scheduler's share IDs are random.
        for result in allocation["devices"]["results"].as_array_mut().into_iter().flatten() {
            if let Some(id) = result.get_mut("shareID") {
                *id = "some".into();
            }
        }
        if let Some(time) = allocation.get_mut("allocationTimestamp") {
            *time = "some".into();
        }
    }
    for report in status["devices"].as_array_mut().into_iter().flatten() {
        if let Some(id) = report.get_mut("shareID") {
            *id = "some".into();
        }
    }
    let mut described = json!({"status": status, "finalizers": metadata["finalizers"]});
    if !metadata["deletionTimestamp"].is_null() {
        described["end"] = "terminating".into();
    }
    if is_for_extended_resources(claim) {
        let mut owners = metadata["ownerReferences"].clone();
        for owner in owners.as_array_mut().into_iter().flatten() {
            owner["uid"] = names.get(&text(&owner["uid"])).cloned().unwrap_or_default().into();
        }
        described["owners"] = owners;
        described["spec"] = claim["spec"].clone();
    }
    described.to_string()
}

/// Returns true if the scheduler created the claim.
pub(super) fn is_for_extended_resources(claim: &Value) -> bool {
    claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
}

/// Name of the claim without a random suffix.
pub(super) fn stable_name(claim: &Value) -> String {
    let name = text(&claim["metadata"]["name"]);
    if is_for_extended_resources(claim) { without_suffix(&name) } else { name }
}

/// Removes the suffix that the API server has added to a name.
fn without_suffix(name: &str) -> String {
    name.rsplit_once('-').map_or(name, |(start, _)| start).to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, is_extended: bool, uid: &str, share: &str) -> Value {
        let result = json!({"request": "r", "device": "d", "shareID": share});
        json!({
            "kind": "ResourceClaim",
            "metadata": {
                "name": name, "namespace": "default", "finalizers": ["f"],
                "annotations": {"resource.kubernetes.io/extended-resource-claim": is_extended.to_string()},
            },
            "status": {
                "allocation": {"devices": {"results": [result]}, "allocationTimestamp": share},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": uid}],
            },
        })
    }

    fn outcomes(claim: Value, uid: &str) -> BTreeMap<String, String> {
        let mut claims = ResourceClaims::default();
        claims.change(false, claim);
        claims.outcomes(&[(uid.to_owned(), "p".to_owned())].into())
    }

    #[test]
    fn outcomes_do_not_depend_on_random_names_and_ids() {
        let left = outcomes(claim("p-extended-resources-abcde", true, "1", "x"), "1");
        assert_eq!(left, outcomes(claim("p-extended-resources-fghij", true, "2", "y"), "2"));
        assert_eq!(left.keys().next().unwrap(), "default/p-extended-resources");
    }

    #[test]
    fn outcomes_depend_on_the_name_and_the_devices_and_the_consumers_of_a_claim() {
        let left = outcomes(claim("a-1", false, "1", "x"), "1");
        let mut exclusive = claim("a-1", false, "1", "x");
        exclusive["status"]["allocation"]["devices"]["results"][0] = json!({"request": "r", "device": "d"});
        for other in [claim("a-2", false, "1", "x"), claim("a-1", false, "2", "x"), exclusive] {
            assert_ne!(left, outcomes(other, "1"));
        }
    }

    #[test]
    fn a_pod_is_incomplete_until_all_its_claims_exist() {
        let mut claims = ResourceClaims::default();
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"resourceClaims": [{"name": "own", "resourceClaimTemplateName": "t"}]},
        });
        assert!(claims.is_incomplete(&pod));
        pod["status"]["resourceClaimStatuses"] = json!([{"name": "own", "resourceClaimName": "p-own"}]);
        assert!(claims.is_incomplete(&pod));
        claims.change(false, claim("p-own", false, "1", "x"));
        assert!(!claims.is_incomplete(&pod));
    }
}
