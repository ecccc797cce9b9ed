//! Devices that several claims have although they cannot share them.
//!
//! The scheduler never allocates such a device, but a write of another scheduler may arrive late: the API server does
//! not compare claims with each other.

use std::collections::BTreeMap;

use harbormaster_api::Str;
use harbormaster_framework::index::Contradiction;

use super::pools::PoolKey;

/// Devices that several claims have although they cannot share them, by pool and name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Conflicts(BTreeMap<(PoolKey, Str), Contradiction>);

impl Conflicts {
    /// Records the claims that have a device, by namespace and name. There is a conflict if there are several.
    pub(super) fn set<'a>(
        &mut self,
        pool: &PoolKey,
        device: &Str,
        claims: impl Iterator<Item = &'a (Str, Str)>,
    ) {
        let mut objects: Vec<_> = claims.map(|(namespace, name)| format!("{namespace}/{name}")).collect();
        if objects.len() < 2 {
            return self.remove(pool, device);
        }
        objects.sort_unstable();
        let PoolKey { driver, pool: name } = pool;
        let subject = format!("device {device}, pool {name}, driver {driver}");
        let found = Contradiction { problem: "a device is allocated to several claims", subject, objects };
        self.0.insert((pool.clone(), device.clone()), found);
    }

    /// Records that a device has no conflict.
    pub(super) fn remove(&mut self, pool: &PoolKey, device: &Str) {
        if !self.0.is_empty() {
            self.0.remove(&(pool.clone(), device.clone()));
        }
    }

    pub(super) fn all(&self) -> Vec<&Contradiction> {
        self.0.values().collect()
    }
}
