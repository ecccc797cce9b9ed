//! Sources of verdicts.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use harbormaster_api::Release;

use crate::generate::Cluster;
use crate::verdict_oracle::{EXTENDED_CLAIM, PodVerdict, Request, VerdictOracle};

/// Verdicts by `namespace/name`.
pub type Verdicts = BTreeMap<String, PodVerdict>;

/// Result with an error message for users.
pub type Result<T> = anyhow::Result<T>;

/// Evaluates every pending pod of a cluster as if it were the only pending pod.
pub trait VerdictSource {
    /// Name in reports.
    fn name(&self) -> &str;

    /// Returns the verdicts on all pending pods.
    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts>;
}

/// kube-scheduler's plugins: one process for each set of feature gates.
#[derive(Debug)]
pub struct RealPlugins {
    release: Release,
    oracles: BTreeMap<Vec<String>, VerdictOracle>,
}

impl RealPlugins {
    /// Builds the real components of a release if necessary and starts a process.
    pub fn start(release: Release) -> Result<Self> {
        Ok(Self { release, oracles: BTreeMap::from([(Vec::new(), VerdictOracle::start(release)?)]) })
    }

    fn with_features(&mut self, features: &[String]) -> Result<&mut VerdictOracle> {
        Ok(match self.oracles.entry(features.to_vec()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(VerdictOracle::with_features(self.release, features)?),
        })
    }
}

impl VerdictSource for RealPlugins {
    fn name(&self) -> &'static str {
        "kube-scheduler"
    }

    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts> {
        let request = Request {
            id: 1,
            config: Some(cluster.config.clone()),
            objects: cluster.objects.clone(),
            ..Request::default()
        };
        let response = self.with_features(&cluster.features)?.ask(&request)?;
        if let Some(error) = response.error {
            anyhow::bail!("kube-scheduler's plugins rejected the cluster: {error}");
        }
        let has_devices = cluster.of_kind("DeviceClass").next().is_some();
        let verdicts = response.pods.into_iter().map(|mut verdict| {
            // Harbormaster's PostFilter does not run for clusters without devices.
            verdict.post_filter = verdict.post_filter.filter(|_| has_devices);
            // If a pod names a claim twice, the first allocation counts.
            for claims in verdict.allocations.values_mut() {
                let mut names = BTreeSet::new();
                claims.retain(|claim| names.insert(claim.claim.clone()));
                // A claim without requests makes the binding fail, and Harbormaster does not create it.
                claims.retain(|claim| claim.claim != EXTENDED_CLAIM || !claim.requests.is_empty());
            }
            verdict.allocations.retain(|_, claims| !claims.is_empty());
            (verdict.pod.clone(), without_zeros(verdict))
        });
        Ok(verdicts.collect())
    }
}

/// Plugins that score nodes by the claims of a pod.
const SCORES_CLAIMS: [&str; 2] = ["DynamicResources", "VolumeBinding"];

/// Removes the zero scores of the plugins for claims, which only kube-scheduler lists for pods without claims.
pub(super) fn without_zeros(mut verdict: PodVerdict) -> PodVerdict {
    for score in verdict.scores.values_mut() {
        score.plugins.retain(|plugin, score| *score != 0 || !SCORES_CLAIMS.contains(&plugin.as_str()));
    }
    verdict
}
