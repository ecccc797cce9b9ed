//! A plugin that registers for events that never happen.

use harbormaster_framework::prelude::*;
use harbormaster_testkit::Trial;
use serde::Deserialize;

use super::Planted;

#[derive(Clone, Debug, Deserialize)]
struct Team {}

impl Resource for Team {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Team";
    const PLURAL: &'static str = "teams";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// Registers for the event that its fields describe.
struct Ears(EventResource, Action);

impl Plugin for Ears {
    const NAME: &'static str = "Ears";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::always(self.0, self.1)])
    }
}

impl Watches for Ears {
    type Resources = Team;
}

impl Filter for Ears {
    fn filter(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> Verdict {
        Ok(())
    }
}

fn check(resource: EventResource, action: Action) {
    drop(Trial::of(Ears(resource, action)));
}

pub(super) fn right() {
    check(EventResource::Pod, Action::DELETE | Action::UPDATE_POD_LABEL);
    check(EventResource::Node, Action::ADD | Action::UPDATE_NODE_ANNOTATION);
    check(EventResource::of::<Team>(), Action::ADD | Action::UPDATE);
    check(EventResource::WildCard, Action::ALL);
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "registers for a node annotation event on pods",
        said: "plugin \"Ears\" listens to UpdateNodeAnnotation of Pod, which never happens; the possible actions are Add, \
               Delete, UpdatePodLabel, UpdatePodScaleDown, UpdatePodScaleUp, UpdatePodToleration, \
               UpdatePodSchedulingGatesEliminated, UpdatePodGeneratedResourceClaim and Update (any update)",
        check: || check(EventResource::Pod, Action::DELETE | Action::UPDATE_NODE_ANNOTATION),
    },
    Planted {
        wrong: "registers for a pod label event on nodes",
        said: "plugin \"Ears\" listens to UpdatePodLabel of Node, which never happens; the possible actions are Add, Delete, \
               UpdateNodeAllocatable",
        check: || check(EventResource::Node, Action::ADD | Action::UPDATE_POD_LABEL),
    },
    Planted {
        wrong: "registers for a node event on a custom resource",
        said: "plugin \"Ears\" listens to UpdateNodeLabel of teams.v1.example.com, which never happens; the possible actions \
               are Add, Delete and Update (any update)",
        check: || check(EventResource::of::<Team>(), Action::ADD | Action::UPDATE_NODE_LABEL),
    },
    Planted {
        wrong: "registers for no action",
        said: "plugin \"Ears\" listens to no action of Node; the possible actions are Add",
        check: || check(EventResource::Node, Action(0)),
    },
    Planted {
        wrong: "registers for storage classes, which it does not declare",
        said: "plugin \"Ears\" listens for changes to storage.k8s.io/StorageClass, a resource that is not watched",
        check: || check(EventResource::StorageClass, Action::UPDATE),
    },
];
