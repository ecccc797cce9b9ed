//! High-priority pods evict only the pods that they must evict, whatever happens to the API server, the victims and
//! Harbormaster itself in the meantime.
//!
//! The tests place all victims. There is no kubelet: a pod with a grace period stays until the test removes it, and a
//! pod without a grace period disappears when it is deleted.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use serde_json::json;

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, events, eventually, get_pod, wait_until_bound, wait_until_explained},
    objects::{PODS, disruption, is_terminating, node_of},
    proxy::{Fault, Request},
    scene::Scene,
    server::{Server, on_both_servers},
};

on_both_servers! {
    a_pod_evicts_only_the_pods_in_its_way_and_waits_until_they_are_gone,
    the_last_of_several_victims_is_deleted_after_all_the_others,
    no_pod_is_evicted_if_eviction_cannot_help,
    an_eviction_with_faults_is_finished_and_no_other_pod_is_evicted,
    a_victim_that_is_gone_or_has_been_replaced_is_not_deleted,
    a_preemptor_whose_victim_cannot_be_deleted_blocks_no_other_pod,
    the_next_scheduler_continues_after_one_is_killed_while_evicting,
}

const MIDDLE: Option<&str> = Some("middle");
const HIGH: Option<&str> = Some("high");
const LONG: u32 = 600;
/// Long enough for all effects of a wrong decision to show.
const QUIET: Duration = Duration::from_millis(1500);

/// Returns the number of `DELETE`s that reached the proxy.
fn deletes(scene: &Scene) -> usize {
    scene.proxy.count(|request| request.method == "DELETE")
}

/// Creates the node `node-{row}` with two CPUs in its own rack, and on it the pod `low-{row}` and, with middle
/// priority, the pod `rest-{row}`.
fn full_node(scene: &Scene, row: &str, rest_cpu: &str, seconds: u32) {
    let node = format!("node-{row}");
    scene.create_node(&node, "2", row);
    scene.place(&format!("low-{row}"), None, "1", &node, seconds);
    scene.place(&format!("rest-{row}"), MIDDLE, rest_cpu, &node, seconds);
}

/// Asserts that the preemptor of a row is bound to the row's node and that the other pod there stays.
fn preempted(scene: &Scene, row: &str) {
    let node = wait_until_bound(&scene.client, &scene.full(&format!("top-{row}")));
    assert_eq!(node, scene.full(&format!("node-{row}")));
    stays(scene, &format!("rest-{row}"));
}

/// Asserts that the pod is bound, is not being deleted, and is not marked for eviction.
fn stays(scene: &Scene, name: &str) {
    let pod = scene.get(name).unwrap_or_else(|| panic!("{name} is gone"));
    assert!(node_of(&pod).is_some() && !is_terminating(&pod) && disruption(&pod).is_none(), "{pod}");
}

/// Returns the notes of the `Preempted` events about a pod.
fn notes(scene: &Scene, name: &str) -> Vec<String> {
    let events = events(&scene.client, &scene.full(name), "Preempted");
    events.iter().map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

fn a_pod_evicts_only_the_pods_in_its_way_and_waits_until_they_are_gone(server: Server) {
    let scene = Scene::new(server, "just");
    // On the best node, preemption costs one pod of the lowest priority; on each other node, two such pods or one pod
    // of middle priority.
    full_node(&scene, "best", "1", LONG);
    for (node, class, cpu) in [("dear", MIDDLE, "1"), ("many", None, "500m")] {
        scene.create_node(&format!("node-{node}"), "2", "best");
        scene.place(&format!("{node}-1"), class, cpu, &format!("node-{node}"), LONG);
        scene.place(&format!("{node}-2"), class, cpu, &format!("node-{node}"), LONG);
    }
    scene.place("many-3", MIDDLE, "1", "node-many", LONG);
    let harbormaster = scene.started();
    scene.create_ranked("top-best", HIGH, "1", "best");

    let victim = scene.is_going("low-best");
    let expected = ["True", "PreemptionByScheduler", "just: preempting to accommodate a higher priority pod"];
    assert_eq!(disruption(&victim), Some(expected));
    assert_eq!(victim["metadata"]["deletionGracePeriodSeconds"], LONG, "the victim's own grace period");
    assert_eq!(scene.is_nominated("top-best"), scene.full("node-best"));
    let (reason, message) = wait_until_explained(&scene.client, &scene.full("top-best"));
    assert_eq!(reason, "Unschedulable");
    // Nodes of other tests may cause a second attempt while the victim is going.
    let first =
        message.replace("preemption: not eligible due to a terminating pod on the nominated node.", "");
    assert!(first.contains("Insufficient cpu") && !first.contains("preemption:"), "{message}");
    let preemptor = scene.get("top-best").expect("the preemptor exists");
    let uid = preemptor["metadata"]["uid"].as_str().expect("a UID");
    let note = format!("Preempted by pod {uid} on node {}", scene.full("node-best"));
    let event = eventually("the victim has an event", PATIENCE, || {
        events(&scene.client, &scene.full("low-best"), "Preempted").pop()
    });
    assert_eq!(event["note"], json!(note));
    assert_eq!([&event["type"], &event["action"]], ["Normal", "Preempting"]);
    assert_eq!(event["reportingController"], "just");
    sleep(QUIET);
    assert!(scene.is_pending("top-best"));

    // A pod that is created later does not get the freed capacity.
    scene.create_ranked("late", MIDDLE, "1", "best");
    wait_until_explained(&scene.client, &scene.full("late"));
    scene.finish("low-best");
    preempted(&scene, "best");
    eventually("the late pod evicts other pods", PATIENCE, || {
        (scene.evicted() == ["low-best", "many-1", "many-2"]).then_some(())
    });
    // A node of another test may cause an attempt between the answer to a deletion and the event that shows it. The
    // victim is then deleted once more, which changes nothing.
    let deleted = || -> BTreeSet<String> {
        let records = scene.proxy.records(|request| request.method == "DELETE");
        records.into_iter().map(|record| record.request.path).collect()
    };
    let paths = ["low-best", "many-1", "many-2"].map(|name| format!("{PODS}/{}", scene.full(name)));
    eventually("the proxy has noted the deletions", PATIENCE, || {
        (deleted() == paths.clone().into()).then_some(())
    });
    scene.ends_well(harbormaster);
}

fn the_last_of_several_victims_is_deleted_after_all_the_others(server: Server) {
    let scene = Scene::new(server, "several");
    scene.create_node("big", "2", "big");
    let victims = ["v1", "v2", "v3", "v4"];
    for name in victims {
        scene.place(name, None, "500m", "big", 0);
    }
    let harbormaster = scene.started();
    // Three of the deletions are slow.
    scene.proxy.fault(3, Fault::delay(Duration::from_millis(300)), |request| request.method == "DELETE");
    scene.create_ranked("top", HIGH, "2", "big");
    assert_eq!(wait_until_bound(&scene.client, &scene.full("top")), scene.full("big"));
    let all = scene.proxy.records(|request| request.method == "DELETE");
    assert_eq!(all.len(), victims.len());
    assert!(
        all[3].at - all[2].at >= Duration::from_millis(290),
        "the last deletion waits for the responses to the others"
    );
    assert_eq!(scene.evicted(), victims);
    // Only the end of the last deletion leads to another attempt. If the watch shows that the last victims are gone one
    // after the other, there are two.
    let attempts = harbormaster.attempts(&scene.full("top"));
    assert!([2, 3].contains(&attempts), "{attempts} attempts");
    for name in victims {
        assert_eq!(
            eventually("the victim has an event", PATIENCE, || Some(notes(&scene, name))
                .filter(|n| !n.is_empty()))
            .len(),
            1
        );
    }
    scene.ends_well(harbormaster);
}

fn no_pod_is_evicted_if_eviction_cannot_help(server: Server) {
    let scene = Scene::new(server, "helpless");
    full_node(&scene, "full", "1", 0);
    scene.create_node("equal", "2", "equal");
    scene.place("peer", HIGH, "2", "equal", 0);
    let harbormaster = scene.started();
    for (name, class, cpu, rack, says) in [
        ("nowhere", "high", "1", "nowhere", "Preemption is not helpful for scheduling"),
        ("too-large", "high", "3", "full", "Preemption is not helpful for scheduling"),
        ("patient", "patient", "1", "full", "preemption: not eligible due to preemptionPolicy=Never."),
        ("equal", "high", "1", "equal", "No preemption victims found for incoming pod"),
        ("low", "", "1", "full", "No preemption victims found for incoming pod"),
    ] {
        let name = format!("{name}-pod");
        scene.create_ranked(&name, (!class.is_empty()).then_some(class), cpu, rack);
        let (reason, message) = wait_until_explained(&scene.client, &scene.full(&name));
        assert_eq!(reason, "Unschedulable");
        assert!(message.contains("preemption: ") && message.contains(says), "{name}: {message}");
    }
    sleep(QUIET);
    assert_eq!(deletes(&scene), 0);
    for name in ["low-full", "rest-full", "peer"] {
        stays(&scene, name);
    }
    scene.ends_well(harbormaster);
}

/// Returns the faults to inject into a request, each with a name and the number of times to inject it.
fn troubles() -> [(&'static str, usize, Fault); 6] {
    [
        ("500", 2, Fault::status(500, "InternalError")),
        ("503", 2, Fault::status(503, "ServiceUnavailable")),
        ("429", 2, Fault::retry_after_a_second(429, "TooManyRequests")),
        ("break", 2, Fault::Break),
        ("lie", 1, Fault::LieAfterwards { status: 500 }),
        ("cut", 1, Fault::BreakAfterwards),
    ]
}

/// Injects a fault into one request of an eviction.
fn fault(scene: &Scene, step: &str, row: &str, times: usize, fault: Fault) {
    let (is_patch, victim) = (step == "patch", scene.full(&format!("low-{row}")));
    scene.proxy.fault(times, fault, move |request: &Request| match is_patch {
        true => request.is_status_of(&victim),
        false => request.is_delete_of(&victim),
    });
}

fn an_eviction_with_faults_is_finished_and_no_other_pod_is_evicted(server: Server) {
    let scene = Scene::new(server, "trouble");
    let mut rows = Vec::new();
    for step in ["patch", "delete"] {
        for (what, times, trouble) in troubles() {
            for seconds in [0, LONG] {
                let row = format!("{step}-{what}-{seconds}");
                full_node(&scene, &row, "1", seconds);
                fault(&scene, step, &row, times, trouble.clone());
                rows.push((row, seconds));
            }
        }
    }
    let harbormaster = scene.started();
    for (row, _) in &rows {
        scene.create_ranked(&format!("top-{row}"), HIGH, "1", row);
    }
    let slow = || rows.iter().filter(|(_, seconds)| *seconds > 0);
    for (row, _) in slow() {
        scene.is_going(&format!("low-{row}"));
    }
    sleep(QUIET);
    for (row, _) in slow() {
        assert!(scene.is_pending(&format!("top-{row}")), "{row}");
        scene.finish(&format!("low-{row}"));
    }
    for (row, _) in &rows {
        preempted(&scene, row);
    }
    let mut victims: Vec<String> = rows.iter().map(|(row, _)| format!("low-{row}")).collect();
    victims.sort_unstable();
    assert_eq!(scene.evicted(), victims);
    for (row, _) in &rows {
        let victim = scene.full(&format!("low-{row}"));
        let deletes = scene.proxy.count(|request| request.is_delete_of(&victim));
        // Each kind of request is sent once more if the preemptor is woken between the response and the victim's delete
        // event.
        assert!(deletes <= 4, "{row}: {deletes} DELETEs");
        let top = scene.get(&format!("top-{row}")).expect("the preemptor exists");
        let uid = top["metadata"]["uid"].as_str().expect("a UID");
        let notes = notes(&scene, &format!("low-{row}"));
        assert!(notes.len() <= 2 && notes.iter().all(|note| note.contains(uid)), "{row}: {notes:?}");
    }
    scene.ends_well(harbormaster);
}

fn a_victim_that_is_gone_or_has_been_replaced_is_not_deleted(server: Server) {
    let scene = Scene::new(server, "vanish");
    let rows = ["gone-patch", "gone-delete", "again-patch", "again-delete"];
    for row in rows {
        full_node(&scene, row, "980m", 0);
        let (what, step) = row.split_once('-').expect("two words");
        let low = format!("low-{row}");
        let (client, name) = (scene.client.clone(), scene.full(&low));
        let next = (what == "again").then(|| scene.placed(&low, None, "10m", &format!("node-{row}"), 0));
        let act = move || {
            delete_pod(&client, &name);
            if let Some(next) = &next {
                client.post(PODS, next).expect("the pod is created again");
            }
        };
        fault(&scene, step, row, 1, Fault::After(Arc::new(act)));
    }
    let harbormaster = scene.started();
    for row in rows {
        scene.create_ranked(&format!("top-{row}"), HIGH, "1", row);
    }
    for row in rows {
        preempted(&scene, row);
    }
    sleep(QUIET);
    for row in rows {
        let low = format!("low-{row}");
        match row.starts_with("again") {
            true => stays(&scene, &low),
            false => assert!(scene.get(&low).is_none()),
        }
        assert!(notes(&scene, &low).is_empty(), "{row}");
        assert!(deletes(&scene) <= 2 * rows.len());
        // There are three attempts, and a few more if the preemptor is woken before the victim's delete event arrives,
        // but no endless loop.
        let attempts = harbormaster.attempts(&scene.full(&format!("top-{row}")));
        assert!(attempts <= 6, "{row}: {attempts} attempts");
    }
    scene.ends_well(harbormaster);
}

fn a_preemptor_whose_victim_cannot_be_deleted_blocks_no_other_pod(server: Server) {
    let scene = Scene::new(server, "never");
    full_node(&scene, "full", "1", 0);
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, victim) = (Arc::clone(&is_over), scene.full("low-full"));
    scene.proxy.fault(usize::MAX, Fault::status(403, "Forbidden"), move |request| {
        request.is_delete_of(&victim) && !over.load(Ordering::Relaxed)
    });
    let harbormaster = scene.started();
    scene.create_ranked("top-full", HIGH, "1", "full");
    eventually("a DELETE is refused", PATIENCE, || (deletes(&scene) > 0).then_some(()));
    for name in ["one", "two", "three"] {
        scene.another_is_bound(name);
    }
    assert!(scene.evicted().is_empty() && scene.is_pending("top-full"));
    is_over.store(true, Ordering::Relaxed);
    preempted(&scene, "full");
    assert_eq!(scene.evicted(), ["low-full"]);
    scene.ends_well(harbormaster);
}

fn the_next_scheduler_continues_after_one_is_killed_while_evicting(server: Server) {
    let scene = Scene::new(server, "slain");
    // When the scheduler is killed, two victims are terminating, and the third is marked for eviction but not deleted.
    // The first victim disappears before the next scheduler starts.
    for (row, seconds) in [("ended", LONG), ("ending", LONG), ("told", 0)] {
        full_node(&scene, row, "1", seconds);
    }
    let is_dead = Arc::new(AtomicBool::new(false));
    let dead = Arc::clone(&is_dead);
    let told = scene.full("low-told");
    scene.proxy.fault(usize::MAX, Fault::Break, move |request| {
        request.is_delete_of(&told) && !dead.load(Ordering::Relaxed)
    });
    let first = scene.started();
    for row in ["ended", "ending", "told"] {
        scene.create_ranked(&format!("top-{row}"), HIGH, "1", row);
    }
    for row in ["ended", "ending"] {
        scene.is_going(&format!("low-{row}"));
        scene.is_nominated(&format!("top-{row}"));
    }
    eventually("the third victim is marked", PATIENCE, || {
        scene.get("low-told").filter(|pod| disruption(pod).is_some()).map(|_| ())
    });
    first.kill();
    is_dead.store(true, Ordering::Relaxed);
    scene.finish("low-ended");
    // The rival needs the same capacity.
    scene.create_ranked("rival", MIDDLE, "1", "ended");

    let second = scene.start();
    preempted(&scene, "ended");
    preempted(&scene, "told");
    sleep(QUIET);
    assert!(scene.is_pending("top-ending") && scene.is_pending("rival"));
    stays(&scene, "rest-ending");
    scene.finish("low-ending");
    preempted(&scene, "ending");
    assert_eq!(scene.evicted(), ["low-ended", "low-ending", "low-told"]);
    assert!(get_pod(&scene.client, &scene.full("rival")).is_some_and(|pod| node_of(&pod).is_none()));
    scene.ends_well(second);
}
