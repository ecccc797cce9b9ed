//! A request without what is chance.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use serde_json::Value;

/// The names of pods by UID.
pub type Names = BTreeMap<String, String>;

/// What an extender was asked. Names are in place of UIDs, `TIME` in place of
/// times, and nodes are in the order of their names, as are errors about them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Asked {
    /// The extender's name.
    pub extender: String,
    /// What was asked for.
    pub verb: String,
    /// The pod's name.
    pub pod: String,
    /// The body, in one line.
    pub body: String,
}

impl Asked {
    pub(super) fn new(extender: String, verb: String, mut body: Value, names: &Names) -> Self {
        let pod = body["Pod"]["metadata"]["name"].as_str().or(body["PodName"].as_str());
        let pod = pod.unwrap_or_default().to_owned();
        if let Some(names) = body.get_mut("NodeNames").and_then(Value::as_array_mut) {
            names.sort_by_key(|name| name.as_str().map(str::to_owned));
        }
        if let Some(nodes) = body.pointer_mut("/Nodes/items").and_then(Value::as_array_mut) {
            nodes.sort_by_key(|node| node["metadata"]["name"].as_str().map(str::to_owned));
        }
        make_certain(&mut body, names);
        Self { extender, verb, pod, body: body.to_string() }
    }
}

static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$").ok());

/// Volumes of service accounts' tokens have random names.
static TOKEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^kube-api-access-\w{5}$").ok());

/// The text with the errors of several nodes, `[first, second]`, in the order of their words: kube-scheduler begins to look
/// for victims at a node by chance.
pub(crate) fn in_order(text: String) -> String {
    let sorted = || {
        let (before, rest) = text.split_once(" [")?;
        let (list, after) = rest.rsplit_once(']')?;
        let mut errors: Vec<_> = list.split(", ").collect();
        errors.sort_unstable();
        Some(format!("{before} [{}]{after}", errors.join(", ")))
    };
    sorted().unwrap_or(text)
}

fn make_certain(value: &mut Value, names: &Names) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "resourceVersion" if value.is_string() => *value = "VERSION".into(),
                    "uid" if value.as_str().is_some_and(|uid| !names.contains_key(uid)) => {
                        *value = "UID".into();
                    }
                    _ => make_certain(value, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| make_certain(item, names)),
        Value::String(text) => {
            let matches = |regex: &Option<Regex>| regex.as_ref().is_some_and(|regex| regex.is_match(text));
            if let Some(name) = names.get(text) {
                *text = format!("UID of {name}");
            } else if matches(&TIME) {
                "TIME".clone_into(text);
            } else if matches(&TOKEN) {
                "kube-api-access-?".clone_into(text);
            } else {
                *text = in_order(std::mem::take(text));
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
    fn chance_is_taken_out_and_everything_else_stays() {
        let names = Names::from([("123".to_owned(), "web".to_owned())]);
        let body = json!({
            "Pod": {"metadata": {"name": "web", "uid": "123", "resourceVersion": "9",
                "creationTimestamp": "2030-01-01T00:00:00Z"}},
            "NodeNames": ["b", "a"],
        });
        let asked = Asked::new("e".into(), "filter".into(), body, &names);
        assert_eq!(asked.pod, "web");
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        let expected = json!({
            "Pod": {"metadata": {"name": "web", "uid": "UID of web", "resourceVersion": "VERSION",
                "creationTimestamp": "TIME"}},
            "NodeNames": ["a", "b"],
        });
        assert_eq!(body["Pod"], expected["Pod"]);
        assert_eq!(body["NodeNames"], expected["NodeNames"]);
    }

    #[test]
    fn errors_of_several_nodes_come_in_any_order() {
        let said = |errors: &str| in_order(format!("0/2 nodes are available: 2 full. preemption: {errors}"));
        assert_eq!(
            said(r#"[no victim on "b", no victim on "a"]"#),
            said(r#"[no victim on "a", no victim on "b"]"#)
        );
        assert_eq!(said("not helpful"), "0/2 nodes are available: 2 full. preemption: not helpful");
        assert_eq!(said("] ["), "0/2 nodes are available: 2 full. preemption: ] [");
    }
}
