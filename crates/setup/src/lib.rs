//! From a KubeSchedulerConfiguration to an engine's configuration: the same for a live scheduler, a simulation and a
//! sandbox.
//!
//! [`Choices`] are what is decided besides, the plugins that may be named among them; [`Setup`] is what comes of both.
//!
//! Invariants: nothing here reads a clock, a file or the environment; whatever is wrong is told with file, line and field.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{
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
use serde_json::json;

/// Stands for every plugin in a `disabled` list.
const ALL: &str = "*";

/// The plugin that keeps pods pending which need a plugin that does not exist yet.
const UNBUILT: &str = "HarbormasterUnbuilt";

/// What is decided outside of the configuration.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The plugins that the configuration may name: those of this repository, unless others are registered besides.
    pub plugins: Registry,
    /// Feature gates.
    pub features: Features,
    /// Walks, samples and breaks ties as kube-scheduler with `parallelism: 1`.
    pub parity: bool,
    /// `--pod-max-in-unschedulable-pods-duration`; `None` for the default.
    pub max_wait: Option<Duration>,
}

impl Default for Choices {
    fn default() -> Self {
        let mut plugins = Registry::default();
        harbormaster_plugins::in_tree(&mut plugins);
        Self { plugins, features: Features::default(), parity: false, max_wait: None }
    }
}

/// What came of a configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The configuration with all defaults.
    pub config: KubeSchedulerConfiguration,
    /// For [`harbormaster_core::Engine::new`].
    pub engine: EngineConfig,
    /// What the user should know of the configuration that was asked for, one line each; none without one.
    pub warnings: Vec<String>,
}

impl Setup {
    /// Reads the configuration (name and text; `None` for the default one) and builds all profiles.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn read(config: Option<(&str, &str)>, choices: &Choices) -> Result<Self, ConfigErrors> {
        let config = match config {
            Some((file, text)) => harbormaster_config::load(text, file, &choices.features)?,
            None => KubeSchedulerConfiguration::default_for(&choices.features),
        };
        Self::of(config, choices)
    }

    /// Validates a configuration to which flags may have been applied, and builds all profiles.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn of(mut config: KubeSchedulerConfiguration, choices: &Choices) -> Result<Self, ConfigErrors> {
        harbormaster_config::validate(&config, &choices.features)?;
        config.ignore_managed_resources()?;
        let registry = &choices.plugins;
        let plans = harbormaster_config::plan_profiles(&config, &Catalog(registry), &choices.features)?;
        let engine = engine(&config, profiles(&config, &plans, choices)?, choices);
        let mut warnings = not_built(&config, &plans);
        warnings.extend(weightless(&config));
        warnings.extend(unheeded(&config, registry));
        Ok(Self { warnings, config, engine })
    }
}

/// Makes the plugins of all profiles.
fn profiles(
    config: &KubeSchedulerConfiguration,
    plans: &[ProfilePlan],
    choices: &Choices,
) -> Result<Vec<Arc<Profile>>, ConfigErrors> {
    let cx = BuildCycle { features: choices.features };
    let (mut profiles, mut errors) = (Vec::new(), Vec::new());
    for (at, plan) in plans.iter().enumerate() {
        match Profile::build(&spec(plan, &choices.plugins, choices.parity), &choices.plugins, &cx) {
            Ok(profile) => profiles.push(Arc::new(profile)),
            Err(error) => errors.push(refused(config, at, &error)),
        }
    }
    ConfigErrors::from(errors).into_result()?;
    Ok(profiles)
}

/// What a plugin says against its arguments, with the place where they are written.
fn refused(config: &KubeSchedulerConfiguration, profile: usize, error: &ProfileError) -> ConfigError {
    let written = |plugin: &str| {
        let entries = &config.profiles[profile].plugin_config;
        let entry = entries.iter().position(|entry| entry.name == plugin)?;
        let args = format!("profiles[{profile}].pluginConfig[{entry}].args");
        config.is_set_in_file(&args).then_some(args)
    };
    let at =
        |field: &str, message: &dyn std::fmt::Display| config.error(field, format!("{field}: {message}"));
    let place = match &error.source {
        BuildError::Args { plugin, .. } | BuildError::Refused { plugin, .. } => written(plugin),
        BuildError::Unknown(_)
        | BuildError::Unnamed { .. }
        | BuildError::NeverHappens { .. }
        | BuildError::RowNormalizes { .. } => None,
    };
    match (&error.source, place) {
        (BuildError::Args { source, .. }, Some(args)) => {
            let dot = if source.field.is_empty() || source.field.starts_with('[') { "" } else { "." };
            at(&format!("{args}{dot}{}", source.field), &source.message).meaning(source.meant.as_deref())
        }
        (BuildError::Refused { source, .. }, Some(args)) => at(&args, source),
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
    // Each profile has its own or the global value already.
    engine.percentage_of_nodes_to_score = None;
    engine.backoff = Backoff {
        initial: seconds(config.pod_initial_backoff_seconds),
        max: seconds(config.pod_max_backoff_seconds),
    };
    engine.extenders = Extenders::new(config.extenders_in_order().into_iter().map(extender));
    engine.stand_in = Some(UNBUILT);
    if let Some(max_wait) = choices.max_wait {
        engine.max_wait = max_wait;
    }
    engine
}

/// What the engine is to know of an extender.
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

fn spec(plan: &ProfilePlan, registry: &Registry, parity: bool) -> ProfileSpec {
    let mut spec = ProfileSpec {
        name: plan.scheduler_name.clone(),
        points: ExtensionPoint::ALL.iter().map(|point| (*point, plan.at(*point).to_vec())).collect(),
        args: plan.args.iter().map(|(plugin, args)| (plugin.clone(), args.clone())).collect(),
        // Zero asks for kube-scheduler's adaptive sample, which is a loss where scoring all nodes is cheap.
        percentage_of_nodes_to_score: plan.percentage_of_nodes_to_score.filter(|p| *p != 0 || parity),
    };
    if !plan.missing.is_empty() {
        add_unbuilt(&mut spec, plan, registry);
    }
    spec
}

/// First at its points: what it says must not be hidden by other rejections. In PostFilter it stands in for
/// DynamicResources, which comes first there as well, and only where that plugin would be asked.
fn add_unbuilt(spec: &mut ProfileSpec, plan: &ProfilePlan, registry: &Registry) {
    let mut points = registry.points(UNBUILT).unwrap_or_default();
    let lacks = |(name, at): &(String, PointSet)| {
        name == "DynamicResources" && at.contains(ExtensionPoint::PostFilter)
    };
    if !plan.missing.iter().any(lacks) {
        points.remove(ExtensionPoint::PostFilter);
    }
    for (point, plugins) in &mut spec.points {
        if points.contains(*point) {
            plugins.insert(0, (UNBUILT.to_owned(), 0));
        }
    }
    let missing: Vec<&str> = plan.missing.iter().map(|(name, _)| name.as_str()).collect();
    spec.args.push((UNBUILT.to_owned(), json!({ "missing": missing })));
}

/// What a plugin that only prefers would have done.
fn left_out(plugin: &str, points: PointSet) -> Option<&'static str> {
    let scores = points.contains(ExtensionPoint::Score);
    Some(match plugin {
        "DynamicResources" if scores => "preference among nodes by their devices",
        _ => return None,
    })
}

/// Of plugins that the user asks for by name; one warning for all profiles. Pods that need one of the others say so.
fn not_built(config: &KubeSchedulerConfiguration, plans: &[ProfilePlan]) -> Vec<String> {
    let mut asked: Vec<String> = Vec::new();
    for (profile, plan) in config.profiles.iter().zip(plans) {
        for (plugin, points) in plan.missing.iter().filter(|(plugin, _)| profile.enables_by_name(plugin)) {
            let what = match left_out(plugin, *points) {
                Some(preference) => format!("{plugin} (with its {preference})"),
                None => plugin.clone(),
            };
            if !asked.contains(&what) {
                asked.push(what);
            }
        }
    }
    if asked.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "the configuration asks for plugins that are not built yet: {}; pods that cannot do without them stay pending \
         and say so",
        asked.join(", ")
    )]
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

/// Weights that are written and do not count.
fn weightless(config: &KubeSchedulerConfiguration) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, profile) in config.profiles.iter().enumerate() {
        let plugins = &profile.plugins;
        for (list, set) in
            [("score", plugins.at(ExtensionPoint::Score)), ("multiPoint", &plugins.multi_point)]
        {
            for (at, plugin) in set.enabled.iter().enumerate().filter(|(_, plugin)| plugin.weight == 0) {
                let field = format!("profiles[{i}].plugins.{list}.enabled[{at}].weight");
                if config.is_set_in_file(&field) {
                    let message =
                        format!("{field}: 0 counts as 1; {list}.disabled turns {:?} off", plugin.name);
                    warnings.push(config.error(&field, message).to_string());
                }
            }
        }
    }
    warnings
}

/// What the configuration says of plugins that do not exist, where kube-scheduler passes over it in silence.
fn unheeded(config: &KubeSchedulerConfiguration, registry: &Registry) -> Vec<String> {
    let known = || harbormaster_config::IN_TREE.iter().map(|plugin| plugin.name).chain(registry.names());
    let mut warnings = Vec::new();
    let mut warn = |field: String, name: &str, so: &str| {
        if !known().any(|known| known == name) {
            let message = format!("{field}: there is no plugin {name:?}, {so}");
            warnings.push(config.error(&field, message).meaning(similar(name, known())).to_string());
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
            warn(field, &entry.name, "its arguments count for nothing");
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
