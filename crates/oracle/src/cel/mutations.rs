//! Random changes to the text of an expression, which often make it invalid.

use crate::generate::Random;

const TOKENS: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    ":",
    "?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "true",
    "null",
    "1",
    "1u",
    "2.5",
    "'a'",
    "\"b\"",
    "b'c'",
    "x",
    "device",
    "`y`",
    "as",
    "if",
    "for",
    " ",
    "\n",
    "// c\n",
    "=",
    "&",
    "|",
    "@",
    "#",
    "$",
    "\\",
    "'",
    "\"",
    "ä",
    "\u{1F600}",
    "_",
    "..",
    ".?",
    "[?",
    "{?",
    "0x",
    "1e",
    "r'",
    "b\"",
    ".1",
    "\t",
    "has",
    "size(",
    "a.b",
    "return",
    "\u{0}",
    "'''",
    "~",
    ";",
    "`",
];

/// Changes a text in one to three places.
pub(super) fn mutated(random: &mut Random, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..random.range(1, 3) {
        let at = random.below(chars.len() + 1);
        let token: Vec<char> = random.pick(TOKENS).chars().collect();
        match random.below(5) {
            0 | 1 => {
                chars.splice(at..at, token);
            }
            2 => {
                let end = (at + random.range(1, 3)).min(chars.len());
                chars.drain(at.min(end)..end);
            }
            3 => {
                let end = (at + 1).min(chars.len());
                chars.splice(at.min(end)..end, token);
            }
            _ => chars.truncate(at),
        }
    }
    chars.into_iter().collect()
}
