//! Evictions that extenders agree to. An attempt waits for these answers.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{EvictionPlan, ExtenderError, Extenders, NodeVictims, Remark};
use crate::{pod::PodInfo, table::NodeTable};

impl Extenders {
    /// Returns true if some extender takes part in preemption for `pod`.
    pub fn preempt_for(&self, pod: &PodInfo) -> bool {
        self.interested(pod).any(|(_, extender)| extender.preempts)
    }

    /// Returns the plans that are accepted by all extenders that take part in preemption. Each extender receives only
    /// the plans that the extenders before it accepted.
    ///
    /// # Errors
    /// When an extender that is not ignorable fails.
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
            let request: Vec<NodeVictims> = plans.iter().map(|plan| plan.by_name(nodes)).collect();
            let answer = match &self.client {
                Some(client) => client.preempt(at, pod, &request),
                None => Err(self.without_client(at)),
            };
            let answer = answer.and_then(|answer| self.agreed(at, pod, nodes, &plans, &answer));
            match answer {
                Ok(agreed) => plans = agreed,
                Err(why) if extender.ignorable => self.remark(at, pod, Remark::Skipped(&why)),
                Err(why) => return Err(ExtenderError(why)),
            }
        }
        Ok(plans)
    }

    /// Returns the accepted plans in the order of `plans`, with the victims that the extender names.
    fn agreed(
        &self,
        at: usize,
        pod: &PodInfo,
        nodes: &NodeTable,
        plans: &[EvictionPlan],
        answer: &[NodeVictims],
    ) -> Result<Vec<EvictionPlan>, String> {
        let extender = &self.all[at];
        let mut by_node: FxHashMap<&str, &NodeVictims> =
            answer.iter().map(|victims| (victims.node.as_str(), victims)).collect();
        let mut agreed = Vec::new();
        for plan in plans {
            let node = nodes.node(plan.row);
            let Some(answer) = by_node.remove(node.name().as_str()) else { continue };
            let mut victims: Vec<Arc<PodInfo>> = Vec::new();
            for uid in &answer.victims {
                let planned = plan.victims.iter().find(|victim| victim.uid == *uid);
                let victim = planned.or_else(|| node.pods().iter().find(|victim| victim.uid == *uid));
                let victim = victim.ok_or_else(|| {
                    format!(
                        "extender: {} claims to preempt pod (UID: &{{{uid}}}) on node: {}, but the pod is not found on that \
                         node",
                        extender.name,
                        node.name()
                    )
                })?;
                if planned.is_none() && victim.priority() >= pod.priority() {
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
            let violations = usize::try_from(answer.violations).unwrap_or(0);
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
