//! Messages to the engine.

use std::sync::Arc;

use harbormaster_api::Pod;
use harbormaster_core::{Dump, EngineConfig, Input, Notes, PodState, Room};
use harbormaster_framework::{pod::PodInfo, resource::ResourceName};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::extenders::raw::RawObject;

/// A message to the engine.
#[derive(Debug)]
pub enum EngineMessage {
    /// Objects in the API server's JSON form, for extenders. The corresponding inputs come next.
    Raw(Vec<RawObject>),
    /// Inputs of the engine.
    Inputs(Vec<Input>),
    /// Number of status patches that were written, given up, or merged into other patches. Sent only while the status
    /// writer accepts more patches.
    StatusesWritten(usize),
    /// Another watch has delivered all objects.
    Synced,
    /// This instance has become the leader. Until then, the engine accepts inputs but tries no pod.
    Lead,
    /// Requests all pods; the answer is empty unless this instance is the leader.
    ListPods(oneshot::Sender<Vec<Arc<PodInfo>>>),
    /// Requests the state of the engine.
    Dump(oneshot::Sender<Dump>),
    /// Requests the state of a pod that has no node yet, by namespace and name.
    PodState(String, String, oneshot::Sender<Option<Box<PodState>>>),
    /// Requests the room for copies of a pod.
    Room(Box<Pod>, oneshot::Sender<Option<Box<Room>>>),
    /// Sets the notes that the engine records.
    TakeNotes(Notes),
    /// Replaces the configuration. Fails if the new configuration needs kinds that are not watched; the error lists
    /// them.
    TakeOver(Box<EngineConfig>, oneshot::Sender<Result<(), Vec<ResourceName>>>),
    /// Stops trying pods, and ends the engine when the bindings and evictions in progress have ended.
    Stop,
}

/// Sender of messages to the engine.
///
/// The channel is unbounded, because its senders must not block their runtime. If a watch were not read in time, the
/// server would end the watch, and all objects would have to be listed again. In practice, the channel holds only the
/// messages that arrive during one attempt.
pub type ToEngine = UnboundedSender<EngineMessage>;

#[cfg(test)]
pub(crate) mod tests {
    use std::{cell::RefCell, iter};

    use tokio::sync::mpsc::{UnboundedReceiver, error::TryRecvError, unbounded_channel};

    use super::*;

    /// The engine's end of a channel without an engine.
    pub(crate) struct Received(RefCell<UnboundedReceiver<EngineMessage>>);

    /// Returns a sender and its receiver.
    pub(crate) fn without_engine() -> (ToEngine, Received) {
        let (to_engine, messages) = unbounded_channel();
        (to_engine, Received(messages.into()))
    }

    impl Received {
        pub(crate) fn try_recv(&self) -> Result<EngineMessage, TryRecvError> {
            self.0.borrow_mut().try_recv()
        }

        pub(crate) fn try_iter(&self) -> impl Iterator<Item = EngineMessage> + '_ {
            iter::from_fn(|| self.try_recv().ok())
        }
    }
}
