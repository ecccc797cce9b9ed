//! Log lines as kube-scheduler writes them: klog's text, or JSON.
//!
//! Events carry Kubernetes' verbosity in the field `v`: `tracing::debug!(v = 2, pod = %name, "…")`. Without the field,
//! the level implies the verbosity. With `unstructured = true`, the text format writes the message without quotes, as
//! klog's `Info` does. Errors and warnings are always written.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::SystemTime,
};

use harbormaster_api::Timestamp;
use harbormaster_framework::registry::Registry;
use serde_json::{Number, Value};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::{Context, Filter, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use super::log_output::Output;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

impl std::str::FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" | "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("format: Invalid value: {other:?}: Unsupported log format")),
        }
    }
}

/// Verbosity of the log. It can be changed while the program runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threshold(Arc<AtomicI64>);

impl Threshold {
    fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the level, starting with the next line.
    pub(crate) fn set(&self, level: i64) {
        self.0.store(level, Ordering::Relaxed);
        // Callsites cache whether their level is enabled, so the cache must be rebuilt.
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Starts logging. Does nothing if logging has already started.
pub(crate) fn start(output: Output, verbosity: i64, plugins: &Registry) -> Threshold {
    let level = Threshold(Arc::new(AtomicI64::new(verbosity)));
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(output.streams())
        .event_format(Lines { format: output.format, process: std::process::id() })
        .with_filter(Verbosity { level: level.clone(), homes: plugins.homes() });
    let _ = tracing_subscriber::registry().with(lines).try_init();
    level
}

/// Filters events by verbosity. For libraries, warnings are always written, INFO events at verbosity 6 and above, DEBUG
/// events at 8 and above, and TRACE events, for example single HTTP frames, at 11 and above.
struct Verbosity {
    level: Threshold,
    /// Crates that define plugins. They are not treated as libraries.
    homes: BTreeSet<&'static str>,
}

impl Verbosity {
    fn is_ours(&self, target: &str) -> bool {
        let home = target.split("::").next().unwrap_or(target);
        home.starts_with("harbormaster") || self.homes.contains(home)
    }
}

impl<S> Filter<S> for Verbosity {
    fn enabled(&self, meta: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        *meta.level() <= Level::WARN || self.is_ours(meta.target()) || self.level.get() >= 6
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        if *event.metadata().level() <= Level::WARN {
            return true;
        }
        let mut v = FindV(None);
        event.record(&mut v);
        let is_ours = self.is_ours(event.metadata().target());
        let implied = match *event.metadata().level() {
            Level::INFO if is_ours => 0,
            Level::DEBUG if is_ours => 2,
            _ if is_ours => 5,
            Level::INFO => 6,
            Level::DEBUG => 8,
            _ => 11,
        };
        v.0.unwrap_or(implied) <= self.level.get()
    }

    /// Returns the most verbose level that can pass. By convention, verbosity 0 is INFO, 1 and 2 are DEBUG, and higher
    /// values are TRACE, so whole levels can be switched off cheaply.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.level.get() {
            ..=0 => LevelFilter::INFO,
            1..=2 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }
}

struct FindV(Option<i64>);

impl Visit for FindV {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "v" {
            self.0 = Some(value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_i64(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

struct Lines {
    format: Format,
    process: u32,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let meta = event.metadata();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
        let place = SourceLocation { file: file_name(meta.file()), line: meta.line().unwrap_or(0) };
        let line = match self.format {
            Format::Text => text(*meta.level(), now, self.process, &place, &fields),
            Format::Json => json(*meta.level(), now, &place, fields),
        };
        out.write_str(&line)
    }
}

struct SourceLocation<'a> {
    file: &'a str,
    line: u32,
}

fn file_name(path: Option<&str>) -> &str {
    path.and_then(|p| p.rsplit(['/', '\\']).next()).unwrap_or("unknown")
}

/// Returns a line such as `I1121 02:00:00.000000   26212 main.rs:38] "msg" pod="ns/p"`, with a line feed.
fn text(level: Level, now: Timestamp, process: u32, place: &SourceLocation<'_>, fields: &Fields) -> String {
    let severity = match level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    // 2026-11-21T02:00:00.000000Z
    let time = now.to_rfc3339_micro();
    let part = |range: std::ops::Range<usize>| time.get(range).unwrap_or_default();
    let mut line = format!(
        "{severity}{}{} {} {process:>7} {}:{}] {}",
        part(5..7),
        part(8..10),
        part(11..26),
        place.file,
        place.line,
        if fields.unstructured { fields.message.clone() } else { quoted(&fields.message) }
    );
    for (name, value) in &fields.rest {
        // Writing to a string cannot fail.
        let _ = match value {
            Value::String(text) => write!(line, " {name}={}", quoted(text)),
            other => write!(line, " {name}={other}"),
        };
    }
    line.push('\n');
    line
}

/// Returns the text, quoted as Go quotes strings.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && (c as u32) < 0x80 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a line such as `{"ts":1580306777043.5,"caller":"main.rs:38","msg":"…","v":0,"pod":"ns/p"}`, with a line
/// feed.
fn json(level: Level, now: Timestamp, place: &SourceLocation<'_>, fields: Fields) -> String {
    let mut line = String::from("{\"ts\":");
    let millis = now.0 as f64 / 1e6;
    let _ = write!(line, "{millis:.3},\"caller\":{}", Value::from(format!("{}:{}", place.file, place.line)));
    let _ = write!(line, ",\"msg\":{}", Value::from(fields.message));
    if level > Level::ERROR {
        let _ = write!(line, ",\"v\":{}", fields.v.unwrap_or(0));
    }
    for (name, value) in fields.rest {
        let _ = write!(line, ",{}:{value}", Value::from(name));
    }
    line.push_str("}\n");
    line
}

/// Fields of an event; `err` comes first.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    unstructured: bool,
    v: Option<i64>,
    rest: Vec<(&'static str, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            "v" => self.v = value.as_i64(),
            "unstructured" => self.unstructured = value == Value::Bool(true),
            "err" => self.rest.insert(0, ("err", value)),
            name => self.rest.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        // If the value is a string, Debug formatting has already quoted it.
        let value = match serde_json::from_str(&text) {
            Ok(Value::String(inner)) if text.starts_with('"') => Value::String(inner),
            Ok(list @ Value::Array(_)) => list,
            _ => Value::String(text),
        };
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Number::from_f64(value).map_or(Value::Null, Value::Number));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, value.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::Map;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Memory {
        type Writer = Self;
        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn logged(format: Format, verbosity: i64, log: impl FnOnce()) -> Vec<String> {
        let memory = Memory::default();
        let level = Threshold(Arc::new(AtomicI64::new(verbosity)));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(memory.clone())
            .event_format(Lines { format, process: 42 })
            .with_filter(Verbosity { level: level.clone(), homes: BTreeSet::from(["own_plugins"]) });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
        let bytes = memory.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    fn place() -> SourceLocation<'static> {
        SourceLocation { file: "main.rs", line: 38 }
    }

    #[test]
    fn log_lines_look_like_klogs() {
        let now = Timestamp::parse("2026-11-21T02:00:00Z").unwrap();
        let fields = Fields {
            message: "say \"it\"".into(),
            v: Some(3),
            unstructured: false,
            rest: vec![("pod", "ns/p".into()), ("n", 4.into()), ("nodes", serde_json::json!(["a", "b"]))],
        };
        assert_eq!(
            text(Level::INFO, now, 26212, &place(), &fields),
            "I1121 02:00:00.000000   26212 main.rs:38] \"say \\\"it\\\"\" pod=\"ns/p\" n=4 nodes=[\"a\",\"b\"]\n"
        );
        assert_eq!(
            json(Level::INFO, now, &place(), fields),
            "{\"ts\":1795226400000.000,\"caller\":\"main.rs:38\",\"msg\":\"say \\\"it\\\"\",\"v\":3,\"pod\":\"ns/p\",\"n\":4,\"nodes\":[\"a\",\"b\"]}\n"
        );
    }

    #[test]
    fn events_are_filtered_by_verbosity_and_errors_always_pass() {
        let log = || {
            tracing::info!(pod = "a/b", "zero");
            tracing::debug!(v = 2, "two");
            tracing::trace!(v = 4, "four");
            tracing::error!(err = %"broken\nline", pod = "a/b", "failed");
            tracing::warn!(v = 9, "odd");
            tracing::info!(target: "own_plugins::guard", "own");
            tracing::info!(target: "hyper", "chatter");
            tracing::trace!(target: "hyper", "frame");
        };
        let messages = |verbosity| -> Vec<String> {
            let lines = logged(Format::Text, verbosity, log);
            lines.iter().map(|l| l.split_once("] ").unwrap().1.to_owned()).collect()
        };
        let failed = "\"failed\" err=\"broken\\nline\" pod=\"a/b\"";
        assert_eq!(messages(0), ["\"zero\" pod=\"a/b\"", failed, "\"odd\"", "\"own\""]);
        assert_eq!(messages(2), ["\"zero\" pod=\"a/b\"", "\"two\"", failed, "\"odd\"", "\"own\""]);
        assert_eq!(messages(5).len(), 6);
        assert_eq!((messages(6).len(), messages(10).len(), messages(11).len()), (7, 7, 8));
    }

    #[test]
    fn an_unstructured_message_is_written_without_quotes() {
        let log = || tracing::debug!(v = 2, unstructured = true, "a \"b\"\nc");
        let lines = logged(Format::Text, 2, log);
        assert!(lines[0].ends_with("] a \"b\"") && lines[1] == "c", "{lines:?}");
        let lines = logged(Format::Json, 2, log);
        assert!(lines[0].contains("\"msg\":\"a \\\"b\\\"\\nc\",\"v\":2}"), "{lines:?}");
    }

    #[test]
    fn json_lines_are_valid_json() {
        let lines = logged(Format::Json, 0, || tracing::error!(err = "bad", n = 1.5, ok = true, "failed"));
        let line: Map<String, Value> = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(line["msg"], "failed");
        assert_eq!(line["err"], "bad");
        assert_eq!((&line["n"], &line["ok"]), (&serde_json::json!(1.5), &Value::Bool(true)));
        assert!(!line.contains_key("v"), "the line of an error has no verbosity");
    }

    #[test]
    fn unknown_formats_are_rejected() {
        assert_eq!("json".parse(), Ok(Format::Json));
        assert!("xml".parse::<Format>().unwrap_err().contains("Unsupported log format"));
    }
}
