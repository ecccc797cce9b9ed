use harbormaster_client::fake_server::{self, FakeServer};
use harbormaster_framework::{api_call::Api, registry::Registry, resource::CustomKey};
use harbormaster_testkit::{pod, profile};
use serde_json::json;
use tokio::{
    sync::mpsc::unbounded_channel,
    time::{advance, sleep},
};

use super::*;
use crate::{
    binder::tests::boat,
    live_api::{CustomFeed, LiveApi, tests::announce},
};

/// Returns the API of a binding, and the feed of the engine's thread. Every write results in version 7.
fn recorded_api() -> (Arc<RecordedApi>, CustomFeed) {
    let server = FakeServer::always(|_| {
        fake_server::json(200, &json!({ "metadata": { "name": "ark", "resourceVersion": "7" } }))
    });
    let feed = CustomFeed::of([boat().key().resource]);
    let live = LiveApi::new(server.client(), feed.clone());
    (Arc::new(RecordedApi::new(Arc::new(live), empty_profile(), unbounded_channel().0)), feed)
}

fn empty_profile() -> Arc<Profile> {
    profile(&Registry::default(), &[])
}

#[test]
fn the_events_of_a_binding_come_from_its_profile() {
    let (events, mut emitted) = unbounded_channel();
    let live = LiveApi::new(FakeServer::script(Vec::new()).client(), CustomFeed::default());
    let api = Api::new(Arc::new(RecordedApi::new(Arc::new(live), empty_profile(), events)));
    let pod = pod("p").info();
    api.event(BindingEvent { pod, reason: "Waits", action: "Scheduling", note: "n".repeat(2000) });
    let event = emitted.try_recv().unwrap();
    assert_eq!((event.warning, event.reason, event.action), (false, "Waits", "Scheduling"));
    assert_eq!((event.reporter, event.note.len()), (empty_profile().name().clone(), 1024));
}

fn publish(feed: &CustomFeed, name: &str, version: &str) {
    let key: CustomKey = ObjectPath { name: name.into(), ..boat() }.key();
    let json = json!({ "metadata": { "name": name, "resourceVersion": version } });
    announce(feed, key, Some(&json));
}

/// Returns true if the engine sees all writes within a second.
async fn has_seen(api: &Arc<RecordedApi>) -> bool {
    let api = api.clone();
    let seen = tokio::spawn(async move { api.seen().await });
    sleep(Duration::from_secs(1)).await;
    seen.is_finished()
}

#[tokio::test(start_paused = true)]
async fn a_write_is_seen_once_its_version_or_a_later_version_of_any_object_of_the_kind_is_published() {
    for (published, is_seen) in [
        (vec![], false),
        (vec![("ark", "6")], false),
        (vec![("ark", "7")], true),
        (vec![("other", "8")], true),
    ] {
        let (recorded, feed) = recorded_api();
        let api = Api::new(recorded.clone());
        api.call(ApiCall::patch(boat(), json!({}))).await.unwrap();
        for (name, version) in &published {
            publish(&feed, name, version);
        }
        assert_eq!(has_seen(&recorded).await, is_seen, "{published:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_are_not_awaited_and_neither_are_writes_to_pods() {
    let (recorded, _) = recorded_api();
    let api = Api::new(recorded.clone());
    api.call(ApiCall::get(boat())).await.unwrap();
    let pod = ObjectPath { group: Str::default(), plural: "pods".into(), ..boat() };
    api.call(ApiCall::patch(pod, json!({}))).await.unwrap();
    assert!(has_seen(&recorded).await);
}

#[tokio::test(start_paused = true)]
async fn writes_to_kinds_that_are_not_watched_are_not_awaited() {
    let (recorded, _) = recorded_api();
    let ship = ObjectPath { plural: "ships".into(), ..boat() };
    Api::new(recorded.clone()).call(ApiCall::patch(ship, json!({}))).await.unwrap();
    assert!(has_seen(&recorded).await);
}

#[tokio::test(start_paused = true)]
async fn a_read_after_a_failed_write_is_awaited_because_the_write_may_have_succeeded() {
    let server = FakeServer::always(|request| match request.method.as_str() {
        "GET" => fake_server::json(200, &json!({"metadata": {"name": "ark", "resourceVersion": "7"}})),
        _ => fake_server::json(409, &json!({"kind": "Status", "code": 409, "reason": "Conflict"})),
    });
    let feed = CustomFeed::of([boat().key().resource]);
    let live = Arc::new(LiveApi::new(server.client(), feed.clone()));
    let recorded = Arc::new(RecordedApi::new(live, empty_profile(), unbounded_channel().0));
    let api = Api::new(recorded.clone());
    api.call(ApiCall::patch(boat().status(), json!({}))).await.unwrap_err();
    api.call(ApiCall::get(boat())).await.unwrap();
    let waits = recorded.clone();
    let seen = tokio::spawn(async move { waits.seen().await });
    sleep(Duration::from_secs(1)).await;
    assert!(!seen.is_finished());
    publish(&feed, "ark", "7");
    seen.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_is_awaited_even_if_its_binding_was_canceled() {
    let (recorded, feed) = recorded_api();
    let api = Api::new(recorded.clone());
    let write = tokio::spawn(async move { api.call(ApiCall::patch(boat(), json!({}))).await });
    advance(Duration::ZERO).await;
    write.abort();
    assert!(!has_seen(&recorded).await);
    let (recorded, _) = (recorded, publish(&feed, "ark", "7"));
    assert!(has_seen(&recorded).await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_reports_nothing_delays_the_end_of_a_binding_for_a_limited_time() {
    let (recorded, _feed) = recorded_api();
    let api = Api::new(recorded.clone());
    api.call(ApiCall::delete(boat())).await.unwrap();
    let begun = tokio::time::Instant::now();
    recorded.seen().await;
    assert_eq!(begun.elapsed(), PATIENCE);
}
