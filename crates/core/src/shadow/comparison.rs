//! Results of comparing the decisions of two schedulers about one pod.

use std::time::Duration;

use harbormaster_api::Str;
use harbormaster_framework::attempt::ScoreSheet;

/// The decisions of two schedulers about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// `namespace/name`.
    pub pod: String,
    /// `spec.schedulerName`.
    pub scheduler: Str,
    /// The node that the other scheduler chose; `None` if it left the pod without a node.
    pub theirs: Option<Str>,
    /// Result of the comparison.
    pub finding: Finding,
    /// True if the decisions differ only because they were made at different times.
    pub has_raced: bool,
    /// Time from the pod's appearance to the other scheduler's decision, as seen through the watch. `None` if the pod
    /// existed before.
    pub waited: Option<Duration>,
    /// Duration of the shadow's decision.
    pub took: Duration,
}

impl Comparison {
    /// Returns the kind of the result.
    pub fn kind(&self) -> Kind {
        match &self.finding {
            Finding::Same => Kind::Same,
            Finding::Equal { .. } if self.has_raced => Kind::Raced,
            Finding::Equal { .. } => Kind::Equal,
            Finding::BothWait => Kind::BothWait,
            Finding::Failed { .. } => Kind::Failed,
            _ if self.has_raced => Kind::Raced,
            Finding::Elsewhere { .. } => Kind::Elsewhere,
            Finding::Rejected { .. } => Kind::Rejected,
            Finding::Waits { .. } => Kind::Waits,
            Finding::Places { .. } => Kind::Places,
        }
    }
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Both chose the same node.
    Same,
    /// Both nodes have the same score.
    Equal {
        /// The shadow's node.
        ours: Str,
    },
    /// The other scheduler's node fits but has a lower score.
    Elsewhere {
        /// The shadow's node.
        ours: Str,
        /// Plugins that score the nodes differently. The one that most favors `ours` comes first.
        gaps: Vec<Gap>,
    },
    /// The other scheduler's node does not fit.
    Rejected {
        /// The shadow's node.
        ours: Str,
        /// Plugin that rejects the other node; `None` for the framework itself.
        plugin: Option<&'static str>,
        /// Reason of the rejection.
        reason: String,
    },
    /// No node fits.
    Waits {
        /// The pod's message.
        message: String,
        /// Plugin that rejects the other scheduler's node, if it was a Filter plugin.
        plugin: Option<&'static str>,
    },
    /// A node fits, although the other scheduler found none.
    Places {
        /// The shadow's node.
        ours: Str,
    },
    /// Neither scheduler found a node.
    BothWait,
    /// The shadow could not decide.
    Failed {
        /// The failure.
        error: String,
    },
}

impl Finding {
    /// Compares nodes by their scores.
    pub(super) fn by_scores(ours: Str, mine: &ScoreSheet, other: &ScoreSheet) -> Self {
        if other.total >= mine.total {
            return Self::Equal { ours };
        }
        let score_in = |sheet: &ScoreSheet, plugin: &str| {
            sheet.plugins.iter().find(|(name, ..)| *name == plugin).map_or(0, |(.., weighted)| *weighted)
        };
        let gap = |(plugin, .., mine): &(&'static str, i64, i64, i64)| Gap {
            plugin,
            ours: *mine,
            theirs: score_in(other, plugin),
        };
        let mut gaps: Vec<Gap> = mine.plugins.iter().map(gap).filter(|gap| gap.ours != gap.theirs).collect();
        gaps.sort_by_key(|gap| gap.theirs - gap.ours);
        Self::Elsewhere { ours, gaps }
    }

    /// Returns true if the schedulers decided differently.
    pub fn is_difference(&self) -> bool {
        !matches!(self, Self::Same | Self::Equal { .. } | Self::BothWait | Self::Failed { .. })
    }
}

/// Weighted scores of a plugin for two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Name of the plugin.
    pub plugin: &'static str,
    /// Score of the shadow's node.
    pub ours: i64,
    /// Score of the other scheduler's node.
    pub theirs: i64,
}

/// Kind of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Finding::Same`].
    Same,
    /// [`Finding::Equal`].
    Equal,
    /// [`Finding::BothWait`].
    BothWait,
    /// A difference that comes only from the times of the decisions.
    Raced,
    /// [`Finding::Elsewhere`].
    Elsewhere,
    /// [`Finding::Rejected`].
    Rejected,
    /// [`Finding::Waits`].
    Waits,
    /// [`Finding::Places`].
    Places,
    /// [`Finding::Failed`].
    Failed,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Same,
        Self::Equal,
        Self::BothWait,
        Self::Raced,
        Self::Elsewhere,
        Self::Rejected,
        Self::Waits,
        Self::Places,
        Self::Failed,
    ];

    /// Name in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Equal => "equal",
            Self::BothWait => "both_waiting",
            Self::Raced => "raced",
            Self::Elsewhere => "elsewhere",
            Self::Rejected => "rejected",
            Self::Waits => "waiting",
            Self::Places => "placed",
            Self::Failed => "failed",
        }
    }
}
