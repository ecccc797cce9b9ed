//! In-tree disks that CSI drivers serve.
//!
//! The facts and formulas are those of `csi-translation-lib` 1.36, to the extent that scheduling depends on them: the
//! driver, its name for the volume, and the nodes with access to the volume. There is one difference: the URL form of
//! EBS volume IDs (`aws://zone/vol-1`) is not percent-decoded.

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{
    Labels, Str,
    node::{LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA},
    pod::InTreeDisk,
    selector::{NodeSelector, NodeSelectorTerm, Operator, ParsedNodeSelector, Requirement},
};

use super::volume::{Migrated, Translation};

/// An in-tree plugin and the CSI driver that replaces it.
#[derive(Debug, PartialEq, Eq)]
pub struct Migration {
    /// Name of the in-tree plugin, which is also the provisioner of its classes.
    pub plugin: &'static str,
    /// Name of the CSI driver.
    pub driver: &'static str,
    /// True if the driver serves these disks on nodes that have a CSINode object.
    pub is_on: bool,
    /// Node label with the driver's zone, if the translation uses one.
    zone_key: Option<&'static str>,
}

const GCE: Migration = Migration {
    plugin: "kubernetes.io/gce-pd",
    driver: "pd.csi.storage.gke.io",
    is_on: true,
    zone_key: Some("topology.gke.io/zone"),
};
const EBS: Migration = Migration {
    plugin: "kubernetes.io/aws-ebs",
    driver: "ebs.csi.aws.com",
    is_on: true,
    zone_key: Some("topology.ebs.csi.aws.com/zone"),
};
const CINDER: Migration = Migration {
    plugin: "kubernetes.io/cinder",
    driver: "cinder.csi.openstack.org",
    is_on: true,
    zone_key: Some("topology.cinder.csi.openstack.org/zone"),
};
const AZURE_DISK: Migration = Migration {
    plugin: "kubernetes.io/azure-disk",
    driver: "disk.csi.azure.com",
    is_on: true,
    zone_key: None,
};
const PORTWORX: Migration = Migration {
    plugin: "kubernetes.io/portworx-volume",
    driver: "pxd.portworx.com",
    is_on: true,
    zone_key: None,
};
const AZURE_FILE: Migration = Migration {
    plugin: "kubernetes.io/azure-file",
    driver: "file.csi.azure.com",
    is_on: false,
    zone_key: None,
};
const VSPHERE: Migration = Migration {
    plugin: "kubernetes.io/vsphere-volume",
    driver: "csi.vsphere.vmware.com",
    is_on: false,
    zone_key: None,
};

/// All migrations.
const ALL: [&Migration; 7] = [&GCE, &EBS, &CINDER, &AZURE_DISK, &PORTWORX, &AZURE_FILE, &VSPHERE];

/// Placeholder for an unknown zone or project.
const UNSPECIFIED: &str = "UNSPECIFIED";
/// Separator between several zones in one label.
const ZONES: &str = "__";
/// The only kind of Azure disk that the driver supports.
const AZURE_MANAGED: &str = "Managed";

/// Returns the migration of an in-tree plugin, or `None` for any other provisioner.
pub fn of_plugin(name: &str) -> Option<&'static Migration> {
    ALL.into_iter().find(|migration| migration.plugin == name)
}

/// Returns the migration of a disk, or `None` if no driver serves it.
pub fn of_disk(disk: &InTreeDisk) -> Option<&'static Migration> {
    match disk {
        InTreeDisk::GcePersistentDisk { .. } => Some(&GCE),
        InTreeDisk::AwsElasticBlockStore { .. } => Some(&EBS),
        InTreeDisk::AzureDisk { .. } => Some(&AZURE_DISK),
        InTreeDisk::AzureFile => Some(&AZURE_FILE),
        InTreeDisk::Cinder { .. } => Some(&CINDER),
        InTreeDisk::PortworxVolume { .. } => Some(&PORTWORX),
        InTreeDisk::VsphereVolume => Some(&VSPHERE),
        InTreeDisk::Iscsi { .. } | InTreeDisk::Rbd { .. } => None,
    }
}

/// Returns the driver's handle of a disk in a pod's spec if the disk's migration is on, or `None` otherwise.
///
/// # Errors
/// If the disk cannot be translated.
pub fn inline_handle(disk: &InTreeDisk) -> Option<Result<Str, String>> {
    // A disk in a pod's spec has no labels, so its zone is unknown.
    of_disk(disk).filter(|migration| migration.is_on)?;
    handle(disk, &Labels::default())
}

/// Returns the CSI view of a volume with this disk if the disk's migration is on.
pub(super) fn migrated(
    disk: &InTreeDisk,
    labels: &Labels,
    node_affinity: Option<&NodeSelector>,
) -> Option<Migrated> {
    let migration = of_disk(disk).filter(|migration| migration.is_on)?;
    let translation = handle(disk, labels)?.map(|handle| {
        let node_affinity = match migration.zone_key {
            Some(key) => in_zones(node_affinity, labels, key),
            None => node_affinity.cloned(),
        };
        let node_affinity = node_affinity.as_ref().map(ParsedNodeSelector::new).map(Arc::new);
        Translation { handle, node_affinity }
    });
    Some(Migrated { migration, translation })
}

/// Returns the driver's handle of a disk, or `None` if its migration is off or no driver serves it.
fn handle(disk: &InTreeDisk, labels: &Labels) -> Option<Result<Str, String>> {
    Some(match disk {
        InTreeDisk::GcePersistentDisk { name, .. } => gce_handle(name, labels),
        InTreeDisk::AwsElasticBlockStore { volume_id } => ebs_handle(volume_id),
        InTreeDisk::AzureDisk { kind, .. } if !kind.eq_ignore_ascii_case(AZURE_MANAGED) => {
            Err(format!("kind({kind}) is not supported in csi migration"))
        }
        InTreeDisk::AzureDisk { uri, .. } => Ok(uri.clone()),
        InTreeDisk::Cinder { volume_id } | InTreeDisk::PortworxVolume { volume_id } => Ok(volume_id.clone()),
        InTreeDisk::AzureFile
        | InTreeDisk::VsphereVolume
        | InTreeDisk::Iscsi { .. }
        | InTreeDisk::Rbd { .. } => {
            return None;
        }
    })
}

/// Builds a handle from the disk's zone, or from the region if the disk has several zones.
fn gce_handle(name: &str, labels: &Labels) -> Result<Str, String> {
    let label = |key: &str| labels.get(key).filter(|value| !value.is_empty());
    let zones = label(LABEL_ZONE_BETA).or_else(|| label(LABEL_ZONE)).map_or("", Str::as_str);
    let place = match zones.split(ZONES).collect::<Vec<_>>().as_slice() {
        [""] => format!("zones/{UNSPECIFIED}"),
        [zone] => format!("zones/{zone}"),
        zones => {
            let region =
                gce_region(zones).map_err(|why| format!("failed to get region from zones: {why}"))?;
            format!("regions/{region}")
        }
    };
    Ok(format!("projects/{UNSPECIFIED}/{place}/disks/{name}").into())
}

/// Returns the region of the zones, such as `us-west1` for `us-west1-a` and `us-west1-b`.
fn gce_region(zones: &[&str]) -> Result<String, String> {
    let mut regions = BTreeSet::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts.as_slice() else {
            let expected = "zone in unexpected format, expected: {locale}-{region}-{zone}";
            return Err(format!("{expected}, got: {zone}"));
        };
        regions.insert(format!("{locale}-{region}"));
    }
    if regions.len() > 1 {
        let listed: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
        return Err(format!("multiple or no regions gotten from zones, got: map[{}]", listed.join(" ")));
    }
    Ok(regions.pop_first().unwrap_or_default())
}

/// Returns the volume ID. `vol-1`, `aws://zone/vol-1` and `aws:///vol-1` denote the same volume.
fn ebs_handle(id: &Str) -> Result<Str, String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.clone()) };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let volume = rest.split_once('/').map_or("", |(_zone, path)| path.trim_matches('/'));
    if volume.starts_with("vol-") && !volume.contains('/') {
        return Ok(volume.into());
    }
    Err(format!("failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})"))
}

/// In a node affinity, replaces Kubernetes' zone label with the driver's zone label. If the affinity has no zones,
/// adds the zones in the volume's zone label. For volumes with the beta zone label, also replaces the beta region label
/// with the stable one.
fn in_zones(
    affinity: Option<&NodeSelector>,
    labels: &Labels,
    zone_key: &'static str,
) -> Option<NodeSelector> {
    let names = |key: &str| {
        let all = affinity.into_iter().flat_map(|affinity| &affinity.terms);
        all.flat_map(|term| &term.match_expressions).filter(|r| r.key == *key).collect::<Vec<_>>()
    };
    let is_beta = [LABEL_ZONE, LABEL_ZONE_BETA]
        .into_iter()
        .find(|key| !names(key).is_empty())
        .or_else(|| [LABEL_ZONE, LABEL_ZONE_BETA].into_iter().find(|key| labels.get(key).is_some()))
        == Some(LABEL_ZONE_BETA);
    let zone = if is_beta { LABEL_ZONE_BETA } else { LABEL_ZONE };
    let mut affinity = affinity.cloned();
    if has_values_for(&affinity, zone) {
        rename(&mut affinity, zone, zone_key);
    } else if let Some(zones) = labels.get(zone) {
        add_zones(&mut affinity, zone_key, zones);
    }
    if is_beta && has_values_for(&affinity, LABEL_REGION_BETA) {
        rename(&mut affinity, LABEL_REGION_BETA, LABEL_REGION);
    }
    affinity
}

/// Returns true if the affinity has values for the key.
fn has_values_for(affinity: &Option<NodeSelector>, key: &str) -> bool {
    let terms = affinity.iter().flat_map(|affinity| &affinity.terms);
    terms.flat_map(|term| &term.match_expressions).any(|r| r.key == *key && !r.values.is_empty())
}

fn rename(affinity: &mut Option<NodeSelector>, from: &str, to: &'static str) {
    let terms = affinity.iter_mut().flat_map(|affinity| &mut affinity.terms);
    for requirement in terms.flat_map(|term| &mut term.match_expressions).filter(|r| r.key == *from) {
        requirement.key = to.into();
    }
}

fn add_zones(affinity: &mut Option<NodeSelector>, key: &'static str, label: &str) {
    let zones: BTreeSet<&str> = label.split(ZONES).map(str::trim).filter(|zone| !zone.is_empty()).collect();
    if zones.is_empty() {
        return;
    }
    let values = zones.into_iter().map(Str::from).collect();
    let requirement = Requirement { key: key.into(), operator: Operator::In, values };
    let terms = &mut affinity.get_or_insert_default().terms;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    terms.iter_mut().for_each(|term| term.match_expressions.push(requirement.clone()));
}
