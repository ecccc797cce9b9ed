//! The claims used by pods on nodes, and the volumes of these claims.

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::needed::{ClaimObjects, DriverVolume, of_claim};
use crate::{storage::claim::Claimed, volume_users::one_less};

/// Namespace and name of a claim.
pub(super) type ClaimKey = (Str, Str);

/// All claims in use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    in_use: FxHashMap<ClaimKey, UsedClaim>,
    /// Claims in use, by the name of their volume.
    by_volume: FxHashMap<Str, FxHashSet<ClaimKey>>,
}

/// A claim used by pods on nodes.
#[derive(Debug, Default, PartialEq, Eq)]
struct UsedClaim {
    /// Number of pod volumes that name the claim (`persistentVolumeClaim`), by row.
    rows: FxHashMap<NodeIdx, usize>,
    /// Number of ephemeral volumes whose claim has this name, by row and pod UID. The names of a pod's volumes are
    /// distinct, so a valid pod has only one such volume.
    ephemeral: FxHashMap<(NodeIdx, Str), usize>,
    known: Option<KnownClaim>,
}

/// Properties of a claim that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KnownClaim {
    volume_name: Str,
    class: Str,
    /// UID of the controller.
    owner: Option<Str>,
    volume: Option<DriverVolume>,
}

/// Effect of a claim, or of an in-tree disk, on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClaimEffect {
    /// The volume, and the number of pod volumes that refer to it.
    Uses(DriverVolume, usize),
    /// Number of pod volumes that cannot be determined because the claim has no name or does not belong to the pod, or
    /// because the disk cannot be translated.
    Unknown(usize),
}

/// The rows that a claim affects, each with the effect.
pub(super) type RowEffects = Vec<(NodeIdx, ClaimEffect)>;

impl Claims {
    /// Adds a use of a claim by a pod on the row. Returns the effect of this use on the row, or `None` if it has none.
    pub(super) fn joined(
        &mut self,
        objects: ClaimObjects<'_>,
        row: NodeIdx,
        pod: &PodInfo,
        claimed: &Claimed,
    ) -> Option<ClaimEffect> {
        let key = (pod.namespace.clone(), claimed.name.clone());
        if !self.in_use.contains_key(&key) {
            self.in_use.insert(key.clone(), UsedClaim::default());
            self.resolve(objects, &key);
        }
        let used = self.in_use.get_mut(&key)?;
        if claimed.ephemeral {
            *used.ephemeral.entry((row, pod.uid.clone())).or_default() += 1;
        } else {
            *used.rows.entry(row).or_default() += 1;
        }
        used.effect_for(pod, claimed)
    }

    /// Removes a use of a claim. Returns the effect that this use had, or `None` if it had none.
    pub(super) fn left(&mut self, row: NodeIdx, pod: &PodInfo, claimed: &Claimed) -> Option<ClaimEffect> {
        let key = (pod.namespace.clone(), claimed.name.clone());
        let used = self.in_use.get_mut(&key)?;
        let effect = used.effect_for(pod, claimed);
        if claimed.ephemeral {
            one_less(&mut used.ephemeral, &(row, pod.uid.clone()));
        } else {
            one_less(&mut used.rows, &row);
        }
        if used.rows.is_empty() && used.ephemeral.is_empty() {
            self.forget_volume_of(&key);
            self.in_use.remove(&key);
        }
        effect
    }

    /// Resolves a claim again after the claim, its volume or its class has changed. Returns its effects before and
    /// after.
    pub(super) fn changed(&mut self, objects: ClaimObjects<'_>, key: &ClaimKey) -> (RowEffects, RowEffects) {
        let Some(used) = self.in_use.get(key) else { return Default::default() };
        let before = used.effects();
        self.resolve(objects, key);
        let after = self.in_use.get(key).map(UsedClaim::effects).unwrap_or_default();
        (before, after)
    }

    /// Returns the claims in use that refer to a volume.
    pub(super) fn of_volume_name(&self, volume: &str) -> Vec<ClaimKey> {
        self.by_volume.get(volume).into_iter().flatten().cloned().collect()
    }

    /// Returns the claims in use that belong to a class.
    pub(super) fn of_class(&self, class: &str) -> Vec<ClaimKey> {
        let of_class = |used: &UsedClaim| used.known.as_ref().is_some_and(|known| known.class == *class);
        self.in_use.iter().filter(|(_, used)| of_class(used)).map(|(key, _)| key.clone()).collect()
    }

    /// Looks up the claim and its volume.
    fn resolve(&mut self, objects: ClaimObjects<'_>, key: &ClaimKey) {
        self.forget_volume_of(key);
        let known = objects.claims.get(&key.0, &key.1).map(|claim| KnownClaim {
            volume_name: claim.volume_name.clone(),
            class: claim.class.clone(),
            owner: claim.metadata.controller.as_ref().map(|owner| owner.uid.clone()),
            volume: of_claim(objects, claim, true),
        });
        if let Some(volume) = known.as_ref().map(|known| &known.volume_name).filter(|name| !name.is_empty()) {
            self.by_volume.entry(volume.clone()).or_default().insert(key.clone());
        }
        if let Some(used) = self.in_use.get_mut(key) {
            used.known = known;
        }
    }

    fn forget_volume_of(&mut self, key: &ClaimKey) {
        let known = self.in_use.get(key).and_then(|used| used.known.as_ref());
        let Some(name) = known.map(|known| known.volume_name.clone()) else { return };
        if let Some(claims) = self.by_volume.get_mut(&name) {
            claims.remove(key);
            if claims.is_empty() {
                self.by_volume.remove(&name);
            }
        }
    }
}

impl UsedClaim {
    fn effect_for(&self, pod: &PodInfo, claimed: &Claimed) -> Option<ClaimEffect> {
        let known = self.known.as_ref()?;
        if claimed.ephemeral && known.owner.as_ref() != Some(&pod.uid) {
            return Some(ClaimEffect::Unknown(1));
        }
        Some(ClaimEffect::Uses(known.volume.clone()?, 1))
    }

    fn effects(&self) -> RowEffects {
        let Some(known) = &self.known else { return Vec::new() };
        let uses = |count: usize| known.volume.clone().map(|volume| ClaimEffect::Uses(volume, count));
        let named = self.rows.iter().filter_map(|(row, count)| Some((*row, uses(*count)?)));
        let ephemeral = self.ephemeral.iter().filter_map(|((row, pod), count)| {
            let is_its_own = known.owner.as_ref() == Some(pod);
            Some((*row, if is_its_own { uses(*count)? } else { ClaimEffect::Unknown(*count) }))
        });
        named.chain(ephemeral).collect()
    }
}
