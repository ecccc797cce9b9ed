//! HTTP requests that go wrong are answered by the embedded API server as by
//! the real kube-apiserver: status, content type and body. The requests are in
//! `tests/scripts/requests.script`, what may differ is in
//! `tests/scripts/requests_differences.yaml`.

mod servers;

use harbormaster_oracle::api_comparison::unused;

#[test]
fn odd_requests_are_answered_the_same() {
    let (script, wanted) = (servers::script("requests.script"), servers::wanted("requests_differences.yaml"));
    let told = servers::differences(&script, None, &wanted);
    assert!(told.is_empty(), "- is the real kube-apiserver, + the embedded one\n\n{told}");
}

#[test]
fn the_script_is_long_and_each_wanted_difference_is_in_it() {
    let (script, wanted) = (servers::script("requests.script"), servers::wanted("requests_differences.yaml"));
    assert!(script.steps.len() >= 80);
    assert_eq!(unused(&[&script], &wanted), Vec::<&str>::new());
}
