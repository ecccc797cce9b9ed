//! Coscheduling: places the pods of a PodGroup of [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins)
//! together, or none of them.
//!
//! The plugin has the name, the arguments, the label and the custom resource of scheduler-plugins' plugin, so its users
//! need not change their manifests. It needs no API of Kubernetes 1.37. `README.md` lists the differences.
//!
//! Reading order: [`pod_group`] (the custom resource), [`plugin`] (extension points and hints), [`args`].
//!
//! Invariant: no pod of a group is bound by a decision after which fewer than `minMember` pods have nodes.

pub mod args;
pub mod plugin;
pub mod pod_group;

pub use args::Args;
pub use plugin::Coscheduling;
pub use pod_group::PodGroup;
