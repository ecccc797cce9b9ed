//! A profile: the plugins that pods of one scheduler name go through, in order.

use std::sync::Arc;

use harbormaster_api::{Str, points::ExtensionPoint};
use serde_json::Value;
use thiserror::Error;

use crate::{
    cycle::Cycle,
    events::{Action, ClusterEvent, ErasedRegistration, EventResource},
    extender::{EXTENDER, EXTENDER_IDX},
    guard::{Call, Guarded, PointError},
    index::IndexKind,
    kept::Asked,
    meter::{ProfileMeter, Stage, Status},
    outcome::Normalize,
    plugin::{Queued, Scope, SignFragment},
    pod::PodInfo,
    registry::{BuildCycle, BuildError, Registry},
    resource::ResourceKind,
    sweep::PluginIdx,
};

/// What a profile is made from: the result of merging the configuration.
#[derive(Clone, Debug, Default)]
pub struct ProfileSpec {
    /// `schedulerName`: pods name it.
    pub name: String,
    /// Per extension point the plugins in order, with weights where the point has them.
    pub points: Vec<(ExtensionPoint, Vec<(String, i64)>)>,
    /// Arguments by plugin.
    pub args: Vec<(String, Value)>,
    /// The profile's own `percentageOfNodesToScore`.
    pub percentage_of_nodes_to_score: Option<i32>,
}

/// Why a profile could not be made.
#[derive(Debug, Error)]
#[error("creating profile for scheduler name {profile}: {source}")]
pub struct ProfileError {
    /// Which profile.
    pub profile: String,
    /// What went wrong.
    pub source: BuildError,
}

/// One entry of the Score point.
#[derive(Clone, Copy, Debug)]
pub struct Scorer {
    /// Which plugin.
    pub plugin: PluginIdx,
    /// How much its normalised score counts.
    pub weight: i64,
    /// How raw scores become 0..=100.
    pub normalize: Normalize,
    /// On what the raw scores depend.
    pub scope: Scope,
}

/// Plugins in order, made and ready. Immutable: shared by the engine and by bindings on their way.
#[derive(Clone)]
pub struct Profile {
    name: Str,
    plugins: Vec<Guarded>,
    /// `None` unless somebody measures.
    meter: Option<Arc<dyn ProfileMeter>>,
    points: Vec<Vec<PluginIdx>>,
    scorers: Vec<Scorer>,
    row_filters: Vec<PluginIdx>,
    /// By plugin: whether it is in PreFilter, and whether in PreScore.
    pre: Vec<(bool, bool)>,
    indexed: Vec<(PluginIdx, IndexKind)>,
    implied: Vec<(&'static str, ExtensionPoint)>,
    percentage_of_nodes_to_score: Option<i32>,
}

impl Profile {
    /// Makes every plugin that the spec names, each once.
    ///
    /// # Errors
    /// When a plugin is not registered or refuses its arguments.
    pub fn build(spec: &ProfileSpec, registry: &Registry, cx: &BuildCycle) -> Result<Self, ProfileError> {
        let mut plugins: Vec<Guarded> = Vec::new();
        let mut points: Vec<Vec<PluginIdx>> = vec![Vec::new(); ExtensionPoint::ALL.len()];
        let mut scorers = Vec::new();
        for (point, entries) in &spec.points {
            for (name, weight) in entries {
                let known = plugins.iter().position(|p| p.name() == name);
                let at = match known {
                    Some(at) => at,
                    None => {
                        let args = spec.args.iter().find(|(plugin, _)| plugin == name).map(|(_, args)| args);
                        let made = registry.build(name, args, cx);
                        let made = made.and_then(|plugin| {
                            plugin.check()?;
                            Ok(plugin)
                        });
                        plugins.push(
                            made.map_err(|source| ProfileError { profile: spec.name.clone(), source })?,
                        );
                        plugins.len() - 1
                    }
                };
                let plugin = PluginIdx(at as u16);
                points[*point as usize].push(plugin);
                if *point == ExtensionPoint::Score {
                    let (normalize, scope) = (plugins[at].normalization(), plugins[at].scope());
                    scorers.push(Scorer { plugin, weight: *weight, normalize, scope });
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
        let indexed = plugins.iter().enumerate();
        let indexed =
            indexed.filter_map(|(at, plugin)| Some((PluginIdx(at as u16), plugin.index()?))).collect();
        Ok(Self {
            name: spec.name.as_str().into(),
            indexed,
            plugins,
            meter: None,
            points,
            scorers,
            row_filters,
            pre,
            implied,
            percentage_of_nodes_to_score: spec.percentage_of_nodes_to_score,
        })
    }

    /// The same profile, with the same plugins, measured.
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

    /// Who measures the profile, if anybody does.
    pub fn meter(&self) -> Option<&Arc<dyn ProfileMeter>> {
        self.meter.as_ref()
    }

    /// Asks plugins of one point with `ask`, and has the time of that taken. `status` tells how it went.
    pub fn measured<T>(&self, stage: Stage, status: impl FnOnce(&T) -> Status, ask: impl FnOnce() -> T) -> T {
        let Some(meter) = &self.meter else { return ask() };
        let begun = meter.now();
        let said = ask();
        meter.point(stage, status(&said), meter.now().since(begun));
        said
    }

    /// `schedulerName`.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The profile's own `percentageOfNodesToScore`.
    pub fn percentage_of_nodes_to_score(&self) -> Option<i32> {
        self.percentage_of_nodes_to_score
    }

    /// All plugins.
    pub fn plugins(&self) -> &[Guarded] {
        &self.plugins
    }

    /// The plugins of one point, in order.
    pub fn at(&self, point: ExtensionPoint) -> &[PluginIdx] {
        &self.points[point as usize]
    }

    /// One plugin.
    pub fn plugin(&self, idx: PluginIdx) -> &Guarded {
        &self.plugins[idx.at()]
    }

    /// Who has rejected something.
    pub(crate) fn name_of(&self, idx: PluginIdx) -> &'static str {
        if idx == EXTENDER_IDX { EXTENDER } else { self.plugin(idx).name() }
    }

    /// The Score point.
    pub fn scorers(&self) -> &[Scorer] {
        &self.scorers
    }

    /// The row-scoped plugins of the Filter point, in order.
    pub fn row_filters(&self) -> &[PluginIdx] {
        &self.row_filters
    }

    /// A row-scoped plugin, to be asked in a cycle.
    pub(crate) fn asked<'a>(&'a self, idx: PluginIdx, cx: &'a Cycle<'a>) -> Asked<'a> {
        let (pre_filters, pre_scores) = self.pre[idx.at()];
        Asked { idx, plugin: self.plugin(idx), pre_filters, pre_scores, cx }
    }

    /// Whether the plugin filters without a PreFilter that makes its state.
    pub(crate) fn filters_unprepared(&self, plugin: PluginIdx) -> bool {
        !self.pre[plugin.at()].0 && self.enabled(plugin, ExtensionPoint::Filter)
    }

    /// The plugins that use an index.
    pub fn indexed(&self) -> &[(PluginIdx, IndexKind)] {
        &self.indexed
    }

    /// The custom resources that its plugins name, each type once.
    pub fn resources(&self) -> Vec<ResourceKind> {
        let mut kinds: Vec<ResourceKind> = Vec::new();
        for kind in self.plugins.iter().flat_map(|plugin| plugin.resources()) {
            if !kinds.iter().any(|known| known.is_same(kind)) {
                kinds.push(*kind);
            }
        }
        kinds
    }

    /// Points that the configuration left out of a plugin which cannot do without them: they were added.
    pub fn implied(&self) -> &[(&'static str, ExtensionPoint)] {
        &self.implied
    }

    /// Whether the plugin takes part in that point of this profile.
    pub fn enabled(&self, plugin: PluginIdx, point: ExtensionPoint) -> bool {
        self.at(point).contains(&plugin)
    }

    /// Whether `a` goes before `b` in the queue.
    ///
    /// # Errors
    /// When the QueueSort plugin panics.
    pub fn less(&self, a: Queued<'_>, b: Queued<'_>) -> Result<bool, PointError> {
        let sort = self.at(ExtensionPoint::QueueSort).first();
        sort.map_or(Ok(false), |sort| self.plugin(*sort).less(a, b))
    }

    /// The events that each plugin with a say in admission listens to.
    ///
    /// A plugin that names none listens to everything. A plugin that listens to new nodes but not to taints gets a
    /// registration for taint changes that always queues: kube-scheduler adds it because a node may become known to
    /// such a plugin through a change of its taints only.
    pub fn registrations(&self) -> Vec<(PluginIdx, Vec<ErasedRegistration>)> {
        const POINTS: [ExtensionPoint; 5] = [
            ExtensionPoint::PreEnqueue,
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::Reserve,
            ExtensionPoint::Permit,
        ];
        let indexed = self.plugins.iter().enumerate().map(|(at, plugin)| (PluginIdx(at as u16), plugin));
        let told = indexed.filter_map(|(idx, plugin)| {
            let has_say = POINTS.iter().any(|point| self.enabled(idx, *point));
            Some((idx, registrations(plugin, has_say)?))
        });
        told.collect()
    }

    /// The pod's signature for opportunistic batching (KEP-5598): pods of equal signature get equal answers from every
    /// plugin. `None` if some plugin cannot sign it.
    ///
    /// # Errors
    /// When a plugin panics.
    pub fn sign(&self, pod: &PodInfo) -> Result<Option<Vec<SignFragment>>, PointError> {
        // That it always went well is kube-scheduler's word, too.
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

/// A plugin's Filter and Reserve look at what its PreFilter made, its Score at what its PreScore made. Where only the
/// former are enabled the latter are added, behind all others, so that no plugin is ever called without its state.
fn add_implied(plugins: &[Guarded], points: &mut [Vec<PluginIdx>]) -> Vec<(&'static str, ExtensionPoint)> {
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

/// Events that a plugin listens to, with those that are added to its own. `None`: nothing wakes the pods that it rejects,
/// since it cannot reject any unless it `has_say`.
pub fn registrations(plugin: &Guarded, has_say: bool) -> Option<Vec<ErasedRegistration>> {
    // A plugin that panics instead of telling is taken for one that tells nothing.
    let mut wants = match plugin.events().unwrap_or_default() {
        Some(wants) => wants,
        None if has_say => everything(plugin),
        None => return None,
    };
    add_taint_registration(&mut wants);
    Some(wants)
}

fn everything(plugin: &Guarded) -> Vec<ErasedRegistration> {
    let all = |resource| ErasedRegistration { event: ClusterEvent::new(resource, Action::ALL), hint: None };
    let named = plugin.resources().iter().map(|kind| EventResource::named(kind.name()));
    EVERYTHING.into_iter().chain(named.filter(|named| !EVERYTHING.contains(named))).map(all).collect()
}

/// What those listen to who name no events: plugins with a say in admission, and extenders.
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
