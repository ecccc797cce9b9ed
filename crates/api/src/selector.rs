//! Label selectors and node selectors.
//!
//! The types up to [`NodeAffinity`] mirror manifests. [`ParsedNodeSelector`], [`ParsedPreferred`] and
//! [`RequiredNodeAffinity`] are node selectors that have been checked for syntax errors and prepared for matching many
//! nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Labels, Str,
    labels::{is_label_value, is_qualified_name, label_value_errors, qualified_name_errors},
};

/// `metav1.LabelSelector`: all parts must match. An absent selector (`Option::None`) matches nothing; an empty selector
/// matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelSelector {
    /// `matchLabels`.
    pub match_labels: Labels,
    /// `matchExpressions`.
    pub match_expressions: Vec<Requirement>,
}

/// One expression over a label key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// The label key (or, in `matchFields`, the field path).
    pub key: Str,
    /// The comparison.
    pub operator: Operator,
    /// Operands.
    pub values: Vec<Str>,
}

/// Operators of label and node selectors.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// Node selectors only: the label, read as an integer, is greater than the value.
    Gt,
    /// Node selectors only: the label, read as an integer, is less than the value.
    Lt,
    /// Any other name, which is a syntax error.
    Unknown(Str),
}

/// `v1.NodeSelector`: terms are ORed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSelector {
    /// `nodeSelectorTerms`.
    pub terms: Vec<NodeSelectorTerm>,
}

/// `v1.NodeSelectorTerm`: expressions and fields are ANDed; a term with neither matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSelectorTerm {
    /// `matchExpressions`, over node labels.
    pub match_expressions: Vec<Requirement>,
    /// `matchFields`, over `metadata.name` only.
    pub match_fields: Vec<Requirement>,
}

/// `v1.PreferredSchedulingTerm`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PreferredTerm {
    /// Weight, 1..=100 if valid.
    pub weight: i32,
    /// The preferred nodes.
    pub preference: NodeSelectorTerm,
}

/// `v1.NodeAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`.
    pub required: Option<NodeSelector>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`; `None` and empty differ (see NodeAffinity's PreScore).
    pub preferred: Option<Vec<PreferredTerm>>,
}

/// The only field that node selectors can match.
const FIELD_NAME: &str = "metadata.name";

/// The API server's messages for the errors in a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(pub Vec<String>);

impl fmt::Display for SelectorError {
    /// Writes a single message unchanged, and several messages as a list in brackets. Repeated messages are omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen: Vec<&str> = Vec::with_capacity(self.0.len());
        for finding in &self.0 {
            if !seen.contains(&finding.as_str()) {
                seen.push(finding);
            }
        }
        match seen.as_slice() {
            [only] => f.write_str(only),
            all => write!(f, "[{}]", all.join(", ")),
        }
    }
}

impl std::error::Error for SelectorError {}

impl Operator {
    /// Returns the operator with the given name in the API.
    pub fn parse(name: &str) -> Self {
        match name {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            other => Self::Unknown(other.into()),
        }
    }

    /// Name in the API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Unknown(name) => name,
        }
    }
}

impl Requirement {
    /// Returns true if the labels satisfy the expression.
    ///
    /// Does not check the syntax. The caller must skip expressions for which [`Requirement::errors`] returns errors.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|v| self.values.contains(v)),
            Operator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt | Operator::Lt => match (value.and_then(integer), self.values.as_slice()) {
                (Some(number), [bound]) => integer(bound).is_some_and(|bound| match self.operator {
                    Operator::Gt => number > bound,
                    _ => number < bound,
                }),
                _ => false,
            },
            Operator::Unknown(_) => false,
        }
    }

    /// Returns the errors in an expression over labels. `path` is the path of the expression and may be empty.
    pub fn errors(&self, path: &str) -> Vec<String> {
        if self.is_well_formed() {
            return Vec::new();
        }
        let at = |field: &str| if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
        let mut errors = Vec::new();
        let key_errors = qualified_name_errors(&self.key);
        if !key_errors.is_empty() {
            errors.push(invalid(&at("key"), &quoted(&self.key), &key_errors.join("; ")));
        }
        let values = at("values");
        if let Some(problem) = self.wrong_count() {
            errors.push(invalid(&values, &listed(&self.values), problem));
        }
        if matches!(self.operator, Operator::Gt | Operator::Lt) {
            for (i, value) in self.values.iter().enumerate().filter(|(_, v)| integer(v).is_none()) {
                let problem = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(invalid(&format!("{values}[{i}]"), &quoted(value), problem));
            }
        }
        if let Operator::Unknown(name) = &self.operator {
            let known = r#""In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt""#;
            let name = quoted(name);
            return vec![format!("{}: Unsupported value: {name}: supported values: {known}", at("operator"))];
        }
        for (i, value) in self.values.iter().enumerate() {
            let problems = label_value_errors(value);
            if !problems.is_empty() {
                let path = format!("{values}[{i}][{}]", self.key);
                errors.push(invalid(&path, &quoted(value), &problems.join("; ")));
            }
        }
        errors
    }

    fn is_well_formed(&self) -> bool {
        let numeric = matches!(self.operator, Operator::Gt | Operator::Lt);
        !matches!(self.operator, Operator::Unknown(_))
            && self.wrong_count().is_none()
            && is_qualified_name(&self.key)
            && self.values.iter().all(|v| is_label_value(v) && (!numeric || integer(v).is_some()))
    }

    fn wrong_count(&self) -> Option<&'static str> {
        let count = self.values.len();
        match self.operator {
            Operator::In | Operator::NotIn if count == 0 => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Exists | Operator::DoesNotExist if count > 0 => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::Gt | Operator::Lt if count != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        }
    }
}

impl LabelSelector {
    /// Returns true if the labels satisfy the selector; an empty selector matches everything.
    ///
    /// Does not check the syntax. Callers must call [`LabelSelector::check`] first.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.subset_of(labels) && self.match_expressions.iter().all(|r| r.matches(labels))
    }

    /// Returns true if the selector is empty and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Finds syntax errors.
    ///
    /// # Errors
    /// The errors of the first entry that the API server would reject.
    pub fn check(&self) -> Result<(), SelectorError> {
        for (key, value) in self.match_labels.iter() {
            let pair = Requirement { key: key.clone(), operator: Operator::In, values: vec![value.clone()] };
            fail_if_any(pair.errors(""))?;
        }
        for expression in &self.match_expressions {
            if matches!(expression.operator, Operator::Gt | Operator::Lt | Operator::Unknown(_)) {
                let text =
                    format!("\"{}\" is not a valid label selector operator", expression.operator.as_str());
                return Err(SelectorError(vec![text]));
            }
            fail_if_any(expression.errors(""))?;
        }
        Ok(())
    }
}

fn fail_if_any(errors: Vec<String>) -> Result<(), SelectorError> {
    if errors.is_empty() { Ok(()) } else { Err(SelectorError(errors)) }
}

/// Parses a base-10 64-bit integer with an optional sign.
fn integer(text: &Str) -> Option<i64> {
    text.parse().ok()
}

fn invalid(path: &str, value: &str, problem: &str) -> String {
    format!("{path}: Invalid value: {value}: {problem}")
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn listed(values: &[Str]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    let quoted: Vec<String> = values.iter().map(|v| quoted(v)).collect();
    format!("[{}]", quoted.join(","))
}

/// One node selector term, prepared for matching.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParsedTerm {
    expressions: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

/// An entry of `matchFields`: the field must, or must not, have one given value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    key: Str,
    equal: bool,
    value: Str,
}

impl FieldRequirement {
    /// Fields other than the name are treated as empty.
    fn matches(&self, node_name: &str) -> bool {
        let field = if self.key == FIELD_NAME { node_name } else { "" };
        (self.value == *field) == self.equal
    }
}

impl ParsedTerm {
    fn new(term: &NodeSelectorTerm, path: &str) -> Result<Self, Vec<String>> {
        let at = |list: &str, i: usize| {
            if path.is_empty() { format!("{list}[{i}]") } else { format!("{path}.{list}[{i}]") }
        };
        let mut errors = Vec::new();
        for (i, expression) in term.match_expressions.iter().enumerate() {
            errors.extend(expression.errors(&at("matchExpressions", i)));
        }
        let mut fields = Vec::with_capacity(term.match_fields.len());
        for (i, field) in term.match_fields.iter().enumerate() {
            match parse_field(field, &at("matchFields", i)) {
                Ok(field) => fields.push(field),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() {
            Ok(Self { expressions: term.match_expressions.clone(), fields })
        } else {
            Err(errors)
        }
    }

    fn matches(&self, labels: &Labels, node_name: &str) -> bool {
        self.expressions.iter().all(|e| e.matches(labels))
            && (node_name.is_empty() || self.fields.iter().all(|f| f.matches(node_name)))
    }
}

fn parse_field(field: &Requirement, path: &str) -> Result<FieldRequirement, String> {
    let equal = match &field.operator {
        Operator::In => true,
        Operator::NotIn => false,
        other => {
            let name = other.as_str();
            let known = r#""In", "NotIn""#;
            return Err(format!("{path}.operator: Unsupported value: \"{name}\": supported values: {known}"));
        }
    };
    match field.values.as_slice() {
        [value] => Ok(FieldRequirement { key: field.key.clone(), equal, value: value.clone() }),
        values => Err(invalid(&format!("{path}.values"), &listed(values), "must have one element")),
    }
}

impl NodeSelectorTerm {
    /// Returns true if the term is empty and so matches nothing.
    pub fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }
}

/// A node selector, prepared for matching.
///
/// Terms with syntax errors are skipped. If none of the other terms match a node, the node does not match and the
/// errors are reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedNodeSelector {
    terms: Vec<ParsedTerm>,
    errors: Vec<String>,
}

impl ParsedNodeSelector {
    /// Parses all terms. Terms with neither expressions nor fields are dropped because they match nothing.
    pub fn new(selector: &NodeSelector) -> Self {
        Self::at(selector, "")
    }

    /// Like [`ParsedNodeSelector::new`], for a selector at `path` (used in errors).
    pub fn at(selector: &NodeSelector, path: &str) -> Self {
        let mut parsed = Self::default();
        let dot = if path.is_empty() { "" } else { "." };
        for (i, term) in selector.terms.iter().enumerate().filter(|(_, term)| !term.is_empty()) {
            match ParsedTerm::new(term, &format!("{path}{dot}nodeSelectorTerms[{i}]")) {
                Ok(term) => parsed.terms.push(term),
                Err(errors) => parsed.errors.extend(errors),
            }
        }
        parsed
    }

    /// Returns true if some term matches the node.
    pub fn matches(&self, node_labels: &Labels, node_name: &str) -> bool {
        self.terms.iter().any(|term| term.matches(node_labels, node_name))
    }

    /// Returns the label key and the values if the only valid term consists of a single `In` expression.
    pub fn one_label(&self) -> Option<(&Str, &[Str])> {
        let [ParsedTerm { expressions, fields }] = self.terms.as_slice() else { return None };
        match expressions.as_slice() {
            [Requirement { key, operator: Operator::In, values }] if fields.is_empty() => Some((key, values)),
            _ => None,
        }
    }

    /// Syntax errors in the skipped terms; `None` if no term was skipped.
    pub fn error(&self) -> Option<SelectorError> {
        if self.errors.is_empty() { None } else { Some(SelectorError(self.errors.clone())) }
    }
}

/// Preferred terms, prepared for scoring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedPreferred {
    terms: Vec<(i64, ParsedTerm)>,
}

impl ParsedPreferred {
    /// Parses the terms. Terms without a weight or a preference are dropped.
    ///
    /// # Errors
    /// The syntax errors in all terms.
    pub fn new(terms: &[PreferredTerm]) -> Result<Self, SelectorError> {
        Self::at(terms, "")
    }

    /// Like [`ParsedPreferred::new`], for terms at `path` (used in errors).
    ///
    /// # Errors
    /// The syntax errors in all terms.
    pub fn at(terms: &[PreferredTerm], path: &str) -> Result<Self, SelectorError> {
        let mut parsed = Vec::with_capacity(terms.len());
        let mut errors = Vec::new();
        for (i, term) in terms.iter().enumerate() {
            if term.weight == 0 || term.preference.is_empty() {
                continue;
            }
            match ParsedTerm::new(&term.preference, &format!("{path}[{i}]")) {
                Ok(preference) => parsed.push((i64::from(term.weight), preference)),
                Err(found) => errors.extend(found),
            }
        }
        fail_if_any(errors)?;
        Ok(Self { terms: parsed })
    }

    /// Returns the sum of the weights of the terms that match the node.
    pub fn score(&self, node_labels: &Labels, node_name: &str) -> i64 {
        self.terms
            .iter()
            .filter(|(_, term)| term.matches(node_labels, node_name))
            .map(|(weight, _)| weight)
            .sum()
    }

    /// Returns true if there are no terms.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

/// A pod's requirements for its node: `spec.nodeSelector` and the required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredNodeAffinity {
    node_selector: Labels,
    affinity: Option<ParsedNodeSelector>,
}

impl RequiredNodeAffinity {
    /// Prepares the requirements for matching. `spec.nodeSelector` is compared as written; its values are not checked.
    pub fn new(node_selector: Option<&Labels>, affinity: Option<&NodeAffinity>) -> Self {
        Self {
            node_selector: node_selector.cloned().unwrap_or_default(),
            affinity: affinity.and_then(|a| a.required.as_ref()).map(ParsedNodeSelector::new),
        }
    }

    /// Returns true if the node meets the requirements. A term with a syntax error matches no node.
    pub fn matches(&self, node_labels: &Labels, node_name: &str) -> bool {
        self.node_selector.subset_of(node_labels)
            && self.affinity.as_ref().is_none_or(|a| a.matches(node_labels, node_name))
    }

    /// Returns true if there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.node_selector.is_empty() && self.affinity.is_none()
    }
}

#[cfg(test)]
#[path = "selector/tests.rs"]
mod tests;
