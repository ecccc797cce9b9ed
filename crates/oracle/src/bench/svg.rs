//! A chart of a comparison, with horizontal bars on a logarithmic scale.

use std::fmt::Write;

/// Distance between the tops of two bars, in pixels.
const BAR: f64 = 16.0;
/// Distance between two groups of bars, in pixels.
const GROUP: f64 = 12.0;
/// Greatest width of an average character in a title, in pixels.
const CHARACTER: f64 = 6.5;
/// Left end of the scale, in pixels, unless titles to the left of it need more room.
const LEFT: f64 = 290.0;
/// Width of a factor of ten, in pixels.
const DECADE: f64 = 130.0;
/// Top of the first group, in pixels.
const TOP: f64 = 64.0;
/// Colours of the first and second bar of each group.
const COLOURS: [&str; 2] = ["#8a94a6", "#1668c7"];

/// Draws one bar for each value under the title of its group. Returns an SVG document. The length of a bar depends on
/// the logarithm of its value, which must be positive; the value is printed next to the bar.
pub(super) fn bars(caption: &str, names: [&str; 2], groups: &[(&str, [Option<f64>; 2])]) -> String {
    let longest = groups.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0);
    let left = LEFT.max(longest as f64 * CHARACTER + 20.0);
    let values = || groups.iter().flat_map(|(_, values)| values.iter().flatten());
    let exponent = |value: f64| value.max(f64::MIN_POSITIVE).log10();
    let first = values().copied().map(exponent).fold(f64::INFINITY, f64::min).floor();
    let last = values().copied().map(exponent).fold(f64::NEG_INFINITY, f64::max).ceil();
    let (first, last) = if first < last { (first, last) } else { (0.0, 1.0) };
    let x = |value: f64| left + (exponent(value) - first) * DECADE;
    let bottom = TOP + groups.len() as f64 * (2.0 * BAR + GROUP);
    let (width, height) = (left + (last - first) * DECADE + 70.0, bottom + 30.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"16\">{}</text>\n",
        escaped(caption)
    );
    // Writing to a string does not fail.
    for (index, name) in names.iter().enumerate() {
        let x = left + index as f64 * 150.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"40\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"51\">{}</text>",
            COLOURS[index],
            x + 18.0,
            escaped(name)
        );
    }
    for exponent in first as i32..=last as i32 {
        let tick = 10_f64.powi(exponent);
        let _ = writeln!(
            svg,
            "<path d=\"M{0} {TOP}V{bottom}\" stroke=\"#d8dce3\"/><text x=\"{0}\" y=\"{1}\" \
             text-anchor=\"middle\">{tick}</text>",
            x(tick),
            bottom + 18.0
        );
    }
    let mut y = TOP + GROUP / 2.0;
    for (title, values) in groups {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            left - 10.0,
            y + BAR + 4.0,
            escaped(title)
        );
        for (value, colour) in values.iter().zip(COLOURS) {
            if let Some(value) = value {
                let end = x(*value).max(left + 2.0);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{left}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                     <text x=\"{:.1}\" y=\"{}\">{}</text>",
                    end - left,
                    BAR - 2.0,
                    end + 6.0,
                    y + BAR - 4.0,
                    super::report::number(*value)
                );
            }
            y += BAR;
        }
        y += GROUP;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Escapes the characters that XML reserves.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenfold_value_has_a_bar_that_is_one_decade_longer() {
        let svg = bars(
            "CPU & more",
            ["a", "b"],
            &[("first", [Some(10.0), Some(1.0)]), ("second", [None, Some(0.1)])],
        );
        let widths: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<rect x=\"290\" y=\"") && !line.contains("y=\"40\""))
            .filter_map(|line| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(widths, [2.0 * DECADE, DECADE, 2.0], "{svg}");
        assert!(svg.contains("CPU &amp; more") && svg.contains(">10.0<") && svg.contains(">0.10<"), "{svg}");
    }
}
