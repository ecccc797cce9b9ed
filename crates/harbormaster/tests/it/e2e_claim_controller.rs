//! The stand-in for the resource claim controller does what the real controller does: the same script on both clusters
//! leaves the same claims and the same names of claims in the pods.
//!
//! The script does not delete a claim that was just created for a running pod: the real controller has a cache that
//! forgets the claim only after a minute, and creates no other claim until then.

use harbormaster_oracle::components::ApiClient;
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, eventually, get_pod, list, name_of},
    objects::{EVENTS, NODES, PODS, node, pod},
    server::{Cluster, Server},
};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A cluster with controllers, and the observations made in it so far.
struct Scene {
    client: ApiClient,
    seen: Vec<(&'static str, Value)>,
    _cluster: Cluster,
}

impl Scene {
    fn new(server: Server) -> Self {
        let cluster = server.own_with_controllers();
        let client = cluster.client().clone();
        client.post(NODES, &node("n", json!({}), "64", "64Gi", 100)).expect("it is created");
        Self { client, seen: Vec::new(), _cluster: cluster }
    }

    fn create(&self, path: &str, object: &Value) {
        self.client.post(path, object).expect("it is created");
    }

    fn create_template(&self, name: &str) {
        let metadata = json!({"labels": {"team": "a"}, "annotations": {"for": name}});
        let spec = json!({"metadata": metadata, "spec": {"devices": requests()}});
        self.create(TEMPLATES, &json!({"metadata": {"name": name}, "spec": spec}));
    }

    fn create_claim(&self, name: &str) {
        self.create(CLAIMS, &json!({"metadata": {"name": name}, "spec": {"devices": requests()}}));
    }

    /// Creates a pod. Each entry has a name, and the name of a template (`template/…`) or of a claim.
    fn create_pod(&self, name: &str, is_on_node: bool, entries: &[(&str, &str)]) {
        let entry = |(name, of): &(&str, &str)| match of.strip_prefix("template/") {
            Some(template) => json!({"name": name, "resourceClaimTemplateName": template}),
            None => json!({"name": name, "resourceClaimName": of}),
        };
        let mut spec = json!({"resourceClaims": entries.iter().map(entry).collect::<Vec<_>>()});
        if is_on_node {
            spec["nodeName"] = "n".into();
        }
        self.create(PODS, &pod(name, "nobody", json!({}), spec));
    }

    fn finish_pod(&self, name: &str) {
        let status = json!({"status": {"phase": "Succeeded"}});
        self.client.merge_patch(&format!("{PODS}/{name}/status"), &status).expect("it is written");
    }

    /// Gives a device to a claim and reserves the claim for pods, as a scheduler does.
    fn allocate(&self, claim: &str, device: &str, pods: &[&str]) {
        let path = format!("{CLAIMS}/{claim}");
        let protected = json!({"metadata": {"finalizers": [FINALIZER]}});
        self.client.merge_patch(&path, &protected).expect("it is written");
        let result = json!({"request": "r", "driver": "gpu.example.com", "pool": "n", "device": device});
        let consumer = |pod: &&str| json!({"resource": "pods", "name": pod, "uid": self.uid(pod)});
        let consumers: Vec<_> = pods.iter().map(consumer).collect();
        let status =
            json!({"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}});
        self.client.merge_patch(&format!("{path}/status"), &status).expect("it is written");
    }

    fn uid(&self, pod: &str) -> Value {
        get_pod(&self.client, pod).expect("it exists")["metadata"]["uid"].take()
    }

    fn claims(&self) -> Vec<Value> {
        list(&self.client, CLAIMS)
    }

    fn claim(&self, name: &str) -> Option<Value> {
        self.claims().into_iter().find(|claim| name_of(claim) == name)
    }

    /// Returns the name of the claim that was created for an entry of a pod and is recorded in the pod.
    fn generated(&self, pod: &str, entry: &str) -> Option<String> {
        let pod = get_pod(&self.client, pod)?;
        let mut recorded = pod["status"]["resourceClaimStatuses"].as_array()?.iter();
        let recorded = recorded.find(|status| status["name"] == entry)?["resourceClaimName"].as_str()?;
        let claim = self.claim(recorded)?;
        let is_own = claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"];
        (is_own && claim["metadata"]["deletionTimestamp"].is_null()).then(|| recorded.to_owned())
    }

    fn wait_for_claim(&self, pod: &str, entry: &str) -> String {
        eventually(&format!("{pod} has its claim {entry}"), PATIENCE, || self.generated(pod, entry))
    }

    fn wait_until_gone(&self, claim: &str) {
        eventually(&format!("{claim} is gone"), PATIENCE, || self.claim(claim).is_none().then_some(()));
    }

    /// Waits until a claim has this many consumers.
    fn wait_for_consumers(&self, claim: &str, count: usize) {
        eventually(&format!("{claim} has {count} consumers"), PATIENCE, || {
            let claim = self.claim(claim)?;
            let is_free = claim["metadata"]["finalizers"].is_null();
            let consumers = claim["status"]["reservedFor"].as_array().map_or(0, Vec::len);
            (consumers == count && (count > 0 || is_free)).then_some(())
        });
    }

    /// Records all claims, and the names of claims in pods, without the details that differ between clusters. Leaves
    /// out pods that have finished and the claims that were created for them: the real controller deletes these claims,
    /// but may create and delete them once more.
    fn look(&mut self, when: &'static str) {
        let (finished, pods): (Vec<_>, Vec<_>) =
            list(&self.client, PODS).into_iter().partition(|pod| pod["status"]["phase"] == "Succeeded");
        let of_uid = |uid: &Value| {
            let found = pods.iter().find(|pod| pod["metadata"]["uid"] == *uid);
            json!(found.map_or("nobody", name_of))
        };
        let is_of_finished = |claim: &Value| {
            let owner = &claim["metadata"]["ownerReferences"][0]["uid"];
            finished.iter().any(|pod| pod["metadata"]["uid"] == *owner)
        };
        let mut claims = self.claims();
        claims.retain(|claim| !is_of_finished(claim));
        let plain_name = |name: &Value| {
            let claim = claims.iter().find(|claim| claim["metadata"]["name"] == *name);
            let prefix = claim.and_then(|claim| claim["metadata"]["generateName"].as_str());
            prefix.map_or(name.clone(), |prefix| json!(format!("{prefix}*")))
        };
        let comparable = |claim: &Value| {
            let mut claim = claim.clone();
            let name = plain_name(&claim["metadata"]["name"]);
            let fields = ["generateName", "labels", "annotations", "finalizers", "ownerReferences"];
            let mut metadata: serde_json::Map<_, _> =
                fields.map(|field| (field.to_owned(), claim["metadata"][field].take())).into_iter().collect();
            for owner in metadata["ownerReferences"].as_array_mut().into_iter().flatten() {
                owner["uid"] = of_uid(&owner["uid"]);
            }
            for consumer in claim["status"]["reservedFor"].as_array_mut().into_iter().flatten() {
                consumer["uid"] = of_uid(&consumer["uid"]);
            }
            json!({"name": name, "metadata": metadata, "spec": claim["spec"], "status": claim["status"]})
        };
        let mut all: Vec<Value> = claims.iter().map(comparable).collect();
        all.sort_by_key(|claim| claim["name"].to_string());
        let recorded = |pod: &Value| {
            let statuses = pod["status"]["resourceClaimStatuses"].as_array().cloned().unwrap_or_default();
            let mut names: Vec<_> = statuses
                .iter()
                .map(|status| json!([status["name"], plain_name(&status["resourceClaimName"])]))
                .collect();
            names.sort_by_key(ToString::to_string);
            json!({"pod": name_of(pod), "claims": names})
        };
        let pods: Vec<Value> = pods.iter().map(recorded).collect();
        self.seen.push((when, json!({"claims": all, "pods": pods})));
    }
}

fn requests() -> Value {
    json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]})
}

/// Runs the script and returns the observations.
fn play(server: Server) -> Vec<(&'static str, Value)> {
    let mut scene = Scene::new(server);
    created_claims(&mut scene);
    consumers(&mut scene);
    ends(&mut scene);
    scene.seen
}

/// Claims are created from templates. Pods are created one after another: the workers of the real controller write the
/// annotation with the entry's name into a template that they share, so claims that are created at the same time may
/// get each other's annotation.
fn created_claims(scene: &mut Scene) {
    scene.create_template("gpus");
    scene.create_claim("shared");
    scene.create_pod("a", true, &[("one", "template/gpus"), ("two", "template/gpus"), ("user", "shared")]);
    ["one", "two"].iter().for_each(|entry| _ = scene.wait_for_claim("a", entry));
    scene.create_pod("waiting", false, &[("one", "template/gpus")]);
    scene.wait_for_claim("waiting", "one");
    let (long, entry) = ("p".repeat(50), "e".repeat(40));
    scene.create_pod(&long, false, &[(&entry, "template/gpus")]);
    scene.wait_for_claim(&long, &entry);
    scene.look("claims are created");

    scene.create_pod("early", true, &[("one", "template/late")]);
    let event = eventually("the missing template is reported", PATIENCE, || {
        let mut events = list(&scene.client, EVENTS).into_iter();
        // Other pods may have such an event, too: a controller may see a pod before its template.
        events.find(|event| {
            event["reason"] == "FailedResourceClaimCreation" && event["regarding"]["name"] == "early"
        })
    });
    scene
        .seen
        .push(("a template is missing", json!([event["note"], event["type"], event["regarding"]["name"]])));
    scene.create_template("late");
    scene.wait_for_claim("early", "one");
    scene.look("the template exists");
}

/// Bound pods are recorded as consumers of allocated claims until they are done.
fn consumers(scene: &mut Scene) {
    let (one, two) = (scene.wait_for_claim("a", "one"), scene.wait_for_claim("a", "two"));
    scene.allocate(&one, "d1", &["a"]);
    scene.allocate(&two, "d2", &[]);
    scene.allocate("shared", "d3", &[]);
    [&one, &two, "shared"].iter().for_each(|claim| scene.wait_for_consumers(claim, 1));
    scene.create_pod("b", true, &[("user", "shared")]);
    scene.create_pod("c", false, &[("user", "shared")]);
    scene.wait_for_consumers("shared", 2);
    scene.look("bound pods are consumers");

    scene.finish_pod("a");
    [&one, &two].iter().for_each(|claim| scene.wait_until_gone(claim));
    scene.wait_for_consumers("shared", 1);
    scene.look("a pod has finished");
    delete_pod(&scene.client, "b");
    scene.wait_for_consumers("shared", 0);
    scene.look("the last consumer is gone");

    scene.create_claim("foreign");
    scene.allocate("foreign", "d4", &[]);
    let job = json!({"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "of-j"});
    let gone = json!({"resource": "pods", "name": "gone", "uid": "of-gone"});
    let status = json!({"status": {"reservedFor": [job, gone]}});
    scene.client.merge_patch(&format!("{CLAIMS}/foreign/status"), &status).expect("it is written");
    scene.wait_for_consumers("foreign", 1);
    scene.look("consumers that are not pods stay");
}

/// Claims end with their pods.
fn ends(scene: &mut Scene) {
    let first = scene.wait_for_claim("waiting", "one");
    delete_pod(&scene.client, "waiting");
    scene.create_pod("waiting", false, &[("one", "template/gpus")]);
    scene.wait_until_gone(&first);
    scene.wait_for_claim("waiting", "one");
    scene.look("a pod is replaced by one with the same name");
    let second = scene.wait_for_claim("waiting", "one");
    delete_pod(&scene.client, "waiting");
    scene.wait_until_gone(&second);
    scene.look("a pod without a node is deleted");

    scene.create_claim("unused");
    scene.allocate("unused", "d5", &[]);
    scene.client.delete(&format!("{CLAIMS}/unused")).expect("it is deleted");
    scene.wait_until_gone("unused");
    scene.look("a claim that is allocated but not in use is deleted");

    let resources = json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    let spec = json!({"nodeName": "n", "containers": containers});
    scene.create(PODS, &pod("extended", "nobody", json!({}), spec));
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "extended", "uid": scene.uid("extended"), "controller": true});
    let metadata = json!({
        "name": "of-extended", "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
    });
    scene.create(CLAIMS, &json!({"metadata": metadata, "spec": {"devices": requests()}}));
    scene.allocate("of-extended", "d6", &["extended"]);
    let mapping = json!({"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"});
    let status = json!({"resourceClaimName": "of-extended", "requestMappings": [mapping]});
    let status = json!({"status": {"extendedResourceClaimStatus": status}});
    scene.client.merge_patch(&format!("{PODS}/extended/status"), &status).expect("it is written");
    scene.look("a pod has a claim for extended resources");
    scene.finish_pod("extended");
    scene.wait_until_gone("of-extended");
    scene.look("a pod with a claim for extended resources has finished");
}

#[test]
fn the_stand_in_treats_claims_as_the_real_controller_does() {
    let (theirs, ours) = (play(Server::Real), play(Server::Embedded));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(ours, theirs, "the stand-in (left) differs from the real controller (right)");
    }
    assert_eq!(ours.len(), theirs.len());
}
