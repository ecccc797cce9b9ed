//! The volume that is created for a claim.

use serde_json::{Map, Value, json};

/// A claim, its class and driver, and the topology of its volume.
pub(super) struct VolumeRequest<'a> {
    pub(super) driver: &'a str,
    pub(super) claim: &'a Value,
    pub(super) class: &'a Value,
    /// Labels by topology key.
    pub(super) topology: &'a Map<String, Value>,
}

/// The labels of `node` for `keys`, if it has them all.
pub(super) fn topology(node: &Value, keys: &[String]) -> Option<Map<String, Value>> {
    let labels = &node["metadata"]["labels"];
    keys.iter().map(|key| labels[key].is_string().then(|| (key.clone(), labels[key].clone()))).collect()
}

/// Returns true if a class allows volumes at `topology`: one of the class's terms matches, or the class has no
/// terms. A term with a label that is not a topology key of the driver never matches.
pub(super) fn is_allowed(class: &Value, topology: &Map<String, Value>) -> bool {
    let Some(terms) = class["allowedTopologies"].as_array().filter(|terms| !terms.is_empty()) else {
        return true;
    };
    let holds = |expression: &Value| {
        let place = expression["key"].as_str().and_then(|key| topology.get(key));
        let values = expression["values"].as_array();
        place.is_some_and(|place| values.is_some_and(|values| values.contains(place)))
    };
    terms.iter().any(|term| {
        let expressions = term["matchLabelExpressions"].as_array();
        expressions.is_some_and(|expressions| expressions.iter().all(holds))
    })
}

impl VolumeRequest<'_> {
    /// A volume as the external-provisioner of CSI drivers writes it: named after the claim's UID and reserved for the
    /// claim.
    pub(super) fn volume(&self) -> Value {
        let Self { driver, claim, class, topology } = self;
        let (metadata, claim_spec) = (&claim["metadata"], &claim["spec"]);
        let name = volume_name(claim);
        let mut spec = json!({
            "capacity": {"storage": claim_spec["resources"]["requests"]["storage"]},
            "accessModes": claim_spec["accessModes"],
            "storageClassName": claim_spec["storageClassName"],
            "persistentVolumeReclaimPolicy": class["reclaimPolicy"].as_str().unwrap_or("Delete"),
            "csi": {"driver": driver, "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
            },
        });
        for field in ["volumeMode", "volumeAttributesClassName"] {
            if claim_spec[field].is_string() {
                spec[field] = claim_spec[field].clone();
            }
        }
        if !topology.is_empty() {
            let expressions: Vec<Value> = topology
                .iter()
                .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}))
                .collect();
            spec["nodeAffinity"] =
                json!({"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}});
        }
        let annotations = json!({"pv.kubernetes.io/provisioned-by": driver});
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": annotations}, "spec": spec,
        })
    }
}

/// Returns `pvc-UID`, the name that the external-provisioner gives to the claim's volume.
fn volume_name(claim: &Value) -> String {
    format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_is_allowed_if_all_expressions_of_one_term_match() {
        let zone = |values: &[&str]| json!({"matchLabelExpressions": [{"key": "zone", "values": values}]});
        let mut both = zone(&["a"]);
        both["matchLabelExpressions"].as_array_mut().unwrap().push(json!({"key": "rack", "values": ["1"]}));
        let place = json!({"zone": "a"});
        for (terms, expected) in [
            (json!(null), true),
            (json!([]), true),
            (json!([zone(&["b", "a"])]), true),
            (json!([zone(&["b"])]), false),
            (json!([zone(&["b"]), zone(&["a"])]), true),
            (json!([both]), false),
        ] {
            let class = json!({"allowedTopologies": terms});
            assert_eq!(is_allowed(&class, place.as_object().unwrap()), expected, "{class}");
        }
    }

    #[test]
    fn a_volume_has_the_topology_of_the_node_and_is_reserved_for_the_claim() {
        let node = json!({"metadata": {"labels": {"zone": "a", "other": "x"}}});
        let keys = ["zone".to_owned()];
        let claim = json!({
            "metadata": {"namespace": "default", "name": "one", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "c", "volumeMode": "Block",
                "resources": {"requests": {"storage": "1Gi"}}},
        });
        let topology = topology(&node, &keys).unwrap();
        let request = VolumeRequest { driver: "d", claim: &claim, class: &json!({}), topology: &topology };
        let volume = request.volume();
        assert_eq!(volume["metadata"]["name"], "pvc-u");
        assert_eq!(volume["spec"]["claimRef"]["uid"], "u");
        assert_eq!(volume["spec"]["volumeMode"], "Block");
        let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
        let expected = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
        assert_eq!(*terms, expected);
    }

    #[test]
    fn a_node_without_one_of_the_keys_has_no_topology() {
        let node = json!({"metadata": {"labels": {"zone": "a"}}});
        assert!(topology(&node, &["zone".to_owned(), "rack".to_owned()]).is_none());
        assert!(topology(&json!({}), &[]).is_some_and(|place| place.is_empty()));
    }
}
