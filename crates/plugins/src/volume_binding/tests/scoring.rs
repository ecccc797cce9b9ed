use harbormaster_api::{Release, args::UtilizationShapePoint, features::Features};
use harbormaster_testkit::node;

use super::*;

fn scoring(shape: &[(i32, i32)]) -> Trial {
    let shape = shape
        .iter()
        .map(|(utilization, score)| UtilizationShapePoint { utilization: *utilization, score: *score });
    let args = VolumeBindingArgs { shape: shape.collect(), ..Default::default() };
    let mut cx = BuildCycle::default();
    cx.features = cx.features.with(Feature::StorageCapacityScoring, true);
    Trial::of(VolumeBinding::build(args, &cx).unwrap())
}

/// The shape in upstream's tests: fuller storage is better.
const RISING: [(i32, i32); 2] = [(0, 0), (100, 10)];

fn sized(name: &str, class: &str, storage: &str) -> Value {
    claim(name, class, &json!({"spec": {"resources": {"requests": {"storage": storage}}}}))
}

fn has(name: &str, class: &str, storage: &str) -> Value {
    volume(name, &json!({"spec": {"storageClassName": class, "capacity": {"storage": storage}}}))
}

#[test]
fn storage_is_scored_by_default_from_1_37() {
    for (release, is_scored) in [(Release::V1_36, false), (Release::V1_37, true)] {
        let shape = vec![UtilizationShapePoint { utilization: 0, score: 10 }];
        let args = VolumeBindingArgs { shape, ..Default::default() };
        let cx = BuildCycle { features: Features::of(release) };
        assert_eq!(VolumeBinding::build(args, &cx).unwrap().shape.is_some(), is_scored, "{release}");
    }
}

#[test]
fn without_the_gate_nothing_is_scored() {
    let world = world([node("n")]);
    assert_eq!(trial().scores(&world, &pod("p").info()).unwrap(), None);
}

#[test]
fn pods_without_claims_that_wait_are_not_scored() {
    let world = world([node("n")]);
    assert_eq!(scoring(&RISING).scores(&world, &pod("p").info()).unwrap(), None);
}

#[test]
fn volumes_are_scored_by_resulting_utilization_and_classes_weigh_the_same() {
    let mut world = world([node("n")]);
    set_custom::<StorageClass>(
        &mut world,
        [class("second", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")],
    );
    let claims = [
        sized("half", LOCAL, "50Gi"),
        sized("fifth", "second", "20Gi"),
        sized("more", LOCAL, "30Gi"),
        bound_claim("bound", "b"),
    ];
    set_custom::<PersistentVolumeClaim>(&mut world, claims);
    let volumes = [
        has("v", LOCAL, "100Gi"),
        has("w", "second", "100Gi"),
        has("x", LOCAL, "100Gi"),
        has("b", "other", "1Gi"),
    ];
    set_custom::<PersistentVolume>(&mut world, volumes);
    for (claims, expected) in [
        (&["half"][..], Some(50)),
        (&["half", "fifth"], Some(35)),
        (&["half", "more"], Some(40)),
        (&["bound"], None),
    ] {
        let scores = scoring(&RISING).scores(&world, &user(claims).info()).unwrap();
        assert_eq!(scores, expected.map(|score| vec![score]), "{claims:?}");
    }
}

#[test]
fn provisioned_volumes_are_scored_once_by_the_capacity_of_their_class() {
    let mut world = world([node("n").label("zone", "a")]);
    set_custom::<CsiDriver>(
        &mut world,
        [json!({"metadata": {"name": "csi"}, "spec": {"storageCapacity": true}})],
    );
    let silent = class("silent", "other", "WaitForFirstConsumer");
    set_custom::<StorageClass>(&mut world, [silent]);
    let capacity = |capacity: &str, largest: Option<&str>| {
        json!({"metadata": {"name": "k", "namespace": "csi"},
        "storageClassName": "made", "nodeTopology": {"matchLabels": {"zone": "a"}}, "capacity": capacity,
        "maximumVolumeSize": largest})
    };
    let claims = [
        sized("c", "made", "20Gi"),
        sized("d", "made", "30Gi"),
        sized("silent", "silent", "1Gi"),
        sized("v", LOCAL, "10Gi"),
    ];
    set_custom::<PersistentVolumeClaim>(&mut world, claims);
    set_custom::<PersistentVolume>(&mut world, [has("v", LOCAL, "100Gi")]);
    for (what, capacity, claims, expected) in [
        ("one claim", capacity("100Gi", None), &["c"][..], 20),
        ("two claims share the capacity", capacity("100Gi", None), &["c", "d"], 50),
        ("the maximum volume size does not count", capacity("100Gi", Some("20Gi")), &["c"], 20),
        ("more is requested than there is", capacity("10Gi", Some("20Gi")), &["c"], 100),
        ("nothing is left", capacity("0", Some("20Gi")), &["c"], 100),
        ("a class without known capacity", capacity("100Gi", None), &["silent"], 0),
        ("an unknown capacity does not count among others", capacity("100Gi", None), &["silent", "c"], 20),
        ("only the existing volume counts", capacity("100Gi", None), &["c", "v"], 10),
    ] {
        set_custom::<CsiStorageCapacity>(&mut world, [capacity]);
        let scores = scoring(&RISING).scores(&world, &user(claims).info()).unwrap();
        assert_eq!(scores, Some(vec![expected]), "{what}");
    }
}

#[test]
fn the_mean_is_rounded_and_the_shape_truncates() {
    let mut world = world([node("n")]);
    set_custom::<StorageClass>(
        &mut world,
        [class("second", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")],
    );
    set_custom::<PersistentVolumeClaim>(
        &mut world,
        [sized("c", LOCAL, "999Mi"), sized("d", "second", "10Mi")],
    );
    set_custom::<PersistentVolume>(&mut world, [has("v", LOCAL, "1000Mi"), has("w", "second", "1000Mi")]);
    let scores = |claims: &[&str]| scoring(&RISING).scores(&world, &user(claims).info()).unwrap().unwrap();
    assert_eq!(scores(&["c"]), [99], "99.9 percent");
    assert_eq!(scores(&["c", "d"]), [50]);
    set_custom::<PersistentVolumeClaim>(&mut world, [sized("d", "second", "20Mi")]);
    let scores = scoring(&RISING).scores(&world, &user(&["c", "d"]).info()).unwrap();
    assert_eq!(scores, Some(vec![51]), "half rounds away from zero");
}

#[test]
fn with_a_falling_shape_emptier_storage_is_better() {
    let emptiest = scoring(&[(0, 10), (100, 0)]);
    let mut world = world([node("n")]);
    set_custom::<PersistentVolumeClaim>(&mut world, [sized("c", LOCAL, "25Gi")]);
    set_custom::<PersistentVolume>(&mut world, [has("v", LOCAL, "100Gi")]);
    assert_eq!(emptiest.scores(&world, &user(&["c"]).info()).unwrap(), Some(vec![75]));
}

#[test]
fn invalid_arguments_are_rejected() {
    let build = |args: VolumeBindingArgs, scores: bool| {
        let mut cx = BuildCycle::default();
        cx.features = cx.features.with(Feature::StorageCapacityScoring, scores);
        VolumeBinding::build(args, &cx).err().map(|why| why.to_string()).unwrap_or_default()
    };
    assert_eq!(build(VolumeBindingArgs::default(), false), "");
    let negative = VolumeBindingArgs { bind_timeout_seconds: -1, ..Default::default() };
    assert!(build(negative, false).contains("should not be a negative value"));
    assert!(
        build(VolumeBindingArgs::default(), true).contains("at least one point"),
        "scoring needs a shape, which the configuration normally adds"
    );
}
