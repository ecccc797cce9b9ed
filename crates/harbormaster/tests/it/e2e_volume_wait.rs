//! Events while PreBind waits: the provisioner may be slow, fail or never respond; the claim, the volume, the
//! pod, its node or the scheduler may disappear; and two schedulers may run at the same time. `e2e/volume_scene.rs`
//! defines the conditions that must hold at the end.

use std::time::Duration;

use harbormaster_oracle::provisioner::{Behaviour, Outcome};
use serde_json::json;

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, eventually},
    objects::NODES,
    proxy::{Fault, Gate, Request},
    scene::statuses,
    server::{Server, on_both_servers},
    volume_scene::VolumeScene,
};

on_both_servers! {
    slow_or_initially_failing_volumes_delay_only_their_own_pods,
    if_no_volume_can_be_created_for_a_node_another_node_is_chosen,
    a_volume_that_is_never_created_fails_the_pod_after_the_timeout,
    a_pod_whose_claim_is_deleted_during_prebind_waits_for_a_new_claim,
    a_volume_that_is_deleted_during_prebind_is_replaced_by_another,
    a_pod_whose_node_is_deleted_during_prebind_moves_or_waits_for_the_node,
    a_pod_that_is_deleted_during_prebind_leaves_its_claims_and_volumes_to_other_pods,
    the_next_scheduler_continues_after_one_is_killed_at_any_step,
    two_concurrent_schedulers_do_not_harm_each_other,
}

const NEVER: Behaviour = Behaviour { delay: Duration::ZERO, outcome: Outcome::Never };

fn after(milliseconds: u64) -> Behaviour {
    Behaviour::after(Duration::from_millis(milliseconds))
}

fn slow_or_initially_failing_volumes_delay_only_their_own_pods(server: Server) {
    let scene = VolumeScene::new(server, "slow");
    let fares = [
        ("slow", after(10_000)),
        ("failing", after(300).with(Outcome::FailTimes(3))),
        ("reselected", after(300).with(Outcome::RemoveSelectedNode(2))),
    ];
    let _provisioner = scene.provision(&fares);
    let harbormaster = scene.started();
    let pods = fares.map(|(name, _)| name);
    pods.iter().for_each(|name| scene.create_user(name, "made"));
    scene.is_done(scene.is_selecting_for("slow"));
    scene.create_user("quick", "made");
    scene.is_bound("quick");
    assert!(scene.is_pending("slow"));
    for name in ["slow", "failing"] {
        scene.is_bound(name);
        assert_eq!(
            harbormaster.failed_bindings(&scene.full(name)),
            0,
            "{name} is bound without a failed attempt"
        );
    }
    scene.is_bound("reselected");
    assert_eq!(harbormaster.failed_bindings(&scene.full("reselected")), 2);
    scene.ends_in_order(harbormaster, &pods, true);
}

fn if_no_volume_can_be_created_for_a_node_another_node_is_chosen(server: Server) {
    let scene = VolumeScene::new(server, "elsewhere");
    let harbormaster = scene.started();
    scene.create_user("one", "made");
    let first = scene.selected("one");
    let cordon = |is_cordoned: bool| {
        let path = format!("{NODES}/{first}");
        scene
            .client
            .merge_patch(&path, &json!({"spec": {"unschedulable": is_cordoned}}))
            .expect("the patch is accepted");
    };
    cordon(true);
    let _provisioner = scene.provision(&[("one", after(300).with(Outcome::RemoveSelectedNode(1)))]);
    let second = scene.place_of("one");
    assert_ne!(scene.full(&second), first);
    cordon(false);
    scene.ends_in_order(harbormaster, &["one"], true);
}

fn a_volume_that_is_never_created_fails_the_pod_after_the_timeout(server: Server) {
    let scene = VolumeScene::new(server, "never");
    scene.create_volume("v", "a");
    let silent = scene.provision(&[("one", NEVER)]);
    scene.proxy.listen();
    let harbormaster = scene.start_patient(2);
    scene.create_user("one", "made");
    scene.is_told("one", "binding volumes: context deadline exceeded");
    // The claim's node stays selected, and the pod is retried on that node.
    let node = scene.selected("one");
    eventually("the pod is tried again", PATIENCE, || {
        (harbormaster.attempts(&scene.full("one")) > 1).then_some(())
    });
    drop(silent);
    let _provisioner = scene.provision(&[]);
    assert_eq!(scene.full(&scene.place_of("one")), node);
    scene.ends_in_order(harbormaster, &["one"], true);
}

fn a_pod_whose_claim_is_deleted_during_prebind_waits_for_a_new_claim(server: Server) {
    let scene = VolumeScene::new(server, "claimless");
    // One claim is deleted during the write, the other while PreBind waits for it.
    let gate = Gate::default();
    scene.proxy.fault(1, Fault::hold(&gate), scene.is_setting_aside("written"));
    ["v-1", "v-2"].iter().for_each(|volume| scene.create_volume(volume, "a"));
    let silent = scene.provision(&[("awaited", NEVER)]);
    let harbormaster = scene.started();
    scene.create_user("written", "there");
    scene.create_user("awaited", "made");
    scene.is_held_at(&gate);
    scene.is_done(scene.is_selecting_for("awaited"));
    for name in ["written", "awaited"] {
        scene.delete_claim(name);
    }
    gate.open();
    for (name, check) in [("written", "binding"), ("awaited", "provisioning pvc")] {
        let why = format!("binding volumes: failed to check {check}: persistentvolumeclaims");
        harbormaster.wait_for_line(&["Error scheduling pod", &scene.full(name), &why]);
        scene.is_told(name, &format!("persistentvolumeclaim \"{}\" not found", scene.full(name)));
    }
    drop(silent);
    let _provisioner = scene.provision(&[]);
    scene.create_claim("written", "there");
    scene.create_claim("awaited", "made");
    scene.ends_in_order(harbormaster, &["written", "awaited"], true);
}

fn a_volume_that_is_deleted_during_prebind_is_replaced_by_another(server: Server) {
    let scene = VolumeScene::new(server, "volumeless");
    let delete = |name: &str| scene.delete_volume(name);
    let harbormaster = scene.started();
    // The volume is deleted during the write.
    let gate = Gate::default();
    scene.proxy.fault(1, Fault::hold(&gate), scene.is_setting_aside("written"));
    scene.create_volume("v-1", "a");
    scene.create_user("written", "there");
    scene.is_held_at(&gate);
    delete("v-1");
    gate.open();
    harbormaster.wait_for_line(&["Error scheduling pod", &scene.full("written"), "not found"]);
    scene.create_volume("v-2", "b");
    assert_eq!(scene.place_of("written"), "b");

    // The volume is deleted while PreBind waits for another one.
    let silent = scene.provision(&[("made", NEVER)]);
    scene.create_volume("v-3", "a");
    scene.create_claim("awaited", "there");
    scene.create_claim("made", "made");
    scene.create_pod("awaited", &["awaited", "made"]);
    scene.is_done(scene.is_selecting_for("made"));
    eventually("the claim has its volume", PATIENCE, || {
        (scene.claim("awaited")?["status"]["phase"] == "Bound").then_some(())
    });
    delete("v-3");
    drop(silent);
    let _provisioner = scene.provision(&[]);
    scene.is_told("awaited", "bound to non-existent persistentvolume");
    scene.delete_claim("awaited");
    scene.create_volume("v-4", "a");
    scene.create_claim("awaited", "there");
    scene.ends_in_order(harbormaster, &["written", "awaited"], true);
}

fn a_pod_whose_node_is_deleted_during_prebind_moves_or_waits_for_the_node(server: Server) {
    let scene = VolumeScene::new(server, "nodeless");
    let harbormaster = scene.started();
    // If the volume has not been created, the pod gets another node.
    scene.create_user("goes", "made");
    let first = scene.selected("goes");
    let place = first.strip_prefix(&scene.full("")).expect("the node belongs to the scene").to_owned();
    scene.delete_place(&place);
    let provisioner = scene.provision(&[("goes", after(300).with(Outcome::RemoveSelectedNode(1)))]);
    let other = scene.place_of("goes");
    assert_ne!(other, place);
    drop(provisioner);
    // If the volume has been created, the pod waits until the node exists again.
    scene.create_place("c");
    scene.create_claim("stays", "made");
    scene.create_pod_on("stays", &["stays"], "c");
    assert_eq!(scene.selected("stays"), scene.full("c"));
    scene.delete_place("c");
    scene.make_volume("stays", "c");
    harbormaster.wait_for_line(&["Error scheduling pod", &scene.full("stays"), "failed to get node"]);
    scene.create_place("c");
    assert_eq!(scene.place_of("stays"), "c");
    let _provisioner = scene.provision(&[]);
    scene.ends_in_order(harbormaster, &["goes", "stays"], true);
}

fn a_pod_that_is_deleted_during_prebind_leaves_its_claims_and_volumes_to_other_pods(server: Server) {
    let scene = VolumeScene::new(server, "podless");
    let gate = Gate::default();
    scene.proxy.fault(1, Fault::hold(&gate), scene.is_setting_aside("written"));
    scene.create_volume("v", "a");
    let silent = scene.provision(&[("awaited", NEVER)]);
    let harbormaster = scene.started();
    scene.create_user("written", "there");
    scene.create_user("awaited", "made");
    scene.is_held_at(&gate);
    scene.is_done(scene.is_selecting_for("awaited"));
    // This pod needs the volume that the deleted pod was going to get.
    scene.create_user("heir", "there");
    scene.is_told("heir", "node(s) didn't find available persistent volumes to bind");
    for name in ["written", "awaited"] {
        delete_pod(&scene.client, &scene.full(name));
    }
    assert_eq!(scene.place_of("heir"), "a");
    // A late write is rejected.
    gate.open();
    scene.create_volume("late", "b");
    let node = scene.selected("awaited");
    for name in ["written", "awaited"] {
        scene.create_pod(&format!("{name}-again"), &[name]);
    }
    assert_eq!(scene.place_of("written-again"), "b");
    drop(silent);
    let _provisioner = scene.provision(&[]);
    assert_eq!(scene.full(&scene.place_of("awaited-again")), node);
    scene.ends_in_order(harbormaster, &["heir"], true);
}

fn the_next_scheduler_continues_after_one_is_killed_at_any_step(server: Server) {
    for (name, is_opened) in [("killed", false), ("killed-late", true)] {
        let scene = VolumeScene::new(server, name);
        let _provisioner = scene.provision(&[("awaited", after(3000))]);
        ["v-1", "v-2", "v-3"].iter().for_each(|volume| scene.create_volume(volume, "a"));
        let gate = Gate::default();
        let hold = || Fault::hold(&gate);
        scene.proxy.fault(1, hold(), scene.is_setting_aside("undecided"));
        scene.proxy.fault(1, hold(), scene.is_selecting_for("half"));
        scene.proxy.fault(1, hold(), scene.is_binding("nearly"));
        let first = scene.started();
        scene.create_user("undecided", "there");
        // When the first scheduler is killed, it has written the volume for one of this pod's claims, but not yet the
        // other claim.
        scene.create_claim("aside", "there");
        scene.create_claim("half", "made");
        scene.create_pod("half", &["aside", "half"]);
        scene.create_user("awaited", "made");
        scene.create_user("nearly", "there");
        scene.is_done(scene.is_setting_aside("aside"));
        scene.is_done(scene.is_selecting_for("awaited"));
        eventually("all three writes are held", PATIENCE, || (gate.came() == 3).then_some(()));
        first.kill();
        let second = scene.start();
        if is_opened {
            // The first scheduler's writes arrive while the second scheduler decides.
            scene.wait_until_watched(&second);
            gate.open();
        }
        scene.ends_in_order(second, &["undecided", "half", "awaited", "nearly"], true);
    }
}

fn two_concurrent_schedulers_do_not_harm_each_other(server: Server) {
    const PODS: usize = 16;
    let scene = VolumeScene::new(server, "two");
    let _provisioner = scene.provision(&[("p-3", after(500).with(Outcome::RemoveSelectedNode(1)))]);
    for index in 0..PODS {
        scene.create_volume(&format!("v-{index}"), if index % 2 == 0 { "a" } else { "b" });
    }
    let (first, second) = (scene.started(), scene.start());
    scene.wait_until_watched(&second);
    let pods: Vec<String> = (0..PODS).map(|index| format!("p-{index}")).collect();
    for (index, name) in pods.iter().enumerate() {
        scene.create_user(name, if index % 4 == 3 { "made" } else { "there" });
    }
    let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    scene.all_is_well(&pods, true);
    let is_write =
        |request: &Request| request.method == "PATCH" && request.path.contains("/persistentvolume");
    let conflicts = statuses(&scene.proxy.records(is_write)).iter().filter(|status| **status == 409).count();
    assert!(conflicts > 0, "some writes of the two schedulers conflict");
    first.ends_well();
    second.ends_well();
}
