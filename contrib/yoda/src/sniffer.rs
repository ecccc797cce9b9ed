//! The sniffer: reports the cards of its node periodically.
//!
//! Reading order: [`nvml`] and [`fake`] (sources of cards), [`report`] (writes to the API server).
//!
//! A failure is logged once, and the next report is attempted as usual. If a sniffer keeps failing, its last report
//! becomes stale after a while, and the scheduler then avoids the node.

pub mod fake;
pub mod nvml;
pub mod report;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use harbormaster::{api::Timestamp, serde_json};
use jiff::SignedDuration;
use thiserror::Error;
use tokio::time::{MissedTickBehavior, interval};

use crate::scv::{Card, ScvSpec, ScvStatus};
use fake::FakeCards;
use nvml::NvmlCards;
use report::Reporter;

/// Reports the GPUs of a node in an Scv object with the node's name.
#[derive(Debug, Parser)]
#[command(name = "yoda-sniffer", version)]
pub struct Flags {
    /// Name of the node on which the sniffer runs
    #[arg(long)]
    pub node: String,
    /// Kubeconfig file. By default, uses the in-cluster configuration or kubectl's
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Interval between reports
    #[arg(long, default_value = "1s", value_parser = positive)]
    pub interval: Duration,
    /// Reads cards from a YAML file before each report, instead of from the NVIDIA driver
    #[arg(long, value_name = "FILE")]
    pub fake: Option<PathBuf>,
    /// Prints one report to standard output and exits
    #[arg(long)]
    pub print: bool,
}

/// The reason the sniffer cannot report.
#[derive(Debug, Error)]
pub enum SnifferError {
    /// The NVIDIA library cannot be used.
    #[error("cannot use the NVIDIA driver: {0}; use --fake FILE to read cards from a file")]
    NoDriver(nvml_wrapper::error::NvmlError),
    /// The driver does not return the number of cards.
    #[error("cannot get the number of cards from the NVIDIA driver: {0}")]
    NoCount(nvml_wrapper::error::NvmlError),
    /// The file with cards cannot be read.
    #[error("{}: {message}", path.display())]
    Fake {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        message: String,
    },
    /// The kubeconfig is invalid or missing.
    #[error("kubeconfig: {0}")]
    Kubeconfig(String),
    /// The API server returned an error or no response.
    #[error("reporting to the API server: {0}")]
    Api(#[source] Box<kube::Error>),
    /// The API server does not know the kind Scv.
    #[error(
        "reporting to the API server: the server does not serve scvs.core.run-linux.com; apply deploy/crd.yaml"
    )]
    NoDefinition,
    /// The runtime cannot be started.
    #[error("starting: {0}")]
    Process(#[from] std::io::Error),
}

/// The source of cards.
#[derive(Debug)]
enum Cards {
    Nvml(Box<NvmlCards>),
    Fake(FakeCards),
}

impl Cards {
    fn of(flags: &Flags) -> Result<Self, SnifferError> {
        Ok(match &flags.fake {
            Some(path) => Self::Fake(FakeCards::of(path)),
            None => Self::Nvml(Box::new(NvmlCards::find()?)),
        })
    }

    fn read(&self) -> Result<Vec<Card>, SnifferError> {
        match self {
            Self::Nvml(cards) => cards.read(),
            Self::Fake(cards) => cards.read(),
        }
    }

    fn status(&self) -> Result<ScvStatus, SnifferError> {
        let now = Timestamp(i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX));
        Ok(ScvStatus::of(self.read()?, now))
    }
}

/// Runs the sniffer program.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    match run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), SnifferError> {
    let cards = Cards::of(flags)?;
    if flags.print {
        let status = cards.status()?;
        println!("{}", serde_json::to_string_pretty(&status).unwrap_or_default());
        return Ok(());
    }
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    threads.block_on(async {
        let reporter = Reporter::connect(flags.kubeconfig.as_deref(), &flags.node).await?;
        tokio::select! {
            () = report_forever(&cards, &reporter, flags.interval) => Ok(()),
            ended = shutdown_signal() => Ok(ended?),
        }
    })
}

async fn report_forever(cards: &Cards, reporter: &Reporter, every: Duration) {
    let spec = ScvSpec { update_interval: i64::try_from(every.as_millis()).unwrap_or(i64::MAX) };
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = None;
    loop {
        ticks.tick().await;
        let reported = match cards.status() {
            Ok(status) => reporter.report(&spec, &status).await,
            Err(error) => Err(error),
        };
        let now = reported.err().map(|error| error.to_string());
        if now != trouble {
            match &now {
                Some(error) => tracing::error!("{error}; trying again"),
                None => tracing::info!("reporting again"),
            }
        }
        trouble = now;
    }
}

async fn shutdown_signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = tokio::signal::ctrl_c() => ended,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

fn positive(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let duration = Duration::try_from(duration).map_err(|_| "must not be negative".to_owned())?;
    if duration.is_zero() { Err("must be positive, for example 1s".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_positive_durations() {
        for (text, expected) in [("1s", 1000), ("500ms", 500), ("1m", 60_000)] {
            assert_eq!(positive(text), Ok(Duration::from_millis(expected)));
        }
        for wrong in ["0s", "-1s", "soon", ""] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_driver_the_error_names_an_alternative() {
        let error = SnifferError::NoDriver(nvml_wrapper::error::NvmlError::DriverNotLoaded).to_string();
        assert!(
            error.starts_with("cannot use the NVIDIA driver: ") && error.contains("--fake FILE"),
            "{error}"
        );
    }
}
