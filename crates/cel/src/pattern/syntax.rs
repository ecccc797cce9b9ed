//! Reads patterns in the syntax of Go.

use super::names;

/// Maximum depth of a pattern. It is 1000 in Go, whose stack grows.
pub(super) const DEEPEST: u32 = 400;
/// Depth of a repetition, which needs more of the stack than other parts when it is compiled.
const REPETITION: u32 = 4;
/// Maximum number of repetitions.
const MOST: i64 = 1000;
/// Go's maximum number of instructions of a compiled pattern.
const LARGEST: u64 = (128 << 20) / 40;

type Read<V> = Result<V, String>;

/// Returns the text of an error in a part of a pattern.
pub(super) fn failure(why: &str, part: &str) -> String {
    format!("error parsing regexp: {why}: `{part}`")
}

fn fail<V>(why: &str, part: &str) -> Read<V> {
    Err(failure(why, part))
}

const ESCAPE: &str = "invalid escape sequence";
const RANGE: &str = "invalid character class range";
const REPEAT_SIZE: &str = "invalid repeat count";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    ignores_case: bool,
    is_multi_line: bool,
    dot_matches_all: bool,
    is_lazy: bool,
}

/// A part of a pattern that can be repeated, in the syntax of the crate `regex`.
#[derive(Debug, Default)]
struct Part {
    text: String,
    /// Repetitions within the part.
    repeats: Vec<Repeat>,
    is_repeat: bool,
    size: u64,
    height: u32,
}

#[derive(Debug)]
struct Repeat {
    count: i64,
    within: Vec<Repeat>,
}

impl Repeat {
    /// Returns true if the product of nested repetitions does not exceed a limit.
    fn is_within(&self, limit: i64) -> bool {
        self.count == 0
            || self.count <= limit && self.within.iter().all(|inner| inner.is_within(limit / self.count))
    }
}

/// The content of a pair of parentheses, or the whole pattern.
#[derive(Debug, Default)]
struct Group {
    /// Flags before the group.
    before: Flags,
    is_capture: bool,
    alternatives: Vec<Part>,
    parts: Vec<Part>,
}

impl Group {
    /// Ends the current alternative.
    fn end_alternative(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        self.alternatives.push(match parts.len() {
            1 => parts.swap_remove(0),
            _ => Part {
                text: parts.iter().map(|part| part.text.as_str()).collect(),
                size: parts.iter().map(|part| part.size).sum::<u64>().max(1),
                height: 1 + parts.iter().map(|part| part.height).max().unwrap_or(0),
                repeats: parts.into_iter().flat_map(|part| part.repeats).collect(),
                is_repeat: false,
            },
        });
    }

    fn into_part(mut self) -> Part {
        self.end_alternative();
        let count = self.alternatives.len() as u64;
        let texts: Vec<&str> = self.alternatives.iter().map(|part| part.text.as_str()).collect();
        let text = format!("(?:{})", texts.join("|"));
        let size = self.alternatives.iter().map(|part| part.size).sum::<u64>() + count - 1;
        let height =
            self.alternatives.iter().map(|part| part.height).max().unwrap_or(0) + u32::from(count > 1);
        Part {
            text,
            size: size + if self.is_capture { 2 } else { 0 },
            height: height + u32::from(self.is_capture),
            repeats: self.alternatives.into_iter().flat_map(|part| part.repeats).collect(),
            is_repeat: false,
        }
    }
}

/// Writes a pattern in the syntax of the crate `regex`.
pub(super) fn translate(pattern: &str) -> Read<String> {
    let mut reader =
        Reader { whole: pattern, rest: pattern, flags: Flags::default(), groups: vec![Group::default()] };
    let mut last_repeat = None;
    while let Some(c) = reader.rest.chars().next() {
        last_repeat = reader.step(c, last_repeat)?;
    }
    let (Some(group), true) = (reader.groups.pop(), reader.groups.is_empty()) else {
        return fail("missing closing )", pattern);
    };
    Ok(group.into_part().text)
}

struct Reader<'p> {
    whole: &'p str,
    rest: &'p str,
    flags: Flags,
    groups: Vec<Group>,
}

impl<'p> Reader<'p> {
    /// Reads one token. If the token is a repetition operator, returns the text that begins with it.
    fn step(&mut self, c: char, last_repeat: Option<&'p str>) -> Read<Option<&'p str>> {
        let before = self.rest;
        match c {
            '(' if before.starts_with("(?") => self.flags_or_name()?,
            '(' => {
                self.rest = &before[1..];
                self.open(true)?;
            }
            '|' => {
                self.rest = &before[1..];
                self.group().end_alternative();
            }
            ')' => {
                self.rest = &before[1..];
                self.close()?;
            }
            '^' => self.assertion(1, if self.flags.is_multi_line { "(?m:^)" } else { "\\A" })?,
            '$' => self.assertion(1, if self.flags.is_multi_line { "(?m:$)" } else { "\\z" })?,
            '.' => self.assertion(1, if self.flags.dot_matches_all { "(?s:.)" } else { "[^\\n]" })?,
            '[' => self.class()?,
            '*' | '+' | '?' => {
                self.rest = &before[1..];
                let (least, most) = match c {
                    '*' => (0, -1),
                    '+' => (1, -1),
                    _ => (0, 1),
                };
                self.repeat(before, least, most, false, last_repeat)?;
                return Ok(Some(before));
            }
            '{' => {
                let Some((least, most, rest)) = repetitions(before) else {
                    self.rest = &before[1..];
                    self.literal('{')?;
                    return Ok(None);
                };
                self.rest = rest;
                if !(0..=MOST).contains(&least) || most > MOST || most >= 0 && least > most {
                    return fail(REPEAT_SIZE, &before[..before.len() - rest.len()]);
                }
                self.repeat(before, least, most, true, last_repeat)?;
                return Ok(Some(before));
            }
            '\\' => self.escape()?,
            c => {
                self.rest = &before[c.len_utf8()..];
                self.literal(c)?;
            }
        }
        Ok(None)
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    fn push(&mut self, part: Part) -> Read<()> {
        if part.size > LARGEST {
            return fail("expression too large", self.whole);
        }
        if part.height > DEEPEST {
            return fail("expression nests too deeply", self.whole);
        }
        self.group().parts.push(part);
        Ok(())
    }

    fn push_simple(&mut self, text: String) -> Read<()> {
        self.push(Part { text, size: 1, height: 1, ..Part::default() })
    }

    fn assertion(&mut self, length: usize, text: &str) -> Read<()> {
        self.rest = &self.rest[length..];
        self.push_simple(text.to_owned())
    }

    fn literal(&mut self, c: char) -> Read<()> {
        let text = match self.flags.ignores_case {
            true => format!("(?i:{})", written(c)),
            false => written(c),
        };
        self.push_simple(text)
    }

    fn open(&mut self, is_capture: bool) -> Read<()> {
        // Groups that contain only another group do not count towards the depth, but they need memory.
        if self.groups.len() > 20 * DEEPEST as usize {
            return fail("expression nests too deeply", self.whole);
        }
        self.groups.push(Group { before: self.flags, is_capture, ..Group::default() });
        Ok(())
    }

    fn close(&mut self) -> Read<()> {
        let Some(group) = self.groups.pop().filter(|_| !self.groups.is_empty()) else {
            return fail("unexpected )", self.whole);
        };
        self.flags = group.before;
        self.push(group.into_part())
    }

    fn repeat(
        &mut self,
        before: &str,
        least: i64,
        most: i64,
        is_counted: bool,
        last: Option<&str>,
    ) -> Read<()> {
        let mut is_lazy = self.flags.is_lazy;
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
            is_lazy = !is_lazy;
        }
        let rest = self.rest.len();
        if let Some(last) = last {
            return fail("invalid nested repetition operator", &last[..last.len() - rest]);
        }
        let operator = &before[..before.len() - rest];
        let Some(part) = self.group().parts.pop() else {
            return fail("missing argument to repetition operator", operator);
        };
        let count = if most < 0 { least } else { most };
        let repeats = match is_counted {
            true => vec![Repeat { count, within: part.repeats }],
            false => part.repeats,
        };
        if is_counted && (least >= 2 || most >= 2) && !repeats.iter().all(|repeat| repeat.is_within(MOST)) {
            return fail(REPEAT_SIZE, operator);
        }
        let suffix = match (is_counted, least, most) {
            (false, 0, -1) => "*".to_owned(),
            (false, 1, _) => "+".to_owned(),
            (false, ..) => "?".to_owned(),
            (true, _, -1) => format!("{{{least},}}"),
            (true, ..) => format!("{{{least},{most}}}"),
        };
        let inner = if part.is_repeat { format!("(?:{})", part.text) } else { part.text };
        let lazy = if is_lazy { "?" } else { "" };
        let size = match (is_counted, most) {
            (false, _) => 2 + part.size,
            (true, -1) if least == 0 => 2 + part.size,
            (true, -1) => 1 + least as u64 * part.size,
            (true, _) => most as u64 * part.size + (most - least) as u64,
        };
        self.push(Part {
            text: format!("{inner}{suffix}{lazy}"),
            repeats,
            is_repeat: true,
            size: size.max(1),
            height: part.height + REPETITION,
        })
    }

    /// Reads `(?flags)`, `(?flags:`, `(?P<name>` or `(?<name>`.
    fn flags_or_name(&mut self) -> Read<()> {
        let start = self.rest;
        if let Some(name) =
            start.strip_prefix("(?P<").or_else(|| start.strip_prefix("(?<")).filter(|it| !it.is_empty())
        {
            const WRONG: &str = "invalid named capture";
            let Some(end) = start.find('>') else { return fail(WRONG, start) };
            let name = &name[..end - (start.len() - name.len())];
            if name.is_empty() || !name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') {
                return fail(WRONG, &start[..=end]);
            }
            self.rest = &start[end + 1..];
            return self.open(true);
        }
        let (mut flags, mut sets, mut has_flag) = (self.flags, true, false);
        let mut chars = start[2..].chars();
        while let Some(c) = chars.next() {
            match c {
                'i' => flags.ignores_case = sets,
                'm' => flags.is_multi_line = sets,
                's' => flags.dot_matches_all = sets,
                'U' => flags.is_lazy = sets,
                '-' if sets => {
                    (sets, has_flag) = (false, false);
                    continue;
                }
                ':' | ')' if sets || has_flag => {
                    self.rest = chars.as_str();
                    if c == ':' {
                        self.open(false)?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            has_flag = true;
        }
        fail("invalid or unsupported Perl syntax", &start[..start.len() - chars.as_str().len()])
    }

    /// Reads an escape sequence outside brackets.
    fn escape(&mut self) -> Read<()> {
        match self.rest.as_bytes().get(1) {
            Some(b'A') => return self.assertion(2, "\\A"),
            Some(b'b') => return self.assertion(2, "(?-u:\\b)"),
            Some(b'B') => return self.assertion(2, "(?-u:\\B)"),
            Some(b'z') => return self.assertion(2, "\\z"),
            Some(b'C') => return fail(ESCAPE, &self.rest[..2]),
            Some(b'Q') => {
                let quoted = &self.rest[2..];
                let (literal, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                self.rest = rest;
                return literal.chars().try_for_each(|c| self.literal(c));
            }
            _ => {}
        }
        if let Some(set) = self.set()? {
            return self.push_simple(self.bracketed(&set, false));
        }
        let c = self.escaped_char()?;
        self.literal(c)
    }

    fn bracketed(&self, items: &str, is_negated: bool) -> String {
        let (open, close) = if self.flags.ignores_case { ("(?i:[", "])") } else { ("[", "]") };
        format!("{open}{}{items}{close}", if is_negated { "^" } else { "" })
    }

    /// Reads a set of characters such as `\d` or `\p{Greek}`, if there is one.
    fn set(&mut self) -> Read<Option<String>> {
        let start = self.rest;
        let Some(kind) = start.strip_prefix('\\').and_then(|rest| rest.chars().next()) else {
            return Ok(None);
        };
        let set = match kind {
            'd' | 'D' => "0-9",
            's' | 'S' => "\\t\\n\\x0C\\r ",
            'w' | 'W' => "0-9A-Za-z_",
            'p' | 'P' => return self.named_set(kind == 'P'),
            _ => return Ok(None),
        };
        self.rest = &start[2..];
        Ok(Some(if kind.is_ascii_uppercase() { format!("[^{set}]") } else { set.to_owned() }))
    }

    fn named_set(&mut self, mut is_negated: bool) -> Read<Option<String>> {
        let start = self.rest;
        let mut chars = start[2..].chars();
        let Some(first) = chars.next() else { return Ok(None) };
        let (sequence, mut name) = if first == '{' {
            let Some(end) = start.find('}') else { return fail(RANGE, start) };
            (&start[..=end], &start[3..end])
        } else {
            let sequence = &start[..2 + first.len_utf8()];
            (sequence, &sequence[2..])
        };
        if let Some(rest) = name.strip_prefix('^') {
            is_negated = !is_negated;
            name = rest;
        }
        let Some(set) = names::set(name) else { return fail(RANGE, sequence) };
        self.rest = &start[sequence.len()..];
        Ok(Some(if is_negated { format!("[^{set}]") } else { set }))
    }

    /// Reads an escaped character.
    fn escaped_char(&mut self) -> Read<char> {
        let start = self.rest;
        let mut chars = start[1..].chars();
        let Some(kind) = chars.next() else { return fail("trailing backslash at end of expression", "") };
        let is_octal = |c: &u8| matches!(c, b'0'..=b'7');
        let next = chars.as_str().as_bytes().first();
        let value = match kind {
            '0'..='7' if kind == '0' || next.is_some_and(is_octal) => {
                let more = chars.as_str().bytes().take(2).take_while(|c| is_octal(c)).count();
                let digits = &start[1..2 + more];
                chars = start[2 + more..].chars();
                u32::from_str_radix(digits, 8).ok()
            }
            'x' => {
                let (value, rest) = hexadecimal(chars.as_str());
                chars = rest.chars();
                value
            }
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c as u32),
            _ => None,
        };
        let Some(value) = value else { return fail(ESCAPE, &start[..start.len() - chars.as_str().len()]) };
        self.rest = chars.as_str();
        // A surrogate cannot occur in texts; it becomes a noncharacter, which hardly ever occurs.
        Ok(char::from_u32(value).unwrap_or('\u{10ffff}'))
    }

    /// Reads a set in brackets.
    fn class(&mut self) -> Read<()> {
        let start = self.rest;
        self.rest = &start[1..];
        let mut is_negated = false;
        if let Some(rest) = self.rest.strip_prefix('^') {
            is_negated = true;
            self.rest = rest;
        }
        let mut items = String::new();
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            if let Some(set) = self.posix_set()? {
                items.push_str(&set);
                continue;
            }
            if let Some(set) = self.set()? {
                items.push_str(&set);
                continue;
            }
            let range = self.rest;
            let low = self.class_char(start)?;
            let mut high = low;
            if self.rest.len() >= 2 && self.rest.starts_with('-') && !self.rest[1..].starts_with(']') {
                self.rest = &self.rest[1..];
                high = self.class_char(start)?;
                if high < low {
                    return fail(RANGE, &range[..range.len() - self.rest.len()]);
                }
            }
            items.push_str(&written_in_class(low));
            if high > low {
                items.push('-');
                items.push_str(&written_in_class(high));
            }
        }
        self.rest = &self.rest[1..];
        self.push_simple(self.bracketed(&items, is_negated))
    }

    /// Reads a set such as `[:alpha:]`, if there is one.
    fn posix_set(&mut self) -> Read<Option<String>> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "word", "xdigit",
        ];
        let start = self.rest;
        let Some(name) = start.strip_prefix("[:").filter(|rest| !rest.is_empty()) else { return Ok(None) };
        let Some(end) = name.find(":]") else { return Ok(None) };
        let all = &start[..end + 4];
        let name = &name[..end];
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return fail(RANGE, all);
        }
        self.rest = &start[all.len()..];
        Ok(Some(all.to_owned()))
    }

    fn class_char(&mut self, class: &str) -> Read<char> {
        match self.rest.chars().next() {
            None => fail("missing closing ]", class),
            Some('\\') => self.escaped_char(),
            Some(c) => {
                self.rest = &self.rest[c.len_utf8()..];
                Ok(c)
            }
        }
    }
}

/// Reads a hexadecimal number after `\x`, and returns the rest of the text. If there is no valid number, the rest
/// begins after the part that an error quotes.
fn hexadecimal(text: &str) -> (Option<u32>, &str) {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return (None, text) };
    if first != '{' {
        let second = chars.next().and_then(|c| c.to_digit(16));
        let value = first.to_digit(16).zip(second).map(|(high, low)| high * 16 + low);
        return (value, chars.as_str());
    }
    let (mut value, mut count) = (0u32, 0);
    loop {
        match chars.next() {
            Some('}') => return (Some(value).filter(|_| count > 0), chars.as_str()),
            Some(c) => match c.to_digit(16).map(|digit| value * 16 + digit) {
                Some(next) if next <= 0x10_ffff => value = next,
                _ => return (None, chars.as_str()),
            },
            None => return (None, ""),
        }
        count += 1;
    }
}

/// Reads `{n}`, `{n,}` or `{n,m}`. Returns the minimum, the maximum (`-1` if there is none), and the rest of the text.
/// If a number is too large, the minimum is `-1`.
fn repetitions(text: &str) -> Option<(i64, i64, &str)> {
    let (least, rest) = number(text.strip_prefix('{')?)?;
    let (least, most, rest) = match rest.strip_prefix(',') {
        None => (least, least, rest),
        Some(rest) if rest.starts_with('}') => (least, -1, rest),
        Some(rest) => {
            let (most, rest) = number(rest)?;
            (if most < 0 { -1 } else { least }, most, rest)
        }
    };
    Some((least, most, rest.strip_prefix('}')?))
}

fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.bytes().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok().filter(|number| *number < 1_000_000_000).unwrap_or(-1), rest))
}

fn written(c: char) -> String {
    if c.is_ascii_alphanumeric() || !c.is_ascii() { c.to_string() } else { format!("\\x{:02X}", c as u32) }
}

fn written_in_class(c: char) -> String {
    format!("\\x{{{:X}}}", c as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        for (pattern, why, part) in [
            ("[a", "missing closing ]", "[a"),
            ("(a", "missing closing )", "(a"),
            ("a)", "unexpected )", "a)"),
            ("*a", "missing argument to repetition operator", "*"),
            ("a|+?", "missing argument to repetition operator", "+?"),
            ("a**", "invalid nested repetition operator", "**"),
            ("a{2}{3}?b", "invalid nested repetition operator", "{2}{3}?"),
            ("a{1001}", "invalid repeat count", "{1001}"),
            ("(a{500}){3}", "invalid repeat count", "{3}"),
            ("a\\", "trailing backslash at end of expression", ""),
            (r"\8", "invalid escape sequence", r"\8"),
            (r"\x{zz}", "invalid escape sequence", r"\x{z"),
            (r"[b-a]", "invalid character class range", "b-a"),
            (r"[[:foo:]]", "invalid character class range", "[:foo:]"),
            (r"\p{Foo}", "invalid character class range", r"\p{Foo}"),
            ("(?z)", "invalid or unsupported Perl syntax", "(?z"),
            ("(?=a)", "invalid or unsupported Perl syntax", "(?="),
            ("(?P<a", "invalid named capture", "(?P<a"),
            ("(?P<a-b>c)", "invalid named capture", "(?P<a-b>"),
        ] {
            assert_eq!(translate(pattern), fail(why, part), "{pattern}");
        }
        for pattern in
            ["a{1,2}", "x{2,1", "[]a]", "[^]]", "(?i)*a".trim_end_matches("*a"), "a*(?i)*", "(?i:a)+?", ""]
        {
            assert!(translate(pattern).is_ok(), "{pattern}");
        }
    }
}
