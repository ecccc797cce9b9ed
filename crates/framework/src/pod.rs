//! A pod, with information that the framework computes once.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use harbormaster_api::{
    Pod, PodSpec, QosClass, Resources, Str,
    pod::HostPort,
    requests::{self, StatusRule},
};
use rustc_hash::FxHashMap;

use crate::group::GroupId;

/// CPU and memory of a pod as scores count them, with defaults for containers without requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonZero {
    /// Millicores.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// A pod spec and the information derived from it. Pods with equal specs share one instance. Derefs to its [`PodSpec`].
#[derive(Debug)]
pub struct SpecInfo {
    /// The spec.
    pub spec: Arc<PodSpec>,
    /// Effective request, computed from the spec alone.
    pub request: Resources,
    /// CPU and memory of [`Self::request`] as scores count them.
    pub nonzero: NonZero,
    /// Resources that scores use for this pod while it is pending.
    pub score_request: Resources,
    /// Host ports of containers and sidecars.
    pub host_ports: Vec<HostPort>,
    /// Quality-of-service class.
    pub qos: QosClass,
}

impl SpecInfo {
    /// Computes everything from the spec.
    pub fn new(spec: Arc<PodSpec>) -> Self {
        let probe = Pod { spec: spec.clone(), ..Pod::default() };
        // A pod without a status counts equally under all rules.
        let (milli_cpu, memory) = requests::nonzero_request(&probe, StatusRule::default());
        Self {
            request: requests::spec_request(&spec),
            nonzero: NonZero { milli_cpu, memory },
            score_request: requests::score_request(&spec),
            host_ports: requests::host_ports(&spec),
            qos: QosClass::of(&spec),
            spec,
        }
    }
}

impl std::ops::Deref for SpecInfo {
    type Target = PodSpec;
    fn deref(&self) -> &PodSpec {
        &self.spec
    }
}

/// A pod as plugins see it. Cheap to clone through its [`Arc`].
pub struct PodInfo {
    /// The object.
    pub pod: Arc<Pod>,
    /// Information derived from the spec, shared by all pods with an equal spec.
    pub derived: Arc<SpecInfo>,
    /// Present if the status can change the pod's effective requests (in-place resize).
    resized: Option<Arc<(Resources, NonZero)>>,
    group: Option<GroupId>,
}

impl PodInfo {
    /// Creates a pod whose spec is shared through `specs`.
    pub fn new(mut pod: Pod, specs: &mut SpecTable) -> Self {
        let derived = specs.intern(pod.spec.clone());
        pod.spec = derived.spec.clone();
        let resized = requests::status_counts(&pod).then(|| {
            let (milli_cpu, memory) = requests::nonzero_request(&pod, specs.status_rule);
            let nonzero = NonZero { milli_cpu, memory };
            Arc::new((requests::pod_request(&pod, specs.status_rule), nonzero))
        });
        Self { pod: Arc::new(pod), derived, resized, group: None }
    }

    /// Returns the same pod as a member of a group.
    #[must_use]
    pub fn in_group(self, group: Option<GroupId>) -> Self {
        Self { group, ..self }
    }

    /// Creates a pod that shares its spec with no other pod, for tests and one-off uses.
    pub fn standalone(pod: Pod) -> Arc<Self> {
        Arc::new(Self::new(pod, &mut SpecTable::default()))
    }

    /// Returns the same pod bound to `node`: the version that the cache holds until the binding is confirmed.
    pub fn assumed_on(&self, node: &Str) -> Arc<Self> {
        let pod = Arc::new(Pod { node_name: Some(node.clone()), ..Pod::clone(&self.pod) });
        let (derived, resized) = (self.derived.clone(), self.resized.clone());
        Arc::new(Self { pod, derived, resized, group: self.group.clone() })
    }

    /// Resources that the pod occupies on its node, including in-place resizes.
    pub fn request(&self) -> &Resources {
        self.resized.as_ref().map_or(&self.derived.request, |r| &r.0)
    }

    /// CPU and memory that the pod occupies on its node, as scores count them.
    pub fn nonzero(&self) -> NonZero {
        self.resized.as_ref().map_or(self.derived.nonzero, |r| r.1)
    }

    /// Returns true if both versions are certain to occupy the same resources and ports.
    pub(crate) fn occupies_same_resources(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.derived, &other.derived) && self.resized.is_none() && other.resized.is_none()
    }

    /// The group to which the pod belongs, as the profile's plugins define it.
    pub fn group(&self) -> Option<&GroupId> {
        self.group.as_ref()
    }

    /// The pod's priority.
    pub fn priority(&self) -> i32 {
        self.spec.priority
    }
}

impl std::ops::Deref for PodInfo {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        &self.pod
    }
}

impl fmt::Debug for PodInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PodInfo({}/{})", self.pod.namespace, self.pod.name)
    }
}

/// Makes pods with equal specs share one [`SpecInfo`].
#[derive(Debug, Default)]
pub struct SpecTable {
    known: FxHashMap<SpecKey, Arc<SpecInfo>>,
    shrink_at: usize,
    status_rule: StatusRule,
}

impl SpecTable {
    /// Creates an empty table. The statuses of its pods count as `status_rule` says.
    pub fn new(status_rule: StatusRule) -> Self {
        Self { status_rule, ..Self::default() }
    }

    /// Returns the shared information for `spec`.
    pub fn intern(&mut self, spec: Arc<PodSpec>) -> Arc<SpecInfo> {
        let key = SpecKey(spec);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= self.shrink_at.max(256) {
            self.known.retain(|_, info| Arc::strong_count(info) > 1);
            self.shrink_at = self.known.len() * 2;
        }
        let info = Arc::new(SpecInfo::new(key.0.clone()));
        self.known.insert(key, info.clone());
        info
    }

    /// Number of distinct specs.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns true if there are no specs.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// A spec as a key. Equality compares pointers first, which is fast for a spec that is already interned.
#[derive(Debug)]
struct SpecKey(Arc<PodSpec>);

impl PartialEq for SpecKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for SpecKey {}

impl Hash for SpecKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
