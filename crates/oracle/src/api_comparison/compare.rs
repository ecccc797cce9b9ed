//! Holding the answers of two servers against each other.

use std::collections::BTreeSet;

use anyhow::Result;

use super::diff::{Line, lines, shown};
use super::normalise;
use super::player::Answer;
use super::script::{Script, Step};
use super::wanted::Wanted;

/// Everything in which the answers of ours differ from those of the real
/// server and that is not wanted, for people; empty when there is nothing. A
/// wanted difference that a step names and that does not show is told, too.
pub fn compare(script: &Script, real: &[Answer], ours: &[Answer], wanted: &Wanted) -> Result<String> {
    let mut told = String::new();
    for (step, (real, ours)) in script.steps.iter().zip(real.iter().zip(ours)) {
        told.push_str(&compare_step(step, real, ours, wanted)?);
    }
    Ok(told)
}

/// Names of the wanted differences that no step of these scripts names.
#[must_use]
pub fn unused<'a>(scripts: &[&Script], wanted: &'a Wanted) -> Vec<&'a str> {
    let used: BTreeSet<&str> =
        scripts.iter().flat_map(|script| &script.steps).flat_map(|s| &s.wanted).map(String::as_str).collect();
    wanted.all().map(|difference| difference.name.as_str()).filter(|name| !used.contains(name)).collect()
}

fn compare_step(step: &Step, real: &Answer, ours: &Answer, wanted: &Wanted) -> Result<String> {
    let (real, ours) = (whole(real), whole(ours));
    let all = lines(&real, &ours);
    let mut left = all.clone();
    let mut told = String::new();
    for name in &step.wanted {
        if !wanted.excuse(name, &mut left)? {
            told.push_str(&format!("  the wanted difference {name} does not show: delete it here\n"));
        }
    }
    if left.iter().any(|line| !matches!(line, Line::Both(_))) {
        told.push_str(&shown(&all));
    }
    if told.is_empty() {
        return Ok(told);
    }
    Ok(format!("line {}: {}\n{told}\n", step.line, step.text))
}

/// All of an answer as lines.
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
    fn a_difference_is_told_with_its_step_unless_it_is_wanted() {
        let wanted = Wanted::parse("- {name: b, reason: r, real: ['^b$'], ours: ['^c$']}").unwrap();
        let compared = |script: &str, real: &str, ours: &str| {
            let script = Script::parse(script).unwrap();
            compare(&script, &[answer(real)], &[answer(ours)], &wanted).unwrap()
        };
        assert_eq!(compared("kubectl a", "a\n5s", "a\n7s"), "");
        let told = compared("kubectl a", "a\nb", "a\nc");
        assert_eq!(told, "line 1: kubectl a\n    exit code 0\n    a\n  - b\n  + c\n\n");
        assert_eq!(compared("kubectl a\n~ b", "a\nb", "a\nc"), "");
        assert!(compared("kubectl a\n~ b", "a", "a").contains("does not show"));
        assert!(compared("kubectl a\n~ b", "a\nb", "a\nd").contains("+ d"));
        let script = Script::parse("kubectl a").unwrap();
        assert_eq!(unused(&[&script], &wanted), ["b"]);
    }
}
