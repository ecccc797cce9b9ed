//! Effective resource requests of a pod, its host ports and images.
//!
//! The rules are part of the API. A request is the sum over containers and sidecars, but at least as much as each init
//! container needs together with the sidecars started before it (KEP-753). For a running pod, the requested, allocated
//! and actual resources count as [`StatusRule`] says; the requested ones do not count if the pod's resize is infeasible
//! (KEP-1287). Pod-level requests replace the sum (KEP-2837), and the pod's overhead is added (KEP-688).
//!
//! Each container's amounts are rounded up before they are added. The API server rounds CPU to thousandths anyway,
//! so rounding before the addition rather than after it matters only for fractions of bytes and of countable resources.

use std::borrow::Cow;

use crate::{
    Pod, PodSpec, Release, Resources, Str,
    pod::{Container, ContainerResources, HostPort, PodStatus, ResourceList, VolumeSource},
    resources::{CPU, MEMORY, is_pod_level},
};

/// CPU that scores assume for a container without a CPU request: 100 thousandths of a core.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// Memory that scores assume for a container without a memory request: 200 MiB, in bytes.
pub const DEFAULT_MEMORY: i64 = 200 << 20;

/// Type of the condition of a pod whose resize is pending.
const RESIZE_PENDING: &str = "PodResizePending";
/// Reason in this condition if the resize can never happen on the node.
const INFEASIBLE: &str = "Infeasible";

/// Rule by which the resources in a running pod's status count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusRule {
    /// Each container counts with the largest of its requested, allocated and actual amounts (Kubernetes 1.36). The
    /// status of an init container that is not a sidecar is ignored.
    #[default]
    LargestOfContainer,
    /// The pod counts with the largest of the totals of requested, allocated and actual amounts (Kubernetes 1.37).
    LargestTotal,
}

impl StatusRule {
    /// Returns the rule of a release.
    pub fn of(release: Release) -> Self {
        if release >= Release::V1_37 { Self::LargestTotal } else { Self::LargestOfContainer }
    }
}

/// Resources that the pod occupies on its node. The status, pod-level requests and overhead are taken into account.
/// A node's row holds the sum of these amounts over its pods.
pub fn pod_request(pod: &Pod, rule: StatusRule) -> Resources {
    Resources::from_list(&pod_request_list(pod, rule))
}

/// [`pod_request`] with all resources, including those that the scheduler does not count; sorted by name.
pub fn pod_request_list(pod: &Pod, rule: StatusRule) -> ResourceList {
    RequestSource::running(pod, rule).list(true)
}

/// Returns true if [`pod_request`] may differ from [`spec_request`] because of the pod's status.
pub fn status_counts(pod: &Pod) -> bool {
    let status = &pod.status;
    let reported = !status.container_resources.is_empty() || status.pod_level.is_some();
    reported || is_infeasible(pod)
}

/// Request of a pod that is not running yet: like [`pod_request`], but ignores the pod's status.
pub fn spec_request(spec: &PodSpec) -> Resources {
    Resources::from_list(&spec_request_list(spec))
}

/// [`spec_request`] with all resources, including those that the scheduler does not count; sorted by name.
pub fn spec_request_list(spec: &PodSpec) -> ResourceList {
    RequestSource::planned(spec).list(true)
}

/// The pod's effective limits for all resources, sorted by name. Pod-level limits (KEP-2837) replace those of the
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

/// The pod's request as (CPU in thousandths, memory in bytes). [`DEFAULT_MILLI_CPU`] counts for a container without a
/// CPU request, and [`DEFAULT_MEMORY`] for a container without a memory request. If the pod has pod-level requests,
/// each default applies only if neither these requests nor the overhead nor any container names its resource.
pub fn nonzero_request(pod: &Pod, rule: StatusRule) -> (i64, i64) {
    let source = RequestSource::running(pod, rule);
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

/// Returns the image's name in the form that nodes report: with `:latest` if it has neither a tag nor a digest.
pub fn normalized_image(image: &str) -> Cow<'_, str> {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains(':') { Cow::Borrowed(image) } else { Cow::Owned(format!("{image}:latest")) }
}

/// Aggregates one resource over containers. The result is the larger of two amounts: the sum over containers and
/// sidecars, and the largest need of an init container together with the sidecars started before it. `amount` is called
/// with true for init containers.
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

/// Returns true if the pod has a pending resize that can never happen on its node.
fn is_infeasible(pod: &Pod) -> bool {
    pod.condition(RESIZE_PENDING).is_some_and(|c| c.reason == INFEASIBLE)
}

/// Amounts of resources by name.
type List<'a> = &'a [(Str, i64)];

/// Returns the list unless it is empty. The API server does not distinguish an empty list from an absent one.
fn given<'a>(list: List<'a>) -> Option<List<'a>> {
    (!list.is_empty()).then_some(list)
}

/// The amounts with which containers count. If there are several views, the largest total counts.
#[derive(Clone, Copy)]
enum View {
    /// For each container, the largest of its requested, allocated and actual amounts.
    Merged,
    /// The requested amounts.
    Requested,
    /// The allocated amounts, or else the requested ones.
    Allocated,
    /// The actual amounts, or else the allocated or requested ones.
    Actual,
}

/// Source of a pod's requests: the spec alone, or the spec and the status.
struct RequestSource<'a> {
    spec: &'a PodSpec,
    status: Option<&'a PodStatus>,
    /// True if the pending resize can never happen. The request in the spec is then ignored; under
    /// [`StatusRule::LargestOfContainer`], it is ignored only where the status has amounts.
    infeasible: bool,
    rule: StatusRule,
}

/// Up to three lists of amounts. The largest amount of each resource counts.
type Lists<'a> = [List<'a>; 3];

impl<'a> RequestSource<'a> {
    fn planned(spec: &'a PodSpec) -> Self {
        Self { spec, status: None, infeasible: false, rule: StatusRule::default() }
    }

    fn running(pod: &'a Pod, rule: StatusRule) -> Self {
        Self { spec: &pod.spec, status: Some(&pod.status), infeasible: is_infeasible(pod), rule }
    }

    fn views(&self) -> &'static [View] {
        match (self.status, self.rule, self.infeasible) {
            (None, ..) => &[View::Requested],
            (_, StatusRule::LargestOfContainer, _) => &[View::Merged],
            (_, StatusRule::LargestTotal, false) => &[View::Requested, View::Allocated, View::Actual],
            (_, StatusRule::LargestTotal, true) => &[View::Allocated, View::Actual],
        }
    }

    fn effective<'c>(&self, requested: List<'c>, actual: Option<&'c ContainerResources>) -> Lists<'c> {
        match actual.and_then(|actual| Some((actual.requests.as_ref()?, &actual.allocated))) {
            None => [requested, &[], &[]],
            Some((requests, allocated)) if self.infeasible => [requests, allocated, &[]],
            Some((requests, allocated)) => [requested, requests, allocated],
        }
    }

    /// Returns a container's amounts in a view.
    fn lists<'c>(&self, view: View, container: &'c Container, is_init: bool) -> Lists<'c>
    where
        'a: 'c,
    {
        let status =
            self.status.and_then(|s| s.container_resources.iter().find(|r| r.name == container.name));
        let requested: List<'c> = if self.infeasible { &[] } else { &container.requests };
        let allocated = || status.and_then(|status| given(&status.allocated)).unwrap_or(requested);
        let actual = || status.and_then(|status| given(status.requests.as_ref()?));
        match view {
            View::Merged => {
                let status = status.filter(|_| !is_init || container.restart_always);
                self.effective(&container.requests, status)
            }
            View::Requested => [&container.requests, &[], &[]],
            View::Allocated => [allocated(), &[], &[]],
            View::Actual => [actual().unwrap_or_else(allocated), &[], &[]],
        }
    }

    /// Returns the totals in the pod's own status. They replace the totals of the containers if the status has both.
    fn own_total(&self, view: View) -> Option<List<'a>> {
        let own = self.status?.pod_level.as_ref()?;
        let (allocated, actual) = (given(&own.allocated)?, given(own.requests.as_ref()?)?);
        match view {
            View::Merged | View::Requested => None,
            View::Allocated => Some(allocated),
            View::Actual => Some(actual),
        }
    }

    /// Returns the pod-level requests and the amounts of the pod's own status; none if no pod-level request counts.
    fn pod_level(&self) -> Lists<'a> {
        let requested = &self.spec.pod_level_requests;
        match requested.iter().any(|(name, _)| is_pod_level(name)) {
            true => self.effective(requested, self.status.and_then(|s| s.pod_level.as_ref())),
            false => Lists::default(),
        }
    }

    /// Returns the pod-level amount of one resource, which replaces the total of the containers.
    fn own_request(&self, name: &str) -> Option<i64> {
        let amount = || largest(self.pod_level(), name);
        match self.rule {
            _ if !is_pod_level(name) => None,
            StatusRule::LargestOfContainer => {
                listed(&self.spec.pod_level_requests, name).map(|_| amount().unwrap_or(0))
            }
            StatusRule::LargestTotal => amount(),
        }
    }

    /// Names of the resources in the request, sorted.
    fn names(&self, with_pod_level: bool) -> Vec<&'a Str> {
        let (spec, mut names) = (self.spec, Vec::new());
        for view in self.views() {
            if let Some(own) = self.own_total(*view) {
                names.extend(keys(own));
                continue;
            }
            let containers = spec.containers.iter().map(|c| self.lists(*view, c, false));
            let init_containers = spec.init_containers.iter().map(|c| self.lists(*view, c, true));
            names.extend(containers.chain(init_containers).flatten().flat_map(keys));
        }
        if with_pod_level {
            let named = keys(&spec.pod_level_requests).chain(self.pod_level().into_iter().flat_map(keys));
            names.extend(named.filter(|name| self.own_request(name).is_some()));
        }
        names.extend(keys(&spec.overhead));
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
        let own = self.own_request(name).filter(|_| with_pod_level);
        let amount = own.unwrap_or_else(|| {
            let totals = self.views().iter().map(|view| self.total_in(*view, name, default));
            totals.max().unwrap_or(0)
        });
        amount.saturating_add(listed(&self.spec.overhead, name).unwrap_or(0))
    }

    fn total_in(&self, view: View, name: &str, default: i64) -> i64 {
        match self.own_total(view) {
            Some(own) => listed(own, name).unwrap_or(0),
            None => aggregate(self.spec, |container, is_init| {
                largest(self.lists(view, container, is_init), name).unwrap_or(default)
            }),
        }
    }
}

fn largest(lists: Lists<'_>, name: &str) -> Option<i64> {
    lists.iter().filter_map(|list| listed(list, name)).max()
}

fn keys<'a>(list: List<'a>) -> impl Iterator<Item = &'a Str> {
    list.iter().map(|(name, _)| name)
}

#[cfg(test)]
#[path = "requests/tests.rs"]
mod tests;
