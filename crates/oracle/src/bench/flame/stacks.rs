//! Samples of a profile, merged into a tree of frames.

use std::collections::BTreeMap;

/// A function in a stack, and the functions that it calls. The root stands for the whole process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Number of samples in this function and everything that it calls.
    pub(super) samples: usize,
    pub(super) callees: BTreeMap<String, Frame>,
}

impl Frame {
    /// Adds all samples in the text that `perf script` prints: a line with the name of the thread, one line per frame
    /// with the innermost first, and an empty line.
    pub(super) fn add_all(&mut self, script: &str) {
        for sample in script.split("\n\n") {
            let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
            let Some(thread) = lines.next() else { continue };
            let mut frames: Vec<_> = lines.filter_map(function).collect();
            frames.push(thread.trim().to_owned());
            frames.reverse();
            self.add(frames);
        }
    }

    /// Adds a sample whose frames are given from the outermost to the innermost.
    fn add(&mut self, frames: Vec<String>) {
        self.samples += 1;
        let mut frame = self;
        for name in frames {
            frame = frame.callees.entry(name).or_default();
            frame.samples += 1;
        }
    }

    /// Returns the largest number of frames above this one.
    pub(super) fn depth(&self) -> usize {
        self.callees.values().map(|callee| 1 + callee.depth()).max().unwrap_or(0)
    }
}

/// Returns the function in a line with an address and a symbol.
fn function(line: &str) -> Option<String> {
    let (_, symbol) = line.trim().split_once(' ')?;
    let symbol = symbol.trim();
    // A hash distinguishes copies of a Rust function.
    let name = match symbol.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => name,
        _ => symbol,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the tree with one line per frame.
    fn lines(name: &str, frame: &Frame, depth: usize) -> Vec<String> {
        let own = format!("{}{name} {}", " ".repeat(depth), frame.samples);
        let callees = frame.callees.iter().flat_map(|(name, callee)| lines(name, callee, depth + 1));
        [own].into_iter().chain(callees).collect()
    }

    #[test]
    fn samples_with_equal_callers_share_frames() {
        let script = "worker \n\t  1a b::inner::h0123456789abcdef\n\t  2b <T as a::Trait<U>>::outer\n\n\
                      worker \n\t  3c c\n\t  2b <T as a::Trait<U>>::outer\n\nmain \n\t  4d [unknown]\n\n";
        let mut root = Frame::default();
        root.add_all(script);
        let expected = [
            "all 3",
            " main 1",
            "  [unknown] 1",
            " worker 2",
            "  <T as a::Trait<U>>::outer 2",
            "   b::inner 1",
            "   c 1",
        ];
        assert_eq!(lines("all", &root, 0), expected);
        assert_eq!(root.depth(), 3);
    }
}
