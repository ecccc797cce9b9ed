//! The flags that restrict metrics and labels: `--disabled-metrics`, `--show-hidden-metrics-for-version`,
//! `--allow-metric-labels` and `--allow-metric-labels-manifest`.

use std::{collections::BTreeMap, fs, io::ErrorKind};

use harbormaster_api::Release;
use harbormaster_driver::metrics::{AllowedLabelValues, Limits};
use serde_json::{Value, json};

use super::flags::Flags;

const METRIC: &str = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const LABEL: &str = "[a-zA-Z_][a-zA-Z0-9_]*";

/// Allowed values of labels, keyed by `metric,label`.
pub(super) type Pairs = BTreeMap<String, String>;

/// Reads the flags.
///
/// # Errors
///
/// Returns the message of the release's kube-scheduler for each invalid value.
pub(super) fn limits(given: &Flags, release: Release) -> Result<Limits, String> {
    let disabled: Vec<String> = given.disabled_metrics.get().texts().flat_map(csv).collect();
    let pairs = given.allow_metric_labels.get().pairs();
    let manifest = given.allow_metric_labels_manifest.get();
    let listed = read_manifest(manifest);
    let mut wrong: Vec<String> = Vec::new();
    let shown_version = given.show_hidden_metrics_for_version.get();
    wrong.extend(wrong_version(shown_version, release));
    wrong.extend(wrong_name(&disabled));
    wrong.extend(wrong_keys(pairs, "metrics.allowListMapping"));
    wrong.extend(listed.as_ref().err().cloned());
    if !pairs.is_empty() && !manifest.is_empty() {
        let both = json!({ "allowListMapping": pairs, "allowListMappingManifest": manifest });
        wrong.push(format!(
            "metrics: Invalid value: {both}: cannot specify both allowListMapping and allowListMappingManifest"
        ));
    }
    match wrong.as_slice() {
        [] => {}
        [only] => return Err(only.clone()),
        _ => return Err(format!("[{}]", wrong.join(", "))),
    }
    let allowed = if manifest.is_empty() { allowed(pairs) } else { allowed(&listed.unwrap_or_default()) };
    Ok(Limits::new(disabled, allowed).with_hidden(!shown_version.is_empty()))
}

fn wrong_name(disabled: &[String]) -> Option<String> {
    let name = disabled.iter().find(|name| !is_metric(name))?;
    let all = json!(disabled);
    Some(format!(
        "metrics.disabledMetrics: Invalid value: {all}: must be fully qualified metric names matching \"^{METRIC}$\", got \
         {name:?}"
    ))
}

fn wrong_version(version: &str, release: Release) -> Option<String> {
    let previous = format!("1.{}", release.minor() - 1);
    (!version.is_empty() && version != previous).then(|| {
        format!(
            "metrics.showHiddenMetricsForVersion: Invalid value: {version:?}: must be omitted or have the value '{previous}'; \
             only the previous minor version is allowed"
        )
    })
}

fn wrong_keys(pairs: &Pairs, field: &str) -> Option<String> {
    let is_key = |key: &String| {
        key.split_once(',').is_some_and(|(metric, label)| is_metric(metric) && is_label(label))
    };
    if pairs.keys().all(is_key) {
        return None;
    }
    let pairs = json!(pairs);
    Some(format!(
        "{field}: Invalid value: {pairs}: must have keys with format `metricName,labelName` where metricName matches \
         {METRIC:?} and labelName matches {LABEL:?}"
    ))
}

/// Reads a manifest with the same pairs as the flag. The pairs are either at the top level, where kube-scheduler reads
/// them, or under `allowListMapping`, where kube-scheduler's help says they belong.
fn read_manifest(path: &str) -> Result<Pairs, String> {
    const FIELD: &str = "metrics.allowListMappingManifest";
    if path.is_empty() {
        return Ok(Pairs::new());
    }
    let wrong = |why: String| format!("{FIELD}: Invalid value: {path:?}: {why}");
    let text = fs::read_to_string(path).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::NotFound => "no such file or directory".to_owned(),
            _ => error.to_string(),
        };
        wrong(format!("failed to read allow list manifest: open {path}: {why}"))
    })?;
    let unreadable = |why: String| wrong(format!("failed to parse allow list manifest: {why}"));
    if text.trim().is_empty() {
        return Ok(Pairs::new());
    }
    let value = harbormaster_yaml::parse(&text).map_err(|error| unreadable(error.to_string()))?.into_json();
    let mapping = value.get("allowListMapping").filter(|mapping| mapping.is_object()).unwrap_or(&value);
    let Value::Object(mapping) = mapping else {
        return Err(unreadable("it must map strings to strings".to_owned()));
    };
    let mut pairs = Pairs::new();
    for (key, values) in mapping {
        let values = match values {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            Value::Bool(_) | Value::Number(_) => values.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return Err(unreadable(format!("the value of {key:?} must be a string")));
            }
        };
        pairs.insert(key.clone(), values);
    }
    match wrong_keys(&pairs, FIELD) {
        Some(why) => Err(wrong(format!("invalid allow list mapping in manifest: [{why}]"))),
        None => Ok(pairs),
    }
}

fn allowed(pairs: &Pairs) -> AllowedLabelValues {
    let entry = |(key, values): (&String, &String)| {
        let (metric, label) = key.split_once(',')?;
        Some(((metric.to_owned(), label.to_owned()), values.split(',').map(str::to_owned).collect()))
    };
    pairs.iter().filter_map(entry).collect()
}

/// Parses the pairs of one `--allow-metric-labels` flag. A value with a single `=` is one pair, even if it contains
/// commas.
///
/// # Errors
///
/// Names the entry that is not a pair.
pub(super) fn pairs(text: &str) -> Result<Pairs, String> {
    let entries = match text.matches('=').count() {
        0 => return Err(format!("{text} must be formatted as key=value")),
        1 => vec![text.trim_matches('"').to_owned()],
        _ => csv(text),
    };
    let pair = |entry: String| match entry.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(format!("{entry} must be formatted as key=value")),
    };
    entries.into_iter().map(pair).collect()
}

/// Splits a string at commas outside quotes, and removes the quotes. An empty string has no entries.
fn csv(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let (mut entries, mut entry, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => entries.push(std::mem::take(&mut entry)),
            c => entry.push(c),
        }
    }
    entries.push(entry);
    entries
}

fn is_metric(name: &str) -> bool {
    is_word(name, |c| c.is_ascii_alphabetic() || c == '_' || c == ':')
}

fn is_label(name: &str) -> bool {
    is_word(name, |c| c.is_ascii_alphabetic() || c == '_')
}

fn is_word(text: &str, may_begin: impl Fn(char) -> bool) -> bool {
    text.starts_with(&may_begin) && text.chars().all(|c| may_begin(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::commands::flags::{self, Read};

    fn read(args: &[&str]) -> Result<Limits, String> {
        match flags::read("run", args.iter().map(OsString::from)) {
            Read::Flags(given) => limits(&given, Release::V1_36),
            other => panic!("{other:?}"),
        }
    }

    fn in_file(text: &str) -> Result<Limits, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.yaml");
        fs::write(&path, text).unwrap();
        let path = path.to_string_lossy();
        read(&[&format!("--allow-metric-labels-manifest={path}")]).map_err(|why| why.replace(&*path, "M"))
    }

    #[test]
    fn labels_are_given_by_flags_or_by_a_manifest() {
        let expected = format!("{:?}", read(&["--allow-metric-labels=a,b=c,d"]).unwrap());
        assert!(expected.contains("(\"a\", \"b\"): {\"c\", \"d\"}"), "{expected}");
        let same = [
            read(&["--allow-metric-labels=\"a,b=c,d\""]),
            read(&["--allow-metric-labels=a,b=x", "--allow-metric-labels=a,b=c,d"]),
            in_file("\"a,b\": \"c,d\"\n"),
            in_file("allowListMapping:\n  \"a,b\": \"c,d\"\n"),
        ];
        for limits in same {
            assert_eq!(format!("{:?}", limits.unwrap()), expected);
        }
        let two = pairs("\"a,b=c,d\",\"e,f=g\"").unwrap();
        assert_eq!(two.keys().collect::<Vec<_>>(), ["a,b", "e,f"]);
        for none in [read(&[]), read(&["--disabled-metrics="]), in_file("")] {
            assert_eq!(format!("{:?}", none.unwrap()), format!("{:?}", Limits::default()));
        }
        assert!(read(&["--disabled-metrics=a,b", "--show-hidden-metrics-for-version=1.35"]).is_ok());
    }

    #[test]
    fn invalid_values_are_rejected_with_kube_schedulers_messages() {
        const KEYS: &str = "must have keys with format `metricName,labelName` where metricName matches \
                            \"[a-zA-Z_:][a-zA-Z0-9_:]*\" and labelName matches \"[a-zA-Z_][a-zA-Z0-9_]*\"";
        let version = "metrics.showHiddenMetricsForVersion: Invalid value: \"1.30\": must be omitted or have the value \
                       '1.35'; only the previous minor version is allowed";
        let name = "metrics.disabledMetrics: Invalid value: [\"x\",\"a-b\"]: must be fully qualified metric names matching \
                    \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\", got \"a-b\"";
        let keys = format!("metrics.allowListMapping: Invalid value: {{\"a\":\"b\"}}: {KEYS}");
        for (args, expected) in [
            (&["--show-hidden-metrics-for-version=1.30"][..], version.to_owned()),
            (&["--disabled-metrics=x,a-b"], name.to_owned()),
            (&["--allow-metric-labels=a=b"], keys.clone()),
            (
                &["--allow-metric-labels=a=b", "--disabled-metrics=x,a-b", "--show-hidden-metrics-for-version=1.30"],
                format!("[{version}, {name}, {keys}]"),
            ),
            (
                &["--allow-metric-labels-manifest=/nope"],
                "metrics.allowListMappingManifest: Invalid value: \"/nope\": failed to read allow list manifest: open \
                 /nope: no such file or directory"
                    .to_owned(),
            ),
        ] {
            assert_eq!(read(args).unwrap_err(), expected, "{args:?}");
        }
        assert_eq!(
            in_file("\"a\": 5\n").unwrap_err(),
            format!(
                "metrics.allowListMappingManifest: Invalid value: \"M\": invalid allow list mapping in manifest: \
                 [metrics.allowListMappingManifest: Invalid value: {{\"a\":\"5\"}}: {KEYS}]"
            )
        );
        assert!(in_file("[]\n").unwrap_err().contains("failed to parse allow list manifest"));
    }
}
