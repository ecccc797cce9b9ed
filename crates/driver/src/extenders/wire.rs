//! Requests and replies of extenders (`k8s.io/kube-scheduler/extender/v1`).
//!
//! The types in that Go package define no JSON names. Therefore, fields have their Go names, unused fields are `null`,
//! and the keys of replies may have any case.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use bytes::Bytes;
use harbormaster_api::Str;
use harbormaster_framework::{
    extender::{Filtered, NodeVictims},
    pod::PodInfo,
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{json, value::RawValue};

use super::raw::RawStore;

/// The form of nodes and victims in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Names and UIDs, for an extender that is `nodeCacheCapable`.
    Names,
    /// Whole objects.
    Objects,
}

/// An error in a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyError {
    /// The extender reports an error.
    Reported(String),
    /// The reply cannot be decoded.
    Undecodable(String),
}

/// Maximum number of characters of an undecodable reply in the error message.
const SHOWN: usize = 80;

// --- requests ---

/// Encodes `ExtenderArgs`.
pub(super) fn question(objects: &RawStore, pod: &PodInfo, nodes: &[Str], form: Form) -> Bytes {
    let mut body = Body::with_pod(objects, pod);
    match form {
        Form::Names => {
            body.raw(",\"Nodes\":null,\"NodeNames\":");
            body.list(nodes, |body, name| body.text(name));
        }
        Form::Objects => {
            body.raw(",\"Nodes\":{\"metadata\":{},\"items\":");
            body.list(nodes, |body, name| match objects.node(name) {
                Some(json) => body.raw(json),
                None => body.raw(&json!({ "metadata": { "name": name } }).to_string()),
            });
            body.raw("},\"NodeNames\":null");
        }
    }
    body.end()
}

/// Encodes `ExtenderPreemptionArgs`.
pub(super) fn evictions(objects: &RawStore, pod: &PodInfo, plans: &[NodeVictims], form: Form) -> Bytes {
    // Sorted by node, as Go sorts the keys of maps.
    let mut plans: Vec<&NodeVictims> = plans.iter().collect();
    plans.sort_by(|a, b| a.node.cmp(&b.node));
    let mut body = Body::with_pod(objects, pod);
    body.raw(if form == Form::Names {
        ",\"NodeNameToVictims\":null,\"NodeNameToMetaVictims\":{"
    } else {
        ",\"NodeNameToVictims\":{"
    });
    for (at, plan) in plans.iter().enumerate() {
        body.raw(if at > 0 { "," } else { "" });
        body.text(&plan.node);
        body.raw(":{\"Pods\":");
        body.list(&plan.victims, |body, uid| match (form, objects.pod(uid)) {
            (Form::Names, _) => body.raw(&json!({ "UID": uid }).to_string()),
            (Form::Objects, Some(json)) => body.raw(json),
            (Form::Objects, None) => body.raw(&json!({ "metadata": { "uid": uid } }).to_string()),
        });
        body.raw(&format!(",\"NumPDBViolations\":{}}}", plan.violations));
    }
    body.raw(if form == Form::Names { "}" } else { "},\"NodeNameToMetaVictims\":null" });
    body.end()
}

/// Encodes `ExtenderBindingArgs`.
pub(super) fn bind(pod: &PodInfo, node: &str) -> Bytes {
    let args = json!({ "PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node });
    args.to_string().into()
}

/// A JSON object that is being written.
struct Body(Vec<u8>);

impl Body {
    fn with_pod(objects: &RawStore, pod: &PodInfo) -> Self {
        let mut body = Self(Vec::new());
        body.raw("{\"Pod\":");
        match objects.pod(&pod.uid) {
            Some(json) => body.raw(json),
            None => {
                let metadata = json!({ "name": pod.name, "namespace": pod.namespace, "uid": pod.uid });
                body.raw(&json!({ "metadata": metadata }).to_string());
            }
        }
        body
    }

    fn raw(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    fn text(&mut self, text: &str) {
        self.raw(&serde_json::Value::from(text).to_string());
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.raw("[");
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.raw(",");
            }
            write(self, item);
        }
        self.raw("]");
    }

    fn end(mut self) -> Bytes {
        self.raw("}");
        self.0.into()
    }
}

// --- replies ---

/// Decodes an `ExtenderFilterResult`.
pub(super) fn filtered(reply: &[u8], form: Form) -> Result<Filtered, ReplyError> {
    let result: Fields<'_> = whole(reply)?;
    let read = || -> Result<Filtered, serde_json::Error> {
        let names = match form {
            Form::Names => result.get::<Vec<Option<Str>>>("NodeNames")?,
            Form::Objects => None,
        };
        let nodes = match names {
            Some(names) => names.into_iter().map(Option::unwrap_or_default).collect(),
            None => match result.get::<Fields<'_>>("Nodes")? {
                Some(list) => node_names(&list)?,
                None => Vec::new(),
            },
        };
        let why = |field| -> Result<Vec<(Str, String)>, serde_json::Error> {
            let reasons = result.get::<BTreeMap<Str, Option<String>>>(field)?.unwrap_or_default();
            Ok(reasons.into_iter().map(|(node, why)| (node, why.unwrap_or_default())).collect())
        };
        Ok(Filtered { nodes, failed: why("FailedNodes")?, unresolvable: why("FailedAndUnresolvableNodes")? })
    };
    no_error(&result, reply)?;
    read().map_err(|error| undecodable(reply, &error))
}

fn node_names(list: &Fields<'_>) -> Result<Vec<Str>, serde_json::Error> {
    let items = list.get::<Vec<Fields<'_>>>("items")?.unwrap_or_default();
    let name = |node: Fields<'_>| -> Result<Str, serde_json::Error> {
        let metadata = node.get::<Fields<'_>>("metadata")?;
        let name = metadata.map(|metadata| metadata.get::<Str>("name")).transpose()?;
        Ok(name.flatten().unwrap_or_default())
    };
    items.into_iter().map(name).collect()
}

/// Decodes a `HostPriorityList`.
pub(super) fn scores(reply: &[u8]) -> Result<Vec<(Str, i64)>, ReplyError> {
    let list: Option<Vec<Fields<'_>>> = whole(reply)?;
    let score = |entry: &Fields<'_>| -> Result<(Str, i64), serde_json::Error> {
        Ok((entry.get("Host")?.unwrap_or_default(), entry.get("Score")?.unwrap_or_default()))
    };
    let scores: Result<Vec<_>, _> = list.unwrap_or_default().iter().map(score).collect();
    scores.map_err(|error| undecodable(reply, &error))
}

/// Decodes an `ExtenderPreemptionResult`, which always identifies nodes by name and pods by UID.
pub(super) fn agreed(reply: &[u8]) -> Result<Vec<NodeVictims>, ReplyError> {
    let result: Fields<'_> = whole(reply)?;
    let read = || -> Result<Vec<NodeVictims>, serde_json::Error> {
        let by_node = result.get::<BTreeMap<Str, Fields<'_>>>("NodeNameToMetaVictims")?.unwrap_or_default();
        let on_node = |(node, victims): (Str, Fields<'_>)| {
            let pods = victims.get::<Vec<Fields<'_>>>("Pods")?.unwrap_or_default();
            let uids = pods.iter().map(|pod| Ok(pod.get::<Str>("UID")?.unwrap_or_default()));
            let violations = victims.get("NumPDBViolations")?.unwrap_or_default();
            Ok(NodeVictims { node, victims: uids.collect::<Result<_, serde_json::Error>>()?, violations })
        };
        by_node.into_iter().map(on_node).collect()
    };
    read().map_err(|error| undecodable(reply, &error))
}

/// Decodes an `ExtenderBindingResult`.
pub(super) fn bound(reply: &[u8]) -> Result<(), ReplyError> {
    no_error(&whole(reply)?, reply)
}

fn no_error(result: &Fields<'_>, reply: &[u8]) -> Result<(), ReplyError> {
    match result.get::<String>("Error").map_err(|error| undecodable(reply, &error))? {
        Some(why) if !why.is_empty() => Err(ReplyError::Reported(why)),
        _ => Ok(()),
    }
}

/// Reads the first JSON value of the reply and ignores the rest, as Go does.
fn whole<'a, T: Deserialize<'a>>(reply: &'a [u8]) -> Result<T, ReplyError> {
    let mut reader = serde_json::Deserializer::from_slice(reply);
    T::deserialize(&mut reader).map_err(|error| undecodable(reply, &error))
}

fn undecodable(reply: &[u8], error: &serde_json::Error) -> ReplyError {
    let start: String =
        String::from_utf8_lossy(&reply[..reply.len().min(4 * SHOWN)]).chars().take(SHOWN).collect();
    ReplyError::Undecodable(format!("{error}; it begins with {start:?}"))
}

/// An object as Go reads it: keys may have any case, the last of duplicate keys wins, and `null` is an object without
/// fields.
#[derive(Debug, Default)]
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Returns a field; `None` if it is absent or `null`.
    fn get<T: Deserialize<'a>>(&self, name: &str) -> Result<Option<T>, serde_json::Error> {
        let field = self.0.iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name));
        field.map_or(Ok(None), |(_, value)| serde_json::from_str(value.get()))
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_unit<E>(self) -> Result<Fields<'de>, E> {
                Ok(Fields::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    fields.push((key.0, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_any(Keys)
    }
}

/// A key, borrowed if possible.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
