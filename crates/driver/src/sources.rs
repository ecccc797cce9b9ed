//! Fetches objects for plugins, beside scheduling.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use harbormaster_client::ApiClient;
use harbormaster_core::Input;
use harbormaster_framework::{
    fetch::{Source, Web},
    resource::RawObject,
};
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    leader::Leadership,
    message::{EngineMessage, ToEngine},
    web::LiveWeb,
};

/// Time limit for fetching one object.
const LIMIT: Duration = Duration::from_secs(20);

/// Keeps fetching the objects of some sources. Clones share the tasks, which end when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    web: Web,
    engine: ToEngine,
    /// Fetching begins when this instance leads; `None` if it begins at once.
    leadership: Option<Leadership>,
    /// True if an object that the API server has counts instead of what the plugin would fetch.
    prefers_stored: bool,
    fetching: Arc<Mutex<Fetching>>,
}

#[derive(Debug, Default)]
struct Fetching {
    sources: Vec<Source>,
    tasks: JoinSet<()>,
}

impl Fetcher {
    /// Starts fetching. Sends [`EngineMessage::Synced`] for each source after its first fetch, whether or not it
    /// succeeds.
    pub(crate) fn start(
        sources: Vec<Source>,
        web: Web,
        engine: ToEngine,
        leadership: Option<Leadership>,
        prefers_stored: bool,
    ) -> Self {
        let fetcher = Self { web, engine, leadership, prefers_stored, fetching: Arc::default() };
        fetcher.fetch(sources, true);
        fetcher
    }

    /// Fetches from other sources from now on. Objects of sources that are no longer named disappear.
    pub(crate) fn switch_to(&self, sources: Vec<Source>) {
        self.fetch(sources, false);
    }

    fn fetch(&self, sources: Vec<Source>, is_start: bool) {
        let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        fetching.tasks.abort_all();
        let is_gone = |old: &&Source| !sources.iter().any(|new| new.is_same(old));
        let gone: Vec<Input> =
            fetching.sources.iter().filter(is_gone).map(|old| Input::CustomGone(old.key())).collect();
        if !gone.is_empty() {
            self.send(EngineMessage::Inputs(gone));
        }
        for source in &sources {
            let (fetcher, source, leadership) = (self.web.clone(), source.clone(), self.leadership.clone());
            let (engine, prefers_stored) = (self.engine.clone(), self.prefers_stored);
            fetching.tasks.spawn(async move {
                if let Some(leadership) = leadership {
                    leadership.begins().await;
                }
                let task =
                    Task { source, web: fetcher, engine, prefers_stored, fetched: None, trouble: None };
                task.run(is_start).await;
            });
        }
        fetching.sources = sources;
    }

    fn send(&self, message: EngineMessage) {
        // The engine may be ending.
        let _ = self.engine.send(message);
    }
}

/// Fetches one object.
struct Task {
    source: Source,
    web: Web,
    engine: ToEngine,
    prefers_stored: bool,
    /// Time of the last success, unless the object has been removed since.
    fetched: Option<Instant>,
    trouble: Option<String>,
}

impl Task {
    async fn run(mut self, mut is_first: bool) {
        loop {
            if !self.fetch().await {
                return;
            }
            if std::mem::take(&mut is_first) && self.engine.send(EngineMessage::Synced).is_err() {
                return;
            }
            sleep(self.source.plan.every).await;
        }
    }

    /// Fetches the object once. Returns false if the engine has ended.
    async fn fetch(&mut self) -> bool {
        // Versions differ even if another task has fetched the object before.
        let version = u64::try_from(self.web.now().0).unwrap_or_default();
        let stored = match self.prefers_stored {
            true => stored(&self.source, &self.web, version).await,
            false => None,
        };
        let fetched = match stored {
            Some(object) => Ok(object),
            None => fetched(&self.source, &self.web, version).await,
        };
        let input = match fetched {
            Ok(object) => {
                self.succeeded();
                Input::Custom(object)
            }
            Err(why) => {
                self.failed(why);
                let is_old = |at: &mut Instant| at.elapsed() >= self.source.plan.keep;
                if self.fetched.take_if(is_old).is_none() {
                    return !self.engine.is_closed();
                }
                tracing::warn!(
                    plugin = self.source.plugin(),
                    source = %self.source.plan.name,
                    "What was fetched last is too old and no longer used"
                );
                Input::CustomGone(self.source.key())
            }
        };
        self.engine.send(EngineMessage::Inputs(vec![input])).is_ok()
    }

    fn succeeded(&mut self) {
        let is_news = self.fetched.replace(Instant::now()).is_none();
        if self.trouble.take().is_some() || is_news {
            let (plugin, source) = (self.source.plugin(), &self.source.plan.name);
            tracing::info!(v = 0, plugin, %source, "Fetched");
        }
    }

    /// Logs an error unless it is the same as before.
    fn failed(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            let (plugin, source) = (self.source.plugin(), &self.source.plan.name);
            tracing::warn!(plugin, %source, err = why, "Fetching failed; trying again");
            self.trouble = Some(why);
        }
    }
}

/// Returns the object if the API server has one of this kind and name.
async fn stored(source: &Source, web: &Web, version: u64) -> Option<RawObject> {
    let (name, kind) = (&source.plan.name, source.kind().name());
    let path = format!("/apis/{}/{}/{}/{name}", kind.group, kind.version, kind.plural);
    let text = web.get_from_api(&path).await.ok()?;
    let mut object: Value = serde_json::from_str(&text).ok()?;
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.insert("resourceVersion".to_owned(), version.to_string().into());
    Some(RawObject::from_json(source.key(), object.to_string()))
}

async fn fetched(source: &Source, web: &Web, version: u64) -> Result<RawObject, String> {
    match timeout(LIMIT, source.fetch(web, version)).await {
        Ok(fetched) => fetched.map_err(|error| error.to_string()),
        Err(_) => Err(format!("nothing was fetched within {LIMIT:?}")),
    }
}

/// Fetches an object once, as a scheduler would. Returns `None` if the API server has one of this kind and name.
///
/// # Errors
/// When the plugin fails or takes too long.
pub async fn fetch_unless_stored(api: &ApiClient, source: &Source) -> Option<Result<RawObject, String>> {
    let web = Web::new(Arc::new(LiveWeb::new(api.clone())));
    match stored(source, &web, 1).await {
        Some(_) => None,
        None => Some(fetched(source, &web, 1).await),
    }
}

#[cfg(test)]
mod tests;
