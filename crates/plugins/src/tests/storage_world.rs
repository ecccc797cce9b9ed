//! Random storage objects and changes to them. Only changes that the API server allows are made.

use std::collections::BTreeMap;

use harbormaster_api::pod::{InTreeDisk, VolumeSource};
use harbormaster_testkit::{Happening, PodBuilder, node, random::Dice, set_custom};
use serde_json::{Value, json};

use super::*;
use crate::storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A node is added or relabeled.
    Node,
    NodeGone,
    /// A pod that is already bound to a node is added.
    Pod,
    PodGone,
    Claim,
    Volume,
    Class,
    Drivers,
    Driver,
    Capacity,
    Attachment,
}

const KINDS: [Kind; 7] =
    [Kind::Claim, Kind::Volume, Kind::Class, Kind::Drivers, Kind::Driver, Kind::Capacity, Kind::Attachment];
const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
/// Zone names of the form `{locale}-{region}-{zone}`, because the migration of GCE disks with several zones rejects all
/// others.
const ZONES: [&str; 3] = ["eu-one-a", "eu-one-b", "eu-one-c"];
const NAMESPACES: [&str; 2] = ["default", "elsewhere"];
const DRIVERS: [&str; 3] = ["csi.example.com", "pd.csi.storage.gke.io", "ebs.csi.aws.com"];
const PLUGINS: [&str; 3] = ["", "kubernetes.io/gce-pd", "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"];
const SIZES: [&str; 3] = ["1Gi", "5Gi", "20Gi"];
const ZONE: &str = "topology.kubernetes.io/zone";
const WAITING: &str = "sleeping";

/// Kind, namespace and name of an object.
type Key = (Kind, &'static str, String);

/// A change to the cluster.
pub(super) struct Update<'a> {
    pub(super) kind: Kind,
    /// Namespace of the object; empty for nodes, added pods and cluster-scoped objects.
    pub(super) namespace: &'a str,
    /// The object before and after the change. One of the two is `None` if the object appears or disappears; both are
    /// `None` for nodes and pods.
    pub(super) old: Option<&'a Value>,
    pub(super) new: Option<&'a Value>,
}

/// The storage of a cluster with up to four nodes, and the pods that use this storage.
pub(super) struct StorageWorld {
    dice: Dice,
    objects: BTreeMap<Key, Value>,
    /// Node, namespace and UID of each bound pod.
    bound: Vec<(&'static str, &'static str, String)>,
    pods: usize,
}

impl StorageWorld {
    pub(super) fn new(seed: u64) -> Self {
        let mut world = Self { dice: Dice::new(seed), objects: BTreeMap::new(), bound: Vec::new(), pods: 0 };
        for kind in KINDS {
            for _ in 0..6 {
                let (key, object) = world.object(kind);
                world.objects.insert(key, object);
            }
        }
        world
    }

    /// Returns the initial cluster.
    pub(super) fn cluster(&mut self) -> Cluster {
        let nodes: Vec<_> =
            NODES[..1 + self.dice.below(3) as usize].iter().map(|name| self.node(name)).collect();
        let mut cluster = cluster(nodes, []);
        let of = |kind: Kind| {
            let all = self.objects.iter().filter(move |((of, ..), _)| *of == kind);
            all.map(|(_, object)| object.clone()).collect::<Vec<_>>()
        };
        set_custom::<PersistentVolumeClaim>(&mut cluster, of(Kind::Claim));
        set_custom::<PersistentVolume>(&mut cluster, of(Kind::Volume));
        set_custom::<StorageClass>(&mut cluster, of(Kind::Class));
        set_custom::<CsiNode>(&mut cluster, of(Kind::Drivers));
        set_custom::<CsiDriver>(&mut cluster, of(Kind::Driver));
        set_custom::<CsiStorageCapacity>(&mut cluster, of(Kind::Capacity));
        set_custom::<VolumeAttachment>(&mut cluster, of(Kind::Attachment));
        cluster.refresh();
        cluster
    }

    fn node(&mut self, name: &str) -> harbormaster_testkit::NodeBuilder {
        let node = node(name);
        if self.dice.one_in(4) { node } else { node.zone(self.dice.pick(&ZONES)) }
    }

    /// Returns a random version of the waiting pod.
    pub(super) fn pod(&mut self) -> PodBuilder {
        let pod = pod(WAITING).namespace(self.dice.pick(&NAMESPACES));
        let ephemeral = self.dice.one_in(5);
        let pod = if ephemeral { pod.volume(VolumeSource::Ephemeral) } else { pod };
        self.with_volumes(pod)
    }

    fn with_volumes(&mut self, mut pod: PodBuilder) -> PodBuilder {
        for _ in 0..1 + self.dice.below(2) {
            let read_only = self.dice.one_in(2);
            let id = format!("disk-{}", self.dice.below(2));
            pod = pod.volume(match self.dice.below(8) {
                0 => VolumeSource::InTree(InTreeDisk::GcePersistentDisk { name: id.into(), read_only }),
                1 => VolumeSource::InTree(InTreeDisk::AwsElasticBlockStore {
                    volume_id: format!("vol-{id}").into(),
                }),
                2 => VolumeSource::InlineCsi(DRIVERS[0].into()),
                _ => VolumeSource::Claim(format!("claim-{}", self.dice.below(3)).into()),
            });
        }
        pod
    }

    /// Makes a random change for which `is_exception` returns false, and returns the change. Returns `None` if the last
    /// change drawn is an exception.
    pub(super) fn happening(&mut self, is_exception: impl Fn(&Update<'_>) -> bool) -> Option<Happening> {
        let at = self.dice.pick(&NODES);
        let plain = |kind, namespace| Update { kind, namespace, old: None, new: None };
        match self.dice.below(16) {
            0 if !is_exception(&plain(Kind::Node, "")) => {
                return Some(Happening::Node(self.node(at).build()));
            }
            1 if !is_exception(&plain(Kind::NodeGone, "")) => {
                self.bound.retain(|(node, ..)| *node != at);
                return Some(Happening::NodeGone(at.into()));
            }
            2 | 3 if !is_exception(&plain(Kind::Pod, "")) => {
                self.pods += 1;
                let (name, namespace) = (format!("new-{}", self.pods), self.dice.pick(&NAMESPACES));
                self.bound.push((at, namespace, format!("uid-{name}")));
                let pod = pod(&name).namespace(namespace).on(at);
                return Some(Happening::Pod(Box::new(self.with_volumes(pod).build())));
            }
            4 | 5 if !self.bound.is_empty() => {
                let index = self.dice.below(self.bound.len() as u64) as usize;
                if is_exception(&plain(Kind::PodGone, self.bound[index].1)) {
                    return None;
                }
                let (node, _, uid) = self.bound.swap_remove(index);
                return Some(Happening::PodGone(node.into(), uid.into()));
            }
            _ => {}
        }
        let kind = self.dice.pick(&KINDS);
        let (key, fresh) = self.object(kind);
        let old = self.objects.get(&key).cloned();
        let new = match &old {
            None => Some(fresh),
            Some(_) if self.dice.one_in(4) => None,
            Some(old) => Some(self.changed(kind, old, &fresh)),
        };
        if is_exception(&Update { kind, namespace: key.1, old: old.as_ref(), new: new.as_ref() }) {
            return None;
        }
        let happening = happening(&key, new.as_ref());
        match new {
            Some(new) => self.objects.insert(key, new),
            None => self.objects.remove(&key),
        };
        Some(happening)
    }

    /// Returns a random object and its key.
    fn object(&mut self, kind: Kind) -> (Key, Value) {
        let dice = &mut self.dice;
        let class = format!("class-{}", dice.below(3));
        let mut key = (kind, "", String::new());
        let mut object = match kind {
            Kind::Claim => {
                key.1 = dice.pick(&NAMESPACES);
                let is_made = dice.one_in(4);
                key.2 = if is_made { format!("{WAITING}-v0") } else { format!("claim-{}", dice.below(3)) };
                let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": WAITING,
                    "uid": format!("uid-{WAITING}"), "controller": true});
                let owners = if is_made { vec![owner] } else { Vec::new() };
                json!({
                    "metadata": {"ownerReferences": owners, "annotations": {}},
                    "spec": {"storageClassName": if dice.one_in(8) { String::new() } else { class },
                        "accessModes": [dice.pick(&["ReadWriteOnce", "ReadWriteOncePod"])],
                        "resources": {"requests": {"storage": dice.pick(&SIZES[..2])}}},
                    "status": {"phase": "Pending"},
                })
            }
            Kind::Volume => {
                key.2 = format!("volume-{}", dice.below(5));
                let disk = format!("disk-{}", dice.below(3));
                let (field, source) = match dice.below(4) {
                    0 => ("gcePersistentDisk", json!({"pdName": disk})),
                    1 => ("awsElasticBlockStore", json!({"volumeID": format!("vol-{disk}")})),
                    2 => ("nfs", json!({"server": "files", "path": "/"})),
                    _ => ("csi", json!({"driver": DRIVERS[0], "volumeHandle": disk})),
                };
                let mut volume = json!({
                    "metadata": {"labels": {}},
                    "spec": {"storageClassName": class, "capacity": {"storage": dice.pick(&SIZES)},
                        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]},
                    "status": {"phase": dice.pick(&["Available", "Bound"])},
                });
                volume["spec"][field] = source;
                if dice.one_in(3) {
                    let term = json!({"matchExpressions": [
                        {"key": ZONE, "operator": "In", "values": [dice.pick(&ZONES)]}]});
                    volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
                }
                if dice.one_in(3) {
                    volume["metadata"]["labels"][ZONE] =
                        dice.pick(&["eu-one-a", "eu-one-b", "eu-one-a__eu-one-c"]).into();
                }
                if dice.one_in(3) {
                    volume["spec"]["claimRef"] = claim_ref(dice);
                }
                volume
            }
            Kind::Class => {
                key.2 = class;
                json!({
                    "metadata": {},
                    "provisioner": dice.pick(&[DRIVERS[0], DRIVERS[0], "kubernetes.io/no-provisioner", "kubernetes.io/gce-pd"]),
                    "volumeBindingMode": dice.pick(&["Immediate", "WaitForFirstConsumer", "WaitForFirstConsumer"]),
                    "allowedTopologies": allowed(dice),
                })
            }
            Kind::Drivers => {
                key.2 = dice.pick(&NODES).to_owned();
                let mut drivers = Vec::new();
                for name in DRIVERS {
                    if !dice.one_in(3) {
                        let count = if dice.one_in(4) { Value::Null } else { dice.below(4).into() };
                        drivers.push(json!({"name": name, "nodeID": "id", "allocatable": {"count": count}}));
                    }
                }
                let migrated = dice.pick(&PLUGINS);
                json!({
                    "metadata": {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": migrated}},
                    "spec": {"drivers": drivers},
                })
            }
            Kind::Driver => {
                key.2 = dice.pick(&DRIVERS).to_owned();
                json!({"metadata": {}, "spec": {"storageCapacity": dice.one_in(2)}})
            }
            Kind::Capacity => {
                key.1 = "default";
                key.2 = format!("capacity-{}", dice.below(4));
                let mut capacity = json!({
                    "metadata": {}, "storageClassName": class, "capacity": dice.pick(&SIZES),
                    "nodeTopology": {"matchLabels": {ZONE: dice.pick(&ZONES)}},
                });
                if dice.one_in(3) {
                    capacity["maximumVolumeSize"] = dice.pick(&SIZES).into();
                }
                capacity
            }
            Kind::Attachment | Kind::Node | Kind::NodeGone | Kind::Pod | Kind::PodGone => {
                key.2 = format!("attachment-{}", dice.below(5));
                let volume = format!("volume-{}", dice.below(5));
                json!({"metadata": {}, "spec": {"attacher": DRIVERS[0], "nodeName": dice.pick(&NODES),
                    "source": {"persistentVolumeName": volume}}})
            }
        };
        object["metadata"]["name"] = key.2.as_str().into();
        object["metadata"]["namespace"] = key.1.into();
        let identity = format!("{}/{}", key.1, key.2);
        object["metadata"]["uid"] = identity.into();
        (key, object)
    }

    /// Returns the object with a random change that the API server allows. Most changes are taken from `fresh`.
    fn changed(&mut self, kind: Kind, old: &Value, fresh: &Value) -> Value {
        let dice = &mut self.dice;
        let mut new = old.clone();
        match kind {
            Kind::Claim => match dice.below(5) {
                0 | 1 if new["spec"]["volumeName"].is_null() => {
                    new["spec"]["volumeName"] = format!("volume-{}", dice.below(5)).into();
                    new["status"]["phase"] = "Bound".into();
                    if !dice.one_in(4) {
                        new["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
                    }
                }
                2 => {
                    let node = if dice.one_in(2) { Value::Null } else { dice.pick(&NODES).into() };
                    let annotations = new["metadata"]["annotations"].as_object_mut();
                    let annotations = annotations.expect("claims here have annotations");
                    annotations.remove("volume.kubernetes.io/selected-node");
                    if !node.is_null() {
                        annotations.insert("volume.kubernetes.io/selected-node".to_owned(), node);
                    }
                }
                3 => new["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into(),
                _ => new["status"]["phase"] = dice.pick(&["Pending", "Bound", "Lost"]).into(),
            },
            Kind::Volume => match dice.below(4) {
                0 => new["metadata"]["labels"] = fresh["metadata"]["labels"].clone(),
                1 => new["spec"]["claimRef"] = fresh["spec"]["claimRef"].clone(),
                2 => new["spec"]["capacity"] = fresh["spec"]["capacity"].clone(),
                _ => new["status"] = fresh["status"].clone(),
            },
            Kind::Class => new["allowedTopologies"] = fresh["allowedTopologies"].clone(),
            Kind::Drivers if dice.one_in(2) => new["spec"] = fresh["spec"].clone(),
            Kind::Drivers => new["metadata"] = fresh["metadata"].clone(),
            Kind::Driver => new["spec"] = fresh["spec"].clone(),
            Kind::Capacity => {
                new["capacity"] = fresh["capacity"].clone();
                new["maximumVolumeSize"] = fresh["maximumVolumeSize"].clone();
            }
            Kind::Attachment | Kind::Node | Kind::NodeGone | Kind::Pod | Kind::PodGone => {}
        }
        new
    }
}

fn claim_ref(dice: &mut Dice) -> Value {
    let (namespace, name) = (dice.pick(&NAMESPACES), format!("claim-{}", dice.below(3)));
    let uid = format!("{namespace}/{name}");
    json!({"namespace": namespace, "name": name, "uid": if dice.one_in(2) { uid } else { String::new() }})
}

fn allowed(dice: &mut Dice) -> Value {
    if dice.one_in(2) {
        return json!([]);
    }
    json!([{"matchLabelExpressions": [{"key": ZONE, "values": [dice.pick(&ZONES)]}]}])
}

fn happening((kind, namespace, name): &Key, new: Option<&Value>) -> Happening {
    fn of<R: Resource>(namespace: &str, name: &str, new: Option<&Value>) -> Happening {
        match new {
            Some(new) => Happening::custom::<R>(new),
            None => Happening::custom_gone::<R>(namespace, name),
        }
    }
    let of = match kind {
        Kind::Claim => of::<PersistentVolumeClaim>,
        Kind::Volume => of::<PersistentVolume>,
        Kind::Class => of::<StorageClass>,
        Kind::Drivers => of::<CsiNode>,
        Kind::Driver => of::<CsiDriver>,
        Kind::Capacity => of::<CsiStorageCapacity>,
        Kind::Attachment | Kind::Node | Kind::NodeGone | Kind::Pod | Kind::PodGone => of::<VolumeAttachment>,
    };
    of(namespace, name, new)
}
