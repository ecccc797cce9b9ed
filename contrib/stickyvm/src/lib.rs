//! StickyVM: returns a KubeVirt virtual machine to the node where it first ran.
//!
//! A VirtualMachineInstance owns the machine's pod, and a VirtualMachine owns the instance. An annotation of the
//! VirtualMachine names the node of its first pod, and all later pods go there. The plugin reimplements the example of
//! an [article](https://arthurchiao.github.io/blog/k8s-scheduling-plugins-zh/) on scheduling plugins. `README.md` lists
//! the differences.
//!
//! Reading order: [`kubevirt`] (from a pod to its machine), [`plugin`] (extension points and hints), [`memory`]
//! (writing the annotation).
//!
//! Invariants, if the plugin is enabled in Reserve and PreBind (targets of live migrations are exceptions):
//! - No pod of a machine is bound before the annotation exists.
//! - If the annotation exists when a pod is scheduled, the pod goes to the annotated node.
//!
//! It is therefore safe to kill a scheduler at any time. If two schedulers compete, one writes the annotation and the
//! other retries its pod.

pub mod kubevirt;
pub mod memory;
pub mod plugin;

pub use kubevirt::{VirtualMachine, VirtualMachineInstance};
pub use plugin::{Args, StickyVM};
