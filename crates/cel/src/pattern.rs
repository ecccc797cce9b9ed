//! Patterns of texts, in the syntax of Go's `regexp` (RE2).
//!
//! [`syntax`] reads a pattern, reports its errors with Go's messages, and writes an equivalent pattern for the crate
//! `regex`, whose syntax differs in details. Scripts and categories of characters are those of the crate's version of
//! Unicode.

mod names;
mod syntax;

use regex::{Regex, RegexBuilder};

/// Size of the largest compiled pattern, in bytes.
const LARGEST: usize = 32 << 20;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let translated = syntax::translate(text)?;
        let nests = syntax::DEEPEST * 2 + 50;
        let compiled = RegexBuilder::new(&translated).size_limit(LARGEST).nest_limit(nests).build();
        compiled.map(Self).map_err(|_| syntax::failure("expression too large", text))
    }

    /// Returns true if any part of the text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// Returns the first match, or an empty text.
    pub(crate) fn find<'t>(&self, text: &'t str) -> &'t str {
        self.0.find(text).map_or("", |found| found.as_str())
    }

    /// Returns the first matches, at most `most`.
    pub(crate) fn find_all<'t>(&self, text: &'t str, most: usize) -> impl Iterator<Item = &'t str> {
        self.0.find_iter(text).take(most).map(|found| found.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, found) in [
            ("b+", "abbc", "bb"),
            (r"^\d{2,}$", "123", "123"),
            (r"^\d$", "٣", ""),
            (r"\bä", "xä", "ä"),
            (r"[[:alpha:]\d-]+", "!a1-!", "a1-"),
            (r"[^\D5]", "5x4", "4"),
            (r"\Qa.b\E+", "a.bb", "a.bb"),
            ("(?i)ä(?-i)B", "ÄbÄB", "ÄB"),
            ("(?s).", "\n", "\n"),
            ("(?m)^b$", "a\nb\nc", "b"),
            ("(?U)a+", "aaa", "a"),
            ("(?P<n>a)|b", "b", "b"),
            (r"\pL\p{Greek}", "aα", "aα"),
            (r"\x41\x{1F600}\101", "A😀A", "A😀A"),
            ("a{,2}", "a{,2}", "a{,2}"),
            ("[a&&b]+", "&", "&"),
            (r"[\s~~]", "~", "~"),
            ("a$b|", "x", ""),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().find(text), found, "{pattern}");
        }
        let all: Vec<&str> = Pattern::new("a*").unwrap().find_all("baac", usize::MAX).collect();
        assert_eq!(all, ["", "aa", ""]);
    }

    #[test]
    fn deep_patterns_do_not_exhaust_the_stack() {
        for (open, close, weight) in [("(a", ")", 2), ("(?:a|", ")", 1), ("(?:b", ")+", 5)] {
            let nested = |depth: usize| Pattern::new(&(open.repeat(depth) + &close.repeat(depth)));
            assert!(nested(syntax::DEEPEST as usize / weight - 1).is_ok(), "{open}");
            let error = nested(20_000).unwrap_err();
            assert!(error.starts_with("error parsing regexp: expression nests too deeply: `"), "{error}");
        }
    }
}
