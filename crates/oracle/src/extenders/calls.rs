//! Recorded requests without random values.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use serde_json::Value;

/// Names of pods by UID.
pub type PodNames = BTreeMap<String, String>;

/// A call to an extender. UIDs are replaced by names, and times by `TIME`; nodes and errors about them are sorted by
/// name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ExtenderCall {
    /// Name of the extender.
    pub extender: String,
    /// Verb.
    pub verb: String,
    /// Name of the pod.
    pub pod: String,
    /// Body on a single line.
    pub body: String,
}

impl ExtenderCall {
    pub(super) fn new(extender: String, verb: String, mut body: Value, names: &PodNames) -> Self {
        let pod = body["Pod"]["metadata"]["name"].as_str().or(body["PodName"].as_str());
        let pod = pod.unwrap_or_default().to_owned();
        if let Some(names) = body.get_mut("NodeNames").and_then(Value::as_array_mut) {
            names.sort_by_key(|name| name.as_str().map(str::to_owned));
        }
        if let Some(nodes) = body.pointer_mut("/Nodes/items").and_then(Value::as_array_mut) {
            nodes.sort_by_key(|node| node["metadata"]["name"].as_str().map(str::to_owned));
        }
        normalise(&mut body, names);
        Self { extender, verb, pod, body: body.to_string() }
    }
}

static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$").ok());

/// Volumes of service account tokens, which have random names.
static TOKEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^kube-api-access-\w{5}$").ok());

/// Sorts the errors of several nodes (`[first, second]`) in a string, because kube-scheduler starts its search for
/// victims at a random node.
pub(crate) fn with_sorted_errors(text: String) -> String {
    let sorted = || {
        let (before, rest) = text.split_once(" [")?;
        let (list, after) = rest.rsplit_once(']')?;
        let mut errors: Vec<_> = list.split(", ").collect();
        errors.sort_unstable();
        Some(format!("{before} [{}]{after}", errors.join(", ")))
    };
    sorted().unwrap_or(text)
}

fn normalise(value: &mut Value, names: &PodNames) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "resourceVersion" if value.is_string() => *value = "VERSION".into(),
                    "uid" if value.as_str().is_some_and(|uid| !names.contains_key(uid)) => {
                        *value = "UID".into();
                    }
                    _ => normalise(value, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, names)),
        Value::String(text) => {
            let matches = |regex: &Option<Regex>| regex.as_ref().is_some_and(|regex| regex.is_match(text));
            if let Some(name) = names.get(text) {
                *text = format!("UID of {name}");
            } else if matches(&TIME) {
                "TIME".clone_into(text);
            } else if matches(&TOKEN) {
                "kube-api-access-?".clone_into(text);
            } else {
                *text = with_sorted_errors(std::mem::take(text));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn random_values_are_replaced_and_nodes_are_sorted() {
        let names = PodNames::from([("123".to_owned(), "web".to_owned())]);
        let body = json!({
            "Pod": {"metadata": {"name": "web", "uid": "123", "resourceVersion": "9",
                "creationTimestamp": "2030-01-01T00:00:00Z"}},
            "NodeNames": ["b", "a"],
        });
        let call = ExtenderCall::new("e".into(), "filter".into(), body, &names);
        assert_eq!(call.pod, "web");
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let expected = json!({
            "Pod": {"metadata": {"name": "web", "uid": "UID of web", "resourceVersion": "VERSION",
                "creationTimestamp": "TIME"}},
            "NodeNames": ["a", "b"],
        });
        assert_eq!(body["Pod"], expected["Pod"]);
        assert_eq!(body["NodeNames"], expected["NodeNames"]);
    }

    #[test]
    fn errors_of_several_nodes_are_sorted() {
        let sorted = |errors: &str| {
            with_sorted_errors(format!("0/2 nodes are available: 2 full. preemption: {errors}"))
        };
        assert_eq!(
            sorted(r#"[no victim on "b", no victim on "a"]"#),
            sorted(r#"[no victim on "a", no victim on "b"]"#)
        );
        assert_eq!(sorted("not helpful"), "0/2 nodes are available: 2 full. preemption: not helpful");
        assert_eq!(sorted("] ["), "0/2 nodes are available: 2 full. preemption: ] [");
    }
}
