//! The plugins of `docs/plugins.md`, one file per chapter. Every listing of the guide stands here word by word
//! (`tests/listings.rs` looks), so that it compiles, and is tested: one plugin alone beside its code, all of it in
//! `tests/sandbox.rs`.
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
