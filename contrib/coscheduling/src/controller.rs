//! The controller: keeps the statuses of PodGroups up to date; see [`crate::phases`].

use std::process::ExitCode;

use status_controller::{Object, ObjectExt, Statuses};

use crate::{
    phases::{Member, Status},
    pod_group::{LABEL, PodGroup},
};

/// The statuses of PodGroups.
#[derive(Clone, Copy, Debug)]
pub struct Phases;

impl Statuses for Phases {
    type Object = PodGroup;
    type Member = Member;
    type Status = Status;
    const LABEL: Option<&'static str> = Some(LABEL);

    fn member(pod: &Object) -> Option<(String, Member)> {
        let group = pod.labels().get(LABEL).filter(|group| !group.is_empty())?;
        let namespace = pod.namespace().unwrap_or_default();
        let owners = pod.owner_references().iter().map(|owner| format!("{namespace}/{}", owner.name));
        let phase = pod.data["status"]["phase"].as_str().unwrap_or_default().to_owned();
        Some((group.clone(), Member { phase, owners: owners.collect() }))
    }

    fn members_of(group: &Object) -> String {
        group.name_any()
    }

    fn next(group: &Object, old: &Status, members: &[Member], now: &str) -> Status {
        let min_member = group.data["spec"]["minMember"].as_u64().unwrap_or(1).max(1);
        old.next(u32::try_from(min_member).unwrap_or(u32::MAX), members, now)
    }
}

/// Runs the controller's program.
pub fn main() -> ExitCode {
    status_controller::main::<Phases>("coscheduling-controller")
}
