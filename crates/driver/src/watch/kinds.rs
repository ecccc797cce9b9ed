//! The kinds of objects that are watched. A further kind is one more implementation of [`Kind`] here and one more line
//! in [`crate::run`].

use harbormaster_api::{
    Node, Pod, Str,
    wire::{DecodeError, Decoder},
};
use harbormaster_core::Input;

/// A kind of object and what the engine hears of it.
pub trait Kind: Send + 'static {
    /// The decoded object.
    type Object: Send;
    /// The resource's name, for messages.
    const NAME: &'static str;
    /// Where all of them are listed.
    const PATH: &'static str;
    /// Which of them are of interest.
    const FIELD_SELECTOR: Option<&'static str> = None;

    /// Decodes one.
    ///
    /// # Errors
    /// Says which field is wrong.
    fn decode(decoder: &mut Decoder, json: &[u8]) -> Result<Self::Object, DecodeError>;
    /// What identifies it.
    fn key(object: &Self::Object) -> &Str;
    /// Its resource version.
    fn version(object: &Self::Object) -> &Str;
    /// What identifies the object of that name and UID.
    fn identity<'a>(name: &'a str, uid: &'a str) -> &'a str;
    /// It is new or changed.
    fn present(object: Self::Object) -> Input;
    /// It is gone.
    fn gone(key: Str) -> Input;
}

/// Pods that have not finished. A pod that finishes looks deleted.
#[derive(Clone, Copy, Debug)]
pub struct Pods;

impl Kind for Pods {
    type Object = Pod;
    const NAME: &'static str = "pods";
    const PATH: &'static str = "/api/v1/pods";
    const FIELD_SELECTOR: Option<&'static str> = Some("status.phase!=Succeeded,status.phase!=Failed");

    fn decode(decoder: &mut Decoder, json: &[u8]) -> Result<Pod, DecodeError> {
        decoder.pod(json)
    }

    fn key(object: &Pod) -> &Str {
        &object.uid
    }

    fn version(object: &Pod) -> &Str {
        &object.resource_version
    }

    fn identity<'a>(_name: &'a str, uid: &'a str) -> &'a str {
        uid
    }

    fn present(object: Pod) -> Input {
        Input::Pod(object)
    }

    fn gone(key: Str) -> Input {
        Input::PodGone(key)
    }
}

/// All nodes.
#[derive(Clone, Copy, Debug)]
pub struct Nodes;

impl Kind for Nodes {
    type Object = Node;
    const NAME: &'static str = "nodes";
    const PATH: &'static str = "/api/v1/nodes";

    fn decode(decoder: &mut Decoder, json: &[u8]) -> Result<Node, DecodeError> {
        decoder.node(json)
    }

    fn key(object: &Node) -> &Str {
        &object.name
    }

    fn version(object: &Node) -> &Str {
        &object.resource_version
    }

    fn identity<'a>(name: &'a str, _uid: &'a str) -> &'a str {
        name
    }

    fn present(object: Node) -> Input {
        Input::Node(object)
    }

    fn gone(key: Str) -> Input {
        Input::NodeGone(key)
    }
}
