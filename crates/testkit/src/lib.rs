//! Builders, fixtures and conformance checks for plugin authors.
//!
//! Reading order: [`pods`], [`nodes`] and [`mod@custom`] (objects in a few words), [`clusters`] (a node table and a profile made of
//! them), [`trial`] and [`what_if`] (one plugin asked directly), [`fake_api`] (what PreBind writes to), [`conformance`] (what every plugin must hold to),
//! [`random`] (worlds for checks over many inputs).
//!
//! Everything here is for tests: a wrong fixture panics and says why.

pub mod clusters;
pub mod conformance;
pub mod custom;
pub mod fake_api;
pub mod nodes;
pub mod pods;
pub mod random;
pub mod trial;
pub mod what_if;

pub use clusters::{cluster, profile, profile_with_args, profile_with_weights};
pub use conformance::{
    adding_and_removing_is_neutral, batch_equals_single, index_equals_one_made_anew, reads_are_complete,
    row_scope_holds,
};
pub use custom::{custom, remove_custom, set_custom};
pub use fake_api::FakeApi;
pub use nodes::{NodeBuilder, node};
pub use pods::{PodBuilder, labels, pod, tolerates, tolerates_all};
pub use trial::{Trial, rejection};
pub use what_if::WhatIfTrial;
