//! The kinds of objects that are served, each with its objects: those of the table, and what custom resource
//! definitions add to it.

use std::{ops::Deref, sync::Arc};

pub(crate) use harbormaster_objects::kinds::{
    DELETED_OBJECT, Form, REVIEW, Rules, SCALE, STATUS, VERSIONED, api_version,
};
use serde_json::Value;

use crate::{
    rules,
    shelf::{Shelf, Versions},
    status::About,
    table::{Column, columns},
};

/// A kind that is served.
#[derive(Debug)]
pub(crate) struct Kind {
    of: harbormaster_objects::Kind,
    pub(crate) columns: Vec<Column>,
    pub(crate) shelf: Arc<Shelf>,
}

impl Deref for Kind {
    type Target = harbormaster_objects::Kind;

    fn deref(&self) -> &Self::Target {
        &self.of
    }
}

impl Kind {
    /// For failures that speak of an object.
    pub(crate) fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About { group: &self.group, plural: &self.plural, kind: &self.kind, name }
    }

    /// The subresources, as discovery lists them: the name, and the group, version and kind of what is sent.
    pub(crate) fn subresources(&self) -> Vec<(&'static str, (&str, &str, &str))> {
        let own = (self.group.as_str(), self.version.as_str(), self.kind.as_str());
        let mut all = Vec::new();
        if self.has(STATUS) {
            all.push(("status", own));
        }
        if self.has(SCALE) {
            all.push(("scale", ("autoscaling", "v1", "Scale")));
        }
        if self.rules == Rules::Pod {
            all.push(("binding", ("", "v1", "Binding")));
            all.push(("ephemeralcontainers", own));
            all.push(("eviction", ("policy", "v1", "Eviction")));
        }
        all.sort_unstable();
        all
    }
}

/// All kinds, in the order of the table; a new value for each change.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    all: Vec<Arc<Kind>>,
}

impl Kinds {
    /// The kinds of the table, with empty shelves.
    pub(crate) fn of_table(versions: &Versions, history: usize) -> Self {
        let mut all: Vec<Arc<Kind>> = Vec::new();
        for of in harbormaster_objects::kinds::table() {
            let twin = all.iter().find(|kind| kind.plural == of.plural && of.form == Form::NewEvents);
            let shelf = match twin {
                Some(twin) => twin.shelf.clone(),
                None => Arc::new(Shelf::new(versions.clone(), history, of.fields.clone())),
            };
            all.push(Arc::new(Kind { columns: columns::of(&of.group, &of.plural).to_vec(), of, shelf }));
        }
        Self { all }
    }

    /// With the kinds of one custom resource, in place of those that it had before.
    pub(crate) fn with_custom(&self, group: &str, plural: &str, kinds: Vec<Kind>) -> Self {
        let is_old = |kind: &Kind| kind.custom && kind.group == group && kind.plural == plural;
        let kept = self.all.iter().filter(|kind| !is_old(kind)).cloned();
        Self { all: kept.chain(kinds.into_iter().map(Arc::new)).collect() }
    }

    pub(crate) fn all(&self) -> &[Arc<Kind>] {
        &self.all
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.of_version(group, version).find(|kind| kind.plural == plural).cloned()
    }

    pub(crate) fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Kind>> {
        self.all.iter().filter(move |kind| kind.group == group && kind.version == version)
    }

    /// By `pods` or `deployments.apps`, in the version served first.
    pub(crate) fn named(&self, qualified: &str) -> Option<Arc<Kind>> {
        self.all.iter().find(|kind| kind.qualified() == qualified).cloned()
    }

    /// Groups that are served, in the order of the table.
    pub(crate) fn groups(&self) -> Vec<&str> {
        unique(self.all.iter().map(|kind| kind.group.as_str()))
    }

    /// Groups and versions that are served, in the order of the table.
    pub(crate) fn versions(&self) -> Vec<(&str, &str)> {
        unique(self.all.iter().map(|kind| (kind.group.as_str(), kind.version.as_str())))
    }

    pub(crate) fn versions_of(&self, group: &str) -> impl Iterator<Item = &str> {
        let versions = self.versions().into_iter().filter(move |(of, _)| *of == group);
        versions.map(|(_, version)| version)
    }
}

/// The kinds of a definition: one for each version that is served. `shelf` makes one for the fields that may be
/// selected by.
pub(crate) fn of_definition(definition: &Value, shelf: impl FnOnce(Vec<String>) -> Arc<Shelf>) -> Vec<Kind> {
    let shelf = shelf(rules::selectable_fields(definition));
    let kinds = rules::kinds_of_definition(definition).into_iter();
    kinds
        .map(|of| Kind { columns: columns::of_version(definition, &of.version), of, shelf: shelf.clone() })
        .collect()
}

/// Each value once, where it comes first.
fn unique<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}
