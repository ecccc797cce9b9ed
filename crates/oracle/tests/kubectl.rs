//! kubectl prints the same with the real kube-apiserver and with the embedded
//! API server, line by line. The commands are in `tests/scripts/kubectl.script`,
//! what may differ is in `tests/scripts/kubectl_differences.yaml`.

mod servers;

use harbormaster_oracle::api_comparison::{Action, unused};
use harbormaster_oracle::components::{Kubectl, KubectlVersion};

fn prints_the_same(version: KubectlVersion) {
    let kubectl = Kubectl::ensure(version).expect("kubectl can be built");
    let (script, wanted) = (servers::script("kubectl.script"), servers::wanted("kubectl_differences.yaml"));
    let told = servers::differences(&script, Some(&kubectl), &wanted);
    assert!(
        told.is_empty(),
        "kubectl {}: - is the real kube-apiserver, + the embedded one\n\n{told}",
        version.minor()
    );
}

#[test]
fn the_oldest_kubectl_prints_the_same() {
    prints_the_same(KubectlVersion::Oldest);
}

#[test]
fn the_newest_kubectl_prints_the_same() {
    prints_the_same(KubectlVersion::Newest);
}

#[test]
fn the_script_is_long_and_each_wanted_difference_is_in_it() {
    let (script, wanted) = (servers::script("kubectl.script"), servers::wanted("kubectl_differences.yaml"));
    let commands = script.steps.iter().filter(|step| matches!(step.action, Action::Kubectl { .. }));
    assert!(commands.count() >= 100);
    assert_eq!(unused(&[&script], &wanted), Vec::<&str>::new());
}
