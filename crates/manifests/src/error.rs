//! Mistakes in manifests, as reported to users.

use std::{collections::HashMap, fmt};

use harbormaster_api::wire::DecodeError;
use harbormaster_validation::{FieldError, admission::Refusal};

use crate::documents::{DocumentTrees, Location};

/// A field of an object and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldProblem {
    /// Path of the field; empty for the whole object.
    pub field: String,
    /// Description of the mistake.
    pub message: String,
}

impl From<FieldError> for FieldProblem {
    fn from(error: FieldError) -> Self {
        Self { field: error.field, message: error.problem }
    }
}

impl From<DecodeError> for FieldProblem {
    fn from(error: DecodeError) -> Self {
        Self { field: error.path, message: error.problem }
    }
}

/// Returns the fields that cause an object to be refused.
pub(crate) fn problems(refusal: Refusal) -> Vec<FieldProblem> {
    match refusal {
        Refusal::Unfit(message) => vec![FieldProblem { field: String::new(), message }],
        Refusal::Forbidden { field, why } => vec![FieldProblem { field: field.to_owned(), message: why }],
        Refusal::Invalid(errors) => errors.into_iter().map(FieldProblem::from).collect(),
    }
}

/// A mistake in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// Location of the document and, if known, of the object in it.
    pub location: Location,
    /// Line of the field, counted from 1.
    pub line: Option<u64>,
    /// Object, for example `Pod default/web`; empty if unknown.
    pub object: String,
    /// Field, for example `spec.containers[0].resources.requests.cpu`; empty for the whole object.
    pub field: String,
    /// Description of the mistake.
    pub message: String,
}

impl ManifestError {
    /// Adds the line to the mistake, and shows numbers and booleans as they are written on that line.
    pub(crate) fn locate(&mut self, trees: &DocumentTrees) {
        let Some(found) = trees.find(&self.location, &self.field) else { return };
        self.line = Some(found.line);
        if !found.written.is_empty()
            && let Some(at) = self.message.find(", got ")
        {
            self.message.replace_range(at + ", got ".len().., found.written);
            let is_word = found.written.starts_with(|c: char| c.is_ascii_alphabetic());
            if is_word && !["true", "false"].contains(&found.written) {
                self.message += ", which is a boolean in YAML: quote it";
            }
        }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.location.file, self.line) {
            ("", _) => write!(f, "objects[{}]", self.location.document)?,
            (file, Some(line)) => write!(f, "{file}:{line}")?,
            // A flag contains no documents.
            (flag, None) if self.location.document == 0 => f.write_str(flag)?,
            (file, None) => write!(f, "{file}: document {}", self.location.document)?,
        }
        for part in [&self.object, &self.field].into_iter().filter(|part| !part.is_empty()) {
            write!(f, ": {part}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// All mistakes in the manifests. Displays one line per mistake, however many objects contain it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0).join("\n"))]
pub struct ManifestErrors(pub Vec<ManifestError>);

/// Returns one line for each mistake, with the first object that contains it and the number of other objects.
pub(crate) fn lines(errors: &[ManifestError]) -> Vec<String> {
    let mut groups_by_key = HashMap::new();
    let mut groups: Vec<(&ManifestError, usize, Option<u64>)> = Vec::new();
    for error in errors {
        let kind = error.object.split(' ').next().unwrap_or_default();
        // Without a field, mistakes are grouped by object, because the message may be about anything.
        let subject = if error.field.is_empty() { error.object.as_str() } else { kind };
        let key = (&error.location.file, subject, error.field.as_str(), error.message.as_str());
        let at = *groups_by_key.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            None => groups.push((error, 0, None)),
            Some((_, others, next)) => {
                *others += 1;
                *next = next.or(error.line);
            }
        }
    }
    let line = |(first, others, next): &(&ManifestError, usize, Option<u64>)| match (others, next) {
        (0, _) => first.to_string(),
        (1, Some(next)) => format!("{first} (once more on line {next})"),
        (1, None) => format!("{first} (once more)"),
        (others, Some(next)) => format!("{first} ({others} more times, next on line {next})"),
        (others, None) => format!("{first} ({others} more times)"),
    };
    groups.iter().map(line).collect()
}
