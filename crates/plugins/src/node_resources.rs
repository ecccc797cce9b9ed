//! The plugins that weigh requests against what nodes have: [`NodeResourcesFit`] and
//! [`NodeResourcesBalancedAllocation`].
//!
//! Both work on the columns of the node table: a lane is one resource over all rows.

pub mod balanced;
mod demand;
pub mod fit;
mod lanes;
pub(crate) mod shortage;
mod strategy;

pub use balanced::NodeResourcesBalancedAllocation;
pub use fit::NodeResourcesFit;
