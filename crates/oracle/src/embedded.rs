//! The in-memory API server, in threads of this process.

use std::fs;
use std::ops::Deref;

use anyhow::Result;
use harbormaster_api::Release;
pub use harbormaster_apiserver::Options;
use harbormaster_apiserver::{ApiServer, Certificate, Running, kubeconfig_yaml};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::components::Endpoint;

const TOKEN: &str = "harbormaster-admin";

/// The in-memory API server on a loopback port, over HTTPS, in its own threads. Dropping it stops the server.
pub struct Embedded {
    // Fields are dropped in order, so that connections are closed before the files are deleted.
    _running: Running,
    _threads: Runtime,
    endpoint: Endpoint,
}

impl Embedded {
    /// Starts the server after calling `before`, which may spawn tasks on the same threads.
    ///
    /// # Errors
    /// Any error from `before`, or an error if no port or no temporary directory is available.
    pub fn start(before: impl FnOnce(&ApiServer) -> Result<()>) -> Result<Self> {
        Self::start_with(Options::default(), before)
    }

    /// Same as [`Self::start`], but the server reports the given minor version of Kubernetes 1.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn start_as(minor_version: u32, before: impl FnOnce(&ApiServer) -> Result<()>) -> Result<Self> {
        Self::start_with(Options { minor_version, ..Options::default() }, before)
    }

    /// Same as [`Self::start`], but with options, of which the token is ignored.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn start_with(options: Options, before: impl FnOnce(&ApiServer) -> Result<()>) -> Result<Self> {
        let threads = Runtime::new()?;
        let minor_version = options.minor_version;
        let server = ApiServer::new(Options { token: Some(TOKEN.to_owned()), ..options });
        let certificate = Certificate::self_signed(&[])?;
        let running = threads.block_on(async {
            before(&server)?;
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            anyhow::Ok(server.serve(listener, Some(&certificate))?)
        })?;
        let address = running.address();
        let endpoint = Endpoint::new(&format!("https://{address}"), TOKEN)?
            .with_release(Release::nearest(minor_version));
        // Clients that use the kubeconfig verify the certificate.
        let authority = certificate.authority_pem();
        fs::write(endpoint.kubeconfig(), kubeconfig_yaml(address, Some(&authority), Some(TOKEN)))?;
        Ok(Self { _running: running, _threads: threads, endpoint })
    }
}

impl Deref for Embedded {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}
