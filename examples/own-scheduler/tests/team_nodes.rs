//! The plugin in the real scheduler, on a real API, without leaving the process.

use std::time::Duration;

use harbormaster::{
    Scheduler,
    config::ConfigErrors,
    sandbox::{Options, PodState},
    simulation::Source,
};
use own_scheduler::TeamNodes;

const CONFIG: &str = include_str!("../scheduler.yaml");
const CLUSTER: &str = include_str!("../cluster.yaml");

fn scheduler(config: &str) -> Result<Scheduler, ConfigErrors> {
    Scheduler::builder().plugin::<TeamNodes>().config("scheduler.yaml", config).build()
}

fn cluster() -> Vec<Source> {
    vec![Source { name: "cluster.yaml".to_owned(), text: CLUSTER.to_owned() }]
}

#[tokio::test]
async fn a_teams_nodes_take_its_own_pods_only() {
    let scheduler = scheduler(CONFIG).unwrap();
    let options = Options { manifests: cluster(), ..Options::default() };
    let mut sandbox = scheduler.sandbox(options).await.unwrap();
    let decided = sandbox.shows(Duration::from_secs(60), |board| {
        board.count(PodState::Placed) == 1 && board.count(PodState::Unschedulable) == 1
    });
    assert!(decided.await, "{:?}", sandbox.board);
    assert_eq!(sandbox.board.pod("paint/ours").unwrap().node.as_deref(), Some("red-1"));
    let theirs = sandbox.board.pod("default/theirs").unwrap();
    assert!(theirs.message.as_deref().unwrap().contains("1 node(s) belong to another team"), "{theirs:?}");
}

#[test]
fn a_simulation_decides_the_same() {
    let report = scheduler(CONFIG).unwrap().simulate(&cluster()).unwrap().report;
    let nodes: Vec<_> = report.pods.iter().map(|pod| (pod.pod.as_str(), pod.node.as_deref())).collect();
    assert_eq!(nodes, [("paint/ours", Some("red-1")), ("default/theirs", None)]);
}

#[test]
fn wrong_arguments_are_told_of_with_file_line_and_field() {
    let args = "profiles[0].pluginConfig[0].args";
    for (wrong, expected) in [
        (
            "teams: {red: paint}",
            format!("{args}.teams.red: invalid type: string \"paint\", expected a sequence"),
        ),
        (
            "team: {}",
            format!(
                "{args}.team: unknown field `team`, expected `nodeLabel` or `teams` (did you mean `teams`?)"
            ),
        ),
        ("nodeLabel: a", format!("{args}: missing field `teams`")),
        (
            "teams: {red: []}",
            format!("{args}: team \"red\" has no namespaces, so its nodes would stay empty"),
        ),
    ] {
        let error = scheduler(&CONFIG.replace("teams: {red: [paint]}", wrong)).unwrap_err().to_string();
        assert!(error.starts_with("scheduler.yaml:") && error.ends_with(&expected), "{error}");
    }
    let (without, _) = CONFIG.split_once("  pluginConfig").unwrap();
    let error = scheduler(without).unwrap_err().to_string();
    let expected = "initializing plugin \"TeamNodes\": missing field `teams`";
    assert!(error.starts_with("scheduler.yaml:4:3: ") && error.ends_with(expected), "{error}");
}
