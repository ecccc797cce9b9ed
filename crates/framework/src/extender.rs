//! Extenders: webhooks that take part in scheduling decisions (`extenders` in the configuration).
//!
//! An [`Extender`] is the engine's description of one webhook. Requests go through the host's [`ExtenderClient`]; this
//! module does no I/O. [`Extenders`] contains the rules: the order in which extenders are called, the answers that are
//! allowed, and the handling of errors.
//!
//! Invariants: an answer adds no nodes to those in the request, and its victims are less important than the pod; an
//! ignorable extender never makes an attempt fail.

use std::{fmt, sync::Arc};

use harbormaster_api::{Str, pod::Container};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    nodeset::NodeIdx, outcome::Fix, outcome::Reject, pod::PodInfo, sweep::PluginIdx, table::NodeTable,
};

/// Plugin name in rejections by extenders. Events of every kind wake a pod that an extender rejected.
pub const EXTENDER: &str = "Extender";

/// Plugin index in rejections by extenders, higher than that of every plugin.
pub(crate) const EXTENDER_IDX: PluginIdx = PluginIdx(u16::MAX);

/// Highest score that extenders should return.
const MAX_SCORE: i64 = 10;
/// Factor that converts extender scores to plugin scores, which go up to 100.
const SCALE: i64 = 100 / MAX_SCORE;

/// The engine's description of an extender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extender {
    /// Name in messages: the extender's `urlPrefix`.
    pub name: Str,
    /// True if the extender filters nodes.
    pub filters: bool,
    /// True if the extender scores nodes.
    pub prioritizes: bool,
    /// True if the extender takes part in preemption.
    pub preempts: bool,
    /// Factor by which the extender's scores are multiplied.
    pub weight: i64,
    /// Resources that the extender manages. Pods that request none of these resources are not sent to the extender; if
    /// the list is empty, all pods are sent.
    pub managed_resources: Vec<Str>,
    /// True if pods are scheduled without the extender when it fails.
    pub ignorable: bool,
    /// True if requests contain node objects, not only names (the extender is not `nodeCacheCapable`).
    pub sees_objects: bool,
}

impl Extender {
    /// Returns true if the pod is sent to the extender. This depends on the requests and limits of containers and init
    /// containers, not on those at pod level.
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        let names = |container: &Container| {
            let all = container.requests.iter().chain(&container.limits);
            all.into_iter().any(|(name, _)| self.managed_resources.contains(name))
        };
        self.managed_resources.is_empty()
            || pod.spec.containers.iter().chain(&pod.spec.init_containers).any(names)
    }
}

/// An extender's answer to a filter request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filtered {
    /// Nodes that the extender accepts.
    pub nodes: Vec<Str>,
    /// Nodes that the extender rejects, with the reasons; eviction may help.
    pub failed: Vec<(Str, String)>,
    /// Nodes that the extender rejects, with the reasons; eviction cannot help. Takes precedence over `failed`.
    pub unresolvable: Vec<(Str, String)>,
}

/// Victims on one node in the form that extenders receive and return: UIDs instead of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVictims {
    /// The node.
    pub node: Str,
    /// UIDs of the pods to evict.
    pub victims: Vec<Str>,
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: i64,
}

/// Evictions that would make a pod fit on one node.
#[derive(Clone, Debug)]
pub struct EvictionPlan {
    /// The node.
    pub row: NodeIdx,
    /// Pods to evict, at least one: most important first, or in the order in which an extender named them.
    pub victims: Vec<Arc<PodInfo>>,
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: usize,
}

/// A remark about an unusual answer, for the log.
#[derive(Clone, Copy, Debug)]
pub enum Remark<'a> {
    /// The extender failed, and pods are scheduled without it.
    Skipped(&'a str),
    /// Scoring failed; the attempt continues without the extender's scores.
    NoScores(&'a str),
    /// The answer names nodes that were not in the request, for example this one. These nodes are ignored.
    UnknownNode(&'a str),
    /// Some scores are outside 0 to 10, for example this one. These scores are used unchanged.
    OutOfRange(i64),
    /// The answer names no victims on this node, which is therefore dropped.
    NoVictims(&'a str),
}

/// Sends requests to extenders, which are identified by their positions in [`Extenders::all`]. The attempt waits for
/// the answer, so implementations must answer in bounded time and return an error rather than panic.
pub trait ExtenderClient: fmt::Debug + Send + Sync {
    /// Returns the nodes that fit.
    ///
    /// # Errors
    /// A human-readable description of the problem.
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String>;

    /// Requests scores for the nodes from several extenders concurrently and returns the answers in order.
    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>>;

    /// Returns the evictions that the extender accepts.
    ///
    /// # Errors
    /// A human-readable description of the problem.
    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String>;

    /// Reports an unusual answer.
    fn remark(&self, extender: usize, pod: &PodInfo, remark: Remark<'_>) {
        let _ = (extender, pod, remark);
    }
}

/// Error returned by an extender that is not ignorable, with kube-scheduler's message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ExtenderError(pub String);

/// All extenders in the order in which they are called, and the client for them.
#[derive(Clone, Debug, Default)]
pub struct Extenders {
    all: Arc<[Extender]>,
    client: Option<Arc<dyn ExtenderClient>>,
}

/// Result of filtering rows by extenders.
#[derive(Debug, Default)]
pub(crate) struct FilteredRows {
    /// The accepted rows, in the order of the request.
    pub(crate) rows: Vec<NodeIdx>,
    /// The rejected rows and their rejections.
    pub(crate) rejected: Vec<(NodeIdx, Reject)>,
    /// True if an extender returned nodes as objects. kube-scheduler scores the returned objects, which have no pods.
    pub(crate) as_objects: bool,
}

impl Extenders {
    /// Creates extenders. They are called in the given order, except that ignorable extenders come last. Requests need
    /// a [client](Self::with_client).
    pub fn new(all: impl IntoIterator<Item = Extender>) -> Self {
        let mut all: Vec<Extender> = all.into_iter().collect();
        all.sort_by_key(|extender| extender.ignorable);
        Self { all: all.into(), client: None }
    }

    /// Returns the same extenders with a client.
    #[must_use]
    pub fn with_client(&self, client: Arc<dyn ExtenderClient>) -> Self {
        Self { all: self.all.clone(), client: Some(client) }
    }

    /// The extenders in the order in which they are called.
    pub fn all(&self) -> &[Extender] {
        &self.all
    }

    /// The client that sends requests.
    pub fn client(&self) -> Option<&Arc<dyn ExtenderClient>> {
        self.client.as_ref()
    }

    /// Returns true if there are no extenders.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns true if some extender filters or scores.
    pub(crate) fn choose_nodes(&self) -> bool {
        self.all.iter().any(|extender| extender.filters || extender.prioritizes)
    }

    /// Returns true if some extender filters or scores nodes for `pod`.
    pub(crate) fn choose_for(&self, pod: &PodInfo) -> bool {
        self.interested(pod).any(|(_, extender)| extender.filters || extender.prioritizes)
    }

    fn interested<'a>(&'a self, pod: &'a PodInfo) -> impl Iterator<Item = (usize, &'a Extender)> + 'a {
        self.all.iter().enumerate().filter(|(_, extender)| extender.is_interested(pod))
    }

    fn remark(&self, extender: usize, pod: &PodInfo, remark: Remark<'_>) {
        if let Some(client) = &self.client {
            client.remark(extender, pod, remark);
        }
    }

    fn ask<T>(
        &self,
        extender: &Extender,
        ask: impl FnOnce(&dyn ExtenderClient) -> Result<T, String>,
    ) -> Result<T, String> {
        match &self.client {
            Some(client) => ask(&**client),
            None => Err(format!("no client for extender {:?}", extender.name.as_str())),
        }
    }

    /// Returns the rows that all filtering extenders accept. Each extender receives only the rows that the extenders
    /// before it accepted.
    pub(crate) fn filter(
        &self,
        pod: &PodInfo,
        nodes: &NodeTable,
        rows: Vec<NodeIdx>,
    ) -> Result<FilteredRows, ExtenderError> {
        let mut filtered = FilteredRows { rows, ..FilteredRows::default() };
        for (at, extender) in self.interested(pod).filter(|(_, extender)| extender.filters) {
            if filtered.rows.is_empty() {
                break;
            }
            let names: Vec<Str> = filtered.rows.iter().map(|row| nodes.node(*row).name().clone()).collect();
            let answer = self.ask(extender, |client| client.filter(at, pod, &names));
            let answer = answer.and_then(|answer| {
                check_nodes(extender, &names, &answer)?;
                Ok(answer)
            });
            match answer {
                Ok(answer) => {
                    filtered.as_objects |= extender.sees_objects;
                    self.apply_filtered(at, pod, nodes, &mut filtered, &answer);
                }
                Err(why) => self.failed(at, pod, why)?,
            }
        }
        Ok(filtered)
    }

    fn apply_filtered(
        &self,
        at: usize,
        pod: &PodInfo,
        nodes: &NodeTable,
        filtered: &mut FilteredRows,
        answer: &Filtered,
    ) {
        let accepted: FxHashSet<&str> = answer.nodes.iter().map(Str::as_str).collect();
        let rejections = |answer: &'_ [(Str, String)], fix: Fix| -> Vec<(Str, Reject)> {
            let reject = |why: &String| Reject { fix, reasons: vec![why.clone().into()] };
            answer.iter().map(|(node, why)| (node.clone(), reject(why))).collect()
        };
        let mut reasons: FxHashMap<Str, Reject> =
            rejections(&answer.failed, Fix::EvictionMayHelp).into_iter().collect();
        reasons.extend(rejections(&answer.unresolvable, Fix::NothingHelps));
        let (rows, rejected): (Vec<_>, Vec<_>) =
            filtered.rows.drain(..).partition(|row| accepted.contains(nodes.node(*row).name().as_str()));
        for row in &rows {
            reasons.remove(nodes.node(*row).name());
        }
        for row in rejected {
            // A node that the answer does not mention is rejected without a reason, and eviction cannot help.
            let silent = || Reject { fix: Fix::NothingHelps, reasons: Vec::new() };
            filtered.rejected.push((row, reasons.remove(nodes.node(row).name()).unwrap_or_else(silent)));
        }
        filtered.rows = rows;
        if let Some(node) = reasons.keys().min() {
            self.remark(at, pod, Remark::UnknownNode(node));
        }
    }

    /// Returns an error for a failed extender, unless the extender is ignorable.
    fn failed(&self, at: usize, pod: &PodInfo, why: String) -> Result<(), ExtenderError> {
        if !self.all[at].ignorable {
            return Err(ExtenderError(why));
        }
        self.remark(at, pod, Remark::Skipped(&why));
        Ok(())
    }

    /// Adds the scores of extenders to those of plugins.
    pub(crate) fn add_scores(&self, pod: &PodInfo, nodes: &NodeTable, rows: &[NodeIdx], totals: &mut [i64]) {
        let Some(client) = &self.client else { return };
        let scorers: Vec<usize> =
            self.interested(pod).filter(|(_, extender)| extender.prioritizes).map(|(at, _)| at).collect();
        if scorers.is_empty() {
            return;
        }
        let names: Vec<Str> = rows.iter().map(|row| nodes.node(*row).name().clone()).collect();
        let positions: FxHashMap<&str, usize> =
            names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        for (at, answer) in scorers.iter().zip(client.prioritize(&scorers, pod, &names)) {
            let factor = self.all[*at].weight.wrapping_mul(SCALE);
            match answer {
                Ok(scores) => {
                    for (node, score) in &scores {
                        match positions.get(node.as_str()) {
                            Some(position) => {
                                // Wraps on overflow, as in kube-scheduler: extreme scores may reverse the order.
                                totals[*position] =
                                    totals[*position].wrapping_add(score.wrapping_mul(factor));
                            }
                            None => self.remark(*at, pod, Remark::UnknownNode(node)),
                        }
                    }
                    if let Some((_, score)) =
                        scores.iter().find(|(_, score)| !(0..=MAX_SCORE).contains(score))
                    {
                        self.remark(*at, pod, Remark::OutOfRange(*score));
                    }
                }
                Err(why) => self.remark(*at, pod, Remark::NoScores(&why)),
            }
        }
    }

    /// Returns true if some extender takes part in preemption for `pod`.
    pub fn preempt_for(&self, pod: &PodInfo) -> bool {
        self.interested(pod).any(|(_, extender)| extender.preempts)
    }

    /// Returns the plans that are accepted by all extenders that take part in preemption. Each extender receives only
    /// the plans that the extenders before it accepted.
    ///
    /// # Errors
    /// When an extender that is not ignorable fails.
    pub fn preempt(
        &self,
        pod: &PodInfo,
        nodes: &NodeTable,
        mut plans: Vec<EvictionPlan>,
    ) -> Result<Vec<EvictionPlan>, ExtenderError> {
        for (at, extender) in self.interested(pod).filter(|(_, extender)| extender.preempts) {
            if plans.is_empty() {
                break;
            }
            let request: Vec<NodeVictims> = plans.iter().map(|plan| plan.by_name(nodes)).collect();
            let answer = self.ask(extender, |client| client.preempt(at, pod, &request));
            let answer = answer.and_then(|answer| self.agreed(at, pod, nodes, &plans, &answer));
            match answer {
                Ok(agreed) => plans = agreed,
                Err(why) => self.failed(at, pod, why)?,
            }
        }
        Ok(plans)
    }

    /// Returns the accepted plans in the order of `plans`, with the victims that the extender names.
    fn agreed(
        &self,
        at: usize,
        pod: &PodInfo,
        nodes: &NodeTable,
        plans: &[EvictionPlan],
        answer: &[NodeVictims],
    ) -> Result<Vec<EvictionPlan>, String> {
        let extender = &self.all[at];
        let mut by_node: FxHashMap<&str, &NodeVictims> =
            answer.iter().map(|victims| (victims.node.as_str(), victims)).collect();
        let mut agreed = Vec::new();
        for plan in plans {
            let node = nodes.node(plan.row);
            let Some(answer) = by_node.remove(node.name().as_str()) else { continue };
            let mut victims: Vec<Arc<PodInfo>> = Vec::new();
            for uid in &answer.victims {
                let planned = plan.victims.iter().find(|victim| victim.uid == *uid);
                let victim = planned.or_else(|| node.pods().iter().find(|victim| victim.uid == *uid));
                let victim = victim.ok_or_else(|| {
                    format!(
                        "extender: {} claims to preempt pod (UID: &{{{uid}}}) on node: {}, but the pod is not found on that \
                         node",
                        extender.name,
                        node.name()
                    )
                })?;
                if planned.is_none() && victim.priority() >= pod.priority() {
                    return Err(format!(
                        "extender: {} claims to preempt pod {} on node: {}, which is no less important",
                        extender.name,
                        victim.full_name(),
                        node.name()
                    ));
                }
                if !victims.iter().any(|known| known.uid == *uid) {
                    victims.push(victim.clone());
                }
            }
            if victims.is_empty() {
                if !extender.ignorable {
                    return Err(format!(
                        "expected at least one victim pod on node {:?}",
                        node.name().as_str()
                    ));
                }
                self.remark(at, pod, Remark::NoVictims(node.name()));
                continue;
            }
            let violations = usize::try_from(answer.violations).unwrap_or(0);
            agreed.push(EvictionPlan { row: plan.row, victims, violations });
        }
        match by_node.keys().min() {
            None => Ok(agreed),
            Some(node) if nodes.find(node).is_none() => {
                Err(format!("nodeinfo not found for node name {node:?}"))
            }
            Some(node) => Err(format!(
                "extender: {} claims to preempt on node: {node}, which it was not asked about",
                extender.name
            )),
        }
    }
}

impl EvictionPlan {
    fn by_name(&self, nodes: &NodeTable) -> NodeVictims {
        NodeVictims {
            node: nodes.node(self.row).name().clone(),
            victims: self.victims.iter().map(|victim| victim.uid.clone()).collect(),
            violations: i64::try_from(self.violations).unwrap_or(i64::MAX),
        }
    }
}

/// Checks that an extender's answer accepts only nodes that were in the request.
fn check_nodes(extender: &Extender, requested: &[Str], answer: &Filtered) -> Result<(), String> {
    let requested: FxHashSet<&str> = requested.iter().map(Str::as_str).collect();
    match answer.nodes.iter().find(|node| !requested.contains(node.as_str())) {
        Some(node) => Err(format!(
            "extender {:?} claims a filtered node {:?} which is not found in the input node list",
            extender.name.as_str(),
            node.as_str()
        )),
        None => Ok(()),
    }
}
