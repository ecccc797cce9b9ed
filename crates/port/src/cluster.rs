//! The configmap `kube-system/extension-apiserver-authentication`, in which kube-apiserver publishes the certificate
//! authorities for clients and proxies. The configmap is reloaded when it changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use harbormaster_client::{ApiClient, ApiError, client::REQUEST_LIMIT};
use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::time::timeout;

use crate::{client_certificate::Authorities, options::RequestHeader, proxy::Proxies, tls_state::TlsState};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// Duration of a watch, in seconds. Afterwards, the configmap is read again.
const WATCH_SECONDS: u64 = 300;
/// Minimum delay between two reads of the configmap.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Maximum delay after a failed read, and the additional delay if the watch cannot be opened.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Reads the configmap.
#[derive(Debug)]
pub(crate) struct Lookup {
    client: ApiClient,
    /// True if the configmap supplies the authorities for clients.
    clients: bool,
    /// True if the configmap supplies the authorities for proxies and the names of headers.
    proxies: bool,
    /// The data that was applied last.
    last: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct List {
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<ConfigMap>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Lookup {
    pub(crate) fn new(client: ApiClient, clients: bool, proxies: bool) -> Self {
        Self { client, clients, proxies, last: BTreeMap::new() }
    }

    /// Reads the configmap once; a missing configmap is not an error. Returns the version from which to watch.
    pub(crate) async fn once(&mut self, secured: &TlsState) -> Result<String, String> {
        let reply = self.client.get(&path("")).await.map_err(|e| said(&e))?;
        let mut list: List = serde_json::from_slice(&reply).map_err(|e| format!("configmap {NAME}: {e}"))?;
        if let Some(map) = list.items.pop() {
            self.apply(map.data, secured);
        }
        Ok(list.metadata.resource_version)
    }

    /// Applies each change of the configmap; never returns.
    pub(crate) async fn follow(mut self, secured: Arc<TlsState>) {
        let mut pause = MIN_PAUSE;
        loop {
            match self.once(&secured).await {
                Ok(version) => {
                    pause = MIN_PAUSE;
                    if self.change_after(&version).await.is_err() {
                        self.client.rest(MAX_PAUSE).await;
                    }
                }
                Err(why) => {
                    tracing::warn!(
                        err = why,
                        "Error looking up in-cluster authentication configuration; will retry"
                    );
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
            self.client.rest(pause).await;
        }
    }

    /// Waits until the configmap may have changed.
    async fn change_after(&self, version: &str) -> Result<(), ApiError> {
        let watch = format!("&watch=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}");
        let mut stream = self.client.open(&path(&watch), REQUEST_LIMIT).await?;
        // The event's content does not matter, since the configmap is then read again.
        let _ = timeout(Duration::from_secs(WATCH_SECONDS) + REQUEST_LIMIT, stream.body.frame()).await;
        Ok(())
    }

    /// Applies new data. Logs invalid values and keeps the previous ones.
    fn apply(&mut self, data: BTreeMap<String, String>, secured: &TlsState) {
        if data == self.last {
            return;
        }
        self.last = data;
        let data = &self.last;
        if self.clients {
            match authorities(data, "client-ca-file") {
                Ok(authorities) => secured.change_trust(|trust| trust.clients = Some(authorities)),
                Err(why) => tracing::warn!(
                    err = why,
                    "The new certificate authorities for clients cannot be used; the previous ones stay in use"
                ),
            }
        }
        if self.proxies {
            match proxies(data) {
                Ok(proxies) => secured.change_trust(|trust| trust.proxies = Some(proxies)),
                Err(why) => tracing::warn!(
                    err = why,
                    "The new certificate authorities for proxies cannot be used; the previous ones stay in use"
                ),
            }
        }
        tracing::debug!(v = 2, "Loaded the cluster's authentication configuration");
    }
}

fn path(more: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps?fieldSelector=metadata.name%3D{NAME}{more}")
}

fn said(error: &ApiError) -> String {
    match error.code() {
        Some(403) => format!(
            "{error}; bind this scheduler's user to the role extension-apiserver-authentication-reader in {NAMESPACE}"
        ),
        _ => error.to_string(),
    }
}

fn authorities(data: &BTreeMap<String, String>, key: &str) -> Result<Authorities, String> {
    let pem = data.get(key).filter(|pem| !pem.is_empty());
    let pem = pem
        .ok_or_else(|| format!("missing content for CA bundle: configmap {NAMESPACE}/{NAME} has no {key}"))?;
    Authorities::parse(pem.as_bytes()).map_err(|why| format!("configmap {NAMESPACE}/{NAME}, {key}: {why}"))
}

fn proxies(data: &BTreeMap<String, String>) -> Result<Proxies, String> {
    let list = |key: &str| -> Result<Vec<String>, String> {
        match data.get(key).filter(|text| !text.is_empty()) {
            None => Ok(Vec::new()),
            Some(text) => {
                serde_json::from_str(text).map_err(|e| format!("configmap {NAMESPACE}/{NAME}, {key}: {e}"))
            }
        }
    };
    Ok(Proxies {
        authorities: authorities(data, "requestheader-client-ca-file")?,
        headers: RequestHeader {
            client_ca_file: None,
            allowed_names: list("requestheader-allowed-names")?,
            username_headers: list("requestheader-username-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_header_prefixes: list("requestheader-extra-headers-prefix")?,
        },
    })
}
