//! Effects of custom resource definitions. In a real cluster, controllers inside kube-apiserver do this work.

use std::sync::{Arc, PoisonError};

use serde_json::Value;

use super::{Deletion, Store, write::is_finished};
use crate::{
    admission,
    kinds::{self, Form, Kind, Kinds},
    object::{Draft, StoredObject, key},
    shelf::{Range, Shelf},
    time::now,
    value::text,
};

/// Resource of custom resource definitions.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl Store {
    /// Serves the kinds of a definition in its current state. `before` is the definition before the change.
    pub(super) fn define(&self, name: &str, before: Option<&Value>) {
        let _one_at_a_time = self.0.defining.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(definition) = self.settle(name) else { return };
        let unchanged =
            before.is_some_and(|before| before["spec"]["versions"] == definition["spec"]["versions"]);
        self.serve(&definition, !unchanged);
        self.settle_others(&definition);
    }

    /// Computes and writes the status of a definition.
    fn settle(&self, name: &str) -> Option<Value> {
        let kind = self.kinds().named(DEFINITIONS)?;
        loop {
            let current = kind.shelf.get(name)?;
            let old = current.value();
            let mut new = old.clone();
            let others: Vec<Value> =
                definitions(&kind).filter(|other| other.name() != name).map(|other| other.value()).collect();
            admission::settle(&mut new, &others, now());
            if new == old
                || kind.shelf.replace(current.version(), Draft::new(&new, &kind.shelf.fields)).is_ok()
            {
                return Some(new);
            }
        }
    }

    /// Updates other definitions, because one of them may be waiting for names that this definition no longer uses.
    fn settle_others(&self, definition: &Value) {
        let Some(kind) = self.kinds().named(DEFINITIONS) else { return };
        for other in definitions(&kind) {
            let other = other.value();
            let waits = other.pointer("/spec/names") != other.pointer("/status/acceptedNames");
            let same_group = text(&other, "/spec/group") == text(definition, "/spec/group");
            let name = text(&other, "/metadata/name");
            if waits
                && same_group
                && name != text(definition, "/metadata/name")
                && let Some(settled) = self.settle(name)
                && settled != other
            {
                self.serve(&settled, false);
            }
        }
    }

    /// Replaces the kinds of a definition. `anew` is true if the schema of the objects may have changed.
    fn serve(&self, definition: &Value, anew: bool) {
        let kinds = self.kinds();
        let (group, plural) = place(definition);
        let names = definition.pointer("/status/acceptedNames").cloned().unwrap_or_default();
        let stored = admission::stored_kind_of_definition(definition, &names);
        let (served, stored) = match stored.filter(|_| admission::is_established(definition)) {
            None => (Vec::new(), None),
            Some(stored) => {
                let shelf = match kinds.defined(group, plural) {
                    Some(old) if !anew => old.shelf.clone(),
                    Some(old) => {
                        let form = |value: &mut Value| admission::restore(&stored, value);
                        Arc::new(old.shelf.with_form(stored.fields.clone(), form))
                    }
                    None => {
                        let (versions, history) = (self.0.versions.clone(), self.0.options.history);
                        Arc::new(Shelf::new(versions, history, stored.fields.clone()))
                    }
                };
                let made = |of| Arc::new(kinds::of_definition(definition, of, &shelf));
                let served =
                    admission::kinds_of_definition(definition, &names).into_iter().map(made).collect();
                (served, Some(made(stored)))
            }
        };
        self.replace_kinds(&kinds.with_definition(group, plural, served, stored));
    }

    fn replace_kinds(&self, kinds: &Kinds) {
        *self.0.kinds.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kinds.clone());
    }

    /// Stops serving the kinds of a deleted definition.
    pub(super) fn undefine(&self, definition: &Value) {
        let _one_at_a_time = self.0.defining.lock().unwrap_or_else(PoisonError::into_inner);
        self.withdraw(definition);
    }

    fn withdraw(&self, definition: &Value) {
        let (group, plural) = place(definition);
        let kinds = self.kinds();
        if let Some(old) = kinds.defined(group, plural) {
            old.shelf.close();
        }
        self.replace_kinds(&kinds.with_definition(group, plural, Vec::new(), None));
        self.settle_others(definition);
    }

    /// Applies the defaults of the stored version to an object that was written in another version. The defaults of
    /// that other version apply too.
    pub(super) fn complete(&self, kind: &Kind, object: &mut Value) {
        if let Form::Version(_) = kind.form
            && let Some(stored) = self.kinds().defined(&kind.group, &kind.plural)
        {
            admission::restore(stored, object);
        }
    }

    /// Deletes the objects of a definition that is being deleted. Once they are gone, removes the definition's
    /// cleanup finalizer.
    pub(super) fn clean_up(&self, definition: &Value) {
        self.define(text(definition, "/metadata/name"), Some(definition));
        let (group, plural) = place(definition);
        if let Some(kind) = self.kinds().defined(group, plural) {
            for object in kind.shelf.list(&Range::ALL, |_| true).unwrap_or_default().objects {
                // An object that is already gone needs no deletion.
                let _ = self.delete_in(kind, object.namespace(), object.name(), &Deletion::default());
            }
        }
        self.finish(group, plural);
    }

    /// Handles the removal of an object. The definition of its kind may have been waiting for the removal.
    pub(super) fn removed(&self, kind: &Kind) {
        if let Some(defined) = self.kinds().defined(&kind.group, &kind.plural)
            && defined.custom.as_ref().is_some_and(|custom| custom.ending)
        {
            self.finish(&kind.group, &kind.plural);
        }
    }

    /// Removes the cleanup finalizer of a definition that is being deleted, if its objects are gone.
    fn finish(&self, group: &str, plural: &str) {
        let _one_at_a_time = self.0.defining.lock().unwrap_or_else(PoisonError::into_inner);
        let kinds = self.kinds();
        let Some(kind) = kinds.named(DEFINITIONS) else { return };
        if kinds.defined(group, plural).is_some_and(|defined| !defined.shelf.is_empty()) {
            return;
        }
        let name = key("", &format!("{plural}.{group}"));
        while let Some(current) = kind.shelf.get(&name) {
            let mut new = current.value();
            if new.pointer("/metadata/deletionTimestamp").is_none() {
                return;
            }
            admission::let_go(&mut new, now());
            let draft = Draft::new(&new, &kind.shelf.fields);
            if !is_finished(&new) {
                if kind.shelf.replace(current.version(), draft).is_ok() {
                    return;
                }
            } else if kind.shelf.remove(&name, current.version(), Some(draft)).is_ok() {
                return self.withdraw(&new);
            }
        }
    }
}

fn definitions(kind: &Kind) -> impl Iterator<Item = Arc<StoredObject>> {
    kind.shelf.list(&Range::ALL, |_| true).unwrap_or_default().objects.into_iter()
}

/// Returns the group and the resource of a definition.
fn place(definition: &Value) -> (&str, &str) {
    (text(definition, "/spec/group"), text(definition, "/spec/names/plural"))
}
