//! The text of an expression, and the problems found in it.

use std::fmt::Write;

use crate::errors::CompileError;

/// Position in a text, as a number of characters from its beginning.
pub(crate) type Offset = u32;

/// Position of parts that are missing because of a syntax error. Prints as column 0 of the first line.
pub(crate) const NOWHERE: Offset = Offset::MAX;

/// Maximum number of problems that an error lists.
const MOST_ISSUES: usize = 100;
/// Size of the longest line that an error quotes, in bytes.
const LONGEST_SNIPPET: usize = 16_384;

/// The text of an expression, and the offsets at which its lines start.
#[derive(Debug)]
pub(crate) struct Source {
    chars: Vec<char>,
    /// The offset of each line's start except the first line's, then the length of the text plus one (0 if
    /// the text is empty).
    line_offsets: Vec<Offset>,
}

/// A position as line and column. Lines count from 1, columns from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Location {
    line: i64,
    column: i64,
}

/// A problem. Problems without a position concern the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    at: Option<Offset>,
    message: String,
}

/// The problems found in one phase of compilation: the first [`MOST_ISSUES`] of them, and the total count.
#[derive(Debug, Default)]
pub(crate) struct Issues {
    first: Vec<Issue>,
    count: usize,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let ends = chars.iter().enumerate().filter(|(_, c)| **c == '\n');
        let mut line_offsets: Vec<Offset> = ends.map(|(at, _)| offset(at + 1)).collect();
        // As in cel-go, the only offset of an empty text is 0.
        line_offsets.push(if chars.is_empty() { 0 } else { offset(chars.len() + 1) });
        Self { chars, line_offsets }
    }

    pub(crate) fn chars(&self) -> &[char] {
        &self.chars
    }

    /// Returns the characters from `start` up to, but not including, `end`.
    pub(crate) fn slice(&self, start: Offset, end: Offset) -> String {
        self.chars.get(start as usize..end as usize).unwrap_or_default().iter().collect()
    }

    fn location(&self, at: Offset) -> Location {
        if at == NOWHERE || self.chars.is_empty() {
            return Location { line: 1, column: -1 };
        }
        let lines = self.line_offsets.iter().take_while(|start| **start <= at).count();
        let start = lines.checked_sub(1).map_or(0, |last| self.line_offsets[last]);
        Location { line: lines as i64 + 1, column: i64::from(at) - i64::from(start) }
    }

    fn line_start(&self, line: i64) -> Option<usize> {
        match usize::try_from(line).ok()? {
            0 => None,
            1 => Some(0),
            line => self.line_offsets.get(line - 2).map(|start| *start as usize),
        }
    }

    /// Returns a line without its line break.
    fn snippet(&self, line: i64) -> Option<String> {
        let start = self.line_start(line).filter(|_| !self.chars.is_empty())?;
        let end = self.line_start(line + 1).map_or(self.chars.len(), |next| next - 1);
        Some(self.chars.get(start..end.max(start)).unwrap_or_default().iter().collect())
    }

    /// Prints a problem, the line where it is, and a mark below its column.
    fn print(&self, issue: &Issue, into: &mut String) {
        let Location { line, column } =
            issue.at.map_or(Location { line: -1, column: -1 }, |at| self.location(at));
        // Writing to a string cannot fail.
        let _ = write!(into, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
        let Some(snippet) = self.snippet(line).filter(|line| line.len() <= LONGEST_SNIPPET) else { return };
        let snippet = snippet.replace('\t', " ");
        let column = usize::try_from(column).unwrap_or(0);
        let mut marks: String =
            snippet.chars().take(column).map(|c| if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' }).collect();
        let is_wide = snippet.chars().nth(column).is_some_and(|c| c.len_utf8() > 1);
        marks.push(if is_wide { '\u{ff3e}' } else { '^' });
        let _ = write!(into, "\n | {snippet}\n | {marks}");
    }
}

fn offset(at: usize) -> Offset {
    Offset::try_from(at).unwrap_or(Offset::MAX)
}

impl Issues {
    /// Adds a problem at a position.
    pub(crate) fn add(&mut self, at: Offset, message: impl Into<String>) {
        self.push(Some(at), message.into());
    }

    /// Adds a problem that concerns the whole text.
    pub(crate) fn add_everywhere(&mut self, message: impl Into<String>) {
        self.push(None, message.into());
    }

    /// Returns the error for a single problem that concerns the whole text.
    pub(crate) fn everywhere(source: &Source, message: String) -> CompileError {
        let issue = Issue { at: None, message };
        let mut text = String::from("compilation failed: ");
        source.print(&issue, &mut text);
        CompileError::new(text)
    }

    fn push(&mut self, at: Option<Offset>, message: String) {
        self.count += 1;
        if self.count <= MOST_ISSUES {
            self.first.push(Issue { at, message });
        }
    }

    /// Number of problems.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Removes all but the first `count` problems.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.first.truncate(count);
        self.count = self.count.min(count);
    }

    /// Adds the problems of a later phase.
    pub(crate) fn append(&mut self, others: Self) {
        self.count += others.count;
        self.first.extend(others.first);
        self.first.truncate(MOST_ISSUES);
    }

    /// Fails if there are problems.
    pub(crate) fn into_result(self, source: &Source) -> Result<(), CompileError> {
        if self.count == 0 { Ok(()) } else { Err(self.into_error(source)) }
    }

    /// Returns an error that lists the problems in the order of their positions.
    pub(crate) fn into_error(mut self, source: &Source) -> CompileError {
        self.first.sort_by_key(|issue| issue.at.map(|at| source.location(at)));
        let mut text = String::from("compilation failed: ");
        for (index, issue) in self.first.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            source.print(issue, &mut text);
        }
        if self.count > MOST_ISSUES {
            let _ = write!(text, "\n{} more errors were truncated", self.count - MOST_ISSUES);
        }
        CompileError::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str, at: Option<Offset>) -> String {
        let mut issues = Issues::default();
        issues.push(at, "no".to_owned());
        issues.into_result(&Source::new(text)).unwrap_err().to_string()
    }

    #[test]
    fn a_problem_is_printed_with_its_line_and_a_mark_below() {
        for (text, at, expected) in [
            ("ab\nc\td", Some(5), "compilation failed: ERROR: <input>:2:3: no\n | c d\n | ..^"),
            ("äö", Some(1), "compilation failed: ERROR: <input>:1:2: no\n | äö\n | \u{ff0e}\u{ff3e}"),
            ("a", Some(1), "compilation failed: ERROR: <input>:1:2: no\n | a\n | .^"),
            ("", Some(0), "compilation failed: ERROR: <input>:1:0: no"),
            ("a", None, "compilation failed: ERROR: <input>:-1:0: no"),
        ] {
            assert_eq!(printed(text, at), expected);
        }
    }

    #[test]
    fn problems_are_sorted_by_position_and_limited_in_number() {
        let source = Source::new("abc");
        let mut issues = Issues::default();
        issues.add(2, "late");
        issues.add(0, "early");
        (0..200).for_each(|_| issues.add(1, "many"));
        let text = issues.into_result(&source).unwrap_err().to_string();
        assert!(text.starts_with("compilation failed: ERROR: <input>:1:1: early\n"), "{text}");
        assert!(text.ends_with("102 more errors were truncated"), "{text}");
    }
}
