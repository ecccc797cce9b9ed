//! kubectl prints the same lines with the real kube-apiserver and with the in-memory API server. The commands are in
//! `tests/scripts/kubectl.script`, and the expected differences are in `tests/scripts/kubectl_differences.yaml`.

use harbormaster_api::{Release, features::Features};
use harbormaster_oracle::api_comparison::{Action, unused};
use harbormaster_oracle::components::{Kubectl, KubectlVersion};

use crate::releases::MAIN;
use crate::servers;

fn prints_the_same(release: Release, version: KubectlVersion) {
    let kubectl = Kubectl::ensure(version).expect("kubectl can be built");
    let (script, expected) =
        (servers::script("kubectl.script"), servers::expected_differences("kubectl_differences.yaml"));
    let differences = servers::differences(Features::of(release), &script, Some(&kubectl), &expected);
    assert!(
        differences.is_empty(),
        "kubectl {}, Kubernetes {release}: - is the real kube-apiserver, + the in-memory one\n\n{differences}",
        version.minor()
    );
}

#[test]
fn the_oldest_kubectl_prints_the_same_with_both_servers() {
    prints_the_same(MAIN, KubectlVersion::Oldest);
}

#[test]
fn the_newest_kubectl_prints_the_same_with_both_servers() {
    prints_the_same(MAIN, KubectlVersion::Newest);
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn the_oldest_kubectl_prints_the_same_with_both_servers_of_1_37() {
    prints_the_same(Release::V1_37, KubectlVersion::Oldest);
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn the_newest_kubectl_prints_the_same_with_both_servers_of_1_37() {
    prints_the_same(Release::V1_37, KubectlVersion::Newest);
}

#[test]
fn the_script_is_long_and_uses_each_expected_difference() {
    let (script, expected) =
        (servers::script("kubectl.script"), servers::expected_differences("kubectl_differences.yaml"));
    let commands = script.steps.iter().filter(|step| matches!(step.action, Action::Kubectl { .. }));
    assert!(commands.count() >= 100);
    assert_eq!(unused(&[&script], &expected), Vec::<&str>::new());
}
