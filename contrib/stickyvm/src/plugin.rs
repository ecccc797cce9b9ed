//! The `StickyVM` plugin.
//!
//! PreFilter allows only the pinned node, so that preemption does not try other nodes. On a machine's first start,
//! Reserve records the node in memory, so that other pods of the machine that are scheduled in the meantime use the
//! same node; PreBind writes the annotation before the pod is bound. If the scheduler stops after this write, the
//! annotation is correct whether or not the pod was bound, and the next scheduler continues from there.
//!
//! If the plugin is enabled in PostBind but not in PreBind, the annotation is written after the binding, as in the
//! article, and is lost if the scheduler stops or fails in between.

use std::sync::{
    Once,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use harbormaster::{api::labels::qualified_name_errors, prelude::*, serde::Deserialize};

use crate::{
    kubevirt::{VirtualMachine, VirtualMachineInstance, fetch_machine, instance_of, machine, machine_of},
    memory::{UnpinnedMachine, annotated_node, pinned_elsewhere, pinned_node},
};

/// Plugin arguments, `profiles[].pluginConfig[].args`.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// The annotation on machines that names their node.
    pub annotation: String,
}

impl Default for Args {
    fn default() -> Self {
        Self { annotation: "example.com/sticky-node".to_owned() }
    }
}

/// Keeps a virtual machine on the node of its first pod.
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
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let known = Action::ADD | Action::UPDATE;
        Some(vec![
            Registration::on::<VirtualMachineInstance>(known, Self::after_instance),
            Registration::on::<VirtualMachine>(known, Self::after_machine),
            // The new node may be the pinned node; a hint cannot look up the machine.
            Registration::always(EventResource::Node, Action::ADD),
            Registration::hinted(EventResource::AssignedPod, Action::DELETE, Self::after_pod),
        ])
    }
}

impl Watches for StickyVM {
    type Resources = (VirtualMachineInstance, VirtualMachine);
}

impl StickyVM {
    /// Wakes the pod if its instance is new or has a new owner. Ignores other changes, which are frequent.
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

    /// Wakes pods if a machine in their namespace is new or its annotation changed. A hint cannot look up the pod's own
    /// machine.
    fn after_machine(&self, pod: &PodInfo, machine: Changed<'_, VirtualMachine>) -> PluginResult<Hint> {
        let is_near = machine.new.is_some_and(|new| new.metadata.namespace == pod.namespace);
        let uid = |machine: &Custom<_>| machine.metadata.uid.clone();
        let node = |machine| annotated_node(machine, &self.annotation);
        let is_news = machine.old.map(uid) != machine.new.map(uid)
            || machine.old.and_then(node) != machine.new.and_then(node);
        Ok(queue_if(is_near && is_news))
    }

    /// Wakes a machine's pods if a machine's pod in the same namespace gives up its node, since an assumed node may no
    /// longer apply.
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
        Ok(queue_if(gone.namespace == pod.namespace && instance_of(gone).is_some()))
    }
}

fn queue_if(helps: bool) -> Hint {
    if helps { Hint::Queue } else { Hint::Skip }
}

impl PreFilter<WholeCluster, Option<NodeIdx>> for StickyVM {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Option<NodeIdx>>, Stop> {
        let (instances, machines) = self.watched(cx.objects);
        let Some(machine) = machine(instances, machines, cx.pod)? else { return Ok(PreFiltered::Skip) };
        let Some(node) = pinned_node(machine, &self.annotation) else { return Ok(PreFiltered::Skip) };
        let Some(row) = cx.nodes.find(node).filter(|row| cx.nodes.live().contains(*row)) else {
            let (annotation, Metadata { namespace, name, .. }) = (&self.annotation, &machine.metadata);
            return Err(Reject::unresolvable(format!(
                "VirtualMachine {namespace}/{name} is pinned to node {node}, which does not exist (annotation {annotation})"
            ))
            .into());
        };
        let mut only = NodeSet::empty(cx.nodes.rows());
        only.insert(row);
        Ok(PreFiltered::Continue { state: Some(row), only: Some(only) })
    }
}

impl Filter<WholeCluster, Option<NodeIdx>> for StickyVM {
    /// Rejects all nodes except the pinned node. Matters only to callers that ignore which nodes PreFilter allows.
    fn filter(&self, _: &Cycle<'_>, pinned: &Option<NodeIdx>, node: NodeRef<'_>) -> Verdict {
        match pinned.is_none_or(|row| row == node.idx()) {
            true => Ok(()),
            false => Err(pinned_elsewhere().into()),
        }
    }
}

/// State of the machine when the node was chosen.
#[derive(Debug)]
pub struct Reserved {
    /// Machine whose annotation must be written; `None` if there is nothing to write.
    unpinned: Option<UnpinnedMachine>,
    done: AtomicBool,
}

impl Reserve<Option<NodeIdx>> for StickyVM {
    type Reserved = Reserved;

    fn reserve(
        &self,
        cx: &Cycle<'_>,
        _: &Option<NodeIdx>,
        node: NodeRef<'_>,
        assume: &mut Assume,
    ) -> Result<Reserved, Stop> {
        let (instances, machines) = self.watched(cx.objects);
        let unpinned = match machine(instances, machines, cx.pod)? {
            Some(machine) => {
                UnpinnedMachine::of(machine, &self.annotation, node.name())?.map(|it| (machine, it))
            }
            None => None,
        };
        if let Some((machine, _)) = &unpinned {
            let (annotation, node) = (self.annotation.clone(), node.name().clone());
            let Metadata { namespace, name, .. } = &machine.metadata;
            assume.custom::<VirtualMachine>(namespace, name, move |machine| {
                let is_open = annotated_node(machine, &annotation).is_none();
                machine.assumed = is_open.then(|| node.clone());
                is_open
            });
        }
        Ok(Reserved { done: AtomicBool::new(unpinned.is_none()), unpinned: unpinned.map(|(_, it)| it) })
    }

    /// Keeps the annotation; see [`crate::memory`].
    fn unreserve(&self, _: &Placement, _: &mut Vec<ApiCall>) {}
}

impl StickyVM {
    /// Writes the node into the annotation. Returns false if there is nothing to write. Without Reserve, first reads
    /// the machine from the API server.
    async fn remember(&self, cx: &BindCycle) -> Result<bool, Stop> {
        let reserved = self.reserved(cx);
        let unpinned = match reserved {
            Some(reserved) => reserved.unpinned.clone(),
            None => match fetch_machine(&cx.api, &cx.pod).await? {
                Some(machine) => UnpinnedMachine::of(&machine, &self.annotation, &cx.node)?,
                None => None,
            },
        };
        let Some(unpinned) = unpinned else { return Ok(false) };
        unpinned.write(&cx.api, &cx.pod, &self.annotation, &cx.node).await?;
        if let Some(reserved) = reserved {
            reserved.done.store(true, Relaxed);
        }
        Ok(true)
    }

    /// Returns true if the pod belongs to no machine, or if Reserve ran and nothing is left to write.
    fn is_done(&self, placement: &Placement) -> bool {
        let reserved = self.reserved(placement);
        instance_of(&placement.pod).is_none() || reserved.is_some_and(|reserved| reserved.done.load(Relaxed))
    }
}

impl PreBind for StickyVM {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        Ok(match self.is_done(placement) {
            true => PreFlight::NothingToDo,
            // Does not run in parallel, so that a failure of an earlier plugin does not pin the machine.
            false => PreFlight::Work { parallel: false },
        })
    }

    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        self.remember(cx).await.map(drop)
    }
}

impl PostBind for StickyVM {
    /// Writes the annotation if PreBind is not enabled.
    async fn post_bind(&self, cx: &BindCycle) {
        if self.is_done(cx) {
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
                "Recording the node of a virtual machine failed; its next pod may run elsewhere"
            );
        }
        self.warned.call_once(|| {
            tracing::warn!(
                "StickyVM is not enabled in preBind: the node of a virtual machine is recorded after its pod is bound, \
                 and is lost if the scheduler stops in between; enable StickyVM in reserve and preBind"
            );
        });
    }
}

#[cfg(test)]
mod tests;
