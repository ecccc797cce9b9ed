//! The controller: keeps the statuses of PodGroups up to date.
//!
//! It watches PodGroups and their pods. After every change, it computes the statuses of the groups concerned (see
//! [`crate::phases`]) and writes those that differ. Nothing is kept between runs, and two controllers at a time do no
//! harm, because they write the same.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::Parser;
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

use crate::{
    phases::{Member, Status},
    pod_group::{LABEL, PodGroup},
};

/// Pause before a list or a write is repeated.
const PAUSE: Duration = Duration::from_secs(2);

/// Keeps the statuses of PodGroups (scheduling.x-k8s.io) up to date.
#[derive(Debug, Parser)]
#[command(name = "coscheduling-controller", version)]
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

/// Namespace and name.
type Key = (String, String);

/// Change of an object.
#[derive(Debug)]
enum Change {
    /// All groups.
    Groups(Vec<DynamicObject>),
    /// A group that was created or changed.
    Group(Box<DynamicObject>),
    /// A group that was deleted.
    NoGroup(Key),
    /// All pods of groups.
    Pods(Vec<DynamicObject>),
    /// A pod that was created or changed.
    Pod(Box<DynamicObject>),
    /// A pod that was deleted, or that lost its label.
    NoPod(Key),
}

/// The groups and their members.
#[derive(Debug, Default)]
struct Books {
    groups: BTreeMap<Key, DynamicObject>,
    /// The members of each group.
    members: BTreeMap<Key, BTreeMap<Key, Member>>,
    /// The group of each pod.
    group_of: BTreeMap<Key, Key>,
    /// Groups whose statuses may be outdated.
    open: BTreeSet<Key>,
}

impl Books {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Groups(groups) => {
                self.groups = groups.into_iter().map(|group| (key(&group), group)).collect();
                self.open.extend(self.groups.keys().cloned());
            }
            Change::Group(group) => {
                self.open.insert(key(&group));
                self.groups.insert(key(&group), *group);
            }
            Change::NoGroup(key) => drop(self.groups.remove(&key)),
            Change::Pods(pods) => {
                self.members.clear();
                self.group_of.clear();
                pods.iter().for_each(|pod| self.add(pod));
                self.open.extend(self.groups.keys().cloned());
            }
            Change::Pod(pod) => self.add(&pod),
            Change::NoPod(key) => self.remove(&key),
        }
    }

    fn add(&mut self, pod: &DynamicObject) {
        self.remove(&key(pod));
        let Some(group) = pod.labels().get(LABEL).filter(|group| !group.is_empty()) else { return };
        let group = (namespace(pod), group.clone());
        let owners = pod.owner_references().iter().map(|owner| format!("{}/{}", group.0, owner.name));
        let phase = pod.data["status"]["phase"].as_str().unwrap_or_default().to_owned();
        let member = Member { phase, owners: owners.collect() };
        self.open.insert(group.clone());
        self.group_of.insert(key(pod), group.clone());
        self.members.entry(group).or_default().insert(key(pod), member);
    }

    fn remove(&mut self, pod: &Key) {
        let Some(group) = self.group_of.remove(pod) else { return };
        if let Entry::Occupied(mut members) = self.members.entry(group.clone()) {
            members.get_mut().remove(pod);
            if members.get().is_empty() {
                members.remove();
            }
        }
        self.open.insert(group);
    }

    /// Returns the status that a group should get; `None` if it has this status already, or does not exist.
    fn wanted(&self, group: &Key, now: &str) -> Option<Status> {
        let object = self.groups.get(group)?;
        let min_member = object.data["spec"]["minMember"].as_u64().unwrap_or(1).max(1);
        let old: Status = serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
        let members = self.members.get(group).into_iter().flat_map(BTreeMap::values);
        let members: Vec<Member> = members.cloned().collect();
        let new = old.next(u32::try_from(min_member).unwrap_or(u32::MAX), &members, now);
        (new != old).then_some(new)
    }
}

fn key(object: &DynamicObject) -> Key {
    (namespace(object), object.name_any())
}

fn namespace(object: &DynamicObject) -> String {
    object.namespace().unwrap_or_default()
}

/// Runs the controller's program.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    match run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), ControllerError> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    threads.block_on(async {
        let client = connect(flags.kubeconfig.as_deref()).await?;
        tokio::select! {
            () = control(&client) => {}
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

/// Watches groups and pods, and writes statuses. Never returns.
async fn control(client: &Client) {
    let (changes, news) = unbounded_channel();
    let (group, pod) = (kind_of_groups(), ApiResource::erase::<Pod>(&()));
    let groups = Watched {
        api: Api::all_with(client.clone(), &group),
        label: None,
        all: Change::Groups,
        one: Change::Group,
        none: Change::NoGroup,
    };
    let pods = Watched {
        api: Api::all_with(client.clone(), &pod),
        label: Some(LABEL),
        all: Change::Pods,
        one: Change::Pod,
        none: Change::NoPod,
    };
    tokio::join!(groups.follow(&changes), pods.follow(&changes), write(client, news));
}

fn kind_of_groups() -> ApiResource {
    let name = GroupVersionKind::gvk(PodGroup::GROUP, PodGroup::VERSION, PodGroup::KIND);
    ApiResource::from_gvk_with_plural(&name, PodGroup::PLURAL)
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

/// Writes the statuses of groups that have changed.
async fn write(client: &Client, mut news: UnboundedReceiver<Change>) {
    let mut books = Books::default();
    loop {
        // Groups whose statuses could not be written are tried again after a pause.
        let next = match books.open.is_empty() {
            true => news.recv().await,
            false => timeout(PAUSE, news.recv()).await.unwrap_or_default(),
        };
        books.apply_all(next, &mut news);
        for group in std::mem::take(&mut books.open) {
            let Some(status) = books.wanted(&group, &now()) else { continue };
            match patch(client, &books.groups[&group], &status).await {
                Ok(written) => drop(books.groups.insert(group, written)),
                // The group is gone. The watch will say so.
                Err(kube::Error::Api(error)) if error.code == 404 => {}
                Err(error) => {
                    tracing::warn!(namespace = group.0, podGroup = group.1, %error, "The status was not written");
                    books.open.insert(group);
                }
            }
        }
    }
}

impl Books {
    /// Applies the first change and all others that have arrived.
    fn apply_all(&mut self, first: Option<Change>, news: &mut UnboundedReceiver<Change>) {
        first.into_iter().for_each(|change| self.apply(change));
        while let Ok(change) = news.try_recv() {
            self.apply(change);
        }
    }
}

async fn patch(client: &Client, group: &DynamicObject, status: &Status) -> kube::Result<DynamicObject> {
    let (namespace, kind) = (namespace(group), kind_of_groups());
    let groups: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
    let status: Value = json!(status);
    // A new group with the same name has another UID.
    let patch = Patch::Merge(json!({"metadata": {"uid": group.uid()}, "status": status}));
    groups.patch_status(&group.name_any(), &PatchParams::default(), &patch).await
}

fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(i64::try_from(since.as_secs()).unwrap_or(i64::MAX)).to_rfc3339()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str, group: &str, phase: &str) -> DynamicObject {
        object(json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {LABEL: group}},
            "status": {"phase": phase},
        }))
    }

    fn group(name: &str, status: &Value) -> DynamicObject {
        let metadata = json!({"name": name, "namespace": "ns"});
        object(json!({"metadata": metadata, "spec": {"minMember": 1}, "status": status}))
    }

    fn phase(books: &Books, name: &str) -> Option<Value> {
        books.wanted(&("ns".to_owned(), name.to_owned()), "now").map(|status| json!(status)["phase"].clone())
    }

    #[test]
    fn pods_count_in_the_group_that_their_label_names_now() {
        let mut books = Books::default();
        books.apply(Change::Groups(vec![group("a", &json!(null)), group("b", &json!(null))]));
        books.apply(Change::Pods(vec![pod("p", "a", "Running")]));
        assert_eq!(
            (phase(&books, "a"), phase(&books, "b")),
            (Some("Running".into()), Some("Pending".into()))
        );
        books.open.clear();
        books.apply(Change::Pod(Box::new(pod("p", "b", "Running"))));
        assert_eq!(
            (phase(&books, "a"), phase(&books, "b")),
            (Some("Pending".into()), Some("Running".into()))
        );
        assert_eq!(books.open.len(), 2, "both groups have changed");
        books.apply(Change::NoPod(("ns".to_owned(), "p".to_owned())));
        assert_eq!(phase(&books, "b"), Some("Pending".into()));
    }

    #[test]
    fn a_status_that_is_right_is_not_written_again() {
        let mut books = Books::default();
        books.apply(Change::Groups(vec![group("a", &json!({"phase": "Pending"}))]));
        assert_eq!(phase(&books, "a"), None);
        assert_eq!(phase(&books, "gone"), None);
    }
}
