//! PostFilter: finds pods that can be evicted for a pod that fits no node.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    api_call::ApiCall,
    attempt::{Attempt, DryRun},
    cluster::Cluster,
    cycle::{Cycle, PostFilterCycle, WhatIf},
    diagnosis::Diagnosis,
    extender::{EvictionPlan, Extenders},
    group::{GroupId, PodGroup},
    guard::PointError,
    meter::{Stage, Status},
    nodeset::{NodeIdx, NodeSet},
    objects::Objects,
    outcome::{Fix, Nomination, PluginResult, PostFiltered, Reject},
    pod::PodInfo,
    profile::Profile,
    sweep::PluginIdx,
    table::NodeTable,
};

use crate::{
    cache::Cache,
    evictions::Victims,
    groups::Groups,
    nominator::{NewNomination, Nominated, Nominator},
    pods::Pods,
};

/// The node and the victims that the PostFilter plugins choose.
#[derive(Clone, Debug)]
pub struct Eviction {
    /// Name of the node.
    pub node: Str,
    /// Pods to evict from the node, the most important first.
    pub victims: Vec<Arc<PodInfo>>,
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: usize,
}

impl Cache {
    /// Returns what the PostFilter plugins choose after a failed attempt, or `None` if they do not evict pods. Nominated
    /// pods are not counted. The requests of the plugins to the API server are dropped.
    ///
    /// # Errors
    /// If a plugin panics.
    pub fn eviction_for(
        &mut self,
        profile: &Profile,
        extenders: &Extenders,
        mut attempt: Attempt,
        pod: &PodInfo,
    ) -> Result<Option<Eviction>, PointError> {
        let diagnosis = attempt.take_diagnosis();
        let (nominator, pods) = (Nominator::default(), Pods::default());
        let mut what_if = TableWhatIf {
            cluster: &mut self.cluster,
            groups: &self.groups,
            nominated: nominator.of(&pods),
            attempt: &attempt,
            pod,
            offset: 0,
            stops_early: false,
            extenders,
        };
        let result = post_filter(profile, &attempt, diagnosis, pod, &mut what_if)?;
        let Victims { pods: victims, violations } = result.victims;
        Ok(match result.nomination {
            NewNomination::Set(node) if !victims.is_empty() => Some(Eviction { node, victims, violations }),
            _ => None,
        })
    }
}

/// Result of the PostFilter plugins.
#[derive(Debug)]
pub(crate) struct PostFilterResult {
    /// The reasons why the pod fits no node, with the message of the PostFilter plugins.
    pub(crate) diagnosis: Diagnosis,
    /// Effect on the pod's nomination.
    pub(crate) nomination: NewNomination,
    /// Pods to evict from the nominated node.
    pub(crate) victims: Victims,
    /// Requests of the plugins to the API server.
    pub(crate) calls: Vec<ApiCall>,
    /// Time at which the pod is tried again even if no event wakes it.
    pub(crate) retry_at: Option<Timestamp>,
    /// Status for measurements.
    pub(crate) status: Status,
}

/// Calls the PostFilter plugins of the profile, in order, until one gives a final answer. `diagnosis` contains the
/// reasons why the pod fits no node. Only a panic is returned as an error.
pub(crate) fn post_filter(
    profile: &Profile,
    attempt: &Attempt,
    diagnosis: Diagnosis,
    pod: &PodInfo,
    what_if: &mut dyn WhatIf,
) -> Result<PostFilterResult, PointError> {
    if profile.at(ExtensionPoint::PostFilter).is_empty() {
        return Ok(PostFilterResult::without_node(diagnosis, NewNomination::Clear, Status::Unschedulable));
    }
    let status = |result: &Result<PostFilterResult, PointError>| {
        result.as_ref().map_or(Status::Error, |result| result.status)
    };
    profile.measured(Stage::PostFilter, status, || {
        let mut cx = PostFilterCycle {
            pod,
            pre_filter: None,
            pre_filtered: false,
            calls: &mut Vec::new(),
            retry_at: None,
            what_if,
        };
        let mut result = call_plugins(profile, attempt, diagnosis, &mut cx)?;
        result.calls = std::mem::take(cx.calls);
        result.retry_at = cx.retry_at;
        Ok(result)
    })
}

impl PostFilterResult {
    fn without_node(diagnosis: Diagnosis, nomination: NewNomination, status: Status) -> Self {
        Self::new(diagnosis, nomination, Victims::default(), status)
    }

    /// A result without calls.
    fn new(diagnosis: Diagnosis, nomination: NewNomination, victims: Victims, status: Status) -> Self {
        Self { diagnosis, nomination, victims, calls: Vec::new(), retry_at: None, status }
    }
}

fn call_plugins(
    profile: &Profile,
    attempt: &Attempt,
    mut diagnosis: Diagnosis,
    cx: &mut PostFilterCycle<'_>,
) -> Result<PostFilterResult, PointError> {
    let pre_filter = diagnosis.pre_filter.clone();
    let mut nomination = NewNomination::Keep;
    let mut reasons: Vec<String> = Vec::new();
    for plugin in profile.at(ExtensionPoint::PostFilter) {
        cx.pre_filter = pre_filter.as_ref().map(|(_, reject)| reject.clone());
        cx.pre_filtered = was_pre_filtered(profile, *plugin, pre_filter.as_ref());
        match profile.plugin(*plugin).post_filter(cx, attempt.state(*plugin)) {
            // This answer and the next are final, so the reasons of earlier plugins are dropped.
            Ok(PostFiltered::Nominate { node, victims: pods, violations, reasons }) => {
                diagnosis.post_filter = reasons.join(", ");
                let (nomination, status) = (NewNomination::Set(node), Status::Success);
                let victims = Victims { pods, violations };
                return Ok(PostFilterResult::new(diagnosis, nomination, victims, status));
            }
            Ok(PostFiltered::NoHelp { reasons: why, nomination: effect }) => {
                reasons.extend(why.into_iter().map(|r| r.into_owned()));
                if effect == Nomination::Clear {
                    nomination = NewNomination::Clear;
                }
            }
            Ok(PostFiltered::Unresolvable { reasons, nomination }) => {
                diagnosis.post_filter = reasons.join(", ");
                let (nomination, status) = (nomination.into(), Status::Unresolvable);
                return Ok(PostFilterResult::without_node(diagnosis, nomination, status));
            }
            Err(panic) if panic.is_panic() => return Err(panic),
            Err(error) => {
                diagnosis.post_filter = error.source.to_string();
                return Ok(PostFilterResult::without_node(diagnosis, NewNomination::Keep, Status::Error));
            }
        }
    }
    diagnosis.post_filter = reasons.join(", ");
    Ok(PostFilterResult::without_node(diagnosis, nomination, Status::Unschedulable))
}

/// Returns true if the plugin's PreFilter method was called, given the rejection by PreFilter. If no eviction can
/// resolve the rejection, the plugins after the one that rejected the pod were not called. A rejection that names no
/// plugin means that each plugin allows some nodes, but no node is allowed by all of them. Such a rejection does not
/// tell which plugins were called, so the result is then false.
pub(crate) fn was_pre_filtered(
    profile: &Profile,
    plugin: PluginIdx,
    rejection: Option<&(Option<&'static str>, Reject)>,
) -> bool {
    let order = profile.at(ExtensionPoint::PreFilter);
    let Some(own) = order.iter().position(|other| *other == plugin) else { return false };
    match rejection {
        Some((Some(by), reject)) if reject.fix == Fix::NothingHelps => {
            order[..own].iter().all(|earlier| profile.plugin(*earlier).name() != *by)
        }
        Some((None, _)) => false,
        _ => true,
    }
}

/// Dry runs on the engine's own node table.
pub(crate) struct TableWhatIf<'a> {
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) groups: &'a Groups,
    pub(crate) nominated: Nominated<'a>,
    pub(crate) attempt: &'a Attempt,
    pub(crate) pod: &'a PodInfo,
    /// See [`WhatIf::offset`].
    pub(crate) offset: usize,
    /// See [`WhatIf::stops_early`].
    pub(crate) stops_early: bool,
    pub(crate) extenders: &'a Extenders,
}

impl WhatIf for TableWhatIf<'_> {
    fn nodes(&self) -> &NodeTable {
        self.cluster.nodes()
    }

    fn objects(&self) -> &Objects {
        self.cluster.objects()
    }

    fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    fn cycle<'a>(&'a self, pod: &'a PodInfo) -> Cycle<'a> {
        Cycle::new(self.cluster, pod)
    }

    fn rejection(&self, row: NodeIdx) -> Option<Reject> {
        self.attempt.rejection_of(row).cloned()
    }

    fn evictable_rows(&self) -> Vec<NodeIdx> {
        self.attempt.rows_rejected_with(self.cluster.order(), Fix::EvictionMayHelp)
    }

    fn rejected_by(&self, row: NodeIdx) -> Option<&'static str> {
        self.attempt.rejected_by(row)
    }

    fn offset(&self) -> usize {
        self.offset
    }

    fn stops_early(&self) -> bool {
        self.stops_early
    }

    fn asks_extenders(&self) -> bool {
        self.extenders.preempt_for(self.pod)
    }

    fn agreed(&mut self, plans: Vec<EvictionPlan>) -> PluginResult<Vec<EvictionPlan>> {
        Ok(self.extenders.preempt(self.pod, self.cluster.nodes(), plans)?)
    }

    fn reprioritized_rows(&self) -> NodeSet {
        self.groups.reprioritized_rows(self.cluster.nodes())
    }

    fn group(&self, id: &GroupId) -> Option<&PodGroup> {
        self.groups.get(id).map(|group| &**group)
    }

    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        self.groups.members_on(self.cluster.nodes(), id)
    }

    fn dry_run(&mut self, row: NodeIdx) -> DryRun<'_> {
        let nominated = self.nominated.on_for(self.cluster.node(row).name(), self.pod);
        self.attempt.dry_run(self.cluster, row, nominated)
    }
}
