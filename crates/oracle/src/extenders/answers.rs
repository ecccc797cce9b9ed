//! How an extender answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::components::ApiClient;
use crate::generate::Random;

/// Reasons why an extender may not want a pod on a node.
const REASONS: &[&str] = &["no licence", "too far away", "rack is being moved"];

/// An extender whose answers follow from its seed and the names in the
/// question, so that two schedulers that ask the same are told the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Character {
    /// Its path below the server's address.
    pub name: String,
    /// What its answers depend on.
    pub seed: u64,
    /// Out of 100 nodes, how many it turns down for a pod.
    pub strict: usize,
    /// Out of 100 pods, for how many each verb fails once.
    pub moody: usize,
    /// Whether it scores nodes by the number in their name, no two alike.
    pub ranks: bool,
    /// Whether its scores keep to 0 to 10 and to the nodes it was asked about.
    pub honest: bool,
    /// Whether it writes the names of fields in lower case, which Go reads as well.
    pub lower_case: bool,
}

/// What becomes of a request.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// 200 and this.
    Say(Value),
    /// 500.
    Break,
    /// The pod gets its node.
    Bind,
}

impl Character {
    /// `is_first` says whether a request about that pod has not failed yet.
    pub(super) fn answer(&self, verb: &str, body: &Value, is_first: impl Fn(&str) -> bool) -> Answer {
        let pod = body["Pod"]["metadata"]["name"].as_str().or(body["PodName"].as_str()).unwrap_or_default();
        let mut mood = self.random(&[verb, pod]);
        if mood.chance(self.moody) && is_first(pod) {
            return match verb {
                // A list has no place for an error.
                "prioritize" | "preempt" => Answer::Break,
                _ if mood.chance(40) => Answer::Break,
                _ => self.say(json!({"Error": format!("{} has no idea about {pod}", self.name)})),
            };
        }
        match verb {
            "filter" => self.say(self.filter(pod, body)),
            "prioritize" => self.say(self.prioritize(pod, body)),
            "preempt" => self.say(self.preempt(pod, body)),
            "bind" => Answer::Bind,
            _ => Answer::Break,
        }
    }

    fn say(&self, mut reply: Value) -> Answer {
        if self.lower_case {
            lower_first_level(&mut reply);
        }
        Answer::Say(reply)
    }

    fn filter(&self, pod: &str, body: &Value) -> Value {
        let (mut failed, mut hopeless, mut kept) = (Map::new(), Map::new(), Vec::new());
        for name in node_names(body) {
            let mut random = self.random(&["filter", pod, &name]);
            if !random.chance(self.strict) {
                kept.push(name);
            } else if random.chance(30) {
                hopeless.insert(name, (*random.pick(REASONS)).into());
            } else {
                failed.insert(name, (*random.pick(REASONS)).into());
            }
        }
        let mut reply = json!({"FailedNodes": failed, "FailedAndUnresolvableNodes": hopeless, "Error": ""});
        if body["NodeNames"].is_array() {
            reply["NodeNames"] = kept.into();
        } else {
            let items = body["Nodes"]["items"].as_array().into_iter().flatten();
            let is_kept = |node: &&Value| kept.iter().any(|name| node["metadata"]["name"] == name.as_str());
            reply["Nodes"] = json!({"items": items.filter(is_kept).collect::<Vec<_>>()});
        }
        reply
    }

    fn prioritize(&self, pod: &str, body: &Value) -> Value {
        let mut scores: Vec<Value> = Vec::new();
        for name in node_names(body) {
            let mut random = self.random(&["prioritize", pod, &name]);
            let score = if self.ranks {
                self.rank(pod, &name)
            } else if self.honest || random.chance(70) {
                i64::try_from(random.below(11)).unwrap_or(0)
            } else {
                i64::try_from(random.below(400)).unwrap_or(0) - 200
            };
            if self.honest || !random.chance(10) {
                scores.push(json!({"Host": name, "Score": score}));
            }
        }
        if !self.honest {
            scores.push(json!({"Host": "nobody-asked-about-this", "Score": 9}));
        }
        scores.into()
    }

    /// From 0 to 96; different for nodes whose numbers are below 97.
    fn rank(&self, pod: &str, node: &str) -> i64 {
        let number = node.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0_i64);
        let start = i64::try_from(self.random(&["rank", pod]).below(97)).unwrap_or(0);
        (number * 7 + start) % 97
    }

    fn preempt(&self, pod: &str, body: &Value) -> Value {
        let by_name = body["NodeNameToVictims"].as_object();
        let by_uid = body["NodeNameToMetaVictims"].as_object();
        let mut nodes = Map::new();
        for (name, victims) in by_name.or(by_uid).into_iter().flatten() {
            if self.random(&["preempt", pod, name]).chance(self.strict) {
                continue;
            }
            let uid = |victim: &Value| match &victim["metadata"]["uid"] {
                Value::Null => victim["UID"].clone(),
                uid => uid.clone(),
            };
            let pods = victims["Pods"].as_array().into_iter().flatten();
            let pods: Vec<Value> = pods.map(|victim| json!({"UID": uid(victim)})).collect();
            let victims = json!({"Pods": pods, "NumPDBViolations": victims["NumPDBViolations"]});
            nodes.insert(name.clone(), victims);
        }
        json!({"NodeNameToMetaVictims": nodes})
    }

    /// Depends on the seed and on `words`, in their order.
    fn random(&self, words: &[&str]) -> Random {
        // FNV-1a, with a separator that no name has.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ self.seed;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Random::new(hash)
    }
}

/// Gives a pod its node, as an extender that binds does.
pub(super) fn bind(client: &ApiClient, body: &Value) -> Value {
    let text = |field: &str| body[field].as_str().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{}/pods/{}/binding", text("PodNamespace"), text("PodName"));
    let binding = json!({
        "metadata": {"name": text("PodName"), "namespace": text("PodNamespace"), "uid": text("PodUID")},
        "target": {"kind": "Node", "name": text("Node")},
    });
    let error = client.post(&path, &binding).err().map(|error| error.to_string());
    json!({"Error": error.unwrap_or_default()})
}

fn node_names(body: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match body["NodeNames"].as_array() {
        Some(names) => names.iter().filter_map(text).collect(),
        None => {
            let nodes = body["Nodes"]["items"].as_array().into_iter().flatten();
            nodes.filter_map(|node| text(&node["metadata"]["name"])).collect()
        }
    }
}

fn lower_first_level(reply: &mut Value) {
    match reply {
        Value::Object(fields) => {
            *fields =
                std::mem::take(fields).into_iter().map(|(key, value)| (key.to_lowercase(), value)).collect();
        }
        Value::Array(items) => items.iter_mut().for_each(lower_first_level),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(nodes: &[&str]) -> Value {
        json!({"Pod": {"metadata": {"name": "web"}}, "Nodes": null, "NodeNames": nodes})
    }

    #[test]
    fn who_asks_in_another_order_is_told_the_same() {
        let character =
            Character { name: "e".into(), seed: 7, strict: 50, honest: true, ..Character::default() };
        let filter = |nodes: &[&str]| match character.answer("filter", &question(nodes), |_| true) {
            Answer::Say(reply) => (reply["FailedNodes"].clone(), reply["FailedAndUnresolvableNodes"].clone()),
            other => panic!("{other:?}"),
        };
        let names: Vec<String> = (0..40).map(|index| format!("n{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let backwards: Vec<&str> = names.iter().rev().copied().collect();
        assert_eq!(filter(&names), filter(&backwards));
        let (failed, hopeless) = filter(&names);
        let turned_down = failed.as_object().map_or(0, Map::len) + hopeless.as_object().map_or(0, Map::len);
        assert!((10..30).contains(&turned_down), "{turned_down}");
    }

    #[test]
    fn a_moody_extender_fails_once_for_a_pod() {
        let character = Character { name: "e".into(), moody: 100, ..Character::default() };
        let first = character.answer("filter", &question(&["n"]), |_| true);
        assert!(
            matches!(&first, Answer::Break) || matches!(&first, Answer::Say(reply) if reply["Error"] != "")
        );
        let second = character.answer("filter", &question(&["n"]), |_| false);
        assert!(matches!(second, Answer::Say(reply) if reply["NodeNames"] == json!(["n"])));
    }
}
