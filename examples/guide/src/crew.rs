//! Chapter 6. Crews: gives nodes to a whole crew of pods in one cycle, or to none of them.

use harbormaster::{
    api::{Pod, Str},
    prelude::*,
    serde::Deserialize,
};

const CREW: &str = "example.com/crew";

/// A custom resource; its definition is in `crew/definition.yaml`.
#[derive(Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct Crew {
    spec: CrewSpec,
}

#[derive(Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct CrewSpec {
    /// Number of pods without which none of them runs.
    size: usize,
}

impl Resource for Crew {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Crew";
    const PLURAL: &'static str = "crews";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// Places crews.
#[derive(Default)]
pub struct Crews;

impl Plugin for Crews {
    const NAME: &'static str = "Crews";
    implemented_points!();
}

impl Groups for Crews {
    type Object = Crew;

    fn group_of(&self, pod: &Pod) -> Option<Str> {
        pod.labels.get(CREW).cloned()
    }

    fn describe(&self, crew: &Custom<Crew>) -> GroupSpec {
        GroupSpec { policy: GroupPolicy::Gang { min_count: crew.spec.size }, ..GroupSpec::default() }
    }
}

impl PreEnqueue for Crews {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        match cx.group {
            Some(crew) if crew.pods < crew.min_count() => {
                Err(Reject::unresolvable("waiting for the rest of the crew").into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{Scheduler, simulation::Source};

    use super::*;

    #[test]
    fn a_crew_that_fits_is_placed_whole_and_the_others_take_no_room() {
        let config = include_str!("../crew/scheduler.yaml");
        let scheduler =
            Scheduler::builder().plugin::<Crews>().config("scheduler.yaml", config).build().unwrap();
        let files = [include_str!("../crew/definition.yaml"), include_str!("../crew/cluster.yaml")];
        let sources = files.map(|text| Source { name: "crew.yaml".to_owned(), text: text.to_owned() });
        let simulation = scheduler.simulate(&sources).unwrap();
        let placed = simulation.report.pods.iter().filter(|pod| pod.node.is_some());
        let placed: Vec<&str> = placed.map(|pod| pod.pod.as_str()).collect();
        assert_eq!(placed, ["default/rowers-0", "default/rowers-1", "default/rowers-2"]);
    }
}
