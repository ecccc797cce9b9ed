//! The plugins that a binary knows, by name.

use std::collections::BTreeMap;

use harbormaster_api::{features::Features, points::PointSet};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use crate::{guard::Guarded, outcome::PluginError, plugin::Plugin, points::Calls};

/// How a plugin is made from its arguments.
pub trait Build: Plugin {
    /// The type that `pluginConfig[].args` decodes into. Use `()`-like unit structs with `Default` for none;
    /// `deny_unknown_fields` makes typing errors visible.
    type Args: DeserializeOwned + Default;

    /// Makes the plugin.
    ///
    /// # Errors
    /// Says what is wrong with the arguments; the scheduler then does not start.
    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError>;
}

/// What is known when plugins are made.
#[derive(Clone, Debug, Default)]
pub struct BuildCycle {
    /// Feature gates.
    pub features: Features,
}

/// Arguments of plugins that take none: anything is accepted and ignored, as kube-scheduler does.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoArgs;

impl<'de> serde::Deserialize<'de> for NoArgs {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(from).map(|_| NoArgs)
    }
}

/// Why a plugin could not be made.
#[derive(Debug, Error)]
pub enum BuildError {
    /// No plugin of that name is registered.
    #[error("plugin {0:?} does not exist")]
    Unknown(String),
    /// The plugin refused its arguments.
    #[error("initializing plugin {plugin:?}: {source}")]
    Refused {
        /// Which plugin.
        plugin: &'static str,
        /// What it said.
        source: PluginError,
    },
}

type BuildFn = fn(Option<&Value>, &BuildCycle) -> Result<Guarded, PluginError>;

#[derive(Clone)]
struct Factory {
    name: &'static str,
    points: PointSet,
    build: BuildFn,
}

/// All plugins that profiles may name.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<&'static str, Factory>);

impl Registry {
    /// Adds a plugin; a later one of the same name replaces it.
    pub fn register<P: Build>(&mut self) -> &mut Self {
        let build: BuildFn = |args, cx| {
            let args = match args {
                None | Some(Value::Null) => P::Args::default(),
                Some(value) => P::Args::deserialize(value)?,
            };
            Ok(Guarded::new(P::build(args, cx)?))
        };
        self.0.insert(P::NAME, Factory { name: P::NAME, points: Calls::of::<P>().set, build });
        self
    }

    /// The points that plugin implements; `None` if there is no such plugin.
    pub fn points(&self, plugin: &str) -> Option<PointSet> {
        self.0.get(plugin).map(|f| f.points)
    }

    /// The names of all plugins.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Makes a plugin.
    ///
    /// # Errors
    /// When there is no such plugin, or it refuses its arguments.
    pub fn build(&self, plugin: &str, args: Option<&Value>, cx: &BuildCycle) -> Result<Guarded, BuildError> {
        let factory = self.0.get(plugin).ok_or_else(|| BuildError::Unknown(plugin.to_owned()))?;
        (factory.build)(args, cx).map_err(|source| BuildError::Refused { plugin: factory.name, source })
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
