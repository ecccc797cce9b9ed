//! The in-memory API server answers invalid requests, requests for custom resources, devices and pod groups, and
//! server-side apply as the real kube-apiserver does, with the same status, content type and body. The requests are in
//! `tests/scripts/requests.script`, `custom_resources.script`, `devices.script`, `apply.script`, `pod_groups.script`,
//! `topology.script`, `preemption_policy.script` and `job_groups.script`, and the expected differences are in
//! `tests/scripts/requests_differences.yaml`. With `-- --ignored`, the servers are those of 1.37.

use harbormaster_api::Release;
use harbormaster_api::features::{Feature, Features};
use harbormaster_oracle::api_comparison::unused;

use crate::releases::MAIN;
use crate::servers;

fn are_answered_the_same(features: Features, name: &str) {
    let (script, expected) =
        (servers::script(name), servers::expected_differences("requests_differences.yaml"));
    let differences = servers::differences(features, &script, None, &expected);
    assert!(differences.is_empty(), "- is the real kube-apiserver, + the in-memory one\n\n{differences}");
}

#[test]
fn both_servers_answer_odd_requests_in_the_same_way() {
    are_answered_the_same(Features::of(MAIN), "requests.script");
}

#[test]
fn both_servers_answer_requests_for_custom_resources_in_the_same_way() {
    are_answered_the_same(Features::of(MAIN), "custom_resources.script");
}

#[test]
fn both_servers_answer_requests_for_devices_in_the_same_way() {
    are_answered_the_same(Features::of(MAIN), "devices.script");
}

#[test]
fn both_servers_answer_server_side_apply_in_the_same_way() {
    are_answered_the_same(Features::of(MAIN), "apply.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_of_1_37_answer_odd_requests_in_the_same_way() {
    are_answered_the_same(Features::of(Release::V1_37), "requests.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_of_1_37_answer_requests_for_custom_resources_in_the_same_way() {
    are_answered_the_same(Features::of(Release::V1_37), "custom_resources.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_of_1_37_answer_requests_for_devices_in_the_same_way() {
    are_answered_the_same(Features::of(Release::V1_37), "devices.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_of_1_37_answer_server_side_apply_in_the_same_way() {
    are_answered_the_same(Features::of(Release::V1_37), "apply.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_answer_requests_for_pod_groups_in_the_same_way() {
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
    are_answered_the_same(features, "pod_groups.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_answer_requests_for_topology_constraints_in_the_same_way() {
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::TopologyAwareWorkloadScheduling, true);
    are_answered_the_same(features, "topology.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_answer_requests_for_preemption_policies_of_groups_in_the_same_way() {
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::PodGroupPreemptionPolicy, true);
    are_answered_the_same(features, "preemption_policy.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_answer_requests_for_groups_of_jobs_in_the_same_way() {
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::WorkloadWithJob, true);
    are_answered_the_same(features, "job_groups.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn without_its_gate_both_servers_drop_the_scheduling_of_jobs() {
    are_answered_the_same(Features::of(Release::V1_37), "job_groups_off.script");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn both_servers_answer_requests_for_claims_of_groups_in_the_same_way() {
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::DRAWorkloadResourceClaims, true);
    are_answered_the_same(features, "group_claims.script");
}

#[test]
fn the_scripts_are_long_and_use_each_expected_difference() {
    let expected = servers::expected_differences("requests_differences.yaml");
    let scripts =
        ["requests.script", "custom_resources.script", "devices.script", "apply.script", "pod_groups.script"];
    let scripts = scripts.map(servers::script);
    for script in &scripts {
        assert!(script.steps.len() >= 80);
    }
    assert_eq!(unused(&scripts.each_ref(), &expected), Vec::<&str>::new());
}
