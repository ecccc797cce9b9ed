//! Chapter 4. NoMaintenance: keeps pods off nodes that a Maintenance object selects.

use harbormaster::{api::Labels, prelude::*, serde::Deserialize};

/// A custom resource; its definition is in `maintenance/definition.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct Maintenance {
    spec: MaintenanceSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase")]
struct MaintenanceSpec {
    /// Labels of the nodes under maintenance. A node must have all of them.
    node_labels: Labels,
    #[serde(default)]
    reason: String,
}

impl Resource for Maintenance {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Maintenance";
    const PLURAL: &'static str = "maintenances";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// Keeps pods off nodes under maintenance.
#[derive(Default)]
pub struct NoMaintenance;

impl Plugin for NoMaintenance {
    const NAME: &'static str = "NoMaintenance";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::on::<Maintenance>(Action::UPDATE | Action::DELETE, Self::after_maintenance),
            Registration::always(EventResource::Node, Action::ADD | Action::UPDATE_NODE_LABEL),
        ])
    }
}

impl Watches for NoMaintenance {
    type Resources = Maintenance;
}

impl NoMaintenance {
    /// Wakes pods if the maintenance has ended or selects other nodes.
    fn after_maintenance(&self, _: &PodInfo, changed: Changed<'_, Maintenance>) -> PluginResult<Hint> {
        let nodes = |object: Option<&Custom<Maintenance>>| object.map(|o| o.spec.node_labels.clone());
        Ok(if nodes(changed.old) == nodes(changed.new) { Hint::Skip } else { Hint::Queue })
    }
}

impl PreFilter for NoMaintenance {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        match self.watched(cx.objects).all().next() {
            Some(_) => Ok(PreFiltered::state(())),
            None => Ok(PreFiltered::Skip),
        }
    }
}

impl Filter for NoMaintenance {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let Some(labels) = node.labels() else { return Ok(()) };
        for maintenance in self.watched(cx.objects).all() {
            if maintenance.spec.node_labels.subset_of(labels) {
                let why = format!("node(s) are under maintenance ({})", maintenance.spec.reason);
                return Err(Reject::unresolvable(why).into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        serde_json::{Value, json},
        testkit::{
            Happening, Trial, cluster, custom, node, pod, remove_custom, set_custom, what_helps_wakes,
        },
    };

    use super::*;

    fn of_rack(rack: &str, reason: &str) -> Value {
        json!({
            "metadata": {"name": "window"},
            "spec": {"nodeLabels": {"rack": rack}, "reason": reason},
        })
    }

    #[test]
    fn nodes_accept_no_pods_during_their_maintenance() {
        let (trial, pod) = (Trial::of(NoMaintenance), pod("p").info());
        let mut nodes = cluster([node("a").label("rack", "1"), node("b").label("rack", "2")], []);
        set_custom::<Maintenance>(&mut nodes, [of_rack("1", "new cables")]);
        let rejected = Err(Reject::unresolvable("node(s) are under maintenance (new cables)"));
        assert_eq!(trial.verdict(&nodes, &pod, "a"), rejected);
        assert_eq!(trial.verdict(&nodes, &pod, "b"), Ok(()));
        remove_custom::<Maintenance>(&mut nodes, "", "window");
        assert_eq!(trial.verdict(&nodes, &pod, "a"), Ok(()));
    }

    #[test]
    fn every_change_that_helps_a_pod_wakes_it() {
        let mut nodes = cluster([node("a").label("rack", "1"), node("b").label("rack", "2")], []);
        set_custom::<Maintenance>(&mut nodes, [of_rack("1", "new cables")]);
        let happenings = [
            Happening::custom::<Maintenance>(&of_rack("2", "new cables")),
            Happening::Node(node("b").label("rack", "3").build()),
            Happening::custom::<Maintenance>(&of_rack("3", "new cables")),
            Happening::Node(node("c").label("rack", "4").build()),
            Happening::custom_gone::<Maintenance>("", "window"),
        ];
        let (trial, pod) = (Trial::of(NoMaintenance), pod("p").info());
        assert_eq!(what_helps_wakes(&trial, &mut nodes, &pod, happenings), 4);
    }

    #[test]
    fn pods_are_woken_when_a_maintenance_ends_or_moves_but_not_when_its_reason_changes() {
        let (trial, pod) = (Trial::of(NoMaintenance), pod("p").info());
        let before = custom::<Maintenance>(&of_rack("1", "new cables"));
        let reworded = custom::<Maintenance>(&of_rack("1", "old cables"));
        let moved = custom::<Maintenance>(&of_rack("2", "new cables"));
        for (old, new, expected) in [
            (Some(&before), None, Some(Hint::Queue)),
            (Some(&before), Some(&moved), Some(Hint::Queue)),
            (Some(&before), Some(&reworded), Some(Hint::Skip)),
            (None, Some(&before), None),
        ] {
            assert_eq!(trial.custom_hint(&pod, old, new), expected, "{old:?} {new:?}");
        }
    }
}
