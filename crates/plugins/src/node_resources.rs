//! The plugins that compare requests with the resources of nodes: [`NodeResourcesFit`] and
//! [`NodeResourcesBalancedAllocation`].
//!
//! Both read the columns of the node table. A lane is one resource over all rows.

mod backing;
pub mod balanced;
mod demand;
pub mod fit;
mod lanes;
pub(crate) mod shortage;
mod strategy;

pub use balanced::NodeResourcesBalancedAllocation;
pub use demand::INSUFFICIENT;
pub use fit::NodeResourcesFit;
