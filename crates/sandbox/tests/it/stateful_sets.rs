//! Status of a StatefulSet while its pods are replaced.

use super::*;

/// Returns the numbers of replicas, ready replicas and updated replicas, and true if the current revision is the new
/// one.
fn told(set: &Value) -> (i64, i64, i64, bool) {
    let status = &set["status"];
    let number = |name: &str| status[name].as_i64().unwrap_or(0);
    let is_same = status["currentRevision"] == status["updateRevision"];
    (number("replicas"), number("readyReplicas"), number("updatedReplicas"), is_same)
}

#[tokio::test]
async fn the_status_shows_the_new_revision_only_after_all_pods_are_replaced() {
    let sandbox = sandbox(3, &workload("StatefulSet", 3)).await;
    let mut watch = sandbox.store().watch("statefulsets.apps", "default", "", "").unwrap();
    sandbox
        .store()
        .update("statefulsets.apps", "default", "web", |set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = "j".into();
        })
        .unwrap();
    let mut seen = Vec::new();
    let end = tokio::time::timeout(LIMIT, async {
        loop {
            for event in watch.next().await.unwrap() {
                let set = event.object.value();
                let is_told = set["status"]["observedGeneration"] == set["metadata"]["generation"];
                if is_told && set["metadata"]["generation"] != 1 {
                    seen.push(told(&set));
                }
            }
            if seen.last() == Some(&(3, 3, 3, true)) {
                return;
            }
        }
    });
    end.await.expect("all pods are replaced");
    assert_eq!((seen[0].2, seen[0].3), (0, false), "{seen:?}");
    assert!(seen.iter().any(|(_, _, updated, _)| *updated == 1), "{seen:?}");
    assert!(seen.is_sorted_by_key(|(_, _, updated, _)| *updated), "{seen:?}");
    assert_eq!(seen.iter().filter(|(_, _, _, is_same)| *is_same).count(), 1, "{seen:?}");
}
