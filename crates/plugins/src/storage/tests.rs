//! Decoding of objects from kube-apiserver.

use harbormaster_api::{Labels, Quantity};
use harbormaster_testkit::custom;
use serde_json::json;

use super::{claim, csi, *};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

#[test]
fn the_annotation_of_a_claim_overrides_the_class_in_its_spec() {
    for (annotations, spec, expected) in [
        (json!(null), json!({"storageClassName": "spec"}), "spec"),
        (
            json!({"volume.beta.kubernetes.io/storage-class": "old"}),
            json!({"storageClassName": "spec"}),
            "old",
        ),
        (json!({"volume.beta.kubernetes.io/storage-class": ""}), json!({"storageClassName": "spec"}), ""),
        (json!({}), json!({"storageClassName": null}), ""),
        (json!({}), json!(null), ""),
    ] {
        let metadata = json!({"name": "c", "namespace": "ns", "annotations": annotations});
        let claim = custom::<PersistentVolumeClaim>(&json!({"metadata": metadata, "spec": spec}));
        assert_eq!(claim.class, expected, "{annotations} {spec}");
    }
}

#[test]
fn the_requirements_and_progress_of_a_claim_are_decoded() {
    let claim = custom::<PersistentVolumeClaim>(&json!({
        "metadata": {
            "name": "c", "namespace": "ns",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n"},
        },
        "spec": {
            "accessModes": ["ReadWriteOncePod", "Sometimes"], "volumeName": "v", "volumeMode": "Block",
            "volumeAttributesClassName": "fast", "selector": {"matchLabels": {"a": "b"}, "matchExpressions": null},
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Lost"},
    }));
    assert_eq!(claim.access_modes, [AccessMode::ReadWriteOncePod, AccessMode::Unknown]);
    assert_eq!((claim.volume_mode, claim.phase), (VolumeMode::Block, ClaimPhase::Lost));
    assert_eq!(claim.attributes_class, "fast");
    assert!(claim.selector.as_ref().unwrap().matches(&labels(&[("a", "b")])));
    assert_eq!(claim.requested, Some(Quantity::from_units(1 << 30)));
    assert!(claim::is_fully_bound(&claim));
    assert_eq!(claim::selected_node(&claim).unwrap(), "n");

    let bare = custom::<PersistentVolumeClaim>(&json!({"metadata": {"name": "c", "namespace": "ns"}}));
    assert_eq!(bare.object, PersistentVolumeClaim::default());
    assert!(!claim::is_fully_bound(&bare) && claim::selected_node(&bare).is_none());
}

#[test]
fn a_volume_is_decoded_with_the_nodes_that_have_access() {
    let volume = custom::<PersistentVolume>(&json!({
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "claimRef": {"namespace": "ns", "name": "c", "uid": "u"}, "local": {"path": "/d"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            ]}},
        },
        "status": {"phase": "Bound"},
    }));
    assert_eq!((volume.phase, &volume.source), (VolumePhase::Bound, &PersistentVolumeSource::Other));
    let claim = ClaimRef { namespace: "ns".into(), name: "c".into(), uid: "u".into() };
    assert_eq!(volume.claim_ref, Some(claim));
    let affinity = volume.node_affinity.as_ref().unwrap();
    assert!(affinity.matches(&labels(&[("zone", "a")]), "n"));
    assert!(!affinity.matches(&labels(&[("zone", "b")]), "n"));
    assert_eq!(volume.migrated, None);
}

#[test]
fn a_class_allows_nodes_that_match_a_term_and_an_empty_term_matches_no_node() {
    let class = |topologies| {
        let class = json!({"metadata": {"name": "c"}, "provisioner": "p", "volumeBindingMode": "Immediate",
            "allowedTopologies": topologies});
        custom::<StorageClass>(&class).object
    };
    let zone = |values: &[&str]| json!({"matchLabelExpressions": [{"key": "zone", "values": values}]});
    let node = labels(&[("zone", "a")]);
    assert!(class(json!(null)).allows(&node) && class(json!([])).allows(&node));
    assert!(class(json!([zone(&["b"]), zone(&["a", "c"])])).allows(&node));
    assert!(!class(json!([zone(&["b"])])).allows(&node));
    assert!(!class(json!([{}])).allows(&node));
    assert!(!class(json!([])).waits_for_consumer());
    let unset = custom::<StorageClass>(&json!({"metadata": {"name": "c"}, "provisioner": null}));
    assert_eq!((unset.volume_binding_mode, unset.provisioner.as_str()), (None, ""));
}

#[test]
fn objects_of_drivers_are_decoded_even_if_fields_are_absent() {
    let node = custom::<CsiNode>(&json!({
        "metadata": {"name": "n", "annotations": {
            "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/gce-pd",
        }},
        "spec": {"drivers": [
            {"name": "a", "nodeID": "x", "topologyKeys": ["zone"], "allocatable": {"count": 3}},
            {"name": "b", "nodeID": "x", "topologyKeys": null, "allocatable": {}},
            {"name": "c", "nodeID": "x", "allocatable": null},
        ]},
    }));
    let limits: Vec<_> = node.drivers.iter().map(|driver| driver.allocatable.count).collect();
    assert_eq!(limits, [Some(3), None, None]);
    assert!(
        csi::is_migrated(&node, "kubernetes.io/gce-pd") && !csi::is_migrated(&node, "kubernetes.io/cinder")
    );
    let bare = custom::<CsiNode>(&json!({"metadata": {"name": "n"}, "spec": {"drivers": null}}));
    assert!(bare.drivers.is_empty() && !csi::is_migrated(&bare, ""));

    let driver = custom::<CsiDriver>(&json!({"metadata": {"name": "d"}, "spec": {
        "storageCapacity": true, "preventPodSchedulingIfMissing": null}}));
    assert!(driver.storage_capacity && !driver.prevent_pod_scheduling_if_missing);

    let capacity = |object: serde_json::Value| custom::<CsiStorageCapacity>(&object);
    let metadata = json!({"name": "c", "namespace": "ns"});
    let most = capacity(json!({"metadata": metadata, "storageClassName": "s", "capacity": "2Gi",
        "maximumVolumeSize": "1Gi", "nodeTopology": {}}));
    assert_eq!(most.limit(), Some(Quantity::from_units(1 << 30)));
    assert!(csi::applies_to(&most, &Labels::default()), "an empty selector selects all nodes");
    let none = capacity(json!({"metadata": metadata, "storageClassName": "s", "capacity": "2Gi"}));
    assert_eq!(none.limit(), Some(Quantity::from_units(2 << 30)));
    assert!(!csi::applies_to(&none, &Labels::default()), "no selector selects no node");

    let attachment = custom::<VolumeAttachment>(&json!({"metadata": {"name": "a"}, "spec": {
        "attacher": "d", "nodeName": "n", "source": {"inlineVolumeSpec": {}}}}));
    assert_eq!((attachment.attacher.as_str(), &attachment.volume_name), ("d", &None));
}

mod migrated {
    //! In-tree disks that CSI drivers serve.

    use serde_json::Value;

    use super::*;
    use crate::storage::migration;

    fn volume(labels: &Value, source: &Value, affinity: &Value) -> PersistentVolume {
        let mut spec = source.clone();
        spec["nodeAffinity"] = json!({"required": affinity});
        custom::<PersistentVolume>(&json!({"metadata": {"name": "v", "labels": labels}, "spec": spec})).object
    }

    fn handle(labels: &Value, source: &Value) -> Result<String, String> {
        let migrated = volume(labels, source, &json!(null)).migrated.unwrap();
        migrated.translation.map(|translation| translation.handle.to_string())
    }

    #[test]
    fn disks_have_the_names_that_their_drivers_give_them() {
        let gce = json!({"gcePersistentDisk": {"pdName": "pd"}});
        let zone = |zone: &str| json!({"topology.kubernetes.io/zone": zone});
        for (labels, source, expected) in [
            (json!({}), gce.clone(), Ok("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd")),
            (zone("us-west1-a"), gce.clone(), Ok("projects/UNSPECIFIED/zones/us-west1-a/disks/pd")),
            (
                json!({"topology.kubernetes.io/zone": "b", "failure-domain.beta.kubernetes.io/zone": "a"}),
                gce.clone(),
                Ok("projects/UNSPECIFIED/zones/a/disks/pd"),
            ),
            (
                zone("us-west1-a__us-west1-b"),
                gce.clone(),
                Ok("projects/UNSPECIFIED/regions/us-west1/disks/pd"),
            ),
            (
                zone("a__b"),
                gce.clone(),
                Err("failed to get region from zones: zone in unexpected format, expected: \
                     {locale}-{region}-{zone}, got: a"),
            ),
            (
                zone("us-west1-a__us-east1-b"),
                gce,
                Err("failed to get region from zones: multiple or no regions gotten from zones, got: \
                     map[us-east1:{} us-west1:{}]"),
            ),
            (json!({}), json!({"awsElasticBlockStore": {"volumeID": "any/thing"}}), Ok("any/thing")),
            (json!({}), json!({"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}), Ok("vol-1")),
            (json!({}), json!({"awsElasticBlockStore": {"volumeID": "aws:///vol-1/"}}), Ok("vol-1")),
            (
                json!({}),
                json!({"awsElasticBlockStore": {"volumeID": "aws://vol-1"}}),
                Err(
                    "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://vol-1)",
                ),
            ),
            (json!({}), json!({"azureDisk": {"diskURI": "u", "kind": "managed"}}), Ok("u")),
            (
                json!({}),
                json!({"azureDisk": {"diskURI": "u"}}),
                Err("kind(Shared) is not supported in csi migration"),
            ),
            (json!({}), json!({"cinder": {"volumeID": "v"}}), Ok("v")),
            (json!({}), json!({"portworxVolume": {"volumeID": "v"}}), Ok("v")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(handle(&labels, &source), expected, "{labels} {source}");
        }
        for other in [json!({"azureFile": {}}), json!({"vsphereVolume": {}}), json!({"csi": {"driver": "d"}})]
        {
            assert_eq!(volume(&json!({}), &other, &json!(null)).migrated, None, "{other}");
        }
    }

    #[test]
    fn seven_plugins_have_drivers_and_two_of_the_migrations_are_off() {
        let on = |plugin: &str| migration::of_plugin(plugin).map(|migration| migration.is_on);
        for plugin in ["aws-ebs", "gce-pd", "cinder", "azure-disk", "portworx-volume"] {
            assert_eq!(on(&format!("kubernetes.io/{plugin}")), Some(true));
        }
        for plugin in ["azure-file", "vsphere-volume"] {
            assert_eq!(on(&format!("kubernetes.io/{plugin}")), Some(false));
        }
        assert_eq!(on("kubernetes.io/no-provisioner"), None);
    }

    /// Returns true if the volume is accessible to its driver on a node with these labels.
    fn reaches(labels: &Value, source: &Value, affinity: &Value, node: &[(&str, &str)]) -> bool {
        let migrated = volume(labels, source, affinity).migrated.unwrap();
        let affinity = migrated.translation.unwrap().node_affinity;
        affinity.is_none_or(|affinity| affinity.matches(&super::labels(node), "n"))
    }

    #[test]
    fn the_drivers_zone_label_replaces_the_label_of_kubernetes() {
        let ebs = json!({"awsElasticBlockStore": {"volumeID": "v"}});
        let terms = |key: &str| {
            let zone = json!({"key": key, "operator": "In", "values": ["a"]});
            let region = json!({"key": key.replace("zone", "region"), "operator": "In", "values": ["r"]});
            json!({"nodeSelectorTerms": [{"matchExpressions": [zone, region]}]})
        };
        let (zone, beta) = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone");
        let translated = [("topology.ebs.csi.aws.com/zone", "a"), ("topology.kubernetes.io/region", "r")];
        for key in [zone, beta] {
            assert!(reaches(&json!({}), &ebs, &terms(key), &translated), "{key}");
            let untranslated = [(key, "a"), ("topology.kubernetes.io/region", "r")];
            assert!(!reaches(&json!({}), &ebs, &terms(key), &untranslated), "{key}");
        }
        let of_label = |zones: &str, node| {
            let node = [("topology.ebs.csi.aws.com/zone", node)];
            reaches(&json!({zone: zones}), &ebs, &json!(null), &node)
        };
        assert!(of_label("a", "a") && !of_label("a", "b"));
        assert!(
            of_label("a__ b", "b") && of_label("__", "anywhere"),
            "zones are trimmed, and a label without zones restricts nothing"
        );
        let azure = json!({"azureDisk": {"diskURI": "u", "kind": "Managed"}});
        assert!(reaches(
            &json!({}),
            &azure,
            &terms(zone),
            &[(zone, "a"), ("topology.kubernetes.io/region", "r")]
        ));
    }
}
