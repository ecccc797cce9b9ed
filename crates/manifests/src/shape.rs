//! Pods that differ only in what a cluster gives to each of them, as the replicas of a workload do.
//!
//! The *shape* of a pod is its JSON without space between tokens and without the values that differ: name, UID, resource
//! version, time of creation, node, the volume for the service account, and times, addresses and IDs of its status. The
//! rules give all pods of one shape the same verdict, as long as the values that differ are valid on their own. So one pod
//! of each shape is read with all rules, and the others only take its place.

use std::sync::Arc;

use harbormaster_api::{Quantity, Timestamp, labels::subdomain_errors};
use harbormaster_validation::{
    Kind,
    value::{controller, text},
};

use crate::{json::Scanner, manifests::Manifest};

// Control characters, which JSON cannot contain, stand for the values that a shape leaves out.
const NAME: char = '\u{1}';
const UID: char = '\u{2}';
const VERSION: char = '\u{3}';
const CREATED: char = '\u{4}';
const NODE: char = '\u{5}';
const ACCESS: char = '\u{6}';
const STATUS: char = '\u{7}';
/// Stands for any time of a status.
const TIME: char = '\u{8}';
/// Stands for any text of a status.
const TEXT: char = '\u{b}';
/// Ends the pod; the shape of its status follows.
const END: char = '\u{c}';

/// Beginning of the names of volumes for service accounts.
pub const ACCESS_PREFIX: &str = "kube-api-access-";
/// Length of the random rest of these names.
const ACCESS_RANDOM: usize = 5;

/// Fields of a status, at any depth, that are strings and that no rule reads.
const TEXTS: [&str; 5] = ["podIP", "ip", "hostIP", "containerID", "imageID"];
/// Fields of a status, at any depth, that are times.
const TIMES: [&str; 5] = ["startTime", "lastTransitionTime", "lastProbeTime", "startedAt", "finishedAt"];

/// What distinguishes a pod from a similar one. An empty string stands for a value that both lack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Box<str>,
    /// Time of creation.
    pub created: Box<str>,
    /// Node that the pod is bound to.
    pub node: Box<str>,
    /// The status as JSON, if it differs from that of the other pod.
    pub status: Box<str>,
    /// Name of the volume for the service account.
    access: Box<str>,
}

impl Identity {
    /// Returns true if a value contains a word.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        let Self { name, uid, created, node, status, access } = self;
        [&**name, uid, created, node, status, access].iter().any(|value| value.contains(word))
    }

    /// Returns true if each value is valid in every pod.
    fn is_valid(&self) -> bool {
        let is_node = self.node.is_empty() || subdomain_errors(&self.node).is_empty();
        let is_time = self.created.is_empty() || Timestamp::parse(&self.created).is_ok();
        !self.name.is_empty() && subdomain_errors(&self.name).is_empty() && is_node && is_time
    }
}

/// Returns the shape and the identity of a pod. Returns `None` for any other object, and for a pod that must be read as a
/// whole.
pub(crate) fn shaped(json: &str) -> Option<(String, Identity)> {
    let (mut shape, mut status_shape) = (String::with_capacity(json.len()), String::new());
    let (mut name, mut uid, mut created, mut node) = ("", "", "", "");
    let mut status: Box<str> = Box::default();
    let mut scanner = Scanner::new(json);
    let (mut is_pod, mut is_core) = (false, false);
    scanner.object(&mut shape, &mut |scanner, key, shape| match key {
        "kind" => {
            is_pod = scanner.copy(shape)? == "\"Pod\"";
            is_pod.then_some(())
        }
        "apiVersion" => {
            is_core = scanner.copy(shape)? == "\"v1\"";
            is_core.then_some(())
        }
        "metadata" => scanner.object(shape, &mut |scanner, key, shape| match key {
            "name" => scanner.take(NAME, shape, &mut name),
            "uid" => scanner.take(UID, shape, &mut uid),
            "resourceVersion" => scanner.take(VERSION, shape, &mut ""),
            "creationTimestamp" => scanner.take(CREATED, shape, &mut created),
            _ => scanner.copy(shape).map(drop),
        }),
        "spec" => scanner.object(shape, &mut |scanner, key, shape| match key {
            "nodeName" => scanner.take(NODE, shape, &mut node),
            _ => scanner.copy(shape).map(drop),
        }),
        "status" => {
            let mut compact = String::new();
            let text = scanner.copy(&mut compact)?;
            let is_varied = add_status(&mut Scanner::new(text), &mut status_shape)?;
            if is_varied && status.is_empty() {
                status = compact.into();
                shape.push(STATUS);
            } else {
                shape.push_str(&compact);
                status_shape.clear();
            }
            Some(())
        }
        _ => scanner.copy(shape).map(drop),
    })?;
    let access = access(&shape).to_owned();
    if !access.is_empty() {
        shape = shape.replace(&format!("\"{access}\""), ACCESS.encode_utf8(&mut [0; 4]));
    }
    shape.push(END);
    shape.push_str(&status_shape);
    let (name, access) = (name.to_owned(), access.into());
    let identity =
        Identity { name, uid: uid.into(), created: created.into(), node: node.into(), status, access };
    (scanner.is_at_end() && is_pod && is_core && identity.is_valid()).then_some((shape, identity))
}

/// Returns the name of the first volume for a service account; empty if there is none.
fn access(shape: &str) -> &str {
    let Some(at) = shape.find(ACCESS_PREFIX) else { return "" };
    let end = at + ACCESS_PREFIX.len() + ACCESS_RANDOM;
    let is_quoted = shape[..at].ends_with('"') && shape.get(end..).is_some_and(|rest| rest.starts_with('"'));
    let Some(name) = shape.get(at..end).filter(|_| is_quoted) else { return "" };
    let is_random = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name[ACCESS_PREFIX.len()..].bytes().all(is_random) { name } else { "" }
}

/// Copies a status with marks in place of what differs between pods. Returns true if there are marks.
fn add_status<'t>(scanner: &mut Scanner<'t>, shape: &mut String) -> Option<bool> {
    let mut has_marks = false;
    match scanner.peek()? {
        b'{' => scanner.object(shape, &mut |scanner, key, shape| {
            let mark = [(&TEXTS, TEXT), (&TIMES, TIME)].into_iter().find(|(keys, _)| keys.contains(&key));
            let Some((_, mark)) = mark.filter(|_| scanner.peek() == Some(b'"')) else {
                has_marks |= add_status(scanner, shape)?;
                return Some(());
            };
            let mut value = "";
            scanner.take(mark, shape, &mut value)?;
            has_marks = true;
            // A list of amounts may have any key.
            let is_valid = if mark == TIME {
                Timestamp::parse(value).is_ok()
            } else {
                value.parse::<Quantity>().is_err()
            };
            is_valid.then_some(())
        })?,
        b'[' => {
            shape.push('[');
            scanner.array(&mut |scanner| {
                has_marks |= add_status(scanner, shape)?;
                shape.push(',');
                Some(())
            })?;
            shape.push(']');
        }
        _ => drop(scanner.copy(shape)?),
    }
    Some(has_marks)
}

/// A pod that stands for all pods of its shape.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    /// JSON of the pods, with marks.
    shape: Box<str>,
    /// UID of the ReplicaSet that owns the pods.
    pub(crate) set: Option<String>,
}

impl Shape {
    pub(crate) fn of(pod: &Manifest, shape: &str) -> Self {
        let value = pod.value();
        let set = controller(&value).filter(|owner| owner["kind"] == "ReplicaSet");
        Self {
            kind: pod.kind.clone(),
            namespace: pod.namespace.clone(),
            shape: shape.split(END).next().unwrap_or_default().into(),
            set: set.map(|owner| text(owner, "/uid").to_owned()),
        }
    }

    /// Returns true if the pods, apart from what differs, contain a word.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.shape.contains(word)
    }

    /// Returns a pod as JSON, as it was written except for space and the resource version.
    pub(crate) fn json(&self, identity: &Identity) -> String {
        let mut json = String::with_capacity(self.shape.len() + identity.status.len());
        let mut rest = &*self.shape;
        while let Some(at) = rest.find(|c: char| c < ' ') {
            json.push_str(&rest[..at]);
            let value = match rest[at..].chars().next() {
                Some(NAME) => &*identity.name,
                Some(UID) => &identity.uid,
                Some(CREATED) => &identity.created,
                Some(NODE) => &identity.node,
                Some(ACCESS) => &identity.access,
                // Only a server sets the version.
                _ => "",
            };
            if rest[at..].starts_with(STATUS) {
                json.push_str(&identity.status);
            } else {
                json.extend(["\"", value, "\""]);
            }
            rest = &rest[at + 1..];
        }
        json.push_str(rest);
        json
    }
}
