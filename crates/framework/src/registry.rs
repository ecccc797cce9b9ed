//! The plugins that are available in a binary, by name.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster_api::{
    features::Features,
    points::PointSet,
    similar::{similar, suggestion},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{
    events::{Action, ClusterEvent, EventResource},
    guard::GuardedPlugin,
    outcome::PluginError,
    plugin::Plugin,
    points::{Calls, StateConflict},
};

/// Construction of a plugin from its arguments. A plugin without arguments implements [`Default`] instead.
pub trait Build: Plugin {
    /// The type into which `pluginConfig[].args` is decoded; [`NoArgs`] for none. `deny_unknown_fields` makes
    /// misspelled fields visible. If the configuration has no arguments for the plugin, an empty object is decoded
    /// instead, so serde's defaults apply and fields without a default are required.
    type Args: DeserializeOwned;

    /// Builds the plugin.
    ///
    /// # Errors
    /// An error that describes the problem with the arguments; the scheduler then does not start. The printed message
    /// begins with the file, the line and `profiles[].pluginConfig[].args`.
    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError>;
}

impl<P: Plugin + Default> Build for P {
    type Args = NoArgs;

    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self::default())
    }
}

/// Context in which plugins are built.
#[derive(Clone, Debug, Default)]
pub struct BuildCycle {
    /// Feature gates.
    pub features: Features,
}

/// Argument type of plugins that take no arguments. Any value is accepted and ignored, as in kube-scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoArgs;

impl<'de> serde::Deserialize<'de> for NoArgs {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(from).map(|_| NoArgs)
    }
}

/// Error from building a plugin.
#[derive(Debug, Error)]
pub enum BuildError {
    /// No plugin with this name is registered.
    #[error("plugin {0:?} does not exist")]
    Unknown(String),
    /// The plugin's arguments cannot be decoded.
    #[error("initializing plugin {plugin:?}: {source}")]
    Args {
        /// Name of the plugin.
        plugin: &'static str,
        /// The decoding error.
        source: ArgsError,
    },
    /// The plugin refused its arguments.
    #[error("initializing plugin {plugin:?}: {source}")]
    Refused {
        /// Name of the plugin.
        plugin: &'static str,
        /// The plugin's error.
        source: PluginError,
    },
    /// The plugin registers for events that are never sent.
    #[error(
        "plugin {plugin:?} listens to {}; the possible actions are {}",
        listened(*event, *never),
        possible_actions(*event)
    )]
    NeverHappens {
        /// Name of the plugin.
        plugin: &'static str,
        /// The plugin's registration.
        event: ClusterEvent,
        /// Actions of the registration that never happen.
        never: Action,
    },
    /// Two points of the plugin name different states.
    #[error("plugin {plugin:?}: {conflict}; use the same type in both")]
    DifferentStates {
        /// Name of the plugin.
        plugin: &'static str,
        /// The points and their states.
        conflict: StateConflict,
    },
    /// The plugin's answers are cached row by row, but the plugin compares candidates.
    #[error(
        "plugin {plugin:?} is row-scoped but uses Normalize::Custom, which compares all candidates: use \
         Normalize::Formula, or implement Score instead of Score<Row>"
    )]
    RowNormalizes {
        /// Name of the plugin.
        plugin: &'static str,
    },
    /// The plugin registers for objects that nothing watches.
    #[error(
        "plugin {plugin:?} listens for changes to {resource}, a resource that is not watched: add the type to the \
         plugin's `Watches::Resources`"
    )]
    UnwatchedResource {
        /// Name of the plugin.
        plugin: &'static str,
        /// The unwatched resource.
        resource: EventResource,
    },
}

fn listened(event: ClusterEvent, never: Action) -> String {
    let resource = event.resource;
    match never == Action(0) {
        true => format!("no action of {resource}"),
        false => format!("{never} of {resource}, which never happens"),
    }
}

fn possible_actions(event: ClusterEvent) -> String {
    let all = event.resource.actions();
    let names: Vec<String> =
        Action::each().filter(|one| all.intersects(*one)).map(|one| one.to_string()).collect();
    format!("{} and Update (any update)", names.join(", "))
}

/// Error for arguments that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgsError {
    /// Path of the field within the arguments, such as `strategy.resources[0].weight`; empty for the arguments
    /// themselves.
    pub field: String,
    /// serde's message.
    pub message: String,
    /// The name that was probably meant, if the plugin has no field or variant with the given name.
    pub meant: Option<String>,
}

impl std::fmt::Display for ArgsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}{}", self.message, suggestion(self.meant.as_deref()))
    }
}

impl std::error::Error for ArgsError {}

impl ArgsError {
    fn of(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let (field, message) = field_and_message(error);
        Self { field, meant: meant(&message), message }
    }
}

/// Returns the path of the field that cannot be decoded (empty for the root), and the error.
pub(crate) fn field_and_message(error: &serde_path_to_error::Error<serde_json::Error>) -> (String, String) {
    let field = match error.path().iter().next() {
        Some(_) => error.path().to_string(),
        None => String::new(),
    };
    (field, error.inner().to_string())
}

/// Returns the name that was probably meant, extracted from serde's message about an unknown field or variant:
/// ``unknown field `a`, expected one of `b`, `c` ``.
fn meant(message: &str) -> Option<String> {
    let is_about_names = ["unknown field `", "unknown variant `"].iter().any(|s| message.starts_with(s));
    let mut names = message.split('`').skip(1).step_by(2);
    let written = names.next().filter(|_| is_about_names)?;
    similar(written, names).map(str::to_owned)
}

fn read<A: DeserializeOwned>(args: Option<&Value>) -> Result<A, ArgsError> {
    let none = Value::Object(Map::new());
    let given = args.filter(|args| !args.is_null()).unwrap_or(&none);
    serde_path_to_error::deserialize(given).map_err(|error| ArgsError::of(&error))
}

type BuildFn = fn(Option<&Value>, &BuildCycle) -> Result<GuardedPlugin, BuildError>;

#[derive(Clone)]
struct Factory {
    points: PointSet,
    home: &'static str,
    build: BuildFn,
}

/// All plugins that profiles may name.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<&'static str, Factory>);

impl Registry {
    /// Adds a plugin, replacing any earlier plugin with the same name.
    pub fn register<P: Build>(&mut self) -> &mut Self {
        let build: BuildFn = |args, cx| {
            let args = read(args).map_err(|source| BuildError::Args { plugin: P::NAME, source })?;
            let plugin = P::build(args, cx);
            let plugin = plugin.map_err(|source| BuildError::Refused { plugin: P::NAME, source })?;
            Ok(GuardedPlugin::new(plugin).with_features(cx.features))
        };
        let path = std::any::type_name::<P>();
        let home = path.split("::").next().unwrap_or(path);
        self.0.insert(P::NAME, Factory { points: Calls::of::<P>().set, home, build });
        self
    }

    /// Returns the points that the plugin implements; `None` if there is no such plugin.
    pub fn points(&self, plugin: &str) -> Option<PointSet> {
        self.0.get(plugin).map(|f| f.points)
    }

    /// Returns the names of all plugins.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Returns the crates that the plugins come from, named as in the targets of their log messages. Use them for logs
    /// only.
    pub fn homes(&self) -> BTreeSet<&'static str> {
        self.0.values().map(|factory| factory.home).collect()
    }

    /// Builds a plugin.
    ///
    /// # Errors
    /// When there is no such plugin, its arguments cannot be decoded, or the plugin refuses them.
    pub fn build(
        &self,
        plugin: &str,
        args: Option<&Value>,
        cx: &BuildCycle,
    ) -> Result<GuardedPlugin, BuildError> {
        let factory = self.0.get(plugin).ok_or_else(|| BuildError::Unknown(plugin.to_owned()))?;
        (factory.build)(args, cx)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
