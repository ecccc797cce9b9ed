use super::*;
use crate::{LoadVariationRiskBalancing, load_variation::Load};

#[test]
fn a_load_is_rated_by_its_average_and_its_deviation() {
    let load = |average, deviation| Load { capacity: 100.0, request: 10.0, average, deviation };
    for (load, margin, sensitivity, expected) in [
        (load(40.0, 36.0), 1.0, 1.0, 57),
        (load(40.0, 36.0), -1.0, 1.0, 75),
        (load(40.0, 36.0), 1.0, -1.0, 57),
        (load(40.0, 36.0), 1.0, 0.0, 75),
        (Load { capacity: 0.0, ..load(40.0, 36.0) }, 1.0, 1.0, 0),
        (load(-40.0, 36.0), 1.0, 2.0, 65),
        (load(200.0, 36.0), 1.0, 2.0, 20),
        (load(40.0, -36.0), 1.0, 2.0, 75),
        (load(40.0, 120.0), 1.0, 2.0, 25),
    ] {
        assert_eq!(
            load.rate(margin, sensitivity).round() as i64,
            expected,
            "{load:?} {margin} {sensitivity}"
        );
    }
}

#[test]
fn the_scarcer_resource_decides() {
    let trial = trial::<LoadVariationRiskBalancing>(json!({}));
    let score = |metrics: &[Measurement], pod: PodBuilder| {
        score_of(&trial, cluster([sized("n", "1", "1Gi")], []), metrics, &info(pod))
    };
    assert_eq!(score(&[("CPU", "AVG", 50.0)], pod("p").cpu("0")), 75);
    assert_eq!(score(&[("CPU", "Latest", 50.0)], pod("p").cpu("0")), 75);
    assert_eq!(score(&[("CPU", "AVG", 50.0), ("CPU", "Latest", 90.0)], pod("p").cpu("0")), 75);
    assert_eq!(score(&[("CPU", "AVG", 100.0)], pod("p").cpu("0")), 50);
    assert_eq!(score(&[("CPU", "AVG", 30.0), ("CPU", "STD", 16.0)], pod("p").cpu("200m")), 67);
    let both = [("CPU", "AVG", 40.0), ("CPU", "STD", 16.0), ("Memory", "AVG", 50.0), ("Memory", "STD", 10.0)];
    assert_eq!(score(&both, pod("p").cpu("100m").memory("512Mi")), 45);
    assert_eq!(score(&[], pod("p")), 0);
    assert_eq!(score(&[("Energy", "AVG", 1.0)], pod("p")), 0);
}

#[test]
fn negative_arguments_are_replaced_by_the_default() {
    let metrics = [("CPU", "AVG", 30.0), ("CPU", "STD", 16.0)];
    let score = |args| {
        let nodes = cluster([sized("n", "1", "1Gi")], []);
        score_of(&trial::<LoadVariationRiskBalancing>(args), nodes, &metrics, &info(pod("p").cpu("200m")))
    };
    assert_eq!(score(json!({"safeVarianceMargin": -1, "safeVarianceSensitivity": -2})), 67);
    assert_eq!(score(json!({"safeVarianceMargin": 0})), 75);
    assert_eq!(score(json!({"safeVarianceSensitivity": 2.0})), 55);
}

#[test]
fn requests_of_pods_that_the_measurement_does_not_contain_yet_count() {
    let trial = trial::<LoadVariationRiskBalancing>(json!({}));
    let score = |seconds_before| {
        let nodes = cluster([sized("n", "1", "1Gi")], [placed("r", "n", seconds_before).cpu("400m")]);
        score_of(&trial, nodes, &[("CPU", "AVG", 20.0)], &info(pod("p").cpu("0")))
    };
    assert_eq!((score(60), score(59)), (90, 70));
}
