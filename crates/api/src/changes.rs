//! Changes to a pod or node that may make waiting pods schedulable.

use std::{ops::BitOr, sync::Arc};

use crate::{
    Node, Pod, Str,
    requests::{StatusRule, pod_request_list},
};

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$flag_doc:meta])* $flag:ident = $bit:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u8);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*

            /// All single changes, in the order in which Kubernetes reports them.
            pub const ALL: &[Self] = &[$(Self::$flag,)*];

            /// Returns true if there is no change.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Returns true if the changes include all of `other`.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns the single changes, in the order in which Kubernetes reports them.
            pub fn iter(self) -> impl Iterator<Item = Self> {
                Self::ALL.iter().copied().filter(move |flag| self.contains(*flag))
            }

            fn when(self, changed: bool) -> Self {
                if changed { self } else { Self::default() }
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

flags! {
    /// Changes to a pod. If none of them applies, Kubernetes reports a generic update.
    PodChanges {
        /// `metadata.labels` changed.
        LABELS = 0;
        /// The request for some resource became smaller or was removed.
        SCALE_DOWN = 1;
        /// The request for some resource became larger or was added.
        SCALE_UP = 2;
        /// The last scheduling gates were removed.
        GATES_ELIMINATED = 3;
        /// The number of tolerations changed. Comparing the numbers is enough, because the API server allows only
        /// additions (and changes of `tolerationSeconds`, which scheduling does not read).
        TOLERATIONS = 4;
        /// The names of resource claims in the status changed.
        GENERATED_CLAIMS = 5;
    }
}

flags! {
    /// Changes to a node. If none of them applies, nothing is reported.
    NodeChanges {
        /// `spec.unschedulable` was cleared.
        UNSCHEDULABLE_CLEARED = 0;
        /// `status.allocatable` changed.
        ALLOCATABLE = 1;
        /// `metadata.labels` changed.
        LABELS = 2;
        /// `spec.taints` changed.
        TAINTS = 3;
        /// The status of some condition changed; heartbeats are ignored.
        CONDITIONS = 4;
        /// `metadata.annotations` changed.
        ANNOTATIONS = 5;
        /// `status.declaredFeatures` changed.
        DECLARED_FEATURES = 6;
    }
}

/// Compares two versions of a pod. `rule` says how their statuses count.
pub fn pod_changes(old: &Pod, new: &Pod, rule: StatusRule) -> PodChanges {
    let gates_eliminated = new.scheduling_gates.is_empty() && !old.scheduling_gates.is_empty();
    PodChanges::LABELS.when(old.labels != new.labels)
        | scaling(old, new, rule)
        | PodChanges::GATES_ELIMINATED.when(gates_eliminated)
        | PodChanges::TOLERATIONS.when(old.spec.tolerations.len() != new.spec.tolerations.len())
        | PodChanges::GENERATED_CLAIMS.when(old.status.resource_claims != new.status.resource_claims)
}

fn scaling(old: &Pod, new: &Pod, rule: StatusRule) -> PodChanges {
    let same_spec = Arc::ptr_eq(&old.spec, &new.spec);
    let same_status = old.status.container_resources == new.status.container_resources
        && old.status.pod_level == new.status.pod_level
        && old.status.conditions == new.status.conditions;
    if same_spec && same_status {
        return PodChanges::default();
    }
    let (before, after) = (pod_request_list(old, rule), pod_request_list(new, rule));
    PodChanges::SCALE_DOWN.when(exceeds(&before, &after))
        | PodChanges::SCALE_UP.when(exceeds(&after, &before))
}

/// Returns true if `one` has more of some resource, or has a resource that `other` lacks.
fn exceeds(one: &[(Str, i64)], other: &[(Str, i64)]) -> bool {
    let lacks = |(name, amount): &(Str, i64)| {
        other.iter().find(|(n, _)| n == name).is_none_or(|(_, others)| others < amount)
    };
    one.iter().any(lacks)
}

/// Compares two versions of a node.
pub fn node_changes(old: &Node, new: &Node) -> NodeChanges {
    NodeChanges::UNSCHEDULABLE_CLEARED.when(old.unschedulable && !new.unschedulable)
        | NodeChanges::ALLOCATABLE.when(old.allocatable != new.allocatable)
        | NodeChanges::LABELS.when(old.labels != new.labels)
        | NodeChanges::TAINTS.when(old.taints != new.taints)
        | NodeChanges::CONDITIONS.when(old.conditions != new.conditions)
        | NodeChanges::ANNOTATIONS.when(old.annotations != new.annotations)
        | NodeChanges::DECLARED_FEATURES.when(old.declared_features != new.declared_features)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Labels, PodSpec, Str,
        pod::Container,
        taint::{Taint, TaintEffect},
    };

    fn pod_with_cpu(milli: i64) -> Pod {
        let container = Container { requests: vec![("cpu".into(), milli)], ..Container::default() };
        Pod {
            spec: Arc::new(PodSpec { containers: vec![container], ..PodSpec::default() }),
            ..Pod::default()
        }
    }

    fn changes(old: &Pod, new: &Pod) -> PodChanges {
        pod_changes(old, new, StatusRule::default())
    }

    #[test]
    fn a_pod_scales_when_a_request_changes_appears_or_disappears() {
        let (less, more) = (pod_with_cpu(100), pod_with_cpu(200));
        assert_eq!(changes(&more, &less), PodChanges::SCALE_DOWN);
        assert_eq!(changes(&less, &more), PodChanges::SCALE_UP);
        assert_eq!(changes(&pod_with_cpu(0), &Pod::default()), PodChanges::SCALE_DOWN);
        assert_eq!(changes(&Pod::default(), &pod_with_cpu(0)), PodChanges::SCALE_UP);
    }

    #[test]
    fn the_removal_of_gates_is_reported_only_when_no_gate_is_left() {
        let gated = |gates: &[&str]| Pod {
            scheduling_gates: gates.iter().copied().map(Str::from).collect(),
            ..Pod::default()
        };
        assert_eq!(changes(&gated(&["a", "b"]), &gated(&["a"])), PodChanges::default());
        assert_eq!(changes(&gated(&["a"]), &gated(&[])), PodChanges::GATES_ELIMINATED);
    }

    #[test]
    fn several_changes_to_a_node_are_reported_one_by_one_in_order() {
        let taint = Taint { key: "k".into(), value: Str::default(), effect: TaintEffect::NoSchedule };
        let old = Node { unschedulable: true, taints: Arc::new([taint]), ..Node::default() };
        let labels: Labels = [("a", "b")].into_iter().collect();
        let new = Node { labels, ..Node::default() };
        let changes: Vec<_> = node_changes(&old, &new).iter().collect();
        assert_eq!(changes, [NodeChanges::UNSCHEDULABLE_CLEARED, NodeChanges::LABELS, NodeChanges::TAINTS]);
        assert_eq!(node_changes(&new, &old), NodeChanges::LABELS | NodeChanges::TAINTS);
        assert!(node_changes(&old, &old.clone()).is_empty());
    }
}
