//! Runs scripts on a real control plane and on the in-memory API server.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use harbormaster_api::features::{Feature, Features};
use harbormaster_apiserver::Options;
use harbormaster_oracle::api_comparison::{Answer, ExpectedDifferences, Player, Script, compare};
use harbormaster_oracle::components::{ControlPlane, ControlPlaneOptions, Endpoint, Kubectl};
use harbormaster_oracle::embedded::Embedded;

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns a script from `tests/scripts`.
pub(crate) fn script(name: &str) -> Script {
    Script::parse(&data(name)).unwrap_or_else(|e| panic!("{name}: {e:#}"))
}

/// Returns a list of expected differences from `tests/scripts`.
pub(crate) fn expected_differences(name: &str) -> ExpectedDifferences {
    ExpectedDifferences::parse(&data(name)).unwrap_or_else(|e| panic!("{name}: {e:#}"))
}

/// Starts the real control plane, with only the controllers that the in-memory server also has.
fn real(features: Features) -> ControlPlane {
    let mut apiserver_flags = vec!["--disable-admission-plugins=TaintNodesByCondition".to_owned()];
    if features.enabled(Feature::GenericWorkload) {
        let is_on = |gate: &Feature| features.enabled(*gate);
        let gates = [
            Feature::GenericWorkload,
            Feature::TopologyAwareWorkloadScheduling,
            Feature::PodGroupPreemptionPolicy,
            Feature::WorkloadWithJob,
            Feature::DRAWorkloadResourceClaims,
        ];
        let gates: Vec<String> = gates.iter().map(|gate| format!("{gate}={}", is_on(gate))).collect();
        apiserver_flags.push(format!("--feature-gates={}", gates.join(",")));
        let versions = ["v1beta1", "v1alpha3"].map(|version| format!("scheduling.k8s.io/{version}=true"));
        apiserver_flags.push(format!("--runtime-config={}", versions.join(",")));
    }
    let options = ControlPlaneOptions {
        release: features.release(),
        controller_manager: true,
        apiserver_flags,
        controller_manager_flags: vec![
            "--controllers=namespace-controller,serviceaccount-controller,persistentvolume-protection-controller,persistentvolumeclaim-protection-controller".to_owned(),
        ],
        ..ControlPlaneOptions::default()
    };
    let real = ControlPlane::start(&options).expect("the real control plane starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = real.client().get("/api/v1/namespaces/default/serviceaccounts/default") {
        assert!(Instant::now() < deadline, "the controllers do not work: {error}");
        thread::sleep(Duration::from_millis(50));
    }
    real
}

fn play(
    name: &str,
    endpoint: &Endpoint,
    kubectl: Option<&Kubectl>,
    script: &Script,
) -> (Vec<Answer>, String) {
    let player = Player::new(endpoint, kubectl.cloned()).expect("a temporary directory exists");
    let (answers, end) = player.play(script);
    (answers, end.map_or_else(|e| format!("{name}: the script failed: {e:#}\n"), |()| String::new()))
}

/// Runs a script on both servers concurrently, and describes the unexpected differences.
pub(crate) fn differences(
    features: Features,
    script: &Script,
    kubectl: Option<&Kubectl>,
    expected: &ExpectedDifferences,
) -> String {
    let real = real(features);
    let options = Options { features, minor_version: features.release().minor(), ..Options::default() };
    let embedded = Embedded::start_with(options, |_| Ok(())).expect("the in-memory server starts");
    let (theirs, ours) = thread::scope(|scope| {
        let theirs = scope.spawn(|| play("the real kube-apiserver", &real, kubectl, script));
        let ours = play("the in-memory server", &embedded, kubectl, script);
        (theirs.join().expect("the script runs"), ours)
    });
    let differences = compare(script, &theirs.0, &ours.0, &expected.of(features.release()))
        .expect("all expected differences are known");
    differences + &theirs.1 + &ours.1
}
