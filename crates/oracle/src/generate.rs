//! Random clusters generated from seeds: Kubernetes objects with realistic values and edge cases.
//!
//! A cluster mixes a few [flavours](Flavour). Each flavour varies one part of the API: taints, host ports, images, ...
//! To cover a new plugin, add a file with a flavour and one line in `flavour::all`.
//!
//! Equal seeds and shapes generate equal clusters on every machine.

mod affinity;
mod cluster;
mod config;
pub(crate) mod devices;
mod features;
mod flavour;
mod gates;
mod images;
mod labels;
mod lifecycle;
mod namespaces;
mod owners;
mod pod_affinity;
mod ports;
mod quantity;
mod random;
mod resize;
mod resources;
mod selectors;
mod spread;
mod storage;
mod taints;
mod world;

pub use cluster::{Cluster, Generator, Shape, is_pending};
pub(crate) use config::SCORERS;
pub use flavour::Flavour;
pub(crate) use gates::priority_class_name;
pub(crate) use namespaces::ADMIN_NAMESPACE;
pub use namespaces::namespaces;
pub(crate) use owners::service;
pub use random::Random;
pub(crate) use taints::taint;
pub(crate) use world::push;
pub use world::{Profile, World};
