use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::{EventType, Options, watch::Watch};

fn store() -> Store {
    Store::new(Options::default())
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[test]
fn a_new_cluster_has_the_objects_that_every_cluster_has() {
    let names = |resource: &str| -> Vec<String> {
        store().list(resource, "", "", "").unwrap().0.iter().map(|o| o.key.to_string()).collect()
    };
    assert_eq!(names("namespaces"), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    assert_eq!(
        names("priorityclasses.scheduling.k8s.io"),
        ["system-cluster-critical", "system-node-critical"]
    );
    assert_eq!(names("serviceaccounts").len(), 4);
    assert!(names("pods").is_empty());
}

#[test]
fn creation_gives_an_object_its_identity() {
    let store = store();
    let mut object = pod("");
    object["metadata"]["generateName"] = json!("web-");
    let created = store.create("pods", object).unwrap().value();
    let metadata = &created["metadata"];
    assert_eq!((created["kind"].clone(), created["apiVersion"].clone()), (json!("Pod"), json!("v1")));
    assert!(metadata["name"].as_str().unwrap().starts_with("web-"), "{metadata}");
    assert_eq!((&metadata["generation"], &metadata["namespace"]), (&json!(1), &json!("default")));
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert_eq!(created["status"]["phase"], json!("Pending"));
}

#[test]
fn creation_is_refused_with_the_messages_of_kube_apiserver() {
    let store = store();
    store.create("pods", pod("a")).unwrap();
    let mut elsewhere = pod("a");
    elsewhere["metadata"]["namespace"] = json!("nowhere");
    let mut again = pod("b");
    again["metadata"]["resourceVersion"] = json!("1");
    for (object, code, message) in [
        (pod("a"), 409, "pods \"a\" already exists"),
        (elsewhere, 404, "namespaces \"nowhere\" not found"),
        (again, 500, "resourceVersion should not be set on objects to be created"),
        (
            pod(""),
            422,
            "Pod \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
    ] {
        let failure = store.create("pods", object).unwrap_err();
        assert_eq!((failure.code, failure.message.as_str()), (code, message));
    }
}

#[test]
fn the_status_and_the_rest_are_changed_separately() {
    let store = store();
    store.create("pods", pod("a")).unwrap();
    let main = store.update("pods", "default", "a", |pod| {
        pod["metadata"]["labels"] = json!({"x": "y"});
        pod["status"]["phase"] = json!("Failed");
    });
    let main = main.unwrap().value();
    assert_eq!(
        (&main["metadata"]["labels"]["x"], &main["status"]["phase"]),
        (&json!("y"), &json!("Pending"))
    );
    let status = store.update_status("pods", "default", "a", |pod| {
        pod["spec"]["nodeName"] = json!("n");
        pod["status"]["phase"] = json!("Running");
    });
    let status = status.unwrap().value();
    assert_eq!((&status["spec"]["nodeName"], &status["status"]["phase"]), (&Value::Null, &json!("Running")));
}

#[test]
fn a_write_that_changes_nothing_creates_no_version() {
    let store = store();
    let before = store.create("pods", pod("a")).unwrap();
    let after = store.update("pods", "default", "a", |_| {}).unwrap();
    assert_eq!(before.version(), after.version());
}

#[test]
fn a_change_of_the_spec_increments_the_generation_and_a_new_label_does_not() {
    let store = store();
    let web = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
                     "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    store.create("deployments.apps", web).unwrap();
    let resource = "deployments.apps";
    let labelled =
        store.update(resource, "default", "d", |d| d["metadata"]["labels"] = json!({"x": "y"})).unwrap();
    assert_eq!(labelled.value()["metadata"]["generation"], json!(1));
    let scaled = store.update(resource, "default", "d", |d| d["spec"]["replicas"] = json!(7)).unwrap();
    assert_eq!(scaled.value()["metadata"]["generation"], json!(2));
}

#[test]
fn a_pod_can_be_bound_only_once() {
    let store = store();
    store.create("pods", pod("a")).unwrap();
    store.bind("default", "a", "n1").unwrap();
    let bound = store.get("pods", "default", "a").unwrap().value();
    assert_eq!(bound["spec"]["nodeName"], json!("n1"));
    assert_eq!(bound["status"]["conditions"][0]["type"], json!("PodScheduled"));
    let failure = store.bind("default", "a", "n2").unwrap_err();
    assert_eq!(
        failure.message,
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\""
    );
    assert_eq!(store.bind("default", "zz", "n2").unwrap_err().code, 404);
}

#[test]
fn a_bound_pod_is_deleted_in_two_steps_and_an_unbound_pod_immediately() {
    let store = store();
    store.create("pods", pod("unbound")).unwrap();
    store.delete("pods", "default", "unbound", None).unwrap();
    assert!(store.get("pods", "default", "unbound").is_err());

    store.create("pods", pod("bound")).unwrap();
    store.bind("default", "bound", "n").unwrap();
    store.delete("pods", "default", "bound", None).unwrap();
    let ending = store.get("pods", "default", "bound").unwrap().value();
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], json!(30));
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    store.delete("pods", "default", "bound", Some(0)).unwrap();
    assert!(store.get("pods", "default", "bound").is_err());
}

#[test]
fn finalizers_keep_an_object_until_the_last_is_removed() {
    let store = store();
    let map = json!({"metadata": {"name": "m", "finalizers": ["a.b/c"]}});
    store.create("configmaps", map).unwrap();
    store.delete("configmaps", "default", "m", None).unwrap();
    let held = store.get("configmaps", "default", "m").unwrap().value();
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let more = store
        .update("configmaps", "default", "m", |m| m["metadata"]["finalizers"] = json!(["a.b/c", "d.e/f"]));
    assert_eq!(more.unwrap_err().code, 422);
    store.update("configmaps", "default", "m", |m| m["metadata"]["finalizers"] = json!([])).unwrap();
    assert!(store.get("configmaps", "default", "m").is_err());
}

#[test]
fn a_namespace_is_deleted_with_all_its_objects() {
    let store = store();
    store.create("namespaces", json!({"metadata": {"name": "x"}})).unwrap();
    store.create("configmaps", json!({"metadata": {"name": "m", "namespace": "x"}})).unwrap();
    store.delete("namespaces", "", "x", None).unwrap();
    assert_eq!(store.list("configmaps", "x", "", "").unwrap().0.len(), 0);
    assert_eq!(store.list("serviceaccounts", "x", "", "").unwrap().0.len(), 0);
}

#[test]
fn events_have_two_forms_and_one_store() {
    let store = store();
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "a"}, "note": "hello",
                       "reason": "Scheduled", "type": "Normal", "reportingController": "s"});
    store.create("events.events.k8s.io", event).unwrap();
    let old = store.get("events", "default", "e").unwrap();
    assert_eq!(
        (&old.value()["involvedObject"]["name"], &old.value()["message"]),
        (&json!("a"), &json!("hello"))
    );
    let new = crate::forms::shown(&store.kind("events.events.k8s.io").unwrap(), &old);
    assert_eq!((&new["regarding"]["name"], &new["note"]), (&json!("a"), &json!("hello")));
    assert_eq!(new["apiVersion"], json!("events.k8s.io/v1"));
    for fields in ["involvedObject.name=a,reason=Scheduled", "regarding.kind=Pod,reportingController=s"] {
        assert_eq!(store.list("events", "", "", fields).unwrap().0.len(), 1, "{fields}");
    }
}

#[test]
fn only_the_newest_of_many_events_are_kept() {
    let store = Store::new(Options { events: 10, ..Options::default() });
    for i in 0..100 {
        store.create("events", json!({"metadata": {"name": format!("e{i}")}})).unwrap();
    }
    let left = store.list("events", "", "", "").unwrap().0;
    assert!((10..=11).contains(&left.len()), "{}", left.len());
    assert!(store.get("events", "default", "e99").is_ok());
}

#[test]
fn thirty_thousand_events_are_kept_by_default() {
    let store = store();
    for i in 0..30_000 {
        store.create("events", json!({"metadata": {"name": format!("e{i}")}})).unwrap();
    }
    assert_eq!(store.list("events", "", "", "").unwrap().0.len(), 30_000);
}

/// State known to a watcher: the version of each object.
type Known = BTreeMap<String, u64>;

/// Reads a watch while writers write, up to the version in `done`, which is 0 until the writers have finished. Checks
/// that every event is consistent with the events before it.
async fn replay(mut watch: Watch, done: Arc<AtomicU64>) -> Known {
    let mut known = Known::new();
    let mut last = 0;
    loop {
        let until = done.load(Ordering::SeqCst);
        let was_initial = !watch.is_past_initial();
        let Ok(events) = timeout(Duration::from_millis(20), watch.next()).await else {
            if until > 0 && watch.version() >= until {
                return known;
            }
            assert!(watch.poll().expect("the history is long enough").is_empty(), "a wake-up was missed");
            continue;
        };
        for event in events.expect("the history is long enough") {
            let (key, version) = (event.object.key.to_string(), event.object.version());
            assert!(was_initial || version > last, "{key} at {version} after {last}");
            last = last.max(version);
            let before = match event.event {
                EventType::Deleted => known.remove(&key),
                _ => known.insert(key.clone(), version),
            };
            assert_eq!(before.is_some(), event.event != EventType::Added, "{key} at {version}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watchers_end_up_with_the_listed_state_whatever_writers_do() {
    for seed in 0..6u64 {
        let store = Store::new(Options { seed: Some(seed), history: 1 << 16, ..Options::default() });
        let selectors = [
            ("", ""),
            ("color=red", ""),
            ("color!=red", ""),
            ("", "metadata.name=m3"),
            ("color in (red,blue)", ""),
        ];
        let done = Arc::new(AtomicU64::new(0));
        let mut watchers = Vec::new();
        let mut begin = |store: &Store| {
            for (labels, fields) in selectors {
                let watch = store.watch("configmaps", "default", labels, fields).unwrap();
                watchers.push((labels, fields, tokio::spawn(replay(watch, done.clone()))));
            }
        };
        begin(&store);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let store = store.clone();
                tokio::task::spawn_blocking(move || write_at_random(&store, seed * 10 + writer))
            })
            .collect();
        // Some watches begin while writers are writing.
        tokio::time::sleep(Duration::from_millis(5)).await;
        begin(&store);
        for writer in writers {
            writer.await.unwrap();
        }
        done.store(store.version(), Ordering::SeqCst);
        for (labels, fields, watcher) in watchers {
            let seen = watcher.await.unwrap();
            let (listed, _) = store.list("configmaps", "default", labels, fields).unwrap();
            let listed: Known = listed.iter().map(|o| (o.key.to_string(), o.version())).collect();
            assert_eq!(seen, listed, "seed {seed}: {labels} {fields}");
        }
    }
}

fn write_at_random(store: &Store, seed: u64) {
    let random = Random::new(Some(seed));
    for _ in 0..400 {
        let number = u64::from_str_radix(&random.uid()[..8], 16).unwrap();
        let name = format!("m{}", number % 12);
        let color = ["red", "blue", "green"][(number >> 8) as usize % 3];
        // Other writers may be faster; any outcome is fine as long as watchers see it.
        let _ = match (number >> 16) % 4 {
            0 => store.delete("configmaps", "default", &name, None),
            1 => store
                .create("configmaps", json!({"metadata": {"name": name, "labels": {"color": color}}}))
                .map(|_| ()),
            _ => store
                .update("configmaps", "default", &name, |m| m["metadata"]["labels"]["color"] = json!(color))
                .map(|_| ()),
        };
    }
}

#[tokio::test]
async fn only_a_watcher_that_is_too_slow_is_cut_off() {
    let store = Store::new(Options { history: 8, ..Options::default() });
    let mut slow = store.watch("configmaps", "", "", "").unwrap();
    let mut fast = store.watch("configmaps", "", "", "").unwrap();
    for i in 0..20 {
        store.create("configmaps", json!({"metadata": {"name": format!("m{i}")}})).unwrap();
        assert_eq!(fast.next().await.unwrap().len(), 1);
    }
    let expired = slow.next().await.unwrap_err();
    assert!(expired.to_string().starts_with("too old resource version: "), "{expired}");
}
