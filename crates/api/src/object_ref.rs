//! Identities of objects of any kind.

use crate::Str;

/// Identity of an object whose other fields are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// `apiVersion`, for example `apps/v1`.
    pub api_version: Str,
    /// `kind`.
    pub kind: Str,
    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub namespace: Str,
    /// `metadata.name`.
    pub name: Str,
    /// `metadata.uid`.
    pub uid: Str,
    /// `metadata.resourceVersion`.
    pub resource_version: Str,
}
