//! Questions to extenders, and the answers that an attempt knows.
//!
//! An attempt either waits for each answer, or ends at the first question without one: the question stays open, and the
//! attempt is made again once the answer is there. Nodes may change in between, so each answer is kept with the version
//! of the node that the extender was asked about, and only nodes that have another version are asked about again.

use harbormaster_api::Str;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{ExtenderClient, ExtenderError, Filtered};
use crate::{nodeset::NodeIdx, outcome::Reject, pod::PodInfo, table::NodeTable};

/// Number of times that an attempt ends at the same question. After that, it waits for the answer, so that nodes that
/// change all the time cannot keep a pod from being decided.
const ROUNDS: u32 = 4;

/// A question to extenders, which are identified by their positions in [`super::Extenders::all`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Question {
    /// A request to filter nodes.
    Filter {
        /// The extender.
        extender: usize,
        /// The nodes.
        nodes: Vec<Str>,
    },
    /// A request to score nodes, for several extenders at once.
    Prioritize {
        /// The extenders.
        extenders: Vec<usize>,
        /// The nodes.
        nodes: Vec<Str>,
    },
}

/// The answer to a [`Question`]; errors are human-readable descriptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The nodes that fit.
    Filter(Result<Filtered, String>),
    /// The scores by each of the extenders, in order.
    Prioritize(Vec<Result<Vec<(Str, i64)>, String>>),
}

impl Question {
    /// Puts the question through a client and waits for the answer.
    pub fn put<C: ExtenderClient + ?Sized>(&self, client: &C, pod: &PodInfo) -> Answer {
        match self {
            Self::Filter { extender, nodes } => Answer::Filter(client.filter(*extender, pod, nodes)),
            Self::Prioritize { extenders, nodes } => {
                Answer::Prioritize(client.prioritize(extenders, pod, nodes))
            }
        }
    }

    /// Returns the answer if all extenders fail; `why` describes the failure of one of them.
    pub fn failed(&self, why: impl Fn(usize) -> String) -> Answer {
        match self {
            Self::Filter { extender, .. } => Answer::Filter(Err(why(*extender))),
            Self::Prioritize { extenders, .. } => {
                Answer::Prioritize(extenders.iter().map(|at| Err(why(*at))).collect())
            }
        }
    }
}

/// A set of extenders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExtenderSet(u64);

impl ExtenderSet {
    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if some extender is in both sets.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the extenders that are in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<usize> for ExtenderSet {
    /// Extenders after the 64th are treated as one, so a pod may wait for an extender that it does not need.
    fn from_iter<I: IntoIterator<Item = usize>>(extenders: I) -> Self {
        Self(extenders.into_iter().fold(0, |set, at| set | 1 << at.min(63)))
    }
}

/// An extender's answer about one node.
pub(super) type Verdict = Result<(), Reject>;

/// Nodes that a filter is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FilterStage {
    /// The node that is tried first.
    Preferred,
    /// All nodes that fit.
    All,
}

/// Reason why an attempt has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The question stays open.
    Open,
    /// An extender that is not ignorable has failed.
    Failed(ExtenderError),
}

/// A question and the versions of its nodes.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) question: Question,
    stage: FilterStage,
    versions: Vec<u64>,
}

impl Asked {
    pub(super) fn new(question: Question, stage: FilterStage, nodes: &NodeTable, rows: &[NodeIdx]) -> Self {
        Self { question, stage, versions: rows.iter().map(|row| nodes.node(*row).version()).collect() }
    }

    fn nodes(&self) -> impl Iterator<Item = (&Str, u64)> {
        let (Question::Filter { nodes, .. } | Question::Prioritize { nodes, .. }) = &self.question;
        nodes.iter().zip(self.versions.iter().copied())
    }
}

/// Answers of one extender to questions of one kind.
#[derive(Debug)]
pub(super) struct Known<T> {
    /// Number of answers.
    answers: u32,
    /// Error of the last answer. It concerns all nodes.
    failed: Option<String>,
    /// Answer about each node, with the node's version.
    by_node: FxHashMap<Str, (u64, T)>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { answers: 0, failed: None, by_node: FxHashMap::default() }
    }
}

impl<T> Known<T> {
    pub(super) fn of(&self, node: &Str) -> Option<&T> {
        self.by_node.get(node).map(|(_, answer)| answer)
    }

    fn is_current(&self, nodes: &NodeTable, row: NodeIdx) -> bool {
        let node = nodes.node(row);
        self.by_node.get(node.name()).is_some_and(|(version, _)| *version == node.version())
    }

    fn add(&mut self, asked: &Asked, answer: Result<Vec<T>, String>) {
        self.answers += 1;
        match answer {
            Ok(answers) => {
                let about = asked.nodes().zip(answers);
                self.by_node.extend(about.map(|((node, version), answer)| (node.clone(), (version, answer))));
            }
            Err(why) => self.failed = Some(why),
        }
    }

    /// Forgets everything but the number of answers.
    fn forget(&mut self) {
        self.failed = None;
        self.by_node.clear();
    }
}

/// The answers that an attempt for one version of a pod knows.
#[derive(Debug)]
pub struct Answers {
    /// True if the attempt waits for each answer. It then asks about all nodes each time, as kube-scheduler does.
    waits: bool,
    filters: FxHashMap<(FilterStage, usize), Known<Verdict>>,
    scores: FxHashMap<usize, Known<i64>>,
    /// The question at which the attempt has ended.
    pub(super) open: Option<Asked>,
}

impl Answers {
    /// Returns answers for an attempt that waits.
    pub fn waiting() -> Self {
        Self { waits: true, filters: FxHashMap::default(), scores: FxHashMap::default(), open: None }
    }

    /// Returns answers for an attempt that ends at the first open question.
    pub fn in_rounds() -> Self {
        Self { waits: false, ..Self::waiting() }
    }

    /// Returns true if attempts wait for answers.
    pub(crate) fn wait(&self) -> bool {
        self.waits
    }

    /// The question at which the last attempt has ended.
    pub fn open(&self) -> Option<&Question> {
        self.open.as_ref().map(|asked| &asked.question)
    }

    /// Forgets all answers, because the pod has changed.
    pub fn forget(&mut self) {
        self.filters.values_mut().for_each(Known::forget);
        self.scores.values_mut().for_each(Known::forget);
    }

    /// Returns the rows about which the extender must be asked.
    pub(super) fn lacking_filter(
        &mut self,
        stage: FilterStage,
        extender: usize,
        nodes: &NodeTable,
        rows: &[NodeIdx],
    ) -> Vec<NodeIdx> {
        let known = self.filters.entry((stage, extender)).or_default();
        if self.waits {
            known.forget();
        }
        if known.failed.is_some() {
            return Vec::new();
        }
        rows.iter().copied().filter(|row| !known.is_current(nodes, *row)).collect()
    }

    /// Returns the extenders that have not failed, and the rows about which they must be asked.
    pub(super) fn lacking_scores(
        &mut self,
        extenders: &[usize],
        nodes: &NodeTable,
        rows: &[NodeIdx],
    ) -> (Vec<usize>, Vec<NodeIdx>) {
        if self.waits {
            self.scores.clear();
        }
        for at in extenders {
            self.scores.entry(*at).or_default();
        }
        let is_sound = |at: &usize| self.scores[at].failed.is_none();
        let sound: Vec<usize> = extenders.iter().copied().filter(is_sound).collect();
        let lacks = |row: &NodeIdx| sound.iter().any(|at| !self.scores[at].is_current(nodes, *row));
        let lacking = rows.iter().copied().filter(lacks).collect();
        (sound, lacking)
    }

    /// Returns true if the attempt ends at this question.
    pub(super) fn leaves_open(&self, asked: &Asked) -> bool {
        let answers = match &asked.question {
            Question::Filter { extender, .. } => {
                self.filters.get(&(asked.stage, *extender)).map(|known| known.answers)
            }
            Question::Prioritize { extenders, .. } => {
                extenders.iter().filter_map(|at| self.scores.get(at)).map(|known| known.answers).max()
            }
        };
        !self.waits && answers.unwrap_or(0) < ROUNDS
    }

    pub(super) fn add_filtered(
        &mut self,
        asked: &Asked,
        extender: usize,
        answer: Result<Vec<Verdict>, String>,
    ) {
        self.filters.entry((asked.stage, extender)).or_default().add(asked, answer);
    }

    pub(super) fn add_scores(&mut self, asked: &Asked, extender: usize, answer: Result<Vec<i64>, String>) {
        self.scores.entry(extender).or_default().add(asked, answer);
    }

    /// Returns the verdicts of an extender, or its error.
    pub(super) fn filtered(&self, stage: FilterStage, extender: usize) -> Result<&Known<Verdict>, String> {
        match self.filters.get(&(stage, extender)) {
            Some(Known { failed: Some(why), .. }) => Err(why.clone()),
            Some(known) => Ok(known),
            None => Err("no answer".to_owned()),
        }
    }

    /// Returns the scores of an extender; `None` if it has failed.
    pub(super) fn scores(&self, extender: usize) -> Option<&Known<i64>> {
        self.scores.get(&extender).filter(|known| known.failed.is_none())
    }
}
