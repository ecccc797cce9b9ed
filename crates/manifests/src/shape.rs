//! Pods and nodes that differ only in what a cluster gives to each of them, as the replicas of a workload and the nodes
//! of a pool do.
//!
//! The *shape* of an object is its JSON without space between tokens and without the values that differ: name, UID,
//! resource version, time of creation, a pod's node and its volume for the service account, a node's addresses and its ID
//! at the provider, and times, addresses and IDs of the status. The rules give all objects of one shape the same verdict,
//! as long as the values that differ are valid on their own. So one object of each shape is read with all rules, and the
//! others only take its place.

use std::sync::Arc;

use harbormaster_api::{
    Quantity, Timestamp,
    labels::{is_label_value, subdomain_errors},
    node::LABEL_HOSTNAME,
};
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
/// Stands for any time of a status or of a node's spec.
const TIME: char = '\u{8}';
/// Stands for any text of a status or of a node's spec.
const TEXT: char = '\u{b}';
/// Ends the object, and then the shape of its spec; the shape of its status follows.
const END: char = '\u{c}';
const SPEC: char = '\u{e}';

/// Beginning of the names of volumes for service accounts.
pub const ACCESS_PREFIX: &str = "kube-api-access-";
/// Length of the random rest of these names.
const ACCESS_RANDOM: usize = 5;

/// Fields of a status or a node's spec, at any depth, that are strings and that no rule reads.
const TEXTS: [&str; 11] = [
    "address",
    "bootID",
    "containerID",
    "hostIP",
    "imageID",
    "ip",
    "machineID",
    "podCIDR",
    "podIP",
    "providerID",
    "systemUUID",
];
/// A field of a node's spec that is a list of such strings.
const TEXT_LIST: &str = "podCIDRs";
/// Fields of a status or a node's spec, at any depth, that are times.
const TIMES: [&str; 7] = [
    "finishedAt",
    "lastHeartbeatTime",
    "lastProbeTime",
    "lastTransitionTime",
    "startTime",
    "startedAt",
    "timeAdded",
];

/// What distinguishes a pod or a node from a similar one. An empty string stands for a value that both lack.
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
    /// The spec of a node as JSON, if it differs in texts and times that no rule reads.
    spec: Box<str>,
    /// The status as JSON, if it differs from that of the other object.
    pub status: Box<str>,
    /// Name of the volume for the service account.
    access: Box<str>,
}

impl Identity {
    /// Returns true if a value contains a word.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        let Self { name, uid, created, node, spec, status, access } = self;
        [&**name, uid, created, node, spec, status, access].iter().any(|value| value.contains(word))
    }

    /// Returns true if each value is valid in every object of the shape.
    fn is_valid(&self) -> bool {
        let is_node = self.node.is_empty() || subdomain_errors(&self.node).is_empty();
        let is_time = self.created.is_empty() || Timestamp::parse(&self.created).is_ok();
        !self.name.is_empty() && subdomain_errors(&self.name).is_empty() && is_node && is_time
    }
}

/// Kind of an object that has a shape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shaped {
    Pod,
    Node,
}

/// Returns the shape and the identity of a pod or a node. Returns `None` for any other object, and for one that must be
/// read as a whole.
pub(crate) fn shaped(json: &str) -> Option<(String, Identity)> {
    let mut shape = String::with_capacity(json.len());
    let [mut spec_shape, mut status_shape] = <[String; 2]>::default();
    let [mut name, mut uid, mut created, mut node] = [""; 4];
    let [mut spec, mut status] = <[Box<str>; 2]>::default();
    let mut scanner = Scanner::new(json);
    let (mut kind, mut is_core) = (None, false);
    scanner.object(&mut shape, &mut |scanner, key, shape| match key {
        "kind" => {
            kind = match scanner.copy(shape)? {
                "\"Pod\"" => Some(Shaped::Pod),
                "\"Node\"" => Some(Shaped::Node),
                _ => return None,
            };
            Some(())
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
        "spec" if kind == Some(Shaped::Node) => take_varied(scanner, SPEC, shape, &mut spec, &mut spec_shape),
        "spec" => scanner.object(shape, &mut |scanner, key, shape| match key {
            "nodeName" => scanner.take(NODE, shape, &mut node),
            _ => scanner.copy(shape).map(drop),
        }),
        "status" => take_varied(scanner, STATUS, shape, &mut status, &mut status_shape),
        _ => scanner.copy(shape).map(drop),
    })?;
    let mut access = String::new();
    let is_sound = match kind? {
        Shaped::Pod => {
            access = self::access(&shape).to_owned();
            if !access.is_empty() {
                shape = shape.replace(&format!("\"{access}\""), ACCESS.encode_utf8(&mut [0; 4]));
            }
            true
        }
        Shaped::Node => {
            let label = |value: &str| format!("\"{LABEL_HOSTNAME}\":{value}");
            shape = shape.replace(&label(&format!("\"{name}\"")), &label(NAME.encode_utf8(&mut [0; 4])));
            // A label with another value, or with the name in another notation, is no part of the identity.
            let is_own = !shape.contains(&label("\""));
            is_label_value(name) && is_own && node.is_empty()
        }
    };
    for part in [spec_shape, status_shape] {
        shape.push(END);
        shape.push_str(&part);
    }
    let (name, access) = (name.to_owned(), access.into());
    let identity =
        Identity { name, uid: uid.into(), created: created.into(), node: node.into(), spec, status, access };
    (scanner.is_at_end() && is_core && is_sound && identity.is_valid()).then_some((shape, identity))
}

/// Passes a spec or a status. If it contains texts or times that no rule reads, puts the mark in its place, sets `value`
/// to it and `values` to its shape.
fn take_varied(
    scanner: &mut Scanner<'_>,
    mark: char,
    shape: &mut String,
    value: &mut Box<str>,
    values: &mut String,
) -> Option<()> {
    let mut compact = String::new();
    let text = scanner.copy(&mut compact)?;
    let is_varied = add_varied(&mut Scanner::new(text), values)?;
    if is_varied && value.is_empty() {
        *value = compact.into();
        shape.push(mark);
    } else {
        shape.push_str(&compact);
        values.clear();
    }
    Some(())
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

/// Copies a value with marks in place of what differs between objects. Returns true if there are marks.
fn add_varied<'t>(scanner: &mut Scanner<'t>, shape: &mut String) -> Option<bool> {
    let mut has_marks = false;
    match scanner.peek()? {
        b'{' => scanner.object(shape, &mut |scanner, key, shape| {
            if key == TEXT_LIST && scanner.peek() == Some(b'[') {
                has_marks = true;
                return add_array(scanner, shape, &mut |scanner, shape| scanner.take(TEXT, shape, &mut ""));
            }
            let of_key =
                [(&TEXTS[..], TEXT), (&TIMES, TIME)].into_iter().find(|(keys, _)| keys.contains(&key));
            let Some((_, mark)) = of_key.filter(|_| scanner.peek() == Some(b'"')) else {
                has_marks |= add_varied(scanner, shape)?;
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
        b'[' => add_array(scanner, shape, &mut |scanner, shape| {
            has_marks |= add_varied(scanner, shape)?;
            Some(())
        })?,
        _ => drop(scanner.copy(shape)?),
    }
    Some(has_marks)
}

/// Copies an array, whose elements `each` passes and copies.
fn add_array<'t>(
    scanner: &mut Scanner<'t>,
    shape: &mut String,
    each: &mut dyn FnMut(&mut Scanner<'t>, &mut String) -> Option<()>,
) -> Option<()> {
    shape.push('[');
    scanner.array(&mut |scanner| {
        each(scanner, shape)?;
        shape.push(',');
        Some(())
    })?;
    shape.push(']');
    Some(())
}

/// A pod or a node that stands for all of its shape.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    /// JSON of the objects, with marks.
    shape: Box<str>,
    /// UID of the ReplicaSet that owns the objects.
    pub(crate) set: Option<String>,
}

impl Shape {
    pub(crate) fn of(object: &Manifest, shape: &str) -> Self {
        let value = object.value();
        let set = controller(&value).filter(|owner| owner["kind"] == "ReplicaSet");
        Self {
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            shape: shape.split(END).next().unwrap_or_default().into(),
            set: set.map(|owner| text(owner, "/uid").to_owned()),
        }
    }

    /// Returns true if the objects, apart from what differs, contain a word.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.shape.contains(word)
    }

    /// Returns an object as JSON, as it was written except for space and the resource version.
    pub(crate) fn json(&self, identity: &Identity) -> String {
        let mut json = String::with_capacity(self.shape.len() + identity.spec.len() + identity.status.len());
        let mut rest = &*self.shape;
        while let Some(at) = rest.find(|c: char| c < ' ') {
            json.push_str(&rest[..at]);
            let value = match rest[at..].chars().next() {
                Some(NAME) => &*identity.name,
                Some(UID) => &identity.uid,
                Some(CREATED) => &identity.created,
                Some(NODE) => &identity.node,
                Some(ACCESS) => &identity.access,
                Some(SPEC) => &identity.spec,
                Some(STATUS) => &identity.status,
                // Only a server sets the version.
                _ => "",
            };
            let quote = if rest[at..].starts_with([SPEC, STATUS]) { "" } else { "\"" };
            json.extend([quote, value, quote]);
            rest = &rest[at + 1..];
        }
        json.push_str(rest);
        json
    }
}
