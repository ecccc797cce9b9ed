//! Permit: plugins that delay a pod, and their requests concerning other pods.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{Str, points::ExtensionPoint};
use harbormaster_framework::{
    cycle::{Cycle, MAX_PERMIT_WAIT, WaitingPods},
    guard::Stopped,
    meter::{Stage, Status},
    outcome::Permitted,
    pod::PodInfo,
    profile::Profile,
};

use crate::bindings::Bindings;

/// Result of Permit: the pod may be bound, perhaps after a wait.
#[derive(Debug)]
pub(crate) struct Permission {
    /// Plugins that delay the pod, each with its maximum delay.
    pub(crate) waits: Vec<(&'static str, Duration)>,
    /// Requests of plugins concerning other pods. The engine carries them out in this order after Permit.
    pub(crate) calls: Vec<PermitCall>,
}

/// A Permit plugin's request concerning another pod.
#[derive(Debug)]
pub(crate) enum PermitCall {
    Allow(Str, &'static str),
    Reject(Str, &'static str, String),
    /// Namespace and name.
    Activate(Str, Str),
}

/// Calls the Permit plugins of the profile, in order.
pub(crate) fn permit(
    profile: &Profile,
    cx: &Cycle<'_>,
    bindings: &Bindings,
    node: &Str,
) -> Result<Permission, Stopped> {
    let status = |permitted: &Result<Permission, Stopped>| match permitted {
        Ok(permission) if permission.waits.is_empty() => Status::Success,
        Ok(_) => Status::Wait,
        Err(stopped) => stopped.status(),
    };
    profile.measured(Stage::Permit, status, || call_plugins(profile, cx, bindings, node))
}

fn call_plugins(
    profile: &Profile,
    cx: &Cycle<'_>,
    bindings: &Bindings,
    node: &Str,
) -> Result<Permission, Stopped> {
    let mut waiting = WaitingPodsView { bindings, calls: Vec::new() };
    let mut waits = Vec::new();
    for plugin in profile.at(ExtensionPoint::Permit) {
        let erased = profile.plugin(*plugin);
        match erased.permit(cx, node, &mut waiting)? {
            Permitted::Allow => {}
            Permitted::Wait(at_most) => waits.push((erased.name(), at_most.min(MAX_PERMIT_WAIT))),
        }
    }
    Ok(Permission { waits, calls: waiting.calls })
}

/// The waiting pods as plugins see them.
#[derive(Debug)]
struct WaitingPodsView<'a> {
    bindings: &'a Bindings,
    calls: Vec<PermitCall>,
}

impl WaitingPods for WaitingPodsView<'_> {
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
