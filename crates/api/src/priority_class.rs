//! Priority classes.

use crate::Str;

/// `scheduling.k8s.io/v1` PriorityClass. The API server resolves a pod's class when the pod is created, so only our
/// stand-ins for the API server use this type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityClass {
    /// `metadata.name`.
    pub name: Str,
    /// `value`.
    pub value: i32,
    /// `globalDefault`: applies to pods that name no class.
    pub global_default: bool,
    /// True with `preemptionPolicy: Never`.
    pub never_preempts: bool,
}
