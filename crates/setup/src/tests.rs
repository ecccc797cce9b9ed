use std::collections::BTreeSet;

use harbormaster_api::Release;
use harbormaster_config::PluginArgs;
use harbormaster_framework::prelude::*;
use serde::Deserialize;

use super::*;

fn of(profiles: &str) -> Result<Setup, ConfigErrors> {
    let text =
        format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{profiles}");
    Setup::read(Some(("s.yaml", &text)), &Choices::default())
}

#[test]
fn the_default_profile_contains_exactly_the_active_in_tree_plugins() {
    let setup = Setup::read(None, &Choices::default()).unwrap();
    let [profile] = setup.engine.profiles.as_slice() else { panic!("{setup:?}") };
    assert_eq!(*profile.name(), "default-scheduler");
    let ours: BTreeSet<&str> = profile.plugins().iter().map(|plugin| plugin.name()).collect();
    let theirs =
        harbormaster_config::in_tree(Release::V1_36).filter(|plugin| plugin.active(&Features::default()));
    assert_eq!(ours, theirs.map(|plugin| plugin.name).collect());
    assert!(setup.warnings.is_empty(), "{:?}", setup.warnings);
}

#[test]
fn arguments_of_a_plugin_that_does_not_exist_cause_a_warning() {
    let setup = of("profiles:\n- pluginConfig: [{name: NodeResourceFit, args: {x: 1}}]\n").unwrap();
    let [warning] = setup.warnings.as_slice() else { panic!("{:?}", setup.warnings) };
    assert!(warning.ends_with("(did you mean `NodeResourcesFit`?)"), "{warning}");
}

#[test]
fn a_disabled_plugin_that_does_not_exist_is_reported_with_its_position_and_field() {
    let setup = of("profiles:\n- schedulerName: a\n  plugins:\n    preFilter:\n      disabled:\n      - name: '*'\n      \
                    - name: NodeResourceFit\n    multiPoint: {disabled: [{name: NodePorts}, {name: Zebra}]}\n")
    .unwrap();
    let [typing_error, unknown] = setup.warnings.as_slice() else { panic!("{:?}", setup.warnings) };
    assert_eq!(
        typing_error,
        "s.yaml:9:9: profiles[0].plugins.preFilter.disabled[1].name: there is no plugin \"NodeResourceFit\", so nothing is \
         disabled (did you mean `NodeResourcesFit`?)"
    );
    assert_eq!(
        unknown,
        "s.yaml:10:49: profiles[0].plugins.multiPoint.disabled[1].name: there is no plugin \"Zebra\", so nothing is disabled"
    );
}

#[test]
fn a_third_party_plugin_may_be_disabled_and_is_suggested() {
    let warnings = |name: &str| {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
             - plugins: {{filter: {{disabled: [{{name: {name}}}]}}}}\n"
        );
        let mut choices = Choices::default();
        choices.plugins.register::<Guard>();
        Setup::read(Some(("s.yaml", &text)), &choices).unwrap().warnings
    };
    assert!(warnings("Guard").is_empty());
    assert!(matches!(warnings("Gard").as_slice(), [warning] if warning.ends_with("(did you mean `Guard`?)")));
}

#[test]
fn a_percentage_of_nodes_counts_only_if_it_is_set() {
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
    let engine = Setup::of(setup.config, &choices).unwrap().engine;
    assert_eq!((engine.max_wait, engine.parity), (Duration::from_secs(7), true));
}

#[test]
fn errors_contain_the_file_and_the_line() {
    let error = of("profiles:\n- pluginConfig: 7\n").unwrap_err().to_string();
    assert!(error.starts_with("s.yaml:4:"), "{error}");
}

#[test]
fn ignorable_extenders_are_asked_last() {
    let setup = of(
        "extenders: [{urlPrefix: i, filterVerb: f, ignorable: true}, {urlPrefix: u, prioritizeVerb: p, weight: 3}]\n",
    );
    let engine = setup.unwrap().engine;
    let extender = Extender { sees_objects: true, ..Extender::default() };
    let expected = [
        Extender { name: "u".into(), prioritizes: true, weight: 3, ..extender.clone() },
        Extender { name: "i".into(), filters: true, ignorable: true, ..extender },
    ];
    assert_eq!(engine.extenders.all(), expected);
}

#[test]
fn managed_resources_that_the_scheduler_ignores_replace_the_ignored_resources_of_the_plugin() {
    let extender = "extenders: [{urlPrefix: u, managedResources: [{name: a.b/c, ignoredByScheduler: true}, {name: a.b/d}]}]\n";
    let fit = "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [x.y/z]}}]}]\n";
    for profiles in ["", fit] {
        let setup = of(&format!("{extender}{profiles}")).unwrap();
        let Some(PluginArgs::NodeResourcesFit(args)) = setup.config.profiles[0].args("NodeResourcesFit")
        else {
            panic!("no arguments")
        };
        assert_eq!(args.ignored_resources, ["a.b/c"]);
    }
    let without = "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]\n";
    let error = of(&format!("{extender}{without}")).unwrap_err().to_string();
    assert!(error.contains("can't find NodeResourcesFitArgs in plugin config"), "{error}");
}

/// A third-party plugin.
struct Guard;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GuardArgs {
    #[serde(default = "one")]
    min_memory: u64,
    #[serde(default)]
    #[serde(rename = "rules")]
    _rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    #[serde(rename = "name")]
    _name: String,
    #[serde(default, rename = "mode")]
    _mode: Mode,
}

#[derive(Default, Deserialize)]
enum Mode {
    #[default]
    Strict,
    Lenient,
}

fn one() -> u64 {
    1
}

impl Plugin for Guard {
    const NAME: &'static str = "Guard";
    implemented_points!();
}

impl Build for Guard {
    type Args = GuardArgs;

    fn build(args: GuardArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        match args.min_memory {
            0 => Err("minMemory must be positive".into()),
            _ => Ok(Self),
        }
    }
}

impl Filter for Guard {
    fn filter(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> Verdict {
        Ok(())
    }
}

/// Sets the arguments of Guard, which is the second entry of `pluginConfig`. The arguments begin on line 8.
fn guarded(args: &str) -> Result<Setup, ConfigErrors> {
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
         - plugins: {{filter: {{enabled: [{{name: Guard}}]}}}}\n  pluginConfig:\n\
         \x20 - {{name: NodeAffinity, args: {{}}}}\n  - name: Guard\n{args}\n"
    );
    let mut choices = Choices::default();
    choices.plugins.register::<Guard>();
    Setup::read(Some(("scheduler.yaml", &text)), &choices)
}

#[test]
fn arguments_that_a_plugin_rejects_are_reported_with_their_position_and_field() {
    for (args, expected) in [
        (
            "    args:\n      minMemory: x",
            "9:7: profiles[0].pluginConfig[1].args.minMemory: invalid type: string \"x\", expected u64",
        ),
        (
            "    args:\n      minMemori: 1",
            "9:7: profiles[0].pluginConfig[1].args.minMemori: unknown field `minMemori`, expected `minMemory` or \
             `rules` (did you mean `minMemory`?)",
        ),
        (
            "    args:\n      rules:\n      - {name: a}\n      - {nam: b}",
            "11:10: profiles[0].pluginConfig[1].args.rules[1].nam: unknown field `nam`, expected `name` or `mode` \
             (did you mean `name`?)",
        ),
        (
            "    args:\n      rules:\n      - {name: a, mode: strict}",
            "10:19: profiles[0].pluginConfig[1].args.rules[0].mode: unknown variant `strict`, expected `Strict` or \
             `Lenient` (did you mean `Strict`?)",
        ),
        (
            "    args:\n      rules: [{}]",
            "9:15: profiles[0].pluginConfig[1].args.rules[0]: missing field `name`",
        ),
        (
            "    args: 7",
            "8:5: profiles[0].pluginConfig[1].args: invalid type: integer `7`, expected struct GuardArgs",
        ),
        ("    args: {minMemory: 0}", "8:5: profiles[0].pluginConfig[1].args: minMemory must be positive"),
    ] {
        assert_eq!(guarded(args).unwrap_err().to_string(), format!("scheduler.yaml:{expected}"), "{args}");
    }
}

#[test]
fn a_plugin_without_arguments_gets_the_defaults_of_serde() {
    for args in ["", "    args: null", "    args: {}"] {
        assert!(guarded(args).is_ok(), "{args}");
    }
}

#[test]
fn arguments_of_all_profiles_are_checked() {
    let profile = |name: &str| {
        format!(
            "- schedulerName: {name}\n  plugins: {{filter: {{enabled: [{{name: Guard}}]}}}}\n  \
             pluginConfig: [{{name: Guard, args: {{minMemory: 0}}}}]\n"
        )
    };
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n{}{}",
        profile("a"),
        profile("b")
    );
    let mut choices = Choices::default();
    choices.plugins.register::<Guard>();
    let errors = Setup::read(Some(("s.yaml", &text)), &choices).unwrap_err();
    let fields: Vec<_> = errors.errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["profiles[0].pluginConfig[0].args", "profiles[1].pluginConfig[0].args"]);
}

#[test]
fn a_third_party_plugin_is_suggested_and_a_weight_of_0_causes_a_warning() {
    let config = |plugins: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: {plugins}\n"
        )
    };
    let mut choices = Choices::default();
    choices.plugins.register::<Guard>();
    let read = |plugins: &str| Setup::read(Some(("s.yaml", &config(plugins))), &choices);
    let error = read("{multiPoint: {enabled: [{name: Gard}]}}").unwrap_err().to_string();
    assert!(error.ends_with("Plugin \"Gard\" does not exist (did you mean `Guard`?)"), "{error}");
    let setup = read("{score: {enabled: [{name: NodeAffinity, weight: 0}]}}").unwrap();
    assert_eq!(
        setup.warnings.last().map(String::as_str),
        Some(
            "s.yaml:4:52: profiles[0].plugins.score.enabled[0].weight: 0 means the default of 1; to turn off \"NodeAffinity\" \
             use score.disabled"
        )
    );
    let multi_point = "{multiPoint: {enabled: [{name: NodeAffinity, weight: 3}, {name: Guard, weight: 0}]}}";
    assert_eq!(
        read(multi_point).unwrap().warnings,
        [
            "s.yaml:4:83: profiles[0].plugins.multiPoint.enabled[1].weight: 0 means the default of 1; to turn off \"Guard\" \
          use multiPoint.disabled"
        ]
    );
}
