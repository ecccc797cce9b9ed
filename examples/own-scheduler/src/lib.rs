//! TeamNodes: nodes that belong to a team take pods of the team's namespaces only. Which team owns a node says a label.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster::{prelude::*, serde::Deserialize};

/// The plugin.
#[derive(Debug)]
pub struct TeamNodes {
    node_label: String,
    teams: BTreeMap<String, BTreeSet<String>>,
}

/// `profiles[].pluginConfig[].args`.
#[derive(Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields)]
pub struct TeamNodesArgs {
    /// The label of nodes whose value is a team.
    #[serde(default = "node_label")]
    node_label: String,
    /// The namespaces of each team.
    teams: BTreeMap<String, BTreeSet<String>>,
}

fn node_label() -> String {
    "example.com/team".to_owned()
}

impl Plugin for TeamNodes {
    const NAME: &'static str = "TeamNodes";
    type FilterState = ();
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points.filter();
    }
}

impl Build for TeamNodes {
    type Args = TeamNodesArgs;

    fn build(args: TeamNodesArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        if let Some((team, _)) = args.teams.iter().find(|(_, namespaces)| namespaces.is_empty()) {
            return Err(format!("team {team:?} has no namespaces, so its nodes would stay empty").into());
        }
        Ok(Self { node_label: args.node_label, teams: args.teams })
    }
}

impl Filter for TeamNodes {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let Some(team) = node.labels().and_then(|labels| labels.get(&self.node_label)) else {
            return Ok(());
        };
        let namespaces = self.teams.get(team.as_str());
        match namespaces.is_some_and(|namespaces| namespaces.contains(cx.pod.namespace.as_str())) {
            true => Ok(()),
            false => Err(Reject::unresolvable("node(s) belong to another team").into()),
        }
    }
}
