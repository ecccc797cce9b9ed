//! Claims, volumes, classes and drivers in every state, and pods that use them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::namespaces::NAMESPACES;
use super::resources::shape;
use super::world::push;
use super::{Profile, Random, World, labels};

/// In-tree plugins, each with the name of its field in a volume.
const IN_TREE: &[(&str, &str)] = &[
    ("kubernetes.io/aws-ebs", "awsElasticBlockStore"),
    ("kubernetes.io/gce-pd", "gcePersistentDisk"),
    ("kubernetes.io/azure-disk", "azureDisk"),
    ("kubernetes.io/cinder", "cinder"),
    ("kubernetes.io/portworx-volume", "portworxVolume"),
    ("kubernetes.io/azure-file", "azureFile"),
    ("kubernetes.io/vsphere-volume", "vsphereVolume"),
];

/// Drivers; in-tree plugins are migrated to most of them.
const DRIVERS: &[&str] = &[
    "csi.example.com",
    "csi.example.com",
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "disk.csi.azure.com",
    "cinder.csi.openstack.org",
    "pxd.portworx.com",
    "local.example.com",
];

const PROVISIONERS: &[&str] = &[
    "csi.example.com",
    "csi.example.com",
    "local.example.com",
    "ebs.csi.aws.com",
    "kubernetes.io/aws-ebs",
    "kubernetes.io/gce-pd",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/no-provisioner",
];

const ZONE_KEYS: &[&str] = &[
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
];

/// Number of claims per namespace. [`VOLUMES`] and [`CLASSES`] are the numbers of volumes and classes. Names are picked
/// from slightly larger ranges, so that some of the named objects do not exist.
const CLAIMS: usize = 14;
const VOLUMES: usize = 20;
/// Number of claims per namespace that specify a volume, which need not exist. They are the first claims of the
/// namespace.
const NEVER_WAITING: usize = 5;
const CLASSES: usize = 6;

/// Claims, volumes, classes, drivers, attachments, and volumes in pods.
pub(super) struct Storage;

impl Flavour for Storage {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn share(&self) -> usize {
        65
    }

    // In scripts, nothing would bind these claims or create volumes for them.
    fn admitted(&self) -> bool {
        false
    }

    fn objects(&self, random: &mut Random, world: &World) -> Vec<Value> {
        let mut objects: Vec<Value> = (0..CLASSES).map(|index| class(random, world, index)).collect();
        objects.extend((0..VOLUMES).map(|index| volume(random, world, index)));
        for (namespace, _) in NAMESPACES {
            objects.extend((0..CLAIMS).map(|index| claim(random, namespace, &claim_name(index))));
        }
        for driver in ["csi.example.com", "local.example.com", "ebs.csi.aws.com"] {
            if random.chance(70) {
                objects.push(self::driver(random, driver));
            }
        }
        objects.extend((0..random.below(8)).map(|index| capacity(random, world, index)));
        for node in &world.node_names {
            if random.chance(75) {
                objects.push(node_drivers(random, node));
            }
        }
        objects.extend((0..random.below(20)).map(|index| attachment(random, world, index)));
        // The name of an ephemeral volume's claim starts with the name of the pod.
        for index in 0..30 {
            for (pod, is_its_own) in [
                (format!("pod-{index}"), random.chance(90)),
                (format!("bound-{index}"), !allows_failures(world) || random.chance(90)),
            ] {
                if random.chance(80) {
                    objects.push(ephemeral_claim(random, &pod, is_its_own));
                }
            }
        }
        remove_random_choices(&mut objects);
        if scores_capacity(world) {
            avoid_crashes(&mut objects);
        }
        objects
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if !random.chance(70) {
            return;
        }
        let count = *random.pick(&[1, 1, 1, 2, 2, 3, 4]);
        let mut claims = Vec::new();
        for index in 0..count {
            let mut volume = source(random);
            // If several volumes of a pod use the same waiting claim, kube-scheduler looks for a volume for each of
            // them; Harbormaster looks for one. So no pod uses a waiting claim twice.
            let claim = volume["persistentVolumeClaim"]["claimName"].clone();
            let may_wait = !(0..NEVER_WAITING).any(|index| claim == claim_name(index));
            if !claim.is_null() && may_wait && claims.contains(&claim) {
                continue;
            }
            claims.push(claim);
            volume["name"] = format!("v-{index}").into();
            push(&mut pod["spec"]["volumes"], volume);
        }
    }

    fn profile(&self, random: &mut Random, world: &World, profile: &mut Profile) {
        if scores_capacity(world) && random.chance(60) {
            profile.args.insert("VolumeBinding".to_owned(), json!({"shape": shape(random)}));
        }
    }

    fn bound(&self, _random: &mut Random, world: &World, pod: &mut Value) {
        if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
            volumes.retain(|volume| allows_failures(world) || !fails_others(volume));
        }
    }
}

/// Returns true if bound pods may have invalid volumes. Scheduling fails for every pod that is evaluated on a node with
/// such a bound pod, so most clusters have no such pods.
fn allows_failures(world: &World) -> bool {
    world.zones == 5
}

fn scores_capacity(world: &World) -> bool {
    world.features.iter().any(|feature| feature == "StorageCapacityScoring")
}

/// Makes the sizes of all volumes different and reserves at most one volume for each claim, because kube-scheduler
/// chooses randomly between equally small volumes and between several reserved ones.
fn remove_random_choices(objects: &mut [Value]) {
    let mut claimed = BTreeSet::new();
    for (index, volume) in objects.iter_mut().enumerate().filter(|(_, o)| o["kind"] == "PersistentVolume") {
        let spec = &mut volume["spec"];
        let base = match spec["capacity"]["storage"].as_str() {
            Some("1Gi") => 1024,
            Some("5Gi") => 5 * 1024,
            Some("10Gi") => 10 * 1024,
            _ => 1430,
        };
        spec["capacity"]["storage"] = format!("{}Mi", base + index).into();
        if !claimed.insert(spec["claimRef"]["name"].to_string()) {
            spec["claimRef"] = Value::Null;
        }
    }
}

/// Removes everything that makes kube-scheduler crash or choose randomly when it scores by capacity.
fn avoid_crashes(objects: &mut [Value]) {
    for object in objects {
        match object["kind"].as_str() {
            // If a class has several capacities for a node, the choice between them is random. A CSIStorageCapacity
            // without the field `capacity` is fatal.
            Some("CSIStorageCapacity") => {
                let class = object["storageClassName"].as_str().unwrap_or_default();
                let sizes = ["1Gi", "2Gi", "20Gi", "40Gi"];
                object["capacity"] = sizes[class.bytes().last().map_or(0, usize::from) % sizes.len()].into();
            }
            // A claim that names its class only in the annotation is fatal too.
            Some("PersistentVolumeClaim") if object["spec"]["storageClassName"].is_null() => {
                object["spec"]["storageClassName"] = "class-0".into();
            }
            _ => {}
        }
    }
}

fn fails_others(volume: &Value) -> bool {
    let is_bad_ebs = volume["awsElasticBlockStore"]["volumeID"] == "aws://vol-0";
    let is_bad_azure = !volume["azureDisk"].is_null() && volume["azureDisk"]["kind"] != "Managed";
    let without_name = volume["persistentVolumeClaim"]["claimName"] == "";
    is_bad_ebs || is_bad_azure || without_name
}

fn claim_name(index: usize) -> String {
    format!("claim-{index}")
}

/// Picks the name of a class: usually one that exists, sometimes one that does not exist, sometimes none.
fn class_name(random: &mut Random) -> String {
    match random.below(20) {
        0 => String::new(),
        1 => "class-missing".to_owned(),
        _ => format!("class-{}", random.below(CLASSES)),
    }
}

fn zone(random: &mut Random, world: &World) -> &'static str {
    random.pick::<&str>(&labels::ZONES[..world.zones])
}

/// Picks a value that nodes may have for `key`, one of [`ZONE_KEYS`].
fn topology_value(random: &mut Random, world: &World, key: &str) -> &'static str {
    if key.ends_with("region") { random.pick::<&str>(&["north", "south"]) } else { zone(random, world) }
}

fn class(random: &mut Random, world: &World, index: usize) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": format!("class-{index}")},
        "provisioner": random.pick(PROVISIONERS),
        "volumeBindingMode": random.pick(&["Immediate", "WaitForFirstConsumer", "WaitForFirstConsumer", "WaitForFirstConsumer"]),
    });
    if random.chance(30) {
        let key = *random.pick(ZONE_KEYS);
        let values = [topology_value(random, world, key), topology_value(random, world, key)];
        let expression = json!({"key": key, "values": values});
        let mut terms = vec![json!({"matchLabelExpressions": [expression]})];
        if random.chance(30) {
            terms.push(json!({}));
        }
        class["allowedTopologies"] = terms.into();
    }
    class
}

fn volume(random: &mut Random, world: &World, index: usize) -> Value {
    let mut spec = json!({
        "capacity": {"storage": random.pick(&["1Gi", "5Gi", "10Gi", "1500M"])},
        "accessModes": [random.pick(&["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"])],
        "storageClassName": class_name(random),
    });
    let disk = match random.below(10) {
        0..=4 => json!({"csi": {
            "driver": random.pick(DRIVERS),
            // Some volumes have the same handle.
            "volumeHandle": format!("handle-{}", random.below(VOLUMES)),
        }}),
        5 => json!({"local": {"path": "/disks/1"}}),
        6 => json!({"nfs": {"server": "files", "path": "/"}}),
        _ => in_tree(random, true),
    };
    for (field, value) in disk.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    if random.chance(30) {
        let key = *random.pick(&["topology.kubernetes.io/zone", "kubernetes.io/hostname", ZONE_KEYS[1]]);
        let value = if key == "kubernetes.io/hostname" {
            random.pick(&world.node_names).clone()
        } else {
            zone(random, world).to_owned()
        };
        let expression =
            json!({"key": key, "operator": random.pick(&["In", "In", "NotIn"]), "values": [value]});
        spec["nodeAffinity"] =
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
    }
    if random.chance(50) {
        let name = claim_name(random.below(CLAIMS));
        spec["claimRef"] = json!({"namespace": "default", "name": name, "uid": format!("default/{name}")});
    }
    let mut metadata = json!({"name": format!("volume-{index}")});
    for key in ZONE_KEYS {
        if random.chance(25) {
            metadata["labels"][*key] = zone_label(random, world, key).into();
        }
    }
    let phase = *random.pick(&["Available", "Bound", "Released", "Pending", "Failed"]);
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": metadata, "spec": spec, "status": {"phase": phase},
    })
}

/// Picks the value of a volume's zone label, with one or several zones, and sometimes an invalid value.
fn zone_label(random: &mut Random, world: &World, key: &str) -> String {
    let mut value = || topology_value(random, world, key);
    let (one, other) = (value(), value());
    match random.below(20) {
        0..=9 => one.to_owned(),
        10..=14 => format!("{one}__{other}"),
        15 => format!("{one} __ {other}"),
        16 => format!("{one}__"),
        _ => {
            (*random.pick(&["", "us-west1-a", "us-west1-a__us-west1-b", "us-east1-a__us-west1-b"])).to_owned()
        }
    }
}

/// Generates an in-tree volume source for a volume or for a pod.
fn in_tree(random: &mut Random, of_volume: bool) -> Value {
    let (_, field) = random.pick(IN_TREE);
    let id = random.below(6);
    let source = match *field {
        "awsElasticBlockStore" => {
            let form = *random.pick(&["vol-", "vol-", "aws://zone-0/vol-", "aws:///vol-", "aws://vol-"]);
            json!({"volumeID": if form == "aws://vol-" { "aws://vol-0".to_owned() } else { format!("{form}{id}") }})
        }
        "gcePersistentDisk" => json!({"pdName": format!("pd-{id}"), "readOnly": random.chance(50)}),
        "azureDisk" => {
            let mut disk = json!({"diskName": "d", "diskURI": format!("/disks/{id}")});
            if random.chance(85) {
                disk["kind"] = "Managed".into();
            }
            disk
        }
        "cinder" | "portworxVolume" => json!({"volumeID": format!("vol-{id}")}),
        "azureFile" => json!({"secretName": "s", "shareName": format!("share-{id}")}),
        _ => json!({"volumePath": format!("path-{id}")}),
    };
    if !of_volume || random.chance(95) {
        json!({ *field: source })
    } else {
        json!({"hostPath": {"path": "/"}})
    }
}

fn claim(random: &mut Random, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}")});
    let mut spec = json!({
        "accessModes": [random.pick(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])],
        "resources": {"requests": {"storage": random.pick(&["1Gi", "3Gi", "12Gi", "0"])}},
    });
    if random.chance(90) {
        spec["storageClassName"] = class_name(random).into();
    }
    if random.chance(10) {
        metadata["annotations"]["volume.beta.kubernetes.io/storage-class"] = class_name(random).into();
    }
    let mut phase = "Pending";
    let never_waits = (0..NEVER_WAITING).any(|index| name == claim_name(index));
    if never_waits || random.chance(60) {
        // There is no volume with the last of these numbers.
        spec["volumeName"] = format!("volume-{}", random.below(VOLUMES + 1)).into();
        phase = *random.pick(&["Bound", "Bound", "Lost", "Pending"]);
        if random.chance(85) {
            metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
        }
    }
    if random.chance(8) {
        metadata["annotations"]["volume.kubernetes.io/selected-node"] = "node-0".into();
    }
    if random.chance(4) {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    if random.chance(10) {
        spec["selector"] = json!({"matchLabels": {"topology.kubernetes.io/zone": "a"}});
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": metadata, "spec": spec, "status": {"phase": phase},
    })
}

/// Generates a claim with the name that the claim for the pod's ephemeral volume must have.
fn ephemeral_claim(random: &mut Random, pod: &str, is_its_own: bool) -> Value {
    let volume = random.below(2);
    let mut claim = claim(random, "default", &format!("{pod}-v-{volume}"));
    let is_controlled = is_its_own || random.chance(50);
    let uid =
        if is_its_own || !is_controlled { format!("default/{pod}") } else { "another-owner".to_owned() };
    let mut owner = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    if is_controlled {
        owner["controller"] = true.into();
    }
    claim["metadata"]["ownerReferences"] = json!([owner]);
    claim
}

fn driver(random: &mut Random, name: &str) -> Value {
    let mut spec = json!({"attachRequired": true});
    if random.chance(60) {
        spec["storageCapacity"] = random.chance(70).into();
    }
    if random.chance(30) {
        spec["preventPodSchedulingIfMissing"] = random.chance(50).into();
    }
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec})
}

fn capacity(random: &mut Random, world: &World, index: usize) -> Value {
    let mut capacity = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": format!("capacity-{index}"), "namespace": "kube-system"},
        "storageClassName": class_name(random),
    });
    if random.chance(80) {
        capacity["nodeTopology"] = match random.below(3) {
            0 => json!({}),
            _ => json!({"matchLabels": {"topology.kubernetes.io/zone": zone(random, world)}}),
        };
    }
    if random.chance(80) {
        capacity["capacity"] = (*random.pick(&["1Gi", "2Gi", "20Gi"])).into();
    }
    if random.chance(30) {
        capacity["maximumVolumeSize"] = (*random.pick(&["1Gi", "2Gi"])).into();
    }
    capacity
}

fn node_drivers(random: &mut Random, node: &str) -> Value {
    let mut names = DRIVERS.to_vec();
    names.dedup();
    let count = random.below(names.len() + 1);
    let drivers: Vec<Value> =
        random.sample(&names, count).into_iter().map(|name| on_node(random, node, name)).collect();
    let mut metadata = json!({"name": node});
    if random.chance(60) {
        let plugins: Vec<&str> = random.sample(IN_TREE, 4).into_iter().map(|(plugin, _)| plugin).collect();
        metadata["annotations"]["storage.alpha.kubernetes.io/migrated-plugins"] = plugins.join(",").into();
    }
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": metadata, "spec": {"drivers": drivers},
    })
}

fn on_node(random: &mut Random, node: &str, name: &str) -> Value {
    let mut driver = json!({"name": name, "nodeID": node, "topologyKeys": ["topology.kubernetes.io/zone"]});
    match random.below(10) {
        0 => {}
        1 => driver["allocatable"] = json!({}),
        _ => driver["allocatable"] = json!({"count": random.pick(&[0, 1, 1, 2, 2, 3, 5])}),
    }
    driver
}

fn attachment(random: &mut Random, world: &World, index: usize) -> Value {
    let source = match random.below(10) {
        0 => json!({"inlineVolumeSpec": {"csi": {"driver": "csi.example.com", "volumeHandle": "handle-0"}}}),
        _ => json!({"persistentVolumeName": format!("volume-{}", random.below(VOLUMES + 1))}),
    };
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": format!("attachment-{index}")},
        "spec": {
            "attacher": if random.chance(97) { *random.pick(DRIVERS) } else { "" },
            "nodeName": random.pick(&world.node_names),
            "source": source,
        },
    })
}

/// Generates a pod volume without its name.
fn source(random: &mut Random) -> Value {
    let id = random.below(5);
    match random.below(24) {
        0..=13 => {
            // There is no claim with the last of these numbers.
            let name = if random.chance(1) {
                String::new()
            } else {
                claim_name(random.below(CLAIMS) + usize::from(random.chance(3)))
            };
            json!({"persistentVolumeClaim": {"claimName": name, "readOnly": random.chance(20)}})
        }
        14 => {
            let spec =
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
        }
        15 => json!({"csi": {"driver": random.pick(DRIVERS)}}),
        16 => {
            json!({"iscsi": {"targetPortal": "1.2.3.4", "iqn": format!("iqn-{id}"), "lun": 0, "readOnly": random.chance(50)}})
        }
        17 => {
            let monitors = random.sample(&["a", "b", "c"], 2);
            let mut image = json!({"monitors": monitors, "image": format!("image-{}", random.below(2)), "readOnly": random.chance(40)});
            if random.chance(30) {
                image["pool"] = (*random.pick(&["rbd", "pool"])).into();
            }
            json!({"rbd": image})
        }
        18 => json!({"emptyDir": {}}),
        19 => json!({"configMap": {"name": "c"}}),
        _ => in_tree(random, false),
    }
}
