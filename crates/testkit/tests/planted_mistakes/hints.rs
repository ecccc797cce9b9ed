//! Plugins that fail to wake their pods on events that would help.

use harbormaster_api::Pod;
use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, Words, random::Dice, what_helps_wakes_anywhere};

use super::Planted;

#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    NotWhenPodsGo,
    NotWhenNodesChange,
    NotWhenNodesCome,
    OnlyItsNamespace,
    LooksAtTheOldNode,
    HearsOfLabelsOnly,
    NotOfItself,
}

/// Limits the power that pods use (a pod annotation) to the power of their node (a node annotation).
struct PowerCap(Wrong);

const WATTS: &str = "example.com/watts";

fn watts(annotations: &harbormaster_api::Labels) -> i64 {
    annotations.get(WATTS).and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl Plugin for PowerCap {
    const NAME: &'static str = "PowerCap";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let of_pods = match self.0 {
            Wrong::NotWhenPodsGo => Action::UPDATE,
            Wrong::HearsOfLabelsOnly => Action::DELETE | Action::UPDATE_POD_LABEL,
            _ => Action::DELETE | Action::UPDATE,
        };
        let of_nodes = match self.0 {
            Wrong::NotWhenNodesChange => Action::ADD,
            Wrong::NotWhenNodesCome => Action::UPDATE_NODE_ANNOTATION,
            _ => Action::ADD | Action::UPDATE_NODE_ANNOTATION,
        };
        Some(vec![
            Registration::hinted(EventResource::Pod, of_pods, Self::after_pod),
            Registration::hinted(EventResource::Node, of_nodes, Self::after_node),
        ])
    }
}

impl PowerCap {
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), new } = change else { return Ok(Hint::Queue) };
        let of = |pod: Option<&Pod>| pod.map_or(0, |pod| watts(&pod.annotations));
        let takes_less = of(*new) < watts(&old.annotations);
        let counts = match self.0 {
            Wrong::OnlyItsNamespace => old.namespace == pod.namespace,
            Wrong::NotOfItself => old.uid != pod.uid,
            _ => true,
        };
        Ok(if takes_less && counts { Hint::Queue } else { Hint::Skip })
    }

    fn after_node(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { old, new: Some(new) } = change else { return Ok(Hint::Queue) };
        let seen = if self.0 == Wrong::LooksAtTheOldNode { old.unwrap_or(new) } else { new };
        let helps = watts(&seen.annotations) >= watts(&pod.annotations);
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

impl Filter for PowerCap {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let has = node.object().map_or(0, |node| watts(&node.annotations));
        let taken: i64 = node.pods().iter().map(|pod| watts(&pod.annotations)).sum();
        if taken + watts(&cx.pod.annotations) > has {
            return Err(Reject::evictable("node(s) have too little power").into());
        }
        Ok(())
    }
}

fn check(wrong: Wrong) {
    let amounts = ["100", "200", "400"];
    let words =
        Words::default().pod_annotation(WATTS, &amounts).node_annotation(WATTS, &["300", "800", "1200"]);
    let trial = Trial::of(PowerCap(wrong)).knowing(words.clone());
    let helped = what_helps_wakes_anywhere(&trial, &mut Dice::knowing(3, words), 100, 40);
    assert!(helped > 100, "too tame: {helped}");
}

pub(super) fn right() {
    check(Wrong::Nothing);
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "does not register for the removal of pods",
        said: "PowerCap: does not wake ",
        check: || check(Wrong::NotWhenPodsGo),
    },
    Planted {
        wrong: "does not register for the node annotations that it reads",
        said: "NodeUpdateNodeAnnotation, ",
        check: || check(Wrong::NotWhenNodesChange),
    },
    Planted {
        wrong: "does not register for new nodes",
        said: "changes: NodeAdd",
        check: || check(Wrong::NotWhenNodesCome),
    },
    Planted {
        wrong: "skips the removal of pods in other namespaces",
        said: "PowerCap: does not wake ",
        check: || check(Wrong::OnlyItsNamespace),
    },
    Planted {
        wrong: "judges a node by its old state",
        said: "NodeUpdateNodeAnnotation, ",
        check: || check(Wrong::LooksAtTheOldNode),
    },
    Planted {
        wrong: "registers for pod labels although it reads annotations",
        said: "PodUpdate, annotations",
        check: || check(Wrong::HearsOfLabelsOnly),
    },
    Planted {
        wrong: "skips changes to the pod itself",
        said: "the pod itself changes: TargetPodUpdate, annotations",
        check: || check(Wrong::NotOfItself),
    },
];
