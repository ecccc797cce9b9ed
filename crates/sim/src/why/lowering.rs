//! Lowers what a pod requests.

use harbormaster_api::{
    Str,
    pod::{Container, PodSpec, ResourceList},
    requests::spec_request,
};

/// Lowers the requests of the pod's containers, the largest first, until the pod as a whole requests at most `to` of
/// the resource. The overhead stays, so the result may be larger.
pub(super) fn lower(spec: &mut PodSpec, resource: &Str, to: i64) {
    let to = to.max(amount(&spec.overhead, resource));
    let room = to - amount(&spec.overhead, resource);
    cap(&mut spec.pod_level_requests, resource, room);
    containers(spec).for_each(|container| cap(&mut container.requests, resource, room));
    loop {
        let excess = spec_request(spec).named(resource) - to;
        let largest = containers(spec).max_by_key(|container| amount(&container.requests, resource));
        let Some(container) = largest.filter(|_| excess > 0) else { return };
        let before = amount(&container.requests, resource);
        if before <= 0 {
            return;
        }
        cap(&mut container.requests, resource, (before - excess).max(0));
    }
}

fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.containers.iter_mut().chain(&mut spec.init_containers)
}

fn amount(list: &ResourceList, resource: &Str) -> i64 {
    list.iter().find(|(name, _)| name == resource).map_or(0, |(_, amount)| *amount)
}

fn cap(list: &mut ResourceList, resource: &Str, most: i64) {
    for (_, amount) in list.iter_mut().filter(|(name, _)| name == resource) {
        *amount = (*amount).min(most);
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_testkit::{PodBuilder, pod};

    use super::*;

    fn lowered(pod: PodBuilder, to: i64) -> (i64, Vec<i64>) {
        let mut spec = PodSpec::clone(&pod.build().spec);
        lower(&mut spec, &"cpu".into(), to);
        let each =
            containers(&mut spec).map(|container| amount(&container.requests, &"cpu".into())).collect();
        (spec_request(&spec).named("cpu"), each)
    }

    #[test]
    fn the_largest_requests_are_lowered_first() {
        for (pod, to, expected) in [
            (pod("one").cpu("2"), 1750, (1750, vec![1750])),
            (pod("two").cpu("2").container().cpu("500m"), 1000, (1000, vec![500, 500])),
            (pod("nothing to do").cpu("500m"), 1000, (500, vec![500])),
            (pod("init").cpu("1").init_container(&[("cpu", "3")]), 1500, (1500, vec![1000, 1500])),
            (pod("sidecar").cpu("1").sidecar(&[("cpu", "2")]), 2500, (2500, vec![1000, 1500])),
            (pod("overhead").cpu("2").overhead("cpu", "500m"), 1000, (1000, vec![500])),
            (pod("overhead only").cpu("2").overhead("cpu", "500m"), 100, (500, vec![0])),
            (pod("pod level").cpu("1").pod_level("cpu", "4"), 3000, (3000, vec![1000])),
            (pod("to nothing").cpu("2").sidecar(&[("cpu", "1")]), 0, (0, vec![0, 0])),
        ] {
            assert_eq!(lowered(pod, to), expected);
        }
    }
}
