//! A row-scoped plugin with incomplete reads.

use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, Words, random::Dice, reads_are_complete};

use super::Planted;

#[derive(Clone, Copy, PartialEq)]
enum Forgets {
    Nothing,
    Priority,
    Tolerations,
    NodeSelector,
    Image,
    Watts,
    HostPorts,
}

/// Reads many fields.
struct Curious(Forgets);

const WATTS: &str = "example.com/watts";

impl Plugin for Curious {
    const NAME: &'static str = "Curious";
    implemented_points!();
    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        let spec = pod.derived;
        let mut reads_unless = |forgets, read: &dyn Fn(&mut Reads)| {
            if self.0 != forgets {
                read(reads);
            }
        };
        reads_unless(Forgets::Priority, &|r| {
            r.of(&spec.priority);
        });
        reads_unless(Forgets::Tolerations, &|r| {
            r.of(&spec.tolerations.is_empty());
        });
        reads_unless(Forgets::NodeSelector, &|r| {
            r.of(&spec.node_selector);
        });
        reads_unless(Forgets::Image, &|r| {
            r.of(&spec.containers[0].image);
        });
        reads_unless(Forgets::Watts, &|r| {
            r.of(&pod.request().named(WATTS));
        });
        reads_unless(Forgets::HostPorts, &|r| {
            r.of(&spec.host_ports);
        });
    }
}

impl Filter<Row> for Curious {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let spec = cx.pod.derived;
        let selects =
            |labels: &harbormaster_api::Labels| labels.get("disk").is_some_and(|disk| disk == "ssd");
        let rejected = (spec.priority < 1_000_000 && node.pods().len() > 2)
            || (spec.tolerations.is_empty() && !node.taints().is_empty())
            || spec.node_selector.as_ref().is_some_and(selects) && node.pods().len() > 2
            || cx.pod.request().named(WATTS) > 100
            || spec.host_ports.iter().any(|port| node.used_ports().conflicts(port));
        if rejected { Err(Reject::evictable("no").into()) } else { Ok(()) }
    }
}

impl Score<Row> for Curious {
    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(i64::from(node.image(&cx.pod.spec.containers[0].image).is_some()))
    }
}

fn check(forgets: Forgets) {
    let words = Words::default().resource(WATTS, &["50", "400"]);
    let trial = Trial::of(Curious(forgets)).knowing(words.clone());
    let mut dice = Dice::knowing(1, words);
    let nodes = dice.cluster(12);
    let pods: Vec<_> = (0..20).map(|at| dice.pod(&format!("p{at}")).info()).collect();
    assert!(reads_are_complete(&trial, &nodes, &pods) > 100);
}

pub(super) fn right() {
    check(Forgets::Nothing);
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "does not declare that it reads the priority",
        said: "Curious: answers depend on spec.priority, which `reads` omits",
        check: || check(Forgets::Priority),
    },
    Planted {
        wrong: "does not declare that it reads tolerations",
        said: "Curious: answers depend on spec.tolerations, which `reads` omits",
        check: || check(Forgets::Tolerations),
    },
    Planted {
        wrong: "does not declare that it reads the node selector",
        said: "Curious: answers depend on spec.nodeSelector, which `reads` omits",
        check: || check(Forgets::NodeSelector),
    },
    Planted {
        wrong: "does not declare that it reads the image",
        said: "Curious: answers depend on spec.containers[].image, which `reads` omits",
        check: || check(Forgets::Image),
    },
    Planted {
        wrong: "does not declare that it reads an extended resource",
        said: "Curious: answers depend on spec.containers[].resources.requests, which `reads` omits",
        check: || check(Forgets::Watts),
    },
    Planted {
        wrong: "does not declare that it reads host ports",
        said: "Curious: answers depend on spec.containers[].ports, which `reads` omits",
        check: || check(Forgets::HostPorts),
    },
];
