//! Creation and modification of objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Store;
use crate::{
    admission,
    apply::{Writer, note},
    extent, forms,
    kinds::{Kind, Rules, STATUS, VERSIONED},
    object::{Draft, StoredObject, key, parse_version},
    status::{About, Failure, FieldError, Result},
    time::now,
    value::{list, number, present, remove, text},
};

/// Maximum number of attempts at a write while other writers are faster.
const TRIES: u32 = 100;
/// Maximum number of further names to try if a generated name is taken.
const NAMES: u32 = 8;
/// Maximum length of the prefix in a generated name.
const LONGEST_PREFIX: usize = 58;

/// Part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything except the status.
    Main,
    /// The status and, for most built-in kinds, the metadata.
    Status,
    /// Everything, unchecked: for changes that the server itself computes.
    Whole,
}

/// Recording of field ownership for a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tracking<'a> {
    /// `managedFields` remains unchanged.
    Nothing,
    /// The writer of an update becomes the owner of the fields that it changes.
    Update(Writer<'a>),
    /// Server-side apply has already updated `managedFields` in the object.
    Recorded,
}

/// Settings for changing an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'a> {
    pub(crate) part: Part,
    pub(crate) dry_run: bool,
    pub(crate) tracking: Tracking<'a>,
}

impl Manner<'_> {
    /// Returns the settings for changes that the server itself computes.
    pub(crate) fn whole(dry_run: bool) -> Self {
        Self { part: Part::Whole, dry_run, tracking: Tracking::Nothing }
    }
}

/// Message for a write that lost a race.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Store {
    /// Creates an object in `namespace`, which is empty for cluster-scoped kinds.
    pub(crate) fn create_in(
        &self,
        kind: &Kind,
        namespace: &str,
        mut object: Value,
        dry_run: bool,
        tracking: Tracking<'_>,
    ) -> Result<Arc<StoredObject>> {
        forms::check(kind, &object)?;
        if kind.custom.as_ref().is_some_and(|custom| custom.ending) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Failure::forbidden(kind.about(text(&object, "/metadata/name")), why));
        }
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
        }
        forms::to_stored(kind, &mut object);
        place(kind, &mut object, namespace)?;
        if kind.is_namespaced() {
            self.check_namespace(namespace)?;
        }
        let prefix: String = text(&object, "/metadata/generateName").chars().take(LONGEST_PREFIX).collect();
        let generates = text(&object, "/metadata/name").is_empty() && !prefix.is_empty();
        if generates {
            object["metadata"]["name"] = format!("{prefix}{}", self.0.random.suffix()).into();
        }
        let said = object.get_mut("metadata").and_then(|metadata| remove(metadata, "managedFields"));
        let time = now().to_rfc3339();
        admission::stamp(kind, &mut object, &self.0.random.uid(), &time);
        let _until_it_is_stored = self.addressing(kind);
        let name = text(&object, "/metadata/name").to_owned();
        let note = |new: &mut Value| match (&tracking, said) {
            (Tracking::Update(writer), _) => note(kind, None, new, writer, &time),
            (Tracking::Recorded, Some(said)) => new["metadata"]["managedFields"] = said,
            (Tracking::Recorded | Tracking::Nothing, _) => {}
        };
        self.rules(kind, &name, Part::Main, |rules| rules.create_noting(&mut object, note))?;
        self.complete(kind, &mut object);
        extent::check(&object)?;
        let mut tries = 0;
        loop {
            let draft = Draft::new(&object, &kind.shelf.fields);
            if dry_run {
                return match kind.shelf.get(&draft.key) {
                    Some(_) => Err(Failure::already_exists(kind.about(text(&object, "/metadata/name")))),
                    None => Ok(Arc::new(draft.unsealed())),
                };
            }
            match kind.shelf.insert(draft) {
                Ok(created) => {
                    self.created(kind, &object);
                    return Ok(created);
                }
                Err(_) if generates && tries < NAMES => {
                    tries += 1;
                    object["metadata"]["name"] = format!("{prefix}{}", self.0.random.suffix()).into();
                }
                Err(_) => return Err(Failure::already_exists(kind.about(text(&object, "/metadata/name")))),
            }
        }
    }

    fn check_namespace(&self, namespace: &str) -> Result<()> {
        let kinds = self.kinds();
        match kinds.named("namespaces") {
            Some(kind) if kind.shelf.get(namespace).is_none() => {
                Err(Failure::not_found(kind.about(namespace)))
            }
            _ => Ok(()),
        }
    }

    /// Handles the effects of creating an object.
    fn created(&self, kind: &Kind, object: &Value) {
        match kind.rules {
            Rules::Namespace => {
                let metadata = json!({"name": "default", "namespace": text(object, "/metadata/name")});
                self.at_start("serviceaccounts", json!({"metadata": metadata}));
            }
            Rules::Definition => self.define(text(object, "/metadata/name"), None),
            Rules::Event => kind.shelf.trim(self.0.options.events),
            _ => {}
        }
    }

    /// Changes an object. `change` receives the object in the form in which its kind is served, and may be called more
    /// than once.
    pub(crate) fn modify(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        manner: Manner<'_>,
        mut change: impl FnMut(&Value) -> Result<Value>,
    ) -> Result<Arc<StoredObject>> {
        let Manner { part, dry_run, tracking } = manner;
        let about = kind.about(name);
        let key = key(namespace, name);
        for _ in 0..TRIES {
            let _until_it_is_stored = self.addressing(kind);
            let current = kind.shelf.get(&key).ok_or_else(|| Failure::not_found(about))?;
            let old = current.value();
            let mut new = change(&forms::shown(kind, &current))?;
            forms::check(kind, &new)?;
            forms::to_stored(kind, &mut new);
            check_version(kind, &current, &old, &new)?;
            let mut new = of_part(kind, part, &old, new);
            if part == Part::Whole {
                new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            } else {
                let note = |new: &mut Value| match tracking {
                    Tracking::Update(writer) => note(kind, Some(&old), new, &writer, &now().to_rfc3339()),
                    Tracking::Nothing | Tracking::Recorded => {}
                };
                self.rules(kind, name, part, |rules| rules.update_noting(&old, &mut new, note))?;
                self.complete(kind, &mut new);
            }
            if new == old {
                return Ok(current);
            }
            extent::check(&new)?;
            let draft = Draft::new(&new, &kind.shelf.fields);
            if dry_run {
                return Ok(Arc::new(draft.seal(current.version())));
            }
            let finished = is_finished(&new);
            let written = if finished {
                kind.shelf.remove(&key, current.version(), Some(draft))
            } else {
                kind.shelf.replace(current.version(), draft)
            };
            if let Ok(object) = written {
                match (kind.rules, finished) {
                    (Rules::Definition, true) => self.undefine(&new),
                    (Rules::Definition, false) => self.define(name, Some(&old)),
                    (_, true) => self.removed(kind),
                    (_, false) => {}
                }
                return Ok(object);
            }
        }
        Err(Failure::conflict(about, MODIFIED))
    }
}

/// Sets the namespace of a new object. Refuses an object that specifies a different namespace.
fn place(kind: &Kind, object: &mut Value, namespace: &str) -> Result<()> {
    if !kind.is_namespaced() {
        remove(&mut object["metadata"], "namespace");
        return Ok(());
    }
    let given = text(object, "/metadata/namespace");
    if !given.is_empty() && given != namespace {
        return Err(Failure::other_namespace());
    }
    object["metadata"]["namespace"] = namespace.into();
    Ok(())
}

/// Refuses a change that names a version or UID other than the current object's. For some kinds, also refuses a change
/// that names no version.
fn check_version(kind: &Kind, current: &StoredObject, old: &Value, new: &Value) -> Result<()> {
    let about = kind.about(current.name());
    let given = text(new, "/metadata/resourceVersion");
    if given.is_empty() && (kind.is_custom() || kind.has(VERSIONED)) {
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        return Err(Failure::invalid(About { kind: &kind.plural, ..about }, &[error]));
    }
    if !given.is_empty() {
        let version = parse_version(given).map_err(Failure::internal)?;
        if given != "0" && version != current.version() {
            return Err(Failure::conflict(about, MODIFIED));
        }
    }
    let (before, uid) = (text(old, "/metadata/uid"), text(new, "/metadata/uid"));
    if !uid.is_empty() && uid != before {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {before}");
        return Err(Failure::conflict(about, &why));
    }
    Ok(())
}

/// Returns the new object, in which the fields that the request may not change have their old values.
fn of_part(kind: &Kind, part: Part, old: &Value, mut new: Value) -> Value {
    let take = |from: &Value, to: &mut Value, name: &str| match from.get(name) {
        Some(value) => to[name] = value.clone(),
        None => drop(remove(to, name)),
    };
    match part {
        Part::Main if kind.has(STATUS) => take(old, &mut new, "status"),
        Part::Main | Part::Whole => {}
        Part::Status => {
            let given = std::mem::replace(&mut new, old.clone());
            take(&given, &mut new, "status");
            if !kind.is_custom() && !matches!(kind.rules, Rules::ResourceClaim | Rules::PodGroup) {
                take(&given, &mut new, "metadata");
            } else if let Some(given) = given.get("metadata") {
                take(given, &mut new["metadata"], "managedFields");
            }
        }
    }
    new
}

/// Returns true if the object is being deleted and nothing delays its removal any longer.
pub(super) fn is_finished(object: &Value) -> bool {
    present(object, "/metadata/deletionTimestamp").is_some()
        && number(object, "/metadata/deletionGracePeriodSeconds") == 0
        && list(object, "/metadata/finalizers").is_empty()
}
