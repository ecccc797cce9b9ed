//! Messages to the engine's thread.

use std::sync::Arc;

use harbormaster_core::{Dump, EngineConfig, Input, Notes};
use harbormaster_framework::{pod::PodInfo, resource::ResourceName};
use tokio::sync::oneshot;

use crate::extenders::raw::RawObject;

/// A message to the engine's thread.
#[derive(Debug)]
pub enum EngineMessage {
    /// Objects in the API server's JSON form, for extenders. The corresponding inputs come next.
    Raw(Vec<RawObject>),
    /// Inputs of the engine.
    Inputs(Vec<Input>),
    /// Number of status patches that were written, given up, or merged into other patches. Sent only while the status
    /// writer accepts more patches.
    StatusesWritten(usize),
    /// Another watch has delivered all objects.
    Synced,
    /// This instance has become the leader. Until then, the engine accepts inputs but tries no pod.
    Lead,
    /// Requests all pods; the answer is empty unless this instance is the leader.
    ListPods(oneshot::Sender<Vec<Arc<PodInfo>>>),
    /// Requests the state of the engine.
    Dump(oneshot::Sender<Dump>),
    /// Sets the notes that the engine records.
    TakeNotes(Notes),
    /// Replaces the configuration. Fails if the new configuration needs kinds that are not watched; the error lists
    /// them.
    TakeOver(Box<EngineConfig>, oneshot::Sender<Result<(), Vec<ResourceName>>>),
    /// Stops trying pods, and ends the engine when the bindings and evictions in progress have ended.
    Stop,
}
