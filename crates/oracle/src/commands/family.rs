//! `harbormaster-oracle family`.

use std::time::Duration;

use anyhow::{Result, bail};
use harbormaster_api::Release;
use harbormaster_oracle::family::{Plugin, run};
use harbormaster_oracle::generate::Shape;
use harbormaster_oracle::verdicts::Options;

use crate::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Plugin to compare with that of scheduler-plugins; all of them by default
    #[arg(long, value_name = "NAME", value_parser = plugin)]
    plugin: Option<Plugin>,
    /// Seed of the first cluster
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of clusters, with consecutive seeds
    #[arg(long, default_value_t = 500)]
    clusters: u64,
    /// Seconds to spend on shrinking a cluster that shows a difference
    #[arg(long, default_value_t = 120)]
    shrink: u64,
    /// Count the differences of all clusters by kind instead of stopping at the first
    #[arg(long)]
    keep_going: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

fn plugin(text: &str) -> Result<Plugin> {
    let found = Plugin::ALL.iter().find(|plugin| plugin.to_string() == text);
    let Some(found) = found else {
        let known: Vec<_> = Plugin::ALL.iter().map(Plugin::to_string).collect();
        bail!("the known plugins are {}", known.join(", "));
    };
    Ok(*found)
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let plugins = self.plugin.map_or(Plugin::ALL.to_vec(), |plugin| vec![plugin]);
        let mut all_equal = true;
        for plugin in plugins {
            let options = Options {
                release: Release::V1_36,
                seed: self.seed,
                clusters: self.clusters,
                shape: Shape { max_nodes: 0, max_pods: 0, admitted: false },
                shrink_for: Duration::from_secs(self.shrink),
                only: None,
                keep_going: self.keep_going,
                command: format!("family --plugin {plugin}"),
            };
            let report = run(plugin, &options, |_| {})?;
            match self.output {
                Format::Text => println!("{plugin}: {report}"),
                Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
            }
            all_equal &= report.is_equal();
        }
        Ok(all_equal)
    }
}
