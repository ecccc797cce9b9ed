//! Tests of whole selectors.

use harbormaster_api::{Quantity, Release, Str};

use super::*;

fn evaluated(expression: &str) -> Result<bool, String> {
    let mut attributes = [
        ("model".into(), Attribute::String("a1".into())),
        ("other.example.com/model".into(), Attribute::String("b2".into())),
        ("memory".into(), Attribute::Int(80)),
        ("healthy".into(), Attribute::Bool(true)),
        ("version".into(), Attribute::Version("1.10.0".into())),
    ];
    attributes.sort_by(|(a, _): &(Str, _), (b, _)| a.cmp(b));
    let capacity = [("memory", "80Gi".parse::<Quantity>().unwrap())];
    let device = Device {
        driver: "gpu.example.com",
        attributes: &attributes,
        capacity: &capacity,
        allow_multiple_allocations: false,
    };
    let selector = Selector::compile(expression, Features::default()).map_err(|why| why.to_string())?;
    selector.matches(&device).map_err(|why| why.to_string())
}

#[test]
fn expressions_read_the_device() {
    for expression in [
        r#"device.driver == "gpu.example.com""#,
        r#"device.attributes["gpu.example.com"].model == "a1""#,
        r#"device.attributes["other.example.com"].model == "b2""#,
        r#"device.attributes["gpu.example.com"]["memory"] >= 40"#,
        r#"device.attributes["gpu.example.com"].healthy"#,
        r#"device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.9.0"))"#,
        r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#,
        r#"!device.allowMultipleAllocations"#,
        r#""gpu.example.com" in device.attributes && !("x" in device.attributes)"#,
        r#"has(device.attributes["gpu.example.com"].model) && !has(device.attributes["x"].model)"#,
        r#"cel.bind(gpu, device.attributes["gpu.example.com"], gpu.memory == 80 && gpu.healthy)"#,
        r#"device.attributes["gpu.example.com"].?missing.orValue("none") == "none""#,
        r#"device.attributes["gpu.example.com"].model.matches("^a[0-9]$")"#,
        r#"["a1", "a2"].exists(m, m == device.attributes["gpu.example.com"].model)"#,
        r#"device.attributes["gpu.example.com"].model in ["a0", "a1"]"#,
        r#"device.attributes["gpu.example.com"].all(name, size(name) > 3)"#,
    ] {
        assert_eq!(evaluated(expression), Ok(true), "{expression}");
    }
}

#[test]
fn operators_and_functions_give_the_values_of_cel() {
    for expression in [
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 % 3 == -1 && 1.5 * 2.0 == 3.0",
        "1 < 2.5 && 2u > 1 && dyn(1) == 1.0",
        "'abc'.substring(1) == 'bc' && 'abc'.charAt(3) == '' && 'a,b'.split(',') == ['a', 'b']",
        "'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'x'.upperAscii() == 'X'",
        "[1, 2, 3].filter(n, n > 1).map(n, n * 2) == [4, 6] && [1, 2].sum() == 3 && [2, 1].min() == 1",
        "[1, 2, 3].exists_one(n, n == 2) && [1, 2].all(n, n > 0) && ![].exists(n, n == 1)",
        "{'a': 1}['a'] == 1 && 'a' in {'a': 1} && {'a': 1}.a == 1",
        "int('7') == 7 && string(7) == '7' && double('0.5') == 0.5 && type(1) == int",
        "quantity('1Gi').isInteger() && sign(quantity('1.5')) == 1 && !isQuantity('x')",
        "semver('v1.2', true).minor() == 2 && isSemver('1.2.3') && !isSemver('1.2')",
        "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2])",
        "(1 / 0 == 1) || true",
        r#"r'\d' == '\\d' && "\x41\u0042" == 'AB' && '''a'b''' == "a'b""#,
        "true ? true : false",
        "{optional.none(): 1, optional.none(): 2}.size() == 1",
        "optional.of(1).hasValue() && optional.none().orValue(2) == 2",
    ] {
        assert_eq!(evaluated(expression), Ok(true), "{expression}");
    }
}

#[test]
fn runtime_errors_have_the_texts_of_cel_go() {
    for (expression, error) in [
        (r#"device.attributes["gpu.example.com"].missing == 1"#, "no such key: missing"),
        (r#"device.attributes["x"]["y"] == 1"#, "no such key: y"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 == 1", "integer overflow"),
        ("[1][3] == 1", "index out of bounds: 3"),
        (r#"device.attributes["gpu.example.com"].memory.contains("x")"#, "no such overload"),
    ] {
        assert_eq!(evaluated(expression), Err(error.to_owned()), "{expression}");
    }
}

#[test]
fn compile_errors_have_the_texts_of_cel_go() {
    for (expression, error) in [
        (
            "foo == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n \
             | foo == 1\n | ^",
        ),
        (
            "device.foo == 1",
            "compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo == 1\n | ......^",
        ),
        (
            "1 + 'a' == 2",
            "compilation failed: ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\
             \n | 1 + 'a' == 2\n | ..^",
        ),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
    ] {
        assert_eq!(evaluated(expression), Err(error.to_owned()), "{expression}");
    }
}

#[test]
fn malformed_expressions_are_rejected_without_a_panic() {
    let deep = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
    let chain = format!("device{}", ".x".repeat(10_000));
    for expression in
        ["", "(", "1 +", "a b", "'x", "\u{0}", "`a", "[1", "{1:", "1 ? 2", "has(1)", "in", &deep, &chain]
    {
        assert!(evaluated(expression).is_err(), "{expression:.20}");
    }
}

#[test]
fn an_attribute_of_an_unknown_kind_fails_every_expression() {
    let attributes = [("odd".into(), Attribute::Unknown)];
    let device = Device { driver: "d", attributes: &attributes, ..Device::default() };
    let error = Selector::compile("true", Features::default()).unwrap().matches(&device).unwrap_err();
    assert_eq!(error.to_string(), "attribute odd: unsupported attribute value");
}

#[test]
fn an_evaluation_that_is_too_expensive_ends_with_an_error() {
    let list = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let expression = format!("[{list}].all(a, [{list}].all(b, [{list}].all(c, a + b + c >= 0)))");
    assert_eq!(evaluated(&expression), Err("operation cancelled: actual cost limit exceeded".to_owned()));
}

#[test]
fn expressions_near_the_limit_of_the_depth_are_evaluated() {
    for (beginning, repeated, middle, end, rest) in [
        ("", "(", "true", ")", ""),
        ("1", " + 1", "", "", " > 1"),
        ("{}", ".?a", "", "", ".hasValue() == false"),
        ("size(", "[", "", "]", ") == 1"),
        ("", "[1].exists(x, ", "true", ")", ""),
        ("", "cel.bind(x, true, ", "x", ")", ""),
        ("size(", "[1].map(x, ", "1", ")", ") == 1"),
    ] {
        let text = format!("{beginning}{}{middle}{}{rest}", repeated.repeat(120), end.repeat(120));
        assert_eq!(evaluated(&text), Ok(true), "{text:.20}");
    }
}

/// Parts of deep expressions: the beginning, a part that is repeated, the middle, and another part that is repeated as
/// often.
const DEEP: &[(&str, &str, &str, &str)] = &[
    ("", "(", "true", ")"),
    ("", "[", "", "]"),
    ("", "{1: ", "1", "}"),
    ("", "A{b: ", "1", "}"),
    ("", "!", "true", ""),
    ("", "!(", "true", ")"),
    ("", "-", "1 == 1", ""),
    ("", "1 + ", "1 > 0", ""),
    ("", "1 - (", "1", ")"),
    ("", "true == ", "true", ""),
    ("", "1 in ", "[]", ""),
    ("", "[]in", "[]", ""),
    ("", "true && ", "true", ""),
    ("", "true && (false || ", "true", ")"),
    ("", "true ? true : ", "true", ""),
    ("", "true ? ", "true", " : true"),
    ("a", ".b", "", ""),
    ("dyn({})", ".?b", "", ""),
    ("dyn([])", "[0]", "", ""),
    ("", "dyn([])[", "0", "]"),
    ("", "f(", "1", ")"),
    ("", "dyn(", "true", ")"),
    ("'a'", ".trim()", " == 'a'", ""),
    ("[1]", ".map(x, x)", " == [1]", ""),
    ("", "[1].map(x, ", "1", ")"),
    ("", "[1].exists(x, ", "true", ")"),
    ("", "[1].all(x, y, ", "true", ")"),
    ("", "cel.bind(x, true, ", "x", ")"),
    ("", "cel.bind(x, ", "true", ", x)"),
    ("", "'%s'.format([", "1", "])"),
    ("", "(", "", ""),
    ("", "1 + (", "", ""),
];

#[test]
fn deep_expressions_end_without_overflowing_the_stack() {
    for (beginning, repeated, middle, end) in DEEP {
        let longest = 100_000 / (repeated.len() + end.len()) - 10;
        for count in [5, 8, 15, 20, 31, 60, 120, 249, 250, 600, longest] {
            let text = format!("{beginning}{}{middle}{}", repeated.repeat(count), end.repeat(count));
            // The results do not matter. Threads usually have twice as much stack.
            let evaluate = move || drop(evaluated(&text));
            let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(evaluate).unwrap();
            assert!(thread.join().is_ok(), "{beginning}{repeated} {count}");
        }
    }
}

#[test]
fn patterns_with_nested_repetitions_end_quickly() {
    let text = "a".repeat(20_000);
    for pattern in ["(a+)+$", "(a|a)*b", "(a*)*c", "((a*)*)*", "(.*)(.*)(.*)x"] {
        let result = evaluated(&format!("'{text}'.matches('{pattern}') || true"));
        assert_eq!(result, Ok(true), "{pattern}");
    }
    let error = evaluated("'a'.matches('((a{1,100}){1,100}){1,100}')").unwrap_err();
    assert!(error.contains("invalid matches argument"), "{error}");
}

#[test]
fn operations_on_huge_lists_end_with_an_error() {
    let limit = "operation cancelled: actual cost limit exceeded";
    for expression in [
        "lists.range(9223372036854775807).reverse().size() == 1",
        "lists.range(9223372036854775807).sort() == []",
        "lists.range(1000000000).map(x, x).size() == 1",
        "lists.range(1000000000) == lists.range(1000000000)",
        "sets.contains(lists.range(9223372036854775807), lists.range(9223372036854775807))",
        "lists.range(100000).map(x, lists.range(100000)).flatten().size() == 1",
        "lists.range(3000).all(a, lists.range(3000).all(b, a + b >= 0))",
        "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, lists.range(1000).all(b, lists.range(1000).map(c, c).size() > b))",
    ] {
        assert_eq!(evaluated(expression), Err(limit.to_owned()), "{expression}");
    }
}

#[test]
fn operations_on_values_that_contain_one_value_many_times_end_with_an_error() {
    let doubled = (0..40).fold("[1]".to_owned(), |inner, _| format!("cel.bind(x, {inner}, [x, x])"));
    for form in
        ["D == D", "D in [D]", "dyn(D).isSorted()", "D.flatten(100).size() == 1", "'%s'.format([D]) == ''"]
    {
        let result = evaluated(&form.replace('D', &doubled));
        assert_eq!(result, Err("operation cancelled: actual cost limit exceeded".to_owned()), "{form}");
    }
}

#[test]
fn an_expression_whose_type_is_too_large_is_rejected() {
    let doubled =
        |count| (0..count).fold("1".to_owned(), |inner, _| format!("cel.bind(x, {inner}, {{x: x}})"));
    assert_eq!(evaluated(&format!("size({}) == 1", doubled(8))), Ok(true));
    let error = evaluated(&format!("size({}) == 1", doubled(40))).unwrap_err();
    assert!(error.contains("type of expression is too large"), "{error}");
}

#[test]
fn a_list_or_map_as_a_key_equals_only_its_copies_and_empty_optionals_are_equal() {
    for expression in [
        "size({optional.none(): 1, optional.none(): 2}) == 1",
        "size({[]: 1, []: 2}) == 2",
        "cel.bind(x, [1], {x: 1, x: 2}.size()) == 1",
        "cel.bind(x, {}, {x: 1, x: 2}.size()) == 1",
    ] {
        assert_eq!(evaluated(expression), Ok(true), "{expression}");
    }
    let twice = evaluated("[1, 2].transformMapEntry(i, x, {optional.none(): x}).size() == 1");
    assert_eq!(twice, Err("insert failed: key optional.none() already exists".to_owned()));
}

#[test]
fn a_constant_pattern_is_matched_against_the_value_in_an_optional() {
    assert_eq!(evaluated("dyn(optional.of('abc')).matches('b')"), Ok(true));
    assert_eq!(evaluated("dyn(optional.none()).matches('b')"), Err("no such overload".to_owned()));
}

#[test]
fn calls_of_authorizer_functions_cost_as_much_as_in_kubernetes() {
    for (call, cost) in [("check('get')", 350_000), ("path('/a')", 1), ("fieldSelector('a=b')", 111)] {
        let expression = format!("dyn(dyn(1).{call}) == 1");
        let selector = Selector::compile(&expression, Features::default()).unwrap();
        // The outer conversion to `dyn` and the comparison cost 1 each. The planner evaluates the inner conversion.
        assert_eq!(selector.evaluate(&Device::default(), MAX_COST).cost, Some(cost + 2), "{call}");
    }
}

#[test]
fn includes_examines_long_lists_and_costs_a_traversal_as_of_kubernetes_1_37() {
    let limit = "'includes' function cannot be applied to lists longer than 48 values";
    for (expression, old, new) in [
        ("lists.range(48).includes(7)", (Ok(true), 60), (Ok(true), 107)),
        ("lists.range(48).includes(48)", (Ok(false), 60), (Ok(false), 107)),
        ("lists.range(60).includes(59)", (Err(limit), 72), (Ok(true), 131)),
        ("'ab'.includes('ab')", (Ok(true), 1), (Ok(true), 0)),
    ] {
        for (release, (result, cost)) in [(Release::V1_36, old), (Release::V1_37, new)] {
            let evaluation = Selector::compile(expression, Features::of(release))
                .unwrap()
                .evaluate(&Device::default(), MAX_COST);
            assert_eq!(
                evaluation.result.map_err(|why| why.to_string()),
                result.map_err(str::to_owned),
                "{expression}"
            );
            assert_eq!(evaluation.cost, Some(cost), "{expression} {release}");
        }
    }
}

/// Result and cost for a device without attributes; the cost is missing if the expression cannot be compiled.
fn outcome(expression: &str, features: Features) -> (Result<bool, String>, Option<u64>) {
    match Selector::compile(expression, features) {
        Ok(selector) => {
            let Evaluation { result, cost } = selector.evaluate(&Device::default(), MAX_COST);
            (result.map_err(|why| why.to_string()), cost)
        }
        Err(why) => {
            let text = why.to_string();
            let line = text.lines().next().unwrap_or_default();
            (Err(line.rsplit_once("ERROR: <input>:").map_or(line, |(_, line)| line).to_owned()), None)
        }
    }
}

#[test]
fn functions_change_as_of_kubernetes_1_37() {
    let error = |text: &str| Err(text.to_owned());
    let no_duration = |why: &str| (error(&format!("program instantiation failed: {why}")), None);
    let long = format!("'{}'.endsWith('c')", "a".repeat(100));
    for (expression, old, new) in [
        (
            "duration(dyn(60)) == duration('60s')",
            no_duration("type conversion error from 'int' to 'google.protobuf.Duration'"),
            no_duration("no such overload: duration(int)"),
        ),
        (
            "lists.range(-1).size() == 0",
            (Ok(true), Some(13)),
            (error("lists.range: size must be non-negative, got -1"), Some(14)),
        ),
        (
            "lists.range(1000001).size() == 1",
            (error("operation cancelled: actual cost limit exceeded"), Some(1_000_012)),
            (error("lists.range: size 1000001 exceeds maximum allowed (1000000)"), Some(14)),
        ),
        ("dyn(1).orValue(2) == 1", (Ok(true), Some(1)), (error("no such overload"), Some(1))),
        (long.as_str(), (Ok(false), Some(10)), (Ok(false), Some(1))),
        ("matches('abc', 'b+c+d+e+')", (Ok(false), Some(1)), (Ok(false), Some(2))),
    ] {
        assert_eq!(outcome(expression, Features::of(Release::V1_36)), old, "{expression}");
        assert_eq!(outcome(expression, Features::of(Release::V1_37)), new, "{expression}");
    }
}

#[test]
fn attributes_of_stored_expressions_have_the_dynamic_type_as_of_kubernetes_1_37() {
    let refused = |of: &str| Err(format!("must evaluate to bool or the unknown type, not {of}"));
    for (release, is_new, dynamic, any) in [
        (Release::V1_36, false, refused("dyn"), Ok(())),
        (Release::V1_36, true, refused("dyn"), Ok(())),
        (Release::V1_37, false, Ok(()), Ok(())),
        (Release::V1_37, true, refused("dyn"), Ok(())),
    ] {
        let compiled = |expression| {
            let compile = if is_new { Selector::compile_new } else { Selector::compile };
            compile(expression, Features::of(release)).map(drop).map_err(|why| why.to_string())
        };
        assert_eq!(compiled("dyn('a')"), dynamic, "{release} {is_new}");
        assert_eq!(compiled("device.attributes['x'].y"), any, "{release} {is_new}");
    }
}

#[test]
fn variables_hide_qualified_names_and_a_leading_dot_skips_variables_as_of_kubernetes_1_37() {
    let error = |text: &str| Err(text.to_owned());
    for (expression, old, new) in [
        ("[1].exists(x, .x == 1)", Ok(true), error("1:16: undeclared reference to '.x' (in container '')")),
        (
            "[1].exists(net, type(net) == net.IP)",
            Ok(false),
            error("1:33: type 'int' does not support field selection"),
        ),
        (
            "[1].exists(device, .device.driver == '')",
            error("1:27: type 'int' does not support field selection"),
            Ok(true),
        ),
        (
            "device{} == 1",
            error("1:7: 'kubernetes.DRADevice' is not a type"),
            error("1:7: undeclared reference to 'device' (in container '')"),
        ),
        (
            "[int].exists(int, .int == int)",
            Ok(true),
            error("program instantiation failed: reference to undefined type: .int"),
        ),
    ] {
        assert_eq!(outcome(expression, Features::of(Release::V1_36)).0, old, "{expression}");
        assert_eq!(outcome(expression, Features::of(Release::V1_37)).0, new, "{expression}");
    }
}

#[test]
fn quantities_are_subtracted_as_in_kubernetes() {
    for expression in [
        "quantity('1E').sub(-9223372036854775807 - 1).isLessThan(quantity('0'))",
        "quantity('-1').sub(-9223372036854775807 - 1).isGreaterThan(quantity('1E'))",
    ] {
        assert_eq!(evaluated(expression), Ok(true), "{expression}");
    }
}

#[test]
fn problems_at_the_same_position_are_in_the_order_of_the_checks() {
    let error = evaluated("'%d'.format(['%'.format(['a'])]) == ''").unwrap_err();
    let messages: Vec<&str> = error.lines().filter_map(|line| line.split("<input>:1:24: ").nth(1)).collect();
    assert_eq!(
        messages,
        [
            "unexpected end of string",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ]
    );
}

#[test]
fn a_selector_can_be_shared_between_threads() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<Selector>();
}
