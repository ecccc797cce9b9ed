//! A program that runs an extender.

use std::{io, process::ExitCode};

use clap::{Args, Command, FromArgMatches};

use crate::{
    extender::Extender,
    server::{ServeError, Server, Serving},
};

pub(crate) fn main(extender: Extender) -> ExitCode {
    let command = Serving::augment_args(Command::new("extender").about("A scheduler extender"));
    let serving = Serving::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    init_log();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("starting the runtime: {error}")),
    };
    match runtime.block_on(extender.run(&serving)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

impl Extender {
    /// Serves until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// If the extender cannot be served.
    pub async fn run(self, serving: &Serving) -> Result<(), ServeError> {
        // From now on, these signals do not kill the process.
        let stop = told_to_end();
        Server::bind(self, serving).await?.run(stop).await;
        Ok(())
    }
}

/// Logs to stderr, one line per event. Does not read `RUST_LOG`; a program that needs this must set up logging itself.
pub fn init_log() {
    // Fails only if logging is already set up.
    let _ = tracing_subscriber::fmt().with_ansi(false).with_writer(io::stderr).try_init();
}

fn failed(why: &str) -> ExitCode {
    tracing::error!("{why}");
    ExitCode::FAILURE
}

#[cfg(unix)]
fn told_to_end() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
            tracing::warn!("Signals cannot be received: this process must be killed to stop it");
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("Received a stop signal");
    }
}

#[cfg(not(unix))]
async fn told_to_end() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
