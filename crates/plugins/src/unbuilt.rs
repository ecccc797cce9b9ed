//! HarbormasterUnbuilt: pods that need a plugin this version does not have wait instead of being bound as if they did
//! not need it.
//!
//! # What it does
//! PreFilter, PostFilter. Its argument `missing` names the plugins of kube-scheduler that the profile enables and this
//! version lacks. Nothing is missing: it does nothing.
//!
//! In PostFilter it stands in for DynamicResources, if that is missing, and says what DynamicResources says of a pod
//! without claims: `no new claims to deallocate`. A pod that fits nowhere then has the message that it has under
//! kube-scheduler. It never helps and leaves nominations alone.
//!
//! # Rejects when
//! The pod has a hard constraint that only a missing plugin would enforce, with one reason per plugin: `pod needs
//! plugin DynamicResources (spec.resourceClaims), which this version of Harbormaster does not have`. Soft constraints,
//! which only move scores, are let pass. Evicting pods is not tried.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! Nothing: no event brings a plugin that does not exist.
//!
//! # Differs from kube-scheduler
//! Which has no such plugin. It is stricter than the plugins it stands for and goes away with the last of them.

use std::borrow::Cow;

use harbormaster_api::PodSpec;
use harbormaster_framework::prelude::*;
use serde::Deserialize;

/// Arguments of [`Unbuilt`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UnbuiltArgs {
    /// Names of plugins that are enabled and do not exist.
    pub missing: Vec<String>,
}

/// A plugin with hard constraints.
#[derive(Clone, Copy, Debug)]
struct Guarded {
    plugin: &'static str,
    /// Where a spec says that it needs the plugin.
    field: &'static str,
    /// Whether it does.
    needs: fn(&PodSpec) -> bool,
}

/// What each plugin with hard constraints is needed for.
const GUARDED: [Guarded; 2] = [
    Guarded {
        plugin: DYNAMIC_RESOURCES,
        field: "spec.resourceClaims",
        needs: |spec| !spec.resource_claims.is_empty(),
    },
    Guarded {
        plugin: "GangScheduling",
        field: "spec.schedulingGroup",
        needs: |spec| spec.pod_group.is_some(),
    },
];

const DYNAMIC_RESOURCES: &str = "DynamicResources";
/// What DynamicResources says if an earlier plugin has rejected the pod in PreFilter: it misses its state, which ends
/// PostFilter for all plugins behind it.
const NOT_PRE_FILTERED: &str = "not found";
/// Of a pod without claims.
const REASON_NO_CLAIMS: &str = "no new claims to deallocate";

/// See the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub struct Unbuilt {
    missing: Vec<Guarded>,
}

impl Plugin for Unbuilt {
    const NAME: &'static str = "HarbormasterUnbuilt";
    type FilterState = ();
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points.pre_filter().post_filter();
    }

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

    /// Names of plugins without hard constraints are fine: nothing has to be guarded for them.
    fn build(args: Self::Args, _: &BuildCycle) -> Result<Self, PluginError> {
        let missing = |guarded: &Guarded| args.missing.iter().any(|m| m == guarded.plugin);
        Ok(Self { missing: GUARDED.into_iter().filter(missing).collect() })
    }
}

impl PreFilter for Unbuilt {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let reasons: Vec<_> = self.needed(&cx.pod.spec).map(Guarded::reason).collect();
        match reasons.is_empty() {
            true => Ok(PreFiltered::Skip),
            false => Err(Reject { fix: Fix::NothingHelps, reasons }.into()),
        }
    }
}

impl PostFilter for Unbuilt {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &Self::FilterState) -> PluginResult<PostFiltered> {
        let stands_in = self.missing.iter().any(|guarded| guarded.plugin == DYNAMIC_RESOURCES);
        let without_claims = cx.pod.spec.resource_claims.is_empty();
        let not_asked = cx.pre_filter.as_ref().is_some_and(|reject| reject.fix == Fix::NothingHelps);
        if stands_in && without_claims && not_asked {
            return Err(NOT_PRE_FILTERED.into());
        }
        let reasons = if stands_in && without_claims { vec![REASON_NO_CLAIMS.into()] } else { Vec::new() };
        Ok(PostFiltered::NoHelp { reasons, nomination: Nomination::Keep })
    }
}

impl Unbuilt {
    fn needed<'a>(&'a self, spec: &'a PodSpec) -> impl Iterator<Item = &'a Guarded> {
        self.missing.iter().filter(|guarded| (guarded.needs)(spec))
    }
}

impl Guarded {
    fn reason(&self) -> Cow<'static, str> {
        let Self { plugin, field, .. } = self;
        format!("pod needs plugin {plugin} ({field}), which this version of Harbormaster does not have")
            .into()
    }
}

#[cfg(test)]
mod tests;
