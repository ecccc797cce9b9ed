//! The configmap `kube-system/extension-apiserver-authentication`, in which kube-apiserver tells whose certificates count
//! for clients and for proxies. It is followed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use harbormaster_client::{ApiClient, ApiError, client::REQUEST_LIMIT};
use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use crate::{client_certificate::Authorities, options::RequestHeader, proxy::Proxies, secured::Secured};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// How long a watch lasts, in seconds; the configmap is read anew afterwards.
const WATCH: u64 = 300;
/// Between two looks at the configmap, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Between tries that fail, at most; and between looks where watching fails.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// Reads the configmap.
#[derive(Debug)]
pub(crate) struct Lookup {
    client: ApiClient,
    /// Whether the authorities of clients are taken from it.
    clients: bool,
    /// Whether those of proxies are, with the names of headers.
    proxies: bool,
    /// What was in it when it was last applied.
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

    /// Reads the configmap once; that there is none is no error. Returns the version from which to watch.
    pub(crate) async fn once(&mut self, secured: &Secured) -> Result<String, String> {
        let reply = self.client.get(&path("")).await.map_err(|e| said(&e))?;
        let mut list: List = serde_json::from_slice(&reply).map_err(|e| format!("configmap {NAME}: {e}"))?;
        if let Some(map) = list.items.pop() {
            self.apply(map.data, secured);
        }
        Ok(list.metadata.resource_version)
    }

    /// Follows the configmap for ever.
    pub(crate) async fn follow(mut self, secured: Arc<Secured>) {
        let mut pause = PAUSE;
        loop {
            match self.once(&secured).await {
                Ok(version) => {
                    pause = PAUSE;
                    if self.change_after(&version).await.is_err() {
                        sleep(LONG_PAUSE).await;
                    }
                }
                Err(why) => {
                    tracing::warn!(
                        err = why,
                        "Error looking up in-cluster authentication configuration; it is tried again"
                    );
                    pause = (pause * 2).min(LONG_PAUSE);
                }
            }
            sleep(pause).await;
        }
    }

    /// Waits until something is new, or may be.
    async fn change_after(&self, version: &str) -> Result<(), ApiError> {
        let watch = format!("&watch=true&timeoutSeconds={WATCH}&resourceVersion={version}");
        let mut stream = self.client.open(&path(&watch), REQUEST_LIMIT).await?;
        // What is new is read from the configmap itself.
        let _ = timeout(Duration::from_secs(WATCH) + REQUEST_LIMIT, stream.body.frame()).await;
        Ok(())
    }

    /// What is broken is told of, and what was there before kept.
    fn apply(&mut self, data: BTreeMap<String, String>, secured: &Secured) {
        if data == self.last {
            return;
        }
        self.last = data;
        let data = &self.last;
        if self.clients {
            match authorities(data, "client-ca-file") {
                Ok(authorities) => secured.change_trust(|trust| trust.clients = Some(authorities)),
                Err(why) => tracing::warn!(err = why, "No certificate of a client counts anew"),
            }
        }
        if self.proxies {
            match proxies(data) {
                Ok(proxies) => secured.change_trust(|trust| trust.proxies = Some(proxies)),
                Err(why) => tracing::warn!(err = why, "No certificate of a proxy counts anew"),
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
