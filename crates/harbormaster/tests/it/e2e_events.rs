//! Events: none is lost while the API server accepts events, however many are sent in a burst, and a server that
//! accepts no events for a while receives all of them afterwards.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::Duration,
};

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, create_all, events_by_pod, eventually, name_of},
    objects::{NODES, PODS, default_config, node, pod},
    pod_watch::PodWatch,
    process::Harbormaster,
    proxy::{Fault, Gate},
    scene::Scene,
    server::{Server, on_both_servers},
};

on_both_servers! {
    every_pod_of_a_burst_gets_its_event,
    a_server_that_rejects_events_for_a_while_gets_all_of_them_afterwards,
    bindings_and_events_are_the_same_in_both_encodings,
}

const SCHEDULER: &str = "default-scheduler";

fn every_pod_of_a_burst_gets_its_event(server: Server) {
    const NODE_COUNT: usize = 30;
    const POD_COUNT: usize = 1500;
    const MISFITS: usize = 300;
    let cluster = server.own();
    let client = cluster.client();
    let nodes: Vec<Value> =
        (0..NODE_COUNT).map(|i| node(&format!("node-{i}"), json!({}), "16", "32Gi", 110)).collect();
    create_all(client, NODES, &nodes);
    // All pods exist before the scheduler starts. Those that fit nowhere are interspersed with the others.
    let requests = json!({"cpu": "100m"});
    let mut pods: Vec<Value> =
        (0..POD_COUNT).map(|i| pod(&format!("pod-{i}"), SCHEDULER, requests.clone(), json!({}))).collect();
    for i in 0..MISFITS {
        let spec = json!({"nodeSelector": {"disk": "none"}});
        pods.insert(i * 6, pod(&format!("misfit-{i}"), SCHEDULER, requests.clone(), spec));
    }
    create_all(client, PODS, &pods);

    let watch = PodWatch::start(client);
    let config =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let log = cluster.directory().join("harbormaster.log");
    let harbormaster = Harbormaster::start(&[format!("--config={}", config.display())], log);
    eventually("every pod that fits is bound", PATIENCE, || (watch.bound() >= POD_COUNT).then_some(()));
    let events = eventually("every pod has its event", PATIENCE, || {
        let events = events_by_pod(client);
        (events.len() >= POD_COUNT + MISFITS).then_some(events)
    });
    let about = |reason: &str| -> BTreeSet<&str> {
        events.keys().filter(|(of, _)| of == reason).map(|(_, pod)| pod.as_str()).collect()
    };
    let (misfits, bound): (Vec<&str>, Vec<&str>) =
        pods.iter().map(name_of).partition(|name| name.starts_with("misfit"));
    assert_eq!(about("Scheduled"), BTreeSet::from_iter(bound));
    assert_eq!(about("FailedScheduling"), BTreeSet::from_iter(misfits));
    let scheduled = events.iter().filter(|((reason, _), _)| reason == "Scheduled");
    assert!(scheduled.clone().all(|(_, events)| events.len() == 1));
    let log = harbormaster.ends_well();
    let trouble = ["dropped event", "Unable to write event", "rejected event", "could not be written"];
    assert!(trouble.iter().all(|trouble| !log.contains(trouble)), "{log}");
}

fn a_server_that_rejects_events_for_a_while_gets_all_of_them_afterwards(server: Server) {
    const POD_COUNT: usize = 100;
    let scene = Scene::new(server, "overloaded");
    // Twenty pods fill a node.
    for index in 1..POD_COUNT / 20 {
        scene.create_node(&format!("node-{index}"), "2", "a");
    }
    let harbormaster = scene.started();
    let gate = Gate::default();
    let (first, second, busy) = (gate.clone(), gate.clone(), AtomicBool::new(false));
    scene.proxy.fault(usize::MAX, Fault::retry_after_a_second(429, "TooManyRequests"), move |request| {
        request.is_write_of_an_event() && !first.is_open() && busy.fetch_not(Ordering::Relaxed)
    });
    scene.proxy.fault(usize::MAX, Fault::status(500, "InternalError"), move |request| {
        request.is_write_of_an_event() && !second.is_open()
    });
    scene.create_for("misfit", "100m", json!({"scene": scene.name, "rack": "none"}));
    scene.create_many(POD_COUNT);
    scene.many_are_bound(POD_COUNT);
    for index in 0..POD_COUNT {
        scene.has_statuses(&format!("many-{index}"), &[201]);
    }
    let prefix = scene.full("");
    let explained = || {
        let events = events_by_pod(&scene.client);
        events.into_keys().filter(|(_, pod)| pod.starts_with(&prefix)).collect::<BTreeSet<_>>()
    };
    sleep(Duration::from_secs(5));
    assert_eq!(explained(), BTreeSet::new());
    gate.open();
    let all = eventually("all events are written", PATIENCE, || {
        Some(explained()).filter(|all| all.len() > POD_COUNT)
    });
    let mut expected: BTreeSet<_> =
        (0..POD_COUNT).map(|index| ("Scheduled".to_owned(), scene.full(&format!("many-{index}")))).collect();
    expected.insert(("FailedScheduling".to_owned(), scene.full("misfit")));
    assert_eq!(all, expected);
    let failures = harbormaster.lines_with(&["Unable to write event"]);
    let minutes = PATIENCE.as_secs() / 60;
    assert!(!failures.is_empty() && failures.len() as u64 <= 2 * (minutes + 1), "{failures:#?}");
    let log = scene.ends_well(harbormaster);
    let lost = ["dropped event", "retry limit", "rejected event", "could not be written"];
    assert!(lost.iter().all(|lost| !log.contains(lost)), "{log}");
}

fn bindings_and_events_are_the_same_in_both_encodings(server: Server) {
    let cluster = server.own();
    let client = cluster.client();
    create_all(client, NODES, &[node("node", json!({}), "16", "32Gi", 110)]);
    let events_in = |encoding: &str, content_type: &str| -> Vec<Value> {
        let mut config = default_config();
        config["clientConnection"] = json!({"contentType": content_type});
        let config =
            cluster.write_scheduler_config(&config.to_string()).expect("the configuration is written");
        let log = cluster.directory().join(format!("{encoding}.log"));
        let harbormaster = Harbormaster::start(&[format!("--config={}", config.display())], log);
        let (fits, misfit) = (format!("fits-{encoding}"), format!("misfit-{encoding}"));
        let requests = json!({"cpu": "100m"});
        let unfit = json!({"nodeSelector": {"disk": "none"}});
        let pods =
            [pod(&fits, SCHEDULER, requests.clone(), json!({})), pod(&misfit, SCHEDULER, requests, unfit)];
        create_all(client, PODS, &pods);
        let events = eventually("both pods have their event", PATIENCE, || {
            let mut events = events_by_pod(client);
            let scheduled = events.remove(&("Scheduled".to_owned(), fits.clone()))?;
            let failed = events.remove(&("FailedScheduling".to_owned(), misfit.clone()))?;
            Some([scheduled, failed].concat())
        });
        harbormaster.ends_well();
        events.into_iter().map(|event| without_identity(event, encoding)).collect()
    };
    let in_json = events_in("json", "application/json");
    assert_eq!(in_json.len(), 2, "{in_json:#?}");
    assert_eq!(in_json, events_in("protobuf", "application/vnd.kubernetes.protobuf"));
}

/// Returns an event without what differs from one pod to the next.
fn without_identity(mut event: Value, encoding: &str) -> Value {
    let time = event["eventTime"].take();
    assert_eq!(time.as_str().map(str::len), Some("2026-01-01T00:00:00.000000Z".len()), "{time}");
    let name = event["metadata"]["name"].take();
    event["metadata"] = json!({"namespace": event["metadata"]["namespace"], "named": name.is_string()});
    for field in ["uid", "resourceVersion"] {
        assert!(event["regarding"][field].take().is_string(), "{event}");
    }
    serde_json::from_str(&event.to_string().replace(encoding, "")).expect("the event is JSON")
}
