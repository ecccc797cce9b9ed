//! The custom objects that plugins read, decoded, by kind.

use std::collections::BTreeMap;

use harbormaster_api::Str;

use crate::resource::{
    AnyCustom, Custom, CustomChange, CustomKey, RawObject, Resource, ResourceKind, Undecodable,
};

/// All kinds that somebody reads.
#[derive(Debug, Default)]
pub(super) struct CustomObjects(Vec<KindOfObjects>);

/// The objects of one kind.
#[derive(Debug)]
struct KindOfObjects {
    kind: ResourceKind,
    /// The kind's name, written out.
    label: Str,
    /// By namespace and name.
    objects: BTreeMap<Str, BTreeMap<Str, AnyCustom>>,
    /// What was told of objects that do not decode.
    refused: BTreeMap<CustomKey, Undecodable>,
}

impl CustomObjects {
    /// From now on objects of that kind are kept. Two types of one kind are two kinds here.
    pub(super) fn keep(&mut self, kind: ResourceKind) {
        if !self.0.iter().any(|kept| kept.kind.is_same(&kind)) {
            let label = kind.name().to_string().into();
            self.0.push(KindOfObjects { kind, label, objects: BTreeMap::new(), refused: BTreeMap::new() });
        }
    }

    /// What changes by it, and what is to be told of it.
    pub(super) fn set(&mut self, raw: &RawObject) -> (Vec<CustomChange>, Vec<Undecodable>) {
        let (mut changes, mut told) = (Vec::new(), Vec::new());
        for kept in self.of(&raw.key) {
            let new = match kept.kind.decode(raw) {
                Ok(object) => {
                    kept.refused.remove(&raw.key);
                    Some(object)
                }
                Err(why) => {
                    let before = kept.refused.insert(raw.key.clone(), why.clone());
                    told.extend((before.as_ref() != Some(&why)).then_some(why));
                    None
                }
            };
            changes.extend(kept.replace(&raw.key, new));
        }
        (changes, told)
    }

    /// What changes by its going.
    pub(super) fn remove(&mut self, key: &CustomKey) -> Vec<CustomChange> {
        let gone = self.of(key).filter_map(|kept| {
            kept.refused.remove(key);
            kept.replace(key, None)
        });
        gone.collect()
    }

    pub(super) fn contains(&self, key: &CustomKey) -> bool {
        let found = |kept: &KindOfObjects| {
            kept.objects.get(&key.namespace).is_some_and(|some| some.contains_key(&key.name))
        };
        self.0.iter().any(|kept| kept.label == key.resource && found(kept))
    }

    /// The keys of all objects, in order within each kind.
    pub(super) fn keys(&self) -> impl Iterator<Item = CustomKey> + '_ {
        self.0.iter().flat_map(|kept| {
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
        self.0.iter().find(|kept| kept.kind.is::<R>()).map(|kept| &kept.objects)
    }

    fn of<'a>(&'a mut self, key: &'a CustomKey) -> impl Iterator<Item = &'a mut KindOfObjects> + 'a {
        self.0.iter_mut().filter(|kept| kept.label == key.resource)
    }
}

impl KindOfObjects {
    fn replace(&mut self, key: &CustomKey, new: Option<AnyCustom>) -> Option<CustomChange> {
        let old = match &new {
            Some(new) => {
                let some = self.objects.entry(key.namespace.clone()).or_default();
                some.insert(key.name.clone(), new.clone())
            }
            None => {
                let some = self.objects.get_mut(&key.namespace)?;
                let old = some.remove(&key.name);
                if some.is_empty() {
                    self.objects.remove(&key.namespace);
                }
                old
            }
        };
        let resource = self.kind.name();
        (old.is_some() || new.is_some()).then_some(CustomChange { resource, old, new })
    }
}

/// An object of the kind that its store is for.
pub(super) fn typed<R: Resource>(object: &AnyCustom) -> Option<&Custom<R>> {
    object.downcast_ref()
}
