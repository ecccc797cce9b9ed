//! Extenders: services beside the scheduler that have a say in its decisions (`extenders` of the configuration).
//!
//! What the engine knows of one is an [`Extender`]; the questions go through [`AskExtenders`], which the host lends. Nothing here
//! talks to anybody. [`Extenders`] has the rules: who is asked when, what an answer may say, and what becomes of a failure.
//!
//! Invariants: an answer may only take away from what was asked about, nodes as well as evictions; a service that may be
//! ignored never fails a pod.

use std::{fmt, sync::Arc};

use harbormaster_api::{Str, pod::Container};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    nodeset::NodeIdx, outcome::Fix, outcome::Reject, pod::PodInfo, sweep::PluginIdx, table::NodeTable,
};

/// As which plugin extenders reject: events of every kind wake such pods.
pub const EXTENDER: &str = "Extender";

/// The place of that name where rejections are kept: behind every plugin.
pub(crate) const EXTENDER_IDX: PluginIdx = PluginIdx(u16::MAX);

/// The best score that extenders should give.
const MAX_SCORE: i64 = 10;
/// How much one point of theirs counts: plugins score up to 100.
const SCALE: i64 = 100 / MAX_SCORE;

/// What the engine knows of an extender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extender {
    /// Names it in messages: its `urlPrefix`.
    pub name: Str,
    /// Whether it filters.
    pub filters: bool,
    /// Whether it scores.
    pub prioritizes: bool,
    /// Whether it has a say in preemption.
    pub preempts: bool,
    /// Factor of its scores.
    pub weight: i64,
    /// Only pods that ask for one of these concern it; all pods do if there are none.
    pub managed_resources: Vec<Str>,
    /// Whether pods are scheduled without it when it fails.
    pub ignorable: bool,
    /// Whether it is shown nodes as objects, not by name alone (it is not `nodeCacheCapable`).
    pub sees_objects: bool,
}

impl Extender {
    /// Whether the pod concerns it. Requests and limits of containers and init containers count, those of the whole pod do
    /// not.
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        let names = |container: &Container| {
            let all = container.requests.iter().chain(&container.limits);
            all.into_iter().any(|(name, _)| self.managed_resources.contains(name))
        };
        self.managed_resources.is_empty()
            || pod.spec.containers.iter().chain(&pod.spec.init_containers).any(names)
    }
}

/// What an extender says of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filtered {
    /// The nodes that it lets pass.
    pub nodes: Vec<Str>,
    /// Nodes that it rejects, and why; eviction may help.
    pub failed: Vec<(Str, String)>,
    /// Nodes that it rejects, and why; nothing helps. Wins over `failed`.
    pub unresolvable: Vec<(Str, String)>,
}

/// Evictions on one node, by UIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVictims {
    /// The node.
    pub node: Str,
    /// The UIDs of the pods to be evicted.
    pub victims: Vec<Str>,
    /// How many of them break a disruption budget.
    pub violations: i64,
}

/// Evictions that would make room for a pod on one node.
#[derive(Clone, Debug)]
pub struct EvictionPlan {
    /// The node.
    pub row: NodeIdx,
    /// Who must go, at least one pod, most important first.
    pub victims: Vec<Arc<PodInfo>>,
    /// How many of them break a disruption budget.
    pub violations: usize,
}

/// What an answer has for a reader of the log.
#[derive(Clone, Copy, Debug)]
pub enum Remark<'a> {
    /// The extender failed, and pods are scheduled without it.
    Skipped(&'a str),
    /// It was to score and failed, which never matters.
    NoScores(&'a str),
    /// It names nodes that it was not asked about, this one for example; that counts for nothing.
    Strange(&'a str),
    /// It gives scores outside of 0 to 10, this one for example; they count as they are.
    OutOfRange(i64),
    /// It has no victims on that node, which is left out.
    NoVictims(&'a str),
}

/// Asks extenders, which are named by their places in the list of all. Called in the midst of an attempt, which waits for the
/// answer: implementations answer in bounded time, and with an error rather than a panic.
pub trait AskExtenders: fmt::Debug + Send + Sync {
    /// Which of the nodes fit.
    ///
    /// # Errors
    /// Says what went wrong, for people.
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String>;

    /// How good the nodes are: asks several at once, and answers in their order.
    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>>;

    /// Which of the evictions are fine.
    ///
    /// # Errors
    /// Says what went wrong, for people.
    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String>;

    /// Takes note of something about an answer.
    fn remark(&self, extender: usize, pod: &PodInfo, remark: Remark<'_>) {
        let _ = (extender, pod, remark);
    }
}

/// An extender that counts has failed; prints as kube-scheduler does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ExtenderError(pub String);

/// All extenders, in the order in which they are asked, and the means to do so.
#[derive(Clone, Debug, Default)]
pub struct Extenders {
    all: Arc<[Extender]>,
    host: Option<Arc<dyn AskExtenders>>,
}

/// What extenders made of nodes.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Those that pass, in the order in which they were asked about.
    pub(crate) rows: Vec<NodeIdx>,
    /// Those that do not, and why.
    pub(crate) rejected: Vec<(NodeIdx, Reject)>,
    /// Whether somebody gave nodes back as objects. kube-scheduler scores what came back, and no pod is on that.
    pub(crate) as_objects: bool,
}

impl Extenders {
    /// These, asked in this order but for those that may be ignored, which come last. Nobody can be asked until a host is
    /// [lent](Self::lent).
    pub fn new(all: impl IntoIterator<Item = Extender>) -> Self {
        let mut all: Vec<Extender> = all.into_iter().collect();
        all.sort_by_key(|extender| extender.ignorable);
        Self { all: all.into(), host: None }
    }

    /// The same, asked through `host`.
    #[must_use]
    pub fn lent(&self, host: Arc<dyn AskExtenders>) -> Self {
        Self { all: self.all.clone(), host: Some(host) }
    }

    /// In the order in which they are asked.
    pub fn all(&self) -> &[Extender] {
        &self.all
    }

    /// Through whom they are asked.
    pub fn host(&self) -> Option<&Arc<dyn AskExtenders>> {
        self.host.as_ref()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether some extender filters or scores, whichever pods.
    pub(crate) fn choose_nodes(&self) -> bool {
        self.all.iter().any(|extender| extender.filters || extender.prioritizes)
    }

    /// Whether some extender filters or scores nodes for that pod.
    pub(crate) fn choose_for(&self, pod: &PodInfo) -> bool {
        self.interested(pod).any(|(_, extender)| extender.filters || extender.prioritizes)
    }

    fn interested<'a>(&'a self, pod: &'a PodInfo) -> impl Iterator<Item = (usize, &'a Extender)> + 'a {
        self.all.iter().enumerate().filter(|(_, extender)| extender.is_interested(pod))
    }

    fn remark(&self, extender: usize, pod: &PodInfo, remark: Remark<'_>) {
        if let Some(host) = &self.host {
            host.remark(extender, pod, remark);
        }
    }

    fn ask<T>(
        &self,
        extender: &Extender,
        ask: impl FnOnce(&dyn AskExtenders) -> Result<T, String>,
    ) -> Result<T, String> {
        match &self.host {
            Some(host) => ask(&**host),
            None => Err(format!("extender {:?} cannot be asked from here", extender.name.as_str())),
        }
    }

    /// Which of the rows pass all extenders that filter, asked one after the other about those that the ones before let pass.
    pub(crate) fn filter(
        &self,
        pod: &PodInfo,
        nodes: &NodeTable,
        rows: Vec<NodeIdx>,
    ) -> Result<Passed, ExtenderError> {
        let mut passed = Passed { rows, ..Passed::default() };
        for (at, extender) in self.interested(pod).filter(|(_, extender)| extender.filters) {
            if passed.rows.is_empty() {
                break;
            }
            let names: Vec<Str> = passed.rows.iter().map(|row| nodes.node(*row).name().clone()).collect();
            let said = self.ask(extender, |host| host.filter(at, pod, &names));
            let said = said.and_then(|said| {
                only_asked(extender, &names, &said)?;
                Ok(said)
            });
            match said {
                Ok(said) => {
                    passed.as_objects |= extender.sees_objects;
                    self.take_filtered(at, pod, nodes, &mut passed, &said);
                }
                Err(why) => self.failed(at, pod, why)?,
            }
        }
        Ok(passed)
    }

    fn take_filtered(
        &self,
        at: usize,
        pod: &PodInfo,
        nodes: &NodeTable,
        passed: &mut Passed,
        said: &Filtered,
    ) {
        let kept: FxHashSet<&str> = said.nodes.iter().map(Str::as_str).collect();
        let words = |said: &'_ [(Str, String)], fix: Fix| -> Vec<(Str, Reject)> {
            let reject = |why: &String| Reject { fix, reasons: vec![why.clone().into()] };
            said.iter().map(|(node, why)| (node.clone(), reject(why))).collect()
        };
        let mut why: FxHashMap<Str, Reject> = words(&said.failed, Fix::EvictionMayHelp).into_iter().collect();
        why.extend(words(&said.unresolvable, Fix::NothingHelps));
        let (rows, out): (Vec<_>, Vec<_>) =
            passed.rows.drain(..).partition(|row| kept.contains(nodes.node(*row).name().as_str()));
        for row in &rows {
            why.remove(nodes.node(*row).name());
        }
        for row in out {
            // A node of which nothing is said is out without a reason, and nothing helps.
            let silent = || Reject { fix: Fix::NothingHelps, reasons: Vec::new() };
            passed.rejected.push((row, why.remove(nodes.node(row).name()).unwrap_or_else(silent)));
        }
        passed.rows = rows;
        if let Some(node) = why.keys().min() {
            self.remark(at, pod, Remark::Strange(node));
        }
    }

    /// An error of an extender that may be ignored is none.
    fn failed(&self, at: usize, pod: &PodInfo, why: String) -> Result<(), ExtenderError> {
        if !self.all[at].ignorable {
            return Err(ExtenderError(why));
        }
        self.remark(at, pod, Remark::Skipped(&why));
        Ok(())
    }

    /// Adds what extenders think of the rows to what plugins do.
    pub(crate) fn add_scores(&self, pod: &PodInfo, nodes: &NodeTable, rows: &[NodeIdx], totals: &mut [i64]) {
        let Some(host) = &self.host else { return };
        let asked: Vec<usize> =
            self.interested(pod).filter(|(_, extender)| extender.prioritizes).map(|(at, _)| at).collect();
        if asked.is_empty() {
            return;
        }
        let names: Vec<Str> = rows.iter().map(|row| nodes.node(*row).name().clone()).collect();
        let places: FxHashMap<&str, usize> =
            names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        for (at, said) in asked.iter().zip(host.prioritize(&asked, pod, &names)) {
            let factor = self.all[*at].weight.wrapping_mul(SCALE);
            match said {
                Ok(scores) => {
                    for (node, score) in &scores {
                        match places.get(node.as_str()) {
                            Some(place) => {
                                // As kube-scheduler adds: an extender that is out of all bounds may turn the order round.
                                totals[*place] = totals[*place].wrapping_add(score.wrapping_mul(factor));
                            }
                            None => self.remark(*at, pod, Remark::Strange(node)),
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

    /// Whether some extender has a say in evictions for that pod.
    pub fn preempt_for(&self, pod: &PodInfo) -> bool {
        self.interested(pod).any(|(_, extender)| extender.preempts)
    }

    /// Which evictions are fine with all extenders that have a say in them, asked one after the other.
    ///
    /// # Errors
    /// When one fails that may not be ignored.
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
            let asked: Vec<NodeVictims> = plans.iter().map(|plan| plan.by_name(nodes)).collect();
            let said = self.ask(extender, |host| host.preempt(at, pod, &asked));
            let said = said.and_then(|said| self.agreed(at, pod, nodes, &plans, &said));
            match said {
                Ok(agreed) => plans = agreed,
                Err(why) => self.failed(at, pod, why)?,
            }
        }
        Ok(plans)
    }

    /// The plans that are left, in their order, with the victims that the extender names.
    fn agreed(
        &self,
        at: usize,
        pod: &PodInfo,
        nodes: &NodeTable,
        plans: &[EvictionPlan],
        said: &[NodeVictims],
    ) -> Result<Vec<EvictionPlan>, String> {
        let extender = &self.all[at];
        let mut by_node: FxHashMap<&str, &NodeVictims> =
            said.iter().map(|victims| (victims.node.as_str(), victims)).collect();
        let mut agreed = Vec::new();
        for plan in plans {
            let node = nodes.node(plan.row);
            let Some(said) = by_node.remove(node.name().as_str()) else { continue };
            let mut victims: Vec<Arc<PodInfo>> = Vec::new();
            for uid in &said.victims {
                let victim = node.pods().iter().find(|victim| victim.uid == *uid);
                let victim = victim.ok_or_else(|| {
                    format!(
                        "extender: {} claims to preempt pod (UID: &{{{uid}}}) on node: {}, but the pod is not found on that \
                         node",
                        extender.name,
                        node.name()
                    )
                })?;
                if victim.priority() >= pod.priority() {
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
            let violations = usize::try_from(said.violations).unwrap_or(0);
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

/// An extender may take nodes away, and add none.
fn only_asked(extender: &Extender, asked: &[Str], said: &Filtered) -> Result<(), String> {
    let asked: FxHashSet<&str> = asked.iter().map(Str::as_str).collect();
    match said.nodes.iter().find(|node| !asked.contains(node.as_str())) {
        Some(node) => Err(format!(
            "extender {:?} claims a filtered node {:?} which is not found in the input node list",
            extender.name.as_str(),
            node.as_str()
        )),
        None => Ok(()),
    }
}
