//! Copies of a pod that fit.

use std::sync::Arc;

use harbormaster_api::{
    Node, Pod, PodSpec, node::LABEL_ZONE, pod::TopologySpreadConstraint, selector::LabelSelector,
};
use harbormaster_manifests::Source;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{
    Capacity, CapacityError, Inventory, Original, Reading, capacity, report::Fate, simulate, with_request,
};
use harbormaster_testkit::{NodeBuilder, PodBuilder, node, pod, random::Dice};

fn setup() -> Setup {
    Setup::read(None, &Choices::default()).expect("the default configuration is valid")
}

fn cluster(nodes: Vec<NodeBuilder>, pods: Vec<PodBuilder>) -> Inventory {
    let nodes: Vec<Node> = nodes.into_iter().map(NodeBuilder::build).collect();
    let pods: Vec<Pod> = pods.into_iter().map(PodBuilder::build).collect();
    let (bound, pending) = pods.into_iter().partition(|pod| pod.node_name.is_some());
    Inventory { nodes, bound, pending, ..Inventory::default() }
}

fn count(cluster: Inventory, pods: &[Pod], limit: usize) -> Result<Vec<Capacity>, CapacityError> {
    let originals: Vec<Original> = pods.iter().cloned().map(Original::from).collect();
    capacity(setup().engine, cluster, &originals, limit, &mut |_, _| {})
}

#[test]
fn copies_are_counted_by_node_and_zone_and_the_next_one_says_what_is_missing() {
    let nodes = vec![
        node("a").allocatable("2", "4Gi", 10).zone("z1"),
        node("b").allocatable("1", "4Gi", 10).zone("z2"),
        node("c").allocatable("400m", "4Gi", 10),
    ];
    let bound = vec![pod("there").cpu("500m").on("a")];
    let template = pod("p").cpu("500m").build();
    let counted = count(cluster(nodes, bound), &[template], 100).expect("copies can be counted");
    let message = "0/3 nodes are available: 3 Insufficient cpu.".to_owned();
    let expected = Capacity {
        copies: 5,
        nodes: [("a".to_owned(), 3), ("b".to_owned(), 2), ("c".to_owned(), 0)].into(),
        zones: [("z1".to_owned(), 3), ("z2".to_owned(), 2)].into(),
        message: Some(message),
    };
    assert_eq!(counted, [expected]);
}

#[test]
fn every_size_is_counted_on_the_same_cluster_and_the_limit_ends_a_count() {
    let nodes = || vec![node("a").allocatable("2", "4Gi", 110)];
    let template = pod("p").cpu("500m").build();
    let sizes: Vec<Pod> =
        [100, 500, 2000, 3000].iter().map(|amount| with_request(&template, &"cpu".into(), *amount)).collect();
    let copies = |counted: Vec<Capacity>| counted.iter().map(|one| one.copies).collect::<Vec<_>>();
    assert_eq!(
        copies(count(cluster(nodes(), Vec::new()), &sizes, 100).expect("copies can be counted")),
        [20, 4, 1, 0]
    );
    let few = count(cluster(nodes(), Vec::new()), &sizes[..1], 7).expect("copies can be counted");
    assert_eq!((few[0].copies, few[0].message.as_deref()), (7, None));
}

#[test]
fn pending_pods_come_first_and_copies_neither_preempt_nor_wait_for_gates() {
    let nodes = vec![node("a").allocatable("2", "4Gi", 110)];
    let pods = vec![pod("low").cpu("500m").on("a"), pod("waiting").cpu("500m"), pod("huge").cpu("8")];
    let template = pod("p").cpu("500m").priority(100).gate("example.com/wait").build();
    let counted = count(cluster(nodes, pods), &[template], 100).expect("copies can be counted");
    assert_eq!(counted[0].copies, 2);
}

#[test]
fn pods_of_another_scheduler_are_refused() {
    let foreign = pod("p").spec(|spec| spec.scheduler_name = "other".into()).build();
    let refused = count(Inventory::default(), &[foreign], 1);
    assert_eq!(refused, Err(CapacityError::Foreign("other".into())));
}

#[test]
fn as_many_copies_fit_as_a_simulation_places() {
    let mut placed = 0;
    for seed in 0..150 {
        let mut dice = Dice::new(seed);
        let nodes: Vec<Node> = (0..5).map(|i| dice.node(&format!("n{i}")).build()).collect();
        let bound: Vec<Pod> =
            (0..dice.below(4)).map(|i| dice.pod(&format!("b{i}")).on(&format!("n{i}")).build()).collect();
        let mut template = dice.pod("p").cpu("250m").build();
        let mut spec = PodSpec::clone(&template.spec);
        spec.never_preempts = true;
        spec.topology_spread.push(TopologySpreadConstraint {
            max_skew: 2,
            topology_key: LABEL_ZONE.into(),
            hard: true,
            label_selector: Some(LabelSelector::default()),
            ..Default::default()
        });
        template.spec = Arc::new(spec);
        let cluster = Inventory { nodes, bound, ..Inventory::default() };
        let counted = count(cluster.clone(), &[template.clone()], 50).expect("copies can be counted");
        let copy = |i: usize| {
            let (name, uid) =
                (format!("p-copy-{i}").into(), format!("{}/p-copy-{i}", template.namespace).into());
            Pod { name, uid, ..template.clone() }
        };
        let asked = Inventory { pending: (1..=counted[0].copies + 1).map(copy).collect(), ..cluster };
        let report = simulate(setup().engine, asked, &mut |_, _| {});
        assert_eq!(report.count(Fate::Placed), counted[0].copies, "seed {seed}");
        placed += counted[0].copies;
    }
    assert!(placed > 100, "{placed} copies");
}

/// A StatefulSet whose pods need a device, a volume that is provisioned, an ephemeral one, and one that exists.
fn set(replicas: usize) -> String {
    let claim = |name: &str, class: &str| {
        format!(
            "{{metadata: {{name: {name}}}, spec: {{accessModes: [ReadWriteOnce], storageClassName: {class}, \
             resources: {{requests: {{storage: 1Gi}}}}}}}}"
        )
    };
    format!(
        "{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: db}}, spec: {{replicas: {replicas}, \
         podManagementPolicy: Parallel, selector: {{matchLabels: {{app: db}}}}, volumeClaimTemplates: [{}, {}], template: \
         {{metadata: {{labels: {{app: db}}}}, spec: {{containers: [{{name: c, image: i}}], resourceClaims: [{{name: gpu, \
         resourceClaimTemplateName: one}}], volumes: [{{name: scratch, ephemeral: {{volumeClaimTemplate: {}}}}}]}}}}}}}}\n",
        claim("data", "fast"),
        claim("log", "local"),
        claim("unnamed", "fast").replace("metadata: {name: unnamed}, ", ""),
    )
}

/// Nodes with random numbers of devices, attachable volumes and local volumes.
fn stock(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let mut text = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}\n---\n\
        {apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one}, spec: {spec: {devices: \
        {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}}\n---\n\
        {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: csi.example.com, \
        volumeBindingMode: WaitForFirstConsumer}\n---\n\
        {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, provisioner: \
        kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}\n"
        .to_owned();
    for node in ["n1", "n2", "n3"] {
        let devices: Vec<String> =
            (0..dice.below(5)).map(|number| format!("{{name: gpu-{number}}}")).collect();
        text += &format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {node}, labels: {{kubernetes.io/hostname: {node}}}}}, \
             status: {{allocatable: {{pods: 9}}}}}}\n---\n\
             {{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {node}}}, spec: {{driver: d.example, \
             nodeName: {node}, pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}, devices: [{}]}}}}\n---\n\
             {{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: {node}}}, spec: {{drivers: [{{name: \
             csi.example.com, nodeID: id, allocatable: {{count: {}}}}}]}}}}\n",
            devices.join(", "),
            dice.below(12)
        );
        for number in 0..dice.below(5) {
            text += &format!(
                "---\n{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {node}-{number}}}, spec: {{storageClassName: \
                 local, capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], local: {{path: /d}}, nodeAffinity: \
                 {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: \
                 [{node}]}}]}}]}}}}}}}}\n"
            );
        }
    }
    text
}

fn read(text: &str) -> Inventory {
    let source = Source { name: "f.yaml".into(), text: text.to_owned() };
    Inventory::from_sources(&[source], Reading::default()).expect("the manifests are valid")
}

#[test]
fn every_copy_gets_its_own_claims_as_in_a_simulation() {
    let original = Original::first_of(&read(&set(1))).expect("a pod");
    let originals = [original.clone(), original];
    let mut limits = std::collections::BTreeSet::new();
    for seed in 0..25 {
        let cluster = stock(seed);
        let counted =
            capacity(setup().engine, read(&cluster), &originals, 50, &mut |_, _| {}).expect("copies");
        assert_eq!(counted[0], counted[1], "seed {seed}: each count begins with the same cluster");
        let asked = read(&format!("{cluster}---\n{}", set(counted[0].copies + 1)));
        let report = simulate(setup().engine, asked, &mut |_, _| {});
        assert_eq!(report.count(Fate::Placed), counted[0].copies, "seed {seed}");
        limits.insert(counted[0].copies);
    }
    assert!(limits.len() > 3, "{limits:?}");
}
