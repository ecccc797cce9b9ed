//! The constraints of a pod.

use harbormaster_api::{
    Labels, Str,
    args::DefaultConstraint,
    pod::TopologySpreadConstraint,
    selector::{LabelSelector, Operator, Requirement},
};
use harbormaster_framework::prelude::*;

use super::{PodTopologySpread, default_selector::default_selector};
use crate::pod_index::{PodSelector, PodTerm};

/// Kind of a constraint: requirement or preference (`whenUnsatisfiable`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `DoNotSchedule`: applies in Filter.
    Hard,
    /// `ScheduleAnyway`: applies in Score.
    Soft,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
        }
    }
}

/// One constraint of one pod, with defaults for absent fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Constraint {
    /// `topologyKey`.
    pub(super) key: Str,
    /// `maxSkew`.
    pub(super) max_skew: i32,
    /// `minDomains`, 1 if absent.
    pub(super) min_domains: i32,
    /// True for `nodeAffinityPolicy: Honor`, the default.
    pub(super) honors_affinity: bool,
    /// True for `nodeTaintsPolicy: Honor`.
    pub(super) honors_taints: bool,
    /// Selector of the pods, including `matchLabelKeys`; `None` matches nothing.
    pub(super) selector: Option<LabelSelector>,
}

impl Constraint {
    /// Returns a constraint with this key that matches no pods, with defaults for the remaining fields.
    pub(super) fn new(key: Str, max_skew: i32) -> Self {
        Self { key, max_skew, min_domains: 1, honors_affinity: true, honors_taints: false, selector: None }
    }

    /// Returns an entry of `defaultConstraints` as a constraint. `policies` is true if the
    /// `NodeInclusionPolicyInPodTopologySpread` feature gate is enabled; otherwise policies are ignored.
    pub(super) fn default_of(entry: &DefaultConstraint, policies: bool) -> (Kind, Self) {
        let kind = if entry.when_unsatisfiable == "DoNotSchedule" { Kind::Hard } else { Kind::Soft };
        let honors = |policy: &Option<String>, absent: bool| match policy {
            Some(policy) if policies => policy == "Honor",
            _ => absent,
        };
        let constraint = Self {
            min_domains: entry.min_domains.unwrap_or(1),
            honors_affinity: honors(&entry.node_affinity_policy, true),
            honors_taints: honors(&entry.node_taints_policy, false),
            ..Self::new(entry.topology_key.as_str().into(), entry.max_skew)
        };
        (kind, constraint)
    }

    /// Returns true if the selector matches a pod with these labels.
    pub(super) fn matches(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    /// Returns a selector of the pods to count, or `None` if the constraint counts no pods because its selector is
    /// missing or empty.
    pub(super) fn counted(&self, namespace: &Str) -> Option<PodSelector> {
        let labels = self.selector.as_ref().filter(|s| !s.is_empty())?.clone();
        let term = PodTerm { namespaces: vec![namespace.clone()], labels, ..PodTerm::default() };
        Some(PodSelector { all_of: vec![term], live_only: true })
    }
}

impl PodTopologySpread {
    /// Returns the pod's constraints of a kind: its own, or the plugin's defaults if the pod has no constraints of
    /// either kind.
    ///
    /// # Errors
    /// If the selector of one of the pod's own constraints of that kind has a syntax error.
    pub(super) fn constraints(
        &self,
        pod: &PodInfo,
        kind: Kind,
        objects: &Objects,
    ) -> PluginResult<Vec<Constraint>> {
        if !pod.spec.topology_spread.is_empty() {
            return self.own_constraints(pod, kind);
        }
        let mut constraints = self.default_constraints(kind);
        if constraints.is_empty() {
            return Ok(constraints);
        }
        let selector = default_selector(pod, objects);
        if selector.is_empty() {
            return Ok(Vec::new());
        }
        constraints.iter_mut().for_each(|c| c.selector = Some(selector.clone()));
        Ok(constraints)
    }

    /// Returns the pod's own constraints of a kind.
    ///
    /// # Errors
    /// If the selector of one of these constraints has a syntax error.
    pub(super) fn own_constraints(&self, pod: &PodInfo, kind: Kind) -> PluginResult<Vec<Constraint>> {
        let of_kind = pod.spec.topology_spread.iter().filter(|c| c.hard == (kind == Kind::Hard));
        of_kind.map(|c| self.own_constraint(c, &pod.labels, kind)).collect()
    }

    /// Returns the plugin's default constraints of a kind, without their selectors.
    pub(super) fn default_constraints(&self, kind: Kind) -> Vec<Constraint> {
        self.defaults.iter().filter(|(k, _)| *k == kind).map(|(_, c)| c.clone()).collect()
    }

    fn own_constraint(
        &self,
        own: &TopologySpreadConstraint,
        labels: &Labels,
        kind: Kind,
    ) -> PluginResult<Constraint> {
        let mut selector = own.label_selector.clone();
        if let Some(selector) = &mut selector {
            let context = |e| format!("obtaining pod's {} topology spread constraints: {e}", kind.name());
            selector.check().map_err(context)?;
            if self.match_label_keys {
                add_label_keys(selector, &own.match_label_keys, labels);
            }
        }
        Ok(Constraint {
            min_domains: own.min_domains.unwrap_or(1),
            honors_affinity: !(self.inclusion_policies && own.ignore_node_affinity),
            honors_taints: self.inclusion_policies && own.honor_node_taints,
            selector,
            ..Constraint::new(own.topology_key.clone(), own.max_skew)
        })
    }
}

/// Applies `matchLabelKeys`: requires the pod's own value for each of the keys that the pod has. Usually, the API
/// server has already added these requirements to the selector.
fn add_label_keys(selector: &mut LabelSelector, keys: &[Str], labels: &Labels) {
    for key in keys {
        let Some(value) = labels.get(key) else { continue };
        let same = Requirement { key: key.clone(), operator: Operator::In, values: vec![value.clone()] };
        if !selector.match_expressions.contains(&same) {
            selector.match_expressions.push(same);
        }
    }
}
