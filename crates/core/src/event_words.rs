//! Events that wake pods, in words.

use harbormaster_framework::events::{Action, ClusterEvent, EventResource};

/// Returns an event as a clause.
pub fn words(event: ClusterEvent) -> String {
    let subject = match event.resource {
        EventResource::Pod => "a pod".to_owned(),
        EventResource::AssignedPod => "a pod on a node".to_owned(),
        EventResource::TargetPod => "this pod".to_owned(),
        EventResource::Node => "a node".to_owned(),
        EventResource::WildCard => "anything".to_owned(),
        other => format!("a {}", other.to_string().rsplit('/').next().unwrap_or_default()),
    };
    let updates = Action(event.action.0 & event.resource.actions().0 & Action::UPDATE.0);
    let any_update = event.action.0 & Action::UPDATE.0 == Action::UPDATE.0;
    let begins = [(Action::ADD, "appears"), (Action::DELETE, "disappears")];
    let begins =
        begins.into_iter().filter(|(action, _)| event.action.intersects(*action)).map(|(_, verb)| verb);
    let changes: Vec<&str> = match any_update {
        true => vec!["changes"],
        false => Action::each().filter(|action| updates.intersects(*action)).filter_map(verb).collect(),
    };
    let verbs: Vec<&str> = begins.chain(changes).collect();
    let verbs = match verbs.as_slice() {
        [] => "changes".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    };
    format!("{subject} {verbs}")
}

fn verb(action: Action) -> Option<&'static str> {
    Some(match action {
        Action::UPDATE_NODE_ALLOCATABLE => "offers other resources",
        Action::UPDATE_NODE_LABEL | Action::UPDATE_POD_LABEL => "gets other labels",
        Action::UPDATE_NODE_TAINT => "gets other taints",
        Action::UPDATE_NODE_CONDITION => "gets other conditions",
        Action::UPDATE_NODE_ANNOTATION => "gets other annotations",
        Action::UPDATE_NODE_DECLARED_FEATURE => "declares other features",
        Action::UPDATE_POD_SCALE_DOWN => "requests less",
        Action::UPDATE_POD_SCALE_UP => "requests more",
        Action::UPDATE_POD_TOLERATION => "gets other tolerations",
        Action::UPDATE_POD_GATES_ELIMINATED => "loses its last gate",
        Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM => "gets its resource claims",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_clauses() {
        use EventResource::{AssignedPod, CsiNode, Node, TargetPod};
        for (resource, action, expected) in [
            (Node, Action::ADD, "a node appears"),
            (Node, Action::ADD | Action::UPDATE_NODE_LABEL, "a node appears or gets other labels"),
            (
                Node,
                Action::ADD | Action::UPDATE_NODE_LABEL | Action::UPDATE_NODE_TAINT,
                "a node appears, gets other labels or gets other taints",
            ),
            (AssignedPod, Action::DELETE, "a pod on a node disappears"),
            (TargetPod, Action::UPDATE_POD_GATES_ELIMINATED, "this pod loses its last gate"),
            (CsiNode, Action::ADD | Action::UPDATE, "a CSINode appears or changes"),
            (EventResource::WildCard, Action::ALL, "anything appears, disappears or changes"),
        ] {
            assert_eq!(words(ClusterEvent::new(resource, action)), expected);
        }
    }
}
