//! The kinds of objects that are served: one table, and what custom resource definitions add to it.

mod rows;

use std::sync::Arc;

use crate::{
    rules::defaults::Defaults,
    shelf::{Shelf, Versions},
    status::{About, qualified},
    table::Column,
};

/// What the table says about a kind. Singular names and names of lists follow from the kind.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) flags: Flags,
    /// What field selectors may name besides `metadata.name` and `metadata.namespace`.
    pub(crate) fields: &'static [&'static str],
    pub(crate) columns: &'static [Column],
    pub(crate) defaults: Defaults,
    pub(crate) rules: Rules,
}

/// Yes and no about a kind.
pub(crate) type Flags = u16;

/// Its objects live in namespaces.
pub(crate) const NAMESPACED: Flags = 1;
/// It has the subresource `status`.
pub(crate) const STATUS: Flags = 1 << 1;
/// It has the subresource `scale`.
pub(crate) const SCALE: Flags = 1 << 2;
/// `metadata.generation` counts changes of the spec.
pub(crate) const GENERATION: Flags = 1 << 3;
/// Of the category `all`.
pub(crate) const ALL: Flags = 1 << 4;
/// A status given on creation is kept.
pub(crate) const STATUS_AT_ONCE: Flags = 1 << 5;
/// Updates must name the version that they change.
pub(crate) const VERSIONED: Flags = 1 << 6;
/// Names are DNS labels rather than subdomains.
pub(crate) const LABEL_NAME: Flags = 1 << 7;
/// Names may be anything that fits into a path.
pub(crate) const PATH_NAME: Flags = 1 << 8;
/// Deletion answers with the object.
pub(crate) const DELETED_OBJECT: Flags = 1 << 9;
/// Created to be answered, and not stored.
pub(crate) const REVIEW: Flags = 1 << 10;

/// Which defaults and checks apply, besides those for all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Stored as it is.
    None,
    Pod,
    Node,
    Namespace,
    PriorityClass,
    /// Has replicas, or a template and a selector.
    Workload,
    Job,
    Budget,
    Service,
    Secret,
    Claim,
    Volume,
    Event,
    Definition,
}

/// How objects are read and written whose stored form is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are stored.
    Stored,
    /// `events.k8s.io/v1` events, stored as `v1` events.
    NewEvents,
    /// A custom resource stored under this `apiVersion`.
    Version(String),
}

/// A kind that is served.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) flags: Flags,
    pub(crate) columns: Vec<Column>,
    pub(crate) defaults: Defaults,
    pub(crate) rules: Rules,
    pub(crate) form: Form,
    /// Whether a definition made it.
    pub(crate) custom: bool,
    pub(crate) shelf: Arc<Shelf>,
}

impl Kind {
    pub(crate) fn has(&self, flag: Flags) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.has(NAMESPACED)
    }

    /// `apps/v1`, or `v1` of the core group.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// What is said about an object that is none of the kind.
    pub(crate) fn cannot_be_handled(&self, why: &str) -> String {
        let Self { kind, version, .. } = self;
        format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}")
    }

    /// `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

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

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
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
        for row in rows::ROWS {
            let twin = all.iter().find(|kind| kind.plural == row.plural && row.plural == "events");
            let form = if twin.is_some() { Form::NewEvents } else { Form::Stored };
            let fields = row.fields.iter().map(ToString::to_string).collect();
            let shelf = match twin {
                Some(twin) => twin.shelf.clone(),
                None => Arc::new(Shelf::new(versions.clone(), history, fields)),
            };
            all.push(Arc::new(Kind {
                group: row.group.to_owned(),
                version: row.version.to_owned(),
                plural: row.plural.to_owned(),
                singular: row.kind.to_lowercase(),
                kind: row.kind.to_owned(),
                list_kind: format!("{}List", row.kind),
                short_names: row.short_names.iter().map(ToString::to_string).collect(),
                categories: match row.rules {
                    _ if row.flags & ALL != 0 => vec!["all".to_owned()],
                    Rules::Definition => vec!["api-extensions".to_owned()],
                    _ => Vec::new(),
                },
                flags: row.flags,
                columns: row.columns.to_vec(),
                defaults: row.defaults,
                rules: row.rules,
                form,
                custom: false,
                shelf,
            }));
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
