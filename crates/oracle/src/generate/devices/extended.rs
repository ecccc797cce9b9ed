//! Extended resources that device classes provide, on nodes with and without device plugins.

use serde_json::{Value, json};

use crate::generate::world::push;
use crate::generate::{Profile, Random};

/// Resource that only the class `any` provides. The class has no selectors, so NodeResourcesBalancedAllocation may
/// score the resource: kube-scheduler 1.36 crashes when it evaluates selectors there.
const OF_ANY: &str = "example.com/gpu";

/// Resources of several classes.
const OF_CLASSES: &[&str] = &["vendor.io/nic", "vendor.io/license", "other.org/very-long.name_1"];

/// Implicit resources, which classes provide without naming them. kube-scheduler forgets the implicit resource of a
/// class that loses its `extendedResourceName` to another class, which cannot happen to these two classes.
const IMPLICIT: &[&str] =
    &["deviceclass.resource.kubernetes.io/any", "deviceclass.resource.kubernetes.io/nic"];

/// Lets a class provide an extended resource, which other classes may provide, too.
pub(super) fn vary_class(random: &mut Random, name: &str, class: &mut Value) {
    let day = random.range(1, 3);
    class["metadata"]["creationTimestamp"] = format!("2026-01-0{day}T00:00:00Z").into();
    // For scores, kube-scheduler 1.36 evaluates selectors as if no device could be shared.
    let selects_shared = class.to_string().contains("allowMultipleAllocations");
    if name == "nic" || selects_shared || !random.chance(70) {
        return;
    }
    let is_any = name == "any" && random.chance(70);
    class["spec"]["extendedResourceName"] = if is_any { OF_ANY } else { *random.pick(OF_CLASSES) }.into();
}

/// Returns true if a container of the pod asks for one of the resources.
pub(super) fn is_wanted(pod: &Value) -> bool {
    let lists = ["containers", "initContainers"].map(|field| pod["spec"][field].as_array());
    lists.into_iter().flatten().flatten().any(|container| {
        let requests = &container["resources"]["requests"];
        OF_CLASSES.iter().chain(IMPLICIT).chain([&OF_ANY]).any(|resource| !requests[*resource].is_null())
    })
}

fn resource(random: &mut Random) -> &'static str {
    let resources = match random.below(10) {
        0 => IMPLICIT,
        1..=3 => &[OF_ANY],
        _ => OF_CLASSES,
    };
    random.pick::<&'static str>(resources)
}

/// Lets the node's kubelet report some of the resources, as if device plugins provided them.
pub(super) fn vary_node(random: &mut Random, node: &mut Value) {
    for _ in 0..*random.pick(&[0, 0, 0, 1, 1, 2]) {
        let (resource, amount) = (resource(random), *random.pick(&["0", "0", "1", "2", "8"]));
        node["status"]["allocatable"][resource] = amount.into();
        node["status"]["capacity"][resource] = amount.into();
    }
}

/// Lets some containers of the pod ask for the resources. If `may_fail` is true, a few ask for too much.
pub(super) fn vary_pod(random: &mut Random, pod: &mut Value, may_fail: bool) {
    if !random.chance(45) {
        return;
    }
    if random.chance(40) {
        for index in 0..random.range(1, 3) {
            let mut container = json!({"name": format!("setup-{index}"), "image": "setup:1"});
            if random.chance(40) {
                container["restartPolicy"] = "Always".into();
            }
            push(&mut pod["spec"]["initContainers"], container);
        }
    }
    let wanted: Vec<&str> = (0..*random.pick(&[1, 1, 1, 2])).map(|_| resource(random)).collect();
    for field in ["containers", "initContainers"] {
        for container in pod["spec"][field].as_array_mut().into_iter().flatten() {
            for resource in &wanted {
                if !random.chance(70) {
                    continue;
                }
                // No claim can have 40 devices: if a class provides the resource, the attempt may end with an error.
                let is_too_much = random.chance(1) && may_fail;
                let amounts = if is_too_much { &["40"][..] } else { &["1", "1", "1", "1", "2", "3", "0"] };
                let amount = *random.pick(amounts);
                container["resources"]["requests"][*resource] = amount.into();
                container["resources"]["limits"][*resource] = amount.into();
            }
        }
    }
}

/// Lets the profile score the resources.
pub(super) fn vary_profile(random: &mut Random, profile: &mut Profile) {
    if random.chance(40) {
        let kind = *random.pick(&["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]);
        let resources = scored(random, &[OF_ANY, OF_CLASSES[0], OF_CLASSES[1], IMPLICIT[1]]);
        let mut strategy = json!({"type": kind, "resources": resources});
        if kind == "RequestedToCapacityRatio" {
            let shape = json!([{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]);
            strategy["requestedToCapacityRatio"] = json!({"shape": shape});
        }
        let args = profile.args.entry("NodeResourcesFit".to_owned()).or_insert_with(|| json!({}));
        args["scoringStrategy"] = strategy;
    }
    if random.chance(30) {
        let mut resources = scored(random, &[OF_ANY, IMPLICIT[0]]);
        resources.iter_mut().for_each(|resource| resource["weight"] = 1.into());
        let args = json!({ "resources": resources });
        profile.args.insert("NodeResourcesBalancedAllocation".to_owned(), args);
    }
    if random.chance(15) {
        let args = profile.args.entry("NodeResourcesFit".to_owned()).or_insert_with(|| json!({}));
        args["ignoredResources"] = json!([random.pick(OF_CLASSES)]);
    }
}

fn scored(random: &mut Random, backed: &[&str]) -> Vec<Value> {
    let count = random.range(1, 2);
    let names = random.sample(backed, count).into_iter().chain(["cpu", "memory"]);
    let weighted = names.map(|name| (name, *random.pick(&[1, 1, 2, 5])));
    let weighted: Vec<(&str, i32)> = weighted.collect();
    weighted.into_iter().map(|(name, weight)| json!({"name": name, "weight": weight})).collect()
}

/// Turns a claim into one that an earlier attempt created for the extended resources of its pod.
pub(super) fn leave_over(random: &mut Random, pod: &str, claim: &mut Value) {
    claim["metadata"]["name"] = format!("{pod}-extended-resources-abcde").into();
    claim["metadata"]["uid"] = format!("claim-{pod}-extended").into();
    let marked = if random.chance(90) { "true" } else { "false" };
    claim["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": marked});
    let uid = if random.chance(90) { format!("default/{pod}") } else { "another-owner".to_owned() };
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true});
    claim["metadata"]["ownerReferences"] = json!([owner]);
}
