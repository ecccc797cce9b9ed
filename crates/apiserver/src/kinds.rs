//! The served kinds, each with its objects: built-in kinds from the table of `harbormaster-validation`, and kinds that
//! custom resource definitions add.

use std::{cmp::Reverse, ops::Deref, sync::Arc};

use harbormaster_api::features::Features;
pub(crate) use harbormaster_validation::kinds::{
    DELETED_OBJECT, Form, REVIEW, Rules, SCALE, STATUS, VERSIONED, api_version,
};
use serde_json::Value;

use crate::{
    selector::Selector,
    shelf::{Shelf, Versions},
    status::{About, Failure, Result},
    table::{Column, columns},
};

/// A served kind.
#[derive(Debug)]
pub(crate) struct Kind {
    of: harbormaster_validation::Kind,
    pub(crate) columns: Vec<Column>,
    pub(crate) shelf: Arc<Shelf>,
}

impl Deref for Kind {
    type Target = harbormaster_validation::Kind;

    fn deref(&self) -> &Self::Target {
        &self.of
    }
}

impl Kind {
    /// Returns the description of an object for failures.
    pub(crate) fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About { group: &self.group, plural: &self.plural, kind: &self.kind, name }
    }

    /// Returns true for the kind of service accounts.
    fn is_account(&self) -> bool {
        self.group.is_empty() && self.kind == "ServiceAccount"
    }

    /// Parses selectors for objects of this kind.
    pub(crate) fn selector(&self, namespace: &str, labels: &str, fields: &str) -> Result<Selector> {
        let known =
            (self.is_custom() || !self.shelf.fields.is_empty()).then_some(self.shelf.fields.as_slice());
        Selector::parse(namespace, labels, fields, known).map_err(|mut failure| {
            // Other kinds' messages do not name the kind.
            if self.rules == Rules::ResourceSlice {
                let unsupported = "field label not supported";
                let of_kind = format!("{unsupported} for {}, Kind={}", self.api_version(), self.kind);
                failure.message = failure.message.replacen(unsupported, &of_kind, 1);
            }
            failure
        })
    }

    /// Returns the subresources as discovery lists them: for each, its name and the group, version and kind of its
    /// objects.
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
        if self.is_account() {
            all.push(("token", ("authentication.k8s.io", "v1", "TokenRequest")));
        }
        if !self.is_custom() {
            all.sort_unstable();
        }
        all
    }
}

/// All kinds: built-in kinds in table order, then custom resources by group and version. Each change creates a new
/// value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    all: Vec<Arc<Kind>>,
    /// Custom resources in their stored versions, served or not.
    defined: Vec<Arc<Kind>>,
}

impl Kinds {
    /// Returns the built-in kinds that are served with the given gates, with empty shelves.
    pub(crate) fn of_table(features: Features, versions: &Versions, history: usize) -> Self {
        let mut all: Vec<Arc<Kind>> = Vec::new();
        for of in harbormaster_validation::kinds::table(features) {
            let twin = all.iter().find(|kind| kind.plural == of.plural && of.form != Form::Stored);
            let shelf = match twin {
                Some(twin) => twin.shelf.clone(),
                None => Arc::new(Shelf::new(versions.clone(), history, of.fields.clone())),
            };
            all.push(Arc::new(Kind {
                columns: columns::of(&of.group, &of.plural, of.release).to_vec(),
                of,
                shelf,
            }));
        }
        Self { all, defined: Vec::new() }
    }

    /// Returns a copy in which the kinds of one custom resource are replaced: the kinds of its served versions, and the
    /// kind of its stored version.
    pub(crate) fn with_definition(
        &self,
        group: &str,
        plural: &str,
        served: Vec<Arc<Kind>>,
        stored: Option<Arc<Kind>>,
    ) -> Self {
        let kept = |kinds: &[Arc<Kind>]| -> Vec<Arc<Kind>> {
            let is_old = |kind: &Kind| kind.is_custom() && kind.group == group && kind.plural == plural;
            kinds.iter().filter(|kind| !is_old(kind)).cloned().collect()
        };
        let (mut all, mut defined) = (kept(&self.all), kept(&self.defined));
        all.extend(served);
        // Built-in kinds keep their order.
        all.sort_by_cached_key(|kind| {
            kind.is_custom().then(|| (kind.group.clone(), Reverse(rank(&kind.version)), kind.plural.clone()))
        });
        defined.extend(stored);
        Self { all, defined }
    }

    pub(crate) fn all(&self) -> &[Arc<Kind>] {
        &self.all
    }

    /// Returns a custom resource in its stored version.
    pub(crate) fn defined(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.defined.iter().find(|kind| kind.group == group && kind.plural == plural)
    }

    /// Returns all kinds that hold objects; each custom resource occurs once, in its stored version.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.all.iter().filter(|kind| !kind.is_custom()).chain(&self.defined)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.of_version(group, version).find(|kind| kind.plural == plural).cloned()
    }

    pub(crate) fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Kind>> {
        self.all.iter().filter(move |kind| kind.group == group && kind.version == version)
    }

    /// Returns the failure for a path of the given group if nothing is served under the path.
    pub(crate) fn nothing_there(&self, group: &str) -> Failure {
        // Groups of custom resources can be removed; the paths of a removed group are unknown.
        let own = self.all.iter().any(|kind| kind.group == group && !kind.is_custom());
        if own { Failure::no_such_path() } else { Failure::no_such_page() }
    }

    /// Looks up a kind by a name such as `pods` or `deployments.apps`, in the first of its served versions.
    pub(crate) fn named(&self, qualified: &str) -> Option<Arc<Kind>> {
        self.all.iter().find(|kind| kind.qualified() == qualified).cloned()
    }

    /// Returns the served groups in table order.
    pub(crate) fn groups(&self) -> Vec<&str> {
        unique(self.all.iter().map(|kind| kind.group.as_str()))
    }

    /// Returns the served groups and versions in table order.
    pub(crate) fn versions(&self) -> Vec<(&str, &str)> {
        unique(self.all.iter().map(|kind| (kind.group.as_str(), kind.version.as_str())))
    }

    pub(crate) fn versions_of(&self, group: &str) -> impl Iterator<Item = &str> {
        let versions = self.versions().into_iter().filter(move |(of, _)| *of == group);
        versions.map(|(_, version)| version)
    }
}

/// Builds a kind from a definition; its columns come from the definition, its objects from the shelf.
pub(crate) fn of_definition(
    definition: &Value,
    of: harbormaster_validation::Kind,
    shelf: &Arc<Shelf>,
) -> Kind {
    Kind { columns: columns::of_version(definition, &of.version), of, shelf: shelf.clone() }
}

/// Returns the rank of a version: `v2` before `v1`, both before `v2beta1`, then `v3alpha1`; other names come last, in
/// alphabetical order.
fn rank(version: &str) -> (u8, u64, u64, Reverse<String>) {
    let other = (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (major, rest) = rest.split_at(digits);
    let Ok(major) = major.parse::<u64>() else { return other };
    let minor = |rest: &str| rest.parse::<u64>().ok();
    let (stage, minor) = match (rest, rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        ("", ..) => (3, Some(0)),
        (_, Some(rest), _) => (2, minor(rest)),
        (_, _, Some(rest)) => (1, minor(rest)),
        _ => return other,
    };
    minor.map_or(other, |minor| (stage, major, minor, Reverse(String::new())))
}

/// Returns each distinct value once, in order of first occurrence.
fn unique<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_and_then_by_number() {
        let mut versions = ["foo", "v1alpha1", "v1", "v10beta3", "v2", "v11alpha2", "bar", "v3beta1", "v10"];
        versions.sort_by_key(|version| Reverse(rank(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v10beta3", "v3beta1", "v11alpha2", "v1alpha1", "bar", "foo"]
        );
    }
}
