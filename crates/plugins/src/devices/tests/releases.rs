//! Differences between releases of Kubernetes.

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use serde_json::{Value, json};

use super::{
    super::*,
    search::{Case, DRIVER, NONE, devices, names, pool, request, requests, some, with_model},
};

const OTHER: &str = "y.example.com";

/// Asserts that the claims get these devices, or this error, in 1.36 and in 1.37.
fn expect(what: &str, case: Case<'_>, [old, new]: [&str; 2]) {
    for (release, expected) in [(Release::V1_36, old), (Release::V1_37, new)] {
        let gates = DeviceGates::of(Features::of(release));
        assert_eq!(names(Case { gates, ..case }.allocations()), expected, "{what} in {release}");
    }
}

/// Returns the allocations of the claims in 1.36 and in 1.37, as JSON.
fn written(case: Case<'_>) -> [Value; 2] {
    [Release::V1_36, Release::V1_37].map(|release| {
        let gates = DeviceGates::of(Features::of(release));
        json!(Case { gates, ..case }.allocations().unwrap())
    })
}

/// A pool with `slots` slots, whose devices each consume one slot.
fn partitions(driver: &str, slots: u64, devices: &[Value]) -> [Value; 2] {
    let consumes = json!([{"counterSet": "c", "counters": {"slots": {"value": "1"}}}]);
    let consuming = devices.iter().map(|device| {
        let mut device = device.clone();
        device["consumesCounters"] = consumes.clone();
        device
    });
    let counters = json!([{"name": "c", "counters": {"slots": {"value": slots.to_string()}}}]);
    let devices = json!({"devices": consuming.collect::<Vec<_>>()});
    [pool(driver, "p", 2, &json!({"sharedCounters": counters})), pool(driver, "p", 2, &devices)]
}

fn all(change: &Value) -> Value {
    let mut demand = json!({"allocationMode": "All", "count": 0});
    demand.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    demand
}

fn capacity(amount: &str) -> Value {
    json!({"capacity": {"requests": {"memory": amount}}})
}

/// A device with 8Gi of memory that claims can share. Without a request, they get 1Gi each.
fn shareable(name: &str) -> Value {
    let memory = json!({"value": "8Gi", "requestPolicy": {"default": "1Gi"}});
    json!({"name": name, "allowMultipleAllocations": true, "capacity": {"memory": memory}})
}

/// A claim that has these devices of pool `p`. A device is a share with this amount of memory unless the amount is
/// `None`, and a share without capacities if the amount is empty.
fn allocated(name: &str, devices: &[(&str, Option<&str>)]) -> Value {
    let results = devices.iter().map(|(device, share)| {
        let mut result = json!({"request": "r", "driver": DRIVER, "pool": "p", "device": device});
        if let Some(amount) = share {
            result["shareID"] = json!("8e0b5d5e-0000-4000-8000-000000000000");
            if !amount.is_empty() {
                result["consumedCapacity"] = json!({"memory": amount});
            }
        }
        result
    });
    let results: Vec<_> = results.collect();
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "status": {"allocation": {"devices": {"results": results}}},
    })
}

#[test]
fn distinct_values_are_compared_with_all_devices_or_with_the_latest_of_each_request() {
    let mut claim = some(3);
    claim["constraints"] = json!([{"distinctAttribute": "x.example.com/model"}]);
    for (models, expected) in [
        (["a", "b", "a"], ["d0 d1 d2", NONE]),
        (["a", "b", "c"], ["d0 d1 d2"; 2]),
        (["a", "a", "b"], [NONE; 2]),
    ] {
        let named: Vec<_> =
            models.iter().enumerate().map(|(at, model)| with_model(&format!("d{at}"), model)).collect();
        expect(&models.concat(), Case::of(&[devices(&named)], std::slice::from_ref(&claim)), expected);
    }
}

#[test]
fn a_rejected_device_gives_back_its_counters_as_of_1_37() {
    let tainted = json!({"name": "a", "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
    let slices = |slots| partitions(DRIVER, slots, &[tainted.clone(), json!({"name": "b"})]);
    expect("one slot", Case::of(&slices(1), &[some(1)]), [NONE, "b"]);
    expect("two slots", Case::of(&slices(2), &[some(1)]), ["b", "b"]);
}

#[test]
fn pools_of_one_name_share_counters_in_1_36() {
    let [x, y] = [DRIVER, OTHER].map(|driver| {
        let name = |at: u64| json!({"name": format!("{}{at}", &driver[..1])});
        partitions(driver, if driver == DRIVER { 3 } else { 1 }, &[name(0), name(1)])
    });
    let slices: Vec<_> = x.into_iter().chain(y).collect();
    let only_y = json!([{"cel": {"expression": "device.driver == 'y.example.com'"}}]);
    let only_y = requests(&[request("r", &json!({"count": 2, "selectors": only_y}))]);
    for (what, claims, expected) in [
        ("three", vec![some(3)], ["x0 x1 y0"; 2]),
        ("four", vec![some(4)], [NONE; 2]),
        ("the counters of y", vec![only_y.clone()], [NONE; 2]),
        ("the counters of x come first", vec![some(1), only_y], ["x0 | y0 y1", NONE]),
    ] {
        expect(what, Case::of(&slices, &claims), expected);
    }
}

#[test]
fn a_shared_device_takes_its_counters_once_as_of_1_37() {
    let slices = partitions(DRIVER, 1, &[shareable("a"), json!({"name": "b"})]);
    let no_capacity = partitions(
        DRIVER,
        1,
        &[json!({"name": "a", "allowMultipleAllocations": true}), json!({"name": "b"})],
    );
    let twice = requests(&[request("r", &capacity("1Gi")), request("s", &capacity("1Gi"))]);
    let only = |name: &str| {
        let expression = format!("device.allowMultipleAllocations == {}", name == "a");
        requests(&[request("r", &json!({"selectors": [{"cel": {"expression": expression}}]}))])
    };
    let shared = [allocated("old", &[("a", Some("1Gi"))])];
    let bare = [allocated("old", &[("a", Some(""))])];
    for (what, slices, allocated, claims, expected) in [
        ("two shares in one search", &slices, &[][..], vec![twice], ["a a"; 2]),
        ("another share", &slices, &shared, vec![only("a")], ["a"; 2]),
        ("another device", &slices, &shared, vec![only("b")], ["b", NONE]),
        ("another share without capacities", &no_capacity, &bare, vec![only("a")], ["a"; 2]),
        ("another device than a share without capacities", &no_capacity, &bare, vec![only("b")], ["b", NONE]),
    ] {
        expect(what, Case { allocated, ..Case::of(slices, &claims) }, expected);
    }
}

#[test]
fn a_share_that_is_given_back_returns_its_counters_as_of_1_37() {
    let [counters, consumers] = partitions(DRIVER, 1, &[shareable("a"), with_model("b", "m")]);
    let other = pool(OTHER, "p", 1, &json!({"devices": [{"name": "c"}]}));
    let has_model = json!([{"cel": {"expression": "'model' in device.attributes['x.example.com']"}}]);
    let only_b = requests(&[request("r", &json!({"selectors": has_model}))]);
    let claims = [some(1), only_b];
    expect("the first claim gives up a", Case::of(&[counters, consumers, other], &claims), [NONE, "c | b"]);
}

#[test]
fn a_device_that_is_rejected_for_its_capacity_leaves_the_constraints_as_of_1_37() {
    let mut small = shareable("a");
    small["attributes"] = json!({"model": {"string": "m"}});
    small["capacity"]["memory"]["value"] = json!("1Gi");
    let alternatives = json!({"name": "second", "firstAvailable": [
        {"name": "all", "deviceClassName": "any", "allocationMode": "All",
         "selectors": [{"cel": {"expression": "device.allowMultipleAllocations"}}], "capacity": {"requests": {"memory": "1Gi"}}},
        {"name": "one", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1,
         "selectors": [{"cel": {"expression": "!device.allowMultipleAllocations"}}]},
    ]});
    let exact = json!([{"cel": {"expression": "device.allowMultipleAllocations"}}]);
    let mut first = json!({"selectors": exact});
    first["capacity"] = json!({"requests": {"memory": "1Gi"}});
    let mut claim = requests(&[request("first", &first), alternatives]);
    claim["constraints"] = json!([{"distinctAttribute": "x.example.com/model", "requests": ["second"]}]);
    let slices = [devices(&[small, with_model("b", "m")])];
    expect("b has the model of a", Case::of(&slices, &[claim]), [NONE, "a b"]);
}

#[test]
fn a_request_for_all_devices_fails_if_a_device_has_too_little_free_capacity_as_of_1_37() {
    let slices = [devices(&[shareable("a"), shareable("b")])];
    let used = [allocated("old", &[("a", Some("6Gi"))])];
    let every = |amount: &str| [requests(&[request("r", &all(&capacity(amount)))])];
    for (what, amount, allocated, expected) in [
        ("all are free", "4Gi", &[][..], ["a b"; 2]),
        ("a is almost used up", "4Gi", &used, ["b", NONE]),
        ("both have enough left", "2Gi", &used, ["a b"; 2]),
        ("none is large enough", "9Gi", &used, [NONE; 2]),
    ] {
        expect(what, Case { allocated, ..Case::of(&slices, &every(amount)) }, expected);
    }
}

#[test]
fn odd_capacities_are_errors_as_of_1_37() {
    let range = json!({"default": "1", "validRange": {"min": "1", "step": "4"}});
    let device = |value: &str, policy: &Value| {
        let mut device = shareable("d");
        device["capacity"]["memory"] = json!({"value": value, "requestPolicy": policy});
        [devices(&[device])]
    };
    let about = "claim default/c0, request r: checking capacity for device";
    let odd = "capacity \"memory\": capacity request cannot be represented in the device's range arithmetic";
    let exceeds = format!("{about} x.example.com/p/d: {odd}: request 10E exceeds MaxInt64");
    let rounding = format!(
        "{about} x.example.com/p/d: {odd}: rounding request 9223372036854775807 up to the next step passes MaxInt64"
    );
    let negative = format!("{about} x.example.com/p/d: capacity \"memory\": capacity value is negative");
    let of_all = format!("{about} d: {odd}: request 10E exceeds MaxInt64");
    for (value, policy, demand, expected) in [
        ("8", &range, capacity("3"), ["d"; 2]),
        ("8", &range, capacity("10E"), ["d", &exceeds]),
        ("8", &range, capacity("9223372036854775807"), [NONE, &rounding]),
        ("8", &range, all(&capacity("10E")), ["d", &of_all]),
        ("8", &json!(null), capacity("10E"), [NONE; 2]),
        ("8", &json!(null), capacity("-1"), ["d", &negative]),
        ("-8", &json!(null), json!({}), ["d", &negative]),
    ] {
        let (slices, claims) = (device(value, policy), [requests(&[request("r", &demand)])]);
        expect(&format!("{value} {policy} {demand}"), Case::of(&slices, &claims), expected);
    }
}

#[test]
fn an_amount_that_is_rounded_to_a_step_has_the_notation_of_the_step_as_of_1_37() {
    for (step, wanted, expected) in [
        ("1k", "1", ["1Ki", "1Ki"]),
        ("1k", "1500", ["2024", "2024"]),
        ("1Ki", "1500", ["2Ki", "2Ki"]),
        ("1e3", "1500", ["2024", "2024"]),
        ("1k", "2000", ["2024", "2024"]),
    ] {
        let mut device = shareable("d");
        let policy = json!({"default": "1Ki", "validRange": {"min": "1Ki", "step": step}});
        device["capacity"]["memory"] = json!({"value": "8Gi", "requestPolicy": policy});
        let slices = [devices(&[device])];
        let claims = [requests(&[request("r", &capacity(wanted))])];
        let amounts = written(Case::of(&slices, &claims)).map(|allocations| {
            allocations[0]["devices"]["results"][0]["consumedCapacity"]["memory"].as_str().unwrap().to_owned()
        });
        assert_eq!(amounts, expected, "{wanted} in steps of {step}");
    }
}

#[test]
fn errors_about_too_many_devices_name_the_request_as_of_1_37() {
    let many: Vec<_> = (0..40).map(|at| json!({"name": format!("d{at}")})).collect();
    let slices = [devices(&many)];
    let of = |counts: &[u64]| {
        let named = counts.iter().enumerate();
        let all: Vec<_> =
            named.map(|(at, count)| request(&format!("r{at}"), &json!({"count": count}))).collect();
        [requests(&all)]
    };
    for (counts, expected) in [
        (
            &[33][..],
            [
                "claim default/c0: number of requested devices 33 exceeds the claim limit of 32",
                "claim default/c0, request r0: adding 33 devices exceeds the claim limit of 32, with 0 already accounted for",
            ],
        ),
        (
            &[30, 2, 3],
            [
                "claim default/c0: number of requested devices 35 exceeds the claim limit of 32",
                "claim default/c0, request r2: adding 3 devices exceeds the claim limit of 32, with 32 already accounted for",
            ],
        ),
    ] {
        expect(&format!("{counts:?}"), Case::of(&slices, &of(counts)), expected);
    }
}

#[test]
fn errors_of_selectors_name_the_device_and_give_advice_as_of_1_37() {
    let slices = [devices(&[json!({"name": "d"})])];
    let class = |expression: &str| {
        [
            json!({"metadata": {"name": "strict"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}),
        ]
    };
    let missing = "device.attributes['x.example.com'].model == 'a'";
    let hint = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for \
                optional fields";
    let expected = |of: &str| {
        [
            format!("{of}: selector #0: CEL runtime error: no such key: model"),
            format!(
                "{of}: selector #0 on device x.example.com/p/d: CEL runtime error: no such key: model{hint}"
            ),
        ]
    };
    let strict = [requests(&[request("r", &json!({"deviceClassName": "strict"}))])];
    let [old, new] = expected("class strict");
    expect("of the class", Case { classes: &class(missing), ..Case::of(&slices, &strict) }, [&old, &new]);
    let selected = [requests(&[request("r", &json!({"selectors": [{"cel": {"expression": missing}}]}))])];
    let [old, new] = expected("claim default/c0");
    expect("of the claim", Case::of(&slices, &selected), [&old, &new]);
    let other = "class strict: selector #0 on device x.example.com/p/d: CEL runtime error: division by zero";
    let division = class("1 / (device.driver.size() - 13) == 1");
    let old = "class strict: selector #0: CEL runtime error: division by zero";
    expect("without advice", Case { classes: &division, ..Case::of(&slices, &strict) }, [old, other]);
    let wrong = "class strict: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:1: undeclared \
                 reference to 'nothing' (in container '')\n | nothing\n | ^";
    let compile = class("nothing");
    expect("compile errors", Case { classes: &compile, ..Case::of(&slices, &strict) }, [wrong; 2]);
}

#[test]
fn configuration_occurs_once_and_names_no_requests_if_it_applies_to_all_as_of_1_37() {
    let slices = [devices(&[json!({"name": "a"}), json!({"name": "b"})])];
    let opaque = |name: &str| json!({"driver": DRIVER, "parameters": {"name": name}});
    let classes = [json!({"metadata": {"name": "set"}, "spec": {"config": [{"opaque": opaque("class")}]}})];
    let demand = |class: &str| json!({"deviceClassName": class});
    let alternative = json!({"name": "s", "firstAvailable": [
        {"name": "x", "deviceClassName": "set", "allocationMode": "ExactCount", "count": 1},
    ]});
    let claim = |classes: [&str; 2], config: &Value| {
        let mut claim = requests(&[request("r", &demand(classes[0])), request("s", &demand(classes[1]))]);
        if classes[1].is_empty() {
            claim["requests"][1] = alternative.clone();
        }
        claim["config"] = json!([{"requests": config, "opaque": opaque("claim")}]);
        [claim]
    };
    let text = |allocations: Value| {
        let config = allocations[0]["devices"]["config"].as_array().unwrap().clone();
        let one = |config: Value| {
            let names = config.get("requests").cloned().unwrap_or_default();
            format!("{}{names}", config["opaque"]["parameters"]["name"].as_str().unwrap())
        };
        config.into_iter().map(one).collect::<Vec<_>>().join(" ")
    };
    for (classes_of, config, expected) in [
        (["any", "any"], json!([]), ["claimnull", "claimnull"]),
        (["any", "any"], json!(["r"]), [r#"claim["r"]"#, r#"claim["r"]"#]),
        (["any", "any"], json!(["r", "s"]), [r#"claim["r","s"] claim["r","s"]"#, "claimnull"]),
        (["set", "any"], json!(["r"]), [r#"class["r"] claim["r"]"#, r#"class["r"] claim["r"]"#]),
        (["set", "set"], json!([]), [r#"class["r","s"] claimnull"#, "classnull claimnull"]),
        (
            ["set", ""],
            json!(["r", "s/x"]),
            [r#"class["r","s/x"] claim["r","s/x"] claim["r","s/x"]"#, "classnull claimnull"],
        ),
        (["any", ""], json!(["s/y"]), [r#"class["s/x"]"#, r#"class["s/x"]"#]),
    ] {
        let claims = claim(classes_of, &config);
        let found = written(Case { classes: &classes, ..Case::of(&slices, &claims) }).map(text);
        assert_eq!(found, expected, "{classes_of:?} {config}");
    }
}

#[test]
fn compatibility_groups_make_a_pool_incomplete_as_of_1_37() {
    let [counters, mut consumers] = partitions(DRIVER, 3, &[json!({"name": "a"}), json!({"name": "b"})]);
    consumers["spec"]["devices"][0]["consumesCounters"][0]["compatibilityGroups"] = json!(["g"]);
    let mut more = pool(DRIVER, "p", 3, &json!({"devices": [{"name": "plain"}]}));
    more["metadata"]["name"] = json!("more");
    let mut slices = [counters, consumers, more, pool(OTHER, "p", 1, &json!({"devices": [{"name": "c"}]}))];
    slices[0]["spec"]["pool"]["resourceSliceCount"] = json!(3);
    slices[1]["spec"]["pool"]["resourceSliceCount"] = json!(3);
    expect("one device", Case::of(&slices, &[some(1)]), ["plain", "c"]);
    let all = [requests(&[request("r", &all(&json!({})))])];
    let updated = "claim default/c0, request r: asks for all devices, but resource pool x.example.com/p is currently being updated";
    expect("all devices", Case::of(&slices, &all), ["plain a b c", updated]);
}

#[test]
fn counters_for_other_nodes_do_not_matter_as_of_1_37() {
    // Two slices of each pool are missing or contradict each other, but only other nodes can reach the pool's devices.
    let set = json!([{"name": "c", "counters": {"slots": {"value": "1"}}}]);
    let elsewhere = |of: &str, nodes: &Value, count: u64, sets: &Value| {
        let mut slice = pool(OTHER, of, count, &json!({"sharedCounters": sets}));
        slice["spec"].as_object_mut().unwrap().remove("allNodes");
        slice["spec"].as_object_mut().unwrap().extend(nodes.as_object().unwrap().clone());
        slice["metadata"]["name"] = json!(format!("{of}-{}", nodes.to_string().len()));
        slice
    };
    let zone = |zone: &str| {
        let zone = json!({"key": "zone", "operator": "In", "values": [zone]});
        json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}})
    };
    let own = devices(&[json!({"name": "a"})]);
    let all = [requests(&[request("r", &all(&json!({})))])];
    let problem = |problem: &str| {
        format!(
            "claim default/c0, request r: asks for all devices, but resource pool y.example.com/q is currently {problem}"
        )
    };
    let (updated, invalid) = (problem("being updated"), problem("invalid"));
    let twice = json!([set[0], set[0]]);
    for (what, slice, expected) in [
        ("of another node", elsewhere("q", &json!({"nodeName": "m"}), 2, &set), [updated.as_str(), "a"]),
        ("of another zone", elsewhere("q", &zone("b"), 2, &set), [&updated, "a"]),
        ("of this zone", elsewhere("q", &zone("a"), 2, &set), [&updated, &updated]),
        ("of all nodes", elsewhere("q", &json!({"allNodes": true}), 2, &set), [&updated, &updated]),
        ("invalid, of another node", elsewhere("q", &json!({"nodeName": "m"}), 1, &twice), [&invalid, "a"]),
    ] {
        expect(what, Case::of(&[own.clone(), slice], &all), expected);
    }
    // A pool with devices for this node has all its counters, whatever nodes their slice names.
    let [mut counters, consumers] = partitions(DRIVER, 1, &[json!({"name": "a"}), json!({"name": "b"})]);
    counters["spec"].as_object_mut().unwrap().remove("allNodes");
    counters["spec"]["nodeName"] = json!("m");
    let slices = [counters, consumers];
    expect("its own counters", Case::of(&slices, &[some(1)]), ["a"; 2]);
    expect("too few counters", Case::of(&slices, &[some(2)]), [NONE; 2]);
}

#[test]
fn derived_attributes_are_refused_as_of_1_37() {
    let derived = json!([{"name": "x.example.com/a", "expression": "1"}]);
    let slices = [devices(&[json!({"name": "d"})])];
    let claims = [requests(&[request("r", &json!({"derivedAttributes": derived}))])];
    let refused =
        "claim default/c0, request r: cannot handle request with derived attributes, the feature is disabled";
    expect("exactly", Case::of(&slices, &claims), ["d", refused]);
    let alternative = json!({"name": "s", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1,
        "derivedAttributes": derived});
    let claims = [requests(&[json!({"name": "r", "firstAvailable": [alternative]})])];
    let refused =
        "claim default/c0, request s: cannot handle request with derived attributes, the feature is disabled";
    expect("an alternative", Case::of(&slices, &claims), ["d", refused]);
}

#[test]
fn selectors_read_lists_as_of_1_37() {
    let slices = [devices(&[json!({"name": "d", "attributes": {"models": {"strings": ["a", "b"]}}})])];
    let select = |expression: &str| {
        [requests(&[request("r", &json!({"selectors": [{"cel": {"expression": expression}}]}))])]
    };
    let old =
        "claim default/c0: selector #0: CEL runtime error: attribute models: unsupported attribute value";
    for (expression, new) in [
        ("'a' in device.attributes['x.example.com'].models", "d"),
        ("device.attributes['x.example.com'].models.includes('c')", NONE),
        ("true", "d"),
    ] {
        expect(expression, Case::of(&slices, &select(expression)), [old, new]);
    }
}

#[test]
fn constraints_compare_the_elements_of_lists_as_of_1_37_if_the_gate_is_on() {
    let list = |name: &str, values: &[i64]| json!({"name": name, "attributes": {"numa": {"ints": values}}});
    let one = |name: &str, value: i64| json!({"name": name, "attributes": {"numa": {"int": value}}});
    let claim = |kind: &str, count: u64| {
        let mut claim = some(count);
        claim["constraints"] = json!([{kind: "x.example.com/numa"}]);
        [claim]
    };
    for (what, of, kind, count, expected) in [
        (
            "a common element",
            vec![list("a", &[0, 1]), list("b", &[1, 2])],
            "matchAttribute",
            2,
            [NONE, "a b"],
        ),
        (
            "common only in pairs",
            vec![list("a", &[0, 1]), list("b", &[1, 2]), list("c", &[0, 2])],
            "matchAttribute",
            3,
            [NONE, NONE],
        ),
        (
            "a single value",
            vec![list("a", &[0, 1]), one("b", 1), one("c", 0)],
            "matchAttribute",
            2,
            [NONE, "a b"],
        ),
        (
            "disjoint",
            vec![list("a", &[0, 1]), one("b", 1), list("c", &[2])],
            "distinctAttribute",
            2,
            ["a b", "a c"],
        ),
        ("the first device", vec![list("a", &[0])], "matchAttribute", 1, ["a", "a"]),
    ] {
        let (slices, claims) = ([devices(&of)], claim(kind, count));
        let found = [Release::V1_36, Release::V1_37].map(|release| {
            let features = Features::of(release).with(Feature::DRAListTypeAttributes, true);
            names(Case { gates: DeviceGates::of(features), ..Case::of(&slices, &claims) }.allocations())
        });
        assert_eq!(found, expected, "{what}");
    }
}
