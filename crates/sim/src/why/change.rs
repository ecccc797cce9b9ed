//! One change that may place a pod.

use std::{fmt, sync::Arc};

use harbormaster_api::{
    Pod, Str,
    pod::PodSpec,
    selector::Requirement,
    taint::{Taint, Toleration, TolerationOperator},
};
use serde::Serialize;

use super::lowering::lower;
use crate::lack::{short, words};

/// Maximum number of pods that are named; the others are only counted.
const NAMED: usize = 3;

/// A change to the pod, or to the rest of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "change")]
pub enum Change {
    /// The pod requests less of a resource.
    LowerRequest {
        /// Name of the resource.
        resource: Str,
        /// Amount that the pod requests: millicores, bytes or units.
        from: i64,
        /// Amount that it may request at most.
        to: i64,
    },
    /// The pod tolerates a taint.
    Tolerate {
        /// The taint.
        taint: Taint,
    },
    /// The pod's `nodeSelector` lacks a label.
    DropNodeSelector {
        /// Key of the label.
        key: Str,
        /// Value of the label.
        value: Str,
    },
    /// A term of the pod's required node affinity lacks a requirement.
    DropNodeAffinity {
        /// Position of the term.
        term: usize,
        /// The requirement.
        requirement: Requirement,
    },
    /// A hard topology spread constraint of the pod allows a larger skew.
    WidenSkew {
        /// Position of the constraint.
        constraint: usize,
        /// Topology key of the constraint.
        topology_key: Str,
        /// The pod's `maxSkew`.
        from: i32,
        /// The smallest `maxSkew` that suffices.
        to: i32,
    },
    /// A hard topology spread constraint becomes `ScheduleAnyway`.
    SoftenSpread {
        /// Position of the constraint.
        constraint: usize,
        /// Topology key of the constraint.
        topology_key: Str,
    },
    /// The pod lacks a required term of its pod affinity.
    DropPodAffinity {
        /// Position of the term.
        term: usize,
        /// Topology key of the term.
        topology_key: Str,
    },
    /// The pod lacks a required term of its pod anti-affinity.
    DropPodAntiAffinity {
        /// Position of the term.
        term: usize,
        /// Topology key of the term.
        topology_key: Str,
    },
    /// The pod lacks a host port.
    DropHostPort {
        /// The port.
        port: i32,
        /// Its protocol.
        protocol: Str,
    },
    /// A cordoned node accepts pods again.
    Uncordon {
        /// Name of the node.
        node: Str,
    },
    /// The cluster gets an empty node like an existing one.
    AddNode {
        /// Name of the existing node.
        like: Str,
    },
    /// The pod lacks a volume.
    DropVolume {
        /// Name of the volume in the pod.
        volume: Str,
    },
    /// The pod lacks a resource claim.
    DropResourceClaim {
        /// Name of the claim in the pod.
        claim: Str,
    },
    /// The pod gets a higher priority, and evicts other pods.
    RaisePriority {
        /// The lowest PriorityClass of the cluster that is enough; `None` if the pod's own priority is enough, and only its
        /// `preemptionPolicy` keeps it from evicting pods.
        class: Option<String>,
        /// Priority of the pod.
        from: i32,
        /// The new priority.
        to: i32,
        /// Node of the evicted pods.
        node: Str,
        /// `namespace/name` of the evicted pods, the most important first.
        victims: Vec<String>,
        /// Number of evicted pods that disruption budgets protect.
        violations: usize,
    },
    /// A pod of the same or a lower priority moves to another node.
    MovePod {
        /// `namespace/name` of the pod that moves.
        pod: String,
        /// Kind and name of its workload, such as `Deployment shop/web`; `None` for a pod without a controller.
        workload: Option<String>,
        /// Its node.
        from: Str,
        /// A node on which it fits.
        to: Str,
    },
    /// A pod of the same or a lower priority, which fits on no other node, stops.
    StopPod {
        /// `namespace/name` of the pod that stops.
        pod: String,
        /// Kind and name of its workload; `None` for a pod without a controller.
        workload: Option<String>,
        /// Its node.
        from: Str,
    },
    /// Several pods of a workload, none of them of a higher priority, move to other nodes.
    MovePods {
        /// Kind and name of the workload.
        workload: String,
        /// The pods.
        moves: Vec<Move>,
    },
    /// Several pods of a workload, none of them of a higher priority, stop. They do not all fit on other nodes.
    StopPods {
        /// Kind and name of the workload.
        workload: String,
        /// The pods.
        pods: Vec<Place>,
    },
    /// A claim of the pod asks for fewer devices. The spec of a claim cannot be changed, so it must be created anew.
    FewerDevices {
        /// Name of the claim in the pod.
        claim: Str,
        /// Name of the request in the claim.
        request: String,
        /// Number of devices that it asks for.
        from: i64,
        /// The largest number that suffices.
        to: i64,
    },
    /// A node may have more volumes of a driver.
    RaiseVolumeLimit {
        /// Name of the node and of its CSINode.
        node: Str,
        /// Name of the driver.
        driver: String,
        /// Maximum number of volumes.
        from: i32,
        /// The smallest number that suffices.
        to: i32,
    },
    /// The cluster gets a volume for a claim of the pod.
    AddVolume {
        /// Name of the PersistentVolumeClaim.
        claim: Str,
        /// Its class.
        class: String,
        /// Size of the volume, as the claim requests it.
        size: String,
        /// Node from which the volume can be reached.
        node: Str,
    },
    /// A driver has room for a larger volume in a part of the cluster.
    GrowStorage {
        /// `namespace/name` of the CSIStorageCapacity.
        capacity: String,
        /// Class of the volume.
        class: String,
        /// Size of the largest possible volume.
        from: String,
        /// Size that the pod's claim requests.
        to: String,
    },
    /// The cluster gets several empty nodes like an existing one.
    AddNodes {
        /// Name of the existing node.
        like: Str,
        /// Number of new nodes.
        count: usize,
    },
    /// The pod's group needs nodes for fewer members.
    LowerMinCount {
        /// `namespace/name` of the group.
        group: String,
        /// Its `minCount`.
        from: usize,
        /// The largest `minCount` for which there are enough nodes.
        to: usize,
    },
    /// The pod's group gets the members that it lacks, like those that wait.
    AddMembers {
        /// `namespace/name` of the group.
        group: String,
        /// Number of new members.
        count: usize,
    },
    /// The pods of a workload lack their required anti-affinity terms by one key.
    DropAntiAffinityOf {
        /// Kind and name of the workload.
        workload: String,
        /// Topology key of the terms.
        topology_key: Str,
        /// Number of pods that repel the pod.
        pods: usize,
    },
}

/// A pod that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// Its node.
    pub from: Str,
    /// A node on which it fits.
    pub to: Str,
}

/// A pod that stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// Its node.
    pub from: Str,
}

impl Change {
    /// Returns the size of the change, such as the share of a request in millionths. Sizes of different kinds express
    /// how readily people accept the change.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::LowerRequest { from, to, .. } => share(*from, *to),
            Self::LowerMinCount { from, to, .. } => share(amount(*from), amount(*to)),
            Self::AddMembers { .. } => 100_000,
            Self::FewerDevices { from, to, .. } => share(*from, *to),
            Self::RaiseVolumeLimit { from, to, .. } => {
                250_000 + 10_000 * u64::from(to.saturating_sub(*from).unsigned_abs())
            }
            Self::AddVolume { .. } => 350_000,
            Self::GrowStorage { .. } => 450_000,
            Self::WidenSkew { from, to, .. } => 100_000 * u64::from(to.saturating_sub(*from).unsigned_abs()),
            Self::Uncordon { .. } => 200_000,
            Self::Tolerate { .. } => 300_000,
            Self::DropNodeSelector { .. } | Self::DropNodeAffinity { .. } => 400_000,
            Self::MovePod { .. } => 500_000,
            Self::SoftenSpread { .. } | Self::DropPodAffinity { .. } => 600_000,
            Self::DropPodAntiAffinity { .. }
            | Self::DropAntiAffinityOf { .. }
            | Self::DropHostPort { .. } => 700_000,
            Self::AddNode { .. } => 800_000,
            Self::AddNodes { count, .. } => {
                800_000 + 10_000 * u64::try_from(*count).unwrap_or(u64::MAX / 20_000)
            }
            Self::RaisePriority { victims, violations, .. } => {
                850_000 + count(victims) + 10_000 * u64::try_from(*violations).unwrap_or(u64::MAX / 20_000)
            }
            Self::StopPod { .. } => 900_000,
            Self::MovePods { moves, .. } => 500_000 + 10_000 * count(moves),
            Self::StopPods { pods, .. } => 900_000 + 10_000 * count(pods),
            Self::DropVolume { .. } | Self::DropResourceClaim { .. } => 950_000,
        }
    }

    /// Returns true if the change concerns the pod itself.
    pub fn is_of_pod(&self) -> bool {
        !matches!(
            self,
            Self::Uncordon { .. }
                | Self::AddNode { .. }
                | Self::FewerDevices { .. }
                | Self::RaiseVolumeLimit { .. }
                | Self::AddVolume { .. }
                | Self::GrowStorage { .. }
                | Self::AddNodes { .. }
                | Self::LowerMinCount { .. }
                | Self::AddMembers { .. }
                | Self::MovePod { .. }
                | Self::StopPod { .. }
                | Self::MovePods { .. }
                | Self::StopPods { .. }
                | Self::DropAntiAffinityOf { .. }
        )
    }

    /// Changes the pod's spec. Changes to the cluster have no effect here.
    fn apply(&self, spec: &mut PodSpec) {
        match self {
            Self::LowerRequest { resource, to, .. } => lower(spec, resource, *to),
            Self::Tolerate { taint } => spec.tolerations.push(toleration(taint)),
            Self::DropNodeSelector { key, .. } => {
                let left =
                    spec.node_selector.iter().flat_map(|all| all.iter()).filter(|(known, _)| *known != key);
                let left: Vec<(Str, Str)> = left.map(|(key, value)| (key.clone(), value.clone())).collect();
                spec.node_selector = (!left.is_empty()).then(|| left.into_iter().collect());
            }
            Self::DropNodeAffinity { term, requirement } => drop_requirement(spec, *term, requirement),
            Self::WidenSkew { constraint, to, .. } => {
                if let Some(constraint) = spec.topology_spread.get_mut(*constraint) {
                    constraint.max_skew = *to;
                }
            }
            Self::SoftenSpread { constraint, .. } => {
                if let Some(constraint) = spec.topology_spread.get_mut(*constraint) {
                    constraint.hard = false;
                    // The API server accepts a minimum number of domains only for hard constraints.
                    constraint.min_domains = None;
                }
            }
            // Terms are emptied rather than removed, because the positions in other changes must stay valid.
            Self::DropPodAffinity { term, .. } => {
                let all = spec.pod_affinity.iter_mut().flat_map(|all| all.required.get_mut(*term));
                all.for_each(|term| *term = Default::default());
            }
            Self::DropPodAntiAffinity { term, .. } => {
                let all = spec.pod_anti_affinity.iter_mut().flat_map(|all| all.required.get_mut(*term));
                all.for_each(|term| *term = Default::default());
            }
            Self::DropHostPort { port, protocol } => {
                for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
                    container.host_ports.retain(|known| known.port != *port || known.protocol != *protocol);
                }
            }
            Self::DropVolume { volume } => spec.volumes.retain(|known| known.name != *volume),
            Self::DropResourceClaim { claim } => spec.resource_claims.retain(|known| known.name != *claim),
            Self::RaisePriority { to, .. } => (spec.priority, spec.never_preempts) = (*to, false),
            Self::Uncordon { .. }
            | Self::AddNode { .. }
            | Self::FewerDevices { .. }
            | Self::RaiseVolumeLimit { .. }
            | Self::AddVolume { .. }
            | Self::GrowStorage { .. }
            | Self::AddNodes { .. }
            | Self::LowerMinCount { .. }
            | Self::AddMembers { .. }
            | Self::MovePod { .. }
            | Self::StopPod { .. }
            | Self::MovePods { .. }
            | Self::StopPods { .. }
            | Self::DropAntiAffinityOf { .. } => {}
        }
    }
}

/// Returns the pod after the changes.
pub(super) fn changed(pod: &Pod, changes: &[Change]) -> Pod {
    let mut spec = PodSpec::clone(&pod.spec);
    changes.iter().for_each(|change| change.apply(&mut spec));
    for affinity in [&mut spec.pod_affinity, &mut spec.pod_anti_affinity].into_iter().flatten() {
        affinity.required.retain(|term| !term.topology_key.is_empty());
    }
    Pod { spec: Arc::new(spec), ..pod.clone() }
}

/// Returns the toleration of exactly this taint.
fn toleration(taint: &Taint) -> Toleration {
    Toleration {
        key: taint.key.clone(),
        operator: TolerationOperator::Equal,
        value: taint.value.clone(),
        effect: Some(taint.effect),
    }
}

/// Removes a requirement. A term that becomes empty would match nothing, so all terms go with it: one of several terms
/// suffices.
fn drop_requirement(spec: &mut PodSpec, term: usize, requirement: &Requirement) {
    let Some(affinity) = &mut spec.node_affinity else { return };
    let Some(selector) = &mut affinity.required else { return };
    let Some(term) = selector.terms.get_mut(term) else { return };
    term.match_expressions.retain(|known| known != requirement);
    term.match_fields.retain(|known| known != requirement);
    if term.match_expressions.is_empty() && term.match_fields.is_empty() {
        affinity.required = None;
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LowerRequest { resource, from, to } => {
                let (mut old, mut new) = (short(resource, *from), short(resource, *to));
                if old == new {
                    // The short forms are rounded down.
                    (old, new) = (from.to_string(), to.to_string());
                }
                write!(f, "request {resource} {new} instead of {old}")
            }
            Self::Tolerate { taint } => write!(f, "tolerate the taint {}", taint_words(taint)),
            Self::DropNodeSelector { key, value } => write!(f, "drop the node selector {key}={value}"),
            Self::DropNodeAffinity { requirement, .. } => {
                write!(f, "drop the node affinity {}", words(requirement))
            }
            Self::WidenSkew { topology_key, from, to, .. } => {
                write!(f, "allow a skew of {to} instead of {from} by {topology_key}")
            }
            Self::SoftenSpread { topology_key, .. } => {
                write!(f, "make the spread by {topology_key} a preference")
            }
            Self::DropPodAffinity { topology_key, .. } => {
                write!(f, "drop the pod affinity by {topology_key}")
            }
            Self::DropPodAntiAffinity { topology_key, .. } => {
                write!(f, "drop the pod anti-affinity by {topology_key}")
            }
            Self::DropHostPort { port, protocol } => write!(f, "drop the host port {port}/{protocol}"),
            Self::Uncordon { node } => write!(f, "uncordon node {node}"),
            Self::AddNode { like } | Self::AddNodes { like, count: 1 } => write!(f, "add a node like {like}"),
            Self::AddNodes { like, count } => write!(f, "add {count} nodes like {like}"),
            Self::LowerMinCount { group, from, to } => {
                write!(f, "lower minCount of PodGroup {group} from {from} to {to}")
            }
            Self::AddMembers { group, count: 1 } => {
                write!(f, "create the missing member of PodGroup {group}")
            }
            Self::AddMembers { group, count } => {
                write!(f, "create the {count} missing members of PodGroup {group}")
            }
            Self::MovePod { pod, workload, from, to } => {
                write!(f, "move pod {pod}{} from node {from} to {to}", of(workload))
            }
            Self::StopPod { pod, workload, from } => {
                write!(f, "stop pod {pod}{} on node {from}", of(workload))
            }
            Self::MovePods { workload, moves } => {
                let moves: Vec<String> = moves
                    .iter()
                    .map(|Move { pod, from, to }| format!("{pod} from node {from} to {to}"))
                    .collect();
                write!(f, "move {} pods of {workload}: {}", moves.len(), listed(&moves))
            }
            Self::StopPods { workload, pods } => {
                let pods: Vec<String> =
                    pods.iter().map(|Place { pod, from }| format!("{pod} on node {from}")).collect();
                write!(f, "stop {} pods of {workload}: {}", pods.len(), listed(&pods))
            }
            Self::DropAntiAffinityOf { workload, topology_key, .. } => {
                write!(f, "drop the pod anti-affinity by {topology_key} of {workload}")
            }
            Self::FewerDevices { claim, request, from, to } => {
                write!(f, "ask for {to} instead of {from} devices in request {request} of claim {claim}")
            }
            Self::RaiseVolumeLimit { node, driver, from, to } => {
                write!(f, "let node {node} have {to} instead of {from} volumes of driver {driver}")
            }
            Self::AddVolume { claim, class, size, node } => {
                write!(f, "add a volume of class {class} with {size} on node {node} for claim {claim}")
            }
            Self::GrowStorage { capacity, class, from, to } => write!(
                f,
                "offer {to} instead of {from} for volumes of class {class} in CSIStorageCapacity {capacity}"
            ),
            Self::DropVolume { volume } => write!(f, "drop the volume {volume}"),
            Self::DropResourceClaim { claim } => write!(f, "drop the resource claim {claim}"),
            Self::RaisePriority { class, from, to, node, victims, violations } => {
                match class {
                    Some(class) => write!(f, "use the priority class {class} ({to} instead of {from})")?,
                    None => write!(f, "allow it to preempt")?,
                }
                write!(f, ", which evicts {} from node {node}", listed(victims))?;
                match violations {
                    0 => Ok(()),
                    1 => write!(f, ", against the disruption budget of one of them"),
                    many => write!(f, ", against the disruption budgets of {many} of them"),
                }
            }
        }
    }
}

/// Returns the share of an amount that is given up, in millionths.
fn share(from: i64, to: i64) -> u64 {
    let (from, to) = (i128::from(from), i128::from(to));
    u64::try_from((from - to) * 1_000_000 / from.max(1)).unwrap_or(1).max(1)
}

fn amount(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

fn of(workload: &Option<String>) -> String {
    workload.as_ref().map(|workload| format!(" of {workload}")).unwrap_or_default()
}

/// Returns the first words, and the number of the others.
fn listed(words: &[String]) -> String {
    let others = words.len().saturating_sub(NAMED);
    let more = (others > 0).then(|| format!("{others} more"));
    words.iter().take(NAMED).cloned().chain(more).collect::<Vec<_>>().join(", ")
}

fn taint_words(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect.as_str())
}
