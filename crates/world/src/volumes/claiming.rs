//! Binding of claims: to an existing volume, to a new volume, or to none for now.

use harbormaster_framework::resource::Custom;
use harbormaster_plugins::storage::{
    PersistentVolume, PersistentVolumeClaim, claim,
    matching::{self, Fit},
};
use harbormaster_validation::value::{text, uid};
use serde_json::{Value, json};

use super::{ClaimKey, Provisioners, Severity, Volumes, claim_reference};

/// Name of the controller in events.
pub(super) const CONTROLLER: &str = "persistentvolume-controller";
/// Annotation of claims that are bound.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of claims and volumes that the controller or a scheduler, rather than a user, bound to each other.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotations of the default class.
const DEFAULT_MARKS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// Annotation that old claims have instead of `spec.storageClassName`.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

impl Volumes {
    /// Assigns a claim its class and its volume, where possible.
    pub fn settle_claim(&mut self, key: &ClaimKey) {
        self.give_default_class(key);
        let Some(claim) = self.claims.get(key).map(|kept| kept.read.clone()) else { return };
        if claim.metadata.deletion_timestamp.is_some() {
            return;
        }
        match claim.volume_name.is_empty() {
            true => self.find_volume(key, &claim),
            false => self.check_volume(key, &claim),
        }
    }

    /// Assigns the default class to a claim that names neither a class nor a volume, even if the class is newer than
    /// the claim.
    fn give_default_class(&mut self, key: &ClaimKey) {
        let Some(claim) = self.claim(key) else { return };
        let names_one = claim.pointer("/spec/storageClassName").is_some_and(|class| !class.is_null())
            || annotation(claim, CLASS_ANNOTATION).is_some();
        if names_one || !text(claim, "/spec/volumeName").is_empty() {
            return;
        }
        let is_default =
            |class: &&Value| DEFAULT_MARKS.iter().any(|mark| annotation(class, mark) == Some("true"));
        let classes = self.classes.values().map(|kept| &*kept.value).filter(is_default);
        let newest = classes.max_by_key(|class| text(class, "/metadata/creationTimestamp"));
        if let Some(class) = newest.map(|class| class["metadata"]["name"].clone()) {
            self.change_claim(key, |claim| claim["spec"]["storageClassName"] = class);
        }
    }

    fn find_volume(&mut self, key: &ClaimKey, claim: &Custom<PersistentVolumeClaim>) {
        if let Some(volume) = self.set_aside_for(claim) {
            return self.bind(key, &volume);
        }
        let class = self.classes.get(claim.class.as_str()).map(|kept| kept.read.clone());
        let waits = class.is_some_and(|class| class.waits_for_consumer());
        if waits && claim::selected_node(claim).is_none() {
            let message = "waiting for first consumer to be created before binding";
            self.report(key, CONTROLLER, Severity::Normal, "WaitForFirstConsumer", message.to_owned());
            return self.set_claim_phase(key, "Pending");
        }
        // If the claim waited for its pod's node, the scheduler has already found that no existing volume is suitable.
        match self.smallest(claim).filter(|_| !waits) {
            Some(volume) => self.bind(key, &volume),
            None => self.provision(key, claim),
        }
    }

    fn set_aside_for(&self, claim: &Custom<PersistentVolumeClaim>) -> Option<String> {
        let named = self.index.of_claim(&claim.metadata.namespace, &claim.metadata.name);
        let volumes = named.filter_map(|name| self.volumes.get(name.as_str()));
        let fits = volumes.filter(|kept| matching::fit(&kept.read, claim) == Some(Fit::SetAside));
        let smallest = fits.min_by_key(|kept| matching::capacity(&kept.read))?;
        Some(smallest.read.metadata.name.to_string())
    }

    fn smallest(&self, claim: &Custom<PersistentVolumeClaim>) -> Option<String> {
        let mut large_enough = self.index.free(&claim.class, matching::requested(claim));
        let fits = |name: &&harbormaster_api::Str| {
            let volume = self.volumes.get(name.as_str());
            volume.is_some_and(|kept| matching::fit(&kept.read, claim) == Some(Fit::Free))
        };
        large_enough.find(fits).map(ToString::to_string)
    }

    /// Binds a claim to the volume that it names, if that is possible.
    fn check_volume(&mut self, key: &ClaimKey, claim: &Custom<PersistentVolumeClaim>) {
        let is_complete = claim::is_fully_bound(claim);
        let volume = self.volumes.get(claim.volume_name.as_str()).map(|kept| kept.read.clone());
        let volume_name = claim.volume_name.to_string();
        let Some(volume) = volume else {
            if is_complete {
                let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
                self.lose(key, "ClaimLost", message);
            } else {
                self.set_claim_phase(key, "Pending");
            }
            return;
        };
        match &volume.claim_ref {
            Some(claimed) if matching::names(claimed, claim) => self.bind(key, &volume_name),
            Some(_) if is_complete => {
                let message = "Two claims are bound to the same volume, this one is bound incorrectly";
                self.lose(key, "ClaimMisbound", message);
            }
            Some(_) => {
                let message = format!("volume {volume_name:?} already bound to a different claim.");
                self.report(key, CONTROLLER, Severity::Warning, "FailedBinding", message);
                self.set_claim_phase(key, "Pending");
            }
            None => match mismatch(&volume, claim).filter(|_| !is_complete) {
                None => self.bind(key, &volume_name),
                Some(why) => {
                    let message = format!("Cannot bind to requested volume {volume_name:?}: {why}");
                    self.report(key, CONTROLLER, Severity::Warning, "VolumeMismatch", message);
                    self.set_claim_phase(key, "Pending");
                }
            },
        }
    }

    /// Makes a claim and a volume refer to each other.
    pub(super) fn bind(&mut self, key: &ClaimKey, volume_name: &str) {
        let (Some(claim), Some(volume)) = (self.claim(key), self.volume(volume_name)) else { return };
        if is_bound(claim, volume) {
            return;
        }
        let is_new = annotation(claim, BIND_COMPLETED).is_none();
        let reference = claim_reference(claim);
        let (capacity, modes) = (volume["spec"]["capacity"].clone(), volume["spec"]["accessModes"].clone());
        if is_new {
            self.given.entry(volume_name.to_owned()).or_default();
        }
        self.change_volume(volume_name, |volume| {
            let claimed = &mut volume["spec"]["claimRef"];
            let was_free = claimed.is_null();
            if was_free || claimed["uid"] != reference["uid"] {
                *claimed = reference;
            }
            if was_free {
                annotate(volume, BOUND_BY_CONTROLLER, "yes");
            }
            volume["status"]["phase"] = "Bound".into();
        });
        self.change_claim(key, |claim| {
            if text(claim, "/spec/volumeName").is_empty() {
                claim["spec"]["volumeName"] = volume_name.into();
                annotate(claim, BOUND_BY_CONTROLLER, "yes");
            }
            annotate(claim, BIND_COMPLETED, "yes");
            claim["status"] = json!({"phase": "Bound", "accessModes": modes, "capacity": capacity});
        });
    }

    fn lose(&mut self, key: &ClaimKey, reason: &'static str, message: &str) {
        // Dumps seldom contain everything, so the volume probably exists.
        if self.provisioners == Provisioners::Floating {
            return;
        }
        self.report(key, CONTROLLER, Severity::Warning, reason, message.to_owned());
        self.set_claim_phase(key, "Lost");
    }

    pub(super) fn set_claim_phase(&mut self, key: &ClaimKey, phase: &str) {
        if self.claim(key).is_some_and(|claim| text(claim, "/status/phase") != phase) {
            self.change_claim(key, |claim| claim["status"] = json!({"phase": phase}));
        }
    }
}

/// Returns true if a claim and its volume are fully bound to each other.
fn is_bound(claim: &Value, volume: &Value) -> bool {
    let is_of = |object: &Value| text(object, "/status/phase") == "Bound";
    annotation(claim, BIND_COMPLETED).is_some()
        && is_of(claim)
        && is_of(volume)
        && !text(claim, "/spec/volumeName").is_empty()
        && volume.pointer("/spec/claimRef").is_some_and(|claimed| text(claimed, "/uid") == uid(claim))
        && claim.pointer("/status/capacity") == volume.pointer("/spec/capacity")
}

/// Returns the reason why a claim cannot have the volume that it names, in the controller's words.
fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<&'static str> {
    let allows = |mode| volume.access_modes.contains(mode);
    match () {
        () if matching::capacity(volume) < matching::requested(claim) => Some("requested PV is too small"),
        () if volume.class != claim.class => Some("storageClassName does not match"),
        () if volume.attributes_class != claim.attributes_class => {
            Some("volumeAttributesClassName does not match")
        }
        () if volume.volume_mode != claim.volume_mode => Some("incompatible volumeMode"),
        () if !claim.access_modes.iter().all(allows) => Some("incompatible accessMode"),
        () => None,
    }
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

pub(super) fn annotate(object: &mut Value, key: &str, value: &str) {
    object["metadata"]["annotations"][key] = value.into();
}
