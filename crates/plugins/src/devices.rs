//! Devices as [`DynamicResources`](crate::DynamicResources) allocates them.
//!
//! Reading order: the API objects [`claim`] (what pods ask for and get), [`class`], [`mod@slice`] (what drivers offer) and
//! [`taint`]; `pools` (what one node sees) and `usage`; `allocator` (the search for free devices) with `plan`, `search`,
//! `constraint`, `capacity`, `counters` and `selectors`; `results` (what is written about the chosen devices); `books`
//! (the index) with `extended`, `answers` and `memo`.
//!
//! Invariants: everything that kube-apiserver may omit or set to null decodes to the default, and an allocation that is
//! decoded and encoded again is unchanged. An answer that is kept equals the answer that the allocator would give now.

mod allocator;
mod answers;
mod books;
mod capacity;
pub mod claim;
pub mod class;
mod constraint;
mod counters;
mod extended;
mod gates;
mod memo;
mod plan;
mod pools;
mod results;
mod search;
mod selectors;
pub mod slice;
pub mod taint;
mod usage;
mod wire;

pub use allocator::AllocationError;
pub use books::{DeviceQuery, Devices};
pub use claim::{Allocation, ResourceClaim};
pub use class::DeviceClass;
pub use extended::CLASS_PREFIX;
pub use gates::DeviceGates;
pub use results::rank;
pub use slice::{Device, ResourceSlice};

#[cfg(test)]
mod tests;
