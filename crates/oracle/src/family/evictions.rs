//! Victims that an engine chooses.

use std::collections::BTreeMap;

use harbormaster_setup::Setup;
use harbormaster_sim::Inventory;

use crate::preemptions::Ours;
use crate::verdict_oracle::{Candidate, Preemption};
use crate::verdicts::{Result, Verdicts};

/// Adds the victims of every pod that fits no node. Unlike the real plugin, the engine names only the node that it
/// chooses.
pub(super) fn add(setup: &Setup, inventory: Inventory, verdicts: &mut Verdicts) -> Result<()> {
    let mut engine = Ours::of(setup.engine.clone(), inventory);
    for (pod, verdict) in verdicts.iter_mut().filter(|(_, verdict)| verdict.pre_filter.is_none()) {
        if !verdict.nodes.values().all(Option::is_some) {
            continue;
        }
        let mut preemption = Preemption { node: String::new(), candidates: BTreeMap::new() };
        if let Some(found) = engine.evicted_for(pod)? {
            let candidate = Candidate { victims: found.victims, violations: 0 };
            preemption.candidates.insert(found.node.clone(), candidate);
            preemption.node = found.node;
        }
        verdict.preemption = Some(preemption);
    }
    Ok(())
}
