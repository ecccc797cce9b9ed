//! Tests of lists and watches in protobuf.

use harbormaster_api::protobuf::{self, Message, messages};
use harbormaster_client::fake_server::RecordedRequest;
use harbormaster_framework::resource::{RawContent, Resource, ResourceKind, ResourceScope};
use serde::Deserialize;

use super::*;

/// Encodes a field of a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    let length = [(length & 0x7f) as u8 | 0x80, (length >> 7) as u8];
    [&[number << 3 | 2], &length[..], content].concat()
}

/// Puts a message into an envelope.
fn enveloped(message: &[u8]) -> Vec<u8> {
    [b"k8s\0".to_vec(), field(2, message)].concat()
}

/// Encodes an event with its length.
fn protobuf_event(type_: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, type_.as_bytes()), field(2, &field(1, object))].concat();
    [u32::try_from(event.len()).unwrap().to_be_bytes().to_vec(), event].concat()
}

fn protobuf_pod(name: &str, version: &str) -> Vec<u8> {
    let parts =
        [field(1, name.as_bytes()), field(3, b"ns"), field(5, name.as_bytes()), field(6, version.as_bytes())];
    field(1, &parts.concat())
}

fn in_protobuf(body: Vec<u8>) -> Response<ResponseBody> {
    let mut reply = reply(200, body);
    let content_type = format!("{};stream=watch", harbormaster_api::protobuf::CONTENT_TYPE);
    reply.headers_mut().insert("content-type", content_type.parse().unwrap());
    reply
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_may_be_in_protobuf() {
    let mark = [field(1, b"k8s.io/initial-events-end"), field(2, b"true")].concat();
    let bookmark = field(1, &[field(6, b"3"), field(12, &mark)].concat());
    let stream = [
        protobuf_event("ADDED", &enveloped(&protobuf_pod("a", "1"))),
        protobuf_event("BOOKMARK", &enveloped(&bookmark)),
        protobuf_event("DELETED", &enveloped(&protobuf_pod("a", "4"))),
        protobuf_event("ADDED", &enveloped(&protobuf_pod("b", "5"))),
    ];
    let too_old = enveloped(&[field(4, b"Expired"), vec![6 << 3, 0x9a, 3]].concat());
    let page = [field(1, &field(2, b"9")), field(2, &protobuf_pod("c", "8"))].concat();
    let server = FakeServer::script(vec![
        in_protobuf(stream.concat()),
        in_protobuf(protobuf_event("ERROR", &too_old)),
        in_protobuf(Vec::new()),
        no_streaming(),
        reply(200, enveloped(&page)),
    ]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 4).await, ["+a@1", "-a", "+b@5", "synced"]);
    assert_eq!(heard(&engine, 2).await, ["+c@8", "-b"]);
    assert_eq!(queries(&server)[..2], ["stream", "watch 5"]);
}

#[tokio::test(start_paused = true)]
async fn garbage_in_protobuf_leads_to_a_new_list() {
    let broken = |bytes: &[u8]| in_protobuf([&[0, 0, 0, bytes.len() as u8], bytes].concat());
    let server = FakeServer::script(vec![
        broken(b"garbage"),
        broken(b"\x0a\x05ADDED"),
        in_protobuf(vec![255; 8]),
        // Servers may send JSON at any time.
        streamed(vec![event("ADDED", &pod("c", 8)) + &end_of_initial_events(8)], true),
    ]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 2).await, ["+c@8", "synced"]);
}

#[derive(Debug, Deserialize)]
struct Claim {}

impl Resource for Claim {
    const GROUP: &'static str = "resource.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ResourceClaim";
    const PLURAL: &'static str = "resourceclaims";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
    const OLDER_VERSIONS: &'static [OlderVersion] = OLDER;
    const PROTOBUF: Option<&'static Message> = Some(&messages::devices::RESOURCE_CLAIM);
}

#[tokio::test(start_paused = true)]
async fn what_plugins_read_is_requested_in_protobuf_if_the_server_has_the_newest_version() {
    for (is_old, expected) in [(false, [true, true]), (true, [true, false])] {
        let missing = is_old.then(|| reply(404, "404 page not found"));
        let last = streamed(Vec::new(), true);
        let server = FakeServer::script(missing.into_iter().chain([no_streaming(), last]).collect());
        let kind = CustomKind::new(ServedVersion::of(&ResourceKind::of::<Claim>()));
        let _engine = watch_kind(kind, &server);
        while server.requests().len() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
        let is_protobuf = |seen: &RecordedRequest| seen.accept.starts_with(protobuf::CONTENT_TYPE);
        let found: Vec<bool> = server.requests()[..2].iter().map(is_protobuf).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn an_object_in_protobuf_is_passed_on_as_it_is() {
    let kind = CustomKind::new(ServedVersion::of(&ResourceKind::of::<Claim>()));
    let claim = protobuf_pod("c", "7");
    let decoded = kind.decode(&mut Decoder::new(), &mut Known::default(), Encoded::Protobuf(&claim)).unwrap();
    let Some(Input::Custom(object)) = decoded.input else { panic!() };
    assert_eq!((&*object.key.namespace, &*object.key.name, &*decoded.version), ("ns", "c", "7"));
    assert_eq!(object.content, RawContent::Protobuf(claim.into()));
}
