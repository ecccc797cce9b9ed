//! Requests to a running scheduler: dump its state, change its verbosity.

use std::sync::Arc;

use harbormaster_client::ApiClient;
use harbormaster_core::Notes;
use tokio::sync::{Notify, watch};

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

    /// Forwards requests until the task is aborted.
    pub(crate) async fn serve(self, client: ApiClient, engine: ToEngine) {
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
