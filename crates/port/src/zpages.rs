//! `/flagz`, `/statusz` and `/debug/flags`: pages for debugging.

use std::{
    fmt::Write,
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    pages::{RequestInfo, SetVerbosity},
    query,
    reply::{self, Reply, quoted},
};

/// Component name that dashboards expect.
const COMPONENT: &str = "kube-scheduler";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";
const GROUP: &str = "config.k8s.io";
/// API versions of the JSON form of these pages; `v1alpha1` is deprecated.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];

/// A flag with its value as a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// Value, formatted as Go formats flags.
    pub value: String,
}

/// Content of `/statusz`.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) version: &'static str,
    pub(crate) emulates: Arc<OnceLock<String>>,
    pub(crate) started: SystemTime,
    pub(crate) paths: Vec<String>,
}

impl Status {
    pub(crate) fn started_unix(&self) -> u64 {
        self.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    fn uptime(&self) -> u64 {
        SystemTime::now().duration_since(self.started).unwrap_or_default().as_secs()
    }
}

pub(crate) fn flagz(flags: &[Flag], asked: &RequestInfo<'_>) -> Reply {
    let text = || {
        let mut text = format!("\n{COMPONENT} flagz\n{WARNING}\n");
        for flag in flags {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}={}", flag.name, flag.value);
        }
        text
    };
    let object = || {
        let flags: serde_json::Map<String, Value> =
            flags.iter().map(|flag| (flag.name.to_owned(), flag.value.clone().into())).collect();
        json!({"flags": flags})
    };
    in_form("flagz", "Flagz", asked, text, object)
}

pub(crate) fn statusz(status: &Status, asked: &RequestInfo<'_>) -> Reply {
    let text = || {
        let up = status.uptime();
        let emulates = status.emulates.get().map(|version| format!("Emulation version: {version}\n"));
        format!(
            "\n{COMPONENT} statusz\n{WARNING}\n\n\
             Started: {}\nUp: {} hr {:02} min {:02} sec\nGo version: none\nBinary version: {} (harbormaster)\n\
             {}Paths: {}\n",
            unix_date(status.started_unix()),
            up / 3600,
            up / 60 % 60,
            up % 60,
            status.version,
            emulates.unwrap_or_default(),
            status.paths.join(" ")
        )
    };
    let object = || {
        let mut object = json!({
            "startTime": rfc3339(status.started_unix()),
            "uptimeSeconds": status.uptime(),
            "goVersion": "",
            "binaryVersion": status.version,
            "paths": status.paths,
        });
        if let Some(version) = status.emulates.get() {
            object["emulationVersion"] = version.as_str().into();
        }
        object
    };
    in_form("statusz", "Statusz", asked, text, object)
}

/// Returns a page in the form that the client requests: plain text or a JSON object.
fn in_form(
    page: &str,
    kind: &str,
    asked: &RequestInfo<'_>,
    text: impl FnOnce() -> String,
    fields: impl FnOnce() -> Value,
) -> Reply {
    match wanted(asked, kind) {
        Some(Form::Text) => reply::text(StatusCode::OK, text()),
        Some(Form::Json(version)) => {
            let mut object = json!({
                "kind": kind,
                "apiVersion": format!("{GROUP}/{version}"),
                "metadata": {"name": COMPONENT},
            });
            if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields()) {
                object.extend(fields);
            }
            let written = match wants_indent(asked) {
                true => serde_json::to_string_pretty(&object),
                false => serde_json::to_string(&object).map(|text| text + "\n"),
            };
            let content_type = format!("application/json;g={GROUP};v={version};as={kind}");
            let mut reply = reply::typed(StatusCode::OK, &content_type, written.unwrap_or_default());
            if version == VERSIONS[0] {
                let warning = format!(
                    "299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\""
                );
                reply
                    .headers_mut()
                    .extend(HeaderValue::from_str(&warning).ok().map(|w| (header::WARNING, w)));
            }
            reply
        }
        None => reply::Status::not_acceptable("application/json, text/plain").reply(wants_indent(asked)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    /// JSON in the given API version.
    Json(&'static str),
}

/// Returns the first supported form in `Accept`; weights are ignored, since clients usually name one form.
fn wanted(asked: &RequestInfo<'_>, kind: &str) -> Option<Form> {
    let accept = asked.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    accept.split(',').find_map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter =
            |name: &str| parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let converts = ["as", "g", "v"].iter().any(|name| parameter(name).is_some());
        match media.as_str() {
            "*/*" | "text/*" | "text/plain" if !converts => Some(Form::Text),
            "*/*" | "application/*" | "application/json"
                if parameter("as") == Some(kind) && parameter("g") == Some(GROUP) =>
            {
                VERSIONS.into_iter().find(|known| parameter("v") == Some(known)).map(Form::Json)
            }
            _ => None,
        }
    })
}

/// Returns true if JSON should be indented for readability: on request, or for browsers, curl and Wget.
fn wants_indent(asked: &RequestInfo<'_>) -> bool {
    let said =
        query::pairs(asked.query).into_iter().find(|(name, value)| name == "pretty" && !value.is_empty());
    if let Some((_, value)) = said {
        return matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent =
        asked.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|beginning| agent.starts_with(beginning))
}

/// Returns true if a JSON error should be indented: under the same conditions as other JSON, and also if the client
/// does not accept JSON, which is the form of every error.
pub(crate) fn error_wants_indent(asked: &RequestInfo<'_>) -> bool {
    let accept = asked.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let takes_json = |media: &str| matches!(media, "*/*" | "application/*" | "application/json");
    wants_indent(asked) || !(accept.trim().is_empty() || media.into_iter().any(takes_json))
}

/// Answers `PUT /debug/flags/v`; `body` is absent for other methods.
pub(crate) fn verbosity(set: &SetVerbosity, body: Option<Result<Bytes, String>>) -> Reply {
    let plain = |code, text: &str| reply::nosniff(reply::typed(code, "text/plain", format!("{text}\n")));
    let body = match body {
        None => return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method"),
        Some(Err(why)) => {
            return plain(StatusCode::BAD_REQUEST, &format!("error reading request body: {why}"));
        }
        Some(Ok(body)) => body,
    };
    let text = String::from_utf8_lossy(&body);
    let wrong =
        |why| plain(StatusCode::BAD_REQUEST, &format!("strconv.ParseUint: parsing {}: {why}", quoted(&text)));
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return wrong("invalid syntax");
    }
    let Ok(level) = text.parse::<u32>() else { return wrong("value out of range") };
    set(level);
    plain(StatusCode::OK, &format!("successfully set klog.logging.verbosity to {text}"))
}

/// Answers `/debug/flags`, which lists the only flag.
pub(crate) fn flag_index() -> Reply {
    const PAGE: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\n\
                        flags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";
    reply::typed(StatusCode::OK, "text/html; charset=utf-8", PAGE.to_owned())
}

/// Answers `/debug/pprof` by explaining the alternatives to a Go program's profiles.
pub(crate) fn no_profile(is_index: bool) -> Reply {
    const WHY: &str = "No profiles are served here, because this is not a Go program. To see where CPU time goes, \
                       profile the process on the node, for example with: perf record -g -p PID (the program contains \
                       the names of its functions). To see where pods spend their time, see \"Traces\" in \
                       docs/operating.md.";
    if is_index {
        reply::text(StatusCode::OK, format!("{WHY}\n"))
    } else {
        reply::error(StatusCode::NOT_FOUND, WHY)
    }
}

/// A date and time in UTC, from seconds since 1970.
struct Moment {
    year: u64,
    month: u64,
    day: u64,
    weekday: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Moment {
    fn of(unix: u64) -> Self {
        let (days, rest) = (unix / 86_400, unix % 86_400);
        // Counts in eras of 400 years and in years that begin in March, so that a leap day is the last day of its year.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march = (5 * of_year + 2) / 153;
        let month = if march < 10 { march + 3 } else { march - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * march + 2) / 5 + 1,
            weekday: (days + 4) % 7,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }
}

/// Formats a time like `Sun Nov 22 17:17:26 UTC 2026`.
fn unix_date(unix: u64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Moment { year, month, day, weekday, hour, minute, second } = Moment::of(unix);
    let name =
        |names: &[&'static str], at: u64| usize::try_from(at).ok().and_then(|at| names.get(at).copied());
    let weekday = name(&DAYS, weekday).unwrap_or_default();
    let month = name(&MONTHS, month - 1).unwrap_or_default();
    format!("{weekday} {month} {day:>2} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

/// Formats a time like `2026-11-22T17:17:26Z`.
fn rfc3339(unix: u64) -> String {
    let Moment { year, month, day, hour, minute, second, .. } = Moment::of(unix);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::{HeaderMap, Method};

    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        for (unix, date, short) in [
            (0, "Thu Jan  1 00:00:00 UTC 1970", "1970-01-01T00:00:00Z"),
            (951_782_400, "Tue Feb 29 00:00:00 UTC 2000", "2000-02-29T00:00:00Z"),
            (1_795_367_846, "Sun Nov 22 17:17:26 UTC 2026", "2026-11-22T17:17:26Z"),
        ] {
            assert_eq!((unix_date(unix), rfc3339(unix)), (date.to_owned(), short.to_owned()));
        }
    }

    #[test]
    fn clients_get_the_form_that_they_request() {
        let json = |version| Some(Form::Json(version));
        for (accept, expected) in [
            ("", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("text/plain", Some(Form::Text)),
            ("text/html, text/*;q=0.5", Some(Form::Text)),
            ("application/json", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz", json("v1beta1")),
            ("application/json; as=Statusz; v=v1alpha1; g=config.k8s.io", json("v1alpha1")),
            ("application/json;v=v2;g=config.k8s.io;as=Statusz", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz, */*", Some(Form::Text)),
        ] {
            let headers: HeaderMap = [(header::ACCEPT, accept.parse().unwrap())].into_iter().collect();
            let asked = RequestInfo { method: &Method::GET, path: "/statusz", query: "", headers: &headers };
            assert_eq!(wanted(&asked, "Statusz"), expected, "{accept}");
        }
    }

    #[test]
    fn the_verbosity_is_a_number() {
        let level = Arc::new(AtomicU32::new(0));
        let kept = level.clone();
        let set: SetVerbosity = Arc::new(move |v| kept.store(v, Ordering::Relaxed));
        let put =
            |body: &'static str| verbosity(&set, Some(Ok(Bytes::from_static(body.as_bytes())))).status();
        assert_eq!(put("7"), 200);
        for wrong in ["", "x", "-1", "1 ", "99999999999"] {
            assert_eq!(put(wrong), 400, "{wrong:?}");
        }
        assert_eq!(level.load(Ordering::Relaxed), 7);
        assert_eq!(verbosity(&set, None).status(), 406);
    }
}
