//! StickyVM: a virtual machine of KubeVirt comes back to the node where it ran first.
//!
//! The pod of a virtual machine is managed by a VirtualMachineInstance, which is managed by a VirtualMachine. An annotation of
//! the latter names the node of its first pod, and every later pod goes there. It is the plugin of an
//! [article](https://arthurchiao.github.io/blog/k8s-scheduling-plugins-zh/) on scheduling plugins, written anew; `README.md`
//! says where it differs.
//!
//! Reading order: [`kubevirt`] (from a pod to its machine), [`plugin`] (what is done at which point, and when it is done again),
//! [`memory`] (how the node is written down).
//!
//! Invariants, with the plugin in Reserve and PreBind: no pod of a machine is bound before the annotation is there, nor to
//! another node than it named when the pod was decided, but for targets of live migrations. So a scheduler may be killed at
//! any time, and of two schedulers one writes and the other one's pod is tried again.

pub mod kubevirt;
pub mod memory;
pub mod plugin;

pub use kubevirt::{VirtualMachine, VirtualMachineInstance};
pub use plugin::{Args, StickyVM};
