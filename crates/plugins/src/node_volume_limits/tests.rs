mod hints;
mod index;

use harbormaster_api::{
    Release,
    features::Features,
    pod::{InTreeDisk, OwnerReference},
};
use harbormaster_framework::guard::Stopped;
use harbormaster_testkit::{PodBuilder, Trial, batch_equals_single, cluster, node, pod, set_custom};
use serde_json::{Value, json};

use super::*;

const FULL: &str = "node(s) exceed max volume count";
const DRIVER: &str = "csi.example.com";
const EBS: &str = "ebs.csi.aws.com";

fn trial() -> Trial {
    trial_with(false)
}

fn trial_with(needs_drivers: bool) -> Trial {
    let features = Features::default().with(Feature::VolumeLimitScaling, needs_drivers);
    Trial::of(NodeVolumeLimits::build(NoArgs, &BuildCycle { features }).unwrap())
}

fn claims(name: &str, claims: &[&str]) -> PodBuilder {
    claims.iter().fold(pod(name), |pod, claim| pod.volume(VolumeSource::Claim((*claim).into())))
}

fn disk(name: &str, disk: InTreeDisk) -> PodBuilder {
    pod(name).volume(VolumeSource::InTree(disk))
}

fn ebs(id: &str) -> InTreeDisk {
    InTreeDisk::AwsElasticBlockStore { volume_id: id.into() }
}

fn claim(name: &str, volume: &str, class: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeName": volume, "storageClassName": class},
    })
}

/// The claim of the first volume of `pod`, controlled by the pod with the UID `owner`.
fn ephemeral_claim(pod: &str, owner: &str) -> Value {
    let mut claim = claim(&format!("{pod}-v0"), "a", "");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": owner, "controller": true});
    claim["metadata"]["ownerReferences"] = json!([owner]);
    claim
}

fn volume(name: &str, source: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": source})
}

fn csi(driver: &str, handle: &str) -> Value {
    json!({"csi": {"driver": driver, "volumeHandle": handle}})
}

fn class(name: &str, provisioner: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
}

fn limits(node: &str, drivers: &[(&str, Option<i32>)]) -> Value {
    let driver = |(name, count): &(&str, Option<i32>)| json!({"name": name, "nodeID": "x", "allocatable": {"count": count}});
    let drivers: Vec<Value> = drivers.iter().map(driver).collect();
    json!({"metadata": {"name": node}, "spec": {"drivers": drivers}})
}

fn attachment(name: &str, driver: &str, node: &str, volume: &str) -> Value {
    let source = json!({"persistentVolumeName": volume});
    json!({"metadata": {"name": name}, "spec": {"attacher": driver, "nodeName": node, "source": source}})
}

fn default_claims() -> Vec<Value> {
    vec![
        claim("a", "a", ""),
        claim("b", "b", ""),
        claim("c", "c", ""),
        claim("new", "", "dynamic"),
        claim("lost", "gone", "dynamic"),
        claim("classless", "", ""),
        claim("no-such-class", "", "gone"),
        claim("in-tree", "in-tree", ""),
        claim("new-in-tree", "", "ebs"),
        claim("file", "file", ""),
        claim("new-file", "", "file"),
        claim("elsewhere", "nfs", ""),
    ]
}

/// A cluster with node "n", these pods and this CSINode. Claims a, b and c each have a volume.
fn world(pods: impl IntoIterator<Item = PodBuilder>, limit: Option<Value>) -> Cluster {
    let mut nodes = cluster([node("n")], pods);
    set_custom::<PersistentVolumeClaim>(&mut nodes, default_claims());
    set_custom::<PersistentVolume>(
        &mut nodes,
        [
            volume("a", &csi(DRIVER, "a")),
            volume("b", &csi(DRIVER, "b")),
            volume("c", &csi(DRIVER, "c")),
            volume("in-tree", &json!({"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}})),
            volume("file", &json!({"azureFile": {"shareName": "s"}})),
            volume("nfs", &json!({"nfs": {"server": "s"}})),
        ],
    );
    set_custom::<StorageClass>(
        &mut nodes,
        [
            class("dynamic", DRIVER),
            class("ebs", "kubernetes.io/aws-ebs"),
            class("file", "kubernetes.io/azure-file"),
        ],
    );
    set_custom::<CsiNode>(&mut nodes, limit);
    set_custom::<CsiDriver>(&mut nodes, []);
    set_custom::<VolumeAttachment>(&mut nodes, []);
    nodes
}

fn at_most(count: i32) -> Option<Value> {
    Some(limits("n", &[(DRIVER, Some(count)), (EBS, Some(count))]))
}

fn fits(nodes: &Cluster, pod: PodBuilder) -> bool {
    match trial().verdict(nodes, &pod.info(), "n") {
        Ok(()) => true,
        Err(reject) => {
            assert_eq!(reject, Reject::evictable(FULL));
            false
        }
    }
}

#[test]
fn volumes_on_the_node_and_new_ones_are_counted_together() {
    let there = || [claims("there", &["a"]).on("n")];
    assert!(fits(&world(there(), at_most(2)), claims("p", &["b"])));
    assert!(!fits(&world(there(), at_most(2)), claims("p", &["b", "c"])));
    assert!(!fits(&world(there(), at_most(1)), claims("p", &["b"])));
    assert!(!fits(&world([], at_most(0)), claims("p", &["a"])));
}

#[test]
fn a_volume_that_pods_share_counts_once() {
    let there = [claims("one", &["a"]).on("n"), claims("two", &["a"]).on("n")];
    let nodes = world(there, at_most(2));
    assert!(fits(&nodes, claims("p", &["b"])));
    assert!(fits(&nodes, claims("p", &["a", "a", "b"])));
    assert!(!fits(&nodes, claims("p", &["b", "c"])));
    assert!(
        fits(&world([claims("one", &["a"]).on("n")], at_most(1)), claims("p", &["a"])),
        "the volume is already on the node"
    );
}

#[test]
fn an_attached_volume_that_no_pod_uses_counts_and_counts_again_if_the_pod_needs_it() {
    let mut nodes = world([], at_most(1));
    set_custom::<VolumeAttachment>(&mut nodes, [attachment("x", DRIVER, "n", "a")]);
    assert!(!fits(&nodes, claims("p", &["b"])));
    assert!(!fits(&nodes, claims("p", &["a"])), "the same volume counts twice");
    let mut nodes = world([claims("there", &["a"]).on("n")], at_most(1));
    set_custom::<VolumeAttachment>(&mut nodes, [attachment("x", DRIVER, "n", "a")]);
    assert!(fits(&nodes, claims("p", &["a"])), "an attached volume that a pod on the node uses counts once");
}

#[test]
fn attachments_do_not_count_if_they_are_to_another_node_or_lack_a_driver_or_a_csi_volume() {
    let mut nodes = world([], at_most(1));
    let inline =
        json!({"metadata": {"name": "i"}, "spec": {"attacher": DRIVER, "nodeName": "n", "source": {}}});
    set_custom::<VolumeAttachment>(
        &mut nodes,
        [
            attachment("x", DRIVER, "other", "a"),
            attachment("y", "", "n", "a"),
            attachment("z", DRIVER, "n", "gone"),
            attachment("w", EBS, "n", "in-tree"),
            inline,
        ],
    );
    assert!(fits(&nodes, claims("p", &["b"])));
    assert!(fits(&nodes, claims("p", &["in-tree"])));
}

#[test]
fn a_claim_without_a_volume_counts_for_the_driver_of_its_class() {
    for (name, counts) in [("new", true), ("lost", true), ("classless", false), ("no-such-class", false)] {
        assert_eq!(fits(&world([], at_most(0)), claims("p", &[name])), !counts, "{name}");
    }
    let nodes = world([claims("there", &["new"]).on("n")], at_most(1));
    assert!(fits(&nodes, claims("p", &["new"])), "pods with one claim share its volume");
    assert!(!fits(&nodes, claims("p", &["lost"])));
}

#[test]
fn in_tree_disks_count_for_their_driver_except_azure_files_and_vsphere_disks() {
    for (pod, counts) in [
        (claims("p", &["in-tree"]), true),
        (claims("p", &["new-in-tree"]), true),
        (disk("p", ebs("vol-2")), true),
        (claims("p", &["file"]), false),
        (claims("p", &["new-file"]), false),
        (claims("p", &["elsewhere"]), false),
        (disk("p", InTreeDisk::AzureFile), false),
        (disk("p", InTreeDisk::VsphereVolume), false),
        (disk("p", InTreeDisk::Iscsi { iqn: "i".into(), read_only: false }), false),
        (pod("p").volume(VolumeSource::InlineCsi(EBS.into())), false),
    ] {
        let zero: Vec<_> =
            [DRIVER, EBS, "file.csi.azure.com", "csi.vsphere.vmware.com", "kubernetes.io/azure-file"]
                .map(|driver| (driver, Some(0)))
                .into();
        let text = format!("{pod:?}");
        assert_eq!(fits(&world([], Some(limits("n", &zero))), pod), !counts, "{text}");
    }
    let nodes = world([disk("there", ebs("vol-1")).on("n")], at_most(1));
    assert!(fits(&nodes, claims("p", &["in-tree"])), "the same disk through a claim");
}

#[test]
fn nodes_without_limits_for_a_driver_take_any_number_of_its_volumes() {
    let pod = || claims("p", &["a", "b", "c"]);
    assert!(fits(&world([], None), pod()), "no CSINode");
    assert!(fits(&world([], Some(limits("n", &[]))), pod()), "no drivers");
    assert!(fits(&world([], Some(limits("n", &[(DRIVER, None)]))), pod()), "no limit");
    assert!(fits(&world([], Some(limits("n", &[(EBS, Some(0))]))), pod()), "the limit of another driver");
    let twice = limits("n", &[(DRIVER, Some(0)), (DRIVER, Some(9))]);
    assert!(fits(&world([], Some(twice)), pod()), "of two limits, the last one counts");
}

#[test]
fn evicting_pods_makes_room_and_missing_claims_of_pods_on_the_node_do_not_count() {
    let there = [claims("there", &["a"]).on("n"), claims("ghost", &["gone"]).on("n")];
    let mut nodes = world(there, at_most(1));
    let pod = claims("p", &["b"]).info();
    assert_eq!(trial().verdict(&nodes, &pod, "n"), Err(Reject::evictable(FULL)));
    assert_eq!(trial().verdict_without(&mut nodes, &pod, "n", &[("n", "there")]), Ok(()));
    assert!(trial().verdict_without(&mut nodes, &pod, "n", &[("n", "ghost")]).is_err());
    set_custom::<VolumeAttachment>(&mut nodes, [attachment("x", DRIVER, "n", "a")]);
    let verdict = trial().verdict_without(&mut nodes, &pod, "n", &[("n", "there")]);
    assert_eq!(verdict, Err(Reject::evictable(FULL)), "the volume is still attached");
}

#[test]
fn a_missing_claim_rejects_every_node_with_or_without_limits_and_no_eviction_helps() {
    for limit in [None, at_most(9)] {
        let nodes = world([], limit);
        let why = "looking up PVC default/gone: persistentvolumeclaim \"gone\" not found";
        let verdict = trial().verdict(&nodes, &claims("p", &["a", "gone"]).info(), "n");
        assert_eq!(verdict, Err(Reject::unresolvable(why)));
    }
}

fn failure(nodes: &Cluster, pod: PodBuilder) -> Option<String> {
    let pod = pod.info();
    let indexes = trial().indexes(nodes, &pod);
    let cx = Cycle::with_indexes(nodes, &indexes, &pod);
    let (plugin, row) = (trial(), nodes.find("n").unwrap());
    let mut slot = None;
    plugin.plugin().pre_filter(&cx, &mut slot).unwrap();
    match plugin.plugin().filter(&cx, &slot, row) {
        Err(Stopped::Error(error)) => Some(error.source.to_string()),
        _ => None,
    }
}

#[test]
fn a_claim_without_a_name_or_with_another_owner_fails_the_pod() {
    let ephemeral = |name: &str| pod(name).volume(VolumeSource::Ephemeral);
    for (pod_claims, expected) in [
        (ephemeral_claim("p", "uid-p"), None),
        (
            ephemeral_claim("p", "somebody"),
            Some("PVC default/p-v0 was not created for pod default/p (pod is not owner)"),
        ),
        (
            claim("p-v0", "a", ""),
            Some("PVC default/p-v0 was not created for pod default/p (pod is not owner)"),
        ),
    ] {
        let mut nodes = world([], at_most(9));
        set_custom::<PersistentVolumeClaim>(&mut nodes, [pod_claims]);
        assert_eq!(failure(&nodes, ephemeral("p")).as_deref(), expected);
    }
    let nodes = world([], None);
    assert_eq!(failure(&nodes, claims("p", &[""])).unwrap(), "PersistentVolumeClaim had no name");
}

#[test]
fn a_claim_with_another_owner_on_a_node_with_limits_fails_other_pods() {
    let stray = || pod("there").volume(VolumeSource::Ephemeral).on("n");
    let why = "PVC default/there-v0 was not created for pod default/there (pod is not owner)";
    for (limit, expected) in [(None, None), (at_most(9), Some(why))] {
        let mut nodes = world([stray()], limit);
        set_custom::<PersistentVolumeClaim>(&mut nodes, [ephemeral_claim("there", "somebody")]);
        assert_eq!(failure(&nodes, claims("p", &["a"])).as_deref(), expected);
    }
}

#[test]
fn an_untranslatable_disk_fails_the_pod_on_nodes_with_a_csi_node() {
    let why = "converting volume(v0) from inline to csi: kind(Shared) is not supported in csi migration";
    let azure = || disk("p", InTreeDisk::AzureDisk { uri: "u".into(), kind: "Shared".into() });
    assert_eq!(failure(&world([], Some(limits("n", &[]))), azure()).unwrap(), why);
    assert_eq!(failure(&world([], None), azure()), None);
}

#[test]
fn pods_without_volumes_that_count_are_skipped() {
    let nodes = world([], at_most(0));
    let skips =
        |pod: PodBuilder| matches!(trial().pre_filter(&nodes, &pod.info()).unwrap(), PreFiltered::Skip);
    assert!(skips(pod("p")) && skips(pod("p").volume(VolumeSource::Image("i".into()))));
    assert!(skips(claims("p", &["elsewhere"])) && !skips(claims("p", &["a"])));
    assert!(!skips(claims("p", &["in-tree"])) && !skips(claims("p", &["gone"])));
}

#[test]
fn with_the_gate_a_node_must_have_the_driver_if_the_csi_driver_object_requires_it() {
    let driver =
        |asks: bool| json!({"metadata": {"name": DRIVER}, "spec": {"preventPodSchedulingIfMissing": asks}});
    let missing = Reject::evictable(format!("{DRIVER} CSI driver is not installed on the node"));
    for (gate, asks, limit, expected) in [
        (true, Some(true), None, Err(missing.clone())),
        (true, Some(true), Some(limits("n", &[(EBS, None)])), Err(missing)),
        (true, Some(true), Some(limits("n", &[(DRIVER, None)])), Ok(())),
        (true, Some(false), None, Ok(())),
        (true, None, None, Ok(())),
        (false, Some(true), None, Ok(())),
    ] {
        let mut nodes = world([], limit);
        set_custom::<CsiDriver>(&mut nodes, asks.map(driver));
        let (trial, pod) = (trial_with(gate), claims("p", &["a"]).info());
        assert_eq!(trial.verdict(&nodes, &pod, "n"), expected, "{gate} {asks:?}");
        batch_equals_single(&trial, &nodes, &pod);
    }
}

#[test]
fn drivers_are_required_by_default_from_1_37() {
    for (release, needs_drivers) in [(Release::V1_36, false), (Release::V1_37, true)] {
        let cx = BuildCycle { features: Features::of(release) };
        assert_eq!(NodeVolumeLimits::build(NoArgs, &cx).unwrap().needs_drivers, needs_drivers, "{release}");
    }
}

#[test]
fn only_the_controller_of_a_claim_counts_as_its_owner() {
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: "p".into(),
        uid: "uid-p".into(),
    };
    let mut claim = harbormaster_testkit::custom::<PersistentVolumeClaim>(&ephemeral_claim("p", "uid-p"));
    assert_eq!(claim.metadata.controller, Some(owner));
    assert!(claim::is_made_for(&claim, &pod("p").info()));
    claim.metadata.controller = None;
    assert!(
        !claim::is_made_for(&claim, &pod("p").info()),
        "an owner that does not control the claim is not enough"
    );
}
