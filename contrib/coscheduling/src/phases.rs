//! Phases of PodGroups: the status that a group should have, given its members.

use harbormaster::serde::{Deserialize, Serialize};

/// Phase of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub enum Phase {
    /// There are too few members.
    #[default]
    Pending,
    /// There are enough members, and too few of them run.
    Scheduling,
    /// Enough members run or have succeeded.
    Running,
    /// Enough members have succeeded. Final.
    Finished,
    /// A member has failed, and all that are needed have started. Final.
    Failed,
    /// A phase that this program does not set.
    #[serde(other)]
    Unknown,
}

/// `status` of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct Status {
    /// `phase`; `None` in a new group.
    pub phase: Option<Phase>,
    /// Owners of the group's members.
    pub occupied_by: Option<String>,
    /// Number of members that run.
    pub running: u32,
    /// Number of members that have succeeded.
    pub succeeded: u32,
    /// Number of members that have failed.
    pub failed: u32,
    /// Time at which the group had enough members.
    pub schedule_start_time: Option<String>,
}

/// A pod that is a member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// `status.phase`.
    pub phase: String,
    /// Owners, as `namespace/name`.
    pub owners: Vec<String>,
}

impl Status {
    /// Returns the status that follows from the members at the time `now`. `min_member` is the number of members that
    /// must run together.
    #[must_use]
    pub fn next(&self, min_member: u32, members: &[Member], now: &str) -> Self {
        if matches!(self.phase, Some(Phase::Finished | Phase::Failed)) {
            return self.clone();
        }
        let count = |phase: &str| members.iter().filter(|member| member.phase == phase).count() as u32;
        let (running, succeeded, failed) = (count("Running"), count("Succeeded"), count("Failed"));
        let phase = match members.len() as u32 {
            members if members < min_member => Phase::Pending,
            _ if succeeded >= min_member => Phase::Finished,
            _ if failed > 0 && failed + running + succeeded >= min_member => Phase::Failed,
            _ if succeeded + running >= min_member => Phase::Running,
            _ => Phase::Scheduling,
        };
        let mut next = Self { phase: Some(phase), running, succeeded, failed, ..self.clone() };
        if phase != Phase::Pending && next.occupied_by.is_none() {
            next.occupied_by = owners(members);
        }
        let was_complete = self.phase.is_some_and(|phase| phase != Phase::Pending);
        if phase != Phase::Pending && (!was_complete || self.schedule_start_time.is_none()) {
            next.schedule_start_time = Some(now.to_owned());
        }
        next
    }
}

/// Owners of the first member, sorted and separated by commas.
fn owners(members: &[Member]) -> Option<String> {
    let mut owners = members.first()?.owners.clone();
    owners.sort();
    Some(owners.join(",")).filter(|owners| !owners.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(phases: &str) -> Vec<Member> {
        let member = |phase: &str| Member { phase: phase.to_owned(), owners: vec!["ns/job".to_owned()] };
        phases.split_whitespace().map(member).collect()
    }

    fn after(phase: Option<Phase>, min_member: u32, phases: &str) -> Status {
        Status { phase, ..Status::default() }.next(min_member, &members(phases), "now")
    }

    #[test]
    fn the_phase_follows_from_the_members() {
        use Phase::{Failed, Finished, Pending, Running, Scheduling};
        for (old, min_member, phases, expected) in [
            (None, 2, "Pending", Pending),
            (None, 2, "Pending Pending", Scheduling),
            (Some(Scheduling), 2, "Running Pending Pending", Scheduling),
            (Some(Scheduling), 2, "Running Running", Running),
            (Some(Scheduling), 2, "Running Succeeded", Running),
            (Some(Scheduling), 2, "Failed Pending", Scheduling),
            (Some(Scheduling), 2, "Failed Failed", Failed),
            (Some(Running), 2, "Running Failed", Failed),
            (Some(Scheduling), 2, "Succeeded Succeeded", Finished),
            (Some(Running), 2, "Succeeded Succeeded Failed", Finished),
            (Some(Running), 4, "Running Running", Pending),
            (Some(Phase::Unknown), 1, "Running", Running),
        ] {
            assert_eq!(after(old, min_member, phases).phase, Some(expected), "{old:?} {min_member} {phases}");
        }
    }

    #[test]
    fn the_end_of_a_group_is_final() {
        for phase in [Phase::Finished, Phase::Failed] {
            let ended = Status { phase: Some(phase), succeeded: 2, ..Status::default() };
            assert_eq!(ended.next(2, &[], "now"), ended, "its pods may be deleted");
        }
    }

    #[test]
    fn a_complete_group_has_an_owner_and_a_start() {
        let pending = after(None, 2, "Pending");
        assert_eq!((&pending.occupied_by, &pending.schedule_start_time), (&None, &None));
        let complete = pending.next(2, &members("Pending Pending"), "then");
        assert_eq!(complete.occupied_by.as_deref(), Some("ns/job"));
        assert_eq!(complete.schedule_start_time.as_deref(), Some("then"));
        let running = complete.next(2, &members("Running Running"), "later");
        assert_eq!((running.running, running.schedule_start_time.as_deref()), (2, Some("then")));
        let again = running.next(2, &members("Pending"), "later");
        let again = again.next(2, &members("Pending Pending"), "again");
        assert_eq!(
            again.schedule_start_time.as_deref(),
            Some("again"),
            "the group was incomplete in between"
        );
    }
}
