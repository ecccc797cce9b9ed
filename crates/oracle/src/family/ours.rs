//! The plugins in `contrib/`, in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use harbormaster_api::{Release, Timestamp, features::Features, points::ExtensionPoint};
use harbormaster_core::cache::Cache;
use harbormaster_framework::{
    objects::Objects, plugin::Queued, pod::PodInfo, profile::Profile, resource::ResourceName,
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{CustomObject, Inventory, explain_independently, independent};

use super::evictions;
use crate::generate::Cluster;
use crate::preemptions::raw;
use crate::verdicts::{Judgement, Result, VerdictSource, Verdicts};

/// The reproduced release, which is the one nearest to the version that scheduler-plugins uses.
const RELEASE: Release = Release::V1_36;

/// The plugins in `contrib/`.
#[derive(Debug, Default)]
pub struct OurFamily {
    /// The last configuration, as text, and what it sets up.
    last: Option<(String, Arc<Setup>)>,
}

impl OurFamily {
    fn setup(&mut self, config: String) -> Result<Arc<Setup>> {
        if let Some((known, setup)) = &self.last
            && *known == config
        {
            return Ok(setup.clone());
        }
        let mut choices = Choices { features: Features::of(RELEASE), ..Choices::default() };
        scheduler_plugins::register(&mut choices.plugins);
        let setup = Arc::new(Setup::read(Some(("", &config)), &choices)?);
        self.last = Some((config, setup.clone()));
        Ok(setup)
    }
}

impl VerdictSource for OurFamily {
    fn name(&self) -> &'static str {
        "harbormaster"
    }

    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts> {
        let setup = self.setup(cluster.config.to_string())?;
        let inventory = inventory(&setup, cluster)?;
        let pending = inventory.pending.clone();
        // Some plugins order the queue by objects.
        let mut cache = Cache::for_profiles(&setup.engine.profiles);
        for object in setup.engine.resources().iter().flat_map(|kind| raw(&inventory, kind)) {
            cache.cluster.set_custom(&object);
        }
        let preempts = setup.engine.profiles.iter().any(|profile| {
            let mut plugins = profile.at(ExtensionPoint::PostFilter).iter();
            // NodeResourceTopologyMatch never chooses victims.
            plugins.any(|plugin| profile.plugin(*plugin).name() != "NodeResourceTopologyMatch")
        });
        let for_engine = preempts.then(|| inventory.clone());
        let report = independent(&setup.engine, inventory.clone());
        let mut explanations = Vec::new();
        let tell = &mut |_: &_, said| explanations.push(said);
        explain_independently(&setup.engine, inventory, &report, &|_| true, tell);
        let mut verdicts: Verdicts = Judgement::of(&report, &explanations)?.into();
        let profiles: BTreeMap<_, _> =
            setup.engine.profiles.iter().map(|profile| (profile.name().clone(), profile)).collect();
        let pending: Vec<Arc<PodInfo>> = pending.into_iter().map(PodInfo::standalone).collect();
        for at in 0..pending.len() {
            let pod = &pending[at];
            let profile = profiles.get(&pod.spec.scheduler_name).context("a pod without a profile")?;
            if let Some(verdict) = verdicts.get_mut(&pod.full_name()) {
                verdict.before = before(profile, &pending, at, cache.cluster.objects())?;
            }
        }
        if let Some(inventory) = for_engine {
            evictions::add(&setup, inventory, &mut verdicts)?;
        }
        Ok(verdicts.into_iter().map(|(pod, verdict)| (pod, super::comparable(verdict))).collect())
    }
}

/// Returns the objects of the cluster, including those of the kinds that the plugins add.
fn inventory(setup: &Setup, cluster: &Cluster) -> Result<Inventory> {
    let mut inventory = Inventory::from_objects(cluster.objects.clone(), RELEASE)?;
    for kind in setup.engine.resources() {
        let ResourceName { plural, version, group } = kind.name();
        let known = inventory.custom_of(group, kind.kind()).next().is_some();
        let api_version = format!("{group}/{version}");
        let objects = cluster.of_kind(kind.kind()).filter(|object| object["apiVersion"] == *api_version);
        let custom: Vec<CustomObject> = objects
            .map(|value| {
                let (group, kind) = (group.to_owned(), kind.kind().to_owned());
                CustomObject { group, kind, value: value.clone() }
            })
            .collect();
        if !known {
            inventory.custom.extend(custom);
            inventory.served.push([group, version, plural].map(str::to_owned));
        }
    }
    Ok(inventory)
}

/// Returns the pods before which the profile's QueueSort plugin puts a pod. Pairs of pods entered the queue together.
fn before(profile: &Profile, pending: &[Arc<PodInfo>], at: usize, objects: &Objects) -> Result<Vec<String>> {
    let queued = |at: usize| {
        let entered = 1_800_000_000 + i64::try_from(at / 2).unwrap_or(0);
        let queued = Queued::pod(&pending[at], Timestamp::from_secs(entered));
        profile.rank(queued, objects).map(|rank| queued.ranked(rank))
    };
    let mut names = Vec::new();
    for (other, pod) in pending.iter().enumerate() {
        if profile.less(queued(at)?, queued(other)?)? {
            names.push(pod.full_name());
        }
    }
    names.sort();
    Ok(names)
}
