//! Devices as the plugin DynamicResources reads them: claims, classes and slices.
//!
//! Reading order: [`claim`] (what pods ask for and get), [`class`], [`slice`] (what drivers offer), [`taint`]. `wire`
//! has shared encoding code.
//!
//! Invariant: everything that kube-apiserver may omit or set to null decodes to the default, and an allocation that is
//! decoded and encoded again is unchanged.

pub mod claim;
pub mod class;
mod gates;
pub mod slice;
pub mod taint;
mod wire;

pub use claim::{Allocation, ResourceClaim};
pub use class::DeviceClass;
pub use gates::DeviceGates;
pub use slice::{Device, ResourceSlice};

#[cfg(test)]
mod tests;
