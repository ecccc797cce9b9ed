//! The controller: writes into the statuses of ElasticQuotas what the running pods of their namespaces use.

use std::{collections::BTreeMap, process::ExitCode};

use harbormaster::{
    api::Decoder,
    prelude::*,
    serde::{Deserialize, Serialize},
    serde_json::Value,
};
use status_controller::{Object, Statuses};

use crate::{
    amounts::{Amounts, requested, text},
    elastic_quota::ElasticQuota,
};

/// `status` of an ElasticQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct Status {
    /// `used`: what the running pods use, at least of the resources that the quota lists.
    pub used: BTreeMap<String, Value>,
}

/// The statuses of ElasticQuotas.
#[derive(Clone, Copy, Debug)]
pub struct Used;

impl Statuses for Used {
    type Object = ElasticQuota;
    /// Requests of a pod.
    type Member = Amounts;
    type Status = Status;
    const LABEL: Option<&'static str> = None;

    fn member(pod: &Object) -> Option<(String, Amounts)> {
        if pod.data["status"]["phase"] != "Running" {
            return None;
        }
        let spec = harbormaster::serde_json::json!({
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
            "spec": pod.data["spec"], "status": pod.data["status"],
        });
        // A pod that cannot be decoded counts nowhere, as in the scheduler.
        let pod = Decoder::new().pod_value(&spec).ok()?;
        let mut amounts = Amounts::default();
        amounts.add(requested(&PodInfo::standalone(pod)));
        Some((String::new(), amounts))
    }

    fn members_of(_: &Object) -> String {
        String::new()
    }

    fn next(quota: &Object, _: &Status, members: &[Amounts], _: &str) -> Status {
        let mut sum = Amounts::default();
        members.iter().for_each(|amounts| sum.add(amounts.parts()));
        let listed = ["min", "max"].into_iter().filter_map(|field| quota.data["spec"][field].as_object());
        let mut used: BTreeMap<String, Value> =
            listed.flat_map(|list| list.keys()).map(|name| (name.clone(), "0".into())).collect();
        used.extend(sum.parts().map(|(name, amount)| (name.to_owned(), text(name, amount).into())));
        Status { used }
    }
}

/// Runs the controller's program.
pub fn main() -> ExitCode {
    status_controller::main::<Used>("capacity-scheduling-controller")
}

#[cfg(test)]
mod tests {
    use harbormaster::serde_json::{from_value, json};

    use super::*;

    fn object(value: Value) -> Object {
        from_value(value).unwrap()
    }

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    fn pod(phase: &str, init: &[(&str, &str)], containers: &[(&str, &str)]) -> Option<Amounts> {
        let list =
            |of: &[(&str, &str)]| of.iter().map(|(cpu, memory)| container(cpu, memory)).collect::<Vec<_>>();
        let pod = object(json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"initContainers": list(init), "containers": list(containers)},
            "status": {"phase": phase},
        }));
        Used::member(&pod).map(|(_, amounts)| amounts)
    }

    #[test]
    fn running_pods_count_with_their_effective_requests() {
        let small = pod("Running", &[], &[("1", "2"), ("1", "2")]).unwrap();
        let large = pod("Running", &[("2", "1"), ("2", "3")], &[("2", "1"), ("1", "1")]).unwrap();
        assert_eq!((large.get("cpu"), large.get("memory")), (3000, 3));
        assert_eq!(pod("Pending", &[], &[("1", "1")]), None);
        let quota = object(json!({
            "metadata": {"name": "q", "namespace": "ns"},
            "spec": {"min": {"cpu": "1", "a/gpu": 1}, "max": {"pods": 3}},
        }));
        let status = Used::next(&quota, &Status::default(), &[small, large], "now");
        let expected = json!({"used": {"a/gpu": "0", "cpu": "5", "memory": "7", "pods": "0"}});
        assert_eq!(json!(status), expected);
    }
}
