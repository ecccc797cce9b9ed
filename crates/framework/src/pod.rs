//! A pod with what the framework computed from it once.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use harbormaster_api::{Pod, PodSpec, Resources, Str, pod::HostPort, requests};
use rustc_hash::FxHashMap;

/// What cpu and memory a pod counts for in scores, with defaults for containers that ask for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonZero {
    /// Millicores.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// A pod spec and what follows from it. Pods with equal specs share one. Reads like its [`PodSpec`].
#[derive(Debug)]
pub struct SpecInfo {
    /// The spec.
    pub spec: Arc<PodSpec>,
    /// Effective request, from the spec alone.
    pub request: Resources,
    /// [`Self::request`] with the cpu and memory that scores count.
    pub nonzero: NonZero,
    /// What resource scores count for this pod while it is pending.
    pub score_request: Resources,
    /// Host ports of containers and sidecars.
    pub host_ports: Vec<HostPort>,
}

impl SpecInfo {
    /// Computes everything from the spec.
    pub fn new(spec: Arc<PodSpec>) -> Self {
        let probe = Pod { spec: spec.clone(), ..Pod::default() };
        let (milli_cpu, memory) = requests::nonzero_request(&probe);
        Self {
            request: requests::spec_request(&spec),
            nonzero: NonZero { milli_cpu, memory },
            score_request: requests::score_request(&spec),
            host_ports: requests::host_ports(&spec),
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
    /// Shared with all pods of an equal spec.
    pub spec: Arc<SpecInfo>,
    /// Present when the status changes what the pod occupies (in-place resize).
    resized: Option<Box<(Resources, NonZero)>>,
}

impl PodInfo {
    /// Looks the spec up in `specs`, so that equal specs are shared.
    pub fn new(mut pod: Pod, specs: &mut SpecTable) -> Self {
        let spec = specs.intern(pod.spec.clone());
        pod.spec = spec.spec.clone();
        Self::with_spec(Arc::new(pod), spec)
    }

    fn with_spec(pod: Arc<Pod>, spec: Arc<SpecInfo>) -> Self {
        let status_counts = !pod.status.container_resources.is_empty() || pod.status.pod_level.is_some();
        let resized = status_counts.then(|| {
            let (milli_cpu, memory) = requests::nonzero_request(&pod);
            Box::new((requests::pod_request(&pod), NonZero { milli_cpu, memory }))
        });
        Self { pod, spec, resized }
    }

    /// A pod on its own, for tests and one-off questions.
    pub fn standalone(pod: Pod) -> Arc<Self> {
        Arc::new(Self::new(pod, &mut SpecTable::default()))
    }

    /// The same pod, bound to `node`: what the cache holds while the binding is on its way.
    pub fn assumed_on(&self, node: &Str) -> Arc<Self> {
        let pod = Arc::new(Pod { node_name: Some(node.clone()), ..Pod::clone(&self.pod) });
        Arc::new(Self::with_spec(pod, self.spec.clone()))
    }

    /// What the pod occupies on its node, in-place resize included.
    pub fn request(&self) -> &Resources {
        self.resized.as_ref().map_or(&self.spec.request, |r| &r.0)
    }

    /// What the pod occupies on its node as scores count it.
    pub fn nonzero(&self) -> NonZero {
        self.resized.as_ref().map_or(self.spec.nonzero, |r| r.1)
    }

    /// Whether it is certain that both occupy the same of their node: ports, and whatever else is requested.
    pub(crate) fn occupies_the_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec) && self.resized.is_none() && other.resized.is_none()
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
    known: FxHashMap<BySpec, Arc<SpecInfo>>,
    shrink_at: usize,
}

impl SpecTable {
    /// The shared information for `spec`.
    pub fn intern(&mut self, spec: Arc<PodSpec>) -> Arc<SpecInfo> {
        let key = BySpec(spec);
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

    /// How many distinct specs are held.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// Compares by pointer first: pods of one owner usually share the allocation already.
#[derive(Debug)]
struct BySpec(Arc<PodSpec>);

impl PartialEq for BySpec {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for BySpec {}

impl Hash for BySpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
