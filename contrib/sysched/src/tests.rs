use harbormaster::{
    serde_json::{Value, from_value, json},
    testkit::{
        PodBuilder, Trial, answers_are_repeatable, batch_equals_single, cluster, index_equals_rebuilt_one,
        node, pod, random::Dice, resource_fits_definition, scores_are_valid, set_custom,
    },
};

use super::*;
use crate::profile::named_by;

fn trial() -> Trial {
    Trial::of(SySched::build(Args::default(), &BuildCycle::default()).unwrap())
}

fn profile(name: &str, names: &[&str]) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name},
        "spec": {"syscalls": [
            {"action": "SCMP_ACT_ALLOW", "names": &names[..1]},
            {"action": "SCMP_ACT_LOG", "names": &names[1..]},
            {"action": "SCMP_ACT_ERRNO", "names": ["reboot"]},
        ]},
    })
}

fn using(name: &str, profile: &str) -> PodBuilder {
    let path = format!("localhost/operator/default/{profile}.json");
    pod(name).spec(|spec| spec.seccomp_profiles = vec![path.into()])
}

fn world(pods: Vec<PodBuilder>) -> Cluster {
    let mut nodes = cluster([node("a"), node("b")], pods);
    let profiles = [
        profile("x", &["read", "write"]),
        profile("z", &["read", "write", "ioctl", "bpf"]),
        profile("all-syscalls", &["read", "write", "ioctl", "bpf", "reboot"]),
    ];
    set_custom::<SeccompProfile>(&mut nodes, profiles);
    nodes
}

fn raw(pods: Vec<PodBuilder>, pod: PodBuilder) -> Vec<i64> {
    trial().raw_scores(&world(pods), &pod.info()).unwrap().unwrap()
}

#[test]
fn superfluous_system_calls_of_the_pod_and_of_its_neighbours_count() {
    for (resident, pod, expected) in [
        ("z", using("p", "x"), [2, 0]),
        ("x", using("p", "x"), [0, 0]),
        ("x", using("p", "z"), [2, 0]),
        // Pods without a profile use all system calls.
        ("x", pod("p"), [3, 0]),
        ("missing", using("p", "x"), [3, 0]),
    ] {
        assert_eq!(raw(vec![using("r", resident).on("a")], pod), expected, "{resident}");
    }
    let two =
        vec![using("r1", "x").uid("1").on("a"), using("r2", "x").uid("2").on("a"), using("r3", "z").on("b")];
    assert_eq!(raw(two, using("p", "z")), [4, 0]);
}

#[test]
fn the_fewest_superfluous_system_calls_score_best() {
    let nodes = world(vec![using("r", "z").on("a"), using("s", "x").on("b")]);
    assert_eq!(trial().scores(&nodes, &using("p", "x").info()).unwrap(), Some(vec![0, 100]));
    assert_eq!(trial().scores(&world(Vec::new()), &using("p", "x").info()).unwrap(), Some(vec![100, 100]));
}

#[test]
fn annotations_name_profiles_and_pods_without_any_are_not_scored() {
    let annotated =
        pod("p").annotation("container.seccomp.security.alpha.kubernetes.io/c", "operator/default/x.json");
    assert_eq!(raw(vec![using("r", "z").on("a")], annotated), [2, 0]);
    let mut nodes = cluster([node("a"), node("b")], [using("r", "z").on("a")]);
    set_custom::<SeccompProfile>(&mut nodes, []);
    assert_eq!(trial().scores(&nodes, &using("p", "x").info()).unwrap(), None);
    for path in ["", "x.json", "/x.json", "a/", "a/.json"] {
        let odd = pod("p").spec(|spec| spec.seccomp_profiles = vec![path.into()]);
        assert!(named_by(&odd.build()).is_empty(), "{path}");
    }
}

#[test]
fn the_index_follows_all_changes() {
    for seed in 0..20 {
        index_equals_rebuilt_one::<Residents>(
            seed,
            |dice, name| dice.node(name),
            |dice, name| match dice.below(3) {
                0 => pod(name),
                1 => using(name, dice.pick(&["x", "z"])),
                _ => pod(name)
                    .annotation("seccomp.security.alpha.kubernetes.io/pod", dice.pick(&["a/b/x.json", "c"])),
            },
        );
    }
}

#[test]
fn it_passes_the_conformance_checks() {
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let nodes = world(vec![using("r", "z").on("a"), using("s", "x").on("b")]);
        let (pod, meanwhile) = (using("p", "x").info(), dice.pod("meanwhile").info());
        answers_are_repeatable(&trial(), &nodes, &pod, &meanwhile);
        batch_equals_single(&trial(), &nodes, &pod);
        scores_are_valid(&trial(), &nodes, &pod);
    }
}

#[test]
fn the_type_fits_the_definition() {
    let definition: Value = serde_saphyr::from_str(include_str!("../deploy/crd.yaml")).unwrap();
    resource_fits_definition::<SeccompProfile>(&definition);
}

#[test]
fn unknown_arguments_are_refused() {
    let error = from_value::<Args>(json!({"profile": "x"})).unwrap_err().to_string();
    assert!(error.starts_with("unknown field `profile`"), "{error}");
}
