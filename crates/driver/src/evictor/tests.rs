//! Tests of evictions against an API server with scripted responses.

use harbormaster_api::{Pod, pod::PodCondition};
use harbormaster_client::fake_server::{FakeServer, RecordedRequest, refused_connection, reply, status};
use harbormaster_testkit::pod;
use tokio::time::{Duration, Instant};

use super::*;
use crate::message::tests::without_engine;

const MESSAGE: &str = "default-scheduler: preempting to accommodate a higher priority pod";

fn at(second: i64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + second)
}

fn task(change: impl FnOnce(&mut Pod)) -> EvictTask {
    let victim = pod("v").namespace("ns").uid("u1").pod(change).info();
    EvictTask { preemptor: "p".into(), round: 7, victim, message: MESSAGE.to_owned() }
}

fn has_condition(status: &'static str, message: &'static str) -> impl FnOnce(&mut Pod) {
    move |pod| {
        pod.generation = 3;
        pod.status.conditions.push(PodCondition {
            type_: DISRUPTION_TARGET.into(),
            status: status.into(),
            reason: PREEMPTION.into(),
            message: message.into(),
            last_transition: Some(at(0)),
        });
    }
}

/// Evicts the pods and returns the outcomes that were reported to the engine.
async fn evict_all(server: &FakeServer, tasks: Vec<EvictTask>) -> Vec<(EvictTask, EvictOutcome)> {
    let (engine, inbox) = without_engine();
    let (pool, done) = Tasks::new();
    let evictor = Evictor::new(server.client(), pool, engine);
    tasks.into_iter().for_each(|task| evictor.evict(task, at(5)));
    drop(evictor);
    done.wait().await;
    let told = inbox.try_iter().flat_map(|message| match message {
        EngineMessage::Inputs(inputs) => inputs,
        other => panic!("{other:?}"),
    });
    told.map(|input| match input {
        Input::EvictFinished { task, outcome } => (task, outcome),
        other => panic!("{other:?}"),
    })
    .collect()
}

async fn evict_one(server: &FakeServer, task: EvictTask) -> EvictOutcome {
    let told = evict_all(server, vec![task]).await;
    let [(task, outcome)] = told.try_into().unwrap();
    assert_eq!((task.round, task.victim.uid.as_str()), (7, "u1"));
    outcome
}

fn methods(seen: &[RecordedRequest]) -> Vec<&str> {
    seen.iter().map(|s| s.method.as_str()).collect()
}

/// Evicts a pod on a server that answers the patch and the deletion with these codes. Returns the outcome and the
/// methods of all requests.
async fn outcome_of(patch: u16, delete: u16) -> (EvictOutcome, Vec<String>) {
    let server = FakeServer::always(move |seen| match if seen.method == "PATCH" { patch } else { delete } {
        200 => reply(200, "{}"),
        code => status(code, "X", "no"),
    });
    let outcome = evict_one(&server, task(|_| {})).await;
    (outcome, methods(&server.requests()).into_iter().map(str::to_owned).collect())
}

#[tokio::test]
async fn a_victim_gets_its_condition_and_is_then_deleted_by_uid() {
    let server = FakeServer::always(|_| reply(200, "{}"));
    assert_eq!(evict_one(&server, task(|pod| pod.generation = 1)).await, EvictOutcome::Evicted);
    let [patch, delete] = server.requests().try_into().unwrap();
    assert_eq!(
        (patch.method.as_str(), patch.path.as_str()),
        ("PATCH", "/api/v1/namespaces/ns/pods/v/status")
    );
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    assert_eq!(
        patch.body,
        r#"{"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2023-11-14T22:13:25Z","message":"default-scheduler: preempting to accommodate a higher priority pod","observedGeneration":1,"reason":"PreemptionByScheduler","status":"True","type":"DisruptionTarget"}]}}"#
    );
    assert_eq!((delete.method.as_str(), delete.path.as_str()), ("DELETE", "/api/v1/namespaces/ns/pods/v"));
    assert_eq!(delete.body, r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u1"}}"#);
}

#[tokio::test]
async fn an_existing_condition_is_patched_if_it_differs_and_its_time_changes_with_its_status() {
    let rest = r#""observedGeneration":3,"type":"DisruptionTarget""#;
    for (status, message, expected) in [
        ("True", MESSAGE, None),
        ("True", "another", Some(format!(r#"{{"message":"{MESSAGE}",{rest}}}"#))),
        (
            "False",
            MESSAGE,
            Some(
                r#"{"lastTransitionTime":"2023-11-14T22:13:25Z","observedGeneration":3,"status":"True","type":"DisruptionTarget"}"#
                    .to_owned(),
            ),
        ),
    ] {
        let server = FakeServer::always(|_| reply(200, "{}"));
        assert_eq!(evict_one(&server, task(has_condition(status, message))).await, EvictOutcome::Evicted);
        let seen = server.requests();
        assert_eq!(seen.last().map(|s| s.method.as_str()), Some("DELETE"));
        let patch = seen.iter().find(|s| s.method == "PATCH").map(|s| s.body.as_str());
        let whole = |condition: String| {
            format!(
                r#"{{"metadata":{{"uid":"u1"}},"status":{{"$setElementOrder/conditions":[{{"type":"DisruptionTarget"}}],"conditions":[{condition}]}}}}"#
            )
        };
        assert_eq!(patch, expected.map(whole).as_deref());
    }
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_is_missing_or_has_been_replaced_counts_as_gone() {
    assert_eq!(outcome_of(404, 200).await, (EvictOutcome::Gone, vec!["PATCH".to_owned()]));
    for delete in [404, 409] {
        assert_eq!(outcome_of(200, delete).await.0, EvictOutcome::Gone, "{delete}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_condition_is_refused_is_not_deleted() {
    for (code, tries) in [(500, 4), (409, 4), (403, 1), (422, 1)] {
        let (outcome, methods) = outcome_of(code, 200).await;
        assert_eq!(
            (outcome, methods),
            (EvictOutcome::Failed("no".to_owned()), vec!["PATCH".to_owned(); tries])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_retried_only_after_status_429() {
    for (code, deletes) in [(429, 4), (500, 1), (403, 1)] {
        let (outcome, methods) = outcome_of(200, code).await;
        assert_eq!(outcome, EvictOutcome::Failed("no".to_owned()));
        assert_eq!(methods.iter().filter(|m| *m == "DELETE").count(), deletes, "{code}");
    }
    let mut busy = status(429, "TooManyRequests", "busy");
    busy.headers_mut().insert("retry-after", http::HeaderValue::from_static("3"));
    let server = FakeServer::script(vec![reply(200, "{}"), busy, reply(200, "{}")]);
    let begun = Instant::now();
    assert_eq!(evict_one(&server, task(|_| {})).await, EvictOutcome::Evicted);
    assert!(begun.elapsed() >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn every_eviction_is_reported_even_if_the_server_is_unreachable() {
    let server = FakeServer::new(|_| Err(refused_connection().into()));
    let told = evict_all(&server, vec![task(|_| {}); 2 * AT_ONCE]).await;
    assert_eq!(told.len(), 2 * AT_ONCE);
    assert!(
        told.iter()
            .all(|(_, outcome)| matches!(outcome, EvictOutcome::Failed(why) if why.contains("refused")))
    );
}
