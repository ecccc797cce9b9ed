//! Devices as [`DynamicResources`](crate::DynamicResources) allocates them.
//!
//! Reading order: the API objects [`claim`] (what pods ask for and get), [`class`], [`slice`] (what drivers offer) and
//! [`taint`]; `pools` (what one node sees); `allocator` (the search for free devices) with `constraint`, `capacity` and
//! `selectors`; `results` (what is written about the chosen devices); `books` (the index) with `answers` and `memo`.
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
mod gates;
mod memo;
mod pools;
mod results;
mod selectors;
pub mod slice;
pub mod taint;
mod wire;

pub use allocator::AllocationError;
pub use books::{DeviceQuery, Devices};
pub use claim::{Allocation, ResourceClaim};
pub use class::DeviceClass;
pub use gates::DeviceGates;
pub use results::rank;
pub use slice::{Device, ResourceSlice};

#[cfg(test)]
mod tests;
