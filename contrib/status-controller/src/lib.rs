//! The part that controllers share which keep the statuses of custom objects up to date.
//!
//! A controller watches objects of one kind and the pods that count for them. After every change, it computes the
//! statuses concerned and writes those that differ. Nothing is kept between runs, and two controllers at a time do no
//! harm, because they write the same.
//!
//! Reading order: `books` (which pods count where, and [`Statuses`]), then this file.

mod books;

use std::{
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::{CommandFactory, FromArgMatches, Parser};
use futures_util::TryStreamExt;
use harbormaster::{
    api::Timestamp,
    prelude::Resource,
    serde_json::{self, Value, json},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{
        ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, WatchEvent, WatchParams,
    },
    config::{KubeConfigOptions, Kubeconfig},
};
use thiserror::Error;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{sleep, timeout},
};

use books::{Books, Change, key, namespace};

pub use books::{Key, Statuses};
pub use kube::{ResourceExt as ObjectExt, api::DynamicObject as Object};

/// Pause before a list or a write is repeated.
const PAUSE: Duration = Duration::from_secs(2);

/// Keeps the statuses of custom objects up to date.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// Kubeconfig file. By default, uses the in-cluster configuration or kubectl's
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// The reason the controller cannot run.
#[derive(Debug, Error)]
enum ControllerError {
    /// The kubeconfig is invalid or missing.
    #[error("kubeconfig: {0}")]
    Kubeconfig(String),
    /// The runtime cannot be started.
    #[error("starting: {0}")]
    Process(#[from] std::io::Error),
}

/// Runs the program of a controller with this name.
pub fn main<S: Statuses>(name: &'static str) -> ExitCode {
    let matches = Flags::command().name(name).get_matches();
    let flags = Flags::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    match run::<S>(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run<S: Statuses>(flags: &Flags) -> Result<(), ControllerError> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    threads.block_on(async {
        let client = connect(flags.kubeconfig.as_deref()).await?;
        tokio::select! {
            () = control::<S>(&client) => {}
            ended = tokio::signal::ctrl_c() => ended?,
        }
        Ok(())
    })
}

async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ControllerError> {
    let unusable = |error: &dyn std::fmt::Display| ControllerError::Kubeconfig(error.to_string());
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|error| unusable(&error))?
        }
        None => Config::infer().await.map_err(|error| unusable(&error))?,
    };
    Client::try_from(config).map_err(|error| unusable(&error))
}

/// Watches objects and pods, and writes statuses. Never returns.
async fn control<S: Statuses>(client: &Client) {
    let (changes, news) = unbounded_channel();
    let (kind, pod) = (kind::<S>(), ApiResource::erase::<Pod>(&()));
    let objects = Watched {
        api: Api::all_with(client.clone(), &kind),
        label: None,
        all: Change::Objects,
        one: Change::Object,
        none: Change::NoObject,
    };
    let pods = Watched {
        api: Api::all_with(client.clone(), &pod),
        label: S::LABEL,
        all: Change::Pods,
        one: Change::Pod,
        none: Change::NoPod,
    };
    tokio::join!(objects.follow(&changes), pods.follow(&changes), write::<S>(client, news));
}

fn kind<S: Statuses>() -> ApiResource {
    let name = GroupVersionKind::gvk(S::Object::GROUP, S::Object::VERSION, S::Object::KIND);
    ApiResource::from_gvk_with_plural(&name, S::Object::PLURAL)
}

/// A kind to watch, and the changes to report about it.
struct Watched {
    api: Api<DynamicObject>,
    label: Option<&'static str>,
    all: fn(Vec<DynamicObject>) -> Change,
    one: fn(Box<DynamicObject>) -> Change,
    none: fn(Key) -> Change,
}

impl Watched {
    /// Lists and watches the objects again and again.
    async fn follow(&self, changes: &UnboundedSender<Change>) {
        let mut trouble = None;
        loop {
            let why = match self.list_and_watch(changes).await {
                // The watch has ended, as it does every few minutes, or its resource version has expired.
                Ok(()) => None,
                Err(kube::Error::Api(status)) if status.code == 410 => None,
                Err(error) => Some(error.to_string()),
            };
            if why.is_some() && trouble != why {
                tracing::warn!(error = why, "Watching failed; trying again");
            }
            trouble = why;
            sleep(PAUSE).await;
        }
    }

    async fn list_and_watch(&self, changes: &UnboundedSender<Change>) -> kube::Result<()> {
        let (mut listing, mut watching) = (ListParams::default().match_any(), WatchParams::default());
        if let Some(label) = self.label {
            (listing, watching) = (listing.labels(label), watching.labels(label));
        }
        let list = self.api.list(&listing).await?;
        let version = list.metadata.resource_version.clone().unwrap_or_default();
        let mut events = pin!(self.api.watch(&watching, &version).await?);
        // The receiver lives as long as the senders.
        let tell = |change| drop(changes.send(change));
        tell((self.all)(list.items));
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    tell((self.one)(Box::new(object)));
                }
                WatchEvent::Deleted(object) => tell((self.none)(key(&object))),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
        Ok(())
    }
}

/// Writes the statuses that have changed.
async fn write<S: Statuses>(client: &Client, mut news: UnboundedReceiver<Change>) {
    let mut books = Books::<S>::default();
    loop {
        // Objects whose statuses could not be written are tried again after a pause.
        let next = match books.open.is_empty() {
            true => news.recv().await,
            false => timeout(PAUSE, news.recv()).await.unwrap_or_default(),
        };
        books.apply_all(next, &mut news);
        for key in std::mem::take(&mut books.open) {
            let Some(status) = books.wanted(&key, &now()) else { continue };
            match patch::<S>(client, &books.objects[&key], &status).await {
                Ok(written) => drop(books.objects.insert(key, written)),
                // The object is gone. The watch will say so.
                Err(kube::Error::Api(error)) if error.code == 404 => {}
                Err(error) => {
                    tracing::warn!(namespace = key.0, name = key.1, %error, "The status was not written");
                    books.open.insert(key);
                }
            }
        }
    }
}

impl<S: Statuses> Books<S> {
    /// Applies the first change and all others that have arrived.
    fn apply_all(&mut self, first: Option<Change>, news: &mut UnboundedReceiver<Change>) {
        first.into_iter().for_each(|change| self.apply(change));
        while let Ok(change) = news.try_recv() {
            self.apply(change);
        }
    }
}

async fn patch<S: Statuses>(
    client: &Client,
    object: &DynamicObject,
    status: &S::Status,
) -> kube::Result<DynamicObject> {
    let (namespace, kind) = (namespace(object), kind::<S>());
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
    let old: S::Status = serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
    let mut status = json!(status);
    remove_others(&mut status, &json!(old));
    // A new object with the same name has another UID.
    let patch = Patch::Merge(json!({"metadata": {"uid": object.uid()}, "status": status}));
    objects.patch_status(&object.name_any(), &PatchParams::default(), &patch).await
}

/// Adds to a merge patch that fields which it lacks are removed, as far as the old value has them.
fn remove_others(patch: &mut Value, old: &Value) {
    let (Value::Object(patch), Value::Object(old)) = (patch, old) else { return };
    for (field, old) in old {
        remove_others(patch.entry(field.clone()).or_insert(Value::Null), old);
    }
}

fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(i64::try_from(since.as_secs()).unwrap_or(i64::MAX)).to_rfc3339()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_removes_fields_that_are_gone() {
        let mut patch = json!({"used": {"cpu": "1"}, "phase": "Running"});
        remove_others(&mut patch, &json!({"used": {"cpu": "2", "gpu": "1"}, "since": "now"}));
        assert_eq!(patch, json!({"used": {"cpu": "1", "gpu": null}, "phase": "Running", "since": null}));
    }
}
