use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use proptest::{prelude::*, sample::Index};
use serde_json::{Value as Json, json};

use super::{
    fields::{Field, Kind, Message, Shape},
    messages,
};
use crate::{
    ObjectKind, Timestamp, WorkloadKind,
    wire::{
        Decoder, Encoded, NodeDraft, ObjectDraft, PodDraft,
        draft::tests::{change, full_node, full_object, full_pod, walk},
    },
};

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes(number: u64, content: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn integer(number: u64, value: i64, out: &mut Vec<u8>) {
    varint(number << 3, out);
    varint(value.cast_unsigned(), out);
}

/// Encodes the fields of an object that a table has, as an API server does, among fields that the table lacks. Returns
/// `None` if the object has no form in protobuf, which cannot tell an empty list or map from a missing one.
fn message(of: &Message, object: &Json) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    bytes(100, b"something else", &mut out);
    for Field { number, name, shape, of } in of.fields {
        match shape {
            Shape::Inline => match of {
                Kind::Message(inner) => bytes(*number, &message(inner, object)?, &mut out),
                other => panic!("{other:?} is inlined"),
            },
            _ if object[name].is_null() => {}
            Shape::One => value(*number, *of, &object[name], &mut out)?,
            Shape::List => {
                for entry in object[name].as_array().filter(|entries| !entries.is_empty())? {
                    value(*number, *of, entry, &mut out)?;
                }
            }
            Shape::Map => {
                for (key, entry) in object[name].as_object().filter(|entries| !entries.is_empty())? {
                    let mut pair = Vec::new();
                    bytes(1, key.as_bytes(), &mut pair);
                    value(2, *of, entry, &mut pair)?;
                    bytes(*number, &pair, &mut out);
                }
            }
        }
    }
    integer(101, 7, &mut out);
    Some(out)
}

/// Encodes a value. Returns `None` if it is not of the field's type.
fn value(number: u64, of: Kind, value: &Json, out: &mut Vec<u8>) -> Option<()> {
    match of {
        Kind::Text => bytes(number, value.as_str()?.as_bytes(), out),
        Kind::Number => integer(number, value.as_i64()?, out),
        Kind::Bool => integer(number, value.as_bool()?.into(), out),
        Kind::Quantity => {
            let mut inner = Vec::new();
            bytes(1, value.as_str()?.as_bytes(), &mut inner);
            bytes(number, &inner, out);
        }
        Kind::Time | Kind::TimeAsText => {
            let mut inner = Vec::new();
            if !value.is_null() {
                let nanoseconds = Timestamp::parse(value.as_str()?).ok()?.0;
                integer(1, nanoseconds.div_euclid(1_000_000_000), &mut inner);
                integer(2, nanoseconds.rem_euclid(1_000_000_000), &mut inner);
            }
            bytes(number, &inner, out);
        }
        Kind::Json => {
            let mut inner = Vec::new();
            bytes(1, value.to_string().as_bytes(), &mut inner);
            bytes(number, &inner, out);
        }
        Kind::Message(inner) => {
            let content = value.is_object().then(|| message(inner, value))?;
            bytes(number, &content?, out);
        }
    }
    Some(())
}

/// Reads an object from one of its forms.
type Read = fn(Encoded<'_>) -> Result<String, String>;

fn read_pod(from: Encoded<'_>) -> Result<String, String> {
    let draft = PodDraft::read(from).map_err(|error| error.to_string())?;
    draft.hash(&mut DefaultHasher::new());
    let _ = (draft.uid(), draft.version(), draft.is_bound());
    finish_pod(draft, &mut Decoder::new())
}

fn finish_pod(draft: PodDraft<'_>, decoder: &mut Decoder) -> Result<String, String> {
    let decoded = draft.finish(decoder).map_err(|error| error.to_string())?;
    Ok(format!("{decoded:?}"))
}

fn read_node(from: Encoded<'_>) -> Result<String, String> {
    let draft = NodeDraft::read(from).map_err(|error| error.to_string())?;
    let decoded = draft.finish(&mut Decoder::new()).map_err(|error| error.to_string())?;
    Ok(format!("{decoded:?}"))
}

/// Checks that both forms of an object are decoded to the same value. Returns false if the object has no form in
/// protobuf.
fn check(read: Read, of: &'static Message, object: &Json) -> bool {
    let Some(encoded) = message(of, object) else { return false };
    let text = object.to_string();
    let (from_json, from_protobuf) =
        (read(Encoded::Json(text.as_bytes())), read(Encoded::Protobuf(&encoded)));
    assert_eq!(from_json.is_ok(), from_protobuf.is_ok(), "{object}: {from_json:?} {from_protobuf:?}");
    if from_json.is_ok() {
        assert_eq!(from_json, from_protobuf, "{object}");
    }
    true
}

#[test]
fn objects_are_equal_in_both_forms() {
    assert!(check(read_pod, &messages::POD, &full_pod()));
    assert!(check(read_node, &messages::NODE, &full_node()));
    check_metadata(&messages::POD, &full_pod());
    assert!(check(read_pod, &messages::POD, &json!({"metadata": {"creationTimestamp": null}})));
    let by_map = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"selector": {"app": "web"}}});
    for kind in ObjectKind::ALL {
        let of = crate::wire::object::message(kind);
        let is_map = matches!(kind.name(), "Namespace" | "Service" | "ReplicationController");
        let object = if is_map { by_map.clone() } else { full_object() };
        let encoded = message(of, &object).unwrap();
        let text = object.to_string();
        let decoded = |from| ObjectDraft::read(kind, from).unwrap().finish(&mut Decoder::new()).unwrap();
        assert_eq!(decoded(Encoded::Json(text.as_bytes())), decoded(Encoded::Protobuf(&encoded)));
    }
}

/// Checks that the metadata of an object is what serde reads.
fn check_metadata(of: &'static Message, object: &Json) {
    let Some(encoded) = message(of, object) else { return };
    let Ok(read) = super::decode::<Json>(of, &encoded) else { return };
    let text = |object: &Json, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let pairs = |key: &str| -> BTreeMap<String, Json> {
        let pairs = read["metadata"][key].as_object().cloned().unwrap_or_default();
        pairs.into_iter().collect()
    };
    let meta = super::ObjectMeta::of(&encoded).unwrap();
    let names = [meta.name, meta.namespace, meta.uid, meta.resource_version];
    let expected = ["name", "namespace", "uid", "resourceVersion"].map(|key| text(&read["metadata"], key));
    assert_eq!(names, expected.each_ref().map(String::as_str));
    assert_eq!(meta.generation, read["metadata"]["generation"].as_i64().unwrap_or_default());
    assert_eq!(meta.deletion, read["metadata"]["deletionTimestamp"].as_i64());
    for (entries, key) in [(&meta.labels, "labels"), (&meta.annotations, "annotations")] {
        let entries: BTreeMap<String, Json> =
            entries.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        assert_eq!(entries, pairs(key));
    }
    let owners: Vec<_> = read["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    assert_eq!(meta.owners.len(), owners.len());
    for (owner, expected) in meta.owners.iter().zip(&owners) {
        let names = [owner.api_version, owner.kind, owner.name, owner.uid];
        assert_eq!(names, ["apiVersion", "kind", "name", "uid"].map(|key| text(expected, key)));
        assert_eq!(owner.controls, expected["controller"] == true);
    }
}

fn essence(of: &'static Message, object: &Json) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    super::hash_essence(of, &message(of, object)?, &mut hasher);
    Some(hasher.finish())
}

/// Checks that the essence of a changed object differs if the decoded object does.
fn check_essence(read: Read, of: &'static Message, original: &Json, changed: &Json) {
    let decoded = |object: &Json| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        read(Encoded::Protobuf(&message(of, &object)?)).ok()
    };
    let (Some(before), Some(after)) = (decoded(original), decoded(changed)) else { return };
    let is_same = essence(of, original) == essence(of, changed);
    assert!(before == after || !is_same, "{changed}");
}

fn read_object(kind: ObjectKind, from: Encoded<'_>) -> Result<String, String> {
    let draft = ObjectDraft::read(kind, from).map_err(|error| error.to_string())?;
    let decoded = draft.finish(&mut Decoder::new()).map_err(|error| error.to_string())?;
    Ok(format!("{decoded:?}"))
}

#[test]
fn whatever_changes_a_decoded_field_changes_the_essence() {
    let all: [(Json, Read, &'static Message); 4] = [
        (full_pod(), read_pod, &messages::POD),
        (full_node(), read_node, &messages::NODE),
        (
            full_object(),
            |from| read_object(ObjectKind::PodDisruptionBudget, from),
            &messages::POD_DISRUPTION_BUDGET,
        ),
        (
            full_object(),
            |from| read_object(ObjectKind::Workload(WorkloadKind::ReplicaSet), from),
            &messages::REPLICA_SET,
        ),
    ];
    for (original, read, of) in all {
        let mut paths = Vec::new();
        walk(&original, "", &mut |path, _| paths.push(path));
        for (path, how) in paths.iter().flat_map(|path| (0..11).map(move |how| (path, how))) {
            let mut changed = original.clone();
            change(&mut changed, path, how);
            check_essence(read, of, &original, &changed);
            // Change 0 removes a value. Random changes are tested below.
            if how == 0 {
                check(read, of, &changed);
            }
        }
    }
}

#[test]
fn what_kubelets_write_all_the_time_is_not_part_of_the_essence() {
    for (of, object, path, value) in [
        (&messages::POD, full_pod(), "/status/conditions/2/status", "False"),
        (&messages::POD, full_pod(), "/metadata/resourceVersion", "8"),
        (&messages::NODE, full_node(), "/metadata/resourceVersion", "8"),
    ] {
        let mut changed = object.clone();
        *changed.pointer_mut(path).unwrap() = value.into();
        assert_eq!(essence(of, &object), essence(of, &changed), "{path}");
        *changed.pointer_mut("/metadata/labels/app").unwrap() = "other".into();
        assert_ne!(essence(of, &object), essence(of, &changed));
    }
    // Fields that the table lacks.
    let node = message(&messages::NODE, &full_node()).unwrap();
    let mut longer = node.clone();
    bytes(100, b"another", &mut longer);
    let hash = |bytes: &[u8]| {
        let mut hasher = DefaultHasher::new();
        super::hash_essence(&messages::NODE, bytes, &mut hasher);
        hasher.finish()
    };
    assert_eq!(hash(&node), hash(&longer));
}

#[test]
fn envelopes_lists_and_events_are_opened() {
    let mut envelope = MAGIC_WITH_TYPE.to_vec();
    bytes(2, b"raw", &mut envelope);
    assert!(super::is_meant(&envelope) && !super::is_meant(b"{}"));
    assert_eq!(super::open(&envelope).unwrap(), b"raw");
    let (mut event, mut object) = (Vec::new(), Vec::new());
    bytes(1, &envelope, &mut object);
    bytes(1, b"MODIFIED", &mut event);
    bytes(2, &object, &mut event);
    assert_eq!(super::watch_event(&event).unwrap(), ("MODIFIED", &envelope[..]));
    let (mut list, mut metadata) = (Vec::new(), Vec::new());
    bytes(2, b"7", &mut metadata);
    bytes(3, b"token", &mut metadata);
    bytes(1, &metadata, &mut list);
    bytes(2, b"a", &mut list);
    bytes(2, b"b", &mut list);
    let list = super::ObjectList::read(&list).unwrap();
    assert_eq!((list.version, list.continue_, &list.items[..]), ("7", "token", &[&b"a"[..], b"b"][..]));
}

/// Start of an envelope: the prefix, and the type.
const MAGIC_WITH_TYPE: &[u8] = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod";

proptest! {
    #[test]
    fn changed_objects_are_equal_in_both_forms(changes in prop::collection::vec((any::<Index>(), 0_usize..11), 1..6)) {
        let all: [(Json, Read, &'static Message); 2] =
            [(full_pod(), read_pod, &messages::POD), (full_node(), read_node, &messages::NODE)];
        for (mut object, read, of) in all {
            for (index, how) in &changes {
                let mut paths = Vec::new();
                walk(&object, "", &mut |path, _| paths.push(path));
                let path: &String = index.get(&paths);
                let before = object.clone();
                change(&mut object, path, *how);
                check_essence(read, of, &before, &object);
            }
            check(read, of, &object);
            check_metadata(of, &object);
        }
    }

    #[test]
    fn a_decoder_that_has_read_similar_pods_reads_what_a_new_one_reads(
        changes in prop::collection::vec((any::<Index>(), 0_usize..11), 1..6),
        edits in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        let mut decoder = Decoder::new();
        let mut check = |bytes: &[u8]| {
            let draft = || PodDraft::read(Encoded::Protobuf(bytes)).unwrap();
            let expected = finish_pod(draft(), &mut Decoder::new());
            assert_eq!(finish_pod(draft(), &mut decoder), expected);
            assert_eq!(finish_pod(draft(), &mut decoder), expected);
        };
        let mut pod = full_pod();
        pod["spec"]["schedulingGates"] = Json::Null;
        for without_node in [true, false] {
            let mut pod = pod.clone();
            if without_node {
                pod["spec"]["nodeName"] = Json::Null;
            }
            check(&message(&messages::POD, &pod).unwrap());
        }
        for (index, how) in changes {
            let mut paths = Vec::new();
            walk(&pod, "", &mut |path, _| paths.push(path));
            let path: &String = index.get(&paths);
            change(&mut pod, path, how);
            let Some(mut encoded) = message(&messages::POD, &pod) else { continue };
            check(&encoded);
            for (index, byte) in &edits {
                let at = index.index(encoded.len());
                encoded[at] = *byte;
            }
            check(&encoded);
        }
    }

    #[test]
    fn damaged_objects_cause_no_panic(edits in prop::collection::vec((any::<Index>(), any::<u8>()), 0..8), cut: Index) {
        for (of, object) in [(&messages::POD, full_pod()), (&messages::NODE, full_node())] {
            let mut encoded = message(of, &object).unwrap();
            for (index, byte) in &edits {
                let at = index.index(encoded.len());
                encoded[at] = *byte;
            }
            let cut = &encoded[..cut.index(encoded.len())];
            for bytes in [&encoded[..], cut] {
                let _ = (read_pod(Encoded::Protobuf(bytes)), read_node(Encoded::Protobuf(bytes)));
                let _ = (super::open(bytes).is_ok(), super::watch_event(bytes).is_ok());
                let _ = (super::ObjectList::read(bytes).is_ok(), super::ObjectMeta::of(bytes).is_ok());
            }
        }
    }

    #[test]
    fn random_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (read_pod(Encoded::Protobuf(&bytes)), read_node(Encoded::Protobuf(&bytes)));
        let _ = (super::open(&bytes).is_ok(), super::watch_event(&bytes).is_ok());
        let _ = (super::ObjectList::read(&bytes).is_ok(), super::ObjectMeta::of(&bytes).is_ok());
    }
}
