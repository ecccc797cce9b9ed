//! Objects whose text has been read, but whose strings are not shared yet.
//!
//! Most updates change nothing that is decoded: a kubelet's heartbeat, for example, or a container that restarts. The
//! [`Hash`] of a draft covers the *essence* of the object: everything that is decoded except the resource version. If
//! the essence of an object has not changed, the draft need not become an object. Since the essence consists of the
//! fields that are read from the text, it covers every field that is decoded later.

use super::{
    DecodeError, Decoder, Encoded,
    meta::Metadata,
    node::WireNode,
    object::{self, ByExpressions, ByMap},
    pod::WirePod,
};
use crate::{Node, Object, ObjectKey, ObjectKind, Pod, protobuf::messages};

/// A draft of a pod.
#[derive(Debug, Hash)]
pub struct PodDraft<'a>(WirePod<'a>);

/// A draft of a node.
#[derive(Debug, Hash)]
pub struct NodeDraft<'a>(WireNode<'a>);

/// A draft of an object of another kind.
#[derive(Debug, Hash)]
pub struct ObjectDraft<'a> {
    kind: ObjectKind,
    wire: WireObject<'a>,
}

#[derive(Debug, Hash)]
enum WireObject<'a> {
    ByMap(ByMap<'a>),
    ByExpressions(ByExpressions<'a>),
}

impl<'a> PodDraft<'a> {
    /// Reads a pod.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn read(pod: Encoded<'a>) -> Result<Self, DecodeError> {
        pod.object("Pod", &messages::POD).map(Self)
    }

    /// Returns the UID.
    pub fn uid(&self) -> &str {
        self.0.metadata.as_ref().map_or("", |metadata| &metadata.uid)
    }

    /// Returns the resource version.
    pub fn version(&self) -> &str {
        version(self.0.metadata.as_ref())
    }

    /// Returns true if the pod has a node.
    pub fn is_bound(&self) -> bool {
        self.0.is_bound()
    }

    /// Returns the pod.
    pub fn finish(self, decoder: &mut Decoder) -> Pod {
        self.0.into_pod(&mut decoder.interner, decoder.api_defaults)
    }
}

impl<'a> NodeDraft<'a> {
    /// Reads a node.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn read(node: Encoded<'a>) -> Result<Self, DecodeError> {
        node.object("Node", &messages::NODE).map(Self)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.0.metadata.as_ref().map_or("", |metadata| &metadata.name)
    }

    /// Returns the resource version.
    pub fn version(&self) -> &str {
        version(self.0.metadata.as_ref())
    }

    /// Returns the node.
    pub fn finish(self, decoder: &mut Decoder) -> Node {
        self.0.into_node(&mut decoder.interner, decoder.api_defaults)
    }
}

impl<'a> ObjectDraft<'a> {
    /// Reads an object of the given kind.
    ///
    /// # Errors
    /// An error that names the invalid field.
    pub fn read(kind: ObjectKind, object: Encoded<'a>) -> Result<Self, DecodeError> {
        let (name, message) = (kind.name(), object::message(kind));
        let wire = match object::selects_by_map(kind) {
            true => WireObject::ByMap(object.object(name, message)?),
            false => WireObject::ByExpressions(object.object(name, message)?),
        };
        Ok(Self { kind, wire })
    }

    /// Returns the key of the object.
    pub fn key(&self) -> ObjectKey {
        let (namespace, name) = self.metadata().map_or(("", ""), |m| (&*m.namespace, &*m.name));
        ObjectKey { kind: self.kind, namespace: namespace.into(), name: name.into() }
    }

    /// Returns the resource version.
    pub fn version(&self) -> &str {
        version(self.metadata())
    }

    /// Returns the object.
    pub fn finish(self, decoder: &mut Decoder) -> Object {
        let Decoder { interner, api_defaults } = decoder;
        match self.wire {
            WireObject::ByMap(wire) => wire.into_object(self.kind, interner, *api_defaults),
            WireObject::ByExpressions(wire) => wire.into_object(self.kind, interner, *api_defaults),
        }
    }

    fn metadata(&self) -> Option<&Metadata<'a>> {
        match &self.wire {
            WireObject::ByMap(wire) => wire.metadata.as_ref(),
            WireObject::ByExpressions(wire) => wire.metadata.as_ref(),
        }
    }
}

fn version<'a>(metadata: Option<&'a Metadata<'_>>) -> &'a str {
    metadata.map_or("", |metadata| &metadata.resource_version.0)
}

#[cfg(test)]
pub(crate) mod tests;
