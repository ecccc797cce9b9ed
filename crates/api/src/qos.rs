//! Quality-of-service classes of pods.

use serde::{Deserialize, Serialize};

use crate::{
    pod::{PodSpec, ResourceList},
    resources::{CPU, MEMORY},
};

/// Quality-of-service class of a pod, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QosClass {
    /// No container requests or limits cpu or memory.
    #[default]
    BestEffort,
    /// Neither of the other classes.
    Burstable,
    /// All containers have limits for cpu and memory, and request as much.
    Guaranteed,
}

/// Sums of cpu and memory above zero.
#[derive(Default, PartialEq)]
struct Sums([i64; 2]);

impl Sums {
    /// Adds the amounts. Returns true if both are above zero.
    fn add(&mut self, list: &ResourceList) -> bool {
        let amounts = [CPU, MEMORY].map(|name| {
            let amount = list.iter().find(|(other, _)| *other == name).map_or(0, |(_, amount)| *amount);
            amount.max(0)
        });
        for (sum, amount) in self.0.iter_mut().zip(amounts) {
            *sum = sum.saturating_add(amount);
        }
        amounts.iter().all(|amount| *amount > 0)
    }
}

impl QosClass {
    /// Returns the class that the kubelet gives a pod with this spec. Requests and limits of the pod as a whole
    /// (KEP-2837) replace those of its containers.
    pub fn of(spec: &PodSpec) -> Self {
        let (mut requests, mut limits) = (Sums::default(), Sums::default());
        let is_limited = if spec.pod_level_requests.is_empty() && spec.pod_level_limits.is_empty() {
            // Every container counts, also after the first without limits.
            spec.containers.iter().chain(&spec.init_containers).fold(true, |all, container| {
                requests.add(&container.requests);
                limits.add(&container.limits) && all
            })
        } else {
            requests.add(&spec.pod_level_requests);
            limits.add(&spec.pod_level_limits)
        };
        if requests == Sums::default() && limits == Sums::default() {
            Self::BestEffort
        } else if is_limited && requests == limits {
            Self::Guaranteed
        } else {
            Self::Burstable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Container;

    fn container(requests: &[(&str, i64)], limits: &[(&str, i64)]) -> Container {
        let list =
            |pairs: &[(&str, i64)]| pairs.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
        Container { requests: list(requests), limits: list(limits), ..Container::default() }
    }

    const BOTH: &[(&str, i64)] = &[("cpu", 100), ("memory", 100)];
    const MORE: &[(&str, i64)] = &[("cpu", 200), ("memory", 100)];

    #[test]
    fn containers_determine_the_class() {
        for (containers, expected) in [
            (vec![], QosClass::BestEffort),
            (vec![container(&[], &[])], QosClass::BestEffort),
            (vec![container(&[("example.com/gpu", 1)], &[("example.com/gpu", 1)])], QosClass::BestEffort),
            (vec![container(&[("cpu", 0)], &[])], QosClass::BestEffort),
            (vec![container(BOTH, BOTH)], QosClass::Guaranteed),
            (vec![container(BOTH, MORE)], QosClass::Burstable),
            (vec![container(BOTH, &[])], QosClass::Burstable),
            (vec![container(&BOTH[..1], &BOTH[..1])], QosClass::Burstable),
            (vec![container(BOTH, BOTH), container(&[], &[])], QosClass::Burstable),
            (vec![container(BOTH, MORE), container(MORE, BOTH)], QosClass::Guaranteed),
        ] {
            let spec = PodSpec { containers: containers.clone(), ..PodSpec::default() };
            assert_eq!(QosClass::of(&spec), expected, "{containers:?}");
        }
    }

    #[test]
    fn init_containers_count_as_well() {
        let containers = vec![container(BOTH, BOTH)];
        let init_containers = vec![container(&[], &[])];
        let spec = PodSpec { containers, init_containers, ..PodSpec::default() };
        assert_eq!(QosClass::of(&spec), QosClass::Burstable);
    }

    #[test]
    fn resources_of_the_pod_as_a_whole_replace_those_of_containers() {
        let whole = container(BOTH, BOTH);
        let spec = PodSpec {
            containers: vec![container(MORE, &[])],
            pod_level_requests: whole.requests,
            pod_level_limits: whole.limits,
            ..PodSpec::default()
        };
        assert_eq!(QosClass::of(&spec), QosClass::Guaranteed);
        let spec = PodSpec { pod_level_limits: Vec::new(), ..spec };
        assert_eq!(QosClass::of(&spec), QosClass::Burstable);
    }
}
