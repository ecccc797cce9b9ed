//! Resource claims: created from templates for pods, released and deleted when their pods are done. The decisions are
//! those of [`harbormaster_world::devices`].

use std::collections::{HashMap, HashSet};

use harbormaster_apiserver::{Failure, Store};
use harbormaster_world::devices::{self, Entry, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Upkeep};
use serde_json::{Value, json};

use super::{ControllerContext, OwnedObjects};
use crate::{
    events::{Kind, Source},
    fields::{is_ending, list, name, namespace, text, uid},
    mirror::Mirror,
    sandbox::{SandboxError, carry_on, is_passing},
};

const WHO: &str = "The resource claim controller";

/// Stand-in for the resource claim controller.
#[derive(Debug)]
pub(super) struct ResourceClaims {
    claims: Mirror,
    templates: Mirror,
    /// Revisions of the mirrors at the last reconciliation.
    seen: [u64; 3],
    /// Last event of each pod, which is not sent again. Keyed by pod UID.
    told: HashMap<String, String>,
}

/// Objects by namespace and name.
type Named<'a> = HashMap<(&'a str, &'a str), &'a Value>;

impl ResourceClaims {
    /// # Errors
    /// If a resource cannot be watched.
    pub(super) fn new(store: &Store) -> Result<Self, SandboxError> {
        Ok(Self {
            claims: Mirror::new(store, RESOURCE_CLAIMS)?,
            templates: Mirror::new(store, RESOURCE_CLAIM_TEMPLATES)?,
            seen: [0; 3],
            told: HashMap::new(),
        })
    }

    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = self.claims.changed() => {}
            () = self.templates.changed() => {}
        }
    }

    pub(super) async fn catch_up(&mut self) {
        self.claims.catch_up().await;
        self.templates.catch_up().await;
    }

    pub(super) fn reconcile(&mut self, tools: &ControllerContext, pods: &Mirror) {
        let revisions = [&self.claims, &self.templates, pods].map(Mirror::revision);
        if revisions == self.seen {
            return;
        }
        self.seen = revisions;
        self.claims.take_gone();
        self.templates.take_gone();
        let with_claims = || pods.all().filter(|pod| !list(pod, "/spec/resourceClaims").is_empty());
        let known: HashSet<&str> = with_claims().map(uid).collect();
        self.told.retain(|uid, _| known.contains(uid.as_str()));
        let owned = OwnedObjects::new(self.claims.all());
        let (claims, templates) = (by_name(self.claims.all()), by_name(self.templates.all()));
        for pod in with_claims().filter(|pod| !is_ending(pod) && !devices::is_done(pod)) {
            let failed = supply(&tools.store, pod, &claims, &templates, owned.of(pod)).err();
            if let Some(message) = failed.filter(|message| self.told.get(uid(pod)) != Some(message)) {
                let source = Source::controller("resource_claim");
                tools.events.tell(source, pod, Kind::Warning, "FailedResourceClaimCreation", &message);
                self.told.insert(uid(pod).to_owned(), message);
            }
        }
        let pods = by_name(pods.all());
        for claim in self.claims.all() {
            keep_up(&tools.store, claim, &pods);
        }
    }
}

fn by_name<'a>(objects: impl Iterator<Item = &'a Value>) -> Named<'a> {
    objects.map(|object| ((namespace(object), name(object)), object)).collect()
}

/// Creates the claims that a pod lacks, records their names in the pod's status and, if the pod is bound, reserves the
/// pod's allocated claims for the pod. `own` contains the claims that were created for the pod.
///
/// # Errors
/// The message of an event, if a claim cannot be created.
fn supply(
    store: &Store,
    pod: &Value,
    claims: &Named<'_>,
    templates: &Named<'_>,
    own: &[&Value],
) -> Result<(), String> {
    let find = |claim| claims.get(&(namespace(pod), claim)).copied();
    let mut created = Vec::new();
    for entry in devices::entries(pod) {
        let (entry, template) = match entry {
            Entry::Named(_) | Entry::Needless => continue,
            Entry::Generated { claim, .. }
                if find(claim).is_some_and(|claim| devices::is_for(pod, claim)) =>
            {
                continue;
            }
            Entry::Generated { entry, template, .. } | Entry::Wanted { entry, template } => (entry, template),
        };
        let name = match own.iter().find(|claim| devices::is_for_entry(pod, entry, claim)) {
            Some(claim) => name(claim).to_owned(),
            None => {
                let wrong = |why: String| format!("PodResourceClaim {entry}: {why}");
                let found = templates.get(&(namespace(pod), template));
                let missing = || {
                    format!(
                        "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
                    )
                };
                let found = found.ok_or_else(|| wrong(missing()))?;
                match store.create(RESOURCE_CLAIMS, devices::of_template(pod, entry, found)) {
                    Ok(created) => created.name().to_owned(),
                    Err(failure) if is_passing(&failure) => continue,
                    Err(failure) => return Err(wrong(format!("create ResourceClaim : {failure}"))),
                }
            }
        };
        created.push(json!({"name": entry, "resourceClaimName": name}));
    }
    if !created.is_empty() {
        carry_on(WHO, record(store, pod, &created));
    }
    if text(pod, "/spec/nodeName").is_empty() {
        return Ok(());
    }
    for claim in devices::entries(pod).filter_map(Entry::claim).filter_map(find) {
        if devices::lacks_consumer(pod, claim) {
            carry_on(WHO, reserve(store, pod, claim));
        }
    }
    Ok(())
}

/// Records the names of new claims in the pod's status.
fn record(store: &Store, pod: &Value, created: &[Value]) -> Result<(), Failure> {
    let written = store.update_status("pods", namespace(pod), name(pod), |current| {
        if uid(current) != uid(pod) {
            return;
        }
        let mut statuses = list(current, "/status/resourceClaimStatuses").to_vec();
        statuses.retain(|status| !created.iter().any(|new| new["name"] == status["name"]));
        statuses.extend_from_slice(created);
        current["status"]["resourceClaimStatuses"] = statuses.into();
    });
    written.map(drop)
}

fn reserve(store: &Store, pod: &Value, claim: &Value) -> Result<(), Failure> {
    let written = store.update_status(RESOURCE_CLAIMS, namespace(claim), name(claim), |current| {
        if is_same(current, claim) {
            let mut consumers = list(current, "/status/reservedFor").to_vec();
            consumers.push(devices::consumer(pod));
            current["status"]["reservedFor"] = consumers.into();
        }
    });
    written.map(drop)
}

/// Releases a claim from consumers that are done, and deletes the claim if it was created for a pod that is done.
fn keep_up(store: &Store, claim: &Value, pods: &Named<'_>) {
    // A consumer may be newer than the mirror of pods.
    let newer = |wanted: &str| store.get("pods", namespace(claim), wanted).ok().map(|pod| pod.value());
    let missing: Vec<Value> = {
        let owners = list(claim, "/metadata/ownerReferences").iter();
        let all = owners.chain(list(claim, "/status/reservedFor")).map(|of| text(of, "/name"));
        all.filter(|name| !pods.contains_key(&(namespace(claim), name))).filter_map(newer).collect()
    };
    let pod = |wanted: &str| {
        let known = pods.get(&(namespace(claim), wanted)).copied();
        known.or_else(|| missing.iter().find(|pod| name(pod) == wanted))
    };
    let plan = devices::upkeep(claim, pod);
    if plan != Upkeep::default() {
        carry_on(WHO, carry_out(store, claim, plan));
    }
}

fn carry_out(store: &Store, claim: &Value, plan: Upkeep) -> Result<(), Failure> {
    let (namespace, name) = (namespace(claim), name(claim));
    let mut version = text(claim, "/metadata/resourceVersion").to_owned();
    if let Some(status) = plan.status {
        let written = store.update_status(RESOURCE_CLAIMS, namespace, name, |current| {
            if is_same(current, claim) {
                current["status"] = status.clone();
            }
        })?;
        version = text(&written.value(), "/metadata/resourceVersion").to_owned();
    }
    if plan.unprotect {
        store.update(RESOURCE_CLAIMS, namespace, name, |current| {
            if text(current, "/metadata/resourceVersion") == version
                && current.pointer("/status/allocation").is_none()
            {
                devices::unprotect(current);
            }
        })?;
    }
    if plan.delete { store.delete(RESOURCE_CLAIMS, namespace, name, None) } else { Ok(()) }
}

/// Returns true if an object has not changed since it was mirrored.
fn is_same(current: &Value, mirrored: &Value) -> bool {
    let version = |object| text(object, "/metadata/resourceVersion").to_owned();
    version(current) == version(mirrored)
}
