//! Which of several instances schedules.

/// How this instance comes to be the one that schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderElection {
    /// It schedules without asking anybody.
    #[default]
    Off,
}

impl LeaderElection {
    /// What becomes of `leaderElection.leaderElect`. Warns where an election was asked for.
    pub fn asked_for(leader_elect: bool) -> Self {
        if leader_elect {
            tracing::warn!(
                "Leader election is not built yet: this instance schedules at once, so only one may run at a time; \
                 set leaderElect to false to silence this warning"
            );
        }
        Self::Off
    }
}
