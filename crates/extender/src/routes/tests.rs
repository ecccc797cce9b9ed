use std::{
    convert::Infallible,
    pin::Pin,
    sync::atomic::AtomicUsize,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::HttpBody;
use hyper::body::Frame;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::{Ask, Binding, Error, Filtered, Preempted, Preemption, Reject, Scores};

/// Sends a request and returns the status and the body of the response.
async fn ask(router: &Router, method: &str, path: &str, body: impl Into<Body>) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).body(body.into()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn post_to(router: &Router, path: &str, body: Value) -> (u16, Value) {
    ask(router, "POST", path, body.to_string()).await
}

fn served(extender: Extender, limits: Limits) -> Router {
    router(&Shared::new(extender, limits))
}

async fn filter(ask: Ask) -> Result<Filtered, Error> {
    match ask.pod.metadata.name.as_str() {
        "fails" => Err(Error::new("the store is away")),
        "panics" => panic!("a mistake in {}", "filter"),
        "sleeps" => std::future::pending().await,
        _ => Ok(ask.filter(|node| if node.name() == "a" { Ok(()) } else { Err(Reject::new("not a")) })),
    }
}

async fn prioritize(ask: Ask) -> Result<Scores, Error> {
    if ask.pod.metadata.name == "fails" {
        return Err(Error::new("no scores"));
    }
    Ok(ask.score(|node| node.name().len() as i64))
}

async fn preempt(ask: Preemption) -> Result<Preempted, Error> {
    Ok(ask.keep(|node, _| node == "a"))
}

async fn bind(binding: Binding) -> Result<(), Error> {
    if binding.node == "gone" { Err(Error::new("there is no such node")) } else { Ok(()) }
}

fn all_verbs() -> Extender {
    Extender::new().filter(filter).prioritize(prioritize).preempt(preempt).bind(bind)
}

fn args(pod: &str) -> Value {
    json!({"Pod": {"metadata": {"name": pod}}, "Nodes": null, "NodeNames": ["a", "bb"]})
}

#[tokio::test]
async fn every_verb_is_answered() {
    let router = served(all_verbs(), Limits::default());
    let (status, body) = post_to(&router, "/filter", args("p")).await;
    assert_eq!(
        (status, &body["NodeNames"], &body["FailedNodes"]),
        (200, &json!(["a"]), &json!({"bb": "not a"}))
    );
    let scores = json!([{"Host": "a", "Score": 1}, {"Host": "bb", "Score": 2}]);
    assert_eq!(post_to(&router, "/prioritize", args("p")).await, (200, scores));
    let victims = json!({"Pods": [{"UID": "u"}], "NumPDBViolations": 0});
    let preemption = json!({"Pod": {}, "NodeNameToMetaVictims": {"a": victims, "b": victims}});
    let expected = json!({"NodeNameToMetaVictims": {"a": victims}});
    assert_eq!(post_to(&router, "/preempt", preemption).await, (200, expected));
    let binding = json!({"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "a"});
    assert_eq!(post_to(&router, "/bind", binding).await, (200, json!({"Error": ""})));
}

#[tokio::test]
async fn paths_can_be_configured() {
    let extender = all_verbs().prefix("/scheduler/").path(Verb::Preempt, "preemption");
    let router = served(extender, Limits::default());
    assert_eq!(post_to(&router, "/scheduler/prioritize", args("p")).await.0, 200);
    assert_eq!(post_to(&router, "/scheduler/preemption", args("p")).await.0, 200);
    let (status, body) = post_to(&router, "/filter", args("p")).await;
    let expected = "nothing is served at /filter; verbs are at \
                    /scheduler/filter, /scheduler/prioritize, /scheduler/preemption, /scheduler/bind";
    assert_eq!((status, body), (404, json!({"Error": expected})));
    assert_eq!(ask(&router, "GET", "/healthz", "").await, (200, json!("ok")));
    let (status, body) = ask(&router, "GET", "/scheduler/filter", "").await;
    assert_eq!(status, 405);
    assert!(body["Error"].as_str().unwrap().contains("POST"), "{body}");
}

#[tokio::test]
async fn only_verbs_with_a_function_are_served() {
    let router = served(Extender::new().bind(bind), Limits::default());
    assert_eq!(post_to(&router, "/filter", args("p")).await.0, 404);
}

#[tokio::test]
async fn unreadable_requests_get_an_error_with_the_reason() {
    let router = served(all_verbs(), Limits::default());
    for (path, body, expected) in [
        ("/filter", "", "the request is not ExtenderArgs: EOF"),
        ("/filter", "{}", "the request is not ExtenderArgs: Pod: missing"),
        (
            "/filter",
            r#"{"Pod":{},"NodeNames":7}"#,
            "the request is not ExtenderArgs: NodeNames: invalid type",
        ),
        ("/prioritize", r#"{"Pod":[]}"#, "the request is not ExtenderArgs: Pod: invalid type: sequence"),
        (
            "/preempt",
            r#"{"Pod":{},"NodeNameToVictims":[]}"#,
            "the request is not ExtenderPreemptionArgs: NodeNameToVictims",
        ),
        ("/bind", r#"{"PodName":"p"}"#, "the request is not ExtenderBindingArgs: PodNamespace: missing"),
        ("/bind", "\u{0}", "the request is not ExtenderBindingArgs: expected value at line 1"),
    ] {
        let (status, answer) = ask(&router, "POST", path, body).await;
        let error = answer["Error"].as_str().unwrap_or_default();
        assert!(status == 400 && error.starts_with(expected), "{path} {body}: {status} {error}");
    }
}

#[tokio::test]
async fn errors_of_functions_are_sent_in_the_error_field_of_results_that_have_one() {
    let router = served(all_verbs(), Limits::default());
    let (status, body) = post_to(&router, "/filter", args("fails")).await;
    assert_eq!((status, &body["Error"]), (200, &json!("the store is away")));
    let binding = json!({"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "gone"});
    assert_eq!(post_to(&router, "/bind", binding).await, (200, json!({"Error": "there is no such node"})));
    assert_eq!(post_to(&router, "/prioritize", args("fails")).await, (500, json!({"Error": "no scores"})));
}

#[tokio::test]
async fn a_function_that_panics_fails_only_its_own_request() {
    let router = served(all_verbs(), Limits { requests: 1, ..Limits::default() });
    for _ in 0..3 {
        let (status, body) = post_to(&router, "/filter", args("panics")).await;
        assert_eq!((status, body), (500, json!({"Error": "filter panicked: a mistake in filter"})));
    }
    assert_eq!(post_to(&router, "/filter", args("p")).await.0, 200);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let limits = Limits { body_bytes: 100, ..Limits::default() };
    let router = served(all_verbs(), limits);
    assert_eq!(post_to(&router, "/filter", args("p")).await.0, 200);
    let (status, body) = post_to(&router, "/filter", args(&"p".repeat(100))).await;
    assert_eq!(status, 413);
    assert!(body["Error"].as_str().unwrap().contains("larger than 100 bytes"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_function_that_takes_too_long_is_canceled() {
    let limits = Limits { request_timeout: Duration::from_secs(3), requests: 1, ..Limits::default() };
    let router = served(all_verbs(), limits);
    let (status, body) = post_to(&router, "/filter", args("sleeps")).await;
    assert_eq!((status, body), (504, json!({"Error": "filter took longer than 3s"})));
    assert_eq!(post_to(&router, "/filter", args("p")).await.0, 200, "its slot is free again");
}

/// A body that never arrives.
struct Endless;

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_ends_times_out() {
    let router = served(all_verbs(), Limits { requests: 1, ..Limits::default() });
    let (status, body) = ask(&router, "POST", "/filter", Body::new(Endless)).await;
    assert_eq!((status, body), (504, json!({"Error": "reading the request took longer than 5s"})));
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_are_limited() {
    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let slow = async |ask: Ask| {
        MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(1)).await;
        NOW.fetch_sub(1, Ordering::SeqCst);
        Ok(ask.score(|_| 0))
    };
    let router = served(
        Extender::new().prioritize(slow),
        Limits { requests: 2, request_timeout: Duration::from_millis(2500), ..Limits::default() },
    );
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let router = router.clone();
        tasks.spawn(async move { post_to(&router, "/prioritize", args("p")).await.0 });
    }
    let mut codes = tasks.join_all().await;
    codes.sort_unstable();
    assert_eq!(MOST.load(Ordering::SeqCst), 2);
    // Two pairs are answered within two seconds. A third pair gets a slot but runs out of time; a fourth gets no slot.
    assert_eq!(codes, [200, 200, 200, 200, 503, 503, 504, 504]);
}

#[tokio::test]
async fn a_request_whose_client_disconnects_is_canceled() {
    struct Gone(Arc<Semaphore>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.add_permits(1);
        }
    }
    let (begun, gone) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let waits = {
        let (begun, gone) = (begun.clone(), gone.clone());
        move |_: Binding| {
            let guard = Gone(gone.clone());
            begun.add_permits(1);
            async move {
                std::future::pending::<()>().await;
                drop(guard);
                Ok(())
            }
        }
    };
    let router = served(Extender::new().bind(waits), Limits::default());
    let binding = json!({"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "a"});
    let client = tokio::spawn(async move { post_to(&router, "/bind", binding).await });
    let _ = begun.acquire().await.unwrap();
    client.abort();
    let _ = gone.acquire().await.unwrap();
}

#[tokio::test]
async fn readiness_follows_the_check_and_ends_at_shutdown() {
    let fine = Arc::new(AtomicBool::new(false));
    let check = {
        let fine = fine.clone();
        move || if fine.load(Ordering::Relaxed) { Ok(()) } else { Err("not yet".to_owned()) }
    };
    let shared = Shared::new(all_verbs().ready(check), Limits::default());
    let router = router(&shared);
    assert_eq!(ask(&router, "GET", "/readyz", "").await, (503, json!("not yet")));
    assert_eq!(ask(&router, "GET", "/healthz", "").await, (200, json!("ok")));
    fine.store(true, Ordering::Relaxed);
    assert_eq!(ask(&router, "GET", "/readyz", "").await, (200, json!("ok")));
    shared.end();
    assert_eq!(ask(&router, "GET", "/readyz", "").await, (503, json!("ending")));
}

#[tokio::test]
async fn requests_are_counted_by_verb_and_code() {
    let extender = all_verbs();
    let own = prometheus::IntCounter::new("my_total", "Mine.").unwrap();
    extender.registry().register(Box::new(own.clone())).unwrap();
    own.inc_by(3);
    let router = served(extender, Limits::default());
    post_to(&router, "/filter", args("p")).await;
    post_to(&router, "/filter", args("fails")).await;
    post_to(&router, "/filter", json!({})).await;
    let (_, text) = ask(&router, "GET", "/metrics", "").await;
    let text = text.as_str().unwrap();
    for line in [
        r#"extender_requests_total{code="200",verb="filter"} 2"#,
        r#"extender_requests_total{code="400",verb="filter"} 1"#,
        r#"extender_requests_total{code="200",verb="bind"} 0"#,
        r#"extender_request_errors_total{verb="filter"} 2"#,
        r#"extender_request_duration_seconds_count{verb="filter"} 3"#,
        "extender_requests_in_flight 0",
        "my_total 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}
