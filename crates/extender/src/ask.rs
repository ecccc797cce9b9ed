//! Requests and answers for the filter and prioritize verbs.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Error,
    object::{Node, Pod},
    wire::{ExtenderArgs, ExtenderFilterResult, HostPriority, ListMeta, NodeList, RawObject},
};

/// The highest score that an extender should give; the lowest is 0.
pub const MAX_SCORE: i64 = 10;

/// A pod and the nodes that fit so far. Clones share the data.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The pod that is being scheduled.
    pub pod: Arc<Pod>,
    /// The nodes, in the scheduler's order.
    pub nodes: Arc<[Candidate]>,
    form: Form,
}

/// The form of the nodes in the request and the answer.
#[derive(Clone, Debug)]
struct Form {
    objects: Option<ListMeta>,
    names: bool,
}

/// A node in a request: its name, and the object if the scheduler sent it.
#[derive(Clone, Debug)]
pub struct Candidate {
    name: String,
    node: Option<Node>,
}

impl Candidate {
    /// Returns the node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the node; `None` if the scheduler sends names only (`nodeCacheCapable: true`).
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Returns the value of a label, or `None` if the node has no such label or the scheduler sends names only; see
    /// [`Ask::need_objects`].
    pub fn label(&self, key: &str) -> Option<&str> {
        self.node.as_ref()?.metadata.label(key)
    }

    /// Returns the value of an annotation; see [`Candidate::label`].
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.node.as_ref()?.metadata.annotation(key)
    }
}

/// The reason a node does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    reason: String,
    unresolvable: bool,
}

impl Reject {
    /// Returns a reason that evicting other pods might remove.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), unresolvable: false }
    }

    /// Returns a reason that evicting other pods cannot remove, so no pod on the node is evicted.
    pub fn unresolvable(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), unresolvable: true }
    }
}

/// Answer to a filter request: verdicts keyed by node name. Nodes without a verdict do not fit, and no reason is
/// given for them.
#[derive(Clone, Debug, Default)]
pub struct Filtered {
    /// The verdict for each node: whether the node fits, and if not, the reason.
    pub verdicts: BTreeMap<String, Result<(), Reject>>,
}

/// Answer to a prioritize request: node names with scores from 0 to [`MAX_SCORE`]. Nodes without a score get 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scores(pub Vec<(String, i64)>);

impl FromIterator<(String, i64)> for Scores {
    fn from_iter<I: IntoIterator<Item = (String, i64)>>(scores: I) -> Self {
        Self(scores.into_iter().collect())
    }
}

impl Ask {
    /// Converts a request from the wire format.
    ///
    /// # Errors
    /// If a value is missing or invalid; the error contains its path.
    pub fn new(args: ExtenderArgs) -> Result<Self, String> {
        let pod = args.pod.ok_or("Pod: missing")?;
        let pod = Pod::at("Pod", pod)?;
        let form = Form {
            objects: args.nodes.as_ref().map(|list| list.metadata.clone()),
            names: args.node_names.is_some() || args.nodes.is_none(),
        };
        let mut nodes = Vec::new();
        for (at, object) in args.nodes.and_then(|list| list.items).into_iter().flatten().enumerate() {
            nodes.push(Candidate::of_object(&format!("Nodes.items[{at}]"), object)?);
        }
        // No known scheduler sends both. If a request contains both, the objects provide the names.
        if nodes.is_empty() {
            nodes.extend(args.node_names.into_iter().flatten().map(Candidate::of_name));
        }
        Ok(Self { pod: Arc::new(pod), nodes: nodes.into(), form })
    }

    /// Checks that the request contains nodes as objects.
    ///
    /// # Errors
    /// If the scheduler sends names only; the error explains which setting to change.
    pub fn need_objects(&self) -> Result<(), Error> {
        match self.nodes.iter().any(|candidate| candidate.node.is_none()) {
            true => Err(Error::new(
                "this extender needs node objects, and the scheduler sends names only: \
                 set nodeCacheCapable: false for it in the scheduler's configuration",
            )),
            false => Ok(()),
        }
    }

    /// Calls `fits` for every node and returns the verdicts.
    pub fn filter(&self, mut fits: impl FnMut(&Candidate) -> Result<(), Reject>) -> Filtered {
        let verdicts = self.nodes.iter().map(|node| (node.name.clone(), fits(node)));
        Filtered { verdicts: verdicts.collect() }
    }

    /// Calls `score` for every node and returns the scores. `score` must return a value from 0 to [`MAX_SCORE`].
    pub fn score(&self, mut score: impl FnMut(&Candidate) -> i64) -> Scores {
        self.nodes.iter().map(|node| (node.name.clone(), score(node))).collect()
    }

    /// Returns the answer in the wire format, with nodes in the form of the request.
    pub(crate) fn answer(&self, filtered: Filtered) -> Result<ExtenderFilterResult, Error> {
        let mut verdicts = filtered.verdicts;
        let mut kept = Vec::new();
        let (mut failed, mut unresolvable) = (BTreeMap::new(), BTreeMap::new());
        for candidate in &*self.nodes {
            match verdicts.remove(&candidate.name) {
                Some(Ok(())) => kept.push(candidate),
                Some(Err(reject)) => {
                    let list = if reject.unresolvable { &mut unresolvable } else { &mut failed };
                    list.insert(candidate.name.clone(), reject.reason);
                }
                None => {}
            }
        }
        if let Some((stranger, _)) = verdicts.pop_first() {
            return Err(Error::new(format!(
                "the extender's answer names node {stranger:?}, which is not in the request"
            )));
        }
        let objects = |metadata: &ListMeta| NodeList {
            metadata: metadata.clone(),
            items: Some(
                kept.iter().map(|node| node.node.as_ref().map(|node| node.json().to_owned())).collect(),
            ),
        };
        Ok(ExtenderFilterResult {
            nodes: self.form.objects.as_ref().map(objects),
            node_names: self.form.names.then(|| kept.iter().map(|node| node.name.clone()).collect()),
            failed_nodes: Some(failed),
            failed_and_unresolvable_nodes: Some(unresolvable),
            error: String::new(),
        })
    }
}

impl Candidate {
    fn of_object(place: &str, object: Option<RawObject>) -> Result<Self, String> {
        let missing = || format!("{place}.metadata.name: missing");
        let node = Node::at(place, object.ok_or_else(missing)?)?;
        match node.metadata.name.as_str() {
            "" => Err(missing()),
            name => Ok(Self { name: name.to_owned(), node: Some(node) }),
        }
    }

    fn of_name(name: String) -> Self {
        Self { name, node: None }
    }
}

impl Scores {
    pub(crate) fn answer(self) -> Vec<HostPriority> {
        self.0.into_iter().map(|(host, score)| HostPriority { host, score }).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    fn ask(args: &Value) -> Result<Ask, String> {
        Ask::new(decode(args.to_string().as_bytes()).unwrap())
    }

    fn nodes() -> Value {
        let node =
            |name: &str, disk: &str| json!({"metadata": {"name": name, "labels": {"disk": disk}}, "x": 1});
        json!({"metadata": {}, "items": [node("b", "ssd"), node("a", "hdd"), node("c", "ssd")]})
    }

    fn by_disk(ask: &Ask) -> Value {
        let filtered = ask.filter(|node| match node.label("disk") {
            Some("ssd") => Ok(()),
            Some(_) => Err(Reject::unresolvable("slow")),
            None => Err(Reject::new("unknown")),
        });
        serde_json::to_value(ask.answer(filtered).unwrap()).unwrap()
    }

    #[test]
    fn nodes_sent_as_objects_are_returned_as_the_same_objects_in_order() {
        let ask = ask(&json!({"Pod": {}, "Nodes": nodes(), "NodeNames": null})).unwrap();
        ask.need_objects().unwrap();
        let expected = json!({
            "Nodes": {"metadata": {}, "items": [nodes()["items"][0], nodes()["items"][2]]},
            "NodeNames": null,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {"a": "slow"},
            "Error": "",
        });
        assert_eq!(by_disk(&ask), expected);
    }

    #[test]
    fn nodes_sent_as_names_are_returned_as_names() {
        let ask = ask(&json!({"Pod": {}, "Nodes": null, "NodeNames": ["b", "a"]})).unwrap();
        let error = ask.need_objects().unwrap_err().to_string();
        assert!(error.contains("nodeCacheCapable: false"), "{error}");
        let filtered = ask.filter(|node| match node.name() {
            "a" => Ok(()),
            _ => Err(Reject::new("not a")),
        });
        let answer = serde_json::to_value(ask.answer(filtered).unwrap()).unwrap();
        assert_eq!(answer["Nodes"], Value::Null);
        assert_eq!(answer["NodeNames"], json!(["a"]));
        assert_eq!(answer["FailedNodes"], json!({"b": "not a"}));
    }

    #[test]
    fn a_request_with_both_forms_is_answered_with_both() {
        let ask = ask(&json!({"Pod": {}, "Nodes": nodes(), "NodeNames": ["b", "a", "c"]})).unwrap();
        let answer = by_disk(&ask);
        assert_eq!(answer["NodeNames"], json!(["b", "c"]));
        assert_eq!(answer["Nodes"]["items"][1]["metadata"]["name"], "c");
    }

    #[test]
    fn answers_with_unknown_nodes_are_errors_and_omitted_nodes_do_not_fit() {
        let ask = ask(&json!({"Pod": {}, "NodeNames": ["a", "b"]})).unwrap();
        let named =
            |names: &[&str]| Filtered { verdicts: names.iter().map(|&n| (n.to_owned(), Ok(()))).collect() };
        let answer = ask.answer(named(&["b"])).unwrap();
        assert_eq!(answer.node_names.unwrap(), ["b"]);
        assert!(answer.failed_nodes.unwrap().is_empty());
        let error = ask.answer(named(&["b", "z"])).unwrap_err().to_string();
        assert_eq!(error, "the extender's answer names node \"z\", which is not in the request");
    }

    #[test]
    fn scores_contain_the_node_names() {
        let ask = ask(&json!({"Pod": {}, "Nodes": nodes()})).unwrap();
        let scores = ask.score(|node| if node.label("disk") == Some("ssd") { MAX_SCORE } else { 0 });
        let expected =
            json!([{"Host": "b", "Score": 10}, {"Host": "a", "Score": 0}, {"Host": "c", "Score": 10}]);
        assert_eq!(serde_json::to_value(scores.answer()).unwrap(), expected);
    }

    #[test]
    fn errors_contain_the_path_of_the_unreadable_value() {
        for (args, expected) in [
            (json!({}), "Pod: missing"),
            (json!({"Pod": {"metadata": {"labels": 1}}}), "Pod.metadata.labels: invalid type"),
            (
                json!({"Pod": {}, "Nodes": {"items": [{"metadata": {"name": "a"}}, {}]}}),
                "Nodes.items[1].metadata.name: missing",
            ),
            (json!({"Pod": {}, "Nodes": {"items": [null]}}), "Nodes.items[0].metadata.name: missing"),
            (
                json!({"Pod": {}, "Nodes": {"items": [{"spec": {"taints": 3}}]}}),
                "Nodes.items[0].spec.taints: invalid type",
            ),
        ] {
            let error = ask(&args).unwrap_err();
            assert!(error.starts_with(expected), "{args}: {error}");
        }
    }
}
