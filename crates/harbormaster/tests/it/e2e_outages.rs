//! Larger outages: an API server that goes down, nodes that fill up while bindings fail in every way, and schedulers
//! that are killed in the middle of their work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use crate::e2e::{
    cluster::{PATIENCE, events, eventually, wait_until_explained},
    process::END,
    proxy::{Fault, Gate, Request},
    scene::Scene,
    server::{Server, on_both_servers},
};

on_both_servers! {
    after_sigterm_bindings_in_progress_are_finished_and_no_others_begin,
    scheduling_resumes_after_a_short_outage_of_the_api_server,
    full_nodes_stay_within_capacity_however_binds_fail,
    the_next_scheduler_continues_after_one_is_killed_while_binding,
    shutdown_does_not_wait_for_events_that_cannot_be_delivered,
}

/// Status of most injected failures.
const TROUBLE: u16 = 500;

fn after_sigterm_bindings_in_progress_are_finished_and_no_others_begin(server: Server) {
    let scene = Scene::new(server, "sigterm");
    let mut harbormaster = scene.started();
    let gate = Gate::default();
    scene.fault_binds("a", 1, Fault::hold(&gate));
    scene.create("a", "100m");
    eventually("a node has been chosen for the pod", PATIENCE, || {
        (harbormaster.attempts(&scene.full("a")) == 1).then_some(())
    });
    harbormaster.terminate();
    harbormaster.wait_for_line(&["Stopping: no more pods are tried"]);
    scene.create("b", "100m");
    sleep(Duration::from_secs(1));
    assert!(harbormaster.is_running(), "the process waits for the binding");
    gate.open();
    let status = harbormaster.wait(END);
    let log = harbormaster.log();
    assert_eq!(status.code(), Some(0), "{log}");
    scene.is_bound("a");
    assert_eq!(events(&scene.client, &scene.full("a"), "Scheduled").len(), 1);
    assert!(scene.is_pending("b") && scene.binds("b").is_empty());
    assert!(!log.contains("panicked"), "{log}");
}

fn scheduling_resumes_after_a_short_outage_of_the_api_server(server: Server) {
    let scene = Scene::new(server, "outage");
    scene.create_node("second", "2", "a");
    let harbormaster = scene.started();
    scene.another_is_bound("first");
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    scene.proxy.fault(usize::MAX, Fault::Break, move |_| away.load(Ordering::Relaxed));
    scene.create_many(10);
    is_away.store(true, Ordering::Relaxed);
    scene.proxy.close_all();
    for index in 10..30 {
        scene.create(&format!("many-{index}"), "100m");
    }
    let before = scene.proxy.count(|_| true);
    sleep(Duration::from_secs(4));
    let tries = scene.proxy.count(|_| true) - before;
    assert!(tries <= 200, "{tries} requests in 4 seconds to a server that is away");
    is_away.store(false, Ordering::Relaxed);
    scene.many_are_bound(30);
    scene.ends_well(harbormaster);
}

fn full_nodes_stay_within_capacity_however_binds_fail(server: Server) {
    const PODS: usize = 200;
    let scene = Scene::new(server, "storm");
    for index in 1..PODS / 20 {
        scene.create_node(&format!("node-{index}"), "2", "a");
    }
    let harbormaster = scene.started();
    // The fault depends on the pod's number, and each kind of fault hits some first and some second attempts to bind.
    let is_bind = |request: &Request, of: usize, rest: usize| {
        let number = request.path.strip_suffix("/binding").and_then(|path| path.rsplit('-').next());
        request.method == "POST"
            && number.and_then(|n| n.parse::<usize>().ok()).is_some_and(|n| n % of == rest)
    };
    for (of, rest, fault) in [
        (6, 0, Fault::status(TROUBLE, "InternalError")),
        (6, 1, Fault::LieAfterwards { status: TROUBLE }),
        (6, 2, Fault::status(409, "Conflict")),
        (6, 3, Fault::BreakAfterwards),
        (6, 4, Fault::Break),
    ] {
        scene.proxy.fault(40, fault, move |request| is_bind(request, of, rest));
    }
    scene.create_many(PODS);
    scene.many_are_bound(PODS);
    for index in 0..PODS {
        assert!(scene.binds(&format!("many-{index}")).len() <= 60, "many-{index}");
    }
    // Every CPU is in use, so another pod does not fit.
    scene.create("last", "100m");
    let (reason, message) = wait_until_explained(&scene.client, &scene.full("last"));
    assert!(reason == "Unschedulable" && message.contains("Insufficient cpu"), "{reason}: {message}");
    scene.ends_well(harbormaster);
}

fn the_next_scheduler_continues_after_one_is_killed_while_binding(server: Server) {
    const PODS: usize = 100;
    let scene = Scene::new(server, "killed");
    for index in 1..PODS / 20 {
        scene.create_node(&format!("node-{index}"), "2", "a");
    }
    let first = scene.started();
    scene
        .proxy
        .fault(PODS, Fault::delay(Duration::from_millis(50)), |request| request.path.ends_with("/binding"));
    scene.create_many(PODS / 2);
    eventually("some pods are bound", PATIENCE, || (scene.watch.bound() > PODS / 10).then_some(()));
    first.kill();
    for index in PODS / 2..PODS {
        scene.create(&format!("many-{index}"), "100m");
    }
    let second = scene.start();
    scene.many_are_bound(PODS);
    scene.ends_well(second);
}

fn shutdown_does_not_wait_for_events_that_cannot_be_delivered(server: Server) {
    let scene = Scene::new(server, "deaf");
    let mut harbormaster = scene.started();
    let name = scene.full("a");
    scene.proxy.fault(usize::MAX, Fault::status(TROUBLE, "InternalError"), move |request| {
        request.is_event_about(&name)
    });
    scene.create("a", "100m");
    scene.is_bound("a");
    harbormaster.wait_for_line(&["Unable to write event"]);
    let asked = Instant::now();
    harbormaster.terminate();
    let status = harbormaster.wait(END);
    assert_eq!(status.code(), Some(0), "after {:?}: {}", asked.elapsed(), harbormaster.log());
}
