//! Resource claims: created from templates for the pods and groups of pods that want them, and taken from the pods that
//! have finished or are not kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use harbormaster_api::{Labels, Pod};
use harbormaster_core::Input;
use harbormaster_framework::resource::ResourceKind;
use harbormaster_manifests::{FieldProblem, Manifests};
use harbormaster_validation::{
    kinds::Rules,
    value::{list, name, namespace, remove, text, uid},
};
use harbormaster_world::devices::{self, Entry, Upkeep};
use serde_json::{Value, json};

use super::{CustomObject, Inventory, own_kinds};

const GROUP: &str = "resource.k8s.io";
const CLAIM: &str = "ResourceClaim";
const TEMPLATE: &str = "ResourceClaimTemplate";
const SCHEDULING: &str = "scheduling.k8s.io";
const POD_GROUP: &str = "PodGroup";

/// Returns true for a template of resource claims, if plugins read resource claims.
pub(super) fn is_template_read(object: &CustomObject, kinds: &[ResourceKind]) -> bool {
    let reads_claims = || kinds.iter().any(|kind| kind.kind() == CLAIM && kind.name().group == GROUP);
    object.group == GROUP && object.kind == TEMPLATE && reads_claims()
}

/// Namespace and name.
type Key = (String, String);

fn key(object: &Value) -> Key {
    (namespace(object).to_owned(), name(object).to_owned())
}

/// Pods with claims, reduced to the fields that matter here.
#[derive(Debug, Default)]
pub(super) struct PodClaims {
    pods: Vec<Value>,
}

impl PodClaims {
    /// Adds a pod, which must have a UID.
    pub(super) fn add(&mut self, pod: &Value) {
        if list(pod, "/spec/resourceClaims").is_empty() {
            return;
        }
        self.pods.push(json!({
            "metadata": {"name": name(pod), "namespace": namespace(pod), "uid": uid(pod)},
            "spec": {
                "resourceClaims": pod["spec"]["resourceClaims"],
                "schedulingGroup": pod["spec"]["schedulingGroup"],
            },
            "status": {"resourceClaimStatuses": list(pod, "/status/resourceClaimStatuses")},
        }));
    }

    /// Takes claims from pods that have finished or are not kept, and creates the claims that the other pods lack. `gone`
    /// contains the names of pods that are not kept.
    pub(super) fn settle(self, cluster: &mut Inventory, manifests: &Manifests, gone: &HashSet<String>) {
        let is_gone = |pod: &Value| gone.contains(&format!("{}/{}", namespace(pod), name(pod)));
        let (removed, pods): (Vec<Value>, Vec<Value>) = self.pods.into_iter().partition(is_gone);
        let removed = removed.iter().map(|pod| (namespace(pod), uid(pod)));
        let finished = manifests.finished.iter().map(|(namespace, uid)| (namespace.as_str(), uid.as_str()));
        for (namespace, uid) in removed.chain(finished) {
            give_back(cluster, namespace, uid);
        }
        let mut supply = Supply::of(cluster);
        supply.serve_groups(cluster, manifests);
        let names: HashMap<Key, Labels> = pods
            .iter()
            .filter_map(|pod| {
                let names = supply.names(pod, manifests);
                (!names.is_empty()).then(|| (key(pod), names.into_iter().collect()))
            })
            .collect();
        let Supply { created, missing, refused, .. } = supply;
        cluster.custom.extend(created);
        cluster.notices.extend(missing.into_iter().map(|((namespace, name), pods)| {
            format!("{TEMPLATE} {namespace}/{name} does not exist, so {pods} pod(s) that use it stay pending")
        }));
        cluster.notices.extend(refused);
        record(cluster, &names);
    }
}

/// Takes all claims from the pod with the given UID.
fn give_back(cluster: &mut Inventory, of: &str, pod: &str) {
    cluster.custom.retain_mut(|object| {
        let claim = &mut object.value;
        if object.kind != CLAIM || object.group != GROUP || namespace(claim) != of {
            return true;
        }
        let Upkeep { status, unprotect, delete } = devices::upkeep_without(claim, pod);
        if let Some(status) = status {
            claim["status"] = status;
        }
        if unprotect {
            devices::unprotect(claim);
        }
        !delete || !claim["status"]["allocation"].is_null()
    });
}

/// Creation of claims.
struct Supply {
    templates: HashMap<Key, Value>,
    /// Claims that belong to pods.
    owned: Vec<Value>,
    /// Names of all claims.
    known: HashSet<Key>,
    /// Groups with claims. Their statuses name the claims.
    groups: HashMap<Key, Value>,
    created: Vec<CustomObject>,
    /// Number of pods and groups that want each template that does not exist.
    missing: BTreeMap<Key, usize>,
    /// Reasons why claims cannot be created, one for each template.
    refused: BTreeSet<String>,
}

impl Supply {
    fn of(cluster: &Inventory) -> Self {
        let claims = || cluster.custom_of(GROUP, CLAIM);
        let templates = cluster.custom_of(GROUP, TEMPLATE).map(|template| (key(template), template.clone()));
        let is_owned = |claim: &&Value| !list(claim, "/metadata/ownerReferences").is_empty();
        Self {
            templates: templates.collect(),
            owned: claims().filter(is_owned).cloned().collect(),
            known: claims().map(key).collect(),
            groups: HashMap::new(),
            created: Vec::new(),
            missing: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Creates the claims that groups lack, and records their names in the groups' statuses.
    fn serve_groups(&mut self, cluster: &mut Inventory, manifests: &Manifests) {
        let is_group = |object: &CustomObject| object.group == SCHEDULING && object.kind == POD_GROUP;
        for CustomObject { value: group, .. } in cluster.custom.iter_mut().filter(|object| is_group(object)) {
            if list(group, "/spec/resourceClaims").is_empty() {
                continue;
            }
            if uid(group).is_empty() {
                group["metadata"]["uid"] = format!("{}/{}", namespace(group), name(group)).into();
            }
            let mut statuses = list(group, "/status/resourceClaimStatuses").to_vec();
            let names = self.names(group, manifests).into_iter();
            statuses.extend(names.map(|(entry, claim)| json!({"name": entry, "resourceClaimName": claim})));
            if !group["status"].is_object() {
                group["status"] = json!({});
            }
            group["status"]["resourceClaimStatuses"] = statuses.into();
            self.groups.insert(key(group), group.clone());
        }
    }

    /// Returns the entries of a pod or a group that have no claims yet, each with the name of the claim that it gets.
    fn names(&mut self, user: &Value, manifests: &Manifests) -> Vec<(String, String)> {
        let wanted = devices::entries(user).filter_map(|entry| match entry {
            Entry::Wanted { entry, template } => Some((entry, template)),
            _ => None,
        });
        let named = wanted.filter_map(|(entry, template)| {
            let claim = match self.of_group(user, entry) {
                Some(claim) => claim?,
                None => self.claim(user, entry, template, manifests)?,
            };
            Some((entry.to_owned(), claim))
        });
        named.collect()
    }

    /// Returns the name of the claim of a pod's group, if the entry belongs to the group.
    fn of_group(&self, pod: &Value, entry: &str) -> Option<Option<String>> {
        let group = self.groups.get(&(namespace(pod).to_owned(), devices::group_of(pod).to_owned()))?;
        devices::is_of_group(pod, entry, group).then(|| {
            let mut statuses = list(group, "/status/resourceClaimStatuses").iter();
            let claim = statuses.find(|status| status["name"] == entry);
            claim.map(|status| text(status, "/resourceClaimName").to_owned())
        })
    }

    /// Returns the name of the claim for an entry of a pod or a group. Creates the claim if it does not exist.
    fn claim(&mut self, user: &Value, entry: &str, template: &str, manifests: &Manifests) -> Option<String> {
        let own =
            |claim: &&Value| namespace(claim) == namespace(user) && devices::is_for_entry(user, entry, claim);
        if let Some(claim) = self.owned.iter().find(own) {
            return Some(name(claim).to_owned());
        }
        let of_template = (namespace(user).to_owned(), template.to_owned());
        let Some(template) = self.templates.get(&of_template) else {
            *self.missing.entry(of_template).or_default() += 1;
            return None;
        };
        let mut claim = devices::of_template(user, entry, template);
        let name = self.free_name(&claim);
        remove(&mut claim["metadata"], "generateName");
        claim["metadata"]["name"] = name.as_str().into();
        let kind = own_kinds().iter().find(|kind| kind.rules == Rules::ResourceClaim)?;
        if let Err(FieldProblem { field, message }) = manifests.admit(kind, &mut claim) {
            let (namespace, template) = of_template;
            self.refused.insert(format!(
                "claims from {TEMPLATE} {namespace}/{template} cannot be created: {field}: {message}"
            ));
            return None;
        }
        self.known.insert(key(&claim));
        self.created.push(CustomObject { group: GROUP.to_owned(), kind: CLAIM.to_owned(), value: claim });
        Some(name)
    }

    /// Returns an unused name for a new claim: the generated prefix, followed by a number if the prefix is taken.
    fn free_name(&self, claim: &Value) -> String {
        let prefix = text(claim, "/metadata/generateName").trim_end_matches('-');
        let is_free = |name: &String| !self.known.contains(&(namespace(claim).to_owned(), name.clone()));
        let numbered = (2..).map(|number| format!("{prefix}-{number}"));
        std::iter::once(prefix.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }
}

/// Records the names of new claims in the status of their pods.
fn record(cluster: &mut Inventory, names: &HashMap<Key, Labels>) {
    if names.is_empty() {
        return;
    }
    let new = |pod: &Pod| names.get(&(pod.namespace.to_string(), pod.name.to_string()));
    let put = |pod: &mut Pod| {
        if let Some(new) = new(pod) {
            let all = pod.status.resource_claims.iter().chain(new.iter());
            pod.status.resource_claims = all.map(|(entry, claim)| (entry.clone(), claim.clone())).collect();
        }
    };
    cluster.bound.iter_mut().chain(&mut cluster.pending).for_each(put);
    for (input, value) in &mut cluster.full {
        if let Input::Pod(pod) = input
            && let Some(new) = new(pod)
        {
            let mut statuses = list(value, "/status/resourceClaimStatuses").to_vec();
            statuses
                .extend(new.iter().map(|(entry, claim)| json!({"name": entry, "resourceClaimName": claim})));
            value["status"]["resourceClaimStatuses"] = statuses.into();
            put(pod);
        }
    }
}
