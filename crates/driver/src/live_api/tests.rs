//! Tests of API calls against a server with scripted responses.

use std::time::Duration;

use harbormaster_client::fake_server::{self, FakeServer, refused_connection, reply, status};
use harbormaster_framework::resource::{OlderVersion, RawObject, ResourceName};
use harbormaster_testkit::pod;
use serde_json::json;
use tokio::time::Instant;

use super::*;

fn api(server: &FakeServer) -> LiveApi {
    LiveApi::new(server.clone().ready_if(|| true).client(), CustomFeed::default())
}

/// Publishes the new version of an object, or that it is gone.
pub(crate) fn announce(feed: &CustomFeed, key: CustomKey, object: Option<&Value>) {
    let input = match object {
        Some(object) => Input::Custom(RawObject::from_json(key, object.to_string())),
        None => Input::CustomGone(key),
    };
    let newest = object.and_then(version).unwrap_or_default();
    feed.publish(CustomNews::of(&[input]).unwrap(), newest);
}

async fn bind(server: &FakeServer) -> Result<(), String> {
    let pod = pod("p").namespace("ns").uid("u1").info();
    let outcome = api(server).bind(&pod, &"n1".into()).await;
    outcome.map_err(|e| e.to_string())
}

fn taken() -> http::Response<harbormaster_client::client::ResponseBody> {
    status(409, "Conflict", "pod p is already assigned to node \"n\"")
}

fn placed(uid: &str, node: &str) -> http::Response<harbormaster_client::client::ResponseBody> {
    fake_server::json(200, &json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}}))
}

#[tokio::test]
async fn a_binding_identifies_the_pod_by_name_and_uid_and_contains_the_node() {
    let server = FakeServer::script(vec![reply(201, r#"{"kind":"Status","status":"Success"}"#)]);
    assert_eq!(bind(&server).await, Ok(()));
    let seen = &server.requests()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/api/v1/namespaces/ns/pods/p/binding"));
    assert_eq!(
        seen.body,
        r#"{"kind":"Binding","apiVersion":"v1","metadata":{"name":"p","namespace":"ns","uid":"u1"},"target":{"kind":"Node","name":"n1"}}"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_a_success_only_if_this_pod_is_on_the_chosen_node() {
    let no = Err("pod p is already assigned to node \"n\"".to_owned());
    for (found, expected) in [
        (placed("u1", "n1"), Ok(())),
        (placed("u1", "n2"), no.clone()),
        (placed("u2", "n1"), no.clone()),
        (fake_server::json(200, &json!({"metadata": {"uid": "u1"}, "spec": {}})), no.clone()),
        (status(404, "NotFound", "gone"), no),
    ] {
        let server = FakeServer::script(vec![taken(), found]);
        assert_eq!(bind(&server).await, expected);
        assert_eq!(server.requests()[1].method, "GET");
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_of_a_pod_that_is_gone_fails_immediately() {
    let server = FakeServer::script(vec![status(404, "NotFound", "pods \"p\" not found")]);
    assert_eq!(bind(&server).await, Err("pods \"p\" not found".to_owned()));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn temporary_failures_are_retried() {
    let mut calls = 0;
    let server = FakeServer::new(move |_| {
        calls += 1;
        match calls {
            1 => Ok(status(500, "InternalError", "etcd is away")),
            2 => Err(refused_connection().into()),
            _ => Ok(reply(201, "{}")),
        }
    });
    assert_eq!(bind(&server).await, Ok(()));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_succeeded_despite_an_error_response_counts() {
    let server = FakeServer::script(vec![status(504, "Timeout", "too slow"), taken(), placed("u1", "n1")]);
    assert_eq!(bind(&server).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_binding_waits_for_the_end_of_an_outage() {
    let begun = Instant::now();
    let is_back = move || begun.elapsed() >= Duration::from_secs(300);
    let answer = move |_: &_| is_back().then(|| reply(201, "{}")).ok_or_else(|| refused_connection().into());
    let server = FakeServer::new(answer).ready_if(is_back);
    let (api, pod) = (LiveApi::new(server.client(), CustomFeed::default()), pod("p").info());
    assert!(api.bind(&pod, &"n1".into()).await.is_ok());
    assert!(begun.elapsed() < Duration::from_secs(302), "{:?}", begun.elapsed());
    assert_eq!(server.requests().len(), 2, "before and after the outage");
}

#[tokio::test(start_paused = true)]
async fn a_binding_fails_after_four_tries_on_a_server_that_is_ready_but_does_not_answer() {
    let server = FakeServer::new(|_| Err(refused_connection().into())).ready_if(|| true);
    let error = bind(&server).await.unwrap_err();
    assert!(error.contains("connection refused"), "{error}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_delay_that_the_server_requests_is_honored() {
    let mut busy = status(429, "TooManyRequests", "busy");
    busy.headers_mut().insert("retry-after", http::HeaderValue::from_static("3"));
    let server = FakeServer::script(vec![busy, reply(201, "{}")]);
    let begun = Instant::now();
    assert_eq!(bind(&server).await, Ok(()));
    assert!(begun.elapsed() >= Duration::from_secs(3));
}

// --- calls of plugins ---

fn boat() -> ObjectPath {
    ObjectPath {
        group: "example.com".into(),
        version: "v1".into(),
        plural: "boats".into(),
        namespace: "sea".into(),
        name: "ark".into(),
        subresource: Str::default(),
    }
}

fn at_version(version: &str, crew: &str) -> Value {
    json!({"metadata": {"name": "ark", "namespace": "sea", "resourceVersion": version}, "crew": crew})
}

#[tokio::test(start_paused = true)]
async fn a_call_has_the_form_that_kubernetes_expects_and_is_retried_after_a_temporary_failure() {
    let patch = json!({"status": {"crew": null}});
    let object = json!({"metadata": {"name": "ark"}});
    for (call, method, path, content_type, body) in [
        (ApiCall::get(boat()), "GET", "/boats/ark", JSON, String::new()),
        (ApiCall::create(boat(), object.clone()), "POST", "/boats", JSON, object.to_string()),
        (ApiCall::patch(boat(), patch.clone()), "PATCH", "/boats/ark", MERGE_PATCH, patch.to_string()),
        (
            ApiCall::patch(boat().status(), patch.clone()),
            "PATCH",
            "/boats/ark/status",
            MERGE_PATCH,
            patch.to_string(),
        ),
        (
            ApiCall::delete(boat()),
            "DELETE",
            "/boats/ark",
            JSON,
            json!({"kind": "DeleteOptions", "apiVersion": "v1"}).to_string(),
        ),
    ] {
        let server = FakeServer::script(vec![
            status(500, "InternalError", "etcd is away"),
            fake_server::json(200, &at_version("7", "noah")),
        ]);
        let reply = api(&server).call(call).await.unwrap();
        assert_eq!((reply.value(), reply.version()), (Ok(at_version("7", "noah")), Some(7)));
        let seen = server.requests();
        assert_eq!((seen.len(), &seen[0]), (2, &seen[1]));
        let seen = &seen[1];
        let expected = format!("/apis/example.com/v1/namespaces/sea{path}");
        assert_eq!((seen.method.as_str(), &seen.path), (method, &expected));
        assert_eq!((seen.content_type.as_str(), &seen.body), (content_type, &body));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_contains_the_api_servers_message() {
    let server = FakeServer::script(vec![status(409, "Conflict", "the object has been modified")]);
    let refused = api(&server).call(ApiCall::patch(boat(), json!({}))).await.unwrap_err();
    assert!(refused.is_conflict() && !refused.is_not_found());
    assert_eq!(
        (refused.reason.as_str(), refused.to_string().as_str()),
        ("Conflict", "the object has been modified")
    );
    let away = FakeServer::new(|_| Err(refused_connection().into()));
    let refused = api(&away).call(ApiCall::get(boat())).await.unwrap_err();
    assert_eq!((refused.code, away.requests().len()), (None, 4));
}

/// Waits until the boat's crew is `wanted`. Returns the crews that were examined, in order, and the result of the wait.
async fn waited(
    server: FakeServer,
    news: Vec<(u64, Option<Value>)>,
    wanted: &str,
) -> (Vec<String>, Result<bool, ApiFailure>) {
    let told = CustomFeed::default();
    let api = LiveApi::new(server.client(), told.clone());
    tokio::spawn(async move {
        for (seconds, object) in news {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let other = CustomKey { name: "barge".into(), ..boat().key() };
            announce(&told, other, object.as_ref());
            announce(&told, boat().key(), object.as_ref());
        }
    });
    let mut asked = Vec::new();
    let mut is_settled = |object: Option<&Value>| {
        let crew = object.map_or("nobody", |object| object["crew"].as_str().unwrap());
        asked.push(crew.to_owned());
        crew == wanted
    };
    let outcome = api.wait(&boat(), Duration::from_secs(60), &mut is_settled).await;
    (asked, outcome)
}

fn reads(objects: Vec<Value>) -> FakeServer {
    FakeServer::script(objects.iter().map(|object| fake_server::json(200, object)).collect())
}

#[tokio::test(start_paused = true)]
async fn a_wait_examines_the_changes_to_the_object_in_order_and_skips_older_versions() {
    let (three, five, six) = (at_version("3", "shem"), at_version("5", "ham"), at_version("6", "noah"));
    let news = vec![(1, Some(five)), (1, Some(three)), (1, None), (1, Some(six))];
    let (asked, outcome) = waited(reads(vec![at_version("4", "eve")]), news, "noah").await;
    assert_eq!(asked, ["eve", "ham", "nobody", "noah"], "a version older than the last one seen is skipped");
    assert_eq!(outcome, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_immediately_if_the_object_is_settled_and_at_its_time_limit_if_it_never_is() {
    let (asked, outcome) = waited(reads(vec![at_version("4", "noah")]), Vec::new(), "noah").await;
    assert_eq!((asked.len(), outcome), (1, Ok(true)));
    let gone = FakeServer::script(vec![status(404, "NotFound", "no boat")]);
    let (asked, outcome) = waited(gone, Vec::new(), "noah").await;
    assert_eq!((asked, outcome), (vec!["nobody".to_owned()], Ok(false)));
    let (_, outcome) =
        waited(FakeServer::script(vec![status(403, "Forbidden", "not yours")]), Vec::new(), "noah").await;
    assert_eq!(outcome.unwrap_err().to_string(), "not yours");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_missed_changes_reads_the_object_again() {
    let crowd = (0..2 * NEWS_KEPT).map(|_| (0, Some(at_version("5", "ham")))).collect();
    let server = reads(vec![at_version("4", "eve"), at_version("6", "noah")]);
    let (_, outcome) = waited(server.clone(), crowd, "noah").await;
    assert_eq!((outcome, server.requests().len()), (Ok(true), 2));
}

#[tokio::test]
async fn requests_are_made_in_the_served_version() {
    const CLAIMS: ResourceName =
        ResourceName { plural: "resourceclaims", version: "v1", group: "resource.k8s.io" };
    const OLDER: &[OlderVersion] = &[OlderVersion {
        name: "v1beta1",
        upgrade: |object| object["spec"] = "new".into(),
        downgrade: |object| object["spec"] = "old".into(),
    }];
    let path = ObjectPath {
        group: CLAIMS.group.into(),
        version: CLAIMS.version.into(),
        plural: CLAIMS.plural.into(),
        namespace: "ns".into(),
        name: Str::default(),
        subresource: Str::default(),
    };
    let server = FakeServer::new(|_| Ok(reply(201, r#"{"spec":"old"}"#)));
    let served = ServedVersion::new(CLAIMS, OLDER);
    let api = api(&server).in_versions([served.clone()].into());
    for (version, body, answer) in [(0, "new", "old"), (1, "old", "new")] {
        served.note(version);
        let call = ApiCall::create(path.clone(), json!({"apiVersion": "resource.k8s.io/v1", "spec": "new"}));
        let object = api.call(call).await.unwrap().value().unwrap();
        assert_eq!(object["spec"], answer, "version {version}");
        let seen = server.requests().pop().unwrap();
        let name = ["v1", "v1beta1"][version];
        assert_eq!(seen.path, format!("/apis/resource.k8s.io/{name}/namespaces/ns/resourceclaims"));
        let expected = json!({"apiVersion": format!("resource.k8s.io/{name}"), "spec": body});
        assert_eq!(seen.body, expected.to_string());
    }
}
