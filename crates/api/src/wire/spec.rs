//! `spec` of pods.

use serde::Deserialize;

use super::{
    disk::WireDisk,
    json::{Amount, Ignored, List, Map, Text},
    selector::{WireAffinity, WireLabelSelector},
};
use crate::{
    PodSpec, Str,
    pod::{
        Container, HostPort, InTreeDisk, PodClaim, ResourceList, TopologySpreadConstraint, Volume,
        VolumeSource,
    },
    strings::Interner,
    taint::{TaintEffect, Toleration, TolerationOperator},
};

const DEFAULT_SCHEDULER: &str = "default-scheduler";
const ANY_IP: &str = "0.0.0.0";
const TCP: &str = "TCP";

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Spec<'a> {
    pub(super) node_name: Text<'a>,
    pub(super) scheduling_gates: List<Named<'a>>,
    scheduler_name: Text<'a>,
    priority: Option<i32>,
    priority_class_name: Text<'a>,
    preemption_policy: Text<'a>,
    node_selector: Option<Map<'a, Text<'a>>>,
    affinity: Option<WireAffinity<'a>>,
    tolerations: List<WireToleration<'a>>,
    topology_spread_constraints: List<WireSpread<'a>>,
    containers: List<WireContainer<'a>>,
    init_containers: List<WireContainer<'a>>,
    ephemeral_containers: List<Mounting>,
    overhead: Map<'a, Amount>,
    pub(super) resources: Option<WireResources<'a>>,
    volumes: List<WireVolume<'a>>,
    resource_claims: List<WireClaim<'a>>,
    scheduling_group: Option<SchedulingGroup<'a>>,
    host_network: Option<bool>,
    host_users: Option<bool>,
    security_context: Option<SecurityContext<'a>>,
}

/// An entry from which only the name is read.
#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Named<'a> {
    pub(super) name: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireClaim<'a> {
    name: Text<'a>,
    resource_claim_name: Option<Text<'a>>,
    resource_claim_template_name: Option<Text<'a>>,
}

impl WireClaim<'_> {
    fn intern(&self, interner: &mut Interner) -> PodClaim {
        PodClaim {
            name: self.name.intern(interner),
            claim: self.resource_claim_name.as_ref().map(|name| name.intern(interner)),
            template: self.resource_claim_template_name.as_ref().map(|name| name.intern(interner)),
        }
    }
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct SchedulingGroup<'a> {
    pod_group_name: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct WireResources<'a> {
    pub(super) requests: Map<'a, Amount>,
    pub(super) limits: Map<'a, Amount>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireContainer<'a> {
    name: Text<'a>,
    image: Text<'a>,
    resources: Option<WireResources<'a>>,
    ports: List<WirePort<'a>>,
    restart_policy: Text<'a>,
    restart_policy_rules: List<RestartRule<'a>>,
    volume_mounts: List<Mount>,
    security_context: Option<SecurityContext<'a>>,
}

/// `securityContext` of a pod or container.
#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct SecurityContext<'a> {
    seccomp_profile: Option<SeccompProfile<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct SeccompProfile<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    localhost_profile: Text<'a>,
}

/// A container from which only the mounts are read.
#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase")]
struct Mounting {
    volume_mounts: List<Mount>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase")]
struct Mount {
    bind_mount_options: List<Ignored>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RestartRule<'a> {
    action: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WirePort<'a> {
    host_port: Option<i32>,
    container_port: Option<i32>,
    #[serde(rename = "hostIP")]
    host_ip: Text<'a>,
    protocol: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct WireToleration<'a> {
    key: Text<'a>,
    operator: Text<'a>,
    value: Text<'a>,
    effect: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireSpread<'a> {
    max_skew: Option<i32>,
    topology_key: Text<'a>,
    when_unsatisfiable: Text<'a>,
    label_selector: Option<WireLabelSelector<'a>>,
    min_domains: Option<i32>,
    node_affinity_policy: Text<'a>,
    node_taints_policy: Text<'a>,
    match_label_keys: List<Text<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireVolume<'a> {
    name: Text<'a>,
    persistent_volume_claim: Option<Claim<'a>>,
    ephemeral: Option<Ignored>,
    image: Option<ImageVolume<'a>>,
    csi: Option<Csi<'a>>,
    gce_persistent_disk: Option<WireDisk<'a>>,
    aws_elastic_block_store: Option<WireDisk<'a>>,
    azure_disk: Option<WireDisk<'a>>,
    azure_file: Option<Ignored>,
    cinder: Option<WireDisk<'a>>,
    iscsi: Option<WireDisk<'a>>,
    portworx_volume: Option<WireDisk<'a>>,
    rbd: Option<WireDisk<'a>>,
    vsphere_volume: Option<Ignored>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Claim<'a> {
    claim_name: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ImageVolume<'a> {
    reference: Text<'a>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Csi<'a> {
    driver: Text<'a>,
}

impl Spec<'_> {
    /// Converts the spec. If `fill_host_ports` is true and the pod uses the host's network, all its ports become host
    /// ports.
    pub(super) fn intern(&self, interner: &mut Interner, fill_host_ports: bool) -> PodSpec {
        let host_network = self.host_network.unwrap_or_default();
        let fill = fill_host_ports && host_network;
        let affinity = self.affinity.as_ref();
        let node_affinity = affinity.and_then(|a| a.node_affinity.as_ref());
        let pod_affinity = affinity.and_then(|a| a.pod_affinity.as_ref());
        let pod_anti_affinity = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        let scheduler = if self.scheduler_name.is_empty() { DEFAULT_SCHEDULER } else { &self.scheduler_name };
        let group = self.scheduling_group.as_ref();
        PodSpec {
            scheduler_name: interner.intern(scheduler),
            priority: self.priority.unwrap_or_default(),
            priority_class: self.priority_class_name.intern_some(interner),
            never_preempts: *self.preemption_policy == *"Never",
            node_selector: self.node_selector.as_ref().map(|labels| labels.labels(interner)),
            node_affinity: node_affinity.map(|a| a.intern(interner)),
            pod_affinity: pod_affinity.map(|a| a.intern(interner)),
            pod_anti_affinity: pod_anti_affinity.map(|a| a.intern(interner)),
            tolerations: self.tolerations.0.iter().filter_map(|t| t.known(interner)).collect(),
            topology_spread: self.topology_spread_constraints.0.iter().map(|c| c.intern(interner)).collect(),
            containers: self.containers.0.iter().map(|c| c.intern(interner, fill)).collect(),
            init_containers: self.init_containers.0.iter().map(|c| c.intern(interner, fill)).collect(),
            overhead: self.overhead.resources(interner),
            pod_level_requests: requests(self.resources.as_ref(), interner),
            pod_level_limits: limits(self.resources.as_ref(), interner),
            volumes: self.volumes.0.iter().filter_map(|v| v.restricting(interner)).collect(),
            resource_claims: self.resource_claims.0.iter().map(|claim| claim.intern(interner)).collect(),
            pod_group: group.and_then(|g| g.pod_group_name.intern_some(interner)),
            host_network,
            host_users: self.host_users,
            seccomp_profiles: self.seccomp_profiles(interner),
            restarts_all_containers: self.restarts_all_containers(),
            has_mount_options: self.has_mount_options(),
        }
    }

    fn restarts_all_containers(&self) -> bool {
        let containers = self.containers.0.iter().chain(&self.init_containers.0);
        containers.flat_map(|c| &c.restart_policy_rules.0).any(|rule| *rule.action == *"RestartAllContainers")
    }

    /// Profiles on the node that the pod and its containers name.
    fn seccomp_profiles(&self, interner: &mut Interner) -> Vec<Str> {
        let of_containers = self.containers.0.iter().map(|container| &container.security_context);
        let all = [&self.security_context].into_iter().chain(of_containers).flatten();
        let profiles = all.filter_map(|context| context.seccomp_profile.as_ref());
        let local = profiles.filter(|profile| *profile.kind == *"Localhost");
        local.filter_map(|profile| profile.localhost_profile.intern_some(interner)).collect()
    }

    fn has_mount_options(&self) -> bool {
        let containers = self.containers.0.iter().chain(&self.init_containers.0);
        let mounts = containers.flat_map(|c| &c.volume_mounts.0);
        let of_others = self.ephemeral_containers.0.iter().flat_map(|c| &c.volume_mounts.0);
        mounts.chain(of_others).any(|mount| !mount.bind_mount_options.0.is_empty())
    }
}

fn requests(resources: Option<&WireResources<'_>>, interner: &mut Interner) -> ResourceList {
    resources.map(|r| r.requests.resources(interner)).unwrap_or_default()
}

fn limits(resources: Option<&WireResources<'_>>, interner: &mut Interner) -> ResourceList {
    resources.map(|r| r.limits.resources(interner)).unwrap_or_default()
}

impl WireContainer<'_> {
    fn intern(&self, interner: &mut Interner, fill_host_ports: bool) -> Container {
        let resources = self.resources.as_ref();
        Container {
            name: self.name.intern(interner),
            image: self.image.intern(interner),
            requests: requests(resources, interner),
            host_ports: self.ports.0.iter().filter_map(|p| p.on_host(interner, fill_host_ports)).collect(),
            restart_always: *self.restart_policy == *"Always",
            limits: limits(resources, interner),
        }
    }
}

impl WirePort<'_> {
    fn on_host(&self, interner: &mut Interner, fill: bool) -> Option<HostPort> {
        let mut port = self.host_port.unwrap_or_default();
        if fill && port == 0 {
            port = self.container_port.unwrap_or_default();
        }
        let or = |text: &Text<'_>, default: &str, interner: &mut Interner| {
            interner.intern(if text.is_empty() { default } else { text })
        };
        (port > 0).then(|| HostPort {
            ip: or(&self.host_ip, ANY_IP, interner),
            protocol: or(&self.protocol, TCP, interner),
            port,
        })
    }
}

impl WireToleration<'_> {
    /// Returns `None` for an effect that no taint can have, because such a toleration tolerates nothing.
    fn known(&self, interner: &mut Interner) -> Option<Toleration> {
        let effect = match &*self.effect {
            "" => None,
            name => Some(TaintEffect::parse(name)?),
        };
        Some(Toleration {
            key: self.key.intern(interner),
            operator: TolerationOperator::parse(&self.operator),
            value: self.value.intern(interner),
            effect,
        })
    }
}

impl WireSpread<'_> {
    fn intern(&self, interner: &mut Interner) -> TopologySpreadConstraint {
        TopologySpreadConstraint {
            max_skew: self.max_skew.unwrap_or_default(),
            topology_key: self.topology_key.intern(interner),
            hard: *self.when_unsatisfiable == *"DoNotSchedule",
            label_selector: self.label_selector.as_ref().map(|s| s.intern(interner)),
            min_domains: self.min_domains,
            ignore_node_affinity: *self.node_affinity_policy == *"Ignore",
            honor_node_taints: *self.node_taints_policy == *"Honor",
            match_label_keys: self.match_label_keys.intern(interner),
        }
    }
}

impl WireVolume<'_> {
    /// Returns `None` for sources that do not affect the choice of a node.
    fn restricting(&self, interner: &mut Interner) -> Option<Volume> {
        let source = if let Some(claim) = &self.persistent_volume_claim {
            VolumeSource::Claim(claim.claim_name.intern(interner))
        } else if self.ephemeral.is_some() {
            VolumeSource::Ephemeral
        } else if let Some(image) = &self.image {
            VolumeSource::Image(image.reference.intern(interner))
        } else if let Some(csi) = &self.csi {
            VolumeSource::InlineCsi(csi.driver.intern(interner))
        } else {
            VolumeSource::InTree(self.disk(interner)?)
        };
        Some(Volume { name: self.name.intern(interner), source })
    }

    fn disk(&self, interner: &mut Interner) -> Option<InTreeDisk> {
        type Read = fn(&WireDisk<'_>, &mut Interner) -> InTreeDisk;
        let disks: [(_, Read); 7] = [
            (&self.gce_persistent_disk, |disk, interner| disk.gce(interner)),
            (&self.aws_elastic_block_store, |disk, interner| disk.ebs(interner)),
            (&self.azure_disk, |disk, interner| disk.azure(interner)),
            (&self.cinder, |disk, interner| disk.cinder(interner)),
            (&self.iscsi, |disk, interner| disk.iscsi(interner)),
            (&self.portworx_volume, |disk, interner| disk.portworx(interner)),
            (&self.rbd, |disk, interner| disk.rbd(interner)),
        ];
        let with_fields = disks.into_iter().find_map(|(disk, read)| Some(read(disk.as_ref()?, interner)));
        with_fields
            .or_else(|| self.azure_file.as_ref().map(|_| InTreeDisk::AzureFile))
            .or_else(|| self.vsphere_volume.as_ref().map(|_| InTreeDisk::VsphereVolume))
    }
}
