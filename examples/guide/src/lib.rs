//! The plugins of `docs/plugins.md`, the guide for plugin authors, one file per plugin. `tests/it/listings.rs` checks
//! that every listing in the guide appears unchanged in the examples. All plugins except [`shaky`] have unit tests, and
//! `tests/it/sandbox.rs` runs them in the sandbox.
//!
//! Reading order: [`gpu`], [`headroom`], [`maintenance`], [`tariff`], [`tenants`], [`gang`], [`crew`], [`halls`], [`licenses`],
//! [`shaky`].

pub mod crew;
pub mod gang;
pub mod gpu;
pub mod halls;
pub mod headroom;
pub mod licenses;
pub mod maintenance;
pub mod shaky;
pub mod tariff;
pub mod tenants;

pub use crew::Crews;
pub use gang::Gang;
pub use gpu::Gpu;
pub use halls::Halls;
pub use headroom::Headroom;
pub use licenses::Seats;
pub use maintenance::NoMaintenance;
pub use shaky::Shaky;
pub use tariff::Tariff;
pub use tenants::TenantLimit;
