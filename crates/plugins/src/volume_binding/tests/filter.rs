use harbormaster_testkit::node;

use super::*;

/// Two nodes, one per zone.
fn zones() -> Cluster {
    world([node("a").label("zone", "a"), node("b").label("zone", "b")])
}

#[test]
fn a_volume_ties_the_pod_to_the_nodes_with_access() {
    let mut world = zones();
    set_custom::<PersistentVolumeClaim>(&mut world, [bound_claim("c", "v"), bound_claim("free", "w")]);
    set_custom::<PersistentVolume>(&mut world, [volume("v", &on("zone", "a")), volume("w", &json!({}))]);
    assert_eq!(rejection_on(&world, user(&["c", "free"]), "a"), "");
    assert_eq!(rejection_on(&world, user(&["free", "c"]), "b"), REACH);
}

#[test]
fn a_volume_that_names_its_node_by_field_is_accessible_from_everywhere() {
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["a"]});
    let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let mut world = zones();
    set_custom::<PersistentVolumeClaim>(&mut world, [bound_claim("c", "v")]);
    set_custom::<PersistentVolume>(
        &mut world,
        [volume("v", &json!({"spec": {"nodeAffinity": {"required": terms}}}))],
    );
    assert_eq!(rejection_on(&world, user(&["c"]), "b"), "", "as upstream, which matches only labels");
}

#[test]
fn the_first_unsuitable_volume_is_reported_with_the_reasons_of_waiting_claims() {
    let mut world = zones();
    let waits = claim("waits", LOCAL, &json!({}));
    set_custom::<PersistentVolumeClaim>(
        &mut world,
        [bound_claim("c", "v"), bound_claim("gone", "none"), waits],
    );
    let taken = json!({"spec": {"claimRef": {"namespace": "default", "name": "c", "uid": "uid-c"}}});
    set_custom::<PersistentVolume>(&mut world, [volume("v", &merged(&on("zone", "a"), &taken))]);
    for (claims, on_a, on_b) in [
        (&["c"][..], String::new(), REACH.to_owned()),
        (&["gone"], OBJECT.to_owned(), OBJECT.to_owned()),
        (&["c", "gone"], OBJECT.to_owned(), REACH.to_owned()),
        (&["gone", "c"], OBJECT.to_owned(), OBJECT.to_owned()),
        (&["gone", "waits"], format!("{VOLUME}, {OBJECT}"), format!("{VOLUME}, {OBJECT}")),
        (&["waits", "c"], VOLUME.to_owned(), format!("{REACH}, {VOLUME}")),
    ] {
        assert_eq!(rejection_on(&world, user(claims), "a"), on_a, "{claims:?}");
        assert_eq!(rejection_on(&world, user(claims), "b"), on_b, "{claims:?}");
    }
}

#[test]
fn an_in_tree_disk_is_matched_by_the_drivers_label_where_a_driver_serves_it() {
    let key = "topology.kubernetes.io/zone";
    let ebs = |id: &str| {
        let mut volume = volume("v", &on(key, "a"));
        merge(&mut volume, &json!({"spec": {"awsElasticBlockStore": {"volumeID": id}}}));
        volume
    };
    let served = |name: &str| {
        let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"});
        json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": []}})
    };
    let mut world = world([
        node("plain").label(key, "a"),
        node("served-by-label-of-kubernetes").label(key, "a"),
        node("served-by-label-of-driver").label("topology.ebs.csi.aws.com/zone", "a"),
        node("unserved-with-label-of-driver").label("topology.ebs.csi.aws.com/zone", "a"),
    ]);
    set_custom::<PersistentVolumeClaim>(&mut world, [bound_claim("c", "v")]);
    set_custom::<PersistentVolume>(&mut world, [ebs("vol-1")]);
    set_custom::<CsiNode>(
        &mut world,
        ["served-by-label-of-kubernetes", "served-by-label-of-driver"].map(served),
    );
    for (node, expected) in [
        ("plain", ""),
        ("served-by-label-of-kubernetes", REACH),
        ("served-by-label-of-driver", ""),
        ("unserved-with-label-of-driver", REACH),
    ] {
        assert_eq!(rejection_on(&world, user(&["c"]), node), expected, "{node}");
    }
    set_custom::<PersistentVolume>(&mut world, [ebs("aws://a/nonsense")]);
    assert_eq!(rejection_on(&world, user(&["c"]), "plain"), "", "the disk need not be translated there");
    let pod = user(&["c"]).info();
    let all = world.nodes().live().clone();
    let error = trial().batch_verdicts(&world, &pod, &all).unwrap_err().to_string();
    assert!(error.contains("could not translate pv: failed to translate Kubernetes ID to EBS"), "{error}");
}

#[test]
fn a_free_in_tree_disk_is_matched_by_its_own_label_even_where_a_driver_serves_it() {
    let key = "topology.kubernetes.io/zone";
    let mut world = world([
        node("label-of-kubernetes").label(key, "a"),
        node("label-of-driver").label("topology.ebs.csi.aws.com/zone", "a"),
    ]);
    let disk = json!({"spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}}});
    set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", LOCAL, &json!({}))]);
    set_custom::<PersistentVolume>(&mut world, [volume("v", &merged(&on(key, "a"), &disk))]);
    let served = |name: &str| {
        let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"});
        json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": []}})
    };
    set_custom::<CsiNode>(&mut world, ["label-of-kubernetes", "label-of-driver"].map(served));
    assert_eq!(rejection_on(&world, user(&["c"]), "label-of-kubernetes"), "");
    assert_eq!(rejection_on(&world, user(&["c"]), "label-of-driver"), VOLUME);
}

#[test]
fn a_claim_with_a_selected_node_fits_only_there_and_gets_no_existing_volume() {
    let mut world = zones();
    let selected =
        |class: &str| claim("c", class, &json!({"metadata": {"annotations": {SELECTED_NODE: "a"}}}));
    set_custom::<PersistentVolume>(&mut world, [volume("v", &json!({}))]);
    set_custom::<PersistentVolumeClaim>(&mut world, [selected(LOCAL)]);
    assert_eq!(
        rejection_on(&world, user(&["c"]), "a"),
        VOLUME,
        "no volume is provisioned, and the existing volume does not count"
    );
    set_custom::<PersistentVolumeClaim>(&mut world, [selected("made")]);
    assert_eq!(rejection_on(&world, user(&["c"]), "a"), "");
    assert_eq!(rejection_on(&world, user(&["c"]), "b"), VOLUME);
}

#[test]
fn a_volume_must_meet_the_requirements_of_the_claim() {
    let in_use = json!({"spec": {"claimRef": {"namespace": "default", "name": "other", "uid": "u"}}});
    let labelled = json!({"metadata": {"labels": {"tier": "gold"}}});
    let gold = json!({"spec": {"selector": {"matchLabels": {"tier": "gold"}}}});
    let (none, block) = (json!({}), json!({"spec": {"volumeMode": "Block"}}));
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let modes = |modes: &[&str]| json!({"spec": {"accessModes": modes}});
    let asks = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
    let fast = json!({"spec": {"volumeAttributesClassName": "fast"}});
    for (what, claimed, offered, fits) in [
        ("a matching volume", &none, &none, true),
        ("too small", &asks("1025Mi"), &none, false),
        ("exactly large enough", &asks("1024Mi"), &none, true),
        ("nothing requested", &asks("0"), &none, true),
        ("taken", &none, &in_use, false),
        ("not ready yet", &none, &json!({"status": {"phase": "Pending"}}), false),
        ("released", &none, &json!({"status": {"phase": "Released"}}), false),
        ("being deleted", &none, &deleted, false),
        ("a device, but a directory is requested", &none, &block, false),
        ("a directory, but a device is requested", &block, &none, false),
        ("a device", &block, &block, true),
        ("a directory, explicit or by default", &none, &json!({"spec": {"volumeMode": "Filesystem"}}), true),
        ("without the attributes", &fast, &none, false),
        ("with attributes not requested", &none, &fast, false),
        ("with the attributes", &fast, &fast, true),
        ("without the label", &gold, &none, false),
        ("with the label", &gold, &labelled, true),
        ("of another class", &none, &json!({"spec": {"storageClassName": "made"}}), false),
        ("in fewer modes", &modes(&["ReadWriteOnce", "ReadOnlyMany"]), &none, false),
        ("in more modes", &none, &modes(&["ReadOnlyMany", "ReadWriteOnce"]), true),
        ("accessible only from the other zone", &none, &on("zone", "b"), false),
        ("accessible from this zone", &none, &on("zone", "a"), true),
    ] {
        let mut world = zones();
        set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", LOCAL, claimed)]);
        set_custom::<PersistentVolume>(&mut world, [volume("v", offered)]);
        let expected = if fits { "" } else { VOLUME };
        assert_eq!(rejection_on(&world, user(&["c"]), "a"), expected, "{what}");
    }
}

#[test]
fn only_the_reserved_volume_is_taken_whatever_its_phase_and_labels() {
    let gold = json!({"spec": {"selector": {"matchLabels": {"tier": "gold"}}}});
    let aside = |uid: Value, more: &Value| {
        let mut aside = volume(
            "aside",
            &json!({"spec": {"claimRef": {"namespace": "default", "name": "c", "uid": uid}}}),
        );
        merge(&mut aside, more);
        aside
    };
    let (here, elsewhere) = (on("zone", "a"), on("zone", "b"));
    let pending = json!({"status": {"phase": "Pending"}, "spec": {"accessModes": []}});
    for (what, aside, expected) in [
        ("reserved by name", aside(json!(null), &here), ""),
        ("reserved by UID", aside(json!("uid-c"), &here), ""),
        ("reserved for a deleted claim of the same name", aside(json!("uid-old"), &here), VOLUME),
        ("not ready, other modes", aside(json!("uid-c"), &pending), ""),
        ("too small", aside(json!("uid-c"), &json!({"spec": {"capacity": {"storage": "1Mi"}}})), VOLUME),
        ("accessible only from the other zone", aside(json!("uid-c"), &elsewhere), VOLUME),
        ("of another class", aside(json!("uid-c"), &json!({"spec": {"storageClassName": "made"}})), VOLUME),
    ] {
        let mut world = zones();
        set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", LOCAL, &gold)]);
        set_custom::<PersistentVolume>(&mut world, [aside]);
        assert_eq!(rejection_on(&world, user(&["c"]), "a"), expected, "{what}");
    }
    let mut world = zones();
    set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", LOCAL, &json!({}))]);
    set_custom::<PersistentVolume>(
        &mut world,
        [aside(json!("uid-c"), &elsewhere), volume("free", &json!({}))],
    );
    assert_eq!(
        rejection_on(&world, user(&["c"]), "a"),
        VOLUME,
        "a free volume does not replace the reserved one"
    );
    assert_eq!(rejection_on(&world, user(&["c"]), "b"), "");
}

#[test]
fn two_claims_need_two_volumes_and_one_claim_named_twice_needs_one() {
    let mut world = zones();
    let claims = ["c", "d"].map(|name| claim(name, LOCAL, &json!({})));
    set_custom::<PersistentVolumeClaim>(&mut world, claims);
    set_custom::<PersistentVolume>(&mut world, [volume("v", &json!({}))]);
    assert_eq!(rejection_on(&world, user(&["c", "d"]), "a"), VOLUME);
    assert_eq!(rejection_on(&world, user(&["c", "c"]), "a"), "");
    set_custom::<PersistentVolume>(&mut world, [volume("w", &on("zone", "a"))]);
    assert_eq!(rejection_on(&world, user(&["c", "d"]), "a"), "");
    assert_eq!(rejection_on(&world, user(&["c", "d"]), "b"), VOLUME);
}

#[test]
fn smaller_claims_choose_first_so_that_larger_ones_find_a_volume() {
    let mut world = zones();
    let asks = |name: &str, storage: &str| {
        claim(name, LOCAL, &json!({"spec": {"resources": {"requests": {"storage": storage}}}}))
    };
    set_custom::<PersistentVolumeClaim>(&mut world, [asks("large", "5Gi"), asks("small", "1Gi")]);
    let has = |name: &str, storage: &str| volume(name, &json!({"spec": {"capacity": {"storage": storage}}}));
    set_custom::<PersistentVolume>(&mut world, [has("v", "5Gi"), has("w", "6Gi")]);
    assert_eq!(rejection_on(&world, user(&["large", "small"]), "a"), "");
}

#[test]
fn a_volume_is_provisioned_where_the_class_allows_it() {
    let term = |expressions: Value| json!([{"matchLabelExpressions": expressions}]);
    let zone = |values: &[&str]| json!({"key": "zone", "values": values});
    for (what, provisioner, topologies, expected) in [
        ("anywhere", "csi", json!(null), ["", ""]),
        ("anywhere, by an empty list", "csi", json!([]), ["", ""]),
        ("in one zone", "csi", term(json!([zone(&["a"])])), ["", VOLUME]),
        ("in either zone", "csi", term(json!([zone(&["a", "b"])])), ["", ""]),
        ("nowhere, by an empty term", "csi", term(json!([])), [VOLUME, VOLUME]),
        ("without provisioning", "kubernetes.io/no-provisioner", json!(null), [VOLUME, VOLUME]),
        ("without a provisioner", "", json!(null), [VOLUME, VOLUME]),
    ] {
        let mut world = zones();
        let mut class = class("made", provisioner, "WaitForFirstConsumer");
        class["allowedTopologies"] = topologies;
        set_custom::<StorageClass>(&mut world, [class]);
        set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", "made", &json!({}))]);
        assert_eq!(["a", "b"].map(|node| rejection_on(&world, user(&["c"]), node)), expected, "{what}");
    }
}

/// A capacity of class `made`. Without `zone` it applies to no node.
fn capacity(name: &str, zone: Option<&str>, more: &Value) -> Value {
    let topology = zone.map(|zone| json!({"matchLabels": {"zone": zone}}));
    let mut capacity = json!({"metadata": {"name": name, "namespace": "csi"}, "storageClassName": "made", "nodeTopology": topology});
    merge(&mut capacity, more);
    capacity
}

#[test]
fn a_volume_is_provisioned_where_enough_capacity_is_left_if_the_driver_reports_it() {
    let driver = |tells: Value| json!({"metadata": {"name": "csi"}, "spec": {"storageCapacity": tells}});
    let (tells, silent) = (|| Some(driver(json!(true))), || Some(driver(json!(false))));
    let has = |amount: &str| json!({"capacity": amount});
    let one = json!({});
    let nothing = json!({"spec": {"resources": {"requests": {"storage": "0"}}}});
    let unknown = json!({"spec": {"resources": {"requests": null}}});
    let tied = json!({"metadata": {"annotations": {SELECTED_NODE: "a"}}});
    let everywhere = json!({"metadata": {"name": "k", "namespace": "csi"}, "storageClassName": "made",
        "nodeTopology": {}, "capacity": "1Gi"});
    let wrong = json!({"capacity": "1Gi", "nodeTopology": {"matchExpressions": [{"key": "zone", "operator": "Near"}]}});
    let both = |capacity: &str, largest: &str| json!({"capacity": capacity, "maximumVolumeSize": largest});
    for (what, driver, claimed, capacity, expected) in [
        ("no CSIDriver object", None, &one, None, ""),
        ("a driver that reports nothing", silent(), &one, None, ""),
        ("no capacity is reported", tells(), &one, None, CAPACITY),
        ("enough", tells(), &one, Some(capacity("k", Some("a"), &has("1Gi"))), ""),
        ("too little", tells(), &one, Some(capacity("k", Some("a"), &has("1023Mi"))), CAPACITY),
        ("in the other zone", tells(), &one, Some(capacity("k", Some("b"), &has("1Gi"))), CAPACITY),
        ("of no node", tells(), &one, Some(capacity("k", None, &has("1Gi"))), CAPACITY),
        ("of every node", tells(), &one, Some(everywhere), ""),
        ("of nodes that cannot be determined", tells(), &one, Some(capacity("k", None, &wrong)), CAPACITY),
        (
            "the largest volume counts",
            tells(),
            &one,
            Some(capacity("k", Some("a"), &both("9Gi", "1Mi"))),
            CAPACITY,
        ),
        (
            "the remaining capacity does not count",
            tells(),
            &one,
            Some(capacity("k", Some("a"), &both("1Mi", "9Gi"))),
            "",
        ),
        ("a capacity without an amount", tells(), &one, Some(capacity("k", Some("a"), &json!({}))), CAPACITY),
        (
            "another class",
            tells(),
            &one,
            Some(capacity("k", Some("a"), &merged(&has("1Gi"), &json!({"storageClassName": "x"})))),
            CAPACITY,
        ),
        ("nothing requested", tells(), &nothing, None, CAPACITY),
        (
            "nothing requested, a little is left",
            tells(),
            &nothing,
            Some(capacity("k", Some("a"), &has("0"))),
            "",
        ),
        ("size not given", tells(), &unknown, None, ""),
        ("for a node that is selected", tells(), &tied, None, CAPACITY),
    ] {
        let mut world = zones();
        set_custom::<CsiDriver>(&mut world, driver);
        set_custom::<CsiStorageCapacity>(&mut world, capacity);
        set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", "made", claimed)]);
        assert_eq!(rejection_on(&world, user(&["c"]), "a"), expected, "{what}");
    }
}

fn merged(one: &Value, other: &Value) -> Value {
    let mut both = one.clone();
    merge(&mut both, other);
    both
}

#[test]
fn each_claim_alone_must_find_capacity_but_together_they_may_exceed_it() {
    let mut world = zones();
    set_custom::<CsiDriver>(
        &mut world,
        [json!({"metadata": {"name": "csi"}, "spec": {"storageCapacity": true}})],
    );
    set_custom::<CsiStorageCapacity>(&mut world, [capacity("k", Some("a"), &json!({"capacity": "1Gi"}))]);
    set_custom::<PersistentVolumeClaim>(&mut world, ["c", "d"].map(|name| claim(name, "made", &json!({}))));
    assert_eq!(rejection_on(&world, user(&["c", "d"]), "a"), "");
    assert_eq!(rejection_on(&world, user(&["c", "d"]), "b"), CAPACITY);
}

#[test]
fn the_first_claim_without_a_volume_determines_the_reason() {
    let mut world = zones();
    set_custom::<CsiDriver>(
        &mut world,
        [json!({"metadata": {"name": "csi"}, "spec": {"storageCapacity": true}})],
    );
    let asks = |name: &str, class: &str, storage: &str, node: Option<&str>| {
        let annotations = node.map(|node| json!({SELECTED_NODE: node}));
        claim(
            name,
            class,
            &json!({"metadata": {"annotations": annotations},
            "spec": {"resources": {"requests": {"storage": storage}}}}),
        )
    };
    let claims = [
        asks("full-1", "made", "1Gi", None),
        asks("none-2", LOCAL, "2Gi", None),
        asks("none-0", LOCAL, "0.5Gi", None),
        asks("full-tied", "made", "9Gi", Some("a")),
    ];
    set_custom::<PersistentVolumeClaim>(&mut world, claims);
    for (claims, expected) in [
        (["none-2", "full-1"], CAPACITY),
        (["full-1", "none-0"], VOLUME),
        (["none-0", "full-tied"], CAPACITY),
    ] {
        assert_eq!(rejection_on(&world, user(&claims), "a"), expected, "{claims:?}");
    }
}
