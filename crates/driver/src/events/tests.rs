//! Tests of events and their repetitions.

use harbormaster_client::{
    client::{ResponseBody, STRATEGIC_MERGE_PATCH},
    fake_server::{FakeServer, refused_connection, reply, status},
};
use harbormaster_framework::pod::PodInfo;
use harbormaster_testkit::pod;
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tower::BoxError;

use super::{backlog::TRIES, *};

type Response = http::Response<ResponseBody>;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + 60 * minute)
}

fn waiting(version: &str) -> Arc<PodInfo> {
    pod("p").namespace("ns").uid("u1").pod(|p| p.resource_version = version.into()).info()
}

fn failed(pod: &Arc<PodInfo>, note: &str) -> PodEvent {
    PodEvent {
        pod: pod.clone(),
        warning: true,
        reason: "FailedScheduling",
        action: "Scheduling",
        note: note.to_owned(),
        reporter: "default-scheduler".into(),
    }
}

fn scheduled(pod: &Arc<PodInfo>) -> PodEvent {
    PodEvent { warning: false, reason: "Scheduled", action: "Binding", ..failed(pod, "ok") }
}

/// Returns a recorder whose writer runs until everything has been written.
fn recorder(server: &FakeServer) -> (EventRecorder, JoinHandle<()>) {
    let (recorder, writer) = EventRecorder::new(server.client(), "host".into(), BindingActivity::idle());
    (recorder, tokio::spawn(writer.run()))
}

fn ok() -> FakeServer {
    FakeServer::always(|_| reply(201, "{}"))
}

#[tokio::test(start_paused = true)]
async fn an_event_names_its_reporter_reason_and_pod() {
    let server = ok();
    let (mut recorder, done) = recorder(&server);
    recorder.record(scheduled(&waiting("7")), at(0));
    drop(recorder);
    done.await.unwrap();
    let seen = &server.requests()[0];
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events")
    );
    assert_eq!(
        seen.json(),
        json!({
            "kind": "Event",
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": "p.17979cfe362a0000", "namespace": "ns"},
            "eventTime": "2023-11-14T22:13:20.000000Z",
            "reportingController": "default-scheduler",
            "reportingInstance": "default-scheduler-host",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {
                "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u1", "apiVersion": "v1", "resourceVersion": "7"
            },
            "note": "ok",
            "type": "Normal",
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_second_occurrence_is_written_and_later_ones_are_counted_until_the_series_ends() {
    let server = ok();
    let (mut recorder, done) = recorder(&server);
    let pod = waiting("7");
    for minute in 0..5 {
        recorder.record(failed(&pod, &format!("note {minute}")), at(minute));
        recorder.tick(at(minute));
        sleep(Duration::from_secs(60)).await;
    }
    recorder.tick(at(10));
    let before_the_end = recorder.series.len();
    recorder.tick(at(11));
    assert_eq!((before_the_end, recorder.series.len()), (1, 0));
    drop(recorder);
    done.await.unwrap();
    let seen = server.requests();
    let calls: Vec<(&str, u64)> =
        seen.iter().map(|s| (s.method.as_str(), s.json()["series"]["count"].as_u64().unwrap_or(1))).collect();
    assert_eq!(calls, [("POST", 1), ("PATCH", 2), ("PATCH", 5)]);
    assert_eq!(seen[1].path, "/apis/events.k8s.io/v1/namespaces/ns/events/p.17979cfe362a0000");
    assert_eq!(seen[1].body, r#"{"series":{"count":2,"lastObservedTime":"2023-11-14T22:14:20.000000Z"}}"#);
    assert_eq!(seen[1].content_type, STRATEGIC_MERGE_PATCH);
}

#[tokio::test(start_paused = true)]
async fn a_continuing_series_is_written_every_half_hour() {
    let server = ok();
    let (mut recorder, done) = recorder(&server);
    let pod = waiting("7");
    for minute in 0..35 {
        recorder.tick(at(minute));
        recorder.record(failed(&pod, "no"), at(minute));
        sleep(Duration::from_secs(60)).await;
    }
    drop(recorder);
    done.await.unwrap();
    let counts: Vec<u64> =
        server.requests()[1..].iter().map(|s| s.json()["series"]["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 30]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_pod_starts_a_new_event() {
    let server = ok();
    let (mut recorder, done) = recorder(&server);
    recorder.record(failed(&waiting("7"), "no"), at(0));
    recorder.record(failed(&waiting("8"), "no"), at(1));
    drop(recorder);
    done.await.unwrap();
    assert!(server.requests().iter().all(|s| s.method == "POST"));
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_event_has_expired_is_created_with_its_count() {
    let server = FakeServer::always(|seen| match seen.method.as_str() {
        "PATCH" => status(404, "NotFound", "gone"),
        _ => reply(201, "{}"),
    });
    let (mut recorder, done) = recorder(&server);
    let pod = waiting("7");
    recorder.record(failed(&pod, "no"), at(0));
    recorder.record(failed(&pod, "no"), at(1));
    drop(recorder);
    done.await.unwrap();
    let seen = server.requests();
    assert_eq!(seen.iter().map(|s| s.method.as_str()).collect::<Vec<_>>(), ["POST", "PATCH", "POST"]);
    assert_eq!(seen[2].json()["series"]["count"], 2);
}

/// Returns a server that answers writes about pods named `name` with `answer`, and accepts all other writes.
fn taking_all_but(name: &'static str, answer: fn() -> Result<Response, BoxError>) -> FakeServer {
    let about = format!("\"name\":\"{name}\"");
    FakeServer::new(move |seen| if seen.body.contains(&about) { answer() } else { Ok(reply(201, "{}")) })
}

fn tries(server: &FakeServer, name: &str) -> usize {
    let about = format!("\"name\":\"{name}\"");
    server.requests().iter().filter(|seen| seen.body.contains(&about)).count()
}

#[tokio::test(start_paused = true)]
async fn an_event_that_fails_while_others_are_accepted_is_tried_twelve_times_and_a_refused_one_once() {
    let answers: [(fn() -> Result<Response, BoxError>, u32); 3] = [
        (|| Err(refused_connection().into()), TRIES),
        (|| Ok(status(503, "X", "no")), TRIES),
        (|| Ok(status(403, "X", "no")), 1),
    ];
    for (answer, expected) in answers {
        let server = taking_all_but("p", answer);
        let (mut recorder, done) = recorder(&server);
        recorder.record(failed(&waiting("7"), "no"), at(0));
        for minute in 0..40 {
            recorder.record(scheduled(&pod("other").info()), at(minute));
            sleep(Duration::from_secs(5)).await;
        }
        drop(recorder);
        done.await.unwrap();
        assert_eq!(tries(&server, "p"), expected as usize);
        assert_eq!(tries(&server, "other"), 40);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_given_up_after_the_server_was_unreachable_for_an_hour() {
    let server = FakeServer::new(|_| Err(refused_connection().into()));
    let (mut recorder, done) = recorder(&server);
    let begun = Instant::now();
    recorder.record(failed(&waiting("7"), "no"), at(0));
    drop(recorder);
    done.await.unwrap();
    let minutes = begun.elapsed().as_secs() / 60;
    assert!((60..62).contains(&minutes), "{minutes}");
    let tries = server.requests().len();
    assert!((300..450).contains(&tries), "about every ten seconds: {tries}");
}

/// Returns a server that replies with `answer` for `time`, and then accepts everything.
fn in_trouble_for(time: Duration, answer: fn(usize) -> Response) -> FakeServer {
    let (begun, mut asked) = (Instant::now(), 0);
    FakeServer::always(move |_| {
        asked += 1;
        if begun.elapsed() < time { answer(asked) } else { reply(201, "{}") }
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_nothing_for_minutes_gets_few_requests_and_later_every_event() {
    const EVENTS: usize = 1000;
    let busy = |_| {
        let mut busy = status(429, "TooManyRequests", "busy");
        busy.headers_mut().insert("retry-after", http::HeaderValue::from_static("1"));
        busy
    };
    let failing = |_| status(500, "InternalError", "no");
    let mixed =
        |asked| if asked % 2 == 0 { status(429, "TooManyRequests", "") } else { status(500, "X", "") };
    let answers: [fn(usize) -> Response; 3] = [busy, failing, mixed];
    for answer in answers {
        for minutes in [1, 5] {
            let trouble = Duration::from_secs(60 * minutes);
            let server = in_trouble_for(trouble, answer);
            let (mut recorder, done) = recorder(&server);
            let begun = Instant::now();
            for index in 0..EVENTS {
                let pod = pod(&format!("pod-{index}")).info();
                let event = if index % 5 == 0 { failed(&pod, "no") } else { scheduled(&pod) };
                recorder.record(event, at(0));
            }
            drop(recorder);
            sleep(trouble - Duration::from_secs(1)).await;
            let asked = server.requests().len();
            assert!(asked < 160 * minutes as usize, "{asked} requests in {minutes} minutes");
            done.await.unwrap();
            assert!(begun.elapsed() < trouble + Duration::from_secs(30), "{:?}", begun.elapsed());
            let seen = server.requests();
            let mut taken: Vec<String> = seen[seen.len() - EVENTS..]
                .iter()
                .map(|s| s.json()["regarding"]["name"].to_string())
                .collect();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), EVENTS);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_waits_for_a_retry_does_not_hold_up_others() {
    let server = FakeServer::always(|seen| match seen.body.contains("\"name\":\"bad") {
        true => status(500, "InternalError", "no"),
        false => reply(201, "{}"),
    });
    let (mut recorder, done) = recorder(&server);
    for index in 0..500 {
        // The number of failing writes exceeds the number of concurrent writes, but not all writes fail.
        let name = if index % 2 == 0 { format!("bad-{index}") } else { format!("good-{index}") };
        recorder.record(scheduled(&pod(&name).info()), at(0));
    }
    sleep(Duration::from_secs(1)).await;
    let good = server.requests().iter().filter(|s| s.body.contains("\"name\":\"good")).count();
    assert_eq!(good, 250);
    done.abort();
}

#[tokio::test(start_paused = true)]
async fn the_count_of_an_event_waits_until_the_event_is_written() {
    let server = in_trouble_for(Duration::from_secs(60), |_| status(500, "X", "no"));
    let (mut recorder, done) = recorder(&server);
    let pod = waiting("7");
    recorder.record(failed(&pod, "no"), at(0));
    sleep(Duration::from_secs(1)).await;
    recorder.record(failed(&pod, "no"), at(1));
    drop(recorder);
    done.await.unwrap();
    let methods: Vec<String> = server.requests().into_iter().map(|s| s.method).collect();
    let (patch, posts) = methods.split_last().unwrap();
    assert_eq!(patch, "PATCH");
    assert!(posts.len() > 4 && posts.iter().all(|method| method == "POST"), "{methods:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_backlog_drops_events_and_a_dropped_warning_starts_no_series() {
    let server = ok();
    let (mut recorder, writer) =
        EventRecorder::with_room(10_000, server.client(), "host".into(), BindingActivity::idle());
    for n in 0..1000 {
        recorder.record(failed(&waiting(&n.to_string()), "no"), at(0));
    }
    let waiting = recorder.unwritten().count();
    assert!((10..50).contains(&waiting), "{waiting}");
    drop(recorder);
    writer.run().await;
    let seen = server.requests();
    assert_eq!(seen.len(), waiting);
    assert_eq!(seen.last().unwrap().json()["regarding"]["resourceVersion"], "999");
}

#[tokio::test(start_paused = true)]
async fn fewer_events_are_written_concurrently_while_pods_are_being_bound() {
    for (bindings, expected) in [(BindingActivity::idle(), 16), (BindingActivity::busy(), 4)] {
        let asked = Arc::new(Mutex::new(0));
        let counter = asked.clone();
        let client = ApiClient::over(tower::service_fn(move |_| {
            *counter.lock().unwrap() += 1;
            std::future::pending()
        }));
        let (mut recorder, writer) = EventRecorder::new(client, "host".into(), bindings);
        for index in 0..100 {
            recorder.record(scheduled(&pod(&format!("pod-{index}")).info()), at(0));
        }
        let writing = tokio::spawn(writer.run());
        sleep(Duration::from_secs(1)).await;
        assert_eq!(*asked.lock().unwrap(), expected);
        writing.abort();
    }
}
