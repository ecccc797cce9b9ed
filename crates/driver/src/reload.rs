//! Replaces the configuration of a running scheduler.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
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
    message::{EngineMessage, ToEngine},
    sources::Fetcher,
};

/// Replaces the configuration of a running scheduler. Clones share everything: one clone goes into a
/// [`crate::DriverConfig`], the caller keeps another clone.
#[derive(Clone, Debug, Default)]
pub struct Reload(Arc<Mutex<Option<Running>>>);

/// A running scheduler.
#[derive(Clone, Debug)]
struct Running {
    engine: ToEngine,
    extenders: CurrentExtenders,
    fetcher: Fetcher,
}

/// The reason why a configuration was not applied. The old configuration stays in use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReloadError {
    /// The scheduler has not started or is shutting down.
    #[error("the scheduler is not running")]
    NotRunning,
    /// Plugins of the configuration read kinds of objects that are not watched.
    #[error("plugins read {}, which the running scheduler does not watch: restart it to apply the configuration", Kinds(.0))]
    NotWatched(Vec<ResourceName>),
    /// Extenders of the configuration need objects that are not stored.
    #[error(
        "extenders need {0}, which the running scheduler does not store: restart it to apply the configuration"
    )]
    NotStored(&'static str),
    /// The extenders are not configured correctly.
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
    /// Applies a configuration between two attempts; see [`harbormaster_core::Engine::reconfigure`]. `extenders` are
    /// the extenders of the new configuration, in its order. Bindings in progress continue with the old configuration.
    /// The engine keeps its meter and its choice of notes.
    ///
    /// # Errors
    /// If the configuration cannot be applied; the old configuration then stays in use.
    pub async fn take_over(
        &self,
        mut engine: EngineConfig,
        extenders: &[ExtenderConfig],
    ) -> Result<(), ReloadError> {
        let sources = engine.sources();
        let (current, others, fetcher, taken) = {
            let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let running = running.as_ref().ok_or(ReloadError::NotRunning)?;
            let others = running.extenders.of(extenders)?;
            if let Some(others) = &others {
                others.serve(&mut engine);
            }
            let (answer, taken) = oneshot::channel();
            let sent = running.engine.send(EngineMessage::TakeOver(Box::new(engine), answer));
            sent.map_err(|_| ReloadError::NotRunning)?;
            (running.extenders.clone(), others, running.fetcher.clone(), taken)
        };
        match taken.await {
            Ok(Ok(())) => {}
            Ok(Err(kinds)) => return Err(ReloadError::NotWatched(kinds)),
            Err(_) => return Err(ReloadError::NotRunning),
        }
        current.set(others);
        fetcher.switch_to(sources);
        Ok(())
    }

    /// Registers a running engine until the guard is dropped. The guard must be dropped, since an engine runs for as
    /// long as a sender exists.
    pub(crate) fn reaches(
        &self,
        engine: ToEngine,
        extenders: CurrentExtenders,
        fetcher: Fetcher,
    ) -> ReloadGuard {
        let running = Running { engine, extenders, fetcher };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
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
