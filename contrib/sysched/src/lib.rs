//! SySched: places pods beside pods that use the same system calls, so that few pods share a kernel with pods that
//! could attack it in ways that they cannot.
//!
//! The plugin has the name, the arguments and the custom resource of the plugin of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Reading order: [`profile`] (the custom resource), this file (scores), [`residents`] (what runs on the nodes).

pub mod profile;
pub mod residents;

use std::collections::{BTreeMap, HashMap};

use harbormaster::{api::Str, prelude::*, serde::Deserialize};

use profile::{SeccompProfile, named_by};
use residents::{Named, Residents};

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

/// A set of system calls: bit `n` stands for the one with number `n`.
type Calls = Vec<u64>;

/// System calls of the pod and of all pods on nodes.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    own: Calls,
    of_others: HashMap<Named, Calls>,
}

impl Plugin for SySched {
    const NAME: &'static str = "SySched";
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
}

impl PreScore<WholeCluster, (), Scene> for SySched {
    fn pre_score(&self, cx: &Cycle<'_>, (): &(), _: &NodeSet) -> PluginResult<PreScored<Scene>> {
        let mut calls = Numbered { profiles: self.watched(cx.objects), numbers: BTreeMap::new() };
        let own: Named = named_by(cx.pod).into_iter().collect();
        let own = calls.of(&own, &self.default_profile);
        if own.is_empty() {
            // All nodes are equally good for a pod of which nothing is known.
            return Ok(PreScored::Skip);
        }
        let others = self.index(cx)?.all();
        let of_others = others.map(|named| (named.clone(), calls.of(named, &self.default_profile))).collect();
        Ok(PreScored::Continue(Scene { own, of_others }))
    }
}

impl Score<WholeCluster, Scene> for SySched {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: true };

    /// Returns the number of system calls that the pod would be exposed to without using them, and those that the pods
    /// on the node would be exposed to beside it.
    fn score(&self, cx: &Cycle<'_>, scene: &Scene, node: NodeRef<'_>) -> PluginResult<i64> {
        let residents = self.index(cx)?;
        let calls = |named: &Named| scene.of_others.get(named).map_or(&[][..], Vec::as_slice);
        let mut host = Calls::new();
        residents.on(node.idx()).for_each(|(named, _)| unite(&mut host, calls(named)));
        let exposed = |all: &[u64], used: &[u64]| {
            let bits = all.iter().enumerate().map(|(at, bits)| bits & !used.get(at).copied().unwrap_or(0));
            bits.map(|bits| i64::from(bits.count_ones())).sum::<i64>()
        };
        let of_pod = exposed(&host, &scene.own);
        unite(&mut host, &scene.own);
        let of_others = residents.on(node.idx()).map(|(named, pods)| {
            exposed(&host, calls(named)).saturating_mul(i64::try_from(pods).unwrap_or(i64::MAX))
        });
        Ok(of_others.fold(of_pod, i64::saturating_add))
    }
}

fn unite(calls: &mut Calls, others: &[u64]) {
    if calls.len() < others.len() {
        calls.resize(others.len(), 0);
    }
    calls.iter_mut().zip(others).for_each(|(bits, other)| *bits |= other);
}

/// Gives numbers to the names of system calls.
struct Numbered<'a> {
    profiles: Watched<'a, SeccompProfile>,
    numbers: BTreeMap<&'a Str, usize>,
}

impl<'a> Numbered<'a> {
    /// Returns the system calls of the named profiles, or those of the default profile if there are none.
    fn of(&mut self, named: &Named, default: &(Str, Str)) -> Calls {
        let mut calls = Calls::new();
        named.iter().for_each(|name| self.add(name, &mut calls));
        if calls.is_empty() {
            self.add(default, &mut calls);
        }
        calls
    }

    fn add(&mut self, (namespace, name): &(Str, Str), calls: &mut Calls) {
        let Some(profile) = self.profiles.get(namespace, name) else { return };
        for name in profile.object.allowed() {
            let next = self.numbers.len();
            let number = *self.numbers.entry(name).or_insert(next);
            if calls.len() <= number / 64 {
                calls.resize(number / 64 + 1, 0);
            }
            calls[number / 64] |= 1 << (number % 64);
        }
    }
}

#[cfg(test)]
mod tests;
