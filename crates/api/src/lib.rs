//! The scheduler's model of Kubernetes objects.
//!
//! The types are *slim*: they contain only the fields that scheduling reads, so a bound pod costs hundreds of bytes.
//! [`wire`] decodes them from the API server's JSON and is the only module that contains the field names of the wire
//! format (camel case, every field optional). The types' own `serde` form is for recordings and differs from the API's
//! form.
//!
//! Reading order:
//! 1. [`strings`] and [`labels`] (vocabulary), [`quantity`] and [`resources`] (amounts)
//! 2. [`selector`] and [`taint`] (matching)
//! 3. [`pod`] and [`node`] (the objects), [`requests`] (effective resource requests), [`qos`] (classes of pods)
//! 4. [`args`] (arguments of the in-tree plugins), [`points`] and [`features`] (names that many crates use),
//!    [`similar`] (suggestions for misspelled names)
//! 5. [`wire`] (decoding), [`device_versions`] (conversion of older versions)
//!
//! Invariants: no I/O, no clock, no tokio, no kube; malformed input never causes a panic.

pub mod args;
pub mod changes;
pub mod device_versions;
pub mod features;
pub mod labels;
pub mod namespace;
pub mod node;
pub mod object;
pub mod object_ref;
pub mod pod;
pub mod points;
pub mod priority_class;
pub mod protobuf;
pub mod qos;
pub mod quantity;
pub mod release;
pub mod requests;
pub mod resources;
pub mod selector;
pub mod similar;
pub mod strings;
pub mod taint;
pub mod time;
pub mod wire;

pub use labels::Labels;
pub use namespace::Namespace;
pub use node::Node;
pub use object::{Object, ObjectKey, ObjectKind, PodDisruptionBudget, Service, Workload, WorkloadKind};
pub use object_ref::ObjectRef;
pub use pod::{Pod, PodSpec};
pub use priority_class::PriorityClass;
pub use qos::QosClass;
pub use quantity::Quantity;
pub use release::Release;
pub use resources::Resources;
pub use strings::Str;
pub use time::Timestamp;
