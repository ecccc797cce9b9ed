//! Kubernetes' own storage objects in manifests, which the in-tree plugins read without a definition.

use harbormaster_manifests::Source;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, PodReport, Reading, independent, simulate, why_independent};

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
fn a_volume_that_one_pod_gets_is_not_available_to_the_next() {
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
fn zones_of_volumes_matter_and_objects_that_no_plugin_reads_are_counted() {
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

const CLASSES: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waits}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: at-once}
provisioner: csi.example.com
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
";

/// Nodes `a-1`, `b-1` and `b-2` in zones a and b. `a-1` and `b-1` have room for one pod each, and `b-2` for nine.
fn nodes() -> String {
    let node = |(name, zone, pods): (&str, &str, usize)| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}, \
             kubernetes.io/hostname: {name}}}}}, status: {{allocatable: {{pods: {pods}}}}}}}\n---\n"
        )
    };
    [("a-1", "a", 1), ("b-1", "b", 1), ("b-2", "b", 9)].map(node).concat()
}

fn claim(name: &str, class: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}}}, spec: {{accessModes: [ReadWriteOnce], \
         storageClassName: {class:?}, resources: {{requests: {{storage: 1Gi}}}}}}}}\n---\n"
    )
}

/// A volume that is accessible only from the given node.
fn volume(name: &str, class: &str, node: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {name}}}, spec: {{storageClassName: {class:?}, capacity: \
         {{storage: 1Gi}}, accessModes: [ReadWriteOnce], local: {{path: /d}}, nodeAffinity: {{required: {{nodeSelectorTerms: \
         [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]}}]}}}}}}}}\n---\n"
    )
}

fn user(name: &str, claim: &str) -> String {
    pod(name, &format!("persistentVolumeClaim: {{claimName: {claim}}}")) + "---\n"
}

/// The given pod, restricted to one node.
fn on(pod: &str, node: &str) -> String {
    pod.replace(
        "spec: {containers",
        &format!("spec: {{nodeSelector: {{kubernetes.io/hostname: {node}}}, containers"),
    )
}

fn reported(objects: &[String]) -> (Vec<PodReport>, Vec<String>) {
    let text = nodes() + CLASSES + &objects.concat();
    let sources = [Source { name: "f.yaml".into(), text }];
    let cluster = Inventory::from_sources(&sources, Reading::default()).unwrap();
    let notices = cluster.notices.clone();
    let engine = Setup::read(None, &Choices::default()).unwrap().engine;
    (simulate(engine, cluster, &mut |_, _| {}).pods, notices)
}

/// For each pod, its node and the volumes that its claims get, or the first sentence of the reason why it has no node.
fn lines(objects: &[String]) -> Vec<String> {
    let line = |pod: &PodReport| match &pod.node {
        Some(node) => {
            let claims: Vec<String> = pod.claims.iter().map(ToString::to_string).collect();
            format!("{node}: {}", claims.join("; "))
        }
        None => message(pod).split(". ").next().unwrap_or_default().to_owned(),
    };
    reported(objects).0.iter().map(line).collect()
}

#[test]
fn claims_get_volumes_where_their_first_pod_goes_and_keep_later_pods_there() {
    for class in ["waits", "at-once"] {
        let made = format!("claim c: a volume of class {class} would be provisioned in zone");
        let all = [
            claim("c", class),
            on(&user("first", "c"), "b-1"),
            user("second", "c"),
            on(&user("third", "c"), "a-1"),
        ];
        let told = lines(&all);
        assert_eq!(told[..2], [format!("b-1: {made} b"), format!("b-2: {made} b")]);
        assert!(told[2].contains("didn't match PersistentVolume's node affinity"), "{told:?}");
    }
}

#[test]
fn existing_volumes_go_to_matching_claims_and_each_is_used_once() {
    for (class, why) in [
        ("local", "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind"),
        ("", "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
    ] {
        let volume = volume("disk", class, "b-2");
        let all = [volume, claim("c", class), claim("d", class), user("first", "c"), user("second", "d")];
        assert_eq!(lines(&all), ["b-2: claim c: gets volume disk", why], "{class:?}");
    }
}

#[test]
fn claims_that_were_already_bound_are_not_reported() {
    let bound =
        claim("c", "").replace("name: c}", "name: c, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}");
    let bound = bound.replace("spec: {", "spec: {volumeName: disk, ");
    let volume =
        volume("disk", "", "a-1").replace("spec: {", "spec: {claimRef: {namespace: default, name: c}, ");
    assert_eq!(lines(&[bound, volume, user("p", "c")]), ["a-1: "]);
}

#[test]
fn claims_that_cannot_get_a_volume_are_reported_before_any_pod_is_placed() {
    let stuck = "PersistentVolumeClaim default/";
    let nothing = "no persistent volumes available for this claim and no storage class is set";
    for (class, expected) in [
        ("", format!("{stuck}c: {nothing}")),
        ("gone", format!("{stuck}c: storageclass.storage.k8s.io \"gone\" not found")),
    ] {
        let (pods, notices) = reported(&[claim("c", class), user("p", "c")]);
        assert_eq!((pods[0].node.as_deref(), notices), (None, vec![expected]));
    }
    assert_eq!(reported(&[claim("c", "waits"), claim("d", "local")]).1, [""; 0]);
}

#[test]
fn claims_are_created_for_workloads_and_ephemeral_volumes() {
    let set = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 2, selector: {matchLabels: \
               {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}, \
               volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: \
               waits, resources: {requests: {storage: 1Gi}}}}]}}\n---\n";
    // The StatefulSet uses a claim that already exists.
    let disks = [volume("disk", "local", "b-2"), claim("data-db-1", "local")];
    let scratch = "ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: at-once, \
                   resources: {requests: {storage: 1Gi}}}}}";
    let told = lines(&[disks.concat(), set.to_owned(), on(&pod("p", scratch), "b-1")]);
    let made = |claim: &str, class: &str, zone: &str| {
        format!("claim {claim}: a volume of class {class} would be provisioned in zone {zone}")
    };
    assert_eq!(
        told[1..],
        ["b-2: claim data-db-1: gets volume disk", &format!("b-1: {}", made("p-v", "at-once", "b"))]
    );
    assert!(
        told[0].contains("claim data-db-0: a volume of class waits would be provisioned in zone "),
        "{told:?}"
    );
}

#[test]
fn a_report_contains_the_volumes_of_claims_as_structured_fields() {
    let all = [
        claim("c", "waits"),
        claim("d", "local"),
        volume("disk", "local", "b-1"),
        user("p", "c"),
        user("q", "d"),
    ];
    let pods = serde_json::to_value(reported(&[on(&all.concat(), "b-1")]).0).unwrap();
    let claims: Vec<_> = pods.as_array().unwrap().iter().map(|pod| pod["claims"].clone()).collect();
    let provisioned = serde_json::json!([{"claim": "c", "class": "waits", "provisioned": {"topology.kubernetes.io/zone": "b"}}]);
    assert_eq!(claims[0], provisioned, "{pods}");
}

/// Returns what the node `n1` lacks for a pod with the claim, according to each plugin.
fn lacks(claim: &str, class: &str, volumes: &[String]) -> Vec<String> {
    let claim = format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: data}}, spec: {{accessModes: \
         [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}, {claim}}}}}\n"
    );
    let class =
        format!("{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: fast}}, {class}}}\n");
    let pod = pod("p", "persistentVolumeClaim: {claimName: data}");
    let engine = Setup::read(None, &Choices::default()).unwrap().engine;
    let cluster = cluster(&[&[claim, class, pod], volumes].concat());
    let answer = why_independent(&engine, cluster, "default/p").unwrap().unwrap();
    let rejected = answer.explanation.unwrap().rejected;
    rejected
        .iter()
        .flat_map(|nodes| nodes.lacks.iter().map(|lack| format!("{}: {lack}", nodes.status.plugin)))
        .collect()
}

#[test]
fn explanations_say_where_volumes_are_and_what_classes_cannot_provide() {
    let volume = |metadata: &str, spec: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: v, {metadata}}}, spec: {{storageClassName: \
             fast, capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], csi: {{driver: d, volumeHandle: h}}, \
             {spec}}}}}\n"
        )
    };
    let zone_b = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, \
                  operator: In, values: [b, c]}]}]}}";
    let bound = "storageClassName: fast, volumeName: v";
    let waiting = "storageClassName: fast";
    let nobody = "provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer";
    let somebody = "provisioner: d, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: \
                    [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b]}]}]";
    for (claim, class, volumes, expected) in [
        (
            bound,
            nobody,
            vec![volume("annotations: {pv.kubernetes.io/bound-by-controller: 'yes'}", zone_b)],
            "VolumeBinding: volume v of claim data is where topology.kubernetes.io/zone is b or c",
        ),
        (
            bound,
            nobody,
            vec![volume(
                "labels: {topology.kubernetes.io/zone: b__c}",
                "persistentVolumeReclaimPolicy: Retain",
            )],
            "VolumeZone: a volume is where topology.kubernetes.io/zone is b or c",
        ),
        (waiting, nobody, vec![], "VolumeBinding: no free volume of class fast suits claim data"),
        (waiting, somebody, vec![], "VolumeBinding: class fast provides no volume here for claim data"),
    ] {
        assert_eq!(lacks(claim, class, &volumes), [expected], "{claim} {class}");
    }
}

/// Returns the remedies for the pod `default/{name}` in words.
fn remedies(objects: &[String], name: &str) -> Vec<String> {
    let engine = Setup::read(None, &Choices::default()).unwrap().engine;
    let answer = why_independent(&engine, cluster(objects), &format!("default/{name}")).unwrap().unwrap();
    answer.remedies.iter().map(ToString::to_string).collect()
}

fn node(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}, \
         status: {{allocatable: {{pods: 9}}}}}}\n"
    )
}

#[test]
fn a_limit_of_volumes_is_raised_where_least_is_missing() {
    let limit = |node: &str, count: i32| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: {node}}}, \
             spec: {{drivers: [{{name: ebs.csi.aws.com, nodeID: id, allocatable: {{count: {count}}}}}]}}}}\n"
        )
    };
    let two = format!("{}}}, {{name: w, {}", ebs("vol-3"), ebs("vol-4"));
    let running = pod("a", &ebs("vol-1")).replace("spec: {", "spec: {nodeName: n1, ");
    // n1 has room for one of the two volumes; n2 has room for none.
    let objects = [node("n2"), limit("n1", 2), limit("n2", 0), running, pod("p", &two)];
    let words = remedies(&objects, "p");
    let raise = "let node n1 have 3 instead of 2 volumes of driver ebs.csi.aws.com";
    assert!(words.iter().any(|words| words == raise), "{words:?}");
    assert!(words.iter().any(|words| words == "drop the volume w"), "{words:?}");
}

#[test]
fn claims_that_nobody_provisions_get_volumes_on_one_node() {
    let class = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, \
         provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}\n";
    let claim = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}}}, spec: {{accessModes: \
             [ReadWriteOnce], storageClassName: local, resources: {{requests: {{storage: 5Gi}}}}}}}}\n"
        )
    };
    let volume = "persistentVolumeClaim: {claimName: a}";
    let both = format!("{volume}}}, {{name: w, persistentVolumeClaim: {{claimName: b}}");
    let add = |claim: &str| format!("add a volume of class local with 5Gi on node n2 for claim {claim}");
    let objects = |pod: String| [node("n2"), class.to_owned(), claim("a"), claim("b"), pod];
    assert!(remedies(&objects(pod("p", volume)), "p").contains(&add("a")));
    let together = format!("{}, and {}", add("a"), add("b"));
    let words = remedies(&objects(pod("p", &both)), "p");
    assert!(words.contains(&together), "{words:?}");
}

#[test]
fn a_driver_offers_enough_storage() {
    let objects = [
        "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, \
         provisioner: csi.example.com, volumeBindingMode: WaitForFirstConsumer}\n",
        "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: csi.example.com}, spec: {storageCapacity: true}}\n",
        "{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: here}, storageClassName: fast, \
         nodeTopology: {}, capacity: 2Gi}\n",
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], \
         storageClassName: fast, resources: {requests: {storage: 5Gi}}}}\n",
    ];
    let objects: Vec<String> = objects.map(str::to_owned).into_iter().collect();
    let words = remedies(&[objects, vec![pod("p", "persistentVolumeClaim: {claimName: a}")]].concat(), "p");
    let grow = "offer 5Gi instead of 2Gi for volumes of class fast in CSIStorageCapacity default/here";
    assert!(words.iter().any(|words| words == grow), "{words:?}");
}
