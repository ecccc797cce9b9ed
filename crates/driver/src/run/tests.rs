//! Tests of the whole driver against a small in-memory API server.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use futures_util::stream;
use harbormaster_client::{
    client::ResponseBody,
    fake_server::{FakeServer, RecordedRequest, json as answer_of, reply, status},
};
use harbormaster_core::PodEvent;
use harbormaster_framework::{prelude::*, profile::Profile, registry::Registry};
use harbormaster_testkit::profile;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tower::BoxError;

use super::*;
use crate::{
    binder::BindingActivity,
    leader::{LeaseElection, tests::LeaseServer},
};

/// Tries pods in the order of their arrival. Rejects nodes named `full`, and panics at nodes named `cursed`. A node
/// named `haunted` makes the plugin's state panic later, when the state is dropped outside the plugin's panic guard.
#[derive(Default)]
struct FirstFit;

#[derive(Clone, Default)]
struct Haunted(Arc<AtomicBool>);

impl Drop for Haunted {
    fn drop(&mut self) {
        if self.0.swap(false, Ordering::Relaxed) && !std::thread::panicking() {
            panic!("the node is haunted");
        }
    }
}

impl Plugin for FirstFit {
    const NAME: &'static str = "FirstFit";
    implemented_points!();
}

impl QueueSort for FirstFit {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        a.since < b.since
    }
}

impl Filter<WholeCluster, Haunted> for FirstFit {
    fn filter(&self, _: &Cycle<'_>, state: &Haunted, node: NodeRef<'_>) -> Verdict {
        state.0.store(node.name() == "haunted", Ordering::Relaxed);
        match node.name().as_str() {
            "full" => Err(Reject::unresolvable("node(s) are full").into()),
            "cursed" => panic!("the node is cursed"),
            _ => Ok(()),
        }
    }
}

impl Bind for FirstFit {
    async fn bind(&self, cx: &BindCycle) -> Result<Bound, Stop> {
        cx.api.bind(&cx.pod, &cx.node).await?;
        Ok(Bound::Done)
    }
}

/// Returns a profile with only the `FirstFit` plugin.
pub(crate) fn first_fit() -> Arc<Profile> {
    let mut registry = Registry::default();
    registry.register::<FirstFit>();
    let it = &["FirstFit"][..];
    profile(&registry, &[("QueueSort", it), ("Filter", it), ("Bind", it)])
}

/// The pods and nodes of the API server, and its watchers.
#[derive(Default)]
struct Cluster {
    version: u64,
    pods: BTreeMap<String, Value>,
    nodes: Vec<Value>,
    pod_watchers: Vec<UnboundedSender<String>>,
    /// Replies to the first bindings; later bindings succeed.
    refusals: Vec<Response<ResponseBody>>,
    /// A resource that the server does not serve.
    lacking: Option<&'static str>,
    /// A resource that this scheduler may not read.
    forbidden: Option<&'static str>,
    leases: LeaseServer,
}

impl Cluster {
    fn set_pod(&mut self, name: &str, node: Option<&str>) {
        self.version += 1;
        let spec =
            json!({"schedulerName": "default-scheduler", "nodeName": node, "containers": [{"name": "c"}]});
        let version = self.version.to_string();
        let metadata = json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": version});
        let pod = json!({"metadata": metadata, "spec": spec});
        let known = self.pods.insert(name.to_owned(), pod.clone()).is_some();
        let type_ = if known { "MODIFIED" } else { "ADDED" };
        let line = format!("{{\"type\":\"{type_}\",\"object\":{pod}}}\n");
        self.pod_watchers.retain(|watcher| watcher.send(line.clone()).is_ok());
    }

    fn add_node(&mut self, name: &str) {
        self.nodes.push(json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }));
    }

    fn answer(&mut self, seen: &RecordedRequest) -> Response<ResponseBody> {
        let path = seen.path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        if let [.., "leases"] | [.., "leases", _] = &parts[..] {
            return self.answer_about_lease(seen);
        }
        match (seen.method.as_str(), &parts[..]) {
            ("GET", _) if seen.path.contains("sendInitialEvents") => status(400, "BadRequest", "what?"),
            ("GET", [.., kind]) if self.lacking == Some(*kind) => reply(404, "404 page not found"),
            ("GET", [.., kind]) if self.forbidden == Some(*kind) => status(403, "Forbidden", "not yours"),
            ("GET", ["api", "v1", "pods"]) if seen.path.contains("watch=true") => self.watch_pods(),
            ("GET", _) if seen.path.contains("watch=true") => {
                harbormaster_client::fake_server::streamed(Vec::new(), true)
            }
            ("GET", ["api", "v1", "pods"]) => self.list(self.pods.values().cloned().collect()),
            ("GET", ["api", "v1", "nodes"]) => self.list(self.nodes.clone()),
            ("GET", _) => self.list(Vec::new()),
            ("POST", ["api", "v1", "namespaces", _, "pods", pod, "binding"]) => {
                if let Some(refusal) = self.refusals.pop() {
                    return refusal;
                }
                let node = seen.json()["target"]["name"].as_str().map(str::to_owned);
                self.set_pod(pod, node.as_deref());
                reply(201, "{}")
            }
            _ => reply(201, "{}"),
        }
    }

    fn answer_about_lease(&mut self, seen: &RecordedRequest) -> Response<ResponseBody> {
        let outcome = match seen.method.as_str() {
            "GET" => self.leases.read(),
            "POST" => self.leases.create(seen.json()),
            _ => self.leases.update(seen.json()),
        };
        outcome.map_or_else(|code| status(code, "No", "no"), |lease| answer_of(200, &lease))
    }

    fn list(&self, items: Vec<Value>) -> Response<ResponseBody> {
        let version = self.version.to_string();
        reply(200, json!({"metadata": {"resourceVersion": version}, "items": items}).to_string())
    }

    fn watch_pods(&mut self) -> Response<ResponseBody> {
        let (watcher, lines) = unbounded_channel();
        self.pod_watchers.push(watcher);
        let lines = stream::unfold(lines, |mut lines| async {
            let line: String = lines.recv().await?;
            Some((Ok::<_, BoxError>(http_body::Frame::data(Bytes::from(line))), lines))
        });
        Response::new(StreamBody::new(lines).boxed_unsync())
    }
}

struct World {
    cluster: Arc<Mutex<Cluster>>,
    server: FakeServer,
    leadership: Leadership,
    stop: oneshot::Sender<()>,
    running: tokio::task::JoinHandle<Result<ExitReason, DriverError>>,
}

fn world(prepare: impl FnOnce(&mut Cluster)) -> World {
    world_with(LeaderElection::Off, prepare)
}

/// Returns a world with leader election, at intervals short enough for a test.
fn with_lease(delay_cache: bool, prepare: impl FnOnce(&mut Cluster)) -> World {
    let election =
        LeaseElection { retry_period: Duration::from_millis(20), delay_cache, ..Default::default() };
    world_with(LeaderElection::Lease(election), prepare)
}

fn world_with(election: LeaderElection, prepare: impl FnOnce(&mut Cluster)) -> World {
    let cluster = Arc::new(Mutex::new(Cluster::default()));
    prepare(&mut cluster.lock().unwrap());
    let answering = cluster.clone();
    let server = FakeServer::always(move |seen| answering.lock().unwrap().answer(seen));
    let driver = driver(&server, election);
    let leadership = driver.leadership.clone();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async {
        let _ = stopped.await;
    };
    let running = tokio::spawn(driver.run(EngineConfig::new(vec![first_fit()]), shutdown));
    World { cluster, server, leadership, stop, running }
}

fn driver(server: &FakeServer, election: LeaderElection) -> Driver {
    let clients = Clients { main: server.client(), events: server.client(), leases: server.client() };
    Driver {
        clients,
        election,
        leadership: Leadership::default(),
        hostname: "host".to_owned(),
        metrics: Metrics::default(),
        health: Health::default(),
        console: Console::default(),
        traces: Traces::default(),
        extenders: None,
        reload: Reload::default(),
        prefers_stored: false,
        recording: None,
        pace: Pace::default(),
    }
}

impl World {
    async fn until(&self, what: &str, done: impl Fn(&[RecordedRequest]) -> bool) {
        let begun = Instant::now();
        while !done(&self.server.requests()) {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "no sign of {what}: {:#?}",
                self.server.requests()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(self) -> Result<ExitReason, DriverError> {
        let _ = self.stop.send(());
        self.running.await.unwrap()
    }
}

fn posts(seen: &[RecordedRequest], end: &str) -> usize {
    seen.iter().filter(|s| s.method == "POST" && s.path.ends_with(end)).count()
}

#[tokio::test]
async fn pods_are_bound_and_reported_until_the_driver_is_stopped() {
    let world = world(|cluster| {
        cluster.add_node("n1");
        cluster.set_pod("early", None);
    });
    world.until("the first pod", |seen| posts(seen, "/pods/early/binding") == 1).await;
    // From now on, pods arrive by watch.
    world.until("the watch", |seen| seen.iter().any(|s| s.path.starts_with("/api/v1/pods?watch"))).await;
    world.cluster.lock().unwrap().set_pod("late", None);
    world.until("the second pod", |seen| posts(seen, "/pods/late/binding") == 1).await;
    world.until("events", |seen| posts(seen, "/events") == 2).await;
    let server = world.server.clone();
    assert_eq!(world.stop().await.unwrap(), ExitReason::Finished);
    assert_eq!(posts(&server.requests(), "/binding"), 2);
}

#[tokio::test]
async fn a_refused_binding_is_reported_and_the_pod_is_tried_again() {
    let world = world(|cluster| {
        cluster.add_node("n1");
        cluster.refusals.push(status(403, "Forbidden", "not today"));
        cluster.set_pod("p", None);
    });
    world.until("two tries", |seen| posts(seen, "/pods/p/binding") == 2).await;
    world.until("both events", |seen| posts(seen, "/events") == 2).await;
    let seen = world.server.requests();
    let patch = seen.iter().find(|s| s.method == "PATCH").map(RecordedRequest::json).unwrap_or_default();
    let condition = &patch["status"]["conditions"][0];
    assert_eq!(condition["reason"], "SchedulerError");
    assert_eq!(condition["message"], "running Bind plugin \"FirstFit\": not today");
    assert_eq!(world.stop().await.unwrap(), ExitReason::Finished);
}

#[tokio::test]
async fn scheduling_begins_without_a_kind_that_the_server_does_not_serve() {
    let world = world(|cluster| {
        cluster.lacking = Some("poddisruptionbudgets");
        cluster.add_node("n1");
        cluster.set_pod("p", None);
    });
    world.until("the pod", |seen| posts(seen, "/pods/p/binding") == 1).await;
    assert_eq!(world.stop().await.unwrap(), ExitReason::Finished);
}

#[tokio::test]
async fn scheduling_waits_until_every_kind_may_be_read() {
    let world = world(|cluster| {
        cluster.forbidden = Some("services");
        cluster.add_node("n1");
        cluster.set_pod("p", None);
    });
    world.until("the watch", |seen| seen.iter().any(|s| s.path.starts_with("/api/v1/pods?watch"))).await;
    world.until("a refusal", |seen| seen.iter().any(|s| s.path.starts_with("/api/v1/services?"))).await;
    assert_eq!(posts(&world.server.requests(), "/binding"), 0);
    world.cluster.lock().unwrap().forbidden = None;
    world.until("the pod", |seen| posts(seen, "/pods/p/binding") == 1).await;
    assert_eq!(world.stop().await.unwrap(), ExitReason::Finished);
}

#[tokio::test]
async fn a_panic_in_the_engine_ends_the_run_with_an_error() {
    let world = world(|cluster| {
        cluster.add_node("haunted");
        cluster.set_pod("p", None);
    });
    let error = world.running.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the engine failed: the node is haunted");
}

#[tokio::test]
async fn an_unreachable_api_server_does_not_prevent_the_driver_from_stopping() {
    let server = FakeServer::new(|_| Err(harbormaster_client::fake_server::refused_connection().into()));
    for election in [LeaderElection::Off, LeaderElection::Lease(LeaseElection::default())] {
        let shutdown = tokio::time::sleep(Duration::from_millis(20));
        let end = driver(&server, election).run(EngineConfig::new(vec![first_fit()]), shutdown).await;
        assert_eq!(end.unwrap(), ExitReason::Finished);
    }
}

fn is_write(seen: &RecordedRequest) -> bool {
    seen.method != "GET"
}

fn is_about_lease(seen: &RecordedRequest) -> bool {
    seen.path.contains("/leases")
}

const LONG_AGO: &str = "2001-01-01T00:00:00.000000Z";

#[tokio::test]
async fn a_standby_lists_pods_but_writes_nothing_until_it_leads() {
    let world = with_lease(false, |cluster| {
        cluster.leases.say("other", 3600, LONG_AGO);
        cluster.add_node("n1");
        cluster.set_pod("p", None);
    });
    world.until("some tries", |seen| seen.iter().filter(|s| is_about_lease(s)).count() > 3).await;
    let seen = world.server.requests();
    assert!(!seen.iter().any(is_write), "{seen:#?}");
    let first = |matches: &dyn Fn(&RecordedRequest) -> bool| seen.iter().position(matches);
    assert!(
        first(&|s| s.path.starts_with("/api/v1/pods?")) < first(&is_about_lease),
        "pods are listed before the lease is read"
    );
    assert!(!world.leadership.is_leading());
    world.cluster.lock().unwrap().leases.say("", 1, LONG_AGO);
    world.until("the pod", |seen| posts(seen, "/pods/p/binding") == 1).await;
    assert!(world.leadership.is_leading());
    world.until("its event", |seen| posts(seen, "/namespaces/ns/events") == 1).await;
    world.until("the event about the lease", |seen| posts(seen, "/namespaces/kube-system/events") == 1).await;
    assert_eq!(world.stop().await.unwrap(), ExitReason::Finished);
}

#[tokio::test]
async fn with_delayed_caches_only_the_lease_is_read_before_this_instance_leads() {
    let world = with_lease(true, |cluster| {
        cluster.leases.say("other", 3600, LONG_AGO);
        cluster.add_node("n1");
        cluster.set_pod("p", None);
    });
    world.until("some tries", |seen| seen.len() > 3).await;
    assert!(world.server.requests().iter().all(is_about_lease));
    world.cluster.lock().unwrap().leases.say("", 1, LONG_AGO);
    world.until("the pod", |seen| posts(seen, "/pods/p/binding") == 1).await;
    assert_eq!(world.stop().await.unwrap(), ExitReason::Finished);
}

#[tokio::test]
async fn when_the_lease_is_lost_the_driver_ends_and_nothing_more_is_written() {
    let world = with_lease(false, |cluster| {
        cluster.add_node("n1");
        cluster.set_pod("p", None);
    });
    world.until("the pod", |seen| posts(seen, "/pods/p/binding") == 1).await;
    world.cluster.lock().unwrap().leases.say("thief", 15, LONG_AGO);
    let error = world.running.await.unwrap().unwrap_err();
    assert!(matches!(error, DriverError::LeaseLost), "{error}");
    assert!(!world.leadership.is_leading());
    let writes = || world.server.requests().iter().filter(|s| is_write(s)).count();
    let before = writes();
    world.cluster.lock().unwrap().set_pod("late", None);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((writes(), world.cluster.lock().unwrap().leases.holder()), (before, "thief"));
}

#[tokio::test]
async fn the_lease_is_released_after_everything_else_has_been_written() {
    let world = with_lease(false, |cluster| {
        cluster.add_node("n1");
        cluster.set_pod("p", None);
    });
    world.until("the pod", |seen| posts(seen, "/pods/p/binding") == 1).await;
    let (server, cluster) = (world.server.clone(), world.cluster.clone());
    assert_eq!(world.stop().await.unwrap(), ExitReason::Finished);
    assert_eq!(cluster.lock().unwrap().leases.holder(), "");
    let seen = server.requests();
    assert_eq!(posts(&seen, "/namespaces/ns/events"), 1);
    let last = seen.iter().rfind(|s| is_write(s)).unwrap();
    assert_eq!(last.json()["spec"]["holderIdentity"], "", "{last:?}");
}

#[tokio::test]
async fn a_standby_stops_without_error_and_leaves_the_lease_alone() {
    let world = with_lease(false, |cluster| cluster.leases.say("other", 3600, LONG_AGO));
    world.until("a try", |seen| seen.iter().any(is_about_lease)).await;
    let server = world.server.clone();
    assert_eq!(world.stop().await.unwrap(), ExitReason::Finished);
    assert!(!server.requests().iter().any(is_write));
}

#[tokio::test]
async fn a_renew_deadline_that_is_too_short_for_the_retry_period_is_refused() {
    let election = LeaseElection { retry_period: Duration::from_secs(9), ..Default::default() };
    let driver = driver(&FakeServer::always(|_| reply(200, "{}")), LeaderElection::Lease(election));
    let end = driver.run(EngineConfig::new(vec![first_fit()]), std::future::pending()).await;
    assert_eq!(
        end.unwrap_err().to_string(),
        "couldn't create leader elector: renewDeadline must be greater than retryPeriod*JitterFactor"
    );
}

#[tokio::test(start_paused = true)]
async fn on_shutdown_events_get_ten_seconds_if_writes_succeed_and_three_if_none_succeeds() {
    let second = Duration::from_secs(1);
    // The number of events, the time per write, the time waited, and the number of events left.
    for (count, pace, waited, left) in
        [(100, second, 7, 0), (1000, second, 10, 1000 - 9 * 16), (10, second * 20, 3, 10)]
    {
        let client = harbormaster_client::client::ApiClient::over(tower::service_fn(move |_| async move {
            tokio::time::sleep(pace).await;
            Ok(reply(201, "{}"))
        }));
        let (mut events, writer) = EventRecorder::new(client, "host".into(), BindingActivity::idle());
        for index in 0..count {
            let pod = harbormaster_testkit::pod(&format!("pod-{index}")).info();
            let (reason, action, note) = ("Scheduled", "Binding", String::new());
            let event = PodEvent { pod, warning: false, reason, action, note, reporter: "s".into() };
            events.record(event, Clock::default().now());
        }
        let unwritten = events.unwritten();
        drop(events);
        let begun = tokio::time::Instant::now();
        finish_events(tokio::spawn(writer.run()), &unwritten, begun + SHUTDOWN_LIMIT).await;
        assert_eq!((begun.elapsed().as_secs(), unwritten.count()), (waited, left));
    }
}
