//! From the text of manifests to the objects that an API server would make of them.
//!
//! An object is looked at twice. First as it is written: its kind, its types, fields that nobody knows. Then, when all
//! objects are known, by the rules of the API server ([`harbormaster_objects::rules`]).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    str::FromStr,
    sync::Arc,
};

use harbormaster_api::similar::{similar, suggestion};
use harbormaster_objects::{
    FieldError, Kind,
    kinds::{self, REVIEW, Rules},
    rules::{self, Refusal},
    schema,
    value::{controller, has_condition, name, namespace, remove, text, uid},
};
use serde_json::Value;

use crate::{
    documents::{self, Fields, Place, Written},
    dump::Dump,
    known::Known,
    mistakes::{self, ManifestError, ManifestErrors},
    scaling,
};

/// Text with the name under which errors mention it.
#[derive(Clone, Debug)]
pub struct Source {
    /// For example the path of a file.
    pub name: String,
    /// YAML or JSON.
    pub text: String,
}

/// What becomes of fields that nobody knows or that are given twice, as `kubectl --validate` says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validate {
    /// They are mistakes.
    #[default]
    Strict,
    /// They are told of.
    Warn,
    /// They are left out.
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

/// Treatment of the objects of manifests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intake<'a> {
    /// Treatment of unknown fields.
    pub validate: Validate,
    /// Whether pods on nodes that are missing wait for a node again.
    pub reschedule_missing: bool,
    /// Nodes that there are beside those of the manifests.
    pub more_nodes: &'a [String],
}

/// An object of a manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// What it is.
    pub kind: Arc<Kind>,
    /// Its namespace; empty for kinds without.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where it stands. What is missing in a dump and was added stands nowhere.
    pub place: Place,
    /// How many objects stand before it.
    pub(crate) order: usize,
    /// The node that a pod is bound to.
    node: Option<Box<str>>,
    /// Few bytes until it is looked at.
    json: Box<str>,
}

impl Manifest {
    pub(crate) fn new(kind: Arc<Kind>, value: &Value, place: Place) -> Self {
        let (namespace, name) = (namespace(value).to_owned(), name(value).to_owned());
        let node = text(value, "/spec/nodeName");
        let node = (kind.rules == Rules::Pod && !node.is_empty()).then(|| node.into());
        Self { kind, namespace, name, place, order: usize::MAX, node, json: value.to_string().into() }
    }

    /// The same with another content.
    pub(crate) fn with(&self, value: &Value) -> Self {
        Self { order: self.order, ..Self::new(self.kind.clone(), value, self.place.clone()) }
    }

    /// The object as it is written, without what only the server that it came from could say.
    pub fn value(&self) -> Value {
        // What was encoded here can be decoded.
        serde_json::from_str(&self.json).unwrap_or_default()
    }

    /// `Pod default/web`.
    pub fn label(&self) -> String {
        label(&self.kind, &self.namespace, &self.name)
    }

    /// Owners come before what they own.
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
        ("", name) => format!("{} {name}", kind.kind),
        (namespace, name) => format!("{} {namespace}/{name}", kind.kind),
    }
}

/// All objects of some manifests, owners before what they own.
#[derive(Debug, Default)]
pub struct Manifests {
    /// What there is.
    pub objects: Vec<Manifest>,
    /// How many objects of which kind were left out.
    pub ignored: BTreeMap<String, usize>,
    /// Number of objects of each version and kind that nothing here defines.
    pub undefined: BTreeMap<(String, String), usize>,
    /// What the user should know; one line each.
    pub warnings: Vec<String>,
    /// Number of pods on each node that is not there. Empty if they wait for a node again.
    pub missing_nodes: BTreeMap<String, usize>,
    /// What rules look at.
    pub(crate) known: Known,
}

/// A field and what is wrong with it.
pub(crate) type Wrong = (String, String);

impl Manifests {
    /// Reads YAML or JSON: several documents, lists and dumps of `kubectl get -o yaml`. `each` is given every object in
    /// the form in which an API server would store it, once, and may refuse it.
    ///
    /// # Errors
    /// Everything that is wrong, with file, line, object and field.
    pub fn read(
        sources: &[Source],
        how: Intake<'_>,
        mut each: impl FnMut(&Manifest, Value) -> Result<(), (String, String)>,
    ) -> Result<Self, ManifestErrors> {
        let mut reader = Reader::new(how.validate);
        for source in sources {
            let file: Arc<str> = source.name.as_str().into();
            match documents::read(&file, &source.text) {
                Ok(objects) => objects.into_iter().for_each(|object| reader.object(object)),
                Err(unreadable) => reader.errors.push(ManifestError {
                    place: Place { file, document: unreadable.document, ..Place::default() },
                    line: unreadable.line,
                    object: String::new(),
                    field: String::new(),
                    message: unreadable.message,
                }),
            }
        }
        reader.custom_resources();
        reader.complete();
        reader.place(how);
        reader.admit(&mut each);
        reader.finish(sources)
    }

    /// What the user should know besides; one line each.
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

/// `ignored: 3 HorizontalPodAutoscaler`.
pub(crate) fn ignored_line(ignored: &BTreeMap<String, usize>) -> Option<String> {
    let kinds: Vec<String> = ignored.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    (!kinds.is_empty()).then(|| format!("ignored: {}", kinds.join(", ")))
}

/// So many names are shown in a line.
const SHOWN: usize = 5;

/// `a, b, and 3 more`.
fn shortened(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// `3 pods are on nodes that the input does not have: …`.
pub(crate) fn missing_nodes_line(nodes: &BTreeMap<String, usize>) -> Option<String> {
    let mut by_count: Vec<(&String, &usize)> = nodes.iter().collect();
    by_count.sort_by_key(|(_, pods)| std::cmp::Reverse(**pods));
    let names: Vec<String> = by_count.iter().map(|(node, pods)| format!("{node} ({pods})")).collect();
    let pods: usize = nodes.values().sum();
    let are = if pods == 1 { "pod is" } else { "pods are" };
    let names = shortened(&names);
    (pods > 0).then(|| {
        format!(
            "{pods} {are} on nodes that the input does not have, and count nowhere: {names}; --reschedule-missing has \
             them wait for a node"
        )
    })
}

struct Reader {
    validate: Validate,
    kinds: Vec<Arc<Kind>>,
    /// Objects that may be custom resources of definitions that come later.
    strangers: Vec<(Written, Value)>,
    manifests: Manifests,
    /// Where in `manifests.objects` the object of a label is.
    given: HashMap<String, usize>,
    generated: HashMap<String, usize>,
    dump: Dump,
    /// Objects that later ones replace: of which file, by which, and their labels.
    replaced: BTreeMap<(Arc<str>, Arc<str>), Vec<String>>,
    errors: Vec<ManifestError>,
    warnings: Vec<ManifestError>,
}

impl Reader {
    fn new(validate: Validate) -> Self {
        Self {
            validate,
            kinds: kinds::table().into_iter().map(Arc::new).collect(),
            strangers: Vec::new(),
            manifests: Manifests::default(),
            given: HashMap::new(),
            generated: HashMap::new(),
            dump: Dump::default(),
            replaced: BTreeMap::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn object(&mut self, written: Written) {
        let value = written.value();
        let problem = match value.get("kind") {
            Some(Value::String(kind)) if !kind.is_empty() => {
                return match self.kind_of(text(&value, "/apiVersion"), kind) {
                    Some(kind) => self.known(&kind, written, value),
                    None => self.strangers.push((written, value)),
                };
            }
            _ if value.is_object() => "Object 'Kind' is missing",
            _ => "is not a Kubernetes object",
        };
        self.error(&written.place, String::new(), "", problem);
    }

    /// The kind of that name. Without a version it is that of Kubernetes, unless that is a mistake.
    fn kind_of(&self, version: &str, kind: &str) -> Option<Arc<Kind>> {
        let mut kinds = self.kinds.iter().filter(|known| known.kind == kind);
        if version.is_empty() && self.validate != Validate::Strict {
            return kinds.next().cloned();
        }
        kinds.find(|known| known.api_version() == version).cloned()
    }

    /// Objects whose kind is not in the table: of definitions among the manifests, of kinds that are left out, or
    /// mistakes.
    fn custom_resources(&mut self) {
        let definitions =
            self.manifests.objects.iter().filter(|object| object.kind.rules == Rules::Definition);
        let custom = definitions.flat_map(|definition| {
            let definition = definition.value();
            rules::kinds_of_definition(&definition, &definition["spec"]["names"])
        });
        let custom: Vec<Arc<Kind>> = custom.map(Arc::new).collect();
        self.kinds.extend(custom);
        for (written, value) in std::mem::take(&mut self.strangers) {
            let (version, kind) = (text(&value, "/apiVersion"), text(&value, "/kind"));
            if let Some(known) = self.kind_of(version, kind) {
                self.known(&known, written, value);
            } else if let Some((field, problem)) = self.wrong_kind(version, kind) {
                self.error(&written.place, kind.to_owned(), field, &problem);
            } else if kinds::is_left_out(version, kind) {
                *self.manifests.ignored.entry(kind.to_owned()).or_default() += 1;
            } else {
                *self.manifests.undefined.entry((version.to_owned(), kind.to_owned())).or_default() += 1;
            }
        }
    }

    /// What is wrong with the name of a kind; nothing if it may be one that is not known here.
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
            // Definitions have groups with dots.
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

    fn known(&mut self, kind: &Arc<Kind>, written: Written, mut value: Value) {
        if kind.has(REVIEW) || kind.rules == Rules::Event || kind.kind == "Lease" {
            *self.manifests.ignored.entry(kind.kind.clone()).or_default() += 1;
            return;
        }
        let place = written.place;
        let misfits = schema::inspect(kind, &mut value);
        if kind.is_namespaced() && namespace(&value).is_empty() && value["metadata"].is_object() {
            value["metadata"]["namespace"] = "default".into();
        }
        let unnamed = name(&value).is_empty();
        let label = label(kind, if kind.is_namespaced() { namespace(&value) } else { "" }, name(&value));
        for unknown in misfits.unknown {
            let hint = suggestion(unknown.similar.as_deref());
            self.doubtful(&place, &label, unknown.field, format!("unknown field{hint}"));
        }
        for field in written.twice {
            self.doubtful(&place, &label, field, "is given twice".to_owned());
        }
        for wrong in &misfits.wrong {
            self.error(&place, label.clone(), &wrong.field, &wrong.problem);
        }
        if !misfits.wrong.is_empty() || is_over(kind, &value) {
            return;
        }
        if unnamed && !self.generate_name(&mut value) {
            let error = FieldError::required("metadata.name", "name or generateName is required");
            return self.error(&place, label, &error.field, &error.problem);
        }
        self.dump.take(kind, &mut value, &place);
        self.add(Manifest::new(kind.clone(), &value, place));
    }

    /// Of an object that is there twice the later one changes the earlier one, as `kubectl apply` does.
    fn add(&mut self, manifest: Manifest) {
        let label = manifest.label();
        let Some(&earlier) = self.given.get(&label) else {
            let order = self.manifests.objects.len();
            self.given.insert(label, order);
            self.manifests.objects.push(Manifest { order, ..manifest });
            return;
        };
        let earlier = &mut self.manifests.objects[earlier];
        let mut old = earlier.value();
        let mut new = manifest.value();
        let admission = self.manifests.known.admission(&manifest.kind);
        let changed = match admission.create(&mut old).and_then(|()| admission.create(&mut new)) {
            // What is wrong with one of them is told later.
            Err(_) => Ok(()),
            Ok(()) => admission.update(&old, &mut new),
        };
        let first = match earlier.place.file == manifest.place.file {
            true => format!("document {}", earlier.place.document),
            false => format!("{}, document {}", earlier.place.file, earlier.place.document),
        };
        match changed {
            Ok(()) => {
                if earlier.json != manifest.json {
                    let files = (earlier.place.file.clone(), manifest.place.file.clone());
                    self.replaced.entry(files).or_default().push(label);
                }
                *earlier = Manifest { order: earlier.order, ..manifest };
            }
            Err(refusal) => {
                for (field, problem) in problems(refusal) {
                    let problem = format!("{problem} (is given twice, first in {first})");
                    self.error(&manifest.place, label.clone(), &field, &problem);
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

    /// Adds what a dump lacks, and sorts.
    fn complete(&mut self) {
        let kind = |kind: &str| self.kinds.iter().find(|known| known.kind == kind).cloned();
        for (kind, value, place) in self.dump.missing(&self.manifests.objects, &kind) {
            self.given.insert(label(&kind, namespace(&value), name(&value)), self.manifests.objects.len());
            self.manifests.objects.push(Manifest::new(kind, &value, place));
        }
        let followed = scaling::follow_deployments(&mut self.manifests.objects);
        self.manifests.warnings.extend(followed);
        self.manifests.warnings.extend(self.dump.lacks());
        self.manifests.objects.sort_by_key(Manifest::rank);
    }

    /// Finds pods on nodes that are not there.
    fn place(&mut self, how: Intake<'_>) {
        let objects = &mut self.manifests.objects;
        let all = objects.iter().filter(|object| object.kind.rules == Rules::Node);
        let nodes = all.map(|node| node.name.clone()).chain(how.more_nodes.iter().cloned());
        let nodes: HashSet<String> = nodes.collect();
        let is_lost = |object: &Manifest| object.node.as_deref().is_some_and(|node| !nodes.contains(node));
        if !how.reschedule_missing {
            for node in objects.iter().filter(|object| is_lost(object)).filter_map(|pod| pod.node.as_deref())
            {
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
            // These belong to their nodes.
            if controller(&pod).is_some_and(|owner| owner["kind"] == "DaemonSet" || owner["kind"] == "Node") {
                gone += 1;
                return false;
            }
            waiting += 1;
            remove(&mut pod["spec"], "nodeName");
            remove(&mut pod, "status");
            *object = object.with(&pod);
            true
        });
        if waiting > 0 {
            self.manifests.warnings.push(format!("{waiting} pods of missing nodes wait for a node again"));
        }
        if gone > 0 {
            let line = format!("{gone} pods of DaemonSets and static pods are gone with their missing nodes");
            self.manifests.warnings.push(line);
        }
    }

    /// Applies the rules to every object.
    fn admit(&mut self, each: &mut dyn FnMut(&Manifest, Value) -> Result<(), Wrong>) {
        let objects = std::mem::take(&mut self.manifests.objects);
        for object in &objects {
            let mut value = object.value();
            let admission = self.manifests.known.admission(&object.kind);
            let done = admission.create(&mut value).map_err(problems);
            let done = done.and_then(|()| {
                self.manifests.known.add(&object.kind, &value);
                each(object, value).map_err(|wrong| vec![wrong])
            });
            for (field, problem) in done.err().into_iter().flatten() {
                self.error(&object.place, object.label(), &field, &problem);
            }
        }
        self.manifests.objects = objects;
    }

    fn error(&mut self, place: &Place, object: String, field: &str, message: &str) {
        let (place, field, message) = (place.clone(), field.to_owned(), message.to_owned());
        self.errors.push(ManifestError { place, line: None, object, field, message });
    }

    /// What is a mistake, or is told of, or is not.
    fn doubtful(&mut self, place: &Place, object: &str, field: String, message: String) {
        let error =
            ManifestError { place: place.clone(), line: None, object: object.to_owned(), field, message };
        match self.validate {
            Validate::Strict => self.errors.push(error),
            Validate::Warn => self.warnings.push(error),
            Validate::Ignore => {}
        }
    }

    fn finish(mut self, sources: &[Source]) -> Result<Manifests, ManifestErrors> {
        for source in sources {
            let of_source =
                |error: &&mut ManifestError| error.line.is_none() && *error.place.file == *source.name;
            let mut all = self.errors.iter_mut().chain(&mut self.warnings).filter(of_source).peekable();
            if all.peek().is_some() {
                let fields = Fields::of(&source.text);
                all.for_each(|error| error.locate(&fields));
            }
        }
        let file =
            |error: &ManifestError| sources.iter().position(|source| *source.name == *error.place.file);
        self.errors.sort_by_key(|error| (file(error), error.line));
        self.warnings.sort_by_key(|error| (file(error), error.line));
        let told = self.replaced.iter().map(|((earlier, later), labels)| {
            let names = shortened(labels);
            let objects = if labels.len() == 1 { "object" } else { "objects" };
            match earlier == later {
                true => format!(
                    "{later} gives {} {objects} twice, and the later ones count: {names}",
                    labels.len()
                ),
                false => format!("{later} replaces {} {objects} of {earlier}: {names}", labels.len()),
            }
        });
        let doubts = mistakes::lines(&self.warnings).into_iter().chain(told).collect();
        let followed = std::mem::replace(&mut self.manifests.warnings, doubts);
        self.manifests.warnings.extend(followed);
        if self.errors.is_empty() { Ok(self.manifests) } else { Err(ManifestErrors(self.errors)) }
    }
}

/// Whether an object of a dump has come to its end: it counts for nothing.
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

/// The fields that are wrong.
pub(crate) fn problems(refusal: Refusal) -> Vec<Wrong> {
    match refusal {
        Refusal::Unfit(why) => vec![(String::new(), why)],
        Refusal::Forbidden { field, why } => vec![(field.to_owned(), why)],
        Refusal::Invalid(errors) => errors.into_iter().map(|error| (error.field, error.problem)).collect(),
    }
}

#[cfg(test)]
mod tests;
