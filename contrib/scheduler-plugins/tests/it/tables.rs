//! Columns that kubectl shows for the custom resources, as those of scheduler-plugins.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster::serde_json::{self, Value, json};
use harbormaster_oracle::embedded::Embedded;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PATIENCE: Duration = Duration::from_secs(20);

/// Definitions, the path of objects of one of them, an object, its columns, and its cells without the last one, the age.
type Shown = (&'static str, &'static str, Value, &'static [&'static str], Value);

fn create(cluster: &Embedded, definitions: &str) {
    for definition in definitions.split("\n---\n") {
        let definition: Value = serde_saphyr::from_str(definition).unwrap();
        cluster.client().post(DEFINITIONS, &definition).unwrap();
    }
}

fn table(cluster: &Embedded, path: &str) -> Value {
    serde_json::from_slice(&cluster.client().get_as(path, TABLE).unwrap()).unwrap()
}

fn check(cluster: &Embedded, (definitions, path, object, columns, cells): Shown) {
    create(cluster, definitions);
    let begun = Instant::now();
    while cluster.client().get(path).is_err() {
        assert!(begun.elapsed() < PATIENCE, "{path} is not served");
        sleep(Duration::from_millis(20));
    }
    let name = object["metadata"]["name"].as_str().unwrap();
    cluster.client().post(path, &object).unwrap();
    if let Some(status) = object.get("status") {
        let status = json!({ "status": status });
        cluster.client().merge_patch(&format!("{path}/{name}/status"), &status).unwrap();
    }
    let table = table(cluster, path);
    let names = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]);
    assert_eq!(names.collect::<Vec<_>>(), columns, "{path}");
    let shown = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(Value::from(&shown[..shown.len() - 1]), cells, "{path}");
}

#[test]
fn kubectl_shows_the_columns_of_scheduler_plugins() {
    let cluster = Embedded::start(|_| Ok(())).unwrap();
    let shown: [Shown; 4] = [
        (
            include_str!("../../../capacity-scheduling/deploy/crd.yaml"),
            "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/elasticquotas",
            json!({
                "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "q"},
                "spec": {"min": {"cpu": "4"}, "max": {"cpu": "6"}}, "status": {"used": {"cpu": "1"}},
            }),
            &["Name", "Used", "Max", "Age"],
            json!(["q", "{\"cpu\":\"1\"}", "{\"cpu\":\"6\"}"]),
        ),
        (
            include_str!("../../../coscheduling/deploy/crd.yaml"),
            "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups",
            json!({
                "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"},
                "spec": {"minMember": 3}, "status": {"phase": "Running", "running": 3},
            }),
            &["Name", "Phase", "MinMember", "Running", "Succeeded", "Failed", "Age"],
            json!(["g", "Running", 3, 3, null, null]),
        ),
        (
            include_str!("../../../node-resource-topology-match/deploy/crd.yaml"),
            "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
            json!({
                "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
                "metadata": {"name": "n"}, "topologyPolicies": [], "zones": [],
            }),
            &["Name", "Age"],
            json!(["n"]),
        ),
        (
            include_str!("../../../network-overhead/deploy/crd.yaml"),
            "/apis/appgroup.diktyo.x-k8s.io/v1alpha1/namespaces/default/appgroups",
            json!({
                "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1", "kind": "AppGroup", "metadata": {"name": "a"},
                "spec": {"numMembers": 1},
            }),
            &["Name", "Age"],
            json!(["a"]),
        ),
    ];
    shown.into_iter().for_each(|one| check(&cluster, one));
}
