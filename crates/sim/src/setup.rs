//! From a KubeSchedulerConfiguration to an engine's configuration: the same for a live scheduler and a simulation.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{
    features::{Feature, Features},
    points::{ExtensionPoint, PointSet},
    similar::did_you_mean,
};
use harbormaster_config::{ConfigErrors, KubeSchedulerConfiguration, ProfilePlan};
use harbormaster_core::{EngineConfig, queue::Backoff};
use harbormaster_framework::{
    profile::{Profile, ProfileError, ProfileSpec},
    registry::{BuildCycle, Registry},
};
use serde_json::json;

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

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The configuration is wrong, or asks for something that is not built.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A plugin refuses its arguments.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Reads the configuration (name and text; `None` for the default one) and builds all profiles.
///
/// # Errors
/// Everything that is wrong with the configuration.
pub fn setup(config: Option<(&str, &str)>, choices: &Choices) -> Result<Setup, SetupError> {
    let config = match config {
        Some((file, text)) => harbormaster_config::load(text, file, &choices.features)?,
        None => KubeSchedulerConfiguration::default_for(&choices.features),
    };
    build(config, choices)
}

/// Validates a configuration to which flags may have been applied, and builds all profiles.
///
/// # Errors
/// Everything that is wrong with the configuration.
pub fn build(config: KubeSchedulerConfiguration, choices: &Choices) -> Result<Setup, SetupError> {
    harbormaster_config::validate(&config, &choices.features)?;
    ConfigErrors::from(harbormaster_config::unsupported(&config)).into_result()?;
    let registry = &choices.plugins;
    let catalog = |plugin: &str| registry.points(plugin);
    let plans = harbormaster_config::plan_profiles(&config, &catalog, &choices.features)?;
    let cx = BuildCycle { features: choices.features };
    let profiles = plans
        .iter()
        .map(|plan| Profile::build(&spec(plan, registry, choices.parity), registry, &cx).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    let mut engine = EngineConfig::new(profiles);
    engine.parity = choices.parity;
    engine.batching = choices.features.enabled(Feature::OpportunisticBatching);
    // Each profile has its own or the global value already.
    engine.percentage_of_nodes_to_score = None;
    engine.backoff = Backoff {
        initial: seconds(config.pod_initial_backoff_seconds),
        max: seconds(config.pod_max_backoff_seconds),
    };
    engine.stand_in = Some(UNBUILT);
    if let Some(max_wait) = choices.max_wait {
        engine.max_wait = max_wait;
    }
    let mut warnings = not_built(&config, &plans);
    warnings.extend(unheeded(&config, registry));
    Ok(Setup { warnings, config, engine })
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
        "VolumeBinding" if scores => "preference for nodes with fitting storage capacity",
        "DynamicResources" if scores => "preference among nodes by their devices",
        _ => return None,
    })
}

/// Of plugins that the user asks for by name; one warning for all profiles. Pods that need one of the others say so.
fn not_built(config: &KubeSchedulerConfiguration, plans: &[ProfilePlan]) -> Vec<String> {
    let mut asked: Vec<String> = Vec::new();
    for (profile, plan) in config.profiles.iter().zip(plans) {
        for (plugin, points) in plan.missing.iter().filter(|(plugin, _)| profile.asks_for(plugin)) {
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

/// Arguments of plugins that do not exist, which kube-scheduler passes over in silence.
fn unheeded(config: &KubeSchedulerConfiguration, registry: &Registry) -> Vec<String> {
    let in_tree = || harbormaster_config::IN_TREE.iter().map(|plugin| plugin.name);
    let exists = |name: &str| registry.points(name).is_some() || in_tree().any(|known| known == name);
    let profiles = config.profiles.iter().enumerate();
    let all =
        profiles.flat_map(|(i, profile)| profile.plugin_config.iter().map(move |entry| (i, &entry.name)));
    let unknown = all.filter(|(_, name)| !exists(name));
    let warning = |(i, name): (usize, &String)| {
        let hint = did_you_mean(name, in_tree());
        format!(
            "profiles[{i}].pluginConfig: there is no plugin {name:?}, its arguments count for nothing{hint}"
        )
    };
    unknown.map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(profiles: &str) -> Result<Setup, SetupError> {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{profiles}"
        );
        setup(Some(("s.yaml", &text)), &Choices::default())
    }

    #[test]
    fn the_default_profile_holds_back_what_it_cannot_judge_and_nobody_is_warned() {
        let setup = setup(None, &Choices::default()).unwrap();
        let [profile] = setup.engine.profiles.as_slice() else { panic!("{setup:?}") };
        assert_eq!(*profile.name(), "default-scheduler");
        let first = profile.at(ExtensionPoint::PreFilter)[0];
        assert_eq!(profile.plugin(first).name(), UNBUILT);
        assert!(setup.warnings.is_empty(), "{:?}", setup.warnings);
        assert_eq!(setup.engine.stand_in, Some(UNBUILT));
    }

    #[test]
    fn plugins_that_are_asked_for_and_not_built_are_told_of_once() {
        let setup = of("profiles:\n- schedulerName: a\n  plugins: {multiPoint: {enabled: [{name: VolumeBinding}]}}\n\
                        - schedulerName: b\n  plugins: {multiPoint: {enabled: [{name: VolumeBinding}, {name: VolumeZone}]}}\n")
        .unwrap();
        let [warning] = setup.warnings.as_slice() else { panic!("{:?}", setup.warnings) };
        assert!(
            warning.contains("VolumeBinding (with its preference") && warning.contains(", VolumeZone;"),
            "{warning}"
        );
        assert_eq!(warning.matches("VolumeBinding").count(), 1, "{warning}");
    }

    #[test]
    fn arguments_of_a_plugin_that_does_not_exist_are_told_of() {
        let setup = of("profiles:\n- pluginConfig: [{name: NodeResourceFit, args: {x: 1}}]\n").unwrap();
        let [warning] = setup.warnings.as_slice() else { panic!("{:?}", setup.warnings) };
        assert!(warning.ends_with("(did you mean `NodeResourcesFit`?)"), "{warning}");
    }

    #[test]
    fn the_stand_in_for_dynamic_resources_is_asked_where_that_would_be() {
        let asked = |plugins: &str| {
            let setup = of(&format!("profiles:\n- plugins: {plugins}\n")).unwrap();
            let profile = &setup.engine.profiles[0];
            let name = |plugin: &_| profile.plugin(*plugin).name();
            profile.at(ExtensionPoint::PostFilter).first().map(name) == Some(UNBUILT)
        };
        assert!(asked("{}"));
        assert!(!asked("{postFilter: {disabled: [{name: DynamicResources}]}}"));
        assert!(!asked("{multiPoint: {disabled: [{name: DynamicResources}]}}"));
        assert!(asked("{preFilter: {disabled: [{name: DynamicResources}]}}"));
    }

    #[test]
    fn a_percentage_of_nodes_counts_only_if_it_is_a_choice() {
        let percentage = |text: &str| of(text).unwrap().engine.profiles[0].percentage_of_nodes_to_score();
        assert_eq!(percentage(""), None);
        assert_eq!(percentage("percentageOfNodesToScore: 0\n"), None);
        assert_eq!(percentage("percentageOfNodesToScore: 30\n"), Some(30));
        assert_eq!(
            percentage("percentageOfNodesToScore: 30\nprofiles: [{percentageOfNodesToScore: 40}]\n"),
            Some(40)
        );
    }

    #[test]
    fn backoff_and_waiting_times_come_from_configuration_and_choices() {
        let setup = of("podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 4\n").unwrap();
        assert_eq!(setup.engine.backoff.initial, Duration::from_secs(2));
        assert_eq!(setup.engine.backoff.max, Duration::from_secs(4));
        let choices = Choices { max_wait: Some(Duration::from_secs(7)), parity: true, ..Choices::default() };
        let engine = build(setup.config, &choices).unwrap().engine;
        assert_eq!((engine.max_wait, engine.parity), (Duration::from_secs(7), true));
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = of("profiles:\n- pluginConfig: 7\n").unwrap_err().to_string();
        assert!(error.starts_with("s.yaml:4:"), "{error}");
        let error =
            of("extenders: [{urlPrefix: 'http://127.0.0.1', filterVerb: f}]\n").unwrap_err().to_string();
        assert!(error.contains("extenders are not built yet"), "{error}");
    }
}
