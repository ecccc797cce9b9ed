//! Resource claims: created from templates for pods and groups of pods, released and deleted when their pods are done and
//! their groups are gone. The decisions are those of [`harbormaster_world::devices`].

use std::collections::{HashMap, HashSet};

use harbormaster_apiserver::{Failure, Store};
use harbormaster_world::devices::{
    self, Entry, POD_GROUPS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Upkeep, Users,
};
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
    /// `None` if the API server does not serve groups of pods.
    groups: Option<Mirror>,
    /// Revisions of the mirrors at the last reconciliation.
    seen: [u64; 4],
    /// Last event of each pod and group, which is not sent again. Keyed by UID.
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
            groups: store.serves(POD_GROUPS).then(|| Mirror::new(store, POD_GROUPS)).transpose()?,
            seen: [0; 4],
            told: HashMap::new(),
        })
    }

    pub(super) async fn changed(&mut self) {
        let groups = async {
            match &mut self.groups {
                Some(groups) => groups.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.claims.changed() => {}
            () = self.templates.changed() => {}
            () = groups => {}
        }
    }

    pub(super) async fn catch_up(&mut self) {
        self.claims.catch_up().await;
        self.templates.catch_up().await;
        if let Some(groups) = &mut self.groups {
            groups.catch_up().await;
        }
    }

    pub(super) fn reconcile(&mut self, tools: &ControllerContext, pods: &Mirror) {
        let groups = self.groups.as_ref().map_or(0, Mirror::revision);
        let [claims, templates, of_pods] = [&self.claims, &self.templates, pods].map(Mirror::revision);
        let revisions = [claims, templates, of_pods, groups];
        if revisions == self.seen {
            return;
        }
        self.seen = revisions;
        for mirror in [&mut self.claims, &mut self.templates].into_iter().chain(&mut self.groups) {
            mirror.take_gone();
        }
        let has_claims = |user: &&Value| !list(user, "/spec/resourceClaims").is_empty();
        let groups = || self.groups.iter().flat_map(Mirror::all);
        let users = || groups().chain(pods.all()).filter(has_claims);
        let known: HashSet<&str> = users().map(uid).collect();
        self.told.retain(|uid, _| known.contains(uid.as_str()));
        let supply = Supply {
            store: &tools.store,
            claims: by_name(self.claims.all()),
            templates: by_name(self.templates.all()),
            groups: by_name(groups()),
            owned: OwnedObjects::new(self.claims.all()),
        };
        for user in users().filter(|user| !is_ending(user) && !devices::is_done(user)) {
            let failed = supply.claims_for(user).err();
            if let Some(message) = failed.filter(|message| self.told.get(uid(user)) != Some(message)) {
                let source = Source::controller("resource_claim");
                tools.events.tell(source, user, Kind::Warning, "FailedResourceClaimCreation", &message);
                self.told.insert(uid(user).to_owned(), message);
            }
        }
        let (pods, groups) = (by_name(pods.all()), self.groups.as_ref().map(|_| &supply.groups));
        for claim in self.claims.all() {
            keep_up(&tools.store, claim, &pods, groups);
        }
    }
}

fn by_name<'a>(objects: impl Iterator<Item = &'a Value>) -> Named<'a> {
    objects.map(|object| ((namespace(object), name(object)), object)).collect()
}

/// Creation of claims for pods and groups.
struct Supply<'a> {
    store: &'a Store,
    claims: Named<'a>,
    templates: Named<'a>,
    groups: Named<'a>,
    owned: OwnedObjects<'a>,
}

impl Supply<'_> {
    /// Creates the claims that a pod or a group lacks, records their names in its status and, if it is a bound pod,
    /// reserves its allocated claims.
    ///
    /// # Errors
    /// The message of an event, if a claim cannot be created.
    fn claims_for(&self, user: &Value) -> Result<(), String> {
        let group = match devices::group_of(user) {
            "" => None,
            name => match self.groups.get(&(namespace(user), name)) {
                // The group may be created later.
                None => return Ok(()),
                group => group.copied(),
            },
        };
        let find = |claim| self.claims.get(&(namespace(user), claim)).copied();
        let mut created = Vec::new();
        for entry in devices::entries(user) {
            let (entry, template) = match entry {
                Entry::Named(_) | Entry::Needless => continue,
                Entry::Generated { claim, .. }
                    if find(claim).is_some_and(|claim| {
                        devices::is_for(user, claim) || devices::is_for_group_of(user, claim)
                    }) =>
                {
                    continue;
                }
                Entry::Generated { entry, template, .. } | Entry::Wanted { entry, template } => {
                    (entry, template)
                }
            };
            let of_group = group.filter(|group| devices::is_of_group(user, entry, group));
            let own = self.owned.of(of_group.unwrap_or(user));
            let known =
                own.iter().find(|claim| devices::is_for_entry(of_group.unwrap_or(user), entry, claim));
            let name = match known {
                Some(claim) => name(claim).to_owned(),
                None if of_group.is_some() => continue,
                None => match self.create(user, entry, template)? {
                    Some(name) => name,
                    None => continue,
                },
            };
            created.push(json!({"name": entry, "resourceClaimName": name}));
        }
        if !created.is_empty() {
            carry_on(WHO, record(self.store, user, &created));
        }
        if text(user, "/spec/nodeName").is_empty() {
            return Ok(());
        }
        for (entry, claim) in list(user, "/spec/resourceClaims").iter().zip(devices::entries(user)) {
            let Some(claim) = claim.claim().and_then(find) else { continue };
            if devices::lacks_consumer(user, claim) {
                let of_group = group.filter(|group| devices::is_of_group(user, text(entry, "/name"), group));
                carry_on(WHO, reserve(self.store, of_group.unwrap_or(user), claim));
            }
        }
        Ok(())
    }

    /// Creates the claim for an entry. Returns its name; `None` if this must be tried again.
    fn create(&self, user: &Value, entry: &str, template: &str) -> Result<Option<String>, String> {
        let kind = if user["kind"] == "PodGroup" { "PodGroupResourceClaim" } else { "PodResourceClaim" };
        let wrong = |why: String| format!("{kind} {entry}: {why}");
        let found = self.templates.get(&(namespace(user), template));
        let missing = || {
            format!(
                "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
            )
        };
        let found = found.ok_or_else(|| wrong(missing()))?;
        match self.store.create(RESOURCE_CLAIMS, devices::of_template(user, entry, found)) {
            Ok(created) => Ok(Some(created.name().to_owned())),
            Err(failure) if is_passing(&failure) => Ok(None),
            Err(failure) => Err(wrong(format!("create ResourceClaim : {failure}"))),
        }
    }
}

/// Records the names of new claims in the status of a pod or a group.
fn record(store: &Store, user: &Value, created: &[Value]) -> Result<(), Failure> {
    let resource = if user["kind"] == "PodGroup" { POD_GROUPS } else { "pods" };
    let written = store.update_status(resource, namespace(user), name(user), |current| {
        if uid(current) != uid(user) {
            return;
        }
        let mut statuses = list(current, "/status/resourceClaimStatuses").to_vec();
        statuses.retain(|status| !created.iter().any(|new| new["name"] == status["name"]));
        statuses.extend_from_slice(created);
        current["status"]["resourceClaimStatuses"] = statuses.into();
    });
    written.map(drop)
}

fn reserve(store: &Store, user: &Value, claim: &Value) -> Result<(), Failure> {
    let written = store.update_status(RESOURCE_CLAIMS, namespace(claim), name(claim), |current| {
        if is_same(current, claim) {
            let mut consumers = list(current, "/status/reservedFor").to_vec();
            consumers.push(devices::consumer(user));
            current["status"]["reservedFor"] = consumers.into();
        }
    });
    written.map(drop)
}

/// Releases a claim from consumers that are done, and deletes the claim if it was created for a pod or a group that is
/// done. There are no `groups` if the API server does not serve them.
fn keep_up(store: &Store, claim: &Value, pods: &Named<'_>, groups: Option<&Named<'_>>) {
    // A consumer may be newer than the mirrors.
    let newer = |resource: &str, known: &Named<'_>| -> Vec<Value> {
        let owners = list(claim, "/metadata/ownerReferences").iter();
        let all = owners.chain(list(claim, "/status/reservedFor")).map(|of| text(of, "/name"));
        let missing = all.filter(|name| !known.contains_key(&(namespace(claim), name)));
        let found = missing.filter_map(|name| store.get(resource, namespace(claim), name).ok());
        found.map(|user| user.value()).collect()
    };
    let newer_groups = groups.map(|groups| newer(POD_GROUPS, groups)).unwrap_or_default();
    let users = Found { of: namespace(claim), pods, groups, newer: [newer("pods", pods), newer_groups] };
    let plan = devices::upkeep(claim, &users);
    if plan != Upkeep::default() {
        carry_on(WHO, carry_out(store, claim, plan));
    }
}

/// Pods and groups of a namespace.
struct Found<'a> {
    of: &'a str,
    pods: &'a Named<'a>,
    groups: Option<&'a Named<'a>>,
    /// Pods and groups that the mirrors do not have yet.
    newer: [Vec<Value>; 2],
}

impl<'a> Users<'a> for &'a Found<'a> {
    fn pod(&self, wanted: &str) -> Option<&'a Value> {
        let known = self.pods.get(&(self.of, wanted)).copied();
        known.or_else(|| self.newer[0].iter().find(|pod| name(pod) == wanted))
    }

    fn group(&self, wanted: &str) -> Option<&'a Value> {
        let known = self.groups?.get(&(self.of, wanted)).copied();
        known.or_else(|| self.newer[1].iter().find(|group| name(group) == wanted))
    }

    fn has_groups(&self) -> bool {
        self.groups.is_some()
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
