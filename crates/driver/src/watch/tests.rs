//! Tests of watchers against an API server with scripted responses.

mod protobuf;

use std::{collections::VecDeque, sync::mpsc};

use harbormaster_api::ObjectKey;
use harbormaster_client::{
    client::ResponseBody,
    fake_server::{FakeServer, refused_connection, reply, status, streamed, streamed_over_http1},
};
use harbormaster_framework::{
    api_call::{ClusterApi, ObjectPath},
    resource::{CustomKey, OlderVersion, ResourceName},
};
use http::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::{
    live_api::LiveApi,
    message::tests::{Received, without_engine},
    served_version::ServedVersion,
};

fn pod(name: &str, version: u32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": version.to_string()},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn list(version: u32, token: &str, pods: &[Value]) -> Response<ResponseBody> {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
    reply(200, json!({"kind": "PodList", "metadata": metadata, "items": pods}).to_string())
}

fn event(type_: &str, object: &Value) -> String {
    format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n")
}

fn end_of_initial_events(version: u32) -> String {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    event(
        "BOOKMARK",
        &json!({"metadata": {"resourceVersion": version.to_string(), "annotations": annotations}}),
    )
}

fn no_streaming() -> Response<ResponseBody> {
    status(422, "Invalid", "sendInitialEvents is forbidden")
}

/// Waits for the engine's next `count` inputs and returns them in short form: `+name@version`, `-name`, `synced`.
async fn heard(engine: &Received, count: usize) -> Vec<String> {
    let begun = Instant::now();
    let mut all = Vec::new();
    while all.len() < count {
        match engine.try_recv() {
            Ok(EngineMessage::Inputs(inputs)) => all.extend(inputs.iter().map(short)),
            Ok(EngineMessage::Raw(objects)) => all.push(format!("{} as they came", objects.len())),
            Ok(EngineMessage::Synced) => all.push("synced".to_owned()),
            Ok(
                other @ (EngineMessage::StatusesWritten(_)
                | EngineMessage::Lead
                | EngineMessage::Stop
                | EngineMessage::ListPods(_)
                | EngineMessage::Dump(_)
                | EngineMessage::PodState(..)
                | EngineMessage::Room(..)
                | EngineMessage::TakeNotes(_)
                | EngineMessage::TakeOver(..)),
            ) => {
                panic!("a watch sent {other:?}")
            }
            Err(_) if begun.elapsed() > Duration::from_secs(3600) => panic!("only received {all:?}"),
            // Time is virtual, so the wait costs nothing.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    all
}

fn short(input: &Input) -> String {
    match input {
        Input::Pod(pod) => format!("+{}@{}", pod.name, pod.resource_version),
        Input::PodGone(uid) => format!("-{uid}"),
        Input::Node(node) => format!("+node {}", node.name),
        Input::NodeGone(name) => format!("-node {name}"),
        Input::Object(object) => format!("+{}", short_key(&object.key())),
        Input::ObjectGone(key) => format!("-{}", short_key(key)),
        Input::Custom(object) => format!("+{}", short_custom(&object.key)),
        Input::CustomGone(key) => format!("-{}", short_custom(key)),
        other => format!("{other:?}"),
    }
}

fn short_key(key: &ObjectKey) -> String {
    format!("{} {}/{}", key.kind.name(), key.namespace, key.name)
}

fn short_custom(key: &CustomKey) -> String {
    format!("{} {}/{}", key.resource, key.namespace, key.name)
}

fn watch(server: &FakeServer) -> Received {
    watch_kind(Pods, server)
}

fn watch_kind(kind: impl Kind, server: &FakeServer) -> Received {
    let (engine, inbox) = without_engine();
    tokio::spawn(Watcher::new(kind, server.client(), StreamingLists::default(), engine).run());
    inbox
}

/// Returns a kind that exists in one version only.
fn custom(resource: ResourceName) -> CustomKind {
    CustomKind::new(ServedVersion::new(resource, &[]))
}

fn queries(server: &FakeServer) -> Vec<String> {
    let told_apart = |path: String| {
        let has = |part: &str| path.contains(part);
        match (has("watch=true"), has("sendInitialEvents=true")) {
            (true, true) => "stream".to_owned(),
            (true, false) => {
                let version = path.split("resourceVersion=").nth(1).unwrap_or_default();
                format!("watch {}", version.split('&').next().unwrap_or_default())
            }
            _ if has("limit=500") => "page".to_owned(),
            _ => "list".to_owned(),
        }
    };
    server.requests().into_iter().map(|s| told_apart(s.path)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_continues_as_a_watch() {
    let pieces = vec![
        event("ADDED", &pod("a", 1)) + &event("ADDED", &pod("b", 2)),
        end_of_initial_events(5),
        event("MODIFIED", &pod("a", 6)) + &event("DELETED", &pod("b", 7)),
    ];
    let server = FakeServer::script(vec![streamed(pieces, true)]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 5).await, ["+a@1", "+b@2", "synced", "+a@6", "-b"]);
    let first = &server.requests()[0].path;
    for part in [
        "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=",
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
        "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
    ] {
        assert!(first.contains(part), "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_engine_gets_the_first_objects_of_a_streaming_list_before_the_list_ends() {
    let pieces = (0..3).map(|piece| {
        let pods = (0..PAGE / 2).map(|index| event("ADDED", &pod(&format!("p{piece}-{index}"), 1)));
        pods.collect::<String>()
    });
    let server = FakeServer::script(vec![streamed(pieces.collect(), true)]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, PAGE).await.len(), PAGE);
    sleep(Duration::from_secs(1)).await;
    assert!(engine.try_recv().is_err(), "the others wait for more");
}

fn bound(name: &str, version: u32, status: &Value) -> Value {
    let mut pod = pod(name, version);
    pod["spec"]["nodeName"] = "n".into();
    pod["status"] = status.clone();
    pod
}

#[tokio::test(start_paused = true)]
async fn updates_that_change_nothing_decoded_do_not_reach_the_engine() {
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    let pieces = vec![
        event("ADDED", &pod("a", 1))
            + &event("ADDED", &bound("b", 2, &json!({})))
            + &end_of_initial_events(3),
        event("MODIFIED", &pod("a", 4)) + &event("MODIFIED", &bound("b", 5, &ready("True"))),
        event("MODIFIED", &bound("b", 6, &ready("False"))),
        event("MODIFIED", &bound("b", 7, &json!({"phase": "Running"}))),
        event("MODIFIED", &bound("a", 8, &json!({}))) + &event("MODIFIED", &bound("a", 9, &json!({}))),
        event("DELETED", &bound("a", 10, &json!({}))),
    ];
    let again = list(20, "", &[bound("b", 12, &json!({"phase": "Running"})), bound("c", 13, &json!({}))]);
    let server = FakeServer::script(vec![
        streamed(pieces, false),
        streamed(vec![event("ERROR", &json!({"code": 410, "message": "too old"}))], true),
        no_streaming(),
        again,
    ]);
    let engine = watch(&server);
    // A pod without a node counts with every version.
    assert_eq!(heard(&engine, 6).await, ["+a@1", "+b@2", "synced", "+a@4", "+b@7", "+a@8"]);
    assert_eq!(heard(&engine, 2).await, ["-a", "+c@13"], "nor do they from a later list");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_of_nodes_do_not_reach_the_engine_and_labels_do() {
    let node = |version: u32, time: &str, label: &str| {
        json!({
            "metadata": {"name": "n", "resourceVersion": version.to_string(), "labels": {"a": label}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": time}]},
        })
    };
    let pieces = vec![
        event("ADDED", &node(1, "t1", "x")) + &end_of_initial_events(1),
        event("MODIFIED", &node(2, "t2", "x")),
        event("MODIFIED", &node(3, "t3", "y")),
        event("DELETED", &node(4, "t3", "y")) + &event("ADDED", &node(5, "t3", "y")),
    ];
    let server = FakeServer::script(vec![streamed(pieces, true)]);
    let engine = watch_kind(Nodes, &server);
    let told = heard(&engine, 5).await;
    assert_eq!(told, ["+node n", "synced", "+node n", "-node n", "+node n"]);
}

#[tokio::test(start_paused = true)]
async fn raw_objects_precede_their_inputs_and_never_overtake_a_deletion() {
    let node = |version: u32| json!({"metadata": {"name": "n", "resourceVersion": version.to_string()}});
    let pieces = vec![
        event("ADDED", &node(1)) + &end_of_initial_events(5),
        event("MODIFIED", &node(6)) + &event("DELETED", &node(7)) + &event("ADDED", &node(8)),
    ];
    let server = FakeServer::script(vec![streamed(pieces, true)]);
    let (engine, inbox) = without_engine();
    let wanted = RawSelection { nodes: true, ..RawSelection::default() };
    let watcher = Watcher::new(Nodes, server.client(), StreamingLists::default(), engine).handing_on(wanted);
    tokio::spawn(watcher.run());
    let one = "1 as they came";
    let told = heard(&inbox, 8).await;
    assert_eq!(told, [one, "+node n", "synced", one, "+node n", "-node n", one, "+node n"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_streaming_list_is_not_tried_again() {
    let server = FakeServer::script(vec![
        no_streaming(),
        list(10, "next", &[pod("a", 1)]),
        list(10, "", &[pod("b", 2)]),
        streamed(vec![event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"}))], false),
        list(20, "", &[pod("b", 2), pod("c", 15)]),
        streamed(vec![event("ADDED", &pod("d", 21))], true),
    ]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 6).await, ["+a@1", "+b@2", "synced", "+c@15", "-a", "+d@21"]);
    assert_eq!(queries(&server), ["stream", "page", "page", "watch 10", "page", "watch 20"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_does_not_complete_its_list_is_abandoned() {
    let server = FakeServer::script(vec![
        streamed(vec![event("ADDED", &pod("a", 1))], true),
        list(10, "", &[pod("a", 1)]),
        streamed(Vec::new(), true),
    ]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 2).await, ["+a@1", "synced"]);
    assert_eq!(queries(&server)[..2], ["stream", "page"]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_watch_continues_where_it_ended() {
    let bookmark = event("BOOKMARK", &json!({"metadata": {"resourceVersion": "30"}}));
    let server = FakeServer::script(vec![
        no_streaming(),
        list(10, "", &[]),
        streamed(vec![event("ADDED", &pod("a", 11))], false),
        streamed(vec![bookmark], false),
        streamed(vec![event("MODIFIED", &pod("a", 31))], true),
    ]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 3).await, ["synced", "+a@11", "+a@31"]);
    assert_eq!(queries(&server)[2..], ["watch 10", "watch 11", "watch 30"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_leads_to_a_new_list_and_only_its_differences_are_passed_on() {
    let server = FakeServer::script(vec![
        no_streaming(),
        list(10, "", &[pod("same", 1), pod("changed", 2), pod("gone", 3)]),
        status(410, "Expired", "too old resource version"),
        list(20, "", &[pod("same", 1), pod("changed", 12)]),
        streamed(Vec::new(), true),
    ]);
    let engine = watch(&server);
    let told = heard(&engine, 6).await;
    assert_eq!(told, ["+same@1", "+changed@2", "+gone@3", "synced", "+changed@12", "-gone"]);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_an_expired_watch_leads_to_a_list_immediately() {
    let gone = || event("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"}));
    for gone in [status(410, "Expired", "too old resource version"), streamed(vec![gone()], false)] {
        let (asked, times) = mpsc::channel();
        let before = [no_streaming(), list(10, "", &[pod("a", 1)])].map(Some);
        let away = (0..6).map(|_| None);
        let after = [gone, list(20, "", &[pod("b", 12)]), streamed(Vec::new(), true)].map(Some);
        let mut replies = before.into_iter().chain(away).chain(after).collect::<Vec<_>>().into_iter();
        let server = FakeServer::new(move |_| {
            // The test may have ended.
            let _ = asked.send(Instant::now());
            replies.next().flatten().ok_or_else(|| refused_connection().into())
        });
        let engine = watch(&server);
        assert_eq!(heard(&engine, 4).await, ["+a@1", "synced", "+b@12", "-a"]);
        let times: Vec<Instant> = times.try_iter().collect();
        // The requests are a refused list, a successful list, six failed watches, the watch that reports the expired
        // version, and the next list.
        let (gone, listed) = (times[8], times[9]);
        assert!(gone - times[7] > Duration::from_secs(20), "the delays have grown");
        assert!(listed - gone < Duration::from_millis(100), "{:?} until the list", listed - gone);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_lists_expire_immediately_is_not_overloaded() {
    let (asked, times) = mpsc::channel();
    let mut version = 0;
    let server = FakeServer::always(move |request| {
        // The test may have ended.
        let _ = asked.send(Instant::now());
        version += 1;
        match request.path.contains("watch=true") {
            true if version == 1 => no_streaming(),
            true => status(410, "Expired", "too old resource version"),
            false => list(version, "", &[pod("a", version)]),
        }
    });
    let engine = watch(&server);
    heard(&engine, 6).await;
    let times: Vec<Instant> = times.try_iter().collect();
    let took = *times.last().unwrap() - times[0];
    assert!(took > Duration::from_secs(5), "{} requests in {took:?}", times.len());
}

#[tokio::test(start_paused = true)]
async fn the_delays_grow_while_a_server_fails() {
    let mut replies = 0;
    let server = FakeServer::new(move |_| {
        replies += 1;
        match replies {
            1 => Err(refused_connection().into()),
            2 => Ok(status(503, "ServiceUnavailable", "starting")),
            3 => {
                let mut busy = status(429, "TooManyRequests", "busy");
                busy.headers_mut().insert("retry-after", http::HeaderValue::from_static("20"));
                Ok(busy)
            }
            4 => Ok(no_streaming()),
            5..=8 => Ok(status(500, "InternalError", "etcd is away")),
            9 => Ok(list(10, "", &[pod("a", 1)])),
            _ => Ok(streamed(Vec::new(), true)),
        }
    });
    let begun = Instant::now();
    let engine = watch(&server);
    assert_eq!(heard(&engine, 2).await, ["+a@1", "synced"]);
    // Delays in seconds: 0.8 + 1.6 + 20, then 6.4 + 12.8 + 25.6 + 30, each at most doubled by jitter.
    let took = begun.elapsed().as_secs();
    assert!((90..190).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_retried_and_finally_all_objects_are_listed_again() {
    let mut replies = vec![no_streaming(), list(10, "", &[])];
    replies.extend((0..5).map(|_| status(504, "Timeout", "Too large resource version: 10, current: 3")));
    replies.extend([list(3, "", &[pod("a", 2)]), streamed(Vec::new(), true)]);
    let server = FakeServer::script(replies);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 2).await, ["synced", "+a@2"]);
    let asked = queries(&server);
    assert_eq!(asked[2..7], ["watch 10"; 5]);
    assert_eq!(asked[7], "page");
}

#[tokio::test(start_paused = true)]
async fn after_invalid_data_all_objects_are_listed_again() {
    let server = FakeServer::script(vec![
        no_streaming(),
        reply(200, "<html>not a list</html>"),
        list(10, "", &[pod("a", 1)]),
        streamed(vec![event("ADDED", &pod("b", 11)) + "<html>proxy error</html>\n"], true),
        list(20, "", &[pod("b", 11), pod("c", 12)]),
        streamed(Vec::new(), true),
    ]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 5).await, ["+a@1", "synced", "+b@11", "+c@12", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_is_ignored_and_does_not_affect_others() {
    let mut odd = pod("odd", 4);
    odd["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "lots"}});
    let mut spoilt = pod("a", 5);
    spoilt["spec"] = json!("none");
    let server = FakeServer::script(vec![
        no_streaming(),
        list(10, "", &[pod("a", 1), odd.clone(), pod("b", 2)]),
        // An object that becomes undecodable keeps its last valid state.
        streamed(vec![event("MODIFIED", &spoilt), event("ADDED", &odd), event("DELETED", &odd)], false),
        streamed(vec![event("ADDED", &pod("c", 12))], true),
    ]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 4).await, ["+a@1", "+b@2", "synced", "+c@12"]);
    assert_eq!(queries(&server)[3], "watch 4");
}

#[tokio::test(start_paused = true)]
async fn pages_are_replaced_by_a_single_list_when_their_token_expires() {
    let server = FakeServer::script(vec![
        no_streaming(),
        list(10, "next", &[pod("a", 1)]),
        status(410, "Expired", "the provided continue parameter is too old"),
        list(20, "", &[pod("b", 2)]),
        streamed(Vec::new(), true),
    ]);
    let engine = watch(&server);
    assert_eq!(heard(&engine, 3).await, ["+a@1", "+b@2", "synced"]);
    assert_eq!(queries(&server)[..4], ["stream", "page", "page", "list"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_end_when_it_should_is_reopened() {
    let server = FakeServer::script(vec![
        no_streaming(),
        list(10, "", &[]),
        // The first watch shows whether the connection has pings.
        streamed(vec![event("ADDED", &pod("a", 11))], false),
        streamed(Vec::new(), true),
        streamed(vec![event("ADDED", &pod("b", 12))], true),
    ]);
    let begun = Instant::now();
    let engine = watch(&server);
    assert_eq!(heard(&engine, 3).await, ["synced", "+a@11", "+b@12"]);
    let took = begun.elapsed().as_secs();
    assert!((330..=640).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn watches_over_http1_are_short_so_that_a_dead_connection_is_detected() {
    let pieces = vec![event("ADDED", &pod("a", 1)) + &end_of_initial_events(5)];
    let server = FakeServer::script(vec![
        streamed_over_http1(pieces, true),
        streamed_over_http1(Vec::new(), true),
        streamed_over_http1(vec![event("ADDED", &pod("b", 11))], true),
    ]);
    let begun = Instant::now();
    let engine = watch(&server);
    assert_eq!(heard(&engine, 3).await, ["+a@1", "synced", "+b@11"]);
    let took = begun.elapsed().as_secs();
    assert!((46..=60).contains(&took), "left after 18 to 25 s, dead after 28 to 35 s: {took} s");
    assert_eq!(queries(&server), ["stream", "watch 5", "watch 5"]);
    let asked = |index: usize| {
        let path = server.requests()[index].path.clone();
        let time =
            path.split("timeoutSeconds=").nth(1).unwrap_or_default().split('&').next().unwrap().to_owned();
        time.parse::<u64>().unwrap()
    };
    assert!(asked(0) >= 300, "a list may take a long time");
    assert!((18..=25).contains(&asked(1)));
}

#[tokio::test(start_paused = true)]
async fn a_good_watch_that_breaks_is_reopened_without_the_delays_of_earlier_failures() {
    let broken_after = |seconds| {
        let pieces = futures_util::stream::once(async move {
            sleep(Duration::from_secs(seconds)).await;
            Err::<http_body::Frame<Bytes>, _>(tower::BoxError::from("broken"))
        });
        let body = http_body_util::BodyExt::boxed_unsync(http_body_util::StreamBody::new(pieces));
        let mut reply = Response::new(body);
        *reply.version_mut() = http::Version::HTTP_2;
        reply
    };
    let mut replies = vec![no_streaming(), list(10, "", &[])];
    // The first four watches break immediately; the fifth breaks after a minute without events, which makes it good.
    replies.extend((0..4).map(|_| broken_after(0)));
    replies.extend([broken_after(60), streamed(vec![event("ADDED", &pod("a", 11))], true)]);
    let server = FakeServer::script(replies);
    let begun = Instant::now();
    let engine = watch(&server);
    assert_eq!(heard(&engine, 2).await, ["synced", "+a@11"]);
    // Times in seconds: delays of 0.8 + 1.6 + 3.2 + 6.4, each at most doubled by jitter; a watch of 60; a delay of 0.8
    // to 1.6.
    let took = begun.elapsed().as_secs();
    assert!((72..=86).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_goes_on_soon_after_an_outage_whatever_its_length() {
    for outage in [1, 20, 300, 3000].map(Duration::from_secs) {
        let begun = Instant::now();
        let is_back = move || begun.elapsed() >= outage;
        let mut replies = VecDeque::from([no_streaming(), list(10, "", &[]), streamed(vec![], false)]);
        let server = FakeServer::new(move |_| {
            let watch = || streamed(vec![event("ADDED", &pod("a", 11))], true);
            let next = replies.pop_front().or_else(|| is_back().then(watch));
            next.ok_or_else(|| refused_connection().into())
        });
        let engine = watch(&server.ready_if(is_back));
        assert_eq!(heard(&engine, 2).await, ["synced", "+a@11"]);
        assert!(begun.elapsed() < outage + Duration::from_secs(2), "{:?} of {outage:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_are_identified_by_name() {
    let node = |name: &str| json!({"metadata": {"name": name, "uid": "u", "resourceVersion": "1"}});
    let server = FakeServer::script(vec![
        no_streaming(),
        list(10, "", &[node("n1"), node("n2")]),
        streamed(vec![event("DELETED", &node("n1"))], true),
    ]);
    let engine = watch_kind(Nodes, &server);
    assert_eq!(heard(&engine, 4).await, ["+node n1", "+node n2", "synced", "-node n1"]);
    assert!(!server.requests()[1].path.contains("fieldSelector"));
}

/// Returns the built-in kind with the given resource name.
fn objects(name: &str) -> BuiltInKind {
    BUILT_IN.into_iter().find(|objects| objects.name() == name).unwrap()
}

fn budget(namespace: &str, version: u32) -> Value {
    json!({"metadata": {"namespace": namespace, "name": "b", "uid": "u", "resourceVersion": version.to_string()}})
}

#[tokio::test(start_paused = true)]
async fn objects_with_the_same_name_in_two_namespaces_are_distinguished() {
    let mut odd = budget("y", 12);
    odd["status"] = json!({"disruptionsAllowed": "many"});
    let server = FakeServer::script(vec![
        no_streaming(),
        list(10, "", &[budget("x", 1), budget("y", 2)]),
        streamed(vec![event("DELETED", &budget("x", 11)), event("MODIFIED", &budget("x", 11))], false),
        status(410, "Expired", "too old resource version"),
        // An undecodable object keeps its last valid state, and an unchanged object is not reported again.
        list(20, "", &[budget("x", 11), odd]),
        status(410, "Expired", "too old resource version"),
        list(30, "", &[budget("x", 11)]),
        streamed(Vec::new(), true),
    ]);
    let engine = watch_kind(objects("poddisruptionbudgets"), &server);
    let told = heard(&engine, 6).await;
    let [x, y] = ["x", "y"].map(|namespace| format!("PodDisruptionBudget {namespace}/b"));
    assert_eq!(
        told,
        [
            format!("+{x}"),
            format!("+{y}"),
            "synced".into(),
            format!("-{x}"),
            format!("+{x}"),
            format!("-{y}")
        ]
    );
    assert!(server.requests()[1].path.starts_with("/apis/policy/v1/poddisruptionbudgets?limit="));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_counts_as_empty_and_is_requested_again() {
    let missing = || reply(404, "404 page not found");
    let namespace = json!({"metadata": {"name": "n", "resourceVersion": "1"}});
    let pieces = vec![event("ADDED", &namespace) + &end_of_initial_events(5)];
    let server = FakeServer::script(vec![missing(), missing(), streamed(pieces, true)]);
    let engine = watch_kind(objects("namespaces"), &server);
    assert_eq!(heard(&engine, 2).await, ["synced", "+Namespace /n"]);
    // A response with status 404 does not show whether the server supports streaming lists.
    assert_eq!(queries(&server), ["stream"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_kubernetes_kind_that_seems_to_be_gone_keeps_its_objects() {
    let missing = || reply(404, "404 page not found");
    let server = FakeServer::script(vec![
        streamed(vec![event("ADDED", &budget("x", 1)) + &end_of_initial_events(5)], false),
        missing(),
        missing(),
        missing(),
        streamed(vec![event("ADDED", &budget("y", 9)) + &end_of_initial_events(9)], true),
    ]);
    let engine = watch_kind(objects("poddisruptionbudgets"), &server);
    let told = heard(&engine, 4).await;
    let [x, y] = ["x", "y"].map(|namespace| format!("PodDisruptionBudget {namespace}/b"));
    assert_eq!(told, [format!("+{x}"), "synced".into(), format!("+{y}"), format!("-{x}")]);
}

#[tokio::test(start_paused = true)]
async fn a_kubernetes_kind_named_by_a_plugin_may_be_missing_at_first_but_does_not_vanish() {
    let missing = || reply(404, "404 page not found");
    let claim = json!({"metadata": {"name": "c", "namespace": "x", "resourceVersion": "1"}});
    let server = FakeServer::script(vec![
        missing(),
        streamed(vec![event("ADDED", &claim) + &end_of_initial_events(5)], false),
        missing(),
        missing(),
        missing(),
        streamed(vec![end_of_initial_events(9)], true),
    ]);
    let claims = ResourceName { plural: "persistentvolumeclaims", version: "v1", group: "" };
    let engine = watch_kind(custom(claims), &server);
    let told = heard(&engine, 3).await;
    let [new, gone] = ["+", "-"].map(|sign| format!("{sign}persistentvolumeclaims.v1. x/c"));
    assert_eq!(told, ["synced".to_owned(), new, gone], "the claim is gone when it is missing from a list");
    assert_eq!(queries(&server).len(), 6, "the claim stays while its kind seems not to be served");
    assert!(server.requests().iter().all(|seen| seen.path.starts_with("/api/v1/persistentvolumeclaims?")));
}

const CLAIMS: ResourceName =
    ResourceName { plural: "resourceclaims", version: "v1", group: "resource.k8s.io" };
const OLDER: &[OlderVersion] = &[
    OlderVersion { name: "v1beta2", upgrade: |_| {}, downgrade: |_| {} },
    OlderVersion { name: "v1beta1", upgrade: |object| object["from"] = "v1beta1".into(), downgrade: |_| {} },
];

#[tokio::test(start_paused = true)]
async fn the_newest_served_version_is_read_and_converted() {
    let claim = json!({"metadata": {"name": "c", "namespace": "x", "resourceVersion": "1"}});
    let listed = |v: u32| streamed(vec![event("ADDED", &claim) + &end_of_initial_events(v)], false);
    let missing = || reply(404, "404 page not found");
    let server = FakeServer::script(vec![
        missing(),
        missing(),
        missing(),
        // All versions are missing, so the newest is requested again, after a pause.
        missing(),
        missing(),
        listed(5),
        streamed(Vec::new(), true),
    ]);
    let served = ServedVersion::new(CLAIMS, OLDER);
    let engine = watch_kind(CustomKind::new(served.clone()), &server);
    assert_eq!(heard(&engine, 2).await, ["synced", "+resourceclaims.v1.resource.k8s.io x/c"]);
    let paths = server.requests().into_iter().map(|seen| seen.path);
    let versions: Vec<_> = paths.map(|path| path.split('/').nth(3).unwrap_or_default().to_owned()).collect();
    assert_eq!(versions[..6], ["v1", "v1beta2", "v1beta1", "v1", "v1beta2", "v1beta1"]);
    assert!(versions[6..].iter().all(|version| version == "v1beta1"), "{versions:?}");
    let path = |plural: &str| ObjectPath {
        group: "resource.k8s.io".into(),
        version: "v1".into(),
        plural: plural.into(),
        namespace: "x".into(),
        name: "c".into(),
        subresource: "status".into(),
    };
    assert_eq!(served.older_of(&path("resourceclaims")).unwrap().name, "v1beta1");
    assert!(served.older_of(&path("resourceslices")).is_none());
}

#[test]
fn objects_of_an_older_version_are_converted() {
    let json = Encoded::Json(br#"{"metadata":{"name":"c","namespace":"x"}}"#);
    let mut kind = CustomKind::new(ServedVersion::new(CLAIMS, OLDER));
    for (older, converted) in [(true, false), (true, true), (false, false)] {
        assert_eq!(kind.try_older(), older);
        let decoded = kind.decode(&mut Decoder::new(), &mut Known::default(), json).unwrap();
        let Some(Input::Custom(object)) = decoded.input else { panic!() };
        assert_eq!(object.key.resource, "resourceclaims.v1.resource.k8s.io");
        assert_eq!(object.json().unwrap().contains(r#""from":"v1beta1""#), converted);
    }
}

#[test]
fn only_custom_kinds_vanish() {
    for (group, vanishes) in [
        ("", false),
        ("apps", false),
        ("storage.k8s.io", false),
        ("example.com", true),
        ("scheduling.x-k8s.io", true),
    ] {
        let kind = custom(ResourceName { plural: "things", version: "v1", group });
        assert_eq!(kind.may_vanish(), vanishes, "{group:?}");
        assert!(kind.may_be_missing());
    }
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_custom_kind_come_and_go_with_its_definition() {
    let missing = || reply(404, "404 page not found");
    let team = |name: &str, version: u32| json!({"metadata": {"name": name, "resourceVersion": version.to_string()}});
    let listed = |teams: &[(&str, u32)]| {
        let events = teams.iter().map(|(name, version)| event("ADDED", &team(name, *version)));
        streamed(vec![events.collect::<String>() + &end_of_initial_events(5)], false)
    };
    let server = FakeServer::script(vec![
        missing(),
        missing(),
        listed(&[("a", 1), ("b", 2)]),
        // The watch ends when the custom resource definition is deleted.
        missing(),
        missing(),
        missing(),
        listed(&[("b", 9)]),
        streamed(Vec::new(), true),
    ]);
    let teams = ResourceName { plural: "teams", version: "v1", group: "example.com" };
    let engine = watch_kind(custom(teams), &server);
    let told = heard(&engine, 6).await;
    let [a, b] = ["a", "b"].map(|name| format!("teams.v1.example.com /{name}"));
    let expected = [
        "synced".to_owned(),
        format!("+{a}"),
        format!("+{b}"),
        format!("-{a}"),
        format!("-{b}"),
        format!("+{b}"),
    ];
    assert_eq!(told, expected);
    let paths = server.requests();
    assert!(paths.iter().all(|seen| seen.path.starts_with("/apis/example.com/v1/teams?watch=true")));
    let kinds = ["stream", "stream", "stream", "watch 5", "stream", "stream", "stream"];
    assert_eq!(queries(&server)[..7], kinds);
}

/// Returns the path of a team, which is a custom object.
fn team_path(name: &str) -> ObjectPath {
    let [group, version, plural, name] = ["example.com", "v1", "teams", name].map(Into::into);
    let (namespace, subresource) = Default::default();
    ObjectPath { group, version, plural, namespace, name, subresource }
}

#[tokio::test(start_paused = true)]
async fn a_change_to_a_custom_object_is_published_after_it_was_sent_to_the_engine() {
    let team = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    let pieces = vec![end_of_initial_events(5), event("ADDED", &team)];
    let server = FakeServer::script(vec![streamed(pieces, true)]);
    let teams = ResourceName { plural: "teams", version: "v1", group: "example.com" };
    let (feed, (engine, inbox)) = (CustomFeed::of([teams.to_string().into()]), without_engine());
    let watcher = Watcher::new(custom(teams), server.client(), StreamingLists::default(), engine);
    tokio::spawn(watcher.publishing_to(feed.clone()).run());
    LiveApi::new(server.client(), feed).seen(&team_path("a"), 7).await;
    let sent: Vec<EngineMessage> = inbox.try_iter().collect();
    assert!(
        matches!(&sent[..], [EngineMessage::Synced, EngineMessage::Inputs(inputs)] if inputs.len() == 1),
        "{sent:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_is_published_only_when_all_lower_versions_have_been_sent_to_the_engine() {
    let team = |name: &str, version: u32| json!({"metadata": {"name": name, "resourceVersion": version.to_string()}});
    let teams = ResourceName { plural: "teams", version: "v1", group: "example.com" };
    let many = || (0..PAGE).map(|index| event("ADDED", &team(&format!("a{index}"), 9))).collect::<String>();
    let last = event("ADDED", &team("b", 7)) + &end_of_initial_events(10);
    let broken_stream = vec![streamed(vec![many()], false), streamed(vec![many() + &last], true)];
    let broken_pages = vec![
        no_streaming(),
        list(10, "next", &[team("a", 9)]),
        status(500, "InternalError", "broken"),
        list(10, "", &[team("a", 9), team("b", 7)]),
        streamed(Vec::new(), true),
    ];
    for (replies, count) in [(broken_stream, PAGE + 1), (broken_pages, 2)] {
        let server = FakeServer::script(replies);
        let (feed, (engine, inbox)) = (CustomFeed::of([teams.to_string().into()]), without_engine());
        let watcher = Watcher::new(custom(teams), server.client(), StreamingLists::default(), engine);
        tokio::spawn(watcher.publishing_to(feed.clone()).run());
        LiveApi::new(server.client(), feed).seen(&team_path("b"), 7).await;
        let sent = inbox.try_iter().map(|message| match message {
            EngineMessage::Inputs(inputs) => inputs.len(),
            _ => 0,
        });
        assert_eq!(sent.sum::<usize>(), count);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_requested_until_the_server_serves_them() {
    let server = FakeServer::script(vec![
        reply(404, "404 page not found"),
        status(403, "Forbidden", "not yours"),
        streamed(vec![event("ADDED", &pod("a", 1)) + &end_of_initial_events(5)], true),
    ]);
    assert_eq!(heard(&watch(&server), 2).await, ["+a@1", "synced"]);
}
