//! Provisioning of volumes.
//!
//! The topology of a volume consists of labels of the node that it is provisioned for. The driver's entry in the node's
//! CSINode specifies the label keys (`topologyKeys`; if there are none, all nodes can use the volume). Without an
//! entry, the keys are those of the class's `allowedTopologies`. Without allowed topologies, the key is the zone, as in
//! clouds. If the node has no zone, all nodes can use the volume.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster_api::{Labels, Str, node::LABEL_ZONE};
use harbormaster_framework::resource::Custom;
use harbormaster_plugins::storage::{
    PersistentVolumeClaim, StorageClass,
    claim::{self, SELECTED_NODE},
    class::{self, TopologyTerm},
    migration,
};
use harbormaster_validation::value::{list, name, namespace, text, uid};
use serde_json::{Value, json};

use super::{
    ClaimKey, DecodedObject, Provisioners, Severity, Volumes, claim_reference,
    claiming::{CONTROLLER, annotate},
};

/// Annotation that names the provisioner of a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Annotations, current and former, that name the provisioner of a claim's volume.
pub(super) const PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// The reason why no volume is provisioned, for an event about the claim.
type Refusal = (Severity, &'static str, String);

/// A part of the cluster, described by labels of its nodes and the possible values of the labels. Without labels, it is
/// the whole cluster.
type Topology = BTreeMap<Str, BTreeSet<Str>>;

impl Volumes {
    /// Provisions a volume for a claim, or reports why none can be provisioned.
    pub(super) fn provision(&mut self, key: &ClaimKey, claim: &Custom<PersistentVolumeClaim>) {
        if let Err((severity, reason, message)) = self.try_provision(key, claim) {
            self.report(key, CONTROLLER, severity, reason, message);
            self.set_claim_phase(key, "Pending");
        }
    }

    fn try_provision(
        &mut self,
        key: &ClaimKey,
        claim: &Custom<PersistentVolumeClaim>,
    ) -> Result<(), Refusal> {
        let class = self.class_to_provision(claim)?;
        let provisioner = class.read.provisioner.as_str();
        self.change_claim(key, |claim| PROVISIONER.iter().for_each(|by| annotate(claim, by, provisioner)));
        if self.provisioners == Provisioners::Elsewhere {
            return Err((Severity::Stuck, "ExternalProvisioning", waiting_for(provisioner)));
        }
        let affinity = self.affinity_for(claim, &class.read).inspect_err(|_| {
            // The scheduler must decide again.
            self.change_claim(key, unselect_node);
        })?;
        let Some(value) = self.claim(key) else { return Ok(()) };
        let volume = new_volume(value, &class.value, affinity);
        let name = text(&volume, "/metadata/name").to_owned();
        if self.is_floating(claim) {
            self.floating.insert(name.clone());
        }
        self.put_volume(&volume);
        self.pending.created.insert(name.clone());
        self.given.insert(name.clone(), true);
        let message = format!("Successfully provisioned volume {name}");
        self.report(key, provisioner, Severity::Normal, "ProvisioningSucceeded", message);
        self.bind(key, &name);
        Ok(())
    }

    /// Returns the class from which to provision the claim's volume.
    fn class_to_provision(
        &self,
        claim: &PersistentVolumeClaim,
    ) -> Result<DecodedObject<StorageClass>, Refusal> {
        if claim.class.is_empty() {
            let why = "no persistent volumes available for this claim and no storage class is set";
            return Err((Severity::Stuck, "FailedBinding", why.to_owned()));
        }
        let class = self.classes.get(claim.class.as_str());
        let class = class.ok_or_else(|| failed(class::not_found(&claim.class)))?;
        match class.read.is_provisioned() {
            true => Ok(class.clone()),
            false => Err(failed(format!("no volume plugin matched name: {}", class.read.provisioner))),
        }
    }

    /// Returns the node affinity for the claim's volume.
    fn affinity_for(
        &self,
        claim: &Custom<PersistentVolumeClaim>,
        class: &StorageClass,
    ) -> Result<Value, Refusal> {
        if claim.selector.is_some() {
            return Err(failed("claim Selector is not supported".to_owned()));
        }
        let Some(node) = claim::selected_node(claim) else {
            return Ok(match self.is_floating(claim) {
                true => affinity(allowed(class)),
                false => affinity(self.pick_topology(class, &claim.metadata.name)),
            });
        };
        let labels = self.nodes.get(node).filter(|labels| class.allows(labels));
        let labels =
            labels.ok_or_else(|| failed(format!("no volume can be provisioned for node {node:?}")))?;
        Ok(affinity([self.topology(class, node, labels)]))
    }

    /// Returns true if the topology of the claim's volume stays open until the first pod uses the volume.
    fn is_floating(&self, claim: &Custom<PersistentVolumeClaim>) -> bool {
        self.provisioners == Provisioners::Floating && claim::selected_node(claim).is_none()
    }

    /// Decides the open topology of a volume: that of `node`, which runs the first pod that uses the volume.
    pub fn land(&mut self, volume: &str, node: &str) {
        if !self.floating.remove(volume) {
            return;
        }
        let class = self.volumes.get(volume).and_then(|kept| self.classes.get(kept.read.class.as_str()));
        let (Some(class), Some(labels)) = (class, self.nodes.get(node)) else { return };
        let affinity = affinity([self.topology(&class.read, node, labels)]);
        self.change_volume(volume, |volume| set_affinity(volume, affinity));
    }

    /// Returns the topology of a volume that is provisioned for a node.
    fn topology(&self, class: &StorageClass, node: &str, labels: &Labels) -> Topology {
        let of_node = |key: &Str| Some((key.clone(), BTreeSet::from([labels.get(key)?.clone()])));
        let driver = driver_of(class);
        let entry =
            self.drivers.get(node).and_then(|kept| kept.read.drivers.iter().find(|it| it.name == driver));
        if let Some(entry) = entry {
            return entry.topology_keys.iter().filter_map(of_node).collect();
        }
        if let Some(term) = class.allowed_topologies.iter().find(|term| term.matches(labels)) {
            return term.match_label_expressions.iter().filter_map(|one| of_node(&one.key)).collect();
        }
        of_node(&Str::from(LABEL_ZONE)).into_iter().collect()
    }

    /// Picks one of the topologies in which volumes of the class can be provisioned.
    fn pick_topology(&self, class: &StorageClass, claim: &str) -> Option<Topology> {
        let driver = driver_of(class);
        let has_driver = |node: &Str| {
            let entry = self.drivers.get(node.as_str());
            entry.is_some_and(|kept| kept.read.drivers.iter().any(|it| it.name == driver))
        };
        let needs_driver = self.nodes.keys().any(has_driver);
        let allowed = self.nodes.iter().filter(|(_, labels)| class.allows(labels));
        let nodes = allowed.filter(|(node, _)| !needs_driver || has_driver(node));
        let all: BTreeSet<Topology> =
            nodes.map(|(node, labels)| self.topology(class, node, labels)).collect();
        let at = spread(claim) % u64::try_from(all.len()).unwrap_or(u64::MAX).max(1);
        all.into_iter().nth(usize::try_from(at).unwrap_or_default())
    }
}

fn failed(why: String) -> Refusal {
    (Severity::Warning, "ProvisioningFailed", why)
}

/// Returns the controller's message about a claim that waits for its provisioner.
fn waiting_for(provisioner: &str) -> String {
    format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
         administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    )
}

fn unselect_node(claim: &mut Value) {
    if let Some(Value::Object(annotations)) = claim.pointer_mut("/metadata/annotations") {
        annotations.remove(SELECTED_NODE);
    }
}

/// Returns the driver that provisions volumes of the class.
fn driver_of(class: &StorageClass) -> &str {
    let provisioner = class.provisioner.as_str();
    migration::of_plugin(provisioner).map_or(provisioner, |migration| migration.driver)
}

/// Returns a number that spreads claims over topologies. Consecutive claims of one StatefulSet get consecutive numbers,
/// as in external-provisioner.
fn spread(claim: &str) -> u64 {
    let numbered =
        claim.rsplit_once('-').and_then(|(base, number)| Some((base, number.parse::<u32>().ok()?)));
    let (base, number) = numbered.unwrap_or((claim, 0));
    let sum: u64 = base.bytes().map(u64::from).sum();
    sum + u64::from(number)
}

/// Returns the topologies that a class allows, or none if it allows the whole cluster.
fn allowed(class: &StorageClass) -> Vec<Topology> {
    let topology = |term: &TopologyTerm| {
        let all = term.match_label_expressions.iter();
        all.map(|one| (one.key.clone(), one.values.iter().cloned().collect())).collect()
    };
    class.allowed_topologies.iter().map(topology).collect()
}

/// Returns the node affinity for the given topologies, or `null` if all nodes can use the volume.
fn affinity(topologies: impl IntoIterator<Item = Topology>) -> Value {
    let term = |topology: Topology| {
        let one = |(key, values)| json!({"key": key, "operator": "In", "values": values});
        json!({"matchExpressions": topology.into_iter().map(one).collect::<Vec<Value>>()})
    };
    let topologies: Vec<Topology> = topologies.into_iter().collect();
    match topologies.is_empty() || topologies.iter().any(Topology::is_empty) {
        true => Value::Null,
        false => {
            json!({"required": {"nodeSelectorTerms": topologies.into_iter().map(term).collect::<Vec<_>>()}})
        }
    }
}

/// Returns the topology of a volume that was provisioned for one node.
pub(super) fn topology_of(volume: &Value) -> BTreeMap<String, String> {
    let term = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms/0").unwrap_or(&Value::Null);
    let label = |one: &Value| match list(one, "/values") {
        [Value::String(value)] => Some((text(one, "/key").to_owned(), value.clone())),
        _ => None,
    };
    list(term, "/matchExpressions").iter().filter_map(label).collect()
}

fn set_affinity(volume: &mut Value, affinity: Value) {
    if let Some(spec) = volume["spec"].as_object_mut() {
        match affinity {
            Value::Null => drop(spec.remove("nodeAffinity")),
            affinity => drop(spec.insert("nodeAffinity".to_owned(), affinity)),
        }
    }
}

/// Returns a new volume for a claim.
fn new_volume(claim: &Value, class: &Value, affinity: Value) -> Value {
    let name = match uid(claim) {
        "" => format!("pvc-{}-{}", namespace(claim), name(claim)),
        uid => format!("pvc-{uid}"),
    };
    let provisioner = text(class, "/provisioner");
    let or = |value: &Value, default: Value| if value.is_null() { default } else { value.clone() };
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}},
        "spec": {
            "capacity": {"storage": or(&claim["spec"]["resources"]["requests"]["storage"], json!("0"))},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": or(&claim["spec"]["volumeMode"], json!("Filesystem")),
            "persistentVolumeReclaimPolicy": or(&class["reclaimPolicy"], json!("Delete")),
            "storageClassName": class["metadata"]["name"],
            "claimRef": claim_reference(claim),
        },
    });
    for (field, value) in [
        ("mountOptions", &class["mountOptions"]),
        ("volumeAttributesClassName", &claim["spec"]["volumeAttributesClassName"]),
    ] {
        if !value.is_null() {
            volume["spec"][field] = value.clone();
        }
    }
    let (kind, source) = source(provisioner, &name);
    volume["spec"][kind] = source;
    set_affinity(&mut volume, affinity);
    volume
}

/// Returns the volume source: a disk of the in-tree plugin that the provisioner names, or a CSI volume.
fn source(provisioner: &str, name: &str) -> (&'static str, Value) {
    match provisioner {
        "kubernetes.io/gce-pd" => ("gcePersistentDisk", json!({"pdName": name})),
        "kubernetes.io/aws-ebs" => ("awsElasticBlockStore", json!({"volumeID": name})),
        "kubernetes.io/cinder" => ("cinder", json!({"volumeID": name})),
        "kubernetes.io/azure-disk" => {
            ("azureDisk", json!({"diskName": name, "diskURI": name, "kind": "Managed"}))
        }
        "kubernetes.io/azure-file" => ("azureFile", json!({"secretName": name, "shareName": name})),
        "kubernetes.io/portworx-volume" => ("portworxVolume", json!({"volumeID": name})),
        "kubernetes.io/vsphere-volume" => ("vsphereVolume", json!({"volumePath": name})),
        driver => ("csi", json!({"driver": driver, "volumeHandle": name})),
    }
}
