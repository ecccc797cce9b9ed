//! Small maps with names as keys.

use std::collections::BTreeMap;

use harbormaster_api::Str;
use serde::{Deserialize, Deserializer};

/// Values by name, in the order of the names. Takes a third of the memory of a [`BTreeMap`] with a few entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T>(Box<[(Str, T)]>);

impl<T> Named<T> {
    /// Returns the value of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        let at = self.0.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// Returns true if there is a value of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All names and values, in the order of the names.
    pub fn entries(&self) -> &[(Str, T)] {
        &self.0
    }

    /// Iterates over the names and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &T)> + Clone {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Replaces names by equal ones of `other`, so that their text is stored once. Calls `share` for the values of equal
    /// names. Only names at the same position are compared: devices of one slice usually have the same names.
    pub(super) fn share_with(&mut self, other: &Self, share: impl Fn(&mut T, &T)) {
        for ((name, value), (other_name, other_value)) in self.0.iter_mut().zip(&other.0) {
            if name == other_name {
                *name = other_name.clone();
                share(value, other_value);
            }
        }
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<T> FromIterator<(Str, T)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (Str, T)>>(all: I) -> Self {
        // If a name occurs twice, the last value counts.
        Self(all.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::deserialize(from)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_listed_in_order() {
        let map: Named<i32> = serde_json::from_str(r#"{"b": 1, "a": 2, "c/d": 3, "b": 4}"#).unwrap();
        assert_eq!(
            map.iter().map(|(name, value)| (&**name, *value)).collect::<Vec<_>>(),
            [("a", 2), ("b", 4), ("c/d", 3)]
        );
        assert_eq!(
            ["a", "b", "c/d", "c", ""].map(|name| map.get(name).copied()),
            [Some(2), Some(4), Some(3), None, None]
        );
        assert!(map.contains("a") && !Named::<i32>::default().contains("a"));
    }
}
