//! HTTP requests that go wrong are answered by the embedded API server as by
//! the real kube-apiserver: status, content type and body, and so are those
//! about custom resources and those of server-side apply. The requests are in
//! `tests/scripts/requests.script`, `custom_resources.script` and
//! `apply.script`, what may differ is in
//! `tests/scripts/requests_differences.yaml`.

mod servers;

use harbormaster_oracle::api_comparison::unused;

fn are_answered_the_same(name: &str) {
    let (script, wanted) = (servers::script(name), servers::wanted("requests_differences.yaml"));
    let told = servers::differences(&script, None, &wanted);
    assert!(told.is_empty(), "- is the real kube-apiserver, + the embedded one\n\n{told}");
}

#[test]
fn odd_requests_are_answered_the_same() {
    are_answered_the_same("requests.script");
}

#[test]
fn requests_about_custom_resources_are_answered_the_same() {
    are_answered_the_same("custom_resources.script");
}

#[test]
fn applied_configurations_are_answered_the_same() {
    are_answered_the_same("apply.script");
}

#[test]
fn the_scripts_are_long_and_each_wanted_difference_is_in_them() {
    let wanted = servers::wanted("requests_differences.yaml");
    let scripts = ["requests.script", "custom_resources.script", "apply.script"].map(servers::script);
    for script in &scripts {
        assert!(script.steps.len() >= 80);
    }
    assert_eq!(unused(&scripts.each_ref(), &wanted), Vec::<&str>::new());
}
