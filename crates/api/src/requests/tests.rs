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
    ContainerResources { name: name.into(), requests: list(requests), allocated: list(allocated) }
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

#[test]
fn a_running_pod_counts_with_the_largest_of_requested_actual_and_allocated() {
    let mut pod = pod(PodSpec {
        containers: vec![container("a", &[("cpu", 100), ("memory", 5)]), container("b", &[("cpu", 1)])],
        init_containers: vec![sidecar("s", &[("cpu", 10)]), container("i", &[("cpu", 20)])],
        ..PodSpec::default()
    });
    pod.status.container_resources = vec![
        status("a", &[("cpu", 80)], &[("cpu", 120), ("memory", 4)]),
        status("s", &[("cpu", 15)], &[]),
        status("i", &[("cpu", 999)], &[]),
    ];
    let request = pod_request(&pod);
    assert_eq!((request.milli_cpu, request.memory), (136, 5));
    assert_eq!(spec_request(&pod.spec).milli_cpu, 111);
}

#[test]
fn the_request_of_an_infeasible_resize_does_not_count() {
    let mut pod = pod(PodSpec {
        containers: vec![container("a", &[("cpu", 500), ("x.com/y", 1)])],
        pod_level_requests: list(&[("memory", 50)]),
        ..PodSpec::default()
    });
    pod.status.container_resources = vec![status("a", &[("cpu", 80)], &[("cpu", 90)])];
    pod.status.pod_level = Some(status("", &[("memory", 7)], &[("memory", 6)]));
    assert_eq!(pod_request_list(&pod), list(&[("cpu", 500), ("memory", 50), ("x.com/y", 1)]));
    let pending = |reason: &str| PodCondition {
        type_: "PodResizePending".into(),
        reason: reason.into(),
        ..PodCondition::default()
    };
    pod.status.conditions = vec![pending("Deferred")];
    assert_eq!(pod_request(&pod).milli_cpu, 500);
    pod.status.conditions = vec![pending("Infeasible")];
    assert_eq!(pod_request_list(&pod), list(&[("cpu", 90), ("memory", 7)]));
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
    assert_eq!(nonzero_request(&pod(spec.clone())), (106, 2 * DEFAULT_MEMORY));
    let score = score_request(&spec);
    assert_eq!((score.milli_cpu, score.memory), (106, 2 * DEFAULT_MEMORY));
    assert_eq!(pod_request(&pod(spec)).memory, 0);
}

#[test]
fn with_pod_level_requests_the_defaults_apply_only_to_resources_not_named() {
    let named = |container_requests: &[(&str, i64)]| {
        nonzero_request(&pod(PodSpec {
            containers: vec![container("a", container_requests), container("b", &[])],
            pod_level_requests: list(&[("cpu", 300)]),
            ..PodSpec::default()
        }))
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
fn images_without_a_tag_are_named_with_latest() {
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
