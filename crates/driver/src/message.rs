//! Messages to the engine's thread.

use std::sync::{Arc, mpsc};

use harbormaster_core::{Dump, EngineConfig, Input, Notes};
use harbormaster_framework::{pod::PodInfo, resource::ResourceName};
use tokio::sync::{
    mpsc::{UnboundedSender, unbounded_channel},
    oneshot,
};

use crate::extenders::raw::RawObject;

/// A message to the engine's thread.
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
    /// Sets the notes that the engine records.
    TakeNotes(Notes),
    /// Replaces the configuration. Fails if the new configuration needs kinds that are not watched; the error lists
    /// them.
    TakeOver(Box<EngineConfig>, oneshot::Sender<Result<(), Vec<ResourceName>>>),
    /// Stops trying pods, and ends the engine when the bindings and evictions in progress have ended.
    Stop,
}

/// Sender of messages to the engine's thread.
///
/// The channel is unbounded, because its senders must not block their runtime. If a watch were not read in time, the
/// server would end the watch, and all objects would have to be listed again. In practice, the channel holds only the
/// messages that arrive during one attempt.
pub type ToEngine = UnboundedSender<EngineMessage>;

/// Receiver of the engine's thread, for groups of messages in the order in which they were sent.
pub type Inbox = mpsc::Receiver<Vec<EngineMessage>>;

/// Returns a sender of messages to the engine's thread, the thread's receiver, and the task that passes the messages on.
///
/// Waking a thread costs more than handling a message. The task runs after the tasks that were ready before it, so the
/// messages of all of them, for example of several watches, wake the thread once.
pub fn channel() -> (ToEngine, Inbox, impl Future<Output = ()> + Send + 'static) {
    let (to_engine, mut messages) = unbounded_channel();
    let (groups, inbox) = mpsc::channel();
    let pass_on = async move {
        let mut group = Vec::new();
        while messages.recv_many(&mut group, GROUP).await > 0 {
            if groups.send(std::mem::take(&mut group)).is_err() {
                return;
            }
        }
    };
    (to_engine, inbox, pass_on)
}

/// Maximum number of messages in a group.
const GROUP: usize = 256;

#[cfg(test)]
pub(crate) mod tests {
    use std::{cell::RefCell, iter};

    use tokio::sync::mpsc::{UnboundedReceiver, error::TryRecvError};

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

    #[tokio::test]
    async fn messages_that_ready_tasks_send_arrive_together_and_in_order() {
        let (to_engine, inbox, pass_on) = channel();
        let passing_on = tokio::spawn(pass_on);
        for count in 0..3 {
            let to_engine = to_engine.clone();
            tokio::spawn(async move { to_engine.send(EngineMessage::StatusesWritten(count)).unwrap() });
        }
        drop(to_engine);
        passing_on.await.unwrap();
        let groups: Vec<Vec<usize>> = inbox
            .iter()
            .map(|group| {
                let counts = group.iter().map(|message| match message {
                    EngineMessage::StatusesWritten(count) => *count,
                    other => panic!("{other:?}"),
                });
                counts.collect()
            })
            .collect();
        assert_eq!(groups, [[0, 1, 2]]);
    }
}
