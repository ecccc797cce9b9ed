//! The room for copies of a pod that does not exist.

use std::sync::Arc;

use harbormaster_core::Room;

use crate::world::{World, node, pod};

#[test]
fn copies_fill_what_the_pods_of_fitting_nodes_leave_and_the_question_has_no_effect() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.set_node(node("b", 4000));
    world.add_bound_pod(pod("bound", 700), "b");
    world.add_pod(pod("waits", 9000));
    world.attempt().unwrap();
    let before = format!("{:?}", world.engine.dump());
    for (milli_cpu, nodes, copies) in [(500, 2, 2 + 6), (1000, 2, 1 + 3), (1001, 1, 3)] {
        let expected = Room { nodes, of: 2, copies, message: None };
        assert_eq!(world.engine.room_for(pod("asked", milli_cpu)), Some(expected), "{milli_cpu}m");
    }
    let none = world.engine.room_for(pod("asked", 5000)).unwrap();
    assert_eq!((none.nodes, none.of, none.copies), (0, 2, 0));
    assert!(none.message.unwrap().starts_with("0/2 nodes are available: 2 Insufficient cpu."));
    let mut theirs = pod("asked", 100);
    Arc::make_mut(&mut theirs.spec).scheduler_name = "another".into();
    assert_eq!(world.engine.room_for(theirs), None, "no profile has its scheduler name");
    assert_eq!(format!("{:?}", world.engine.dump()), before);
}

#[test]
fn a_cluster_without_nodes_has_no_room() {
    let message = Some("no nodes available to schedule pods".to_owned());
    assert_eq!(World::new().engine.room_for(pod("asked", 100)), Some(Room { message, ..Room::default() }));
}
