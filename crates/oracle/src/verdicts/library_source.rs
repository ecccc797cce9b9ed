//! Harbormaster as a source of verdicts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::Context;
use harbormaster_api::Release;
use harbormaster_api::features::{Feature, Features};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, explain_independent};

use super::devices;
use super::judgement::Judgement;
use super::source::{Result, VerdictSource, Verdicts, without_zeros};
use crate::generate::Cluster;

/// Harbormaster's simulator in this process. The `simulate` command cannot be used because it rejects objects that an
/// API server would reject, which random clusters contain on purpose.
#[derive(Debug)]
pub struct HarbormasterLibrary {
    /// The release of kube-scheduler that is reproduced.
    pub release: Release,
}

impl VerdictSource for HarbormasterLibrary {
    fn name(&self) -> &'static str {
        "harbormaster"
    }

    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts> {
        let config = cluster.config.to_string();
        let mut features = Features::of(self.release);
        for name in &cluster.features {
            let feature = Feature::from_name(name).with_context(|| format!("unknown feature gate {name}"))?;
            features.set(feature, true);
        }
        let explain = || explain_independent(Some(&config), features, cluster.objects.clone());
        // The panic message has already been printed to stderr.
        let report = catch_unwind(explain).map_err(|_| anyhow::anyhow!("harbormaster panicked"))??;
        let judgement: Judgement = serde_json::from_value(serde_json::to_value(report)?)?;
        let mut verdicts: Verdicts = judgement.into();
        if cluster.of_kind("DeviceClass").next().is_some() {
            let setup = Setup::read(Some(("", &config)), &Choices { features, ..Choices::default() })?;
            let inventory = Inventory::from_objects(cluster.objects.clone(), self.release)?;
            let devices = || devices::add(&setup.engine, inventory, &mut verdicts);
            catch_unwind(AssertUnwindSafe(devices))
                .map_err(|_| anyhow::anyhow!("harbormaster panicked while it allocated devices"))?;
        }
        Ok(verdicts.into_iter().map(|(pod, verdict)| (pod, without_zeros(verdict))).collect())
    }
}
