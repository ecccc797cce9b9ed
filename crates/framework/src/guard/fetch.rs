//! What plugins fetch.

use serde_json::Value;

use super::{Call, GuardedPlugin, PointError, caught};
use crate::{
    fetch::{FetchCalls, Source, Web},
    outcome::PluginError,
};

impl GuardedPlugin {
    /// Returns what the plugin fetches; `None` if it does not implement [`crate::fetch::Fetches`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn source(&self) -> Result<Option<Source>, PointError> {
        let Some(FetchCalls { kind, plan, .. }) = self.calls.fetches else { return Ok(None) };
        let plan = caught(self.calls.name, Call::Fetch, || plan(&*self.plugin))?;
        Ok(Some(Source::new(self.clone(), kind, plan)))
    }

    /// See [`crate::fetch::Fetches::fetch`].
    ///
    /// # Errors
    /// When the plugin fails, or does not return a JSON object.
    pub(crate) async fn fetch<'a>(&'a self, web: &'a Web) -> Result<Value, PointError> {
        let failed = |source: PluginError| PointError { plugin: self.calls.name, call: Call::Fetch, source };
        let Some(FetchCalls { fetch, .. }) = self.calls.fetches else {
            return Err(failed("the plugin fetches nothing".into()));
        };
        let fetched = self.polled(Call::Fetch, || fetch(&*self.plugin, web)).await?.map_err(failed)?;
        match fetched.is_object() {
            true => Ok(fetched),
            false => Err(failed("what was fetched is not a JSON object".into())),
        }
    }
}
