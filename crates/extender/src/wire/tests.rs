use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn encoded(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

/// Decodes a text and encodes the value again.
fn through<T: for<'de> Deserialize<'de> + Serialize>(text: &str) -> Result<Value, String> {
    decode::<T>(text.as_bytes()).map(|value| encoded(&value))
}

#[test]
fn keys_are_the_go_names_and_absent_values_are_null() {
    for (value, expected) in [
        (encoded(&ExtenderArgs::default()), json!({"Pod": null, "Nodes": null, "NodeNames": null})),
        (encoded(&NodeList::default()), json!({"metadata": {}, "items": null})),
        (
            encoded(&ExtenderFilterResult::default()),
            json!({"Nodes": null, "NodeNames": null, "FailedNodes": null, "FailedAndUnresolvableNodes": null, "Error": ""}),
        ),
        (encoded(&HostPriority::default()), json!({"Host": "", "Score": 0})),
        (
            encoded(&ExtenderPreemptionArgs::default()),
            json!({"Pod": null, "NodeNameToVictims": null, "NodeNameToMetaVictims": null}),
        ),
        (encoded(&ExtenderPreemptionResult::default()), json!({"NodeNameToMetaVictims": null})),
        (encoded(&Victims::default()), json!({"Pods": null, "NumPDBViolations": 0})),
        (encoded(&MetaVictims::default()), json!({"Pods": null, "NumPDBViolations": 0})),
        (encoded(&MetaPod::default()), json!({"UID": ""})),
        (
            encoded(&ExtenderBindingArgs::default()),
            json!({"PodName": "", "PodNamespace": "", "PodUID": "", "Node": ""}),
        ),
        (encoded(&ExtenderBindingResult::default()), json!({"Error": ""})),
    ] {
        assert_eq!(value, expected);
    }
}

#[test]
fn requests_are_decoded_as_go_decodes_them() {
    let empty = json!({"Pod": null, "Nodes": null, "NodeNames": null});
    let named = |names: Value| json!({"Pod": null, "Nodes": null, "NodeNames": names});
    for (text, expected) in [
        // Keys match in any case; two non-ASCII letters also match.
        (r#"{"nodenames":["a"]}"#, named(json!(["a"]))),
        (r#"{"NODENAMES":["a"]}"#, named(json!(["a"]))),
        ("{\"NodeName\u{17f}\":[\"a\"]}", named(json!(["a"]))),
        (r#"{"Node-Names":["a"],"NodeNames ":["b"]}"#, empty.clone()),
        // Unknown keys are ignored, whatever they contain.
        (r#"{"future":{"x":[1,2]},"NodeNames":["a"]}"#, named(json!(["a"]))),
        // The last of duplicate keys wins.
        (r#"{"NodeNames":["a"],"nodeNames":["b"]}"#, named(json!(["b"]))),
        (r#"{"NodeNames":["a"],"nodeNames":null}"#, named(json!(null))),
        // Null is treated as absent.
        ("null", empty.clone()),
        ("{}", empty.clone()),
        (r#"{"Pod":null,"Nodes":null,"NodeNames":null}"#, empty),
        (r#"{"NodeNames":["a",null]}"#, named(json!(["a", ""]))),
        // An empty list is different from an absent list.
        (r#"{"NodeNames":[]}"#, named(json!([]))),
        (
            r#"{"Nodes":{"Metadata":{"resourceVersion":"7"},"ITEMS":[{"a":1},null]}}"#,
            json!({"Pod": null, "Nodes": {"metadata": {"resourceVersion": "7"}, "items": [{"a": 1}, null]}, "NodeNames": null}),
        ),
        (
            r#"{"nodes":{"metadata":null,"items":null}}"#,
            json!({"Pod": null, "Nodes": {"metadata": {}, "items": null}, "NodeNames": null}),
        ),
    ] {
        assert_eq!(through::<ExtenderArgs>(text), Ok(expected), "{text}");
    }
}

#[test]
fn answers_are_decoded_as_schedulers_decode_them() {
    let answer = r#"{"nodeNames":["a"],"failedNodes":{"b":"full","c":null},"error":"no","Error":null}"#;
    let expected = json!({
        "Nodes": null, "NodeNames": ["a"], "FailedNodes": {"b": "full", "c": ""}, "FailedAndUnresolvableNodes": null, "Error": "no",
    });
    assert_eq!(through::<ExtenderFilterResult>(answer), Ok(expected));
    // A map that appears twice is decoded as the union of both occurrences.
    let twice = r#"{"FailedNodes":{"a":"1","b":"1"},"failednodes":{"b":"2"}}"#;
    assert_eq!(through::<ExtenderFilterResult>(twice).unwrap()["FailedNodes"], json!({"a": "1", "b": "2"}));
    let scores = r#"[{"host":"a","SCORE":7},{"Host":"b","Score":null},{}]"#;
    let expected = json!([{"Host": "a", "Score": 7}, {"Host": "b", "Score": 0}, {"Host": "", "Score": 0}]);
    assert_eq!(through::<Vec<HostPriority>>(scores), Ok(expected));
    let victims =
        r#"{"nodenametometavictims":{"a":{"pods":[{"uid":"u"},null],"numpdbviolations":2},"b":null}}"#;
    let expected = json!({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}, null], "NumPDBViolations": 2}, "b": null}});
    assert_eq!(through::<ExtenderPreemptionResult>(victims), Ok(expected));
}

#[test]
fn values_that_go_rejects_are_rejected_with_their_path() {
    for (text, expected) in [
        ("", "EOF while parsing"),
        ("{", "EOF while parsing an object"),
        ("{} {}", "trailing characters"),
        ("7", "invalid type: integer `7`, expected an object (ExtenderArgs)"),
        ("[]", "invalid type: sequence, expected an object (ExtenderArgs)"),
        (r#"{"NodeNames":"a"}"#, "NodeNames: invalid type: string \"a\", expected a sequence"),
        (r#"{"NodeNames":["a",7]}"#, "NodeNames[1]: invalid type: integer `7`, expected a string"),
        (r#"{"Nodes":[]}"#, "Nodes: invalid type: sequence, expected an object (NodeList)"),
        (r#"{"Nodes":{"items":{}}}"#, "Nodes.items: invalid type: map, expected a sequence"),
    ] {
        let error = through::<ExtenderArgs>(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    for text in
        [r#"{"Score":1.5}"#, r#"{"Score":"1"}"#, r#"{"Score":1e2}"#, r#"{"Score":9223372036854775808}"#]
    {
        let error = through::<HostPriority>(text).unwrap_err();
        assert!(error.starts_with("Score: "), "{text}: {error}");
    }
}

fn object() -> impl Strategy<Value = RawObject> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,5}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    });
    value.prop_map(|value| RawValue::from_string(value.to_string()).unwrap())
}

fn maybe<T: fmt::Debug + Clone>(inner: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(inner)
}

fn list<T: fmt::Debug + Clone>(inner: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Vec<T>>> {
    maybe(prop::collection::vec(inner, 0..4))
}

fn map<T: fmt::Debug + Clone>(
    inner: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<BTreeMap<String, T>>> {
    maybe(prop::collection::btree_map(".{0,8}", inner, 0..4))
}

fn nodes() -> impl Strategy<Value = Option<NodeList>> {
    let list = (maybe(object()), list(maybe(object())));
    maybe(list.prop_map(|(metadata, items)| NodeList { metadata: ListMeta(metadata), items }))
}

fn names() -> impl Strategy<Value = Option<Vec<String>>> {
    list(".{0,8}")
}

fn victims() -> impl Strategy<Value = Option<Victims>> {
    maybe(
        (list(maybe(object())), any::<i64>())
            .prop_map(|(pods, num_pdb_violations)| Victims { pods, num_pdb_violations }),
    )
}

fn meta_victims() -> impl Strategy<Value = Option<MetaVictims>> {
    let pod = ".{0,8}".prop_map(|uid| MetaPod { uid });
    maybe(
        (list(maybe(pod)), any::<i64>())
            .prop_map(|(pods, num_pdb_violations)| MetaVictims { pods, num_pdb_violations }),
    )
}

/// Checks that decoding an encoded value and encoding it again returns the same text, and that uppercase keys decode to
/// the same value.
fn comes_through<T: for<'de> Deserialize<'de> + Serialize>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let decoded: T = decode(text.as_bytes()).unwrap();
    assert_eq!(serde_json::to_string(&decoded).unwrap(), text);
    let Ok(Value::Object(fields)) = serde_json::from_str(&text) else { return };
    let shouted: serde_json::Map<_, _> = fields.into_iter().map(|(key, v)| (key.to_uppercase(), v)).collect();
    let decoded: T = decode(Value::from(shouted).to_string().as_bytes()).unwrap();
    assert_eq!(encoded(&decoded), encoded(value));
}

proptest! {
    #[test]
    fn arguments_survive_a_round_trip(pod in maybe(object()), nodes in nodes(), node_names in names()) {
        comes_through(&ExtenderArgs { pod, nodes, node_names });
    }

    #[test]
    fn filter_results_survive_a_round_trip(
        nodes in nodes(), node_names in names(), failed_nodes in map(".{0,8}"),
        failed_and_unresolvable_nodes in map(".{0,8}"), error in ".{0,8}",
    ) {
        comes_through(&ExtenderFilterResult { nodes, node_names, failed_nodes, failed_and_unresolvable_nodes, error });
    }

    #[test]
    fn preemptions_survive_a_round_trip(
        pod in maybe(object()), node_name_to_victims in map(victims()), node_name_to_meta_victims in map(meta_victims()),
    ) {
        let answer = node_name_to_meta_victims.clone();
        comes_through(&ExtenderPreemptionResult { node_name_to_meta_victims: answer });
        comes_through(&ExtenderPreemptionArgs { pod, node_name_to_victims, node_name_to_meta_victims });
    }

    #[test]
    fn scores_and_bindings_survive_a_round_trip(host in ".{0,8}", score in any::<i64>(), node in ".{0,8}", pod in ".{0,8}") {
        comes_through(&ExtenderBindingResult { error: node.clone() });
        comes_through(&ExtenderBindingArgs {
            pod_name: pod.clone(), pod_namespace: host.clone(), pod_uid: pod, node,
        });
        comes_through(&vec![HostPriority { host, score }]);
    }

    /// Invalid requests result in errors: nothing that a client sends can affect more than its own request.
    #[test]
    fn no_input_makes_decoding_panic(text in prop::collection::vec(any::<u8>(), 0..64), json in object()) {
        for text in [text.as_slice(), json.get().as_bytes()] {
            let _ = decode::<ExtenderArgs>(text).map(crate::Ask::new);
            let _ = decode::<ExtenderPreemptionArgs>(text).map(crate::Preemption::new);
            let _ = decode::<ExtenderBindingArgs>(text).map(crate::Binding::new);
        }
    }
}
