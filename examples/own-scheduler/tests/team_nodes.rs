//! Runs the plugin in the real scheduler, against an in-process API server.

use std::time::Duration;

use harbormaster::{
    Scheduler,
    config::ConfigErrors,
    prelude::*,
    sandbox::{Options, PodState},
    serde_json::json,
    simulation::Source,
    testkit::{Trial, cluster, custom, node, pod, remove_custom, set_custom},
};
use own_scheduler::{Team, TeamNodes};

const CONFIG: &str = include_str!("../scheduler.yaml");
const CLUSTER: &str = include_str!("../cluster.yaml");

fn scheduler(config: &str) -> Result<Scheduler, ConfigErrors> {
    Scheduler::builder().plugin::<TeamNodes>().config("scheduler.yaml", config).build()
}

fn manifests() -> Vec<Source> {
    vec![Source { name: "cluster.yaml".to_owned(), text: CLUSTER.to_owned() }]
}

#[tokio::test]
async fn a_teams_nodes_accept_only_its_own_pods() {
    let scheduler = scheduler(CONFIG).unwrap();
    let options = Options { manifests: manifests(), ..Options::default() };
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
fn a_simulation_makes_the_same_decisions() {
    let simulation = scheduler(CONFIG).unwrap().simulate(&manifests()).unwrap();
    assert!(simulation.notices.is_empty(), "{:?}", simulation.notices);
    let pods = simulation.report.pods;
    let nodes: Vec<_> = pods.iter().map(|pod| (pod.pod.as_str(), pod.node.as_deref())).collect();
    assert_eq!(nodes, [("paint/ours", Some("red-1")), ("default/theirs", None)]);
}

#[test]
fn a_pod_fits_and_is_woken_if_the_nodes_team_has_its_namespace() {
    let trial = Trial::of(TeamNodes { node_label: "team".to_owned() });
    let mut nodes = cluster([node("n").label("team", "red"), node("free")], []);
    let pod = pod("p").namespace("paint").info();
    let team = |namespaces: &[&str]| json!({"metadata": {"name": "red"}, "spec": {"namespaces": namespaces}});
    let (mine, not_mine) = (team(&["paint", "varnish"]), team(&["glue"]));
    for (teams, fits) in [(vec![], false), (vec![mine.clone()], true), (vec![not_mine.clone()], false)] {
        set_custom::<Team>(&mut nodes, teams);
        assert_eq!(trial.verdict(&nodes, &pod, "n").is_ok(), fits);
        assert_eq!(trial.verdict(&nodes, &pod, "free"), Ok(()));
    }
    remove_custom::<Team>(&mut nodes, "", "red");
    assert!(trial.verdict(&nodes, &pod, "n").is_err());
    let (mine, not_mine) = (custom::<Team>(&mine), custom::<Team>(&not_mine));
    assert_eq!(trial.custom_hint(&pod, Some(&not_mine), Some(&mine)), Some(Hint::Queue));
    assert_eq!(trial.custom_hint(&pod, None, Some(&not_mine)), Some(Hint::Skip));
    assert_eq!(trial.custom_hint(&pod, Some(&mine), None), None, "no hint is registered for deletions");
}

#[test]
fn wrong_arguments_are_reported_with_file_line_and_field() {
    for (wrong, expected) in [
        ("nodeLabel: [a]", "args.nodeLabel: invalid type: sequence, expected a string"),
        ("label: a", "args.label: unknown field `label`, expected `nodeLabel`"),
    ] {
        let error = scheduler(&CONFIG.replace("nodeLabel: example.com/team", wrong)).unwrap_err().to_string();
        assert!(error.starts_with("scheduler.yaml:") && error.contains(expected), "{error}");
    }
    let (without, _) = CONFIG.split_once("  pluginConfig").unwrap();
    let error = scheduler(without).unwrap_err().to_string();
    let expected = "initializing plugin \"TeamNodes\": missing field `nodeLabel`";
    assert!(error.starts_with("scheduler.yaml:4:3: ") && error.ends_with(expected), "{error}");
}
