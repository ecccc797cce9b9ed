//! Harbormaster as a source of verdicts.

use std::panic::catch_unwind;

use anyhow::Context;
use harbormaster_api::features::{Feature, Features};
use harbormaster_sim::explain_independent;

use super::judgement::Judgement;
use super::source::{Result, VerdictSource, Verdicts};
use crate::generate::Cluster;

/// Harbormaster's simulator in this process. The `simulate` command cannot be used because it rejects objects that an
/// API server would reject, which random clusters contain on purpose.
#[derive(Debug)]
pub struct HarbormasterLibrary;

impl VerdictSource for HarbormasterLibrary {
    fn name(&self) -> &'static str {
        "harbormaster"
    }

    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts> {
        let config = cluster.config.to_string();
        let mut features = Features::default();
        for name in &cluster.features {
            let feature = Feature::from_name(name).with_context(|| format!("unknown feature gate {name}"))?;
            features.set(feature, true);
        }
        let explain = || explain_independent(Some(&config), features, cluster.objects.clone());
        // The panic message has already been printed to stderr.
        let report = catch_unwind(explain).map_err(|_| anyhow::anyhow!("harbormaster panicked"))??;
        let judgement: Judgement = serde_json::from_value(serde_json::to_value(report)?)?;
        Ok(judgement.into())
    }
}
