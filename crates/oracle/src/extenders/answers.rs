//! An extender's answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::components::ApiClient;
use crate::generate::Random;

/// Reasons that extenders give for rejecting a node.
const REASONS: &[&str] = &["no licence", "too far away", "rack is being moved"];

/// Behaviour of an extender. The answers depend only on the character, on the request and on whether the verb has
/// failed for the pod before, so two schedulers that send the same requests get the same answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Character {
    /// Name, which is also the extender's path on the server.
    pub name: String,
    /// Seed of the answers.
    pub seed: u64,
    /// Percentage of nodes that the extender rejects for a pod.
    pub strict: usize,
    /// Percentage of pods for which each verb fails once.
    pub moody: usize,
    /// True if the extender gives every node a different score. The scores are derived from the numbers in the nodes'
    /// names, which must be below 97.
    pub ranks: bool,
    /// True if the extender scores every node in the request and no other nodes. Scores are then between 0 and 10,
    /// unless `ranks` is set.
    pub honest: bool,
    /// True if the extender writes field names in lower case, which Go accepts.
    pub lower_case: bool,
}

/// Answer to a request.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Status 200 with a body.
    Reply(Value),
    /// Status 500.
    Fail,
    /// The caller must bind the pod to its node and reply with the result.
    Bind,
}

impl Character {
    /// Answers a request. `is_first` receives the pod's name, records that a request with this verb failed for the pod,
    /// and returns true if none had failed before.
    pub(super) fn answer(&self, verb: &str, body: &Value, is_first: impl Fn(&str) -> bool) -> Answer {
        let pod = body["Pod"]["metadata"]["name"].as_str().or(body["PodName"].as_str()).unwrap_or_default();
        let mut mood = self.random(&[verb, pod]);
        if mood.chance(self.moody) && is_first(pod) {
            return match verb {
                // The responses to these verbs have no field for an error.
                "prioritize" | "preempt" => Answer::Fail,
                _ if mood.chance(40) => Answer::Fail,
                _ => self.reply(json!({"Error": format!("{} has no idea about {pod}", self.name)})),
            };
        }
        match verb {
            "filter" => self.reply(self.filter(pod, body)),
            "prioritize" => self.reply(self.prioritize(pod, body)),
            "preempt" => self.reply(self.preempt(pod, body)),
            "bind" => Answer::Bind,
            _ => Answer::Fail,
        }
    }

    fn reply(&self, mut reply: Value) -> Answer {
        if self.lower_case {
            lower_first_level(&mut reply);
        }
        Answer::Reply(reply)
    }

    fn filter(&self, pod: &str, body: &Value) -> Value {
        let (mut failed, mut unresolvable, mut feasible) = (Map::new(), Map::new(), Vec::new());
        for name in node_names(body) {
            let mut random = self.random(&["filter", pod, &name]);
            if !random.chance(self.strict) {
                feasible.push(name);
            } else if random.chance(30) {
                unresolvable.insert(name, (*random.pick(REASONS)).into());
            } else {
                failed.insert(name, (*random.pick(REASONS)).into());
            }
        }
        let mut reply =
            json!({"FailedNodes": failed, "FailedAndUnresolvableNodes": unresolvable, "Error": ""});
        if body["NodeNames"].is_array() {
            reply["NodeNames"] = feasible.into();
        } else {
            let items = body["Nodes"]["items"].as_array().into_iter().flatten();
            let is_feasible =
                |node: &&Value| feasible.iter().any(|name| node["metadata"]["name"] == name.as_str());
            reply["Nodes"] = json!({"items": items.filter(is_feasible).collect::<Vec<_>>()});
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

    /// Score from 0 to 96 that differs between nodes with numbers below 97.
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

    /// Random numbers that depend on the seed, on `words` and on their order.
    fn random(&self, words: &[&str]) -> Random {
        // FNV-1a, with a separator that no name contains.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ self.seed;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Random::new(hash)
    }
}

/// Binds a pod to its node.
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

    fn request(nodes: &[&str]) -> Value {
        json!({"Pod": {"metadata": {"name": "web"}}, "Nodes": null, "NodeNames": nodes})
    }

    #[test]
    fn answers_do_not_depend_on_the_order_of_nodes() {
        let character =
            Character { name: "e".into(), seed: 7, strict: 50, honest: true, ..Character::default() };
        let filter = |nodes: &[&str]| match character.answer("filter", &request(nodes), |_| true) {
            Answer::Reply(reply) => {
                (reply["FailedNodes"].clone(), reply["FailedAndUnresolvableNodes"].clone())
            }
            other => panic!("{other:?}"),
        };
        let names: Vec<String> = (0..40).map(|index| format!("n{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let backwards: Vec<&str> = names.iter().rev().copied().collect();
        assert_eq!(filter(&names), filter(&backwards));
        let (failed, unresolvable) = filter(&names);
        let rejected = failed.as_object().map_or(0, Map::len) + unresolvable.as_object().map_or(0, Map::len);
        assert!((10..30).contains(&rejected), "{rejected}");
    }

    #[test]
    fn a_moody_extender_fails_once_for_a_pod() {
        let character = Character { name: "e".into(), moody: 100, ..Character::default() };
        let first = character.answer("filter", &request(&["n"]), |_| true);
        assert!(
            matches!(&first, Answer::Fail) || matches!(&first, Answer::Reply(reply) if reply["Error"] != "")
        );
        let second = character.answer("filter", &request(&["n"]), |_| false);
        assert!(matches!(second, Answer::Reply(reply) if reply["NodeNames"] == json!(["n"])));
    }
}
