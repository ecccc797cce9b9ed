//! Statuses of answers, for measurements.

use super::Stopped;
use crate::{
    events::{ErasedRegistration, Hint},
    group::{GroupPlacement, GroupPostFiltered},
    meter::Status,
    outcome::{Bound, Permitted, PluginResult, PostFiltered, PreFiltered, PreFlight, Stop},
    plugin::{Rank, SignFragment, Turn},
    points::Slot,
};

/// An answer with a status for measurements.
pub(super) trait CallStatus {
    fn status(&self) -> Status {
        Status::Success
    }
}

impl CallStatus for () {}
impl CallStatus for bool {}
impl CallStatus for i64 {}
impl CallStatus for Rank {}
impl CallStatus for Turn {}
impl CallStatus for Slot {}
impl CallStatus for Hint {}
impl CallStatus for Option<Vec<ErasedRegistration>> {}
impl CallStatus for Vec<GroupPlacement> {}

impl CallStatus for PreFiltered<()> {
    fn status(&self) -> Status {
        if matches!(self, Self::Skip) { Status::Skip } else { Status::Success }
    }
}

impl CallStatus for Option<Vec<SignFragment>> {
    fn status(&self) -> Status {
        if self.is_some() { Status::Success } else { Status::Unschedulable }
    }
}

/// Result of PreScore: true if it returned a state.
pub(super) struct HasState(pub(super) bool);

impl CallStatus for HasState {
    fn status(&self) -> Status {
        if self.0 { Status::Success } else { Status::Skip }
    }
}

impl CallStatus for PostFiltered {
    fn status(&self) -> Status {
        match self {
            Self::Nominate { .. } => Status::Success,
            Self::NoHelp { .. } => Status::Unschedulable,
            Self::Unresolvable { .. } => Status::Unresolvable,
        }
    }
}

impl CallStatus for GroupPostFiltered {
    fn status(&self) -> Status {
        match self {
            Self::Nominate { .. } => Status::Success,
            Self::NoHelp { .. } => Status::Unschedulable,
            Self::Unresolvable { .. } => Status::Unresolvable,
        }
    }
}

impl CallStatus for Permitted {
    fn status(&self) -> Status {
        if matches!(self, Self::Wait(_)) { Status::Wait } else { Status::Success }
    }
}

impl CallStatus for PreFlight {
    fn status(&self) -> Status {
        if matches!(self, Self::NothingToDo) { Status::Skip } else { Status::Success }
    }
}

impl CallStatus for Bound {
    fn status(&self) -> Status {
        if matches!(self, Self::NotMine) { Status::Skip } else { Status::Success }
    }
}

impl<T: CallStatus> CallStatus for PluginResult<T> {
    fn status(&self) -> Status {
        self.as_ref().map_or(Status::Error, T::status)
    }
}

impl<T: CallStatus> CallStatus for Result<T, Stop> {
    fn status(&self) -> Status {
        match self {
            Ok(answer) => answer.status(),
            Err(Stop::Reject(reject)) => reject.fix.into(),
            Err(Stop::Error(_)) => Status::Error,
        }
    }
}

impl Stopped {
    /// Status for measurements.
    pub fn status(&self) -> Status {
        match self {
            Self::Reject(_, reject) => reject.fix.into(),
            Self::Error(_) => Status::Error,
        }
    }
}
