//! Finds changes to storage: higher limits of attached volumes, volumes for claims, and room for new volumes.

use harbormaster_api::{Node, Quantity, Str, node::LABEL_HOSTNAME};
use harbormaster_framework::attempt::AttemptError;
use harbormaster_validation::value::{list, name, namespace, present, text};
use serde_json::{Value, json};

use super::{Change, Remedy, objects::volume_claims, trials::Trials};
use crate::explanation::PodExplanation;

/// Maximum number of nodes that are tried.
const NODES: usize = 30;

/// Maximum number of CSIStorageCapacities that are tried.
const CAPACITIES: usize = 30;

/// Provisioner of classes whose volumes people create.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Nodes that reject the pod because of volumes.
#[derive(Default)]
pub(super) struct Limited {
    /// Nodes that have too many volumes.
    full: Vec<Str>,
    /// Nodes on which a claim gets no volume.
    bare: Vec<Str>,
}

/// Returns the nodes that reject a pod because of volumes.
pub(super) fn limited(said: Option<&PodExplanation>) -> Limited {
    let mut limited = Limited::default();
    for rejected in said.into_iter().flat_map(|said| &said.rejected) {
        let list = match rejected.status.plugin.as_ref() {
            "NodeVolumeLimits" => &mut limited.full,
            "VolumeBinding" => &mut limited.bare,
            _ => continue,
        };
        list.extend(rejected.nodes.iter().map(|name| Str::from(name.as_str())));
        list.truncate(NODES);
    }
    limited
}

impl Trials {
    /// Returns the smallest change of each kind.
    pub(super) fn storage_remedies(&mut self) -> Result<Vec<Remedy>, AttemptError> {
        let remedies = [self.raise_limit()?, self.add_volumes()?, self.grow_storage()?];
        Ok(remedies.into_iter().flatten().collect())
    }

    /// Finds the node and the driver whose limit must be raised least.
    fn raise_limit(&mut self) -> Result<Option<Remedy>, AttemptError> {
        let mut best: Option<(i32, Remedy)> = None;
        for node in self.limited.full.clone() {
            for (driver, from) in self.limits(&node) {
                let most = best.as_ref().map_or(i32::MAX, |(raise, _)| raise - 1);
                if let Some(raise) = self.smallest_raise((&node, &driver, from), most)? {
                    let change = raised((&node, &driver, from), raise);
                    let remedy = self.remedy_on(&node, vec![change])?;
                    best = remedy.map(|remedy| (raise, remedy)).or(best);
                }
            }
        }
        Ok(best.map(|(_, remedy)| remedy))
    }

    /// Returns the limits of a node's drivers.
    fn limits(&self, node: &str) -> Vec<(String, i32)> {
        let drivers = self.objects.find("CSINode", node).map_or(&[][..], |node| list(node, "/spec/drivers"));
        let limits = drivers.iter().filter_map(|driver| {
            let limit = driver.pointer("/allocatable/count")?.as_i64()?;
            Some((text(driver, "/name").to_owned(), i32::try_from(limit).ok()?))
        });
        limits.collect()
    }

    /// Returns the smallest number up to `most` by which the limit must be raised.
    fn smallest_raise(&mut self, limit: (&Str, &str, i32), most: i32) -> Result<Option<i32>, AttemptError> {
        let most = most.min(i32::MAX - limit.2.max(0));
        let (mut too_small, mut enough) = (0, 1);
        while !self.helps_on(limit.0, raised(limit, enough))? {
            if enough >= most {
                return Ok(None);
            }
            (too_small, enough) = (enough, enough.saturating_mul(8).min(most));
        }
        while too_small + 1 < enough {
            let middle = too_small + (enough - too_small) / 2;
            if self.helps_on(limit.0, raised(limit, middle))? { enough = middle } else { too_small = middle }
        }
        Ok((enough <= most).then_some(enough))
    }

    fn helps_on(&mut self, node: &Str, change: Change) -> Result<bool, AttemptError> {
        Ok(self.fits(&[change])?.contains(node))
    }

    /// Finds a node on which new volumes for the claims without a provisioner are enough.
    fn add_volumes(&mut self) -> Result<Option<Remedy>, AttemptError> {
        let claims = self.claims_without_volumes();
        if claims.is_empty() {
            return Ok(None);
        }
        let mut best: Option<(Str, Vec<Change>)> = None;
        for node in self.limited.bare.clone() {
            let needed = self
                .volumes_needed_on(&node, &claims)?
                .filter(|needed| best.as_ref().is_none_or(|(_, fewest)| needed.len() < fewest.len()));
            best = needed.map(|needed| (node, needed)).or(best);
            if best.as_ref().is_some_and(|(_, fewest)| fewest.len() == 1) {
                break;
            }
        }
        best.map_or(Ok(None), |(node, changes)| self.remedy_on(&node, changes))
    }

    /// Returns new volumes with which the pod fits on the node, and none of which can be left out.
    fn volumes_needed_on(
        &mut self,
        node: &Str,
        claims: &[(Str, String, String)],
    ) -> Result<Option<Vec<Change>>, AttemptError> {
        let added = claims.iter().map(|(claim, class, size)| Change::AddVolume {
            claim: claim.clone(),
            class: class.clone(),
            size: size.clone(),
            node: node.clone(),
        });
        let mut changes: Vec<Change> = added.collect();
        if !self.fits(&changes)?.contains(node) {
            return Ok(None);
        }
        for at in (0..changes.len()).rev() {
            let mut fewer = changes.clone();
            fewer.remove(at);
            if self.fits(&fewer)?.contains(node) {
                changes = fewer;
            }
        }
        Ok(Some(changes))
    }

    /// Returns the unbound claims that wait for a volume that somebody creates, each with its class and its size.
    fn claims_without_volumes(&self) -> Vec<(Str, String, String)> {
        let waits = |class: &&Value| {
            text(class, "/provisioner") == NO_PROVISIONER
                && text(class, "/volumeBindingMode") == "WaitForFirstConsumer"
        };
        let mut found: Vec<(Str, String, String)> = Vec::new();
        for key in volume_claims(&self.pod) {
            let Some((claim, size)) = self.unbound(&key) else { continue };
            let class = class_of(claim);
            let is_waiting = self.objects.find("StorageClass", class).as_ref().is_some_and(waits);
            if is_waiting && found.iter().all(|(known, ..)| *known != key) {
                found.push((key, class.to_owned(), size.to_owned()));
            }
        }
        found
    }

    /// Returns a claim without a volume, and the size that it requests.
    fn unbound(&self, claim: &str) -> Option<(&Value, &str)> {
        let claim = self.objects.find("PersistentVolumeClaim", claim)?;
        let size = text(claim, "/spec/resources/requests/storage");
        (text(claim, "/spec/volumeName").is_empty() && !size.is_empty()).then_some((claim, size))
    }

    /// Finds a part of the cluster in which more storage is enough.
    fn grow_storage(&mut self) -> Result<Option<Remedy>, AttemptError> {
        if self.limited.bare.is_empty() {
            return Ok(None);
        }
        let mut changes = Vec::new();
        for claim in volume_claims(&self.pod) {
            let Some((claim, size)) = self.unbound(&claim) else { continue };
            let class = class_of(claim);
            let of_class = self.objects.all("CSIStorageCapacity");
            let of_class = of_class.filter(|capacity| text(capacity, "/storageClassName") == class);
            changes.extend(of_class.filter_map(|capacity| grown(capacity, size)));
        }
        for change in changes.into_iter().take(CAPACITIES) {
            if let Some(remedy) = self.remedy(vec![change])? {
                return Ok(Some(remedy));
            }
        }
        Ok(None)
    }
}

fn raised((node, driver, from): (&Str, &str, i32), raise: i32) -> Change {
    let to = from.saturating_add(raise);
    Change::RaiseVolumeLimit { node: node.clone(), driver: driver.to_owned(), from, to }
}

/// Returns the class of a claim, which an annotation may name.
fn class_of(claim: &Value) -> &str {
    let annotation = claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    annotation.unwrap_or_else(|| text(claim, "/spec/storageClassName"))
}

/// Returns the change of a CSIStorageCapacity that lets it hold a volume of this size; `None` if it does already.
fn grown(capacity: &Value, size: &str) -> Option<Change> {
    let limit = ["/maximumVolumeSize", "/capacity"].map(|field| text(capacity, field));
    let from = limit.into_iter().find(|limit| !limit.is_empty()).unwrap_or("0");
    let bytes = |text: &str| text.parse::<Quantity>().ok();
    (bytes(from)? < bytes(size)?).then(|| Change::GrowStorage {
        capacity: format!("{}/{}", namespace(capacity), name(capacity)),
        class: text(capacity, "/storageClassName").to_owned(),
        from: from.to_owned(),
        to: size.to_owned(),
    })
}

/// Sets the maximum number of volumes of a driver in a CSINode.
pub(super) fn set_limit(node: &mut Value, driver: &str, to: i32) {
    let drivers = node.pointer_mut("/spec/drivers").and_then(Value::as_array_mut);
    for known in drivers.into_iter().flatten().filter(|known| known["name"] == driver) {
        known["allocatable"]["count"] = to.into();
    }
}

/// Sets the storage that a CSIStorageCapacity offers.
pub(super) fn set_capacity(capacity: &mut Value, to: &str) {
    capacity["capacity"] = to.into();
    if present(capacity, "/maximumVolumeSize").is_some() {
        capacity["maximumVolumeSize"] = to.into();
    }
}

/// Returns a volume for the claim that can be reached from the node alone. `None` if the node lacks its usual label, or
/// if the claim selects volumes by expressions.
pub(super) fn volume_for(claim: &Value, node: &Node) -> Option<Value> {
    if !list(claim, "/spec/selector/matchExpressions").is_empty() {
        return None;
    }
    let host = node.labels.get(LABEL_HOSTNAME)?;
    let is_host = json!({"key": LABEL_HOSTNAME, "operator": "In", "values": [host]});
    let mode = present(claim, "/spec/volumeMode").cloned().unwrap_or_else(|| "Filesystem".into());
    Some(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": format!("added-for-{}", name(claim)),
            "labels": claim.pointer("/spec/selector/matchLabels").cloned().unwrap_or_else(|| json!({})),
        },
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": mode,
            "storageClassName": class_of(claim),
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [is_host]}]}},
        },
        "status": {"phase": "Available"},
    }))
}
