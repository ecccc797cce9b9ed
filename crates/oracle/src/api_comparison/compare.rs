//! Comparison of two servers' answers.

use std::collections::BTreeSet;

use anyhow::Result;

use super::diff::{Line, lines, shown};
use super::expected::ExpectedDifferences;
use super::normalise;
use super::player::Answer;
use super::script::{Script, Step};

/// Describes all unexpected differences between our server's answers and the real server's, and all expected
/// differences that do not occur in the step that refers to them. The description is empty if there are none.
pub fn compare(
    script: &Script,
    real: &[Answer],
    ours: &[Answer],
    expected: &ExpectedDifferences,
) -> Result<String> {
    let mut report = String::new();
    for (step, (real, ours)) in script.steps.iter().zip(real.iter().zip(ours)) {
        report.push_str(&compare_step(step, real, ours, expected)?);
    }
    Ok(report)
}

/// Names of the expected differences that no step of these scripts refers to.
#[must_use]
pub fn unused<'a>(scripts: &[&Script], expected: &'a ExpectedDifferences) -> Vec<&'a str> {
    let used: BTreeSet<&str> = scripts
        .iter()
        .flat_map(|script| &script.steps)
        .flat_map(|s| &s.expected)
        .map(String::as_str)
        .collect();
    expected.all().map(|difference| difference.name.as_str()).filter(|name| !used.contains(name)).collect()
}

fn compare_step(step: &Step, real: &Answer, ours: &Answer, expected: &ExpectedDifferences) -> Result<String> {
    let (real, ours) = (whole(real), whole(ours));
    let all = lines(&real, &ours);
    let mut unexplained = all.clone();
    let mut report = String::new();
    for name in &step.expected {
        if !expected.remove_from(&mut unexplained, name)? {
            report.push_str(&format!("  the expected difference {name:?} does not occur: remove it here\n"));
        }
    }
    if unexplained.iter().any(|line| !matches!(line, Line::Both(_))) {
        report.push_str(&shown(&all));
    }
    if report.is_empty() {
        return Ok(report);
    }
    Ok(format!("line {}: {}\n{report}\n", step.line, step.text))
}

/// Formats a complete answer.
fn whole(answer: &Answer) -> String {
    let Answer { head, out, err } = answer;
    let err: String = normalise(err).lines().map(|line| format!("stderr: {line}\n")).collect();
    format!("{head}\n{}\n{err}", normalise(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(out: &str) -> Answer {
        Answer { head: "exit code 0".to_owned(), out: out.to_owned(), err: String::new() }
    }

    #[test]
    fn a_difference_is_reported_with_its_step_unless_it_is_expected() {
        let expected =
            ExpectedDifferences::parse("- {name: b, reason: r, real: ['^b$'], ours: ['^c$']}").unwrap();
        let compared = |script: &str, real: &str, ours: &str| {
            let script = Script::parse(script).unwrap();
            compare(&script, &[answer(real)], &[answer(ours)], &expected).unwrap()
        };
        assert_eq!(compared("kubectl a", "a\n5s", "a\n7s"), "");
        let report = compared("kubectl a", "a\nb", "a\nc");
        assert_eq!(report, "line 1: kubectl a\n    exit code 0\n    a\n  - b\n  + c\n\n");
        assert_eq!(compared("kubectl a\n~ b", "a\nb", "a\nc"), "");
        assert!(compared("kubectl a\n~ b", "a", "a").contains("does not occur"));
        assert!(compared("kubectl a\n~ b", "a\nb", "a\nd").contains("+ d"));
        let script = Script::parse("kubectl a").unwrap();
        assert_eq!(unused(&[&script], &expected), ["b"]);
    }
}
