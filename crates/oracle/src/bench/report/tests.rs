use super::*;

const SIZE: Size = Size { nodes: 1, init_pods: 0, pods: 2 };

fn runs(values: &[f64]) -> Vec<Measurement> {
    let run = |value: &f64| Measurement {
        pods_per_second: *value,
        cpu_ms_per_pod: 2.0 * *value,
        start_cpu_ms: 1.0,
        resident_mib: 1.0,
        peak_mib: 1.0,
        start_to_first_binding_s: Some(1.0),
        server_cpu_ms_per_pod: 1.0,
        pods: SIZE.pods,
        events: SIZE.pods,
        last_event_s: 0.0,
        volume_writes: 0,
        churn_pods: 0,
        latency: None,
        lists: None,
    };
    values.iter().map(run).collect()
}

fn comparison(name: &str, left: &[f64], right: &[f64]) -> Comparison {
    Comparison::new(name, SIZE, [runs(left), runs(right)], None)
}

#[test]
fn the_ratio_is_the_median_over_pairs() {
    let odd = comparison(PLAIN, &[1.0, 2.0, 4.0], &[3.0, 4.0, 20.0]);
    let pods = &odd.ratios[0];
    assert_eq!((pods.name, pods.median, pods.least, pods.most), ("pods/s", 3.0, 2.0, 5.0));
    let even = comparison(PLAIN, &[1.0, 1.0], &[2.0, 3.0]);
    assert_eq!(even.ratios[0].to_string(), "2.500 (2.000-3.000)");
}

#[test]
fn a_workload_is_compared_with_the_plain_pods_of_the_same_contender() {
    let report = Report::new(
        ["a", "b"],
        vec![comparison("TopologySpreading", &[4.0], &[3.0]), comparison(PLAIN, &[2.0], &[1.0])],
    );
    assert_eq!(report.workloads[0].cpu_against_plain, [Some(2.0), Some(3.0)]);
    assert_eq!(report.workloads[1].cpu_against_plain, [None, None]);
    assert!(report.to_string().contains("own plain"));
}

#[test]
fn without_plain_pods_nothing_is_compared_with_them() {
    let report = Report::new(["a", "b"], vec![comparison("TopologySpreading", &[4.0], &[3.0])]);
    assert_eq!(report.workloads[0].cpu_against_plain, [None, None]);
    assert!(!report.to_string().contains("own plain"));
}

#[test]
fn the_text_has_every_workload_in_the_table_and_in_the_chart() {
    let report = Report::new(
        ["a", "b"],
        vec![comparison(PLAIN, &[100.0], &[25.0]), comparison("PreemptionAsync", &[50.0], &[50.0])],
    );
    let text = report.to_string();
    assert!(text.contains("b ÷ a") && text.contains(" 0.250 "), "{text}");
    let (table, chart) = text.split_once("shorter is better").unwrap();
    for part in [table, chart] {
        assert!(part.contains(PLAIN) && part.contains("PreemptionAsync"), "{text}");
    }
    assert!(chart.contains(&format!("a {} 200\n", "█".repeat(50))), "{text}");
}

#[test]
fn a_pair_with_unequal_work_has_no_ratio_and_is_reported() {
    let (left, mut right) = (runs(&[1.0, 2.0]), runs(&[2.0, 6.0]));
    right[0].events = 1;
    let one = Comparison::new(PLAIN, SIZE, [left.clone(), right.clone()], None);
    assert_eq!((one.ratios[0].median, one.ratios[0].least), (3.0, 3.0));
    right[1].events = 0;
    let none = Comparison::new("TopologySpreading", SIZE, [left, right], None);
    assert_eq!(none.ratios, []);
    let report = Report::new(["a", "b"], vec![one, none]);
    assert_eq!(report.workloads[1].cpu_against_plain, [Some(1.0), None]);
    let text = report.to_string();
    assert!(
        text.contains("plain, pair 1: unequal work: a wrote 2 events, b 1; the pair has no ratio"),
        "{text}"
    );
    assert!(text.contains("none: unequal work") && text.contains(" 0-1 of 2 "), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        json["workloads"][1]["unequal"][1],
        serde_json::json!({"pair": 2, "events": [2, 0], "volumeWrites": [0, 0]})
    );
    assert_eq!(json["workloads"][0]["runs"][1][0]["events"], 1);
}

#[test]
fn a_pair_with_unequal_numbers_of_volume_writes_has_no_ratio() {
    let (left, mut right) = (runs(&[1.0]), runs(&[2.0]));
    right[0].volume_writes = 3;
    let one = Comparison::new("LocalVolumes", SIZE, [left, right], None);
    assert_eq!(one.ratios, []);
    let text = Report::new(["a", "b"], vec![one]).to_string();
    assert!(text.contains("a wrote volumes 0 times, b 3; the pair has no ratio"), "{text}");
}

#[test]
fn a_failed_workload_shows_its_runs_and_the_reason() {
    let failure = Some("b: 3 of 5 pods are bound".to_owned());
    let failed = Comparison::new(PLAIN, SIZE, [runs(&[7.0]), Vec::new()], failure);
    let report = Report::new(["a", "b"], vec![failed]);
    assert_eq!(report.failures().count(), 1);
    let text = report.to_string();
    assert!(text.contains("plain failed: b: 3 of 5 pods are bound") && text.contains("7.00"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["workloads"][0]["runs"][0][0]["podsPerSecond"], 7.0);
    assert_eq!(json["workloads"][0]["failure"], "b: 3 of 5 pods are bound");
}
