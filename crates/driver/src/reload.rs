//! Replaces the configuration of a running scheduler.

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
        current::{CurrentExtenders, SwitchError},
    },
    message::EngineMessage,
};

/// Replaces the configuration of a running scheduler. Clones share everything: one goes into a [`crate::DriverConfig`], another
/// one to the caller.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<Mutex<Option<Running>>>);

/// A running scheduler.
#[derive(Clone, Debug)]
struct Running {
    engine: mpsc::Sender<EngineMessage>,
    extenders: CurrentExtenders,
}

/// Reason why a configuration was not applied. The old one stays in use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReloadError {
    /// The scheduler has not started, or is ending.
    #[error("the scheduler is not running")]
    NotRunning,
    /// Its plugins read kinds of objects that are not watched.
    #[error("plugins read {}, which the scheduler does not watch yet: this needs a restart", Kinds(.0))]
    NotWatched(Vec<ResourceName>),
    /// Its extenders need objects that are not stored.
    #[error(
        "extenders are to see {0}, which the scheduler has not kept for any so far: this needs a restart"
    )]
    NotStored(&'static str),
    /// An error in the configuration of its extenders.
    #[error(transparent)]
    Extenders(#[from] ExtenderSetupError),
}

impl From<SwitchError> for ReloadError {
    fn from(why: SwitchError) -> Self {
        match why {
            SwitchError::Setup(why) => why.into(),
            SwitchError::NotStored(what) => Self::NotStored(what),
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
    /// Applies a configuration between two attempts: see [`harbormaster_core::Engine::reconfigure`]. `extenders` are those of the
    /// configuration, in its order; running bindings continue with the old ones. Metrics and notes do not change.
    ///
    /// # Errors
    /// If the old configuration stays in use.
    pub async fn take_over(
        &self,
        mut engine: EngineConfig,
        extenders: &[ExtenderConfig],
    ) -> Result<(), ReloadError> {
        let (current, others, taken) = {
            let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let running = running.as_ref().ok_or(ReloadError::NotRunning)?;
            let others = running.extenders.of(extenders)?;
            if let Some(others) = &others {
                engine.extenders = engine.extenders.with_client(others.clone());
            }
            let (answer, taken) = oneshot::channel();
            let sent = running.engine.send(EngineMessage::TakeOver(Box::new(engine), answer));
            sent.map_err(|_| ReloadError::NotRunning)?;
            (running.extenders.clone(), others, taken)
        };
        match taken.await {
            Ok(Ok(())) => {}
            Ok(Err(kinds)) => return Err(ReloadError::NotWatched(kinds)),
            Err(_) => return Err(ReloadError::NotRunning),
        }
        current.set(others);
        Ok(())
    }

    /// Registers a running engine until the guard is dropped: an engine lives as long as a sender exists.
    pub(crate) fn reaches(
        &self,
        engine: mpsc::Sender<EngineMessage>,
        extenders: CurrentExtenders,
    ) -> ReloadGuard {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running { engine, extenders });
        ReloadGuard(self.clone())
    }
}

/// Registration of a running engine.
pub(crate) struct ReloadGuard(Reload);

impl Drop for ReloadGuard {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
