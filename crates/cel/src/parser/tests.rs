//! Tests of syntax errors.

use super::*;
use crate::stack::on_large_stack;

fn parsed(text: &str) -> Result<(), CompileError> {
    on_large_stack(|| parse(&Source::new(text)).map(drop)).unwrap()
}

/// Returns the messages with their positions, without the lines that they quote.
fn errors(text: &str) -> Vec<String> {
    let error = parsed(text).unwrap_err().to_string();
    let lines =
        error.strip_prefix("compilation failed: ").unwrap().lines().filter(|line| !line.starts_with(" |"));
    lines.map(|line| line.strip_prefix("ERROR: <input>:").unwrap_or(line).to_owned()).collect()
}

const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                          STRING, BYTES, IDENTIFIER}";

#[test]
fn a_token_that_does_not_fit_is_reported() {
    for (text, error) in [
        ("", &*format!("1:0: Syntax error: mismatched input '<EOF>' expecting {EXPRESSION}")),
        ("1 +", &format!("1:4: Syntax error: mismatched input '<EOF>' expecting {EXPRESSION}")),
        ("1 == == 2", &format!("1:6: Syntax error: extraneous input '==' expecting {EXPRESSION}")),
        ("!", &format!("1:2: Syntax error: extraneous input '<EOF>' expecting {EXPRESSION}")),
        ("true false", "1:6: Syntax error: extraneous input 'false' expecting <EOF>"),
        ("a b c d", "1:3: Syntax error: mismatched input 'b' expecting <EOF>"),
        ("(1", "1:3: Syntax error: missing ')' at '<EOF>'"),
        ("[1,", "1:4: Syntax error: missing ']' at '<EOF>'"),
        ("{1:2,,}", "1:6: Syntax error: extraneous input ',' expecting '}'"),
        ("a{b c}", "1:5: Syntax error: missing ':' at 'c'"),
        ("f(1 2)", "1:5: Syntax error: extraneous input '2' expecting ')'"),
        ("a ? b ? c : d : e", "1:7: Syntax error: mismatched input '?' expecting ':'"),
    ] {
        assert_eq!(errors(text), [error], "{text}");
    }
}

#[test]
fn tokens_that_fit_no_alternative_are_reported_together() {
    for (text, error) in [
        ("a.b.c.", "1:7: Syntax error: no viable alternative at input '.'"),
        ("a.(b)", "1:3: Syntax error: no viable alternative at input '.('"),
        ("!-x", "1:3: Syntax error: no viable alternative at input '-x'"),
        ("a.true", "1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER"),
        (". true", "1:3: Syntax error: no viable alternative at input '. true'"),
    ] {
        assert_eq!(errors(text), [error], "{text}");
    }
}

#[test]
fn parsing_continues_after_an_error() {
    for (text, expected) in [
        (
            "a = b",
            [
                "1:3: Syntax error: token recognition error at: '= '",
                "1:5: Syntax error: extraneous input 'b' expecting <EOF>",
            ],
        ),
        (
            "a\n@ b",
            [
                "2:1: Syntax error: token recognition error at: '@'",
                "2:3: Syntax error: extraneous input 'b' expecting <EOF>",
            ],
        ),
        (
            "a.?",
            [
                "1:4: Syntax error: mismatched input '<EOF>' expecting {IDENTIFIER, ESC_IDENTIFIER}",
                "1:4: unsupported ident kind",
            ],
        ),
        ("if ]", ["1:1: reserved identifier: if", "1:4: Syntax error: extraneous input ']' expecting <EOF>"]),
    ] {
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn no_errors_are_reported_in_parts_that_cel_go_does_not_examine() {
    assert_eq!(errors("if(while)"), ["1:1: reserved identifier: if"]);
    assert_eq!(errors("{while"), ["1:7: Syntax error: mismatched input '<EOF>' expecting ':'"]);
    assert_eq!(errors("a{b: 1, `c`: while}"), ["1:3: unsupported syntax: '`'"]);
}

#[test]
fn an_expression_that_is_too_deep_has_one_error() {
    for (text, error) in [
        ("(".repeat(20_000), "-1:0: expression recursion limit exceeded: 250"),
        ("[".repeat(20_000), "-1:0: expression recursion limit exceeded: 250"),
        ("a.b(".repeat(20_000), "-1:0: expression recursion limit exceeded: 250"),
        ("true ? true : ".repeat(300) + "true", "-1:0: expression recursion limit exceeded: 250"),
        ("1 + ".repeat(20_000) + "1", "-1:0: max recursion depth exceeded"),
        ("a".to_owned() + &".b".repeat(20_000), "-1:0: max recursion depth exceeded"),
    ] {
        assert_eq!(errors(&text), [error], "{text:.20}");
    }
    for text in ["1 + ".repeat(250) + "1", "true && ".repeat(5_000) + "true", "!".repeat(20_000) + "a"] {
        assert_eq!(parsed(&text), Ok(()), "{text:.20}");
    }
}

#[test]
fn parsing_stops_after_too_many_errors_or_characters() {
    let first = |text: String| errors(&text).swap_remove(0);
    assert_eq!(first("1 ".repeat(20_000)), "-1:0: error recovery token lookahead limit exceeded: 256");
    assert_eq!(
        errors(&"1 ? 2 ".repeat(40)).pop().unwrap(),
        "1:187: Syntax error: error recovery attempt limit exceeded: 30"
    );
    let many = errors(&"@".repeat(20_000));
    assert_eq!((many.len(), many.last().unwrap().as_str()), (101, "1 more errors were truncated"));
    assert_eq!(
        errors(&"x".repeat(100_001)),
        ["-1:0: expression code point size exceeds limit: size: 100001, limit 100000"]
    );
}
