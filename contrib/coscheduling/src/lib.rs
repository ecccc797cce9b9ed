//! Coscheduling: places the pods of a PodGroup of [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins)
//! together, or none of them.
//!
//! The plugin has the name, the arguments, the label and the custom resource of scheduler-plugins' plugin, so its users
//! need not change their manifests. It needs no API of Kubernetes 1.37. `README.md` lists the differences.
//!
//! A second program keeps the statuses of PodGroups up to date, as the controller of scheduler-plugins does.
//!
//! Reading order: [`pod_group`] (the custom resource), [`plugin`] (extension points and hints), [`args`], then
//! [`phases`] (statuses of groups) and [`controller`].
//!
//! Invariant: no pod of a group is bound by a decision after which fewer than `minMember` pods have nodes.

pub mod args;
pub mod controller;
pub mod phases;
pub mod plugin;
pub mod pod_group;

pub use args::Args;
pub use plugin::Coscheduling;
pub use pod_group::PodGroup;
