use super::*;

#[test]
fn a_pod_without_claims_is_not_examined() {
    assert!(matches!(trial().pre_filter(&two_nodes([]), &pod("p").info()), Ok(PreFiltered::Skip)));
}

#[test]
fn a_claim_needs_enough_free_devices_on_the_node() {
    let cluster = two_nodes([claim("c", &[request("r", 2)])]);
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), "");
    assert_eq!(answer(&cluster, user(&["c"]), "n2"), NONE);
}

#[test]
fn without_slices_no_claim_can_be_allocated() {
    let mut cluster = world([node("n1")]);
    set_custom::<ResourceClaim>(&mut cluster, [claim("c", &[request("r", 1)])]);
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), NONE);
}

#[test]
fn all_claims_of_a_pod_are_allocated_together() {
    let cluster = two_nodes([claim("c", &[request("r", 1)]), claim("d", &[request("r", 1)])]);
    assert_eq!(answer(&cluster, user(&["c", "d"]), "n1"), "");
    assert_eq!(answer(&cluster, user(&["c", "d"]), "n2"), NONE);
}

#[test]
fn a_device_of_an_allocated_claim_is_in_use() {
    let taken = allocated(claim("taken", &[request("r", 1)]), "n2", &["c"], &[]);
    let cluster = two_nodes([claim("c", &[request("r", 1)]), taken]);
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), "");
    assert_eq!(answer(&cluster, user(&["c"]), "n2"), NONE);
}

#[test]
fn a_device_that_is_allocated_with_admin_access_is_not_in_use() {
    let mut watched = allocated(claim("watched", &[request("r", 1)]), "n2", &["c"], &[]);
    watched["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = json!(true);
    let admin = claim("admin", &[exactly("r", &json!({"adminAccess": true}))]);
    let taken = allocated(claim("taken", &[request("r", 1)]), "n1", &["a", "b"], &[]);
    let cluster = two_nodes([watched, admin, taken, claim("c", &[request("r", 1)])]);
    assert_eq!(answer(&cluster, user(&["c"]), "n2"), "");
    assert_eq!(answer(&cluster, user(&["admin"]), "n1"), "", "admin access ignores that devices are in use");
}

#[test]
fn an_allocated_claim_restricts_the_pod_to_the_node_of_the_devices() {
    let cluster = two_nodes([allocated(claim("c", &[request("r", 1)]), "n2", &["c"], &[])]);
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), UNAVAILABLE);
    assert_eq!(answer(&cluster, user(&["c"]), "n2"), "");
}

#[test]
fn claims_that_cannot_be_used_reject_the_pod_everywhere() {
    let mut deleted = claim("deleted", &[request("r", 1)]);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let cluster = two_nodes([
        deleted,
        claim("no-class", &[exactly("r", &json!({"deviceClassName": "C"}))]),
        claim("future", &[json!({"name": "r"})]),
        claim("unset", &[exactly("r", &json!({"deviceClassName": ""}))]),
    ]);
    let template = |status: &[(&str, &str)]| {
        let entry = PodClaim { name: "x".into(), claim: None, template: Some("t".into()) };
        let pod = user(&[]).spec(|spec| spec.resource_claims = vec![entry]);
        status.iter().fold(pod, |pod, (entry, claim)| pod.generated_claim(entry, claim))
    };
    for (pod, expected) in [
        (user(&["missing"]), "could not find ResourceClaim \"default/missing\""),
        (user(&["deleted"]), "resourceclaim \"deleted\" is being deleted"),
        (user(&["no-class"]), "request r: device class C does not exist"),
        (user(&["future"]), "resource claim default/future, request r: unknown request type"),
        (user(&["unset"]), "E:request r: unsupported request type"),
        (template(&[]), "pod \"default/p\": ResourceClaim not created yet"),
        (
            template(&[("x", "no-class")]),
            "ResourceClaim default/no-class was not created for Pod default/p (Pod is not owner)",
        ),
        (template(&[("x", "")]), ""),
    ] {
        assert_eq!(answer(&cluster, pod, "n1"), expected);
    }
}

#[test]
fn an_attribute_that_a_selector_needs_and_a_device_lacks_is_an_error() {
    let selector = json!({"cel": {"expression": format!("device.attributes['{DRIVER}'].healthy")}});
    let cluster = two_nodes([claim("c", &[exactly("r", &json!({"selectors": [selector]}))])]);
    let expected = "E:claim default/c: selector #0: CEL runtime error: no such key: healthy";
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), expected);
}

#[test]
fn the_first_alternative_that_fits_is_chosen_and_its_rank_determines_the_score() {
    let claims = || [claim("c", &[first_available("r", &[3, 2, 1])])];
    let mut cluster = two_nodes(claims());
    let scores = trial().scores(&cluster, &user(&["c"]).info()).unwrap();
    assert_eq!(scores, Some(vec![100, 85]), "raw scores 7 and 6");
    assert_eq!(devices(&mut cluster, user(&["c"]), "n1"), ["r/option-1=a", "r/option-1=b"]);
    assert_eq!(devices(&mut two_nodes(claims()), user(&["c"]), "n2"), ["r/option-2=c"]);
}

#[test]
fn alternatives_score_8_then_7_then_6_and_the_scores_of_requests_and_claims_add_up() {
    let alone = |name: &str, counts: &[i64]| claim(name, &[first_available("r", counts)]);
    let both = claim("both", &[first_available("r", &[1, 1]), first_available("s", &[3, 1])]);
    let mut chosen = allocated(alone("chosen", &[3, 1]), "n1", &["a"], &[]);
    chosen["status"]["allocation"]["devices"]["results"][0]["request"] = json!("r/option-1");
    for (claims, expected) in [
        (vec![alone("first", &[1, 2, 3])], 8),
        (vec![alone("second", &[3, 1, 2])], 7),
        (vec![alone("last", &[4, 3, 2])], 6),
        (vec![both], 8 + 7),
        (vec![alone("c", &[1]), alone("d", &[3, 1])], 8 + 7),
        (vec![alone("open", &[1]), chosen], 8 + 7),
        (vec![claim("plain", &[request("r", 1)])], 0),
    ] {
        let names: Vec<String> =
            claims.iter().map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        let user = user(&names.iter().map(String::as_str).collect::<Vec<_>>()).info();
        let scores = trial().raw_scores(&two_nodes(claims), &user).unwrap().unwrap();
        assert_eq!(scores[0], expected, "{names:?}");
    }
}

#[test]
fn a_request_for_all_devices_needs_every_matching_device() {
    let all = json!({"allocationMode": "All", "count": 0});
    let claims = |name: &str| claim(name, &[exactly("r", &all)]);
    let mut cluster = two_nodes([claims("c")]);
    assert_eq!(devices(&mut cluster, user(&["c"]), "n1"), ["r=a", "r=b"]);
    let taken = allocated(claim("taken", &[request("r", 1)]), "n1", &["b"], &[]);
    let cluster = two_nodes([claims("c"), taken]);
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), NONE);
}

#[test]
fn incomplete_pools_are_skipped_unless_all_devices_are_requested() {
    let mut half = slice("n1", &[device("a")]);
    half["spec"]["pool"]["resourceSliceCount"] = json!(2);
    let mut cluster = world([node("n1")]);
    set_custom::<ResourceSlice>(&mut cluster, [half]);
    let all = exactly("r", &json!({"allocationMode": "All", "count": 0}));
    set_custom::<ResourceClaim>(&mut cluster, [claim("one", &[request("r", 1)]), claim("all", &[all])]);
    assert_eq!(answer(&cluster, user(&["one"]), "n1"), NONE);
    let expected = "E:claim default/all, request r: asks for all devices, but resource pool gpu.example.com/n1 is \
                    currently being updated";
    assert_eq!(answer(&cluster, user(&["all"]), "n1"), expected);
}

#[test]
fn slices_of_an_older_generation_are_ignored() {
    let mut cluster = world([node("n1")]);
    let mut newer = slice("n1", &[device("new")]);
    newer["metadata"]["name"] = json!("newer");
    newer["spec"]["pool"]["generation"] = json!(2);
    set_custom::<ResourceSlice>(&mut cluster, [slice("n1", &[device("old")]), newer]);
    set_custom::<ResourceClaim>(&mut cluster, [claim("c", &[request("r", 1)])]);
    assert_eq!(devices(&mut cluster, user(&["c"]), "n1"), ["r=new"]);
}

#[test]
fn a_pool_with_a_duplicate_device_name_is_invalid() {
    let mut cluster = world([node("n1")]);
    set_custom::<ResourceSlice>(&mut cluster, [slice("n1", &[device("a"), device("a")])]);
    set_custom::<ResourceClaim>(&mut cluster, [claim("c", &[request("r", 1)])]);
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), "invalid resource pools were encountered");
}

#[test]
fn a_tainted_device_needs_a_toleration() {
    let mut tainted = device("a");
    tainted["taints"] = json!([{"key": "broken", "value": "yes", "effect": "NoSchedule"}]);
    let tolerant = exactly("r", &json!({"tolerations": [{"key": "broken", "operator": "Exists"}]}));
    let mut cluster = world([node("n1")]);
    set_custom::<ResourceSlice>(&mut cluster, [slice("n1", &[tainted])]);
    set_custom::<ResourceClaim>(&mut cluster, [claim("c", &[request("r", 1)]), claim("t", &[tolerant])]);
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), NONE);
    assert_eq!(answer(&cluster, user(&["t"]), "n1"), "");
}

#[test]
fn constraints_compare_the_attributes_of_devices() {
    let of_model =
        |name: &str, model: &str| json!({"name": name, "attributes": {"model": {"string": model}}});
    let constrained = |name: &str, kind: &str| {
        let mut claim = claim(name, &[request("r", 1), request("s", 1)]);
        claim["spec"]["devices"]["constraints"] = json!([{ kind: format!("{DRIVER}/model") }]);
        claim
    };
    let claims = || [constrained("same", "matchAttribute"), constrained("other", "distinctAttribute")];
    let cluster = || {
        let mut cluster = world([node("n1")]);
        let devices = [of_model("a", "x"), of_model("b", "y"), of_model("c", "x")];
        set_custom::<ResourceSlice>(&mut cluster, [slice("n1", &devices)]);
        set_custom::<ResourceClaim>(&mut cluster, claims());
        cluster
    };
    assert_eq!(devices(&mut cluster(), user(&["same"]), "n1"), ["r=a", "s=c"]);
    assert_eq!(devices(&mut cluster(), user(&["other"]), "n1"), ["r=a", "s=b"]);
}

#[test]
fn devices_that_share_counters_are_allocated_only_while_the_counters_suffice() {
    let partition = |name: &str, memory: &str| {
        let consumes = json!([{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]);
        json!({"name": name, "consumesCounters": consumes})
    };
    let mut counters = slice("n1", &[]);
    counters["metadata"]["name"] = json!("counters");
    counters["spec"]["sharedCounters"] = json!([{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]);
    let mut devices_of =
        slice("n1", &[partition("half-1", "20Gi"), partition("half-2", "20Gi"), partition("whole", "40Gi")]);
    for slice in [&mut counters, &mut devices_of] {
        slice["spec"]["pool"]["resourceSliceCount"] = json!(2);
    }
    let mut cluster = world([node("n1")]);
    set_custom::<ResourceSlice>(&mut cluster, [counters, devices_of]);
    let claims = [claim("two", &[request("r", 2)]), claim("three", &[request("r", 3)])];
    set_custom::<ResourceClaim>(&mut cluster, claims);
    assert_eq!(answer(&cluster, user(&["three"]), "n1"), NONE);
    assert_eq!(devices(&mut cluster, user(&["two"]), "n1"), ["r=half-1", "r=half-2"]);
}

#[test]
fn a_shared_device_is_used_until_its_capacity_is_exhausted() {
    let shared = json!({
        "name": "a", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "40Gi"}},
    });
    let part = |name: &str, amount: &str| {
        claim(name, &[exactly("r", &json!({"capacity": {"requests": {"memory": amount}}}))])
    };
    let mut cluster = world([node("n1")]);
    set_custom::<ResourceSlice>(&mut cluster, [slice("n1", &[shared])]);
    set_custom::<ResourceClaim>(&mut cluster, [part("c", "30Gi"), part("d", "20Gi"), part("e", "10Gi")]);
    assert_eq!(devices(&mut cluster, user(&["c"]), "n1"), ["r=a"]);
    assert_eq!(answer(&cluster, user(&["d"]), "n1"), NONE);
    assert_eq!(answer(&cluster, user(&["e"]), "n1"), "");
    let claim = cluster.watched::<ResourceClaim>().get("default", "c").unwrap();
    let result = &claim.status.allocation.as_ref().unwrap().devices.results[0];
    assert_eq!(json!(result.consumed_capacity), json!({"memory": "30Gi"}));
    let id = result.share_id.as_ref().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "a UUID of version 4: {id}");
}

#[test]
fn a_search_that_takes_too_many_steps_is_an_error() {
    let many: Vec<Value> = (0..40).map(|at| device(&format!("d{at}"))).collect();
    let mut cluster = world([node("worker")]);
    set_custom::<ResourceSlice>(&mut cluster, [slice("worker", &many)]);
    // The claim requests 20 of 40 devices and one that does not exist, so the search would try every combination.
    let nothing = json!({"selectors": [{"cel": {"expression": "false"}}]});
    set_custom::<ResourceClaim>(&mut cluster, [claim("c", &[request("r", 20), exactly("s", &nothing)])]);
    let args = serde_json::from_value(json!({"filterTimeout": "5ms"})).unwrap();
    let plugin = DynamicResources::build(args, &BuildCycle::default()).unwrap();
    let pod = user(&["c"]).info();
    let indexes = trial().indexes(&cluster, &pod);
    let cx = Cycle::with_indexes(&cluster, &indexes, &pod);
    let Ok(PreFiltered::Continue { state, .. }) = plugin.pre_filter(&cx) else { panic!("no state") };
    let Err(Stop::Error(error)) = plugin.filter(&cx, &state, cluster.node(cluster.find("worker").unwrap()))
    else {
        panic!("no error")
    };
    assert_eq!(error.to_string(), "node worker: timed out trying to allocate devices");
}

#[test]
fn more_devices_than_a_claim_can_have_are_an_error() {
    let cluster = two_nodes([claim("c", &[request("r", 33)])]);
    let expected = "E:claim default/c: number of requested devices 33 exceeds the claim limit of 32";
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), expected);
}

#[test]
fn devices_that_failed_to_become_ready_make_their_claim_unavailable() {
    let mut failed = allocated(claim("c", &[request("r", 1)]), "n1", &["a"], &["p"]);
    let result = &mut failed["status"]["allocation"]["devices"]["results"][0];
    result["bindingConditions"] = json!(["Ready"]);
    result["bindingFailureConditions"] = json!(["Broken"]);
    let mut waiting = failed.clone();
    failed["status"]["devices"] = reported("Broken");
    assert_eq!(answer(&two_nodes([failed]), user(&["c"]), "n1"), UNAVAILABLE);
    assert_eq!(answer(&two_nodes([waiting.clone()]), user(&["c"]), "n1"), "");
    waiting["status"]["allocation"]["allocationTimestamp"] = json!("1970-01-01T00:00:00Z");
    let mut cluster = two_nodes([waiting]);
    cluster.set_now(harbormaster_api::Timestamp::from_secs(599));
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), "");
    cluster.set_now(harbormaster_api::Timestamp::from_secs(601));
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), UNAVAILABLE);
}

#[test]
fn an_allocation_without_node_operations_needs_a_node_that_declares_the_feature_as_of_1_37() {
    let mut skipping = allocated(claim("c", &[request("r", 1)]), "n1", &["a"], &[]);
    skipping["status"]["allocation"]["devices"]["results"][0]["skipNodeOperations"] = json!(["*"]);
    for (feature, expected) in [("Other", ["", UNAVAILABLE]), ("DRAOptionalNodeOperations", ["", ""])] {
        let mut cluster = world([node("n1").feature(feature)]);
        set_custom::<ResourceClaim>(&mut cluster, [skipping.clone()]);
        let found = [Release::V1_36, Release::V1_37]
            .map(|release| answer_of(&plugin_of(release), &cluster, user(&["c"]), "n1"));
        assert_eq!(found, expected, "{feature}");
    }
}

#[test]
fn rules_taint_the_devices_of_a_node() {
    let mut cluster = two_nodes([claim("c", &[request("r", 1)])]);
    let spec = json!({"deviceSelector": {"pool": "n2"}, "taint": {"key": "k", "effect": "NoSchedule"}});
    set_custom::<DeviceTaintRule>(&mut cluster, [json!({"metadata": {"name": "r"}, "spec": spec})]);
    let found = ["n1", "n2"].map(|node| answer_of(&plugin_of(Release::V1_37), &cluster, user(&["c"]), node));
    assert_eq!(found, ["", NONE]);
}
