//! The objects and the pods that count for each of them.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use harbormaster::{
    prelude::Resource,
    serde::{Serialize, de::DeserializeOwned},
    serde_json,
};
use kube::{ResourceExt, api::DynamicObject};

/// Namespace and name.
pub type Key = (String, String);

/// The statuses of a kind of custom objects, and the pods that they depend on.
pub trait Statuses: 'static {
    /// The kind.
    type Object: Resource;
    /// The part of a pod that counts.
    type Member: Clone;
    /// The status. Fields that it lacks are left alone.
    type Status: Serialize + DeserializeOwned + Default + PartialEq;
    /// A label without which a pod does not count; `None` if all pods may.
    const LABEL: Option<&'static str>;

    /// Returns the name under which the pod counts in its namespace, and what counts. `None` if it does not count.
    fn member(pod: &DynamicObject) -> Option<(String, Self::Member)>;

    /// Returns the name under which the pods of an object count.
    fn members_of(object: &DynamicObject) -> String;

    /// Returns the status that an object should have.
    fn next(object: &DynamicObject, old: &Self::Status, members: &[Self::Member], now: &str) -> Self::Status;
}

/// Change of an object.
#[derive(Debug)]
pub(crate) enum Change {
    /// All objects.
    Objects(Vec<DynamicObject>),
    /// An object that was created or changed.
    Object(Box<DynamicObject>),
    /// An object that was deleted.
    NoObject(Key),
    /// All pods.
    Pods(Vec<DynamicObject>),
    /// A pod that was created or changed.
    Pod(Box<DynamicObject>),
    /// A pod that was deleted, or that lost its label.
    NoPod(Key),
}

/// The objects and their members.
pub(crate) struct Books<S: Statuses> {
    pub(crate) objects: BTreeMap<Key, DynamicObject>,
    /// Objects by the names under which their pods count.
    by_name: BTreeMap<Key, BTreeSet<Key>>,
    /// The pods that count under each name.
    members: BTreeMap<Key, BTreeMap<Key, S::Member>>,
    /// The name under which each pod counts.
    name_of: BTreeMap<Key, Key>,
    /// Objects whose statuses may be outdated.
    pub(crate) open: BTreeSet<Key>,
}

impl<S: Statuses> Default for Books<S> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            by_name: BTreeMap::new(),
            members: BTreeMap::new(),
            name_of: BTreeMap::new(),
            open: BTreeSet::new(),
        }
    }
}

impl<S: Statuses> Books<S> {
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Objects(objects) => {
                self.objects.clear();
                self.by_name.clear();
                objects.into_iter().for_each(|object| self.add_object(object));
            }
            Change::Object(object) => {
                self.remove_object(&key(&object));
                self.add_object(*object);
            }
            Change::NoObject(key) => self.remove_object(&key),
            Change::Pods(pods) => {
                self.members.clear();
                self.name_of.clear();
                pods.iter().for_each(|pod| self.add_pod(pod));
                self.open.extend(self.objects.keys().cloned());
            }
            Change::Pod(pod) => {
                self.remove_pod(&key(&pod));
                self.add_pod(&pod);
            }
            Change::NoPod(key) => self.remove_pod(&key),
        }
    }

    fn add_object(&mut self, object: DynamicObject) {
        let key = key(&object);
        self.by_name.entry(members_of::<S>(&object)).or_default().insert(key.clone());
        self.open.insert(key.clone());
        self.objects.insert(key, object);
    }

    fn remove_object(&mut self, key: &Key) {
        let Some(object) = self.objects.remove(key) else { return };
        if let Entry::Occupied(mut keys) = self.by_name.entry(members_of::<S>(&object)) {
            keys.get_mut().remove(key);
            if keys.get().is_empty() {
                keys.remove();
            }
        }
    }

    fn add_pod(&mut self, pod: &DynamicObject) {
        let Some((name, member)) = S::member(pod) else { return };
        let name = (namespace(pod), name);
        self.open_all(&name);
        self.name_of.insert(key(pod), name.clone());
        self.members.entry(name).or_default().insert(key(pod), member);
    }

    fn remove_pod(&mut self, pod: &Key) {
        let Some(name) = self.name_of.remove(pod) else { return };
        self.open_all(&name);
        if let Entry::Occupied(mut members) = self.members.entry(name) {
            members.get_mut().remove(pod);
            if members.get().is_empty() {
                members.remove();
            }
        }
    }

    fn open_all(&mut self, name: &Key) {
        self.open.extend(self.by_name.get(name).into_iter().flatten().cloned());
    }

    /// Returns the status that an object should get; `None` if it has this status already, or does not exist.
    pub(crate) fn wanted(&self, key: &Key, now: &str) -> Option<S::Status> {
        let object = self.objects.get(key)?;
        let old: S::Status = serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
        let members = self.members.get(&members_of::<S>(object));
        let members: Vec<S::Member> = members.into_iter().flat_map(BTreeMap::values).cloned().collect();
        let new = S::next(object, &old, &members, now);
        (new != old).then_some(new)
    }
}

fn members_of<S: Statuses>(object: &DynamicObject) -> Key {
    (namespace(object), S::members_of(object))
}

pub(crate) fn key(object: &DynamicObject) -> Key {
    (namespace(object), object.name_any())
}

pub(crate) fn namespace(object: &DynamicObject) -> String {
    object.namespace().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        prelude::ResourceScope,
        serde::Deserialize,
        serde_json::{Value, json},
    };

    use super::*;

    #[derive(Deserialize)]
    #[serde(crate = "harbormaster::serde")]
    struct Club {}

    impl Resource for Club {
        const GROUP: &'static str = "example.com";
        const VERSION: &'static str = "v1";
        const KIND: &'static str = "Club";
        const PLURAL: &'static str = "clubs";
        const SCOPE: ResourceScope = ResourceScope::Namespaced;
    }

    /// Counts the pods whose label names the club.
    struct Counts;

    impl Statuses for Counts {
        type Object = Club;
        type Member = ();
        type Status = Option<usize>;
        const LABEL: Option<&'static str> = Some("club");

        fn member(pod: &DynamicObject) -> Option<(String, ())> {
            Some((pod.labels().get("club")?.clone(), ()))
        }

        fn members_of(object: &DynamicObject) -> String {
            object.name_any()
        }

        fn next(_: &DynamicObject, _: &Option<usize>, members: &[()], _: &str) -> Option<usize> {
            Some(members.len())
        }
    }

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap_or_else(|why| panic!("{why}"))
    }

    fn pod(name: &str, club: &str) -> DynamicObject {
        object(json!({"metadata": {"name": name, "namespace": "ns", "labels": {"club": club}}}))
    }

    fn club(name: &str, status: &Value) -> DynamicObject {
        object(json!({"metadata": {"name": name, "namespace": "ns"}, "status": status}))
    }

    fn wanted(books: &Books<Counts>, name: &str) -> Option<usize> {
        books.wanted(&("ns".to_owned(), name.to_owned()), "now").flatten()
    }

    #[test]
    fn pods_count_where_they_belong_now() {
        let mut books = Books::<Counts>::default();
        books.apply(Change::Objects(vec![club("a", &json!(null)), club("b", &json!(null))]));
        books.apply(Change::Pods(vec![pod("p", "a")]));
        assert_eq!((wanted(&books, "a"), wanted(&books, "b")), (Some(1), Some(0)));
        books.open.clear();
        books.apply(Change::Pod(Box::new(pod("p", "b"))));
        assert_eq!((wanted(&books, "a"), wanted(&books, "b")), (Some(0), Some(1)));
        assert_eq!(books.open.len(), 2, "both have changed");
        books.open.clear();
        books.apply(Change::NoPod(("ns".to_owned(), "p".to_owned())));
        assert_eq!((wanted(&books, "b"), books.open.len()), (Some(0), 1));
    }

    #[test]
    fn a_status_that_is_right_is_not_written_again() {
        let mut books = Books::<Counts>::default();
        books.apply(Change::Objects(vec![club("a", &json!(0))]));
        assert_eq!((wanted(&books, "a"), wanted(&books, "gone")), (None, None));
        books.apply(Change::Object(Box::new(club("a", &json!(5)))));
        assert_eq!(wanted(&books, "a"), Some(0));
        books.apply(Change::NoObject(("ns".to_owned(), "a".to_owned())));
        assert!(books.by_name.is_empty() && wanted(&books, "a").is_none());
    }
}
