//! SySched: places pods beside pods that use the same system calls, so that few pods share a kernel with pods that
//! could attack it in ways that they cannot.
//!
//! The plugin has the name, the arguments and the custom resource of the plugin of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Reading order: [`profile`] (the custom resource), this file (scores), [`residents`] (what runs on the nodes).

pub mod profile;
pub mod residents;

use harbormaster::{api::Str, prelude::*, serde::Deserialize};

use profile::SeccompProfile;
use residents::{Calls, Host, Residents, size};

/// `SySchedArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// Namespace of the profile of pods that name none; `default` by default.
    pub default_profile_namespace: Option<Str>,
    /// Name of that profile; `all-syscalls` by default.
    pub default_profile_name: Option<Str>,
}

/// Places pods beside pods that use the same system calls. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct SySched {
    default_profile: (Str, Str),
}

/// System calls of the pod.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    own: Calls,
    size: i64,
}

impl Plugin for SySched {
    const NAME: &'static str = "SySched";
    const MAY_BLOCK: bool = false;
    implemented_points!();
}

impl Build for SySched {
    type Args = Args;

    fn build(args: Args, _: &BuildCycle) -> Result<Self, PluginError> {
        let namespace = args.default_profile_namespace.unwrap_or_else(|| "default".into());
        let name = args.default_profile_name.unwrap_or_else(|| "all-syscalls".into());
        Ok(Self { default_profile: (namespace, name) })
    }
}

impl Watches for SySched {
    type Resources = SeccompProfile;
}

impl Indexed for SySched {
    type Index = Residents;

    fn prepare(&self, residents: &mut Residents, view: ClusterView<'_>, pod: &PodInfo) {
        residents.update(&self.default_profile, self.watched(view.objects), pod);
    }
}

impl PreScore<WholeCluster, (), Scene> for SySched {
    fn pre_score(&self, cx: &Cycle<'_>, (): &(), _: &NodeSet) -> PluginResult<PreScored<Scene>> {
        let table = self.index(cx)?.table(&self.default_profile);
        let own = table.and_then(|table| table.calls_of(cx.pod)).filter(|own| !own.is_empty());
        // All nodes are equally good for a pod of which nothing is known.
        let Some(own) = own else { return Ok(PreScored::Skip) };
        Ok(PreScored::Continue(Scene { own: own.clone(), size: size(own) }))
    }
}

impl Score<WholeCluster, Scene> for SySched {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: true };

    fn score(&self, cx: &Cycle<'_>, scene: &Scene, node: NodeRef<'_>) -> PluginResult<i64> {
        let host = self.index(cx)?.table(&self.default_profile).and_then(|table| table.host(node.idx()));
        Ok(host.map_or(0, |host| scene.exposure(host)))
    }

    fn score_batch(&self, cx: &Cycle<'_>, scene: &Scene, scores: &mut Scores<'_>) -> PluginResult<()> {
        let table = self.index(cx)?.table(&self.default_profile);
        for (row, score) in scores.iter_mut() {
            let host = table.and_then(|table| table.host(row));
            *score = host.map_or(0, |host| scene.exposure(host));
        }
        Ok(())
    }
}

impl Scene {
    /// Returns the number of system calls that the pod would be exposed to without using them, and those that the pods
    /// on the node would be exposed to beside it.
    fn exposure(&self, host: &Host) -> i64 {
        let common: i64 =
            host.calls.iter().zip(&self.own).map(|(a, b)| i64::from((a & b).count_ones())).sum();
        let together = host.size + self.size - common;
        // Each pod uses some of them, which are part of the host's.
        let of_others = host.pods.saturating_mul(together).saturating_sub(host.used);
        of_others.saturating_add(host.size - common)
    }
}

#[cfg(test)]
mod tests;
