//! Bar charts.

use std::fmt::Write;

/// Length of the longest bar in characters.
const WIDTH: f64 = 50.0;

/// Block characters, from one eighth of a character's width to its full width.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Draws one bar for each value under the title of its group, all on the same scale, which starts at zero.
pub(super) fn bars(groups: &[(&str, Vec<(&str, f64)>)]) -> String {
    let values = || groups.iter().flat_map(|(_, bars)| bars);
    let largest = values().map(|(_, value)| *value).fold(0.0, f64::max);
    let margin = values().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut chart = String::new();
    for (title, bars) in groups {
        chart.push_str(title);
        chart.push('\n');
        for (name, value) in bars {
            // Writing to a string does not fail.
            let _ = writeln!(
                chart,
                "  {name:margin$} {} {}",
                bar(*value, largest),
                super::report::number(*value)
            );
        }
    }
    chart
}

/// A bar of whole characters and at most one partial character. It is never empty, so that a small value does not look
/// like a missing value.
fn bar(value: f64, largest: f64) -> String {
    let eighths = ((value / largest * WIDTH * 8.0).round() as usize).max(1);
    let whole = std::iter::repeat_n(EIGHTHS[7], eighths / 8);
    let part = (eighths % 8).checked_sub(1).map(|index| EIGHTHS[index]);
    whole.chain(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_share_one_scale_and_none_is_empty() {
        let groups = [("one", vec![("long name", 8.0), ("b", 4.08)]), ("two", vec![("b", 0.001)])];
        let expected = format!(
            "one\n  long name {} 8.00\n  b         {}▌ 4.08\ntwo\n  b         ▏ 0.00\n",
            "█".repeat(50),
            "█".repeat(25)
        );
        assert_eq!(bars(&groups), expected);
        assert_eq!(bars(&[]), "");
    }
}
