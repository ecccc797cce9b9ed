//! Makes volumes and devices scarce, so that pods wait for nothing else more often.

use serde_json::{Value, json};

use crate::generate::{Cluster, Random};

/// Fields of a claim's annotations that say that it has a volume, or will have one.
const BOUND: &[&str] = &["pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node"];

/// Lowers limits and capacities, removes volumes, and lets claims ask for more devices.
pub(super) fn make_scarce(cluster: &mut Cluster, seed: u64) {
    let mut random = Random::new(seed);
    cluster.objects.retain(|object| object["kind"] != "PersistentVolume" || random.chance(60));
    for object in &mut cluster.objects {
        match object["kind"].as_str() {
            Some("StorageClass") => change_class(&mut random, object),
            Some("CSIDriver") => object["spec"]["storageCapacity"] = true.into(),
            Some("CSIStorageCapacity") => object["capacity"] = (*random.pick(&["1Gi", "2Gi"])).into(),
            Some("CSINode") => lower_limits(&mut random, object),
            Some("PersistentVolumeClaim") if random.chance(70) => unbind(object),
            Some("ResourceClaim") => ask_for_more(&mut random, object),
            Some("Pod") => relax(&mut random, object),
            _ => {}
        }
    }
}

/// Lets claims of the class wait for a pod. Many classes have no provisioner.
fn change_class(random: &mut Random, class: &mut Value) {
    class["volumeBindingMode"] = "WaitForFirstConsumer".into();
    if random.chance(60) {
        class["provisioner"] = "kubernetes.io/no-provisioner".into();
    }
    if random.chance(70)
        && let Some(class) = class.as_object_mut()
    {
        class.remove("allowedTopologies");
    }
}

fn lower_limits(random: &mut Random, node: &mut Value) {
    for driver in node["spec"]["drivers"].as_array_mut().into_iter().flatten() {
        if random.chance(60) {
            driver["allocatable"] = json!({"count": random.below(3)});
        }
    }
}

/// Makes a claim as it was before it had a volume.
fn unbind(claim: &mut Value) {
    claim["status"] = json!({"phase": "Pending"});
    if let Some(spec) = claim["spec"].as_object_mut() {
        spec.remove("volumeName");
    }
    if let Some(annotations) = claim.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !BOUND.contains(&key.as_str()));
    }
}

/// Lets the requests of a claim without devices ask for several.
fn ask_for_more(random: &mut Random, claim: &mut Value) {
    if !claim["status"]["allocation"].is_null() {
        return;
    }
    for request in claim["spec"]["devices"]["requests"].as_array_mut().into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly")
            && exactly["allocationMode"] != "All"
            && random.chance(60)
        {
            exactly["count"] = random.range(2, 5).into();
        }
    }
}

/// Drops what else may keep most pods waiting.
fn relax(random: &mut Random, pod: &mut Value) {
    if !pod["spec"]["nodeName"].is_null() || random.chance(30) {
        return;
    }
    if let Some(spec) = pod["spec"].as_object_mut() {
        for field in ["affinity", "nodeSelector", "topologySpreadConstraints", "schedulingGates"] {
            spec.remove(field);
        }
        spec.insert("tolerations".to_owned(), json!([{"operator": "Exists"}]));
    }
}
