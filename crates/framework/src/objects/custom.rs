//! Decoded custom objects by kind, and assumptions about them.

use std::collections::BTreeMap;

use harbormaster_api::Str;
use rustc_hash::FxHashMap;

use crate::{
    assume::{Assumption, Creation},
    guard::PointError,
    resource::{AnyCustom, CustomChange, CustomKey, RawObject, Resource, ResourceKind, Undecodable},
};

/// All kinds that plugins read.
#[derive(Debug, Default)]
pub(super) struct CustomObjects {
    kinds: Vec<KindStore>,
    /// Objects with assumptions, keyed by the UID of the pod for which the assumptions were made.
    assumed_for: FxHashMap<Str, Vec<CustomKey>>,
}

/// The objects of one kind.
#[derive(Debug)]
struct KindStore {
    kind: ResourceKind,
    /// Printed name of the kind.
    label: Str,
    /// The versions that plugins see, by namespace and name.
    objects: BTreeMap<Str, BTreeMap<Str, AnyCustom>>,
    /// Objects that plugins see, by [`Resource::key`].
    by_key: FxHashMap<Str, BTreeMap<(Str, Str), AnyCustom>>,
    /// Objects with assumptions.
    assumed: FxHashMap<CustomKey, AssumedObject>,
    /// Objects that do not exist yet, each with the UID of the pod for which it was assumed.
    expected: Vec<(Str, Creation)>,
    /// Errors for objects that cannot be decoded.
    undecodable: BTreeMap<CustomKey, Undecodable>,
}

/// An object with assumptions.
#[derive(Debug)]
struct AssumedObject {
    /// The API server's version.
    confirmed: AnyCustom,
    /// The assumptions in order, each with the UID of the pod for which it was made.
    assumptions: Vec<(Str, Assumption)>,
}

/// Result of changing an object.
#[derive(Debug, Default)]
pub(crate) struct CustomOutcome {
    /// Changes between consecutive versions from the API server, for plugins.
    pub(crate) changes: Vec<CustomChange>,
    /// New decoding errors.
    pub(crate) undecodable: Vec<Undecodable>,
    /// Errors from assumptions and expected objects; these assumptions and objects were dropped.
    pub(crate) errors: Vec<PointError>,
    /// Expected objects that plugins no longer see, because the real objects have arrived.
    pub(crate) replaced: Vec<CustomKey>,
}

impl CustomObjects {
    /// Stores objects of the given kind from now on. If two Rust types represent one kind, each type has its own store.
    pub(super) fn add_kind(&mut self, kind: ResourceKind) {
        if !self.kinds.iter().any(|store| store.kind.is_same(&kind)) {
            self.kinds.push(KindStore {
                kind,
                label: kind.name().to_string().into(),
                objects: BTreeMap::new(),
                by_key: FxHashMap::default(),
                assumed: FxHashMap::default(),
                expected: Vec::new(),
                undecodable: BTreeMap::new(),
            });
        }
    }

    /// Adds or replaces an object.
    pub(super) fn set(&mut self, raw: &RawObject) -> CustomOutcome {
        let mut outcome = CustomOutcome::default();
        for store in of(&mut self.kinds, &raw.key) {
            let new = match store.kind.decode(raw) {
                Ok(object) => {
                    store.undecodable.remove(&raw.key);
                    Some(object)
                }
                Err(why) => {
                    let before = store.undecodable.insert(raw.key.clone(), why.clone());
                    outcome.undecodable.extend((before.as_ref() != Some(&why)).then_some(why));
                    None
                }
            };
            if let Some(new) = &new {
                store.meet_expectations(new, &mut outcome);
            }
            outcome.changes.extend(store.replace(&raw.key, new, &mut outcome.errors));
        }
        outcome
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, key: &CustomKey) -> CustomOutcome {
        let mut outcome = CustomOutcome::default();
        for store in of(&mut self.kinds, key) {
            store.undecodable.remove(key);
            outcome.changes.extend(store.replace(key, None, &mut outcome.errors));
        }
        outcome
    }

    /// Applies an assumption made for a pod. Returns true if the object changed.
    pub(super) fn assume(&mut self, pod: &Str, assumption: Assumption) -> Result<bool, PointError> {
        let key = assumption.key.clone();
        let store = self.kinds.iter_mut().find(|store| store.kind.is_same(&assumption.kind));
        let Some(store) = store else { return Ok(false) };
        let Some(visible) = store.get(&key).cloned() else { return Ok(false) };
        let Some(assumed) = assumption.applied(&visible)? else { return Ok(false) };
        store.show(&key, assumed);
        let entry = store.assumed.entry(key.clone());
        let entry = entry.or_insert_with(|| AssumedObject { confirmed: visible, assumptions: Vec::new() });
        entry.assumptions.push((pod.clone(), assumption));
        self.assumed_for.entry(pod.clone()).or_default().push(key);
        Ok(true)
    }

    /// Shows plugins an object that does not exist yet. Returns false if no plugin reads its kind.
    pub(super) fn expect(&mut self, pod: &Str, creation: Creation) -> bool {
        let store = self.kinds.iter_mut().find(|store| store.kind.is_same(&creation.kind));
        let Some(store) = store else { return false };
        store.show(&creation.key, creation.object.clone());
        store.expected.push((pod.clone(), creation));
        true
    }

    /// Reverts the assumptions made for a pod, and hides the objects that are expected for it. Returns the keys of the
    /// objects that changed, and the errors of other pods' assumptions.
    pub(super) fn revert_assumptions(&mut self, pod: &str) -> (Vec<CustomKey>, Vec<PointError>) {
        let (mut different, mut errors) = (Vec::new(), Vec::new());
        for key in self.assumed_for.remove(pod).unwrap_or_default() {
            let reverted =
                of(&mut self.kinds, &key).map(|store| store.revert_assumptions(&key, pod, &mut errors));
            if reverted.fold(false, |any, one| any | one) {
                different.push(key);
            }
        }
        different.extend(self.kinds.iter_mut().flat_map(|store| store.expect_no_longer(pod)));
        (different, errors)
    }

    pub(super) fn contains(&self, key: &CustomKey) -> bool {
        self.kinds.iter().any(|store| store.label == key.resource && store.get(key).is_some())
    }

    /// Keys of all objects, ordered within each kind.
    pub(super) fn keys(&self) -> impl Iterator<Item = CustomKey> + '_ {
        self.kinds.iter().flat_map(|store| {
            let names =
                store.objects.iter().flat_map(|(namespace, some)| some.keys().map(move |n| (namespace, n)));
            names.map(|(namespace, name)| CustomKey {
                resource: store.label.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            })
        })
    }

    /// Objects of a kind by namespace and name; `None` if no plugin reads the kind.
    pub(super) fn objects<R: Resource>(&self) -> Option<&BTreeMap<Str, BTreeMap<Str, AnyCustom>>> {
        self.store::<R>().map(|store| &store.objects)
    }

    /// Objects of a kind that have this key, ordered by namespace and name.
    pub(super) fn with_key<R: Resource>(&self, key: &str) -> impl Iterator<Item = &AnyCustom> {
        let found = self.store::<R>().and_then(|store| store.by_key.get(key));
        found.into_iter().flat_map(BTreeMap::values)
    }

    fn store<R: Resource>(&self) -> Option<&KindStore> {
        self.kinds.iter().find(|store| store.kind.is::<R>())
    }
}

fn of<'a>(kinds: &'a mut [KindStore], key: &'a CustomKey) -> impl Iterator<Item = &'a mut KindStore> + 'a {
    kinds.iter_mut().filter(|store| store.label == key.resource)
}

impl KindStore {
    fn get(&self, key: &CustomKey) -> Option<&AnyCustom> {
        self.objects.get(&key.namespace)?.get(&key.name)
    }

    /// Makes an object visible to plugins. Returns the version that plugins saw before.
    fn show(&mut self, key: &CustomKey, object: AnyCustom) -> Option<AnyCustom> {
        let new_key = self.kind.key(&object).cloned();
        if let Some(by) = new_key.clone() {
            let id = (key.namespace.clone(), key.name.clone());
            self.by_key.entry(by).or_default().insert(id, object.clone());
        }
        let old = self.objects.entry(key.namespace.clone()).or_default().insert(key.name.clone(), object);
        self.forget_key(key, old.as_ref(), new_key.as_ref());
        old
    }

    /// Removes the entry of an old version by its key, unless the new version has the same key.
    fn forget_key(&mut self, key: &CustomKey, old: Option<&AnyCustom>, new_key: Option<&Str>) {
        let Some(by) = old.and_then(|old| self.kind.key(old)) else { return };
        if new_key == Some(by) {
            return;
        }
        if let Some(same) = self.by_key.get_mut(by) {
            same.remove(&(key.namespace.clone(), key.name.clone()));
            if same.is_empty() {
                self.by_key.remove(by);
            }
        }
    }

    /// Hides an object from plugins. Returns the version that plugins saw before.
    fn hide(&mut self, key: &CustomKey) -> Option<AnyCustom> {
        let some = self.objects.get_mut(&key.namespace)?;
        let old = some.remove(&key.name);
        if some.is_empty() {
            self.objects.remove(&key.namespace);
        }
        self.forget_key(key, old.as_ref(), None);
        old
    }

    /// Hides the expected objects that the new object replaces.
    fn meet_expectations(&mut self, new: &AnyCustom, outcome: &mut CustomOutcome) {
        let mut met = Vec::new();
        self.expected.retain(|(_, creation)| {
            let is_met = creation.is_created(new).unwrap_or_else(|panic| {
                outcome.errors.push(panic);
                true
            });
            met.extend(is_met.then(|| creation.key.clone()));
            !is_met
        });
        met.iter().for_each(|key| drop(self.hide(key)));
        outcome.replaced.extend(met);
    }

    /// Hides the objects that are expected for a pod. Returns their keys.
    fn expect_no_longer(&mut self, pod: &str) -> Vec<CustomKey> {
        let of_pod = self.expected.extract_if(.., |(uid, _)| uid == pod);
        let keys: Vec<CustomKey> = of_pod.map(|(_, creation)| creation.key).collect();
        keys.iter().for_each(|key| drop(self.hide(key)));
        keys
    }

    /// Replaces the API server's version of an object.
    fn replace(
        &mut self,
        key: &CustomKey,
        new: Option<AnyCustom>,
        errors: &mut Vec<PointError>,
    ) -> Option<CustomChange> {
        let assumed = self.assumed.remove(key);
        let visible = match &new {
            Some(new) => self.show(key, new.clone()),
            None => self.hide(key),
        };
        let (old, assumptions) = match assumed {
            Some(AssumedObject { confirmed, assumptions }) => (Some(confirmed), assumptions),
            None => (visible, Vec::new()),
        };
        if let Some(confirmed) = &new {
            self.assume_again(key, confirmed.clone(), assumptions, errors);
        }
        let resource = self.kind.name();
        (old.is_some() || new.is_some()).then_some(CustomChange { resource, old, new })
    }

    /// Shows plugins the API server's version with the assumptions that still apply.
    fn assume_again(
        &mut self,
        key: &CustomKey,
        confirmed: AnyCustom,
        mut assumptions: Vec<(Str, Assumption)>,
        errors: &mut Vec<PointError>,
    ) {
        let mut visible = confirmed.clone();
        assumptions.retain(|(_, assumption)| match assumption.applied(&visible) {
            Ok(assumed) => assumed.map(|assumed| visible = assumed).is_some(),
            Err(panic) => {
                errors.push(panic);
                false
            }
        });
        self.show(key, visible);
        if !assumptions.is_empty() {
            self.assumed.insert(key.clone(), AssumedObject { confirmed, assumptions });
        }
    }

    /// Reverts the assumptions made for a pod. Returns true if there were any.
    fn revert_assumptions(&mut self, key: &CustomKey, pod: &str, errors: &mut Vec<PointError>) -> bool {
        let Some(AssumedObject { confirmed, assumptions }) = self.assumed.remove(key) else { return false };
        let before = assumptions.len();
        let others: Vec<_> = assumptions.into_iter().filter(|(uid, _)| uid != pod).collect();
        let reverted = others.len() < before;
        self.assume_again(key, confirmed, others, errors);
        reverted
    }
}
