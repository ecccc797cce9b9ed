//! Who can judge a cluster.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::generate::Cluster;
use crate::verdict_oracle::{PodVerdict, Request, VerdictOracle};

/// Verdicts by `namespace/name`.
pub type Verdicts = BTreeMap<String, PodVerdict>;

/// The error says what to do; it is for a person.
pub type Result<T> = anyhow::Result<T>;

/// Judges every pending pod of a cluster as if it were the only one.
pub trait VerdictSource {
    /// What to call it in reports.
    fn name(&self) -> &str;

    /// The verdicts on all pending pods.
    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts>;
}

/// The original plugins: a process for each set of feature gates that clusters ask for.
#[derive(Debug)]
pub struct Original(BTreeMap<Vec<String>, VerdictOracle>);

impl Original {
    /// Builds the original components if need be.
    pub fn start() -> Result<Self> {
        Ok(Self(BTreeMap::from([(Vec::new(), VerdictOracle::start()?)])))
    }

    fn with_features(&mut self, features: &[String]) -> Result<&mut VerdictOracle> {
        Ok(match self.0.entry(features.to_vec()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(VerdictOracle::with_features(features)?),
        })
    }
}

impl VerdictSource for Original {
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
            anyhow::bail!("the original plugins refuse the cluster: {error}");
        }
        Ok(response.pods.into_iter().map(|verdict| (verdict.pod.clone(), without_claims(verdict))).collect())
    }
}

/// DynamicResources scores every node with nothing for a pod without claims. Harbormaster has a stand-in for it that
/// does not score; no generated pod has claims.
fn without_claims(mut verdict: PodVerdict) -> PodVerdict {
    for score in verdict.scores.values_mut() {
        score.plugins.retain(|plugin, score| plugin != "DynamicResources" || *score != 0);
    }
    verdict
}
