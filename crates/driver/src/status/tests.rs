//! Tests of the bodies and retries of status patches.

use harbormaster_api::Pod;
use harbormaster_client::fake_server::{FakeServer, reply, status};
use harbormaster_core::Condition;
use harbormaster_testkit::pod;

use super::*;
use crate::message::tests::without_engine;

fn at(second: i64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + second)
}

fn unschedulable(message: &str, last_transition: Timestamp) -> Condition {
    Condition { reason: "Unschedulable", message: message.to_owned(), last_transition }
}

fn known(pod: &mut Pod, type_: &str, status: &str, reason: &str, message: &str) {
    pod.status.conditions.push(PodCondition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        last_transition: Some(at(0)),
    });
}

fn body(
    change: impl FnOnce(&mut Pod),
    condition: Option<Condition>,
    nominated: Option<Option<&str>>,
) -> String {
    let pod = pod("p").pod(change).info();
    let nominated_node = nominated.map(|n| n.map(Into::into));
    serde_json::to_string(&Body::of(&StatusPatch { pod, condition, nominated_node })).unwrap()
}

#[test]
fn a_first_condition_is_written_in_full() {
    assert_eq!(
        body(|pod| pod.generation = 1, Some(unschedulable("0/3 nodes are available", at(0))), None),
        r#"{"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2023-11-14T22:13:20Z","message":"0/3 nodes are available","observedGeneration":1,"reason":"Unschedulable","status":"False","type":"PodScheduled"}]}}"#
    );
}

#[test]
fn only_the_changed_fields_of_a_condition_are_written() {
    let change = |pod: &mut Pod| known(pod, "PodScheduled", "False", "Unschedulable", "old");
    assert_eq!(
        body(change, Some(unschedulable("new", at(0))), None),
        r#"{"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"}],"conditions":[{"message":"new","type":"PodScheduled"}]}}"#
    );
}

#[test]
fn the_transition_time_changes_with_the_status_of_the_condition() {
    let change = |pod: &mut Pod| {
        pod.generation = 2;
        known(pod, "DisruptionTarget", "True", "x", "y");
        known(pod, "PodScheduled", "True", "", "");
    };
    assert_eq!(
        body(change, Some(unschedulable("m", at(5))), Some(Some("n1"))),
        r#"{"status":{"$setElementOrder/conditions":[{"type":"DisruptionTarget"},{"type":"PodScheduled"}],"conditions":[{"lastTransitionTime":"2023-11-14T22:13:25Z","message":"m","observedGeneration":2,"reason":"Unschedulable","status":"False","type":"PodScheduled"}],"nominatedNodeName":"n1"}}"#
    );
}

#[test]
fn a_new_condition_comes_after_existing_ones_in_the_order() {
    let change = |pod: &mut Pod| known(pod, "DisruptionTarget", "True", "x", "y");
    let text = body(change, Some(unschedulable("m", at(0))), None);
    assert!(text.starts_with(
        r#"{"status":{"$setElementOrder/conditions":[{"type":"DisruptionTarget"},{"type":"PodScheduled"}],"conditions":[{"lastProbeTime":null,"#
    ), "{text}");
}

#[test]
fn a_nomination_is_set_by_name_and_cleared_by_null() {
    assert_eq!(body(|_| {}, None, Some(Some("n1"))), r#"{"status":{"nominatedNodeName":"n1"}}"#);
    assert_eq!(body(|_| {}, None, Some(None)), r#"{"status":{"nominatedNodeName":null}}"#);
}

fn nominating(pod: &Arc<PodInfo>, node: &str) -> StatusPatch {
    StatusPatch { pod: pod.clone(), condition: None, nominated_node: Some(Some(node.into())) }
}

/// Sends each patch while the previous patches are being sent.
async fn send_all(server: &FakeServer, patches: Vec<StatusPatch>) {
    let (tasks, done) = Tasks::new();
    let writer = StatusWriter::new(server.client(), tasks, without_engine().0);
    for patch in patches {
        writer.patch(patch);
        tokio::task::yield_now().await;
    }
    drop(writer);
    done.wait().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_of_a_pods_waiting_patches_is_written() {
    let server = FakeServer::always(|_| reply(200, "{}"));
    let ((tasks, done), (to_engine, engine)) = (Tasks::new(), without_engine());
    let writer = StatusWriter::new(server.client(), tasks, to_engine);
    let pods: Vec<_> = (0..100).map(|at| pod(&format!("p{at}")).info()).collect();
    for round in 0..50 {
        for pod in &pods {
            writer.patch(nominating(pod, &format!("n{round}")));
        }
    }
    assert!(engine.try_recv().is_err(), "the engine was told that the writer accepts more patches");
    drop(writer);
    done.wait().await;
    let reports: Vec<usize> = engine
        .try_iter()
        .filter_map(|message| match message {
            EngineMessage::StatusesWritten(patches) => Some(patches),
            _ => None,
        })
        .collect();
    assert_eq!((reports.len(), reports.iter().sum::<usize>()), (AT_ONCE, 50 * pods.len()));
    let seen = server.requests();
    assert_eq!(seen.len(), pods.len());
    assert!(seen.iter().all(|s| s.json()["status"]["nominatedNodeName"] == "n49"));
}

#[tokio::test(start_paused = true)]
async fn patches_of_a_pod_keep_their_order_despite_retries() {
    let mut calls = 0;
    let server = FakeServer::always(move |_| {
        calls += 1;
        if calls <= 2 { status(409, "Conflict", "try again") } else { reply(200, "{}") }
    });
    let pod = pod("p").namespace("ns").info();
    send_all(&server, vec![nominating(&pod, "n1"), nominating(&pod, "n2")]).await;
    let seen = server.requests();
    let nodes: Vec<String> =
        seen.iter().map(|s| s.json()["status"]["nominatedNodeName"].to_string()).collect();
    assert_eq!(nodes, ["\"n1\"", "\"n1\"", "\"n1\"", "\"n2\""]);
    assert_eq!(seen[0].method, "PATCH");
    assert_eq!(seen[0].path, "/api/v1/namespaces/ns/pods/p/status");
    assert_eq!(seen[0].content_type, "application/strategic-merge-patch+json");
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_tried_four_times_if_failures_are_temporary_and_once_if_they_are_permanent() {
    for (code, tries) in [(500, 4), (503, 4), (404, 1), (422, 1)] {
        let server = FakeServer::always(move |_| status(code, "X", "no"));
        send_all(&server, vec![nominating(&pod("p").info(), "n1")]).await;
        assert_eq!(server.requests().len(), tries, "{code}");
    }
}
