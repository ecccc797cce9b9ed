//! An API server as seen by its clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use harbormaster_api::Release;
use tempfile::TempDir;

use super::{ApiClient, Component, Error, RealBinary, flags, io_error, scheduler_config};

/// The URL of an API server, the credentials of an administrator, and a directory for files that is deleted when this
/// value is dropped.
#[derive(Debug)]
pub struct Endpoint {
    client: ApiClient,
    server_url: String,
    token: String,
    kubeconfig: PathBuf,
    release: Release,
    /// Number of scheduler configurations written so far, used in file names.
    schedulers: AtomicUsize,
    directory: TempDir,
}

impl Endpoint {
    /// Creates an endpoint for `server_url`, for example `https://127.0.0.1:6443`, with `token`, in a cluster of
    /// Kubernetes 1.36. The server need not be running yet. Its certificate is not verified.
    pub fn new(server_url: &str, token: &str) -> Result<Self, Error> {
        let directory = tempfile::Builder::new()
            .prefix("harbormaster-test-")
            .tempdir()
            .map_err(io_error("creating a temporary directory"))?;
        let kubeconfig = directory.path().join("kubeconfig");
        write_file(&kubeconfig, &kubeconfig_text(server_url, token))?;
        Ok(Self {
            client: ApiClient::new(server_url, token),
            server_url: server_url.to_owned(),
            token: token.to_owned(),
            kubeconfig,
            release: Release::V1_36,
            schedulers: AtomicUsize::new(0),
            directory,
        })
    }

    /// Returns this endpoint in a cluster of another release.
    #[must_use]
    pub fn with_release(self, release: Release) -> Self {
        Self { release, ..self }
    }

    /// Release of the cluster's kube-scheduler. Harbormaster reproduces the same release.
    #[must_use]
    pub fn release(&self) -> Release {
        self.release
    }

    /// The path of the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The URL `https://127.0.0.1:PORT`; the certificate is self-signed.
    #[must_use]
    pub fn server_url(&self) -> &str {
        &self.server_url
    }

    /// The administrator's bearer token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A client with the administrator's credentials.
    #[must_use]
    pub fn client(&self) -> &ApiClient {
        &self.client
    }

    /// A directory for a test's files. It is deleted when this value is dropped.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Adds the kubeconfig to a scheduler configuration as described for [`Self::start_kube_scheduler`], and returns
    /// the path of the file.
    pub fn write_scheduler_config(&self, config: &str) -> Result<PathBuf, Error> {
        let number = self.schedulers.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.directory().join(format!("scheduler-{number}.yaml"));
        write_file(&path, &scheduler_config::with_kubeconfig(config, &self.kubeconfig)?)?;
        Ok(path)
    }

    /// Starts the real kube-scheduler of the cluster's release, without leader election and without a serving port (add `--secure-port=N` for
    /// one).
    ///
    /// `config` is a KubeSchedulerConfiguration in YAML or JSON, or empty for the defaults. The kubeconfig is added to
    /// the configuration; YAML with its own `clientConnection` must contain `kubeconfig: $KUBECONFIG`. `extra_flags`
    /// are of the form `--name=value`. Drop or stop the component before the API server.
    pub fn start_kube_scheduler(&self, config: &str, extra_flags: &[String]) -> Result<Component, Error> {
        let binary = RealBinary::ensure(self.release)?;
        let config_path = self.write_scheduler_config(config)?;
        let files = config_path.with_extension("");
        let defaults = vec![
            format!("--config={}", config_path.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--cert-dir={}", files.display()),
        ];
        let flags = flags::merge(defaults, extra_flags);
        Component::start(&binary, "kube-scheduler", &flags, files.with_extension("log"))
    }
}

pub(super) fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(io_error(format!("writing {}", path.display())))
}

fn kubeconfig_text(server_url: &str, token: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster:
    server: {server_url}
    insecure-skip-tls-verify: true
users:
- name: admin
  user:
    token: {token}
contexts:
- name: test
  context:
    cluster: test
    user: admin
"
    )
}
