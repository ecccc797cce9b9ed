//! Errors of expressions, as cel-go prints them.

use std::fmt;

use crate::ast::Offset;

/// A problem at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    at: Offset,
    message: String,
}

impl Issue {
    pub(crate) fn new(at: Offset, message: String) -> Self {
        Self { at, message }
    }

    pub(crate) fn syntax(at: Offset, message: String) -> Self {
        Self::new(at, format!("Syntax error: {message}"))
    }
}

/// An expression that cannot be compiled. Prints as kube-scheduler prints it after `CEL compile error: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub(crate) String);

impl CompileError {
    pub(crate) fn of(text: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.at);
        let lines: Vec<String> = issues.iter().map(|issue| Located { text, issue }.to_string()).collect();
        Self(format!("compilation failed: {}", lines.join("\n")))
    }
}

/// An issue with the line of the text that it is in.
struct Located<'a> {
    text: &'a str,
    issue: &'a Issue,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Issue { at, message } = self.issue;
        let before: String = self.text.chars().take(*at).collect();
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|c| *c != '\n').count();
        let snippet = self.text.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
        let mut marks: String =
            snippet.chars().take(column).map(|c| if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' }).collect();
        let is_wide = snippet.chars().nth(column).is_some_and(|c| c.len_utf8() > 1);
        marks.push(if is_wide { '\u{ff3e}' } else { '^' });
        write!(f, "ERROR: <input>:{}:{}: {message}\n | {snippet}\n | {marks}", line + 1, column + 1)
    }
}

/// A failed evaluation. Prints as kube-scheduler prints it after `CEL runtime error: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(pub(crate) String);

impl EvalError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn no_overload() -> Self {
        Self::new("no such overload")
    }
}
