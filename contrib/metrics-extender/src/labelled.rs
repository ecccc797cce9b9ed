//! Which nodes have the label: watched, for schedulers that send no node objects, and for preemption, where none does.

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

/// How long a list may take.
const LIMIT: Duration = Duration::from_secs(10);
/// From one try to the next.
const AGAIN: Duration = Duration::from_secs(2);

/// The names of nodes with the label. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Labelled {
    names: Arc<RwLock<Option<BTreeSet<String>>>>,
    /// When the last list of [`Labelled::catch_up`] was begun.
    listed: Arc<Mutex<Option<Instant>>>,
}

impl Labelled {
    /// Whether that node has the label; none as long as the API server has told nothing.
    pub fn has(&self, node: &str) -> Option<bool> {
        Some(self.names.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.contains(node))
    }

    /// Whether the API server has told anything.
    pub fn is_known(&self) -> bool {
        self.names.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Takes over all names.
    pub fn set(&self, names: BTreeSet<String>) {
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = Some(names);
    }

    /// Asks for what is true at this moment: a scheduler may have heard of a label that the watch has not told of yet, and asks only
    /// once. Requests that come while a list is on its way share the next one.
    pub async fn catch_up(&self, client: &Client, label: &str) {
        let asked = Instant::now();
        let mut listed = self.listed.lock().await;
        if listed.is_some_and(|begun| begun > asked) {
            return;
        }
        *listed = Some(Instant::now());
        // Without a version the answer is no older than the question. Of trouble the watch tells.
        if let Ok(list) = list(&Api::all(client.clone()), &ListParams::default().labels(label)).await {
            self.set(list.items.iter().map(ResourceExt::name_any).collect());
        }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<String>)) {
        change(self.names.write().unwrap_or_else(PoisonError::into_inner).get_or_insert_default());
    }

    /// Follows the nodes, for ever. Only their metadata is asked for, and only of those with the label.
    pub async fn follow(self, client: Client, label: String) {
        let nodes: Api<Node> = Api::all(client);
        let mut trouble = None;
        loop {
            let why = match self.list_and_watch(&nodes, &label).await {
                // The watch has ended as it does every few minutes.
                Ok(()) => None,
                // Its place in the history is gone: listing anew is all there is to do.
                Err(kube::Error::Api(status)) if status.code == 410 => None,
                Err(error) => Some(error.to_string()),
            };
            if why.is_some() && trouble != why {
                tracing::warn!(
                    error = why,
                    "Nodes cannot be watched; what was known of their labels counts on"
                );
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
                // The label is gone, or the node is.
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
