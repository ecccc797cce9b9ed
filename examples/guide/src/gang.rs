//! Chapter 6. Gang: binds all pods of a group together, or none of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use harbormaster::{
    api::{Pod, Str},
    prelude::*,
    serde::Deserialize,
};

const GANG: &str = "example.com/gang";
const SIZE: &str = "example.com/gang-size";

/// Namespace and name of a gang.
type Name = (Str, Str);

fn gang_of(pod: &Pod) -> Option<Name> {
    Some((pod.namespace.clone(), pod.labels.get(GANG)?.clone()))
}

/// Returns the size of the gang as given by the pod's label, or 1 if the label is missing or invalid.
fn size_of(pod: &Pod) -> usize {
    pod.labels.get(SIZE).and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// For each gang, the UIDs of its pods that have a node: pods that are waiting, being bound or running.
#[derive(Debug, Default, PartialEq)]
pub struct Gangs(BTreeMap<Name, BTreeSet<Str>>);

impl Index for Gangs {
    fn pod_joined(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        if let Some(gang) = gang_of(pod) {
            self.0.entry(gang).or_default().insert(pod.uid.clone());
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        let Some(gang) = gang_of(pod) else { return };
        if let Some(members) = self.0.get_mut(&gang) {
            members.remove(&pod.uid);
            if members.is_empty() {
                self.0.remove(&gang);
            }
        }
    }
}

/// The plugin, which is also the type of its arguments, `profiles[].pluginConfig[].args`.
#[derive(Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields)]
pub struct Gang {
    /// Number of seconds that a pod waits for the rest of its gang.
    #[serde(default = "one_minute")]
    patience_seconds: u64,
}

fn one_minute() -> u64 {
    60
}

impl Build for Gang {
    type Args = Self;

    fn build(args: Self, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(args)
    }
}

impl Plugin for Gang {
    const NAME: &'static str = "Gang";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::hinted(EventResource::Pod, Action::ADD | Action::DELETE, Self::after_pod)])
    }
}

impl Indexed for Gang {
    type Index = Gangs;
}

impl Permit for Gang {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        let Some(gang) = gang_of(cx.pod) else { return Ok(Permitted::Allow) };
        // The pod already has its node, so the index includes it.
        let Some(members) = self.index(cx)?.0.get(&gang) else { return Ok(Permitted::Allow) };
        if members.len() < size_of(cx.pod) {
            return Ok(Permitted::Wait(Duration::from_secs(self.patience_seconds)));
        }
        for member in members {
            waiting.allow(member);
        }
        Ok(Permitted::Allow)
    }
}

impl Gang {
    /// Wakes the pod if its gang gains a member, or if a pod outside the gang frees its node.
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let helps = match change {
            Change::Pod { new: Some(new), .. } => gang_of(new) == gang_of(pod),
            Change::Pod { old: Some(old), .. } => old.node_name.is_some() && gang_of(old) != gang_of(pod),
            _ => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        Scheduler,
        framework::ClusterEvent,
        simulation::Source,
        testkit::{Trial, cluster, index_equals_rebuilt_one, node, permit_lets_all_go, pod},
    };

    use super::*;

    #[test]
    fn a_new_gang_member_and_a_pod_that_frees_its_node_wake_a_pod() {
        let trial = Trial::of(Gang { patience_seconds: 60 });
        let of = |gang, name| pod(name).label(GANG, gang);
        let waits = of("g", "waits").info();
        let (own, other) = (of("g", "own"), of("h", "other"));
        for (changed, action, expected) in [
            (own.clone(), Action::ADD, Hint::Queue),
            (other.clone(), Action::ADD, Hint::Skip),
            (own.on("n"), Action::DELETE, Hint::Skip),
            (other.clone().on("n"), Action::DELETE, Hint::Queue),
            (other, Action::DELETE, Hint::Skip),
        ] {
            let changed = changed.build();
            let object = Some(&changed);
            let (old, new) = if action == Action::ADD { (None, object) } else { (object, None) };
            let event = ClusterEvent::new(EventResource::AssignedPod, action);
            assert_eq!(trial.hint(event, &waits, &Change::Pod { old, new }), Some(expected), "{changed:?}");
        }
    }

    #[test]
    fn a_gang_is_allowed_when_its_last_pod_gets_a_node_whatever_the_order() {
        let mut nodes = cluster([node("n"), node("m")], []);
        let member = |name| pod(name).label(GANG, "g").label(SIZE, "3").info();
        let pods = [(member("a"), "n"), (member("b"), "m"), (member("c"), "n")];
        permit_lets_all_go(&Trial::of(Gang { patience_seconds: 60 }), &mut nodes, &pods);
    }

    #[test]
    fn after_random_changes_the_index_equals_a_rebuilt_one() {
        for seed in 0..10 {
            index_equals_rebuilt_one::<Gangs>(
                seed,
                |_, name| node(name),
                |dice, name| pod(name).label(GANG, dice.pick(&["g", "h"])),
            );
        }
    }

    #[test]
    fn a_complete_gang_is_bound_and_an_incomplete_gang_is_not() {
        let config = include_str!("../gang/scheduler.yaml");
        let scheduler =
            Scheduler::builder().plugin::<Gang>().config("scheduler.yaml", config).build().unwrap();
        let cluster = include_str!("../gang/cluster.yaml").to_owned();
        // The clock is virtual, so the timeout takes no real time.
        let simulation =
            scheduler.simulate(&[Source { name: "cluster.yaml".to_owned(), text: cluster }]).unwrap();
        let (whole, lonely): (Vec<_>, Vec<_>) =
            simulation.report.pods.iter().partition(|pod| pod.pod.starts_with("default/workers-"));
        assert_eq!((whole.len(), lonely.len()), (3, 2));
        assert!(whole.iter().all(|pod| pod.node.is_some()), "{whole:?}");
        for pod in lonely {
            let message = pod.message.as_deref().unwrap_or_default();
            assert!(message.contains("rejected due to timeout after waiting 10s at plugin Gang"), "{pod:?}");
        }
    }
}
