//! CapacityScheduling: shares a cluster by quotas that borrow from each other what they do not use.
//!
//! The plugin has the name and the custom resource of the plugin of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Reading order: [`elastic_quota`] and [`quota_group`] (the custom resources), [`amounts`], [`tree`] (the quotas, from
//! the whole to the namespaces), [`ledger`] (what is used), [`claim`] (whether a pod is admitted), [`share`] (who has
//! borrowed more than is fair), [`terms`] (who is evicted), [`members`] (for how many members of a group), [`plugin`]
//! (extension points and hints), [`sort`] (the order of the queue by shares), [`controller`] (a program that writes into
//! the statuses of quotas what is used).
//!
//! Invariants: no decision of the scheduler makes the pods of a quota, or of those below it, use more than its max, nor
//! the pods of all quotas more than the quotas guarantee together. A pod within its quota's min is never refused for good
//! because others have borrowed: they are evicted.

pub mod amounts;
pub mod claim;
pub mod controller;
pub mod elastic_quota;
pub mod ledger;
pub mod members;
pub mod plugin;
pub mod quota_group;
pub mod share;
pub mod sort;
pub mod terms;
pub mod tree;

pub use elastic_quota::ElasticQuota;
pub use plugin::CapacityScheduling;
pub use quota_group::QuotaGroup;
pub use sort::QuotaSort;

#[cfg(test)]
mod tests;
