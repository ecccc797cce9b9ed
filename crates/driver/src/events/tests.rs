//! Events and their repetitions.

use harbormaster_framework::pod::PodInfo;
use harbormaster_testkit::pod;
use serde_json::json;

use super::*;
use crate::{
    canned::{Canned, refused_connection, reply, status},
    lanes::AllDone,
};

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

fn recorder(server: &Canned) -> (EventRecorder, AllDone) {
    let (tasks, done) = Tasks::new();
    (EventRecorder::new(server.client(), "host".into(), tasks), done)
}

fn ok() -> Canned {
    Canned::always(|_| reply(201, "{}"))
}

#[tokio::test(start_paused = true)]
async fn an_event_says_who_saw_what_about_which_pod() {
    let server = ok();
    let (mut recorder, done) = recorder(&server);
    let event =
        PodEvent { warning: false, reason: "Scheduled", action: "Binding", ..failed(&waiting("7"), "ok") };
    recorder.record(event, at(0));
    drop(recorder);
    done.wait().await;
    let seen = &server.seen()[0];
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
    }
    recorder.tick(at(10));
    let before_the_end = recorder.series.len();
    recorder.tick(at(11));
    assert_eq!((before_the_end, recorder.series.len()), (1, 0));
    drop(recorder);
    done.wait().await;
    let seen = server.seen();
    let calls: Vec<(&str, u64)> =
        seen.iter().map(|s| (s.method.as_str(), s.json()["series"]["count"].as_u64().unwrap_or(1))).collect();
    assert_eq!(calls, [("POST", 1), ("PATCH", 2), ("PATCH", 5)]);
    assert_eq!(seen[1].path, "/apis/events.k8s.io/v1/namespaces/ns/events/p.17979cfe362a0000");
    assert_eq!(seen[1].body, r#"{"series":{"count":2,"lastObservedTime":"2023-11-14T22:14:20.000000Z"}}"#);
    assert_eq!(seen[1].content_type, STRATEGIC_MERGE_PATCH);
}

#[tokio::test(start_paused = true)]
async fn a_series_that_goes_on_is_written_every_half_hour() {
    let server = ok();
    let (mut recorder, done) = recorder(&server);
    let pod = waiting("7");
    for minute in 0..35 {
        recorder.tick(at(minute));
        recorder.record(failed(&pod, "no"), at(minute));
    }
    drop(recorder);
    done.wait().await;
    let counts: Vec<u64> =
        server.seen()[1..].iter().map(|s| s.json()["series"]["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 30]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changed_begins_a_new_event() {
    let server = ok();
    let (mut recorder, done) = recorder(&server);
    recorder.record(failed(&waiting("7"), "no"), at(0));
    recorder.record(failed(&waiting("8"), "no"), at(1));
    drop(recorder);
    done.wait().await;
    assert!(server.seen().iter().all(|s| s.method == "POST"));
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_event_has_expired_is_created_with_its_count() {
    let server = Canned::always(|seen| match seen.method.as_str() {
        "PATCH" => status(404, "NotFound", "gone"),
        _ => reply(201, "{}"),
    });
    let (mut recorder, done) = recorder(&server);
    let pod = waiting("7");
    recorder.record(failed(&pod, "no"), at(0));
    recorder.record(failed(&pod, "no"), at(1));
    drop(recorder);
    done.wait().await;
    let seen = server.seen();
    assert_eq!(seen.iter().map(|s| s.method.as_str()).collect::<Vec<_>>(), ["POST", "PATCH", "POST"]);
    assert_eq!(seen[2].json()["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_tried_twelve_times_and_a_refusal_once() {
    for (code, tries) in [(0, 12), (503, 12), (403, 1)] {
        let server = Canned::new(move |_| match code {
            0 => Err(refused_connection().into()),
            code => Ok(status(code, "X", "no")),
        });
        let (mut recorder, done) = recorder(&server);
        recorder.record(failed(&waiting("7"), "no"), at(0));
        drop(recorder);
        done.wait().await;
        assert_eq!(server.seen().len(), tries, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_queue_are_dropped() {
    let server = ok();
    let (mut recorder, done) = recorder(&server);
    for n in 0..QUEUE + 100 {
        recorder.record(failed(&waiting(&n.to_string()), "no"), at(0));
    }
    assert_eq!(recorder.series.len(), QUEUE);
    drop(recorder);
    done.wait().await;
    assert_eq!(server.seen().len(), QUEUE);
}
