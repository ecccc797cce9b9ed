//! Permit: who holds a pod back, and what Permit plugins ask for about pods that wait already.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{Str, points::ExtensionPoint};
use harbormaster_framework::{
    cluster::Cluster,
    cycle::{Cycle, MAX_PERMIT_WAIT, WaitingPods},
    guard::Stopped,
    meter::{Stage, Status},
    outcome::Permitted,
    pod::PodInfo,
    profile::Profile,
};

use crate::bindings::Bindings;

/// The pod may go to its node, perhaps later.
#[derive(Debug)]
pub(crate) struct Permission {
    /// Plugins that hold it back, and for how long at most.
    pub(crate) waits: Vec<(&'static str, Duration)>,
    /// What plugins asked for while they ran: to be carried out afterwards, in order.
    pub(crate) calls: Vec<PermitCall>,
}

/// One call of a Permit plugin about another pod.
#[derive(Debug)]
pub(crate) enum PermitCall {
    Allow(Str, &'static str),
    Reject(Str, &'static str, String),
    /// Namespace and name.
    Activate(Str, Str),
}

/// Asks the Permit plugins of the profile, in order.
pub(crate) fn permit(
    profile: &Profile,
    cluster: &Cluster,
    bindings: &Bindings,
    pod: &PodInfo,
    node: &Str,
) -> Result<Permission, Stopped> {
    let status = |permitted: &Result<Permission, Stopped>| match permitted {
        Ok(permission) if permission.waits.is_empty() => Status::Success,
        Ok(_) => Status::Wait,
        Err(stopped) => stopped.status(),
    };
    profile.measured(Stage::Permit, status, || ask(profile, cluster, bindings, pod, node))
}

fn ask(
    profile: &Profile,
    cluster: &Cluster,
    bindings: &Bindings,
    pod: &PodInfo,
    node: &Str,
) -> Result<Permission, Stopped> {
    let mut room = WaitingRoom { bindings, calls: Vec::new() };
    let cx = Cycle::new(cluster, pod);
    let mut waits = Vec::new();
    for plugin in profile.at(ExtensionPoint::Permit) {
        let erased = profile.plugin(*plugin);
        match erased.permit(&cx, node, &mut room)? {
            Permitted::Allow => {}
            Permitted::Wait(at_most) => waits.push((erased.name(), at_most.min(MAX_PERMIT_WAIT))),
        }
    }
    Ok(Permission { waits, calls: room.calls })
}

/// The pods that wait, as plugins see them.
#[derive(Debug)]
struct WaitingRoom<'a> {
    bindings: &'a Bindings,
    calls: Vec<PermitCall>,
}

impl WaitingPods for WaitingRoom<'_> {
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)> {
        self.bindings.waiting().map(|b| (b.entry.pod.clone(), b.chosen.node().clone())).collect()
    }

    fn allow(&mut self, uid: &str, plugin: &'static str) {
        self.calls.push(PermitCall::Allow(uid.into(), plugin));
    }

    fn reject(&mut self, uid: &str, plugin: &'static str, message: String) {
        self.calls.push(PermitCall::Reject(uid.into(), plugin, message));
    }

    fn activate(&mut self, namespace: &str, name: &str) {
        self.calls.push(PermitCall::Activate(namespace.into(), name.into()));
    }
}
