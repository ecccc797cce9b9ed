//! Phases of volumes: unclaimed volumes are available, and volumes whose claim is gone are released or deleted.

use harbormaster_plugins::storage::matching;
use harbormaster_validation::value::text;
use serde_json::Value;

use super::{
    Volumes,
    claiming::{BOUND_BY_CONTROLLER, annotation},
};

impl Volumes {
    /// Sets the phase of a volume, or deletes the volume. [`Self::settle_claim`] binds volumes to claims.
    pub fn settle_volume(&mut self, name: &str) {
        let Some(volume) = self.volumes.get(name).map(|kept| kept.read.clone()) else { return };
        if volume.metadata.deletion_timestamp.is_some() {
            return;
        }
        let Some(claimed) = &volume.claim_ref else { return self.set_phase(name, "Available") };
        let key = (claimed.namespace.to_string(), claimed.name.to_string());
        let claim = self.claims.get(&key).filter(|claim| matching::names(claimed, &claim.read));
        match claim.map(|claim| claim.read.volume_name.as_str()) {
            Some(has) if has == name => {}
            // The volume is reserved for the claim, which will be bound to it.
            Some("") if !claimed.uid.is_empty() => {}
            Some("") => self.set_phase(name, "Available"),
            Some(_) => self.give_back(name),
            // The volume is reserved for a claim that may still be created.
            None if claimed.uid.is_empty() => self.set_phase(name, "Available"),
            None => self.release(name),
        }
    }

    /// Handles a volume whose claim is gone. The volume's reclaim policy determines whether the volume is deleted, or
    /// kept because of its data.
    pub fn release(&mut self, name: &str) {
        let Some(volume) = self.volume(name) else { return };
        if text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
            let gone = self.take_volume(name);
            self.pending.deleted.extend(gone);
        } else {
            self.set_phase(name, "Released");
        }
    }

    /// Makes a volume available again because its claim has a different volume.
    fn give_back(&mut self, name: &str) {
        self.change_volume(name, |volume| {
            let was_free = annotation(volume, BOUND_BY_CONTROLLER).is_some();
            if let Some(Value::Object(spec)) = volume.get_mut("spec").filter(|_| was_free) {
                spec.remove("claimRef");
            }
            if let Some(Value::Object(claimed)) = volume.pointer_mut("/spec/claimRef") {
                claimed.retain(|field, _| field != "uid" && field != "resourceVersion");
            }
            if let Some(Value::Object(annotations)) = volume.pointer_mut("/metadata/annotations") {
                annotations.remove(BOUND_BY_CONTROLLER);
            }
            volume["status"]["phase"] = "Available".into();
        });
    }

    fn set_phase(&mut self, name: &str, phase: &str) {
        if self.volume(name).is_some_and(|volume| text(volume, "/status/phase") != phase) {
            self.change_volume(name, |volume| volume["status"]["phase"] = phase.into());
        }
    }
}
