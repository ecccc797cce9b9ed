//! Unit tests. All objects are in the namespace `default` unless a test says otherwise. The machine and its instance
//! are both named `vm`, and `launcher` gives every pod the name `virt-launcher-vm`; only UIDs tell such objects apart.

use std::{sync::Arc, time::Duration};

use harbormaster::{
    api::{Str, Timestamp, pod::OwnerReference},
    framework::{BoxFuture, ClusterApi, Stopped},
    serde_json::{Value, json},
    testkit::{
        FakeApi, Happening, Trial, cluster, custom, node, pod, rejection, remove_custom, set_custom,
        trial::finished, what_helps_wakes,
    },
};

use super::*;
use crate::kubevirt::MIGRATION;

const KEY: &str = "example.com/sticky-node";
const ELSEWHERE: &str = "already stick to another node";

fn sticky() -> Trial {
    Trial::of(StickyVM::build(Args::default(), &BuildCycle::default()).unwrap())
}

fn owner(version: &str, kind: &str, uid: &str) -> OwnerReference {
    OwnerReference { api_version: version.into(), kind: kind.into(), name: "vm".into(), uid: uid.into() }
}

/// Returns a pod of the instance.
fn launcher(uid: &str) -> Arc<PodInfo> {
    launcher_of(uid, Some(owner("kubevirt.io/v1", "VirtualMachineInstance", "vmi")))
}

fn launcher_of(uid: &str, controller: Option<OwnerReference>) -> Arc<PodInfo> {
    pod("virt-launcher-vm").uid(uid).pod(|pod| pod.controller = controller).info()
}

fn instance() -> Value {
    instance_of_owner(json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "controller": true}))
}

fn instance_of_owner(mut owner: Value) -> Value {
    owner["name"] = "vm".into();
    owner["uid"] = "vm".into();
    json!({"metadata": {"namespace": "default", "name": "vm", "uid": "vmi", "ownerReferences": [owner]}})
}

/// Returns the machine at resource version 5.
fn machine_with(annotations: Value) -> Value {
    let metadata = json!({
        "namespace": "default", "name": "vm", "uid": "vm", "resourceVersion": "5", "annotations": annotations,
    });
    json!({ "metadata": metadata })
}

fn machine_on(node: &str) -> Value {
    machine_with(json!({ KEY: node }))
}

/// Returns a cluster with nodes n1 to n3, the instance and the machine.
fn world(machine: Value) -> Cluster {
    let mut nodes = cluster([node("n1"), node("n2"), node("n3")], []);
    set_custom::<VirtualMachineInstance>(&mut nodes, [instance()]);
    set_custom::<VirtualMachine>(&mut nodes, [machine]);
    nodes
}

fn server(machine: Value) -> FakeApi {
    let server = FakeApi::default();
    server.set::<VirtualMachineInstance>(instance());
    server.set::<VirtualMachine>(machine);
    server
}

fn on_server(server: &FakeApi) -> Value {
    server.object(&ObjectPath::of::<VirtualMachine>("default", "vm"))["metadata"]["annotations"][KEY].clone()
}

/// Returns the only node that PreFilter allows, or `None` if it allows all nodes.
fn pinned(nodes: &Cluster, pod: &PodInfo) -> Option<String> {
    match sticky().pre_filter(nodes, pod).unwrap() {
        PreFiltered::Skip | PreFiltered::Continue { only: None, .. } => None,
        PreFiltered::Continue { only: Some(only), .. } => {
            let only: Vec<_> = only.iter().map(|row| nodes.node(row).name().to_string()).collect();
            Some(only.join(" "))
        }
    }
}

/// Returns the reason PreFilter rejects the pod.
fn refusal(nodes: &Cluster, pod: &PodInfo) -> String {
    let Err(why) = sticky().pre_filter(nodes, pod) else { panic!("PreFilter accepts the pod") };
    let why = rejection(why);
    assert_eq!(why.fix, Fix::NothingHelps, "no eviction helps");
    why.message()
}

fn written_by(trial: &Trial, placement: &Placement, server: &FakeApi) -> Result<(), String> {
    finished(trial.pre_bind(placement, &server.api())).map_err(|stopped| match stopped {
        Stopped::Reject(_, reject) => reject.message(),
        Stopped::Error(error) => error.to_string(),
    })
}

#[test]
fn any_change_that_helps_a_pod_wakes_it() {
    let missing = || Happening::custom::<VirtualMachine>(&machine_on("n9"));
    let another_instance = || {
        let mut instance = instance();
        instance["metadata"]["ownerReferences"] = json!([]);
        Happening::custom::<VirtualMachineInstance>(&instance)
    };
    for help in [
        Happening::Node(node("n9").build()),
        Happening::custom::<VirtualMachine>(&machine_on("n2")),
        Happening::custom::<VirtualMachine>(&machine_with(json!(null))),
        another_instance(),
    ] {
        let (said, mut nodes) = (format!("{help:?}"), world(machine_on("n1")));
        let helped = what_helps_wakes(&sticky(), &mut nodes, &launcher("a"), [missing(), help]);
        assert_eq!(helped, 1, "{said}");
    }
}

#[test]
fn the_first_pod_can_go_anywhere_and_later_pods_follow_it() {
    assert_eq!(pinned(&world(machine_with(json!(null))), &launcher("a")), None);
    assert_eq!(pinned(&world(machine_on("")), &launcher("a")), None);
    assert_eq!(pinned(&world(machine_on("n2")), &launcher("a")).as_deref(), Some("n2"));
    let other_key = StickyVM::build(Args { annotation: "a/b".to_owned() }, &BuildCycle::default()).unwrap();
    let nodes = world(machine_with(json!({ KEY: "n1", "a/b": "n3" })));
    assert_eq!(Trial::of(other_key).verdict(&nodes, &launcher("a"), "n3"), Ok(()));
}

#[test]
fn other_nodes_are_excluded_so_that_no_pod_is_evicted_there() {
    let nodes = world(machine_on("n2"));
    let verdicts = sticky().batch_verdicts(&nodes, &launcher("a"), nodes.live()).unwrap();
    for (row, verdict) in verdicts {
        let expected = match nodes.node(row).name().as_str() {
            "n2" => Ok(()),
            _ => Err(Reject::unresolvable(ELSEWHERE)),
        };
        assert_eq!(verdict, expected);
    }
}

#[test]
fn a_pod_without_a_machine_is_ignored() {
    let vmi = "VirtualMachineInstance";
    let nodes = world(machine_on("n2"));
    for controller in [
        None,
        Some(owner("apps/v1", "ReplicaSet", "vmi")),
        // The article compares only the kind.
        Some(owner("example.com/v1", vmi, "vmi")),
        Some(owner("v1", vmi, "vmi")),
        Some(owner("kubevirt.io/v1", "VirtualMachine", "vm")),
    ] {
        assert_eq!(pinned(&nodes, &launcher_of("a", controller.clone())), None, "{controller:?}");
    }
    assert!(pinned(&nodes, &launcher_of("a", Some(owner("kubevirt.io/v1alpha3", vmi, "vmi")))).is_some());
    for owner in [
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}),
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "controller": false}),
        json!({"apiVersion": "example.com/v1", "kind": "VirtualMachine", "controller": true}),
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet", "controller": true}),
    ] {
        let mut nodes = world(machine_on("n2"));
        set_custom::<VirtualMachineInstance>(&mut nodes, [instance_of_owner(owner.clone())]);
        assert_eq!(pinned(&nodes, &launcher("a")), None, "{owner}");
    }
}

#[test]
fn a_missing_owner_is_named_and_its_creation_wakes_the_pod() {
    let (trial, pod) = (sticky(), launcher("a"));
    let mut nodes = world(machine_on("n2"));
    let no_machine = "VirtualMachine default/vm with UID vm was not found";
    remove_custom::<VirtualMachine>(&mut nodes, "default", "vm");
    assert_eq!(refusal(&nodes, &pod), no_machine);
    let mut reborn = machine_on("n2");
    reborn["metadata"]["uid"] = "another".into();
    set_custom::<VirtualMachine>(&mut nodes, [reborn]);
    assert_eq!(refusal(&nodes, &pod), no_machine);

    let no_instance = "VirtualMachineInstance default/vm with UID vmi was not found";
    let mut reborn = instance();
    reborn["metadata"]["uid"] = "another".into();
    set_custom::<VirtualMachineInstance>(&mut nodes, [reborn.clone()]);
    assert_eq!(refusal(&nodes, &pod), no_instance);
    remove_custom::<VirtualMachineInstance>(&mut nodes, "default", "vm");
    assert_eq!(refusal(&nodes, &pod), no_instance);

    let (reborn, instance) = (custom::<VirtualMachineInstance>(&reborn), custom(&instance()));
    assert_eq!(trial.custom_hint(&pod, None, Some(&instance)), Some(Hint::Queue));
    assert_eq!(trial.custom_hint(&pod, Some(&reborn), Some(&instance)), Some(Hint::Queue));
    assert_eq!(trial.custom_hint(&pod, None, Some(&reborn)), Some(Hint::Skip));
    let machine = custom::<VirtualMachine>(&machine_on("n2"));
    assert_eq!(trial.custom_hint(&pod, None, Some(&machine)), Some(Hint::Queue));
}

#[test]
fn a_deleted_node_is_named_and_its_return_wakes_the_pod() {
    let nodes = world(machine_on("n9"));
    let expected = "VirtualMachine default/vm is pinned to node n9, which does not exist (annotation example.com/sticky-node)";
    assert_eq!(refusal(&nodes, &launcher("a")), expected);
    let (came, object) =
        (harbormaster::framework::ClusterEvent::new(EventResource::Node, Action::ADD), node("n9").build());
    let hint = sticky().hint(came, &launcher("a"), &Change::Node { old: None, new: Some(&object) });
    assert_eq!(hint, Some(Hint::Queue));
}

#[test]
fn only_changes_of_the_node_or_the_owner_wake_the_pod() {
    let (trial, pod) = (sticky(), launcher("a"));
    let machine = |annotations| custom::<VirtualMachine>(&machine_with(annotations));
    for (old, new, hint) in [
        (json!({ KEY: "n1" }), json!({ KEY: "n2" }), Hint::Queue),
        (json!({ KEY: "n1" }), json!({}), Hint::Queue),
        (json!({ KEY: "n1" }), json!({ KEY: "" }), Hint::Queue),
        (json!({}), json!({ KEY: "n2" }), Hint::Queue),
        (json!({ KEY: "n1" }), json!({ KEY: "n1", "status": "changed" }), Hint::Skip),
        (json!({}), json!({ KEY: "" }), Hint::Skip),
    ] {
        assert_eq!(
            trial.custom_hint(&pod, Some(&machine(old)), Some(&machine(new.clone()))),
            Some(hint),
            "{new}"
        );
    }
    let mut far = machine_on("n1");
    far["metadata"]["namespace"] = "far".into();
    assert_eq!(trial.custom_hint::<VirtualMachine>(&pod, None, Some(&custom(&far))), Some(Hint::Skip));

    let (of_machine, alone) =
        (custom::<VirtualMachineInstance>(&instance()), custom(&instance_of_owner(json!({}))));
    assert_eq!(trial.custom_hint(&pod, Some(&of_machine), Some(&of_machine)), Some(Hint::Skip));
    assert_eq!(trial.custom_hint(&pod, Some(&of_machine), Some(&alone)), Some(Hint::Queue));
    let of_nobody = launcher_of("a", None);
    assert_eq!(trial.custom_hint(&of_nobody, Some(&of_machine), Some(&alone)), Some(Hint::Skip));
}

#[test]
fn a_live_migration_can_leave_the_node_and_does_not_change_the_annotation() {
    let target =
        pod("target").label(MIGRATION, "m").pod(|pod| pod.controller = launcher("a").controller.clone());
    let target = target.info();
    for machine in [machine_on("n2"), machine_with(json!({}))] {
        let mut nodes = world(machine.clone());
        assert_eq!(pinned(&nodes, &target), None);
        let trial = sticky();
        let placement = trial.reserve(&mut nodes, &target, "n1").unwrap();
        assert_eq!(trial.plugin().pre_flight(&placement).unwrap(), PreFlight::NothingToDo);
        let server = server(machine);
        let before = on_server(&server);
        written_by(&trial, &placement, &server).unwrap();
        finished(trial.post_bind(&placement, &server.api()));
        assert_eq!((on_server(&server), server.calls().len()), (before, 0));
    }
}

#[test]
fn the_node_is_written_before_the_binding_with_the_version_that_was_read() {
    let (trial, mut nodes) = (sticky(), world(machine_with(json!({ "a": "b" }))));
    let placement = trial.reserve(&mut nodes, &launcher("a"), "n2").unwrap();
    assert_eq!(trial.plugin().pre_flight(&placement).unwrap(), PreFlight::Work { parallel: false });
    let server = server(machine_with(json!({ "a": "b" })));
    written_by(&trial, &placement, &server).unwrap();
    let path = ObjectPath::of::<VirtualMachine>("default", "vm");
    let patch = json!({"metadata": {"resourceVersion": "5", "annotations": {KEY: "n2"}}});
    assert_eq!(server.calls(), [ApiCall::patch(path.clone(), patch)]);
    assert_eq!(server.object(&path)["metadata"]["annotations"], json!({"a": "b", KEY: "n2"}));
    finished(trial.post_bind(&placement, &server.api()));
    assert_eq!(server.calls().len(), 1, "PostBind has nothing left to do");
}

#[test]
fn nothing_is_written_if_the_node_is_already_recorded() {
    let (trial, mut nodes) = (sticky(), world(machine_on("n2")));
    let placement = trial.reserve(&mut nodes, &launcher("a"), "n2").unwrap();
    assert_eq!(trial.plugin().pre_flight(&placement).unwrap(), PreFlight::NothingToDo);
    let server = server(machine_on("n2"));
    written_by(&trial, &placement, &server).unwrap();
    finished(trial.post_bind(&placement, &server.api()));
    assert_eq!(server.calls(), []);
    assert_eq!(rejection(trial.reserve(&mut nodes, &launcher("a"), "n3").unwrap_err()).message(), ELSEWHERE);
}

#[test]
fn a_second_pod_follows_the_first_and_writes_the_node_if_the_first_does_not() {
    let (trial, mut nodes) = (sticky(), world(machine_with(json!({}))));
    let first = trial.reserve(&mut nodes, &launcher("a"), "n2").unwrap();
    assert_eq!(pinned(&nodes, &launcher("b")).as_deref(), Some("n2"));
    let second = trial.reserve(&mut nodes, &launcher("b"), "n2").unwrap();
    assert_eq!(trial.unreserve(&mut nodes, &first), []);
    assert_eq!(
        pinned(&nodes, &launcher("c")).as_deref(),
        Some("n2"),
        "the node is still assumed for the second pod"
    );
    let server = server(machine_with(json!({})));
    written_by(&trial, &second, &server).unwrap();
    assert_eq!(on_server(&server), "n2");
    trial.unreserve(&mut nodes, &second);
    assert_eq!(pinned(&nodes, &launcher("c")), None);

    let gone = pod("other").pod(|pod| pod.controller = launcher("b").controller.clone()).on("n2").build();
    let left = harbormaster::framework::ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
    let hint = |gone| trial.hint(left, &launcher("c"), &Change::Pod { old: Some(gone), new: None });
    assert_eq!(hint(&gone), Some(Hint::Queue), "the assumed node was dropped");
    assert_eq!(hint(&pod("any").on("n2").build()), Some(Hint::Skip));
}

#[test]
fn if_two_schedulers_compete_one_writes_and_the_pod_of_the_other_is_rejected() {
    let trial = sticky();
    let decided = |node| trial.reserve(&mut world(machine_with(json!({}))), &launcher("a"), node).unwrap();
    let server = server(machine_with(json!({})));
    written_by(&trial, &decided("n1"), &server).unwrap();
    assert_eq!(written_by(&trial, &decided("n2"), &server), Err(ELSEWHERE.to_owned()));
    assert_eq!(written_by(&trial, &decided("n1"), &server), Ok(()), "both schedulers chose the same node");
    assert_eq!(on_server(&server), "n1");
}

#[test]
fn a_machine_that_changed_in_the_meantime_is_read_again() {
    let trial = sticky();
    let placement = trial.reserve(&mut world(machine_with(json!({}))), &launcher("a"), "n1").unwrap();
    let at = |machine: Value| {
        let server = server(machine);
        (written_by(&trial, &placement, &server), on_server(&server))
    };
    let mut newer = machine_with(json!({ "other": "annotation" }));
    newer["metadata"]["resourceVersion"] = "9".into();
    assert_eq!(at(newer.clone()), (Ok(()), json!("n1")));
    newer["metadata"]["uid"] = "another".into();
    let missing = "VirtualMachine default/vm with UID vm was not found";
    assert_eq!(at(newer), (Err(missing.to_owned()), Value::Null));
    assert_eq!(written_by(&trial, &placement, &FakeApi::default()), Err(missing.to_owned()));
}

/// An API server where the machine changes before every patch.
struct EverChanging(FakeApi);

impl ClusterApi for EverChanging {
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
        self.0.bind(pod, node)
    }

    fn call(&self, call: ApiCall) -> BoxFuture<'_, Result<Reply, ApiFailure>> {
        Box::pin(async move {
            if call.body["metadata"]["annotations"][KEY].is_string() {
                ClusterApi::call(&self.0, ApiCall::patch(call.path.clone(), json!({ "status": {} }))).await?;
            }
            ClusterApi::call(&self.0, call).await
        })
    }

    fn wait<'a>(
        &'a self,
        path: &'a ObjectPath,
        at_most: Duration,
        is_settled: &'a mut (dyn FnMut(Option<&Value>) -> bool + Send),
    ) -> BoxFuture<'a, Result<bool, ApiFailure>> {
        self.0.wait(path, at_most, is_settled)
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

#[test]
fn pre_bind_fails_if_the_machine_keeps_changing() {
    let trial = sticky();
    let placement = trial.reserve(&mut world(machine_with(json!({}))), &launcher("a"), "n1").unwrap();
    let api = Api::new(Arc::new(EverChanging(server(machine_with(json!({}))))));
    let Err(Stopped::Error(error)) = finished(trial.pre_bind(&placement, &api)) else {
        panic!("the annotation was written")
    };
    assert!(error.to_string().contains("changed 10 times while its node was being recorded"), "{error}");
}

#[test]
fn the_annotation_stays_when_the_pod_gives_up_its_node() {
    let (trial, mut nodes) = (sticky(), world(machine_with(json!({}))));
    let placement = trial.reserve(&mut nodes, &launcher("a"), "n2").unwrap();
    let server = server(machine_with(json!({})));
    written_by(&trial, &placement, &server).unwrap();
    assert_eq!(trial.unreserve(&mut nodes, &placement), []);
    set_custom::<VirtualMachine>(
        &mut nodes,
        [server.object(&ObjectPath::of::<VirtualMachine>("default", "vm"))],
    );
    assert_eq!(pinned(&nodes, &launcher("a")).as_deref(), Some("n2"));
}

#[test]
fn without_reserve_and_pre_bind_the_node_is_written_after_the_binding() {
    let (trial, placement) = (sticky(), Placement::new(launcher("a"), "n2".into()));
    let after = |server: &FakeApi| {
        finished(trial.post_bind(&placement, &server.api()));
        on_server(server)
    };
    assert_eq!(after(&server(machine_with(json!({})))), "n2");
    assert_eq!(after(&server(machine_on("n1"))), "n1", "too late for the pod, but the machine is not moved");
    assert_eq!(after(&FakeApi::default()), Value::Null, "a failure has no effect");
}

#[test]
fn with_pre_bind_but_without_reserve_the_node_is_written_before_the_binding() {
    let (trial, placement) = (sticky(), Placement::new(launcher("a"), "n2".into()));
    let server = server(machine_with(json!({})));
    assert_eq!(trial.plugin().pre_flight(&placement).unwrap(), PreFlight::Work { parallel: false });
    assert_eq!(written_by(&trial, &placement, &server), Ok(()));
    assert_eq!(on_server(&server), "n2");
}

#[test]
fn the_annotation_argument_must_be_a_valid_annotation() {
    for wrong in ["", "a b", "a/b/c", "/a"] {
        let built = StickyVM::build(Args { annotation: wrong.to_owned() }, &BuildCycle::default());
        assert!(built.unwrap_err().to_string().starts_with(&format!("annotation: {wrong:?}: ")), "{wrong}");
    }
}
