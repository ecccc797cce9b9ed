use harbormaster::testkit::FakeWeb;

use super::*;
use crate::{LoadVariationRiskBalancing, TargetLoadPacking};

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

/// Fetches a report, and returns its JSON.
async fn fetched(args: Value, web: &FakeWeb) -> Result<Value, String> {
    web.set_now(Timestamp::from_secs(NOW));
    let trial = trial::<LoadVariationRiskBalancing>(args);
    let fetched = trial.fetch(&web.web()).await.map_err(|error| error.to_string())?;
    Ok(harbormaster::serde_json::from_str(fetched.json().unwrap()).unwrap())
}

/// Score that LoadVariationRiskBalancing gives a node of one core with a fetched report.
fn score(args: Value, report: Value) -> i64 {
    let mut nodes = cluster([sized("n", "1", "1Gi")], []);
    set_custom::<NodeLoads>(&mut nodes, [report]);
    let scores = trial::<LoadVariationRiskBalancing>(args).raw_scores(&nodes, &info(pod("p").cpu("0")));
    scores.unwrap().unwrap()[0]
}

#[tokio::test]
async fn metrics_server_reports_amounts_that_relate_to_the_capacity() {
    let web = FakeWeb::default();
    let list = json!({"items": [
        {"metadata": {"name": "n"}, "usage": {"cpu": "500m", "memory": "256Mi"}},
        {"metadata": {"name": "odd"}, "usage": {"cpu": "much", "memory": "-5"}},
        {"metadata": {"name": "bare"}},
    ]});
    web.answer(METRICS, 200, &list.to_string());
    let report = fetched(json!({}), &web).await.unwrap();
    assert_eq!(report["window"]["end"], NOW);
    assert_eq!(report["metadata"]["name"], "kubernetes-metrics-server");
    let nodes = &report["data"]["NodeMetricsMap"];
    assert_eq!(nodes["n"]["metrics"][0], json!({"type": "CPU", "operator": "Latest", "usage": 500}));
    assert_eq!((&nodes["odd"]["metrics"], &nodes["bare"]["metrics"]), (&json!([]), &json!([])));
    assert_eq!(score(json!({}), report), 75);
}

#[tokio::test]
async fn load_watchers_report_is_taken_as_it_is() {
    let args = || json!({"watcherAddress": "http://Watcher.monitoring:2020/", "metricProvider": {"type": "Prometheus"}});
    let web = FakeWeb::default();
    let mut sent = report(&[("n", &[("CPU", "AVG", 50.0)])]);
    web.answer("http://Watcher.monitoring:2020/watcher", 200, &sent.to_string());
    let report = fetched(args(), &web).await.unwrap();
    assert_eq!(report["metadata"]["name"], "load-watcher-watcher-monitoring-2020");
    assert_eq!(score(args(), report), 75);
    for (end, works) in
        [(NOW - 300, true), (NOW - 301, false), (NOW + 1000, true), (0, true), (i64::MIN, true)]
    {
        sent["window"]["end"] = end.into();
        web.answer("http://Watcher.monitoring:2020/watcher", 200, &sent.to_string());
        assert_eq!(fetched(args(), &web).await.is_ok(), works, "{end}");
    }
}

#[tokio::test]
async fn prometheus_is_asked_for_four_series() {
    let args = json!({"metricProvider": {"type": "Prometheus", "address": "https://p:9090/", "token": "t"}});
    let web = FakeWeb::default();
    let answer = |series: &[(&str, &str)]| {
        let sample = |(instance, value): &(&str, &str)| json!({"metric": {"instance": instance}, "value": [1.5, value]});
        json!({"status": "success", "data": {"result": series.iter().map(sample).collect::<Vec<_>>()}})
            .to_string()
    };
    for (function, metric, series) in [
        ("avg_over_time", "node_cpu", answer(&[("n:9100", "0.3"), ("other", "NaN"), ("fd00::1", "+Inf")])),
        ("stddev_over_time", "node_cpu", answer(&[("n:9100", "0.16")])),
        ("avg_over_time", "node_memory_utilisation", answer(&[])),
        ("stddev_over_time", "node_memory_utilisation", answer(&[])),
    ] {
        let query = format!("{function}(instance:{metric}:ratio%5B15m%5D)");
        web.answer(&format!("https://p:9090/api/v1/query?query={query}"), 200, &series);
    }
    let report = fetched(args.clone(), &web).await.unwrap();
    assert_eq!(report["metadata"]["name"], "prometheus-p-9090");
    assert_eq!(report["data"]["NodeMetricsMap"].as_object().unwrap().len(), 1);
    let request = &web.requests()[0];
    assert_eq!((request.bearer_token.as_deref(), request.insecure), (Some("t"), true));
    assert_eq!(score(args, report), 77);
}

#[tokio::test]
async fn whatever_a_source_says_is_a_report_or_an_error() {
    let watcher = || json!({"watcherAddress": "http://w"});
    for (body, why) in [
        ("", "EOF while parsing"),
        ("null", "invalid type"),
        ("[]", "the report contains no nodes"),
        ("{}", "the report contains no nodes"),
        (r#"{"data": null}"#, "the report contains no nodes"),
        (r#"{"data": {"NodeMetricsMap": {"n": {"metrics": 5}}}}"#, "invalid type"),
        (
            r#"{"data": {"NodeMetricsMap": {"n": {"metrics": [{"type": "CPU", "value": 1e999}]}}}}"#,
            "number out of range",
        ),
    ] {
        let web = FakeWeb::default();
        web.answer("http://w/watcher", 200, body);
        let error = fetched(watcher(), &web).await.unwrap_err();
        assert!(error.contains(why), "{body}: {error}");
    }
    let web = FakeWeb::default();
    let error = fetched(watcher(), &web).await.unwrap_err();
    assert_eq!(
        error,
        "running Fetch plugin \"LoadVariationRiskBalancing\": http://w/watcher: the status is 404"
    );
    assert!(fetched(json!({}), &web).await.unwrap_err().contains("the status is 404"));
    web.answer(METRICS, 200, r#"{"items": []}"#);
    assert!(fetched(json!({}), &web).await.unwrap_err().contains("metrics-server reports no nodes"));
    // Odd values are left out, and the rest counts.
    let metrics = r#"[{"type": "CPU", "operator": "AVG", "value": null}, {"type": "CPU"}, {"operator": "AVG", "value": 7},
        {"type": "CPU", "operator": "P99", "value": 7}, {"type": "CPU", "operator": "Latest", "value": 50}]"#;
    let body = format!(
        r#"{{"data": {{"NodeMetricsMap": {{"n": {{"metrics": {metrics}}}, "m": {{"metrics": null}}}}}}}}"#
    );
    web.answer("http://w/watcher", 200, &body);
    let report = fetched(watcher(), &web).await.unwrap();
    assert_eq!(score(watcher(), report), 75);
}

#[test]
fn plugins_with_the_same_source_share_it() {
    let plan = |args| built::<TargetLoadPacking>(args).unwrap().plan().name;
    let other = |args| built::<LoadVariationRiskBalancing>(args).unwrap().plan().name;
    assert_eq!(plan(json!({})), other(json!({"metricProvider": {"type": ""}})));
    assert_eq!(
        plan(json!({"watcherAddress": "http://w:1"})),
        other(json!({"watcherAddress": "http://w:1/"}))
    );
    assert_ne!(plan(json!({"watcherAddress": "http://w:1"})), plan(json!({"watcherAddress": "http://w:2"})));
    let prometheus =
        |address: &str| plan(json!({"metricProvider": {"type": "Prometheus", "address": address}}));
    assert_eq!(prometheus(""), "prometheus-prometheus-k8s-9090");
}
