//! Decisions of Harbormaster's DynamicResources: the allocations of a pod's claims on every node that the pod fits, and
//! the result of PostFilter if the pod fits nowhere.

use std::sync::Arc;

use harbormaster_api::points::ExtensionPoint;
use harbormaster_api::{Str, Timestamp};
use harbormaster_core::{EngineConfig, cache::Cache};
use harbormaster_framework::{
    assume::Assume,
    attempt::{Attempt, AttemptError, Decision, DryRun, Runner, Search},
    cluster::Cluster as Nodes,
    cycle::{Cycle, PostFilterCycle, WhatIf},
    nodeset::NodeIdx,
    objects::Objects,
    outcome::{Fix, PostFiltered, Reject},
    pod::PodInfo,
    profile::Profile,
    resource::{CustomKey, RawObject},
    sweep::PluginIdx,
    table::NodeTable,
    window::Rotation,
};
use harbormaster_plugins::{
    devices::{Allocation, ResourceClaim},
    dynamic_resources::ReservedClaims,
};
use harbormaster_sim::Inventory;
use serde_json::{Value, json};

use super::Verdicts;
use crate::verdict_oracle::{ClaimAllocation, EXTENDED_CLAIM, PodVerdict, Status};

const PLUGIN: &str = "DynamicResources";

/// Adds the allocations and the results of PostFilter to the verdicts.
pub(super) fn add(config: &EngineConfig, cluster: Inventory, verdicts: &mut Verdicts) {
    let mut cache = Cache::for_profiles(&config.profiles);
    let nodes = &mut cache.cluster;
    // Times in generated clusters are either long before this time or long after it.
    nodes.set_now(Timestamp::from_secs(1_800_000_000));
    for kind in config.resources() {
        let name = kind.name();
        for object in cluster.custom_of(name.group, kind.kind()) {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let namespace = if text("namespace").is_empty() { "" } else { text("namespace") };
            let key = CustomKey {
                resource: name.to_string().into(),
                namespace: namespace.into(),
                name: text("name").into(),
            };
            nodes.set_custom(&RawObject::from_json(key, object.to_string()));
        }
    }
    cluster.objects.into_iter().for_each(|object| cache.set_object(object));
    for node in cluster.nodes {
        cache.set_node(Arc::new(node));
    }
    for pod in cluster.bound {
        if let Some(node) = pod.node_name.clone() {
            let info = cache.info(pod);
            cache.set_pod(info, &node);
        }
    }
    cache.cluster.refresh();
    let mut runners: Vec<Runner> =
        config.profiles.iter().map(|profile| Runner::new(profile.clone())).collect();
    for pod in cluster.pending {
        let pod = cache.info(pod);
        let name = format!("{}/{}", pod.namespace, pod.name);
        let runner = runners.iter_mut().find(|runner| *runner.profile().name() == pod.spec.scheduler_name);
        if let (Some(runner), Some(verdict)) = (runner, verdicts.get_mut(&name)) {
            add_for(runner, &mut cache.cluster, &pod, verdict);
        }
    }
}

fn add_for(runner: &mut Runner, nodes: &mut Nodes, pod: &Arc<PodInfo>, verdict: &mut PodVerdict) {
    let profile = runner.profile().clone();
    let Some(plugin) = plugin_at(&profile, ExtensionPoint::Reserve) else { return };
    let fitting = verdict.nodes.iter().filter(|(_, status)| status.is_none()).map(|(node, _)| node.clone());
    let fitting: Vec<String> = fitting.collect();
    if fitting.is_empty() {
        if let Ok(attempt) = find(runner, nodes, pod, &[]) {
            verdict.post_filter = post_filter(&profile, nodes, pod, &attempt);
        }
        return;
    }
    if pod.spec.resource_claims.is_empty() && pod.derived.request.scalars.is_empty() {
        return;
    }
    for node in fitting {
        let allocations = match find(runner, nodes, pod, &[node.as_str().into()]) {
            Ok(attempt) => allocations(&profile, plugin, nodes, pod, &attempt),
            Err(error) => Err(error.to_string()),
        };
        match allocations {
            Ok(claims) if claims.is_empty() => {}
            Ok(claims) => drop(verdict.allocations.insert(node, claims)),
            Err(error) => {
                let (requests, mappings, allocation) = Default::default();
                let failed = ClaimAllocation { claim: error, requests, mappings, allocation };
                verdict.allocations.insert(node, vec![failed]);
            }
        }
    }
}

fn plugin_at(profile: &Profile, point: ExtensionPoint) -> Option<PluginIdx> {
    profile.at(point).iter().copied().find(|plugin| profile.plugin(*plugin).name() == PLUGIN)
}

fn find(
    runner: &mut Runner,
    nodes: &mut Nodes,
    pod: &Arc<PodInfo>,
    preferred: &[Str],
) -> Result<Attempt, AttemptError> {
    let mut rotation = Rotation::default();
    runner.find(nodes, pod, Search { preferred, ..Search::all(&mut rotation) })
}

/// Returns the allocations that Reserve assumes for the claims of the pod on the chosen node.
fn allocations(
    profile: &Profile,
    plugin: PluginIdx,
    nodes: &mut Nodes,
    pod: &Arc<PodInfo>,
    attempt: &Attempt,
) -> Result<Vec<ClaimAllocation>, String> {
    let Decision::Node { row, .. } = attempt.decision() else { return Err("no node".to_owned()) };
    let before = unallocated_claims(nodes, pod);
    let mut assume = Assume::by(PLUGIN);
    let reserved =
        profile.plugin(plugin).reserve(&Cycle::new(nodes, pod), attempt.state(plugin), *row, &mut assume);
    let reserved = reserved.map_err(|stopped| format!("{stopped:?}"))?;
    let extended = reserved.as_deref().and_then(|reserved| reserved.downcast_ref::<ReservedClaims>());
    let extended = extended.and_then(|reserved| extended_claim(reserved, pod));
    nodes.assume(&pod.uid, assume).map_err(|error| error.to_string())?;
    let claims = before.into_iter().filter_map(|name| {
        let claim = nodes.watched::<ResourceClaim>().get(&pod.namespace, &name)?;
        let allocation = written(claim.status.allocation.as_deref()?);
        let (requests, mappings) = Default::default();
        Some(ClaimAllocation { claim: name.to_string(), requests, mappings, allocation })
    });
    let claims = claims.chain(extended).collect();
    nodes.revert_assumptions(&pod.uid);
    nodes.refresh();
    Ok(claims)
}

/// Returns the allocation as the API server would store it, with the same share ID everywhere.
fn written(allocation: &Allocation) -> Value {
    let mut allocation = serde_json::to_value(allocation).unwrap_or_default();
    let results = allocation.pointer_mut("/devices/results").and_then(Value::as_array_mut);
    for result in results.into_iter().flatten().filter(|result| !result["shareID"].is_null()) {
        result["shareID"] = json!("shared");
    }
    allocation
}

/// Returns the claim that the plugin creates for extended resources.
fn extended_claim(reserved: &ReservedClaims, pod: &PodInfo) -> Option<ClaimAllocation> {
    let (claim, allocation) = reserved.extended(pod)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    Some(ClaimAllocation {
        claim: EXTENDED_CLAIM.to_owned(),
        requests: list(&claim["spec"]["devices"]["requests"]),
        mappings: list(&reserved.extended_status("")?["requestMappings"]),
        allocation: written(allocation),
    })
}

/// Returns the names of the pod's unallocated claims, in the order of the pod's spec.
fn unallocated_claims(nodes: &Nodes, pod: &PodInfo) -> Vec<Str> {
    let claims = nodes.watched::<ResourceClaim>();
    let names = pod.spec.resource_claims.iter().filter_map(|entry| {
        entry.claim.clone().or_else(|| pod.status.resource_claims.get(&entry.name).cloned())
    });
    let is_open =
        |name: &Str| claims.get(&pod.namespace, name).is_some_and(|claim| claim.status.allocation.is_none());
    let mut open: Vec<Str> = Vec::new();
    for name in names.filter(is_open) {
        if !open.contains(&name) {
            open.push(name);
        }
    }
    open
}

fn post_filter(profile: &Profile, nodes: &mut Nodes, pod: &PodInfo, attempt: &Attempt) -> Option<Status> {
    let plugin = plugin_at(profile, ExtensionPoint::PostFilter)?;
    let Decision::Unschedulable(diagnosis) = attempt.decision() else { return None };
    let rejection = diagnosis.pre_filter.clone();
    let order = profile.at(ExtensionPoint::PreFilter);
    let earlier = order.iter().take_while(|other| **other != plugin);
    let pre_filtered = match &rejection {
        Some((Some(by), reject)) if reject.fix == Fix::NothingHelps => {
            earlier.into_iter().all(|earlier| profile.plugin(*earlier).name() != *by)
        }
        Some((None, _)) => false,
        _ => true,
    };
    let mut calls = Vec::new();
    let mut what_if = NoDryRuns { nodes, attempt };
    let mut cx = PostFilterCycle {
        pod,
        pre_filter: rejection.map(|(_, reject)| reject),
        pre_filtered,
        calls: &mut calls,
        retry_at: None,
        what_if: &mut what_if,
    };
    let (code, reasons) = match profile.plugin(plugin).post_filter(&mut cx, attempt.state(plugin)) {
        Ok(PostFiltered::NoHelp { reasons, .. }) => ("Unschedulable", reasons),
        Ok(PostFiltered::Unresolvable { reasons, .. }) => ("UnschedulableAndUnresolvable", reasons),
        Ok(PostFiltered::Nominate { .. }) => ("Success", Vec::new()),
        Err(error) => ("Error", vec![error.source.to_string().into()]),
    };
    let reasons = reasons.into_iter().map(|reason| reason.to_string()).collect();
    Some(Status { plugin: PLUGIN.to_owned(), code: code.to_owned(), reasons })
}

/// A cluster for PostFilter plugins that evict no pods.
struct NoDryRuns<'a> {
    nodes: &'a mut Nodes,
    attempt: &'a Attempt,
}

impl WhatIf for NoDryRuns<'_> {
    fn nodes(&self) -> &NodeTable {
        self.nodes.nodes()
    }

    fn objects(&self) -> &Objects {
        self.nodes.objects()
    }

    fn now(&self) -> Timestamp {
        self.nodes.now()
    }

    fn cycle<'a>(&'a self, pod: &'a PodInfo) -> Cycle<'a> {
        Cycle::new(self.nodes, pod)
    }

    fn rejection(&self, row: NodeIdx) -> Option<Reject> {
        self.attempt.rejection_of(row).cloned()
    }

    fn rejected_by(&self, row: NodeIdx) -> Option<&'static str> {
        self.attempt.rejected_by(row)
    }

    fn evictable_rows(&self) -> Vec<NodeIdx> {
        Vec::new()
    }

    fn offset(&self) -> usize {
        0
    }

    fn stops_early(&self) -> bool {
        false
    }

    fn dry_run(&mut self, row: NodeIdx) -> DryRun<'_> {
        self.attempt.dry_run(self.nodes, row, Vec::new())
    }
}
