//! Nodes, workloads with Services, and claims with volumes that are created and deleted along with pods.
//!
//! There are no controllers, so this module writes everything that controllers would write.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{PODS, allow_missing, node, unique};
use crate::components::ApiClient;

const NODES: &str = "/api/v1/nodes";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const DRIVER: &str = "csi.example.com";

/// Number of pods per workload. It is small, so that the scheduler's bounded cache for selectors fills up within a
/// quarter of an hour.
const WORKLOAD: u64 = 10;
/// One in this many pods has a claim.
const CLAIMED: u64 = 5;
/// Number of seconds between replacements of nodes.
const NODE_SECONDS: u64 = 5;

/// Creates and deletes the objects; see the [module documentation](self).
pub(super) struct Churn<'a> {
    client: &'a ApiClient,
    /// Number of pods between replacements of nodes.
    node_pods: u64,
    /// Numbers of the nodes, oldest first.
    nodes: VecDeque<usize>,
    /// Owner reference of the current ReplicaSet.
    owner: Value,
}

impl<'a> Churn<'a> {
    /// Prepares churn for `rate` pods per second and nodes numbered below `nodes`.
    pub(super) fn new(client: &'a ApiClient, rate: u64, nodes: usize) -> Self {
        let (node_pods, nodes) = (rate * NODE_SECONDS, (0..nodes).collect());
        Self { client, node_pods, nodes, owner: Value::Null }
    }

    /// Creates the objects that a new pod needs, and adds references to them to the pod. Also replaces a node if it is
    /// time to do so.
    pub(super) fn before_creation(&mut self, number: u64, pod: &mut Value) -> Result<()> {
        if number.is_multiple_of(WORKLOAD) {
            self.owner = self.create_workload(number)?;
        }
        pod["metadata"]["ownerReferences"] = json!([self.owner]);
        pod["metadata"]["labels"]["workload"] = self.owner["name"].clone();
        if number.is_multiple_of(CLAIMED) {
            let name = self.create_claim(number)?;
            pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        }
        unique::make_unique(number, pod);
        if number.is_multiple_of(self.node_pods) {
            self.replace_node()?;
        }
        Ok(())
    }

    /// Deletes the objects of a pod after the pod has been deleted.
    pub(super) fn after_deletion(&self, number: u64) -> Result<()> {
        if number.is_multiple_of(CLAIMED) {
            let name = claim_name(number);
            for collection in [CLAIMS, VOLUMES] {
                let path = format!("{collection}/{name}");
                // No controller removes the finalizers.
                self.client.merge_patch(&path, &json!({"metadata": {"finalizers": null}}))?;
                allow_missing(self.client.delete(&path))?;
            }
        }
        if (number + 1).is_multiple_of(WORKLOAD) {
            let name = workload_name(number);
            allow_missing(self.client.delete(&format!("{SETS}/{name}")))?;
            allow_missing(self.client.delete(&format!("{SERVICES}/{name}")))?;
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

    /// Creates a claim and a volume that are bound to each other. Returns their common name.
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

    /// Deletes the oldest node with its pods, and creates a new one.
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
        allow_missing(self.client.delete(&format!("{NODES}/{oldest}"))).context("deleting a node")?;
        // The first nodes have no CSINode.
        allow_missing(self.client.delete(&format!("{CSI_NODES}/{oldest}"))).context("deleting a CSINode")?;
        let pods = self.client.get(&format!("{PODS}?fieldSelector=spec.nodeName%3D{oldest}"))?;
        for pod in pods["items"].as_array().into_iter().flatten() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            allow_missing(self.client.delete(&format!("{PODS}/{name}?gracePeriodSeconds=0")))?;
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
