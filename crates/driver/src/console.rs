//! Requests to a running scheduler: dump its state, change its verbosity, ask about pods.

use std::{sync::Arc, time::Duration};

use harbormaster_api::Pod;
use harbormaster_client::ApiClient;
use harbormaster_core::{Dump, Notes, PodState, Room};
use tokio::{
    sync::{Mutex, Notify, mpsc::WeakUnboundedSender, oneshot, watch},
    time::timeout,
};

use crate::{
    debugger::Debugger,
    message::{EngineMessage, ToEngine},
};

/// Sends requests to a running scheduler. Clones share everything: one clone goes into a [`crate::DriverConfig`],
/// another clone sends requests.
#[derive(Clone, Debug, Default)]
pub struct Console(Arc<Requests>);

#[derive(Debug, Default)]
struct Requests {
    dump: Notify,
    notes: watch::Sender<Option<Notes>>,
    /// The engine that runs. Weak, because an engine ends when all its senders are gone.
    engine: watch::Sender<Option<WeakUnboundedSender<EngineMessage>>>,
    /// Held by the question that waits for its answer, so that questions do not pile up before the engine.
    asking: Mutex<()>,
}

/// Maximum time that a question waits for the questions before it, and for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The reason why a question is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No engine runs.
    #[error("the scheduler does not run yet, or it is shutting down")]
    NotRunning,
    /// The engine is busy with a long attempt.
    #[error("the scheduler is busy; ask again later")]
    Busy,
}

impl Console {
    /// Logs nodes, pods and the queue, and compares them with the API server, as kube-scheduler does on SIGUSR2. All
    /// requests that arrive during a dump are answered by one further dump.
    pub fn dump(&self) {
        self.0.dump.notify_one();
    }

    /// Sets the verbosity of the engine's notes; see [`Notes::at`].
    pub fn set_verbosity(&self, verbosity: i64) {
        self.0.notes.send_replace(Some(Notes::at(verbosity)));
    }

    /// Returns the state of a pod that has no node yet; `None` for any other pod. The engine answers between two attempts.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub async fn pod_state(&self, namespace: &str, name: &str) -> Result<Option<Box<PodState>>, Unanswered> {
        self.ask(|answer| EngineMessage::PodState(namespace.to_owned(), name.to_owned(), answer)).await
    }

    /// Returns the state of the engine. The engine visits every pod, which takes about a millisecond per 10,000 pods.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub async fn state(&self) -> Result<Dump, Unanswered> {
        self.ask(EngineMessage::Dump).await
    }

    /// Returns the room for copies of a pod that does not exist; `None` if no profile has its scheduler name. The engine
    /// answers between two attempts, and the question has no effect.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub async fn room_for(&self, pod: Pod) -> Result<Option<Box<Room>>, Unanswered> {
        self.ask(|answer| EngineMessage::Room(Box::new(pod), answer)).await
    }

    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> EngineMessage,
    ) -> Result<T, Unanswered> {
        let ask = async {
            let _turn = self.0.asking.lock().await;
            let engine = self.0.engine.borrow().as_ref().and_then(WeakUnboundedSender::upgrade);
            let engine = engine.ok_or(Unanswered::NotRunning)?;
            let (answer, answered) = oneshot::channel();
            engine.send(question(answer)).map_err(|_| Unanswered::NotRunning)?;
            drop(engine);
            answered.await.map_err(|_| Unanswered::NotRunning)
        };
        timeout(PATIENCE, ask).await.unwrap_or(Err(Unanswered::Busy))
    }

    /// Forwards requests until the task is aborted.
    pub(crate) async fn serve(self, client: ApiClient, engine: ToEngine) {
        self.0.engine.send_replace(Some(engine.downgrade()));
        tokio::join!(
            self.pass_on_notes(&engine),
            self.dump_when_asked(Debugger::new(client, engine.clone()))
        );
    }

    async fn pass_on_notes(&self, engine: &ToEngine) {
        let mut notes = self.0.notes.subscribe();
        loop {
            let wanted = *notes.borrow_and_update();
            if let Some(wanted) = wanted
                && engine.send(EngineMessage::TakeNotes(wanted)).is_err()
            {
                return;
            }
            if notes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn dump_when_asked(&self, debugger: Debugger) {
        loop {
            self.0.dump.notified().await;
            debugger.run().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::without_engine;

    #[tokio::test(start_paused = true)]
    async fn a_question_is_answered_by_the_engine_or_not_at_all() {
        let console = Console::default();
        assert_eq!(console.pod_state("a", "b").await, Err(Unanswered::NotRunning));
        let (to_engine, received) = without_engine();
        console.0.engine.send_replace(Some(to_engine.downgrade()));
        assert_eq!(console.pod_state("a", "b").await, Err(Unanswered::Busy), "nobody answers");
        assert_eq!(received.try_iter().count(), 1, "the question was sent");
        let asking = tokio::join!(console.pod_state("shop", "web"), async {
            tokio::task::yield_now().await;
            match received.try_recv() {
                Ok(EngineMessage::PodState(namespace, name, answer)) => {
                    assert_eq!((namespace.as_str(), name.as_str()), ("shop", "web"));
                    drop(answer.send(Some(Box::default())));
                }
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(asking.0, Ok(Some(Box::default())));
        drop((to_engine, received));
        assert_eq!(console.pod_state("a", "b").await, Err(Unanswered::NotRunning));
    }
}
