//! Another configuration for the engine that schedules.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use harbormaster_core::EngineConfig;
use harbormaster_framework::resource::ResourceName;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::{
    extenders::{
        ExtenderConfig, ExtenderSetupError,
        current::{CurrentExtenders, NotAsked},
    },
    message::EngineMessage,
};

/// Reaches the engine that schedules at the moment, if any does. Clones share it: one goes into a
/// [`crate::DriverConfig`], another one to whoever has a new configuration.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<Mutex<Option<Running>>>);

/// A scheduler that runs.
#[derive(Clone, Debug)]
struct Running {
    engine: mpsc::Sender<EngineMessage>,
    extenders: CurrentExtenders,
}

/// Why a configuration was not taken over. The old one counts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// Nothing schedules: it has not begun, or comes to its end.
    #[error("the scheduler is not running")]
    NotRunning,
    /// Its plugins read kinds of objects that are not watched.
    #[error("plugins read {}, which the scheduler does not watch yet: this needs a restart", Kinds(.0))]
    NotWatched(Vec<ResourceName>),
    /// Its extenders are to see what is not kept.
    #[error(
        "extenders are to see {0}, which the scheduler has not kept for any so far: this needs a restart"
    )]
    NotKept(&'static str),
    /// Its extenders cannot be reached.
    #[error(transparent)]
    Extenders(#[from] ExtenderSetupError),
}

impl From<NotAsked> for NotTaken {
    fn from(why: NotAsked) -> Self {
        match why {
            NotAsked::Wrong(why) => why.into(),
            NotAsked::NotKept(what) => Self::NotKept(what),
        }
    }
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
    /// [`harbormaster_core::Engine::take_over`]. `extenders` says how those of the configuration are reached, in its order;
    /// bindings that have asked one go on with it. Who measures and what is noted stays as it was.
    ///
    /// # Errors
    /// When it goes on with the old one.
    pub async fn take_over(
        &self,
        mut engine: EngineConfig,
        extenders: &[ExtenderConfig],
    ) -> Result<(), NotTaken> {
        let (current, others, taken) = {
            let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let running = running.as_ref().ok_or(NotTaken::NotRunning)?;
            let others = running.extenders.of(extenders)?;
            if let Some(others) = &others {
                engine.extenders = engine.extenders.lent(others.clone());
            }
            let (answer, taken) = oneshot::channel();
            let asked = running.engine.send(EngineMessage::TakeOver(Box::new(engine), answer));
            asked.map_err(|_| NotTaken::NotRunning)?;
            (running.extenders.clone(), others, taken)
        };
        match taken.await {
            Ok(Ok(())) => {}
            Ok(Err(kinds)) => return Err(NotTaken::NotWatched(kinds)),
            Err(_) => return Err(NotTaken::NotRunning),
        }
        current.set(others);
        Ok(())
    }

    /// The engine behind `engine` schedules until the guard goes: an engine lives as long as somebody can tell it something.
    pub(crate) fn reaches(
        &self,
        engine: mpsc::Sender<EngineMessage>,
        extenders: CurrentExtenders,
    ) -> Reached {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running { engine, extenders });
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
