//! The sniffer: reports the cards of its node, again and again.
//!
//! Reading order: [`nvml`] and [`fake`] (where cards come from), [`report`] (where they go).
//!
//! What goes wrong while it runs is logged once and tried again with the next report: a node whose sniffer cannot report
//! is stale after a while, and the scheduler leaves it alone.

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

/// Reports the GPUs of a node in an Scv object of its name.
#[derive(Debug, Parser)]
#[command(name = "yoda-sniffer", version)]
pub struct Flags {
    /// The node on which this runs.
    #[arg(long)]
    pub node: String,
    /// How to reach the API server; without it as a pod of the cluster, or as kubectl does.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// From one report to the next.
    #[arg(long, default_value = "1s", value_parser = positive)]
    pub interval: Duration,
    /// Reports the cards of a YAML file, read anew for every report, instead of those that the NVIDIA driver tells of.
    #[arg(long, value_name = "FILE")]
    pub fake: Option<PathBuf>,
    /// Prints one report instead of sending any.
    #[arg(long)]
    pub print: bool,
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum SnifferError {
    /// The NVIDIA library cannot be used.
    #[error("the NVIDIA driver cannot be asked ({0}); with --fake FILE cards are read from a file instead")]
    NoDriver(nvml_wrapper::error::NvmlError),
    /// The driver does not say how many cards there are.
    #[error("the NVIDIA driver does not tell how many cards there are: {0}")]
    NoCount(nvml_wrapper::error::NvmlError),
    /// The file with cards cannot be read.
    #[error("{}: {message}", path.display())]
    Fake {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The API server cannot be reached by that kubeconfig.
    #[error("kubeconfig: {0}")]
    Kubeconfig(String),
    /// The API server said no, or nothing.
    #[error("reporting to the API server: {0}")]
    Api(#[source] Box<kube::Error>),
    /// There is no kind Scv.
    #[error("reporting to the API server: it does not serve scvs.core.run-linux.com; apply deploy/crd.yaml")]
    NoDefinition,
    /// This process lacks something.
    #[error("starting: {0}")]
    Process(#[from] std::io::Error),
}

/// Where cards come from.
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

/// The sniffer's program.
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
            ended = asked_to_end() => Ok(ended?),
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

async fn asked_to_end() -> std::io::Result<()> {
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
    if duration.is_zero() {
        Err("must be longer than nothing, for example 1s".to_owned())
    } else {
        Ok(duration)
    }
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
    fn without_a_driver_the_way_out_is_named() {
        let error = SnifferError::NoDriver(nvml_wrapper::error::NvmlError::DriverNotLoaded).to_string();
        assert!(
            error.starts_with("the NVIDIA driver cannot be asked (") && error.contains("--fake FILE"),
            "{error}"
        );
    }
}
