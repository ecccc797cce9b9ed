//! Resource claims come from templates, and end with their pods or groups. Most pods here have their nodes from the
//! start, so no scheduler allocates devices.

use super::*;

const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const TEMPLATE: &str = "
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec:
  metadata: {labels: {team: a}}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
";

fn pod_with_claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "nodeName": "node-1", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}})
}

/// Returns the claims, ordered by name.
fn claims(sandbox: &Sandbox) -> Vec<Value> {
    let (all, _) = sandbox.store().list(CLAIMS, "", "", "").unwrap();
    all.iter().map(|claim| claim.value()).collect()
}

/// Allocates a device as a scheduler would, but does not reserve the claim.
fn allocate(sandbox: &Sandbox, claim: &Value) {
    let name = claim["metadata"]["name"].as_str().unwrap();
    let protected = json!({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}});
    change(sandbox, CLAIMS, name, &protected);
    let device = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
    let status = json!({"status": {"allocation": {"devices": {"results": [device]}}}});
    sandbox.store().merge(CLAIMS, "default", name, true, &status).unwrap();
}

#[tokio::test]
async fn a_claim_is_created_for_a_pod_and_ends_with_it() {
    let sandbox = sandbox(1, TEMPLATE).await;
    sandbox.store().create("pods", pod_with_claim("a")).unwrap();
    eventually(|| read(&sandbox, "pods", "a")["status"]["resourceClaimStatuses"].is_array()).await;
    let claim = claims(&sandbox).remove(0);
    let pod = read(&sandbox, "pods", "a");
    let name = claim["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("a-gpu-") && name.len() == 11, "{name}");
    assert_eq!(pod["status"]["resourceClaimStatuses"], json!([{"name": "gpu", "resourceClaimName": name}]));
    assert_eq!(
        claim["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": pod["metadata"]["uid"], "controller": true}])
    );
    assert_eq!(claim["metadata"]["annotations"], json!({"resource.kubernetes.io/pod-claim-name": "gpu"}));
    assert_eq!(claim["metadata"]["labels"], json!({"team": "a"}));
    assert_eq!(claim["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);

    allocate(&sandbox, &claim);
    eventually(|| claims(&sandbox)[0]["status"]["reservedFor"][0]["name"] == "a").await;
    sandbox.store().delete("pods", "default", "a", Some(0)).unwrap();
    eventually(|| claims(&sandbox).is_empty()).await;
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_claim_that_users_created_is_free_again_when_its_pod_has_finished() {
    let mut sandbox = sandbox(1, TEMPLATE).await;
    let spec = json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}});
    sandbox.store().create(CLAIMS, json!({"metadata": {"name": "shared"}, "spec": spec})).unwrap();
    let mut pod = pod_with_claim("a");
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "shared"}]);
    sandbox.store().create("pods", pod).unwrap();
    allocate(&sandbox, &claims(&sandbox)[0]);
    eventually(|| claims(&sandbox)[0]["status"]["reservedFor"].is_array()).await;
    let finished = json!({"status": {"phase": "Succeeded"}});
    sandbox.store().merge("pods", "default", "a", true, &finished).unwrap();
    eventually(|| claims(&sandbox)[0]["status"] == json!({})).await;
    eventually(|| claims(&sandbox)[0]["metadata"]["finalizers"].is_null()).await;
    assert!(sandbox.settled(LIMIT).await);
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_missing_template_is_reported_once_and_used_as_soon_as_it_exists() {
    let sandbox = sandbox(1, "").await;
    sandbox.store().create("pods", pod_with_claim("a")).unwrap();
    let events = || {
        let (all, _) = sandbox.store().list("events", "", "", "reason=FailedResourceClaimCreation").unwrap();
        all.iter().map(|event| event.value()["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually(|| !events().is_empty()).await;
    assert_eq!(
        events(),
        [
            "PodResourceClaim gpu: resource claim template \"gpus\": resourceclaimtemplate.resource.k8s.io \"gpus\" not found"
        ]
    );
    let template: Value = serde_saphyr::from_str(TEMPLATE.trim().trim_end_matches("---")).unwrap();
    sandbox.store().create("resourceclaimtemplates.resource.k8s.io", template).unwrap();
    eventually(|| claims(&sandbox).len() == 1).await;
    assert_eq!(events().len(), 1);
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_running_pod_from_a_dump_keeps_its_devices() {
    let dump = "
apiVersion: v1
kind: Pod
metadata: {name: a, uid: of-a}
spec:
  nodeName: node-1
  containers: [{name: c, image: i}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]
status: {phase: Running, resourceClaimStatuses: [{name: gpu, resourceClaimName: a-gpu-12345}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: a-gpu-12345
  uid: of-claim
  annotations: {resource.kubernetes.io/pod-claim-name: gpu}
  finalizers: [resource.kubernetes.io/delete-protection]
  ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: of-a, controller: true}]
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: node-1, device: gpu-0}]}}
  reservedFor: [{resource: pods, name: a, uid: of-a}]
---
";
    let sandbox = sandbox(1, &[TEMPLATE, dump].concat()).await;
    eventually(|| read(&sandbox, "pods", "a")["status"]["resourceClaimStatuses"].is_array()).await;
    let [claim] = claims(&sandbox).try_into().unwrap();
    let pod = read(&sandbox, "pods", "a");
    assert_eq!(pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"], "a-gpu-12345");
    assert_eq!(claim["status"]["allocation"]["devices"]["results"][0]["device"], "gpu-0");
    assert_eq!(
        claim["status"]["reservedFor"],
        json!([{"resource": "pods", "name": "a", "uid": pod["metadata"]["uid"]}])
    );
    sandbox.stop().await.unwrap();
}

const GROUP: &str = "
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]
---
";

fn with_claims_of_groups() -> Features {
    Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::DRAWorkloadResourceClaims, true)
}

#[tokio::test]
async fn the_members_of_a_gang_share_the_device_of_their_group() {
    const DEVICES: &str = "
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fabric}
spec:
  driver: gpu.example.com
  pool: {name: fabric, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices: [{name: gpu-0}]
---
";
    let manifest = [DEVICES, TEMPLATE, GROUP].concat();
    let options = Options { features: with_claims_of_groups(), ..options(2, &manifest) };
    let sandbox = Sandbox::start(options).await.unwrap();
    for name in ["a", "b"] {
        let mut pod = pod_with_claim(name);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        pod["spec"]["nodeName"].take();
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}});
        sandbox.store().create("pods", pod).unwrap();
    }
    let node = |name: &str| read(&sandbox, "pods", name)["spec"]["nodeName"].as_str().map(str::to_owned);
    eventually(|| ["a", "b"].iter().all(|name| node(name).is_some())).await;
    assert_ne!(node("a"), node("b"));
    let [claim] = claims(&sandbox).try_into().unwrap();
    assert_eq!(claim["status"]["allocation"]["devices"]["results"][0]["device"], "gpu-0");
    let consumers = claim["status"]["reservedFor"].as_array().unwrap();
    assert_eq!(consumers.len(), 1);
    assert_eq!((&consumers[0]["resource"], &consumers[0]["name"]), (&json!("podgroups"), &json!("g")));
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_claim_of_a_group_is_created_once_given_to_its_members_and_ends_with_the_group() {
    let features = with_claims_of_groups();
    let manifest = [TEMPLATE, GROUP].concat();
    let options = Options { features, scheduler: AttachedScheduler::None, ..options(1, &manifest) };
    let sandbox = Sandbox::start(options).await.unwrap();
    for name in ["a", "b"] {
        let mut pod = pod_with_claim(name);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        sandbox.store().create("pods", pod).unwrap();
    }
    let statuses = |resource: &str, name: &str| {
        read(&sandbox, resource, name)["status"]["resourceClaimStatuses"].clone()
    };
    eventually(|| ["a", "b"].iter().all(|name| statuses("pods", name).is_array())).await;
    let [claim] = claims(&sandbox).try_into().unwrap();
    let name = claim["metadata"]["name"].as_str().unwrap();
    let named = json!([{"name": "gpu", "resourceClaimName": name}]);
    let groups = "podgroups.scheduling.k8s.io";
    assert_eq!(
        [statuses(groups, "g"), statuses("pods", "a"), statuses("pods", "b")],
        [(); 3].map(|()| named.clone())
    );
    assert!(name.starts_with("g-gpu-"), "{name}");

    allocate(&sandbox, &claim);
    eventually(|| claims(&sandbox)[0]["status"]["reservedFor"].is_array()).await;
    let uid = read(&sandbox, groups, "g")["metadata"]["uid"].clone();
    let group = json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid});
    assert_eq!(claims(&sandbox)[0]["status"]["reservedFor"], json!([group]));
    for name in ["a", "b"] {
        sandbox.store().delete("pods", "default", name, Some(0)).unwrap();
    }
    eventually(|| sandbox.store().get("pods", "default", "b").is_err()).await;
    assert_eq!(claims(&sandbox)[0]["status"]["reservedFor"], json!([group]), "the group still exists");
    sandbox.store().delete(groups, "default", "g", None).unwrap();
    eventually(|| claims(&sandbox).is_empty()).await;
    sandbox.stop().await.unwrap();
}
