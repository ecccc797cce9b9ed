//! Objects in the API server's JSON form, since requests to extenders contain whole pods and nodes, not only the
//! decoded fields.
//!
//! These objects are stored only if an extender needs them. They are passed along with the engine's inputs, so that
//! requests match the engine's state.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use harbormaster_api::Str;
use harbormaster_core::Input;
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;

use super::ExtenderConfig;

/// A selection of objects to store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawSelection {
    /// Pods that are not bound.
    pub pods: bool,
    /// Bound pods, which may be victims.
    pub bound_pods: bool,
    /// Nodes.
    pub nodes: bool,
}

impl RawSelection {
    pub(super) fn by(configs: &[ExtenderConfig]) -> Self {
        let any = |needs: fn(&ExtenderConfig) -> bool| configs.iter().any(needs);
        Self {
            pods: any(|c| c.extender.filters || c.extender.prioritizes || c.extender.preempts),
            bound_pods: any(|c| c.extender.preempts && !c.node_cache_capable),
            nodes: any(|c| (c.extender.filters || c.extender.prioritizes) && !c.node_cache_capable),
        }
    }

    /// Returns a kind of object that `others` selects but `self` does not, if there is one.
    pub(super) fn lacks(self, others: Self) -> Option<&'static str> {
        let missing = [
            (others.pods && !self.pods, "pods"),
            (others.bound_pods && !self.bound_pods, "pods on nodes"),
            (others.nodes && !self.nodes, "nodes"),
        ];
        missing.into_iter().find_map(|(is_missing, what)| is_missing.then_some(what))
    }

    /// Returns the object of an input, if it is selected.
    pub(crate) fn of(self, input: &Input, json: &[u8]) -> Option<RawObject> {
        match input {
            Input::Pod(pod) if if pod.node_name.is_some() { self.bound_pods } else { self.pods } => {
                Some(RawObject { kind: RawKind::Pod, key: pod.uid.clone(), json: trimmed(json, true)? })
            }
            Input::Node(node) if self.nodes => {
                Some(RawObject { kind: RawKind::Node, key: node.name.clone(), json: trimmed(json, false)? })
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RawKind {
    Pod,
    Node,
}

/// An object in JSON.
#[derive(Clone, Debug)]
pub struct RawObject {
    kind: RawKind,
    /// A pod's UID or a node's name.
    key: Str,
    json: Box<str>,
}

/// Removes `kind` and `apiVersion`, and from pods also `managedFields`, since kube-scheduler's objects in memory do not
/// have these fields.
fn trimmed(json: &[u8], is_pod: bool) -> Option<Box<str>> {
    type Fields<'a> = BTreeMap<Cow<'a, str>, Cow<'a, RawValue>>;
    let mut object: Fields<'_> = serde_json::from_slice(json).ok()?;
    object.remove("kind");
    object.remove("apiVersion");
    if is_pod && let Some(metadata) = object.get("metadata") {
        let mut fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(metadata.get()).ok()?;
        if fields.remove("managedFields").is_some() {
            let metadata = serde_json::value::to_raw_value(&fields).ok()?;
            object.insert("metadata".into(), Cow::Owned(metadata));
        }
    }
    serde_json::to_string(&object).ok().map(Into::into)
}

/// The stored objects. Clones share them.
#[derive(Clone, Debug)]
pub struct RawObjects {
    wanted: RawSelection,
    kept: Arc<Mutex<RawStore>>,
}

/// Pods by UID, nodes by name.
#[derive(Debug, Default)]
pub(super) struct RawStore {
    pods: FxHashMap<Str, Box<str>>,
    nodes: FxHashMap<Str, Box<str>>,
}

impl RawStore {
    pub(super) fn pod(&self, uid: &str) -> Option<&str> {
        self.pods.get(uid).map(|json| &**json)
    }

    pub(super) fn node(&self, name: &str) -> Option<&str> {
        self.nodes.get(name).map(|json| &**json)
    }
}

impl RawObjects {
    pub(super) fn new(wanted: RawSelection) -> Self {
        Self { wanted, kept: Arc::default() }
    }

    /// Returns the selection of objects that are stored.
    pub fn wanted(&self) -> RawSelection {
        self.wanted
    }

    /// Stores the object that belongs to the next input of the engine, if the object is selected.
    pub fn take(&self, input: &Input, json: &[u8]) {
        if let Some(object) = self.wanted.of(input, json) {
            self.keep(object);
        }
    }

    pub(crate) fn keep(&self, object: RawObject) {
        self.with(|kept| {
            let all = match object.kind {
                RawKind::Pod => &mut kept.pods,
                RawKind::Node => &mut kept.nodes,
            };
            all.insert(object.key, object.json);
        });
    }

    /// Removes the object that is no longer needed after `input`, if there is one.
    pub fn apply(&self, input: &Input) {
        match input {
            Input::PodGone(uid) => self.with(|kept| drop(kept.pods.remove(uid))),
            Input::Pod(pod) if pod.node_name.is_some() && !self.wanted.bound_pods => {
                self.with(|kept| drop(kept.pods.remove(&pod.uid)));
            }
            Input::NodeGone(name) => self.with(|kept| drop(kept.nodes.remove(name))),
            _ => {}
        }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&RawStore) -> T) -> T {
        self.with(|kept| read(kept))
    }

    fn with<T>(&self, work: impl FnOnce(&mut RawStore) -> T) -> T {
        // A panic cannot leave the store inconsistent.
        work(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::wire::Decoder;

    use super::*;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"d","uid":"u","managedFields":[{"manager":"m"}],
        "annotations":{"a":"ä"}},"spec":{"containers":[],"unknown":{"x":[1.50]}},"status":{}}"#;

    fn pod(json: &str) -> Input {
        Input::Pod(Decoder::new().pod(json.as_bytes()).unwrap())
    }

    #[test]
    fn an_object_is_kept_except_for_fields_that_kube_scheduler_does_not_have() {
        let all = RawSelection { pods: true, bound_pods: true, nodes: true };
        let kept = all.of(&pod(POD), POD.as_bytes()).unwrap();
        assert_eq!(
            &*kept.json,
            r#"{"metadata":{"annotations":{"a":"ä"},"name":"p","namespace":"d","uid":"u"},"spec":{"containers":[],"unknown":{"x":[1.50]}},"status":{}}"#
        );
        let node = r#"{"kind":"Node","metadata":{"name":"n","managedFields":[{"manager":"m"}]}}"#;
        let input = Input::Node(Decoder::new().node(node.as_bytes()).unwrap());
        let kept = all.of(&input, node.as_bytes()).unwrap();
        assert_eq!(&*kept.json, r#"{"metadata":{"name":"n","managedFields":[{"manager":"m"}]}}"#);
    }

    #[test]
    fn a_bound_pod_is_removed_unless_it_may_be_a_victim() {
        let bound = POD.replace("\"containers\"", "\"nodeName\":\"n\",\"containers\"");
        for bound_pods in [false, true] {
            let objects = RawObjects::new(RawSelection { pods: true, bound_pods, nodes: false });
            objects.take(&pod(POD), POD.as_bytes());
            assert!(objects.read(|kept| kept.pod("u").is_some()));
            objects.take(&pod(&bound), bound.as_bytes());
            objects.apply(&pod(&bound));
            let nodes = |kept: &RawStore| kept.pod("u").map(|json| json.contains("nodeName"));
            assert_eq!(objects.read(nodes), bound_pods.then_some(true));
            objects.apply(&Input::PodGone("u".into()));
            assert!(objects.read(|kept| kept.pod("u").is_none()));
        }
    }

    #[test]
    fn only_objects_that_an_extender_needs_are_kept() {
        let of = |change: fn(&mut ExtenderConfig)| {
            let mut config = ExtenderConfig::default();
            change(&mut config);
            RawSelection::by(&[config])
        };
        assert_eq!(of(|_| {}), RawSelection::default());
        let (pods, bound_pods, nodes) = (true, true, true);
        assert_eq!(
            of(|c| c.extender.filters = true),
            RawSelection { pods, nodes, ..RawSelection::default() }
        );
        assert_eq!(
            of(|c| (c.extender.filters, c.node_cache_capable) = (true, true)),
            RawSelection { pods, ..RawSelection::default() }
        );
        assert_eq!(
            of(|c| c.extender.preempts = true),
            RawSelection { pods, bound_pods, ..RawSelection::default() }
        );
    }
}
