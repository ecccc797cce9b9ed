//! Spans that are sent with OTLP over HTTP.

use std::{
    env,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use harbormaster_api::Str;
use harbormaster_client::{
    ApiError,
    observe::{RequestSpan, RequestTracer},
};
use harbormaster_core::{Attempted, Outcome};
use harbormaster_framework::{
    meter::{Stage, Stamp, Status},
    pod::PodInfo,
};
use harbormaster_metrics::{AttemptTimes, attempts::Part};
use http::Method;
use opentelemetry::{
    Context, Key, KeyValue,
    trace::{
        Span as _, SpanBuilder, SpanContext, SpanKind, Status as Verdict, TraceContextExt, Tracer as _,
        TracerProvider as _,
    },
};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{SdkTracer, SdkTracerProvider, Span},
};
use rustc_hash::FxHashMap;

use super::{ENDPOINTS, SpanEnd, SpanInfo, sender::Sender};

/// Maximum number of attempts that are remembered until their pods are bound. If a pod waits for a long time on Permit,
/// its binding may be missing from its trace.
const REMEMBERED: usize = 4096;
/// Time limit for sending the last spans when the process exits.
const LAST_SPANS: Duration = Duration::from_secs(3);
/// Default service name.
const SERVICE: &str = "harbormaster";

tokio::task_local! {
    /// The trace of the current task.
    static TRACE: Trace;
}

/// OpenTelemetry traces; off by default. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Exporting>>);

#[derive(Debug)]
struct Exporting {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// Sampled attempts that found a node, keyed by the pod's UID.
    attempts: Mutex<FxHashMap<Str, SpanContext>>,
}

/// A position in a trace.
#[derive(Clone)]
pub(crate) struct Trace {
    exporting: Arc<Exporting>,
    parent: Context,
}

/// The span of a sampled attempt.
pub(crate) struct AttemptSpan {
    exporting: Arc<Exporting>,
    span: Span,
}

impl Traces {
    /// Reads OpenTelemetry's environment variables. Spans are on if a variable sets an endpoint and no variable
    /// disables spans. Must be called within a tokio runtime, which is then used to send spans.
    ///
    /// # Errors
    /// If the exporter cannot be set up.
    pub fn from_environment() -> Result<Self, String> {
        if !are_wanted(|name| env::var(name).ok()) {
            return Ok(Self::default());
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Sender::new()?).build();
        let exporter = exporter.map_err(|error| format!("traces: {error}"))?;
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        let tracer = provider.tracer(SERVICE);
        Ok(Self(Some(Arc::new(Exporting { provider, tracer, attempts: Mutex::default() }))))
    }

    /// Sends the last spans, taking a few seconds at most.
    pub async fn stop(self) {
        let Some(exporting) = self.0 else { return };
        // The shutdown waits for work on the runtime, so it must not block one of the runtime's own threads. Spans that
        // cannot be sent are lost.
        let stop = move || exporting.provider.shutdown_with_timeout(LAST_SPANS);
        let _ = tokio::task::spawn_blocking(stop).await;
    }

    /// Begins the span of an attempt; `None` if the attempt is not sampled.
    pub(crate) fn begin_attempt(&self) -> Option<AttemptSpan> {
        let exporting = self.0.as_ref()?;
        let span = exporting
            .tracer
            .build_with_context(SpanBuilder::from_name("Scheduling attempt"), &Context::new());
        span.is_recording().then(|| AttemptSpan { exporting: exporting.clone(), span })
    }

    /// Returns the trace of the attempt that found a node for the given pod, and forgets it.
    pub(crate) fn of(&self, uid: &str) -> Option<Trace> {
        let exporting = self.0.as_ref()?;
        let attempt = exporting.attempts().remove(uid)?;
        Some(Trace { exporting: exporting.clone(), parent: Context::new().with_remote_span_context(attempt) })
    }
}

/// Returns true if the environment enables spans.
fn are_wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    let value_of =
        |name| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let is_disabled = value_of("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let is_none = value_of("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    !is_disabled && !is_none && ENDPOINTS.iter().any(|name| value_of(name).is_some())
}

/// Returns the resource: the service name from the environment, or the default.
fn resource() -> Resource {
    let name = Key::from_static_str("service.name");
    let from_environment = Resource::builder().build();
    let has_name =
        from_environment.get(&name).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    if has_name { from_environment } else { Resource::builder().with_service_name(SERVICE).build() }
}

impl Exporting {
    fn attempts(&self) -> MutexGuard<'_, FxHashMap<Str, SpanContext>> {
        // A panic cannot leave the map inconsistent.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, uid: &Str, attempt: SpanContext) {
        let mut attempts = self.attempts();
        if attempts.len() >= REMEMBERED {
            attempts.clear();
        }
        attempts.insert(uid.clone(), attempt);
    }

    /// Records the span of one part of an attempt after the part has ended. Returns the span's position in the trace.
    fn record(&self, part: &Part, parent: &Context, at: impl Fn(Stamp) -> SystemTime) -> Context {
        let mut attributes = vec![
            KeyValue::new("scheduler.extension_point", part.stage.name()),
            KeyValue::new("scheduler.status", part.status.name()),
            KeyValue::new("scheduler.busy_us", i64::try_from(part.spent.as_micros()).unwrap_or(i64::MAX)),
        ];
        attributes.extend(part.plugin.map(|plugin| KeyValue::new("scheduler.plugin", plugin)));
        let builder = SpanBuilder::from_name(part.plugin.unwrap_or(part.stage.name()))
            .with_start_time(at(part.begun))
            .with_attributes(attributes);
        let mut span = self.tracer.build_with_context(builder, parent);
        if part.status == Status::Error {
            span.set_status(Verdict::error(""));
        }
        span.end_with_timestamp(at(part.ended));
        Context::new().with_remote_span_context(span.span_context().clone())
    }
}

impl AttemptSpan {
    /// Ends the span. `wall` converts a stamp to wall time.
    pub(crate) fn end(
        mut self,
        attempted: &Attempted,
        times: Option<AttemptTimes>,
        wall: impl FnOnce(Stamp) -> SystemTime,
    ) {
        let Self { exporting, span } = &mut self;
        let context = span.span_context().clone();
        let parent = Context::new().with_remote_span_context(context.clone());
        if let Some(AttemptTimes { begun, parts, .. }) = times {
            let first = wall(begun);
            let at = |stamp: Stamp| first + stamp.since(begun);
            let (points, plugins): (Vec<Part>, Vec<Part>) =
                parts.into_iter().partition(|part| part.plugin.is_none());
            let record = |point: &Part| (point.stage, exporting.record(point, &parent, at));
            let points: Vec<(Stage, Context)> = points.iter().map(record).collect();
            for plugin in &plugins {
                let point = points.iter().find(|(stage, _)| *stage == point_of(plugin.stage));
                exporting.record(plugin, point.map_or(&parent, |(_, context)| context), at);
            }
        }
        span.set_attributes(of_pod(&attempted.pod));
        let (result, error) = match &attempted.outcome {
            Outcome::Assumed { node, evaluated, feasible } => {
                span.set_attribute(KeyValue::new("k8s.node.name", node.to_string()));
                let numbers =
                    [("scheduler.evaluated_nodes", evaluated), ("scheduler.feasible_nodes", feasible)];
                let number = |count: &usize| i64::try_from(*count).unwrap_or(i64::MAX);
                span.set_attributes(numbers.map(|(name, count)| KeyValue::new(name, number(count))));
                exporting.remember(&attempted.pod.uid, context);
                ("assumed", None)
            }
            Outcome::NoNodes | Outcome::Unschedulable(_) => ("unschedulable", None),
            Outcome::Error(why) => ("error", Some(why.clone())),
            Outcome::Skipped => ("skipped", None),
            Outcome::Asking => ("asking", None),
        };
        span.set_attribute(KeyValue::new("scheduler.result", result));
        if let Outcome::Unschedulable(why) = &attempted.outcome {
            span.set_attribute(KeyValue::new("scheduler.message", why.clone()));
        }
        if let Some(why) = error {
            span.set_status(Verdict::error(why));
        }
        span.end();
    }
}

/// Returns the extension point that a plugin's calls in this stage belong to.
fn point_of(stage: Stage) -> Stage {
    match stage {
        Stage::AddPod | Stage::RemovePod => Stage::PostFilter,
        Stage::Normalize => Stage::Score,
        stage => stage,
    }
}

fn of_pod(pod: &PodInfo) -> [KeyValue; 4] {
    [
        KeyValue::new("k8s.pod.name", pod.name.to_string()),
        KeyValue::new("k8s.namespace.name", pod.namespace.to_string()),
        KeyValue::new("k8s.pod.uid", pod.uid.to_string()),
        KeyValue::new("scheduler.profile", pod.spec.scheduler_name.to_string()),
    ]
}

/// Runs `work` as part of a trace, if there is one.
pub(crate) async fn within<T>(trace: Option<Trace>, work: impl Future<Output = T>) -> T {
    match trace {
        Some(trace) => TRACE.scope(trace, work).await,
        None => work.await,
    }
}

/// Runs `work`, within a new span if the current task is traced.
pub(crate) async fn traced<T>(
    about: impl FnOnce() -> SpanInfo,
    work: impl Future<Output = T>,
    ending: impl FnOnce(&T) -> SpanEnd,
) -> T {
    let Some(span) = OpenSpan::begin(about) else { return work.await };
    let done = TRACE.scope(span.trace(), work).await;
    span.end(ending(&done));
    done
}

/// The span of work or a request that is in progress.
struct OpenSpan {
    exporting: Arc<Exporting>,
    span: Span,
}

impl OpenSpan {
    /// Begins a span if the current task is traced.
    fn begin(about: impl FnOnce() -> SpanInfo) -> Option<Self> {
        let Trace { exporting, parent } = TRACE.try_with(Clone::clone).ok()?;
        let SpanInfo { name, attributes, is_request } = about();
        let kind = if is_request { SpanKind::Client } else { SpanKind::Internal };
        let attributes = attributes.into_iter().map(key_value);
        let builder = SpanBuilder::from_name(name).with_kind(kind).with_attributes(attributes);
        let span = exporting.tracer.build_with_context(builder, &parent);
        Some(Self { exporting, span })
    }

    /// Returns the trace of work within this span.
    fn trace(&self) -> Trace {
        let parent = Context::new().with_remote_span_context(self.span.span_context().clone());
        Trace { exporting: self.exporting.clone(), parent }
    }

    fn end(mut self, ending: SpanEnd) {
        let SpanEnd { attributes, error } = ending;
        self.span.set_attributes(attributes.into_iter().map(key_value));
        if let Some(error) = error {
            self.span.set_status(Verdict::error(error));
        }
        self.span.end();
    }
}

/// Returns a tracer that includes the requests of a task in the task's trace.
pub(crate) fn request_tracer() -> Option<Arc<dyn RequestTracer>> {
    Some(Arc::new(TaskTracer))
}

#[derive(Debug)]
struct TaskTracer;

impl RequestTracer for TaskTracer {
    fn begin(&self, method: &Method, path: &str) -> Option<Box<dyn RequestSpan>> {
        let about = || {
            let attributes = vec![("http.request.method", method.to_string()), ("url.path", path.to_owned())];
            SpanInfo { name: method.to_string(), attributes, is_request: true }
        };
        Some(Box::new(OpenSpan::begin(about)?))
    }
}

impl RequestSpan for OpenSpan {
    fn traceparent(&self) -> String {
        let context = self.span.span_context();
        let flags = context.trace_flags().to_u8();
        format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id())
    }

    fn end(self: Box<Self>, error: Option<&ApiError>) {
        let code = error.and_then(ApiError::code);
        let code = code.map(|code| ("http.response.status_code", code.to_string()));
        let attributes = code.into_iter().collect();
        Self::end(*self, SpanEnd { attributes, error: error.map(ToString::to_string) });
    }
}

fn key_value((name, value): (&'static str, String)) -> KeyValue {
    KeyValue::new(name, value)
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Pod;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SpanData};

    use super::*;

    fn traces(sampler: Sampler) -> (Traces, InMemorySpanExporter) {
        let memory = InMemorySpanExporter::default();
        let provider =
            SdkTracerProvider::builder().with_simple_exporter(memory.clone()).with_sampler(sampler).build();
        let tracer = provider.tracer("test");
        (Traces(Some(Arc::new(Exporting { provider, tracer, attempts: Mutex::default() }))), memory)
    }

    fn attempted(outcome: Outcome) -> Attempted {
        let pod = Pod { name: "p".into(), namespace: "ns".into(), uid: "u".into(), ..Pod::default() };
        Attempted::new(PodInfo::standalone(pod), outcome)
    }

    fn assumed() -> Attempted {
        attempted(Outcome::Assumed { node: "n".into(), evaluated: 3, feasible: 2 })
    }

    fn part(stage: Stage, plugin: Option<&'static str>) -> Part {
        let (begun, ended, spent) = (Stamp(20), Stamp(30), Duration::from_nanos(10));
        Part { stage, plugin, begun, ended, spent, status: Status::Success }
    }

    /// Returns the name of each span together with its parent's name.
    fn nesting(memory: &InMemorySpanExporter) -> Vec<(String, String)> {
        let spans = memory.get_finished_spans().unwrap();
        let parent = |span: &SpanData| {
            let parent = spans.iter().find(|other| other.span_context.span_id() == span.parent_span_id);
            parent.map(|parent| parent.name.to_string()).unwrap_or_default()
        };
        let mut pairs: Vec<_> = spans.iter().map(|span| (span.name.to_string(), parent(span))).collect();
        pairs.sort();
        pairs
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut pairs: Vec<_> = expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        pairs.sort();
        pairs
    }

    #[test]
    fn an_attempt_contains_its_extension_points_and_these_contain_their_plugins() {
        let (traces, memory) = traces(Sampler::AlwaysOn);
        let span = traces.begin_attempt().unwrap();
        let parts = vec![
            part(Stage::Filter, Some("Fit")),
            part(Stage::Filter, None),
            part(Stage::Normalize, Some("Fit")),
            part(Stage::Score, None),
            part(Stage::Reserve, Some("Alone")),
        ];
        let times = AttemptTimes { begun: Stamp(10), parts, ..AttemptTimes::default() };
        let first = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        span.end(&assumed(), Some(times), |_| first);
        const ATTEMPT: &str = "Scheduling attempt";
        let expected = [
            ("Alone", ATTEMPT),
            ("Filter", ATTEMPT),
            ("Fit", "Filter"),
            ("Fit", "Score"),
            ("Score", ATTEMPT),
            (ATTEMPT, ""),
        ];
        assert_eq!(nesting(&memory), pairs(&expected));
        let spans = memory.get_finished_spans().unwrap();
        let filter = spans.iter().find(|span| span.name == "Filter").unwrap();
        assert_eq!(filter.start_time, first + Duration::from_nanos(10));
        let attempt = spans.iter().find(|span| span.name == ATTEMPT).unwrap();
        let value = |key: &str| {
            let found = attempt.attributes.iter().find(|attribute| attribute.key.as_str() == key);
            found.map(|attribute| attribute.value.to_string()).unwrap_or_default()
        };
        let keys = ["k8s.pod.name", "k8s.namespace.name", "k8s.pod.uid", "k8s.node.name", "scheduler.result"];
        assert_eq!(keys.map(value), ["p", "ns", "u", "n", "assumed"]);
    }

    #[test]
    fn an_attempt_that_is_not_sampled_has_no_span() {
        let (traces, memory) = traces(Sampler::AlwaysOff);
        assert!(traces.begin_attempt().is_none());
        assert!(memory.get_finished_spans().unwrap().is_empty());
        assert!(Traces::default().begin_attempt().is_none());
    }

    #[tokio::test]
    async fn a_binding_continues_the_trace_of_its_attempt() {
        let (traces, memory) = traces(Sampler::AlwaysOn);
        traces.begin_attempt().unwrap().end(&assumed(), None, |_| SystemTime::now());
        let request = async {
            let span = TaskTracer.begin(&Method::POST, "/x").unwrap();
            let header = span.traceparent();
            span.end(None);
            header
        };
        let binding = traced(
            || SpanInfo::work("Bind", Vec::new()),
            request,
            |_| SpanEnd { error: Some("refused".to_owned()), ..SpanEnd::default() },
        );
        let header = within(traces.of("u"), binding).await;
        assert_eq!(
            nesting(&memory),
            pairs(&[("Bind", "Scheduling attempt"), ("POST", "Bind"), ("Scheduling attempt", "")])
        );
        let spans = memory.get_finished_spans().unwrap();
        let post = spans.iter().find(|span| span.name == "POST").unwrap();
        let (trace, span) = (post.span_context.trace_id(), post.span_context.span_id());
        assert_eq!(header, format!("00-{trace}-{span}-01"));
        assert!(spans.iter().all(|span| span.span_context.trace_id() == trace));
        assert!(spans.iter().any(|span| span.status == Verdict::error("refused")));
        assert!(traces.of("u").is_none(), "a trace is continued only once");
    }

    #[tokio::test]
    async fn work_without_a_trace_has_no_span() {
        let (traces, memory) = traces(Sampler::AlwaysOn);
        traces.begin_attempt().unwrap().end(&attempted(Outcome::NoNodes), None, |_| SystemTime::now());
        let work = traced(|| SpanInfo::work("Bind", Vec::new()), async {}, |()| SpanEnd::default());
        within(traces.of("u"), work).await;
        assert!(TaskTracer.begin(&Method::POST, "/x").is_none());
        assert_eq!(nesting(&memory), pairs(&[("Scheduling attempt", "")]));
    }

    #[test]
    fn traces_are_on_if_an_endpoint_is_set_and_nothing_disables_them() {
        let wanted = |variables: &[(&str, &str)]| {
            are_wanted(|name| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        assert!(wanted(&[endpoint]));
        assert!(wanted(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318/v1/traces")]));
        for off in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[endpoint, ("OTEL_SDK_DISABLED", "TRUE")],
            &[endpoint, ("OTEL_TRACES_EXPORTER", "none")],
            &[("OTEL_SERVICE_NAME", "mine"), ("OTEL_TRACES_SAMPLER", "always_on")],
        ] {
            assert!(!wanted(off), "{off:?}");
        }
    }
}
