//! Drawing of a flame graph.

use std::fmt::Write;

use super::super::svg::escaped;
use super::stacks::Frame;

/// Width of the root in pixels.
const WIDTH: f64 = 1600.0;

/// Height of a frame in pixels.
const HEIGHT: f64 = 17.0;

/// Margin around the graph in pixels.
const MARGIN: f64 = 10.0;

/// Space for the title in pixels.
const TOP: f64 = 44.0;

/// Frames that are narrower, in pixels, are left out.
const NARROWEST: f64 = 0.3;

/// Width of a character in pixels. It must not be too small, or texts would overlap.
const CHARACTER: f64 = 6.7;

/// Draws a flame graph: the root is at the bottom, callees are above their callers, and the width of a frame is its
/// share of the samples. A frame shows its whole name and its share when the pointer rests on it.
pub(super) fn draw(title: &str, root: &Frame) -> String {
    let bottom = TOP + root.depth() as f64 * HEIGHT;
    let (width, height) = (WIDTH + 2.0 * MARGIN, bottom + HEIGHT + MARGIN);
    let mut drawing = Drawing { svg: String::new(), all: root.samples, bottom };
    // Writing to a string does not fail.
    let _ = writeln!(
        drawing.svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"26\" font-size=\"16\" font-family=\"sans-serif\">{}</text>",
        escaped(title)
    );
    drawing.frame("all", root, MARGIN, 0);
    drawing.svg.push_str("</svg>\n");
    drawing.svg
}

struct Drawing {
    svg: String,
    /// Number of all samples.
    all: usize,
    /// Top of the root, in pixels.
    bottom: f64,
}

impl Drawing {
    /// Draws a frame whose left end is at `x`, and its callees above it.
    fn frame(&mut self, name: &str, frame: &Frame, x: f64, level: usize) {
        let width = frame.samples as f64 / self.all as f64 * WIDTH;
        if width < NARROWEST {
            return;
        }
        let y = self.bottom - level as f64 * HEIGHT;
        let percent = frame.samples as f64 / self.all as f64 * 100.0;
        let _ = write!(
            self.svg,
            "<g><title>{} ({} samples, {percent:.1}%)</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" \
             height=\"{}\" rx=\"1\" fill=\"{}\"/>",
            escaped(name),
            frame.samples,
            (width - 0.4).max(NARROWEST),
            HEIGHT - 1.0,
            colour(name)
        );
        let label = label(name, width);
        if !label.is_empty() {
            let _ =
                write!(self.svg, "<text x=\"{:.1}\" y=\"{}\">{}</text>", x + 3.0, y + 12.0, escaped(&label));
        }
        self.svg.push_str("</g>\n");
        let mut x = x;
        for (name, callee) in &frame.callees {
            self.frame(name, callee, x, level + 1);
            x += callee.samples as f64 / self.all as f64 * WIDTH;
        }
    }
}

/// Returns as much of a name as fits into the width: the end of a path, because its start says least.
fn label(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    let length = name.chars().count();
    match room {
        0..3 => String::new(),
        _ if length <= room => name.to_owned(),
        _ => ["…".to_owned(), name.chars().skip(length - (room - 1)).collect()].concat(),
    }
}

/// Returns the colour of a function: one hue for each crate, and a brightness of its own.
fn colour(name: &str) -> String {
    let start = name.trim_start_matches(['<', '&', '*']);
    let crate_name = start.split(['<', ' ']).next().unwrap_or(start).split("::").next().unwrap_or(start);
    // Functions without a path are those of the kernel and of C libraries.
    let hue = if name.contains("::") { hash(crate_name) % 300 } else { 30 };
    let saturation = if name.contains("::") { 65 } else { 25 };
    format!("hsl({hue} {saturation}% {}%)", 68 + hash(name) % 14)
}

/// FNV-1a, which is the same in every process.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_shares_of_the_samples_and_titles_have_the_whole_names() {
        let mut root = Frame::default();
        root.add_all("t \n\t 1 a::<b>\n\nt \n\t 1 a::<b>\n\nt \n\t 2 c\n\nu \n\t 2 c\n\n");
        let svg = draw("A & B", &root);
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("A &amp; B"), "{svg}");
        for expected in [
            "<title>all (4 samples, 100.0%)</title><rect x=\"10.0\" y=\"78\" width=\"1599.6\"",
            "<title>t (3 samples, 75.0%)</title><rect x=\"10.0\" y=\"61\" width=\"1199.6\"",
            "<title>a::&lt;b> (2 samples, 50.0%)</title><rect x=\"10.0\" y=\"44\" width=\"799.6\"",
            "<title>u (1 samples, 25.0%)</title><rect x=\"1210.0\" y=\"61\" width=\"399.6\"",
        ] {
            assert!(svg.contains(expected), "{expected}\n{svg}");
        }
        assert!(!svg.contains("href") && !svg.contains("url("), "{svg}");
    }

    #[test]
    fn a_label_is_the_end_of_a_name_that_does_not_fit() {
        assert_eq!(label("harbormaster_core::engine::run", 1000.0), "harbormaster_core::engine::run");
        assert_eq!(label("harbormaster_core::engine::run", 80.0), "…ngine::run");
        assert_eq!(label("run", 20.0), "");
    }

    #[test]
    fn functions_of_one_crate_have_one_hue() {
        let hue = |name: &str| colour(name).split(' ').next().map(str::to_owned);
        assert_eq!(hue("core_x::a"), hue("<core_x::B as c::D>::e"));
        assert_ne!(hue("core_x::a"), hue("other::a"));
        assert_eq!(hue("do_syscall_64"), hue("memcpy"));
    }
}
