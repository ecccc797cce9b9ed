//! Taints and tolerations.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::Str;

/// Effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaintEffect {
    /// Rejects new pods.
    NoSchedule,
    /// Discourages new pods: affects only scores.
    PreferNoSchedule,
    /// Rejects new pods and evicts running ones.
    NoExecute,
}

/// A `node.spec.taints` entry. Entries with an unknown effect are dropped on decoding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// Key, with the syntax of a label key.
    pub key: Str,
    /// Value; may be empty.
    pub value: Str,
    /// Effect.
    pub effect: TaintEffect,
}

/// Comparison of a taint's value with a toleration's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// The values are equal. An absent operator means the same.
    Equal,
    /// The taint may have any value.
    Exists,
    /// The taint's value is a smaller number. Requires the alpha feature gate `TaintTolerationComparisonOperators`.
    Lt,
    /// The taint's value is a larger number. Requires the alpha feature gate `TaintTolerationComparisonOperators`.
    Gt,
    /// Anything else: tolerates nothing.
    Unknown,
}

/// A `pod.spec.tolerations` entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Toleration {
    /// Key; empty means any key.
    pub key: Str,
    /// Comparison of values.
    pub operator: TolerationOperator,
    /// Operand of `Equal`, `Lt` and `Gt`.
    pub value: Str,
    /// Effect; `None` means any effect.
    pub effect: Option<TaintEffect>,
}

/// Key of the taint that represents `spec.unschedulable`.
pub const TAINT_NODE_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The taint that scheduling assumes on a cordoned node in addition to its real taints.
pub static UNSCHEDULABLE: LazyLock<Taint> = LazyLock::new(|| Taint {
    key: TAINT_NODE_UNSCHEDULABLE.into(),
    value: Str::default(),
    effect: TaintEffect::NoSchedule,
});

impl TaintEffect {
    /// Returns the effect with the given name in the API.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }

    /// Name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    /// Returns true if the effect rejects new pods rather than lowering scores.
    pub fn forbids(self) -> bool {
        self != Self::PreferNoSchedule
    }
}

impl TolerationOperator {
    /// Returns the operator with the given name in the API; an empty name means `Equal`.
    pub fn parse(name: &str) -> Self {
        match name {
            "" | "Equal" => Self::Equal,
            "Exists" => Self::Exists,
            "Lt" => Self::Lt,
            "Gt" => Self::Gt,
            _ => Self::Unknown,
        }
    }
}

impl Toleration {
    /// Returns true if the toleration tolerates the taint.
    ///
    /// `compare_numbers` is the `TaintTolerationComparisonOperators` feature gate. If it is off, `Lt` and `Gt` tolerate
    /// nothing. If it is on, `Lt` means that the taint's value is less than the toleration's value.
    pub fn tolerates(&self, taint: &Taint, compare_numbers: bool) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        let numbers = || {
            let both = canonical_integer(&taint.value).zip(canonical_integer(&self.value));
            both.filter(|_| compare_numbers)
        };
        match self.operator {
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Lt => numbers().is_some_and(|(taint, mine)| taint < mine),
            TolerationOperator::Gt => numbers().is_some_and(|(taint, mine)| taint > mine),
            TolerationOperator::Unknown => false,
        }
    }
}

/// Returns the first of the `taints` that `filter` selects and that no toleration tolerates. See
/// [`Toleration::tolerates`] for `compare_numbers`.
pub fn find_untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    compare_numbers: bool,
    filter: impl Fn(&Taint) -> bool,
) -> Option<&'a Taint> {
    let is_tolerated = |taint: &Taint| tolerations.iter().any(|t| t.tolerates(taint, compare_numbers));
    taints.iter().find(|taint| filter(taint) && !is_tolerated(taint))
}

/// Parses a 64-bit integer. Rejects a plus sign, leading zeros and negative zero.
fn canonical_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = digits.starts_with(|c: char| ('1'..='9').contains(&c)) || text == "0";
    if is_canonical { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TolerationOperator::{Equal, Exists, Gt, Lt, Unknown};

    fn toleration(
        key: &str,
        operator: TolerationOperator,
        value: &str,
        effect: Option<TaintEffect>,
    ) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect }
    }

    #[test]
    fn tolerations_match_by_effect_and_key_and_operator() {
        let taint = Taint { key: "k".into(), value: "5".into(), effect: TaintEffect::NoSchedule };
        for (toleration, expected) in [
            (toleration("k", Equal, "5", None), true),
            (toleration("k", Equal, "6", None), false),
            (toleration("k", Exists, "ignored", Some(TaintEffect::NoSchedule)), true),
            (toleration("k", Exists, "", Some(TaintEffect::NoExecute)), false),
            (toleration("", Exists, "", None), true),
            (toleration("", Equal, "5", None), true),
            (toleration("x", Exists, "", None), false),
            (toleration("k", Unknown, "5", None), false),
            (toleration("k", Lt, "6", None), true),
            (toleration("k", Lt, "5", None), false),
            (toleration("k", Gt, "4", None), true),
            (toleration("k", Gt, "-4", None), true),
            (toleration("k", Gt, "04", None), false),
            (toleration("k", Gt, "+4", None), false),
            (toleration("k", Gt, "-0", None), false),
            (toleration("k", Gt, "", None), false),
            (toleration("k", Lt, "9223372036854775808", None), false),
        ] {
            assert_eq!(toleration.tolerates(&taint, true), expected, "{toleration:?}");
            let numeric = matches!(toleration.operator, Lt | Gt);
            assert_eq!(toleration.tolerates(&taint, false), expected && !numeric, "{toleration:?}");
        }
    }

    #[test]
    fn the_first_selected_taint_that_is_not_tolerated_is_found() {
        let taint = |key: &str, effect| Taint { key: key.into(), value: Str::default(), effect };
        let taints = [
            taint("soft", TaintEffect::PreferNoSchedule),
            taint("a", TaintEffect::NoSchedule),
            taint("b", TaintEffect::NoExecute),
        ];
        let tolerations = [toleration("a", Exists, "", None)];
        let found = find_untolerated(&taints, &tolerations, false, |t| t.effect.forbids());
        assert_eq!(found.map(|t| t.key.as_str()), Some("b"));
        let all = [toleration("", Exists, "", None)];
        assert_eq!(find_untolerated(&taints, &all, false, |_| true), None);
    }
}
