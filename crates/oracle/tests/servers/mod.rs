//! A real control plane and the embedded API server, and scripts played on both.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use harbormaster_apiserver::{ApiServer, Certificate, Options, Running, kubeconfig_yaml};
use harbormaster_oracle::api_comparison::{Answer, Endpoint, Player, Script, Wanted, compare};
use harbormaster_oracle::components::{ControlPlane, ControlPlaneOptions, Kubectl};
use tokio::runtime::Runtime;

const TOKEN: &str = "harbormaster-admin";

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A script of `tests/scripts`.
pub(crate) fn script(name: &str) -> Script {
    Script::parse(&data(name)).unwrap_or_else(|e| panic!("{name}: {e:#}"))
}

/// The wanted differences of one list of `tests/scripts`.
pub(crate) fn wanted(name: &str) -> Wanted {
    Wanted::parse(&data(name)).unwrap_or_else(|e| panic!("{name}: {e:#}"))
}

/// The real control plane. Of the controllers only those run that the embedded
/// server has, too.
fn real() -> ControlPlane {
    let options = ControlPlaneOptions {
        controller_manager: true,
        apiserver_flags: vec!["--disable-admission-plugins=TaintNodesByCondition".to_owned()],
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

/// The embedded server over HTTPS.
struct Embedded {
    // Fields are dropped in order: the server needs the runtime.
    _running: Running,
    _runtime: Runtime,
    endpoint: Endpoint,
}

fn embedded(directory: &Path) -> Embedded {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let certificate = Certificate::self_signed(&[]).expect("a certificate");
    let running = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let options = Options { token: Some(TOKEN.to_owned()), ..Options::default() };
        ApiServer::new(options).serve(listener, Some(&certificate)).expect("the embedded server starts")
    });
    let kubeconfig: PathBuf = directory.join("embedded.kubeconfig");
    let authority = certificate.authority_pem();
    fs::write(&kubeconfig, kubeconfig_yaml(running.address(), Some(&authority), Some(TOKEN)))
        .expect("a kubeconfig can be written");
    let endpoint =
        Endpoint { url: format!("https://{}", running.address()), token: TOKEN.to_owned(), kubeconfig };
    Embedded { _running: running, _runtime: runtime, endpoint }
}

fn play(
    name: &str,
    endpoint: &Endpoint,
    kubectl: Option<&Kubectl>,
    script: &Script,
) -> (Vec<Answer>, String) {
    let player = Player::new(endpoint.clone(), kubectl.cloned()).expect("a temporary directory");
    let (answers, end) = player.play(script);
    (answers, end.map_or_else(|e| format!("{name} cannot go on: {e:#}\n"), |()| String::new()))
}

/// Plays a script on both servers, side by side, and tells what differs
/// although it should not.
pub(crate) fn differences(script: &Script, kubectl: Option<&Kubectl>, wanted: &Wanted) -> String {
    let real = real();
    let embedded = embedded(real.directory());
    let endpoint = Endpoint {
        url: real.server_url().to_owned(),
        token: real.token().to_owned(),
        kubeconfig: real.kubeconfig().to_owned(),
    };
    let (theirs, ours) = thread::scope(|scope| {
        let theirs = scope.spawn(|| play("the real kube-apiserver", &endpoint, kubectl, script));
        let ours = play("the embedded server", &embedded.endpoint, kubectl, script);
        (theirs.join().expect("the script is played"), ours)
    });
    let told = compare(script, &theirs.0, &ours.0, wanted).expect("all wanted differences are known");
    told + &theirs.1 + &ours.1
}
