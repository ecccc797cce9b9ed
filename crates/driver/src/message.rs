//! Messages to the engine's thread.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harbormaster_core::{Dump, EngineConfig, Input, Notes, PodState};
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
    /// Requests the state of a pod that has no node yet, by namespace and name.
    PodState(String, String, oneshot::Sender<Option<Box<PodState>>>),
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

/// Messages that the engine's thread has not taken yet: groups in the order in which they were sent.
///
/// Unlike the channels of the standard library, it releases its lock before it wakes the thread, which would otherwise
/// go to sleep again at once.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<InboxState>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct InboxState {
    groups: VecDeque<Vec<EngineMessage>>,
    /// True while the engine's thread waits for messages.
    is_awaited: bool,
    /// True once all senders are gone or the engine's thread has ended.
    is_closed: bool,
}

impl Inbox {
    /// Adds a group. Returns false if nobody will take it.
    pub(crate) fn add(&self, group: Vec<EngineMessage>) -> bool {
        let mut state = self.state();
        if state.is_closed {
            return false;
        }
        state.groups.push_back(group);
        let is_awaited = std::mem::take(&mut state.is_awaited);
        drop(state);
        if is_awaited {
            self.filled.notify_one();
        }
        true
    }

    /// Takes the next group; it is empty if none has arrived.
    pub(crate) fn take(&self) -> Vec<EngineMessage> {
        self.state().groups.pop_front().unwrap_or_default()
    }

    /// Waits for a group, but not longer than `at_most`, and takes it. Returns `None` if all senders are gone, and an
    /// empty group if none has arrived.
    pub(crate) fn wait(&self, at_most: Option<Duration>) -> Option<Vec<EngineMessage>> {
        let mut state = self.state();
        state.is_awaited = true;
        let is_empty = |state: &mut InboxState| state.groups.is_empty() && !state.is_closed;
        let mut state = match at_most {
            Some(at_most) => {
                let waited = self.filled.wait_timeout_while(state, at_most, is_empty);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.filled.wait_while(state, is_empty).unwrap_or_else(PoisonError::into_inner),
        };
        state.is_awaited = false;
        let is_over = state.groups.is_empty() && state.is_closed;
        (!is_over).then(|| state.groups.pop_front().unwrap_or_default())
    }

    /// Marks the end; nothing more will be added.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.filled.notify_one();
    }

    /// Drops all groups, because the engine's thread has ended. Whoever waits for an answer then waits no longer.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.groups.clear();
    }

    fn state(&self) -> MutexGuard<'_, InboxState> {
        // A panic cannot leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a sender of messages to the engine's thread, the thread's inbox, and the task that passes the messages on.
///
/// Waking a thread costs more than handling a message. The task runs after the tasks that were ready before it, so the
/// messages of all of them, for example of several watches, wake the thread once.
pub fn channel() -> (ToEngine, Arc<Inbox>, impl Future<Output = ()> + Send + 'static) {
    let (to_engine, mut messages) = unbounded_channel();
    let inbox = Arc::new(Inbox::default());
    let to = inbox.clone();
    let pass_on = async move {
        let mut group = Vec::new();
        while messages.recv_many(&mut group, GROUP).await > 0 && to.add(std::mem::take(&mut group)) {}
        to.close();
    };
    (to_engine, inbox, pass_on)
}

/// Maximum number of messages in a group.
const GROUP: usize = 256;

#[cfg(test)]
pub(crate) mod tests {
    use std::{cell::RefCell, iter, thread};

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
        let woken = thread::spawn(move || [inbox.wait(None), inbox.wait(None)]);
        passing_on.await.unwrap();
        let [messages, end] = woken.join().unwrap();
        let counts = messages.unwrap().into_iter().map(|message| match message {
            EngineMessage::StatusesWritten(count) => count,
            other => panic!("{other:?}"),
        });
        assert_eq!(counts.collect::<Vec<_>>(), [0, 1, 2]);
        assert!(end.is_none(), "the senders are gone");
    }

    #[test]
    fn a_wait_ends_after_its_time_and_nobody_sends_to_a_thread_that_has_ended() {
        let inbox = Inbox::default();
        assert!(inbox.wait(Some(Duration::from_millis(1))).unwrap().is_empty());
        let (answer, answered) = oneshot::channel();
        let dump = vec![EngineMessage::Synced, EngineMessage::Dump(answer)];
        assert!(inbox.add(vec![EngineMessage::Lead]) && inbox.add(dump));
        assert_eq!(inbox.take().len(), 1);
        inbox.abandon();
        assert!(answered.blocking_recv().is_err());
        assert!(!inbox.add(vec![EngineMessage::Stop]) && inbox.wait(None).is_none());
    }
}
