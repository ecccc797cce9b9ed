//! Reports on the pending and the preempted pods of a simulation. The JSON form is stable, since tools read it.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use harbormaster_framework::{outcome::Reject, pod::PodInfo};
pub use harbormaster_world::volumes::ClaimedVolume;
use serde::{Serialize, Serializer, ser::SerializeMap as _};

/// Results of a simulation, with pods in the order of the manifests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// One entry for each pod that had no node, then one for each pod that had a node and lost it.
    pub pods: Vec<PodReport>,
    /// For each node that pods name but that does not exist, the number of these pods. `pods` does not contain them.
    pub missing_nodes: BTreeMap<String, usize>,
    /// Pods that got or lost a node, in order. The JSON form does not contain them.
    pub course: Vec<Turn>,
}

/// A pod that gets or loses a node during a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Number of attempts so far, including the one that led to this.
    pub attempts: usize,
    /// `namespace/name`.
    pub pod: String,
    /// True if the pod gets a node.
    pub is_placed: bool,
}

impl Report {
    /// Returns the number of attempts for all pods.
    pub fn attempts(&self) -> usize {
        self.pods.iter().map(|pod| usize::try_from(pod.attempts).unwrap_or(usize::MAX)).sum()
    }

    /// Returns the number of pods with the given fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.pods.iter().filter(|pod| pod.fate() == fate).count()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let totals: BTreeMap<&str, usize> =
            Fate::ALL.iter().map(|fate| (fate.word(), self.count(*fate))).collect();
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("pods", &self.pods)?;
        map.serialize_entry("totals", &totals)?;
        if !self.missing_nodes.is_empty() {
            map.serialize_entry("missingNodes", &self.missing_nodes)?;
        }
        map.end()
    }
}

/// A pod that had no node, or that lost its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodReport {
    /// `namespace/name`.
    pub pod: String,
    /// `spec.schedulerName`.
    pub profile: String,
    /// Group of pods to which the pod belongs (`namespace/name`).
    pub group: Option<String>,
    /// Controller of the pod, such as `ReplicaSet shop/web-6d4f`.
    pub owner: Option<String>,
    /// Node of the pod.
    pub node: Option<String>,
    /// Verdict of the PreEnqueue plugin that keeps the pod out of the queue.
    pub pre_enqueue: Option<Status>,
    /// The reason why the pod has no node, in kube-scheduler's words.
    pub message: Option<String>,
    /// The volume of each of the pod's claims that was unbound before the simulation, in the order of the pod's
    /// volumes.
    pub claims: Vec<ClaimReport>,
    /// Devices that the pod's claims got when the pod was placed, in the order of the claims.
    pub devices: Vec<DeviceReport>,
    /// Pods (`namespace/name`) that were preempted for the pod.
    pub victims: Vec<String>,
    /// Preemptor of the pod (`namespace/name`).
    pub preempted_by: Option<String>,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of nodes evaluated and number of nodes that fit, in the attempt that placed the pod.
    pub looked_at: Option<(usize, usize)>,
    /// True if no profile has the pod's scheduler name.
    pub is_foreign: bool,
}

impl Serialize for PodReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("pod", &self.pod)?;
        map.serialize_entry("profile", &self.profile)?;
        if let Some(group) = &self.group {
            map.serialize_entry("group", group)?;
        }
        map.serialize_entry("owner", &self.owner)?;
        map.serialize_entry("state", self.fate().word())?;
        map.serialize_entry("node", &self.node)?;
        map.serialize_entry("preEnqueue", &self.pre_enqueue)?;
        map.serialize_entry("message", &self.message)?;
        map.serialize_entry("tried", &self.attempts)?;
        if let Some((evaluated, fits)) = self.looked_at {
            map.serialize_entry("fits", &fits)?;
            map.serialize_entry("evaluated", &evaluated)?;
        }
        if !self.claims.is_empty() {
            map.serialize_entry("claims", &self.claims)?;
        }
        if !self.devices.is_empty() {
            map.serialize_entry("devices", &self.devices)?;
        }
        if !self.victims.is_empty() {
            map.serialize_entry("victims", &self.victims)?;
        }
        if let Some(by) = &self.preempted_by {
            map.serialize_entry("preemptedBy", by)?;
        }
        map.end()
    }
}

/// The volume of a pod's claim. `Display` writes one clause, such as `claim data: gets volume disk`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimReport {
    /// Name of the claim, in the pod's namespace.
    pub claim: String,
    /// Class of the claim; empty for none.
    pub class: String,
    /// `volume` or `provisioned`.
    #[serde(flatten)]
    pub gets: ClaimedVolume,
}

impl fmt::Display for ClaimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claim, class, gets } = self;
        match gets {
            ClaimedVolume::Volume(volume) => write!(f, "claim {claim}: gets volume {volume}"),
            ClaimedVolume::Provisioned(place) => {
                write!(f, "claim {claim}: a volume of class {class} would be provisioned")?;
                // The last part of the key names the kind of place, such as `zone` in `topology.kubernetes.io/zone`.
                let words = place
                    .iter()
                    .map(|(key, value)| format!("{} {value}", key.rsplit('/').next().unwrap_or_default()));
                let words: Vec<String> = words.collect();
                if words.is_empty() { Ok(()) } else { write!(f, " in {}", words.join(", ")) }
            }
        }
    }
}

/// Devices of a resource claim. `Display` writes one clause, such as `claim gpus: gets gpu-0, gpu-1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// Name of the claim, in the pod's namespace.
    pub claim: String,
    /// The devices, in the order of the requests.
    pub devices: Vec<DeviceName>,
}

/// Name of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceName {
    /// Driver of the device.
    pub driver: String,
    /// Pool that contains the device.
    pub pool: String,
    /// Name of the device in its pool.
    pub device: String,
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claim, devices } = self;
        let names: Vec<&str> = devices.iter().map(|device| device.device.as_str()).collect();
        write!(
            f,
            "claim {claim}: gets {}",
            if names.is_empty() { "no devices".to_owned() } else { names.join(", ") }
        )
    }
}

/// Result for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The pod has a node.
    Placed,
    /// The pod was tried and fits nowhere.
    Unschedulable,
    /// The pod is held back and was not tried.
    Gated,
    /// The pod had a node and lost it.
    Preempted,
    /// The pod belongs to another scheduler.
    Foreign,
}

impl Fate {
    /// All fates.
    pub const ALL: [Self; 5] =
        [Self::Placed, Self::Unschedulable, Self::Gated, Self::Preempted, Self::Foreign];

    /// Returns the name of the fate in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Unschedulable => "unschedulable",
            Self::Gated => "gated",
            Self::Preempted => "preempted",
            Self::Foreign => "foreign",
        }
    }
}

/// A rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The plugin that rejected the pod. Empty if the framework itself rejected the pod for a node that PreFilter's
    /// results exclude.
    pub plugin: Cow<'static, str>,
    /// kube-scheduler's status code: `Unschedulable`, `UnschedulableAndUnresolvable`, `Pending` or `Error`.
    pub code: Cow<'static, str>,
    /// Reasons for the rejection.
    pub reasons: Vec<Cow<'static, str>>,
}

impl Status {
    pub(crate) fn new(plugin: Option<&'static str>, reject: Reject) -> Self {
        Self {
            plugin: plugin.unwrap_or_default().into(),
            code: reject.fix.code().into(),
            reasons: reject.reasons,
        }
    }

    /// Returns the reasons, joined as in kube-scheduler's status messages.
    pub fn text(&self) -> String {
        self.reasons.join(", ")
    }
}

impl PodReport {
    pub(crate) fn of(pod: &PodInfo) -> Self {
        let owner = pod.controller.as_ref();
        Self {
            pod: pod.full_name(),
            profile: pod.spec.scheduler_name.as_str().to_owned(),
            owner: owner.map(|owner| format!("{} {}/{}", owner.kind, pod.namespace, owner.name)),
            ..Self::default()
        }
    }

    /// Returns the result for the pod.
    pub fn fate(&self) -> Fate {
        match () {
            () if self.is_foreign => Fate::Foreign,
            () if self.preempted_by.is_some() => Fate::Preempted,
            () if self.node.is_some() => Fate::Placed,
            () if self.is_gated() => Fate::Gated,
            () => Fate::Unschedulable,
        }
    }

    /// Records that no profile has the pod's scheduler name.
    pub(crate) fn mark_foreign(&mut self) {
        self.is_foreign = true;
        self.message = Some(format!("no profile has the scheduler name {:?}", self.profile));
    }

    /// Returns true if the latest attempt chose a node but the pod is not bound to it.
    pub(crate) fn lacks_its_binding(&self) -> bool {
        self.node.is_none() && self.looked_at.is_some()
    }

    /// Returns true if a PreEnqueue plugin holds the pod back.
    pub fn is_gated(&self) -> bool {
        self.pre_enqueue.is_some()
    }

    /// Records that the pod was preempted and has left its node.
    pub(crate) fn preempted(&mut self, victim: &PodInfo, preemptor: Option<String>) {
        let by = preemptor.unwrap_or_default();
        let from = victim.node_name.clone().map(|node| node.to_string()).or(self.node.take());
        self.message = Some(format!("Preempted by pod {by} on node {}", from.unwrap_or_default()));
        self.preempted_by = Some(by);
        self.node = None;
        self.looked_at = None;
        self.claims.clear();
    }
}
