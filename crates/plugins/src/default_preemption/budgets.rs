//! Evictions that violate a PodDisruptionBudget.

use std::ptr;

use harbormaster_api::PodDisruptionBudget;
use harbormaster_framework::prelude::*;

use super::{Rules, unit::Unit};

/// Moves the units whose eviction violates a budget to the front, otherwise preserving the order, and returns the number
/// of these units.
///
/// Simulates the eviction of the units one after another, in the given order. Every eviction of a pod uses up one
/// disruption of each budget that covers the pod, even if the budget is already exhausted. By the rules of some releases
/// ([`Rules::stops_at_violation`]), the budgets that come after the first violated budget are left alone.
pub(super) fn violating_first(units: &mut [Unit], objects: &Objects, rules: Rules) -> usize {
    let mut budgets = BudgetUse::new(objects, rules.stops_at_violation);
    let mut violating = 0;
    for at in 0..units.len() {
        let pods = units[at].pods.iter();
        units[at].violations = pods.filter(|(_, pod)| budgets.evict_violates(pod)).count();
        if units[at].violations > 0 {
            units[violating..=at].rotate_right(1);
            violating += 1;
        }
    }
    violating
}

/// Budgets, each with the number of disruptions left.
struct BudgetUse<'a> {
    objects: &'a Objects,
    left: Vec<(&'a PodDisruptionBudget, i32)>,
    stops_at_violation: bool,
}

impl<'a> BudgetUse<'a> {
    fn new(objects: &'a Objects, stops_at_violation: bool) -> Self {
        Self { objects, left: Vec::new(), stops_at_violation }
    }

    /// Counts the eviction of the pod. Returns true if the eviction violates a budget. A pod without labels is covered
    /// by no budget, as in kube-scheduler.
    fn evict_violates(&mut self, pod: &PodInfo) -> bool {
        if pod.labels.is_empty() {
            return false;
        }
        let mut overdrawn = false;
        for budget in self.objects.budgets(&pod.namespace).filter(|budget| covers(budget, pod)) {
            let known = self.left.iter().position(|(other, _)| ptr::eq(*other, budget));
            let at = known.unwrap_or_else(|| {
                self.left.push((budget, budget.disruptions_allowed));
                self.left.len() - 1
            });
            let left = &mut self.left[at].1;
            *left = left.saturating_sub(1);
            overdrawn |= *left < 0;
            if overdrawn && self.stops_at_violation {
                break;
            }
        }
        overdrawn
    }
}

/// Returns true if the budget covers the pod. A missing, empty or malformed selector covers nothing. A budget does not
/// cover a pod whose disruption the API server has already counted.
fn covers(budget: &PodDisruptionBudget, pod: &PodInfo) -> bool {
    let selects = budget
        .selector
        .as_ref()
        .is_some_and(|s| !s.is_empty() && s.matches(&pod.labels) && s.check().is_ok());
    selects && !budget.disrupted_pods.contains(&pod.name)
}

#[cfg(test)]
mod tests {
    use harbormaster_api::{
        Object,
        selector::{LabelSelector, Operator, Requirement},
    };
    use harbormaster_testkit::{PodBuilder, cluster, labels, pod};

    use super::{
        super::unit::tests::{names, singles},
        *,
    };

    fn budget(name: &str, app: &str, disruptions_allowed: i32) -> PodDisruptionBudget {
        let selector = LabelSelector { match_labels: labels(&[("app", app)]), ..LabelSelector::default() };
        PodDisruptionBudget {
            namespace: "default".into(),
            name: name.into(),
            selector: Some(selector),
            disruptions_allowed,
            ..PodDisruptionBudget::default()
        }
    }

    fn app(name: &str, app: &str) -> PodBuilder {
        pod(name).label("app", app)
    }

    fn split(
        pods: impl IntoIterator<Item = PodBuilder>,
        budgets: impl IntoIterator<Item = PodDisruptionBudget>,
    ) -> (Vec<String>, usize) {
        split_by(false, pods, budgets)
    }

    fn split_by(
        stops_at_violation: bool,
        pods: impl IntoIterator<Item = PodBuilder>,
        budgets: impl IntoIterator<Item = PodDisruptionBudget>,
    ) -> (Vec<String>, usize) {
        let mut cluster = cluster([], []);
        budgets.into_iter().for_each(|b| cluster.set_object(Object::PodDisruptionBudget(b)));
        let mut units = singles(pods);
        let rules = Rules { stops_at_violation, ..Rules::default() };
        let violating = violating_first(&mut units, cluster.objects(), rules);
        (names(&units), violating)
    }

    #[test]
    fn without_budgets_nothing_is_violated() {
        assert_eq!(split([app("a", "x"), app("b", "x")], []), (vec!["a".into(), "b".into()], 0));
    }

    #[test]
    fn violating_pods_move_to_the_front_and_both_groups_keep_their_order() {
        let pods = [app("a", "x"), app("b", "y"), app("c", "x"), app("d", "x"), pod("e")];
        let (order, violating) = split(pods, [budget("x", "x", 1)]);
        assert_eq!((order.join(" ").as_str(), violating), ("c d a b e", 2));
    }

    #[test]
    fn a_pod_without_labels_violates_nothing() {
        let mut all = budget("all", "x", 0);
        all.selector = Some(LabelSelector {
            match_expressions: vec![Requirement {
                key: "app".into(),
                operator: Operator::DoesNotExist,
                values: Vec::new(),
            }],
            ..LabelSelector::default()
        });
        assert_eq!(split([pod("a")], [all.clone()]).1, 0);
        assert_eq!(split([pod("a").label("other", "")], [all]).1, 1);
    }

    #[test]
    fn a_budget_in_another_namespace_does_not_count() {
        assert_eq!(split([app("a", "x").namespace("elsewhere")], [budget("x", "x", 0)]).1, 0);
    }

    #[test]
    fn a_missing_empty_or_malformed_selector_selects_nothing() {
        let with = |selector| PodDisruptionBudget { selector, ..budget("x", "x", 0) };
        assert_eq!(split([app("a", "x")], [with(None)]).1, 0);
        assert_eq!(split([app("a", "x")], [with(Some(LabelSelector::default()))]).1, 0);
        let requirement =
            Requirement { key: "app".into(), operator: Operator::NotIn, values: vec!["not a value".into()] };
        let malformed = LabelSelector { match_expressions: vec![requirement], ..LabelSelector::default() };
        assert!(malformed.matches(&labels(&[("app", "x")])));
        assert_eq!(split([app("a", "x")], [with(Some(malformed))]).1, 0);
    }

    #[test]
    fn an_already_disrupted_pod_neither_violates_a_budget_nor_uses_one_up() {
        let disrupted = PodDisruptionBudget { disrupted_pods: vec!["a".into()], ..budget("x", "x", 1) };
        assert_eq!(split([app("a", "x"), app("b", "x")], [disrupted.clone()]).1, 0);
        assert_eq!(split([app("a", "x"), app("b", "x"), app("c", "x")], [disrupted]).1, 1);
    }

    #[test]
    fn a_pod_that_violates_one_budget_uses_up_the_later_ones_unless_the_count_stops_there() {
        let roles = |name, app_: &str| app(name, app_).label("role", "db");
        let mut by_role = budget("role", "", 1);
        by_role.selector =
            Some(LabelSelector { match_labels: labels(&[("role", "db")]), ..LabelSelector::default() });
        for (stops_at_violation, expected) in [(false, ("a b", 2)), (true, ("a b", 1))] {
            let pods = [roles("a", "x"), roles("b", "y")];
            let budgets = [budget("app", "x", 0), by_role.clone()];
            let (order, violating) = split_by(stops_at_violation, pods, budgets);
            assert_eq!((order.join(" ").as_str(), violating), expected);
        }
    }

    #[test]
    fn a_unit_violates_budgets_if_one_of_its_pods_does_and_counts_all_that_do() {
        let mut cluster = cluster([], []);
        cluster.set_object(Object::PodDisruptionBudget(budget("x", "x", 1)));
        let mut units = singles([app("alone", "y"), app("a", "x"), app("b", "x"), app("c", "x"), pod("d")]);
        let others: Vec<_> = units.drain(2..).flat_map(|unit| unit.pods).collect();
        units[1].pods.extend(others);
        assert_eq!(violating_first(&mut units, cluster.objects(), Rules::default()), 1);
        assert_eq!(names(&units), ["a", "b", "c", "d", "alone"]);
        assert_eq!(units.iter().map(|unit| unit.violations).collect::<Vec<_>>(), [2, 0]);
    }

    #[test]
    fn a_budget_overdrawn_from_the_start_stays_overdrawn() {
        assert_eq!(split([app("a", "x")], [budget("x", "x", i32::MIN)]).1, 1);
    }
}
