//! Resource claims of groups in scripts, and the devices for them.
//!
//! kube-scheduler 1.37.2 writes a claim that the members of a group share once for each member, at the same time. All
//! writes but one fail, and these members are tried again, so they may be placed in another order. Two runs are
//! comparable, and no known fault of kube-scheduler interferes, only under these conditions:
//!
//! - All members of a group share the same claims of the group, and name them after their own claims. Otherwise,
//!   kube-scheduler gives a claim the devices of another one.
//! - A group has at most one claim that may be unavailable on some node, because kube-scheduler chooses at random from
//!   which of several claims it takes the devices.
//! - Members that are tried again have no choice: they follow the claim to its node, or each of them may run on one
//!   node only. There is room for all of them.

use serde_json::{Value, json};

use crate::generate::{Random, push};

/// Driver of the devices that belong to nodes.
const LOCAL: &str = "local.example.com";

/// Driver of the devices that all nodes can reach.
const FABRIC: &str = "fabric.example.com";

/// Claims of the groups of one script.
pub(super) struct GroupClaims {
    random: Random,
    next: usize,
}

impl GroupClaims {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed ^ 0x0c1a_1350), next: 0 }
    }

    /// Generates classes, templates, and the slices of these nodes.
    pub(super) fn infrastructure(&mut self, nodes: &[String]) -> Vec<Value> {
        let mut objects = Vec::new();
        for (class, driver) in [("local", LOCAL), ("fabric", FABRIC)] {
            objects.push(json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
                "metadata": {"name": class},
                "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{driver}'")}}]},
            }));
            let mut template = claim(class, class, 1);
            template["kind"] = "ResourceClaimTemplate".into();
            template["spec"] = json!({"spec": template["spec"]});
            objects.push(template);
        }
        let count = self.random.range(1, 5);
        objects.push(slice("fabric", FABRIC, count, ("allNodes", true.into())));
        for node in nodes {
            let count = self.random.below(4);
            objects.push(slice(node, LOCAL, count, ("nodeName", node.as_str().into())));
        }
        objects
    }

    /// Adds claims, possibly none, to a group and to the specs of its members, which may run on `nodes`. Returns a claim
    /// to create before the group.
    pub(super) fn add_to(
        &mut self,
        group: &mut Value,
        members: &mut [Value],
        nodes: &[String],
    ) -> Option<Value> {
        let mut named = None;
        for spec in members.iter_mut() {
            if self.random.chance(25) {
                let own = json!({"name": "own", "resourceClaimTemplateName": "local"});
                push(&mut spec["resourceClaims"], own);
            }
            // Members that share devices of a node must fit beside each other.
            spec["containers"][0]["resources"]["requests"]["cpu"] =
                (*self.random.pick(&["100m", "250m", "500m", "1"])).into();
        }
        if !self.random.chance(80) {
            return None;
        }
        let classes = *self.random.pick(&[&["local"][..], &["local"], &["fabric"], &["local", "fabric"]]);
        for class in classes {
            let entry = if self.random.chance(60) || named.is_some() {
                json!({"name": class, "resourceClaimTemplateName": class})
            } else {
                self.next += 1;
                let name = format!("shared-{}", self.next);
                named = Some(claim(&name, class, self.random.range(1, 3)));
                json!({"name": class, "resourceClaimName": name})
            };
            push(&mut group["spec"]["resourceClaims"], entry.clone());
            for spec in members.iter_mut() {
                push(&mut spec["resourceClaims"], entry.clone());
            }
        }
        if !classes.contains(&"local") {
            for spec in members.iter_mut() {
                let node = self.random.pick(nodes).as_str();
                spec["nodeSelector"] = json!({"kubernetes.io/hostname": node});
            }
        }
        named
    }

    /// Returns true if the group and its members are deleted.
    pub(super) fn ends_group(&mut self) -> bool {
        self.random.chance(30)
    }
}

/// A claim for a number of devices of a class.
fn claim(name: &str, class: &str, count: usize) -> Value {
    let exactly = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    })
}

/// A slice that is a whole pool. `nodes` is the field that tells which nodes can reach its devices.
fn slice(name: &str, driver: &str, count: usize, (field, nodes): (&str, Value)) -> Value {
    let devices: Vec<Value> = (0..count).map(|at| json!({"name": format!("device-{at}")})).collect();
    let mut slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("{name}-slice")},
        "spec": {
            "driver": driver,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    });
    slice["spec"][field] = nodes;
    slice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_name_the_claims_of_their_group_after_their_own() {
        let mut claims = GroupClaims::new(1);
        let mut shared = 0;
        for _ in 0..50 {
            let member = json!({"containers": [{}]});
            let (mut group, mut members) = (json!({"spec": {}}), vec![member.clone(), member]);
            claims.add_to(&mut group, &mut members, &["n".to_owned()]);
            let of_group = group["spec"]["resourceClaims"].as_array().cloned().unwrap_or_default();
            shared += of_group.len();
            for member in &members {
                let all = member["resourceClaims"].as_array().cloned().unwrap_or_default();
                assert!(all.ends_with(&of_group), "{member} {group}");
            }
        }
        assert!(shared > 20);
    }
}
