//! From the text of manifests to the objects that an API server would store.
//!
//! Every object that is kept is checked twice: first in its written form (kind, types, unknown fields) and then, once
//! all objects are known, by the rules of the API server ([`harbormaster_validation::admission`]).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    str::FromStr,
    sync::Arc,
};

use harbormaster_api::{
    features::Features,
    similar::{similar, suggestion},
};
use harbormaster_validation::{
    FieldError, Kind, admission,
    kinds::{self, REVIEW, Rules},
    schema::{self, Misfits},
    value::{has_condition, list, name, namespace, text, uid},
};
use harbormaster_yaml::Source;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use self::units::Shapes;
use crate::{
    admission::Classes,
    documents::{self, DocumentObject, DocumentTrees, Location},
    dump::{self, Dump},
    edits::{self, Edited, Step},
    error::{self, FieldProblem, ManifestError, ManifestErrors, problems},
    notices::{ignored_line, missing_nodes_line, shortened},
    older_versions, parallel, scaling,
    shape::{Identity, Shape},
};

/// Treatment of fields that are unknown or given twice, with the values of `kubectl --validate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validate {
    /// Unknown and repeated fields are errors.
    #[default]
    Strict,
    /// Unknown and repeated fields are warnings.
    Warn,
    /// Unknown and repeated fields are dropped silently.
    Ignore,
}

impl FromStr for Validate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "strict" | "true" => Ok(Self::Strict),
            "warn" => Ok(Self::Warn),
            "ignore" | "false" => Ok(Self::Ignore),
            _ => Err("must be one of strict, warn, ignore, true, false".to_owned()),
        }
    }
}

/// Settings for reading manifests.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions<'a> {
    /// Treatment of unknown and repeated fields.
    pub validate: Validate,
    /// True if pods on missing nodes become pending again. DaemonSet and static pods are removed instead.
    pub reschedule_missing: bool,
    /// Names of nodes that exist in addition to those of the manifests.
    pub extra_nodes: &'a [String],
    /// Release and feature gates of the API server whose kinds and rules apply.
    pub features: Features,
    /// Changes to make to the objects, one after the other.
    pub edits: &'a [Step],
}

/// Number of objects to which the API server's rules are applied at a time.
const BATCH: usize = 4096;

/// An object in the form in which an API server would store it.
pub enum Admitted<'a> {
    /// The object.
    Whole(Value),
    /// A pod or a node like another one.
    Like {
        /// The other object. All objects that resemble it have the same reference.
        model: &'a Value,
        /// What distinguishes this object from the other one.
        identity: &'a Identity,
        /// Returns this object.
        whole: &'a dyn Fn() -> Value,
    },
}

impl Admitted<'_> {
    /// Returns the object.
    pub fn into_value(self) -> Value {
        match self {
            Self::Whole(value) => value,
            Self::Like { whole, .. } => whole(),
        }
    }
}

/// An object of a manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Kind of the object.
    pub kind: Arc<Kind>,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Location in the input. An object that was restored because a dump lacks it has the default location.
    pub location: Location,
    /// Number of earlier objects in the input; `usize::MAX` for a restored object.
    pub order: usize,
    /// Node that the pod is bound to.
    node: Option<Box<str>>,
    content: Content,
}

/// Content of an object, stored so as to save memory.
#[derive(Clone, Debug)]
enum Content {
    /// The object as JSON.
    Json(Box<str>),
    /// A pod or a node like another one.
    Like { shape: Arc<Shape>, identity: Box<Identity> },
}

impl Manifest {
    pub(crate) fn new(kind: Arc<Kind>, value: &Value, location: Location) -> Self {
        Self::encoded(kind, value, value.to_string().into(), location)
    }

    /// Returns an object whose JSON is `json`.
    fn encoded(kind: Arc<Kind>, value: &Value, json: Box<str>, location: Location) -> Self {
        let (namespace, name) = (namespace(value).to_owned(), name(value).to_owned());
        let node = text(value, "/spec/nodeName");
        let node = (kind.rules == Rules::Pod && !node.is_empty()).then(|| node.into());
        Self { kind, namespace, name, location, order: usize::MAX, node, content: Content::Json(json) }
    }

    /// Returns the same manifest with new content.
    pub(crate) fn with(&self, value: &Value) -> Self {
        Self { order: self.order, ..self.another(value) }
    }

    /// Returns another object of the same kind, which follows all objects of the input.
    pub(crate) fn another(&self, value: &Value) -> Self {
        Self::new(self.kind.clone(), value, self.location.clone())
    }

    /// Returns the node that the pod is bound to.
    pub(crate) fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Returns true if the text of the object contains a word. This is faster than decoding the object.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        match &self.content {
            Content::Json(json) => json.contains(word),
            Content::Like { shape, identity } => shape.mentions(word) || identity.mentions(word),
        }
    }

    /// Returns the object as written, without the fields that only a server sets.
    pub fn value(&self) -> Value {
        match &self.content {
            // This module encoded the JSON, so decoding cannot fail.
            Content::Json(json) => serde_json::from_str(json).unwrap_or_default(),
            Content::Like { shape, identity } => {
                let mut value = serde_json::from_str(&shape.json(identity)).unwrap_or_default();
                checked(&self.kind, &mut value);
                value
            }
        }
    }

    /// Returns the kind and name: `Pod default/web`.
    pub fn label(&self) -> String {
        label(&self.kind, &self.namespace, &self.name)
    }

    /// Returns the kind's position in the order of kinds: owners come before the objects that they own.
    fn rank(&self) -> u8 {
        match (self.kind.rules, self.kind.kind.as_str()) {
            (Rules::Namespace, _) => 0,
            (Rules::PriorityClass | Rules::Definition, _) => 1,
            (Rules::Pod, _) => 6,
            (Rules::Workload, "Deployment") | (Rules::CronJob, _) => 4,
            (Rules::Workload | Rules::Job, _) => 5,
            _ if self.kind.is_namespaced() => 3,
            _ => 2,
        }
    }
}

fn label(kind: &Kind, namespace: &str, name: &str) -> String {
    match (namespace, name) {
        (_, "") => kind.kind.clone(),
        ("", name) => [&kind.kind, " ", name].concat(),
        (namespace, name) => [&kind.kind, " ", namespace, "/", name].concat(),
    }
}

/// All objects from manifests, owners before the objects that they own.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The objects.
    pub objects: Vec<Manifest>,
    /// Number of ignored objects by kind.
    pub ignored: BTreeMap<String, usize>,
    /// Number of objects whose kind has no definition in the input, by version and kind.
    pub undefined: BTreeMap<(String, String), usize>,
    /// Warnings for the user; one line each.
    pub warnings: Vec<String>,
    /// Number of pods on each missing node. Empty if these pods become pending again.
    pub missing_nodes: BTreeMap<String, usize>,
    /// Namespace and UID of each pod with resource claims that does not use them any more: it has finished, or edits
    /// took it from its node.
    pub finished: Vec<(String, String)>,
    /// Labels of workloads that an edit scaled. Their missing pods are created even if the workload is from a cluster.
    pub scaled: HashSet<String>,
    classes: Classes,
    features: Features,
}

impl Manifests {
    /// Reads YAML or JSON: any number of documents, including lists and dumps from `kubectl get -o yaml`. Calls `each`
    /// once for every object that the API server's rules accept, in the form in which an API server would store it;
    /// `each` may still refuse the object.
    ///
    /// # Errors
    /// All mistakes, with file, line, object and field.
    pub fn read(
        sources: &[Source],
        options: ReadOptions<'_>,
        mut each: impl FnMut(&Manifest, Admitted<'_>) -> Result<(), FieldProblem>,
    ) -> Result<Self, ManifestErrors> {
        Self::read_from(sources, vec![false; sources.len()], options, &mut each)
    }

    /// Reads the sources. `as_one_piece` tells which of them are not read unit by unit.
    fn read_from(
        sources: &[Source],
        mut as_one_piece: Vec<bool>,
        options: ReadOptions<'_>,
        each: &mut dyn FnMut(&Manifest, Admitted<'_>) -> Result<(), FieldProblem>,
    ) -> Result<Self, ManifestErrors> {
        let mut reader = loop {
            let mut reader = Reader::new(options);
            let mut files = sources.iter().zip(&as_one_piece);
            // What has been read of a file must not count twice, so everything is read again.
            match files.position(|(source, as_one_piece)| !reader.file(source, *as_one_piece)) {
                None => break reader,
                Some(i) => as_one_piece[i] = true,
            }
        };
        reader.custom_resources();
        reader.complete(options.edits);
        reader.check_nodes(options);
        reader.admit(each);
        reader.finish(sources)
    }

    /// Applies the API server's rules to a new object of a kind. The object may name classes from the manifests.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn admit(&self, kind: &Kind, object: &mut Value) -> Result<(), FieldProblem> {
        let admitted = self.classes.admission(kind, self.features).create(object);
        admitted.map_err(|refusal| problems(refusal).into_iter().next().unwrap_or_default())
    }

    /// Returns the warnings, and lines about ignored objects and missing nodes.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = self.warnings.clone();
        let mut ignored = self.ignored.clone();
        for ((_, kind), count) in &self.undefined {
            *ignored.entry(kind.clone()).or_default() += count;
        }
        notices.extend(ignored_line(&ignored));
        notices.extend(missing_nodes_line(&self.missing_nodes));
        notices
    }
}

struct Reader {
    validate: Validate,
    kinds: Vec<Arc<Kind>>,
    /// Objects of unknown kinds. Their custom resource definitions may follow later in the input.
    unknown: Vec<(DocumentObject, Value)>,
    manifests: Manifests,
    /// Positions in `manifests.objects` by label.
    positions: FxHashMap<String, usize>,
    /// Number of names generated for each prefix.
    generated: HashMap<String, usize>,
    dump: Dump,
    /// Labels of objects that later objects replace, by the files of the earlier and the later object.
    replaced: BTreeMap<(Arc<str>, Arc<str>), Vec<String>>,
    errors: Vec<ManifestError>,
    warnings: Vec<ManifestError>,
    /// Number of unknown and repeated fields, including those that are dropped silently.
    doubts: usize,
    shapes: Shapes,
}

/// An object whose written form has been checked.
struct Prepared {
    object: DocumentObject,
    value: Value,
    outcome: Outcome,
}

enum Outcome {
    /// The text is no object of a kind.
    Wrong(&'static str),
    /// The kind is not known yet.
    Unknown,
    Known(Arc<Kind>, Checked),
}

/// Result of the check of an object's written form.
#[derive(Default)]
struct Checked {
    misfits: Misfits,
    is_over: bool,
    is_unnamed: bool,
    /// The object as JSON, if its form is right and it has a name.
    json: Box<str>,
}

impl Reader {
    fn new(options: ReadOptions<'_>) -> Self {
        let ReadOptions { validate, features, .. } = options;
        Self {
            validate,
            kinds: kinds::table(features).into_iter().map(Arc::new).collect(),
            unknown: Vec::new(),
            manifests: Manifests { features, ..Manifests::default() },
            positions: FxHashMap::default(),
            generated: HashMap::new(),
            dump: Dump::default(),
            replaced: BTreeMap::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            doubts: 0,
            shapes: Shapes::default(),
        }
    }

    /// Reads a file, as one piece or unit by unit. Returns false if the file must be read as one piece.
    fn file(&mut self, source: &Source, as_one_piece: bool) -> bool {
        let file: Arc<str> = source.name.as_str().into();
        if !as_one_piece {
            return self.units(&file, &source.text).is_some();
        }
        match documents::read_yaml(&file, &source.text) {
            Ok(objects) => {
                for object in objects {
                    let prepared = self.prepare(object);
                    self.take(prepared);
                }
            }
            Err(error) => self.errors.push(ManifestError {
                location: Location { file, document: error.document, ..Location::default() },
                line: error.line,
                object: String::new(),
                field: String::new(),
                message: error.message,
            }),
        }
        true
    }

    /// Checks the written form of an object.
    fn prepare(&self, object: DocumentObject) -> Prepared {
        let mut value = object.value();
        older_versions::upgrade(&mut value);
        let outcome = match value.get("kind") {
            Some(Value::String(kind)) if !kind.is_empty() => {
                match self.kind_of(text(&value, "/apiVersion"), kind) {
                    Some(kind) => {
                        let checked = checked(&kind, &mut value);
                        Outcome::Known(kind, checked)
                    }
                    None => Outcome::Unknown,
                }
            }
            _ if value.is_object() => Outcome::Wrong("Object 'Kind' is missing"),
            _ => Outcome::Wrong("not a Kubernetes object"),
        };
        Prepared { object, value, outcome }
    }

    fn take(&mut self, prepared: Prepared) {
        let Prepared { object, value, outcome } = prepared;
        match outcome {
            Outcome::Wrong(problem) => self.error(&object.location, String::new(), "", problem),
            Outcome::Unknown => self.unknown.push((object, value)),
            Outcome::Known(kind, checked) => self.known(&kind, object, value, checked),
        }
    }

    /// Finds a kind by name. An object without a version gets the version of Kubernetes' own kind, unless validation is
    /// strict.
    fn kind_of(&self, version: &str, kind: &str) -> Option<Arc<Kind>> {
        let mut kinds = self.kinds.iter().filter(|known| known.kind == kind);
        if version.is_empty() && self.validate != Validate::Strict {
            return kinds.next().cloned();
        }
        kinds.find(|known| known.api_version() == version).cloned()
    }

    /// Handles objects of unknown kinds: custom resources with a definition in the manifests, ignored kinds, and
    /// mistakes.
    fn custom_resources(&mut self) {
        let definitions =
            self.manifests.objects.iter().filter(|object| object.kind.rules == Rules::Definition);
        let custom = definitions.flat_map(|definition| {
            let definition = definition.value();
            admission::kinds_of_definition(&definition, &definition["spec"]["names"])
        });
        let custom: Vec<Arc<Kind>> = custom.map(Arc::new).collect();
        self.kinds.extend(custom);
        for (object, mut value) in std::mem::take(&mut self.unknown) {
            let (version, kind) = (text(&value, "/apiVersion"), text(&value, "/kind"));
            if let Some(known) = self.kind_of(version, kind) {
                let checked = checked(&known, &mut value);
                self.known(&known, object, value, checked);
            } else if let Some((field, problem)) = self.wrong_kind(version, kind) {
                self.error(&object.location, kind.to_owned(), field, &problem);
            } else if kinds::is_left_out(version, kind) {
                *self.manifests.ignored.entry(kind.to_owned()).or_default() += 1;
            } else {
                *self.manifests.undefined.entry((version.to_owned(), kind.to_owned())).or_default() += 1;
            }
        }
    }

    /// Returns the mistake in the name of a kind, or `None` if the kind may be a custom resource or an ignored kind.
    fn wrong_kind(&self, version: &str, kind: &str) -> Option<(&'static str, String)> {
        let meant =
            |kind: &str| self.kinds.iter().find(|known| known.kind == kind).map(|known| known.api_version());
        if version.is_empty() {
            let hint = suggestion(meant(kind).as_deref());
            return Some(("apiVersion", format!("Required value{hint}")));
        }
        if kinds::is_left_out(version, kind) {
            return None;
        }
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        if !self.kinds.iter().any(|known| known.group == group) {
            // Groups of custom resource definitions contain dots.
            let own = kinds::is_own_group(group);
            let hint = suggestion(meant(kind).as_deref());
            return own.then(|| {
                ("apiVersion", format!("no matches for kind {kind:?} in version {version:?}{hint}"))
            });
        }
        let of_group = self.kinds.iter().filter(|known| known.group == group);
        if let Some(other) = of_group.clone().find(|known| known.kind == kind && known.version != short) {
            let hint = suggestion(Some(&other.api_version()));
            return Some((
                "apiVersion",
                format!("no matches for kind {kind:?} in version {version:?}{hint}"),
            ));
        }
        let near = similar(kind, of_group.map(|known| known.kind.as_str()));
        let hint = suggestion(meant(kind).as_deref().or(near));
        Some(("kind", format!("no matches for kind {kind:?} in version {version:?}{hint}")))
    }

    fn known(&mut self, kind: &Arc<Kind>, object: DocumentObject, mut value: Value, checked: Checked) {
        if is_left_out(kind) {
            *self.manifests.ignored.entry(kind.kind.clone()).or_default() += 1;
            return;
        }
        let Checked { misfits, is_over, is_unnamed, json } = checked;
        let location = object.location;
        let label = label(kind, if kind.is_namespaced() { namespace(&value) } else { "" }, name(&value));
        for unknown in misfits.unknown {
            let hint = suggestion(unknown.similar.as_deref());
            self.doubt(&location, &label, unknown.field, format!("unknown field{hint}"));
        }
        for field in object.repeated {
            self.doubt(&location, &label, field, "duplicate field".to_owned());
        }
        for wrong in &misfits.wrong {
            self.error(&location, label.clone(), &wrong.field, &wrong.problem);
        }
        if !misfits.wrong.is_empty() {
            return;
        }
        if is_over {
            if !list(&value, "/spec/resourceClaims").is_empty() {
                self.manifests.finished.push((namespace(&value).to_owned(), uid(&value).to_owned()));
            }
            return;
        }
        if is_unnamed && !self.generate_name(&mut value) {
            let error = FieldError::required("metadata.name", "name or generateName is required");
            return self.error(&location, label, &error.field, &error.problem);
        }
        self.dump.note(kind, &value, &location);
        self.add(if is_unnamed {
            Manifest::new(kind.clone(), &value, location)
        } else {
            Manifest::encoded(kind.clone(), &value, json, location)
        });
    }

    /// Adds an object. If the object exists already, the later manifest replaces it, provided that the API server's
    /// rules for updates allow the change.
    fn add(&mut self, manifest: Manifest) {
        let label = manifest.label();
        let Some(&earlier) = self.positions.get(&label) else {
            let order = self.manifests.objects.len();
            self.positions.insert(label, order);
            self.manifests.objects.push(Manifest { order, ..manifest });
            return;
        };
        let earlier = &mut self.manifests.objects[earlier];
        let mut old = earlier.value();
        let mut new = manifest.value();
        let admission = self.manifests.classes.admission(&manifest.kind, self.manifests.features);
        let changed = match admission.create(&mut old).and_then(|()| admission.create(&mut new)) {
            // A mistake in the later object is reported when all objects are admitted. One in the earlier object no
            // longer matters.
            Err(_) => Ok(()),
            Ok(()) => admission.update(&old, &mut new),
        };
        let first = match earlier.location.file == manifest.location.file {
            true => format!("document {}", earlier.location.document),
            false => format!("{}, document {}", earlier.location.file, earlier.location.document),
        };
        match changed {
            Ok(()) => {
                if earlier.value() != manifest.value() {
                    let files = (earlier.location.file.clone(), manifest.location.file.clone());
                    self.replaced.entry(files).or_default().push(label);
                }
                *earlier = Manifest { order: earlier.order, ..manifest };
            }
            Err(refusal) => {
                for FieldProblem { field, message } in problems(refusal) {
                    let message = format!("{message} (the object is given twice, first in {first})");
                    self.error(&manifest.location, label.clone(), &field, &message);
                }
            }
        }
    }

    fn generate_name(&mut self, value: &mut Value) -> bool {
        let prefix = text(value, "/metadata/generateName").to_owned();
        if prefix.is_empty() {
            return false;
        }
        let number = self.generated.entry(prefix.clone()).or_default();
        *number += 1;
        value["metadata"]["name"] = format!("{prefix}{number}").into();
        true
    }

    /// Restores objects that a dump lacks, makes edits, scales ReplicaSets to match their Deployments, and sorts all
    /// objects.
    fn complete(&mut self, steps: &[Step]) {
        let kind = |kind: &str| self.kinds.iter().find(|known| known.kind == kind).cloned();
        for (kind, value, location) in self.dump.missing(&self.manifests.objects, &kind) {
            self.positions
                .insert(label(&kind, namespace(&value), name(&value)), self.manifests.objects.len());
            self.manifests.objects.push(Manifest::new(kind, &value, location));
        }
        let edited = edits::apply(steps, &mut self.manifests.objects, &self.kinds);
        let Edited { errors, warnings, left, scaled, .. } = edited;
        self.errors.extend(errors);
        self.manifests.warnings.extend(warnings);
        self.manifests.finished.extend(left);
        self.manifests.scaled.extend(scaled);
        let followed = scaling::follow_deployments(&mut self.manifests.objects);
        self.manifests.warnings.extend(followed);
        self.manifests.warnings.extend(self.dump.lacks());
        self.manifests.objects.sort_by_key(Manifest::rank);
    }

    /// Counts pods on missing nodes, or makes them pending again.
    fn check_nodes(&mut self, options: ReadOptions<'_>) {
        let objects = &mut self.manifests.objects;
        let all = objects.iter().filter(|object| object.kind.rules == Rules::Node);
        let nodes = all.map(|node| node.name.clone()).chain(options.extra_nodes.iter().cloned());
        let nodes: FxHashSet<String> = nodes.collect();
        let is_lost = |object: &Manifest| object.node.as_deref().is_some_and(|node| !nodes.contains(node));
        if !options.reschedule_missing {
            let lost = objects.iter().filter(|object| is_lost(object));
            for node in lost.filter_map(|pod| pod.node.as_deref()) {
                *self.manifests.missing_nodes.entry(node.to_owned()).or_default() += 1;
            }
            return;
        }
        let (mut waiting, mut gone) = (0, 0);
        objects.retain_mut(|object| {
            if !is_lost(object) {
                return true;
            }
            let mut pod = object.value();
            if edits::belongs_to_node(&pod) {
                gone += 1;
                return false;
            }
            waiting += 1;
            edits::make_pending(&mut pod);
            *object = object.with(&pod);
            true
        });
        if waiting > 0 {
            self.manifests.warnings.push(format!("made {waiting} pod(s) on missing nodes pending again"));
        }
        if gone > 0 {
            let line = format!("removed {gone} DaemonSet or static pod(s) on missing nodes");
            self.manifests.warnings.push(line);
        }
    }

    /// Applies the API server's rules to every object.
    fn admit(&mut self, each: &mut dyn FnMut(&Manifest, Admitted<'_>) -> Result<(), FieldProblem>) {
        let objects = std::mem::take(&mut self.manifests.objects);
        let mut known = FxHashMap::default();
        let mut rest = &objects[..];
        while let Some(first) = rest.first() {
            let end = rest.iter().take(BATCH).position(is_class).unwrap_or(rest.len().min(BATCH));
            let (batch, others) = rest.split_at(if is_class(first) { 1 } else { end });
            rest = others;
            self.admit_batch(batch, &mut known, each);
        }
        self.manifests.objects = objects;
    }

    /// Applies the rules to objects that do not depend on each other. `known` has those that stand for their shapes.
    fn admit_batch(
        &mut self,
        batch: &[Manifest],
        known: &mut FxHashMap<*const Shape, Option<Box<Value>>>,
        each: &mut dyn FnMut(&Manifest, Admitted<'_>) -> Result<(), FieldProblem>,
    ) {
        let (classes, features) = (std::mem::take(&mut self.manifests.classes), self.manifests.features);
        let admitted = |object: &Manifest| {
            let mut value = object.value();
            let done = classes.admission(&object.kind, features).create(&mut value);
            done.map(|()| value).map_err(problems)
        };
        let shape_of = |object: &Manifest| match &object.content {
            Content::Like { shape, .. } => Some(Arc::as_ptr(shape)),
            Content::Json(_) => None,
        };
        let mut new = Vec::new();
        for object in batch {
            if let Some(shape) = shape_of(object)
                && !known.contains_key(&shape)
            {
                known.insert(shape, None);
                new.push(object);
            }
        }
        let models = parallel::map(new.clone(), |object| admitted(object).ok().map(Box::new));
        known.extend(new.into_iter().filter_map(shape_of).zip(models));
        let model_of = |object: &Manifest| known.get(&shape_of(object)?)?.as_deref();
        let whole: Vec<&Manifest> = batch.iter().filter(|object| model_of(object).is_none()).collect();
        let mut whole = parallel::map(whole, admitted).into_iter();
        let mut added = None;
        for object in batch {
            let done = match (&object.content, model_of(object)) {
                (Content::Like { identity, .. }, Some(model)) => {
                    let whole = || admitted(object).unwrap_or_default();
                    each(object, Admitted::Like { model, identity, whole: &whole })
                        .map_err(|problem| vec![problem])
                }
                _ => whole.next().unwrap_or_else(|| Err(Vec::new())).and_then(|value| {
                    added = is_class(object).then(|| (object, value.clone()));
                    each(object, Admitted::Whole(value)).map_err(|problem| vec![problem])
                }),
            };
            for FieldProblem { field, message } in done.err().into_iter().flatten() {
                self.error(&object.location, object.label(), &field, &message);
            }
        }
        self.manifests.classes = classes;
        if let Some((class, value)) = added {
            self.manifests.classes.add(&class.kind, &value);
        }
    }

    fn error(&mut self, location: &Location, object: String, field: &str, message: &str) {
        let (location, field, message) = (location.clone(), field.to_owned(), message.to_owned());
        self.errors.push(ManifestError { location, line: None, object, field, message });
    }

    /// Reports an unknown or repeated field as the user requested: as an error, as a warning or not at all.
    fn doubt(&mut self, location: &Location, object: &str, field: String, message: String) {
        let (location, object) = (location.clone(), object.to_owned());
        let error = ManifestError { location, line: None, object, field, message };
        self.doubts += 1;
        match self.validate {
            Validate::Strict => self.errors.push(error),
            Validate::Warn => self.warnings.push(error),
            Validate::Ignore => {}
        }
    }

    fn finish(mut self, sources: &[Source]) -> Result<Manifests, ManifestErrors> {
        for source in sources {
            let of_source =
                |error: &&mut ManifestError| error.line.is_none() && *error.location.file == *source.name;
            let mut all = self.errors.iter_mut().chain(&mut self.warnings).filter(of_source).peekable();
            if all.peek().is_some() {
                let trees = DocumentTrees::read(&source.text);
                all.for_each(|error| error.locate(&trees));
            }
        }
        let file =
            |error: &ManifestError| sources.iter().position(|source| *source.name == *error.location.file);
        self.errors.sort_by_key(|error| (file(error), error.line));
        self.warnings.sort_by_key(|error| (file(error), error.line));
        let replaced = self.replaced.iter().map(|((earlier, later), labels)| {
            let names = shortened(labels);
            let objects = if labels.len() == 1 { "object" } else { "objects" };
            match earlier == later {
                true => format!(
                    "{later} contains {} {objects} twice, and the later copies are used: {names}",
                    labels.len()
                ),
                false => format!("{later} replaces {} {objects} of {earlier}: {names}", labels.len()),
            }
        });
        let doubts = error::lines(&self.warnings).into_iter().chain(replaced).collect();
        let followed = std::mem::replace(&mut self.manifests.warnings, doubts);
        self.manifests.warnings.extend(followed);
        if self.errors.is_empty() { Ok(self.manifests) } else { Err(ManifestErrors(self.errors)) }
    }
}

/// Checks the written form of an object. Leaves only what the object says, without the fields that only a server sets.
fn checked(kind: &Kind, value: &mut Value) -> Checked {
    if is_left_out(kind) {
        return Checked::default();
    }
    let misfits = schema::inspect(kind, value);
    if kind.is_namespaced() && namespace(value).is_empty() && value["metadata"].is_object() {
        value["metadata"]["namespace"] = "default".into();
    }
    let (is_over, is_unnamed) = (is_over(kind, value), name(value).is_empty());
    let mut json = Box::default();
    if misfits.wrong.is_empty() && !is_over {
        dump::strip(kind, value);
        if !is_unnamed {
            json = value.to_string().into();
        }
    }
    Checked { misfits, is_over, is_unnamed, json }
}

/// Returns true for a class, which changes what the rules make of the objects that follow.
fn is_class(object: &Manifest) -> bool {
    matches!(object.kind.rules, Rules::PriorityClass | Rules::RuntimeClass)
}

/// Returns true for objects that say nothing about the cluster's future.
fn is_left_out(kind: &Kind) -> bool {
    kind.has(REVIEW) || kind.rules == Rules::Event || kind.kind == "Lease"
}

/// Returns true for a finished pod, and for a finished Job from a dump. Nothing depends on these objects.
fn is_over(kind: &Kind, object: &Value) -> bool {
    match kind.rules {
        Rules::Pod => matches!(text(object, "/status/phase"), "Succeeded" | "Failed"),
        Rules::Job => {
            let from_a_cluster = !uid(object).is_empty();
            from_a_cluster && ["Complete", "Failed"].iter().any(|end| has_condition(object, end))
        }
        _ => false,
    }
}

mod units;

#[cfg(test)]
mod tests;
