//! Pods with claims, a proxy that injects faults, and the conditions that must hold afterwards.

use std::{
    ops::Deref,
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_oracle::provisioner::{Behaviour, Driver, Provisioner};
use serde_json::{Value, json};

use super::{
    cluster::{PATIENCE, eventually, get_pod, list, name_of, wait_until_bound},
    objects::{NODES, PODS, config, node, node_of, pod, scheduled_condition},
    process::Harbormaster,
    proxy::{Gate, Request},
    scene::Scene,
    server::Server,
    volumes::{
        CLAIMS, CLASSES, NOBODY, SELECTED_NODE, VOLUMES, claim, claimed_by, class, is_bound, shared_cluster,
        users_of, volume, volume_of,
    },
};

const HOSTNAME: &str = "kubernetes.io/hostname";
/// Message about a pod for which no volume is left.
pub const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";

/// One test's part of a cluster with volume controllers. The names of the scene's objects start with its name.
pub struct VolumeScene {
    scene: Scene,
    pub server: Server,
}

impl Deref for VolumeScene {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl VolumeScene {
    /// Creates two nodes `a` and `b`, a storage class `there` for existing volumes, and a storage class `made` for
    /// volumes that a provisioner creates.
    pub fn new(server: Server, name: &'static str) -> Self {
        let scene = Scene::on(shared_cluster(server), name);
        let scene = Self { scene, server };
        ["a", "b"].iter().for_each(|node| scene.create_place(node));
        for (name, provisioner) in [("there", NOBODY.to_owned()), ("made", scene.provisioner())] {
            scene
                .client
                .post(CLASSES, &class(&scene.full(name), &provisioner))
                .expect("the class is created");
        }
        scene
    }

    /// Returns the name of the provisioner of the class `made`. It does not run until [`Self::provision`] starts it.
    fn provisioner(&self) -> String {
        format!("{}.example.com", self.name)
    }

    /// Starts the provisioner of the class `made`. It treats `claims` as specified and serves all others immediately.
    pub fn provision(&self, claims: &[(&str, Behaviour)]) -> Provisioner {
        let driver = Driver::new(&self.provisioner(), [HOSTNAME]);
        let driver = claims.iter().fold(driver, |driver, (claim, behaviour)| {
            driver.for_claim(&format!("default/{}", self.full(claim)), *behaviour)
        });
        Provisioner::start(&self.client, vec![driver])
    }

    /// Creates a large node.
    pub fn create_place(&self, name: &str) {
        let name = self.full(name);
        let labels = json!({"scene": self.name, HOSTNAME: name});
        self.client.post(NODES, &node(&name, labels, "64", "64Gi", 200)).expect("the node is created");
    }

    pub fn delete_place(&self, name: &str) {
        self.delete(&format!("{NODES}/{}", self.full(name)));
    }

    /// Creates a volume of the class `there` that can be used from one node.
    pub fn create_volume(&self, name: &str, node: &str) {
        let volume = volume(&self.full(name), &self.full("there"), &self.full(node), &json!({}));
        self.client.post(VOLUMES, &volume).expect("the volume is created");
        eventually("the volume is available", PATIENCE, || {
            (self.volume(name)?["status"]["phase"] == "Available").then_some(())
        });
    }

    pub fn volume(&self, name: &str) -> Option<Value> {
        self.client.get(&format!("{VOLUMES}/{}", self.full(name))).ok()
    }

    pub fn create_claim(&self, name: &str, class: &str) {
        self.client.post(CLAIMS, &claim(&self.full(name), &self.full(class))).expect("the claim is created");
    }

    pub fn claim(&self, name: &str) -> Option<Value> {
        self.client.get(&format!("{CLAIMS}/{}", self.full(name))).ok()
    }

    /// Deletes a claim and waits until it is gone.
    pub fn delete_claim(&self, name: &str) {
        self.delete(&format!("{CLAIMS}/{}", self.full(name)));
        eventually("the claim is gone", PATIENCE, || self.claim(name).is_none().then_some(()));
    }

    /// Deletes a volume, bound or not, and waits until it is gone.
    pub fn delete_volume(&self, name: &str) {
        let path = format!("{VOLUMES}/{}", self.full(name));
        self.delete(&path);
        eventually("the volume is gone", PATIENCE, || {
            // The patch removes the finalizer that may prevent the deletion of a claim's volume. It fails if the volume
            // is already gone.
            let _ = self.client.merge_patch(&path, &json!({"metadata": {"finalizers": null}}));
            self.volume(name).is_none().then_some(())
        });
    }

    fn delete(&self, path: &str) {
        self.client.delete(path).expect("the object is deleted");
    }

    /// Waits for the claim's selected node and returns its full name.
    pub fn selected(&self, claim: &str) -> String {
        eventually("a node is selected", PATIENCE, || {
            self.claim(claim)?["metadata"]["annotations"][SELECTED_NODE].as_str().map(str::to_owned)
        })
    }

    /// Creates the claim's volume for a node, which need not exist.
    pub fn make_volume(&self, claim: &str, node: &str) {
        let asked = self.claim(claim).expect("the claim is there");
        let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
            "name": name_of(&asked), "uid": asked["metadata"]["uid"]});
        let name = self.full(&format!("of-{claim}"));
        let made = volume(&name, &self.full("made"), &self.full(node), &json!({"claimRef": claim_ref}));
        self.client.post(VOLUMES, &made).expect("the volume is created");
    }

    /// Creates a pod that uses the given claims, which may be created later.
    pub fn create_pod(&self, name: &str, claims: &[&str]) {
        self.create_pod_for(name, claims, json!({"scene": self.name}));
    }

    /// Creates a pod as [`Self::create_pod`] does, but with a node selector for one node.
    pub fn create_pod_on(&self, name: &str, claims: &[&str], node: &str) {
        self.create_pod_for(name, claims, json!({HOSTNAME: self.full(node)}));
    }

    fn create_pod_for(&self, name: &str, claims: &[&str], selector: Value) {
        let claims: Vec<String> = claims.iter().map(|claim| self.full(claim)).collect();
        let spec = json!({"volumes": users_of(&claims), "nodeSelector": selector});
        let pod = pod(&self.full(name), self.name, json!({"cpu": "10m"}), spec);
        self.client.post(PODS, &pod).expect("the pod is created");
    }

    /// Creates a pod and a claim of the same name.
    pub fn create_user(&self, name: &str, class: &str) {
        self.create_claim(name, class);
        self.create_pod(name, &[name]);
    }

    /// Starts Harbormaster with a volume binding timeout of `seconds`. The proxy must already be listening.
    pub fn start_patient(&self, seconds: u32) -> Harbormaster {
        let mut config = config(self.name);
        config["profiles"][0]["pluginConfig"] =
            json!([{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": seconds}}]);
        let harbormaster = self.start_with(&config, format!("--master=http://127.0.0.1:{}", self.proxy.port));
        self.wait_until_watched(&harbormaster);
        harbormaster
    }

    /// Waits until the message of the pod's condition contains `words`.
    pub fn is_told(&self, name: &str, words: &str) {
        eventually(&format!("{name} has the message {words:?}"), PATIENCE, || {
            let pod = get_pod(&self.client, &self.full(name))?;
            scheduled_condition(&pod)?[2].contains(words).then_some(())
        });
    }

    /// Waits until the pod is bound, and returns its node without the scene's prefix.
    pub fn place_of(&self, name: &str) -> String {
        let node = wait_until_bound(&self.client, &self.full(name));
        node.strip_prefix(&self.full("")).unwrap_or(&node).to_owned()
    }

    fn ours(&self, path: &str) -> Vec<Value> {
        let prefix = self.full("");
        list(&self.client, path).into_iter().filter(|object| name_of(object).starts_with(&prefix)).collect()
    }

    /// Returns the scene's volumes. They are found by class, because the names of provisioned volumes do not start with
    /// the scene's name.
    fn volumes(&self) -> Vec<Value> {
        let prefix = self.full("");
        let is_ours = |volume: &Value| {
            volume["spec"]["storageClassName"].as_str().is_some_and(|class| class.starts_with(&prefix))
        };
        list(&self.client, VOLUMES).into_iter().filter(is_ours).collect()
    }

    /// Asserts the conditions that must hold after any fault. All `pods` are bound. Every volume agrees with its claim,
    /// has only one claim, and can be used from the node of each pod that uses the volume. New pods get all free
    /// volumes, and one more pod finds none. If `is_provisioned`, one more pod on every node gets a volume of the class
    /// `made`.
    pub fn all_is_well(&self, pods: &[&str], is_provisioned: bool) {
        for name in pods {
            self.is_bound(name);
        }
        self.is_consistent();
        let is_free = |volume: &&Value| volume["status"]["phase"] == "Available";
        let free = self.volumes().iter().filter(is_free).count();
        let more: Vec<String> = (0..free).map(|index| format!("more-{index}")).collect();
        for name in &more {
            self.create_user(name, "there");
        }
        if is_provisioned {
            for node in self.ours(NODES) {
                let place = name_of(&node).trim_start_matches(&self.full(""));
                let name = format!("made-on-{place}");
                self.create_claim(&name, "made");
                self.create_pod_on(&name, &[&name], place);
                self.is_bound(&name);
            }
        }
        for name in &more {
            self.is_bound(name);
        }
        self.create_user("too-many", "there");
        self.is_told("too-many", NO_VOLUME);
        self.is_consistent();
        assert_eq!(self.watch.moved(), Vec::<String>::new());
    }

    /// Waits until claims, volumes and pods agree. Fails if an inconsistency persists.
    fn is_consistent(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let flaws = self.flaws();
            if flaws.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{flaws:#?}");
            sleep(Duration::from_millis(50));
        }
    }

    fn flaws(&self) -> Vec<String> {
        let (volumes, claims) = (self.volumes(), self.ours(CLAIMS));
        let mut flaws = Vec::new();
        // No controller cleans up volumes whose claims are gone.
        let is_left =
            |volume: &&Value| ["Released", "Failed"].iter().any(|it| volume["status"]["phase"] == *it);
        for volume in volumes.iter().filter(|volume| !is_left(volume)) {
            let (name, owner) = (name_of(volume), claimed_by(volume));
            let users: Vec<&Value> = claims.iter().filter(|claim| volume_of(claim) == name).collect();
            let user = users.first().and_then(|claim| claim["metadata"]["uid"].as_str());
            if users.len() > 1 || owner != user {
                flaws.push(format!("volume {name} is for {owner:?} and used by {users:?}"));
            }
        }
        for pod in self.ours(PODS) {
            let Some(node) = node_of(&pod) else { continue };
            for source in pod["spec"]["volumes"].as_array().into_iter().flatten() {
                let name = source["persistentVolumeClaim"]["claimName"].as_str().unwrap_or_default();
                let claim = claims.iter().find(|claim| name_of(claim) == name && is_bound(claim));
                let volume =
                    claim.and_then(|claim| volumes.iter().find(|it| name_of(it) == volume_of(claim)));
                if !volume.is_some_and(|volume| is_within_reach(volume, node)) {
                    flaws.push(format!("pod {} is on {node}, where {claim:?} cannot be used", name_of(&pod)));
                }
            }
        }
        flaws
    }

    /// Asserts the conditions of [`Self::all_is_well`], and that the process exits successfully. Returns its log.
    pub fn ends_in_order(self, harbormaster: Harbormaster, pods: &[&str], is_provisioned: bool) -> String {
        self.all_is_well(pods, is_provisioned);
        self.scene.ends_well(harbormaster)
    }

    /// Waits until the gate holds a request.
    pub fn is_held_at(&self, gate: &Gate) {
        eventually("a request is held back", PATIENCE, || (gate.came() > 0).then_some(()));
    }

    /// Waits until a matching request has succeeded.
    pub fn is_done(&self, matches: impl Fn(&Request) -> bool) {
        eventually("a matching request has succeeded", PATIENCE, || {
            self.proxy
                .records(&matches)
                .iter()
                .any(|record| (200..300).contains(&record.status))
                .then_some(())
        });
    }

    /// Returns a predicate for requests that reserve a volume for the claim.
    pub fn is_setting_aside(&self, claim: &str) -> impl Fn(&Request) -> bool + Clone + Send + 'static {
        let name = format!("\"name\":\"{}\"", self.full(claim));
        move |request: &Request| {
            request.method == "PATCH"
                && request.path.starts_with(VOLUMES)
                && String::from_utf8_lossy(&request.body).contains(&name)
        }
    }

    /// Returns a predicate for requests that select the node for the claim's volume.
    pub fn is_selecting_for(&self, claim: &str) -> impl Fn(&Request) -> bool + Clone + Send + 'static {
        let path = format!("{CLAIMS}/{}", self.full(claim));
        move |request: &Request| request.method == "PATCH" && request.path == path
    }

    /// Returns a predicate for requests that bind the pod.
    pub fn is_binding(&self, pod: &str) -> impl Fn(&Request) -> bool + Clone + Send + 'static {
        let name = self.full(pod);
        move |request: &Request| request.is_bind_of(&name)
    }
}

/// Returns true if the volume's node affinity names the node. The hostname label of each node is the node's name.
fn is_within_reach(volume: &Value, node: &str) -> bool {
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let names = |term: &Value| {
        let values = &term["matchExpressions"][0]["values"];
        values.as_array().into_iter().flatten().any(|value| value == node)
    };
    terms.as_array().into_iter().flatten().any(names)
}
