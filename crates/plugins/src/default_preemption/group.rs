//! Preemption for a group: evicts pods of lower priority from any nodes, as few as possible.
//!
//! All pods of lower priority are taken off their nodes, and the group is placed. Then they are put back, the most
//! important first, as long as every member still fits the node that it got. Pods that cannot be put back are victims.
//! A group whose pods are disrupted together is put back or evicted as a whole. On other terms ([`EvictionTerms`]),
//! other pods are taken off their nodes, and they are put back only if the terms allow it.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use harbormaster_framework::prelude::*;

use super::{
    EvictionTerms, Rules, budgets, eligibility, importance,
    unit::{Unit, Wholes, units_on},
    victims::leave_in_turn,
};

/// Returns the group's priority or, if it has none, that of its first member; `None` without members.
pub(super) fn priority(cx: &GroupPostFilterCycle<'_>) -> Option<i32> {
    cx.group.priority.or_else(|| cx.members.first().map(|pod| pod.priority()))
}

/// Looks for pods to evict so that the group can be placed.
pub(super) fn preempt(
    cx: &mut GroupPostFilterCycle<'_>,
    rules: Rules,
    terms: &mut impl EvictionTerms,
) -> PluginResult<GroupPostFiltered> {
    let any_member_never_does = || cx.members.iter().any(|pod| pod.spec.never_preempts);
    if cx.group.never_preempts.unwrap_or_else(any_member_never_does) {
        return Ok(no_help("not eligible due to preemptionPolicy=Never."));
    }
    if cx.members.is_empty() {
        return Ok(no_help("no members"));
    }
    if has_terminating_victims(cx, terms) {
        let nominated = |pod: &Arc<PodInfo>| Some((pod.uid.clone(), pod.status.nominated_node_name.clone()?));
        let nodes = cx.members.iter().filter_map(nominated).collect();
        let reasons = reason("ongoing preemption on nominated nodes");
        return Ok(GroupPostFiltered::Nominate { nodes, victims: Vec::new(), violations: 0, reasons });
    }
    let rows = cx.what_if.nodes().live().iter();
    terms.restart();
    let mut units = units_on(rows, terms, cx.what_if, &mut Wholes::new());
    importance::sort(&mut units, rules.reverses_unstarted);
    budgets::violating_first(&mut units, cx.what_if.objects(), rules);
    // The least important leave first, because the terms may keep the others once these are gone.
    units.reverse();
    units = leave_in_turn(units, terms, |_| false);
    units.reverse();
    if units.is_empty() {
        let reasons = reason("No preemption victims found for incoming preemptor");
        return Ok(GroupPostFiltered::Unresolvable { reasons });
    }
    if let Some(reject) = terms.rejection() {
        return Ok(no_help(&reject.message()));
    }
    for (row, pod) in units.iter().flat_map(|unit| &unit.pods) {
        cx.what_if.remove(*row, pod);
    }
    let assignments = match cx.what_if.place(cx.members)? {
        Ok(assignments) => assignments,
        Err(why) => {
            restore(&units, cx.what_if);
            return Ok(no_help(&why));
        }
    };
    let units = find_victims(units, &assignments, cx.what_if, terms)?;
    restore(&units, cx.what_if);
    let violations = units.iter().map(|unit| unit.violations).sum();
    let pods = units.into_iter().flat_map(|unit| unit.pods);
    let victims: Vec<Arc<PodInfo>> = pods.map(|(_, pod)| pod).collect();
    let name = |row: NodeIdx| cx.what_if.nodes().node(row).name().clone();
    let nodes = assignments.iter().map(|one| (one.pod.uid.clone(), name(one.row))).collect();
    let reasons = reason(&format!("found a placement for podgroup, preempting {} victims", victims.len()));
    Ok(GroupPostFiltered::Nominate { nodes, victims, violations, reasons })
}

/// Puts back all pods, so that a plugin may look for other victims.
fn restore(units: &[Unit], what_if: &mut dyn GroupWhatIf) {
    units.iter().flat_map(|unit| &unit.pods).for_each(|(row, pod)| what_if.restore(*row, pod));
}

/// Puts back every unit beside which the members still fit, and returns the other units. If the terms keep some units, one
/// that could not return is asked again after others have returned, because the terms may then no longer object.
fn find_victims(
    units: Vec<Unit>,
    assignments: &[Assignment],
    what_if: &mut dyn GroupWhatIf,
    terms: &mut impl EvictionTerms,
) -> PluginResult<Vec<Unit>> {
    let is_local = what_if.is_local();
    let mut victims = units;
    loop {
        let number = victims.len();
        for unit in std::mem::take(&mut victims) {
            for (row, pod) in &unit.pods {
                what_if.restore(*row, pod);
                terms.pod_returned(pod);
            }
            let rows: BTreeSet<NodeIdx> = unit.pods.iter().map(|(row, _)| *row).collect();
            let is_concerned = |one: &&Assignment| !is_local || rows.contains(&one.row);
            let concerned: Vec<Assignment> = assignments.iter().filter(is_concerned).cloned().collect();
            if terms.rejection().is_none() && (concerned.is_empty() || what_if.fits(&concerned)?) {
                continue;
            }
            for (row, pod) in unit.pods.iter().rev() {
                what_if.remove(*row, pod);
                terms.pod_left(pod);
            }
            victims.push(unit);
        }
        if !terms.keeps_some() || victims.len() == number {
            return Ok(victims);
        }
    }
}

/// Returns true if pods that were preempted for the group are still terminating on a node to which a member is
/// nominated.
fn has_terminating_victims(cx: &GroupPostFilterCycle<'_>, terms: &impl EvictionTerms) -> bool {
    let nodes = cx.what_if.nodes();
    let nominated = cx.members.iter().filter_map(|pod| pod.status.nominated_node_name.as_ref());
    let mut rows = nominated.filter_map(|name| nodes.find(name));
    rows.any(|row| eligibility::has_preempted(row, terms, cx.what_if))
}

fn reason(text: &str) -> Vec<Cow<'static, str>> {
    vec![Cow::Owned(format!("pod group preemption: {text}"))]
}

fn no_help(text: &str) -> GroupPostFiltered {
    GroupPostFiltered::NoHelp { reasons: reason(text) }
}
