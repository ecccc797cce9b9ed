//! Inventory of a cluster: nodes, pods and the other objects that plugins read, from manifests.

mod devices;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::OnceLock,
};

use harbormaster_api::{
    Labels, Node, Object, ObjectKind, Pod, Release, Str, Timestamp,
    features::{Feature, Features},
    node::LABEL_HOSTNAME,
    wire::{DecodeError, Decoder},
};
use harbormaster_core::{EngineConfig, Input, cache::Cache};
use harbormaster_framework::resource::{CustomKey, RawObject, ResourceKind, ResourceName};
use harbormaster_manifests::{
    ACCESS_PREFIX, Admitted, FieldProblem, Identity, Location, Manifest, ManifestError, ManifestErrors,
    Manifests, ReadOptions, Source, Validate,
    edits::Step,
    notices::{ignored_line, missing_nodes_line},
};
use harbormaster_validation::{
    admission,
    kinds::{self, Rules},
    value::{list, name, namespace, text, uid},
};
use harbormaster_world::{
    daemons::target,
    volumes::{Changes, ClaimEvent, Provisioners, Severity, Volumes, claim_key, pod_claims},
    workloads::{self, ExistingPods, Workload},
};
use rustc_hash::FxHashMap;
use serde_json::Value;

use self::devices::PodClaims;

/// Nodes, pods and the other objects that plugins read, in the order of the manifests.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Namespaces, services, workloads and disruption budgets.
    pub objects: Vec<Object>,
    /// The disruption budgets among the objects as written, with their amounts and status.
    pub budgets: Vec<Value>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Pods that are bound to a node.
    pub bound: Vec<Pod>,
    /// Pods that are not bound.
    pub pending: Vec<Pod>,
    /// Objects that plugins may read: objects of other built-in kinds, and custom resources whose definitions are among
    /// the manifests. [`Self::custom_notices`] reports the objects that no plugin reads.
    pub custom: Vec<CustomObject>,
    /// The claims and volumes among the objects, with the bindings that exist before the first pod is scheduled.
    pub volumes: Volumes,
    /// Group, version and plural of each resource that a CustomResourceDefinition among the manifests serves.
    pub served: Vec<[String; 3]>,
    /// Lines to show to the user in addition to the result.
    pub notices: Vec<String>,
    /// Number of objects that no plugin can read, by kind.
    pub ignored: BTreeMap<String, usize>,
    /// Number of objects whose kind no manifest defines, by version and kind.
    pub undefined: BTreeMap<(String, String), usize>,
    /// Number of pods on each missing node, by the node's name.
    pub missing_nodes: BTreeMap<String, usize>,
    /// Nodes and pods as written, each with the input that the engine gets for it. Collected only if [`Reading::full`]
    /// is set.
    pub full: Vec<(Input, Value)>,
    /// True if `full` is collected.
    pub keeps_full: bool,
}

/// An object that plugins may read, as an API server would store it.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomObject {
    /// API group of the object.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// The whole object, with the defaults of its schema.
    pub value: Value,
}

/// Settings for reading a cluster from manifests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Treatment of unknown fields.
    pub validate: Validate,
    /// True to create pods even for workloads from a dump that contains none of their pods.
    pub fill: bool,
    /// True to make pods on missing nodes pending again.
    pub reschedule_missing: bool,
    /// True to also keep nodes and pods as written, since extenders see all their fields.
    pub full: bool,
    /// Release and feature gates, which decide what kinds and fields exist.
    pub features: Features,
}

impl Inventory {
    /// Reads YAML or JSON: several documents, lists and dumps of `kubectl get -o yaml`. Creates the pods that the
    /// controllers of the workloads would create, except for those among the manifests.
    ///
    /// # Errors
    /// All mistakes, with file, line, object and field.
    pub fn from_sources(sources: &[Source], how: Reading) -> Result<Self, ManifestErrors> {
        Self::edited(sources, how, &[])
    }

    /// Reads like [`Self::from_sources`], and edits the manifests before the controllers of the workloads see them.
    ///
    /// # Errors
    /// All mistakes, with file, line, object and field, and edits of objects that do not exist.
    pub fn edited(sources: &[Source], how: Reading, edits: &[Step]) -> Result<Self, ManifestErrors> {
        let mut builder = Builder::new();
        builder.cluster.keeps_full = how.full;
        let options = ReadOptions {
            validate: how.validate,
            reschedule_missing: how.reschedule_missing,
            features: how.features,
            edits,
            ..ReadOptions::default()
        };
        let manifests = Manifests::read(sources, options, |manifest, value| builder.take(manifest, value))?;
        Ok(builder.finish(manifests, how.fill))
    }

    /// Takes nodes, pods and other objects as they are, and adds the defaults that scheduling depends on, as the API
    /// server of a release does.
    ///
    /// # Errors
    /// All mistakes, with the object's index in the list and the field.
    pub fn from_objects(objects: Vec<Value>, release: Release) -> Result<Self, ManifestErrors> {
        let mut decoder = Decoder::new().with_api_defaults();
        let (mut cluster, mut errors) = (Self::default(), Vec::new());
        for (document, mut value) in objects.into_iter().enumerate() {
            if value["kind"] == "Pod"
                && let Some(spec) = value.get_mut("spec")
            {
                admission::default_requests(spec, release);
            }
            let kind = value["kind"].as_str().unwrap_or_default();
            let wrong = |field: &str, message: &str| ManifestError {
                location: Location { document, ..Location::default() },
                line: None,
                object: kind.to_owned(),
                field: field.to_owned(),
                message: message.to_owned(),
            };
            if kind.is_empty() || name(&value).is_empty() {
                let is_object = if kind.is_empty() { "not a Kubernetes object" } else { "Required value" };
                errors.push(wrong(if kind.is_empty() { "" } else { "metadata.name" }, is_object));
            } else {
                match cluster.decode(&mut decoder, kind, &value) {
                    Ok(true) => {}
                    Ok(false) => cluster.custom.extend(of_own_kind(value)),
                    Err(e) => errors.push(wrong(&e.path, &e.problem)),
                }
            }
        }
        cluster.note_volumes();
        if errors.is_empty() { Ok(cluster) } else { Err(ManifestErrors(errors)) }
    }

    /// Collects claims and volumes, and the objects that they depend on, but does not bind any.
    fn note_volumes(&mut self) {
        self.volumes = Volumes::new(Provisioners::Floating);
        self.volumes.set_nodes(self.nodes.iter().map(|node| (node.name.clone(), node.labels.clone())));
        self.custom.iter().for_each(|object| self.volumes.put(&object.value));
    }

    /// Binds claims to the volumes that they get before the first pod is scheduled, and reports the claims that get
    /// none.
    fn settle_volumes(&mut self) {
        self.volumes.settle();
        let Changes { created, volumes, claims, deleted, events } = self.volumes.take_changes();
        let place = |object: &Value| {
            (text(object, "/apiVersion").to_owned(), text(object, "/kind").to_owned(), claim_key(object))
        };
        let mut changed: HashMap<_, Value> =
            volumes.into_iter().chain(claims).map(|object| (place(&object), object)).collect();
        let deleted: HashSet<_> = deleted.iter().map(place).collect();
        self.custom.retain(|object| !deleted.contains(&place(&object.value)));
        for object in &mut self.custom {
            if let Some(new) = changed.remove(&place(&object.value)) {
                object.value = new;
            }
        }
        self.custom.extend(created.into_iter().filter_map(of_own_kind));
        let stuck = events.into_iter().filter(|event| event.severity != Severity::Normal);
        self.notices.extend(stuck.map(|ClaimEvent { claim, message, .. }| {
            format!("PersistentVolumeClaim {}/{}: {message}", namespace(&claim), name(&claim))
        }));
    }

    /// Returns the objects of this kind in [`Self::custom`], in the same order.
    pub fn custom_of(&self, group: &str, kind: &str) -> impl Iterator<Item = &Value> {
        let all = self.custom.iter().filter(move |object| object.group == group && object.kind == kind);
        all.map(|object| &object.value)
    }

    /// Returns the objects of these kinds in [`Self::custom`] as inputs of the engine, in the same order.
    pub(crate) fn raw_objects(&self, kinds: &[ResourceKind]) -> Vec<RawObject> {
        // Two plugins may read the same object in different versions.
        let raw = |object: &CustomObject| {
            let named = kinds.iter().filter(|kind| self.serves(object, kind));
            let raw = named.map(|kind| {
                let key = CustomKey {
                    resource: kind.name().to_string().into(),
                    namespace: namespace(&object.value).into(),
                    name: name(&object.value).into(),
                };
                RawObject::from_json(key, object.value.to_string())
            });
            raw.collect::<Vec<_>>()
        };
        self.custom.iter().flat_map(raw).collect()
    }

    /// Returns true if an API server with these definitions serves the object as the given kind.
    fn serves(&self, object: &CustomObject, kind: &ResourceKind) -> bool {
        let ResourceName { plural, version, group } = kind.name();
        object.group == group
            && object.kind == kind.kind()
            && (self.served.iter().any(|served| *served == [group, version, plural])
                || own_kinds()
                    .iter()
                    .any(|own| own.group == group && own.version == version && own.plural == plural))
    }

    /// Returns notices about objects that plugins may read: the number of objects that no plugin reads, and the objects
    /// that plugins cannot decode.
    pub fn custom_notices(&self, config: &EngineConfig) -> Vec<String> {
        let (kinds, mut ignored) = (config.resources(), self.ignored.clone());
        // Admission reads priority classes, whether or not a plugin does.
        let is_class =
            |object: &CustomObject| object.kind == "PriorityClass" && object.group == "scheduling.k8s.io";
        let is_read = |object: &CustomObject| {
            is_class(object)
                || kinds.iter().any(|kind| self.serves(object, kind))
                || devices::is_template_read(object, &kinds)
        };
        for object in self.custom.iter().filter(|object| !is_read(object)) {
            *ignored.entry(object.kind.clone()).or_default() += 1;
        }
        let mut unread = Vec::new();
        for ((version, kind), count) in &self.undefined {
            let (group, _) = version.split_once('/').unwrap_or(("", version));
            match kinds.iter().find(|read| read.kind() == kind && read.name().group == group) {
                Some(read) => unread.push(format!(
                    "plugins of this configuration read {kind} of {version}, but {count} of them are left out: the input \
                     lacks the CustomResourceDefinition {}.{group}",
                    read.name().plural
                )),
                None => *ignored.entry(kind.clone()).or_default() += count,
            }
        }
        let mut cache = Cache::for_profiles(&config.profiles);
        for object in self.raw_objects(&kinds) {
            cache.cluster.set_custom(&object);
        }
        let undecodable = cache.cluster.take_undecodable();
        let undecodable = undecodable.iter().map(ToString::to_string);
        unread.into_iter().chain(ignored_line(&ignored)).chain(undecodable).collect()
    }

    /// Adds a node, a pod or an object of an [`ObjectKind`]. Returns false for any other kind.
    fn decode(&mut self, decoder: &mut Decoder, kind: &str, value: &Value) -> Result<bool, DecodeError> {
        match kind {
            "Node" => {
                let node = decoder.node_value(value)?;
                if self.keeps_full {
                    self.full.push((Input::Node(node.clone()), value.clone()));
                }
                self.nodes.push(node);
            }
            "Pod" => self.sort(decoder.pod_value(value)?, value),
            _ => match ObjectKind::of(value["apiVersion"].as_str().unwrap_or_default(), kind) {
                Some(kind) => {
                    self.objects.push(decoder.object_value(kind, value)?);
                    if kind == ObjectKind::PodDisruptionBudget {
                        self.budgets.push(value.clone());
                    }
                }
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    /// Adds a pod, unless it has finished.
    fn sort(&mut self, mut pod: Pod, value: &Value) {
        if pod.uid.is_empty() {
            pod.uid = pod.full_name().into();
        }
        if self.keeps_full && !pod.is_terminal() {
            self.full.push((Input::Pod(pod.clone()), value.clone()));
        }
        self.place(pod);
    }

    fn place(&mut self, mut pod: Pod) {
        if pod.is_terminal() {
            return;
        }
        if pod.uid.is_empty() {
            pod.uid = pod.full_name().into();
        }
        match &pod.node_name {
            Some(_) => self.bound.push(pod),
            None => self.pending.push(pod),
        }
    }
}

/// Collects objects one by one. Workloads wait until all pods and nodes are known.
struct Builder {
    decoder: Decoder,
    cluster: Inventory,
    workloads: Vec<Workload>,
    existing: ExistingPods,
    /// For each pending pod, the position of its manifest.
    orders: Vec<usize>,
    /// Claims of pods and workloads. The same claims may be among the manifests, too.
    claims: Vec<Value>,
    /// Pods with resource claims. Missing claims are created for them at the end, and removed pods lose their claims.
    devices: PodClaims,
    /// Pods that stand for others, decoded, by the address of what was decoded. `None` for those that must be taken as a
    /// whole.
    models: FxHashMap<*const Value, Option<Pod>>,
    /// The same for nodes.
    node_models: FxHashMap<*const Value, Option<Node>>,
}

impl Builder {
    fn new() -> Self {
        Self {
            decoder: Decoder::new(),
            cluster: Inventory::default(),
            workloads: Vec::new(),
            existing: ExistingPods::default(),
            orders: Vec::new(),
            claims: Vec::new(),
            devices: PodClaims::default(),
            models: FxHashMap::default(),
            node_models: FxHashMap::default(),
        }
    }

    fn take(&mut self, manifest: &Manifest, admitted: Admitted<'_>) -> Result<(), FieldProblem> {
        if let Admitted::Like { model, identity, .. } = admitted
            && self.take_like(manifest.kind.rules, model, identity)
        {
            self.orders.resize(self.cluster.pending.len(), manifest.order);
            return Ok(());
        }
        let mut value = admitted.into_value();
        let kind = &*manifest.kind;
        if kind.rules == Rules::Pod {
            self.existing.add(&value);
            self.claims.extend(claims_of_pod(&mut value));
            self.devices.add(&value);
        }
        let known = !kind.is_custom() && self.cluster.decode(&mut self.decoder, &kind.kind, &value)?;
        self.orders.resize(self.cluster.pending.len(), manifest.order);
        let may_be_named = !known && !workloads::is_workload(kind) && kind.rules != Rules::Definition;
        if may_be_named {
            let (group, kind) = (kind.group.clone(), kind.kind.clone());
            self.cluster.custom.push(CustomObject { group, kind, value });
            return Ok(());
        }
        if kind.rules == Rules::Definition {
            let kinds = admission::kinds_of_definition(&value, &value["spec"]["names"]).into_iter();
            self.cluster.served.extend(kinds.map(|kind| [kind.group, kind.version, kind.plural]));
        }
        if workloads::is_workload(kind) {
            let workload = Workload::new(manifest.label(), manifest.order, value)
                .map_err(|error| FieldProblem { field: error.field.to_owned(), message: error.message })?;
            self.workloads.push(workload);
        }
        Ok(())
    }

    /// Takes a pod or a node that differs from `model` in its identity. Returns false if it must be taken as a whole.
    fn take_like(&mut self, rules: Rules, model: &Value, identity: &Identity) -> bool {
        match rules {
            Rules::Pod => self.take_pod_like(model, identity),
            Rules::Node => self.take_node_like(model, identity),
            _ => false,
        }
    }

    fn take_node_like(&mut self, node: &Value, identity: &Identity) -> bool {
        let (decoder, keeps_full) = (&mut self.decoder, self.cluster.keeps_full);
        let model = self
            .node_models
            .entry(std::ptr::from_ref(node))
            .or_insert_with(|| if keeps_full { None } else { decoder.node_value(node).ok() });
        let Some(model) = model else { return false };
        let name: Str = identity.name.as_str().into();
        // The label with the node's own name differs, too.
        let renamed = |labels: &Labels| match labels.get(LABEL_HOSTNAME) {
            Some(host) if *host == model.name => {
                let own = |key: &Str| key.as_str() == LABEL_HOSTNAME;
                let pairs = labels.iter();
                pairs
                    .map(|(key, value)| (key.clone(), if own(key) { name.clone() } else { value.clone() }))
                    .collect()
            }
            _ => labels.clone(),
        };
        let (labels, annotations) = (renamed(&model.labels), renamed(&model.annotations));
        let uid = (&*identity.uid).into();
        self.cluster.nodes.push(Node { name: name.clone(), uid, labels, annotations, ..model.clone() });
        true
    }

    fn take_pod_like(&mut self, pod: &Value, identity: &Identity) -> bool {
        let Identity { name, uid, created, node, status, .. } = identity;
        let (decoder, keeps_full) = (&mut self.decoder, self.cluster.keeps_full);
        let model = self.models.entry(std::ptr::from_ref(pod)).or_insert_with(|| {
            let has_claims =
                !list(pod, "/spec/resourceClaims").is_empty() || pod_claims::of_pod(pod).next().is_some();
            let model = if has_claims || keeps_full { None } else { decoder.pod_value(pod).ok() };
            model.filter(|pod| !pod.spec.volumes.iter().any(|volume| volume.name.starts_with(ACCESS_PREFIX)))
        });
        let Some(model) = model else { return false };
        let created_at = Timestamp::parse(created).ok();
        let mut like =
            Pod { name: (&**name).into(), uid: (&**uid).into(), created: created_at, ..model.clone() };
        if !status.is_empty() {
            let Ok(pod) = self.decoder.pod(format!("{{\"status\":{status}}}").as_bytes()) else {
                return false;
            };
            like.status = pod.status;
        }
        if !node.is_empty() {
            like.node_name = Some(self.decoder.interner().intern(node));
        }
        let target = if node.is_empty() { target(pod).unwrap_or_default() } else { node };
        self.existing.add_like(pod, name, target, created);
        self.cluster.place(like);
        true
    }

    /// Creates the pods that workloads lack, settles claims and volumes, and returns the inventory.
    fn finish(mut self, mut manifests: Manifests, fill: bool) -> Inventory {
        let mut notices = std::mem::take(&mut manifests.warnings);
        notices.extend(missing_nodes_line(&manifests.missing_nodes));
        self.cluster.missing_nodes = std::mem::take(&mut manifests.missing_nodes);
        self.cluster.ignored = std::mem::take(&mut manifests.ignored);
        self.cluster.undefined = std::mem::take(&mut manifests.undefined);
        let kind = own_kinds().iter().find(|kind| kind.rules == Rules::Pod);
        let owners: HashSet<String> = self.workloads.iter().filter_map(Workload::owner).collect();
        let (mut left, mut left_pods) = (0, 0);
        let mut gone = HashSet::new();
        for workload in std::mem::take(&mut self.workloads) {
            // This workload owns workloads, such as ReplicaSets, that own its pods.
            if owners.contains(&workload.key) {
                continue;
            }
            let surplus = workload.surplus_pods(&self.existing);
            if !surplus.is_empty() {
                let (pods, wanted) = (surplus.len(), workload.replicas());
                notices.push(format!(
                    "{}: removed {pods} surplus pod(s), since spec.replicas is {wanted}",
                    workload.label
                ));
                gone.extend(surplus);
            }
            let pods = workload.missing_pods(&self.existing, &self.cluster.nodes, &mut self.decoder);
            if pods.is_empty() {
                continue;
            }
            let is_wanted = fill || manifests.scaled.contains(&workload.label);
            if workload.is_live && !is_wanted && !self.existing.any_of(&workload.key) {
                left += 1;
                left_pods += pods.len();
                continue;
            }
            if let Some(set) = workload.replica_set()
                && let Some(kind) = ObjectKind::of("apps/v1", "ReplicaSet")
                && let Ok(set) = self.decoder.object_value(kind, &set)
            {
                self.cluster.objects.push(set);
            }
            for mut pod in pods {
                let admitted = kind.map_or(Ok(()), |kind| manifests.admit(kind, &mut pod));
                match admitted.and_then(|()| self.decoder.pod_value(&pod).map_err(FieldProblem::from)) {
                    Ok(decoded) => {
                        self.claims.extend(workload.claims_of(name(&pod)));
                        self.claims.extend(claims_of_pod(&mut pod));
                        self.devices.add(&pod);
                        self.cluster.sort(decoded, &pod);
                        self.orders.resize(self.cluster.pending.len(), workload.order);
                    }
                    Err(FieldProblem { field, message }) => {
                        notices.push(format!(
                            "{}: its pods cannot be created: {field}: {message}",
                            workload.label
                        ));
                        break;
                    }
                }
            }
        }
        if left > 0 {
            notices.push(format!(
                "{left} workload(s) come from a cluster, but their pods are not in the input; --fill creates these \
                 {left_pods} pods"
            ));
        }
        self.cluster.notices = notices;
        self.remove(&gone);
        self.add_claims(&manifests);
        std::mem::take(&mut self.devices).settle(&mut self.cluster, &manifests, &gone);
        self.cluster.note_volumes();
        self.cluster.settle_volumes();
        let pending = std::mem::take(&mut self.cluster.pending);
        let mut pending: Vec<(usize, Pod)> = self.orders.into_iter().zip(pending).collect();
        pending.sort_by_key(|(order, _)| *order);
        self.cluster.pending = pending.into_iter().map(|(_, pod)| pod).collect();
        self.cluster
    }

    /// Removes the pods with these names.
    fn remove(&mut self, gone: &HashSet<String>) {
        if gone.is_empty() {
            return;
        }
        let stays = |pod: &Pod| !gone.contains(&pod.full_name());
        self.cluster.bound.retain(stays);
        self.cluster.full.retain(|(input, _)| !matches!(input, Input::Pod(pod) if !stays(pod)));
        let mut left = self.cluster.pending.iter().map(stays);
        self.orders.retain(|_| left.next().unwrap_or(true));
        self.cluster.pending.retain(stays);
    }

    /// Adds the claims of pods and workloads that are not among the manifests.
    fn add_claims(&mut self, manifests: &Manifests) {
        let Some(kind) = own_kinds().iter().find(|kind| kind.rules == Rules::Claim) else { return };
        let claims = self.cluster.custom_of(&kind.group, &kind.kind);
        let mut known: HashSet<_> = claims.map(claim_key).collect();
        for mut claim in std::mem::take(&mut self.claims) {
            if !known.insert(claim_key(&claim)) {
                continue;
            }
            match manifests.admit(kind, &mut claim) {
                Ok(()) => self.cluster.custom.extend(of_own_kind(claim)),
                Err(FieldProblem { field, message }) => {
                    let (namespace, name) = claim_key(&claim);
                    self.cluster.notices.push(format!(
                        "PersistentVolumeClaim {namespace}/{name} cannot be created: {field}: {message}"
                    ));
                }
            }
        }
    }
}

/// Returns the claims of a pod's ephemeral volumes. Gives the pod a UID if it has none, since the pod owns the claims.
fn claims_of_pod(pod: &mut Value) -> Vec<Value> {
    if uid(pod).is_empty() {
        pod["metadata"]["uid"] = format!("{}/{}", namespace(pod), name(pod)).into();
    }
    let is_finished = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if is_finished { Vec::new() } else { pod_claims::of_pod(pod).collect() }
}

/// Returns the built-in kinds of Kubernetes, including those that some releases or feature gates do not serve.
fn own_kinds() -> &'static [kinds::Kind] {
    static KINDS: OnceLock<Vec<kinds::Kind>> = OnceLock::new();
    let all = || Features::of(Release::NEWEST).with(Feature::GenericWorkload, true);
    KINDS.get_or_init(|| kinds::table(all()))
}

/// Returns an object of a built-in kind, which plugins can read without a definition, or `None` for any other kind.
fn of_own_kind(value: Value) -> Option<CustomObject> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let own = own_kinds().iter().find(|own| own.kind == kind && own.api_version() == version)?;
    Some(CustomObject { group: own.group.clone(), kind: own.kind.clone(), value })
}

#[cfg(test)]
mod tests;
