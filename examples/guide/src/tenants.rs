//! Chapter 5. TenantLimit: limits the number of scheduled pods per tenant.

use std::collections::BTreeMap;

use harbormaster::{
    api::{Pod, Str},
    prelude::*,
    serde::Deserialize,
};

const TENANT: &str = "example.com/tenant";

fn tenant_of(pod: &Pod) -> Option<&Str> {
    pod.labels.get(TENANT)
}

/// Number of scheduled pods by tenant. Tenants without scheduled pods are absent.
#[derive(Debug, Default, PartialEq)]
pub struct PodsOfTenants(BTreeMap<Str, usize>);

impl Index for PodsOfTenants {
    fn pod_joined(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        if let Some(tenant) = tenant_of(pod) {
            *self.0.entry(tenant.clone()).or_default() += 1;
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        let Some(tenant) = tenant_of(pod) else { return };
        if let Some(count) = self.0.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(tenant);
            }
        }
    }
}

/// The plugin, which is also the type of its arguments, `profiles[].pluginConfig[].args`.
#[derive(Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantLimit {
    pods_per_tenant: usize,
}

impl Build for TenantLimit {
    type Args = Self;

    fn build(args: Self, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(args)
    }
}

impl Plugin for TenantLimit {
    const NAME: &'static str = "TenantLimit";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let fewer = Action::DELETE | Action::UPDATE_POD_LABEL;
        Some(vec![Registration::hinted(EventResource::Pod, fewer, Self::after_pod)])
    }
}

impl Indexed for TenantLimit {
    type Index = PodsOfTenants;
}

impl PreFilter for TenantLimit {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let Some(tenant) = tenant_of(cx.pod) else { return Ok(PreFiltered::Skip) };
        let pods: &PodsOfTenants = self.index(cx)?;
        if pods.0.get(tenant).copied().unwrap_or(0) >= self.pods_per_tenant {
            let why = format!("tenant {tenant} has {} pods, which is all it may have", self.pods_per_tenant);
            return Err(Reject::unresolvable(why).into());
        }
        Ok(PreFiltered::Skip)
    }
}

impl TenantLimit {
    /// Wakes the pod if its tenant has lost a scheduled pod, or if the pod itself has changed.
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), new } = change else { return Ok(Hint::Queue) };
        let counted = old.node_name.is_some() && tenant_of(old) == tenant_of(pod);
        let counts = new.is_some_and(|new| tenant_of(new) == tenant_of(pod));
        Ok(if old.uid == pod.uid || counted && !counts { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        framework::ClusterEvent,
        testkit::{
            PodBuilder, Trial, Words, cluster, index_equals_rebuilt_one, node, pod, random::Dice,
            what_helps_wakes_anywhere,
        },
    };

    use super::*;

    fn of(tenant: &str, name: &str) -> PodBuilder {
        pod(name).label(TENANT, tenant)
    }

    #[test]
    fn a_tenant_at_its_limit_gets_no_more_pods_and_others_do() {
        let pods = [of("red", "a").on("n"), of("red", "b").on("n"), of("blue", "c").on("n")];
        let nodes = cluster([node("n")], pods);
        let trial = Trial::of(TenantLimit { pods_per_tenant: 2 });
        let refused = trial.pre_filter(&nodes, &of("red", "p").info()).unwrap_err().to_string();
        assert_eq!(refused, "tenant red has 2 pods, which is all it may have");
        assert!(trial.pre_filter(&nodes, &of("blue", "p").info()).is_ok());
        assert!(trial.pre_filter(&nodes, &pod("nobodys").info()).is_ok());
    }

    #[test]
    fn after_random_changes_the_index_equals_a_rebuilt_one() {
        for seed in 0..10 {
            index_equals_rebuilt_one::<PodsOfTenants>(
                seed,
                |_, name| node(name),
                |dice, name| of(dice.pick(&["red", "blue"]), name),
            );
        }
    }

    #[test]
    fn every_change_that_helps_a_pod_wakes_it() {
        let mut dice = Dice::knowing(1, Words::default().pod_label(TENANT, &["red", "blue"]));
        let trial = Trial::of(TenantLimit { pods_per_tenant: 2 });
        assert!(what_helps_wakes_anywhere(&trial, &mut dice, 40, 40) > 20);
    }

    #[test]
    fn a_pod_is_woken_when_its_tenant_has_one_pod_fewer() {
        let (trial, waits) = (Trial::of(TenantLimit { pods_per_tenant: 2 }), of("red", "p").info());
        let deleted = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
        for (gone, expected) in [(of("red", "a"), Hint::Queue), (of("blue", "b"), Hint::Skip)] {
            let gone = gone.on("n").build();
            let change = Change::Pod { old: Some(&gone), new: None };
            assert_eq!(trial.hint(deleted, &waits, &change), Some(expected));
        }
    }
}
