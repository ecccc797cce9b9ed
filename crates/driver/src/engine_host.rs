//! The place where the engine runs.
//!
//! A task of the runtime owns the engine. It handles the messages that arrive one by one, such as watch events and the
//! outcomes of bindings, and tries a few pods. Waking another thread costs more than that, because the other thread's
//! processor has to fetch what this one has in its caches.
//!
//! The task lends the engine to a thread if many messages or pods wait, if the last attempt took long, or if an attempt
//! may block: on an extender, or in a [plugin that may](harbormaster_framework::plugin::Plugin::MAY_BLOCK). The thread
//! returns the engine when there is nothing left to do. Nothing that happens on the thread can delay the lease, the
//! watches or the requests in progress.
//!
//! The task runs after the tasks that were ready before it, so the messages of all of them, for example of several
//! watches, are handled together.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

use futures_util::FutureExt;
use harbormaster_core::{Effect, EngineConfig};
use harbormaster_framework::guard::panic_text;
use tokio::{
    sync::{
        mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::timeout,
};

use crate::{
    engine_loop::{EngineLoop, EngineSinks},
    message::EngineMessage,
};

/// Maximum number of messages that are taken at once.
const GROUP: usize = 256;
/// Maximum number of inputs that the task handles at once; the thread handles more.
const FEW: usize = 64;
/// Shortest sleep of an idle engine.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// Result of a run; `Err` contains the message of a panic.
pub type EngineEnd = Result<(), String>;

/// The engine, which travels between the task and the thread.
type Lent = Box<EngineLoop>;

/// Starts the task, and the thread to which it lends the engine. `unsynced` is the number of watches. No pod is tried
/// until all of them have delivered all objects and this instance is the leader.
///
/// # Errors
/// If the operating system cannot start a thread.
pub fn spawn(
    config: EngineConfig,
    unsynced: usize,
    messages: UnboundedReceiver<EngineMessage>,
    effects: Sender<Vec<Effect>>,
    sinks: EngineSinks,
) -> io::Result<oneshot::Receiver<EngineEnd>> {
    let (ended, end) = oneshot::channel();
    let (lend, borrowed) = mpsc::channel();
    let (give_back, returned) = unbounded_channel();
    thread::Builder::new().name("engine".to_owned()).spawn(move || work(&borrowed, &give_back))?;
    let (to_engine, inbox) = mpsc::channel();
    let engine = Box::new(EngineLoop::new(config, unsynced, inbox, effects, sinks));
    let host = EngineHost { messages, group: Vec::new(), to_engine, lend, returned };
    tokio::spawn(async move {
        let outcome = AssertUnwindSafe(host.run(engine)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
        // The receiver is gone if the run failed or its shutdown took too long.
        let _ = ended.send(outcome);
    });
    Ok(end)
}

/// Works with each engine that is lent.
fn work(borrowed: &mpsc::Receiver<Lent>, give_back: &UnboundedSender<Result<Lent, String>>) {
    while let Ok(mut engine) = borrowed.recv() {
        let worked = catch_unwind(AssertUnwindSafe(|| {
            engine.work();
            engine
        }));
        // The task is gone only when the process ends.
        let _ = give_back.send(worked.map_err(|panic| panic_text(&*panic).to_owned()));
    }
}

/// The task that owns the engine.
struct EngineHost {
    messages: UnboundedReceiver<EngineMessage>,
    /// Messages that have been received and not handled.
    group: Vec<EngineMessage>,
    /// Sends messages to the engine while it is lent.
    to_engine: mpsc::Sender<Vec<EngineMessage>>,
    lend: mpsc::Sender<Lent>,
    /// The engine after its work, or the message of a panic.
    returned: UnboundedReceiver<Result<Lent, String>>,
}

impl EngineHost {
    async fn run(mut self, mut engine: Lent) -> EngineEnd {
        engine.report_synced();
        while self.wait(&mut engine).await {
            if self.has_few_inputs() {
                engine.take_all(self.group.drain(..));
                engine.try_few();
                engine.forward().await;
            }
            if !self.group.is_empty() || engine.is_to_schedule() {
                engine = self.lend(engine).await?;
            }
            if engine.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Waits for messages, or for the engine's next timer. Returns false if all senders are gone.
    async fn wait(&mut self, engine: &mut EngineLoop) -> bool {
        if !self.group.is_empty() || engine.is_to_schedule() {
            return true;
        }
        let at_most = engine.rest();
        let receive = self.messages.recv_many(&mut self.group, GROUP);
        match at_most {
            Some(at_most) => !matches!(timeout(at_most.max(SHORTEST_SLEEP), receive).await, Ok(0)),
            None => receive.await > 0,
        }
    }

    fn has_few_inputs(&self) -> bool {
        let inputs = self.group.iter().map(|message| match message {
            EngineMessage::Inputs(inputs) => inputs.len(),
            _ => 1,
        });
        inputs.sum::<usize>() <= FEW
    }

    /// Lends the engine to the thread until there is nothing left to do. Meanwhile, messages go to the thread. Returns
    /// the message of a panic if there was one.
    async fn lend(&mut self, engine: Lent) -> Result<Lent, String> {
        let gone = || "its thread disappeared".to_owned();
        self.pass_on();
        self.lend.send(engine).map_err(|_| gone())?;
        loop {
            tokio::select! {
                biased;
                returned = self.returned.recv() => {
                    let mut engine = returned.ok_or_else(gone)??;
                    // These messages arrived when the thread had looked for the last time.
                    loop {
                        match engine.inbox() {
                            group if group.is_empty() => return Ok(engine),
                            group => self.group.extend(group),
                        }
                    }
                }
                1.. = self.messages.recv_many(&mut self.group, GROUP) => self.pass_on(),
            }
        }
    }

    /// Sends the messages to the engine's inbox.
    fn pass_on(&mut self) {
        if !self.group.is_empty() {
            // The receiver is the engine's, so it is gone only after a panic.
            let _ = self.to_engine.send(std::mem::take(&mut self.group));
        }
    }
}

#[cfg(test)]
mod tests;
