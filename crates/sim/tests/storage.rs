//! Kubernetes' own storage objects in manifests: the in-tree plugins read them without a definition.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, PodReport, Reading, Source, independent, simulate};

const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {topology.kubernetes.io/zone: a}}, \
     status: {allocatable: {pods: 9}}}\n";

fn cluster(objects: &[String]) -> Inventory {
    let text = [&[NODE.to_owned()], objects].concat().join("---\n");
    Inventory::from_sources(&[Source { name: "f.yaml".into(), text }], Reading::default()).unwrap()
}

fn pod(name: &str, volume: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}], \
         volumes: [{{name: v, {volume}}}]}}}}\n"
    )
}

fn ebs(id: &str) -> String {
    format!("awsElasticBlockStore: {{volumeID: {id}}}")
}

fn simulated(objects: &[String]) -> Vec<PodReport> {
    let engine = Setup::read(None, &Choices::default()).unwrap().engine;
    simulate(engine, cluster(objects), &mut |_, _| {}).pods
}

fn message(pod: &PodReport) -> &str {
    pod.message.as_deref().unwrap_or_default()
}

#[test]
fn pods_share_no_disk_and_exceed_no_limit() {
    let limit = "{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1}, \
         spec: {drivers: [{name: ebs.csi.aws.com, nodeID: n1, allocatable: {count: 2}}]}}\n";
    let objects = [
        pod("a", &ebs("vol-1")),
        pod("b", &ebs("vol-1")),
        pod("c", &ebs("vol-2")),
        pod("d", &ebs("vol-3")),
        limit.to_owned(),
    ];
    let pods = simulated(&objects);
    let nodes: Vec<_> = pods.iter().map(|pod| pod.node.as_deref()).collect();
    assert_eq!(nodes, [Some("n1"), None, Some("n1"), None], "{pods:?}");
    assert!(message(&pods[1]).starts_with("0/1 nodes are available: 1 node(s) had no available disk."));
    assert!(message(&pods[3]).starts_with("0/1 nodes are available: 1 node(s) exceed max volume count."));
}

#[test]
fn a_volume_that_one_pod_gets_is_not_there_for_the_next() {
    let class = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, \
         provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}\n";
    let volume = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {storageClassName: local, \
         capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /d}}, status: {phase: Available}}\n";
    let claim = |name: &str, class: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}}}, spec: {{accessModes: \
             [ReadWriteOnce], {class}resources: {{requests: {{storage: 1Gi}}}}}}}}\n"
        )
    };
    let names = ["a", "b"];
    let mut objects = vec![class.to_owned(), volume.to_owned(), claim("c", "")];
    objects.extend(names.map(|name| claim(name, "storageClassName: local, ")));
    objects.extend(
        names
            .iter()
            .chain(&["c"])
            .map(|name| pod(name, &format!("persistentVolumeClaim: {{claimName: {name}}}"))),
    );
    let pods = simulated(&objects);
    let nodes: Vec<_> = pods.iter().map(|pod| pod.node.as_deref()).collect();
    assert_eq!(nodes, [Some("n1"), None, None], "{pods:?}");
    let none = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.";
    assert!(message(&pods[1]).starts_with(none), "{pods:?}");
    let immediate = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    assert!(message(&pods[2]).starts_with(immediate), "{pods:?}");
}

#[test]
fn zones_of_volumes_count_and_objects_that_nobody_reads_are_counted() {
    let engine = Setup::read(None, &Choices::default()).unwrap().engine;
    let bound = |zone: &str| {
        vec![
            format!(
                "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: v, labels: {{topology.kubernetes.io/zone: {zone}}}}}, \
                 spec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], csi: {{driver: d, volumeHandle: h}}}}}}\n"
            ),
            "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, annotations: \
             {pv.kubernetes.io/bind-completed: \"yes\"}}, spec: {volumeName: v, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}\n"
                .to_owned(),
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}\n".to_owned(),
            pod("p", "persistentVolumeClaim: {claimName: c}"),
        ]
    };
    for (zone, fits) in [("a", true), ("b", false), ("a__b", true)] {
        let cluster = cluster(&bound(zone));
        assert_eq!(cluster.custom_notices(&engine), ["ignored: 1 ConfigMap"]);
        let report = independent(&engine, cluster);
        assert_eq!(report.pods[0].node.is_some(), fits, "{zone}");
        let why = "0/1 nodes are available: 1 node(s) had no available volume zone.";
        assert_eq!(message(&report.pods[0]).starts_with(why), !fits, "{zone}");
    }
}
