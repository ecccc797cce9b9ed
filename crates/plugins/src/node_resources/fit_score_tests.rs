//! Scores of NodeResourcesFit.

use harbormaster_testkit::{
    NodeBuilder, PodBuilder, Trial, batch_equals_single, cluster, node, pod, set_custom,
};
use serde_json::{Value, json};

use super::*;

const GPU: &str = "example.com/gpu";

fn with(strategy: &str, resources: Value, shape: Value) -> Trial {
    let mut args = json!({"scoringStrategy": {"type": strategy, "resources": resources}});
    if !shape.is_null() {
        args["scoringStrategy"]["requestedToCapacityRatio"] = json!({ "shape": shape });
    }
    let args = serde_json::from_value(args).unwrap();
    Trial::of(NodeResourcesFit::build(args, &BuildCycle::default()).unwrap())
}

fn cpu_and_memory(cpu: i64, memory: i64) -> Value {
    json!([{"name": "cpu", "weight": cpu}, {"name": "memory", "weight": memory}])
}

fn falling() -> Value {
    json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}])
}

fn scores<const N: usize, const B: usize>(
    trial: &Trial,
    nodes: [NodeBuilder; N],
    bound: [PodBuilder; B],
    pod: PodBuilder,
) -> Vec<i64> {
    let nodes = cluster(nodes, bound);
    let pod = pod.info();
    batch_equals_single(trial, &nodes, &pod);
    trial.scores(&nodes, &pod).unwrap().unwrap()
}

fn sized(name: &str, cpu: &str, memory: &str) -> NodeBuilder {
    node(name).allocatable(cpu, memory, 110)
}

fn asks(cpu: &str, memory: &str) -> PodBuilder {
    pod("p").cpu(cpu).memory(memory)
}

#[test]
fn least_allocated_favors_free_nodes_by_the_weighted_mean_of_free_fractions() {
    let nodes = || [sized("n1", "4000m", "10000"), sized("n2", "6000m", "10000")];
    let least = |cpu, memory| with("LeastAllocated", cpu_and_memory(cpu, memory), Value::Null);
    assert_eq!(scores(&least(1, 1), nodes(), [], asks("3000m", "5000")), [37, 50]);
    assert_eq!(scores(&least(1, 2), nodes(), [], asks("3000m", "5000")), [41, 50]);
    let over = [sized("n1", "4000m", "10000")];
    assert_eq!(
        scores(&least(1, 1), over, [], asks("5000m", "5000")),
        [25],
        "a request that is too large scores zero"
    );
    let busy = pod("busy").cpu("1000m").memory("5000").on("n1");
    assert_eq!(scores(&least(1, 1), [sized("n1", "4000m", "10000")], [busy], asks("1000m", "0")), [50]);
}

#[test]
fn scalars_count_only_for_pods_that_request_them_and_on_nodes_that_have_them() {
    let resources =
        json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}, {"name": GPU, "weight": 1}]);
    let least = with("LeastAllocated", resources, Value::Null);
    let nodes = || {
        [
            sized("n1", "4000m", "4000").offers(GPU, "4"),
            sized("n2", "4000m", "4000").offers(GPU, "10"),
            sized("n3", "4000m", "4000"),
        ]
    };
    assert_eq!(scores(&least, nodes(), [], asks("2000m", "2000").request(GPU, "2")), [50, 60, 50]);
    assert_eq!(scores(&least, nodes(), [], asks("2000m", "2000")), [50, 50, 50]);
    let used = pod("used").request(GPU, "1").cpu("0").memory("0").on("n1");
    assert_eq!(scores(&least, nodes(), [used], asks("2000m", "2000").request(GPU, "2"))[0], 41);
}

#[test]
fn containers_without_requests_get_defaults_and_explicit_zeros_do_not() {
    let least = with("LeastAllocated", json!([{"name": "cpu", "weight": 1}]), Value::Null);
    let one = || [sized("n1", "1000m", "1Gi")];
    assert_eq!(scores(&least, one(), [], pod("p")), [90]);
    assert_eq!(scores(&least, one(), [], pod("p").container()), [80]);
    assert_eq!(scores(&least, one(), [], pod("p").cpu("0")), [100]);
    assert_eq!(scores(&least, one(), [pod("there").on("n1")], pod("p").cpu("0")), [90]);
    assert_eq!(scores(&least, one(), [], pod("p").cpu("200m").overhead("cpu", "100m")), [70]);
}

#[test]
fn pod_level_requests_count_for_pods_on_the_node_but_not_for_the_waiting_pod() {
    let least = with("LeastAllocated", cpu_and_memory(1, 1), Value::Null);
    let one = || [sized("n1", "10", "10Gi")];
    let demanding = || pod("p").pod_level("cpu", "5").pod_level("memory", "5Gi");
    assert_eq!(scores(&least, one(), [], demanding()), [98]);
    let zero = asks("0", "0");
    assert_eq!(scores(&least, one(), [demanding().on("n1")], zero), [50]);
}

#[test]
fn requested_ephemeral_storage_counts() {
    let least = with("LeastAllocated", json!([{"name": "ephemeral-storage", "weight": 1}]), Value::Null);
    let nodes = [node("n1").offers("ephemeral-storage", "100"), node("n2")];
    let used = pod("used").request("ephemeral-storage", "10").on("n1");
    assert_eq!(scores(&least, nodes, [used], pod("p").request("ephemeral-storage", "20")), [70, 0]);
}

#[test]
fn most_allocated_favors_full_nodes() {
    let most = |cpu, memory| with("MostAllocated", cpu_and_memory(cpu, memory), Value::Null);
    assert_eq!(scores(&most(1, 1), [sized("n1", "4000m", "10000")], [], asks("3000m", "6000")), [67]);
    assert_eq!(scores(&most(2, 1), [sized("n1", "4000m", "10000")], [], asks("3000m", "6000")), [70]);
    assert_eq!(
        scores(&most(1, 1), [sized("n1", "4000m", "10000")], [], asks("9000m", "5000")),
        [75],
        "the used fraction is at most 1"
    );
}

#[test]
fn the_ratio_excludes_resources_that_score_zero_and_rounds_half_up() {
    let ratio = with("RequestedToCapacityRatio", cpu_and_memory(1, 1), falling());
    assert_eq!(
        scores(&ratio, [sized("n1", "1000m", "100")], [], asks("2000m", "90")),
        [10],
        "cpu exceeds the capacity and is excluded"
    );
    assert_eq!(scores(&ratio, [sized("n1", "100m", "100")], [], asks("66m", "70")), [32]);
    assert_eq!(scores(&ratio, [sized("n1", "100m", "100")], [], asks("66m", "71")), [32], "(34 + 29) / 2");
    assert_eq!(scores(&ratio, [sized("n1", "100m", "100")], [], asks("100m", "100")), [0]);
    let weighted = with("RequestedToCapacityRatio", cpu_and_memory(3, 1), falling());
    assert_eq!(scores(&weighted, [sized("n1", "100m", "100")], [], asks("50m", "90")), [40]);
}

#[test]
fn a_node_without_any_of_the_resources_scores_zero() {
    for strategy in ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] {
        let gpus = with(strategy, json!([{"name": GPU, "weight": 3}]), falling());
        assert_eq!(scores(&gpus, [node("n1")], [], pod("p").request(GPU, "1")), [0], "{strategy}");
    }
    let unknown = with("LeastAllocated", json!([{"name": "unknown", "weight": 1}]), Value::Null);
    assert_eq!(scores(&unknown, [node("n1")], [], pod("p")), [0]);
}

#[test]
fn a_strategy_that_does_not_exist_or_lacks_its_shape_is_rejected() {
    let refused = |args: Value| {
        let args = serde_json::from_value(args).unwrap();
        NodeResourcesFit::build(args, &BuildCycle::default()).unwrap_err().to_string()
    };
    let text = refused(json!({"scoringStrategy": {"type": "Fancy"}}));
    assert_eq!(text, "scoring strategy Fancy is not supported");
    let text = refused(json!({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}));
    assert_eq!(text, "at least one point must be specified");
}

#[test]
fn the_devices_of_a_class_count_on_nodes_that_do_not_offer_its_resource() {
    let mut nodes = cluster([node("a"), node("b"), node("c").offers(GPU, "4")], []);
    let class = json!({
        "metadata": {"name": "gpus"},
        "spec": {"extendedResourceName": GPU, "selectors": [{"cel": {"expression": "device.driver == 'gpu'"}}]},
    });
    set_custom::<DeviceClass>(&mut nodes, [class]);
    let slice = |node: &str, driver: &str, devices: usize| {
        let devices: Vec<_> = (0..devices).map(|at| json!({"name": format!("d{at}")})).collect();
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        json!({
            "metadata": {"name": format!("{node}-{driver}")},
            "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": devices},
        })
    };
    set_custom::<ResourceSlice>(
        &mut nodes,
        [slice("a", "gpu", 4), slice("b", "gpu", 2), slice("a", "nic", 5), slice("c", "gpu", 1)],
    );
    let used = json!({"request": "r", "driver": "gpu", "pool": "a", "device": "d0"});
    set_custom::<ResourceClaim>(
        &mut nodes,
        [json!({
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {}, "status": {"allocation": {"devices": {"results": [used]}}},
        })],
    );
    for (strategy, expected) in [("LeastAllocated", [50, 50, 75]), ("MostAllocated", [50, 50, 25])] {
        let trial = with(strategy, json!([{"name": GPU, "weight": 1}]), Value::Null);
        let pod = pod("p").request(GPU, "1").info();
        assert_eq!(trial.scores(&nodes, &pod).unwrap().unwrap(), expected, "{strategy}");
    }
}
