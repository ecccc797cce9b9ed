//! What comes and goes beside pods: nodes, workloads with their Services, claims with their volumes.
//!
//! Nobody but us looks after any of it: what a controller would write is written here.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{PODS, gone, node, unlike};
use crate::components::ApiClient;

const NODES: &str = "/api/v1/nodes";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const DRIVER: &str = "csi.example.com";

/// Pods of one workload. Few: what is kept for selectors, up to its bound, is to be full within the first quarter of an hour.
const WORKLOAD: u64 = 10;
/// Every how many pods one has a claim.
const CLAIMED: u64 = 5;
/// After how many seconds a node is replaced.
const NODE_SECONDS: u64 = 5;

/// See the [module documentation](self).
pub(super) struct Churn<'a> {
    client: &'a ApiClient,
    /// The number of pods after which a node is replaced.
    node_pods: u64,
    /// Numbers of the nodes, the oldest first.
    nodes: VecDeque<usize>,
    /// The ReplicaSet that makes pods now, as their owner.
    owner: Value,
}

impl<'a> Churn<'a> {
    /// Beside so many pods per second, on nodes with the numbers below `nodes`.
    pub(super) fn new(client: &'a ApiClient, rate: u64, nodes: usize) -> Self {
        let (node_pods, nodes) = (rate * NODE_SECONDS, (0..nodes).collect());
        Self { client, node_pods, nodes, owner: Value::Null }
    }

    /// Before the pod of that number comes: makes what it belongs to and what it needs.
    pub(super) fn before(&mut self, number: u64, pod: &mut Value) -> Result<()> {
        if number.is_multiple_of(WORKLOAD) {
            self.owner = self.create_workload(number)?;
        }
        pod["metadata"]["ownerReferences"] = json!([self.owner]);
        pod["metadata"]["labels"]["workload"] = self.owner["name"].clone();
        if number.is_multiple_of(CLAIMED) {
            let name = self.create_claim(number)?;
            pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        }
        unlike::make_unlike(number, pod);
        if number.is_multiple_of(self.node_pods) {
            self.replace_node()?;
        }
        Ok(())
    }

    /// After the pod of that number has gone.
    pub(super) fn after(&self, number: u64) -> Result<()> {
        if number.is_multiple_of(CLAIMED) {
            let name = claim_name(number);
            for collection in [CLAIMS, VOLUMES] {
                let path = format!("{collection}/{name}");
                // Nobody else takes these away.
                self.client.merge_patch(&path, &json!({"metadata": {"finalizers": null}}))?;
                gone(self.client.delete(&path))?;
            }
        }
        if (number + 1).is_multiple_of(WORKLOAD) {
            let name = workload_name(number);
            gone(self.client.delete(&format!("{SETS}/{name}")))?;
            gone(self.client.delete(&format!("{SERVICES}/{name}")))?;
        }
        Ok(())
    }

    fn create_workload(&self, number: u64) -> Result<Value> {
        let name = workload_name(number);
        let labels = json!({"workload": name});
        let template = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "registry.example/app:v1"}]},
        });
        let spec = json!({"replicas": WORKLOAD, "selector": {"matchLabels": labels}, "template": template});
        let set = json!({"metadata": {"name": name}, "spec": spec});
        let set = self.client.post(SETS, &set).context("creating a ReplicaSet")?;
        let spec = json!({"selector": labels, "ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": name}, "spec": spec});
        self.client.post(SERVICES, &service).context("creating a Service")?;
        Ok(json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": name,
            "uid": set["metadata"]["uid"],
            "controller": true,
        }))
    }

    /// A claim and a volume that have each other; the name of both.
    fn create_claim(&self, number: u64) -> Result<String> {
        let name = claim_name(number);
        let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name});
        let volume = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "claimRef": reference,
                "csi": {"driver": DRIVER, "volumeHandle": name},
            },
        });
        self.client.post(VOLUMES, &volume).context("creating a volume")?;
        let claim = json!({
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": name,
            },
        });
        self.client.post(CLAIMS, &claim).context("creating a claim")?;
        Ok(name)
    }

    /// The oldest node goes with its pods, and a new one comes.
    fn replace_node(&mut self) -> Result<()> {
        let next = self.nodes.back().map_or(0, |last| last + 1);
        let oldest = self.nodes.pop_front().unwrap_or_default();
        self.nodes.push_back(next);
        let new = node(next);
        self.client.post(NODES, &new).context("creating a node")?;
        let driver = json!({"name": DRIVER, "nodeID": "n", "allocatable": {"count": 39}});
        let drivers = json!({"metadata": new["metadata"], "spec": {"drivers": [driver]}});
        self.client.post(CSI_NODES, &drivers).context("creating a CSINode")?;

        let oldest = format!("node-{oldest}");
        gone(self.client.delete(&format!("{NODES}/{oldest}"))).context("deleting a node")?;
        // The first nodes have none.
        gone(self.client.delete(&format!("{CSI_NODES}/{oldest}"))).context("deleting a CSINode")?;
        let pods = self.client.get(&format!("{PODS}?fieldSelector=spec.nodeName%3D{oldest}"))?;
        for pod in pods["items"].as_array().into_iter().flatten() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            gone(self.client.delete(&format!("{PODS}/{name}?gracePeriodSeconds=0")))?;
        }
        Ok(())
    }
}

fn workload_name(number: u64) -> String {
    format!("workload-{}", number / WORKLOAD)
}

fn claim_name(number: u64) -> String {
    format!("claim-{number}")
}
