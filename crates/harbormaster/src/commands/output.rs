//! Formats of an answer: text for people, and documents for programs.

use std::io::{self, BufWriter, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::layout::Style;

/// Format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables that fit the terminal
    #[default]
    #[value(alias = "text")]
    Table,
    /// A JSON document
    Json,
    /// The JSON document in YAML
    Yaml,
    /// Headings and tables for an issue or a chat
    Markdown,
}

impl Output {
    /// Prints an answer: `told` as a document, or what `render` makes of it as text.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn print(
        self,
        told: &impl Serialize,
        render: impl FnOnce(Style) -> String,
    ) -> Result<(), String> {
        printed(|out| match self.style() {
            Some(style) => out.write_all(style.tidy(&render(style)).as_bytes()),
            None => self.write(out, told),
        })
    }

    /// Returns the layout of text; `None` for documents.
    pub(crate) fn style(self) -> Option<Style> {
        match self {
            Self::Table => Some(Style::of_stdout()),
            Self::Markdown => Some(Style { markdown: true, ..Style::default() }),
            Self::Json | Self::Yaml => None,
        }
    }

    /// Writes an answer as a document, which is JSON unless YAML was requested.
    pub(crate) fn write(self, mut out: &mut dyn Write, told: &impl Serialize) -> io::Result<()> {
        if self == Self::Yaml {
            let told = serde_json::to_value(told)?;
            return out.write_all(harbormaster_yaml::write(&told).as_bytes());
        }
        serde_json::to_writer_pretty(&mut out, told)?;
        out.write_all(b"\n")
    }
}

/// Writes to standard output. A reader that closes the pipe is not an error.
///
/// # Errors
/// If standard output cannot be written.
pub(crate) fn printed(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), String> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn yaml_says_the_same_as_json() {
        let told = json!({"pods": [{"pod": "a/b", "node": null, "message": "0/3 nodes: \"x\", - y\n"}], "yes": "no", "n": [1, 2.5, []]});
        for output in [Output::Json, Output::Yaml] {
            let mut text = Vec::new();
            output.write(&mut text, &told).expect("a list of bytes can be written");
            let text = String::from_utf8(text).expect("UTF-8");
            let read: Value = harbormaster_yaml::parse(&text).expect("valid YAML").into_json();
            assert_eq!(read, told, "{text}");
        }
    }
}
