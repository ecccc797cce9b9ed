//! Line-by-line differences between two texts.

/// A line of one text or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Both(&'a str),
    /// In the first text only.
    First(&'a str),
    /// In the second text only.
    Second(&'a str),
}

/// Merges two texts so that as many lines as possible are shared.
pub(super) fn lines<'a>(first: &'a str, second: &'a str) -> Vec<Line<'a>> {
    let (a, b): (Vec<&str>, Vec<&str>) = (first.lines().collect(), second.lines().collect());
    // longest[i][j]: maximum number of lines that a[i..] and b[j..] can share.
    let mut longest = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i][j] = match a[i] == b[j] {
                true => longest[i + 1][j + 1] + 1,
                false => longest[i + 1][j].max(longest[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push(Line::Both(a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            lines.push(Line::First(a[i]));
            i += 1;
        } else {
            lines.push(Line::Second(b[j]));
            j += 1;
        }
    }
    lines
}

/// Number of lines of context around a difference.
const CONTEXT: usize = 2;

/// Formats the differences with some lines of context.
pub(super) fn shown(lines: &[Line<'_>]) -> String {
    let differs: Vec<usize> = (0..lines.len()).filter(|at| !matches!(lines[*at], Line::Both(_))).collect();
    let mut text = String::new();
    let mut last = None;
    for (at, line) in lines.iter().enumerate() {
        if !differs.iter().any(|other| other.abs_diff(at) <= CONTEXT) {
            continue;
        }
        if last.is_some_and(|last| last + 1 != at) {
            text.push_str("    ...\n");
        }
        last = Some(at);
        let (sign, line) = match line {
            Line::Both(line) => (' ', line),
            Line::First(line) => ('-', line),
            Line::Second(line) => ('+', line),
        };
        text.push_str(&format!("  {sign} {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_lines_are_found_and_shown_with_context() {
        let text = |odd: &str| format!("1\n2\n3\n4\n{odd}5\n6\n7\n8\n");
        let (first, second) = (text("a\n"), text("b\nc\n"));
        let lines = lines(&first, &second);
        assert_eq!(lines[4..7], [Line::First("a"), Line::Second("b"), Line::Second("c")], "{lines:?}");
        assert_eq!(shown(&lines), "    3\n    4\n  - a\n  + b\n  + c\n    5\n    6\n");
        assert_eq!(shown(&super::lines("a\n", "a\n")), "");
    }
}
