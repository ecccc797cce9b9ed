//! The envelopes of objects in lists and watches.

use std::borrow::Cow;

use harbormaster_api::{
    Str,
    protobuf::{self, ObjectMeta},
    wire::Encoded,
};
use harbormaster_client::Refusal;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Type of a watch event.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl EventType {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"ADDED" => Self::Added,
            b"MODIFIED" => Self::Modified,
            b"DELETED" => Self::Deleted,
            b"BOOKMARK" => Self::Bookmark,
            b"ERROR" => Self::Error,
            _ => return None,
        })
    }
}

/// `metav1.WatchEvent` with its object unparsed.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) type_: EventType,
    pub(crate) object: Encoded<'a>,
}

impl<'a> Event<'a> {
    pub(crate) fn read(event: &'a [u8], is_protobuf: bool) -> Result<Self, String> {
        match is_protobuf {
            true => Self::protobuf(event),
            false => Self::as_servers_write(event).map_or_else(|| Self::any_json(event), Ok),
        }
    }

    fn protobuf(event: &'a [u8]) -> Result<Self, String> {
        let (name, object) = protobuf::watch_event(event).map_err(|e| e.to_string())?;
        let type_ =
            EventType::named(name.as_bytes()).ok_or_else(|| format!("unknown type of event {name:?}"))?;
        // Only the envelope says that the object is a `metav1.Status`, so it is kept.
        let object = match type_ {
            EventType::Error => object,
            _ => protobuf::open(object).map_err(|e| e.to_string())?,
        };
        Ok(Self { type_, object: Encoded::Protobuf(object) })
    }

    /// Reads exactly `{"type":"…","object":…}`, the form that API servers write, without parsing the object to find its
    /// end.
    fn as_servers_write(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(br#"{"type":""#)?;
        let quote = memchr::memchr(b'"', rest)?;
        let type_ = EventType::named(&rest[..quote])?;
        let object = rest[quote..].strip_prefix(br#"","object":"#)?.trim_ascii_end().strip_suffix(b"}")?;
        Some(Self { type_, object: Encoded::Json(object) })
    }

    fn any_json(line: &'a [u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(rename = "type")]
            type_: EventType,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let wire: Wire<'a> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        Ok(Self { type_: wire.type_, object: Encoded::Json(wire.object.get().as_bytes()) })
    }
}

/// Reads the `metav1.Status` of an `ERROR` event.
pub(crate) fn refusal(status: &[u8]) -> Result<Refusal, String> {
    let mut refusal = Refusal::from_status(status).map_err(|e| e.to_string())?;
    if refusal.code == 0 {
        refusal.code = if matches!(refusal.reason.as_str(), "Expired" | "Gone") { 410 } else { 500 };
    }
    Ok(refusal)
}

/// The metadata that identifies an object of any kind.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Stub<'a> {
    #[serde(borrow)]
    pub(crate) metadata: StubMetadata<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StubMetadata<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) resource_version: Cow<'a, str>,
    /// Who wrote which field.
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
    annotations: Option<StubAnnotations>,
}

#[derive(Debug, Default, Deserialize)]
struct StubAnnotations {
    #[serde(rename = "k8s.io/initial-events-end", default)]
    initial_events_end: Option<String>,
}

impl<'a> From<ObjectMeta<'a>> for Stub<'a> {
    fn from(metadata: ObjectMeta<'a>) -> Self {
        let mark = metadata.annotation("k8s.io/initial-events-end");
        Self {
            metadata: StubMetadata {
                name: metadata.name.into(),
                namespace: metadata.namespace.into(),
                uid: metadata.uid.into(),
                resource_version: metadata.resource_version.into(),
                managed_fields: None,
                annotations: mark.map(|mark| StubAnnotations { initial_events_end: Some(mark.to_owned()) }),
            },
        }
    }
}

impl<'a> Stub<'a> {
    pub(crate) fn read(object: Encoded<'a>) -> Result<Self, String> {
        let read = match object {
            Encoded::Json(json) => serde_json::from_slice(json),
            Encoded::Protobuf(bytes) => ObjectMeta::of(bytes).map(Self::from),
        };
        read.map_err(|error| error.to_string())
    }

    /// Returns true for the bookmark that ends the initial events of a streaming list.
    pub(crate) fn ends_initial_events(&self) -> bool {
        let mark = self.metadata.annotations.as_ref().and_then(|a| a.initial_events_end.as_deref());
        mark == Some("true")
    }

    /// Returns the object's JSON without its managed fields, which often make up most of it. `json` is the text that
    /// this stub was read from.
    pub(crate) fn without_managed_fields(&self, json: &'a str) -> Str {
        let Some(fields) = self.metadata.managed_fields.map(RawValue::get) else { return json.into() };
        let start = fields.as_ptr().addr() - json.as_ptr().addr();
        let (before, after) = (&json[..start], &json[start + fields.len()..]);
        [before, "[]", after].concat().into()
    }

    pub(crate) fn full_name(&self) -> String {
        match &*self.metadata.namespace {
            "" => self.metadata.name.to_string(),
            namespace => format!("{namespace}/{}", self.metadata.name),
        }
    }
}

/// One page of a list with its objects unparsed.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) version: Cow<'a, str>,
    /// Token for the next page; empty if there is none.
    pub(crate) continue_: Cow<'a, str>,
    pub(crate) items: Vec<Encoded<'a>>,
}

#[derive(Debug, Deserialize)]
struct JsonPage<'a> {
    #[serde(borrow, default)]
    metadata: PageMetadata<'a>,
    #[serde(borrow, deserialize_with = "null_is_empty")]
    items: Vec<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, rename = "continue")]
    continue_: Cow<'a, str>,
}

fn null_is_empty<'de, D>(deserializer: D) -> Result<Vec<&'de RawValue>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Ok(Option::<Vec<&'de RawValue>>::deserialize(deserializer)?.unwrap_or_default())
}

impl<'a> Page<'a> {
    pub(crate) fn read(list: &'a [u8]) -> Result<Self, String> {
        match protobuf::is_meant(list) {
            true => Self::protobuf(list),
            false => Self::json(list),
        }
        .map_err(|e| e.to_string())
    }

    fn protobuf(list: &'a [u8]) -> serde_json::Result<Self> {
        let list = protobuf::ObjectList::read(protobuf::open(list)?)?;
        let items = list.items.into_iter().map(Encoded::Protobuf).collect();
        Ok(Self { version: list.version.into(), continue_: list.continue_.into(), items })
    }

    fn json(list: &'a [u8]) -> serde_json::Result<Self> {
        let JsonPage { metadata, items } = serde_json::from_slice(list)?;
        let items = items.into_iter().map(|item| Encoded::Json(item.get().as_bytes())).collect();
        Ok(Self { version: metadata.resource_version, continue_: metadata.continue_, items })
    }
}

/// Encodes a value for a query.
pub(crate) fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_both_as_servers_write_them_and_from_other_equivalent_json() {
        for line in [
            &br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#[..],
            br#"{ "object" : {"metadata":{"name":"a"}}, "type":"ADDED" }"#,
        ] {
            let event = Event::read(line, false).unwrap();
            assert_eq!(event.type_, EventType::Added);
            assert_eq!(Stub::read(event.object).unwrap().metadata.name, "a");
        }
        assert!(Event::read(b"<html>", false).is_err());
        assert!(Event::read(br#"{"type":"NEWS","object":{}}"#, false).is_err());
    }

    #[test]
    fn managed_fields_are_left_out() {
        for (json, expected) in [
            (
                r#"{"metadata":{"name":"a","managedFields":[{"manager":"m"}],"uid":"u"},"spec":{"managedFields":[1]}}"#,
                r#"{"metadata":{"name":"a","managedFields":[],"uid":"u"},"spec":{"managedFields":[1]}}"#,
            ),
            (r#"{"metadata":{"managedFields": null}}"#, r#"{"metadata":{"managedFields": null}}"#),
            (r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
        ] {
            assert_eq!(
                Stub::read(Encoded::Json(json.as_bytes())).unwrap().without_managed_fields(json),
                expected
            );
        }
    }

    #[test]
    fn an_error_event_without_a_code_gets_one_from_its_reason() {
        assert_eq!(refusal(br#"{"reason":"Expired"}"#).unwrap().code, 410);
        assert_eq!(refusal(br#"{"reason":"Unknown"}"#).unwrap().code, 500);
    }

    #[test]
    fn a_list_without_items_is_empty() {
        let page = Page::read(br#"{"metadata":{"resourceVersion":"5"},"items":null}"#).unwrap();
        assert!(page.items.is_empty());
        assert_eq!(page.version, "5");
    }

    #[test]
    fn selectors_are_encoded_for_queries() {
        assert_eq!(encoded("status.phase!=Failed,a=b"), "status.phase%21%3DFailed%2Ca%3Db");
    }
}
