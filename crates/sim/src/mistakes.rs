//! Mistakes in manifests, for people.

use std::{collections::HashMap, fmt};

use crate::documents::{Fields, Place};

/// One thing that is wrong with the manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The document and, if known, the object's place in it.
    pub place: Place,
    /// The line of the field, counted from 1.
    pub line: Option<u64>,
    /// For example `Pod default/web`; empty if it is not known.
    pub object: String,
    /// For example `spec.containers[0].resources.requests.cpu`; empty for the whole object.
    pub field: String,
    /// Description of the mistake.
    pub message: String,
}

impl ManifestError {
    /// Adds the line, and shows numbers and booleans in the way in which they are written there.
    pub(crate) fn locate(&mut self, fields: &Fields) {
        let Some(found) = fields.find(&self.place, &self.field) else { return };
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
        match (&*self.place.file, self.line) {
            ("", _) => write!(f, "objects[{}]", self.place.document)?,
            (file, Some(line)) => write!(f, "{file}:{line}")?,
            (file, None) => write!(f, "{file}: document {}", self.place.document)?,
        }
        for part in [&self.object, &self.field].into_iter().filter(|part| !part.is_empty()) {
            write!(f, ": {part}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Everything that is wrong with the manifests; one line for each mistake when printed, however many objects make it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0).join("\n"))]
pub struct ManifestErrors(pub Vec<ManifestError>);

/// One line for each mistake, with the first object that makes it and the number of all others.
pub(crate) fn lines(errors: &[ManifestError]) -> Vec<String> {
    let mut places = HashMap::new();
    let mut groups: Vec<(&ManifestError, usize, Option<u64>)> = Vec::new();
    for error in errors {
        let kind = error.object.split(' ').next().unwrap_or_default();
        // What names no field may be about anything.
        let subject = if error.field.is_empty() { error.object.as_str() } else { kind };
        let key = (&error.place.file, subject, error.field.as_str(), error.message.as_str());
        let at = *places.entry(key).or_insert(groups.len());
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
        (others, Some(next)) => format!("{first} ({others} times more, next on line {next})"),
        (others, None) => format!("{first} ({others} times more)"),
    };
    groups.iter().map(line).collect()
}
