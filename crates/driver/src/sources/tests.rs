use harbormaster_api::Timestamp;
use harbormaster_framework::{
    api_call::ApiFailure,
    fetch::{WebAccess, WebFailure},
    guard::GuardedPlugin,
    plugin::BoxFuture,
    prelude::*,
};
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;
use crate::message::tests::{Received, without_engine};

#[derive(serde::Deserialize)]
struct Weather {}

impl Resource for Weather {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Weather";
    const PLURAL: &'static str = "weather";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// Fetches from the URL of its name.
struct Forecast(&'static str);

impl Plugin for Forecast {
    const NAME: &'static str = "Forecast";
    implemented_points!();
}

impl Fetches for Forecast {
    type Object = Weather;

    fn plan(&self) -> FetchPlan {
        let seconds = Duration::from_secs;
        FetchPlan { name: self.0.into(), every: seconds(30), keep: seconds(100) }
    }

    async fn fetch(&self, web: &Web) -> PluginResult<Value> {
        let text = web.get(&WebRequest { url: self.0.to_owned(), ..WebRequest::default() }).await?;
        if text == "panic" {
            panic!("a storm");
        }
        Ok(serde_json::from_str(&text)?)
    }
}

/// Servers that give the same answer until it is changed; `None` never answers.
#[derive(Clone, Default)]
struct Servers {
    web: Arc<Mutex<Option<Result<String, WebFailure>>>>,
    /// The object in the API server.
    stored: Option<&'static str>,
}

impl Servers {
    fn answer(&self, with: Option<&str>) {
        *self.web.lock().unwrap() = with.map(|text| Ok(text.to_owned()));
    }

    fn refuse(&self) {
        let failure = WebFailure { url: "u".to_owned(), code: Some(500), why: "broken".to_owned() };
        *self.web.lock().unwrap() = Some(Err(failure));
    }
}

impl WebAccess for Servers {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1)
    }

    fn get_from_api<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<String, ApiFailure>> {
        assert_eq!(path, "/apis/example.com/v1/weather/a");
        let message = "not found".to_owned();
        let failure = ApiFailure { code: Some(404), reason: String::new(), message };
        Box::pin(async move { self.stored.map(str::to_owned).ok_or(failure) })
    }

    fn get<'a>(&'a self, _: &'a WebRequest) -> BoxFuture<'a, Result<String, WebFailure>> {
        let answer = self.web.lock().unwrap().clone();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

fn source(name: &'static str) -> Source {
    GuardedPlugin::new(Forecast(name)).source().unwrap().unwrap()
}

/// Starts fetching one object.
fn start(servers: &Servers) -> (Fetcher, Received) {
    start_in(servers, false)
}

fn start_in(servers: &Servers, prefers_stored: bool) -> (Fetcher, Received) {
    let (engine, received) = without_engine();
    let web = Web::new(Arc::new(servers.clone()));
    (Fetcher::start(vec![source("a")], web, engine, None, prefers_stored), received)
}

/// Lets tasks run for some seconds of virtual time, and returns the messages in short.
async fn after(seconds: u64, received: &Received) -> Vec<String> {
    for _ in 0..seconds * 2 {
        tokio::task::yield_now().await;
        advance(Duration::from_millis(500)).await;
        tokio::task::yield_now().await;
    }
    let short = |message| match message {
        EngineMessage::Synced => vec!["synced".to_owned()],
        EngineMessage::Inputs(inputs) => inputs
            .into_iter()
            .map(|input| match input {
                Input::Custom(object) => {
                    format!(
                        "{}={}",
                        object.key.name,
                        serde_json::from_str::<Value>(object.json().unwrap()).unwrap()["sun"]
                    )
                }
                Input::CustomGone(key) => format!("-{}", key.name),
                other => panic!("{other:?}"),
            })
            .collect(),
        other => panic!("{other:?}"),
    };
    received.try_iter().flat_map(short).collect()
}

#[tokio::test(start_paused = true)]
async fn an_object_is_fetched_at_the_start_and_then_at_the_interval() {
    let servers = Servers::default();
    servers.answer(Some(r#"{"sun": 1}"#));
    let (_fetcher, received) = start(&servers);
    assert_eq!(after(1, &received).await, ["a=1", "synced"]);
    servers.answer(Some(r#"{"sun": 2}"#));
    assert_eq!(after(28, &received).await, Vec::<String>::new());
    assert_eq!(after(32, &received).await, ["a=2", "a=2"]);
}

#[tokio::test(start_paused = true)]
async fn in_a_sandbox_an_object_of_the_api_server_counts_instead() {
    let stored = [Some(r#"{"sun": 7, "metadata": {"resourceVersion": "3"}}"#), None, Some("[]")];
    for (stored, expected) in stored.into_iter().zip(["a=7", "a=1", "a=1"]) {
        let servers = Servers { stored, ..Servers::default() };
        servers.answer(Some(r#"{"sun": 1}"#));
        let (_fetcher, received) = start_in(&servers, true);
        assert_eq!(after(1, &received).await, [expected, "synced"], "{stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_delay_nothing_and_an_old_object_disappears() {
    for failure in ["error", "panic", "[1]", "nonsense", "silence"] {
        let servers = Servers::default();
        servers.answer(Some(r#"{"sun": 1}"#));
        let (_fetcher, received) = start(&servers);
        assert_eq!(after(1, &received).await, ["a=1", "synced"], "{failure}");
        match failure {
            "error" => servers.refuse(),
            "silence" => servers.answer(None),
            answer => servers.answer(Some(answer)),
        }
        assert_eq!(after(90, &received).await, Vec::<String>::new(), "{failure}");
        assert_eq!(after(120, &received).await, ["-a"], "{failure}");
        servers.answer(Some(r#"{"sun": 3}"#));
        assert_eq!(after(51, &received).await.first().map(String::as_str), Some("a=3"), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_does_not_keep_the_scheduler_from_starting() {
    let servers = Servers::default();
    let (_fetcher, received) = start(&servers);
    assert_eq!(after(19, &received).await, Vec::<String>::new());
    assert_eq!(after(2, &received).await, ["synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_configuration_fetches_from_its_own_sources() {
    let servers = Servers::default();
    servers.answer(Some(r#"{"sun": 1}"#));
    let (fetcher, received) = start(&servers);
    assert_eq!(after(1, &received).await, ["a=1", "synced"]);
    fetcher.switch_to(vec![source("b")]);
    assert_eq!(after(1, &received).await, ["-a", "b=1"]);
    assert_eq!(after(35, &received).await, ["b=1"]);
    drop(fetcher);
    assert_eq!(after(60, &received).await, Vec::<String>::new(), "the tasks have ended");
}

#[test]
fn an_object_gets_a_head() {
    let servers = Servers::default();
    servers.answer(Some(r#"{"sun": 1, "metadata": {"name": "other"}}"#));
    let source = source("a");
    let web = Web::new(Arc::new(servers));
    let fetched = harbormaster_testkit::trial::finished(source.fetch(&web, 7)).unwrap();
    let json: Value = serde_json::from_str(fetched.json().unwrap()).unwrap();
    let metadata = json!({"name": "a", "resourceVersion": "7"});
    let expected = json!({"apiVersion": "example.com/v1", "kind": "Weather", "metadata": metadata, "sun": 1});
    assert_eq!((json, fetched.key), (expected, source.key()));
}
