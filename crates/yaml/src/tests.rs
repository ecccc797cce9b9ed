//! Tests of reading and writing; `crates/oracle/tests/it/yaml.rs` compares both with Kubernetes' own reader and writer.

use serde_json::{Value, json};

use crate::{Content, Position, Reader, Shape, parse, write};

fn value(text: &str) -> Value {
    parse(&format!("key: {text}\n")).unwrap().into_json()["key"].take()
}

#[test]
fn scalars_are_read_as_kubernetes_reads_them() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("on", json!(true)),
        ("n", json!(false)),
        ("\"yes\"", json!("yes")),
        ("yEs", json!("yEs")),
        ("0644", json!(420)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("-0b11", json!(-3)),
        ("08", json!(8)),
        ("1_000", json!(1000)),
        ("_1", json!("_1")),
        ("1:30", json!("1:30")),
        ("12", json!(12)),
        ("-3", json!(-3)),
        ("18446744073709551615", json!(u64::MAX)),
        ("18446744073709551616", json!(18446744073709551616.0)),
        ("1.5", json!(1.5)),
        ("1e3", json!(1000)),
        (".5", json!(0.5)),
        ("1234e56", json!(1.234e59)),
        ("1234e567", json!("1234e567")),
        ("9574e20712", json!("9574e20712")),
        ("-1e400", json!("-1e400")),
        ("2024-01-02", json!("2024-01-02")),
        ("~", Value::Null),
        ("", Value::Null),
        ("10s", json!("10s")),
        ("!!str 12", json!("12")),
        ("!!float 12", json!(12)),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn a_value_without_a_json_equivalent_is_refused_with_its_line() {
    for (text, line, message) in [
        ("a: 1\nb: .inf\n", 2, "JSON has no number .inf"),
        ("? [a]\n: b\n", 1, "only strings, numbers and booleans can be keys"),
        ("~: b\n", 1, "only strings, numbers and booleans can be keys"),
        ("a: !!int x\n", 1, "cannot decode `x` as a !!int"),
        ("a: &a [*a]\n", 1, "the value of an anchor contains itself"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.at.unwrap().line, error.message.as_str()), (line, message), "{text}");
    }
    let error = parse("a: 1\nb: [1,\nc: }\n").unwrap_err();
    assert!(error.at.is_some_and(|at| at.line >= 2), "{error:?}");
    assert!(!error.message.contains("line"), "{}", error.message);
}

#[test]
fn all_keys_become_strings() {
    let read = parse("y: 1\n12: 2\n010: 3\n1.50: 4\n1e10: 5\n1234e567: 6\n").unwrap().into_json();
    assert_eq!(read, json!({"true": 1, "12": 2, "8": 3, "1.5": 4, "1e+10": 5, "1234e567": 6}));
}

#[test]
fn numbers_and_booleans_keep_their_original_text() {
    let node = parse("a: 1234e56\nb: yes\nc: text\n").unwrap();
    let written = |key: &str| &*node.get(key).unwrap().written;
    assert_eq!([written("a"), written("b"), written("c")], ["1234e56", "yes", ""]);
}

#[test]
fn every_value_has_its_line_and_column() {
    let node = parse("a: 1\nb:\n  - c: 2\n    d: {e: 3}\n").unwrap();
    let entry = node.get("b").unwrap().items()[0].entry("d").unwrap();
    assert_eq!(entry.at, Position { line: 4, column: 5 });
    assert_eq!(entry.value.entry("e").unwrap().at, Position { line: 4, column: 9 });
}

#[test]
fn the_later_of_a_merged_key_and_an_unmerged_key_wins() {
    let text = "base: &b {x: 1, w: 1}\nbefore: {x: 2, <<: *b}\nbehind: {<<: [*b, {w: 3, z: 3}], x: 2}\n";
    let document = parse(text).unwrap();
    assert_eq!(document.repeated_keys(), []);
    let read = document.into_json();
    assert_eq!(read["before"], json!({"x": 1, "w": 1}));
    assert_eq!(read["behind"], json!({"x": 2, "w": 1, "z": 3}));
}

#[test]
fn json_is_read_too_even_with_tabs() {
    let node = parse("{\n\t\"a\": [true, null],\n\t\"b\": \"\\u00e9\\/\"\n}").unwrap();
    assert_eq!(node.clone().into_json(), json!({"a": [true, null], "b": "é/"}));
    assert_eq!(node.entry("b").unwrap().at, Position { line: 3, column: 2 });
}

#[test]
fn only_the_first_document_is_returned_and_an_empty_text_is_null() {
    assert_eq!(parse("---\na: 1\n---\na: 2\n").unwrap().into_json(), json!({"a": 1}));
    assert_eq!(parse("").unwrap().content, Content::Null);
    assert_eq!(parse("# only words\n").unwrap().content, Content::Null);
}

#[test]
fn a_document_can_be_read_piece_by_piece() {
    let mut reader = Reader::new("items: [1, {a: b}]\nrest: &x 1\n<<: {more: 2}\n---\n[]\n");
    assert!(reader.next_document().unwrap());
    assert_eq!(reader.shape().unwrap(), Shape::Mapping);
    reader.enter_mapping().unwrap();
    assert_eq!(reader.next_key().unwrap().unwrap().text, "items");
    assert_eq!(reader.shape().unwrap(), Shape::Sequence);
    reader.enter_sequence().unwrap();
    let mut items = Vec::new();
    while reader.has_item().unwrap() {
        items.push(reader.value().unwrap().into_json());
    }
    assert_eq!(items, [json!(1), json!({"a": "b"})]);
    for (key, value) in [("rest", 1), ("more", 2)] {
        assert_eq!(reader.next_key().unwrap().unwrap().text, key);
        assert_eq!(reader.shape().unwrap(), Shape::Other);
        assert_eq!(reader.value().unwrap().into_json(), json!(value));
    }
    assert_eq!(reader.next_key().unwrap(), None);
    assert!(reader.next_document().unwrap());
    assert_eq!(reader.shape().unwrap(), Shape::Sequence);
    assert_eq!(reader.value().unwrap().into_json(), json!([]));
    assert!(!reader.next_document().unwrap());
}

#[test]
fn an_alias_bomb_is_stopped() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..9 {
        let previous = format!("*a{},", i - 1).repeat(9);
        text.push_str(&format!("a{i}: &a{i} [{previous}]\n"));
    }
    assert_eq!(parse(&text).unwrap_err().message, "document contains excessive aliasing");
}

#[test]
fn written_yaml_is_sorted_and_reads_back_as_the_same_value() {
    let object = json!({
        "b": ["yes", "1e5", "0x1", "a: b", "a #b", " x", "", "-", "- a", "1:30", "~", "tab\t\u{85}\u{2028}\"\\\u{1}é\u{1f600}"],
        "a": [{"name": "x", "weight": 0}, [[1, 1.5], []], {}], "c": {}, "d": "10s", "y": {"on": null},
    });
    let text = write(&object);
    assert!(
        text.starts_with("a:\n- name: x\n  weight: 0\n- - - 1\n    - 1.5\n  - []\n- {}\nb:\n- \"yes\"\n"),
        "{text}"
    );
    assert!(text.contains("\nd: 10s\n\"y\":\n  \"on\": null\n"), "{text}");
    assert_eq!(parse(&text).unwrap().into_json(), object);
}
