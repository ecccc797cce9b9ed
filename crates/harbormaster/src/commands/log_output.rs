//! Destination of log lines: all to stderr; or errors (in text format, also warnings) to stderr, and the rest to
//! stdout, which may be buffered.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use harbormaster_config::FeatureGates;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::{flags::Flags, log::Format};

/// Largest buffer that kube-scheduler uses, in bytes.
const LARGEST_BUFFER: i64 = 2 << 30;
const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// The buffer that [`flush`] writes out.
static WAITING: OnceLock<Arc<Buffer>> = OnceLock::new();

/// Format and destination of log lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// Number of bytes that may be buffered for stdout; `None` if the streams are not split.
    split: Option<usize>,
    flush_every: Duration,
}

impl Output {
    /// Returns an output that writes all lines to stderr.
    #[cfg(feature = "sandbox")]
    pub(crate) fn one(format: Format) -> Self {
        Self { format, split: None, flush_every: FLUSH_EVERY }
    }

    /// Returns the output selected by the flags.
    ///
    /// # Errors
    ///
    /// Returns kube-scheduler's message if the format is unknown, or if the format or an option needs a feature gate
    /// that is off.
    pub(crate) fn of(given: &Flags, gates: &FeatureGates) -> Result<Self, String> {
        let (alpha, beta) = ("LoggingAlphaOptions", "LoggingBetaOptions");
        let mut wrong = Vec::new();
        let format = given.logging_format.get().parse::<Format>();
        match &format {
            Err(why) => wrong.push(why.clone()),
            Ok(Format::Json) if !gates.enabled(beta) => {
                wrong.push(format!("format: Forbidden: Log format json is disabled, see {beta} feature"));
            }
            Ok(_) => {}
        }
        for (name, format) in [("text", Format::Text), ("json", Format::Json)] {
            let (splits, size) = stream_flags(given, format);
            let options = [("splitStream", splits), ("infoBufferSize", size != 0)];
            for (option, _) in options.iter().filter(|(_, set)| *set && !gates.enabled(alpha)) {
                wrong.push(format!("options.{name}.{option}: Forbidden: Feature {alpha} is disabled"));
            }
        }
        match wrong.as_slice() {
            [] => {}
            [only] => return Err(only.clone()),
            _ => return Err(format!("[{}]", wrong.join(", "))),
        }
        let format = format.unwrap_or_default();
        let (splits, size) = stream_flags(given, format);
        let buffer = usize::try_from(size.clamp(0, LARGEST_BUFFER)).unwrap_or(0);
        let flush_every = Some(given.log_flush_frequency.get().to_std());
        let flush_every = flush_every.filter(|every| !every.is_zero()).unwrap_or(FLUSH_EVERY);
        Ok(Self { format, split: splits.then_some(buffer), flush_every })
    }

    /// Returns the streams for `tracing`.
    pub(super) fn streams(self) -> Streams {
        let Some(most) = self.split else { return Streams { format: self.format, info: None } };
        let buffer = Arc::new(Buffer { lines: Mutex::default(), most });
        if most > 0 && WAITING.set(buffer.clone()).is_ok() {
            let (waiting, every) = (buffer.clone(), self.flush_every);
            // If the thread cannot be started, lines wait until the buffer is full or the process exits.
            let _ = thread::Builder::new().name("log".to_owned()).spawn(move || {
                loop {
                    thread::sleep(every);
                    waiting.flush();
                }
            });
        }
        Streams { format: self.format, info: Some(buffer) }
    }
}

/// Returns the values of a format's flags: true if streams are split, and the number of bytes to buffer.
fn stream_flags(given: &Flags, format: Format) -> (bool, i64) {
    let (splits, size) = match format {
        Format::Text => (&given.log_text_split_stream, &given.log_text_info_buffer_size),
        Format::Json => (&given.log_json_split_stream, &given.log_json_info_buffer_size),
    };
    (*splits.get(), size.get().value())
}

/// Writes the buffered lines. Must be called before the process exits.
pub(crate) fn flush() {
    if let Some(waiting) = WAITING.get() {
        waiting.flush();
    }
}

/// Selects the stream for each log line.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    format: Format,
    /// `None` if everything goes to stderr.
    info: Option<Arc<Buffer>>,
}

/// Destination of a log line.
#[derive(Debug)]
pub(super) enum Stream<'a> {
    Errors(io::Stderr),
    Info(&'a Buffer),
}

impl<'a> MakeWriter<'a> for Streams {
    type Writer = Stream<'a>;

    fn make_writer(&'a self) -> Stream<'a> {
        Stream::Errors(io::stderr())
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Stream<'a> {
        // As in kube-scheduler: warnings go to stderr in text format, but to stdout in JSON, which has no warning
        // level.
        let worst = if self.format == Format::Text { Level::WARN } else { Level::ERROR };
        match &self.info {
            Some(info) if *meta.level() > worst => Stream::Info(info),
            _ => Stream::Errors(io::stderr()),
        }
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self {
            Self::Errors(stderr) => stderr.write(line),
            Self::Info(buffer) => buffer.add(line, &mut io::stdout()).map(|()| line.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Buffer of lines for stdout. No line is ever split.
#[derive(Debug)]
pub(super) struct Buffer {
    lines: Mutex<Vec<u8>>,
    /// Maximum number of buffered bytes.
    most: usize,
}

impl Buffer {
    fn add(&self, line: &[u8], out: &mut impl Write) -> io::Result<()> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() + line.len() > self.most {
            out.write_all(&std::mem::take(&mut *lines))?;
        }
        if line.len() > self.most {
            out.write_all(line)?;
            return out.flush();
        }
        lines.extend_from_slice(line);
        Ok(())
    }

    fn flush(&self) {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let mut out = io::stdout();
        // A failed write is ignored, because logging must not stop the scheduler.
        let _ = out.write_all(&lines).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::commands::flags::{self, Read};

    fn output(args: &[&str]) -> Result<Output, String> {
        let Read::Flags(given) = flags::read("run", args.iter().map(OsString::from)) else {
            panic!("{args:?}")
        };
        Output::of(&given, &FeatureGates::parse(given.feature_gates.get().texts()).unwrap())
    }

    #[test]
    fn streams_are_split_if_the_gate_and_the_flag_of_the_format_are_on() {
        let split = |args: &[&str]| output(args).unwrap().split;
        let gate = "--feature-gates=LoggingAlphaOptions=true";
        assert_eq!(split(&[]), None);
        assert_eq!(split(&[gate, "--log-text-split-stream"]), Some(0));
        assert_eq!(split(&[gate, "--log-json-split-stream"]), None);
        assert_eq!(
            split(&[
                gate,
                "--logging-format=json",
                "--log-json-split-stream",
                "--log-json-info-buffer-size=1Ki"
            ]),
            Some(1024)
        );
        assert_eq!(split(&["--log-text-info-buffer-size=0"]), None);
    }

    #[test]
    fn invalid_options_are_rejected_with_kube_schedulers_messages() {
        let alpha = "Forbidden: Feature LoggingAlphaOptions is disabled";
        for (args, expected) in [
            (&["--logging-format=x"][..], "format: Invalid value: \"x\": Unsupported log format".to_owned()),
            (
                &["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"],
                "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature".to_owned(),
            ),
            (&["--log-text-split-stream"], format!("options.text.splitStream: {alpha}")),
            (
                &["--log-json-info-buffer-size=1", "--log-text-split-stream"],
                format!("[options.text.splitStream: {alpha}, options.json.infoBufferSize: {alpha}]"),
            ),
        ] {
            assert_eq!(output(args).unwrap_err(), expected, "{args:?}");
        }
    }

    #[test]
    fn lines_wait_until_the_buffer_is_full_and_are_never_split() {
        let (buffer, mut out) = (Buffer { lines: Mutex::default(), most: 10 }, Vec::new());
        let mut add = |line: &str| {
            buffer.add(line.as_bytes(), &mut out).unwrap();
            String::from_utf8(out.clone()).unwrap()
        };
        assert_eq!(add("12345\n"), "");
        assert_eq!(add("678\n"), "");
        assert_eq!(add("9\n"), "12345\n678\n");
        assert_eq!(add("a long line\n"), "12345\n678\n9\na long line\n");
        let (none, mut out) = (Buffer { lines: Mutex::default(), most: 0 }, Vec::new());
        none.add(b"x\n", &mut out).unwrap();
        assert_eq!(out, b"x\n");
    }
}
