//! Objects as the API server sends them.

use harbormaster_api::{
    Str,
    protobuf::{self, Message},
};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use super::CustomKey;
use crate::registry::field_and_message;

/// A custom object as stored by the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawObject {
    /// Key of the object.
    pub key: CustomKey,
    /// The whole object.
    #[serde(flatten)]
    pub content: RawContent,
}

/// A whole object in the form in which the API server sent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RawContent {
    /// JSON.
    Json(Str),
    /// Protobuf, without an envelope.
    Protobuf(#[serde(with = "text")] Box<[u8]>),
}

/// Bytes as a text whose characters have the values of the bytes. Most of an object in protobuf is ASCII, which stays
/// as it is, so the text is short and can be compressed well.
mod text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        bytes.iter().map(|byte| char::from(*byte)).collect::<String>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[u8]>, D::Error> {
        let text = String::deserialize(from)?;
        let byte = |char| u8::try_from(char).map_err(|_| D::Error::custom("a character is not a byte"));
        text.chars().map(byte).collect()
    }
}

impl RawObject {
    /// Returns an object in JSON.
    pub fn from_json(key: CustomKey, json: impl Into<Str>) -> Self {
        Self { key, content: RawContent::Json(json.into()) }
    }

    /// The text of an object in JSON. Objects that plugins fetch are in JSON.
    pub fn json(&self) -> Option<&Str> {
        match &self.content {
            RawContent::Json(json) => Some(json),
            RawContent::Protobuf(_) => None,
        }
    }
}

/// The field that cannot be decoded, and why.
pub(super) struct Field {
    /// Path, for example `spec.namespaces[0]`; empty for the object itself.
    pub(super) path: String,
    pub(super) problem: String,
}

impl Field {
    pub(super) fn new(path: &str, problem: &str) -> Self {
        Self { path: path.to_owned(), problem: problem.to_owned() }
    }
}

impl RawContent {
    /// Decodes the object. The error contains no position in the text, so changes to other parts of the object do not
    /// affect it.
    ///
    /// Tracking the path of the field takes time, so the object is decoded with tracking only after an error.
    pub(super) fn read<T: DeserializeOwned>(&self, layout: Option<&'static Message>) -> Result<T, Field> {
        match (self, layout) {
            (Self::Json(json), _) => {
                serde_json::from_str(json).map_err(|error| {
                    let tracked = tracked::<T, _>(&mut serde_json::Deserializer::from_str(json));
                    // If the object can be decoded, the error is in the text after it.
                    tracked.err().unwrap_or_else(|| Field::new("", without_position(&error.to_string())))
                })
            }
            (Self::Protobuf(bytes), Some(layout)) => {
                let again = |_| tracked::<T, _>(protobuf::deserializer(layout, bytes));
                protobuf::decode(layout, bytes).or_else(again)
            }
            (Self::Protobuf(_), None) => Err(Field::new("", "the type has no layout in protobuf")),
        }
    }
}

fn tracked<'a, T: Deserialize<'a>, D: Deserializer<'a, Error = serde_json::Error>>(
    from: D,
) -> Result<T, Field> {
    serde_path_to_error::deserialize(from).map_err(|error| {
        let (path, problem) = field_and_message(&error);
        // A question mark stands for a field whose name could not be read.
        Field::new(if path == "?" { "" } else { &path }, without_position(&problem))
    })
}

fn without_position(problem: &str) -> &str {
    &problem[..problem.rfind(" at line ").unwrap_or(problem.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_is_written_as_a_text_and_read_back() {
        let bytes: Box<[u8]> = (0..=255).collect();
        let written = serde_json::to_string(&RawContent::Protobuf(bytes.clone())).unwrap();
        assert!(written.contains("ABC"), "{written}");
        let read: RawContent = serde_json::from_str(&written).unwrap();
        assert_eq!(read, RawContent::Protobuf(bytes));
        let wrong = serde_json::from_str::<RawContent>(r#"{"protobuf":"€"}"#).unwrap_err().to_string();
        assert!(wrong.starts_with("a character is not a byte"), "{wrong}");
    }
}
