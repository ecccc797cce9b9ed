//! Another configuration for the engine that schedules.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use harbormaster_core::EngineConfig;
use harbormaster_framework::resource::ResourceName;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::engine_thread::ToEngine;

/// Reaches the engine that schedules at the moment, if any does. Clones share it: one goes into a
/// [`crate::DriverConfig`], another one to whoever has a new configuration.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<Mutex<Option<mpsc::Sender<ToEngine>>>>);

/// Why a configuration was not taken over. The old one counts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// Nothing schedules: it has not begun, or comes to its end.
    #[error("the scheduler is not running")]
    NotRunning,
    /// Its plugins read kinds of objects that are not watched.
    #[error("plugins read {}, which the scheduler does not watch yet: this needs a restart", Kinds(.0))]
    NotWatched(Vec<ResourceName>),
}

struct Kinds<'a>(&'a [ResourceName]);

impl fmt::Display for Kinds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}

impl Reload {
    /// Has the engine go on with that configuration: between two attempts, see
    /// [`harbormaster_core::Engine::take_over`]. Who measures and what is noted stays as it was.
    ///
    /// # Errors
    /// When it goes on with the old one.
    pub async fn take_over(&self, engine: EngineConfig) -> Result<(), NotTaken> {
        let (answer, taken) = oneshot::channel();
        let asked = match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(to_engine) => to_engine.send(ToEngine::TakeOver(Box::new(engine), answer)).is_ok(),
            None => false,
        };
        if !asked {
            return Err(NotTaken::NotRunning);
        }
        taken.await.unwrap_or(Err(NotTaken::NotRunning))
    }

    /// The engine behind `engine` schedules until the guard goes: an engine lives as long as somebody can tell it something.
    pub(crate) fn reaches(&self, engine: mpsc::Sender<ToEngine>) -> Reached {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(engine);
        Reached(self.clone())
    }
}

/// An engine can be reached.
pub(crate) struct Reached(Reload);

impl Drop for Reached {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
