//! Objects of which as little has been read as is necessary to see whether they have changed.
//!
//! Most updates change nothing that is decoded: a kubelet's heartbeat, for example, or a container that restarts. The
//! [`Hash`] of a draft covers the *essence* of the object: everything that is decoded except the resource version. If
//! the essence of an object has not changed, the draft need not become an object.
//!
//! JSON must be read to its end anyway, so the draft then consists of the fields that are decoded, and its essence
//! covers every one of them. In protobuf, whole messages are skipped, or are part of the essence without being read.

use std::hash::{Hash, Hasher};

use serde::Deserialize;

use super::{
    DecodeError, Decoder, Encoded,
    known_specs::{NODE_NAME, SPEC, SplitSpec},
    meta::Metadata,
    node::WireNode,
    object::{self, ByExpressions, ByMap},
    pod::WirePod,
};
use crate::{
    Node, Object, ObjectKey, ObjectKind, Pod,
    protobuf::{self, Identity, Message, messages},
};

/// A draft of a pod.
#[derive(Debug, Hash)]
pub struct PodDraft<'a>(Draft<'a, WirePod<'a>>);

/// A draft of a node.
#[derive(Debug, Hash)]
pub struct NodeDraft<'a>(Draft<'a, WireNode<'a>>);

/// A draft of an object of another kind.
#[derive(Debug, Hash)]
pub struct ObjectDraft<'a> {
    kind: ObjectKind,
    draft: ObjectForms<'a>,
}

#[derive(Debug, Hash)]
enum ObjectForms<'a> {
    ByMap(Draft<'a, ByMap<'a>>),
    ByExpressions(Draft<'a, ByExpressions<'a>>),
}

/// A draft; `T` is what is read from the object.
#[derive(Debug)]
struct Draft<'a, T> {
    kind: &'static str,
    message: &'static Message,
    state: State<'a, T>,
}

#[derive(Debug)]
enum State<'a, T> {
    Read(Box<T>),
    /// Protobuf, and the texts of its metadata that are needed for every object.
    Unread(&'a [u8], Identity<'a>),
}

/// A type with metadata.
trait WithMetadata<'a> {
    fn metadata(&self) -> Option<&Metadata<'a>>;
}

impl<'a> WithMetadata<'a> for WirePod<'a> {
    fn metadata(&self) -> Option<&Metadata<'a>> {
        self.metadata.as_ref()
    }
}

impl<'a> WithMetadata<'a> for WireNode<'a> {
    fn metadata(&self) -> Option<&Metadata<'a>> {
        self.metadata.as_ref()
    }
}

impl<'a, S> WithMetadata<'a> for object::WireSelecting<'a, S> {
    fn metadata(&self) -> Option<&Metadata<'a>> {
        self.metadata.as_ref()
    }
}

impl<'a, T: Deserialize<'a> + WithMetadata<'a>> Draft<'a, T> {
    fn read(kind: &'static str, message: &'static Message, object: Encoded<'a>) -> Result<Self, DecodeError> {
        let state = match object {
            Encoded::Json(_) => State::Read(Box::new(object.object(kind, message)?)),
            Encoded::Protobuf(bytes) => State::Unread(bytes, Identity::of(bytes)),
        };
        Ok(Self { kind, message, state })
    }

    /// Returns a text of the metadata.
    fn metadata<'b>(
        &'b self,
        read: impl Fn(&'b Metadata<'a>) -> &'b str,
        unread: impl Fn(&Identity<'a>) -> &'a str,
    ) -> &'b str {
        match &self.state {
            State::Read(wire) => wire.metadata().map_or("", read),
            State::Unread(_, identity) => unread(identity),
        }
    }

    fn namespace(&self) -> &str {
        self.metadata(|metadata| &metadata.namespace, |identity| identity.namespace)
    }

    fn name(&self) -> &str {
        self.metadata(|metadata| &metadata.name, |identity| identity.name)
    }

    fn uid(&self) -> &str {
        self.metadata(|metadata| &metadata.uid, |identity| identity.uid)
    }

    fn version(&self) -> &str {
        self.metadata(|metadata| &metadata.resource_version.0, |identity| identity.version)
    }

    fn finish(self) -> Result<T, DecodeError> {
        match self.state {
            State::Read(wire) => Ok(*wire),
            State::Unread(bytes, _) => Encoded::Protobuf(bytes).object(self.kind, self.message),
        }
    }
}

impl<T: Hash> Hash for Draft<'_, T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match &self.state {
            State::Read(wire) => wire.hash(hasher),
            State::Unread(bytes, _) => protobuf::hash_essence(self.message, bytes, hasher),
        }
    }
}

impl<'a> PodDraft<'a> {
    /// Reads a pod.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn read(pod: Encoded<'a>) -> Result<Self, DecodeError> {
        Draft::read("Pod", &messages::POD, pod).map(Self)
    }

    /// Returns the UID.
    pub fn uid(&self) -> &str {
        self.0.uid()
    }

    /// Returns the resource version.
    pub fn version(&self) -> &str {
        self.0.version()
    }

    /// Returns true if the pod has a node.
    pub fn is_bound(&self) -> bool {
        let node = match &self.0.state {
            State::Read(wire) => wire.node_name(),
            State::Unread(bytes, _) => protobuf::text_at(bytes, &[SPEC, NODE_NAME]),
        };
        !node.is_empty()
    }

    /// Returns the pod.
    ///
    /// # Errors
    /// If the pod is in protobuf, and a field is invalid.
    pub fn finish(self, decoder: &mut Decoder) -> Result<Pod, DecodeError> {
        let split = match self.0.state {
            State::Unread(bytes, _) if !decoder.api_defaults => SplitSpec::of(bytes),
            _ => None,
        };
        match split {
            Some(split) => self.finish_split(&split, decoder),
            None => self.finish_whole(decoder),
        }
    }

    fn finish_whole(self, decoder: &mut Decoder) -> Result<Pod, DecodeError> {
        Ok(self.0.finish()?.into_pod(&mut decoder.interner, decoder.api_defaults))
    }

    /// Reads the spec only if it is not known yet.
    fn finish_split(self, split: &SplitSpec<'_>, decoder: &mut Decoder) -> Result<Pod, DecodeError> {
        let Some(spec) = decoder.specs.get(&split.rest) else {
            let pod = self.finish_whole(decoder)?;
            // Gates are part of the bytes, but not of what is kept.
            if pod.scheduling_gates.is_empty() {
                decoder.specs.add(&*split.rest, pod.spec.clone());
            }
            return Ok(pod);
        };
        let rest = Draft { message: &messages::POD_WITHOUT_SPEC, ..self.0 }.finish()?;
        let mut pod = rest.with_spec(spec, &mut decoder.interner);
        pod.node_name = (!split.node_name.is_empty()).then(|| decoder.interner.intern(split.node_name));
        Ok(pod)
    }
}

impl<'a> NodeDraft<'a> {
    /// Reads a node.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn read(node: Encoded<'a>) -> Result<Self, DecodeError> {
        Draft::read("Node", &messages::NODE, node).map(Self)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the resource version.
    pub fn version(&self) -> &str {
        self.0.version()
    }

    /// Returns the node.
    ///
    /// # Errors
    /// If the node is in protobuf, and a field is invalid.
    pub fn finish(self, decoder: &mut Decoder) -> Result<Node, DecodeError> {
        Ok(self.0.finish()?.into_node(&mut decoder.interner, decoder.api_defaults))
    }
}

impl<'a> ObjectDraft<'a> {
    /// Reads an object of the given kind.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn read(kind: ObjectKind, object: Encoded<'a>) -> Result<Self, DecodeError> {
        let (name, message) = (kind.name(), object::message(kind));
        let draft = match object::selects_by_map(kind) {
            true => ObjectForms::ByMap(Draft::read(name, message, object)?),
            false => ObjectForms::ByExpressions(Draft::read(name, message, object)?),
        };
        Ok(Self { kind, draft })
    }

    /// Returns the key of the object.
    pub fn key(&self) -> ObjectKey {
        let (namespace, name) = match &self.draft {
            ObjectForms::ByMap(draft) => (draft.namespace(), draft.name()),
            ObjectForms::ByExpressions(draft) => (draft.namespace(), draft.name()),
        };
        ObjectKey { kind: self.kind, namespace: namespace.into(), name: name.into() }
    }

    /// Returns the resource version.
    pub fn version(&self) -> &str {
        match &self.draft {
            ObjectForms::ByMap(draft) => draft.version(),
            ObjectForms::ByExpressions(draft) => draft.version(),
        }
    }

    /// Returns the object.
    ///
    /// # Errors
    /// If the object is in protobuf, and a field is invalid.
    pub fn finish(self, decoder: &mut Decoder) -> Result<Object, DecodeError> {
        let Decoder { interner, api_defaults, .. } = decoder;
        Ok(match self.draft {
            ObjectForms::ByMap(draft) => draft.finish()?.into_object(self.kind, interner, *api_defaults),
            ObjectForms::ByExpressions(draft) => {
                draft.finish()?.into_object(self.kind, interner, *api_defaults)
            }
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
