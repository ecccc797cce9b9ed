//! The node table: one row per node, one column per fact.
//!
//! The table is both cache and snapshot. The [`crate::cluster`] owns it and changes it between scheduling cycles;
//! plugins borrow it during a cycle. Every change, except by dry runs, is appended to a log of rows, so a cache of
//! answers per row (see `answer_cache`) needs to update only the changed rows.
//!
//! Invariants:
//! - a row's `used_*` and `nonzero_*` columns are the sums over its pods;
//! - a row with pods but without a node object (a pod bound to a node that is not known yet) is not in
//!   [`NodeTable::order`];
//! - [`NodeTable::shape`] increases when a node joins or leaves, which invalidates everything cached per row.

mod images;
mod ports;
mod zones;

use std::sync::Arc;

use harbormaster_api::{Labels, Node, Resources, Str, taint::Taint};
use rustc_hash::FxHashMap;

pub use images::RowImage;
pub use ports::UsedPorts;
pub use zones::zone_key;

use crate::{
    nodeset::{NodeIdx, NodeSet},
    pod::{NonZero, PodInfo},
    row_log::{LogPosition, RowLog},
};
use images::ImageIndex;
use zones::ZoneOrder;

/// Numeric facts about all rows, one vector per fact, for columnar code. Units as in [`Resources`].
#[derive(Debug, Default)]
pub struct Columns {
    /// Allocatable millicores.
    pub cpu: Vec<i64>,
    /// Allocatable bytes of memory.
    pub memory: Vec<i64>,
    /// Allocatable bytes of ephemeral storage.
    pub storage: Vec<i64>,
    /// Allocatable number of pods.
    pub pods: Vec<i64>,
    /// Requested millicores.
    pub used_cpu: Vec<i64>,
    /// Requested bytes of memory.
    pub used_memory: Vec<i64>,
    /// Requested bytes of ephemeral storage.
    pub used_storage: Vec<i64>,
    /// Number of pods on the node.
    pub used_pods: Vec<i64>,
    /// Requested millicores as scores count them.
    pub nonzero_cpu: Vec<i64>,
    /// Requested bytes of memory as scores count them.
    pub nonzero_memory: Vec<i64>,
    /// Lowest priority of the pods on the node; `i32::MAX` if there are none.
    pub lowest_priority: Vec<i32>,
    /// Cordoned nodes.
    pub unschedulable: NodeSet,
    /// Nodes with at least one taint.
    pub tainted: NodeSet,
    /// Nodes with at least one used host port.
    pub with_ports: NodeSet,
}

/// The facts about a row that are not in columns.
#[derive(Debug, Default)]
struct Row {
    name: Str,
    node: Option<Arc<Node>>,
    pods: Vec<Arc<PodInfo>>,
    used_scalars: Vec<(Str, i64)>,
    ports: UsedPorts,
    images: Vec<RowImage>,
    /// True if the node's images may differ from `images`.
    images_are_stale: bool,
    /// Number of the last change to the row.
    version: u64,
}

/// All nodes and the pods on them.
#[derive(Debug, Default)]
pub struct NodeTable {
    rows: Vec<Row>,
    columns: Columns,
    by_name: FxHashMap<Str, NodeIdx>,
    free: Vec<NodeIdx>,
    live: NodeSet,
    zones: ZoneOrder,
    order: Vec<NodeIdx>,
    order_is_stale: bool,
    images: ImageIndex,
    shape: u64,
    /// Number of changes to rows.
    changes: u64,
    log: RowLog,
    refreshed: LogPosition,
}

/// Pods and images taken off a row by [`NodeTable::strip`].
pub(crate) struct StrippedRow {
    row: NodeIdx,
    pods: Vec<Arc<PodInfo>>,
    images: Vec<RowImage>,
}

impl NodeTable {
    // --- reading ---

    /// Number of rows including free ones: the length of every numeric column.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The nodes in the order in which kube-scheduler would visit them: round robin over zones.
    pub fn order(&self) -> &[NodeIdx] {
        &self.order
    }

    /// The rows that have a node object, as of the last [`refresh`](crate::cluster::Cluster::refresh).
    pub fn live(&self) -> &NodeSet {
        &self.live
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.order.len()
    }

    /// Returns the row of the named node, if the node is known.
    pub fn find(&self, name: &str) -> Option<NodeIdx> {
        self.by_name.get(name).copied().filter(|row| self.rows[row.at()].node.is_some())
    }

    /// One node.
    pub fn node(&self, row: NodeIdx) -> NodeRef<'_> {
        NodeRef { table: self, row }
    }

    /// All nodes, in [`Self::order`]'s order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeRef<'_>> {
        self.order.iter().map(|row| self.node(*row))
    }

    /// All nodes, including those that are known only through their pods, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = NodeRef<'_>> {
        self.by_name.values().map(|row| self.node(*row))
    }

    /// Numeric facts about all rows.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Returns true if any node has an image with the given name.
    pub fn has_image(&self, name: &str) -> bool {
        self.images.has(name)
    }

    /// Version that increases when a node joins or leaves.
    pub fn shape(&self) -> u64 {
        self.shape
    }

    /// The end of the log.
    pub fn log_end(&self) -> LogPosition {
        self.log.end()
    }

    /// Returns the rows that changed since `since` (possibly repeated), or `None` if the log no longer contains that
    /// position.
    pub fn changed_since(&self, since: LogPosition) -> Option<impl Iterator<Item = NodeIdx> + Clone + '_> {
        self.log.since(since)
    }

    // --- changing: nodes ---

    /// Adds a node or replaces its object. The row includes pods that were bound to the node before it was known.
    pub(crate) fn set_node(&mut self, node: Arc<Node>) -> NodeIdx {
        let row = self.row_for(&node.name);
        let zone = zone_key(&node.labels);
        let old = self.rows[row.at()].node.replace(node.clone());
        match &old {
            None => {
                self.zones.add(zone, row);
                self.shape += 1;
                self.order_is_stale = true;
            }
            Some(old) => {
                let old_zone = zone_key(&old.labels);
                if old_zone != zone {
                    self.zones.remove(&old_zone, row);
                    self.zones.add(zone, row);
                }
                self.images.remove_node(row, &old.images);
            }
        }
        self.images.add_node(row, &node.images);
        self.rows[row.at()].images_are_stale = true;
        self.write_node_columns(row, &node);
        self.touch(row);
        row
    }

    /// Removes a node. Its pods stay in the row until they are removed one by one.
    pub(crate) fn remove_node(&mut self, name: &str) -> bool {
        let Some(row) = self.find(name) else { return false };
        let Some(old) = self.rows[row.at()].node.take() else { return false };
        self.zones.remove(&zone_key(&old.labels), row);
        self.images.remove_node(row, &old.images);
        self.rows[row.at()].images_are_stale = true;
        self.write_node_columns(row, &Node::default());
        self.shape += 1;
        self.order_is_stale = true;
        self.touch(row);
        self.free_if_unused(row);
        true
    }

    // --- changing: pods ---

    /// Puts a pod on the named node. An unknown node gets a row without an object.
    pub(crate) fn add_pod(&mut self, node_name: &Str, pod: Arc<PodInfo>) -> NodeIdx {
        let row = self.row_for(node_name);
        self.put(row, pod);
        self.touch(row);
        row
    }

    /// Removes a pod from a node. Returns the node's row and the pod.
    pub(crate) fn remove_pod(&mut self, node_name: &str, uid: &str) -> Option<(NodeIdx, Arc<PodInfo>)> {
        let row = self.by_name.get(node_name).copied()?;
        let pod = self.take(row, uid)?;
        self.touch(row);
        self.free_if_unused(row);
        Some((row, pod))
    }

    /// Replaces a pod on a node with its current version. Returns the node's row and the old version of the pod.
    pub(crate) fn replace_pod(
        &mut self,
        node_name: &str,
        pod: Arc<PodInfo>,
    ) -> Option<(NodeIdx, Arc<PodInfo>)> {
        let row = self.by_name.get(node_name).copied()?;
        let pods = &mut self.rows[row.at()].pods;
        let at = pods.iter().rposition(|p| p.uid == pod.uid)?;
        let old = if pods[at].occupies_same_resources(&pod) {
            // The pod moves to the end, as if it had left and rejoined.
            let old = pods.swap_remove(at);
            pods.push(pod);
            old
        } else {
            let old = self.take(row, &pod.uid)?;
            self.put(row, pod);
            old
        };
        self.touch(row);
        Some((row, old))
    }

    /// Puts a pod on a row for a dry run, until [`Self::dry_run_undo_add`]. Not logged.
    pub fn dry_run_add(&mut self, row: NodeIdx, pod: Arc<PodInfo>) {
        self.put(row, pod);
    }

    /// Removes the pod that [`Self::dry_run_add`] added last.
    pub fn dry_run_undo_add(&mut self, row: NodeIdx, uid: &str) {
        self.take(row, uid);
    }

    /// Removes a pod from a row for a dry run, until [`Self::dry_run_add`] puts it back. Not logged.
    pub fn dry_run_remove(&mut self, row: NodeIdx, uid: &str) -> Option<Arc<PodInfo>> {
        self.take(row, uid)
    }

    /// Ends a dry run once all removed pods are back on the row. Restores the pods' order, which `before` contains.
    pub fn dry_run_end(&mut self, row: NodeIdx, before: Vec<Arc<PodInfo>>) {
        self.rows[row.at()].pods = before;
    }

    /// Removes all pods and images from a row temporarily, until [`Self::restore`]. Not logged.
    pub(crate) fn strip(&mut self, row: NodeIdx) -> StrippedRow {
        let pods = self.rows[row.at()].pods.clone();
        for pod in &pods {
            self.take(row, &pod.uid);
        }
        let images = std::mem::take(&mut self.rows[row.at()].images);
        StrippedRow { row, pods, images }
    }

    /// Puts back the pods and images that [`Self::strip`] removed.
    pub(crate) fn restore(&mut self, stripped: StrippedRow) {
        let StrippedRow { row, pods, images } = stripped;
        pods.into_iter().for_each(|pod| self.put(row, pod));
        self.rows[row.at()].images = images;
    }

    /// Updates the data that is derived from all nodes. Call this before every scheduling cycle.
    ///
    /// The node order changes only when a node joins or leaves, and the number of nodes that have an image is updated
    /// only in rows that change. kube-scheduler's snapshot behaves the same way.
    pub(crate) fn refresh(&mut self) {
        let end = self.log_end();
        for row in self.log.since(self.refreshed).into_iter().flatten() {
            let row = &mut self.rows[row.at()];
            if std::mem::take(&mut row.images_are_stale) {
                row.images = row.node.as_ref().map_or_else(Vec::new, |n| self.images.of_row(&n.images));
            } else {
                self.images.recount(&mut row.images);
            }
        }
        self.refreshed = end;
        if self.order_is_stale {
            self.order_is_stale = false;
            self.order = self.zones.round_robin();
            self.live = self.order.iter().copied().collect();
        }
        self.log.trim(self.rows.len());
    }

    // --- internals ---

    fn row_for(&mut self, name: &Str) -> NodeIdx {
        if let Some(row) = self.by_name.get(name) {
            return *row;
        }
        let row = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            self.columns.grow();
            NodeIdx::from(self.rows.len() - 1)
        });
        self.rows[row.at()].name = name.clone();
        self.by_name.insert(name.clone(), row);
        row
    }

    fn free_if_unused(&mut self, row: NodeIdx) {
        let unused = &mut self.rows[row.at()];
        if unused.node.is_none() && unused.pods.is_empty() {
            self.by_name.remove(&unused.name);
            *unused = Row::default();
            self.free.push(row);
        }
    }

    fn put(&mut self, row: NodeIdx, pod: Arc<PodInfo>) {
        self.count(row, &pod, 1);
        let lowest = &mut self.columns.lowest_priority[row.at()];
        *lowest = pod.priority().min(*lowest);
        let ports = &mut self.rows[row.at()].ports;
        for port in &pod.derived.host_ports {
            ports.add(port);
        }
        if !pod.derived.host_ports.is_empty() {
            self.columns.with_ports.insert(row);
        }
        self.rows[row.at()].pods.push(pod);
    }

    fn take(&mut self, row: NodeIdx, uid: &str) -> Option<Arc<PodInfo>> {
        let at = self.rows[row.at()].pods.iter().rposition(|p| p.uid == uid)?;
        let pod = self.rows[row.at()].pods.swap_remove(at);
        self.count(row, &pod, -1);
        let rest = self.rows[row.at()].pods.iter().map(|p| p.priority());
        let lowest = &mut self.columns.lowest_priority[row.at()];
        if pod.priority() == *lowest && !rest.clone().any(|p| p == *lowest) {
            *lowest = rest.min().unwrap_or(i32::MAX);
        }
        let ports = &mut self.rows[row.at()].ports;
        for port in &pod.derived.host_ports {
            ports.remove(port);
        }
        let any = !ports.is_empty();
        self.columns.with_ports.set(row, any);
        Some(pod)
    }

    fn count(&mut self, row: NodeIdx, pod: &PodInfo, sign: i64) {
        let (request, nonzero, at) = (pod.request(), pod.nonzero(), row.at());
        let columns = &mut self.columns;
        add(&mut columns.used_cpu[at], sign, request.milli_cpu);
        add(&mut columns.used_memory[at], sign, request.memory);
        add(&mut columns.used_storage[at], sign, request.ephemeral_storage);
        columns.used_pods[at] += sign;
        add(&mut columns.nonzero_cpu[at], sign, nonzero.milli_cpu);
        add(&mut columns.nonzero_memory[at], sign, nonzero.memory);
        let used = &mut self.rows[at].used_scalars;
        for (name, amount) in &request.scalars {
            match used.binary_search_by(|(n, _)| n.cmp(name)) {
                Ok(found) => add(&mut used[found].1, sign, *amount),
                Err(gap) => used.insert(gap, (name.clone(), sign.wrapping_mul(*amount))),
            }
        }
    }

    fn write_node_columns(&mut self, row: NodeIdx, node: &Node) {
        let (columns, at) = (&mut self.columns, row.at());
        columns.cpu[at] = node.allocatable.milli_cpu;
        columns.memory[at] = node.allocatable.memory;
        columns.storage[at] = node.allocatable.ephemeral_storage;
        columns.pods[at] = node.allocatable.pods;
        columns.unschedulable.set(row, node.unschedulable);
        columns.tainted.set(row, !node.taints.is_empty());
    }

    fn touch(&mut self, row: NodeIdx) {
        self.log.push(row);
        self.changes += 1;
        self.rows[row.at()].version = self.changes;
    }
}

/// Adds with wrap-around, as kube-scheduler does: extreme requests must neither cause a panic nor break a later
/// removal.
fn add(total: &mut i64, sign: i64, amount: i64) {
    *total = total.wrapping_add(sign.wrapping_mul(amount));
}

impl Columns {
    fn grow(&mut self) {
        let numbers = [
            &mut self.cpu,
            &mut self.memory,
            &mut self.storage,
            &mut self.pods,
            &mut self.used_cpu,
            &mut self.used_memory,
            &mut self.used_storage,
            &mut self.used_pods,
            &mut self.nonzero_cpu,
            &mut self.nonzero_memory,
        ];
        for column in numbers {
            column.push(0);
        }
        self.lowest_priority.push(i32::MAX);
    }
}

/// One node of a [`NodeTable`].
#[derive(Clone, Copy)]
pub struct NodeRef<'a> {
    table: &'a NodeTable,
    row: NodeIdx,
}

impl<'a> NodeRef<'a> {
    /// Row of the node.
    pub fn idx(self) -> NodeIdx {
        self.row
    }

    /// The node's name.
    pub fn name(self) -> &'a Str {
        &self.entry().name
    }

    /// Version that increases whenever the node or its pods change. No other node ever has the same one.
    pub fn version(self) -> u64 {
        self.entry().version
    }

    /// The node object; `None` for a row with pods of an unknown node.
    pub fn object(self) -> Option<&'a Arc<Node>> {
        self.entry().node.as_ref()
    }

    /// The node's labels.
    pub fn labels(self) -> Option<&'a Labels> {
        self.object().map(|n| &n.labels)
    }

    /// The node's taints, in order.
    pub fn taints(self) -> &'a [Taint] {
        self.object().map_or(&[], |n| &n.taints)
    }

    /// Returns true if the node is cordoned.
    pub fn unschedulable(self) -> bool {
        self.table.columns.unschedulable.contains(self.row)
    }

    /// The node's allocatable resources.
    pub fn allocatable(self) -> Resources {
        self.object().map(|n| n.allocatable.clone()).unwrap_or_default()
    }

    /// Allocatable amount of the scalar resource `name`.
    pub fn allocatable_scalar(self, name: &str) -> i64 {
        self.object().map_or(0, |n| n.allocatable.scalar(name))
    }

    /// Amount of the scalar resource `name` that the pods on the node request.
    pub fn requested_scalar(self, name: &str) -> i64 {
        let used = &self.entry().used_scalars;
        used.binary_search_by(|(n, _)| n.as_str().cmp(name)).map_or(0, |at| used[at].1)
    }

    /// Total requests of the pods on the node; `pods` is their number.
    pub fn requested(self) -> Resources {
        let (columns, at) = (&self.table.columns, self.row.at());
        Resources {
            milli_cpu: columns.used_cpu[at],
            memory: columns.used_memory[at],
            ephemeral_storage: columns.used_storage[at],
            pods: columns.used_pods[at],
            scalars: self.entry().used_scalars.clone(),
        }
    }

    /// Total requests of the pods on the node, as scores count them.
    pub fn nonzero_requested(self) -> NonZero {
        let (columns, at) = (&self.table.columns, self.row.at());
        NonZero { milli_cpu: columns.nonzero_cpu[at], memory: columns.nonzero_memory[at] }
    }

    /// The pods on the node.
    pub fn pods(self) -> &'a [Arc<PodInfo>] {
        &self.entry().pods
    }

    /// The host ports that pods on the node use.
    pub fn used_ports(self) -> &'a UsedPorts {
        &self.entry().ports
    }

    /// Returns the image with the given name on the node, as of the row's last change.
    pub fn image(self, name: &str) -> Option<&'a RowImage> {
        let images = &self.entry().images;
        images.binary_search_by(|i| i.name.as_str().cmp(name)).ok().map(|at| &images[at])
    }

    /// `status.declaredFeatures`, sorted.
    pub fn declared_features(self) -> &'a [Str] {
        self.object().map_or(&[], |n| &n.declared_features)
    }

    fn entry(self) -> &'a Row {
        &self.table.rows[self.row.at()]
    }
}

impl std::fmt::Debug for NodeRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeRef({})", self.name())
    }
}
