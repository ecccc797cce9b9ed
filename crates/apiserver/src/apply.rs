//! Server-side apply: merges the configuration of one field manager into an object and tracks which manager owns
//! which fields.
//!
//! Reading order: [`apply()`] and [`note`] (the operations), `managers` (entries of `managedFields`), `fields` (sets
//! of fields), `walk` (traversal of objects). [`ownership`](crate::ownership) defines which values have a single owner.
//!
//! Field ownership is tracked from the first apply, or from creation if the client names its field manager. Fields that
//! existed before the first apply belong to `before-first-apply`.

mod fields;
mod managers;
mod walk;

use serde_json::{Value, json};

use self::{
    fields::{Fields, field},
    managers::{Manager, Managers},
    walk::Changes,
};
use crate::{
    kinds::{Kind, STATUS},
    ownership::TypedPosition,
    status::{Failure, Result},
    value::{list, map, remove, text},
};

/// Annotation in which client-side apply stores the applied configuration.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Manager that may take over fields from client-side apply.
const KUBECTL: &str = "kubectl";

/// Writer of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    /// Name under which field ownership is recorded.
    pub(crate) manager: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
}

impl Writer<'_> {
    fn manager(&self, kind: &Kind, applies: bool) -> Manager {
        Manager {
            name: self.manager.to_owned(),
            applies,
            version: kind.api_version(),
            subresource: self.subresource.to_owned(),
        }
    }

    /// Removes fields that the request cannot write, so that they are not recorded.
    fn limit(&self, kind: &Kind, fields: &mut Fields) {
        match self.subresource {
            "" if kind.has(STATUS) => fields.cut(&field("status")),
            "status" => {
                fields.cut(&field("spec"));
                if kind.is_custom() {
                    fields.cut(&field("metadata"));
                }
            }
            _ => {}
        }
    }

    fn limit_changes(&self, kind: &Kind, mut changes: Changes) -> Changes {
        self.limit(kind, &mut changes.written);
        self.limit(kind, &mut changes.removed);
        changes
    }
}

/// Records in the new version of an object which fields the writer wrote. `old` is `None` for a new object. An
/// existing object without `managedFields` gets none, unless the request contains some.
pub(crate) fn note(kind: &Kind, old: Option<&Value>, new: &mut Value, writer: &Writer<'_>, now: &str) {
    let said = new.pointer("/metadata/managedFields").and_then(Value::as_array);
    let is_reset = said.is_some_and(|said| match said.as_slice() {
        [] => true,
        [only] => only == &json!({}),
        _ => false,
    });
    let before = || old.map(Managers::read).unwrap_or_default();
    let mut managers = match Managers::read(new) {
        _ if !writer.subresource.is_empty() => before(),
        _ if is_reset => Managers::default(),
        given if given.is_empty() => before(),
        given => given,
    };
    if let Some(metadata) = map(new, "metadata") {
        metadata.remove("managedFields");
    }
    if managers.is_empty() && old.is_some() {
        return;
    }
    let nothing = json!({});
    let old = without_managers(old.unwrap_or(&nothing));
    let changes = walk::compare(TypedPosition::of(kind), Some(&old), Some(new));
    let changes = writer.limit_changes(kind, changes);
    // A scale update is recorded only if it writes a field that a manager owns.
    if writer.subresource != "scale" || managers.owns(&changes) {
        managers.update(writer.manager(kind, false), &changes, now);
    }
    managers.write(new);
}

/// Configuration to apply.
pub(crate) struct Application<'a> {
    pub(crate) writer: Writer<'a>,
    /// True if the writer takes over conflicting fields from other managers.
    pub(crate) force: bool,
    pub(crate) config: &'a Value,
}

impl Application<'_> {
    /// Refuses a configuration of another kind, one with `managedFields`, and one that contradicts the kind's schema.
    pub(crate) fn check(&self, kind: &Kind) -> Result<()> {
        let config = self.config;
        let (version, name) = (text(config, "/apiVersion"), text(config, "/kind"));
        if version != kind.api_version() || name != kind.kind {
            let slash = if version.contains('/') { "" } else { "/" };
            let why = format!("invalid object type: {slash}{version}, Kind={name}");
            return Err(Failure::bad_request(why));
        }
        if config.pointer("/metadata/managedFields").is_some_and(|given| !given.is_null()) {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        match walk::mistake(TypedPosition::of(kind), config, "") {
            None => Ok(()),
            Some(why) => {
                let place = match text(config, "/metadata/namespace") {
                    "" => format!("/{}", text(config, "/metadata/name")),
                    namespace => format!("{namespace}/{}", text(config, "/metadata/name")),
                };
                let (group, version) = (&kind.group, &kind.version);
                let what = format!("{place}; {group}/{version}, Kind={}", kind.kind);
                Err(Failure::internal(format!("failed to create typed patch object ({what}): {why}")))
            }
        }
    }

    /// Returns the object with the configuration merged in and its field owners updated. Without a live object,
    /// returns a new one.
    pub(crate) fn apply(&self, kind: &Kind, live: Option<&Value>, now: &str) -> Result<Value> {
        let place = TypedPosition::of(kind);
        let manager = self.writer.manager(kind, true);
        let mut managers = live.map(Managers::read).unwrap_or_default();
        let nothing = json!({});
        let old = without_managers(live.unwrap_or(&nothing));
        if managers.is_empty() && live.is_some() {
            let before = Manager { name: "before-first-apply".to_owned(), applies: false, ..manager.clone() };
            let all = walk::compare(place, Some(&nothing), Some(&old));
            managers.update(before, &self.writer.limit_changes(kind, all), now);
        }
        let mut fields = walk::fields_of(place, self.config);
        self.writer.limit(kind, &mut fields);
        let mut new = walk::merge(place, Some(old.clone()), self.config);
        if let Some(last) = managers.find(&manager) {
            let mut kept = managers.others(&manager);
            kept.add(&fields);
            walk::prune(place, &mut new, &last.fields, &kept);
        }
        let changes = self.writer.limit_changes(kind, walk::compare(place, Some(&old), Some(&new)));
        let conflicts = managers.conflicts(&manager, &changes);
        if !self.force && !conflicts.is_empty() {
            self.settle(place, &old, conflicts)?;
        }
        let is_changed = new != old;
        managers.apply(manager, fields, &changes, is_changed.then_some(now));
        if live.is_none() {
            // An object that does not exist yet has no version, so a version in the configuration is dropped.
            remove(&mut new["metadata"], "resourceVersion");
        }
        if self.writer.manager == KUBECTL && !last_applied(&old).is_empty() {
            let config = without_managers(self.config);
            new["metadata"]["annotations"][LAST_APPLIED] = format!("{config}\n").into();
        }
        managers.write(&mut new);
        Ok(new)
    }

    /// Refuses conflicts, except over fields that kubectl last set with client-side apply and now sets with server-side
    /// apply.
    fn settle(
        &self,
        place: TypedPosition<'_>,
        old: &Value,
        mut conflicts: Vec<(&Manager, Fields)>,
    ) -> Result<()> {
        let applied = serde_json::from_str::<Value>(last_applied(old)).ok();
        if let Some(applied) = applied.filter(|applied| {
            self.writer.manager == KUBECTL && applied["apiVersion"] == self.config["apiVersion"]
        }) {
            let changes = walk::compare(place, Some(&applied), Some(old));
            let mut own = walk::fields_of(place, &applied);
            own.subtract(&changes.written);
            own.subtract(&changes.removed);
            conflicts.iter_mut().for_each(|(_, fields)| fields.subtract(&own));
            conflicts.retain(|(_, fields)| !fields.is_empty());
        }
        if conflicts.is_empty() { Ok(()) } else { Err(conflict(&conflicts)) }
    }
}

fn last_applied(object: &Value) -> &str {
    let annotations = object.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(LAST_APPLIED)?.as_str()).unwrap_or_default()
}

/// Returns the failure for conflicts over fields that other managers own.
fn conflict(conflicts: &[(&Manager, Fields)]) -> Failure {
    let mut all: Vec<(String, Vec<String>)> =
        conflicts.iter().map(|(manager, fields)| (manager.shown(), fields.paths())).collect();
    all.sort();
    let causes = all.iter().flat_map(|(manager, paths)| {
        let message = format!("conflict with {manager}");
        paths
            .iter()
            .map(move |path| json!({"reason": "FieldManagerConflict", "message": message, "field": path}))
    });
    let causes: Vec<Value> = causes.collect();
    let message = match (all.as_slice(), causes.len()) {
        ([(manager, paths)], 1) => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths.concat())
        }
        (_, count) => {
            let lines = all.iter().flat_map(|(manager, paths)| {
                let paths = paths.iter().map(|path| format!("- {path}"));
                std::iter::once(format!("conflicts with {manager}:")).chain(paths)
            });
            format!("Apply failed with {count} conflicts: {}", lines.collect::<Vec<_>>().join("\n"))
        }
    };
    let mut failure = Failure::new(409, "Conflict", message);
    failure.details.insert("causes".to_owned(), causes.into());
    failure
}

/// Returns the object without `metadata.managedFields`.
fn without_managers(object: &Value) -> Value {
    let mut object = object.clone();
    if !list(&object, "/metadata/managedFields").is_empty() {
        remove(&mut object["metadata"], "managedFields");
    }
    object
}
