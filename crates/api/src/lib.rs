//! What the scheduler knows of Kubernetes objects.
//!
//! These are *slim* types: they hold the fields that scheduling reads and nothing else, so that a bound pod
//! costs hundreds of bytes. They are decoded from the API server's JSON by [`wire`], which is the only module
//! that knows field names on the wire (camel case, optional everything). What `serde` makes of the types themselves is the
//! form of recordings, not that of the API.
//!
//! Reading order: [`strings`] and [`labels`] (the vocabulary), [`quantity`] and [`resources`] (amounts),
//! [`selector`] and [`taint`] (matching), [`pod`] and [`node`] (the objects), [`requests`] (what a pod asks for),
//! [`args`] (arguments of the in-tree plugins), [`points`] and [`features`] (words that every crate needs), [`similar`]
//! (names that were meant), [`wire`] (decoding).
//!
//! Invariants: no I/O, no clock, no tokio, no kube; nothing panics on odd input.

pub mod args;
pub mod changes;
pub mod features;
pub mod labels;
pub mod namespace;
pub mod node;
pub mod object;
pub mod object_ref;
pub mod pod;
pub mod points;
pub mod priority_class;
pub mod quantity;
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
pub use quantity::Quantity;
pub use resources::Resources;
pub use strings::Str;
pub use time::Timestamp;
