//! HarbormasterUnbuilt: rejects pods that need a plugin that this version lacks, so that they are not bound
//! incorrectly.
//!
//! # What it does
//! Extension point: PreFilter. The `missing` argument names the kube-scheduler plugins that the profile
//! enables and that this version lacks. If nothing is missing, the plugin does nothing.
//!
//! # Rejects when
//! The pod has a hard constraint that only a missing plugin would enforce. There is one reason per plugin: `pod needs
//! plugin GangScheduling (spec.schedulingGroup), which this version of Harbormaster does not have`. Soft constraints,
//! which affect only scores, are ignored. No evictions are attempted.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! Nothing, since no event adds a missing plugin.
//!
//! # Differs from kube-scheduler
//! kube-scheduler has no such plugin. This plugin is stricter than the plugins that it replaces, and will be removed
//! when no plugin is missing any longer.

use std::borrow::Cow;

use harbormaster_api::PodSpec;
use harbormaster_framework::prelude::*;
use serde::Deserialize;

/// Arguments of [`Unbuilt`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UnbuiltArgs {
    /// Names of enabled plugins that this version lacks.
    pub missing: Vec<String>,
}

/// A plugin with hard constraints.
#[derive(Clone, Copy, Debug)]
struct EnforcedPlugin {
    plugin: &'static str,
    /// Field of the spec that requires the plugin.
    field: &'static str,
    /// Returns true if the spec requires the plugin.
    needs: fn(&PodSpec) -> bool,
}

/// The plugins with hard constraints.
const ENFORCED: [EnforcedPlugin; 1] = [EnforcedPlugin {
    plugin: "GangScheduling",
    field: "spec.schedulingGroup",
    needs: |spec| spec.pod_group.is_some(),
}];

/// Rejects pods that need a missing plugin. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Unbuilt {
    missing: Vec<EnforcedPlugin>,
}

impl Plugin for Unbuilt {
    const NAME: &'static str = "HarbormasterUnbuilt";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(Vec::new())
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        let needs_none = self.needed(&pod.spec).next().is_none();
        if needs_none { Ok(Vec::new()) } else { Err(Unsignable) }
    }
}

impl Build for Unbuilt {
    type Args = UnbuiltArgs;

    /// Accepts missing plugins without hard constraints, since nothing needs to be enforced for them.
    fn build(args: Self::Args, _: &BuildCycle) -> Result<Self, PluginError> {
        let missing = |enforced: &EnforcedPlugin| args.missing.iter().any(|m| m == enforced.plugin);
        Ok(Self { missing: ENFORCED.into_iter().filter(missing).collect() })
    }
}

impl PreFilter for Unbuilt {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let reasons: Vec<_> = self.needed(&cx.pod.spec).map(EnforcedPlugin::reason).collect();
        match reasons.is_empty() {
            true => Ok(PreFiltered::Skip),
            false => Err(Reject { fix: Fix::NothingHelps, reasons }.into()),
        }
    }
}

impl Unbuilt {
    fn needed<'a>(&'a self, spec: &'a PodSpec) -> impl Iterator<Item = &'a EnforcedPlugin> {
        self.missing.iter().filter(|enforced| (enforced.needs)(spec))
    }
}

impl EnforcedPlugin {
    fn reason(&self) -> Cow<'static, str> {
        let Self { plugin, field, .. } = self;
        format!("pod needs plugin {plugin} ({field}), which this version of Harbormaster does not have")
            .into()
    }
}

#[cfg(test)]
mod tests;
