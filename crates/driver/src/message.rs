//! Messages to the engine's thread.

use std::sync::Arc;

use harbormaster_core::{Dump, EngineConfig, Input, Notes};
use harbormaster_framework::{pod::PodInfo, resource::ResourceName};
use tokio::sync::oneshot;

use crate::extenders::raw::RawObject;

/// A message to the engine's thread.
#[derive(Debug)]
pub enum EngineMessage {
    /// Objects in the form of the API server, for extenders. The inputs about them come next.
    Raw(Vec<RawObject>),
    /// Inputs of the engine.
    Inputs(Vec<Input>),
    /// This many status patches are written, given up, or merged into others. Sent only while there is room for more.
    StatusesWritten(usize),
    /// Another watch has delivered all objects.
    Synced,
    /// This instance leads. Until then the engine takes inputs and tries no pod.
    Lead,
    /// Asks for all pods; the answer is empty unless this instance leads.
    ListPods(oneshot::Sender<Vec<Arc<PodInfo>>>),
    /// Asks for the state of the engine.
    Dump(oneshot::Sender<Dump>),
    /// Sets which notes the engine records.
    TakeNotes(Notes),
    /// Replaces the configuration, unless it needs kinds that are not watched: those are the error.
    TakeOver(Box<EngineConfig>, oneshot::Sender<Result<(), Vec<ResourceName>>>),
    /// Tries no more pods, and ends when the bindings and evictions in flight have ended.
    Stop,
}
