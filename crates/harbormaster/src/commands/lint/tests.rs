use std::{fs, path::Path};

use harbormaster_api::{
    Release,
    features::{Feature, Features},
    points::{ExtensionPoint, PointSet},
};
use harbormaster_config::{KubeSchedulerConfiguration, in_tree};
use harbormaster_framework::prelude::*;

use super::*;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// Pods that name `default-scheduler` and request a GPU.
fn demand() -> Demand {
    Demand {
        schedulers: ["default-scheduler".into()].into(),
        resources: ["cpu".into(), "example.com/gpu".into()].into(),
    }
}

/// Returns the findings about a configuration that is valid with these choices.
fn found(config: &KubeSchedulerConfiguration, choices: &Choices, pods: Option<&Demand>) -> Vec<Finding> {
    let points = |plugin: &str| choices.plugins.points(plugin);
    harbormaster_config::validate(config, &choices.features).expect("a valid configuration");
    let plans = harbormaster_config::plan_profiles(config, &points, &choices.features).expect("profiles");
    findings(&Subject { config, plans: &plans, choices, pods })
}

/// Returns `severity id field` of each finding about a configuration without its first two lines.
fn lint_with(text: &str, choices: &Choices, pods: Option<&Demand>) -> Vec<String> {
    let text = format!("{HEAD}{text}\n");
    let config = harbormaster_config::load(&text, "s.yaml", &choices.features)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let name = |one: &Finding| format!("{} {} {}", one.severity.name(), one.id, one.field);
    found(&config, choices, pods).iter().map(name).collect()
}

fn lint(text: &str) -> Vec<String> {
    lint_with(text, &Choices::default(), None)
}

/// Returns the findings about the plugins of a profile.
fn lint_plugins(plugins: &str) -> Vec<String> {
    lint(&format!("profiles: [{{plugins: {{{plugins}}}}}]"))
}

/// Asserts the only finding about one text, and that another text has no finding of the same kind.
fn assert_one(finding: &str, with: &[String], without: &[String]) {
    assert_eq!(with, [finding]);
    let id = finding.split(' ').nth(1).expect("an identifier");
    assert!(!without.iter().any(|one| one.split(' ').nth(1) == Some(id)), "{without:?}");
}

#[test]
fn the_default_configuration_has_no_findings() {
    for release in Release::ALL {
        let choices = Choices { features: Features::of(*release), ..Choices::default() };
        let config = KubeSchedulerConfiguration::default_for(&choices.features);
        assert_eq!(found(&config, &choices, Some(&demand())), []);
        assert_eq!(lint_with("", &choices, None), [""; 0]);
    }
}

/// Returns all files below a directory.
fn files_below(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// Returns the points of an in-tree plugin, or the points at which a text lists another plugin.
fn listed_points(config: &KubeSchedulerConfiguration, name: &str) -> Option<PointSet> {
    let release = Features::default().release();
    let known = in_tree(release).find(|known| known.name == name).map(|known| known.points);
    let lists = config.profiles.iter().flat_map(|profile| {
        let names = |point| profile.plugins.at(point).enabled.iter().any(|plugin| plugin.name == name);
        ExtensionPoint::ALL.into_iter().filter(move |point| names(*point))
    });
    let is_listed = config.profiles.iter().any(|profile| profile.plugins.names().contains(&name));
    let multi_points = config.profiles.iter().map(|profile| &profile.plugins.multi_point);
    // Coscheduling sorts the queue without being listed there.
    let sorts = multi_points.flat_map(|set| &set.disabled).any(|plugin| plugin.name == "PrioritySort");
    let sort = sorts.then_some(ExtensionPoint::QueueSort);
    let more = [ExtensionPoint::Filter, ExtensionPoint::Score].into_iter().chain(sort);
    known.or_else(|| is_listed.then(|| lists.chain(more).collect()))
}

#[test]
fn the_examples_have_no_warnings_except_the_one_that_shows_mistakes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut linted, choices) = (0, Choices::default());
    for path in ["examples", "deploy", "contrib"].iter().flat_map(|part| files_below(&root.join(part))) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
        if !is_yaml || !text.contains("\nkind: KubeSchedulerConfiguration\n") {
            continue;
        }
        let Ok(config) = harbormaster_config::load(&text, "s.yaml", &choices.features) else {
            panic!("{}", path.display())
        };
        let points = |plugin: &str| listed_points(&config, plugin);
        let plans = harbormaster_config::plan_profiles(&config, &points, &choices.features)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // The plugins of the examples are not among those of this program.
        let mut found = findings(&Subject { config: &config, plans: &plans, choices: &choices, pods: None });
        let is_listed = |name: &str| config.profiles.iter().any(|one| one.plugins.names().contains(&name));
        found.retain(|finding| {
            finding.severity == Severity::Warning
                && !(finding.id == "unknown-plugin"
                    && config.profiles.iter().flat_map(|one| &one.plugin_config).any(|one| {
                        is_listed(&one.name) && finding.message.contains(&format!("{:?}", one.name))
                    }))
        });
        let ids: Vec<&str> = found.iter().map(|finding| finding.id).collect();
        let expected: &[&str] = if path.ends_with("stickyvm/article.yaml") {
            &["unknown-plugin", "half-off", "half-off", "half-off", "half-off"]
        } else {
            &[]
        };
        assert_eq!(ids, expected, "{}: {found:#?}", path.display());
        linted += 1;
    }
    assert!(linted >= 30, "{linted}");
}

#[test]
fn a_star_that_switches_off_a_plugin_that_pods_need_is_a_warning() {
    let found =
        lint_plugins("filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}, {name: NodePorts}]}");
    let field = "profiles[0].plugins.filter.disabled[0]";
    let warned = found.iter().filter(|one| **one == format!("warning plugin-off {field}")).count();
    // All plugins in the table that filter, except NodePorts.
    assert_eq!(warned, 11, "{found:#?}");
    let all = lint_plugins(
        "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}",
    );
    assert_eq!(all.len(), 14, "{all:#?}");
    assert!(all.iter().all(|one| one == "warning plugin-off profiles[0].plugins.multiPoint.disabled[0]"));
}

#[test]
fn a_plugin_that_is_disabled_by_name_is_a_note_unless_another_takes_over() {
    assert_one(
        "note plugin-off profiles[0].plugins.filter.disabled[0]",
        &lint_plugins("filter: {disabled: [{name: NodePorts}]}"),
        &lint_plugins("filter: {disabled: [{name: NodeName}]}"),
    );
    let preemption = "postFilter: {disabled: [{name: '*'}]";
    assert_eq!(
        lint_plugins(&format!("{preemption}}}")),
        ["warning plugin-off profiles[0].plugins.postFilter.disabled[0]"]
    );
    assert_eq!(lint_plugins(&format!("{preemption}, enabled: [{{name: DefaultPreemption}}]}}")), [""; 0]);
}

#[test]
fn a_plugin_whose_gate_is_off_is_not_missed() {
    let features = Features::default().with(Feature::DynamicResourceAllocation, false);
    let choices = Choices { features, ..Choices::default() };
    let text = "profiles: [{plugins: {filter: {disabled: [{name: DynamicResources}]}}}]";
    assert_eq!(lint_with(text, &choices, None), [""; 0]);
    assert_eq!(lint(text).len(), 1);
}

#[test]
fn a_plugin_that_filters_without_completing_its_decision_is_a_warning() {
    for (point, plugin) in [
        ("preBind", "VolumeBinding"),
        ("reserve", "VolumeBinding"),
        ("preBind", "DynamicResources"),
        ("reserve", "DynamicResources"),
    ] {
        assert_one(
            &format!("warning half-off profiles[0].plugins.{point}.disabled[0]"),
            &lint_plugins(&format!("{point}: {{disabled: [{{name: {plugin}}}]}}")),
            &lint_plugins(&format!("multiPoint: {{disabled: [{{name: {plugin}}}]}}")),
        );
    }
    assert_eq!(lint_plugins("preBind: {disabled: [{name: '*'}]}").len(), 2);
}

#[test]
fn a_point_that_is_disabled_although_the_plugin_needs_it_is_a_warning() {
    assert_one(
        "warning point-added profiles[0].plugins.preFilter.disabled[0]",
        &lint_plugins("preFilter: {disabled: [{name: NodeResourcesFit}]}"),
        &lint_plugins("preFilter: {disabled: [{name: NodePorts}]}, filter: {disabled: [{name: NodePorts}]}"),
    );
    assert_one(
        "warning point-added profiles[0].plugins.preScore.disabled[0]",
        &lint_plugins("preScore: {disabled: [{name: PodTopologySpread}]}"),
        &lint_plugins("score: {disabled: [{name: PodTopologySpread}]}"),
    );
}

#[test]
fn a_point_that_a_plugin_needs_but_does_not_get_is_a_note() {
    let found =
        lint_plugins("multiPoint: {disabled: [{name: NodePorts}]}, filter: {enabled: [{name: NodePorts}]}");
    assert_eq!(found, ["note point-added profiles[0].plugins.preFilter"]);
}

/// A plugin of another author with two points.
struct Hall;

impl Plugin for Hall {
    const NAME: &'static str = "Hall";
    implemented_points!();
}

impl Build for Hall {
    type Args = NoArgs;

    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl PreEnqueue for Hall {
    fn pre_enqueue(&self, _: EnqueueCycle<'_>) -> Verdict {
        Ok(())
    }
}

impl Filter for Hall {
    fn filter(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> Verdict {
        Ok(())
    }
}

#[test]
fn a_plugin_of_another_author_that_misses_one_of_its_points_is_a_note() {
    let mut choices = Choices::default();
    choices.plugins.register::<Hall>();
    let found = |plugins: &str| lint_with(&format!("profiles: [{{plugins: {{{plugins}}}}}]"), &choices, None);
    let filter = "filter: {enabled: [{name: Hall}]}";
    assert_one(
        "note partly-on profiles[0].plugins",
        &found(filter),
        &found("multiPoint: {enabled: [{name: Hall}]}"),
    );
    assert_eq!(found(&format!("{filter}, preEnqueue: {{disabled: [{{name: Hall}}]}}")), [""; 0]);
}

#[test]
fn a_plugin_disabled_where_it_never_runs_is_a_warning() {
    assert_one(
        "warning disabled-in-vain profiles[0].plugins.filter.disabled[0]",
        &lint_plugins("filter: {disabled: [{name: ImageLocality}]}"),
        &lint_plugins("score: {disabled: [{name: ImageLocality}]}"),
    );
    // NodeName has PreFilter only since 1.37, and a file may be meant for both releases.
    let choices = Choices { features: Features::of(Release::V1_36), ..Choices::default() };
    let text = "profiles: [{plugins: {preFilter: {disabled: [{name: NodeName}]}}}]";
    assert_eq!(lint_with(text, &choices, None), [""; 0]);
}

#[test]
fn a_plugin_that_does_not_exist_is_a_warning() {
    assert_one(
        "warning unknown-plugin profiles[0].plugins.filter.disabled[0].name",
        &lint_plugins("filter: {disabled: [{name: NodePort}]}"),
        &lint_plugins("filter: {disabled: [{name: NodePorts}]}"),
    );
}

#[test]
fn a_weight_of_zero_is_a_warning() {
    assert_one(
        "warning weight-zero profiles[0].plugins.score.enabled[0].weight",
        &lint_plugins("score: {enabled: [{name: ImageLocality, weight: 0}]}"),
        &lint_plugins("score: {enabled: [{name: ImageLocality, weight: 1}]}"),
    );
}

#[test]
fn a_weight_that_leaves_the_other_plugins_no_say_is_a_note() {
    // The other default plugins have 14 together.
    assert_one(
        "note weight-dominates profiles[0].plugins.score.enabled[0]",
        &lint_plugins("score: {enabled: [{name: ImageLocality, weight: 1400}]}"),
        &lint_plugins("score: {enabled: [{name: ImageLocality, weight: 1399}]}"),
    );
    let alone = "score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 900}]}";
    assert_eq!(lint_plugins(alone), [""; 0]);
}

#[test]
fn a_default_plugin_that_is_listed_without_its_weight_is_a_warning() {
    for list in ["score", "multiPoint"] {
        assert_one(
            &format!("warning weight-lost profiles[0].plugins.{list}.enabled[0]"),
            &lint_plugins(&format!("{list}: {{enabled: [{{name: TaintToleration}}]}}")),
            &lint_plugins(&format!("{list}: {{enabled: [{{name: TaintToleration, weight: 1}}]}}")),
        );
    }
    assert_eq!(lint_plugins("score: {enabled: [{name: NodeResourcesFit}]}"), [""; 0]);
}

#[test]
fn a_weight_that_another_list_replaces_is_a_warning() {
    let both = |multi: u8, score: u8| {
        lint_plugins(&format!(
            "multiPoint: {{enabled: [{{name: NodeAffinity, weight: {multi}}}]}}, \
             score: {{enabled: [{{name: NodeAffinity, weight: {score}}}]}}"
        ))
    };
    assert_one(
        "warning weight-overridden profiles[0].plugins.multiPoint.enabled[0].weight",
        &both(3, 9),
        &both(9, 9),
    );
}

#[test]
fn arguments_without_effect_are_warnings() {
    let fit = |plugins: &str| {
        lint(&format!(
            "profiles: [{{plugins: {{{plugins}}}, pluginConfig: [{{name: NodeResourcesFit, args: {{scoringStrategy: \
             {{type: MostAllocated}}}}}}]}}]"
        ))
    };
    assert_one(
        "warning args-unused profiles[0].pluginConfig[0].args.scoringStrategy",
        &fit("score: {disabled: [{name: NodeResourcesFit}]}"),
        &fit(""),
    );
    let found = fit("multiPoint: {disabled: [{name: NodeResourcesFit}]}");
    assert!(found.contains(&"warning args-unused profiles[0].pluginConfig[0]".to_owned()), "{found:?}");
}

#[test]
fn a_shape_that_prefers_no_node_is_a_warning() {
    let shape = |last: u8| {
        lint(&format!(
            "profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {{scoringStrategy: {{type: \
             RequestedToCapacityRatio, requestedToCapacityRatio: {{shape: [{{utilization: 0, score: 5}}, \
             {{utilization: 100, score: {last}}}]}}}}}}}}]}}]"
        ))
    };
    let field = "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape";
    assert_one(&format!("warning shape-flat {field}"), &shape(5), &shape(6));
}

fn lint_extender(fields: &str, pods: Option<&Demand>) -> Vec<String> {
    lint_with(&format!("extenders: [{{{fields}}}]"), &Choices::default(), pods)
}

#[test]
fn an_extender_without_a_verb_is_a_warning() {
    assert_one(
        "warning extender-idle extenders[0]",
        &lint_extender("urlPrefix: 'http://a', weight: 1", None),
        &lint_extender("urlPrefix: 'http://a', filterVerb: filter", None),
    );
}

#[test]
fn verbs_that_contradict_other_fields_are_found() {
    assert_one(
        "note extender-weight-unused extenders[0].weight",
        &lint_extender("urlPrefix: 'http://a', filterVerb: f, weight: 1", None),
        &lint_extender("urlPrefix: 'http://a', prioritizeVerb: p, weight: 1", None),
    );
    assert_one(
        "warning extender-bind-skipped extenders[0].ignorable",
        &lint_extender("urlPrefix: 'http://a', bindVerb: b, ignorable: true", None),
        &lint_extender("urlPrefix: 'http://a', filterVerb: f, ignorable: true", None),
    );
    assert_one(
        "note extender-preempts-only extenders[0].preemptVerb",
        &lint_extender("urlPrefix: 'http://a', preemptVerb: p", None),
        &lint_extender("urlPrefix: 'http://a', preemptVerb: p, filterVerb: f", None),
    );
}

#[test]
fn an_extender_whose_connection_is_not_protected_is_a_warning() {
    assert_one(
        "warning extender-plain-http extenders[0].enableHTTPS",
        &lint_extender("urlPrefix: 'http://a', filterVerb: f, enableHTTPS: true", None),
        &lint_extender("urlPrefix: 'https://a', filterVerb: f, enableHTTPS: true", None),
    );
    assert_one(
        "warning extender-unverified extenders[0].enableHTTPS",
        &lint_extender("urlPrefix: 'https://a', filterVerb: f, enableHTTPS: true", None),
        &lint_extender(
            "urlPrefix: 'https://a', filterVerb: f, enableHTTPS: true, tlsConfig: {caFile: a}",
            None,
        ),
    );
}

#[test]
fn a_managed_resource_that_no_pod_requests_is_found() {
    let asked = |resource: &str, pods| {
        let fields =
            format!("urlPrefix: 'http://a', filterVerb: f, managedResources: [{{name: {resource}}}]");
        lint_extender(&fields, pods)
    };
    let demand = demand();
    let field = "extender-unrequested extenders[0].managedResources[0].name";
    let with = asked("example.com/gpus", Some(&demand));
    assert_one(&format!("warning {field}"), &with, &asked("example.com/gpu", Some(&demand)));
    let with = asked("other.org/tape", Some(&demand));
    assert_one(&format!("note {field}"), &with, &asked("other.org/tape", None));
}

#[test]
fn ignored_resources_that_extenders_replace_are_a_warning() {
    let text = |mark: &str| {
        lint(&format!(
            "extenders: [{{urlPrefix: 'http://a', filterVerb: f, managedResources: [{{name: a.com/gpu{mark}}}]}}]\n\
             profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {{ignoredResources: [example.com/a]}}}}]}}]"
        ))
    };
    assert_one(
        "warning ignored-resources-replaced profiles[0].pluginConfig[0].args.ignoredResources",
        &text(", ignoredByScheduler: true"),
        &text(""),
    );
}

#[test]
fn names_that_pods_and_profiles_do_not_share_are_found() {
    let named = |names: &[&str]| {
        let profiles: Vec<String> = names.iter().map(|name| format!("{{schedulerName: {name}}}")).collect();
        let text = format!("leaderElection: {{resourceName: own}}\nprofiles: [{}]", profiles.join(", "));
        let mut found = lint_with(&text, &Choices::default(), Some(&demand()));
        found.retain(|one| !one.contains("profiles-alike"));
        found
    };
    assert_eq!(named(&["default-scheduler"]), [""; 0]);
    assert_eq!(named(&["default-scheduler", "gpu"]), ["note profile-unused profiles[1].schedulerName"]);
    let unused = "note profile-unused profiles[0].schedulerName";
    assert_eq!(named(&["gpu"]), [unused, "note scheduler-unknown profiles"]);
    // The pods of the similar name belong to another profile.
    let both = named(&["default-scheduler", "default-scheduler-2"]);
    assert_eq!(both, ["note profile-unused profiles[1].schedulerName"]);
    assert_eq!(
        named(&["default-schedular"]),
        [unused, "warning scheduler-unknown profiles[0].schedulerName"]
    );
}

#[test]
fn profiles_that_differ_only_in_their_names_are_a_note() {
    let second = |more: &str| {
        lint(&format!(
            "leaderElection: {{resourceName: own}}\nprofiles: [{{schedulerName: a}}, {{schedulerName: b{more}}}]"
        ))
    };
    assert_one(
        "note profiles-alike profiles[1]",
        &second(""),
        &second(", plugins: {score: {disabled: [{name: ImageLocality}]}}"),
    );
}

#[test]
fn percentages_that_do_not_mean_what_they_seem_to_are_found() {
    for percentage in [0, 50] {
        let text = |field: &str| lint(&format!("percentageOfNodesToScore: {field}"));
        assert_one(
            "note percentage-of-nodes percentageOfNodesToScore",
            &text(&percentage.to_string()),
            &text("100"),
        );
    }
    assert_one(
        "warning percentage-overridden percentageOfNodesToScore",
        &lint("percentageOfNodesToScore: 100\nprofiles: [{percentageOfNodesToScore: 100}]"),
        &lint("percentageOfNodesToScore: 100\nprofiles: [{}]"),
    );
}

#[test]
fn settings_without_effect_are_found() {
    assert_one("note no-effect parallelism", &lint("parallelism: 8"), &lint(""));
    let delayed = "delayCacheUntilActive: true\nleaderElection: {leaderElect: ";
    let found = lint(&format!("{delayed}false}}"));
    assert_eq!(found[0], "warning no-effect delayCacheUntilActive");
    assert_eq!(lint(&format!("{delayed}true}}")), [""; 0]);
}

#[test]
fn elections_that_do_not_work_as_meant_are_found() {
    assert_one(
        "note election-off leaderElection.leaderElect",
        &lint("leaderElection: {leaderElect: false}"),
        &lint("leaderElection: {leaderElect: true}"),
    );
    assert_one(
        "note lease-shared leaderElection.resourceName",
        &lint("profiles: [{schedulerName: own}]"),
        &lint("leaderElection: {resourceName: own}\nprofiles: [{schedulerName: own}]"),
    );
    assert_one(
        "warning lease-refused leaderElection.renewDeadline",
        &lint("leaderElection: {renewDeadline: 6s, retryPeriod: 5s}"),
        &lint("leaderElection: {renewDeadline: 7s, retryPeriod: 5s}"),
    );
}

#[test]
fn warnings_come_first_and_each_has_its_line() {
    let text = format!("{HEAD}parallelism: 8\nextenders:\n- urlPrefix: http://a\n");
    let choices = Choices::default();
    let config = harbormaster_config::load(&text, "s.yaml", &choices.features).expect("a configuration");
    let report = report("s.yaml", found(&config, &choices, None));
    let rendered = render(&report, Style::default());
    let lines: Vec<&str> = rendered.lines().collect();
    assert!(
        lines[1].starts_with("warning   extender-idle  5     extenders[0]  no verb is set"),
        "{rendered}"
    );
    assert!(lines[2].starts_with("note      no-effect      3     parallelism   one thread"), "{rendered}");
    assert_eq!(lines[4], "s.yaml: 1 warning, 1 note");
}
