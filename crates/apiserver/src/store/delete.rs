//! Deletion of objects.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{Store, write::is_finished};
use crate::{
    admission,
    kinds::{Kind, Rules},
    object::{Draft, StoredObject, key},
    shelf::Refused,
    status::{About, Failure, Result},
    time::now,
    value::{number, present, text},
};

/// Options of a deletion (`DeleteOptions`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletion {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) dry_run: bool,
}

/// Outcome of a deletion.
#[derive(Clone, Debug)]
pub(crate) enum Deleted {
    /// The object is gone; contains its final state.
    Gone(Arc<StoredObject>),
    /// The object is removed once its grace period is over and all its finalizers are removed.
    Ending(Arc<StoredObject>),
}

impl Store {
    /// Deletes an object, or begins its deletion.
    pub(crate) fn delete_in(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        how: &Deletion,
    ) -> Result<Deleted> {
        let about = kind.about(name);
        admission::check_deletion(kind, name).map_err(|why| Failure::forbidden(about, why))?;
        let key = key(namespace, name);
        loop {
            let current = kind.shelf.get(&key).ok_or_else(|| Failure::not_found(about))?;
            let old = current.value();
            check_preconditions(kind, &current, &old, how)?;
            let new = match kind.rules {
                Rules::Definition => ending_definition(&old),
                _ => ending(kind, &old, how),
            };
            if how.dry_run {
                let draft = Draft::new(&new, &kind.shelf.fields);
                return Ok(Deleted::Gone(Arc::new(draft.seal(current.version()))));
            }
            let finished = is_finished(&new);
            let mut current = current;
            // Watchers of a pod always see it terminating before they see its removal, even if the removal is
            // immediate.
            if new != old && (!finished || kind.rules == Rules::Pod) {
                match kind.shelf.replace(current.version(), Draft::new(&new, &kind.shelf.fields)) {
                    Ok(object) => current = object,
                    Err(Refused) => continue,
                }
            }
            if !finished {
                if kind.rules == Rules::Definition {
                    self.clean_up(&new);
                }
                return Ok(Deleted::Ending(current));
            }
            if kind.rules == Rules::Namespace {
                self.empty_namespace(name);
            }
            if let Ok(last) = kind.shelf.remove(&key, current.version(), None) {
                match kind.rules {
                    Rules::Definition => self.undefine(&old),
                    _ => self.removed(kind),
                }
                return Ok(Deleted::Gone(last));
            }
        }
    }
}

fn check_preconditions(kind: &Kind, current: &StoredObject, old: &Value, how: &Deletion) -> Result<()> {
    let (uid, version) = (text(old, "/metadata/uid"), current.version().to_string());
    let about = About { plural: &kind.kind, ..kind.about(current.name()) };
    for (what, wanted, found, so) in [
        ("UID", how.uid.as_str(), uid, "deleted and then recreated"),
        ("ResourceVersion", how.version.as_str(), version.as_str(), "modified"),
    ] {
        if !wanted.is_empty() && wanted != found {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object \
                 might have been {so}"
            );
            return Err(Failure::conflict(about, &why));
        }
    }
    Ok(())
}

/// Returns the definition marked as being deleted. It is removed once its objects are gone.
fn ending_definition(old: &Value) -> Value {
    let mut new = old.clone();
    if present(old, "/metadata/deletionTimestamp").is_none() {
        new["metadata"]["deletionTimestamp"] = now().to_rfc3339().into();
        admission::terminate(&mut new, now());
    }
    new
}

/// Returns the object with its deletion recorded.
fn ending(kind: &Kind, old: &Value, how: &Deletion) -> Value {
    let grace = if kind.rules == Rules::Pod { grace_of_pod(old, how) } else { 0 };
    let mut new = old.clone();
    let before = present(old, "/metadata/deletionTimestamp").is_some();
    // A second deletion can only shorten the grace period.
    if before && grace >= number(old, "/metadata/deletionGracePeriodSeconds") {
        return new;
    }
    let metadata = &mut new["metadata"];
    metadata["deletionTimestamp"] = (now() + Duration::from_secs(grace.unsigned_abs())).to_rfc3339().into();
    metadata["deletionGracePeriodSeconds"] = json!(grace);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
        && !before
    {
        metadata["generation"] = json!(generation + 1);
    }
    new
}

/// Returns the grace period of a pod in seconds. A pod that has no node or has already ended is removed immediately.
fn grace_of_pod(pod: &Value, how: &Deletion) -> i64 {
    if text(pod, "/spec/nodeName").is_empty() || matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
    {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    match how.grace.unwrap_or(own) {
        grace if grace < 0 => 1,
        // The calendar cannot represent absurdly long periods.
        grace => grace.min(1 << 31),
    }
}
