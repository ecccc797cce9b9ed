//! Amounts of resources, in sums that cannot overflow.

use std::{collections::BTreeMap, iter};

use harbormaster::{
    api::{Quantity, Str, resources},
    prelude::*,
};

/// Thousandths of a core, bytes, or units, by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<Str, i128>);

impl Amounts {
    /// No amounts.
    pub const NONE: Self = Self(BTreeMap::new());

    /// Returns true if no resource is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the amount of a resource, zero if it is not listed.
    pub fn get(&self, resource: &str) -> i128 {
        self.0.get(resource).copied().unwrap_or_default()
    }

    /// Returns the amount of a resource if it is listed.
    pub fn listed(&self, resource: &str) -> Option<i128> {
        self.0.get(resource).copied()
    }

    /// The listed resources.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, i128)> {
        self.0.iter().map(|(resource, amount)| (resource, *amount))
    }

    /// Adds amounts. A resource whose amount becomes zero is no longer listed.
    pub fn add<'a>(&mut self, amounts: impl IntoIterator<Item = (&'a str, i128)>) {
        for (resource, amount) in amounts {
            match self.0.get_mut(resource) {
                Some(sum) => *sum += amount,
                None => drop(self.0.insert(resource.into(), amount)),
            }
            if self.0.get(resource) == Some(&0) {
                self.0.remove(resource);
            }
        }
    }

    /// Subtracts amounts, as [`Self::add`] adds them.
    pub fn subtract<'a>(&mut self, amounts: impl IntoIterator<Item = (&'a str, i128)>) {
        self.add(amounts.into_iter().map(|(resource, amount)| (resource, -amount)));
    }

    /// Adds amounts, and lists those that are zero, too.
    pub fn list<'a>(&mut self, amounts: impl IntoIterator<Item = (&'a Str, i128)>) {
        for (resource, amount) in amounts {
            *self.0.entry(resource.clone()).or_default() += amount;
        }
    }

    /// Raises amounts to these, if they are lower or not listed.
    pub fn raise<'a>(&mut self, amounts: impl IntoIterator<Item = (&'a Str, i128)>) {
        for (resource, amount) in amounts {
            let own = self.0.entry(resource.clone()).or_default();
            *own = amount.max(*own);
        }
    }

    /// Returns how much of the listed amounts exceeds others; zero of a resource of which nothing does.
    #[must_use]
    pub fn beyond(&self, others: &Self) -> Self {
        let rest =
            |(resource, amount): (&Str, &i128)| (resource.clone(), (amount - others.get(resource)).max(0));
        Self(self.0.iter().map(rest).collect())
    }

    /// The listed resources with plain names, as [`Self::add`] takes them.
    pub fn parts(&self) -> impl Iterator<Item = (&str, i128)> {
        self.0.iter().map(|(resource, amount)| (resource.as_str(), *amount))
    }
}

/// Collects quantities, and drops those of resources that schedulers do not count.
impl FromIterator<(Str, Quantity)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (Str, Quantity)>>(quantities: I) -> Self {
        let counted = quantities.into_iter().filter(|(resource, _)| is_counted(resource));
        Self(counted.map(|(resource, quantity)| (resource.clone(), amount(&resource, &quantity))).collect())
    }
}

fn is_counted(resource: &str) -> bool {
    let has_field = [resources::CPU, resources::MEMORY, resources::EPHEMERAL_STORAGE].contains(&resource);
    has_field || resources::is_scalar(resource)
}

/// Converts a quantity, rounding up.
fn amount(resource: &str, quantity: &Quantity) -> i128 {
    let nanos = if resource == resources::CPU { 1_000_000 } else { 1_000_000_000 };
    quantity.nanos().div_euclid(nanos) + i128::from(quantity.nanos().rem_euclid(nanos) > 0)
}

/// The resources that a pod requests, and how much of each.
pub fn requested(pod: &PodInfo) -> impl Iterator<Item = (&str, i128)> {
    let request = pod.request();
    let fields = [
        (resources::CPU, request.milli_cpu),
        (resources::MEMORY, request.memory),
        (resources::EPHEMERAL_STORAGE, request.ephemeral_storage),
    ];
    let scalars = request.scalars.iter().map(|(resource, amount)| (resource.as_str(), *amount));
    let all = iter::empty().chain(fields).chain(scalars);
    all.filter(|(_, amount)| *amount != 0).map(|(resource, amount)| (resource, i128::from(amount)))
}

/// Formats an amount for messages.
pub fn text(resource: &str, amount: i128) -> String {
    let number = i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX });
    let is_memory = [resources::MEMORY, resources::EPHEMERAL_STORAGE].contains(&resource)
        || resources::is_hugepages(resource);
    match resource {
        resources::CPU => Quantity::from_milli(number).to_string(),
        _ if is_memory => Quantity::from_binary_units(number).to_string(),
        _ => number.to_string(),
    }
}
