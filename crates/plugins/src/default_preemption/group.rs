//! Preemption for a group: evicts pods of lower priority from any nodes, as few as possible.
//!
//! All pods of lower priority are taken off their nodes, and the group is placed. Then they are put back, the most
//! important first, as long as every member still fits the node that it got. Pods that cannot be put back are victims.
//! A group whose pods are disrupted together is put back or evicted as a whole.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_api::Timestamp;
use harbormaster_framework::{group::GroupId, prelude::*};

use super::{budgets::BudgetUse, importance::start_time};

/// Pods that are evicted together.
struct Unit {
    pods: Vec<(NodeIdx, Arc<PodInfo>)>,
    priority: i32,
    is_grouped: bool,
}

impl Unit {
    /// Sorts important units first: by priority, then groups before single pods, then by size, then by earlier start.
    fn rank(&self) -> (Reverse<i32>, Reverse<bool>, Reverse<usize>, Timestamp) {
        let started = self.pods.iter().map(|(_, pod)| start_time(pod)).min().unwrap_or_default();
        (Reverse(self.priority), Reverse(self.is_grouped), Reverse(self.pods.len()), started)
    }
}

/// Looks for pods to evict so that the group can be placed.
pub(super) fn preempt(
    cx: &mut GroupPostFilterCycle<'_>,
    stops_at_violation: bool,
) -> PluginResult<GroupPostFiltered> {
    if cx.members.iter().any(|pod| pod.spec.never_preempts) {
        return Ok(no_help("not eligible due to preemptionPolicy=Never."));
    }
    let Some(priority) = cx.group.priority.or_else(|| cx.members.first().map(|pod| pod.priority())) else {
        return Ok(no_help("no members"));
    };
    if has_terminating_victims(cx, priority) {
        let nominated = |pod: &Arc<PodInfo>| Some((pod.uid.clone(), pod.status.nominated_node_name.clone()?));
        let nodes = cx.members.iter().filter_map(nominated).collect();
        let reasons = reason("ongoing preemption on nominated nodes");
        return Ok(GroupPostFiltered::Nominate { nodes, victims: Vec::new(), reasons });
    }
    let mut units = units_below(priority, cx.what_if);
    if units.is_empty() {
        let reasons = reason("No preemption victims found for incoming preemptor");
        return Ok(GroupPostFiltered::Unresolvable { reasons });
    }
    units.sort_by_key(Unit::rank);
    violating_first(&mut units, cx.what_if.objects(), stops_at_violation);
    for (row, pod) in units.iter().flat_map(|unit| &unit.pods) {
        cx.what_if.remove(*row, pod);
    }
    let assignments = match cx.what_if.place()? {
        Ok(assignments) => assignments,
        Err(why) => return Ok(no_help(&why)),
    };
    let victims = find_victims(units, &assignments, cx.what_if)?;
    let name = |row: NodeIdx| cx.what_if.nodes().node(row).name().clone();
    let nodes = assignments.iter().map(|one| (one.pod.uid.clone(), name(one.row))).collect();
    let reasons = reason(&format!("found a placement for podgroup, preempting {} victims", victims.len()));
    Ok(GroupPostFiltered::Nominate { nodes, victims, reasons })
}

/// Puts back every unit beside which the members still fit, and returns the pods of the other units.
fn find_victims(
    units: Vec<Unit>,
    assignments: &[Assignment],
    what_if: &mut dyn GroupWhatIf,
) -> PluginResult<Vec<Arc<PodInfo>>> {
    let is_local = what_if.is_local();
    let mut victims = Vec::new();
    for unit in units {
        for (row, pod) in &unit.pods {
            what_if.restore(*row, pod);
        }
        let rows: BTreeSet<NodeIdx> = unit.pods.iter().map(|(row, _)| *row).collect();
        let is_concerned = |one: &&Assignment| !is_local || rows.contains(&one.row);
        let concerned: Vec<Assignment> = assignments.iter().filter(is_concerned).cloned().collect();
        if concerned.is_empty() || what_if.fits(&concerned)? {
            continue;
        }
        for (row, pod) in unit.pods.iter().rev() {
            what_if.remove(*row, pod);
        }
        victims.extend(unit.pods.into_iter().map(|(_, pod)| pod));
    }
    Ok(victims)
}

/// All units whose priority is lower, in node order.
fn units_below(priority: i32, what_if: &dyn GroupWhatIf) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut whole: BTreeMap<GroupId, usize> = BTreeMap::new();
    for row in what_if.nodes().live().iter() {
        for pod in what_if.nodes().node(row).pods() {
            let of_unit = priority_of(pod, what_if);
            if of_unit >= priority {
                continue;
            }
            let known = pod.group().and_then(|group| whole.get(group)).copied();
            if let Some(at) = known {
                units[at].pods.push((row, pod.clone()));
                continue;
            }
            let group = pod.group().and_then(|group| what_if.group(group));
            if let Some(group) = group.filter(|group| group.disruption == Disruption::All) {
                whole.insert(group.id.clone(), units.len());
            }
            let is_grouped = group.is_some();
            units.push(Unit { pods: vec![(row, pod.clone())], priority: of_unit, is_grouped });
        }
    }
    units
}

/// Priority of a pod as a victim: that of its group, if it has one.
fn priority_of(pod: &PodInfo, what_if: &dyn GroupWhatIf) -> i32 {
    let group = pod.group().and_then(|group| what_if.group(group));
    group.and_then(|group| group.priority).unwrap_or_else(|| pod.priority())
}

/// Moves the units whose eviction violates a disruption budget to the front, and otherwise keeps the order.
fn violating_first(units: &mut [Unit], objects: &Objects, stops_at_violation: bool) {
    let mut budgets = BudgetUse::new(objects, stops_at_violation);
    let mut violating = 0;
    for at in 0..units.len() {
        let mut violates = false;
        for (_, pod) in &units[at].pods {
            violates |= budgets.evict_violates(pod);
        }
        if violates {
            units[violating..=at].rotate_right(1);
            violating += 1;
        }
    }
}

/// Returns true if pods that were preempted for the group are still terminating on a node to which a member is
/// nominated.
fn has_terminating_victims(cx: &GroupPostFilterCycle<'_>, priority: i32) -> bool {
    let nodes = cx.what_if.nodes();
    let nominated = cx.members.iter().filter_map(|pod| pod.status.nominated_node_name.as_ref());
    let mut rows = nominated.filter_map(|name| nodes.find(name));
    rows.any(|row| {
        let pods = nodes.node(row).pods();
        pods.iter()
            .any(|pod| priority_of(pod, cx.what_if) < priority && super::eligibility::is_preempted(pod))
    })
}

fn reason(text: &str) -> Vec<Cow<'static, str>> {
    vec![Cow::Owned(format!("pod group preemption: {text}"))]
}

fn no_help(text: &str) -> GroupPostFiltered {
    GroupPostFiltered::NoHelp { reasons: reason(text) }
}
