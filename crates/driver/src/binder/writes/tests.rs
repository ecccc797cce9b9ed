use harbormaster_client::fake_server::{self, FakeServer};
use harbormaster_framework::{api_call::Api, resource::CustomKey};
use serde_json::json;
use tokio::time::{advance, sleep};

use super::*;
use crate::live_api::{CustomFeed, LiveApi};

fn boat() -> ObjectPath {
    ObjectPath {
        group: "example.com".into(),
        version: "v1".into(),
        plural: "boats".into(),
        namespace: "default".into(),
        name: "ark".into(),
        subresource: Str::default(),
    }
}

/// Returns the API of a binding, and the feed of the engine's thread. Every write results
/// in version 7.
fn recorded_api() -> (Arc<RecordedApi>, CustomFeed) {
    let server = FakeServer::always(|_| {
        fake_server::json(200, &json!({ "metadata": { "name": "ark", "resourceVersion": "7" } }))
    });
    let feed = CustomFeed::default();
    let live = LiveApi::new(server.client(), feed.clone());
    (Arc::new(RecordedApi::new(Arc::new(live))), feed)
}

fn publish(feed: &CustomFeed, name: &str, version: &str) {
    let key: CustomKey = ObjectPath { name: name.into(), ..boat() }.key();
    let json = json!({ "metadata": { "name": name, "resourceVersion": version } }).to_string();
    feed.publish(&key, Some(&json.as_str().into()));
}

/// Returns true if the API has seen all writes within a second.
async fn has_seen(api: &Arc<RecordedApi>) -> bool {
    let api = api.clone();
    let seen = tokio::spawn(async move { api.seen().await });
    sleep(Duration::from_secs(1)).await;
    seen.is_finished()
}

#[tokio::test(start_paused = true)]
async fn a_write_is_seen_once_its_version_or_a_later_one_of_the_kind_was_published() {
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
async fn reads_and_writes_to_pods_are_not_awaited() {
    let (recorded, _) = recorded_api();
    let api = Api::new(recorded.clone());
    api.call(ApiCall::get(boat())).await.unwrap();
    let pod = ObjectPath { group: Str::default(), plural: "pods".into(), ..boat() };
    api.call(ApiCall::patch(pod, json!({}))).await.unwrap();
    assert!(has_seen(&recorded).await);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_binding_was_canceled_is_awaited_as_well() {
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
async fn a_watch_that_reports_nothing_delays_the_failure_for_a_limited_time() {
    let (recorded, _feed) = recorded_api();
    let api = Api::new(recorded.clone());
    api.call(ApiCall::delete(boat())).await.unwrap();
    let begun = tokio::time::Instant::now();
    recorded.seen().await;
    assert_eq!(begun.elapsed(), PATIENCE);
}
