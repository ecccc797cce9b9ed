//! The real plugins, in a Go program.

use anyhow::bail;

use super::comparable;
use crate::components::FamilyBinary;
use crate::generate::Cluster;
use crate::verdict_oracle::{PodVerdict, Request, Status, VerdictOracle};
use crate::verdicts::{Result, VerdictSource, Verdicts};

/// The running Go program with the plugins of scheduler-plugins.
#[derive(Debug)]
pub struct RealFamily(VerdictOracle);

impl RealFamily {
    /// Builds the program if necessary, and starts it.
    ///
    /// # Errors
    /// If the program cannot be built or started.
    pub fn start() -> Result<Self> {
        Ok(Self(VerdictOracle::of_program(FamilyBinary::ensure()?.path())?))
    }
}

impl VerdictSource for RealFamily {
    fn name(&self) -> &'static str {
        "scheduler-plugins"
    }

    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts> {
        let (config, objects) = (Some(cluster.config.clone()), cluster.objects.clone());
        let response = self.0.ask(&Request { config, objects, ..Request::default() })?;
        if let Some(error) = response.error {
            bail!("scheduler-plugins rejected the cluster: {error}");
        }
        let ours = |mut verdict: PodVerdict| {
            verdict.nodes.values_mut().flatten().for_each(reword);
            // The real TopologicalSort puts a pod before itself.
            verdict.before.retain(|other| *other != verdict.pod);
            (verdict.pod.clone(), comparable(verdict))
        };
        Ok(response.pods.into_iter().map(ours).collect())
    }
}

/// Replaces reasons whose wording differs.
fn reword(status: &mut Status) {
    for reason in &mut status.reasons {
        // The real reason is different for every node.
        if reason.contains("does not meet several network requirements") {
            *reason = "node(s) are too far from workloads that the pod depends on".to_owned();
        }
    }
}
