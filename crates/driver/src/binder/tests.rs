//! Bindings against an API server made of canned replies, and the order of plugins.

use std::{sync::Mutex, time::Duration};

use harbormaster_framework::{prelude::*, profile::Profile, registry::Registry, sweep::PluginIdx};
use harbormaster_testkit::{pod, profile};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::canned::{self, Canned, refused_connection, reply, status};

async fn bind(server: &Canned) -> Result<(), String> {
    let pod = pod("p").namespace("ns").uid("u1").info();
    let outcome = LiveApi::new(server.client()).bind(&pod, &"n1".into()).await;
    outcome.map_err(|e| e.to_string())
}

fn taken() -> http::Response<crate::http::ResponseBody> {
    status(409, "Conflict", "pod p is already assigned to node \"n\"")
}

fn placed(uid: &str, node: &str) -> http::Response<crate::http::ResponseBody> {
    canned::json(200, &json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}}))
}

#[tokio::test]
async fn a_binding_names_pod_uid_and_node() {
    let server = Canned::script(vec![reply(201, r#"{"kind":"Status","status":"Success"}"#)]);
    assert_eq!(bind(&server).await, Ok(()));
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/api/v1/namespaces/ns/pods/p/binding"));
    assert_eq!(
        seen.body,
        r#"{"kind":"Binding","apiVersion":"v1","metadata":{"name":"p","namespace":"ns","uid":"u1"},"target":{"kind":"Node","name":"n1"}}"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_a_success_only_if_this_pod_is_on_the_chosen_node() {
    let no = Err("pod p is already assigned to node \"n\"".to_owned());
    for (found, expected) in [
        (placed("u1", "n1"), Ok(())),
        (placed("u1", "n2"), no.clone()),
        (placed("u2", "n1"), no.clone()),
        (canned::json(200, &json!({"metadata": {"uid": "u1"}, "spec": {}})), no.clone()),
        (status(404, "NotFound", "gone"), no),
    ] {
        let server = Canned::script(vec![taken(), found]);
        assert_eq!(bind(&server).await, expected);
        assert_eq!(server.seen()[1].method, "GET");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_fails_at_once() {
    let server = Canned::script(vec![status(404, "NotFound", "pods \"p\" not found")]);
    assert_eq!(bind(&server).await, Err("pods \"p\" not found".to_owned()));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn passing_failures_are_tried_again() {
    let mut calls = 0;
    let server = Canned::new(move |_| {
        calls += 1;
        match calls {
            1 => Ok(status(500, "InternalError", "etcd is away")),
            2 => Err(refused_connection().into()),
            _ => Ok(reply(201, "{}")),
        }
    });
    assert_eq!(bind(&server).await, Ok(()));
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_try_that_came_through_in_spite_of_its_failure_counts() {
    let server = Canned::script(vec![status(504, "Timeout", "too slow"), taken(), placed("u1", "n1")]);
    assert_eq!(bind(&server).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_given_up_after_four_tries() {
    let server = Canned::new(|_| Err(refused_connection().into()));
    let error = bind(&server).await.unwrap_err();
    assert!(error.contains("connection refused"), "{error}");
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_wish_to_be_left_alone_is_honoured() {
    let mut busy = status(429, "TooManyRequests", "busy");
    busy.headers_mut().insert("retry-after", http::HeaderValue::from_static("3"));
    let server = Canned::script(vec![busy, reply(201, "{}")]);
    let begun = Instant::now();
    assert_eq!(bind(&server).await, Ok(()));
    assert!(begun.elapsed() >= Duration::from_secs(3));
}

// --- binding cycles ---

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(cx: &BindCycle, what: &str) {
    LOG.lock().unwrap().push(format!("{} {what}", cx.pod.name));
}

fn logged(pod: &str) -> Vec<String> {
    let prefix = format!("{pod} ");
    LOG.lock().unwrap().iter().filter_map(|l| l.strip_prefix(&prefix)).map(str::to_owned).collect()
}

/// A plugin whose behaviour depends on labels of the pod.
macro_rules! toy {
    ($name:ident, $millis:literal) => {
        struct $name;

        impl Plugin for $name {
            const NAME: &'static str = stringify!($name);
            type FilterState = ();
            type ScoreState = ();
            fn points(points: &mut Points<Self>) {
                points.pre_bind().bind().post_bind();
            }
        }

        impl Build for $name {
            type Args = NoArgs;
            fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
                Ok(Self)
            }
        }

        impl PreBind for $name {
            async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
                sleep(Duration::from_millis($millis)).await;
                log(cx, concat!("pre ", stringify!($name)));
                match cx.pod.labels.get(stringify!($name)).map(Str::as_str) {
                    Some("pre-error") => Err(PluginError::from("no volume").into()),
                    Some("pre-panic") => panic!("oh no"),
                    Some("pre-reject") => Err(Stop::Reject(Reject::evictable("not now"))),
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
            fn post_bind(&self, cx: &BindCycle) {
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

async fn cycle(name: &str, labels: &[(&str, &str)], groups: &[&[u16]]) -> BindOutcome {
    let (tasks, _done) = Tasks::new();
    let (to_engine, engine) = mpsc::channel();
    let api = Arc::new(LiveApi::new(Canned::script(Vec::new()).client()));
    let pod = labels.iter().fold(pod(name).uid(name), |pod, (key, value)| pod.label(key, value)).info();
    let pre_bind = groups.iter().map(|g| g.iter().map(|i| PluginIdx(*i)).collect()).collect();
    Binder::new(api, tasks, to_engine).run(BindTask {
        pod,
        node: "n1".into(),
        profile: toys(),
        pre_bind,
        evaluated: 1,
        feasible: 1,
    });
    sleep(Duration::from_secs(1)).await;
    let Ok(ToEngine::Inputs(mut inputs)) = engine.try_recv() else { panic!("nothing was reported") };
    match inputs.pop() {
        Some(Input::BindFinished { uid, outcome }) if inputs.is_empty() && uid == name => outcome,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn groups_run_in_order_and_their_members_side_by_side() {
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
async fn a_plugin_that_panics_loses_no_pod() {
    for (pod, label, point) in [("f4", "panic", "Bind"), ("f5", "pre-panic", "PreBind")] {
        assert_eq!(
            cycle(pod, &[("Slow", label)], &[&[0]]).await,
            BindOutcome::Failed(format!(
                "running {point} plugin \"Slow\": plugin \"Slow\" panicked at {point}: oh no"
            ))
        );
    }
    assert_eq!(cycle("f6", &[("Slow", "post-panic")], &[]).await, BindOutcome::Bound);
    assert_eq!(logged("f6"), ["bind Slow", "post Slow", "post Quick"], "the next plugin is told");
}
