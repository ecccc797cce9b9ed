//! Claims and volumes: writes the decisions of [`harbormaster_world::volumes`] to the store, and sends their events.

use std::collections::HashMap;

use harbormaster_apiserver::{Failure, Store};
use harbormaster_world::volumes::{CLAIMS, Changes, ClaimEvent, Provisioners, Severity, VOLUMES, Volumes};
use serde_json::Value;

use super::ControllerContext;
use crate::{
    events::{Kind, Source},
    fields::{labels, name, namespace, uid},
    mirror::Mirror,
    sandbox::{SandboxError, carry_on},
};

const WHO: &str = "The volume controller";

/// Stand-in for the controllers of claims and volumes and, if enabled, for the provisioners of all classes.
#[derive(Debug)]
pub(super) struct VolumeControllers {
    claims: Mirror,
    volumes: Mirror,
    classes: Mirror,
    drivers: Mirror,
    state: Volumes,
    /// Revisions of the mirrors at the last reconciliation.
    seen: [u64; 5],
    /// Last event of each claim, which is not sent again. Keyed by claim UID.
    told: HashMap<String, (&'static str, String)>,
}

impl VolumeControllers {
    /// # Errors
    /// If a resource cannot be watched.
    pub(super) fn new(store: &Store) -> Result<Self, SandboxError> {
        Ok(Self {
            claims: Mirror::new(store, CLAIMS)?,
            volumes: Mirror::new(store, VOLUMES)?,
            classes: Mirror::new(store, "storageclasses.storage.k8s.io")?,
            drivers: Mirror::new(store, "csinodes.storage.k8s.io")?,
            state: Volumes::default(),
            seen: [0; 5],
            told: HashMap::new(),
        })
    }

    /// Enables the provisioning of volumes.
    pub(super) fn provision(&mut self) {
        self.state = Volumes::new(Provisioners::Ready);
    }

    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = self.claims.changed() => {}
            () = self.volumes.changed() => {}
            () = self.classes.changed() => {}
            () = self.drivers.changed() => {}
        }
    }

    /// Brings all mirrors up to date, volumes before claims, so that every claim that a volume refers to is known,
    /// unless the claim has been deleted.
    pub(super) async fn catch_up(&mut self) {
        for mirror in [&mut self.volumes, &mut self.claims, &mut self.classes, &mut self.drivers] {
            mirror.catch_up().await;
        }
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = &Value> {
        self.claims.all()
    }

    pub(super) fn reconcile(&mut self, tools: &ControllerContext, nodes: &Mirror) {
        let mirrors = [&self.claims, &self.volumes, &self.classes, &self.drivers, nodes];
        let revisions = mirrors.map(Mirror::revision);
        if revisions == self.seen {
            return;
        }
        if revisions[4] != self.seen[4] {
            self.state.set_nodes(nodes.all().map(|node| (name(node).into(), labels(node))));
        }
        self.seen = revisions;
        for mirror in [&mut self.claims, &mut self.volumes, &mut self.classes, &mut self.drivers] {
            for gone in mirror.take_gone() {
                self.told.remove(uid(&gone));
                self.state.remove(&gone);
            }
            mirror.all().for_each(|object| self.state.put(object));
        }
        self.state.settle();
        let changes = self.state.take_changes();
        self.carry_out(tools, changes);
    }

    fn carry_out(&mut self, tools: &ControllerContext, changes: Changes) {
        let Changes { created, volumes, claims, deleted, events } = changes;
        let store = &tools.store;
        for volume in created {
            carry_on(WHO, store.create(VOLUMES, volume).map(|_| ()));
        }
        for (resource, objects) in [(VOLUMES, volumes), (CLAIMS, claims)] {
            for object in objects {
                carry_on(WHO, write(store, resource, &object));
            }
        }
        for volume in deleted {
            carry_on(WHO, store.delete(VOLUMES, "", name(&volume), None));
        }
        for event in events {
            self.report(tools, event);
        }
    }

    fn report(&mut self, tools: &ControllerContext, event: ClaimEvent) {
        let ClaimEvent { claim, component, severity, reason, message } = event;
        let last = self.told.get(uid(&claim));
        if last.is_some_and(|(told, words)| *told == reason && *words == message) {
            return;
        }
        let kind = if severity == Severity::Warning { Kind::Warning } else { Kind::Normal };
        tools.events.tell(Source::controller(&component), &claim, kind, reason, &message);
        self.told.insert(uid(&claim).to_owned(), (reason, message));
    }
}

/// Writes an object and its status, unless the object has changed in the meantime.
fn write(store: &Store, resource: &str, object: &Value) -> Result<(), Failure> {
    let (namespace, name) = (namespace(object), name(object));
    store.update(resource, namespace, name, |current| *current = object.clone())?;
    store.update_status(resource, namespace, name, |current| {
        if uid(current) == uid(object) {
            current["status"] = object["status"].clone();
        }
    })?;
    Ok(())
}

/// Creates a claim unless it exists. Returns true if it was created.
pub(super) fn create_claim(store: &Store, claim: Value) -> bool {
    if store.get(CLAIMS, namespace(&claim), name(&claim)).is_ok() {
        return false;
    }
    let created = store.create(CLAIMS, claim);
    let is_created = created.is_ok();
    carry_on(WHO, created.map(|_| ()));
    is_created
}
