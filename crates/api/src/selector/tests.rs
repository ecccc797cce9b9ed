use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
    Requirement {
        key: key.into(),
        operator: Operator::parse(operator),
        values: values.iter().copied().map(Str::from).collect(),
    }
}

fn term(expressions: Vec<Requirement>, fields: Vec<Requirement>) -> NodeSelectorTerm {
    NodeSelectorTerm { match_expressions: expressions, match_fields: fields }
}

fn selects(terms: Vec<NodeSelectorTerm>) -> bool {
    let selector = ParsedNodeSelector::new(&NodeSelector { terms });
    selector.matches(&labels(&[("zone", "a"), ("cores", "8")]), "node-1")
}

#[test]
fn requirements_compare_the_value_of_the_label() {
    let labels = labels(&[("a", "x"), ("n", "5"), ("text", "five")]);
    for (key, operator, values, expected) in [
        ("a", "In", &["x", "y"][..], true),
        ("a", "In", &["y"], false),
        ("none", "In", &["x"], false),
        ("a", "NotIn", &["x"], false),
        ("a", "NotIn", &["y"], true),
        ("none", "NotIn", &["x"], true),
        ("a", "Exists", &[], true),
        ("none", "Exists", &[], false),
        ("a", "DoesNotExist", &[], false),
        ("none", "DoesNotExist", &[], true),
        ("n", "Gt", &["4"], true),
        ("n", "Gt", &["5"], false),
        ("n", "Gt", &["+4"], true),
        ("n", "Lt", &["6"], true),
        ("n", "Lt", &["-6"], false),
        ("none", "Lt", &["6"], false),
        ("text", "Gt", &["1"], false),
        ("n", "Foo", &["5"], false),
    ] {
        let requirement = requirement(key, operator, values);
        assert_eq!(requirement.matches(&labels), expected, "{requirement:?}");
    }
}

#[test]
fn a_label_selector_matches_if_all_its_parts_match_and_an_empty_one_matches_everything() {
    let mut selector = LabelSelector::default();
    assert!(selector.is_empty() && selector.matches(&Labels::default()));
    selector.match_labels = labels(&[("app", "web")]);
    selector.match_expressions = vec![requirement("tier", "NotIn", &["test"])];
    assert!(selector.matches(&labels(&[("app", "web"), ("x", "y")])));
    assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "test")])));
    assert!(!selector.matches(&labels(&[("app", "db")])));
}

#[test]
fn errors_in_label_selectors_have_the_messages_of_the_api_server() {
    let error = |selector: &LabelSelector| selector.check().unwrap_err().to_string();
    let with = |expression| LabelSelector { match_expressions: vec![expression], ..LabelSelector::default() };
    assert_eq!(
        error(&with(requirement("a", "In", &[]))),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
    assert_eq!(
        error(&with(requirement("a", "Exists", &["b", "c"]))),
        r#"values: Invalid value: ["b","c"]: values set must be empty for exists and does not exist"#
    );
    assert_eq!(error(&with(requirement("a", "Gt", &["1"]))), "\"Gt\" is not a valid label selector operator");
    let bad = LabelSelector { match_labels: labels(&[("a", "b c")]), ..LabelSelector::default() };
    assert!(
        error(&bad)
            .starts_with("values[0][a]: Invalid value: \"b c\": a valid label must be an empty string")
    );
    assert!(
        error(&with(requirement("-", "Exists", &[])))
            .starts_with("key: Invalid value: \"-\": name part must")
    );
    assert_eq!(with(requirement("a", "In", &[""])).check(), Ok(()));
}

#[test]
fn node_selector_terms_are_ored_and_their_parts_anded() {
    let zone_a = || requirement("zone", "In", &["a"]);
    let zone_b = || requirement("zone", "In", &["b"]);
    let named = |name: &str| requirement("metadata.name", "In", &[name]);
    assert!(selects(vec![term(vec![zone_b()], vec![]), term(vec![zone_a()], vec![])]));
    assert!(!selects(vec![term(vec![zone_a(), zone_b()], vec![])]));
    assert!(!selects(vec![term(vec![zone_a()], vec![named("node-2")])]));
    assert!(selects(vec![term(vec![], vec![named("node-2")]), term(vec![zone_a()], vec![])]));
    assert!(selects(vec![term(vec![zone_a()], vec![named("node-1")])]));
    assert!(selects(vec![term(vec![requirement("cores", "Gt", &["4"])], vec![])]));
}

#[test]
fn empty_terms_and_empty_selectors_match_no_node() {
    assert!(!selects(vec![]));
    assert!(!selects(vec![term(vec![], vec![])]));
}

#[test]
fn fields_other_than_the_name_read_as_empty() {
    assert!(!selects(vec![term(vec![], vec![requirement("metadata.uid", "In", &["x"])])]));
    assert!(selects(vec![term(vec![], vec![requirement("metadata.uid", "NotIn", &["x"])])]));
}

#[test]
fn an_invalid_term_is_skipped_and_its_errors_are_kept() {
    let wrong = || term(vec![], vec![requirement("metadata.name", "In", &["a", "b"])]);
    let right = || term(vec![requirement("zone", "Exists", &[])], vec![]);
    assert!(selects(vec![wrong(), right()]));
    assert!(!selects(vec![wrong()]));
    let parsed = ParsedNodeSelector::at(&NodeSelector { terms: vec![wrong(), right(), wrong()] }, "spec");
    assert_eq!(
        parsed.error().map(|e| e.to_string()).as_deref(),
        Some(
            "[spec.nodeSelectorTerms[0].matchFields[0].values: Invalid value: [\"a\",\"b\"]: must have one element, \
             spec.nodeSelectorTerms[2].matchFields[0].values: Invalid value: [\"a\",\"b\"]: must have one element]"
        )
    );
}

#[test]
fn weights_of_matching_preferred_terms_add_up_and_an_invalid_term_is_an_error_unless_its_weight_is_zero() {
    let preferred = |weight, preference| PreferredTerm { weight, preference };
    let zone = |value: &str| term(vec![requirement("zone", "In", &[value])], vec![]);
    let wrong = || term(vec![requirement("zone", "Gt", &["x"])], vec![]);
    let terms =
        [preferred(5, zone("a")), preferred(7, zone("b")), preferred(0, wrong()), preferred(3, zone("a"))];
    let parsed = ParsedPreferred::new(&terms).unwrap();
    assert_eq!(parsed.score(&labels(&[("zone", "a")]), "n"), 8);
    assert!(ParsedPreferred::new(&[preferred(9, term(vec![], vec![]))]).unwrap().is_empty());
    let error = ParsedPreferred::new(&[preferred(5, zone("a")), preferred(1, wrong())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "[1].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an \
         integer"
    );
}

#[test]
fn required_affinity_combines_the_node_selector_and_the_affinity() {
    let affinity = NodeAffinity {
        required: Some(NodeSelector { terms: vec![term(vec![requirement("zone", "In", &["a"])], vec![])] }),
        preferred: None,
    };
    let selector = labels(&[("disk", "not a label value!")]);
    let both = RequiredNodeAffinity::new(Some(&selector), Some(&affinity));
    assert!(both.matches(&labels(&[("zone", "a"), ("disk", "not a label value!")]), "n"));
    assert!(!both.matches(&labels(&[("zone", "a")]), "n"));
    assert!(!both.matches(&selector, "n"));
    let none = RequiredNodeAffinity::new(Some(&Labels::default()), Some(&NodeAffinity::default()));
    assert!(none.is_empty() && none.matches(&Labels::default(), "n"));
}
