use harbormaster_api::Quantity;

use super::*;

fn evaluated(expression: &str) -> Result<bool, String> {
    let attributes = [
        ("model", Attribute::String("a1")),
        ("other.example.com/model", Attribute::String("b2")),
        ("memory", Attribute::Int(80)),
        ("healthy", Attribute::Bool(true)),
        ("version", Attribute::Version("1.10.0")),
    ];
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
        "quantity('1Gi').isInteger() && quantity('1.5').sign() == 1 && !isQuantity('x')",
        "semver('v1.2', true).minor() == 2 && isSemver('1.2.3') && !isSemver('1.2')",
        "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2])",
        "(1 / 0 == 1) || true",
        r#"r'\d' == '\\d' && "\x41\u0042" == 'AB' && '''a'b''' == "a'b""#,
        "true ? true : false",
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
fn functions_that_are_not_evaluated_here_are_named() {
    let error = evaluated("duration('1s') == duration('1s')").unwrap_err();
    assert!(
        error.contains("function 'duration' is not supported by this version of Harbormaster"),
        "{error}"
    );
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
    let attributes = [("odd", Attribute::Unsupported)];
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
