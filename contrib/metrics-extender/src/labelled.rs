//! Nodes that have the label that the filter requires. These nodes are watched because schedulers may send only node
//! names, as they always do for preemption.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectList, PartialObjectMeta, WatchEvent, WatchParams},
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

/// Timeout of a list request.
const LIMIT: Duration = Duration::from_secs(10);
/// Delay before the nodes are listed and watched again.
const AGAIN: Duration = Duration::from_secs(2);

/// Names of the nodes with the label. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LabelledNodes {
    names: Arc<RwLock<Option<BTreeSet<String>>>>,
    /// Time at which [`LabelledNodes::refresh`] last started a list request.
    listed: Arc<Mutex<Option<Instant>>>,
}

impl LabelledNodes {
    /// Returns true if the node has the label, or `None` if the nodes are not known yet.
    pub fn has(&self, node: &str) -> Option<bool> {
        Some(self.names.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.contains(node))
    }

    /// Returns true if the nodes are known.
    pub fn is_known(&self) -> bool {
        self.names.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Replaces all names.
    pub fn set(&self, names: BTreeSet<String>) {
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = Some(names);
    }

    /// Lists the nodes immediately: a scheduler may have seen a label that the watch has not reported yet, and does not
    /// repeat its request. Callers that arrive during a list request share the next list request.
    pub async fn refresh(&self, client: &Client, label: &str) {
        let asked = Instant::now();
        let mut listed = self.listed.lock().await;
        if listed.is_some_and(|begun| begun > asked) {
            return;
        }
        *listed = Some(Instant::now());
        // A list request without a resource version returns the latest state. Errors are ignored here; the watch logs
        // them.
        if let Ok(list) = list(&Api::all(client.clone()), &ListParams::default().labels(label)).await {
            self.set(list.items.iter().map(ResourceExt::name_any).collect());
        }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<String>)) {
        change(self.names.write().unwrap_or_else(PoisonError::into_inner).get_or_insert_default());
    }

    /// Watches the metadata of nodes with the label; never returns.
    pub async fn follow(self, client: Client, label: String) {
        let nodes: Api<Node> = Api::all(client);
        let mut trouble = None;
        loop {
            let why = match self.list_and_watch(&nodes, &label).await {
                // The watch has ended, as it does every few minutes.
                Ok(()) => None,
                // The resource version has expired, so list again.
                Err(kube::Error::Api(status)) if status.code == 410 => None,
                Err(error) => Some(error.to_string()),
            };
            if why.is_some() && trouble != why {
                tracing::warn!(error = why, "Watching nodes failed; using the labels known so far");
            }
            trouble = why;
            sleep(AGAIN).await;
        }
    }

    async fn list_and_watch(&self, nodes: &Api<Node>, label: &str) -> kube::Result<()> {
        let list = list(nodes, &ListParams::default().labels(label).match_any()).await?;
        let version = list.metadata.resource_version.clone().unwrap_or_default();
        self.set(list.items.iter().map(ResourceExt::name_any).collect());
        let params = WatchParams::default().labels(label);
        let mut events = pin!(nodes.watch_metadata(&params, &version).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                    self.change(|names| names.extend([node.name_any()]));
                }
                // The label or the node was removed.
                WatchEvent::Deleted(node) => self.change(|names| {
                    names.remove(&node.name_any());
                }),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
        Ok(())
    }
}

async fn list(nodes: &Api<Node>, params: &ListParams) -> kube::Result<ObjectList<PartialObjectMeta<Node>>> {
    let list = timeout(LIMIT, nodes.list_metadata(params)).await;
    list.map_err(|_| kube::Error::Service(format!("no answer within {LIMIT:?}").into()))?
}
