//! Cluster events and queueing hints: changes that may make pending pods schedulable (KEP-4247).

use std::{any::Any, fmt, ops::BitOr, sync::Arc};

use harbormaster_api::{Node, Pod, Release, changes, requests::StatusRule};

use crate::{
    objects::Objects,
    outcome::PluginResult,
    pod::PodInfo,
    resource::{AnyCustom, Changed, Custom, CustomChange, Resource, ResourceName},
};

/// Kinds of changes to an object, as a set of bits. Matching compares the numeric values, too: see
/// [`ClusterEvent::matches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Action(pub u32);

/// The single actions with kube-scheduler's names, in bit order.
const ACTIONS: [(Action, &str); 14] = [
    (Action::ADD, "Add"),
    (Action::DELETE, "Delete"),
    (Action::UPDATE_NODE_ALLOCATABLE, "UpdateNodeAllocatable"),
    (Action::UPDATE_NODE_LABEL, "UpdateNodeLabel"),
    (Action::UPDATE_NODE_TAINT, "UpdateNodeTaint"),
    (Action::UPDATE_NODE_CONDITION, "UpdateNodeCondition"),
    (Action::UPDATE_NODE_ANNOTATION, "UpdateNodeAnnotation"),
    (Action::UPDATE_NODE_DECLARED_FEATURE, "UpdateNodeDeclaredFeature"),
    (Action::UPDATE_POD_LABEL, "UpdatePodLabel"),
    (Action::UPDATE_POD_SCALE_DOWN, "UpdatePodScaleDown"),
    (Action::UPDATE_POD_SCALE_UP, "UpdatePodScaleUp"),
    (Action::UPDATE_POD_TOLERATION, "UpdatePodToleration"),
    (Action::UPDATE_POD_GATES_ELIMINATED, "UpdatePodSchedulingGatesEliminated"),
    (Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM, "UpdatePodGeneratedResourceClaim"),
];

impl Action {
    /// The object was added.
    pub const ADD: Self = Self(1);
    /// The object was deleted.
    pub const DELETE: Self = Self(1 << 1);
    /// `node.status.allocatable` changed.
    pub const UPDATE_NODE_ALLOCATABLE: Self = Self(1 << 2);
    /// `node.metadata.labels` changed.
    pub const UPDATE_NODE_LABEL: Self = Self(1 << 3);
    /// Taints changed, or a node was uncordoned.
    pub const UPDATE_NODE_TAINT: Self = Self(1 << 4);
    /// The status of a node condition changed.
    pub const UPDATE_NODE_CONDITION: Self = Self(1 << 5);
    /// `node.metadata.annotations` changed.
    pub const UPDATE_NODE_ANNOTATION: Self = Self(1 << 6);
    /// `node.status.declaredFeatures` changed.
    pub const UPDATE_NODE_DECLARED_FEATURE: Self = Self(1 << 7);
    /// `pod.metadata.labels` changed.
    pub const UPDATE_POD_LABEL: Self = Self(1 << 8);
    /// An effective request decreased.
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(1 << 9);
    /// An effective request increased. In Kubernetes 1.36, this is an update with no specific change.
    pub const UPDATE_POD_SCALE_UP: Self = Self(1 << 10);
    /// The number of tolerations changed.
    pub const UPDATE_POD_TOLERATION: Self = Self(1 << 11);
    /// The last scheduling gate was removed.
    pub const UPDATE_POD_GATES_ELIMINATED: Self = Self(1 << 12);
    /// Generated resource claims were recorded in the status.
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: Self = Self(1 << 13);
    /// In a registration: any update. In an incoming event: an update with no specific change.
    pub const UPDATE: Self = Self(Self::ALL.0 & !(Self::ADD.0 | Self::DELETE.0));
    /// Any change.
    pub const ALL: Self = Self((1 << ACTIONS.len()) - 1);

    /// All single actions, in bit order.
    pub fn each() -> impl Iterator<Item = Self> {
        ACTIONS.iter().map(|(action, _)| *action)
    }

    /// Returns true if the two sets share a bit.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Single actions that are reported for pods.
const OF_PODS: Action = Action(
    Action::ADD.0
        | Action::DELETE.0
        | Action::UPDATE_POD_LABEL.0
        | Action::UPDATE_POD_SCALE_DOWN.0
        | Action::UPDATE_POD_SCALE_UP.0
        | Action::UPDATE_POD_TOLERATION.0
        | Action::UPDATE_POD_GATES_ELIMINATED.0
        | Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM.0,
);
/// Single actions that are reported for nodes.
const OF_NODES: Action = Action(
    Action::ADD.0
        | Action::DELETE.0
        | Action::UPDATE_NODE_ALLOCATABLE.0
        | Action::UPDATE_NODE_LABEL.0
        | Action::UPDATE_NODE_TAINT.0
        | Action::UPDATE_NODE_CONDITION.0
        | Action::UPDATE_NODE_ANNOTATION.0
        | Action::UPDATE_NODE_DECLARED_FEATURE.0,
);
/// Single actions that are reported for all other objects.
const OF_OTHERS: Action = Action(Action::ADD.0 | Action::DELETE.0);

impl BitOr for Action {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("All"),
            Self::UPDATE => f.write_str("Update"),
            some => {
                let names: Vec<&str> =
                    ACTIONS.iter().filter(|(a, _)| a.intersects(some)).map(|(_, name)| *name).collect();
                f.write_str(&names.join("|"))
            }
        }
    }
}

/// Kind of object that an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventResource {
    /// In a registration: any pod.
    Pod,
    /// A pod that is bound or gives up its node.
    AssignedPod,
    /// In a registration: the waiting pod itself. In an incoming event of Kubernetes 1.37: a pod in the queue.
    TargetPod,
    /// A pod that is not bound, other than the waiting pod itself, in Kubernetes 1.37 (incoming events only).
    UnscheduledPod,
    /// A pod that is not bound, in Kubernetes 1.36 (incoming events only).
    UnschedulablePod,
    /// A node.
    Node,
    /// A persistent volume.
    PersistentVolume,
    /// A persistent volume claim.
    PersistentVolumeClaim,
    /// `storage.k8s.io/CSINode`.
    CsiNode,
    /// `storage.k8s.io/CSIDriver`.
    CsiDriver,
    /// `storage.k8s.io/VolumeAttachment`.
    VolumeAttachment,
    /// `storage.k8s.io/CSIStorageCapacity`.
    CsiStorageCapacity,
    /// `storage.k8s.io/StorageClass`.
    StorageClass,
    /// `resource.k8s.io/ResourceClaim`.
    ResourceClaim,
    /// `resource.k8s.io/ResourceSlice`.
    ResourceSlice,
    /// `resource.k8s.io/DeviceClass`.
    DeviceClass,
    /// `scheduling.k8s.io/PodGroup`.
    PodGroup,
    /// Objects of every kind.
    WildCard,
    /// A custom resource that some plugin names; see [`Self::named`].
    Custom(ResourceName),
}

/// Kubernetes' own kinds that plugins name as [`Resource`]s: group, plural name, and the kind's own [`EventResource`].
const OWN_KINDS: [(&str, &str, EventResource); 11] = [
    ("", "persistentvolumes", EventResource::PersistentVolume),
    ("", "persistentvolumeclaims", EventResource::PersistentVolumeClaim),
    ("storage.k8s.io", "csinodes", EventResource::CsiNode),
    ("storage.k8s.io", "csidrivers", EventResource::CsiDriver),
    ("storage.k8s.io", "volumeattachments", EventResource::VolumeAttachment),
    ("storage.k8s.io", "csistoragecapacities", EventResource::CsiStorageCapacity),
    ("storage.k8s.io", "storageclasses", EventResource::StorageClass),
    ("resource.k8s.io", "resourceclaims", EventResource::ResourceClaim),
    ("resource.k8s.io", "resourceslices", EventResource::ResourceSlice),
    ("resource.k8s.io", "deviceclasses", EventResource::DeviceClass),
    ("scheduling.k8s.io", "podgroups", EventResource::PodGroup),
];

impl EventResource {
    /// Objects of the kind that type `R` represents.
    pub fn of<R: Resource>() -> Self {
        Self::named(ResourceName::of::<R>())
    }

    /// Objects of the kind named `name`. For Kubernetes' own kinds, the version is ignored.
    pub fn named(name: ResourceName) -> Self {
        let own = OWN_KINDS.iter().find(|(group, plural, _)| (*group, *plural) == (name.group, name.plural));
        own.map_or(Self::Custom(name), |(_, _, own)| *own)
    }

    /// Single actions that are reported for this kind. Generic updates are also reported, but reach only listeners for
    /// [`Action::UPDATE`].
    pub fn actions(self) -> Action {
        match self {
            Self::Pod
            | Self::AssignedPod
            | Self::TargetPod
            | Self::UnscheduledPod
            | Self::UnschedulablePod => OF_PODS,
            Self::Node => OF_NODES,
            Self::WildCard => Action::ALL,
            _ => OF_OTHERS,
        }
    }

    /// Returns true if objects of this kind are watched only when a plugin names the kind.
    pub(crate) fn is_named(self) -> bool {
        matches!(self, Self::Custom(_)) || OWN_KINDS.iter().any(|(_, _, own)| *own == self)
    }
}

impl fmt::Display for EventResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "Pod",
            Self::AssignedPod => "AssignedPod",
            Self::TargetPod => "TargetPod",
            Self::UnscheduledPod => "UnscheduledPod",
            Self::UnschedulablePod => "UnschedulablePod",
            Self::Node => "Node",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::CsiNode => "storage.k8s.io/CSINode",
            Self::CsiDriver => "storage.k8s.io/CSIDriver",
            Self::VolumeAttachment => "storage.k8s.io/VolumeAttachment",
            Self::CsiStorageCapacity => "storage.k8s.io/CSIStorageCapacity",
            Self::StorageClass => "storage.k8s.io/StorageClass",
            Self::ResourceClaim => "resource.k8s.io/ResourceClaim",
            Self::ResourceSlice => "resource.k8s.io/ResourceSlice",
            Self::DeviceClass => "resource.k8s.io/DeviceClass",
            Self::PodGroup => "scheduling.k8s.io/PodGroup",
            Self::WildCard => "*",
            Self::Custom(name) => return name.fmt(f),
        })
    }
}

/// A change in the cluster, or a kind of change that a plugin listens for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterEvent {
    /// Kind of the changed object.
    pub resource: EventResource,
    /// Kind of change.
    pub action: Action,
}

impl ClusterEvent {
    /// Creates the event `action` on `resource`.
    pub const fn new(resource: EventResource, action: Action) -> Self {
        Self { resource, action }
    }

    /// Any change. As an incoming event, it requeues every rejected pod.
    pub const WILD_CARD: Self = Self::new(EventResource::WildCard, Action::ALL);

    /// Returns the actions of a registration that never happen to the resource, if there are any.
    pub(crate) fn never_happens(self) -> Option<Action> {
        let happens = self.resource.actions().0;
        let Action(wanted) = self.action;
        // All update bits together mean that the plugin listens for every update.
        let wanted =
            if wanted & Action::UPDATE.0 == Action::UPDATE.0 { wanted & !Action::UPDATE.0 } else { wanted };
        let all = self.action == Action(0);
        (all || wanted & !happens != 0).then_some(Action(wanted & !happens))
    }

    /// Returns true if this is [`Self::WILD_CARD`].
    pub fn is_wild_card(self) -> bool {
        self == Self::WILD_CARD
    }

    /// Returns true if a registration for `self` matches the incoming event `happened`.
    ///
    /// This is kube-scheduler's rule: the two sets of actions must share a bit, and the incoming set must not be
    /// numerically larger than the registered set. A generic update therefore reaches only listeners for all updates.
    pub fn matches(self, happened: Self) -> bool {
        use EventResource::{AssignedPod, Pod, TargetPod, UnschedulablePod, UnscheduledPod, WildCard};
        if self.is_wild_card() {
            return true;
        }
        let same_resource = match (self.resource, happened.resource) {
            (WildCard, _) | (Pod, AssignedPod | TargetPod | UnscheduledPod | UnschedulablePod) => true,
            // In Kubernetes 1.36, the only pod without a node whose changes reach its hints is the waiting pod itself.
            (TargetPod, UnschedulablePod) => true,
            (registered, happened) => registered == happened,
        };
        same_resource && self.action.intersects(happened.action) && happened.action <= self.action
    }
}

impl fmt::Display for ClusterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.resource, self.action)
    }
}

/// Way in which a release reports changes to pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodEvents {
    /// Resource of a pod without a node, for all but the pod's own hints.
    pub unbound: EventResource,
    /// Resource of a pod without a node, for the pod's own hints.
    pub own: EventResource,
    /// True if larger requests have an event of their own.
    scale_up: bool,
    status_rule: StatusRule,
}

impl PodEvents {
    /// Returns the rules of a release.
    pub fn of(release: Release) -> Self {
        use EventResource::{TargetPod, UnschedulablePod, UnscheduledPod};
        let split = release >= Release::V1_37;
        Self {
            unbound: if split { UnscheduledPod } else { UnschedulablePod },
            own: if split { TargetPod } else { UnschedulablePod },
            scale_up: split,
            status_rule: StatusRule::of(release),
        }
    }

    /// Returns the events for a change to a pod; a change that matches no action is a generic update.
    pub fn updates(
        self,
        resource: EventResource,
        old: &Pod,
        new: &Pod,
    ) -> impl Iterator<Item = ClusterEvent> + use<> {
        use changes::PodChanges as C;
        let changed = changes::pod_changes(old, new, self.status_rule);
        let known = [
            (C::LABELS, Action::UPDATE_POD_LABEL),
            (C::SCALE_DOWN, Action::UPDATE_POD_SCALE_DOWN),
            (C::SCALE_UP, Action::UPDATE_POD_SCALE_UP),
            (C::GATES_ELIMINATED, Action::UPDATE_POD_GATES_ELIMINATED),
            (C::TOLERATIONS, Action::UPDATE_POD_TOLERATION),
            (C::GENERATED_CLAIMS, Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
        ];
        let happened = |(what, action): (C, Action)| {
            let reported = action != Action::UPDATE_POD_SCALE_UP || self.scale_up;
            (reported && changed.contains(what)).then_some(action)
        };
        let mut actions: Vec<Action> = known.into_iter().filter_map(happened).collect();
        if actions.is_empty() {
            actions.push(Action::UPDATE);
        }
        actions.into_iter().map(move |action| ClusterEvent::new(resource, action))
    }
}

/// Returns the events for a change to a node; none for a change that matches no action.
pub fn node_events(old: &Node, new: &Node) -> impl Iterator<Item = ClusterEvent> {
    use changes::NodeChanges as C;
    let changed = changes::node_changes(old, new);
    let known = [
        (C::UNSCHEDULABLE_CLEARED, Action::UPDATE_NODE_TAINT),
        (C::ALLOCATABLE, Action::UPDATE_NODE_ALLOCATABLE),
        (C::LABELS, Action::UPDATE_NODE_LABEL),
        (C::TAINTS, Action::UPDATE_NODE_TAINT),
        (C::CONDITIONS, Action::UPDATE_NODE_CONDITION),
        (C::ANNOTATIONS, Action::UPDATE_NODE_ANNOTATION),
        (C::DECLARED_FEATURES, Action::UPDATE_NODE_DECLARED_FEATURE),
    ];
    known
        .into_iter()
        .filter(move |(what, _)| changed.contains(*what))
        .map(|(_, action)| ClusterEvent::new(EventResource::Node, action))
}

/// The objects of an event, before and after.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A pod; `old` is absent on add, `new` on delete.
    Pod {
        /// The pod before the change.
        old: Option<&'a Pod>,
        /// The pod after the change.
        new: Option<&'a Pod>,
    },
    /// A node; `old` is absent on add, `new` on delete.
    Node {
        /// The node before the change.
        old: Option<&'a Node>,
        /// The node after the change.
        new: Option<&'a Node>,
    },
    /// An object of a kind that a plugin names; `old` is absent on add, `new` on delete. [`Self::of`] restores the type
    /// of the objects.
    Custom {
        /// The object before the change.
        old: Option<&'a (dyn Any + Send + Sync)>,
        /// The object after the change.
        new: Option<&'a (dyn Any + Send + Sync)>,
    },
    /// An object of another kind, or no object.
    Other,
}

impl<'a> Change<'a> {
    /// A change to an object of kind `R`.
    pub fn custom<R: Resource>(old: Option<&'a Custom<R>>, new: Option<&'a Custom<R>>) -> Self {
        let erased = |object: &'a Custom<R>| object as &(dyn Any + Send + Sync);
        Self::Custom { old: old.map(erased), new: new.map(erased) }
    }

    /// Returns the object before and after the change, if it is of kind `R`.
    pub fn of<R: Resource>(&self) -> Option<Changed<'a, R>> {
        let Self::Custom { old, new } = self else { return None };
        let typed =
            |object: &Option<&'a (dyn Any + Send + Sync)>| object.and_then(|object| object.downcast_ref());
        let changed = Changed { old: typed(old), new: typed(new) };
        (changed.old.is_some() || changed.new.is_some()).then_some(changed)
    }
}

/// The objects of an event, owned.
#[derive(Clone, Debug, Default)]
pub enum OwnedChange {
    /// A pod before and after.
    Pod(Option<Arc<Pod>>, Option<Arc<Pod>>),
    /// A node before and after.
    Node(Option<Arc<Node>>, Option<Arc<Node>>),
    /// A custom object before and after.
    Custom(Option<AnyCustom>, Option<AnyCustom>),
    /// An object of another kind, or no object.
    #[default]
    Other,
}

impl OwnedChange {
    /// Returns a changed custom object with the event that it causes.
    pub fn of_custom(CustomChange { resource, old, new }: CustomChange) -> (ClusterEvent, Self) {
        let action = match (&old, &new) {
            (None, _) => Action::ADD,
            (Some(_), Some(_)) => Action::UPDATE,
            (Some(_), None) => Action::DELETE,
        };
        (ClusterEvent::new(EventResource::named(resource), action), Self::Custom(old, new))
    }

    /// Returns the change as hints see it.
    pub fn view(&self) -> Change<'_> {
        match self {
            Self::Pod(old, new) => Change::Pod { old: old.as_deref(), new: new.as_deref() },
            Self::Node(old, new) => Change::Node { old: old.as_deref(), new: new.as_deref() },
            Self::Custom(old, new) => Change::Custom { old: old.as_deref(), new: new.as_deref() },
            Self::Other => Change::Other,
        }
    }
}

/// Result of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The event may make the pod schedulable.
    Queue,
    /// The event cannot make the pod schedulable.
    Skip,
}

/// Decides whether a change may make a pending pod schedulable. An error is treated as [`Hint::Queue`].
pub type HintFn<P> = fn(&P, &PodInfo, &Change<'_>) -> PluginResult<Hint>;

/// Decides whether a change to a custom object may make a pending pod schedulable. An error is treated as
/// [`Hint::Queue`].
pub type CustomHintFn<P, R> = fn(&P, &PodInfo, Changed<'_, R>) -> PluginResult<Hint>;

/// A pending pod, and the objects other than nodes and pods as they are after a change.
#[derive(Clone, Copy, Debug)]
pub struct HintCycle<'a> {
    /// The pending pod.
    pub pod: &'a PodInfo,
    /// The objects. If several changes have happened since the pod's attempt began, the state after the last of them.
    pub objects: &'a Objects,
}

/// A [`HintFn`] that reads other objects.
pub type ObjectsHintFn<P> = fn(&P, HintCycle<'_>, &Change<'_>) -> PluginResult<Hint>;

/// A [`HintFn`], a [`CustomHintFn`] or an [`ObjectsHintFn`], boxed.
pub(crate) type BoxedHint<P> =
    Box<dyn Fn(&P, HintCycle<'_>, &Change<'_>) -> PluginResult<Hint> + Send + Sync>;

/// The hint of one registration of one plugin.
pub type ErasedHint = Box<dyn Fn(HintCycle<'_>, &Change<'_>) -> PluginResult<Hint> + Send + Sync>;

/// An event that a plugin listens to, with the hint bound to the plugin.
pub struct ErasedRegistration {
    /// The event.
    pub event: ClusterEvent,
    /// The hint; with `None`, the event always requeues the pod.
    pub hint: Option<ErasedHint>,
}

/// An event that may make a pod schedulable after a plugin has rejected it.
pub struct Registration<P> {
    /// The event.
    pub event: ClusterEvent,
    /// The hint; with `None`, the event requeues every pod that the plugin rejected.
    pub(crate) hint: Option<BoxedHint<P>>,
}

impl<P: 'static> Registration<P> {
    /// When `action` happens to `resource`, requeues every pod that the plugin rejected.
    pub fn always(resource: EventResource, action: Action) -> Self {
        Self { event: ClusterEvent::new(resource, action), hint: None }
    }

    /// When `action` happens to `resource`, requeues those pods that the plugin rejected and for which `hint` returns
    /// [`Hint::Queue`].
    pub fn hinted(resource: EventResource, action: Action, hint: HintFn<P>) -> Self {
        let hint: BoxedHint<P> = Box::new(move |plugin, cx, change| hint(plugin, cx.pod, change));
        Self { event: ClusterEvent::new(resource, action), hint: Some(hint) }
    }

    /// Same as [`Self::hinted`], but the hint reads other objects.
    pub fn hinted_with_objects(resource: EventResource, action: Action, hint: ObjectsHintFn<P>) -> Self {
        Self { event: ClusterEvent::new(resource, action), hint: Some(Box::new(hint)) }
    }

    /// Listens for `action` on custom objects of kind `R`, which the plugin or its index must declare with
    /// [`Watches`](crate::resource::Watches). `hint` decides whether to requeue a pod.
    pub fn on<R: Resource>(action: Action, hint: CustomHintFn<P, R>) -> Self {
        let typed: BoxedHint<P> = Box::new(move |plugin, cx, change| match change.of::<R>() {
            Some(changed) => hint(plugin, cx.pod, changed),
            // The object was decoded into another plugin's type for the same kind. This plugin receives a separate
            // change with its own type.
            None => Ok(Hint::Skip),
        });
        Self { event: ClusterEvent::new(EventResource::of::<R>(), action), hint: Some(typed) }
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::{self as api, PodSpec, pod::Container};

    use super::*;
    use EventResource::{AssignedPod, Node, Pod};

    #[test]
    fn event_names_match_those_that_kube_scheduler_prints() {
        assert_eq!(ClusterEvent::new(Node, Action::UPDATE_NODE_TAINT).to_string(), "NodeUpdateNodeTaint");
        assert_eq!(ClusterEvent::new(AssignedPod, Action::DELETE).to_string(), "AssignedPodDelete");
        assert_eq!(
            ClusterEvent::new(EventResource::CsiNode, Action::ADD).to_string(),
            "storage.k8s.io/CSINodeAdd"
        );
        assert_eq!(Action::UPDATE.0, ACTIONS.iter().skip(2).fold(0, |all, (a, _)| all | a.0));
    }

    #[test]
    fn kubernetes_own_kinds_have_separate_events_and_all_others_are_custom() {
        let named = |group, plural| EventResource::named(ResourceName { plural, version: "v1", group });
        assert_eq!(named("", "persistentvolumeclaims").to_string(), "PersistentVolumeClaim");
        assert_eq!(named("storage.k8s.io", "csinodes").to_string(), "storage.k8s.io/CSINode");
        assert_eq!(named("example.com", "csinodes").to_string(), "csinodes.v1.example.com");
        for (group, plural, own) in OWN_KINDS {
            assert_eq!(named(group, plural), own);
            assert!(own.is_named() && !Node.is_named());
        }
    }

    #[test]
    fn actions_that_never_happen_to_a_resource_are_found() {
        let never = |resource, action| ClusterEvent::new(resource, action).never_happens();
        let (annotation, label) = (Action::UPDATE_NODE_ANNOTATION, Action::UPDATE_POD_LABEL);
        assert_eq!(never(Pod, Action::DELETE | annotation), Some(annotation));
        assert_eq!(never(Node, label), Some(label));
        assert_eq!(never(EventResource::StorageClass, label), Some(label));
        assert_eq!(never(Node, Action(0)), Some(Action(0)));
        for resource in [Pod, Node, EventResource::StorageClass, EventResource::WildCard] {
            for action in [Action::ALL, Action::UPDATE, Action::ADD | Action::UPDATE, resource.actions()] {
                assert_eq!(never(resource, action), None, "{resource} {action}");
            }
        }
    }

    #[test]
    fn every_action_that_a_registration_may_name_reaches_it() {
        for resource in [Pod, Node] {
            for action in Action::each().filter(|action| resource.actions().intersects(*action)) {
                let event = ClusterEvent::new(resource, action);
                assert!(ClusterEvent::new(resource, Action::ADD | action).matches(event), "{event}");
            }
        }
    }

    #[test]
    fn each_release_names_pods_without_a_node_and_larger_requests_in_its_own_way() {
        let asks = |milli| {
            let container = Container { requests: vec![("cpu".into(), milli)], ..Container::default() };
            let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
            api::Pod { spec: Arc::new(spec), ..api::Pod::default() }
        };
        for (release, own, unbound, grown) in [
            (Release::V1_36, "UnschedulablePod", "UnschedulablePod", "Update"),
            (Release::V1_37, "TargetPod", "UnscheduledPod", "UpdatePodScaleUp"),
        ] {
            let events = PodEvents::of(release);
            let named = |old, new| {
                let events = events.updates(events.own, &asks(old), &asks(new));
                events.map(|event| event.to_string()).collect::<Vec<_>>()
            };
            assert_eq!(events.unbound.to_string(), unbound);
            assert_eq!(named(1, 2), [format!("{own}{grown}")], "{release}");
            assert_eq!(named(2, 1), [format!("{own}UpdatePodScaleDown")], "{release}");
            assert_eq!(named(1, 1), [format!("{own}Update")], "{release}");
        }
    }

    #[test]
    fn changes_to_the_waiting_pod_reach_listeners_of_any_pod_and_of_the_pod_itself() {
        for release in Release::ALL {
            let own = ClusterEvent::new(PodEvents::of(*release).own, Action::UPDATE_POD_LABEL);
            for (listener, hears) in [(Pod, true), (EventResource::TargetPod, true), (AssignedPod, false)] {
                let registered = ClusterEvent::new(listener, Action::UPDATE_POD_LABEL);
                assert_eq!(registered.matches(own), hears, "{release} {listener}");
            }
        }
        let assigned = ClusterEvent::new(AssignedPod, Action::UPDATE_POD_LABEL);
        assert!(!ClusterEvent::new(EventResource::TargetPod, Action::ALL).matches(assigned));
    }

    #[test]
    fn a_generic_update_reaches_only_listeners_of_all_updates() {
        let generic = ClusterEvent::new(AssignedPod, Action::UPDATE);
        assert!(!ClusterEvent::new(Pod, Action::DELETE | Action::UPDATE_POD_SCALE_DOWN).matches(generic));
        assert!(ClusterEvent::new(Pod, Action::UPDATE).matches(generic));
        assert!(
            ClusterEvent::new(Pod, Action::DELETE).matches(ClusterEvent::new(AssignedPod, Action::DELETE))
        );
        assert!(!ClusterEvent::new(Node, Action::ADD).matches(ClusterEvent::new(AssignedPod, Action::ADD)));
        assert!(ClusterEvent::WILD_CARD.matches(generic));
    }
}
