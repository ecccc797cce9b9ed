//! Resource claims of simulated pods: created from templates, given devices, and given back.

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_manifests::Source;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Change, Inventory, PodReport, Reading, simulate, why};

const CLUSTER: &str = "
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, pods: 9}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == \"d.example\"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1}
spec:
  driver: d.example
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
";

fn cluster(more: &str) -> Inventory {
    let text = format!("{CLUSTER}{more}");
    Inventory::from_sources(&[Source { name: "f.yaml".into(), text }], Reading::default()).unwrap()
}

fn simulated(more: &str) -> Vec<PodReport> {
    let engine = Setup::read(None, &Choices::default()).unwrap().engine;
    simulate(engine, cluster(more), &mut |_, _| {}).pods
}

/// Returns a pod with a claim from the template `one`, and additional fields in its spec.
fn pod(name: &str, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}], {more}\
         resourceClaims: [{{name: gpu, resourceClaimTemplateName: one}}]}}}}\n---\n"
    )
}

/// Returns a claim to which the device is allocated, as a dump would contain the claim. Its consumers are pods with
/// these names and UIDs.
fn allocated(name: &str, device: &str, consumers: &[(&str, &str)]) -> String {
    let consumers: Vec<String> =
        consumers.iter().map(|(name, uid)| format!("{{resource: pods, name: {name}, uid: {uid}}}")).collect();
    format!(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}, uid: {name}, finalizers: \
         [resource.kubernetes.io/delete-protection]}}\nspec: {{devices: {{requests: [{{name: gpu, exactly: \
         {{deviceClassName: gpu}}}}]}}}}\nstatus: {{allocation: {{devices: {{results: [{{request: gpu, driver: d.example, \
         pool: n1, device: {device}}}]}}}}, reservedFor: [{}]}}\n---\n",
        consumers.join(", ")
    )
}

fn devices(pods: &[PodReport]) -> Vec<String> {
    pods.iter()
        .map(|pod| pod.devices.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        .collect()
}

#[test]
fn every_pod_gets_its_own_claim_until_no_device_is_left() {
    let pods = simulated(&["a", "b", "c"].map(|name| pod(name, "")).concat());
    assert_eq!(devices(&pods), ["claim a-gpu: gets gpu-0", "claim b-gpu: gets gpu-1", ""]);
    let message = pods[2].message.as_deref().unwrap_or_default();
    assert!(message.starts_with("0/1 nodes are available: 1 cannot allocate all claims."), "{message}");
}

#[test]
fn nodes_that_do_not_offer_an_extended_resource_provide_devices_of_its_class() {
    let class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: provider}\nspec: {extendedResourceName: \
                 example.com/gpu}\n---\n";
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i, resources: \
             {{limits: {{example.com/gpu: 1}}}}}}]}}}}\n---\n"
        )
    };
    let pods = simulated(&[class.to_owned(), pod("a"), pod("b"), pod("c")].concat());
    assert_eq!(
        devices(&pods),
        ["claim a-extended-resources: gets gpu-0", "claim b-extended-resources: gets gpu-1", ""]
    );
    let message = pods[2].message.as_deref().unwrap_or_default();
    assert!(message.starts_with("0/1 nodes are available: 1 cannot allocate all claims."), "{message}");
}

#[test]
fn pods_of_workloads_also_get_claims() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  selector: {matchLabels: \
                      {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers: [{name: c, image: i}]\n      \
                      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]\n";
    assert_eq!(
        devices(&simulated(deployment)),
        ["claim web-1-gpu: gets gpu-0", "claim web-2-gpu: gets gpu-1"]
    );
}

#[test]
fn pods_that_name_the_same_claim_share_its_device() {
    let claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: shared}\nspec: {devices: {requests: [{name: gpu, \
                 exactly: {deviceClassName: gpu, allocationMode: All}}]}}\n---\n";
    let named =
        |name: &str| pod(name, "").replace("resourceClaimTemplateName: one", "resourceClaimName: shared");
    let pods = simulated(&[claim.to_owned(), named("a"), named("b"), pod("c", "")].concat());
    assert_eq!(devices(&pods), ["claim shared: gets gpu-0, gpu-1", "", ""]);
    let nodes: Vec<_> = pods.iter().map(|pod| pod.node.as_deref()).collect();
    assert_eq!(nodes, [Some("n1"), Some("n1"), None]);
}

/// Returns what becomes of a gang of three pods, and of a gang of one pod. Every pod and every gang has the same entry for
/// a claim. `of_groups` is true if groups have claims.
fn gangs(of_groups: bool) -> Vec<PodReport> {
    let group = |name: &str, min_count: usize| {
        format!(
            "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {{name: {name}}}\nspec: {{schedulingPolicy: {{gang: \
             {{minCount: {min_count}}}}}, resourceClaims: [{{name: gpu, resourceClaimTemplateName: one}}]}}\n---\n"
        )
    };
    let member =
        |name: &str, group: &str| pod(name, &format!("schedulingGroup: {{podGroupName: {group}}}, "));
    let more = [
        group("g", 3),
        group("h", 1),
        member("a", "g"),
        member("b", "g"),
        member("c", "g"),
        member("d", "h"),
    ];
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::DRAWorkloadResourceClaims, of_groups);
    let text = format!("{CLUSTER}{}", more.concat());
    let reading = Reading { features, ..Reading::default() };
    let cluster = Inventory::from_sources(&[Source { name: "f.yaml".into(), text }], reading).unwrap();
    assert_eq!(cluster.notices, Vec::<String>::new());
    let engine = Setup::read(None, &Choices { features, ..Choices::default() }).unwrap().engine;
    simulate(engine, cluster, &mut |_, _| {}).pods
}

#[test]
fn the_members_of_a_group_share_the_claim_that_is_created_for_the_group() {
    let pods = gangs(true);
    let [of_gang, of_other] = ["claim g-gpu: gets gpu-0", "claim h-gpu: gets gpu-1"];
    assert_eq!(devices(&pods), [of_gang, of_gang, of_gang, of_other], "{pods:?}");
    assert!(pods.iter().all(|pod| pod.node.as_deref() == Some("n1")), "{pods:?}");
}

#[test]
fn without_claims_of_groups_each_member_gets_a_claim_of_its_own() {
    let pods = gangs(false);
    assert_eq!(devices(&pods), ["", "", "", "claim d-gpu: gets gpu-0"], "{pods:?}");
    assert!(pods[..3].iter().all(|pod| pod.node.is_none()), "{pods:?}");
}

#[test]
fn devices_of_a_dump_are_in_use_unless_their_pods_have_finished() {
    let live = |name: &str, phase: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, uid: {name}-uid}}, spec: {{nodeName: n1, containers: [{{name: c, \
             image: i}}], resourceClaims: [{{name: gpu, resourceClaimName: {name}}}]}}, status: {{phase: {phase}}}}}\n---\n"
        )
    };
    let dump = |phase: &str| {
        [
            allocated("p", "gpu-0", &[("p", "p-uid")]),
            allocated("q", "gpu-1", &[("q", "q-uid")]),
            live("p", "Running"),
            live("q", phase),
            pod("new", ""),
        ]
        .concat()
    };
    assert_eq!(devices(&simulated(&dump("Running"))), [""]);
    assert_eq!(devices(&simulated(&dump("Succeeded"))), ["claim new-gpu: gets gpu-1"]);
}

#[test]
fn the_devices_of_a_preempted_pod_are_free_again() {
    let class =
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}\n---\n";
    let with_cpu = |pod: String| pod.replace("image: i", "image: i, resources: {requests: {cpu: 5}}");
    let running = with_cpu(pod("old", "nodeName: n1, "));
    let of_pod = "annotations: {resource.kubernetes.io/pod-claim-name: gpu}, ownerReferences: [{apiVersion: v1, kind: Pod, name: \
                  old, uid: default/old, controller: true}], finalizers:";
    let held = allocated("old-gpu", "gpu-0", &[("old", "default/old")]).replace("finalizers:", of_pod);
    let other = allocated("other", "gpu-1", &[("else", "else")]);
    let preemptor = "{apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {priorityClassName: high, containers: [{name: c, \
                     image: i, resources: {requests: {cpu: 5}}}]}}\n---\n";
    let pods =
        simulated(&[class.to_owned(), running, held, other, preemptor.to_owned(), pod("late", "")].concat());
    assert_eq!(pods[0].victims, ["default/old"], "{pods:?}");
    assert_eq!(devices(&pods[1..2]), ["claim late-gpu: gets gpu-0"], "{pods:?}");
}

#[test]
fn devices_that_nobody_uses_are_taken_from_their_claim() {
    let claim = allocated("mine", "gpu-1", &[]).replace(
        "allocation: {",
        "allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: \
                 [{key: metadata.name, operator: In, values: [gone]}]}]}, ",
    );
    let named = pod("a", "").replace("resourceClaimTemplateName: one", "resourceClaimName: mine");
    let pods = simulated(&[claim, named].concat());
    assert_eq!(devices(&pods), ["claim mine: gets gpu-0"], "{pods:?}");
}

#[test]
fn the_user_is_notified_of_a_missing_template() {
    let cluster = cluster(&["a", "b"].map(|name| pod(name, "").replace("one", "two")).concat());
    assert_eq!(
        cluster.notices,
        ["ResourceClaimTemplate default/two does not exist, so 2 pod(s) that use it stay pending"]
    );
    let setup = Setup::read(None, &Choices::default()).unwrap();
    assert_eq!(cluster.custom_notices(&setup.engine), Vec::<String>::new());
}

#[test]
fn a_new_node_that_would_help_brings_devices_like_those_of_its_model() {
    // Without devices, the smaller node is no model.
    let other =
        "{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: 4, pods: 9}}}\n---\n";
    let cluster = cluster(&[other, &pod("a", ""), &pod("b", ""), &pod("c", "")].concat());
    let engine = Setup::read(None, &Choices::default()).unwrap().engine;
    let answer = why(engine, cluster, "default/c", &mut |_, _| {}).unwrap().unwrap();
    let nodes: Vec<_> = answer
        .remedies
        .iter()
        .filter(|remedy| matches!(remedy.changes[..], [Change::AddNode { .. }]))
        .map(|remedy| (remedy.changes[0].to_string(), remedy.fits, remedy.example.as_str()))
        .collect();
    assert_eq!(nodes, [("add a node like n1".to_owned(), 1, "n1-copy-1")]);
}

#[test]
fn explanations_count_the_devices_that_are_free() {
    let two = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: two}, spec: {spec: {devices: \
               {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 2}}]}}}}\n---\n";
    let special = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: special}, spec: {spec: {devices: \
                   {requests: [{name: gpu, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'false'}}]}}]}}}}\n---\n";
    for (template, expected) in [
        ("two", "wants 2, 1 of 2 devices of class gpu are free"),
        ("special", "1 of 2 devices of class gpu are free, but the claims rule some out"),
    ] {
        let waiting = pod("p", "")
            .replace("resourceClaimTemplateName: one", &format!("resourceClaimTemplateName: {template}"));
        let cluster = cluster(&[two, special, &pod("a", ""), &waiting].concat());
        let engine = Setup::read(None, &Choices::default()).unwrap().engine;
        let answer = why(engine, cluster, "default/p", &mut |_, _| {}).unwrap().unwrap();
        let rejected = answer.explanation.unwrap().rejected;
        let lacks: Vec<_> = rejected.iter().flat_map(|nodes| &nodes.lacks).collect();
        assert_eq!(lacks, [expected]);
    }
}

#[test]
fn a_claim_that_asks_for_too_many_devices_is_answered_with_the_largest_number_that_is_free() {
    let many = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: many}, spec: {spec: {devices: \
                {requests: [{name: gpus, exactly: {deviceClassName: gpu, count: 4}}]}}}}\n---\n";
    let waiting = pod("p", "").replace("resourceClaimTemplateName: one", "resourceClaimTemplateName: many");
    for (others, expected) in [
        (String::new(), Some("ask for 2 instead of 4 devices in request gpus of claim gpu")),
        (pod("a", ""), Some("ask for 1 instead of 4 devices in request gpus of claim gpu")),
        ([pod("a", ""), pod("b", "")].concat(), None),
    ] {
        let cluster = cluster(&[many, &others, &waiting].concat());
        let engine = Setup::read(None, &Choices::default()).unwrap().engine;
        let answer = why(engine, cluster, "default/p", &mut |_, _| {}).unwrap().unwrap();
        let fewer =
            answer.remedies.iter().map(ToString::to_string).find(|words| words.starts_with("ask for"));
        assert_eq!(fewer.as_deref(), expected, "{:?}", answer.remedies);
    }
}
