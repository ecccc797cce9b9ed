//! Harbormaster's verdicts.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use tempfile::TempDir;

use super::judgement::Judgement;
use super::source::{Result, VerdictSource, Verdicts};
use crate::generate::Cluster;

/// Asks the program `harbormaster simulate`, once per cluster.
#[derive(Debug)]
pub struct HarbormasterCommand {
    binary: PathBuf,
    directory: TempDir,
}

impl HarbormasterCommand {
    /// Will run `binary`.
    pub fn new(binary: PathBuf) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("harbormaster-verdicts-").tempdir()?;
        Ok(Self { binary, directory })
    }
}

impl VerdictSource for HarbormasterCommand {
    fn name(&self) -> &'static str {
        "harbormaster"
    }

    fn command(&self) -> Option<String> {
        let binary = self.binary.display();
        Some(format!(
            "{binary} simulate --independent --explain -o json --config config.yaml -f cluster.yaml"
        ))
    }

    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts> {
        let config = self.directory.path().join("config.json");
        let objects = self.directory.path().join("cluster.json");
        fs::write(&config, serde_json::to_vec(&cluster.config)?)?;
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": cluster.objects});
        fs::write(&objects, serde_json::to_vec(&list)?)?;
        let output = Command::new(&self.binary)
            .args(["simulate", "--independent", "--explain", "-o", "json", "--config"])
            .arg(&config)
            .arg("-f")
            .arg(&objects)
            .output()
            .with_context(|| format!("running {}", self.binary.display()))?;
        if !output.status.success() {
            anyhow::bail!(
                "harbormaster simulate ended with {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let judgement: Judgement = serde_json::from_slice(&output.stdout)
            .context("harbormaster simulate printed something else than its JSON")?;
        Ok(judgement.into())
    }
}
