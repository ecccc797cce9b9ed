//! The plugins of `docs/plugins.md`, one file per chapter. `tests/it/listings.rs` checks that every listing in the guide
//! appears here unchanged. Each file has unit tests; `tests/it/sandbox.rs` runs the plugins together.
//!
//! Reading order: [`gpu`], [`headroom`], [`maintenance`], [`tenants`], [`gang`], [`licenses`], [`shaky`].

pub mod gang;
pub mod gpu;
pub mod headroom;
pub mod licenses;
pub mod maintenance;
pub mod shaky;
pub mod tenants;

pub use gang::Gang;
pub use gpu::Gpu;
pub use headroom::Headroom;
pub use licenses::Seats;
pub use maintenance::NoMaintenance;
pub use shaky::Shaky;
pub use tenants::TenantLimit;
