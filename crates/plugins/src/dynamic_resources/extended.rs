//! Extended resources that device classes provide (KEP-5004): the claim that the scheduler creates for a pod.
//!
//! The claim asks for the resources that the chosen node does not offer itself, so it can differ from node to node.
//! PreBind creates the claim.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use harbormaster_api::{PodSpec, Str, pod::Container};
use harbormaster_framework::prelude::*;
use serde_json::{Value, json};

use super::DynamicResources;
use crate::devices::{
    CLAIM_ANNOTATION, ResourceClaim,
    claim::{ClaimSpec, DeviceClaim, DeviceDemand, DeviceRequest, EXACT_COUNT, InFlight},
    may_be_provided, pod_of,
};

/// Name of a claim that does not exist yet. No real claim can have this name.
const PLACEHOLDER: &str = "<extended-resources>";

/// Extended resources of a pod. A device class provides at least one of them.
#[derive(Debug)]
pub(super) struct ExtendedResources {
    /// Claim that an earlier attempt has left behind. It must be deleted before the pod can be placed.
    left_over: Option<Custom<ResourceClaim>>,
    resources: Vec<ExtendedResource>,
    /// Claims by the resources that they are for, as indexes into `resources`.
    claims: Mutex<BTreeMap<Vec<usize>, Arc<ExtendedClaim>>>,
}

#[derive(Debug)]
struct ExtendedResource {
    name: Str,
    /// The class that provides the resource; `None` if only nodes offer it.
    class: Option<Str>,
}

/// Claim for the resources of a pod that a node does not offer itself. Nodes that lack the same resources share it.
#[derive(Debug)]
pub(super) struct ExtendedClaim {
    pub(super) claim: Custom<ResourceClaim>,
    pub(super) mappings: Vec<RequestMapping>,
}

/// Request that gives a container its resource: an entry of `status.extendedResourceClaimStatus.requestMappings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestMapping {
    container: Str,
    resource: Str,
    request: Str,
}

impl RequestMapping {
    pub(super) fn to_json(&self) -> Value {
        let Self { container, resource, request } = self;
        json!({ "containerName": container, "resourceName": resource, "requestName": request })
    }
}

impl ExtendedResources {
    /// Returns the extended resources of a pod if a device class provides some of them.
    pub(super) fn of(plugin: &DynamicResources, cx: &Cycle<'_>) -> PluginResult<Option<Self>> {
        let requested = cx.pod.derived.request.scalars.iter();
        let mut requested =
            requested.filter(|(name, amount)| *amount != 0 && may_be_provided(name)).peekable();
        if !plugin.extended_resources || requested.peek().is_none() {
            return Ok(None);
        }
        let index = plugin.index(cx)?;
        let resource = |(name, _): &(Str, i64)| ExtendedResource {
            name: name.clone(),
            class: index.class_of_extended_resource(name).cloned(),
        };
        let resources: Vec<ExtendedResource> = requested.map(resource).collect();
        if resources.iter().all(|resource| resource.class.is_none()) {
            return Ok(None);
        }
        let (claims, ..) = plugin.watched(cx.objects);
        let left_over = index.extended_claim_of(&cx.pod.uid);
        let left_over = left_over.and_then(|(namespace, name)| claims.get(namespace, name)).cloned();
        Ok(Some(Self { left_over, resources, claims: Mutex::default() }))
    }

    /// Claim that an earlier attempt has left behind.
    pub(super) fn left_over(&self) -> Option<&Custom<ResourceClaim>> {
        self.left_over.as_ref()
    }

    /// Returns the claim for the pod on a node; `None` if the pod needs no devices there for its extended resources.
    pub(super) fn on(&self, pod: &PodInfo, node: NodeRef<'_>) -> Result<Option<Arc<ExtendedClaim>>, Reject> {
        if self.left_over.is_some() {
            return Err(Reject::unresolvable("cannot schedule extended resource claim"));
        }
        let mut by_devices = Vec::new();
        for (at, resource) in self.resources.iter().enumerate() {
            let mut offers = node.object().into_iter().flat_map(|node| &node.allocatable.scalars);
            let offered = offers.find(|(name, _)| *name == resource.name).map(|(_, amount)| *amount);
            if resource.class.is_some() && offered.unwrap_or_default() == 0 {
                by_devices.push(at);
            } else if offered.is_none() {
                return Err(Reject::unresolvable("cannot fit resource"));
            }
        }
        if by_devices.is_empty() {
            return Ok(None);
        }
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = claims.get(&by_devices) {
            return Ok(Some(known.clone()));
        }
        let resources = by_devices.iter().map(|at| &self.resources[*at]);
        let claim = Arc::new(ExtendedClaim::new(pod, resources));
        claims.insert(by_devices, claim.clone());
        Ok(Some(claim))
    }
}

impl ExtendedClaim {
    fn new<'a>(pod: &PodInfo, resources: impl Iterator<Item = &'a ExtendedResource>) -> Self {
        let (mut requests, mut mappings) = (Vec::new(), Vec::new());
        for resource in resources {
            let Some(class) = &resource.class else { continue };
            let planned = Plan::of(&pod.spec, &resource.name);
            requests.extend(planned.requests.iter().map(|request| request.for_class(class)));
            mappings.extend(planned.mappings);
        }
        requests.sort_by(|a, b| a.name.cmp(&b.name));
        let spec = ClaimSpec { devices: DeviceClaim { requests, ..DeviceClaim::default() } };
        let metadata = Metadata {
            namespace: pod.namespace.clone(),
            name: PLACEHOLDER.into(),
            uid: pod.uid.clone(),
            ..Metadata::default()
        };
        let object = ResourceClaim { spec: Arc::new(spec), ..ResourceClaim::default() };
        Self { claim: Custom { metadata, object }, mappings }
    }

    /// Returns the claim as PreBind creates it.
    pub(super) fn to_create(&self, pod: &PodInfo) -> Value {
        let owner =
            json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": true});
        json!({
            "metadata": {
                "namespace": pod.namespace,
                "generateName": format!("{}-extended-resources-", pod.name),
                "annotations": { CLAIM_ANNOTATION: "true" },
                "ownerReferences": [owner],
            },
            "spec": self.claim.spec.as_ref(),
        })
    }

    /// Assumes the claim with its devices until the API server reports it.
    pub(super) fn assume(
        &self,
        pod: &PodInfo,
        allocation: &Arc<crate::devices::Allocation>,
        assume: &mut Assume,
    ) {
        let mut claim = self.claim.clone();
        // The UID makes the name unique: claims for other pods of the namespace may also be assumed.
        claim.metadata.name = format!("{PLACEHOLDER}/{}", pod.uid).into();
        claim.object.status.allocation = Some(allocation.clone());
        claim.object.in_flight = Some(InFlight { group_cycle: None });
        let uid = pod.uid.clone();
        assume.creation(claim, move |created: &Custom<ResourceClaim>| {
            pod_of(created) == Some(&uid) && created.status.allocation.is_some()
        });
    }
}

/// Requests for one resource of a pod.
#[derive(Debug, Default)]
struct Plan {
    requests: Vec<PlannedRequest>,
    mappings: Vec<RequestMapping>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PlannedRequest {
    name: Str,
    count: i64,
}

impl PlannedRequest {
    fn for_class(&self, class: &Str) -> DeviceRequest {
        let demand = DeviceDemand {
            device_class_name: class.clone(),
            allocation_mode: EXACT_COUNT.into(),
            count: self.count,
            ..DeviceDemand::default()
        };
        DeviceRequest { name: self.name.clone(), exactly: Some(demand), ..DeviceRequest::default() }
    }
}

impl Plan {
    /// Plans the requests for a resource. Each main container and each sidecar has devices of its own. All other init
    /// containers run one after another: they use the devices of the containers that start later, and share the devices
    /// that they need in addition.
    fn of(spec: &PodSpec, resource: &Str) -> Self {
        let containers: Vec<&Container> = spec.init_containers.iter().chain(&spec.containers).collect();
        let is_short = |at: usize| at < spec.init_containers.len() && !containers[at].restart_always;
        let (mut plan, mut shared) = (Self::default(), Self::default());
        let mut own: Vec<Option<PlannedRequest>> = vec![None; containers.len()];
        for (at, container) in containers.iter().enumerate().filter(|(at, _)| !is_short(*at)) {
            own[at] = plan.add(at, container, resource, &[]);
        }
        for (at, container) in containers.iter().enumerate().filter(|(at, _)| is_short(*at)) {
            let more = shared.add(at, container, resource, &own[at..]);
            shared.requests.extend(more);
        }
        shared.keep_largest();
        plan.mappings.extend(shared.mappings);
        plan.requests = shared.requests;
        plan.requests.extend(own.into_iter().flatten());
        plan
    }

    /// Maps a container to the requests that give it its devices: first to `reusable` ones, then, if these do not
    /// suffice, to a new one, which is returned.
    fn add(
        &mut self,
        at: usize,
        container: &Container,
        resource: &Str,
        reusable: &[Option<PlannedRequest>],
    ) -> Option<PlannedRequest> {
        let place = container.requests.iter().position(|(name, _)| name == resource)?;
        let wanted = container.requests[place].1;
        if wanted == 0 {
            return None;
        }
        let mut map = |request: &Str| {
            self.mappings.push(RequestMapping {
                container: container.name.clone(),
                resource: resource.clone(),
                request: request.clone(),
            });
        };
        let mut reused = 0;
        for request in reusable.iter().flatten() {
            reused += request.count;
            map(&request.name);
            if reused >= wanted {
                return None;
            }
        }
        let request =
            PlannedRequest { name: format!("container-{at}-request-{place}").into(), count: wanted - reused };
        map(&request.name);
        Some(request)
    }

    /// Replaces all requests, also in the mappings, by the largest one.
    fn keep_largest(&mut self) {
        let Some(first) = self.requests.first().cloned() else { return };
        let larger = |a: PlannedRequest, b: &PlannedRequest| if b.count > a.count { b.clone() } else { a };
        let largest = self.requests.iter().fold(first, larger);
        let replaced: Vec<Str> = self.requests.drain(..).map(|request| request.name).collect();
        for mapping in self.mappings.iter_mut().filter(|mapping| replaced.contains(&mapping.request)) {
            mapping.request = largest.name.clone();
        }
        self.requests.push(largest);
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Str;

    use super::*;

    fn container(requests: &[(&str, i64)], restart_always: bool) -> Container {
        let requests = requests.iter().map(|(name, amount)| (Str::from(*name), *amount)).collect();
        Container { requests, restart_always, ..Container::default() }
    }

    /// The requests for `gpu` as `name=count`, and the mappings as `container:name`. Containers are named by position.
    fn plan(init: Vec<Container>, main: Vec<Container>) -> (String, String) {
        let mut spec = PodSpec { init_containers: init, containers: main, ..PodSpec::default() };
        let all = spec.init_containers.iter_mut().chain(&mut spec.containers).enumerate();
        all.for_each(|(at, container)| container.name = at.to_string().into());
        let Plan { requests, mappings } = Plan::of(&spec, &"gpu".into());
        let short = |name: &Str| name.replace("container-", "c").replace("-request-", "r");
        let requests = requests.iter().map(|request| format!("{}={}", short(&request.name), request.count));
        let mappings = mappings.iter().map(|one| format!("{}:{}", one.container, short(&one.request)));
        (requests.collect::<Vec<_>>().join(" "), mappings.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn containers_that_run_together_have_devices_of_their_own_and_init_containers_share_them() {
        let init = |amount| container(&[("cpu", 1), ("gpu", amount)], false);
        let sidecar = |amount| container(&[("gpu", amount)], true);
        let main = |amount| container(&[("cpu", 1), ("gpu", amount), ("memory", 1)], false);
        for (what, init, main, requests, mappings) in [
            ("one container", vec![], vec![main(2)], "c0r1=2", "0:c0r1"),
            ("two containers", vec![], vec![main(2), main(1)], "c0r1=2 c1r1=1", "0:c0r1 1:c1r1"),
            ("none wanted", vec![init(0)], vec![main(0), container(&[], false)], "", ""),
            (
                "the devices of the main container suffice",
                vec![init(2)],
                vec![main(2)],
                "c1r1=2",
                "1:c1r1 0:c1r1",
            ),
            (
                "the init container needs one more",
                vec![init(3)],
                vec![main(2)],
                "c0r1=1 c1r1=2",
                "1:c1r1 0:c1r1 0:c0r1",
            ),
            (
                "the largest shortfall counts",
                vec![init(3), init(5), init(4)],
                vec![main(2)],
                "c1r1=3 c3r1=2",
                "3:c3r1 0:c3r1 0:c1r1 1:c3r1 1:c1r1 2:c3r1 2:c1r1",
            ),
            (
                "a sidecar that starts later helps",
                vec![init(2), sidecar(1)],
                vec![main(1)],
                "c1r0=1 c2r1=1",
                "1:c1r0 2:c2r1 0:c1r0 0:c2r1",
            ),
            (
                "a sidecar that started before keeps its device",
                vec![sidecar(1), init(2)],
                vec![main(1)],
                "c1r1=1 c0r0=1 c2r1=1",
                "0:c0r0 2:c2r1 1:c2r1 1:c1r1",
            ),
        ] {
            assert_eq!(plan(init, main), (requests.to_owned(), mappings.to_owned()), "{what}");
        }
    }
}
