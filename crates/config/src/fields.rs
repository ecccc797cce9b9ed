//! Errors about fields, in the format of Kubernetes' field errors.

use std::fmt::Display;

use crate::error::{ConfigError, Source};

/// Collects errors about fields.
pub(crate) struct FieldErrors<'a> {
    source: &'a Source,
    /// Field that paths are relative to; empty for the whole file.
    base: String,
    errors: Vec<ConfigError>,
}

impl<'a> FieldErrors<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Self::below(source, "")
    }

    /// Creates a collector for rules whose paths are relative to a field of the file.
    pub(crate) fn below(source: &'a Source, base: &str) -> Self {
        Self { source, base: base.to_owned(), errors: Vec::new() }
    }

    pub(crate) fn into_errors(self) -> Vec<ConfigError> {
        self.errors
    }

    fn add(&mut self, path: &str, message: String) {
        let field = match self.base.as_str() {
            "" => path.to_owned(),
            base => format!("{base}.{path}"),
        };
        self.errors.push(self.source.error(field, format!("{path}: {message}")));
    }

    /// Adds `path: Invalid value: value: detail`. Callers pass strings [`quoted`], and structures as JSON.
    pub(crate) fn invalid(&mut self, path: &str, value: impl Display, detail: &str) {
        self.add(path, format!("Invalid value: {value}: {detail}"));
    }

    /// Adds advice to the last error.
    pub(crate) fn help(&mut self, help: Option<&str>) {
        if let (Some(last), Some(help)) = (self.errors.last_mut(), help) {
            last.help = Some(help.to_owned());
        }
    }

    pub(crate) fn required(&mut self, path: &str, detail: &str) {
        self.add(path, with_detail("Required value", detail));
    }

    pub(crate) fn forbidden(&mut self, path: &str, detail: &str) {
        self.add(path, with_detail("Forbidden", detail));
    }

    pub(crate) fn duplicate(&mut self, path: &str, value: impl Display) {
        self.add(path, format!("Duplicate value: {value}"));
    }

    pub(crate) fn unsupported(&mut self, path: &str, value: &str, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(quoted).collect();
        self.add(
            path,
            format!("Unsupported value: {}: supported values: {}", quoted(value), supported.join(", ")),
        );
    }
}

fn with_detail(what: &str, detail: &str) -> String {
    if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") }
}

/// Quotes a string as Kubernetes' field errors do.
pub(crate) fn quoted(text: impl Display) -> String {
    format!("{:?}", text.to_string())
}
