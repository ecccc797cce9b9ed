//! Effective resource requests of a pod, its host ports and images.
//!
//! The rules are part of the API. A request is the sum over containers and sidecars, but at least as much as each init
//! container needs together with the sidecars started before it (KEP-753). For a running pod, each amount is the
//! maximum of requested, allocated and actual resources (KEP-1287). Pod-level requests replace the sum (KEP-2837), and
//! the pod's overhead is added (KEP-688).
//!
//! Amounts of single containers are rounded up before they are added. The API server rounds CPU to thousandths anyway,
//! so rounding before the addition rather than after it matters only for fractions of bytes and of countable resources.

use std::borrow::Cow;

use crate::{
    Pod, PodSpec, Resources, Str,
    pod::{Container, ContainerResources, HostPort, PodStatus, ResourceList, VolumeSource},
    resources::{CPU, MEMORY, is_pod_level},
};

/// CPU that scores assume for a container without a CPU request: 100 thousandths of a core.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// Memory that scores assume for a container without a memory request: 200 MiB, in bytes.
pub const DEFAULT_MEMORY: i64 = 200 << 20;

/// Condition of a pod with a pending resize.
const RESIZE_PENDING: &str = "PodResizePending";
/// Reason in this condition if the resize can never happen on the node.
const INFEASIBLE: &str = "Infeasible";

/// Resources that the pod occupies on its node. The status, pod-level requests and overhead are taken into account.
/// NodeInfo sums these amounts.
pub fn pod_request(pod: &Pod) -> Resources {
    Resources::from_list(&pod_request_list(pod))
}

/// [`pod_request`] with all names, including those that the scheduler does not count; sorted by name.
pub fn pod_request_list(pod: &Pod) -> ResourceList {
    RequestSource::running(pod).list(true)
}

/// Request of a pod that is not running yet: [`pod_request`] without its status.
pub fn spec_request(spec: &PodSpec) -> Resources {
    Resources::from_list(&spec_request_list(spec))
}

/// [`spec_request`] with all names, including those that the scheduler does not count; sorted by name.
pub fn spec_request_list(spec: &PodSpec) -> ResourceList {
    RequestSource::planned(spec).list(true)
}

/// Effective limits of the pod with all names, sorted by name. Pod-level limits (KEP-2837) replace those of the
/// containers. Overhead is added to nonzero limits.
pub fn limit_list(spec: &PodSpec) -> ResourceList {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let of_pod = || spec.pod_level_limits.iter().filter(|(name, _)| is_pod_level(name));
    let mut names: Vec<&Str> =
        containers.flat_map(|c| &c.limits).chain(of_pod()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let limit = |name: &Str| {
        let whole = of_pod().find(|(other, _)| other == name).map(|(_, amount)| *amount);
        let of_containers = || aggregate(spec, |container, _| listed(&container.limits, name).unwrap_or(0));
        let sum = whole.unwrap_or_else(of_containers);
        let overhead = listed(&spec.overhead, name).filter(|_| sum != 0).unwrap_or(0);
        (name.clone(), sum.saturating_add(overhead))
    };
    names.into_iter().map(limit).collect()
}

/// The pod's request as (CPU in thousandths, memory in bytes). A container without a request is counted as requesting
/// [`DEFAULT_MILLI_CPU`] and [`DEFAULT_MEMORY`]. If the pod has pod-level requests, the defaults apply only to
/// resources that neither the pod nor any of its containers names.
pub fn nonzero_request(pod: &Pod) -> (i64, i64) {
    let source = RequestSource::running(pod);
    let pod_level = pod.spec.pod_level_requests.iter().any(|(name, _)| is_pod_level(name));
    let names = if pod_level { source.names(true) } else { Vec::new() };
    let total = |name: &str, default: i64| {
        let default = if names.iter().any(|n| *n == name) { 0 } else { default };
        source.total(name, default, true)
    };
    (total(CPU, DEFAULT_MILLI_CPU), total(MEMORY, DEFAULT_MEMORY))
}

/// Request of the pod for NodeResourcesFit's score: the containers' requests with the defaults of [`nonzero_request`],
/// plus overhead. Pod-level requests and status are ignored, as in Kubernetes.
pub fn score_request(spec: &PodSpec) -> Resources {
    let source = RequestSource::planned(spec);
    let mut request = Resources::from_list(&source.list(false));
    request.milli_cpu = source.total(CPU, DEFAULT_MILLI_CPU, false);
    request.memory = source.total(MEMORY, DEFAULT_MEMORY, false);
    request
}

/// Host ports of containers and sidecars. Ports of other init containers are ignored.
pub fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().filter(|c| c.restart_always);
    spec.containers.iter().chain(sidecars).flat_map(|c| c.host_ports.iter().cloned()).collect()
}

/// Images of init containers and containers, as written.
pub fn container_images(spec: &PodSpec) -> impl Iterator<Item = &Str> {
    spec.init_containers.iter().chain(&spec.containers).map(|c| &c.image)
}

/// Images mounted as volumes, as written.
pub fn volume_images(spec: &PodSpec) -> impl Iterator<Item = &Str> {
    spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Image(image) => Some(image),
        _ => None,
    })
}

/// Returns the image's name, with `:latest` if it has neither a tag nor a digest, in the form in which nodes report
/// names.
pub fn normalized_image(image: &str) -> Cow<'_, str> {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains(':') { Cow::Borrowed(image) } else { Cow::Owned(format!("{image}:latest")) }
}

/// Aggregates one resource over containers: the sum over containers and sidecars, or the largest need of an init
/// container together with the sidecars started before it, if that is larger. `amount` is called with true for init
/// containers.
pub(crate) fn aggregate(spec: &PodSpec, amount: impl Fn(&Container, bool) -> i64) -> i64 {
    let mut total = spec.containers.iter().map(|c| amount(c, false)).fold(0, i64::saturating_add);
    let (mut sidecars, mut peak) = (0i64, i64::MIN);
    for container in &spec.init_containers {
        let own = amount(container, true);
        let with_sidecars = sidecars.saturating_add(own);
        if container.restart_always {
            total = total.saturating_add(own);
            sidecars = with_sidecars;
        }
        peak = peak.max(with_sidecars);
    }
    total.max(peak)
}

/// Returns the amount of the resource `name`, if it is listed.
pub(crate) fn listed(list: &[(Str, i64)], name: &str) -> Option<i64> {
    list.iter().find(|(n, _)| *n == name).map(|(_, amount)| *amount)
}

/// Source of a pod's requests: the spec alone, or the spec and the status.
struct RequestSource<'a> {
    spec: &'a PodSpec,
    status: Option<&'a PodStatus>,
    /// True if the pending resize can never happen. The request in the spec is then ignored.
    infeasible: bool,
}

/// Up to three lists of amounts. The largest amount of each resource counts.
type Lists<'a> = [&'a [(Str, i64)]; 3];

impl<'a> RequestSource<'a> {
    fn planned(spec: &'a PodSpec) -> Self {
        Self { spec, status: None, infeasible: false }
    }

    fn running(pod: &'a Pod) -> Self {
        let infeasible = pod.condition(RESIZE_PENDING).is_some_and(|c| c.reason == INFEASIBLE);
        Self { spec: &pod.spec, status: Some(&pod.status), infeasible }
    }

    fn effective<'c>(
        &self,
        requested: &'c ResourceList,
        actual: Option<&'c ContainerResources>,
    ) -> Lists<'c> {
        match actual {
            None => [requested, &[], &[]],
            Some(actual) if self.infeasible => [&actual.requests, &actual.allocated, &[]],
            Some(actual) => [requested, &actual.requests, &actual.allocated],
        }
    }

    fn lists<'c>(&self, container: &'c Container, is_init: bool) -> Lists<'c>
    where
        'a: 'c,
    {
        let status = self.status.filter(|_| !is_init || container.restart_always);
        let actual = status.and_then(|s| s.container_resources.iter().find(|r| r.name == container.name));
        self.effective(&container.requests, actual)
    }

    fn pod_level(&self) -> Lists<'a> {
        self.effective(&self.spec.pod_level_requests, self.status.and_then(|s| s.pod_level.as_ref()))
    }

    /// Names of the resources in the request, sorted.
    fn names(&self, with_pod_level: bool) -> Vec<&'a Str> {
        let containers = self.spec.containers.iter().map(|c| self.lists(c, false));
        let init_containers = self.spec.init_containers.iter().map(|c| self.lists(c, true));
        let mut names: Vec<&Str> =
            containers.chain(init_containers).flatten().flatten().map(|(name, _)| name).collect();
        if with_pod_level {
            let pod_level = self.spec.pod_level_requests.iter().map(|(name, _)| name);
            names.extend(pod_level.filter(|name| is_pod_level(name)));
        }
        names.extend(self.spec.overhead.iter().map(|(name, _)| name));
        names.sort_unstable();
        names.dedup();
        names
    }

    fn list(&self, with_pod_level: bool) -> ResourceList {
        let names = self.names(with_pod_level);
        names.into_iter().map(|name| (name.clone(), self.total(name, 0, with_pod_level))).collect()
    }

    /// Total of one resource; `default` is the amount for containers that do not name the resource.
    fn total(&self, name: &str, default: i64, with_pod_level: bool) -> i64 {
        let replaced =
            with_pod_level && is_pod_level(name) && listed(&self.spec.pod_level_requests, name).is_some();
        let amount = if replaced {
            largest(self.pod_level(), name).unwrap_or(0)
        } else {
            aggregate(self.spec, |container, is_init| {
                largest(self.lists(container, is_init), name).unwrap_or(default)
            })
        };
        amount.saturating_add(listed(&self.spec.overhead, name).unwrap_or(0))
    }
}

fn largest(lists: Lists<'_>, name: &str) -> Option<i64> {
    lists.iter().filter_map(|list| listed(list, name)).max()
}

#[cfg(test)]
#[path = "requests/tests.rs"]
mod tests;
