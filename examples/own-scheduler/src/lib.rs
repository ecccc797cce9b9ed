//! TeamNodes: lets only a team's pods onto the team's nodes. A node label names the team, and a Team object lists the
//! team's namespaces.

use harbormaster::{prelude::*, serde::Deserialize};

/// A custom resource, defined in `cluster.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct Team {
    spec: TeamSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct TeamSpec {
    namespaces: Vec<String>,
}

impl Resource for Team {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Team";
    const PLURAL: &'static str = "teams";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// The plugin, which is also the type of its arguments, `profiles[].pluginConfig[].args`.
#[derive(Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields)]
pub struct TeamNodes {
    /// Node label whose value is the name of a team.
    pub node_label: String,
}

impl Plugin for TeamNodes {
    const NAME: &'static str = "TeamNodes";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let node = Registration::always(EventResource::Node, Action::ADD | Action::UPDATE_NODE_LABEL);
        Some(vec![Registration::on::<Team>(Action::ADD | Action::UPDATE, Self::after_team), node])
    }
}

impl Watches for TeamNodes {
    type Resources = Team;
}

impl Build for TeamNodes {
    type Args = Self;

    fn build(args: Self, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(args)
    }
}

impl TeamNodes {
    /// Wakes the pod if its namespace belongs to the team.
    fn after_team(&self, pod: &PodInfo, team: Changed<'_, Team>) -> PluginResult<Hint> {
        Ok(if team.new.is_some_and(|team| team.has(pod)) { Hint::Queue } else { Hint::Skip })
    }
}

impl Team {
    fn has(&self, pod: &PodInfo) -> bool {
        self.spec.namespaces.iter().any(|namespace| pod.namespace == *namespace)
    }
}

impl Filter for TeamNodes {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let Some(team) = node.labels().and_then(|labels| labels.get(&self.node_label)) else { return Ok(()) };
        match self.watched(cx.objects).get("", team).is_some_and(|team| team.has(cx.pod)) {
            true => Ok(()),
            false => Err(Reject::unresolvable("node(s) belong to another team").into()),
        }
    }
}
