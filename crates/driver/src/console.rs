//! What may be asked of a running scheduler: to tell what it holds, and to tell more, or less, of what it does.

use std::sync::{Arc, mpsc};

use harbormaster_client::ApiClient;
use harbormaster_core::Notes;
use tokio::sync::{Notify, watch};

use crate::{debugger::Debugger, message::EngineMessage};

/// Asks a running scheduler. Clones share everything: one goes into a [`crate::DriverConfig`], another one to whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Console(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    dump: Notify,
    notes: watch::Sender<Option<Notes>>,
}

impl Console {
    /// Has nodes, pods and the queue written to the log, and compared with the API server, as kube-scheduler does on
    /// SIGUSR2. What is asked for while that is under way is done once more afterwards.
    pub fn dump(&self) {
        self.0.dump.notify_one();
    }

    /// Has the engine tell what belongs to that verbosity of the log: see [`Notes::at`].
    pub fn set_verbosity(&self, verbosity: i64) {
        self.0.notes.send_replace(Some(Notes::at(verbosity)));
    }

    /// Passes on what is asked until nobody schedules any more.
    pub(crate) async fn serve(self, client: ApiClient, engine: mpsc::Sender<EngineMessage>) {
        tokio::join!(
            self.pass_on_notes(&engine),
            self.dump_when_asked(Debugger::new(client, engine.clone()))
        );
    }

    async fn pass_on_notes(&self, engine: &mpsc::Sender<EngineMessage>) {
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
