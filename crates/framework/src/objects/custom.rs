//! The custom objects that plugins read, decoded, by kind, and what is assumed of them.

use std::collections::BTreeMap;

use harbormaster_api::Str;
use rustc_hash::FxHashMap;

use crate::{
    assume::Assumption,
    guard::PointError,
    resource::{AnyCustom, Custom, CustomChange, CustomKey, RawObject, Resource, ResourceKind, Undecodable},
};

/// All kinds that somebody reads.
#[derive(Debug, Default)]
pub(super) struct CustomObjects {
    kinds: Vec<KindOfObjects>,
    /// The objects of which something may be assumed for a pod, by its UID.
    assumed_for: FxHashMap<Str, Vec<CustomKey>>,
}

/// The objects of one kind.
#[derive(Debug)]
struct KindOfObjects {
    kind: ResourceKind,
    /// The kind's name, written out.
    label: Str,
    /// As plugins see them, by namespace and name.
    objects: BTreeMap<Str, BTreeMap<Str, AnyCustom>>,
    /// Objects of which something is assumed.
    assumed: FxHashMap<CustomKey, Assumed>,
    /// What was told of objects that do not decode.
    refused: BTreeMap<CustomKey, Undecodable>,
}

/// An object of which something is assumed.
#[derive(Debug)]
struct Assumed {
    /// As the API server has it.
    confirmed: AnyCustom,
    /// What is assumed, with the UIDs of the pods for which it is, in order.
    assumptions: Vec<(Str, Assumption)>,
}

/// What came of an object's change.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What changes for plugins, as the API server tells it.
    pub(crate) changes: Vec<CustomChange>,
    /// Objects that count as absent, if that is news.
    pub(crate) undecodable: Vec<Undecodable>,
    /// Assumptions that failed, and are given up.
    pub(crate) troubles: Vec<PointError>,
}

impl CustomObjects {
    /// From now on objects of that kind are kept. Two types of one kind are two kinds here.
    pub(super) fn keep(&mut self, kind: ResourceKind) {
        if !self.kinds.iter().any(|kept| kept.kind.is_same(&kind)) {
            self.kinds.push(KindOfObjects {
                kind,
                label: kind.name().to_string().into(),
                objects: BTreeMap::new(),
                assumed: FxHashMap::default(),
                refused: BTreeMap::new(),
            });
        }
    }

    /// No other kinds are kept any more.
    pub(super) fn keep_only(&mut self, kinds: &[ResourceKind]) {
        self.kinds.retain(|kept| kinds.iter().any(|kind| kept.kind.is_same(kind)));
    }

    /// An object is new or changed.
    pub(super) fn set(&mut self, raw: &RawObject) -> Outcome {
        let mut outcome = Outcome::default();
        for kept in of(&mut self.kinds, &raw.key) {
            let new = match kept.kind.decode(raw) {
                Ok(object) => {
                    kept.refused.remove(&raw.key);
                    Some(object)
                }
                Err(why) => {
                    let before = kept.refused.insert(raw.key.clone(), why.clone());
                    outcome.undecodable.extend((before.as_ref() != Some(&why)).then_some(why));
                    None
                }
            };
            outcome.changes.extend(kept.replace(&raw.key, new, &mut outcome.troubles));
        }
        outcome
    }

    /// An object is gone.
    pub(super) fn remove(&mut self, key: &CustomKey) -> Outcome {
        let mut outcome = Outcome::default();
        for kept in of(&mut self.kinds, key) {
            kept.refused.remove(key);
            outcome.changes.extend(kept.replace(key, None, &mut outcome.troubles));
        }
        outcome
    }

    /// An object looks different from now on because of what was decided for a pod. Returns whether it does.
    pub(super) fn assume(&mut self, pod: &Str, assumption: Assumption) -> Result<bool, PointError> {
        let key = assumption.key.clone();
        let kept = self.kinds.iter_mut().find(|kept| kept.kind.is_same(&assumption.kind));
        let Some(kept) = kept else { return Ok(false) };
        let Some(seen) = kept.get(&key).cloned() else { return Ok(false) };
        let Some(assumed) = assumption.applied(&seen)? else { return Ok(false) };
        kept.show(&key, assumed);
        let entry = kept.assumed.entry(key.clone());
        let entry = entry.or_insert_with(|| Assumed { confirmed: seen, assumptions: Vec::new() });
        entry.assumptions.push((pod.clone(), assumption));
        self.assumed_for.entry(pod.clone()).or_default().push(key);
        Ok(true)
    }

    /// Nothing is assumed for that pod any more. Returns the objects that look different by that.
    pub(super) fn give_back(&mut self, pod: &str) -> (Vec<CustomKey>, Vec<PointError>) {
        let (mut different, mut troubles) = (Vec::new(), Vec::new());
        for key in self.assumed_for.remove(pod).unwrap_or_default() {
            let given_back = of(&mut self.kinds, &key).map(|kept| kept.give_back(&key, pod, &mut troubles));
            if given_back.fold(false, |any, one| any | one) {
                different.push(key);
            }
        }
        (different, troubles)
    }

    pub(super) fn contains(&self, key: &CustomKey) -> bool {
        self.kinds.iter().any(|kept| kept.label == key.resource && kept.get(key).is_some())
    }

    /// The keys of all objects, in order within each kind.
    pub(super) fn keys(&self) -> impl Iterator<Item = CustomKey> + '_ {
        self.kinds.iter().flat_map(|kept| {
            let names =
                kept.objects.iter().flat_map(|(namespace, some)| some.keys().map(move |n| (namespace, n)));
            names.map(|(namespace, name)| CustomKey {
                resource: kept.label.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            })
        })
    }

    /// The objects of a kind by namespace; `None` if nobody reads it.
    pub(super) fn objects<R: Resource>(&self) -> Option<&BTreeMap<Str, BTreeMap<Str, AnyCustom>>> {
        self.kinds.iter().find(|kept| kept.kind.is::<R>()).map(|kept| &kept.objects)
    }
}

fn of<'a>(
    kinds: &'a mut [KindOfObjects],
    key: &'a CustomKey,
) -> impl Iterator<Item = &'a mut KindOfObjects> + 'a {
    kinds.iter_mut().filter(|kept| kept.label == key.resource)
}

impl KindOfObjects {
    fn get(&self, key: &CustomKey) -> Option<&AnyCustom> {
        self.objects.get(&key.namespace)?.get(&key.name)
    }

    /// Plugins see that object from now on; what they saw before.
    fn show(&mut self, key: &CustomKey, object: AnyCustom) -> Option<AnyCustom> {
        self.objects.entry(key.namespace.clone()).or_default().insert(key.name.clone(), object)
    }

    /// Plugins see no such object any more; what they saw before.
    fn hide(&mut self, key: &CustomKey) -> Option<AnyCustom> {
        let some = self.objects.get_mut(&key.namespace)?;
        let old = some.remove(&key.name);
        if some.is_empty() {
            self.objects.remove(&key.namespace);
        }
        old
    }

    /// The API server has another version of an object, or none.
    fn replace(
        &mut self,
        key: &CustomKey,
        new: Option<AnyCustom>,
        troubles: &mut Vec<PointError>,
    ) -> Option<CustomChange> {
        let assumed = self.assumed.remove(key);
        let seen = match &new {
            Some(new) => self.show(key, new.clone()),
            None => self.hide(key),
        };
        let (old, assumptions) = match assumed {
            Some(Assumed { confirmed, assumptions }) => (Some(confirmed), assumptions),
            None => (seen, Vec::new()),
        };
        if let Some(confirmed) = &new {
            self.assume_again(key, confirmed.clone(), assumptions, troubles);
        }
        let resource = self.kind.name();
        (old.is_some() || new.is_some()).then_some(CustomChange { resource, old, new })
    }

    /// Shows what becomes of the API server's version by those assumptions that still have something to say.
    fn assume_again(
        &mut self,
        key: &CustomKey,
        confirmed: AnyCustom,
        mut assumptions: Vec<(Str, Assumption)>,
        troubles: &mut Vec<PointError>,
    ) {
        let mut seen = confirmed.clone();
        assumptions.retain(|(_, assumption)| match assumption.applied(&seen) {
            Ok(assumed) => assumed.map(|assumed| seen = assumed).is_some(),
            Err(panic) => {
                troubles.push(panic);
                false
            }
        });
        self.show(key, seen);
        if !assumptions.is_empty() {
            self.assumed.insert(key.clone(), Assumed { confirmed, assumptions });
        }
    }

    /// Whether something was assumed of the object for that pod.
    fn give_back(&mut self, key: &CustomKey, pod: &str, troubles: &mut Vec<PointError>) -> bool {
        let Some(Assumed { confirmed, assumptions }) = self.assumed.remove(key) else { return false };
        let before = assumptions.len();
        let others: Vec<_> = assumptions.into_iter().filter(|(uid, _)| uid != pod).collect();
        let given_back = others.len() < before;
        self.assume_again(key, confirmed, others, troubles);
        given_back
    }
}

/// An object of the kind that its store is for.
pub(super) fn typed<R: Resource>(object: &AnyCustom) -> Option<&Custom<R>> {
    object.downcast_ref()
}
