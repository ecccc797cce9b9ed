//! The version in which the API server serves a kind.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use harbormaster_framework::{
    api_call::ObjectPath,
    resource::{OlderVersion, ResourceKind, ResourceName},
};

/// The version in which the API server serves a kind, shared by the watch that finds the version and the tasks that
/// write objects. Versions are numbered from 0, the newest.
#[derive(Clone, Debug)]
pub struct ServedVersion {
    resource: ResourceName,
    older: &'static [OlderVersion],
    has_protobuf: bool,
    served: Arc<AtomicUsize>,
}

impl ServedVersion {
    /// Returns the newest version of a kind, which is assumed to be served.
    pub fn of(kind: &ResourceKind) -> Self {
        Self { has_protobuf: kind.has_protobuf(), ..Self::new(kind.name(), kind.older_versions()) }
    }

    pub(crate) fn new(resource: ResourceName, older: &'static [OlderVersion]) -> Self {
        Self { resource, older, has_protobuf: false, served: Arc::default() }
    }

    /// The kind, with its newest version.
    pub(crate) fn resource(&self) -> ResourceName {
        self.resource
    }

    /// Names of all versions, newest first.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &'static str> {
        iter::once(self.resource.version).chain(self.older.iter().map(|older| older.name))
    }

    /// Returns a version by its number; `None` for the newest.
    pub(crate) fn older(&self, version: usize) -> Option<&'static OlderVersion> {
        self.older.get(version.checked_sub(1)?)
    }

    /// Returns true if objects of a version, given by its number, can be decoded from protobuf. Older versions are
    /// converted, and therefore decoded from JSON.
    pub(crate) fn has_protobuf(&self, version: usize) -> bool {
        self.has_protobuf && version == 0
    }

    /// Notes that the server serves a version, given by its number. Returns the version's name if the version is an
    /// older one and differs from the one noted before.
    pub(crate) fn note(&self, version: usize) -> Option<&'static str> {
        let before = self.served.swap(version, Ordering::Relaxed);
        self.older(version).filter(|_| before != version).map(|older| older.name)
    }

    /// Returns the version that the server serves for an object of this kind; `None` if it is the newest version, or if
    /// `path` is that of another kind.
    pub(crate) fn older_of(&self, path: &ObjectPath) -> Option<&'static OlderVersion> {
        let ResourceName { plural, version, group } = self.resource;
        let is_of_kind = path.plural == plural && path.version == version && path.group == group;
        is_of_kind.then(|| self.older(self.served.load(Ordering::Relaxed))).flatten()
    }
}
