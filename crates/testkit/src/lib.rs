//! Builders, fixtures and conformance checks for plugin authors.
//!
//! Reading order: [`pods`], [`nodes`] and [`mod@custom`] (builders), [`clusters`] (clusters and profiles), [`trial`]
//! and [`what_if`] (run one plugin), [`fake_api`] (the API server that PreBind writes to), [`fake_web`] (servers from which plugins fetch objects), [`conformance`] (rules for
//! all plugins), [`random`] (random clusters), [`words`] (names and values in random clusters), [`happenings`] (changes
//! in a cluster).
//!
//! Everything here is for tests: invalid fixtures panic with the reason.

pub mod clusters;
pub mod conformance;
pub mod custom;
pub mod fake_api;
pub mod fake_web;
pub mod happenings;
pub mod nodes;
pub mod pods;
pub mod random;
pub mod trial;
mod variants;
pub mod what_if;
pub mod words;

pub use clusters::{cluster, nominate, profile, profile_for, profile_with_args, profile_with_weights};
pub use conformance::{
    adding_and_removing_is_neutral, answers_are_repeatable, batch_equals_single, index_equals_rebuilt_one,
    order_is_strict, permit_lets_all_go, reads_are_complete, reserve_is_taken_back, resource_fits_definition,
    row_scope_holds, scores_are_valid, what_helps_wakes, what_helps_wakes_anywhere,
};
pub use custom::{custom, remove_custom, set_custom};
pub use fake_api::FakeApi;
pub use fake_web::FakeWeb;
pub use happenings::Happening;
pub use nodes::{NodeBuilder, node};
pub use pods::{PodBuilder, labels, pod, tolerates, tolerates_all};
pub use trial::{Trial, rejection};
pub use what_if::WhatIfTrial;
pub use words::Words;
