//! Volumes that are made for claims.
//!
//! Where a volume can be used from is told by labels of the node that it is made for. Which labels these are, the driver's
//! entry in the node's CSINode says (`topologyKeys`; none means from everywhere); without an entry it is the labels that
//! the class's `allowedTopologies` name; without these the node's zone, as clouds have it; and a node without a zone has
//! volumes that can be used from everywhere.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster_api::{Labels, Str, node::LABEL_ZONE};
use harbormaster_framework::resource::Custom;
use harbormaster_objects::value::{list, name, namespace, text, uid};
use harbormaster_plugins::storage::{
    PersistentVolumeClaim, StorageClass,
    claim::{self, SELECTED_NODE},
    class::{self, TopologyTerm},
    migration,
};
use serde_json::{Value, json};

use super::{
    ClaimKey, Kept, Provisioners, Tone, Volumes, claim_reference,
    claiming::{CONTROLLER, annotate},
};

/// By whom a volume was made.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Who is to make a claim's volume, under its name and the former one.
const PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// Why no volume is made: what is said of the claim.
type Refusal = (Tone, &'static str, String);

/// A part of the cluster: labels of its nodes, each with the values that it may have. Without labels it is all of it.
type Place = BTreeMap<Str, BTreeSet<Str>>;

impl Volumes {
    /// Makes a volume for a claim, or says why it cannot be.
    pub(super) fn provision(&mut self, key: &ClaimKey, claim: &Custom<PersistentVolumeClaim>) {
        if let Err((tone, reason, message)) = self.try_provision(key, claim) {
            self.say(key, CONTROLLER, tone, reason, message);
            self.set_claim_phase(key, "Pending");
        }
    }

    fn try_provision(
        &mut self,
        key: &ClaimKey,
        claim: &Custom<PersistentVolumeClaim>,
    ) -> Result<(), Refusal> {
        let kept = self.class_to_make(claim)?;
        let provisioner = kept.read.provisioner.as_str();
        self.change_claim(key, |claim| PROVISIONER.iter().for_each(|by| annotate(claim, by, provisioner)));
        if self.provisioners == Provisioners::Elsewhere {
            return Err((Tone::Stuck, "ExternalProvisioning", waiting_for(provisioner)));
        }
        let affinity = self.affinity_for(claim, &kept.read).inspect_err(|_| {
            // The scheduler is to decide again.
            self.change_claim(key, unselect_node);
        })?;
        let Some(value) = self.claim(key) else { return Ok(()) };
        let volume = made(value, &kept.value, affinity);
        let name = text(&volume, "/metadata/name").to_owned();
        if self.is_floating(claim) {
            self.floating.insert(name.clone());
        }
        self.put_volume(&volume);
        self.open.made.insert(name.clone());
        self.given.insert(name.clone(), true);
        let message = format!("Successfully provisioned volume {name}");
        self.say(key, provisioner, Tone::Well, "ProvisioningSucceeded", message);
        self.bind(key, &name);
        Ok(())
    }

    /// The class of which a volume can be made for the claim.
    fn class_to_make(&self, claim: &PersistentVolumeClaim) -> Result<Kept<StorageClass>, Refusal> {
        if claim.class.is_empty() {
            let why = "no persistent volumes available for this claim and no storage class is set";
            return Err((Tone::Stuck, "FailedBinding", why.to_owned()));
        }
        let class = self.classes.get(claim.class.as_str());
        let class = class.ok_or_else(|| failed(class::not_found(&claim.class)))?;
        match class.read.is_provisioned() {
            true => Ok(class.clone()),
            false => Err(failed(format!("no volume plugin matched name: {}", class.read.provisioner))),
        }
    }

    /// From where the claim's volume is to be used.
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
                false => affinity(self.one_of_all(class, &claim.metadata.name)),
            });
        };
        let labels = self.nodes.get(node).filter(|labels| class.allows(labels));
        let labels = labels.ok_or_else(|| failed(format!("no volume can be made for node {node:?}")))?;
        Ok(affinity([self.topology(class, node, labels)]))
    }

    /// Whether the place of the claim's volume is decided later.
    fn is_floating(&self, claim: &Custom<PersistentVolumeClaim>) -> bool {
        self.provisioners == Provisioners::Floating && claim::selected_node(claim).is_none()
    }

    /// Says on which node the first pod is that uses a volume whose place was open.
    pub fn land(&mut self, volume: &str, node: &str) {
        if !self.floating.remove(volume) {
            return;
        }
        let class = self.volumes.get(volume).and_then(|kept| self.classes.get(kept.read.class.as_str()));
        let (Some(class), Some(labels)) = (class, self.nodes.get(node)) else { return };
        let affinity = affinity([self.topology(&class.read, node, labels)]);
        self.change_volume(volume, |volume| set_affinity(volume, affinity));
    }

    /// From where a volume can be used that is made for that node.
    fn topology(&self, class: &StorageClass, node: &str, labels: &Labels) -> Place {
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

    /// One of all places in which volumes of the class can be made; none if there is but everywhere.
    fn one_of_all(&self, class: &StorageClass, claim: &str) -> Option<Place> {
        let driver = driver_of(class);
        let has_driver = |node: &Str| {
            let entry = self.drivers.get(node.as_str());
            entry.is_some_and(|kept| kept.read.drivers.iter().any(|it| it.name == driver))
        };
        let needs_driver = self.nodes.keys().any(has_driver);
        let allowed = self.nodes.iter().filter(|(_, labels)| class.allows(labels));
        let nodes = allowed.filter(|(node, _)| !needs_driver || has_driver(node));
        let all: BTreeSet<Place> = nodes.map(|(node, labels)| self.topology(class, node, labels)).collect();
        let at = spread(claim) % u64::try_from(all.len()).unwrap_or(u64::MAX).max(1);
        all.into_iter().nth(usize::try_from(at).unwrap_or_default())
    }
}

fn failed(why: String) -> Refusal {
    (Tone::Warning, "ProvisioningFailed", why)
}

/// The controller's words.
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

/// The driver that makes volumes of the class.
fn driver_of(class: &StorageClass) -> &str {
    let provisioner = class.provisioner.as_str();
    migration::of_plugin(provisioner).map_or(provisioner, |migration| migration.driver)
}

/// Claims of one StatefulSet have numbers in a row, as external-provisioner counts on.
fn spread(claim: &str) -> u64 {
    let numbered =
        claim.rsplit_once('-').and_then(|(base, number)| Some((base, number.parse::<u32>().ok()?)));
    let (base, number) = numbered.unwrap_or((claim, 0));
    let sum: u64 = base.bytes().map(u64::from).sum();
    sum + u64::from(number)
}

/// The parts of the cluster that the class allows, as it says it; none if it allows all of it.
fn allowed(class: &StorageClass) -> Vec<Place> {
    let place = |term: &TopologyTerm| {
        let all = term.match_label_expressions.iter();
        all.map(|one| (one.key.clone(), one.values.iter().cloned().collect())).collect()
    };
    class.allowed_topologies.iter().map(place).collect()
}

/// The affinity of a volume that can be used from these parts of the cluster; `null` if it can from everywhere.
fn affinity(places: impl IntoIterator<Item = Place>) -> Value {
    let term = |place: Place| {
        let one = |(key, values)| json!({"key": key, "operator": "In", "values": values});
        json!({"matchExpressions": place.into_iter().map(one).collect::<Vec<Value>>()})
    };
    let places: Vec<Place> = places.into_iter().collect();
    match places.is_empty() || places.iter().any(Place::is_empty) {
        true => Value::Null,
        false => json!({"required": {"nodeSelectorTerms": places.into_iter().map(term).collect::<Vec<_>>()}}),
    }
}

/// The labels that tell from where a volume can be used that was made for one node.
pub(super) fn place_of(volume: &Value) -> BTreeMap<String, String> {
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

/// A volume for a claim of that class.
fn made(claim: &Value, class: &Value, affinity: Value) -> Value {
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

/// Where the data is: in a disk of the in-tree plugin that the provisioner names, or with a CSI driver.
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
