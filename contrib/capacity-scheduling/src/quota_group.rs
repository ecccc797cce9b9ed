//! QuotaGroup (`harbormaster.dev/v1alpha1`): a quota above others, or a quota of several namespaces.
//!
//! ElasticQuotas stay as scheduler-plugins defines them. A QuotaGroup lists the namespaces below it, and names the group
//! above it, so that all groups together form a tree whose leaves are namespaces.

use std::collections::BTreeMap;

use harbormaster::{
    api::Str,
    prelude::*,
    serde::{Deserialize, Deserializer, de::Error},
};

use crate::{amounts::Amounts, elastic_quota::NotNegative};

/// Largest weight.
const MAX_WEIGHT: i64 = 1_000_000;

/// A quota of several namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde", from = "Wire")]
pub struct QuotaGroup {
    /// `spec.parent`: name of the group above this one. Without it, the group is at the top, beside ElasticQuotas that
    /// are in no group.
    pub parent: Option<Str>,
    /// `spec.min`: what is guaranteed to the group.
    pub min: Amounts,
    /// `spec.max`: the most that the group may use. A resource that is not listed is unlimited.
    pub max: Amounts,
    /// `spec.weight`: share of what is lent, relative to the quotas beside this one. Quotas without weights do not take
    /// from each other what they have borrowed.
    pub weight: Option<u32>,
    /// `spec.namespaces`, with the weights of their ElasticQuotas.
    pub namespaces: BTreeMap<Str, Option<u32>>,
}

impl Resource for QuotaGroup {
    const GROUP: &'static str = "harbormaster.dev";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "QuotaGroup";
    const PLURAL: &'static str = "quotagroups";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

#[derive(Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct Wire {
    spec: WireSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct WireSpec {
    parent: Option<Str>,
    min: Option<BTreeMap<Str, NotNegative>>,
    max: Option<BTreeMap<Str, NotNegative>>,
    weight: Option<Weight>,
    namespaces: Option<Vec<Member>>,
}

#[derive(Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct Member {
    name: Str,
    #[serde(default)]
    weight: Option<Weight>,
}

/// A number from 1 to [`MAX_WEIGHT`].
#[derive(Clone, Copy, Debug)]
struct Weight(u32);

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let weight = i64::deserialize(from)?;
        let fits = u32::try_from(weight).ok().filter(|_| (1..=MAX_WEIGHT).contains(&weight));
        fits.map(Self).ok_or_else(|| D::Error::custom(format!("{weight} is not between 1 and {MAX_WEIGHT}")))
    }
}

impl From<Wire> for QuotaGroup {
    fn from(Wire { spec }: Wire) -> Self {
        let mut namespaces = BTreeMap::new();
        for Member { name, weight } in spec.namespaces.into_iter().flatten() {
            namespaces.entry(name).or_insert(weight.map(|Weight(weight)| weight));
        }
        Self {
            parent: spec.parent.filter(|name| !name.is_empty()),
            min: NotNegative::amounts(spec.min),
            max: NotNegative::amounts(spec.max),
            weight: spec.weight.map(|Weight(weight)| weight),
            namespaces,
        }
    }
}
