//! Claims get volumes: existing volumes, and volumes provisioned where their pods are placed.

use super::*;

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
";

fn stateful_set(class: &str, policy: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db}}\nspec:\n  replicas: 3\n  selector: {{matchLabels: \
         {{app: db}}}}\n  persistentVolumeClaimRetentionPolicy: {{whenDeleted: {policy}, whenScaled: {policy}}}\n  \
         template:\n    metadata: {{labels: {{app: db}}}}\n    spec: {{containers: [{{name: c, image: i}}]}}\n  \
         volumeClaimTemplates:\n  - metadata: {{name: data}}\n    spec: {{accessModes: [ReadWriteOnce], storageClassName: \
         {class}, resources: {{requests: {{storage: 1Gi}}}}}}\n---\n"
    )
}

/// Returns `name phase` of all claims or volumes.
fn phases(sandbox: &Sandbox, resource: &str) -> Vec<String> {
    let (all, _) = sandbox.store().list(resource, "", "", "").unwrap();
    let phase = |object: Value| object["status"]["phase"].as_str().unwrap_or_default().to_owned();
    all.iter().map(|object| format!("{} {}", object.name(), phase(object.value()))).collect()
}

#[tokio::test]
async fn every_pod_of_a_stateful_set_has_its_own_volumes_in_its_zone() {
    for class in ["waits", "at-once"] {
        let sandbox = sandbox(3, &(CLASSES.to_owned() + &stateful_set(class, "Retain"))).await;
        assert_eq!(count(&sandbox, PodState::Placed), 3, "{:?}", sandbox.board);
        let claims = phases(&sandbox, "persistentvolumeclaims");
        assert_eq!(claims, ["data-db-0 Bound", "data-db-1 Bound", "data-db-2 Bound"]);
        for number in 0..3 {
            let claim = read(&sandbox, "persistentvolumeclaims", &format!("data-db-{number}"));
            let volume =
                sandbox.store().get("persistentvolumes", "", claim["spec"]["volumeName"].as_str().unwrap());
            let volume = volume.unwrap().value();
            assert_eq!(
                volume["metadata"]["name"],
                format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap())
            );
            let zone =
                &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
            let pod = read(&sandbox, "pods", &format!("db-{number}"));
            let node =
                sandbox.store().get("nodes", "", pod["spec"]["nodeName"].as_str().unwrap()).unwrap().value();
            let label = &node["metadata"]["labels"]["topology.kubernetes.io/zone"];
            assert_eq!((&zone["key"], &zone["values"][0]), (&json!("topology.kubernetes.io/zone"), label));
        }
        let (events, _) =
            sandbox.store().list("events", "", "", "involvedObject.kind=PersistentVolumeClaim").unwrap();
        let reasons: Vec<String> =
            events.iter().map(|event| event.value()["reason"].as_str().unwrap().to_owned()).collect();
        // The scheduler may choose the node before the controller sees the claim. Then no claim has waited.
        let has_waited = reasons.iter().any(|reason| *reason == "WaitForFirstConsumer");
        assert!(class == "waits" || !has_waited, "{reasons:?}");
        assert_eq!(
            reasons.iter().filter(|reason| *reason == "ProvisioningSucceeded").count(),
            3,
            "{reasons:?}"
        );
    }
}

#[tokio::test]
async fn claims_of_a_stateful_set_follow_its_retention_policy() {
    for (policy, after_scaling, after_deletion) in [("Retain", 3, 3), ("Delete", 1, 0)] {
        let mut sandbox = sandbox(1, &(CLASSES.to_owned() + &stateful_set("waits", policy))).await;
        change(&sandbox, "statefulsets.apps", "db", &json!({"spec": {"replicas": 1}}));
        assert!(sandbox.settled(LIMIT).await);
        eventually(|| phases(&sandbox, "persistentvolumes").len() == after_scaling).await;
        sandbox.store().delete("statefulsets.apps", "default", "db", None).unwrap();
        assert!(sandbox.settled(LIMIT).await);
        eventually(|| phases(&sandbox, "persistentvolumes").len() == after_deletion).await;
        assert_eq!(phases(&sandbox, "persistentvolumeclaims").len(), after_deletion, "{policy}");
    }
}

#[tokio::test]
async fn an_ephemeral_volume_comes_and_goes_with_its_pod() {
    let pod = "
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
  volumes:
  - name: scratch
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: waits, resources: {requests: {storage: 1Gi}}}}}
";
    let mut sandbox = sandbox(1, &(CLASSES.to_owned() + pod)).await;
    assert_eq!(count(&sandbox, PodState::Placed), 1, "{:?}", sandbox.board);
    assert_eq!(phases(&sandbox, "persistentvolumeclaims"), ["p-scratch Bound"]);
    sandbox.store().delete("pods", "default", "p", None).unwrap();
    assert!(sandbox.settled(LIMIT).await);
    eventually(|| phases(&sandbox, "persistentvolumes").is_empty()).await;
    assert!(phases(&sandbox, "persistentvolumeclaims").is_empty());
}

#[tokio::test]
async fn existing_volumes_are_bound_to_suitable_claims_and_retained() {
    let volume = |name: &str, storage: &str, class: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}}}\nspec: {{capacity: {{storage: {storage}}}, \
             accessModes: [ReadWriteOnce], storageClassName: {class}, hostPath: {{path: /d}}}}\n---\n"
        )
    };
    let local = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: local}\nprovisioner: \
                 kubernetes.io/no-provisioner\nvolumeBindingMode: WaitForFirstConsumer\n---\n";
    let claim = |name: &str, class: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec: {{storageClassName: {class:?}, \
             accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}\n---\n"
        )
    };
    let user = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}], volumes: \
             [{{name: v, persistentVolumeClaim: {{claimName: {name}}}}}]}}\n---\n"
        )
    };
    let manifests = [
        local.to_owned(),
        volume("large", "5Gi", "\"\""),
        volume("small", "1Gi", "\"\""),
        volume("disk", "2Gi", "local"),
        claim("any", ""),
        claim("waiting", "local"),
        user("any"),
        user("waiting"),
    ];
    let mut sandbox = sandbox(1, &manifests.concat()).await;
    assert_eq!(count(&sandbox, PodState::Placed), 2, "{:?}", sandbox.board);
    assert_eq!(phases(&sandbox, "persistentvolumes"), ["disk Bound", "large Available", "small Bound"]);
    assert_eq!(read(&sandbox, "persistentvolumeclaims", "waiting")["spec"]["volumeName"], "disk");
    for name in ["any", "waiting"] {
        sandbox.store().delete("pods", "default", name, None).unwrap();
        sandbox.store().delete("persistentvolumeclaims", "default", name, None).unwrap();
    }
    assert!(sandbox.settled(LIMIT).await);
    eventually(|| {
        phases(&sandbox, "persistentvolumes") == ["disk Released", "large Available", "small Released"]
    })
    .await;
}

#[tokio::test]
async fn generated_nodes_come_with_a_default_storage_class() {
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], \
                 resources: {requests: {storage: 1Gi}}}\n---\n";
    let pod = pod("db", "1").trim_end_matches("---\n").to_owned()
        + "  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n---\n";
    let manifests = format!("{claim}{pod}");
    let first = sandbox(3, &manifests).await;
    assert_eq!(count(&first, PodState::Placed), 1, "{:?}", first.board);
    assert_eq!(phases(&first, "persistentvolumeclaims"), ["data Bound"]);
    assert_eq!(read(&first, "persistentvolumeclaims", "data")["spec"]["storageClassName"], "standard");
    first.stop().await.unwrap();

    let own = CLASSES.replace(
        "name: waits",
        "name: waits, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}",
    );
    let second = sandbox(3, &format!("{own}{manifests}")).await;
    assert_eq!(read(&second, "persistentvolumeclaims", "data")["spec"]["storageClassName"], "waits");
    let (classes, _) = second.store().list("storageclasses.storage.k8s.io", "", "", "").unwrap();
    assert_eq!(classes.len(), 2, "a default class in the manifests is the only one");
    second.stop().await.unwrap();
}
