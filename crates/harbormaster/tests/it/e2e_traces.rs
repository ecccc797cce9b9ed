//! Traces that a real process sends to a small collector.

#![cfg(feature = "otlp")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, sleep},
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value as Any},
    trace::v1::Span,
};
use prost::Message;
use serde_json::json;

use crate::e2e::{
    cluster::{PATIENCE, eventually, wait_until_bound},
    objects::{NODES, PODS, default_config, node, pod},
    process::Harbormaster,
    server::{Cluster, Server, on_both_servers},
};

on_both_servers! {
    the_trace_of_a_pod_contains_its_attempt_and_its_binding,
    an_attempt_that_is_not_sampled_sends_no_spans,
}

const ATTEMPT: &str = "Scheduling attempt";
const BINDING: &str = "Binding cycle";

/// A collector that receives spans over OTLP/HTTP, encoded as protobuf.
struct Collector {
    port: u16,
    taken: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    /// True if the collector closes connections instead of answering requests.
    away: Arc<AtomicBool>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = listener.local_addr().expect("the listener has an address").port();
        let (taken, away) = <(Arc<Mutex<Vec<_>>>, Arc<AtomicBool>)>::default();
        let (all, hangs_up) = (taken.clone(), away.clone());
        // The threads end with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (all, hangs_up) = (all.clone(), hangs_up.clone());
                thread::spawn(move || while serve(&stream, &all, &hangs_up).is_some() {});
            }
        });
        Self { port, taken, away }
    }

    /// Returns all spans received so far.
    fn spans(&self) -> Vec<Span> {
        let taken = self.taken.lock().expect("nothing has panicked");
        let resources = taken.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    /// Returns the `service.name` of each request.
    fn services(&self) -> Vec<String> {
        let taken = self.taken.lock().expect("nothing has panicked");
        let resources = taken.iter().flat_map(|request| &request.resource_spans);
        let attributes = resources.filter_map(|spans| Some(&spans.resource.as_ref()?.attributes));
        attributes.filter_map(|attributes| text(attributes, "service.name")).collect()
    }
}

/// Serves one request. Returns `None` at the end of the connection.
fn serve(stream: &TcpStream, taken: &Mutex<Vec<ExportTraceServiceRequest>>, away: &AtomicBool) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        head.push_str(&line.to_ascii_lowercase());
        line.clear();
    }
    if away.load(Ordering::Relaxed) {
        return None;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    let mut body = vec![0; length.trim().parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    assert!(head.starts_with("post /v1/traces ") && head.contains("application/x-protobuf"), "{head}");
    let request = ExportTraceServiceRequest::decode(body.as_slice()).expect("the body is a trace request");
    taken.lock().expect("nothing has panicked").push(request);
    let mut stream = stream;
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")
        .ok()
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?;
    match value.value.as_ref()? {
        Any::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

/// Starts a cluster with one node, and a scheduler that sends traces.
fn start(cluster: &Cluster, collector: &Collector, more: &[(&'static str, &str)]) -> Harbormaster {
    cluster.client().post(NODES, &node("node", json!({}), "4", "8Gi", 110)).expect("the node is created");
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let mut variables = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_SERVICE_NAME", "mine".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
    ];
    variables.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let config =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let log = cluster.directory().join("harbormaster.log");
    Harbormaster::start_with_variables(&variables, &[format!("--config={}", config.display())], log)
}

fn is_scheduled(cluster: &Cluster, name: &str) {
    let pod = pod(name, "default-scheduler", json!({"cpu": "100m"}), json!({}));
    cluster.client().post(PODS, &pod).expect("the pod is created");
    wait_until_bound(cluster.client(), name);
}

fn the_trace_of_a_pod_contains_its_attempt_and_its_binding(server: Server) {
    let (cluster, collector) = (server.own(), Collector::start());
    let harbormaster = start(&cluster, &collector, &[]);
    is_scheduled(&cluster, "traced");
    let is_binding = |span: &Span| {
        span.name == BINDING && text(&span.attributes, "k8s.pod.name").as_deref() == Some("traced")
    };
    let trace = eventually("the trace arrives", PATIENCE, || {
        let spans = collector.spans();
        let id = spans.iter().find(|span| is_binding(span))?.trace_id.clone();
        let trace: Vec<Span> = spans.into_iter().filter(|span| span.trace_id == id).collect();
        trace.iter().any(|span| span.name == ATTEMPT).then_some(trace)
    });
    let parent = |span: &Span| trace.iter().find(|other| other.span_id == span.parent_span_id);
    let path = |span: &Span| {
        let (mut names, mut at) = (vec![span.name.as_str()], parent(span));
        while let Some(span) = at {
            names.push(&span.name);
            at = parent(span);
        }
        names.reverse();
        names.join(" > ")
    };
    let find = |wanted: &str| {
        let found = trace.iter().find(|span| path(span) == wanted);
        found.unwrap_or_else(|| panic!("{wanted} among {:#?}", trace.iter().map(path).collect::<Vec<_>>()))
    };
    let attempt = find(ATTEMPT);
    assert!(attempt.parent_span_id.is_empty());
    let uid =
        cluster.client().get(&format!("{PODS}/traced")).expect("the pod is there")["metadata"]["uid"].clone();
    for (key, value) in [
        ("k8s.pod.name", "traced"),
        ("k8s.namespace.name", "default"),
        ("k8s.pod.uid", uid.as_str().expect("the pod has a UID")),
        ("k8s.node.name", "node"),
        ("scheduler.profile", "default-scheduler"),
        ("scheduler.result", "assumed"),
    ] {
        assert_eq!(text(&attempt.attributes, key).as_deref(), Some(value), "{key}");
    }
    find(&format!("{ATTEMPT} > Filter > NodeResourcesFit"));
    find(&format!("{ATTEMPT} > PreFilter"));
    let binding = find(&format!("{ATTEMPT} > {BINDING}"));
    assert_eq!(text(&binding.attributes, "scheduler.result").as_deref(), Some("scheduled"));
    let request = find(&format!("{ATTEMPT} > {BINDING} > Bind > DefaultBinder > POST"));
    let path = text(&request.attributes, "url.path").expect("the span has a path");
    assert_eq!(path, "/api/v1/namespaces/default/pods/traced/binding");
    assert!(trace.iter().all(|span| span.start_time_unix_nano <= span.end_time_unix_nano));
    assert!(attempt.start_time_unix_nano <= binding.start_time_unix_nano);
    assert!(collector.services().iter().all(|name| name == "mine"));

    collector.away.store(true, Ordering::Relaxed);
    for name in ["one", "two", "three"] {
        is_scheduled(&cluster, name);
        // The pause is long enough for the spans of each pod to be sent in a separate request.
        sleep(Duration::from_millis(300));
    }
    let line = harbormaster.wait_for_line(&["Traces cannot be sent"]);
    assert!(line.contains("/v1/traces"), "{line}");
    is_scheduled(&cluster, "four");
    let log = harbormaster.ends_well();
    assert_eq!(log.matches("Traces cannot be sent").count(), 1, "{log}");
}

fn an_attempt_that_is_not_sampled_sends_no_spans(server: Server) {
    let (cluster, collector) = (server.own(), Collector::start());
    let off = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")];
    let harbormaster = start(&cluster, &collector, &off);
    is_scheduled(&cluster, "quiet");
    // Spans that are still queued are sent at shutdown.
    harbormaster.ends_well();
    assert_eq!(collector.spans().len(), 0);
}
