//! Tests of candidates that share a server with one lease, in virtual time.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use harbormaster_client::{
    body::RequestBody,
    client::ResponseBody,
    fake_server::{json, refused_connection, reply, status},
};
use http::{Request as HttpRequest, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::sleep;
use tower::BoxError;

use super::*;
use crate::leader::{
    JITTER_FACTOR,
    tests::{DEADLINE, LeaseServer, PERIOD},
};

const SECOND: Duration = Duration::from_secs(1);

/// A server that can fail or be slow.
#[derive(Default)]
struct World {
    server: Mutex<LeaseServer>,
    events: Mutex<Vec<Value>>,
    is_away: AtomicBool,
    /// Delay of every response.
    delay: Mutex<Duration>,
    /// Number of successful writes of the lease.
    writes: AtomicUsize,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn clients(self: &Arc<Self>) -> Clients {
        let world = self.clone();
        let client = ApiClient::over(tower::service_fn(move |request: HttpRequest<RequestBody>| {
            let world = world.clone();
            async move { world.answer(request).await }
        }));
        Clients { main: client.clone(), events: client.clone(), leases: client }
    }

    async fn answer(&self, request: HttpRequest<RequestBody>) -> Result<Response<ResponseBody>, BoxError> {
        let delay = *self.delay.lock().unwrap();
        sleep(delay).await;
        if self.is_away.load(Ordering::Relaxed) {
            return Err(refused_connection().into());
        }
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut server = self.server.lock().unwrap();
        const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        let outcome = match (head.method.as_str(), head.uri.path().strip_prefix(LEASES)) {
            ("GET", Some("/kube-scheduler")) => server.read(),
            ("POST", Some("")) => server.create(body),
            ("PUT", Some("/kube-scheduler")) => server.update(body),
            ("POST", None) if head.uri.path() == "/api/v1/namespaces/kube-system/events" => {
                self.events.lock().unwrap().push(body);
                return Ok(reply(201, "{}"));
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(head.uri.query(), Some("timeout=5s"));
        Ok(match outcome {
            Ok(lease) => {
                self.writes.fetch_add(usize::from(head.method != "GET"), Ordering::Relaxed);
                json(200, &lease)
            }
            Err(code) => status(code, "No", "no"),
        })
    }

    fn stands(self: &Arc<Self>, hostname: &str) -> Standing {
        self.stands_when(hostname, async {})
    }

    fn stands_when(
        self: &Arc<Self>,
        hostname: &str,
        ready: impl Future<Output = ()> + Send + 'static,
    ) -> Standing {
        let leadership = Leadership::default();
        let told = Arc::new(AtomicUsize::new(0));
        let clients = self.clients().gated_by(Arc::new(leadership.clone()));
        let stand = CandidateConfig {
            clients: &clients,
            leadership: leadership.clone(),
            hostname,
            reporter: "sched".into(),
        };
        let election = LeaderElection::Lease(LeaseElection::default());
        let counts = told.clone();
        let election = Election::begin(election, stand, ready, move || {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        Standing { election, leadership, told }
    }

    fn holder(&self) -> String {
        self.server.lock().unwrap().holder().to_owned()
    }
}

struct Standing {
    election: Election,
    leadership: Leadership,
    /// Number of times that `lead` was called.
    told: Arc<AtomicUsize>,
}

impl Standing {
    fn leads(&self) -> bool {
        self.leadership.is_leading()
    }

    /// Waits until this instance is the leader. Returns the time waited.
    async fn until_it_leads(&self) -> Duration {
        let begun = Instant::now();
        timeout(100 * SECOND, self.leadership.begins()).await.unwrap();
        begun.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_instance_leads_at_once_and_renews_its_lease_every_period_and_writes_one_event() {
    let world = World::new();
    let a = world.stands("host");
    assert!(a.until_it_leads().await < SECOND);
    sleep(61 * SECOND).await;
    assert!(a.leads());
    assert_eq!(world.writes.load(Ordering::Relaxed), 31);
    assert_eq!(a.told.load(Ordering::Relaxed), 1);
    let (holder, events) = (world.holder(), world.events.lock().unwrap().clone());
    let [event] = &events[..] else { panic!("{events:?}") };
    assert!(holder.starts_with("host_") && holder.len() == "host_".len() + 36, "{holder}");
    assert_eq!(event["message"], format!("{holder} became leader"));
    for (field, expected) in [
        ("/reason", "LeaderElection"),
        ("/type", "Normal"),
        ("/source/component", "sched"),
        ("/metadata/namespace", "kube-system"),
        ("/involvedObject/kind", "Lease"),
        ("/involvedObject/name", "kube-scheduler"),
        ("/involvedObject/namespace", "kube-system"),
        ("/involvedObject/uid", "the-uid"),
        ("/involvedObject/apiVersion", "coordination.k8s.io/v1"),
        ("/involvedObject/resourceVersion", "1"),
    ] {
        assert_eq!(event.pointer(field).and_then(Value::as_str), Some(expected), "{field}");
    }
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("kube-scheduler."));
}

#[tokio::test(start_paused = true)]
async fn an_instance_does_not_become_a_candidate_before_it_is_ready() {
    let world = World::new();
    let a = world.stands_when("a", sleep(5 * SECOND));
    let took = a.until_it_leads().await;
    assert!(took >= 5 * SECOND && took < 6 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_survives_an_outage_that_is_shorter_than_the_deadline() {
    for (outage, survives) in [(7, true), (11, false)] {
        let world = World::new();
        let mut a = world.stands("a");
        a.until_it_leads().await;
        let since = Instant::now();
        sleep(SECOND).await;
        world.is_away.store(true, Ordering::Relaxed);
        let ends = timeout(outage * SECOND, a.election.ends()).await;
        assert_eq!(ends.is_err(), survives);
        world.is_away.store(false, Ordering::Relaxed);
        if survives {
            sleep(20 * SECOND).await;
        } else {
            assert_eq!(since.elapsed().as_secs(), DEADLINE.as_secs());
        }
        assert_eq!(a.leads(), survives);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_leading_at_the_deadline_if_the_server_does_not_respond() {
    let world = World::new();
    let mut a = world.stands("a");
    a.until_it_leads().await;
    let since = Instant::now();
    sleep(PERIOD * 3 + SECOND).await;
    *world.delay.lock().unwrap() = 100 * SECOND;
    timeout(20 * SECOND, a.election.ends()).await.unwrap().unwrap();
    // The last renewal was at the sixth second.
    assert_eq!(since.elapsed().as_secs(), 6 + DEADLINE.as_secs());
    assert!(!a.leads());
}

#[tokio::test(start_paused = true)]
async fn slow_answers_do_not_end_a_leadership() {
    let world = World::new();
    *world.delay.lock().unwrap() = 3 * SECOND;
    let a = world.stands("a");
    a.until_it_leads().await;
    sleep(60 * SECOND).await;
    assert!(a.leads(), "the leader has ten seconds, and an answer takes three");
}

#[tokio::test(start_paused = true)]
async fn a_standby_leads_when_the_lease_of_a_killed_leader_expires_and_not_before() {
    let world = World::new();
    let a = world.stands("a");
    a.until_it_leads().await;
    let b = world.stands("b");
    sleep(30 * SECOND).await;
    assert!(a.leads() && !b.leads());
    // The leader's task is aborted, as if its process had been killed.
    a.election.task.abort();
    let took = b.until_it_leads().await;
    // The standby saw the last renewal within one pause, and notices the expiry within another.
    assert!(took >= 13 * SECOND && took <= 15 * SECOND + 2 * PERIOD.mul_f64(1.0 + JITTER_FACTOR), "{took:?}");
    assert!(world.holder().starts_with("b_"));
    assert_eq!(*world.server.lock().unwrap().spec("leaseTransitions"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_releases_the_lease_and_a_standby_leads_at_its_next_try() {
    let world = World::new();
    let a = world.stands("a");
    a.until_it_leads().await;
    let b = world.stands("b");
    sleep(30 * SECOND).await;
    a.election.stop().await;
    assert!(!a.leadership.is_leading());
    assert_eq!(world.holder(), "");
    assert_eq!(*world.server.lock().unwrap().spec("leaseDurationSeconds"), 1);
    let took = b.until_it_leads().await;
    assert!(took <= PERIOD.mul_f64(1.0 + JITTER_FACTOR), "{took:?}");
    // Dropping the election also ends the leadership and releases the lease.
    let leadership = b.leadership.clone();
    drop(b);
    sleep(SECOND).await;
    assert_eq!((world.holder().as_str(), leadership.is_leading()), ("", false));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_during_a_renewal_still_releases_the_lease() {
    let world = World::new();
    let a = world.stands("a");
    a.until_it_leads().await;
    *world.delay.lock().unwrap() = SECOND / 2;
    sleep(PERIOD + SECOND / 4).await;
    a.election.stop().await;
    assert_eq!(world.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_does_not_wait_for_an_unresponsive_server() {
    let world = World::new();
    let a = world.stands("a");
    a.until_it_leads().await;
    *world.delay.lock().unwrap() = 100 * SECOND;
    let begun = Instant::now();
    a.election.stop().await;
    assert!(begun.elapsed() <= GIVE_UP_LIMIT + SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_stops_leaves_the_lease_alone() {
    let world = World::new();
    world.server.lock().unwrap().say("other", 3600, "2026-11-22T00:00:00.000000Z");
    let a = world.stands("a");
    sleep(30 * SECOND).await;
    a.election.stop().await;
    assert_eq!((world.holder().as_str(), world.writes.load(Ordering::Relaxed)), ("other", 0));
    assert_eq!(a.told.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_stolen_stops_leading_at_the_next_renewal() {
    let world = World::new();
    let mut a = world.stands("a");
    a.until_it_leads().await;
    sleep(SECOND).await;
    world.server.lock().unwrap().say("thief", 15, "2026-11-22T00:00:00.000000Z");
    timeout(PERIOD, a.election.ends()).await.unwrap().unwrap();
    assert!(!a.leads());
    assert_eq!(world.holder(), "thief");
}

#[tokio::test]
async fn without_an_election_this_instance_always_leads() {
    let (leadership, told) = (Leadership::default(), Arc::new(AtomicBool::new(false)));
    let clients = World::new().clients();
    let stand = CandidateConfig {
        clients: &clients,
        leadership: leadership.clone(),
        hostname: "a",
        reporter: "s".into(),
    };
    let leads = told.clone();
    let election = Election::begin(LeaderElection::Off, stand, std::future::pending(), move || {
        leads.store(true, Ordering::Relaxed);
    });
    assert!(leadership.is_leading() && told.load(Ordering::Relaxed));
    election.stop().await;
}
