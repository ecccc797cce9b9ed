use super::*;

fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": format!("u-{name}")},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "5Gi"}}}})
}

fn volume(name: &str, class: &str, storage: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": {"disk": name}},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": storage}, "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/d"}}})
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete"})
}

/// Returns `object` with new values at the given pointers.
fn with(mut object: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    object
}

/// Returns the settled volumes of a cluster with the given objects and three nodes in zones a, b and c.
fn settled(provisioners: Provisioners, objects: &[Value]) -> Volumes {
    let mut volumes = Volumes::new(provisioners);
    volumes.set_nodes(["a", "b", "c"].into_iter().map(|zone| {
        let labels = [("topology.kubernetes.io/zone", zone), ("rack", &format!("rack-{zone}"))];
        (format!("node-{zone}").into(), labels.into_iter().collect())
    }));
    objects.iter().for_each(|object| volumes.put(object));
    volumes.settle();
    volumes
}

fn key(name: &str) -> ClaimKey {
    ("default".to_owned(), name.to_owned())
}

/// Returns a claim's phase, its volume and the `reason` of its last event, separated by spaces.
fn outcome(volumes: &mut Volumes, name: &str) -> String {
    let changes = volumes.take_changes();
    let reason = changes.events.last().map_or("", |event| event.reason);
    let claim = volumes.claim(&key(name)).unwrap();
    [text(claim, "/status/phase"), text(claim, "/spec/volumeName"), reason].join(" ").trim_end().to_owned()
}

#[test]
fn a_claim_that_does_not_wait_gets_the_smallest_suitable_volume() {
    let all = [
        volume("large", "manual", "9Gi"),
        volume("medium", "manual", "6Gi"),
        volume("small", "manual", "1Gi"),
    ];
    let number = json!({"name": "c", "namespace": "default", "uid": "other"});
    let for_it = json!({"name": "c", "namespace": "default"});
    for (claimed, changed, expected) in [
        (json!({}), vec![], "Bound medium"),
        (json!({"storageClassName": ""}), vec![], "Pending  FailedBinding"),
        (
            json!({"storageClassName": ""}),
            vec![("large", "/spec/storageClassName", json!(""))],
            "Bound large",
        ),
        (json!({"storageClassName": "gone"}), vec![], "Pending  ProvisioningFailed"),
        (json!({"accessModes": ["ReadOnlyMany"]}), vec![], "Bound medium"),
        (json!({"accessModes": ["ReadWriteMany"]}), vec![], "Pending  ProvisioningFailed"),
        (json!({"volumeMode": "Block"}), vec![], "Pending  ProvisioningFailed"),
        (json!({"volumeMode": "Block"}), vec![("large", "/spec/volumeMode", json!("Block"))], "Bound large"),
        (json!({"selector": {"matchLabels": {"disk": "large"}}}), vec![], "Bound large"),
        (json!({"resources": {"requests": {"storage": "7Gi"}}}), vec![], "Bound large"),
        (json!({"resources": {"requests": {"storage": "10Gi"}}}), vec![], "Pending  ProvisioningFailed"),
        (json!({}), vec![("medium", "/spec/claimRef", number)], "Bound large"),
        (json!({}), vec![("large", "/spec/claimRef", for_it)], "Bound large"),
        (json!({"volumeName": "large"}), vec![], "Bound large"),
        (json!({"volumeName": "small"}), vec![], "Pending small VolumeMismatch"),
        (json!({"volumeName": "none"}), vec![], "Pending none"),
    ] {
        let mut mine = claim("c", "manual");
        for (field, value) in claimed.as_object().unwrap() {
            mine["spec"][field] = value.clone();
        }
        let mut objects = vec![mine, class("manual", "kubernetes.io/no-provisioner", "Immediate")];
        objects.extend(all.iter().map(|volume| {
            let changes = changed.iter().filter(|(of, ..)| *of == name(volume));
            with(volume.clone(), &changes.map(|(_, at, value)| (*at, value.clone())).collect::<Vec<_>>())
        }));
        let mut volumes = settled(Provisioners::Ready, &objects);
        assert_eq!(outcome(&mut volumes, "c"), expected, "{claimed} {changed:?}");
        volumes.settle();
        let again = volumes.take_changes();
        assert!(again.volumes.is_empty() && again.claims.is_empty(), "settled twice: {again:?}");
    }
}

#[test]
fn a_claim_and_its_volume_refer_to_each_other_and_no_other_claim_gets_the_volume() {
    let objects = [claim("a", ""), claim("b", ""), volume("v", "", "5Gi")];
    let mut volumes = settled(Provisioners::Ready, &objects);
    assert_eq!(outcome(&mut volumes, "a"), "Bound v FailedBinding");
    assert_eq!(outcome(&mut volumes, "b"), "Pending");
    let (claim, volume) = (volumes.claim(&key("a")).unwrap(), volumes.volume("v").unwrap());
    assert_eq!((&volume["spec"]["claimRef"]["uid"], text(volume, "/status/phase")), (&json!("u-a"), "Bound"));
    assert_eq!(volume["metadata"]["annotations"], json!({"pv.kubernetes.io/bound-by-controller": "yes"}));
    let annotations =
        json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    assert_eq!(claim["metadata"]["annotations"], annotations);
    let modes = json!(["ReadWriteOnce", "ReadOnlyMany"]);
    assert_eq!(
        claim["status"],
        json!({"phase": "Bound", "accessModes": modes, "capacity": {"storage": "5Gi"}})
    );
}

#[test]
fn a_claim_that_waits_gets_what_the_scheduler_chooses() {
    let objects = [
        claim("c", "waits"),
        volume("v", "waits", "5Gi"),
        class("waits", "csi.example.com", "WaitForFirstConsumer"),
    ];
    let mut volumes = settled(Provisioners::Ready, &objects);
    let changes = volumes.take_changes();
    assert_eq!(changes.events[0].message, "waiting for first consumer to be created before binding");
    assert_eq!((changes.events[0].severity, changes.created.len()), (Severity::Normal, 0));

    let mut given = volumes.clone();
    given.set_aside("v", &key("c"));
    given.settle();
    assert_eq!(outcome(&mut given, "c"), "Bound v");

    volumes.select_node(&key("c"), "node-b");
    volumes.settle();
    assert_eq!(outcome(&mut volumes, "c"), "Bound pvc-u-c ProvisioningSucceeded");
    let made = &volumes.volume("pvc-u-c").unwrap();
    assert_eq!(made["spec"]["csi"], json!({"driver": "csi.example.com", "volumeHandle": "pvc-u-c"}));
    assert_eq!(made["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], "csi.example.com");
}

#[test]
fn without_provisioners_a_claim_waits_for_an_external_provisioner() {
    let objects = [claim("c", "fast"), class("fast", "csi.example.com", "Immediate")];
    let mut volumes = settled(Provisioners::Elsewhere, &objects);
    assert_eq!(outcome(&mut volumes, "c"), "Pending  ExternalProvisioning");
    let annotations = &volumes.claim(&key("c")).unwrap()["metadata"]["annotations"];
    assert_eq!(annotations["volume.kubernetes.io/storage-provisioner"], "csi.example.com");
}

/// Returns the labels of the nodes that can use the volume of claim `c`.
fn place(volumes: &Volumes) -> Value {
    let volume = volumes.volume("pvc-u-c").unwrap();
    let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms").cloned().unwrap_or(json!([]));
    let pair = |one: &Value| format!("{}={}", text(one, "/key"), one["values"]);
    let term = |term: &Value| {
        term["matchExpressions"].as_array().unwrap().iter().map(pair).collect::<Vec<_>>().join(",")
    };
    terms.as_array().unwrap().iter().map(term).collect()
}

#[test]
fn the_topology_of_a_volume_comes_from_the_driver_or_the_class_or_the_zone() {
    let driver = |keys: Value| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-b"},
            "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n", "topologyKeys": keys}]}})
    };
    let racks = json!([{"matchLabelExpressions": [{"key": "rack", "values": ["rack-a"]}]},
        {"matchLabelExpressions": [{"key": "rack", "values": ["rack-b", "rack-c"]}]}]);
    let zone_b = json!([r#"topology.kubernetes.io/zone=["b"]"#]);
    let rack_b = json!([r#"rack=["rack-b"]"#]);
    for (entry, topologies, expected) in [
        (None, None, &zone_b),
        (None, Some(&racks), &rack_b),
        (Some(json!(["rack"])), None, &rack_b),
        (Some(json!([])), Some(&racks), &json!([])),
        (Some(json!(null)), None, &json!([])),
        (Some(json!(["unknown"])), None, &json!([])),
    ] {
        for (mode, provisioners) in
            [("WaitForFirstConsumer", Provisioners::Ready), ("Immediate", Provisioners::Floating)]
        {
            let mut class = class("fast", "csi.example.com", mode);
            class["allowedTopologies"] = topologies.cloned().unwrap_or_default();
            let objects: Vec<Value> =
                [claim("c", "fast"), class].into_iter().chain(entry.clone().map(driver)).collect();
            let mut volumes = settled(provisioners, &objects);
            volumes.select_node(&key("c"), "node-b");
            volumes.land("pvc-u-c", "node-b");
            volumes.settle();
            assert_eq!(place(&volumes), *expected, "{mode} {entry:?} {topologies:?}");
        }
    }
}

#[test]
fn a_volume_with_an_open_topology_is_where_its_class_allows() {
    let racks = json!([{"matchLabelExpressions": [{"key": "rack", "values": ["rack-a", "rack-b"]}]}]);
    for (topologies, expected) in [(json!(null), json!([])), (racks, json!([r#"rack=["rack-a","rack-b"]"#]))]
    {
        let class = with(class("fast", "x", "Immediate"), &[("/allowedTopologies", topologies)]);
        let volumes = settled(Provisioners::Floating, &[claim("c", "fast"), class]);
        assert_eq!(place(&volumes), expected);
    }
}

#[test]
fn numbered_claims_get_volumes_in_one_zone_after_another() {
    let mut objects: Vec<Value> = (0..3).map(|number| claim(&format!("data-db-{number}"), "fast")).collect();
    objects.push(class("fast", "csi.example.com", "Immediate"));
    let mut volumes = settled(Provisioners::Ready, &objects);
    let zone = |volume: &Value| volume.pointer("/spec/nodeAffinity").unwrap().to_string();
    let zones: BTreeSet<String> = volumes.take_changes().created.iter().map(zone).collect();
    assert_eq!(zones.len(), 3, "{zones:?}");
}

#[test]
fn a_node_for_which_no_volume_can_be_provisioned_is_unselected() {
    for node in ["gone", "node-a"] {
        let allowed = json!([{"matchLabelExpressions": [{"key": "rack", "values": ["rack-b"]}]}]);
        let class = with(class("fast", "x", "WaitForFirstConsumer"), &[("/allowedTopologies", allowed)]);
        let mut volumes = settled(Provisioners::Ready, &[claim("c", "fast"), class]);
        volumes.select_node(&key("c"), node);
        volumes.settle();
        assert_eq!(outcome(&mut volumes, "c"), "Pending  ProvisioningFailed");
        let annotations = &volumes.claim(&key("c")).unwrap()["metadata"]["annotations"];
        assert_eq!(annotations.get("volume.kubernetes.io/selected-node"), None);
    }
}

#[test]
fn in_tree_provisioners_create_disks_of_their_kind() {
    for (provisioner, kind) in [
        ("kubernetes.io/aws-ebs", "awsElasticBlockStore"),
        ("kubernetes.io/gce-pd", "gcePersistentDisk"),
        ("kubernetes.io/azure-disk", "azureDisk"),
        ("kubernetes.io/cinder", "cinder"),
        ("ebs.csi.aws.com", "csi"),
    ] {
        let volumes =
            settled(Provisioners::Ready, &[claim("c", "fast"), class("fast", provisioner, "Immediate")]);
        assert!(volumes.volume("pvc-u-c").unwrap()["spec"][kind].is_object(), "{provisioner}");
    }
}

#[test]
fn the_reclaim_policy_decides_whether_a_volume_survives_its_claim() {
    let other = ("/metadata/uid", json!("another"));
    for (policy, again, expected) in [
        ("Retain", None, Some("Released")),
        ("Recycle", None, Some("Released")),
        ("Delete", None, None),
        ("Retain", Some(with(claim("c", "x"), std::slice::from_ref(&other))), Some("Released")),
    ] {
        let mut volume = volume("v", "", "5Gi");
        volume["spec"]["persistentVolumeReclaimPolicy"] = policy.into();
        let mut volumes = settled(Provisioners::Ready, &[claim("c", ""), volume]);
        volumes.take_changes();
        volumes.remove(&claim("c", ""));
        again.iter().for_each(|claim| volumes.put(claim));
        volumes.settle();
        assert_eq!(volumes.volume("v").map(|volume| text(volume, "/status/phase")), expected, "{policy}");
        assert_eq!(volumes.take_changes().deleted.len(), usize::from(expected.is_none()), "{policy}");
    }
}

#[test]
fn a_claim_deleted_with_its_pod_deletes_the_volume_provisioned_for_it() {
    let mut volumes = settled(Provisioners::Floating, &[claim("c", "fast"), class("fast", "x", "Immediate")]);
    assert_eq!(volumes.claimed_volume(&key("c")), Some(ClaimedVolume::Provisioned(BTreeMap::new())));
    volumes.take_changes();
    assert_eq!(volumes.remove_claim(&key("c")).as_ref().map(name), Some("c"));
    assert_eq!(volumes.take_changes().deleted.len(), 1);
    assert_eq!((volumes.claimed_volume(&key("c")), volumes.remove_claim(&key("c"))), (None, None));
}

#[test]
fn a_claim_without_its_volume_is_lost() {
    let mut volumes = settled(Provisioners::Ready, &[claim("c", ""), volume("v", "", "5Gi")]);
    let gone = volumes.volume("v").unwrap().clone();
    volumes.remove(&gone);
    volumes.settle();
    assert_eq!(outcome(&mut volumes, "c"), "Lost v ClaimLost");
}

#[test]
fn a_volume_whose_claim_has_a_different_volume_is_free_again() {
    let claimed = json!({"name": "c", "namespace": "default", "uid": "u-c"});
    let late = with(volume("late", "", "5Gi"), &[("/spec/claimRef", claimed)]);
    let found = with(
        late.clone(),
        &[("/metadata/annotations", json!({"pv.kubernetes.io/bound-by-controller": "yes"}))],
    );
    for (late, expected) in [(late, json!({"name": "c", "namespace": "default"})), (found, Value::Null)] {
        let mut volumes = settled(Provisioners::Ready, &[claim("c", ""), volume("first", "", "5Gi")]);
        volumes.put(&late);
        volumes.settle();
        let late = volumes.volume("late").unwrap();
        assert_eq!((&late["spec"]["claimRef"], text(late, "/status/phase")), (&expected, "Available"));
    }
}

#[test]
fn a_claim_without_a_class_gets_the_newest_default() {
    let marked = |name: &str, at: &str| {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        with(
            class(name, "x", "Immediate"),
            &[("/metadata/annotations", annotations), ("/metadata/creationTimestamp", json!(at))],
        )
    };
    let mut without = claim("c", "");
    without["spec"].as_object_mut().unwrap().remove("storageClassName");
    let objects = [without, marked("old", "2020-01-01T00:00:00Z"), marked("new", "2024-01-01T00:00:00Z")];
    let volumes = settled(Provisioners::Ready, &objects);
    assert_eq!(volumes.claim(&key("c")).unwrap()["spec"]["storageClassName"], "new");
}

#[test]
fn ephemeral_volumes_and_templates_yield_the_claims_of_pods() {
    let template = json!({"metadata": {"name": "data", "labels": {"kind": "fast"}}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let set = json!({"metadata": {"name": "db", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}, "volumeClaimTemplates": [template]}});
    let made: Vec<Value> = pod_claims::of_stateful_set(&set, "db-3").collect();
    let metadata = json!({"name": "data-db-3", "namespace": "shop", "labels": {"kind": "fast", "app": "db"}});
    assert_eq!((&made[0]["metadata"], &made[0]["spec"]), (&metadata, &template["spec"]));
    let mut spec = json!({"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]});
    pod_claims::mount(&set, "db-3", spec.as_object_mut().unwrap());
    let data = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-db-3"}});
    assert_eq!(spec["volumes"], json!([data, {"name": "tmp", "emptyDir": {}}]));

    let pod = json!({"metadata": {"name": "p", "namespace": "shop", "uid": "u"},
        "spec": {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]}});
    let made: Vec<Value> = pod_claims::of_pod(&pod).collect();
    assert_eq!(
        (name(&made[0]), made[0]["metadata"]["ownerReferences"][0]["uid"].as_str()),
        ("p-scratch", Some("u"))
    );
}
