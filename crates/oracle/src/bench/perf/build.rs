//! The objects that steps create.

use serde_json::{Value, json};

use super::super::workload::Creation;
use super::obstacle::Obstacle;
use super::op::NodeAllocatable;
use super::plan::{NodeSet, PodSet, Preparation};

/// Annotation of a CSINode with the in-tree plugins whose volumes a CSI driver serves.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// Label with which `scheduler_perf` tells the scheduler which pods are alike.
const SIGNATURE: &str = "signature";

/// Returns a node and the objects that belong to it. `step` is the number of the step, and `index` that of the node in
/// it.
pub(super) fn node(nodes: &NodeSet, step: usize, index: usize) -> Result<Vec<Creation>, Obstacle> {
    let mut node = match &nodes.template {
        Some(template) => template.render(index, nodes.count)?,
        None => default_node(),
    };
    let name = match node["metadata"]["name"].as_str() {
        Some(name) => name.to_owned(),
        None => {
            // The number of the step keeps the names apart if several steps use one template.
            let prefix = node["metadata"]["generateName"].as_str().unwrap_or("node-");
            format!("{prefix}{step}-{index}")
        }
    };
    node["metadata"]["name"] = name.as_str().into();
    node["metadata"]["labels"]["kubernetes.io/hostname"] = name.as_str().into();
    let mut further = Vec::new();
    match &nodes.preparation {
        Preparation::None => {}
        Preparation::Labels(labels) => {
            let value = &labels.label_values[index % labels.label_values.len()];
            node["metadata"]["labels"][&labels.label_key] = value.as_str().into();
        }
        Preparation::UniqueLabel(key) => node["metadata"]["labels"][key] = format!("unique-{name}").into(),
        Preparation::Allocatable(strategy) => {
            if !node["status"]["allocatable"].is_object() {
                node["status"]["allocatable"] = node["status"]["capacity"].clone();
            }
            for (resource, quantity) in &strategy.node_allocatable {
                node["status"]["allocatable"][resource] = quantity.as_str().into();
            }
            further.push(("/apis/storage.k8s.io/v1/csinodes".to_owned(), csi_node(&name, strategy)));
        }
    }
    further.insert(0, ("/api/v1/nodes".to_owned(), node));
    Ok(further)
}

fn default_node() -> Value {
    let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    json!({
        "metadata": {"generateName": "node-"},
        "status": {
            "capacity": resources, "allocatable": resources, "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn csi_node(name: &str, strategy: &NodeAllocatable) -> Value {
    let drivers = strategy.csi_node_allocatable.iter();
    let drivers =
        drivers.map(|(driver, limit)| json!({"name": driver, "nodeID": name, "allocatable": limit}));
    json!({
        "metadata": {"name": name, "annotations": {MIGRATED: strategy.migrated_plugins.join(",")}},
        "spec": {"drivers": drivers.collect::<Vec<_>>()},
    })
}

/// Returns the objects that a pod needs, and then the pod with the given index.
pub(super) fn pod(pods: &PodSet, index: usize) -> Result<Vec<Creation>, Obstacle> {
    let mut pod = match &pods.template {
        Some(template) => template.render(index, pods.count)?,
        None => default_pod(),
    };
    if let Some(batch) = pods.signature_batch {
        pod["metadata"]["labels"][SIGNATURE] = format!("signature-label-{}", index / batch).into();
    }
    let mut all = Vec::new();
    if let Some((volume, claim)) = &pods.storage {
        let name = format!("pvc-{index}");
        all.extend(bound_storage(&pods.namespace, &name, index, volume, claim));
        pod["spec"]["volumes"] = json!([{"name": "vol", "persistentVolumeClaim": {"claimName": name}}]);
    }
    all.push((super::super::creation::pods(&pods.namespace), pod));
    Ok(all)
}

fn default_pod() -> Value {
    let resources = json!({"cpu": "100m", "memory": "500Mi"});
    json!({
        "metadata": {"generateName": "pod-"},
        "spec": {"containers": [{
            "name": "pause", "image": "registry.k8s.io/pause:3.10", "ports": [{"containerPort": 80}],
            "resources": {"requests": resources, "limits": resources},
        }]},
    })
}

/// Returns a claim and a volume that are bound to each other, as the volume controller would leave them.
fn bound_storage(namespace: &str, name: &str, index: usize, volume: &Value, claim: &Value) -> [Creation; 2] {
    let volume_name = format!("{namespace}-vol-{index}");
    let mut claim = claim.clone();
    claim["metadata"]["name"] = name.into();
    claim["spec"]["volumeName"] = volume_name.as_str().into();
    claim["status"] = json!({"phase": "Bound"});
    let mut volume = volume.clone();
    volume["metadata"]["name"] = volume_name.as_str().into();
    let source = &mut volume["spec"];
    if source["csi"].is_object() {
        source["csi"]["volumeHandle"] = volume_name.as_str().into();
    } else if source["awsElasticBlockStore"].is_object() {
        source["awsElasticBlockStore"]["volumeID"] = format!("vol-{index}").into();
    }
    source["claimRef"] =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name});
    volume["status"] = json!({"phase": "Bound"});
    let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
    [(claims, claim), ("/api/v1/persistentvolumes".to_owned(), volume)]
}

/// Returns a slice with the devices of a node, which differ only in their NUMA node.
pub(super) fn slice(driver: &str, node: &str, devices: usize) -> Creation {
    let device = |index: usize| {
        json!({
            "name": format!("instance-{index}"),
            "attributes": {
                "model": {"string": "A100"}, "family": {"string": "GPU"}, "driverVersion": {"version": "1.2.3"},
                "dra.example.com/numa": {"int": index},
            },
            "capacity": {"memory": {"value": "1Gi"}},
        })
    };
    let slice = json!({
        "metadata": {"name": node},
        "spec": {
            "driver": driver, "nodeName": node, "pool": {"name": node, "generation": 0, "resourceSliceCount": 1},
            "devices": (0..devices).map(device).collect::<Vec<_>>(),
        },
    });
    ("/apis/resource.k8s.io/v1/resourceslices".to_owned(), slice)
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::super::objects::ObjectTemplate;
    use super::super::op::NodeLabels;
    use super::super::plan::PodMode;
    use super::*;

    fn nodes(preparation: Preparation) -> NodeSet {
        NodeSet { count: 3, template: None, preparation }
    }

    #[test]
    fn nodes_have_host_names_and_what_the_strategy_adds() {
        let labels =
            NodeLabels { label_key: "zone".to_owned(), label_values: vec!["a".to_owned(), "b".to_owned()] };
        let [(path, second)] = &node(&nodes(Preparation::Labels(labels)), 7, 1).unwrap()[..] else {
            panic!("one object")
        };
        assert_eq!(path, "/api/v1/nodes");
        assert_eq!(second["metadata"]["labels"], json!({"kubernetes.io/hostname": "node-7-1", "zone": "b"}));
        let strategy: NodeAllocatable = serde_json::from_value(json!({
            "nodeAllocatable": {"example.com/x": "20"},
            "csiNodeAllocatable": {"ebs": {"count": 20}},
            "migratedPlugins": ["p", "q"],
        }))
        .unwrap();
        let both = node(&nodes(Preparation::Allocatable(strategy)), 0, 0).unwrap();
        assert_eq!(
            both[0].1["status"]["allocatable"],
            json!({"cpu": "4", "memory": "32Gi", "pods": "110", "example.com/x": "20"})
        );
        assert_eq!(both[1].1["metadata"]["annotations"][MIGRATED], "p,q");
        assert_eq!(
            both[1].1["spec"]["drivers"],
            json!([{"name": "ebs", "nodeID": "node-0-0", "allocatable": {"count": 20}}])
        );
    }

    #[test]
    fn a_pod_with_storage_comes_after_its_claim_and_volume() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pod.yaml");
        std::fs::write(&path, "metadata: {generateName: p-}\nspec: {priority: '{{.Index}}'}\n").unwrap();
        let pods = PodSet {
            namespace: "ns".to_owned(),
            count: 9,
            template: Some(ObjectTemplate::read(path, Map::new()).unwrap()),
            storage: Some((json!({"spec": {"csi": {"driver": "d"}}}), json!({"spec": {}}))),
            signature_batch: Some(2),
            mode: PodMode::UntilBound,
            is_measured: false,
        };
        let all = pod(&pods, 5).unwrap();
        let paths: Vec<_> = all.iter().map(|(path, _)| path.as_str()).collect();
        let claims = "/api/v1/namespaces/ns/persistentvolumeclaims";
        assert_eq!(paths, [claims, "/api/v1/persistentvolumes", "/api/v1/namespaces/ns/pods"]);
        assert_eq!(all[0].1["spec"]["volumeName"], "ns-vol-5");
        assert_eq!(all[1].1["spec"]["csi"], json!({"driver": "d", "volumeHandle": "ns-vol-5"}));
        assert_eq!(all[1].1["spec"]["claimRef"]["name"], "pvc-5");
        assert_eq!(all[2].1["metadata"]["labels"], json!({"signature": "signature-label-2"}));
        assert_eq!(all[2].1["spec"]["priority"], "5");
    }
}
