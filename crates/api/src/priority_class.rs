//! Priority classes.

use crate::Str;

/// `scheduling.k8s.io/v1` PriorityClass. The API server resolves it when a pod is created; here it is used by
/// replacements of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityClass {
    /// `metadata.name`.
    pub name: Str,
    /// `value`.
    pub value: i32,
    /// `globalDefault`: applies to pods that name no class.
    pub global_default: bool,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
}
