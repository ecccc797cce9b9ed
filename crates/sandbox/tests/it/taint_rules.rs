//! Rules that taint devices, as in Kubernetes 1.37.

use harbormaster_api::{Release, features::Features};
use harbormaster_setup::{Choices, Setup};

use super::*;

const RULES: &str = "devicetaintrules.resource.k8s.io";
const MANIFESTS: &str = "
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: broken}
spec:
  deviceSelector: {driver: gpu.example.com}
  taint: {key: broken, effect: NoSchedule}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
---
";

#[tokio::test]
async fn a_pod_waits_until_its_device_is_no_longer_tainted() {
    let choices = Choices { features: Features::of(Release::V1_37), ..Choices::default() };
    let engine = Setup::read(None, &choices).unwrap().engine;
    let options = Options { scheduler: AttachedScheduler::Engine(engine), ..options(1, MANIFESTS) };
    let sandbox = Sandbox::start(options).await.unwrap();
    let message = || read(&sandbox, "pods", "user")["status"]["conditions"][0]["message"].clone();
    eventually(|| message().as_str().is_some_and(|text| text.contains("cannot allocate all claims"))).await;
    sandbox.store().delete(RULES, "", "broken", None).unwrap();
    eventually(|| read(&sandbox, "pods", "user")["spec"]["nodeName"] == "node-1").await;
    sandbox.stop().await.unwrap();
}
