//! Builds an engine's configuration from a KubeSchedulerConfiguration, identically for a live scheduler, a simulation
//! and a sandbox.
//!
//! [`Choices`] contains the settings that do not come from the configuration, including the available plugins.
//! [`Setup`] combines the configuration with these settings.
//!
//! Invariants: this crate reads no clock, file or environment variable; every error about a field in a configuration
//! file names the file, line and field.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{
    Release,
    features::{Feature, Features},
    points::{ExtensionPoint, PointSet},
    similar::similar,
};
use harbormaster_config::{
    ConfigError, ConfigErrors, KubeSchedulerConfiguration, PluginCatalog, ProfilePlan,
};
use harbormaster_core::{EngineConfig, queue::Backoff};
use harbormaster_framework::{
    extender::{Extender, Extenders},
    profile::{Profile, ProfileError, ProfileSpec},
    registry::{BuildCycle, BuildError, Registry},
};

/// Name that stands for every plugin in a `disabled` list.
const ALL: &str = "*";

/// Settings that do not come from the configuration.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Plugins that the configuration may name. The default contains the plugins of this repository.
    pub plugins: Registry,
    /// Feature gates.
    pub features: Features,
    /// True if nodes are visited and sampled, and ties are broken, as in kube-scheduler with `parallelism: 1`.
    pub parity: bool,
    /// `--pod-max-in-unschedulable-pods-duration`; `None` means the default.
    pub max_wait: Option<Duration>,
}

impl Default for Choices {
    fn default() -> Self {
        let mut plugins = Registry::default();
        harbormaster_plugins::in_tree(&mut plugins);
        Self { plugins, features: Features::default(), parity: false, max_wait: None }
    }
}

/// Result of processing a configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The configuration with all defaults.
    pub config: KubeSchedulerConfiguration,
    /// Configuration for [`harbormaster_core::Engine::new`].
    pub engine: EngineConfig,
    /// Warnings about the given configuration, one line each.
    pub warnings: Vec<String>,
}

impl Setup {
    /// Reads the configuration (name and text; `None` means the default configuration) and builds all profiles.
    ///
    /// # Errors
    /// All errors in the configuration.
    pub fn read(config: Option<(&str, &str)>, choices: &Choices) -> Result<Self, ConfigErrors> {
        let config = match config {
            Some((file, text)) => harbormaster_config::load(text, file, &choices.features)?,
            None => KubeSchedulerConfiguration::default_for(&choices.features),
        };
        Self::of(config, choices)
    }

    /// Validates a configuration, to which flags may have been applied, and builds all profiles.
    ///
    /// # Errors
    /// All errors in the configuration.
    pub fn of(mut config: KubeSchedulerConfiguration, choices: &Choices) -> Result<Self, ConfigErrors> {
        check_gates(choices.features)?;
        harbormaster_config::validate(&config, &choices.features)?;
        config.ignore_managed_resources()?;
        let registry = &choices.plugins;
        let plans = harbormaster_config::plan_profiles(&config, &Catalog(registry), &choices.features)?;
        let engine = engine(&config, profiles(&config, &plans, choices)?, choices);
        let mut warnings = ignored_gates(choices.features);
        warnings.extend(without_effect(&config, choices).iter().map(ToString::to_string));
        Ok(Self { warnings, config, engine })
    }
}

/// Refuses gates whose features are not implemented. A scheduler that accepted them would ignore pod groups, taints or
/// claims, or overcommit nodes.
fn check_gates(features: Features) -> Result<(), ConfigErrors> {
    let refused: Vec<&str> = features.refused().map(Feature::name).collect();
    let message = match refused.as_slice() {
        [] => return Ok(()),
        [only] => format!("the feature gate {only} is not supported: leave it off"),
        _ => format!("the feature gates {} are not supported: leave them off", refused.join(", ")),
    };
    let (file, field) = (String::new(), String::new());
    Err(ConfigError { file, position: None, field, message, help: None }.into())
}

/// Warns about gates that are off although Harbormaster behaves as if they were on.
fn ignored_gates(features: Features) -> Vec<String> {
    let warning = |gate: Feature| {
        format!("the feature gate {gate} is off, but this has no effect: its feature cannot be turned off")
    };
    features.ignored().map(warning).collect()
}

/// Builds the plugins of all profiles.
fn profiles(
    config: &KubeSchedulerConfiguration,
    plans: &[ProfilePlan],
    choices: &Choices,
) -> Result<Vec<Arc<Profile>>, ConfigErrors> {
    let cx = BuildCycle { features: choices.features };
    let (mut profiles, mut errors) = (Vec::new(), Vec::new());
    for (at, plan) in plans.iter().enumerate() {
        match Profile::build(&spec(plan, choices.parity), &choices.plugins, &cx) {
            Ok(profile) => profiles.push(Arc::new(profile)),
            Err(error) => errors.push(build_error(config, at, &error)),
        }
    }
    ConfigErrors::from(errors).into_result()?;
    Ok(profiles)
}

/// Converts a plugin's error to an error with the position of the plugin's arguments in the configuration.
fn build_error(config: &KubeSchedulerConfiguration, profile: usize, error: &ProfileError) -> ConfigError {
    let written = |plugin: &str| {
        let entries = &config.profiles[profile].plugin_config;
        let entry = entries.iter().position(|entry| entry.name == plugin)?;
        let args = format!("profiles[{profile}].pluginConfig[{entry}].args");
        config.is_set_in_file(&args).then_some(args)
    };
    let error_at =
        |field: &str, message: &dyn std::fmt::Display| config.error(field, format!("{field}: {message}"));
    let args = match &error.source {
        BuildError::Args { plugin, .. } | BuildError::Refused { plugin, .. } => written(plugin),
        BuildError::Unknown(_)
        | BuildError::DifferentStates { .. }
        | BuildError::UnwatchedResource { .. }
        | BuildError::NeverHappens { .. }
        | BuildError::RowNormalizes { .. } => None,
    };
    match (&error.source, args) {
        (BuildError::Args { source, .. }, Some(args)) => {
            let dot = if source.field.is_empty() || source.field.starts_with('[') { "" } else { "." };
            error_at(&format!("{args}{dot}{}", source.field), &source.message)
                .meaning(source.meant.as_deref())
        }
        (BuildError::Refused { source, .. }, Some(args)) => error_at(&args, source),
        _ => config.error(&format!("profiles[{profile}].pluginConfig"), error.to_string()),
    }
}

fn engine(
    config: &KubeSchedulerConfiguration,
    profiles: Vec<Arc<Profile>>,
    choices: &Choices,
) -> EngineConfig {
    let mut engine = EngineConfig::new(profiles);
    engine.parity = choices.parity;
    engine.batching = choices.features.enabled(Feature::OpportunisticBatching);
    // Each profile already contains its own value or the global value.
    engine.percentage_of_nodes_to_score = None;
    engine.backoff = Backoff {
        initial: seconds(config.pod_initial_backoff_seconds),
        max: seconds(config.pod_max_backoff_seconds),
    };
    engine.extenders = Extenders::new(config.extenders_in_order().into_iter().map(extender));
    if let Some(max_wait) = choices.max_wait {
        engine.max_wait = max_wait;
    }
    engine
}

/// Converts the configuration of an extender.
pub fn extender(config: &harbormaster_config::Extender) -> Extender {
    Extender {
        sees_objects: !config.node_cache_capable,
        name: config.url_prefix.as_str().into(),
        filters: !config.filter_verb.is_empty(),
        prioritizes: !config.prioritize_verb.is_empty(),
        preempts: !config.preempt_verb.is_empty(),
        weight: config.weight,
        managed_resources: config
            .managed_resources
            .iter()
            .map(|resource| resource.name.as_str().into())
            .collect(),
        ignorable: config.ignorable,
    }
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn spec(plan: &ProfilePlan, parity: bool) -> ProfileSpec {
    ProfileSpec {
        name: plan.scheduler_name.clone(),
        points: ExtensionPoint::ALL.iter().map(|point| (*point, plan.at(*point).to_vec())).collect(),
        args: plan.args.iter().map(|(plugin, args)| (plugin.clone(), args.clone())).collect(),
        // Zero selects kube-scheduler's adaptive sample. Scoring is cheap in Harbormaster, so unless parity is
        // required, all nodes are scored.
        percentage_of_nodes_to_score: plan.percentage_of_nodes_to_score.filter(|p| *p != 0 || parity),
    }
}

/// The plugins that a configuration may name.
struct Catalog<'a>(&'a Registry);

impl PluginCatalog for Catalog<'_> {
    fn points(&self, plugin: &str) -> Option<PointSet> {
        self.0.points(plugin)
    }

    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }
}

/// Returns a warning about each field that kube-scheduler silently ignores: weights of zero, and plugins that do not
/// exist. These warnings are also in [`Setup::warnings`].
pub fn without_effect(config: &KubeSchedulerConfiguration, choices: &Choices) -> Vec<ConfigError> {
    let mut warnings = zero_weights(config);
    warnings.extend(unknown_plugins(config, &choices.plugins, choices.features.release()));
    warnings
}

/// Warns about weights of zero, which have no effect.
fn zero_weights(config: &KubeSchedulerConfiguration) -> Vec<ConfigError> {
    let mut warnings = Vec::new();
    for (i, profile) in config.profiles.iter().enumerate() {
        let (score, multi_point) = (profile.plugins.at(ExtensionPoint::Score), &profile.plugins.multi_point);
        let scoring: Vec<&str> = score.enabled.iter().map(|plugin| plugin.name.as_str()).collect();
        // The merged list of `multiPoint` has the default plugins, too, so its order is not the file's.
        let everywhere = profile.multi_point_in_file.iter().map(String::as_str).collect();
        for (list, set, names) in [("score", score, scoring), ("multiPoint", multi_point, everywhere)] {
            let has_no_weight = |name: &str| set.enabled.iter().any(|p| p.name == name && p.weight == 0);
            for (at, name) in names.into_iter().enumerate().filter(|(_, name)| has_no_weight(name)) {
                let field = format!("profiles[{i}].plugins.{list}.enabled[{at}].weight");
                if config.is_set_in_file(&field) {
                    let message = format!(
                        "{field}: 0 means the default of 1; to turn off {name:?} use {list}.disabled"
                    );
                    warnings.push(config.error(&field, message));
                }
            }
        }
    }
    warnings
}

/// Warns about nonexistent plugins in places where kube-scheduler silently ignores them.
fn unknown_plugins(
    config: &KubeSchedulerConfiguration,
    registry: &Registry,
    release: Release,
) -> Vec<ConfigError> {
    let known = || harbormaster_config::in_tree(release).map(|plugin| plugin.name).chain(registry.names());
    let mut warnings = Vec::new();
    let mut warn = |field: String, name: &str, effect: &str| {
        if !known().any(|known| known == name) {
            let message = format!("{field}: there is no plugin {name:?}, {effect}");
            warnings.push(config.error(&field, message).meaning(similar(name, known())));
        }
    };
    for (i, profile) in config.profiles.iter().enumerate() {
        let lists = ExtensionPoint::ALL.iter().map(|point| (point.field(), profile.plugins.at(*point)));
        for (list, set) in lists.chain([("multiPoint", &profile.plugins.multi_point)]) {
            for (at, plugin) in set.disabled.iter().enumerate().filter(|(_, plugin)| plugin.name != ALL) {
                let field = format!("profiles[{i}].plugins.{list}.disabled[{at}].name");
                warn(field, &plugin.name, "so nothing is disabled");
            }
        }
        for (at, entry) in profile.plugin_config.iter().enumerate() {
            let field = format!("profiles[{i}].pluginConfig[{at}].name");
            warn(field, &entry.name, "so its arguments are ignored");
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
