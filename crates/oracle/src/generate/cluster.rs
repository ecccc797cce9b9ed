//! Whole clusters and single objects for scripts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::flavour::{self, Flavour};
use super::{Random, World, config, labels, pod_affinity, quantity};

/// Size of clusters, and restrictions on their objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Maximum number of nodes; the minimum is 1.
    pub max_nodes: usize,
    /// Maximum number of pending pods; the minimum is a quarter of the maximum.
    pub max_pods: usize,
    /// If true, only objects that kube-apiserver's validation accepts are generated, and every scheduler name has a
    /// profile.
    pub admitted: bool,
}

/// A cluster as manifests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// A KubeSchedulerConfiguration v1.
    pub config: Value,
    /// Enabled feature gates that are disabled by default.
    #[serde(default)]
    pub features: Vec<String>,
    /// Namespaces, services and controllers, then nodes, then pods. A pod with `spec.nodeName` is bound.
    pub objects: Vec<Value>,
}

impl Cluster {
    /// Generates the cluster for `seed`.
    #[must_use]
    pub fn new(seed: u64, shape: &Shape) -> Self {
        Self::twice(seed, shape).0
    }

    /// Generates the cluster for `seed` at two points in time. In between, most objects change, and some are deleted or
    /// created.
    #[must_use]
    pub fn twice(seed: u64, shape: &Shape) -> (Self, Self) {
        let mut random = Random::new(seed);
        let nodes = random.range(1, shape.max_nodes);
        let pods = random.range(shape.max_pods / 4, shape.max_pods);
        let mut generator = Generator::new(random, shape.admitted, nodes);
        let config = generator.config();
        let first = Self::of(&mut generator, config.clone(), nodes, pods);
        (first, Self::of(&mut generator, config, nodes, pods))
    }

    fn of(generator: &mut Generator, config: Value, nodes: usize, pods: usize) -> Self {
        let mut objects = generator.objects();
        objects.extend((0..nodes).map(|index| generator.node(&node_name(index))));
        let bound = generator.random.below(nodes * 3);
        for index in 0..bound {
            let node = node_name(generator.random.below(nodes));
            objects.push(generator.bound_pod(&format!("bound-{index}"), &node));
        }
        objects.extend((0..pods).map(|index| generator.pending_pod(&format!("pod-{index}"))));
        objects.iter_mut().filter(|object| object["kind"] == "Pod").for_each(pod_affinity::merge_label_keys);
        Self { config, features: generator.world.features.clone(), objects }
    }

    /// Adds the namespaces that contain pods but have no object.
    pub fn add_missing_namespaces(&mut self) {
        let known: BTreeSet<&str> =
            self.of_kind("Namespace").filter_map(|object| object["metadata"]["name"].as_str()).collect();
        let of_pods =
            self.of_kind("Pod").map(|pod| pod["metadata"]["namespace"].as_str().unwrap_or("default"));
        let missing: BTreeSet<&str> = of_pods.filter(|name| !known.contains(name)).collect();
        let missing: Vec<Value> = missing
            .into_iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .collect();
        self.objects.splice(0..0, missing);
    }

    /// Returns the objects of `kind`.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }
}

/// Returns true if the object is a pod without a node.
#[must_use]
pub fn is_pending(object: &Value) -> bool {
    object["kind"] == "Pod" && object["spec"]["nodeName"].is_null()
}

fn node_name(index: usize) -> String {
    format!("node-{index}")
}

/// Generates the objects of a cluster one at a time.
pub struct Generator {
    /// Source of all choices.
    pub random: Random,
    /// Values shared by the flavours.
    pub world: World,
    flavours: Vec<&'static dyn Flavour>,
}

impl Generator {
    /// Chooses flavours and values for a cluster of about `nodes` nodes.
    #[must_use]
    pub fn new(mut random: Random, admitted: bool, nodes: usize) -> Self {
        let is_about_pods = random.chance(40);
        let is_about_devices = random.chance(25) && !admitted;
        let share = |flavour: &dyn Flavour| match (is_about_pods, flavour.relates_pods()) {
            _ if is_about_devices => {
                if flavour.is_about_devices() {
                    100
                } else {
                    flavour.share() / 8
                }
            }
            (true, true) => 85,
            (true, false) => flavour.share() / 4,
            (false, _) => flavour.share(),
        };
        let features = match random.chance(35) && !admitted {
            true => vec!["StorageCapacityScoring".to_owned()],
            false => Vec::new(),
        };
        let flavours = (flavour::all().iter().copied())
            .filter(|flavour| random.chance(share(*flavour)) && (flavour.admitted() || !admitted))
            .collect();
        let mut node_names: Vec<String> = (0..nodes).map(node_name).collect();
        node_names.push("no-such-node".to_owned());
        let mut profiles = vec!["default-scheduler".to_owned()];
        profiles.extend(["packer", "second"].iter().take(random.below(3)).map(ToString::to_string));
        let priorities = vec![0, 0, 10, -5, 2_000_000];
        let zones = random.range(1, 5);
        let world = World { admitted, node_names, zones, profiles, features, priorities };
        Self { random, world, flavours }
    }

    /// Keeps about `percent` % of the chosen flavours, so that the remaining ones reject few nodes.
    pub fn thin_out(&mut self, percent: usize) {
        let random = &mut self.random;
        self.flavours.retain(|_| random.chance(percent));
    }

    /// Returns the names of the chosen flavours.
    #[must_use]
    pub fn flavours(&self) -> Vec<&'static str> {
        self.flavours.iter().map(|flavour| flavour.name()).collect()
    }

    /// Generates the scheduler configuration.
    #[must_use]
    pub fn config(&mut self) -> Value {
        config::configuration(&mut self.random.fork(), &self.world, &self.flavours)
    }

    /// Generates the objects that are neither nodes nor pods.
    #[must_use]
    pub fn objects(&mut self) -> Vec<Value> {
        let random = &mut self.random;
        self.flavours.iter().flat_map(|flavour| flavour.objects(&mut random.fork(), &self.world)).collect()
    }

    /// Generates a node.
    #[must_use]
    pub fn node(&mut self, name: &str) -> Value {
        let random = &mut self.random;
        let resources = allocatable(random);
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {"capacity": resources, "allocatable": resources},
        });
        labels::label_node(random, &mut node);
        for flavour in &self.flavours {
            flavour.node(&mut random.fork(), &self.world, &mut node);
        }
        node
    }

    /// Generates a pending pod.
    #[must_use]
    pub fn pending_pod(&mut self, name: &str) -> Value {
        let mut pod = self.pod(name);
        for flavour in &self.flavours {
            flavour.pending(&mut self.random.fork(), &self.world, &mut pod);
        }
        pod
    }

    /// Generates a pod on `node`, or sometimes on a node that does not exist.
    #[must_use]
    pub fn bound_pod(&mut self, name: &str, node: &str) -> Value {
        let mut pod = self.pod(name);
        pod["spec"]["nodeName"] = node.into();
        for flavour in &self.flavours {
            flavour.bound(&mut self.random.fork(), &self.world, &mut pod);
        }
        pod
    }

    fn pod(&mut self, name: &str) -> Value {
        let random = &mut self.random;
        let count = *random.pick(&[1, 1, 1, 2, 3]);
        let containers: Vec<Value> =
            (0..count).map(|index| json!({"name": format!("c-{index}"), "image": "app:1"})).collect();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default",
                "labels": {"app": random.pick(&["web", "db", "job"])},
            },
            "spec": {"schedulerName": random.pick(&self.world.profiles), "containers": containers},
        });
        for flavour in &self.flavours {
            flavour.pod(&mut random.fork(), &self.world, &mut pod);
        }
        pod
    }
}

/// Allocatable resources of a node. Some kubelets omit resources.
fn allocatable(random: &mut Random) -> Value {
    let mut resources = json!({"pods": random.pick(&["110", "110", "20", "6", "3"])});
    if random.chance(97) {
        resources["cpu"] = (*random.pick(&["1", "2", "4", "3900m", "7.5", "16", "2.0005"])).into();
    }
    if random.chance(97) {
        resources["memory"] =
            (*random.pick(&["1Gi", "4Gi", "8Gi", "3500M", "16000000Ki", "512Mi", "32Gi"])).into();
    }
    if random.chance(60) {
        resources["ephemeral-storage"] = quantity::plain(random, "ephemeral-storage").into();
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(admitted: bool) -> Shape {
        Shape { max_nodes: 20, max_pods: 40, admitted }
    }

    #[test]
    fn a_seed_always_generates_the_same_cluster() {
        for admitted in [false, true] {
            assert_eq!(Cluster::new(3, &shape(admitted)), Cluster::new(3, &shape(admitted)));
        }
        assert_ne!(Cluster::new(3, &shape(false)), Cluster::new(4, &shape(false)));
    }

    #[test]
    fn clusters_of_a_few_seeds_have_every_field_that_a_plugin_reads() {
        let text: String = (0..60)
            .map(|seed| {
                let cluster = Cluster::new(seed, &shape(false));
                serde_json::to_string(&cluster).unwrap()
            })
            .collect();
        for field in [
            "initContainers",
            "overhead",
            "limits",
            "\"resources\":{\"requests\"",
            "containerStatuses",
            "nodeSelector",
            "matchFields",
            "preferredDuring",
            "requiredDuring",
            "Gt",
            "DoesNotExist",
            "tolerations",
            "NoExecute",
            "hostPort",
            "hostIP",
            "schedulingGates",
            "priority",
            "sizeBytes",
            "declaredFeatures",
            "unschedulable",
            "RequestedToCapacityRatio",
            "ignoredResourceGroups",
            "addedAffinity",
            "deletionTimestamp",
            "Succeeded",
            "\"nodeName\":\"gone\"",
            "failure-domain.beta",
            "restartPolicyRules",
            "hugepages-2Mi",
            "\"weight\"",
            "packer",
            "ReplicationController",
            "StatefulSet",
            "ownerReferences",
            "minDomains",
            "nodeTaintsPolicy",
            "mismatchLabelKeys",
            "namespaceSelector\":{}",
            "podAntiAffinity",
            "example.com/rack",
            "hardPodAffinityWeight",
            "defaultConstraints",
            "\"namespace\":\"bare\"",
            "preemptionPolicy",
            "ReadWriteOncePod",
            "volumeClaimTemplate",
            "migrated-plugins",
            "allowedTopologies",
            "CSIStorageCapacity",
            "inlineVolumeSpec",
            "monitors",
            "aws:///vol-",
            "claimRef",
            "StorageCapacityScoring",
            "firstAvailable",
            "sharedCounters",
            "perDeviceNodeSelection",
            "requestPolicy",
            "bindingConditions",
            "resourceClaimStatuses",
            "distinctAttribute",
            "adminAccess",
            "extendedResourceName",
            "deviceclass.resource.kubernetes.io/",
            "extended-resource-claim",
            "DeviceTaintRule",
            "\"reference\"",
        ] {
            assert!(text.contains(field), "{field}");
        }
    }
}
