//! The claims that pods on nodes use, and which volumes they stand for.

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::asked::{DriverVolume, found, of_claim};
use crate::{
    storage::{PersistentVolumeClaim, claim::Claimed},
    volume_users::one_less,
};

/// Namespace and name.
pub(super) type ClaimKey = (Str, Str);

/// All claims in use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    in_use: FxHashMap<ClaimKey, UsedClaim>,
    /// The claims in use that name a volume, by its name.
    by_volume: FxHashMap<Str, FxHashSet<ClaimKey>>,
}

/// A claim that pods on nodes use.
#[derive(Debug, Default, PartialEq, Eq)]
struct UsedClaim {
    /// How many volumes of pods name it, on each row.
    rows: FxHashMap<NodeIdx, usize>,
    /// How many ephemeral volumes have its name, by row and UID of their pod: more than one only by mistake.
    ephemeral: FxHashMap<(NodeIdx, Str), usize>,
    known: Option<Known>,
}

/// What is known of a claim that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    volume_name: Str,
    class: Str,
    /// The UID of its controller.
    owner: Option<Str>,
    volume: Option<DriverVolume>,
}

/// What a claim means for a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Volumes of that many pods there are this one.
    Uses(DriverVolume, usize),
    /// That many volumes of pods there cannot be told: a claim has no name, or is not made for the pod.
    Unsure(usize),
}

/// What changes for rows.
pub(super) type Shift = Vec<(NodeIdx, Meaning)>;

impl Claims {
    /// A pod on the row uses a claim. Returns what that means there.
    pub(super) fn joined(
        &mut self,
        objects: &Objects,
        row: NodeIdx,
        pod: &PodInfo,
        claimed: &Claimed,
    ) -> Option<Meaning> {
        let key = (pod.namespace.clone(), claimed.name.clone());
        if !self.in_use.contains_key(&key) {
            self.in_use.insert(key.clone(), UsedClaim::default());
            self.look_up(objects, &key);
        }
        let used = self.in_use.get_mut(&key)?;
        if claimed.ephemeral {
            *used.ephemeral.entry((row, pod.uid.clone())).or_default() += 1;
        } else {
            *used.rows.entry(row).or_default() += 1;
        }
        used.meaning_for(pod, claimed)
    }

    /// It does so no more. Returns what that meant.
    pub(super) fn left(&mut self, row: NodeIdx, pod: &PodInfo, claimed: &Claimed) -> Option<Meaning> {
        let key = (pod.namespace.clone(), claimed.name.clone());
        let used = self.in_use.get_mut(&key)?;
        let meaning = used.meaning_for(pod, claimed);
        if claimed.ephemeral {
            one_less(&mut used.ephemeral, &(row, pod.uid.clone()));
        } else {
            one_less(&mut used.rows, &row);
        }
        if used.rows.is_empty() && used.ephemeral.is_empty() {
            self.forget_volume_of(&key);
            self.in_use.remove(&key);
        }
        meaning
    }

    /// A claim, or what it points to, may be another. Returns what it meant for rows and what it means now.
    pub(super) fn changed(&mut self, objects: &Objects, key: &ClaimKey) -> (Shift, Shift) {
        let Some(used) = self.in_use.get(key) else { return Default::default() };
        let before = used.meanings();
        self.look_up(objects, key);
        let after = self.in_use.get(key).map(UsedClaim::meanings).unwrap_or_default();
        (before, after)
    }

    /// The claims in use that name a volume.
    pub(super) fn naming(&self, volume: &str) -> Vec<ClaimKey> {
        self.by_volume.get(volume).into_iter().flatten().cloned().collect()
    }

    /// The claims in use of a class.
    pub(super) fn of_class(&self, class: &str) -> Vec<ClaimKey> {
        let of_class = |used: &UsedClaim| used.known.as_ref().is_some_and(|known| known.class == *class);
        self.in_use.iter().filter(|(_, used)| of_class(used)).map(|(key, _)| key.clone()).collect()
    }

    /// Looks at the claim anew.
    fn look_up(&mut self, objects: &Objects, key: &ClaimKey) {
        self.forget_volume_of(key);
        let known = found::<PersistentVolumeClaim>(objects, &key.0, &key.1).map(|claim| Known {
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
    fn meaning_for(&self, pod: &PodInfo, claimed: &Claimed) -> Option<Meaning> {
        let known = self.known.as_ref()?;
        if claimed.ephemeral && known.owner.as_ref() != Some(&pod.uid) {
            return Some(Meaning::Unsure(1));
        }
        Some(Meaning::Uses(known.volume.clone()?, 1))
    }

    fn meanings(&self) -> Shift {
        let Some(known) = &self.known else { return Vec::new() };
        let uses = |count: usize| known.volume.clone().map(|volume| Meaning::Uses(volume, count));
        let named = self.rows.iter().filter_map(|(row, count)| Some((*row, uses(*count)?)));
        let ephemeral = self.ephemeral.iter().filter_map(|((row, pod), count)| {
            let is_its_own = known.owner.as_ref() == Some(pod);
            Some((*row, if is_its_own { uses(*count)? } else { Meaning::Unsure(*count) }))
        });
        named.chain(ephemeral).collect()
    }
}
