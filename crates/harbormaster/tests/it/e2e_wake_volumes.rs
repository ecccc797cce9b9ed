//! Storage events wake the pods that they can help; the real kube-scheduler wakes the same pods. See `e2e_wake.rs`.

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{delete_pod, name_of},
    objects::{NODES, PODS, node, pod},
    server::{Server, on_both_servers},
    volumes::{CLAIMS, CLASSES, NOBODY, VOLUMES, claim, class, users_of},
    wake_scene::{OURS, THEIRS, WakeScene, placed},
};

on_both_servers! {
    detached_volumes_wake_the_pods_that_need_their_place,
    storage_objects_wake_the_pods_that_wait_for_them_and_no_others,
    nodes_and_bound_claims_wake_the_pods_that_they_help,
}

const DISK: &str = "disk-taken";
const FULL: &str = "node-full";

const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const CAPACITIES: &str = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities";
const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";

/// Returns the part of a pod's spec that uses the given disks.
fn disks(ids: &[&str]) -> Value {
    let disk = |id: &&str| json!({"name": id, "awsElasticBlockStore": {"volumeID": id}});
    json!({"volumes": ids.iter().map(disk).collect::<Vec<_>>()})
}

/// Returns a CSINode whose driver can attach two disks.
fn csi_node(name: &str) -> Value {
    let driver = json!({"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": 2}});
    json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}})
}

fn detached_volumes_wake_the_pods_that_need_their_place(server: Server) {
    let holder = |name: &str, ids: &[&str]| placed(name, "n1", json!({}), disks(ids));
    let attachment = |driver: &str| {
        let source = json!({"persistentVolumeName": "elsewhere"});
        json!({"metadata": {"name": "a"}, "spec": {"attacher": driver, "nodeName": "n1", "source": source}})
    };
    let waiting = |scheduler: &str| {
        [(DISK, ["vol-1"].as_slice()), (FULL, &["vol-2", "vol-3"])]
            .map(|(name, ids)| pod(&format!("{name}-{scheduler}"), scheduler, json!({}), disks(ids)))
            .into()
    };
    let scene = WakeScene::new(
        server,
        &[node("n1", json!({}), "4", "4Gi", 40)],
        &[holder("holder", &["vol-1"]), holder("twin", &["vol-1"])],
        &[(CSI_NODES, csi_node("n1"))],
        &[DISK, FULL],
        waiting,
    );
    let detach = |driver: &str| {
        scene.client.post(ATTACHMENTS, &attachment(driver)).expect("the attachment is created");
        scene.client.delete(&format!("{ATTACHMENTS}/a")).expect("the attachment is deleted");
    };
    scene.wakes("limits of another node", &[FULL], || {
        scene.client.post(CSI_NODES, &csi_node("n2")).expect("the object is created");
    });
    scene.wakes("the deletion of the limits", &[], || {
        scene.client.delete(&format!("{CSI_NODES}/n2")).expect("the object is deleted");
    });
    scene.wakes("the detachment of a disk of another driver", &[], || detach("csi.example.com"));
    scene.wakes("the detachment of a disk of the same driver", &[FULL], || detach("ebs.csi.aws.com"));
    scene.wakes("the deletion of one of the two pods that use the disk", &[FULL, DISK], || {
        delete_pod(&scene.client, "twin");
    });
    scene.end();
}

const MISSING: &str = "claim-missing";
const UNBOUND: &str = "claim-unbound";
const CLASSLESS: &str = "class-missing";
const FAR: &str = "volume-elsewhere";
const EMPTY: &str = "no-volume";
const CAPACITY: &str = "no-capacity";
const ZONE: &str = "other-zone";
const ONCE: &str = "claim-in-use";
const CROWDED: &str = "node-crowded";
const WAITING: [&str; 9] = [MISSING, UNBOUND, CLASSLESS, FAR, EMPTY, CAPACITY, ZONE, ONCE, CROWDED];

/// Pods that VolumeBinding rejects, in PreFilter or in Filter.
const BINDING: [&str; 5] = [UNBOUND, CLASSLESS, FAR, EMPTY, CAPACITY];

/// Returns the names of all pods that VolumeBinding rejects, and `others`.
fn binding_and(others: &[&'static str]) -> Vec<&'static str> {
    [&BINDING[..], others].concat()
}

const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
const DRIVER: &str = "csi.example.com";
const LIMITED: &str = "limited.example.com";

/// Returns a volume reserved for the claim named `claim`.
fn volume_for(claim: &str, change: &Value) -> Value {
    let claim_ref = json!({"namespace": "default", "name": claim});
    let mut volume = json!({"metadata": {"name": format!("of-{claim}")}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "there",
        "nfs": {"server": "s", "path": "/"}, "claimRef": claim_ref,
    }});
    json_patch::merge(&mut volume, change);
    volume
}

/// Returns a claim bound to the volume of [`volume_for`].
fn bound_claim(name: &str) -> Value {
    let mut claim = claim(name, "there");
    json_patch::merge(&mut claim, &to_its_volume(name));
    claim
}

/// Returns a patch that binds a claim to the volume of [`volume_for`].
fn to_its_volume(claim: &str) -> Value {
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": format!("of-{claim}")}})
}

/// Returns a CSINode with limits for the given drivers.
fn limits(node: &str, drivers: &[(&str, u32)]) -> Value {
    let driver =
        |(name, count): &(&str, u32)| json!({"name": name, "nodeID": node, "allocatable": {"count": count}});
    let drivers: Vec<Value> = drivers.iter().map(driver).collect();
    json!({"metadata": {"name": node}, "spec": {"drivers": drivers}})
}

/// Returns storage objects with their paths. For each waiting pod, one object or property is missing.
fn storage() -> Vec<(&'static str, Value)> {
    let mut immediate = class("now", DRIVER);
    immediate["volumeBindingMode"] = json!("Immediate");
    let csi =
        |handle: &str| json!({"spec": {"nfs": null, "csi": {"driver": LIMITED, "volumeHandle": handle}}});
    let elsewhere = json!({"key": "disk", "operator": "In", "values": ["x"]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}});
    let mut all = vec![
        (CLASSES, class("there", NOBODY)),
        (CLASSES, class("made", DRIVER)),
        (CLASSES, immediate),
        (DRIVERS, json!({"metadata": {"name": DRIVER}, "spec": {"storageCapacity": true}})),
        (CSI_NODES, limits("n1", &[(LIMITED, 1)])),
        (VOLUMES, volume_for(MISSING, &json!({}))),
        (VOLUMES, volume_for(UNBOUND, &json!({"spec": {"storageClassName": "now"}}))),
        (CLAIMS, claim(UNBOUND, "now")),
        (CLAIMS, claim(CLASSLESS, "later")),
        (VOLUMES, volume_for(FAR, &json!({"spec": {"nodeAffinity": affinity}}))),
        (CLAIMS, bound_claim(FAR)),
        (CLAIMS, claim(EMPTY, "there")),
        (CLAIMS, claim(CAPACITY, "made")),
        (VOLUMES, volume_for(ZONE, &json!({"metadata": {"labels": {ZONE_LABEL: "b"}}}))),
        (CLAIMS, bound_claim(ZONE)),
    ];
    for scheduler in [OURS, THEIRS] {
        // Only one pod at a time may use this claim.
        let name = format!("{ONCE}-{scheduler}");
        let modes = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
        let mut claim = bound_claim(&name);
        json_patch::merge(&mut claim, &modes);
        all.extend([(VOLUMES, volume_for(&name, &modes)), (CLAIMS, claim)]);
    }
    for name in ["held", CROWDED] {
        all.extend([(VOLUMES, volume_for(name, &csi(name))), (CLAIMS, bound_claim(name))]);
    }
    all
}

/// Creates one node with pods that use claims, and waiting pods, each of which lacks a different object or property.
fn without_storage(server: Server) -> WakeScene {
    let once = [OURS, THEIRS].map(|scheduler| format!("{ONCE}-{scheduler}"));
    let holder =
        |name: &str, claims: &[&str]| placed(name, "n1", json!({}), json!({"volumes": users_of(claims)}));
    let placed =
        [holder("holder", &["held"]), holder("bystander", &["held"]), holder("owner", &[&once[0], &once[1]])];
    let waiting = |scheduler: &str| {
        let pods = WAITING.map(|name| {
            let claim = if name == ONCE { format!("{ONCE}-{scheduler}") } else { name.to_owned() };
            let spec = json!({"volumes": users_of(&[claim])});
            pod(&format!("{name}-{scheduler}"), scheduler, json!({}), spec)
        });
        pods.into()
    };
    let n1 = node("n1", json!({ZONE_LABEL: "a"}), "4", "4Gi", 40);
    let scene = WakeScene::new(server, &[n1], &placed, &storage(), &WAITING, waiting);
    for attempts in scene.attempts() {
        assert_eq!(WAITING.map(|name| attempts[name]), [1; 9], "each pod was tried once");
    }
    scene.wakes("status updates of bound pods", &[], || {
        for name in placed.iter().map(name_of) {
            let status = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}});
            let path = format!("{PODS}/{name}/status");
            scene.client.merge_patch(&path, &status).expect("the patch is accepted");
        }
    });
    scene
}

fn storage_objects_wake_the_pods_that_wait_for_them_and_no_others(server: Server) {
    let scene = without_storage(server);
    let add =
        |path: &str, object: &Value| drop(scene.client.post(path, object).expect("the object is created"));
    let patch = |path: &str, name: &str, patch: Value| {
        scene.client.merge_patch(&format!("{path}/{name}"), &patch).expect("the patch is accepted");
    };
    let annotation = || json!({"metadata": {"annotations": {"a": "b"}}});

    scene.wakes("a claim that no pod uses", &[], || add(CLAIMS, &claim("stranger", "there")));
    for (of, woken) in [(UNBOUND, &[UNBOUND][..]), (ZONE, &[ZONE]), (CROWDED, &[]), ("stranger", &[])] {
        scene.wakes(&format!("an annotation of the claim {of}"), woken, || patch(CLAIMS, of, annotation()));
    }

    scene.wakes("a volume", &binding_and(&[ZONE]), || {
        let change = json!({"spec": {"claimRef": null, "storageClassName": "strange"}});
        add(VOLUMES, &volume_for("nobody", &change));
    });
    let volume = |change: Value| patch(VOLUMES, "of-nobody", change);
    scene.wakes("an annotation of a volume", &BINDING, || volume(annotation()));
    scene.wakes("the zone of a volume", &binding_and(&[ZONE]), || {
        volume(json!({"metadata": {"labels": {ZONE_LABEL: "c"}}}));
    });
    scene.wakes("the nodes of a volume", &BINDING, || {
        let here = json!({"key": "disk", "operator": "In", "values": ["y"]});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [here]}]});
        volume(json!({"spec": {"nodeAffinity": {"required": terms}}}));
    });

    scene.wakes("a class that binds immediately", &BINDING, || {
        let mut immediate = class("strange", DRIVER);
        immediate["volumeBindingMode"] = json!("Immediate");
        add(CLASSES, &immediate);
    });
    scene.wakes("a class that waits", &binding_and(&[ZONE]), || add(CLASSES, &class("waits", DRIVER)));
    scene.wakes("the class that a claim names", &binding_and(&[ZONE]), || {
        add(CLASSES, &class("later", NOBODY));
    });
    scene.wakes("an annotation of a class", &[], || patch(CLASSES, "waits", annotation()));

    scene.wakes("limits of another node", &binding_and(&[CROWDED]), || {
        add(CSI_NODES, &limits("n2", &[(DRIVER, 1)]));
    });
    let limit = |drivers: &[(&str, u32)]| {
        patch(CSI_NODES, "n2", json!({"spec": limits("n2", drivers)["spec"]}));
    };
    scene.wakes("one more limit", &[CROWDED], || limit(&[(DRIVER, 1), (LIMITED, 1)]));
    scene.wakes("one limit fewer", &[], || limit(&[(DRIVER, 1)]));
    scene.wakes("drivers for in-tree disks", &BINDING, || {
        let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"});
        patch(CSI_NODES, "n2", json!({"metadata": {"annotations": annotations}}));
    });

    scene.wakes("capacity that is not enough", &BINDING, || {
        let capacity = json!({"metadata": {"name": "k"}, "storageClassName": "made", "nodeTopology": {},
            "capacity": "100Mi"});
        add(CAPACITIES, &capacity);
    });
    scene.wakes("more capacity", &BINDING, || patch(CAPACITIES, "k", json!({"capacity": "200Mi"})));
    scene.wakes("less capacity", &[], || patch(CAPACITIES, "k", json!({"capacity": "150Mi"})));
    scene.wakes("a driver that no longer reports its capacity", &[], || {
        patch(DRIVERS, DRIVER, json!({"spec": {"storageCapacity": false}}));
    });

    scene.wakes("the deletion of an attachment", &[CROWDED], || {
        let source = json!({"persistentVolumeName": "of-held"});
        let spec = json!({"attacher": LIMITED, "nodeName": "n1", "source": source});
        add(ATTACHMENTS, &json!({"metadata": {"name": "a"}, "spec": spec}));
        scene.client.delete(&format!("{ATTACHMENTS}/a")).expect("the attachment is deleted");
    });
    scene.end();
}

fn nodes_and_bound_claims_wake_the_pods_that_they_help(server: Server) {
    let scene = without_storage(server);
    scene.helps(UNBOUND, "n1", &[UNBOUND], || {
        let path = format!("{CLAIMS}/{UNBOUND}");
        scene.client.merge_patch(&path, &to_its_volume(UNBOUND)).expect("the patch is accepted");
    });
    scene.helps(MISSING, "n1", &[MISSING], || {
        scene.client.post(CLAIMS, &bound_claim(MISSING)).expect("the claim is created");
    });
    scene.wakes("the deletion of a pod with claims", &[CROWDED], || delete_pod(&scene.client, "bystander"));
    scene.helps(ONCE, "n1", &[ONCE, CROWDED], || delete_pod(&scene.client, "owner"));
    scene.helps(FAR, "n1", &[FAR, CLASSLESS, EMPTY, CAPACITY, ZONE], || {
        scene.patch_node("n1", json!({"metadata": {"labels": {"disk": "x"}}}));
    });
    scene.helps(CROWDED, "n1", &[CROWDED], || delete_pod(&scene.client, "holder"));
    scene.helps(ZONE, "n2", &[ZONE, CLASSLESS, EMPTY, CAPACITY], || {
        let n2 = node("n2", json!({ZONE_LABEL: "b"}), "4", "4Gi", 40);
        scene.client.post(NODES, &n2).expect("the node is created");
    });
    scene.end();
}
