//! A profile: the ordered plugins that schedule the pods with one scheduler name.

use std::sync::Arc;

use harbormaster_api::{Release, Str, features::Feature, points::ExtensionPoint};
use serde_json::Value;
use thiserror::Error;

use crate::{
    answer_cache::ColumnSource,
    cycle::Cycle,
    events::{Action, ClusterEvent, ErasedRegistration, EventResource},
    extender::{EXTENDER, EXTENDER_IDX},
    fetch::Source,
    guard::{Call, GuardedPlugin, PointError},
    index::IndexKind,
    meter::{ProfileMeter, Stage, Status},
    objects::Objects,
    outcome::Normalize,
    plugin::{Queued, Rank, Scope, SignFragment, Turn, TurnCycle},
    pod::PodInfo,
    reads::Reads,
    registry::{BuildCycle, BuildError, Registry},
    resource::{ResourceKind, ResourceName},
    sweep::PluginIdx,
};

/// Input for building a profile: the result of merging the configuration.
#[derive(Clone, Debug, Default)]
pub struct ProfileSpec {
    /// `schedulerName`, by which pods select the profile.
    pub name: String,
    /// The plugins of each extension point in order, with weights where the point uses them.
    pub points: Vec<(ExtensionPoint, Vec<(String, i64)>)>,
    /// Arguments by plugin.
    pub args: Vec<(String, Value)>,
    /// The profile's own `percentageOfNodesToScore`.
    pub percentage_of_nodes_to_score: Option<i32>,
}

/// Error from building a profile.
#[derive(Debug, Error)]
#[error("creating profile for scheduler name {profile}: {source}")]
pub struct ProfileError {
    /// Name of the profile.
    pub profile: String,
    /// The cause.
    pub source: BuildError,
}

/// One entry of the Score point.
#[derive(Clone, Copy, Debug)]
pub struct Scorer {
    /// The plugin.
    pub plugin: PluginIdx,
    /// Weight of its normalized score.
    pub weight: i64,
    /// Conversion of raw scores to 0..=100.
    pub normalize: Normalize,
    /// Scope of the raw scores.
    pub scope: Scope,
}

/// Built plugins in order. A profile is immutable, because the engine and running binding cycles share it.
#[derive(Clone)]
pub struct Profile {
    name: Str,
    plugins: Vec<GuardedPlugin>,
    /// `None` if nothing is measured.
    meter: Option<Arc<dyn ProfileMeter>>,
    points: Vec<Vec<PluginIdx>>,
    scorers: Vec<Scorer>,
    /// The plugins of PlacementScore with their weights.
    placement_scorers: Vec<(PluginIdx, i64)>,
    has_placements: bool,
    row_filters: Vec<PluginIdx>,
    /// Two flags per plugin: enabled at PreFilter, and enabled at PreScore.
    pre: Vec<(bool, bool)>,
    /// Indexes of the plugins, each once.
    indexes: Vec<IndexKind>,
    /// Plugins whose [`crate::plugin::Indexed::prepare`] is called.
    preparers: Vec<PluginIdx>,
    /// Row-scoped plugins that may read the cluster.
    cluster_readers: Vec<PluginIdx>,
    implied: Vec<(&'static str, ExtensionPoint)>,
    percentage_of_nodes_to_score: Option<i32>,
    release: Release,
}

impl Profile {
    /// Builds the plugins that the spec names, each only once.
    ///
    /// # Errors
    /// When a plugin is not registered, refuses its arguments or fails its [check](GuardedPlugin::check).
    pub fn build(spec: &ProfileSpec, registry: &Registry, cx: &BuildCycle) -> Result<Self, ProfileError> {
        let mut plugins: Vec<GuardedPlugin> = Vec::new();
        let mut points: Vec<Vec<PluginIdx>> = vec![Vec::new(); ExtensionPoint::ALL.len()];
        let (mut scorers, mut placement_scorers) = (Vec::new(), Vec::new());
        for (point, entries) in &spec.points {
            for (name, weight) in entries {
                let known = plugins.iter().position(|p| p.name() == name);
                let at = match known {
                    Some(at) => at,
                    None => {
                        let args = spec.args.iter().find(|(plugin, _)| plugin == name).map(|(_, args)| args);
                        let plugin = registry.build(name, args, cx);
                        let plugin = plugin.and_then(|plugin| {
                            plugin.check()?;
                            Ok(plugin)
                        });
                        plugins.push(
                            plugin.map_err(|source| ProfileError { profile: spec.name.clone(), source })?,
                        );
                        plugins.len() - 1
                    }
                };
                let plugin = PluginIdx(at as u16);
                points[*point as usize].push(plugin);
                match point {
                    ExtensionPoint::Score => {
                        let (normalize, scope) = (plugins[at].normalization(), plugins[at].scope());
                        scorers.push(Scorer { plugin, weight: *weight, normalize, scope });
                    }
                    ExtensionPoint::PlacementScore => placement_scorers.push((plugin, *weight)),
                    _ => {}
                }
            }
        }
        let implied = add_implied(&plugins, &mut points);
        let at = |point: ExtensionPoint| &points[point as usize];
        let is_row = |plugin: &&PluginIdx| plugins[plugin.at()].scope() == Scope::Row;
        let row_filters = at(ExtensionPoint::Filter).iter().filter(is_row).copied().collect();
        let all = (0..plugins.len()).map(|at| PluginIdx(at as u16));
        let pre = all
            .map(|p| (at(ExtensionPoint::PreFilter).contains(&p), at(ExtensionPoint::PreScore).contains(&p)));
        let pre = pre.collect();
        let which = |is_wanted: fn(&GuardedPlugin) -> bool| {
            let wanted = plugins.iter().enumerate().filter(move |(_, plugin)| is_wanted(plugin));
            wanted.map(|(at, _)| PluginIdx(at as u16)).collect()
        };
        let preparers = which(GuardedPlugin::is_prepared);
        let cluster_readers = which(GuardedPlugin::may_read_cluster);
        let mut indexes: Vec<IndexKind> = Vec::new();
        for kind in plugins.iter().filter_map(GuardedPlugin::index) {
            if !indexes.iter().any(|known| known.is_same(&kind)) {
                indexes.push(kind);
            }
        }
        Ok(Self {
            name: spec.name.as_str().into(),
            indexes,
            preparers,
            cluster_readers,
            plugins,
            meter: None,
            has_placements: cx.features.enabled(Feature::TopologyAwareWorkloadScheduling)
                || !points[ExtensionPoint::PlacementGenerate as usize].is_empty(),
            points,
            scorers,
            placement_scorers,
            row_filters,
            pre,
            implied,
            percentage_of_nodes_to_score: spec.percentage_of_nodes_to_score,
            release: cx.features.release(),
        })
    }

    /// Returns a profile with the same plugins, whose calls are measured.
    #[must_use]
    pub fn metered(&self, meter: Arc<dyn ProfileMeter>) -> Self {
        let plugins = self.plugins.iter().enumerate().map(|(at, plugin)| {
            let takes_part = |point: &&ExtensionPoint| self.enabled(PluginIdx(at as u16), **point);
            let points = ExtensionPoint::ALL.iter().filter(takes_part);
            let stages: Vec<Stage> = points.filter_map(|point| Stage::of(Call::Point(*point))).collect();
            plugin.metered(&*meter, &stages)
        });
        Self { plugins: plugins.collect(), meter: Some(meter), ..self.clone() }
    }

    /// Returns a profile with the same plugins, whose calls are not measured.
    #[must_use]
    pub fn unmetered(&self) -> Self {
        let plugins = self.plugins.iter().map(|plugin| plugin.unmetered());
        Self { plugins: plugins.collect(), meter: None, ..self.clone() }
    }

    /// Returns the meter of the profile, if it is measured.
    pub fn meter(&self) -> Option<&Arc<dyn ProfileMeter>> {
        self.meter.as_ref()
    }

    /// Runs the plugins of one point with `ask` and measures the time. `status` derives the status for the meter from
    /// the result.
    pub fn measured<T>(&self, stage: Stage, status: impl FnOnce(&T) -> Status, ask: impl FnOnce() -> T) -> T {
        let Some(meter) = &self.meter else { return ask() };
        let start = meter.now();
        let answer = ask();
        meter.point(stage, status(&answer), meter.now().since(start));
        answer
    }

    /// `schedulerName`.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The release that applies.
    pub fn release(&self) -> Release {
        self.release
    }

    /// The profile's own `percentageOfNodesToScore`.
    pub fn percentage_of_nodes_to_score(&self) -> Option<i32> {
        self.percentage_of_nodes_to_score
    }

    /// All plugins.
    pub fn plugins(&self) -> &[GuardedPlugin] {
        &self.plugins
    }

    /// The plugins of one point, in order.
    pub fn at(&self, point: ExtensionPoint) -> &[PluginIdx] {
        &self.points[point as usize]
    }

    /// The plugin that defines groups, if there is one.
    pub fn grouping(&self) -> Option<&GuardedPlugin> {
        self.plugins.iter().find(|plugin| plugin.group_resource().is_some())
    }

    /// One plugin.
    pub fn plugin(&self, idx: PluginIdx) -> &GuardedPlugin {
        &self.plugins[idx.at()]
    }

    /// Name of the plugin with this index, or of extenders.
    pub(crate) fn name_of(&self, idx: PluginIdx) -> &'static str {
        if idx == EXTENDER_IDX { EXTENDER } else { self.plugin(idx).name() }
    }

    /// Entries of the Score point.
    pub fn scorers(&self) -> &[Scorer] {
        &self.scorers
    }

    /// The plugins of PlacementScore with their weights, in order.
    pub fn placement_scorers(&self) -> &[(PluginIdx, i64)] {
        &self.placement_scorers
    }

    /// Returns true if all members that are placed in one cycle of their group get nodes of the same placement: if the
    /// feature gate is on, or if a plugin generates placements.
    pub fn has_placements(&self) -> bool {
        self.has_placements
    }

    /// Row-scoped plugins of the Filter point, in order.
    pub fn row_filters(&self) -> &[PluginIdx] {
        &self.row_filters
    }

    /// Returns a row-scoped plugin together with the cycle in which it is called.
    pub(crate) fn column_source<'a>(&'a self, idx: PluginIdx, cx: &Cycle<'a>) -> ColumnSource<'a> {
        let (pre_filters, pre_scores) = self.pre[idx.at()];
        ColumnSource { idx, plugin: self.plugin(idx), pre_filters, pre_scores, cx: *cx }
    }

    /// Returns true if the plugin filters without a PreFilter that creates its state.
    pub(crate) fn filters_unprepared(&self, plugin: PluginIdx) -> bool {
        !self.pre[plugin.at()].0 && self.enabled(plugin, ExtensionPoint::Filter)
    }

    /// Indexes of the plugins, each once.
    pub fn indexes(&self) -> &[IndexKind] {
        &self.indexes
    }

    /// Plugins that prepare their index for each pod.
    pub(crate) fn preparers(&self) -> &[PluginIdx] {
        &self.preparers
    }

    /// Row-scoped plugins that may [read the cluster](crate::plugin::ReadsCluster).
    pub(crate) fn cluster_readers(&self) -> &[PluginIdx] {
        &self.cluster_readers
    }

    /// Returns the facts about the cluster that cached answers for the pod depend on, by plugin; empty for most pods.
    ///
    /// # Errors
    /// When a plugin fails.
    pub(crate) fn cluster_reads(&self, cx: &Cycle<'_>) -> Result<Vec<(PluginIdx, Reads)>, PointError> {
        let mut all = Vec::new();
        for plugin in &self.cluster_readers {
            let mut reads = self.plugin(*plugin).reads_cluster(cx)?;
            if !reads.is_empty() {
                // A rebuilt index has another log of changed rows.
                reads.of(&cx.indexes().builds());
                all.push((*plugin, reads));
            }
        }
        Ok(all)
    }

    /// Returns true if an attempt may wait for something.
    pub fn may_block(&self) -> bool {
        self.plugins.iter().any(GuardedPlugin::may_block)
    }

    /// The custom resources that the profile's plugins name, each Rust type once.
    pub fn resources(&self) -> Vec<ResourceKind> {
        let mut kinds: Vec<ResourceKind> = Vec::new();
        for kind in self.plugins.iter().flat_map(|plugin| plugin.resources()) {
            if !kinds.iter().any(|known| known.is_same(kind)) {
                kinds.push(*kind);
            }
        }
        kinds
    }

    /// Returns the sources of objects that the plugins fetch from outside the cluster, each once.
    pub fn sources(&self) -> Vec<Source> {
        let mut sources: Vec<Source> = Vec::new();
        // If a plugin panics here, it fetches nothing; its check has failed.
        for source in self.plugins.iter().filter_map(|plugin| plugin.source().ok().flatten()) {
            if !sources.iter().any(|known| known.is_same(&source)) {
                sources.push(source);
            }
        }
        sources
    }

    /// Points that a plugin needs and that were added because the configuration lacks them.
    pub fn implied(&self) -> &[(&'static str, ExtensionPoint)] {
        &self.implied
    }

    /// Returns true if the plugin takes part in `point` in this profile.
    pub fn enabled(&self, plugin: PluginIdx, point: ExtensionPoint) -> bool {
        self.at(point).contains(&plugin)
    }

    /// Returns true if `a` goes before `b` in the queue.
    ///
    /// # Errors
    /// When the QueueSort plugin panics.
    pub fn less(&self, a: Queued<'_>, b: Queued<'_>) -> Result<bool, PointError> {
        let sort = self.at(ExtensionPoint::QueueSort).first();
        sort.map_or(Ok(false), |sort| self.plugin(*sort).less(a, b))
    }

    /// Returns [`crate::plugin::QueueSort::rank`] of a pod or group.
    ///
    /// # Errors
    /// When the QueueSort plugin panics.
    pub fn rank(&self, queued: Queued<'_>, objects: &Objects) -> Result<Rank, PointError> {
        let sort = self.at(ExtensionPoint::QueueSort).first().map(|sort| self.plugin(*sort));
        match sort.filter(|sort| !sort.resources().is_empty()) {
            Some(sort) => sort.rank(queued, objects),
            None => Ok(Rank::default()),
        }
    }

    /// Returns true if namespaces take turns.
    pub fn takes_turns(&self) -> bool {
        self.at(ExtensionPoint::QueueSort).first().is_some_and(|sort| self.plugin(*sort).takes_turns())
    }

    /// Returns [`crate::plugin::QueueSort::turn`] of a namespace.
    ///
    /// # Errors
    /// When the QueueSort plugin fails.
    pub fn turn(&self, namespace: &str, cx: TurnCycle<'_>) -> Result<Turn, PointError> {
        let sort = self.at(ExtensionPoint::QueueSort).first();
        sort.map_or(Ok(Turn::default()), |sort| self.plugin(*sort).turn(namespace, cx))
    }

    /// Returns true if ranks may depend on objects of this kind.
    pub fn ranks_by(&self, resource: ResourceName) -> bool {
        let sort = self.at(ExtensionPoint::QueueSort).first().map(|sort| self.plugin(*sort));
        sort.is_some_and(|sort| sort.resources().iter().any(|kind| kind.name() == resource))
    }

    /// Returns the registrations of every plugin that names events or can reject pods.
    ///
    /// A plugin that can reject pods but names no events listens to all events of the kinds in [`EVERYTHING`] and of
    /// its own resources. In Kubernetes 1.36, a plugin that listens to new nodes but not to taint changes also gets a
    /// registration, without a hint, for taint changes.
    pub fn registrations(&self) -> Vec<(PluginIdx, Vec<ErasedRegistration>)> {
        const POINTS: [ExtensionPoint; 5] = [
            ExtensionPoint::PreEnqueue,
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::Reserve,
            ExtensionPoint::Permit,
        ];
        let indexed = self.plugins.iter().enumerate().map(|(at, plugin)| (PluginIdx(at as u16), plugin));
        let by_plugin = indexed.filter_map(|(idx, plugin)| {
            let can_reject = POINTS.iter().any(|point| self.enabled(idx, *point));
            Some((idx, registrations(plugin, can_reject, self.release)?))
        });
        by_plugin.collect()
    }

    /// Returns the pod's signature for opportunistic batching (KEP-5598): pods with equal signatures get equal answers
    /// from every plugin that filters or scores. Returns `None` if one of these plugins cannot sign the pod.
    ///
    /// # Errors
    /// When a plugin panics.
    pub fn sign(&self, pod: &PodInfo) -> Result<Option<Vec<SignFragment>>, PointError> {
        // Always reported as a success, as in kube-scheduler.
        self.measured(Stage::Sign, |_| Status::Success, || self.sign_with_all(pod))
    }

    fn sign_with_all(&self, pod: &PodInfo) -> Result<Option<Vec<SignFragment>>, PointError> {
        const POINTS: [ExtensionPoint; 4] = [
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
        ];
        let mut fragments = vec![SignFragment {
            key: "v1.Pod.Spec.SchedulerName",
            value: pod.spec.scheduler_name.to_string(),
        }];
        for (at, plugin) in self.plugins.iter().enumerate() {
            if POINTS.iter().any(|point| self.enabled(PluginIdx(at as u16), *point)) {
                match plugin.sign(pod)? {
                    Some(more) => fragments.extend(more),
                    None => return Ok(None),
                }
            }
        }
        fragments.sort();
        fragments.dedup();
        Ok(Some(fragments))
    }
}

/// Adds the points without which a plugin would lack its state: Filter and Reserve need PreFilter's state, and Score
/// needs PreScore's. At an added point, the plugin comes after all others.
fn add_implied(
    plugins: &[GuardedPlugin],
    points: &mut [Vec<PluginIdx>],
) -> Vec<(&'static str, ExtensionPoint)> {
    use ExtensionPoint as P;
    let mut implied = Vec::new();
    for (maker, users) in [(P::PreFilter, [P::Filter, P::Reserve].as_slice()), (P::PreScore, &[P::Score])] {
        for (at, plugin) in plugins.iter().enumerate() {
            let idx = PluginIdx(at as u16);
            let needed = users.iter().any(|user| points[*user as usize].contains(&idx));
            if needed && plugin.points().contains(maker) && !points[maker as usize].contains(&idx) {
                points[maker as usize].push(idx);
                implied.push((plugin.name(), maker));
            }
        }
    }
    implied
}

/// Returns the registrations of a plugin, including those that the framework adds. `can_reject` is true if the plugin
/// can reject pods. Returns `None` for a plugin that cannot reject pods and names no events.
pub fn registrations(
    plugin: &GuardedPlugin,
    can_reject: bool,
    release: Release,
) -> Option<Vec<ErasedRegistration>> {
    // If the plugin panics here, it is treated as having no registrations.
    let mut wants = match plugin.events().unwrap_or_default() {
        Some(wants) => wants,
        None if can_reject => everything(plugin),
        None => return None,
    };
    if release < Release::V1_37 {
        add_taint_registration(&mut wants);
    }
    Some(wants)
}

fn everything(plugin: &GuardedPlugin) -> Vec<ErasedRegistration> {
    let all = |resource| ErasedRegistration { event: ClusterEvent::new(resource, Action::ALL), hint: None };
    let named = plugin.resources().iter().map(|kind| EventResource::named(kind.name()));
    EVERYTHING.into_iter().chain(named.filter(|named| !EVERYTHING.contains(named))).map(all).collect()
}

/// The default registrations, for extenders and for plugins that can reject pods but name no events.
pub const EVERYTHING: [EventResource; 11] = [
    EventResource::Pod,
    EventResource::Node,
    EventResource::PersistentVolume,
    EventResource::PersistentVolumeClaim,
    EventResource::CsiNode,
    EventResource::CsiDriver,
    EventResource::CsiStorageCapacity,
    EventResource::StorageClass,
    EventResource::ResourceClaim,
    EventResource::DeviceClass,
    EventResource::PodGroup,
];

fn add_taint_registration(wants: &mut Vec<ErasedRegistration>) {
    let hears = |action: Action| {
        wants.iter().any(|w| w.event.resource == EventResource::Node && w.event.action.intersects(action))
    };
    if hears(Action::ADD) && !hears(Action::UPDATE_NODE_TAINT) {
        let event = ClusterEvent::new(EventResource::Node, Action::UPDATE_NODE_TAINT);
        wants.push(ErasedRegistration { event, hint: None });
    }
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.plugins.iter().map(|p| p.name()).collect();
        f.debug_struct("Profile").field("name", &self.name).field("plugins", &names).finish()
    }
}
