//! TopologicalSort: tries the pods of an application in the order in which its workloads depend on each other.

use std::cmp::Reverse;

use harbormaster::{
    api::{Str, Timestamp},
    prelude::*,
};

use crate::{
    args::{SortArgs, namespaces},
    objects::{AppGroup, group_of, workload_of},
};

/// Orders the queue by priority, then by time; the pods of an application stand where the application stands, in the
/// order of its workloads. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct TopologicalSort {
    namespaces: Vec<Str>,
}

impl Plugin for TopologicalSort {
    const NAME: &'static str = "TopologicalSort";
    const MAY_BLOCK: bool = false;
    implemented_points!();
}

impl Build for TopologicalSort {
    type Args = SortArgs;

    fn build(args: SortArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { namespaces: namespaces(args.namespaces) })
    }
}

impl Watches for TopologicalSort {
    type Resources = AppGroup;
}

impl QueueSort for TopologicalSort {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        key(&a) < key(&b)
    }

    /// Returns whether the pod has an AppGroup, when the AppGroup was created, and the place of the pod's workload.
    fn rank(&self, queued: Queued<'_>, objects: &Objects) -> Rank {
        let Some(name) = group_of(&queued.pod.labels) else { return Rank::default() };
        let groups = self.watched(objects);
        let group = self.namespaces.iter().find_map(|namespace| groups.get(namespace, name));
        group.map_or(Rank::default(), |group| {
            [1, group.created().0, group.place_of(workload_of(&queued.pod.labels)), 0]
        })
    }
}

/// Priority, time, application, place in the application, time of the pod.
fn key<'a>(queued: &Queued<'a>) -> (Reverse<i32>, Timestamp, Option<&'a Str>, i64, Timestamp) {
    let priority = Reverse(queued.priority());
    match queued.rank {
        [1, created, place, _] => {
            (priority, Timestamp(created), group_of(&queued.pod.labels), place, queued.since)
        }
        _ => (priority, queued.since, None, 0, queued.since),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use harbormaster::{
        serde_json::{Value, from_value, json},
        testkit::{Trial, cluster, order_is_strict, pod, random::Dice, remove_custom, set_custom},
    };

    use super::*;
    use crate::objects::{GROUP, WORKLOAD};

    const WORKLOADS: [&str; 11] = ["P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11"];

    fn built(args: Value) -> TopologicalSort {
        let args: SortArgs = from_value(args).unwrap();
        TopologicalSort::build(args, &BuildCycle::default()).unwrap()
    }

    /// An AppGroup whose workloads have places in the given order.
    fn group(name: &str, created: &str, order: &[&str]) -> Value {
        let place = |(index, selector): (usize, &&str)| json!({"workload": {"selector": selector}, "index": index + 1});
        let order: Vec<Value> = order.iter().enumerate().map(place).collect();
        json!({
            "metadata": {"name": name, "namespace": "default", "creationTimestamp": created},
            "status": {"topologyOrder": order},
        })
    }

    fn member(group: &str, workload: &str) -> Arc<PodInfo> {
        pod("p").label(GROUP, group).label(WORKLOAD, workload).info()
    }

    /// Returns the names of pods in the order in which the queue would try them.
    fn sorted<'a>(nodes: &Cluster, pods: &'a [(&'a str, Arc<PodInfo>, i64)]) -> Vec<&'a str> {
        let (sort, trial) = (built(json!({})), Trial::of(built(json!({}))));
        let mut pods: Vec<_> = pods.iter().collect();
        pods.sort_by(|a, b| {
            let ranked = |(_, pod, since): &(&str, Arc<PodInfo>, i64)| {
                trial.rank(nodes, Queued::pod(pod, Timestamp::from_secs(*since)))
            };
            let queued = |entry: &'a (&'a str, Arc<PodInfo>, i64)| {
                Queued::pod(&entry.1, Timestamp::from_secs(entry.2)).ranked(ranked(entry))
            };
            match (sort.less(queued(a), queued(b)), sort.less(queued(b), queued(a))) {
                (true, _) => std::cmp::Ordering::Less,
                (_, true) => std::cmp::Ordering::Greater,
                _ => std::cmp::Ordering::Equal,
            }
        });
        pods.into_iter().map(|(name, ..)| *name).collect()
    }

    #[test]
    fn pods_of_an_application_are_tried_in_the_order_of_its_workloads() {
        let kahn = ["P1", "P10", "P9", "P8", "P7", "P6", "P5", "P4", "P3", "P2", "P11"];
        let mut nodes = cluster([], []);
        set_custom::<AppGroup>(&mut nodes, [group("app", "2027-01-15T08:00:00Z", &kahn)]);
        let pods: Vec<_> = WORKLOADS.iter().map(|workload| (*workload, member("app", workload), 5)).collect();
        assert_eq!(sorted(&nodes, &pods), kahn);
        let reverse: Vec<&str> = kahn.iter().rev().copied().collect();
        set_custom::<AppGroup>(&mut nodes, [group("app", "2027-01-15T08:00:00Z", &reverse)]);
        assert_eq!(sorted(&nodes, &pods), reverse);
    }

    #[test]
    fn an_application_stands_where_its_object_was_created_and_priority_counts_first() {
        let created = "2027-01-15T08:00:00Z";
        let seconds = Timestamp::parse(created).unwrap().0 / 1_000_000_000;
        let mut nodes = cluster([], []);
        set_custom::<AppGroup>(&mut nodes, [group("app", created, &["first", "second"])]);
        let pods = [
            ("second", member("app", "second"), seconds + 1),
            ("later", pod("p").info(), seconds + 2),
            ("first", member("app", "first"), seconds + 9),
            ("unlisted", member("app", "other"), seconds + 9),
            ("earlier", pod("p").info(), seconds - 1),
            ("important", pod("p").priority(1).info(), seconds + 99),
            ("orphan", member("gone", "first"), seconds + 5),
        ];
        let expected = ["important", "earlier", "unlisted", "first", "second", "later", "orphan"];
        assert_eq!(sorted(&nodes, &pods), expected);
        remove_custom::<AppGroup>(&mut nodes, "default", "app");
        let by_time = ["important", "earlier", "second", "later", "orphan", "first", "unlisted"];
        assert_eq!(sorted(&nodes, &pods), by_time);
    }

    #[test]
    fn the_first_namespace_that_has_the_application_counts() {
        let mut nodes = cluster([], []);
        let mut other = group("app", "2027-01-15T08:00:00Z", &["w"]);
        other["metadata"]["namespace"] = "other".into();
        set_custom::<AppGroup>(&mut nodes, [other, group("app", "2027-01-15T09:00:00Z", &["v", "w"])]);
        let place = |namespaces: Value| {
            let trial = Trial::of(built(json!({"namespaces": namespaces})));
            trial.rank(&nodes, Queued::pod(&member("app", "w"), Timestamp::default()))[2]
        };
        assert_eq!((place(json!([])), place(json!(["other", "default"])), place(json!(["gone"]))), (2, 1, 0));
    }

    #[test]
    fn it_passes_the_conformance_checks() {
        let mut dice = Dice::new(1);
        let mut nodes = cluster([], []);
        let groups = ["a", "b"].map(|name| {
            let created = dice.pick(&["1970-01-01T00:00:02Z", "1970-01-01T00:00:04Z", ""]);
            group(name, created, &["P1", "P2", "P3"])
        });
        set_custom::<AppGroup>(&mut nodes, groups);
        let trial = Trial::of(built(json!({})));
        let pods: Vec<(Arc<PodInfo>, Timestamp)> = (0..30)
            .map(|_| {
                let mut made = pod("p").priority(dice.below(2) as i32);
                if !dice.one_in(3) {
                    made = made.label(GROUP, dice.pick(&["a", "b", "gone"]));
                    made = made.label(WORKLOAD, dice.pick(&WORKLOADS[..4]));
                }
                (made.info(), Timestamp::from_secs(dice.below(6) as i64))
            })
            .collect();
        order_is_strict(&trial, &nodes, &pods);
    }
}
