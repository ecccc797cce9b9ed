//! Decoding objects from the API's JSON or [protobuf].
//!
//! Only the fields of the slim types are decoded; all others are skipped. `null` is treated as absent wherever the API
//! server's own decoder accepts it. A value of the wrong type is an error that names the field. One [`Interner`] holds
//! the strings that many objects share.

mod defaults;
mod disk;
pub(crate) mod draft;
mod json;
mod known_specs;
mod locate;
mod meta;
mod node;
pub(crate) mod object;
mod pod;
mod selector;
mod spec;

use serde::Deserialize;
use serde_json::Value;

pub use self::draft::{NodeDraft, ObjectDraft, PodDraft};
pub(crate) use self::pod::CONDITIONS as POD_CONDITIONS;
use self::{
    known_specs::KnownSpecs,
    locate::{FieldError, decode},
};
use crate::protobuf::{self, Message};
use crate::{Node, Object, ObjectKind, ObjectRef, Pod, PriorityClass, strings::Interner};

/// Error in decoding an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}{path}: {problem}", if path.is_empty() { "" } else { " " })]
pub struct DecodeError {
    /// Kind, for example `Pod`.
    pub kind: &'static str,
    /// Path, for example `spec.containers[0].resources.requests.cpu`; empty for the object itself.
    pub path: String,
    /// The problem.
    pub problem: String,
}

impl DecodeError {
    /// Removes the position in the text, for objects whose text the user has not seen.
    fn without_position(mut self) -> Self {
        if let Some(at) = self.problem.rfind(" at line ") {
            self.problem.truncate(at);
        }
        self
    }
}

/// An object as a server sends it.
#[derive(Clone, Copy, Debug)]
pub enum Encoded<'a> {
    /// JSON.
    Json(&'a [u8]),
    /// Protobuf, without an envelope.
    Protobuf(&'a [u8]),
}

impl<'a> Encoded<'a> {
    /// Reads a value; `message` is its type in protobuf.
    ///
    /// # Errors
    /// If the bytes are invalid, or a field has the wrong type.
    pub fn read<T: Deserialize<'a>>(self, message: &'static Message) -> serde_json::Result<T> {
        match self {
            Self::Json(json) => serde_json::from_slice(json),
            Self::Protobuf(bytes) => protobuf::decode(message, bytes),
        }
    }

    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json(bytes) | Self::Protobuf(bytes) => bytes,
        }
    }

    /// Reads an object.
    fn object<T: Deserialize<'a>>(
        self,
        kind: &'static str,
        message: &'static Message,
    ) -> Result<T, DecodeError> {
        match self {
            Self::Json(json) => from_slice(kind, json),
            Self::Protobuf(bytes) => protobuf::decode(message, bytes).map_err(|error| DecodeError {
                kind,
                path: String::new(),
                problem: error.to_string(),
            }),
        }
    }
}

/// Decodes objects, sharing equal strings among them.
#[derive(Debug, Default)]
pub struct Decoder {
    interner: Interner,
    specs: KnownSpecs,
    api_defaults: bool,
}

impl Decoder {
    /// Creates a decoder for objects from an API server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes this a decoder for manifests that no API server has processed. The decoder sets the fields that affect
    /// scheduling and that an API server sets on creation. It does not resolve priority classes, and leaves out requests
    /// and limits of whole pods, which depend on the release, and fields that admission plugins would set.
    #[must_use]
    pub fn with_api_defaults(mut self) -> Self {
        self.api_defaults = true;
        self
    }

    /// The shared strings.
    pub fn interner(&mut self) -> &mut Interner {
        &mut self.interner
    }

    /// Decodes a pod.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn pod(&mut self, json: &[u8]) -> Result<Pod, DecodeError> {
        PodDraft::read(Encoded::Json(json)).and_then(|draft| draft.finish(self))
    }

    /// Decodes a pod from a parsed manifest.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn pod_value(&mut self, value: &Value) -> Result<Pod, DecodeError> {
        self.pod(&bytes(value)).map_err(DecodeError::without_position)
    }

    /// Decodes a node.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn node(&mut self, json: &[u8]) -> Result<Node, DecodeError> {
        NodeDraft::read(Encoded::Json(json)).and_then(|draft| draft.finish(self))
    }

    /// Decodes a node from a parsed manifest.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn node_value(&mut self, value: &Value) -> Result<Node, DecodeError> {
        self.node(&bytes(value)).map_err(DecodeError::without_position)
    }

    /// Decodes an object of the given kind.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn object(&mut self, kind: ObjectKind, json: &[u8]) -> Result<Object, DecodeError> {
        ObjectDraft::read(kind, Encoded::Json(json)).and_then(|draft| draft.finish(self))
    }

    /// Decodes an object of the given kind from a parsed manifest.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn object_value(&mut self, kind: ObjectKind, value: &Value) -> Result<Object, DecodeError> {
        self.object(kind, &bytes(value)).map_err(DecodeError::without_position)
    }

    /// Decodes a priority class.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn priority_class(&mut self, json: &[u8]) -> Result<PriorityClass, DecodeError> {
        from_slice::<meta::WirePriorityClass<'_>>("PriorityClass", json)
            .map(|wire| wire.into_priority_class(&mut self.interner))
    }

    /// Decodes a priority class from a parsed manifest.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn priority_class_value(&mut self, value: &Value) -> Result<PriorityClass, DecodeError> {
        self.priority_class(&bytes(value)).map_err(DecodeError::without_position)
    }

    /// Decodes the identity of an object of any kind.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn object_ref(&mut self, json: &[u8]) -> Result<ObjectRef, DecodeError> {
        from_slice::<meta::WireObject<'_>>("Object", json)
            .map(|wire| wire.into_object_ref(&mut self.interner))
    }

    /// Decodes the identity of an object of any kind from a parsed manifest.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn object_ref_value(&mut self, value: &Value) -> Result<ObjectRef, DecodeError> {
        self.object_ref(&bytes(value)).map_err(DecodeError::without_position)
    }
}

fn from_slice<'a, T: Deserialize<'a>>(kind: &'static str, json: &'a [u8]) -> Result<T, DecodeError> {
    decode(json).map_err(|FieldError { path, problem }| DecodeError { kind, path, problem })
}

/// Converts a parsed object back to text. The same code then decodes texts and parsed objects, which halves the amount
/// of compiled code.
fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests;
