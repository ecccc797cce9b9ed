//! Indexes: data structures that plugins declare and the cluster keeps up to date.
//!
//! An index is a type. A plugin that uses one implements [`crate::plugin::Indexed`]; plugins that name the same type
//! share one instance, even across profiles. The cluster owns the instances and notifies them of every change to nodes,
//! to other objects and to the pods on rows, whether the pods are assumed, confirmed or forgotten. Dry runs do not
//! change an index; they change a plugin's filter state.
//!
//! Invariant: an index always equals a newly built one. An index that panics is discarded and rebuilt
//! without the pod, node or object that caused the panic; the caller that made the change gets the error.

use std::any::{Any, TypeId};

use harbormaster_api::Str;

use crate::{
    guard::{Call, PointError, caught},
    nodeset::NodeIdx,
    objects::{ObjectId, Objects},
    outcome::{PluginError, PluginResult},
    pod::PodInfo,
    table::NodeTable,
};

/// The state of the cluster, without indexes.
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// All other objects.
    pub objects: &'a Objects,
}

/// Objects that contradict each other, and that no decision can reconcile. Someone must be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// What is wrong, in a few words.
    pub problem: &'static str,
    /// What is concerned. Problem and subject identify the contradiction.
    pub subject: String,
    /// Names of the objects.
    pub objects: Vec<String>,
}

/// A data structure over the cluster. See the [module documentation](self).
pub trait Index: Any + Default + Send + Sync {
    /// A pod has joined a row. The row has no node object if the pod's node is not known yet.
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let _ = (view, row, pod);
    }

    /// A pod has left a row. `pod` is the last version that the index has seen.
    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let _ = (view, row, pod);
    }

    /// A pod on a row has changed, or its binding is confirmed. By default, the pod leaves the index and rejoins it. An
    /// index that does not read a pod's status should override this method, because most changes affect only the
    /// status.
    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        self.pod_left(view, row, old);
        self.pod_joined(view, row, new);
    }

    /// A row's node was added, changed or removed; `view.nodes` has its current state.
    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        let _ = (view, row);
    }

    /// An object other than a node or pod was added, changed or removed; `view.objects` has its current state. A new
    /// index is notified of the custom objects that already exist; it finds objects of other kinds in `view.objects`.
    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let _ = (view, id);
    }

    /// All contradictions between objects that the index knows of. Called often, so the index should already have found
    /// them.
    fn contradictions(&self) -> Vec<&Contradiction> {
        Vec::new()
    }
}

/// [`Index`] with its type erased.
trait ErasedIndex: Any + Send + Sync {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo);
    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo);
    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo);
    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx);
    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId);
    fn contradictions(&self) -> Vec<&Contradiction>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<I: Index> ErasedIndex for I {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        Index::pod_joined(self, view, row, pod);
    }
    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        Index::pod_left(self, view, row, pod);
    }
    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        Index::pod_changed(self, view, row, old, new);
    }
    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        Index::node_changed(self, view, row);
    }
    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        Index::object_changed(self, view, id);
    }
    fn contradictions(&self) -> Vec<&Contradiction> {
        Index::contradictions(self)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A type of index and its constructor.
#[derive(Clone, Copy)]
pub struct IndexKind {
    type_id: TypeId,
    name: &'static str,
    build: fn() -> Box<dyn ErasedIndex>,
}

impl IndexKind {
    /// The kind of index `I`.
    pub fn of<I: Index>() -> Self {
        let name = std::any::type_name::<I>();
        let name = name.rsplit("::").next().unwrap_or(name);
        Self { type_id: TypeId::of::<I>(), name, build: || Box::new(I::default()) }
    }

    /// Returns true if both are kinds of the same type of index.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.type_id == other.type_id
    }
}

impl std::fmt::Debug for IndexKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IndexKind({})", self.name)
    }
}

/// All indexes in use, one of each kind.
#[derive(Default)]
pub struct Indexes(Vec<IndexEntry>);

/// One index.
struct IndexEntry {
    kind: IndexKind,
    /// `None` if the index was discarded, or if its constructor or too many subjects made it panic.
    index: Option<Box<dyn ErasedIndex>>,
    /// Subjects that made the index panic. The index was rebuilt without them and is not notified of them until they
    /// change.
    withheld: Vec<Subject>,
    /// Number of times that the index was built.
    builds: u64,
}

/// Subject of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// UID of a pod.
    Pod(Str),
    Node(NodeIdx),
    Object(ObjectId),
}

/// Maximum number of subjects withheld from an index. If more subjects make the index panic, the index is dropped until
/// a plugin needs it.
const MAX_WITHHELD: usize = 16;

impl IndexEntry {
    /// Builds the index from everything in `view`, except for subjects that make it panic.
    fn rebuild(&mut self, view: ClusterView<'_>) -> Result<(), PointError> {
        self.index = None;
        self.builds += 1;
        let mut panicked = Ok(());
        while self.withheld.len() <= MAX_WITHHELD {
            match self.try_build(view) {
                Ok(index) => {
                    self.index = Some(index);
                    return panicked;
                }
                // The constructor panicked, so it would panic again.
                Err((None, error)) => return Err(error),
                Err((Some(subject), error)) => {
                    self.withheld.push(subject);
                    panicked = Err(error);
                }
            }
        }
        self.withheld.clear();
        panicked
    }

    fn try_build(
        &self,
        view: ClusterView<'_>,
    ) -> Result<Box<dyn ErasedIndex>, (Option<Subject>, PointError)> {
        let mut index = self.guarded(|| (self.kind.build)()).map_err(|error| (None, error))?;
        for id in view.objects.custom_keys().map(ObjectId::Custom) {
            let subject = Subject::Object(id.clone());
            if !self.withheld.contains(&subject) {
                self.guarded(|| index.object_changed(view, &id)).map_err(|error| (Some(subject), error))?;
            }
        }
        for row in (0..view.nodes.rows()).map(NodeIdx::from) {
            let node = view.nodes.node(row);
            let subject = Subject::Node(row);
            if node.object().is_some() && !self.withheld.contains(&subject) {
                self.guarded(|| index.node_changed(view, row)).map_err(|error| (Some(subject), error))?;
            }
            for pod in node.pods() {
                let subject = Subject::Pod(pod.uid.clone());
                if !self.withheld.contains(&subject) {
                    self.guarded(|| index.pod_joined(view, row, pod))
                        .map_err(|error| (Some(subject), error))?;
                }
            }
        }
        Ok(index)
    }

    fn guarded<T>(&self, run: impl FnOnce() -> T) -> Result<T, PointError> {
        caught(self.kind.name, Call::Index, run)
    }

    /// Notifies the index of a change. If the index panics, it is rebuilt without the subject of the change.
    fn notify(
        &mut self,
        view: ClusterView<'_>,
        subject: Subject,
        still_exists: bool,
        change: impl FnOnce(&mut dyn ErasedIndex),
    ) -> Result<(), PointError> {
        if let Some(at) = self.withheld.iter().position(|withheld| *withheld == subject) {
            self.withheld.swap_remove(at);
            if !still_exists {
                return Ok(());
            }
        }
        let Some(mut index) = self.index.take() else { return Ok(()) };
        let notified = self.guarded(|| {
            change(&mut *index);
            index
        });
        match notified {
            Ok(index) => {
                self.index = Some(index);
                Ok(())
            }
            Err(error) => {
                self.withheld.extend(still_exists.then_some(subject));
                // Errors during the rebuild concern other subjects and are reported when those subjects change.
                let _ = self.rebuild(view);
                Err(error)
            }
        }
    }
}

impl Indexes {
    /// Returns the index of type `I`.
    ///
    /// # Errors
    /// When no plugin in use declares the index, or when it cannot be built.
    pub fn get<I: Index>(&self) -> PluginResult<&I> {
        let found = self.0.iter().find(|entry| entry.kind.type_id == TypeId::of::<I>());
        let index = found.and_then(|entry| entry.index.as_ref());
        index.and_then(|index| index.as_any().downcast_ref()).ok_or_else(|| missing::<I>(found.is_some()))
    }

    /// Returns the index of type `I` for modification.
    ///
    /// # Errors
    /// Same as [`Self::get`].
    pub fn get_mut<I: Index>(&mut self) -> PluginResult<&mut I> {
        let found = self.0.iter_mut().find(|entry| entry.kind.type_id == TypeId::of::<I>());
        let is_listed = found.is_some();
        let index = found.and_then(|entry| entry.index.as_mut());
        index.and_then(|index| index.as_any_mut().downcast_mut()).ok_or_else(|| missing::<I>(is_listed))
    }

    /// Builds an index of the given kind from everything in `view`, unless it already exists.
    ///
    /// # Errors
    /// When the index panics. It is built without the subjects on which it panics, unless there are too many of them or
    /// its constructor panics.
    pub fn add(&mut self, kind: IndexKind, view: ClusterView<'_>) -> Result<(), PointError> {
        let at = self.0.iter().position(|entry| entry.kind.is_same(&kind));
        let at = at.unwrap_or_else(|| {
            self.0.push(IndexEntry { kind, index: None, withheld: Vec::new(), builds: 0 });
            self.0.len() - 1
        });
        if self.0[at].index.is_some() { Ok(()) } else { self.0[at].rebuild(view) }
    }

    /// Number of times that indexes were built.
    pub(crate) fn builds(&self) -> u64 {
        self.0.iter().map(|entry| entry.builds).sum()
    }

    /// All contradictions between objects that the indexes know of.
    pub fn contradictions(&self) -> impl Iterator<Item = &Contradiction> {
        self.0.iter().filter_map(|entry| entry.index.as_ref()).flat_map(|index| index.contradictions())
    }

    /// Discards a partially updated index; the next [`Self::add`] rebuilds it.
    pub(crate) fn discard(&mut self, kind: IndexKind) {
        for entry in self.0.iter_mut().filter(|entry| entry.kind.is_same(&kind)) {
            entry.index = None;
        }
    }

    /// Notifies every index and returns the first error.
    fn notify(
        &mut self,
        view: ClusterView<'_>,
        subject: &Subject,
        still_exists: bool,
        change: impl Fn(&mut dyn ErasedIndex),
    ) -> Result<(), PointError> {
        let notify = |entry: &mut IndexEntry| entry.notify(view, subject.clone(), still_exists, &change);
        self.0.iter_mut().map(notify).fold(Ok(()), Result::and)
    }

    pub(crate) fn pod_joined(
        &mut self,
        view: ClusterView<'_>,
        row: NodeIdx,
        pod: &PodInfo,
    ) -> Result<(), PointError> {
        self.notify(view, &Subject::Pod(pod.uid.clone()), true, |index| index.pod_joined(view, row, pod))
    }

    pub(crate) fn pod_left(
        &mut self,
        view: ClusterView<'_>,
        row: NodeIdx,
        pod: &PodInfo,
    ) -> Result<(), PointError> {
        self.notify(view, &Subject::Pod(pod.uid.clone()), false, |index| index.pod_left(view, row, pod))
    }

    pub(crate) fn pod_changed(
        &mut self,
        view: ClusterView<'_>,
        row: NodeIdx,
        old: &PodInfo,
        new: &PodInfo,
    ) -> Result<(), PointError> {
        let subject = Subject::Pod(new.uid.clone());
        let notify = |entry: &mut IndexEntry| {
            // The pod is new to an index from which its old version was withheld.
            let is_new = entry.withheld.contains(&subject);
            entry.notify(view, subject.clone(), true, |index| match is_new {
                true => index.pod_joined(view, row, new),
                false => index.pod_changed(view, row, old, new),
            })
        };
        self.0.iter_mut().map(notify).fold(Ok(()), Result::and)
    }

    pub(crate) fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) -> Result<(), PointError> {
        let still_exists = view.nodes.node(row).object().is_some();
        self.notify(view, &Subject::Node(row), still_exists, |index| index.node_changed(view, row))
    }

    pub(crate) fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) -> Result<(), PointError> {
        // A rebuild notifies the index only of custom objects, so other objects need not be withheld from it.
        let still_exists = matches!(id, ObjectId::Custom(_)) && view.objects.contains(id);
        self.notify(view, &Subject::Object(id.clone()), still_exists, |index| index.object_changed(view, id))
    }
}

fn missing<I>(is_listed: bool) -> PluginError {
    let index = std::any::type_name::<I>();
    if is_listed {
        return format!("the index {index} cannot be built because it panics").into();
    }
    format!("the index {index} does not exist: no plugin declares it").into()
}

impl std::fmt::Debug for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Indexes({})", self.0.len())
    }
}
