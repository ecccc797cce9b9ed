//! The in-memory API server answers invalid requests, requests for custom resources and devices, and server-side apply
//! as the real kube-apiserver does, with the same status, content type and body. The requests are in
//! `tests/scripts/requests.script`, `custom_resources.script`, `devices.script` and `apply.script`, and the expected
//! differences are in `tests/scripts/requests_differences.yaml`.

use harbormaster_oracle::api_comparison::unused;

use crate::servers;

fn are_answered_the_same(name: &str) {
    let (script, expected) =
        (servers::script(name), servers::expected_differences("requests_differences.yaml"));
    let differences = servers::differences(&script, None, &expected);
    assert!(differences.is_empty(), "- is the real kube-apiserver, + the in-memory one\n\n{differences}");
}

#[test]
fn both_servers_answer_odd_requests_in_the_same_way() {
    are_answered_the_same("requests.script");
}

#[test]
fn both_servers_answer_requests_for_custom_resources_in_the_same_way() {
    are_answered_the_same("custom_resources.script");
}

#[test]
fn both_servers_answer_requests_for_devices_in_the_same_way() {
    are_answered_the_same("devices.script");
}

#[test]
fn both_servers_answer_server_side_apply_in_the_same_way() {
    are_answered_the_same("apply.script");
}

#[test]
fn the_scripts_are_long_and_use_each_expected_difference() {
    let expected = servers::expected_differences("requests_differences.yaml");
    let scripts = ["requests.script", "custom_resources.script", "devices.script", "apply.script"];
    let scripts = scripts.map(servers::script);
    for script in &scripts {
        assert!(script.steps.len() >= 80);
    }
    assert_eq!(unused(&scripts.each_ref(), &expected), Vec::<&str>::new());
}
