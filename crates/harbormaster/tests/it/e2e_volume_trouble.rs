//! PreBind under faults: whatever happens to its writes and to the API server, pods end up on nodes that can use their
//! volumes, no volume has two claims, and volumes that were reserved but not used are available to other claims.
//!
//! `e2e/volume_scene.rs` defines the conditions that must hold at the end. `e2e_volume_wait.rs` covers what can happen
//! while PreBind waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use crate::e2e::{
    cluster::{PATIENCE, eventually},
    proxy::{Fault, Request, write_faults},
    scene::statuses,
    server::{Server, on_both_servers},
    volume_scene::VolumeScene,
};

on_both_servers! {
    pods_are_bound_despite_failing_writes_of_volumes,
    pods_are_bound_despite_failing_writes_of_claims,
    pods_with_volumes_are_bound_despite_failing_bindings,
    pods_are_bound_after_an_outage_of_the_api_server_at_any_write,
}

type Matcher = Box<dyn Fn(&Request) -> bool + Send>;

/// Injects every kind of fault into the requests that `write` selects, each fault for a different pod and claim, and
/// checks that all pods are bound in the end.
fn writes_fail(
    server: Server,
    name: &'static str,
    class: &str,
    write: impl Fn(&VolumeScene, &str) -> Matcher,
) {
    let scene = VolumeScene::new(server, name);
    let _provisioner = scene.provision(&[]);
    for (index, (name, times, fault)) in write_faults().into_iter().enumerate() {
        if class == "there" {
            scene.create_volume(&format!("v-{index}"), if index % 2 == 0 { "a" } else { "b" });
        }
        scene.proxy.fault(times, fault, write(&scene, name));
    }
    let harbormaster = scene.started();
    let pods = write_faults().map(|(name, ..)| name);
    for name in pods {
        scene.create_user(name, class);
    }
    for (name, times, _) in write_faults() {
        scene.is_bound(name);
        let answers = statuses(&scene.proxy.records(write(&scene, name)));
        assert!((times..=times + 6).contains(&answers.len()), "{name}: {answers:?}");
        assert_ne!(answers[0], 200, "{name}: {answers:?}");
    }
    for name in ["conflict", "failing", "away", "refused"] {
        assert!(harbormaster.attempts(&scene.full(name)) >= 2, "{name} is scheduled again");
    }
    scene.create_volume("spare", "b");
    scene.ends_in_order(harbormaster, &pods, true);
}

fn pods_are_bound_despite_failing_writes_of_volumes(server: Server) {
    writes_fail(server, "setting-aside", "there", |scene, name| Box::new(scene.is_setting_aside(name)));
}

fn pods_are_bound_despite_failing_writes_of_claims(server: Server) {
    writes_fail(server, "selecting", "made", |scene, name| Box::new(scene.is_selecting_for(name)));
}

fn pods_with_volumes_are_bound_despite_failing_bindings(server: Server) {
    writes_fail(server, "binding", "there", |scene, name| Box::new(scene.is_binding(name)));
}

fn pods_are_bound_after_an_outage_of_the_api_server_at_any_write(server: Server) {
    let scene = VolumeScene::new(server, "outage");
    let _provisioner = scene.provision(&[]);
    let is_away = Arc::new(AtomicBool::new(false));
    let pods = [("aside", "there"), ("selected", "made"), ("bound", "there")];
    let writes: [Matcher; 3] = [
        Box::new(scene.is_setting_aside("aside")),
        Box::new(scene.is_selecting_for("selected")),
        Box::new(scene.is_binding("bound")),
    ];
    ["v-1", "v-2"].iter().for_each(|volume| scene.create_volume(volume, "a"));
    for write in writes {
        // The server goes down just before it handles the write.
        let (away, begun) = (Arc::clone(&is_away), AtomicBool::new(false));
        scene.proxy.fault(usize::MAX, Fault::Break, move |request| {
            if write(request) && !begun.swap(true, Ordering::Relaxed) {
                away.store(true, Ordering::Relaxed);
            }
            away.load(Ordering::Relaxed)
        });
    }
    let harbormaster = scene.started();
    for (name, class) in pods {
        scene.create_user(name, class);
        eventually("the API server becomes unreachable", PATIENCE, || {
            is_away.load(Ordering::Relaxed).then_some(())
        });
        scene.proxy.close_all();
        sleep(Duration::from_secs(3));
        is_away.store(false, Ordering::Relaxed);
        scene.is_bound(name);
    }
    scene.ends_in_order(harbormaster, &pods.map(|(name, _)| name), true);
}
