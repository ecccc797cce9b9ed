//! StickyVM at the points of the framework.
//!
//! PreFilter leaves the remembered node alone, so that preemption does not try the others. The first time Reserve lets the choice
//! count at once, for another pod of the same machine that is decided meanwhile, and PreBind writes it down before the pod is
//! bound. A scheduler that ends in between has bound the pod or has not; the annotation is right in both cases, and the next
//! one goes on from there. With the plugin in PostBind and not in PreBind it is written after the binding, as in the article:
//! what ends or fails in between is forgotten.

use std::sync::{
    Once,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use harbormaster::{api::labels::qualified_name_errors, prelude::*, serde::Deserialize};

use crate::{
    kubevirt::{VirtualMachine, VirtualMachineInstance, instance_of, machine, machine_now, machine_of},
    memory::{Unwritten, elsewhere, remembered, written},
};

/// `profiles[].pluginConfig[].args`.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// The annotation of machines that names their node.
    pub annotation: String,
}

impl Default for Args {
    fn default() -> Self {
        Self { annotation: "example.com/sticky-node".to_owned() }
    }
}

/// The plugin.
#[derive(Debug)]
pub struct StickyVM {
    annotation: String,
    warned: Once,
}

impl Build for StickyVM {
    type Args = Args;

    fn build(Args { annotation }: Args, _: &BuildCycle) -> Result<Self, PluginError> {
        match qualified_name_errors(&annotation).as_slice() {
            [] => Ok(Self { annotation, warned: Once::new() }),
            wrong => Err(format!("annotation: {annotation:?}: {}", wrong.join("; ")).into()),
        }
    }
}

impl Plugin for StickyVM {
    const NAME: &'static str = "StickyVM";
    /// The row of the remembered node.
    type FilterState = Option<NodeIdx>;
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points.pre_filter().filter().reserve().pre_bind().post_bind();
        points.resource::<VirtualMachineInstance>().resource::<VirtualMachine>();
    }

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let known = Action::ADD | Action::UPDATE;
        Some(vec![
            Registration::on::<VirtualMachineInstance>(known, Self::after_instance),
            Registration::on::<VirtualMachine>(known, Self::after_machine),
            // Perhaps the remembered one; which that is a hint cannot tell.
            Registration::always(EventResource::Node, Action::ADD),
            Registration::hinted(EventResource::AssignedPod, Action::DELETE, Self::after_pod),
        ])
    }
}

impl StickyVM {
    /// The pod's own instance, if there is news of what manages it. Everything else of it changes often.
    fn after_instance(
        &self,
        pod: &PodInfo,
        instance: Changed<'_, VirtualMachineInstance>,
    ) -> PluginResult<Hint> {
        let owner = instance_of(pod).filter(|owner| {
            instance.new.is_some_and(|new| {
                new.metadata.namespace == pod.namespace
                    && new.metadata.name == owner.name
                    && new.metadata.uid == owner.uid
            })
        });
        let uid = |instance: &Custom<_>| instance.metadata.uid.clone();
        let is_news = instance.old.map(uid) != instance.new.map(uid)
            || instance.old.and_then(machine_of) != instance.new.and_then(machine_of);
        Ok(queue_if(owner.is_some() && is_news))
    }

    /// A machine of the pod's namespace that is new or has another node. Which one is the pod's a hint cannot tell.
    fn after_machine(&self, pod: &PodInfo, machine: Changed<'_, VirtualMachine>) -> PluginResult<Hint> {
        let is_near = machine.new.is_some_and(|new| new.metadata.namespace == pod.namespace);
        let uid = |machine: &Custom<_>| machine.metadata.uid.clone();
        let node = |machine| written(machine, &self.annotation);
        let is_news = machine.old.map(uid) != machine.new.map(uid)
            || machine.old.and_then(node) != machine.new.and_then(node);
        Ok(queue_if(is_near && is_news))
    }

    /// A pod that gave its node up may have been the only reason to go there.
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
        Ok(queue_if(gone.namespace == pod.namespace && instance_of(gone).is_some()))
    }
}

fn queue_if(helps: bool) -> Hint {
    if helps { Hint::Queue } else { Hint::Skip }
}

impl PreFilter for StickyVM {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Option<NodeIdx>>, Stop> {
        let Some(machine) = machine(cx.objects, cx.pod)? else { return Ok(PreFiltered::Skip) };
        let Some(node) = remembered(machine, &self.annotation) else { return Ok(PreFiltered::Skip) };
        let Some(row) = cx.nodes.find(node).filter(|row| cx.nodes.live().contains(*row)) else {
            let (annotation, Metadata { namespace, name, .. }) = (&self.annotation, &machine.metadata);
            return Err(Reject::unresolvable(format!(
                "node {node} does not exist, to which VirtualMachine {namespace}/{name} sticks by its annotation {annotation}"
            ))
            .into());
        };
        let mut only = NodeSet::empty(cx.nodes.rows());
        only.insert(row);
        Ok(PreFiltered::Continue { state: Some(row), only: Some(only) })
    }
}

impl Filter for StickyVM {
    /// After PreFilter nobody asks about another node but those who pass over what it narrowed.
    fn filter(&self, _: &Cycle<'_>, remembered: &Option<NodeIdx>, node: NodeRef<'_>) -> Verdict {
        match remembered.is_none_or(|row| row == node.idx()) {
            true => Ok(()),
            false => Err(elsewhere().into()),
        }
    }
}

/// What was known of the machine when the node was chosen.
#[derive(Debug)]
pub struct Reserved {
    /// `None` if nothing is to be written.
    unwritten: Option<Unwritten>,
    done: AtomicBool,
}

impl Reserve for StickyVM {
    type Reserved = Reserved;

    fn reserve(
        &self,
        cx: &Cycle<'_>,
        _: &Option<NodeIdx>,
        node: NodeRef<'_>,
        assume: &mut Assume,
    ) -> Result<Reserved, Stop> {
        let unwritten = match machine(cx.objects, cx.pod)? {
            Some(machine) => Unwritten::of(machine, &self.annotation, node.name())?.map(|it| (machine, it)),
            None => None,
        };
        if let Some((machine, _)) = &unwritten {
            let (annotation, node) = (self.annotation.clone(), node.name().clone());
            let Metadata { namespace, name, .. } = &machine.metadata;
            assume.custom::<VirtualMachine>(namespace, name, move |machine| {
                let is_open = written(machine, &annotation).is_none();
                machine.assumed = is_open.then(|| node.clone());
                is_open
            });
        }
        Ok(Reserved { done: AtomicBool::new(unwritten.is_none()), unwritten: unwritten.map(|(_, it)| it) })
    }

    /// What is written stays: see [`crate::memory`].
    fn unreserve(&self, _: &Placement, _: &mut Vec<ApiCall>) {}
}

impl StickyVM {
    /// Writes down where the pod goes; `false` if that was there already. Without Reserve the API server is asked.
    async fn remember(&self, cx: &BindCycle) -> Result<bool, Stop> {
        let reserved = cx.reserved::<Self>();
        let unwritten = match reserved {
            Some(reserved) => reserved.unwritten.clone(),
            None => match machine_now(&cx.api, &cx.pod).await? {
                Some(machine) => Unwritten::of(&machine, &self.annotation, &cx.node)?,
                None => None,
            },
        };
        let Some(unwritten) = unwritten else { return Ok(false) };
        unwritten.write(&cx.api, &cx.pod, &self.annotation, &cx.node).await?;
        if let Some(reserved) = reserved {
            reserved.done.store(true, Relaxed);
        }
        Ok(true)
    }

    /// Whether nothing is left to be done for that pod.
    fn is_done(placement: &Placement) -> bool {
        let reserved = placement.reserved::<Self>();
        instance_of(&placement.pod).is_none() || reserved.is_some_and(|reserved| reserved.done.load(Relaxed))
    }
}

impl PreBind for StickyVM {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        Ok(match Self::is_done(placement) {
            true => PreFlight::NothingToDo,
            // In its turn: what plugins before it fail at should not tie the machine to the node.
            false => PreFlight::Work { parallel: false },
        })
    }

    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        self.remember(cx).await.map(drop)
    }
}

impl PostBind for StickyVM {
    /// With PreBind nothing is left to do. Without, this is the last chance.
    async fn post_bind(&self, cx: &BindCycle) {
        if Self::is_done(cx) {
            return;
        }
        let pod = cx.pod.full_name();
        let failed = match self.remember(cx).await {
            Ok(false) => return,
            Ok(true) => None,
            Err(Stop::Reject(reject)) => Some(reject.message()),
            Err(Stop::Error(error)) => Some(error.to_string()),
        };
        if let Some(err) = failed {
            let node = cx.node.as_str();
            tracing::error!(
                pod,
                node,
                err,
                "The node of a virtual machine is not written down: its next pod may go elsewhere"
            );
        }
        self.warned.call_once(|| {
            tracing::warn!(
                "StickyVM is not enabled in preBind: nodes of virtual machines are written down after their pods are bound, \
                 and a scheduler that ends in between forgets them; enable it in reserve and preBind"
            );
        });
    }
}

#[cfg(test)]
mod tests;
