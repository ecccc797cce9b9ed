//! Replicas that elect a leader: one replica schedules, and another takes over when the leader stops, for whatever
//! reason.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, eventually, list},
    objects::config,
    process::{END, Harbormaster},
    proxy::{Fault, Gate, Proxy, Record},
    scene::Scene,
    server::{Server, on_both_servers},
};

on_both_servers! {
    when_the_leader_is_killed_another_takes_over_after_the_lease_expires,
    a_terminated_leader_hands_over_immediately,
    a_leader_that_was_suspended_for_a_long_time_writes_nothing_more_and_exits,
    a_leader_that_cannot_reach_the_server_exits_before_another_leads,
    a_second_signal_ends_a_leader_that_still_has_work_in_progress,
}

/// Lease duration. It must not be shorter, because a busy machine may keep a leader from renewing for seconds.
const LASTS: Duration = Duration::from_secs(10);
const DEADLINE: Duration = Duration::from_secs(8);
const PERIOD: Duration = Duration::from_secs(1);
/// Longest pause of a standby between two attempts to acquire the lease.
const PAUSE: Duration = Duration::from_millis(2200);
/// Delay that a busy machine may add to a wait.
const SLACK: Duration = Duration::from_secs(20);

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// One of several schedulers, with its own proxy.
struct Replica {
    process: Harbormaster,
    proxy: Proxy,
}

/// Returns the leader election flags for a lease of the duration `lasts`.
fn lease(scene: &Scene, lasts: Duration) -> Vec<String> {
    vec![
        "--leader-elect".to_owned(),
        format!("--leader-elect-resource-name={}", scene.name),
        format!("--leader-elect-lease-duration={}s", lasts.as_secs()),
        format!("--leader-elect-renew-deadline={}s", (lasts - (LASTS - DEADLINE)).as_secs()),
        format!("--leader-elect-retry-period={}s", PERIOD.as_secs()),
    ]
}

fn start(scene: &Scene, config: &Value, lasts: Duration) -> Replica {
    let proxy = Proxy::new(scene.endpoint());
    proxy.listen();
    let mut flags = lease(scene, lasts);
    flags.push(format!("--master=http://127.0.0.1:{}", proxy.port));
    let process = scene.start_with_flags(config, flags);
    scene.wait_until_watched(&process);
    Replica { process, proxy }
}

/// Starts a leader and a standby.
fn two(scene: &Scene, lasts: Duration) -> [Replica; 2] {
    let leader = start(scene, &config(scene.name), lasts);
    leader.leads();
    [leader, start_standby(scene, lasts)]
}

fn start_standby(scene: &Scene, lasts: Duration) -> Replica {
    let standby = start(scene, &config(scene.name), lasts);
    standby.process.wait_for_line(&["Another instance leads", scene.name]);
    standby
}

impl Replica {
    /// Waits until the replica is the leader.
    fn leads(&self) {
        self.process.wait_for_line(&["Successfully acquired lease"]);
    }

    fn identity(&self) -> String {
        let line = self.process.wait_for_line(&["Attempting to acquire leader lease"]);
        let (_, identity) = line.split_once("identity=\"").expect("the line names it");
        identity.split('"').next().unwrap_or_default().to_owned()
    }

    /// Returns all write requests, successful or not.
    fn writes(&self) -> Vec<Record> {
        self.proxy.records(|request| request.method != "GET")
    }

    fn binds(&self) -> Vec<Record> {
        self.proxy.records(|request| request.path.ends_with("/binding"))
    }
}

/// Returns the time of the last successful write of a lease through the proxy.
fn last_renewal(proxy: &Proxy) -> Instant {
    let writes = proxy.records(|request| request.method != "GET" && request.path.contains("/leases"));
    let last = writes.iter().rfind(|write| (200..300).contains(&write.status));
    last.expect("the leader has renewed the lease").at
}

/// Returns the lease's spec.
fn spec(scene: &Scene) -> Value {
    let mut lease = scene.client.get(&format!("{LEASES}/{}", scene.name)).expect("the lease is there");
    lease["spec"].take()
}

fn body(record: &Record) -> Value {
    serde_json::from_slice(&record.request.body).expect("a body of JSON")
}

fn when_the_leader_is_killed_another_takes_over_after_the_lease_expires(server: Server) {
    let scene = Scene::new(server, "election-killed");
    scene.create_node("second", "2", "a");
    let [a, b] = two(&scene, LASTS);
    scene.create_many(10);
    scene.many_are_bound(10);
    assert_eq!(b.writes().len(), 0, "{:?}", b.writes());
    let said = spec(&scene);
    assert_eq!(said["holderIdentity"], a.identity());
    assert_eq!((&said["leaseDurationSeconds"], &said["leaseTransitions"]), (&json!(10), &json!(0)));
    let events = eventually("an event names the leader", PATIENCE, || {
        let path = format!(
            "/api/v1/namespaces/kube-system/events?fieldSelector=involvedObject.name%3D{}",
            scene.name
        );
        Some(list(&scene.client, &path)).filter(|events| !events.is_empty())
    });
    assert_eq!(events[0]["message"], format!("{} became leader", a.identity()));
    assert_eq!((&events[0]["reason"], &events[0]["type"]), (&json!("LeaderElection"), &json!("Normal")));
    assert_eq!(events[0]["source"]["component"], scene.name);

    // The leader is killed while it is binding pods.
    a.proxy.fault(usize::MAX, Fault::delay(Duration::from_millis(300)), |request| {
        request.path.ends_with("/binding")
    });
    for index in 10..30 {
        scene.create(&format!("many-{index}"), "100m");
    }
    eventually("some pods are being bound", PATIENCE, || (a.binds().len() > 12).then_some(()));
    let Replica { process, proxy } = a;
    process.kill();
    let killed = Instant::now();
    b.leads();
    let took = killed.elapsed();
    scene.many_are_bound(30);
    assert!(took <= LASTS + 2 * PAUSE + SLACK, "{took:?}");
    let waited = b.writes()[0].at - last_renewal(&proxy);
    assert!(waited >= LASTS, "the standby writes only after the lease has expired: {waited:?}");
    assert_eq!(spec(&scene)["holderIdentity"], b.identity());
    assert_eq!(spec(&scene)["leaseTransitions"], 1);
    scene.ends_well(b.process);
}

fn a_terminated_leader_hands_over_immediately(server: Server) {
    // The lease lasts so long that the test fails if the standby waits for it to expire.
    let lasts = Duration::from_secs(120);
    let scene = Scene::new(server, "election-ended");
    let [mut a, b] = two(&scene, lasts);
    scene.create("first", "10m");
    scene.is_bound("first");
    let (gate, held) = (Gate::default(), scene.full("held"));
    a.proxy.fault(1, Fault::hold(&gate), move |request| request.is_bind_of(&held));
    scene.create("held", "10m");
    eventually("a binding is under way", PATIENCE, || (gate.came() == 1).then_some(()));
    a.process.terminate();
    a.process.wait_for_line(&["Stopping: no more pods are tried"]);
    sleep(PERIOD);
    assert_eq!(
        spec(&scene)["holderIdentity"],
        a.identity(),
        "the leader finishes its bindings before it releases the lease"
    );
    gate.open();
    assert_eq!(a.process.wait(END).code(), Some(0), "{}", a.process.log());
    let ended = Instant::now();
    scene.is_bound("held");
    let writes = a.writes();
    let last = body(writes.last().expect("the lease"));
    assert_eq!((&last["kind"], &last["spec"]["holderIdentity"]), (&json!("Lease"), &json!("")));
    assert_eq!(last["spec"]["leaseDurationSeconds"], 1);
    b.leads();
    let took = ended.elapsed();
    assert!(took <= PAUSE + SLACK, "{took:?}");
    scene.create("second", "10m");
    scene.is_bound("second");

    // A standby exits cleanly too, and the leader continues.
    let c = start_standby(&scene, lasts);
    let log = c.process.ends_well();
    assert!(!log.contains("Released lease"), "{log}");
    assert_eq!(c.proxy.count(|request| request.method != "GET"), 0);
    assert_eq!(spec(&scene)["holderIdentity"], b.identity());
    let log = scene.ends_well(b.process);
    assert!(log.contains("Released lease"), "{log}");
}

fn a_leader_that_was_suspended_for_a_long_time_writes_nothing_more_and_exits(server: Server) {
    const PODS: usize = 30;
    let scene = Scene::new(server, "election-stopped");
    scene.create_node("second", "2", "a");
    // A low request rate, so that many bindings are queued when the process is suspended.
    let mut slow = config(scene.name);
    slow["clientConnection"] = json!({"qps": 2, "burst": 4, "contentType": "application/json"});
    let mut a = start(&scene, &slow, LASTS);
    a.leads();
    let b = start_standby(&scene, LASTS);
    scene.create_many(PODS);
    eventually("all pods have been tried", PATIENCE, || {
        let attempts = a.process.lines_with(&["Attempting to schedule pod", &scene.full("many-")]).len();
        (attempts >= PODS && a.binds().len() >= 2).then_some(())
    });
    a.process.signal("STOP");
    assert!(a.binds().len() < PODS / 2, "most bindings are still queued");
    b.leads();
    scene.many_are_bound(PODS);
    // A renewal that was under way may still arrive; the server rejects it, because the lease has changed. Nor are events
    // counted: the rest of a half-sent event may still arrive.
    let decides = |path: &str| !path.contains("/leases") && !path.contains("/events");
    let decisions = |a: &Replica| a.proxy.count(|sent| sent.method != "GET" && decides(&sent.path));
    let before = decisions(&a);
    a.process.signal("CONT");
    assert_eq!(a.process.wait(END).code(), Some(1), "{}", a.process.log());
    a.process.wait_for_line(&["Leaderelection lost"]);
    // Wait long enough for every request already sent to arrive.
    sleep(Duration::from_secs(1));
    assert_eq!(decisions(&a), before, "{:?}", a.writes());
    assert_eq!(spec(&scene)["holderIdentity"], b.identity());
    scene.many_are_bound(PODS);
    scene.ends_well(b.process);
}

fn a_leader_that_cannot_reach_the_server_exits_before_another_leads(server: Server) {
    let scene = Scene::new(server, "election-cut-off");
    let [mut a, b] = two(&scene, LASTS);
    scene.create("first", "10m");
    scene.is_bound("first");
    let is_away = Arc::new(AtomicBool::new(true));
    let away = Arc::clone(&is_away);
    a.proxy.fault(usize::MAX, Fault::Break, move |_| away.load(Ordering::Relaxed));
    let cut_off = Instant::now();
    assert_eq!(a.process.wait(DEADLINE + SLACK).code(), Some(1), "{}", a.process.log());
    assert!(cut_off.elapsed() >= DEADLINE - 2 * PERIOD, "{:?}", cut_off.elapsed());
    a.process.wait_for_line(&["Leaderelection lost"]);
    scene.create("second", "10m");
    b.leads();
    scene.is_bound("second");
    let waited = b.writes()[0].at - last_renewal(&a.proxy);
    assert!(waited >= LASTS, "{waited:?}");
    scene.ends_well(b.process);
}

fn a_second_signal_ends_a_leader_that_still_has_work_in_progress(server: Server) {
    let scene = Scene::new(server, "election-twice");
    let mut a = start(&scene, &config(scene.name), LASTS);
    a.leads();
    let (gate, held) = (Gate::default(), scene.full("held"));
    a.proxy.fault(1, Fault::hold(&gate), move |request| request.is_bind_of(&held));
    scene.create("held", "10m");
    eventually("a binding is under way", PATIENCE, || (gate.came() == 1).then_some(()));
    a.process.terminate();
    a.process.wait_for_line(&["Stopping: no more pods are tried"]);
    a.process.signal("INT");
    assert_eq!(a.process.wait(END).code(), Some(1), "{}", a.process.log());
    gate.open();
}
