//! How the author of a plugin tests it end to end: the plugin in the real scheduler, on a real API, in milliseconds.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use std::time::Duration;

use harbormaster_framework::prelude::*;
use harbormaster_sandbox::{Board, Options, PodState, Sandbox, Scheduler, Source};
use harbormaster_setup::{Choices, Setup};
use serde::Deserialize;

/// Keeps pods off nodes whose name starts with a prefix.
#[derive(Debug)]
struct Avoid {
    prefix: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AvoidArgs {
    prefix: String,
}

impl Plugin for Avoid {
    const NAME: &'static str = "Avoid";
    type FilterState = ();
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points.filter();
    }
}

impl Build for Avoid {
    type Args = AvoidArgs;

    fn build(args: AvoidArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { prefix: args.prefix })
    }
}

impl Filter for Avoid {
    fn filter(&self, _: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<Verdict> {
        Ok(match node.name().starts_with(&self.prefix) {
            true => Err(Reject::unresolvable("node(s) are to be avoided")),
            false => Ok(()),
        })
    }
}

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {filter: {enabled: [{name: Avoid}]}}
  pluginConfig: [{name: Avoid, args: {prefix: node-1}}]
";

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: free}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: held}
spec:
  containers: [{name: c, image: i}]
  nodeSelector: {kubernetes.io/hostname: node-1}
";

#[tokio::test]
async fn a_plugin_from_elsewhere_decides_in_the_real_scheduler() {
    let mut choices = Choices::default();
    choices.plugins.register::<Avoid>();
    let setup = Setup::read(Some(("scheduler.yaml", CONFIG)), &choices).unwrap();
    let options = Options {
        nodes: 2,
        manifests: vec![Source { name: "pods.yaml".to_owned(), text: PODS.to_owned() }],
        scheduler: Scheduler::Engine(setup.engine),
        ..Options::default()
    };
    let mut sandbox = Sandbox::start(options).await.unwrap();
    let is_decided =
        |board: &Board| board.count(PodState::Placed) == 1 && board.count(PodState::Unschedulable) == 1;
    assert!(sandbox.shows(Duration::from_secs(60), is_decided).await, "{:?}", sandbox.board);
    assert_eq!(sandbox.board.pod("default/free").unwrap().node.as_deref(), Some("node-2"));
    let held = sandbox.board.pod("default/held").unwrap();
    assert!(held.message.as_deref().unwrap().contains("1 node(s) are to be avoided"), "{held:?}");
}
