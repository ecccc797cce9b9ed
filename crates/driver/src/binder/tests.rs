//! Tests of the order in which plugins run, and of the order of the work for one pod.

use std::{sync::Mutex, time::Duration};

use harbormaster_api::Str;
use harbormaster_client::fake_server::{self, FakeServer};
use harbormaster_framework::{
    cycle::Reservation, prelude::*, profile::Profile, registry::Registry, sweep::PluginIdx,
};
use harbormaster_testkit::{pod, profile};
use serde_json::json;
use tokio::{sync::mpsc::unbounded_channel, time::sleep};

use super::*;
use crate::{
    live_api::{CustomFeed, LiveApi, tests::announce},
    message::tests::without_engine,
};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(cx: &BindCycle, what: &str) {
    LOG.lock().unwrap().push(format!("{} {what}", cx.pod.name));
}

fn logged(pod: &str) -> Vec<String> {
    let prefix = format!("{pod} ");
    LOG.lock().unwrap().iter().filter_map(|l| l.strip_prefix(&prefix)).map(str::to_owned).collect()
}

/// Path of an object of a custom kind.
pub(super) fn boat() -> ObjectPath {
    ObjectPath {
        group: "example.com".into(),
        version: "v1".into(),
        plural: "boats".into(),
        namespace: "default".into(),
        name: "ark".into(),
        subresource: Str::default(),
    }
}

/// Defines a plugin whose behavior depends on the pod's labels.
macro_rules! toy {
    ($name:ident, $millis:literal) => {
        #[derive(Default)]
        struct $name;

        impl Plugin for $name {
            const NAME: &'static str = stringify!($name);
            implemented_points!();
        }

        impl PreBind for $name {
            async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
                sleep(Duration::from_millis($millis)).await;
                log(cx, concat!("pre ", stringify!($name)));
                match cx.pod.labels.get(stringify!($name)).map(Str::as_str) {
                    Some("pre-error") => Err(PluginError::from("no volume").into()),
                    Some("pre-panic") => panic!("oh no"),
                    Some("pre-reject") => Err(Stop::Reject(Reject::evictable("not now"))),
                    Some("pre-write") => {
                        cx.api.call(ApiCall::patch(boat(), json!({}))).await.unwrap();
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
        }

        impl Bind for $name {
            async fn bind(&self, cx: &BindCycle) -> Result<Bound, Stop> {
                log(cx, concat!("bind ", stringify!($name)));
                match cx.pod.labels.get(stringify!($name)).map(Str::as_str) {
                    Some("not-mine") => Ok(Bound::NotMine),
                    Some("bind-error") => Err(PluginError::from("no way").into()),
                    Some("panic") => panic!("oh no"),
                    _ => Ok(Bound::Done),
                }
            }
        }

        impl PostBind for $name {
            async fn post_bind(&self, cx: &BindCycle) {
                log(cx, concat!("post ", stringify!($name)));
                assert!(cx.pod.labels.get(stringify!($name)).is_none_or(|l| l != "post-panic"), "oh no");
            }
        }
    };
}

toy!(Slow, 50);
toy!(Quick, 1);

fn toys() -> Arc<Profile> {
    let mut registry = Registry::default();
    registry.register::<Slow>().register::<Quick>();
    let both = &["Slow", "Quick"][..];
    profile(&registry, &[("PreBind", both), ("Bind", both), ("PostBind", both)])
}

/// Returns a binding to `n1` with the given groups of plugins in PreBind.
fn task(pod: Arc<PodInfo>, groups: &[&[u16]]) -> BindTask {
    let group = |group: &&[u16]| group.iter().map(|at| PluginIdx(*at)).collect();
    BindTask {
        reservation: Reservation::new(pod, "n1".into()),
        profile: toys(),
        pre_bind: groups.iter().map(group).collect(),
        evaluated: 1,
        feasible: 1,
    }
}

async fn cycle(name: &str, labels: &[(&str, &str)], groups: &[&[u16]]) -> BindOutcome {
    let (tasks, _done) = Tasks::new();
    let (to_engine, engine) = without_engine();
    let api = Arc::new(LiveApi::new(FakeServer::script(Vec::new()).client(), CustomFeed::default()));
    let pod = labels.iter().fold(pod(name).uid(name), |pod, (key, value)| pod.label(key, value)).info();
    Binder::new(api, tasks, to_engine, unbounded_channel().0).run(task(pod, groups));
    sleep(Duration::from_secs(1)).await;
    let Ok(EngineMessage::Inputs(mut inputs)) = engine.try_recv() else { panic!("nothing was reported") };
    match inputs.pop() {
        Some(Input::BindFinished { uid, outcome }) if inputs.is_empty() && uid == name => outcome,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn groups_run_in_order_and_their_members_concurrently() {
    let together = cycle("together", &[], &[&[0, 1]]).await;
    let in_order = cycle("in-order", &[("Slow", "not-mine")], &[&[0], &[1]]).await;
    assert_eq!((together, in_order), (BindOutcome::Bound, BindOutcome::Bound));
    assert_eq!(logged("together"), ["pre Quick", "pre Slow", "bind Slow", "post Slow", "post Quick"]);
    assert_eq!(
        logged("in-order"),
        ["pre Slow", "pre Quick", "bind Slow", "bind Quick", "post Slow", "post Quick"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_ends_the_cycle_and_names_the_plugin() {
    let failed = |text: &str| BindOutcome::Failed(text.to_owned());
    let groups: &[&[u16]] = &[&[0], &[1]];
    assert_eq!(
        cycle("f1", &[("Slow", "pre-error")], groups).await,
        failed("running PreBind plugin \"Slow\": no volume")
    );
    assert_eq!(logged("f1"), ["pre Slow"]);
    assert_eq!(
        cycle("f2", &[("Slow", "bind-error")], &[]).await,
        failed("running Bind plugin \"Slow\": no way")
    );
    assert_eq!(logged("f2"), ["bind Slow"]);
    assert_eq!(
        cycle("f3", &[("Quick", "pre-reject")], groups).await,
        BindOutcome::Rejected(Reject::evictable("not now"))
    );
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_lost_when_a_plugin_panics() {
    for (pod, label, point) in [("f4", "panic", "Bind"), ("f5", "pre-panic", "PreBind")] {
        assert_eq!(
            cycle(pod, &[("Slow", label)], &[&[0]]).await,
            BindOutcome::Failed(format!(
                "running {point} plugin \"Slow\": plugin \"Slow\" panicked at {point}: oh no"
            ))
        );
    }
    assert_eq!(cycle("f6", &[("Slow", "post-panic")], &[]).await, BindOutcome::Bound);
    assert_eq!(logged("f6"), ["bind Slow", "post Slow", "post Quick"], "the next plugin still runs");
}

#[tokio::test(start_paused = true)]
async fn calls_for_a_pod_that_gave_up_its_node_precede_its_next_binding() {
    let server = FakeServer::always(|seen| {
        LOG.lock().unwrap().push(format!("undone {} {}", seen.method, seen.path));
        fake_server::json(200, &json!({}))
    });
    let (tasks, _done) = Tasks::new();
    let (to_engine, _engine) = without_engine();
    let api = Arc::new(LiveApi::new(server.client(), CustomFeed::default()));
    let binder = Binder::new(api, tasks, to_engine, unbounded_channel().0);
    let pod = pod("undone").info();
    let calls =
        ["a", "b"].map(|name| ApiCall::delete(ObjectPath { name: name.into(), ..ObjectPath::pod(&pod) }));
    binder.call(CallTask { pod: pod.clone(), calls: calls.into() });
    binder.run(task(pod, &[]));
    sleep(Duration::from_secs(1)).await;
    let pods = "/api/v1/namespaces/default/pods";
    let (a, b) = (format!("DELETE {pods}/a"), format!("DELETE {pods}/b"));
    assert_eq!(logged("undone"), [&a, &b, "bind Slow", "post Slow", "post Quick"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_binding_is_reported_after_the_engine_has_seen_what_the_binding_wrote() {
    for (name, label) in [("wrote", "pre-write"), ("wrote-in-vain", "bind-error")] {
        let ark = json!({ "metadata": { "name": "ark", "resourceVersion": "7" } });
        let server = FakeServer::always(move |_| fake_server::json(200, &ark));
        let ((tasks, _done), (to_engine, engine)) = (Tasks::new(), without_engine());
        let feed = CustomFeed::of([boat().key().resource]);
        let live = Arc::new(LiveApi::new(server.client(), feed.clone()));
        let binder = Binder::new(live, tasks, to_engine, unbounded_channel().0);
        binder.run(task(pod(name).label("Slow", label).label("Quick", "pre-write").info(), &[&[0], &[1]]));
        sleep(Duration::from_secs(1)).await;
        assert!(logged(name).contains(&"bind Slow".to_owned()));
        assert!(engine.try_recv().is_err(), "{name}");
        let ark = json!({ "metadata": { "name": "ark", "resourceVersion": "7" } });
        announce(&feed, boat().key(), Some(&ark));
        sleep(Duration::from_secs(1)).await;
        assert!(engine.try_recv().is_ok(), "{name}");
    }
}

/// Starts a binding whose PreBind runs two plugins in turn, for 50 ms and 1 ms, and tries to cancel the binding after
/// `millis`. Returns true if the binding could be canceled, and the outcome of the binding.
async fn stopped_after(name: &str, millis: u64) -> (bool, BindOutcome) {
    let (tasks, _done) = Tasks::new();
    let (to_engine, engine) = without_engine();
    let api = Arc::new(LiveApi::new(FakeServer::script(Vec::new()).client(), CustomFeed::default()));
    let binder = Binder::new(api, tasks, to_engine, unbounded_channel().0);
    binder.run(task(pod(name).uid(name).info(), &[&[0], &[1]]));
    sleep(Duration::from_millis(millis)).await;
    let stopped = binder.call_off(name, "nobody needs it");
    assert!(!binder.call_off(name, "again"));
    sleep(Duration::from_secs(1)).await;
    let Ok(EngineMessage::Inputs(mut inputs)) = engine.try_recv() else { panic!("nothing was reported") };
    let Some(Input::BindFinished { outcome, .. }) = inputs.pop() else { panic!("{inputs:?}") };
    (stopped, outcome)
}

#[tokio::test(start_paused = true)]
async fn a_binding_can_be_canceled_until_pre_bind_has_ended() {
    let failed = BindOutcome::Failed("nobody needs it".to_owned());
    assert_eq!(stopped_after("early", 10).await, (true, failed.clone()));
    assert_eq!(logged("early"), [""; 0]);
    assert_eq!(stopped_after("between", 50).await, (true, failed));
    assert_eq!(stopped_after("late", 60).await, (false, BindOutcome::Bound));
}

#[tokio::test(start_paused = true)]
async fn a_victim_in_pre_bind_is_evicted_without_an_api_call() {
    let (tasks, _done) = Tasks::new();
    let (to_engine, engine) = without_engine();
    let server = FakeServer::script(Vec::new());
    let api = Arc::new(LiveApi::new(server.client(), CustomFeed::default()));
    let binder = Binder::new(api, tasks, to_engine, unbounded_channel().0);
    let victim = pod("victim").uid("victim").info();
    let eviction =
        EvictTask { preemptor: "p".into(), round: 1, victim: victim.clone(), message: String::new() };
    assert!(binder.preempt(eviction.clone()).is_err(), "the victim is not being bound yet");
    binder.run(task(victim, &[&[0]]));
    sleep(Duration::from_millis(10)).await;
    assert!(binder.preempt(eviction).is_ok());
    sleep(Duration::from_secs(1)).await;
    let told: Vec<Input> = engine
        .try_iter()
        .flat_map(|message| if let EngineMessage::Inputs(inputs) = message { inputs } else { Vec::new() })
        .collect();
    let called_off = BindOutcome::Failed("preempted by DefaultPreemption".to_owned());
    assert!(
        matches!(&told[..], [
            Input::EvictFinished { outcome: EvictOutcome::CalledOff, .. },
            Input::BindFinished { uid, outcome },
        ] if uid == "victim" && *outcome == called_off),
        "{told:?}"
    );
    assert!(server.requests().is_empty());
}
