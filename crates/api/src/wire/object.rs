//! Namespaces, and the kinds that select pods: services, workloads and disruption budgets.

use serde::Deserialize;

use super::{
    defaults,
    json::{Ignored, Map, Text},
    meta::Metadata,
    selector::WireLabelSelector,
};
use crate::{
    Labels, Namespace, Object, ObjectKind, PodDisruptionBudget, Service, Workload, WorkloadKind,
    protobuf::{Message, messages},
    selector::LabelSelector,
    strings::Interner,
};

/// Label that the API server sets on every namespace.
const LABEL_METADATA_NAME: &str = "kubernetes.io/metadata.name";

/// Returns true if `spec.selector` of the given kind is a plain map of labels or does not exist.
pub(super) fn selects_by_map(kind: ObjectKind) -> bool {
    matches!(
        kind,
        ObjectKind::Namespace
            | ObjectKind::Service
            | ObjectKind::Workload(WorkloadKind::ReplicationController)
    )
}

/// Returns the type of the given kind in protobuf.
pub(crate) fn message(kind: ObjectKind) -> &'static Message {
    match kind {
        ObjectKind::Namespace => &messages::NAMESPACE,
        ObjectKind::Service => &messages::SERVICE,
        ObjectKind::Workload(WorkloadKind::ReplicationController) => &messages::REPLICATION_CONTROLLER,
        ObjectKind::Workload(WorkloadKind::ReplicaSet) => &messages::REPLICA_SET,
        ObjectKind::Workload(WorkloadKind::StatefulSet) => &messages::STATEFUL_SET,
        ObjectKind::PodDisruptionBudget => &messages::POD_DISRUPTION_BUDGET,
    }
}

/// An object whose selector, if any, is a map.
pub(super) type ByMap<'a> = WireSelecting<'a, Map<'a, Text<'a>>>;
/// An object whose selector may have expressions.
pub(super) type ByExpressions<'a> = WireSelecting<'a, WireLabelSelector<'a>>;

/// An object of any [`ObjectKind`] with a selector of the form `S`.
#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>, 'de: 'a"))]
pub(super) struct WireSelecting<'a, S> {
    pub(super) metadata: Option<Metadata<'a>>,
    spec: Option<Spec<'a, S>>,
    status: Option<Status<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>, 'de: 'a"))]
struct Spec<'a, S> {
    selector: Option<S>,
    /// Pod template, whose labels are the default selector of a ReplicationController.
    template: Option<Template<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Template<'a> {
    metadata: Option<Metadata<'a>>,
}

/// Status of a disruption budget.
#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Status<'a> {
    disruptions_allowed: Option<i32>,
    disrupted_pods: Map<'a, Ignored>,
}

/// A selector in one of its forms.
pub(super) trait WireSelector {
    fn intern(&self, interner: &mut Interner) -> LabelSelector;
}

impl WireSelector for Map<'_, Text<'_>> {
    fn intern(&self, interner: &mut Interner) -> LabelSelector {
        LabelSelector { match_labels: self.labels(interner), ..LabelSelector::default() }
    }
}

impl WireSelector for WireLabelSelector<'_> {
    fn intern(&self, interner: &mut Interner) -> LabelSelector {
        WireLabelSelector::intern(self, interner)
    }
}

impl<S: WireSelector + Default> WireSelecting<'_, S> {
    pub(super) fn into_object(self, kind: ObjectKind, interner: &mut Interner, api_defaults: bool) -> Object {
        let metadata = self.metadata.unwrap_or_default();
        let mut namespace = metadata.namespace.intern(interner);
        if api_defaults && namespace.is_empty() {
            namespace = interner.intern(defaults::NAMESPACE);
        }
        let name = metadata.name.unshared();
        let spec = self.spec.unwrap_or_default();
        let mut selector = spec.selector.map(|s| s.intern(interner));
        if api_defaults && kind == ObjectKind::Workload(WorkloadKind::ReplicationController) {
            let template = spec.template.and_then(|template| template.metadata).unwrap_or_default();
            let empty = selector.as_ref().is_none_or(|selector| selector.match_labels.is_empty());
            if empty && !template.labels.0.is_empty() {
                let match_labels = template.labels.labels(interner);
                selector = Some(LabelSelector { match_labels, ..LabelSelector::default() });
            }
        }
        match kind {
            ObjectKind::Namespace => Object::Namespace(into_namespace(&metadata, interner, api_defaults)),
            ObjectKind::Service => {
                Object::Service(Service { namespace, name, selector: selector.map(|s| s.match_labels) })
            }
            ObjectKind::Workload(kind) => Object::Workload(Workload { kind, namespace, name, selector }),
            ObjectKind::PodDisruptionBudget => {
                let status = self.status.unwrap_or_default();
                Object::PodDisruptionBudget(PodDisruptionBudget {
                    namespace,
                    name,
                    selector,
                    disruptions_allowed: status.disruptions_allowed.unwrap_or_default(),
                    disrupted_pods: status.disrupted_pods.0.iter().map(|(name, _)| name.unshared()).collect(),
                })
            }
        }
    }
}

fn into_namespace(metadata: &Metadata<'_>, interner: &mut Interner, api_defaults: bool) -> Namespace {
    let name = metadata.name.intern(interner);
    let mut labels = metadata.labels.labels(interner);
    if api_defaults && !name.is_empty() {
        let own = (interner.intern(LABEL_METADATA_NAME), name.clone());
        let written = labels.iter().map(|(k, v)| (k.clone(), v.clone()));
        labels = written.chain([own]).collect::<Labels>();
    }
    Namespace { name, labels }
}
