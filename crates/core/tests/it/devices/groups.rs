//! Claims that the members of a group share, and PodGroupPostFilter.

use harbormaster_plugins::gang_scheduling::PodGroupObject;

use super::*;

/// A world with one node that has one device, and with groups. `of_groups` is true if groups have claims.
fn world_with(of_groups: bool) -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let devices = &["DynamicResources"][..];
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::DRAWorkloadResourceClaims, of_groups)
        .with(Feature::DRADeviceTaintRules, false);
    let mut world = World::with(EngineConfig::new(vec![profile_for(
        features,
        &registry,
        &[
            ("PreEnqueue", &["GangScheduling", "DynamicResources"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", devices),
            ("Filter", devices),
            ("PodGroupPostFilter", devices),
            ("Reserve", devices),
            ("Permit", &["GangScheduling"]),
            ("PreBind", devices),
            ("Bind", &["DefaultBinder"]),
        ],
        &[],
    )]));
    world.set_node(node("n", 4000));
    world.tell::<DeviceClass>(&json!({"metadata": {"name": "gpu"}, "spec": {}}));
    world.tell::<ResourceSlice>(&slice());
    world.tell::<PodGroupObject>(&json!({
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g", "generation": 1},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 0,
            "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
        },
    }));
    world
}

fn member(name: &str) -> Pod {
    let mut pod = user(name, &["c"]);
    Arc::make_mut(&mut pod.spec).pod_group = Some("g".into());
    pod
}

fn add_members(world: &mut World) {
    ["p", "q"].map(member).into_iter().for_each(|pod| world.add_pod(pod));
}

/// Tries the group once. Returns its message without the counts, and the requests that plugins made.
fn tried(world: &mut World) -> (String, Vec<ApiCall>) {
    world.attempt().expect("the group is tried");
    let (mut message, mut calls) = (String::new(), Vec::new());
    for effect in world.all_effects() {
        match effect {
            Effect::Group(group) => {
                let condition = &group.call.body["status"]["conditions"][0];
                message = condition["message"].as_str().unwrap_or_default().to_owned();
            }
            Effect::Call(task) => calls.extend(task.calls),
            _ => {}
        }
    }
    let counts = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, ";
    (message.replace(counts, ""), calls)
}

/// The claim `c` with devices that no node can reach, reserved for groups with these names, and for pods.
fn elsewhere(groups: &[&str], pods: &[&str]) -> Value {
    let results = json!([{"request": "r", "driver": DRIVER, "pool": "gone", "device": "d"}]);
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["gone"]});
    let selector = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
    let group = |name: &&str| {
        let (api, uid) = ("scheduling.k8s.io", format!("uid-{name}"));
        json!({"apiGroup": api, "resource": "podgroups", "name": name, "uid": uid})
    };
    let pod = |uid: &&str| json!({"resource": "pods", "name": uid, "uid": uid});
    let consumers: Vec<_> = groups.iter().map(group).chain(pods.iter().map(pod)).collect();
    let mut claim = claim("c");
    claim["status"] = json!({
        "allocation": {"devices": {"results": results}, "nodeSelector": selector}, "reservedFor": consumers,
    });
    claim
}

#[test]
fn all_members_of_a_cycle_share_the_devices_that_the_first_one_gets() {
    for of_groups in [false, true] {
        let mut world = world_with(of_groups);
        world.tell::<ResourceClaim>(&claim("c"));
        add_members(&mut world);
        let attempted = world.attempt().unwrap();
        let outcomes: Vec<_> = attempted.all().map(|(_, outcome)| outcome).collect();
        assert_eq!(outcomes.len(), 2);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Assumed { .. })), "{outcomes:?}");
    }
}

#[test]
fn a_group_that_was_rejected_frees_claims_that_only_it_uses() {
    let closing = "deallocation and deletion of ResourceClaims completed";
    let deallocation = json!({"allocation": null, "reservedFor": null, "devices": null});
    let removal = json!({"reservedFor": [{"$patch": "delete", "uid": "uid-g"}]});
    for (what, of_groups, groups, pods, message, status) in [
        ("nobody", true, &[][..], &[][..], closing, Some(&deallocation)),
        ("nobody, without the gate", false, &[], &[], closing, Some(&deallocation)),
        (
            "the group",
            true,
            &["g"],
            &[],
            "deallocation of PodGroup ResourceClaim completed",
            Some(&deallocation),
        ),
        ("the group, without the gate", false, &["g"], &[], closing, None),
        ("two groups", true, &["g", "h"], &[], "ResourceClaim unreserved for PodGroup", Some(&removal)),
        ("another group", true, &["h"], &[], closing, None),
        ("another pod", true, &[], &["other"], closing, None),
    ] {
        let mut world = world_with(of_groups);
        world.tell::<ResourceClaim>(&elsewhere(groups, pods));
        add_members(&mut world);
        let (said, calls) = tried(&mut world);
        assert_eq!(said, message, "{what}");
        let statuses: Vec<&Value> = calls.iter().map(|call| &call.body["status"]).collect();
        assert_eq!(statuses, status.into_iter().collect::<Vec<_>>(), "{what}");
    }
}

#[test]
fn a_group_with_a_member_on_a_node_keeps_its_claims() {
    let mut world = world_with(true);
    world.tell::<ResourceClaim>(&elsewhere(&["g"], &[]));
    world.add_bound_pod(member("running"), "n");
    add_members(&mut world);
    // One more member would do, but none finds a node.
    let (_, calls) = tried(&mut world);
    assert!(calls.is_empty(), "{calls:?}");
}

#[test]
fn a_group_is_tried_again_once_its_claim_has_changed() {
    for next in [elsewhere(&["h"], &[]), claim("c")] {
        let mut world = world_with(true);
        world.tell::<ResourceClaim>(&elsewhere(&["g", "h"], &[]));
        add_members(&mut world);
        tried(&mut world);
        world.wait(std::time::Duration::from_secs(5));
        assert!(world.attempt().is_none(), "nothing has changed");
        world.tell::<ResourceClaim>(&next);
        world.wait(std::time::Duration::from_secs(5));
        assert!(world.attempt().is_some(), "{next}");
    }
}
