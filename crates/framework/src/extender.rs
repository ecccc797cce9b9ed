//! Extenders: webhooks that take part in scheduling decisions (`extenders` in the configuration).
//!
//! An [`Extender`] is the engine's description of one webhook. Requests go through the host's [`ExtenderClient`]; this
//! module does no I/O. [`Extenders`] contains the rules: the order in which extenders are called, the answers that are
//! allowed, and the handling of errors. [`Answers`] are what an attempt knows already.
//!
//! Invariants: an answer adds no nodes to those in the request, and its victims are less important than the pod; an
//! ignorable extender never makes an attempt fail.

mod answers;
mod preempt;

use std::{fmt, sync::Arc};

use harbormaster_api::{Str, pod::Container};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    nodeset::NodeIdx, outcome::Fix, outcome::Reject, pod::PodInfo, sweep::PluginIdx, table::NodeTable,
};
pub use answers::{Answer, Answers, ExtenderSet, Question};
use answers::{Asked, Known, Verdict};
pub(crate) use answers::{FilterStage, Unanswered};

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

/// Receiver of the answer to a [`Question`].
pub type OnAnswer = Box<dyn FnOnce(Answer) + Send>;

/// Sends requests to extenders, which are identified by their positions in [`Extenders::all`]. An attempt may wait for
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

    /// Sends a question and passes the answer to `done`. Implementations may return before the answer arrives; this one
    /// waits.
    fn begin(&self, pod: &Arc<PodInfo>, question: Question, done: OnAnswer) {
        done(question.put(self, pod));
    }

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

impl FilteredRows {
    /// Moves the rows that an extender rejects.
    fn apply(&mut self, nodes: &NodeTable, verdicts: &Known<Verdict>) {
        for row in std::mem::take(&mut self.rows) {
            match verdicts.of(nodes.node(row).name()) {
                Some(Err(reject)) => self.rejected.push((row, reject.clone())),
                _ => self.rows.push(row),
            }
        }
    }
}

/// Names of rows.
fn names(nodes: &NodeTable, rows: &[NodeIdx]) -> Vec<Str> {
    rows.iter().map(|row| nodes.node(*row).name().clone()).collect()
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

    /// Returns the rows that all filtering extenders accept. Each extender receives only the rows that the extenders
    /// before it accepted. `stage` is that of the answers.
    pub(crate) fn filter(
        &self,
        pod: &PodInfo,
        nodes: &NodeTable,
        rows: Vec<NodeIdx>,
        stage: FilterStage,
        answers: &mut Answers,
    ) -> Result<FilteredRows, Unanswered> {
        let mut filtered = FilteredRows { rows, ..FilteredRows::default() };
        for (at, extender) in self.interested(pod).filter(|(_, extender)| extender.filters) {
            if filtered.rows.is_empty() {
                break;
            }
            let lacking = answers.lacking_filter(stage, at, nodes, &filtered.rows);
            if !lacking.is_empty() {
                let question = Question::Filter { extender: at, nodes: names(nodes, &lacking) };
                self.ask(Asked::new(question, stage, nodes, &lacking), pod, answers)?;
            }
            match answers.filtered(stage, at) {
                Err(_) if extender.ignorable => {}
                Err(why) => return Err(Unanswered::Failed(ExtenderError(why))),
                Ok(verdicts) => {
                    filtered.as_objects |= extender.sees_objects;
                    filtered.apply(nodes, verdicts);
                }
            }
        }
        Ok(filtered)
    }

    /// Adds the scores of extenders to those of plugins.
    pub(crate) fn add_scores(
        &self,
        pod: &PodInfo,
        nodes: &NodeTable,
        rows: &[NodeIdx],
        totals: &mut [i64],
        answers: &mut Answers,
    ) -> Result<(), Unanswered> {
        let scorers: Vec<usize> =
            self.interested(pod).filter(|(_, extender)| extender.prioritizes).map(|(at, _)| at).collect();
        if self.client.is_none() || scorers.is_empty() {
            return Ok(());
        }
        let (asked, lacking) = answers.lacking_scores(&scorers, nodes, rows);
        if !lacking.is_empty() {
            let question = Question::Prioritize { extenders: asked, nodes: names(nodes, &lacking) };
            self.ask(Asked::new(question, FilterStage::All, nodes, &lacking), pod, answers)?;
        }
        for scores in scorers.iter().filter_map(|at| answers.scores(*at)) {
            for (total, row) in totals.iter_mut().zip(rows) {
                // Wraps on overflow, as in kube-scheduler: extreme scores may reverse the order.
                let points = scores.of(nodes.node(*row).name()).copied().unwrap_or(0);
                *total = total.wrapping_add(points);
            }
        }
        Ok(())
    }

    /// Asks now and waits for the answer, or leaves the question open.
    fn ask(&self, asked: Asked, pod: &PodInfo, answers: &mut Answers) -> Result<(), Unanswered> {
        if answers.leaves_open(&asked) {
            answers.open = Some(asked);
            return Err(Unanswered::Open);
        }
        let answer = match &self.client {
            Some(client) => asked.question.put(&**client, pod),
            None => asked.question.failed(|at| self.without_client(at)),
        };
        self.take(asked, pod, answer, answers);
        Ok(())
    }

    /// Adds the answer to the open question, and reports what is unusual about it. Without an open question, the answer
    /// is dropped.
    pub fn answered(&self, pod: &PodInfo, answer: Answer, answers: &mut Answers) {
        if let Some(asked) = answers.open.take() {
            self.take(asked, pod, answer, answers);
        }
    }

    fn take(&self, asked: Asked, pod: &PodInfo, answer: Answer, answers: &mut Answers) {
        match (&asked.question, answer) {
            (Question::Filter { extender: at, nodes }, Answer::Filter(answer)) => {
                let verdicts = answer.and_then(|answer| self.verdicts(*at, pod, nodes, answer));
                if let Err(why) = &verdicts
                    && self.all[*at].ignorable
                {
                    self.remark(*at, pod, Remark::Skipped(why));
                }
                answers.add_filtered(&asked, *at, verdicts);
            }
            (Question::Prioritize { extenders, nodes }, Answer::Prioritize(all)) => {
                let missing = || Err("no answer".to_owned());
                let all = all.into_iter().chain(std::iter::repeat_with(missing));
                for (at, answer) in extenders.iter().zip(all) {
                    let scores = answer.map(|answer| self.points(*at, pod, nodes, &answer));
                    if let Err(why) = &scores {
                        self.remark(*at, pod, Remark::NoScores(why));
                    }
                    answers.add_scores(&asked, *at, scores);
                }
            }
            // The answer to another question.
            (question, _) => {
                let failed = question.failed(|at| format!("extender {at} sent another answer"));
                self.take(asked.clone(), pod, failed, answers);
            }
        }
    }

    /// Returns the verdict of an extender about each of the nodes that it was asked about.
    fn verdicts(
        &self,
        at: usize,
        pod: &PodInfo,
        asked: &[Str],
        answer: Filtered,
    ) -> Result<Vec<Verdict>, String> {
        check_nodes(&self.all[at], asked, &answer)?;
        let accepted: FxHashSet<&str> = answer.nodes.iter().map(Str::as_str).collect();
        let reject = |why: String, fix| Reject { fix, reasons: vec![why.into()] };
        let failed = answer.failed.into_iter().map(|(node, why)| (node, reject(why, Fix::EvictionMayHelp)));
        let mut reasons: FxHashMap<Str, Reject> = failed.collect();
        reasons.extend(
            answer.unresolvable.into_iter().map(|(node, why)| (node, reject(why, Fix::NothingHelps))),
        );
        let verdict = |node: &Str| {
            let reason = reasons.remove(node);
            if accepted.contains(node.as_str()) {
                return Ok(());
            }
            // A node that the answer does not mention is rejected without a reason, and eviction cannot help.
            Err(reason.unwrap_or_else(|| Reject { fix: Fix::NothingHelps, reasons: Vec::new() }))
        };
        let verdicts = asked.iter().map(verdict).collect();
        if let Some(node) = reasons.keys().min() {
            self.remark(at, pod, Remark::UnknownNode(node));
        }
        Ok(verdicts)
    }

    /// Returns what an extender's scores add to the total of each of the nodes that it was asked about.
    fn points(&self, at: usize, pod: &PodInfo, asked: &[Str], answer: &[(Str, i64)]) -> Vec<i64> {
        let positions: FxHashMap<&str, usize> =
            asked.iter().enumerate().map(|(position, name)| (name.as_str(), position)).collect();
        let factor = self.all[at].weight.wrapping_mul(SCALE);
        let mut points = vec![0i64; asked.len()];
        for (node, score) in answer {
            match positions.get(node.as_str()) {
                Some(position) => {
                    points[*position] = points[*position].wrapping_add(score.wrapping_mul(factor));
                }
                None => self.remark(at, pod, Remark::UnknownNode(node)),
            }
        }
        if let Some((_, score)) = answer.iter().find(|(_, score)| !(0..=MAX_SCORE).contains(score)) {
            self.remark(at, pod, Remark::OutOfRange(*score));
        }
        points
    }

    /// Returns the extenders that are asked about `pod`, for whatever purpose.
    pub fn asked_about(&self, pod: &PodInfo) -> ExtenderSet {
        let takes_part = |extender: &Extender| extender.filters || extender.prioritizes || extender.preempts;
        self.interested(pod).filter(|(_, extender)| takes_part(extender)).map(|(at, _)| at).collect()
    }

    fn without_client(&self, at: usize) -> String {
        format!("no client for extender {:?}", self.all[at].name.as_str())
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
