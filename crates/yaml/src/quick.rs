//! Fast reading of YAML in the style in which programs write it: block mappings and lists, and scalars on one line.
//!
//! Nothing here reports an error: whatever else a text contains (flow collections, anchors, tags, comments behind values,
//! repeated keys, scalars on several lines, characters beyond ASCII) is left to [`Reader`](crate::Reader), which knows
//! all of YAML and the positions for messages.

use std::fmt::Write as _;

use memchr::memchr;

use crate::scalar::{self, Scalar};

/// Maximum depth of nested collections, far below the depth at which the reader gives up.
const MAX_DEPTH: usize = 60;

/// A document, cut into pieces that can be read one by one.
#[derive(Debug)]
pub struct Outline<'t> {
    /// Line on which the document begins, counted from 1.
    pub line: u64,
    /// Number of the document in the text, counted from 1.
    pub number: usize,
    /// The pieces.
    pub content: Pieces<'t>,
}

/// Pieces of a document.
#[derive(Debug)]
pub enum Pieces<'t> {
    /// The document as one piece, which [`to_json`] reads.
    Whole(&'t str),
    /// A list of a kind whose name ends with `List`, or that `items` precedes.
    Items {
        /// The other fields, as keys and JSON.
        fields: Vec<(&'t str, String)>,
        /// The elements of the list, which [`to_json`] reads.
        items: Vec<&'t str>,
    },
}

/// Cuts a text into its documents. Returns `None` if the reader must read the text.
pub fn outline(text: &str) -> Option<Vec<Outline<'_>>> {
    let has_other_breaks = !text.is_ascii() && text.contains(['\u{feff}', '\u{85}', '\u{2028}', '\u{2029}']);
    // No YAML may contain such characters, not even in a comment.
    let has_controls = text.bytes().any(|byte| byte < b' ' && byte != b'\n' && byte != b'\t' || byte == 0x7f);
    if has_other_breaks || has_controls {
        return None;
    }
    let mut outlines = Vec::new();
    let (mut begin, mut first) = (0, 1);
    let (mut at, mut line) = (0, 1);
    let mut are_known = true;
    let mut cut = |from: usize, to: usize, first: u64| {
        let document = &text[from..to];
        let lines = (first..).zip(document.lines());
        let has_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if let Some((line, _)) = lines.into_iter().find(|(_, line)| has_content(line)) {
            let content = items(document).unwrap_or(Pieces::Whole(document));
            outlines.push(Outline { line, number: outlines.len() + 1, content });
        } else {
            are_known &= document.is_ascii();
        }
    };
    while at < text.len() {
        let end = memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |end| at + end + 1);
        let content = &text[at..end];
        if let Some(rest) = content.strip_prefix("---") {
            if !rest.trim_end_matches([' ', '\n']).is_empty() {
                return None;
            }
            cut(begin, at, first);
            (begin, first) = (end, line + 1);
        } else if content.starts_with(['%', '.']) {
            // A directive, or the end of a document.
            return None;
        }
        (at, line) = (end, line + 1);
    }
    cut(begin, text.len(), first);
    are_known.then_some(outlines)
}

/// Cuts a document with a list of items. Returns `None` for any other document.
fn items(document: &str) -> Option<Pieces<'_>> {
    let mut lines = Lines::new(document);
    let mut fields: Vec<(&str, String)> = Vec::new();
    let mut items = None;
    if lines.indent != 0 {
        return None;
    }
    while !lines.is_over() {
        if lines.indent != 0 {
            return None;
        }
        let (key, rest) = key(lines.content)?;
        if fields.iter().any(|(known, _)| *known == key) || key == "items" && items.is_some() {
            return None;
        }
        if key == "items" {
            let is_list = |(key, kind): &(&str, String)| *key != "kind" || kind.ends_with("List\"");
            if !fields.iter().all(is_list) || !(rest.is_empty() || rest == "[]") {
                return None;
            }
            items = Some(if rest.is_empty() { lines.items()? } else { Vec::new() });
            if !rest.is_empty() {
                lines.advance();
            }
            continue;
        }
        let mut json = String::new();
        lines.field(rest, 0, 0, &mut json)?;
        fields.push((key, json));
    }
    let items: Vec<&str> = items?;
    // Nobody looks at comments outside the items.
    let of_items: usize = items.iter().map(|item| item.bytes().filter(|byte| !byte.is_ascii()).count()).sum();
    let of_all = document.bytes().filter(|byte| !byte.is_ascii()).count();
    (of_items == of_all).then_some(Pieces::Items { fields, items })
}

/// Converts a block mapping, a block list or an element of one to JSON without space between tokens. Returns `None` if
/// the reader must read the text.
pub fn to_json(text: &str) -> Option<String> {
    if !text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)) {
        return None;
    }
    let mut lines = Lines::new(text);
    let mut json = String::with_capacity(text.len());
    if !lines.is_element() && key(lines.content).is_none() {
        return None;
    }
    lines.node(0, &mut json)?;
    lines.is_over().then_some(json)
}

/// Converts the element of a list, with its dash, to JSON; otherwise like [`to_json`].
pub fn element_to_json(text: &str) -> Option<String> {
    let json = to_json(text)?;
    let element = json.strip_prefix('[')?.strip_suffix(']')?;
    Some(element.to_owned())
}

/// The lines of a text, without empty lines and comments.
struct Lines<'t> {
    /// The text after the current line.
    rest: &'t str,
    /// Number of spaces before the content.
    indent: usize,
    /// Content of the current line; empty after the last line.
    content: &'t str,
    /// Keys of the mappings around the current line.
    keys: Vec<&'t str>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let mut lines = Self { rest: text, indent: 0, content: "", keys: Vec::new() };
        lines.advance();
        lines
    }

    fn is_over(&self) -> bool {
        self.content.is_empty()
    }

    /// Returns true if the line begins an element of a list.
    fn is_element(&self) -> bool {
        self.content.starts_with("- ") || self.content == "-"
    }

    fn advance(&mut self) {
        loop {
            if self.rest.is_empty() {
                (self.indent, self.content) = (0, "");
                return;
            }
            let line = self.raw();
            let content = line.trim_start_matches(' ');
            if !content.is_empty() && !content.starts_with('#') {
                (self.indent, self.content) = (line.len() - content.len(), content.trim_end_matches(' '));
                if !self.content.is_empty() {
                    return;
                }
            }
        }
    }

    /// Takes the next line as it is.
    fn raw(&mut self) -> &'t str {
        let end = memchr(b'\n', self.rest.as_bytes());
        let (line, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, ""),
        };
        self.rest = rest;
        line
    }

    /// Cuts the list that is the value of the current line's key, and moves behind it.
    fn items(&mut self) -> Option<Vec<&'t str>> {
        let text = self.rest;
        self.advance();
        if !self.is_element() {
            // The key has no value if the next line is another key.
            return (self.indent == 0).then(Vec::new);
        }
        let indent = self.indent;
        let (mut items, mut begin, mut at) = (Vec::new(), None, 0);
        while at < text.len() {
            let end = memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |end| at + end + 1);
            let line = &text[at..end];
            let content = line.trim_start_matches(' ');
            let depth = line.len() - content.len();
            if depth <= indent && !content.trim_end().is_empty() && !content.starts_with('#') {
                if depth < indent || !content.starts_with("- ") {
                    break;
                }
                items.extend(begin.map(|begin| &text[begin..at]));
                begin = Some(at);
            }
            at = end;
        }
        items.extend(begin.map(|begin| &text[begin..at]));
        self.rest = &text[at..];
        self.advance();
        Some(items)
    }

    /// Reads the collection that begins on the current line.
    fn node(&mut self, depth: usize, json: &mut String) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.is_element() { self.sequence(depth, json) } else { self.mapping(depth, json) }
    }

    fn sequence(&mut self, depth: usize, json: &mut String) -> Option<()> {
        let indent = self.indent;
        json.push('[');
        let mut is_first = true;
        while !self.is_over() && self.indent == indent && self.is_element() {
            if !is_first {
                json.push(',');
            }
            is_first = false;
            let content = self.content.strip_prefix("- ")?.trim_start_matches(' ');
            self.indent += self.content.len() - content.len();
            self.content = content;
            if self.is_element() || key(content).is_some() {
                self.node(depth + 1, json)?;
            } else {
                self.scalar(content, indent, json)?;
            }
        }
        if !self.is_over() && self.indent > indent {
            return None;
        }
        json.push(']');
        Some(())
    }

    fn mapping(&mut self, depth: usize, json: &mut String) -> Option<()> {
        let (indent, first) = (self.indent, self.keys.len());
        json.push('{');
        while !self.is_over() && self.indent == indent {
            let (key, rest) = key(self.content)?;
            let is_repeated = self.keys[first..].last().is_some_and(|last| *last >= key)
                && self.keys[first..].contains(&key);
            if is_repeated {
                return None;
            }
            if self.keys.len() > first {
                json.push(',');
            }
            self.keys.push(key);
            json.extend(["\"", key, "\":"]);
            self.field(rest, indent, depth, json)?;
        }
        if !self.is_over() && self.indent > indent {
            return None;
        }
        self.keys.truncate(first);
        json.push('}');
        Some(())
    }

    /// Reads the value of a key, of which `rest` is on the line of the key, and moves behind it.
    fn field(&mut self, rest: &'t str, indent: usize, depth: usize, json: &mut String) -> Option<()> {
        if !rest.is_empty() {
            return self.scalar(rest, indent, json);
        }
        self.advance();
        if !self.is_over() && (self.indent > indent || self.indent == indent && self.is_element()) {
            if !self.is_element() && key(self.content).is_none() {
                return None;
            }
            return self.node(depth + 1, json);
        }
        json.push_str("null");
        Some(())
    }

    /// Reads a scalar, or an empty collection, on the current line, and moves behind it.
    fn scalar(&mut self, text: &'t str, indent: usize, json: &mut String) -> Option<()> {
        match text {
            "{}" | "[]" | "\"\"" => json.push_str(text),
            "''" => json.push_str("\"\""),
            "|" | "|-" => return self.literal(text == "|", indent, json),
            _ => match text.as_bytes()[0] {
                b'"' => double_quoted(text, json)?,
                b'\'' => single_quoted(text, json)?,
                _ => plain(text, json)?,
            },
        }
        self.advance();
        // A scalar on several lines.
        (self.is_over() || self.indent <= indent).then_some(())
    }

    /// Reads the lines of a literal scalar, and moves behind it.
    fn literal(&mut self, ends_with_break: bool, indent: usize, json: &mut String) -> Option<()> {
        json.push('"');
        let mut of_content = 0;
        let mut empty_lines = 0;
        loop {
            let before = self.rest;
            if before.is_empty() {
                break;
            }
            let line = self.raw();
            let content = line.trim_start_matches(' ');
            let spaces = line.len() - content.len();
            if content.is_empty() {
                // Spaces beyond the indentation belong to the content.
                if of_content == 0 || spaces > of_content {
                    return None;
                }
                empty_lines += 1;
                continue;
            }
            if spaces <= indent {
                self.rest = before;
                break;
            }
            if of_content == 0 {
                of_content = spaces;
            } else {
                if spaces < of_content {
                    return None;
                }
                json.push_str("\\n");
            }
            (0..std::mem::take(&mut empty_lines)).for_each(|_| json.push_str("\\n"));
            escaped(&line[of_content..], json);
        }
        if of_content == 0 {
            return None;
        }
        json.push_str(if ends_with_break { "\\n\"" } else { "\"" });
        self.advance();
        Some(())
    }
}

/// Splits a line into a plain key and what follows it.
fn key(line: &str) -> Option<(&str, &str)> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./-".contains(byte);
    let end = line.bytes().take_while(|byte| is_part(byte)).count();
    let (key, rest) = line.split_at(end);
    let rest = rest.strip_prefix(':')?;
    let begins_well = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_text = begins_well && (key.len() > 5 || scalar::plain(key) == Scalar::Text);
    if !is_text || !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    Some((key, rest.trim_start_matches(' ')))
}

fn plain(text: &str, json: &mut String) -> Option<()> {
    let bytes = text.as_bytes();
    let begins_well = bytes[0].is_ascii_alphanumeric()
        || b"/._+($~".contains(&bytes[0])
        || bytes[0] == b'-' && bytes.get(1).is_some_and(|next| *next != b' ');
    if !begins_well || text.ends_with(':') || text.contains(": ") || text.contains(" #") {
        return None;
    }
    // A word that begins with a letter and has more than five is no null, boolean or number.
    if text.len() > 5 && bytes[0].is_ascii_alphabetic() {
        string(text, json);
        return Some(());
    }
    match scalar::plain(text) {
        Scalar::Null => json.push_str("null"),
        Scalar::Bool(value) => json.push_str(if value { "true" } else { "false" }),
        // Writing to a string cannot fail.
        Scalar::Int(value) => drop(write!(json, "{value}")),
        Scalar::Float(_) => return None,
        Scalar::Text => string(text, json),
    }
    Some(())
}

fn single_quoted(text: &str, json: &mut String) -> Option<()> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    if inner.replace("''", "").contains('\'') {
        return None;
    }
    if inner.contains('\'') {
        string(&inner.replace("''", "'"), json);
    } else {
        string(inner, json);
    }
    Some(())
}

/// Copies a string whose escapes are those of JSON.
fn double_quoted(text: &str, json: &mut String) -> Option<()> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut escapes = false;
    for byte in inner.bytes() {
        match (escapes, byte) {
            (true, b'"' | b'\\' | b'n' | b't') => escapes = false,
            (true, _) | (false, b'"') => return None,
            (false, b'\\') => escapes = true,
            (false, _) => {}
        }
    }
    if escapes {
        return None;
    }
    json.push_str(text);
    Some(())
}

fn string(text: &str, json: &mut String) {
    json.push('"');
    escaped(text, json);
    json.push('"');
}

fn escaped(text: &str, json: &mut String) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) {
        json.push_str(&rest[..at]);
        json.push('\\');
        json.push_str(&rest[at..=at]);
        rest = &rest[at + 1..];
    }
    json.push_str(rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::Reader;

    /// Returns what the reader makes of a text of one document without repeated keys.
    fn read(text: &str) -> Option<Value> {
        let mut reader = Reader::new(text);
        assert!(reader.next_document().ok()?);
        let node = reader.value().ok()?;
        let is_clean = node.repeated_keys().is_empty() && !reader.next_document().ok()?;
        is_clean.then(|| node.into_json())
    }

    fn line() -> impl Strategy<Value = String> {
        let scalar = prop::sample::select(
            &[
                "",
                "a",
                "yes",
                "null",
                "~",
                "7",
                "-7",
                "0644",
                "1.5",
                "1e3",
                "2026-01-01T00:00:00Z",
                "{}",
                "[]",
                "{a: b}",
                "'a: b'",
                "''",
                "'it''s'",
                "\"x\\n\\\"y\"",
                "\"\"",
                "\"open",
                "'open",
                "|",
                "|-",
                ">",
                "a: b",
                "a #b",
                "a#b",
                "&x 1",
                "*x",
                "!t a",
                "10.0.0.1",
                "a:b",
                "-a",
                "- a",
                "-",
                "/x",
                ".inf",
                "a\\b",
                "x y  z",
                "%a",
                "@a",
                "?",
                "a:",
                "\u{e9}",
                "a\tb",
                "longer words",
            ][..],
        );
        let key = prop::sample::select(
            &["a", "b", "items", "kind", "yes", "x.y/z", "\"q\"", "7", "<<", "abcdef"][..],
        );
        let indent = prop::sample::select(&["", "", "  ", "  ", "    ", " "][..]);
        let dash = prop::sample::select(&["", "", "- ", "-  ", "- - "][..]);
        let keyed = (indent.clone(), dash.clone(), key.clone(), scalar.clone())
            .prop_map(|(i, d, k, s)| format!("{i}{d}{k}: {s}"));
        let open = (indent.clone(), dash, key).prop_map(|(i, d, k)| format!("{i}{d}{k}:"));
        let element = (indent, scalar).prop_map(|(i, s)| format!("{i}- {s}"));
        let other = prop::sample::select(
            &["", "  ", "# note", "  # note", "text", "  text", "---", "--- a", "...", "%x", "    more: |"][..],
        );
        prop_oneof![6 => keyed, 3 => open, 2 => element, 1 => other.prop_map(str::to_owned)]
    }

    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec(line(), 1..9).prop_map(|lines| lines.join("\n"))
    }

    /// A value as programs write it.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~]{0,12}".prop_map(Value::from),
            "[a-z0-9.:/-]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-z][a-zA-Z./-]{0,9}", inner), 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_read_fast_is_what_the_reader_reads(text in text()) {
            if let Some(json) = to_json(&text) {
                prop_assert_eq!(serde_json::from_str::<Value>(&json).ok(), read(&text), "{}", text);
            }
            for Outline { content, .. } in outline(&text).into_iter().flatten() {
                if let Pieces::Items { items, .. } = content {
                    for item in items {
                        let alone = item.replacen('-', " ", 1);
                        if let Some(json) = element_to_json(item) {
                            prop_assert_eq!(serde_json::from_str::<Value>(&json).ok(), read(&alone), "{}", item);
                        }
                    }
                }
            }
        }

        #[test]
        fn what_programs_write_is_read_fast(value in value()) {
            let is_collection = value.as_object().is_some_and(|fields| !fields.is_empty());
            let text = crate::write(&serde_json::json!({"x": value}));
            let is_known = |text: &str| !text.contains("\\u");
            let json = to_json(&text);
            if is_collection && is_known(&text) && json.is_some() {
                prop_assert_eq!(serde_json::from_str::<Value>(&json.unwrap()).ok(), read(&text), "{}", text);
            }
        }
    }

    #[test]
    fn the_style_of_kubectl_is_read_fast() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    note: |\n      {\"a\":\"b\\n\"}\n\n      end\n  labels: {}\n  name: a-1\n\
                    spec:\n  containers:\n  - args:\n    - --x=1\n    - -y\n    image: 'registry/a:1'\n    ports:\n    - containerPort: 80\n  \
                    priority: 0\nstatus:\n  startTime: \"2026-01-01T00:00:00Z\"\n  reason: null\n  ready: true\n  hostIP: 10.0.0.1\n";
        let json = to_json(text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).ok(), read(text));
        assert!(json.contains(r#""note":"{\"a\":\"b\\n\"}\n\nend\n""#), "{json}");
    }
}
