//! Errors with file, position and advice.

use std::{fmt, sync::Arc};

use thiserror::Error;

use harbormaster_yaml::{Node, Position};

/// An error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ConfigError {
    /// Name of the file as passed to [`crate::load`]; empty for a configuration that was not read from a file.
    pub file: String,
    /// Position of the field, or of its closest ancestor, in the file.
    pub position: Option<Position>,
    /// Path of the field, for example `profiles[0].plugins.filter.enabled[1]`; empty for the whole file.
    pub field: String,
    /// kube-scheduler's message. Only some of these messages include the field.
    pub message: String,
    /// Advice on how to fix the error.
    pub help: Option<String>,
}

impl ConfigError {
    /// Adds the suggestion of a similar name, unless the error already has help.
    #[must_use]
    pub fn meaning(mut self, meant: Option<&str>) -> Self {
        let question = || meant.map(|name| format!("did you mean `{name}`?"));
        self.help = self.help.or_else(question);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.position) {
            ("", _) => {}
            (file, Some(at)) => write!(f, "{file}:{}:{}: ", at.line, at.column)?,
            (file, None) => write!(f, "{file}: ")?,
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// All errors in a configuration; never empty when returned as an error.
///
/// `Display` prints one error per line, each with file, line and column. [`ConfigErrors::kube_text`] returns
/// kube-scheduler's one-line form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Error)]
pub struct ConfigErrors {
    /// The errors, in kube-scheduler's order.
    pub errors: Vec<ConfigError>,
    style: Style,
}

/// kube-scheduler's format for a list of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// `[a, b]`.
    #[default]
    List,
    /// `strict decoding error: a, b`.
    StrictDecoding,
}

impl ConfigErrors {
    pub(crate) fn strict_decoding(errors: Vec<ConfigError>) -> Self {
        Self { errors, style: Style::StrictDecoding }
    }

    /// Returns the errors in kube-scheduler's one-line form: `a`, `[a, b]` or `strict decoding error: a, b`. Repeated
    /// messages are omitted.
    pub fn kube_text(&self) -> String {
        let mut messages: Vec<&str> = Vec::new();
        for error in &self.errors {
            if !messages.contains(&error.message.as_str()) {
                messages.push(&error.message);
            }
        }
        match (self.style, messages.as_slice()) {
            (Style::StrictDecoding, _) => format!("strict decoding error: {}", messages.join(", ")),
            (Style::List, [only]) => (*only).to_owned(),
            (Style::List, _) => format!("[{}]", messages.join(", ")),
        }
    }

    /// Returns `Err` with these errors if there are any.
    ///
    /// # Errors
    /// The list itself, unless it is empty.
    pub fn into_result(self) -> Result<(), Self> {
        if self.errors.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl From<Vec<ConfigError>> for ConfigErrors {
    fn from(errors: Vec<ConfigError>) -> Self {
        Self { errors, style: Style::List }
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        vec![error].into()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

/// The file that a configuration was read from. Supplies the positions of fields to errors.
#[derive(Clone, Debug, Default)]
pub struct Source {
    file: Arc<str>,
    document: Arc<Node>,
}

impl Source {
    pub(crate) fn new(file: &str, document: Arc<Node>) -> Self {
        Self { file: file.into(), document }
    }

    /// Creates an error about a field.
    pub(crate) fn error(&self, field: impl Into<String>, message: impl Into<String>) -> ConfigError {
        let field = field.into();
        ConfigError {
            file: self.file.to_string(),
            position: self.document.field(&field).map(|written| written.at),
            field,
            message: message.into(),
            help: None,
        }
    }

    /// Returns true if the file contains the field itself.
    pub(crate) fn has_field(&self, field: &str) -> bool {
        self.document.field(field).is_some_and(|found| found.is_exact)
    }

    /// Creates an error at a position.
    pub(crate) fn error_at(
        &self,
        at: Option<Position>,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> ConfigError {
        ConfigError { position: at, ..self.error(field, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(message: &str, line: u32) -> ConfigError {
        ConfigError {
            file: "s.yaml".into(),
            position: Some(Position { line, column: 3 }),
            field: "a.b".into(),
            message: message.into(),
            help: None,
        }
    }

    #[test]
    fn errors_are_printed_one_per_line_or_in_kube_schedulers_form_as_a_list() {
        let mut errors =
            ConfigErrors::from(vec![error("a.b: bad", 2), error("c: worse", 7), error("a.b: bad", 9)]);
        assert_eq!(errors.to_string(), "s.yaml:2:3: a.b: bad\ns.yaml:7:3: c: worse\ns.yaml:9:3: a.b: bad");
        assert_eq!(errors.kube_text(), "[a.b: bad, c: worse]");
        errors.errors.truncate(1);
        errors.errors[0].help = Some("do this".into());
        assert_eq!(errors.kube_text(), "a.b: bad");
        assert_eq!(errors.to_string(), "s.yaml:2:3: a.b: bad (do this)");
        errors.style = Style::StrictDecoding;
        assert_eq!(errors.kube_text(), "strict decoding error: a.b: bad");
        assert!(ConfigErrors::default().into_result().is_ok());
    }

    #[test]
    fn without_a_file_only_the_message_is_printed() {
        assert_eq!(Source::default().error("x", "x: bad").to_string(), "x: bad");
    }
}
