use std::sync::Arc;

use super::*;
use crate::pod::{PodCondition, Volume};

fn list(pairs: &[(&str, i64)]) -> ResourceList {
    let mut list: ResourceList = pairs.iter().map(|(name, amount)| (Str::from(*name), *amount)).collect();
    list.sort();
    list
}

fn container(name: &str, requests: &[(&str, i64)]) -> Container {
    Container { name: name.into(), requests: list(requests), ..Container::default() }
}

fn sidecar(name: &str, requests: &[(&str, i64)]) -> Container {
    Container { restart_always: true, ..container(name, requests) }
}

fn status(name: &str, requests: &[(&str, i64)], allocated: &[(&str, i64)]) -> ContainerResources {
    ContainerResources { name: name.into(), requests: Some(list(requests)), allocated: list(allocated) }
}

fn pod(spec: PodSpec) -> Pod {
    Pod { spec: Arc::new(spec), ..Pod::default() }
}

#[test]
fn the_largest_init_container_counts_when_it_exceeds_the_sum() {
    let spec = PodSpec {
        containers: vec![container("a", &[("cpu", 100), ("memory", 5)]), container("b", &[("cpu", 100)])],
        init_containers: vec![container("i", &[("cpu", 150), ("memory", 9)]), container("j", &[("cpu", 50)])],
        overhead: list(&[("cpu", 7), ("x.com/y", 1)]),
        ..PodSpec::default()
    };
    let request = spec_request(&spec);
    assert_eq!((request.milli_cpu, request.memory, request.scalar("x.com/y")), (207, 9, 1));
}

#[test]
fn sidecars_add_to_the_sum_and_to_init_containers_started_later() {
    let spec = PodSpec {
        containers: vec![container("a", &[("cpu", 10)])],
        init_containers: vec![
            container("early", &[("cpu", 60)]),
            sidecar("s", &[("cpu", 30)]),
            container("late", &[("cpu", 45)]),
        ],
        ..PodSpec::default()
    };
    assert_eq!(spec_request(&spec).milli_cpu, 75);
}

#[test]
fn pod_level_requests_replace_the_sum_for_the_resources_that_they_name() {
    let spec = PodSpec {
        containers: vec![container("a", &[("cpu", 100), ("memory", 5), ("x.com/y", 2)])],
        pod_level_requests: list(&[("cpu", 40), ("hugepages-2Mi", 3), ("x.com/y", 9)]),
        overhead: list(&[("cpu", 1)]),
        ..PodSpec::default()
    };
    let request = spec_request(&spec);
    assert_eq!((request.milli_cpu, request.memory), (41, 5));
    assert_eq!((request.scalar("hugepages-2Mi"), request.scalar("x.com/y")), (3, 2));
    let score = score_request(&spec);
    assert_eq!((score.milli_cpu, score.memory, score.scalar("hugepages-2Mi")), (101, 5, 0));
}

/// A resource list as a test writes it.
type Amounts<'a> = &'a [(&'a str, i64)];

/// A status with `allocatedResources` but without `resources`.
fn allocated(name: &str, amounts: Amounts<'_>) -> ContainerResources {
    ContainerResources { name: name.into(), requests: None, allocated: list(amounts) }
}

fn resize_pending(reason: &str) -> PodCondition {
    PodCondition { type_: "PodResizePending".into(), reason: reason.into(), ..PodCondition::default() }
}

/// Returns the pod's request under the rules of both releases.
fn under_both(pod: &Pod) -> [ResourceList; 2] {
    [StatusRule::LargestOfContainer, StatusRule::LargestTotal].map(|rule| pod_request_list(pod, rule))
}

#[test]
fn the_status_counts_for_each_container_or_in_total() {
    let spec = PodSpec {
        containers: vec![container("a", &[("cpu", 100), ("memory", 5)]), container("b", &[("cpu", 60)])],
        init_containers: vec![sidecar("s", &[("cpu", 10)]), container("i", &[("cpu", 20)])],
        overhead: list(&[("cpu", 1)]),
        ..PodSpec::default()
    };
    let none: Amounts<'_> = &[];
    let cases: [(&str, Vec<ContainerResources>, Amounts<'_>, Amounts<'_>); 6] = [
        ("no status", vec![], &[("cpu", 171), ("memory", 5)], &[("cpu", 171), ("memory", 5)]),
        (
            "one container grows while the other shrinks",
            vec![status("a", &[("cpu", 80)], &[("cpu", 90)]), status("b", &[("cpu", 90)], &[("cpu", 70)])],
            &[("cpu", 201), ("memory", 5)],
            &[("cpu", 181), ("memory", 5)],
        ),
        (
            "only allocated amounts",
            vec![allocated("a", &[("cpu", 300), ("memory", 9)])],
            &[("cpu", 171), ("memory", 5)],
            &[("cpu", 371), ("memory", 9)],
        ),
        (
            "no actual amounts",
            vec![status("a", none, &[("cpu", 300)])],
            &[("cpu", 371), ("memory", 5)],
            &[("cpu", 371), ("memory", 5)],
        ),
        (
            "an init container",
            vec![status("i", &[("cpu", 999)], none)],
            &[("cpu", 171), ("memory", 5)],
            &[("cpu", 1010), ("memory", 5)],
        ),
        (
            "a sidecar",
            vec![status("s", &[("cpu", 15)], none)],
            &[("cpu", 176), ("memory", 5)],
            &[("cpu", 176), ("memory", 5)],
        ),
    ];
    for (case, statuses, of_containers, in_total) in cases {
        let mut pod = pod(spec.clone());
        pod.status.container_resources = statuses;
        assert_eq!(under_both(&pod), [list(of_containers), list(in_total)], "{case}");
        assert_eq!(spec_request(&pod.spec).milli_cpu, 171);
    }
}

#[test]
fn the_pods_own_status_replaces_the_totals_of_its_containers_if_it_is_complete() {
    let mut pod = pod(PodSpec { containers: vec![container("a", &[("cpu", 100)])], ..PodSpec::default() });
    pod.status.container_resources = vec![status("a", &[("cpu", 500)], &[("cpu", 600)])];
    for (own, in_total) in [
        (status("", &[("cpu", 200)], &[("cpu", 150), ("memory", 8)]), list(&[("cpu", 200), ("memory", 8)])),
        (status("", &[("cpu", 200)], &[]), list(&[("cpu", 600)])),
        (status("", &[], &[("cpu", 150)]), list(&[("cpu", 600)])),
    ] {
        pod.status.pod_level = Some(own);
        assert_eq!(under_both(&pod), [list(&[("cpu", 600)]), in_total], "{:?}", pod.status.pod_level);
    }
}

#[test]
fn pod_level_requests_count_with_the_largest_amount_of_spec_and_status() {
    let mut pod = pod(PodSpec {
        containers: vec![container("a", &[("cpu", 100), ("memory", 5)])],
        pod_level_requests: list(&[("cpu", 300)]),
        ..PodSpec::default()
    });
    pod.status.pod_level = Some(status("", &[("cpu", 310), ("memory", 7)], &[("cpu", 320)]));
    let expected = [list(&[("cpu", 320), ("memory", 5)]), list(&[("cpu", 320), ("memory", 7)])];
    assert_eq!(under_both(&pod), expected);
}

#[test]
fn the_request_of_an_infeasible_resize_does_not_count() {
    let mut pod = pod(PodSpec {
        containers: vec![container("a", &[("cpu", 500), ("x.com/y", 1)]), container("b", &[("cpu", 1)])],
        pod_level_requests: list(&[("memory", 50)]),
        ..PodSpec::default()
    });
    pod.status.container_resources = vec![status("a", &[("cpu", 80)], &[("cpu", 90)])];
    pod.status.pod_level = Some(status("", &[("memory", 7)], &[("memory", 6)]));
    let requested = list(&[("cpu", 501), ("memory", 50), ("x.com/y", 1)]);
    assert_eq!(pod_request_list(&pod, StatusRule::LargestOfContainer), requested);
    pod.status.conditions = vec![resize_pending("Deferred")];
    assert_eq!(pod_request(&pod, StatusRule::LargestOfContainer).milli_cpu, 501);
    pod.status.conditions = vec![resize_pending("Infeasible")];
    let of_container = list(&[("cpu", 91), ("memory", 7)]);
    assert_eq!(under_both(&pod), [of_container, list(&[("memory", 7)])], "the pod's own status is complete");
    pod.status.pod_level = None;
    let of_container = list(&[("cpu", 91), ("memory", 50)]);
    assert_eq!(under_both(&pod), [of_container, list(&[("cpu", 90), ("memory", 50)])]);
    pod.status.container_resources.clear();
    assert_eq!(under_both(&pod), [requested, list(&[("memory", 50)])]);
    assert!(status_counts(&pod));
}

#[test]
fn with_defaults_a_missing_amount_counts_at_every_stage() {
    let mut pod = pod(PodSpec {
        containers: vec![container("a", &[("cpu", 500)]), container("b", &[])],
        ..PodSpec::default()
    });
    pod.status.container_resources = vec![status("a", &[("cpu", 600)], &[("cpu", 400)])];
    let request = |pod: &Pod| nonzero_request(pod, StatusRule::LargestTotal);
    assert_eq!(request(&pod), (600 + DEFAULT_MILLI_CPU, 2 * DEFAULT_MEMORY));
    pod.status.conditions = vec![resize_pending("Infeasible")];
    assert_eq!(request(&pod), (600 + DEFAULT_MILLI_CPU, 2 * DEFAULT_MEMORY));
    pod.status.container_resources.clear();
    assert_eq!(request(&pod), (2 * DEFAULT_MILLI_CPU, 2 * DEFAULT_MEMORY));
}

#[test]
fn pod_level_limits_replace_those_of_the_containers() {
    let mut limited = container("a", &[]);
    limited.limits = list(&[("cpu", 300), ("x.com/y", 2)]);
    let spec = PodSpec {
        containers: vec![limited.clone(), limited],
        overhead: list(&[("cpu", 1), ("memory", 5)]),
        pod_level_limits: list(&[("cpu", 400), ("memory", 7), ("x.com/z", 9)]),
        ..PodSpec::default()
    };
    assert_eq!(limit_list(&spec), list(&[("cpu", 401), ("memory", 12), ("x.com/y", 4)]));
    let spec = PodSpec { pod_level_limits: Vec::new(), ..spec };
    assert_eq!(limit_list(&spec), list(&[("cpu", 601), ("x.com/y", 4)]));
}

#[test]
fn scores_assume_default_requests_for_containers_without_any() {
    let spec = PodSpec {
        containers: vec![container("a", &[]), container("zero", &[("cpu", 0), ("memory", 0)])],
        init_containers: vec![sidecar("s", &[("cpu", 5)])],
        overhead: list(&[("cpu", 1)]),
        ..PodSpec::default()
    };
    assert_eq!(nonzero_request(&pod(spec.clone()), StatusRule::default()), (106, 2 * DEFAULT_MEMORY));
    let score = score_request(&spec);
    assert_eq!((score.milli_cpu, score.memory), (106, 2 * DEFAULT_MEMORY));
    assert_eq!(pod_request(&pod(spec), StatusRule::default()).memory, 0);
}

#[test]
fn with_pod_level_requests_the_defaults_apply_only_to_resources_that_nothing_requests() {
    let named = |container_requests: &[(&str, i64)]| {
        let spec = PodSpec {
            containers: vec![container("a", container_requests), container("b", &[])],
            pod_level_requests: list(&[("cpu", 300)]),
            ..PodSpec::default()
        };
        nonzero_request(&pod(spec), StatusRule::default())
    };
    assert_eq!(named(&[]), (300, 2 * DEFAULT_MEMORY));
    assert_eq!(named(&[("memory", 10)]), (300, 10));
}

#[test]
fn host_ports_of_plain_init_containers_do_not_count() {
    let with_port = |c: Container, port| Container {
        host_ports: vec![HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port }],
        ..c
    };
    let spec = PodSpec {
        containers: vec![with_port(container("a", &[]), 1)],
        init_containers: vec![with_port(container("i", &[]), 2), with_port(sidecar("s", &[]), 3)],
        ..PodSpec::default()
    };
    let ports: Vec<i32> = host_ports(&spec).iter().map(|p| p.port).collect();
    assert_eq!(ports, [1, 3]);
}

#[test]
fn images_without_a_tag_or_digest_get_the_tag_latest() {
    for (image, expected) in [
        ("nginx", "nginx:latest"),
        ("gcr.io:5000/10", "gcr.io:5000/10:latest"),
        ("a/b:1", "a/b:1"),
        ("a@sha256:0", "a@sha256:0"),
    ] {
        assert_eq!(normalized_image(image), expected);
    }
    let volume = Volume { name: "v".into(), source: VolumeSource::Image("art:1".into()) };
    let image = |image: &str| Container { image: image.into(), ..Container::default() };
    let spec = PodSpec {
        containers: vec![image("c")],
        init_containers: vec![image("i")],
        volumes: vec![volume],
        ..PodSpec::default()
    };
    assert_eq!(container_images(&spec).map(Str::as_str).collect::<Vec<_>>(), ["i", "c"]);
    assert_eq!(volume_images(&spec).map(Str::as_str).collect::<Vec<_>>(), ["art:1"]);
}
