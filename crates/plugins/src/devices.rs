//! Devices as [`DynamicResources`](crate::DynamicResources) allocates them.
//!
//! Reading order: the API objects [`claim`] (what pods ask for and get), [`class`], [`mod@slice`] (what drivers
//! offer), [`taint`] and [`taint_rule`]; `pools` (pools as one node sees them) and `usage`; `allocator` (the search for
//! free devices) with `plan`, `search`, `constraint`, `capacity`, `counters`, `selectors` and `memo`; [`named`] (small maps); `results`
//! (allocations of the chosen devices); `rules` (differences between releases); `versions` (older versions of the API);
//! `books` (the index) with `extended`, `answers` and `conflicts`.
//!
//! Invariants: everything that kube-apiserver may omit or set to null decodes to the default, and an allocation that
//! is decoded and encoded again is unchanged. A cached answer equals the answer that the allocator would compute.

mod allocator;
mod answers;
mod books;
mod capacity;
pub mod claim;
pub mod class;
mod conflicts;
mod constraint;
mod counters;
mod extended;
mod gates;
mod memo;
pub mod named;
mod plan;
mod pools;
mod results;
mod rules;
mod search;
mod selectors;
pub mod slice;
pub mod taint;
pub mod taint_rule;
mod usage;
mod versions;
mod wire;

pub use allocator::AllocationError;
pub use books::{DeviceQuery, Devices};
pub use claim::{Allocation, ResourceClaim};
pub use class::DeviceClass;
pub use extended::{CLAIM_ANNOTATION, CLASS_PREFIX, is_provided, may_be_provided, pod_of};
pub use gates::DeviceGates;
pub use results::rank;
pub use slice::{Device, ResourceSlice};
pub use taint_rule::{DeviceTaintRule, have_different_taints};

#[cfg(test)]
mod tests;
