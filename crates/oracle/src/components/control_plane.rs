//! etcd, kube-apiserver and optionally kube-controller-manager.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use harbormaster_api::Release;

use super::endpoint::write_file;
use super::ports::free_ports;
use super::{ApiClient, Component, Endpoint, Error, RealBinary, flags, io_error};

/// Token of a member of system:masters. It need not be secret, because kube-apiserver listens on loopback only.
const TOKEN: &str = "harbormaster-admin";

/// Number of attempts to start the components. A component exits early if another process has taken one of its ports.
const ATTEMPTS: usize = 3;

const POLL: Duration = Duration::from_millis(50);

/// Options of a [`ControlPlane`]. The defaults suit most tests.
#[derive(Debug, Clone)]
pub struct ControlPlaneOptions {
    /// Release of all components, including those that are started later.
    pub release: Release,
    /// If true, kube-controller-manager runs too. It handles Deployments, ReplicaSets and service accounts, updates the
    /// status of PodDisruptionBudgets, binds volumes, and removes the finalizers of namespaces. Its node lifecycle and
    /// taint eviction controllers are disabled, because no kubelet sends heartbeats.
    pub controller_manager: bool,
    /// Flags for kube-apiserver of the form `--name=value`. Each is added to the defaults, or replaces the default of
    /// the same name.
    pub apiserver_flags: Vec<String>,
    /// Flags for etcd, of the same form.
    pub etcd_flags: Vec<String>,
    /// Flags for kube-controller-manager, of the same form.
    pub controller_manager_flags: Vec<String>,
    /// Time limit for kube-apiserver to become ready, which usually takes about 4 s.
    pub ready_timeout: Duration,
}

impl Default for ControlPlaneOptions {
    fn default() -> Self {
        Self {
            release: Release::V1_36,
            controller_manager: false,
            apiserver_flags: Vec::new(),
            etcd_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
            ready_timeout: Duration::from_secs(180),
        }
    }
}

/// A running cluster without nodes, at its [`Endpoint`]. Dropping it stops the components and deletes their files.
///
/// kube-apiserver allows every user every action, and does not limit the rate of requests. Two admission plugins are
/// disabled: ServiceAccount, so that pods need no service account, and TaintNodesByCondition, so that new nodes are not
/// tainted as not ready.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in order: first the clients of the API, last the files.
    controller_manager: Option<Component>,
    apiserver: Component,
    etcd: Component,
    etcd_url: String,
    endpoint: Endpoint,
}

impl ControlPlane {
    /// The administrator's token, which a custom `--token-auth-file` must contain.
    pub const TOKEN: &str = TOKEN;

    /// Builds the components if necessary, starts them on free ports of 127.0.0.1, and returns when `/readyz` succeeds
    /// and the namespace `default` exists. An error contains the end of the log of the component that failed.
    pub fn start(options: &ControlPlaneOptions) -> Result<Self, Error> {
        let binary = RealBinary::ensure(options.release)?;
        let mut attempt = 1;
        loop {
            match Self::start_once(&binary, options) {
                Err(Error::NotReady { log, .. })
                    if attempt < ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn start_once(binary: &RealBinary, options: &ControlPlaneOptions) -> Result<Self, Error> {
        let deadline = Instant::now() + options.ready_timeout;
        let [etcd_port, peer_port, api_port] = free_ports()?;
        let url = format!("https://127.0.0.1:{api_port}");
        let endpoint = Endpoint::new(&url, TOKEN)?.with_release(options.release);
        let root = endpoint.directory();

        let flags = flags::merge(etcd_flags(root, etcd_port, peer_port), &options.etcd_flags);
        let mut etcd = Component::start(binary, "etcd", &flags, root.join("etcd.log"))?;

        write_file(&root.join("tokens.csv"), &format!("{TOKEN},admin,admin,system:masters\n"))?;
        write_service_account_key(binary, &root.join("service-account.key"))?;
        let flags = flags::merge(apiserver_flags(root, etcd_port, api_port), &options.apiserver_flags);
        let mut apiserver =
            Component::start(binary, "kube-apiserver", &flags, root.join("kube-apiserver.log"))?;

        wait_until_ready(endpoint.client(), &mut etcd, &mut apiserver, deadline)?;
        let controller_manager = options
            .controller_manager
            .then(|| {
                let defaults = controller_manager_flags(root, endpoint.kubeconfig());
                let flags = flags::merge(defaults, &options.controller_manager_flags);
                let log = root.join("kube-controller-manager.log");
                Component::start(binary, "kube-controller-manager", &flags, log)
            })
            .transpose()?;
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        Ok(Self { controller_manager, apiserver, etcd, etcd_url, endpoint })
    }

    /// Stops kube-apiserver, gracefully or by killing it, restarts it on the same port, and waits until it is ready,
    /// for at most `limit`.
    pub fn restart_apiserver(&mut self, gracefully: bool, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let mut attempt = 1;
        loop {
            self.apiserver.restart(gracefully)?;
            match wait_until_ready(self.endpoint.client(), &mut self.etcd, &mut self.apiserver, deadline) {
                // On loopback, a client that connects repeatedly to an unused port may connect to itself and occupy it.
                Err(Error::NotReady { log, .. })
                    if attempt < ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Kills kube-apiserver. [`Self::restart_apiserver`] starts it again.
    pub fn kill_apiserver(&mut self) -> Result<(), Error> {
        self.apiserver.kill().map(drop)
    }

    /// The kube-apiserver process.
    #[must_use]
    pub fn apiserver(&self) -> &Component {
        &self.apiserver
    }

    /// The etcd process.
    #[must_use]
    pub fn etcd(&self) -> &Component {
        &self.etcd
    }

    /// The URL of etcd for clients: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    /// The kube-controller-manager process, if it was requested.
    #[must_use]
    pub fn controller_manager(&self) -> Option<&Component> {
        self.controller_manager.as_ref()
    }
}

impl Deref for ControlPlane {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

fn etcd_flags(root: &Path, client_port: u16, peer_port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        format!("--data-dir={}", root.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The data does not have to survive a machine crash.
        "--unsafe-no-fsync=true".to_owned(),
        "--quota-backend-bytes=4294967296".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn apiserver_flags(root: &Path, etcd_port: u16, port: u16) -> Vec<String> {
    let key = root.join("service-account.key");
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // The API does not allow a loopback address as an endpoint.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", root.join("kube-apiserver").display()),
        format!("--token-auth-file={}", root.join("tokens.csv").display()),
        "--authorization-mode=AlwaysAllow".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", key.display()),
        format!("--service-account-signing-key-file={}", key.display()),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
        "--allow-privileged=true".to_owned(),
        // Load tests measure schedulers, not the server's request limits.
        "--enable-priority-and-fairness=false".to_owned(),
        "--max-requests-inflight=0".to_owned(),
        "--max-mutating-requests-inflight=0".to_owned(),
    ]
}

fn controller_manager_flags(root: &Path, kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        format!("--cert-dir={}", root.join("kube-controller-manager").display()),
        "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller".to_owned(),
        format!("--service-account-private-key-file={}", root.join("service-account.key").display()),
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
    ]
}

fn write_service_account_key(binary: &RealBinary, path: &Path) -> Result<(), Error> {
    let output = Command::new(binary.path())
        .arg("service-account-key")
        .output()
        .map_err(io_error("creating a service account key"))?;
    fs::write(path, output.stdout).map_err(io_error(format!("writing {}", path.display())))
}

/// Waits for `/readyz`, then for the namespace `default`, which the server creates a moment later.
fn wait_until_ready(
    client: &ApiClient,
    etcd: &mut Component,
    apiserver: &mut Component,
    deadline: Instant,
) -> Result<(), Error> {
    for path in ["/readyz", "/api/v1/namespaces/default"] {
        while client.get_text(path).is_err() {
            etcd.check("kube-apiserver to become ready", deadline)?;
            apiserver.check(path, deadline)?;
            sleep(POLL);
        }
    }
    Ok(())
}
