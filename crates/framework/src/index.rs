//! Indexes: what plugins keep of the cluster instead of recounting it for every pod.
//!
//! An index is a type of its own. A plugin that uses one implements [`crate::plugin::Indexed`]; plugins that name the same
//! type share one instance, whatever their profiles. The cluster owns the instances and tells them of every change: pods
//! that join and leave rows (assumed, confirmed and forgotten ones alike), nodes, other objects. Questions of the form
//! "what if" do not reach an index; they change a plugin's filter state.
//!
//! Invariant: an index always equals one that is made anew from the cluster. One that panics is thrown away and made anew,
//! without the pod, node or object whose news it could not bear; whoever brought that news gets the error.

use std::{
    any::{Any, TypeId},
    panic::{AssertUnwindSafe, catch_unwind},
};

use harbormaster_api::Str;

use crate::{
    guard::{Call, PointError, panic_text},
    nodeset::NodeIdx,
    objects::{ObjectId, Objects},
    outcome::{PluginError, PluginResult},
    pod::PodInfo,
    table::NodeTable,
};

/// What is known of the cluster, without the indexes.
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// Everything else.
    pub objects: &'a Objects,
}

/// Something kept. See the [module documentation](self).
pub trait Index: Any + Default + Send + Sync {
    /// A pod is on a row now. The row may lack its node object: the pod is then on a node that is not known yet.
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let _ = (view, row, pod);
    }

    /// A pod is on a row no more. Called with the object that it was told of last.
    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let _ = (view, row, pod);
    }

    /// A pod on a row has changed, or its binding is confirmed. It leaves and joins, unless the index knows better: most
    /// changes are of a pod's status, and most indexes do not look at that.
    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        self.pod_left(view, row, old);
        self.pod_joined(view, row, new);
    }

    /// A row's node appeared, changed, or is gone: `view.nodes` has what it is now.
    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        let _ = (view, row);
    }

    /// Another object appeared, changed, or is gone: `view.objects` has what it is now. Of custom objects that are known
    /// already an index is told when it is made; namespaces and the like it finds in `view.objects`.
    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let _ = (view, id);
    }
}

/// [`Index`] with its type erased.
trait ErasedIndex: Any + Send + Sync {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo);
    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo);
    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo);
    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx);
    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId);
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
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A kind of index: its type, and how it is made.
#[derive(Clone, Copy)]
pub struct IndexKind {
    type_id: TypeId,
    name: &'static str,
    make: fn() -> Box<dyn ErasedIndex>,
}

impl IndexKind {
    /// The kind of index `I`.
    pub fn of<I: Index>() -> Self {
        let name = std::any::type_name::<I>();
        let name = name.rsplit("::").next().unwrap_or(name);
        Self { type_id: TypeId::of::<I>(), name, make: || Box::new(I::default()) }
    }

    fn panicked(self, panic: &(dyn Any + Send)) -> PointError {
        let source = format!("index {} panicked: {}", self.name, panic_text(panic)).into();
        PointError { plugin: self.name, call: Call::Index, source }
    }
}

impl std::fmt::Debug for IndexKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IndexKind({})", self.name)
    }
}

/// All indexes in use, one per kind.
#[derive(Default)]
pub struct Indexes(Vec<Kept>);

/// One index.
struct Kept {
    kind: IndexKind,
    /// `None` if it panicked again and again while it was made.
    index: Option<Box<dyn ErasedIndex>>,
    /// News of these made it panic: it was made anew without them, and is not told of them until there are other news.
    withheld: Vec<Item>,
}

/// Whom news are about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// A pod, by UID.
    Pod(Str),
    Node(NodeIdx),
    Object(ObjectId),
}

/// How many items may be withheld from an index before it is given up until somebody asks for it.
const MOST_WITHHELD: usize = 16;

impl Kept {
    /// Makes the index from all that is in view, but for what it cannot bear.
    fn make(&mut self, view: ClusterView<'_>) -> Result<(), PointError> {
        self.index = None;
        let mut panicked = Ok(());
        while self.withheld.len() <= MOST_WITHHELD {
            match self.try_to_make(view) {
                Ok(index) => {
                    self.index = Some(index);
                    return panicked;
                }
                Err((item, error)) => {
                    self.withheld.extend(item);
                    panicked = Err(error);
                }
            }
        }
        self.withheld.clear();
        panicked
    }

    fn try_to_make(&self, view: ClusterView<'_>) -> Result<Box<dyn ErasedIndex>, (Option<Item>, PointError)> {
        let mut index = self.guarded(|| (self.kind.make)()).map_err(|error| (None, error))?;
        for id in view.objects.custom_keys().map(ObjectId::Custom) {
            let item = Item::Object(id.clone());
            if !self.withheld.contains(&item) {
                self.guarded(|| index.object_changed(view, &id)).map_err(|error| (Some(item), error))?;
            }
        }
        for row in (0..view.nodes.rows()).map(NodeIdx::from) {
            let node = view.nodes.node(row);
            let item = Item::Node(row);
            if node.object().is_some() && !self.withheld.contains(&item) {
                self.guarded(|| index.node_changed(view, row)).map_err(|error| (Some(item), error))?;
            }
            for pod in node.pods() {
                let item = Item::Pod(pod.uid.clone());
                if !self.withheld.contains(&item) {
                    self.guarded(|| index.pod_joined(view, row, pod)).map_err(|error| (Some(item), error))?;
                }
            }
        }
        Ok(index)
    }

    fn guarded<T>(&self, run: impl FnOnce() -> T) -> Result<T, PointError> {
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| self.kind.panicked(&*panic))
    }

    /// Passes news on. If the index panics it is made anew without the one whom the news are about.
    fn tell(
        &mut self,
        view: ClusterView<'_>,
        item: Item,
        still_there: bool,
        news: impl FnOnce(&mut dyn ErasedIndex),
    ) -> Result<(), PointError> {
        if let Some(at) = self.withheld.iter().position(|withheld| *withheld == item) {
            self.withheld.swap_remove(at);
            if !still_there {
                return Ok(());
            }
        }
        let Some(mut index) = self.index.take() else { return Ok(()) };
        let told = self.guarded(|| {
            news(&mut *index);
            index
        });
        match told {
            Ok(index) => {
                self.index = Some(index);
                Ok(())
            }
            Err(error) => {
                self.withheld.extend(still_there.then_some(item));
                // What goes wrong while it is made anew is about others, and told when they are asked about.
                let _ = self.make(view);
                Err(error)
            }
        }
    }
}

impl Indexes {
    /// The index of that type.
    ///
    /// # Errors
    /// When no plugin in use has listed it (the asking plugin forgot `points.indexed()`), or it cannot be made.
    pub fn get<I: Index>(&self) -> PluginResult<&I> {
        let found = self.0.iter().find(|kept| kept.kind.type_id == TypeId::of::<I>());
        let index = found.and_then(|kept| kept.index.as_ref());
        index.and_then(|index| index.as_any().downcast_ref()).ok_or_else(|| missing::<I>(found.is_some()))
    }

    /// The index of that type, to be changed.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_mut<I: Index>(&mut self) -> PluginResult<&mut I> {
        let found = self.0.iter_mut().find(|kept| kept.kind.type_id == TypeId::of::<I>());
        let is_kept = found.is_some();
        let index = found.and_then(|kept| kept.index.as_mut());
        index.and_then(|index| index.as_any_mut().downcast_mut()).ok_or_else(|| missing::<I>(is_kept))
    }

    /// Makes an index of that kind from what is in view, unless there is one.
    ///
    /// # Errors
    /// When the index panics on some item. It is kept all the same, without that item, unless there are many of them.
    pub fn add(&mut self, kind: IndexKind, view: ClusterView<'_>) -> Result<(), PointError> {
        let at = self.0.iter().position(|kept| kept.kind.type_id == kind.type_id);
        let at = at.unwrap_or_else(|| {
            self.0.push(Kept { kind, index: None, withheld: Vec::new() });
            self.0.len() - 1
        });
        if self.0[at].index.is_some() { Ok(()) } else { self.0[at].make(view) }
    }

    /// An index was left half changed: the next [`Self::add`] makes it anew.
    pub(crate) fn throw_away(&mut self, kind: IndexKind) {
        for kept in self.0.iter_mut().filter(|kept| kept.kind.type_id == kind.type_id) {
            kept.index = None;
        }
    }

    /// Tells every index; the first error is the one to tell.
    fn tell(
        &mut self,
        view: ClusterView<'_>,
        item: &Item,
        still_there: bool,
        news: impl Fn(&mut dyn ErasedIndex),
    ) -> Result<(), PointError> {
        let tell = |kept: &mut Kept| kept.tell(view, item.clone(), still_there, &news);
        self.0.iter_mut().map(tell).fold(Ok(()), Result::and)
    }

    pub(crate) fn pod_joined(
        &mut self,
        view: ClusterView<'_>,
        row: NodeIdx,
        pod: &PodInfo,
    ) -> Result<(), PointError> {
        self.tell(view, &Item::Pod(pod.uid.clone()), true, |index| index.pod_joined(view, row, pod))
    }

    pub(crate) fn pod_left(
        &mut self,
        view: ClusterView<'_>,
        row: NodeIdx,
        pod: &PodInfo,
    ) -> Result<(), PointError> {
        self.tell(view, &Item::Pod(pod.uid.clone()), false, |index| index.pod_left(view, row, pod))
    }

    pub(crate) fn pod_changed(
        &mut self,
        view: ClusterView<'_>,
        row: NodeIdx,
        old: &PodInfo,
        new: &PodInfo,
    ) -> Result<(), PointError> {
        let item = Item::Pod(new.uid.clone());
        let tell = |kept: &mut Kept| {
            // To an index that could not bear the old object the pod is new.
            let is_new = kept.withheld.contains(&item);
            kept.tell(view, item.clone(), true, |index| match is_new {
                true => index.pod_joined(view, row, new),
                false => index.pod_changed(view, row, old, new),
            })
        };
        self.0.iter_mut().map(tell).fold(Ok(()), Result::and)
    }

    pub(crate) fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) -> Result<(), PointError> {
        let still_there = view.nodes.node(row).object().is_some();
        self.tell(view, &Item::Node(row), still_there, |index| index.node_changed(view, row))
    }

    pub(crate) fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) -> Result<(), PointError> {
        // An index that is made anew is told of custom objects only.
        let still_there = matches!(id, ObjectId::Custom(_)) && view.objects.contains(id);
        self.tell(view, &Item::Object(id.clone()), still_there, |index| index.object_changed(view, id))
    }
}

fn missing<I>(is_listed: bool) -> PluginError {
    let index = std::any::type_name::<I>();
    if is_listed {
        return format!("the index {index} panics and cannot be made").into();
    }
    format!("the index {index} is not kept: no plugin lists it").into()
}

impl std::fmt::Debug for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Indexes({})", self.0.len())
    }
}
