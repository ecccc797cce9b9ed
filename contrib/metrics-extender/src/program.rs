//! Flags, and the connection to the API server.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use harbormaster_extender::{ServeError, Serving, init_log, server::parse_duration};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use thiserror::Error;

use crate::{
    extender::{MetricsExtender, Mode},
    labelled::LabelledNodes,
    usage::Usage,
};

/// Timeout for connecting and writing to the API server.
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout for reads. Longer than a minute, since a watch may send nothing but a bookmark once a minute.
const SILENCE: Duration = Duration::from_secs(150);

/// Sends pods to nodes that have a label, preferring nodes with low CPU usage.
#[derive(Clone, Debug, Parser)]
#[command(name = "metrics-extender", version)]
pub struct Flags {
    /// Kubeconfig file. By default, uses the in-cluster configuration or kubectl's
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Key of the label that nodes must have, with any value
    #[arg(long, value_name = "KEY", default_value = "filter.xy.com", value_parser = label_key)]
    pub label: String,
    /// Scores from 0 to 10, or those of the article
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// Interval between requests to metrics-server, which measures every 15 s
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    pub refresh: Duration,
    /// Maximum age of metrics; older metrics are not used
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    pub max_age: Duration,
    /// Also binds pods, for configurations with a bindVerb. Requires permission to create pods/binding
    #[arg(long)]
    pub bind: bool,
    /// Logs every score
    #[arg(long, short)]
    pub verbose: bool,
    /// Address, TLS and limits.
    #[command(flatten)]
    pub serving: Serving,
}

/// The reason the extender cannot run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The kubeconfig is invalid or missing.
    #[error("kubeconfig: {0}")]
    Kubeconfig(String),
    /// Metrics would expire before the next refresh.
    #[error(
        "--max-age {max_age:?} must be longer than --refresh {refresh:?}; otherwise metrics expire before the next refresh"
    )]
    MaxAge {
        /// Maximum age of metrics.
        max_age: Duration,
        /// Interval between requests.
        refresh: Duration,
    },
    /// The server cannot start.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Runs the extender program.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    init_log();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("starting: {error}")),
    };
    match runtime.block_on(run(flags)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(why: &str) -> ExitCode {
    tracing::error!("{why}");
    ExitCode::FAILURE
}

async fn run(flags: Flags) -> Result<(), RunError> {
    let Flags { max_age, refresh, .. } = flags;
    if max_age <= refresh {
        return Err(RunError::MaxAge { max_age, refresh });
    }
    let client = connect(flags.kubeconfig.as_deref()).await?;
    let me = MetricsExtender {
        mode: flags.mode,
        label: flags.label.as_str().into(),
        verbose: flags.verbose,
        usage: Usage::new(max_age),
        labelled: LabelledNodes::default(),
        client: Some(client.clone()),
    };
    // These tasks end with the process.
    tokio::spawn(me.usage.clone().follow(client.clone(), refresh));
    tokio::spawn(me.labelled.clone().follow(client.clone(), flags.label));
    me.serve(flags.bind.then_some(client)).run(&flags.serving).await?;
    Ok(())
}

/// Configures the client, without sending a request.
async fn connect(kubeconfig: Option<&Path>) -> Result<Client, RunError> {
    let unusable = |error: &dyn std::fmt::Display| RunError::Kubeconfig(error.to_string());
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unusable(&error))?
        }
        None => Config::infer().await.map_err(|error| unusable(&error))?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.write_timeout = Some(CONNECT);
    Client::try_from(config).map_err(|error| unusable(&error))
}

/// Checks that the text is a valid label key, so that a label selector containing the text is unambiguous.
fn label_key(text: &str) -> Result<String, String> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let is_fine = |part: &str, most: usize| {
        let ends = |c: char| c.is_ascii_alphanumeric();
        (1..=most).contains(&part.len())
            && part.starts_with(ends)
            && part.ends_with(ends)
            && part.chars().all(|c| ends(c) || matches!(c, '-' | '_' | '.'))
    };
    match is_fine(name, 63) && prefix.is_none_or(|prefix| is_fine(prefix, 253)) {
        true => Ok(text.to_owned()),
        false => Err("expected a label key, such as example.com/fast".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_default_to_the_articles_label_and_sensible_values() {
        let flags = Flags::try_parse_from(["metrics-extender"]).unwrap();
        assert_eq!((flags.label.as_str(), flags.mode, flags.bind), ("filter.xy.com", Mode::Corrected, false));
        assert_eq!(flags.serving, Serving::default());
        assert!(flags.max_age > flags.refresh);
    }

    #[test]
    fn errors_about_flags_explain_what_is_expected() {
        for (args, expected) in [
            (&["--label=a=b"][..], "invalid value 'a=b' for '--label <KEY>': expected a label key"),
            (&["--label=a,b"], "expected a label key"),
            (&["--label=/a"], "expected a label key"),
            (&["--mode=exact"], "[possible values: corrected, literal]"),
            (&["--refresh=15"], "expected a time such as 500ms, 5s or 1m"),
            (&["--listen=8001"], "invalid value '8001' for '--listen <ADDRESS:PORT>'"),
            (&["--tls-cert-file=x"], "--tls-private-key-file"),
            (&["--max-requests=0"], "must be at least 1"),
            (&["--lable=x"], "a similar argument exists: '--label'"),
        ] {
            let error =
                Flags::try_parse_from(["metrics-extender"].iter().chain(args)).unwrap_err().to_string();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }

    #[tokio::test]
    async fn impossible_settings_are_rejected_at_startup() {
        let run = async |args: &[&str]| {
            let flags = Flags::try_parse_from(["metrics-extender"].iter().chain(args)).unwrap();
            run(flags).await.unwrap_err().to_string()
        };
        assert!(run(&["--max-age=10s", "--refresh=10s"]).await.contains("must be longer than --refresh"));
        let error = run(&["--kubeconfig=/nowhere/kubeconfig"]).await;
        assert!(error.starts_with("kubeconfig: ") && error.contains("/nowhere/kubeconfig"), "{error}");
    }
}
