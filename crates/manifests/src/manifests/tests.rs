use harbormaster_api::{Release, features::Feature};

use super::*;

fn read_with(validate: Validate, text: &str) -> Result<Manifests, String> {
    let source = Source { name: "f.yaml".into(), text: text.into() };
    Manifests::read(&[source], ReadOptions { validate, ..ReadOptions::default() }, |_, _| Ok(()))
        .map_err(|e| e.to_string())
}

fn read(text: &str) -> Result<Manifests, String> {
    read_with(Validate::Strict, text)
}

const POD: &str = "spec: {containers: [{name: c, image: i}]}";

#[test]
fn every_mistake_is_reported_with_its_position_and_field() {
    let text = "apiVersion: v1
kind: Pod
metadata:
  name: p
spec:
  containers:
  - name: c
    image: i
    resources:
      requests:
        cpu: lots
      limit: {}
---
apiVersion: v1
kind: Node
metadata: {}
---
apiVersion: v1
metadata: {name: x}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replica: 3
  replicas: many
---
apiVersion: v1
kind: Pod
metadata: {name: Bad_Name}
spec:
  priorityClassName: none
  containers: [{name: c, image: i}]
---
apiVersion: v1
kind: Pod
metadata: {name: Bad_Name2, name: bad_Name3}
spec:
  tolerations: [{operator: exist}]
---
kind: Node
metadata: {name: n}
---
- 1
";
    let errors = read(text).err().unwrap_or_default();
    let starts = [
        "f.yaml:11: Pod default/p: spec.containers[0].resources.requests.cpu: \"lots\" is not a quantity",
        "f.yaml:12: Pod default/p: spec.containers[0].resources.limit: unknown field (did you mean `limits`?)",
        "f.yaml:16: Node: metadata.name: Required value: name or generateName is required",
        "f.yaml:18: Object 'Kind' is missing",
        "f.yaml:25: Deployment default/d: spec.replica: unknown field (did you mean `replicas`?)",
        "f.yaml:26: Deployment default/d: spec.replicas: expected a 32-bit integer, got \"many\"",
        "f.yaml:32: Pod default/Bad_Name: spec.priorityClassName: no PriorityClass with name none was found",
        "f.yaml:37: Pod default/bad_Name3: metadata.name: duplicate field",
        "f.yaml:37: Pod default/bad_Name3: metadata.name: Invalid value: \"bad_Name3\": a lowercase RFC 1123 subdomain",
        "f.yaml:38: Pod default/bad_Name3: spec.containers: Required value",
        "f.yaml:39: Pod default/bad_Name3: spec.tolerations[0].operator: ",
        "f.yaml:39: Pod default/bad_Name3: spec.tolerations[0].operator: Unsupported value: \"exist\"",
        "f.yaml:41: Node: apiVersion: Required value (did you mean `v1`?)",
        "f.yaml:44: not a Kubernetes object",
    ];
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{errors}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}\n{start}");
    }
}

#[test]
fn unknown_fields_are_errors_or_warnings_or_are_ignored() {
    let text = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nmore: 1\n{POD}\n");
    let warning = "f.yaml:4: Pod default/p: more: unknown field";
    assert_eq!(read(&text).err(), Some(warning.to_owned()));
    assert_eq!(read_with(Validate::Warn, &text).unwrap().notices(), [warning]);
    let ignored = read_with(Validate::Ignore, &text).unwrap();
    assert_eq!((ignored.notices().len(), ignored.objects.len()), (0, 1));
    for (text, expected) in [
        ("strict", Ok(Validate::Strict)),
        ("true", Ok(Validate::Strict)),
        ("warn", Ok(Validate::Warn)),
        ("false", Ok(Validate::Ignore)),
    ] {
        assert_eq!(text.parse(), expected);
    }
    assert!("maybe".parse::<Validate>().is_err());
}

#[test]
fn kinds_are_known_or_are_ignored_or_are_errors() {
    for (version, kind, expected) in [
        ("v1", "ConfigMap", ""),
        ("certificates.k8s.io/v1", "CertificateSigningRequest", "ignored"),
        ("example.com/v1", "Thing", "ignored"),
        ("serving.knative.dev/v1", "Service", "ignored"),
        ("v1", "Deployment", "in version \"v1\" (did you mean `apps/v1`?)"),
        ("v1", "Pdo", "kind: no matches for kind \"Pdo\" in version \"v1\" (did you mean `Pod`?)"),
        (
            "apps/v1beta1",
            "Deployment",
            "apiVersion: no matches for kind \"Deployment\" in version \"apps/v1beta1\" (did you mean `apps/v1`?)",
        ),
        ("app/v1", "Deployment", "did you mean `apps/v1`?"),
    ] {
        let text = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n");
        match read(&text) {
            Ok(manifests) => {
                let is_told = manifests.notices() == [format!("ignored: 1 {kind}")];
                let ignored = if is_told { "ignored" } else { "" };
                assert_eq!(ignored, expected, "{version} {kind}");
            }
            Err(told) => assert!(!expected.is_empty() && told.contains(expected), "{told}"),
        }
    }
}

#[test]
fn devices_and_claims_in_older_versions_are_converted() {
    let text = "apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, deviceClassName: gpu, count: 2}]}}
---
apiVersion: resource.k8s.io/v1beta2
kind: DeviceClass
metadata: {name: gpu}
spec: {}
";
    let manifests = read(text).unwrap();
    let object = |kind: &str| {
        let found = manifests.objects.iter().find(|object| object.kind.kind == kind);
        found.unwrap_or_else(|| panic!("no {kind}")).value()
    };
    let claim = object("ResourceClaim");
    assert_eq!(claim["apiVersion"], "resource.k8s.io/v1");
    let exactly = &claim["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!((&exactly["deviceClassName"], &exactly["count"]), (&"gpu".into(), &2.into()));
    assert_eq!(object("DeviceClass")["apiVersion"], "resource.k8s.io/v1");
    assert_eq!(manifests.notices(), [""; 0]);
}

#[test]
fn custom_resources_are_recognized_even_if_their_definition_follows() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\n\
                      spec: {group: example.com, scope: Namespaced, names: {plural: things, kind: Thing}, versions: \
                      [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n";
    let thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nwhatever: 1\n";
    let manifests = read(&format!("{thing}---\n{definition}")).unwrap();
    let labels: Vec<String> = manifests.objects.iter().map(Manifest::label).collect();
    assert_eq!(labels, ["CustomResourceDefinition things.example.com", "Thing default/t"]);
}

#[test]
fn a_later_manifest_replaces_an_earlier_one_if_the_update_is_allowed() {
    let pod = |more: &str, image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: [{{name: c, image: {image}}}]\n{more}---\n"
        )
    };
    let manifests = read(&format!("{}{}", pod("", "a"), pod("", "b"))).unwrap();
    assert_eq!(manifests.objects.len(), 1);
    assert_eq!(manifests.objects[0].value()["spec"]["containers"][0]["image"], "b");
    let errors =
        read(&format!("{}{}", pod("", "a"), pod("  nodeSelector: {a: b}\n", "a"))).err().unwrap_or_default();
    assert!(
        errors.contains("f.yaml:10: Pod default/p: spec: Forbidden: pod updates may not change"),
        "{errors}"
    );
}

#[test]
fn objects_that_a_dump_lacks_are_restored() {
    let text = "
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop, uid: d, resourceVersion: '7', managedFields: []}
  spec:
    replicas: 3
    selector: {matchLabels: {app: web}}
    template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-5d-a
    namespace: shop
    uid: p
    labels: {app: web, pod-template-hash: 5d}
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d, uid: s, controller: true}]
  spec:
    priorityClassName: high
    priority: 9
    preemptionPolicy: PreemptLowerPriority
    containers: [{name: c, image: i}]
    topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: zone
      whenUnsatisfiable: DoNotSchedule
      matchLabelKeys: [pod-template-hash]
      labelSelector: {matchExpressions: [{key: pod-template-hash, operator: In, values: [5d]}]}
- {apiVersion: v1, kind: Service, metadata: {name: kubernetes}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 443}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: done, uid: e}, spec: {containers: [{name: c, image: i}]}, status: {phase: Succeeded}}
";
    let mut stored = HashMap::new();
    let source = Source { name: "f.yaml".into(), text: text.into() };
    let manifests = Manifests::read(&[source], ReadOptions::default(), |manifest, admitted| {
        stored.insert(manifest.label(), admitted.into_value());
        Ok(())
    })
    .unwrap();
    let labels: Vec<String> = manifests.objects.iter().map(Manifest::label).collect();
    let expected = [
        "Namespace shop",
        "PriorityClass high",
        "Service default/kubernetes",
        "Deployment shop/web",
        "ReplicaSet shop/web-5d",
        "Pod shop/web-5d-a",
    ];
    assert_eq!(labels, expected);
    assert_eq!(stored["ReplicaSet shop/web-5d"]["spec"]["replicas"], 3);
    let expressions = &stored["Pod shop/web-5d-a"]["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"];
    assert_eq!(expressions.as_array().map(Vec::len), Some(1), "{expressions}");
}

#[test]
fn unreadable_text_does_not_hide_the_errors_of_other_files() {
    let sources = ["kind: [\n", "apiVersion: v1\nkind: Pod\n"]
        .map(|text| Source { name: "f".into(), text: text.into() });
    let errors = Manifests::read(&sources, ReadOptions::default(), |_, _| Ok(())).map(|_| ()).unwrap_err();
    assert_eq!(errors.0.len(), 2, "{errors}");
    assert!(errors.to_string().contains("name or generateName"), "{errors}");
}

#[test]
fn numbers_are_reported_as_they_are_written() {
    let pod = |label: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  labels:\n    hash: {label}\n{POD}\n")
    };
    for (label, hint) in
        [("1234e56", ""), ("0x1f", ""), ("true", ""), ("yes", ", which is a boolean in YAML: quote it")]
    {
        let told = read(&pod(label)).unwrap_err();
        let expected = "f.yaml:6: Pod default/p: metadata.labels.hash: expected a string, got";
        assert_eq!(told, format!("{expected} {label}{hint}"));
    }
    for label in ["1234e567", "1_0e999", "'1234e56'"] {
        assert!(read(&pod(label)).is_ok(), "{label}");
    }
}

#[test]
fn the_same_mistake_in_many_objects_is_reported_in_one_line() {
    let pods: String = (0..300)
        .map(|i| format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{i}}}\nspec: {{containers: [{{name: c, image: i}}], prioritey: 1}}\n"))
        .collect();
    let told = read(&pods).unwrap_err();
    assert_eq!(
        told,
        "f.yaml:5: Pod default/p0: spec.prioritey: unknown field (did you mean `priority`?) (299 more times, next on line 10)"
    );
}

#[test]
fn an_object_that_replaces_one_from_an_earlier_file_is_reported() {
    let source = |name: &str, text: &str| Source { name: name.into(), text: text.into() };
    let node = |name: &str, cpu: u32| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{allocatable: {{cpu: {cpu}}}}}\n---\n"
        )
    };
    let sources = [
        source("a.yaml", &(node("n1", 1) + &node("n2", 1))),
        source("b.yaml", &(node("n1", 2) + &node("n2", 1))),
    ];
    let read = Manifests::read(&sources, ReadOptions::default(), |_, _| Ok(())).unwrap();
    assert_eq!(read.notices(), ["b.yaml replaces 1 object of a.yaml: Node n1"]);
    assert_eq!(read.objects[0].value()["status"]["allocatable"]["cpu"], "2");
}

const ON_NODES: &str = "apiVersion: v1
kind: Node
metadata: {name: here}
---
apiVersion: v1
kind: Pod
metadata: {name: stays}
spec: {nodeName: here, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: lost, uid: u}
spec: {nodeName: gone, containers: [{name: c, image: i}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata:
  name: agent
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: d, controller: true}]
spec: {nodeName: gone, containers: [{name: c, image: i}]}
";

#[test]
fn pods_on_missing_nodes_are_reported_or_become_pending_again() {
    let read = |intake: ReadOptions<'_>| {
        let source = Source { name: "f.yaml".into(), text: ON_NODES.into() };
        Manifests::read(&[source], intake, |_, _| Ok(())).unwrap()
    };
    let kept = read(ReadOptions::default());
    assert_eq!(
        kept.notices(),
        [
            "2 pods are on nodes that are not in the input, and are ignored: gone (2); --reschedule-missing makes them \
          pending again"
        ]
    );
    let waiting = read(ReadOptions { reschedule_missing: true, ..ReadOptions::default() });
    assert_eq!(
        waiting.notices(),
        [
            "made 1 pod(s) on missing nodes pending again",
            "removed 1 DaemonSet or static pod(s) on missing nodes"
        ]
    );
    let names: Vec<&str> = waiting.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["here", "stays", "lost"]);
    assert_eq!(waiting.objects[2].value()["spec"].get("nodeName"), None);
    assert!(
        read(ReadOptions { extra_nodes: &["gone".to_owned()], ..ReadOptions::default() })
            .notices()
            .is_empty()
    );
}

#[test]
fn an_edited_replica_count_of_a_deployment_scales_its_replica_sets() {
    let set = |name: &str, revision: u32, replicas: u32, seen: u32| {
        format!(
            "---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata:\n  name: {name}\n  uid: {name}\n  annotations:\n    \
             deployment.kubernetes.io/revision: '{revision}'\n    deployment.kubernetes.io/desired-replicas: '{seen}'\n  \
             ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}}]\nspec: \
             {{replicas: {replicas}, selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, {POD}}}}}\n"
        )
    };
    let deployment = |replicas: u32| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, uid: d}}\nspec: {{replicas: {replicas}, selector: \
             {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, {POD}}}}}\n"
        )
    };
    let replicas = |text: &str| {
        let read = read(text).unwrap();
        let sets = read.objects.iter().filter(|object| object.kind.kind == "ReplicaSet");
        let replicas: Vec<_> = sets.map(|set| set.value()["spec"]["replicas"].as_i64().unwrap()).collect();
        (replicas, read.notices())
    };
    let told = |wanted: u32, had: u32| {
        vec![format!(
            "Deployment default/web requests {wanted} pods, but its ReplicaSets request {had}: scaling the ReplicaSets to \
             match"
        )]
    };
    assert_eq!(replicas(&(deployment(8) + &set("web-1", 1, 5, 5))), (vec![8], told(8, 5)));
    assert_eq!(replicas(&(deployment(3) + &set("web-1", 1, 5, 5))), (vec![3], told(3, 5)));
    let rolling = set("web-1", 1, 4, 5) + &set("web-2", 2, 3, 5);
    assert_eq!(replicas(&(deployment(5) + &rolling)), (vec![4, 3], vec![]), "a rollout continues");
    assert_eq!(replicas(&(deployment(2) + &rolling)), (vec![2, 0], told(2, 7)));
}

#[test]
fn kinds_that_are_referred_to_but_missing_are_reported() {
    let pod = |name: &str, claim: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}], volumes: \
             [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}]}}\n"
        )
    };
    let pods = pod("a", "index") + &pod("b", "logs");
    assert_eq!(
        read(&pods).unwrap().notices(),
        ["the input refers to 2 PersistentVolumeClaims (default/index, …), but does not contain them; the \
             `dump` command writes everything that is needed"]
    );
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: index}\nspec: {accessModes: \
                 [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    assert!(read(&(pods + claim)).unwrap().notices().is_empty());
}

#[test]
fn pod_groups_are_read_with_their_gate_and_otherwise_ignored() {
    let text = "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, uid: u}, spec: \
                {schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: high, priority: 9}}\n";
    let read = |features| {
        let source = Source { name: "f.yaml".into(), text: text.into() };
        let options = ReadOptions { features, ..ReadOptions::default() };
        let manifests = Manifests::read(&[source], options, |_, _| Ok(())).unwrap();
        let labels: Vec<String> = manifests.objects.iter().map(Manifest::label).collect();
        (labels.join(", "), manifests.ignored.len())
    };
    let default = Features::of(Release::V1_37);
    assert_eq!(read(default), (String::new(), 1));
    let expected = "PriorityClass high, PodGroup default/g";
    assert_eq!(read(default.with(Feature::GenericWorkload, true)), (expected.to_owned(), 0));
}
