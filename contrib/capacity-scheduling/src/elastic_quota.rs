//! ElasticQuota (`scheduling.x-k8s.io/v1alpha1`): what the pods of a namespace are guaranteed, and the most that they
//! may use.

use std::collections::BTreeMap;

use harbormaster::{
    api::{Quantity, Str},
    prelude::*,
    serde::{Deserialize, Deserializer, de::Error},
};

use crate::amounts::Amounts;

/// The quota of a namespace. Resources that a scheduler does not count, such as `pods`, are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde", from = "Wire")]
pub struct ElasticQuota {
    /// `spec.min`: what is guaranteed. Of a resource that is not listed, nothing is.
    pub min: Amounts,
    /// `spec.max`: the most that may be used. A resource that is not listed is unlimited.
    pub max: Amounts,
}

impl Resource for ElasticQuota {
    const GROUP: &'static str = "scheduling.x-k8s.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "ElasticQuota";
    const PLURAL: &'static str = "elasticquotas";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

#[derive(Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct Wire {
    spec: WireSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct WireSpec {
    min: Option<BTreeMap<Str, NotNegative>>,
    max: Option<BTreeMap<Str, NotNegative>>,
}

/// A quantity of at least zero.
#[derive(Debug)]
pub(crate) struct NotNegative(Quantity);

impl NotNegative {
    /// Returns the amounts of a list; none if there is no list.
    pub(crate) fn amounts(list: Option<BTreeMap<Str, Self>>) -> Amounts {
        list.into_iter().flatten().map(|(name, Self(quantity))| (name, quantity)).collect()
    }
}

impl<'de> Deserialize<'de> for NotNegative {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let quantity = Quantity::deserialize(from)?;
        if quantity < Quantity::default() {
            return Err(D::Error::custom(format!("{quantity} is negative")));
        }
        Ok(Self(quantity))
    }
}

impl From<Wire> for ElasticQuota {
    fn from(Wire { spec }: Wire) -> Self {
        Self { min: NotNegative::amounts(spec.min), max: NotNegative::amounts(spec.max) }
    }
}
