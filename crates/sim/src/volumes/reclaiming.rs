//! What becomes of volumes: those that nobody claims are there for all, those whose claim is gone are kept or deleted.

use harbormaster_objects::value::text;
use harbormaster_plugins::storage::matching;
use serde_json::Value;

use super::{
    Volumes,
    claiming::{BOUND_BY_CONTROLLER, annotation},
};

impl Volumes {
    /// Decides what becomes of a volume. The claim that it is for says whether they are bound.
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
            // It was given to the claim, which is going to have it.
            Some("") if !claimed.uid.is_empty() => {}
            Some("") => self.set_phase(name, "Available"),
            Some(_) => self.give_back(name),
            // It is set aside for a claim that may still come.
            None if claimed.uid.is_empty() => self.set_phase(name, "Available"),
            None => self.release(name),
        }
    }

    /// The claim of the volume is gone: the volume goes as well, or waits for somebody to look after its data.
    pub fn release(&mut self, name: &str) {
        let Some(volume) = self.volume(name) else { return };
        if text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
            let gone = self.take_volume(name);
            self.open.deleted.extend(gone);
        } else {
            self.set_phase(name, "Released");
        }
    }

    /// Its claim has another volume.
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
