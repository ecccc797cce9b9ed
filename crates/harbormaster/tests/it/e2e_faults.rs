//! API servers that fail: whatever they do, no pod is lost, other pods are bound in the meantime, and the number of
//! retries is bounded.
//!
//! A proxy between Harbormaster and the API server injects the faults. Tests run in parallel on one API server, each
//! with its own scheduler name and nodes.

use std::{sync::Arc, thread::sleep, time::Duration};

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, events, eventually, get_pod, wait_until_bound, wait_until_explained},
    objects::{PODS, config, pod},
    proxy::{Cut, Fault, Gate, Request},
    scene::{Scene, statuses},
    server::{Server, on_both_servers},
};

on_both_servers! {
    the_scheduler_waits_for_an_api_server_that_is_down_at_start,
    failed_lists_are_retried_with_backoff,
    an_invalid_list_is_requested_again,
    watches_that_break_in_the_middle_of_a_line_lose_nothing,
    rejected_watches_are_retried_with_backoff,
    after_an_expired_version_the_resource_is_listed_again,
    garbage_in_a_watch_causes_the_resource_to_be_listed_again,
    an_object_that_cannot_be_decoded_is_skipped_and_affects_no_others,
    a_throttled_bind_waits_as_long_as_the_server_demands,
    a_pod_whose_bind_conflicts_is_scheduled_again,
    a_bind_that_keeps_failing_is_retried_a_few_times_before_the_pod_is_scheduled_again,
    a_bind_whose_response_is_lost_counts_once,
    a_pod_that_is_deleted_between_decision_and_bind_releases_its_resources,
    a_pod_that_is_replaced_between_decision_and_bind_is_treated_as_a_new_pod,
    a_failed_status_patch_is_retried_a_few_times,
    an_event_that_cannot_be_written_is_retried_later_and_delays_nothing,
}

/// Status of most injected failures.
const TROUBLE: u16 = 500;

fn the_scheduler_waits_for_an_api_server_that_is_down_at_start(server: Server) {
    let scene = Scene::new(server, "down");
    scene.create("early", "100m");
    let address = format!("http://127.0.0.1:{}", scene.proxy.port);
    // With the version given, the watches are the first to find the server down.
    let flags = vec![format!("--master={address}"), "--emulated-version=1.36".to_owned()];
    let harbormaster = scene.start_with_flags(&config(scene.name), flags);
    harbormaster.wait_for_line(&["Failed to list", "pods", "refused", "retry_in"]);
    sleep(Duration::from_secs(2));
    let tries = harbormaster.lines_with(&["Failed to list", "kind=\"pods\""]).len();
    assert!((2..=8).contains(&tries), "{tries} tries in about two seconds");
    let told = harbormaster.lines_with(&["The API server cannot be reached", &address, "refused", "hint="]);
    assert_eq!(told.len(), 1, "the hint is logged once for all watches: {told:?}");
    scene.proxy.listen();
    scene.is_bound("early");
    harbormaster.wait_for_line(&["The API server answers again", &address]);
    scene.another_is_bound("late");
    scene.ends_well(harbormaster);
}

fn failed_lists_are_retried_with_backoff(server: Server) {
    let scene = Scene::new(server, "lists");
    scene.create("a", "100m");
    let pods = |request: &Request| request.is_list_of("pods");
    scene.proxy.fault(1, Fault::status(TROUBLE, "InternalError"), pods);
    scene.proxy.fault(1, Fault::status(503, "ServiceUnavailable"), pods);
    scene.proxy.fault(1, Fault::retry_after_a_second(429, "TooManyRequests"), pods);
    let nodes = |request: &Request| request.is_list_of("nodes") && !request.is_streaming_list();
    scene.proxy.fault(1, Fault::status(503, "ServiceUnavailable"), nodes);
    let harbormaster = scene.started();
    scene.is_bound("a");
    let lists = scene.proxy.records(pods);
    assert_eq!(statuses(&lists), [500, 503, 429, 200]);
    for pair in lists[1..].windows(2) {
        let pause = pair[1].at - pair[0].at;
        assert!(pause >= Duration::from_millis(790), "{pause:?} after {}", pair[0].status);
    }
    let log = scene.ends_well(harbormaster);
    for part in ["injected InternalError", "injected ServiceUnavailable", "injected TooManyRequests"] {
        assert!(log.contains(part), "{part} is not in\n{log}");
    }
}

fn an_invalid_list_is_requested_again(server: Server) {
    let scene = Scene::new(server, "nolist");
    scene.create("a", "100m");
    let html = Fault::Answer { status: 200, headers: "", body: "<html>hello\n</html>".to_owned() };
    scene.proxy.fault(2, html, |request| request.is_list_of("pods"));
    let harbormaster = scene.started();
    scene.is_bound("a");
    let lists = scene.proxy.count(|request| request.is_list_of("pods"));
    assert!((3..=4).contains(&lists), "{lists}");
    let log = scene.ends_well(harbormaster);
    assert!(log.contains("undecodable") && log.contains("<html>"), "{log}");
}

fn watches_that_break_in_the_middle_of_a_line_lose_nothing(server: Server) {
    let scene = Scene::new(server, "cut");
    let harbormaster = scene.started();
    scene.another_is_bound("first");
    for (index, how) in [Cut::Broken, Cut::Complete, Cut::Broken, Cut::Complete].into_iter().enumerate() {
        scene.proxy.cut_next_event("pods", how);
        scene.create(&format!("cut-{index}"), "100m");
        scene.is_bound(&format!("cut-{index}"));
        eventually("the next watch is open", PATIENCE, || {
            (scene.proxy.count(|request| request.is_watch_of("pods")) > index).then_some(())
        });
    }
    // A pod is waiting for a node, and the watch is cut in the middle of that node's event.
    scene.create("large", "3");
    wait_until_explained(&scene.client, &scene.full("large"));
    scene.proxy.cut_next_event("nodes", Cut::Broken);
    scene.create_node("large-node", "4", "a");
    assert_eq!(wait_until_bound(&scene.client, &scene.full("large")), scene.full("large-node"));
    let watches = scene.proxy.records(|request| request.is_watch_of("pods"));
    // Over HTTP/1.1, watches are reopened every 18 to 25 s even without faults.
    let turns = watches.last().map_or(0, |last| (last.at - watches[0].at).as_secs() / 18);
    let count = watches.len();
    assert!(
        (4..=8 + turns as usize).contains(&count),
        "{count} watches after 4 cuts and at most {turns} regular reopenings"
    );
    let lists = scene.proxy.count(|request| request.is_list_of("pods"));
    assert_eq!(lists, 1, "a watch that ends resumes where it stopped");
    scene.ends_well(harbormaster);
}

fn rejected_watches_are_retried_with_backoff(server: Server) {
    let scene = Scene::new(server, "refused");
    let harbormaster = scene.started();
    scene.another_is_bound("first");
    let pods = |request: &Request| request.is_watch_of("pods");
    // Status 503 would count as an outage of the whole server, whose end cuts the pauses short.
    scene.proxy.fault(3, Fault::status(TROUBLE, "InternalError"), pods);
    scene.proxy.close("pods");
    scene.create("meanwhile", "100m");
    scene.is_bound("meanwhile");
    let mut watches = scene.proxy.records(pods);
    // Over HTTP/1.1, watches are reopened every 18 to 25 s even without faults.
    watches.drain(..watches.iter().take_while(|watch| watch.status == 200).count());
    assert_eq!(statuses(&watches[..4]), [TROUBLE, TROUBLE, TROUBLE, 200]);
    assert!(watches[3].at - watches[0].at > Duration::from_secs(3), "the pauses between retries grow");
    let log = scene.ends_well(harbormaster);
    assert!(log.contains("Failed to watch") && log.contains("injected InternalError"), "{log}");
}

fn after_an_expired_version_the_resource_is_listed_again(server: Server) {
    for (name, in_stream) in [("gone", false), ("expired", true)] {
        let scene = Scene::new(server, name);
        let harbormaster = scene.started();
        scene.create("holder", "2");
        scene.is_bound("holder");
        scene.create("waiter", "1");
        wait_until_explained(&scene.client, &scene.full("waiter"));
        let pods = |request: &Request| request.is_watch_of("pods");
        if in_stream {
            scene.proxy.fault(1, Fault::delay(Duration::from_millis(500)), pods);
            let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"});
            scene.proxy.inject("pods", &json!({"type": "ERROR", "object": status}).to_string());
        } else {
            scene.proxy.fault(1, Fault::status(410, "Expired"), pods);
        }
        scene.proxy.close("pods");
        // No watch is open at this moment, so only a new list can reveal the deletion.
        delete_pod(&scene.client, &scene.full("holder"));
        scene.is_bound("waiter");
        let lists = scene.proxy.count(|request| request.is_list_of("pods"));
        assert_eq!(lists, 2, "{name}");
        scene.another_is_bound("last");
        let log = scene.ends_well(harbormaster);
        assert!(log.contains("too old resource version"), "{log}");
    }
}

fn garbage_in_a_watch_causes_the_resource_to_be_listed_again(server: Server) {
    let scene = Scene::new(server, "garbage");
    let harbormaster = scene.started();
    scene.another_is_bound("first");
    for line in ["<html>bad gateway</html>", r#"{"type":"ADDED","object":{"meta"#, "\0\u{1}\u{fffd}"] {
        let before = scene.proxy.count(|request| request.is_list_of("pods"));
        scene.proxy.inject("pods", line);
        let name = format!("after-{before}");
        scene.another_is_bound(&name);
        eventually("the pods are listed again", PATIENCE, || {
            (scene.proxy.count(|request| request.is_list_of("pods")) > before).then_some(())
        });
        harbormaster.wait_for_line(&["undecodable event"]);
    }
    assert_eq!(scene.proxy.count(|request| request.is_list_of("pods")), 4);
    scene.ends_well(harbormaster);
}

fn an_object_that_cannot_be_decoded_is_skipped_and_affects_no_others(server: Server) {
    let scene = Scene::new(server, "odd");
    let harbormaster = scene.started();
    let odd = json!({
        "metadata": {"name": "odd", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {"containers": 5},
    });
    scene.proxy.inject("pods", &json!({"type": "ADDED", "object": odd}).to_string());
    scene.proxy.inject("pods", &json!({"type": "DELETED", "object": odd}).to_string());
    let odd = json!({"metadata": {"name": "strange", "uid": "n", "resourceVersion": "1"}, "spec": 5});
    scene.proxy.inject("nodes", &json!({"type": "ADDED", "object": odd}).to_string());
    scene.another_is_bound("a");
    harbormaster.wait_for_line(&["An object cannot be decoded", "default/odd"]);
    harbormaster.wait_for_line(&["An object cannot be decoded", "strange"]);
    assert_eq!(scene.proxy.count(|request| request.is_list_of("pods")), 1);
    scene.ends_well(harbormaster);
}

fn a_throttled_bind_waits_as_long_as_the_server_demands(server: Server) {
    let scene = Scene::new(server, "slow");
    let harbormaster = scene.started();
    let (gate, name) = (Gate::default(), scene.full("a"));
    let closed = gate.clone();
    scene.proxy.fault(usize::MAX, Fault::retry_after_a_second(429, "TooManyRequests"), move |request| {
        request.is_bind_of(&name) && !closed.is_open()
    });
    scene.create("a", "100m");
    eventually("a bind is refused", PATIENCE, || (!scene.binds("a").is_empty()).then_some(()));
    scene.another_is_bound("other");
    assert!(scene.is_pending("a"), "the other pod is bound first");
    eventually("the bind is refused again", PATIENCE, || (scene.binds("a").len() >= 2).then_some(()));
    gate.open();
    scene.is_bound("a");
    scene.answers_end_with(429, 201, |request| request.is_bind_of(&scene.full("a")));
    let binds = scene.binds("a");
    assert!(binds[2].at - binds[0].at >= Duration::from_secs(2));
    scene.ends_well(harbormaster);
}

fn a_pod_whose_bind_conflicts_is_scheduled_again(server: Server) {
    let scene = Scene::new(server, "conflict");
    let harbormaster = scene.started();
    scene.fault_binds("a", 1, Fault::status(409, "Conflict"));
    scene.create("a", "100m");
    eventually("a bind is refused", PATIENCE, || (!scene.binds("a").is_empty()).then_some(()));
    scene.another_is_bound("other");
    scene.is_bound("a");
    scene.has_statuses("a", &[409, 201]);
    assert_eq!(harbormaster.attempts(&scene.full("a")), 2);
    eventually("an event says why", PATIENCE, || {
        let failed = events(&scene.client, &scene.full("a"), "FailedScheduling");
        let says_so = |event: &Value| event["note"].as_str().is_some_and(|n| n.contains("injected Conflict"));
        failed.iter().any(says_so).then_some(())
    });
    harbormaster.wait_for_line(&["Error scheduling pod; retrying", &scene.full("a"), "injected Conflict"]);
    scene.ends_well(harbormaster);
}

fn a_bind_that_keeps_failing_is_retried_a_few_times_before_the_pod_is_scheduled_again(server: Server) {
    let scene = Scene::new(server, "failing");
    let harbormaster = scene.started();
    scene.fault_binds("a", 6, Fault::status(TROUBLE, "InternalError"));
    scene.create("a", "1900m");
    // The resources reserved for the pod are free again while it waits.
    let (reason, message) = wait_until_explained(&scene.client, &scene.full("a"));
    assert_eq!(reason, "SchedulerError");
    assert!(message.contains("injected InternalError"), "{message}");
    scene.another_is_bound("other");
    scene.is_bound("a");
    scene.has_statuses("a", &[500, 500, 500, 500, 500, 500, 201]);
    assert_eq!(harbormaster.attempts(&scene.full("a")), 2);
    scene.ends_well(harbormaster);
}

fn a_bind_whose_response_is_lost_counts_once(server: Server) {
    for (name, fault) in
        [("lost", Fault::LieAfterwards { status: TROUBLE }), ("broken", Fault::BreakAfterwards)]
    {
        let scene = Scene::new(server, name);
        let harbormaster = scene.started();
        scene.fault_binds("a", 1, fault);
        scene.create("a", "1");
        scene.is_bound("a");
        // There is capacity for a second CPU, but not for a third.
        scene.create("b", "1");
        scene.is_bound("b");
        scene.create("c", "1");
        wait_until_explained(&scene.client, &scene.full("c"));
        let binds = statuses(&scene.binds("a"));
        assert!(binds.len() <= 2 && binds[1..].iter().all(|status| *status == 409), "{binds:?}");
        assert_eq!(scene.watch.times_bound(&scene.full("a")), 1);
        assert_eq!(harbormaster.attempts(&scene.full("a")), 1);
        eventually("the event of the binding is written", PATIENCE, || {
            (events(&scene.client, &scene.full("a"), "Scheduled").len() == 1).then_some(())
        });
        // The pod's resources are released only once.
        delete_pod(&scene.client, &scene.full("a"));
        scene.is_bound("c");
        scene.create("d", "1");
        wait_until_explained(&scene.client, &scene.full("d"));
        scene.ends_well(harbormaster);
    }
}

fn a_pod_that_is_deleted_between_decision_and_bind_releases_its_resources(server: Server) {
    let scene = Scene::new(server, "deleted");
    let harbormaster = scene.started();
    let (client, name) = (scene.client.clone(), scene.full("a"));
    scene.fault_binds("a", 1, Fault::After(Arc::new(move || delete_pod(&client, &name))));
    scene.create("a", "2");
    eventually("the pod is gone", PATIENCE, || {
        (get_pod(&scene.client, &scene.full("a")).is_none() && !scene.binds("a").is_empty()).then_some(())
    });
    scene.create("b", "2");
    scene.is_bound("b");
    scene.has_statuses("a", &[404]);
    assert_eq!(scene.watch.times_bound(&scene.full("a")), 0);
    scene.ends_well(harbormaster);
}

fn a_pod_that_is_replaced_between_decision_and_bind_is_treated_as_a_new_pod(server: Server) {
    let scene = Scene::new(server, "replaced");
    let harbormaster = scene.started();
    let (client, name) = (scene.client.clone(), scene.full("a"));
    let again = pod(&name, scene.name, json!({"cpu": "1"}), json!({"nodeSelector": {"scene": scene.name}}));
    scene.fault_binds(
        "a",
        1,
        Fault::After(Arc::new(move || {
            delete_pod(&client, &name);
            client.post(PODS, &again).expect("the pod is created again");
        })),
    );
    scene.create("a", "2");
    scene.is_bound("a");
    scene.create("b", "1");
    scene.is_bound("b");
    scene.has_statuses("a", &[409, 201]);
    assert_eq!(scene.watch.times_bound(&scene.full("a")), 1);
    scene.ends_well(harbormaster);
}

fn a_failed_status_patch_is_retried_a_few_times(server: Server) {
    let scene = Scene::new(server, "status");
    let harbormaster = scene.started();
    for (name, times) in [("soon", 2), ("never", usize::MAX)] {
        let name = scene.full(name);
        scene.proxy.fault(times, Fault::status(TROUBLE, "InternalError"), move |request| {
            request.is_status_of(&name)
        });
    }
    // The pods wait for a rack, not for resources; otherwise, every pod that leaves a node, even in other tests, would
    // wake them.
    for name in ["soon", "never"] {
        scene.create_for(name, "100m", json!({"scene": scene.name, "rack": "b"}));
    }
    scene.another_is_bound("other");
    wait_until_explained(&scene.client, &scene.full("soon"));
    harbormaster.wait_for_line(&["Error updating pod", &scene.full("never"), "injected InternalError"]);
    let patches = |name: &str, expected: &[u16]| {
        let name = scene.full(name);
        scene.answers(expected, |request| request.is_status_of(&name));
    };
    patches("soon", &[500, 500, 200]);
    patches("never", &[500; 4]);
    // A pod whose status could not be written is still scheduled.
    scene.create_node("late", "2", "b");
    scene.is_bound("soon");
    scene.is_bound("never");
    scene.ends_well(harbormaster);
}

fn an_event_that_cannot_be_written_is_retried_later_and_delays_nothing(server: Server) {
    let scene = Scene::new(server, "events");
    let harbormaster = scene.started();
    let (gate, name) = (Gate::default(), scene.full("a"));
    let closed = gate.clone();
    scene.proxy.fault(usize::MAX, Fault::status(TROUBLE, "InternalError"), move |request| {
        request.is_event_about(&name) && !closed.is_open()
    });
    scene.create("a", "100m");
    scene.is_bound("a");
    scene.another_is_bound("other");
    eventually("the event of the other pod", PATIENCE, || {
        events(&scene.client, &scene.full("other"), "Scheduled").pop()
    });
    harbormaster
        .wait_for_line(&["Unable to write event (may retry after sleeping)", "injected InternalError"]);
    gate.open();
    let event =
        eventually("the event", PATIENCE, || events(&scene.client, &scene.full("a"), "Scheduled").pop());
    let note = format!("Successfully assigned default/{} to {}", scene.full("a"), scene.full("node"));
    assert_eq!(event["note"], Value::from(note));
    let name = scene.full("a");
    scene.answers_end_with(TROUBLE, 201, |request| request.is_event_about(&name));
    scene.ends_well(harbormaster);
}
