//! The storage of scripts: classes of every kind with their drivers, volumes, and the claims of pods.
//!
//! Two runs are comparable only if nothing depends on the speed of the volume controller. Therefore:
//!
//! - Claims exist from the start, except those that are added later on purpose. Pods that are tried in a row have only
//!   claims that are bound without waiting for a pod; with other claims, even two runs of kube-scheduler differ.
//! - A claim that waits for a pod is used by only one pod until the claim is bound. Pods that share a claim are created
//!   when no pending pod uses claims.
//! - No two volumes have the same size, because the choice between volumes of equal size is random.
//! - If a driver is slower than the scheduler's timeout or has no capacity for the selected node, the pod's attempt
//!   fails, and the pod is retried later. So drivers do this only in scripts in which backoffs expire.

use std::time::Duration;

use serde_json::{Value, json};

use crate::generate::{Random, push};
use crate::provisioner::{Behaviour, Driver, Outcome};

/// Node labels to which volumes are tied; unlike other labels, they never change.
const ZONE: &str = "topology.zonal.example.com/zone";
const HOST: &str = "topology.local.example.com/host";

const ZONES: &[&str] = &["east", "north", "south", "west"];

const ZONAL: &str = "zonal.example.com";
const LOCAL: &str = "local.example.com";
const ANYWHERE: &str = "anywhere.example.com";
const NOBODY: &str = "kubernetes.io/no-provisioner";

/// Classes: name, provisioner, and true if claims wait for a pod.
const CLASSES: &[(&str, &str, bool)] = &[
    ("static", NOBODY, true),
    ("zonal", ZONAL, true),
    ("zonal-east-west", ZONAL, true),
    ("mixed", ZONAL, true),
    ("local", LOCAL, true),
    ("anywhere", ANYWHERE, true),
    ("static-at-once", NOBODY, false),
    ("zonal-at-once", ZONAL, false),
    ("anywhere-at-once", ANYWHERE, false),
];

/// Classes whose claims wait for a pod. Classes to be used more often appear more than once.
const WAITING: &[&str] =
    &["static", "static", "zonal", "zonal", "zonal-east-west", "mixed", "mixed", "local", "anywhere"];

/// Classes that have volumes from the start.
const WITH_VOLUMES: &[&str] = &["static", "static", "static", "mixed", "mixed", "static-at-once"];

/// Scheduler name of pods for whose volumes the scheduler waits only 3 s.
const HASTY: &str = "hasty";
const HASTY_SECONDS: u32 = 3;
/// Delay of a slow driver, chosen so that the volume exists by the second attempt of a [`HASTY`] pod.
const SLOW: Duration = Duration::from_millis(3600);

/// Degree to which a pod must be scheduled separately from other pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    /// The pod may be tried in a row with other pods.
    InBatch,
    /// The pod must be tried alone, but other pods may be pending.
    Alone,
    /// The pod must be tried alone, and no other pending pod may have claims.
    NoOtherClaims,
}

/// Claims, volumes and drivers of one script.
#[derive(Debug)]
pub(super) struct Storage {
    random: Random,
    /// True if pods are retried after a while.
    retries: bool,
    /// Volumes and claims at the start of the script.
    volumes: Vec<Value>,
    claims: Vec<Value>,
    drivers: Vec<Driver>,
    /// Claims that several pods use: namespace and name.
    shared: Vec<(String, String)>,
    /// Claims that pods use and that do not exist yet.
    late: Vec<Value>,
    next: usize,
}

impl Storage {
    pub(super) fn new(mut random: Random, retries: bool) -> Self {
        let delay = |random: &mut Random| Duration::from_millis(*random.pick(&[0, 10, 150]));
        let drivers = [(ZONAL, vec![ZONE]), (LOCAL, vec![HOST]), (ANYWHERE, vec![])]
            .map(|(name, keys)| Driver::new(name, keys).with_default(Behaviour::after(delay(&mut random))));
        Self {
            random,
            retries,
            volumes: Vec::new(),
            claims: Vec::new(),
            drivers: drivers.into(),
            shared: Vec::new(),
            late: Vec::new(),
            next: 0,
        }
    }

    /// Generates classes, drivers and storage capacities.
    pub(super) fn infrastructure(&mut self) -> Vec<Value> {
        let mut objects: Vec<Value> =
            CLASSES.iter().map(|(name, provisioner, waits)| class(name, provisioner, *waits)).collect();
        for name in [ZONAL, LOCAL, ANYWHERE] {
            if self.random.chance(85) {
                objects.push(self.driver(name));
            }
        }
        for class in ["zonal", "local", "mixed", "anywhere"] {
            for zone in ZONES {
                if self.random.chance(80) {
                    objects.push(self.capacity(class, zone));
                }
            }
        }
        objects
    }

    fn driver(&mut self, name: &str) -> Value {
        let mut spec = json!({"attachRequired": true, "storageCapacity": self.random.chance(60)});
        if self.random.chance(30) {
            spec["preventPodSchedulingIfMissing"] = true.into();
        }
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec})
    }

    fn capacity(&mut self, class: &str, zone: &str) -> Value {
        let mut capacity = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": format!("{class}-{zone}"), "namespace": "default"},
            "storageClassName": class,
            "nodeTopology": {"matchLabels": {ZONE: zone}},
            "capacity": self.random.pick(&["1Gi", "4Gi", "20Gi", "100Gi"]),
        });
        if self.random.chance(20) {
            capacity["maximumVolumeSize"] = (*self.random.pick(&["1Gi", "10Gi"])).into();
        }
        capacity
    }

    /// Adds topology labels to a node.
    pub(super) fn add_topology(&mut self, node: &mut Value) {
        let name = node["metadata"]["name"].clone();
        node["metadata"]["labels"][ZONE] = (*self.random.pick(ZONES)).into();
        node["metadata"]["labels"][HOST] = name;
    }

    /// Generates the drivers on a node, with their limits.
    pub(super) fn node_drivers(&mut self, node: &str) -> Option<Value> {
        if self.random.chance(10) {
            return None;
        }
        let mut drivers = Vec::new();
        for (name, keys) in [(ZONAL, json!([ZONE])), (LOCAL, json!([HOST])), (ANYWHERE, json!([]))] {
            if self.random.chance(90) {
                let mut driver = json!({"name": name, "nodeID": node, "topologyKeys": keys});
                if self.random.chance(70) {
                    driver["allocatable"] = json!({"count": self.random.pick(&[1, 2, 3, 6])});
                }
                drivers.push(driver);
            }
        }
        Some(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": node}, "spec": {"drivers": drivers},
        }))
    }

    /// Generates volumes to which claims may be bound.
    pub(super) fn add_volumes(&mut self, count: usize, nodes: &[String]) {
        for _ in 0..count {
            let class = *self.random.pick(WITH_VOLUMES);
            let size = *self.random.pick(&[1, 2, 5, 12]);
            let volume = self.new_volume(class, size, nodes);
            self.volumes.push(volume);
        }
    }

    /// A volume that is a little larger than `size` GiB.
    fn new_volume(&mut self, class: &str, size: usize, nodes: &[String]) -> Value {
        self.next += 1;
        let name = format!("volume-{}", self.next);
        // ReadWriteOncePod cannot be combined with other modes.
        let modes = match self.random.below(5) {
            0 if size < 12 => json!(["ReadWriteOncePod"]),
            _ => json!(["ReadWriteOnce", "ReadWriteMany"]),
        };
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {}},
            "spec": {
                "capacity": {"storage": format!("{}Mi", size * 1024 + self.next)},
                "accessModes": modes,
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": class,
            },
        });
        let (key, value) = match self.random.below(3) {
            0 if !nodes.is_empty() => (HOST, self.random.pick(nodes).clone()),
            _ => (ZONE, (*self.random.pick(ZONES)).to_owned()),
        };
        let expression = json!({"key": key, "operator": "In", "values": [value]});
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
        match self.random.below(10) {
            0..4 => volume["spec"]["csi"] = json!({"driver": ZONAL, "volumeHandle": name}),
            4..6 => volume["spec"]["nfs"] = json!({"server": "files", "path": "/"}),
            _ => volume["spec"]["local"] = json!({"path": "/disks/1"}),
        }
        // Local volumes must have a node affinity.
        if !volume["spec"]["local"].is_null() || self.random.chance(60) {
            volume["spec"]["nodeAffinity"] = affinity;
        }
        if self.random.chance(25) {
            let zones = *self.random.pick(&["a", "b", "a__b", "c"]);
            volume["metadata"]["labels"]["topology.kubernetes.io/zone"] = zones.into();
        }
        volume
    }

    fn new_claim(&mut self, namespace: &str, class: &str) -> Value {
        self.next += 1;
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": format!("claim-{}", self.next), "namespace": namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": self.random.pick(&["1Gi", "2Gi", "5Gi", "12Gi"])}},
            },
        })
    }

    /// Adds volumes, possibly none, to `pod`. Returns the isolation that the pod then needs.
    pub(super) fn add_volumes_to(&mut self, pod: &mut Value, isolation: Isolation) -> Isolation {
        let mut needs = isolation;
        if !self.random.chance(65) {
            return needs;
        }
        for index in 0..*self.random.pick(&[1, 1, 1, 2, 2, 3]) {
            let (mut volume, needed) = self.source(pod, isolation);
            // kube-scheduler counts a waiting claim once for each pod volume that uses it, so no pod uses a claim
            // twice.
            if claims_of(pod).any(|claim| *claim == volume["persistentVolumeClaim"]["claimName"]) {
                continue;
            }
            volume["name"] = format!("v-{index}").into();
            if needed == Isolation::NoOtherClaims {
                needs = needed;
            }
            push(&mut pod["spec"]["volumes"], volume);
        }
        needs
    }

    fn source(&mut self, pod: &mut Value, isolation: Isolation) -> (Value, Isolation) {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        let kinds = if isolation == Isolation::InBatch { 6 } else { 17 };
        match self.random.below(kinds) {
            0..3 => (self.private(&namespace, false), isolation),
            3 => (self.claim_with_reserved_volume(&namespace, true), isolation),
            4 => (self.claim_with_reserved_volume(&namespace, false), isolation),
            5 => (self.missing(&namespace), isolation),
            6..10 => (self.private(&namespace, true), isolation),
            10 => {
                (self.with_failures(&namespace, Outcome::FailTimes(2), Duration::from_millis(50)), isolation)
            }
            11 | 12 => (self.shared(&namespace, "ReadWriteOncePod"), Isolation::NoOtherClaims),
            13 => (self.shared(&namespace, "ReadWriteMany"), Isolation::NoOtherClaims),
            14 => (self.ephemeral(), isolation),
            15 => (self.private(&namespace, true), isolation),
            _ if !self.retries => (self.private(&namespace, true), isolation),
            _ if self.random.chance(30) => {
                pod["spec"]["schedulerName"] = HASTY.into();
                (self.with_failures(&namespace, Outcome::Make, SLOW), Isolation::NoOtherClaims)
            }
            _ => {
                let outcome = Outcome::RemoveSelectedNode(1);
                (
                    self.with_failures(&namespace, outcome, Duration::from_millis(100)),
                    Isolation::NoOtherClaims,
                )
            }
        }
    }

    fn waiting_class(&mut self) -> &'static str {
        self.random.pick::<&str>(WAITING)
    }

    /// A claim that only one pod uses.
    fn private(&mut self, namespace: &str, waits: bool) -> Value {
        let class = if waits {
            self.waiting_class()
        } else {
            *self.random.pick(&["static-at-once", "zonal-at-once", "anywhere-at-once"])
        };
        let claim = self.new_claim(namespace, class);
        self.add(claim)
    }

    /// A claim and a volume that is reserved for it. Either both objects refer to each other, or only the volume refers
    /// to the claim.
    fn claim_with_reserved_volume(&mut self, namespace: &str, by_both: bool) -> Value {
        let class = *self.random.pick(&["static", "static-at-once"]);
        let mut claim = self.new_claim(namespace, class);
        let mut volume = self.new_volume(class, 12, &[]);
        let metadata = &claim["metadata"];
        volume["spec"]["claimRef"] = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": metadata["namespace"], "name": metadata["name"],
        });
        if by_both {
            claim["spec"]["volumeName"] = volume["metadata"]["name"].clone();
        }
        self.volumes.push(volume);
        self.add(claim)
    }

    fn with_failures(&mut self, namespace: &str, outcome: Outcome, delay: Duration) -> Value {
        let class = *self.random.pick(&["zonal", "local", "anywhere"]);
        let claim = self.new_claim(namespace, class);
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let behaviour = Behaviour::after(delay).with(outcome);
        for driver in &mut self.drivers {
            driver.claims.insert(format!("{namespace}/{name}"), behaviour);
        }
        self.add(claim)
    }

    /// A claim that other pods use too.
    fn shared(&mut self, namespace: &str, mode: &str) -> Value {
        let known: Vec<String> = (self.shared.iter())
            .filter(|(of, name)| of == namespace && name.starts_with(&mode.to_lowercase()))
            .map(|(_, name)| name.clone())
            .collect();
        if known.len() > 2 || !known.is_empty() && self.random.chance(70) {
            return claim_volume(self.random.pick::<String>(&known));
        }
        let class = self.waiting_class();
        let mut claim = self.new_claim(namespace, class);
        let name = format!("{}-{}", mode.to_lowercase(), self.next);
        claim["metadata"]["name"] = name.as_str().into();
        claim["spec"]["accessModes"] = json!([mode]);
        self.shared.push((namespace.to_owned(), name));
        self.add(claim)
    }

    fn ephemeral(&mut self) -> Value {
        let class = self.waiting_class();
        let spec = self.new_claim("", class)["spec"].take();
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
    }

    /// A claim that does not exist yet.
    fn missing(&mut self, namespace: &str) -> Value {
        let class = self.waiting_class();
        let claim = self.new_claim(namespace, class);
        self.late.push(claim);
        self.late
            .last()
            .map(|claim| claim_volume(claim["metadata"]["name"].as_str().unwrap_or_default()))
            .unwrap_or_default()
    }

    fn add(&mut self, claim: Value) -> Value {
        let volume = claim_volume(claim["metadata"]["name"].as_str().unwrap_or_default());
        self.claims.push(claim);
        volume
    }

    /// Adds one volume or none to a pod that is created on its node.
    pub(super) fn add_volume_to_bound(&mut self, pod: &mut Value) {
        if self.random.chance(30) {
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
            let mut volume = self.claim_with_reserved_volume(&namespace, true);
            volume["name"] = "v-0".into();
            push(&mut pod["spec"]["volumes"], volume);
        }
    }

    /// Returns a missing claim that a pod may use.
    pub(super) fn late_claim(&mut self) -> Option<Value> {
        self.late.pop()
    }

    /// Returns a pod volume whose claim is larger than every existing volume, and a new volume that is large enough.
    pub(super) fn giant(&mut self, namespace: &str, nodes: &[String]) -> (Value, Value) {
        let mut claim = self.new_claim(namespace, "static");
        claim["spec"]["resources"]["requests"]["storage"] = format!("{}Gi", 100 + self.next).into();
        let size = 101 + self.next;
        let volume = self.new_volume("static", size, nodes);
        let mut pod_volume = self.add(claim);
        pod_volume["name"] = "giant".into();
        (pod_volume, volume)
    }

    /// Returns a change to a driver's capacity, as a path and a patch.
    pub(super) fn other_capacity(&mut self) -> (String, Value) {
        let name = format!("{}-{}", self.random.pick(&["zonal", "local", "mixed"]), self.random.pick(ZONES));
        let path = format!("/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities/{name}");
        (path, json!({"capacity": self.random.pick(&["2Gi", "20Gi", "200Gi"])}))
    }

    /// Returns a change to a node's drivers and limits, as a path and a patch.
    pub(super) fn other_limits(&mut self, node: &str) -> (String, Value) {
        let spec = self.node_drivers(node).map(|mut object| object["spec"].take());
        (
            format!("/apis/storage.k8s.io/v1/csinodes/{node}"),
            json!({"spec": spec.unwrap_or(json!({"drivers": []}))}),
        )
    }

    /// Returns the volumes and claims at the start, and the drivers that create the rest.
    pub(super) fn finish(self) -> (Vec<Value>, Vec<Driver>) {
        (self.volumes.into_iter().chain(self.claims).collect(), self.drivers)
    }
}

/// The profile for [`HASTY`] pods.
pub(super) fn hasty_profile() -> Value {
    let arguments = json!({"name": "VolumeBinding", "args": {"bindTimeoutSeconds": HASTY_SECONDS}});
    json!({"schedulerName": HASTY, "pluginConfig": [arguments]})
}

fn class(name: &str, provisioner: &str, waits: bool) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": if waits { "WaitForFirstConsumer" } else { "Immediate" },
    });
    if name == "zonal-east-west" {
        let places = json!({"key": ZONE, "values": ["east", "west"]});
        class["allowedTopologies"] = json!([{"matchLabelExpressions": [places]}]);
    }
    class
}

/// A pod volume that uses `claim`. The caller must add a name.
fn claim_volume(claim: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": claim}})
}

/// Names of the claims that a pod uses.
fn claims_of(pod: &Value) -> impl Iterator<Item = &Value> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.map(|volume| &volume["persistentVolumeClaim"]["claimName"]).filter(|claim| claim.is_string())
}
