//! Expands the plugins of each profile into one list per extension point.

use std::collections::BTreeMap;

use harbormaster_api::{
    features::Features,
    points::{ExtensionPoint, PointSet},
    similar::similar,
};
use serde_json::Value;

use crate::{
    args_rules,
    config::{KubeSchedulerConfiguration, Profile},
    error::{ConfigError, ConfigErrors},
    fields::FieldErrors,
    in_tree::{InTreePlugin, in_tree, replacement},
    plugin_args::PluginArgs,
    plugins::ALL,
};

/// The highest score that a plugin may give.
const MAX_SCORE: i64 = 100;

/// The order in which kube-scheduler fills its lists. It determines which of several errors is reported.
const ORDER: [ExtensionPoint; ExtensionPoint::ALL.len()] = [
    ExtensionPoint::PreFilter,
    ExtensionPoint::Filter,
    ExtensionPoint::PostFilter,
    ExtensionPoint::Reserve,
    ExtensionPoint::PreScore,
    ExtensionPoint::Score,
    ExtensionPoint::PreBind,
    ExtensionPoint::Bind,
    ExtensionPoint::PostBind,
    ExtensionPoint::Permit,
    ExtensionPoint::PreEnqueue,
    ExtensionPoint::QueueSort,
    ExtensionPoint::PodGroupPostFilter,
    ExtensionPoint::PlacementGenerate,
    ExtensionPoint::PlacementScore,
];

/// The available plugins.
pub trait PluginCatalog {
    /// Returns the extension points of a plugin; `None` if the plugin does not exist.
    fn points(&self, plugin: &str) -> Option<PointSet>;

    /// Returns the names of all plugins, for suggestions.
    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
}

impl<F: Fn(&str) -> Option<PointSet>> PluginCatalog for F {
    fn points(&self, plugin: &str) -> Option<PointSet> {
        self(plugin)
    }
}

/// A profile that is ready to be built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfilePlan {
    /// `spec.schedulerName` of the profile's pods.
    pub scheduler_name: String,
    /// The profile's value, or else the global value; `None` if neither is given.
    pub percentage_of_nodes_to_score: Option<i32>,
    points: BTreeMap<ExtensionPoint, Vec<(String, i64)>>,
    /// Arguments of the enabled plugins that take arguments. They are valid, include defaults, and do not contain
    /// `apiVersion` or `kind`.
    pub args: BTreeMap<String, Value>,
}

impl ProfilePlan {
    /// Returns the plugins of a point in order, with their score weights (0 at points without scores).
    pub fn at(&self, point: ExtensionPoint) -> &[(String, i64)] {
        self.points.get(&point).map_or(&[], Vec::as_slice)
    }

    /// Returns the plugins that run at one or more points, without duplicates.
    pub fn plugins(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.points.values().flatten() {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}

/// Expands the plugins of all profiles. The configuration should be [valid](crate::validate).
///
/// # Errors
/// For each profile that cannot be built: all errors in the arguments of one plugin, or else the first other error. The
/// messages are kube-scheduler's.
pub fn plan_profiles(
    config: &KubeSchedulerConfiguration,
    catalog: &dyn PluginCatalog,
    features: &Features,
) -> Result<Vec<ProfilePlan>, ConfigErrors> {
    let mut plans: Vec<ProfilePlan> = Vec::new();
    let mut errors = Vec::new();
    let mut first_sort = None;
    for (index, profile) in config.profiles.iter().enumerate() {
        let planner = Planner { config, index, profile, catalog, features };
        match planner.plan() {
            Ok((plan, sort)) => {
                let first = first_sort.get_or_insert_with(|| (sort.clone(), profile));
                errors.extend(planner.check_shared_queue(&plans, &sort, first));
                plans.push(plan);
            }
            Err(found) => errors.extend(found),
        }
    }
    ConfigErrors::from(errors).into_result()?;
    Ok(plans)
}

struct Planner<'a> {
    config: &'a KubeSchedulerConfiguration,
    index: usize,
    profile: &'a Profile,
    catalog: &'a dyn PluginCatalog,
    features: &'a Features,
}

type Lists<'a> = BTreeMap<ExtensionPoint, Vec<&'a str>>;

impl<'a> Planner<'a> {
    /// Returns the plan and the name of its queue sort plugin.
    fn plan(&self) -> Result<(ProfilePlan, String), Vec<ConfigError>> {
        self.check_arguments()?;
        let mut lists = Lists::new();
        for point in ORDER {
            lists.insert(point, self.own_list(point)?);
        }
        for point in ORDER {
            if let Some(expanded) = self.expanded(point)? {
                lists.insert(point, expanded);
            }
        }
        let sort = self.check_counts(&lists)?;
        let score = self.weights(ExtensionPoint::Score, "score plugins")?;
        let placement = self.weights(ExtensionPoint::PlacementScore, "placement score plugins")?;
        self.check_catalog(&lists)?;
        Ok((self.assemble(lists, &score, &placement), sort))
    }

    /// Looks up an in-tree plugin of the release.
    fn in_tree(&self, name: &str) -> Option<&'static InTreePlugin> {
        in_tree(self.features.release()).find(|plugin| plugin.name == name)
    }

    /// Returns the points of a plugin: from the catalog or, if the catalog lacks the plugin, from kube-scheduler's
    /// table.
    fn points(&self, plugin: &str) -> Option<PointSet> {
        self.catalog.points(plugin).or_else(|| self.in_tree(plugin).map(|p| p.points))
    }

    /// Returns true if the plugin may be listed at a point. Harbormaster's version of an in-tree plugin may implement
    /// different points from kube-scheduler's, so the points in kube-scheduler's table are accepted too.
    fn may_extend(&self, plugin: &str, point: ExtensionPoint) -> bool {
        let in_tree = self.in_tree(plugin).is_some_and(|p| p.points.contains(point));
        in_tree || self.points(plugin).is_some_and(|points| points.contains(point))
    }

    fn error(&self, field: &str, message: &str) -> Vec<ConfigError> {
        let field = format!("profiles[{}].{field}", self.index);
        let name = &self.profile.scheduler_name;
        let message = format!("initializing profiles: creating profile for scheduler name {name}: {message}");
        vec![self.config.source.error(field, message)]
    }

    /// Checks the arguments that kube-scheduler checks only when it builds the plugins.
    fn check_arguments(&self) -> Result<(), Vec<ConfigError>> {
        let needed = self.profile.plugins.names();
        for (i, config) in self.profile.plugin_config.iter().enumerate() {
            let PluginArgs::NodeResourcesFit(args) = &config.args else { continue };
            if !needed.contains(&config.name.as_str()) {
                continue;
            }
            let base = format!("profiles[{}].pluginConfig[{i}].args", self.index);
            let mut field_errors = FieldErrors::below(&self.config.source, &base);
            args_rules::check_fit(args, &mut field_errors);
            let mut errors = field_errors.into_errors();
            for error in &mut errors {
                error.message = format!(
                    "initializing profiles: creating profile for scheduler name {}: initializing plugin {:?}: {}",
                    self.profile.scheduler_name, config.name, error.message
                );
            }
            if !errors.is_empty() {
                return Err(errors);
            }
        }
        Ok(())
    }

    fn does_not_exist(&self, field: &str, point: ExtensionPoint, plugin: &str) -> Vec<ConfigError> {
        let mut errors = self.error(field, &format!("{point}Plugin {plugin:?} does not exist"));
        let help = replacement(plugin);
        errors.iter_mut().for_each(|e| e.help = help.map(str::to_owned));
        let known = in_tree(self.features.release()).map(|known| known.name).chain(self.catalog.names());
        let suggestion = similar(plugin, known);
        errors.into_iter().map(|e| e.meaning(suggestion)).collect()
    }

    fn registered_twice(&self, field: &str, point: ExtensionPoint, plugin: &str) -> Vec<ConfigError> {
        self.error(field, &format!("plugin {plugin:?} already registered as \"{point}Plugin\""))
    }

    /// Returns the plugins in the profile's own list for the point, without those of `multiPoint`.
    fn own_list(&self, point: ExtensionPoint) -> Result<Vec<&'a str>, Vec<ConfigError>> {
        let mut list: Vec<&str> = Vec::new();
        for (i, plugin) in self.profile.plugins.at(point).enabled.iter().enumerate() {
            let (field, name) = (format!("plugins.{}.enabled[{i}]", point.field()), plugin.name.as_str());
            if self.points(name).is_none() {
                return Err(self.does_not_exist(&field, point, name));
            }
            if !self.may_extend(name, point) {
                return Err(
                    self.error(&field, &format!("plugin {name:?} does not extend {point}Plugin plugin"))
                );
            }
            if list.contains(&name) {
                return Err(self.registered_twice(&field, point, name));
            }
            list.push(name);
        }
        Ok(list)
    }

    /// Returns the list of a point with the plugins of `multiPoint` added: first the plugins in both lists, in the
    /// order of the point's list, then the other plugins of `multiPoint`, then the rest of the point's list. Returns
    /// `None` if `multiPoint` is empty or the point disables all plugins.
    fn expanded(&self, point: ExtensionPoint) -> Result<Option<Vec<&'a str>>, Vec<ConfigError>> {
        let (own, multi) = (self.profile.plugins.at(point), &self.profile.plugins.multi_point);
        if multi.enabled.is_empty() || own.disables(ALL) {
            return Ok(None);
        }
        let mut overridden: Vec<&str> = Vec::new();
        let mut expanded: Vec<&str> = Vec::new();
        for plugin in &multi.enabled {
            let name = plugin.name.as_str();
            let Some(points) = self.points(name) else {
                return Err(self.does_not_exist(&self.multi_point_field(name), point, name));
            };
            if !points.contains(point) || own.disables(name) {
                continue;
            }
            if own.enables(name) {
                overridden.push(name);
            } else if expanded.contains(&name) {
                return Err(self.registered_twice(&self.multi_point_field(name), point, name));
            } else {
                expanded.push(name);
            }
        }
        let names = || own.enabled.iter().map(|p| p.name.as_str());
        let mut list: Vec<_> = names().filter(|name| overridden.contains(name)).collect();
        list.extend(expanded);
        list.extend(names().filter(|name| !overridden.contains(name)));
        Ok(Some(list))
    }

    /// Returns the path of a plugin's last entry in the file's `multiPoint` list, or of `multiPoint` itself if the file
    /// does not list the plugin.
    fn multi_point_field(&self, plugin: &str) -> String {
        match self.profile.multi_point_in_file.iter().rposition(|name| name == plugin) {
            Some(i) => format!("plugins.multiPoint.enabled[{i}]"),
            None => "plugins.multiPoint".to_owned(),
        }
    }

    /// Checks the number of plugins at the points that limit it. Returns the name of the queue sort plugin.
    fn check_counts(&self, lists: &Lists<'_>) -> Result<String, Vec<ConfigError>> {
        let list = |point| lists.get(&point).map_or(&[][..], Vec::as_slice);
        let name = &self.profile.scheduler_name;
        let [sort] = list(ExtensionPoint::QueueSort) else {
            let got = list(ExtensionPoint::QueueSort).len();
            let message = format!(
                "only one queue sort plugin required for profile with scheduler name {name:?}, but got {got}"
            );
            return Err(self.error("plugins.queueSort", &message));
        };
        if list(ExtensionPoint::Bind).is_empty() {
            let message =
                format!("at least one bind plugin is needed for profile with scheduler name {name:?}");
            return Err(self.error("plugins.bind", &message));
        }
        if list(ExtensionPoint::PlacementGenerate).len() > 1 {
            let message = format!(
                "at most one placement generate plugin is allowed for profile with scheduler name {name:?}"
            );
            return Err(self.error("plugins.placementGenerate", &message));
        }
        Ok((*sort).to_owned())
    }

    /// Checks that the catalog contains the listed plugins, because a missing plugin cannot reject the pods that it
    /// should reject. A plugin whose feature gate is off may be missing, because it does nothing in kube-scheduler
    /// either.
    fn check_catalog(&self, lists: &Lists<'_>) -> Result<(), Vec<ConfigError>> {
        let mut missing = lists.values().flatten().filter(|name| self.catalog.points(name).is_none());
        let active = |name: &&str| self.in_tree(name).filter(|plugin| plugin.active(self.features));
        let Some(plugin) = missing.find_map(active) else { return Ok(()) };
        let message = format!("plugin {:?} is not implemented", plugin.name);
        let mut errors = self.error(&self.multi_point_field(plugin.name), &message);
        let help = plugin.gate.map(|gate| format!("turn off the feature gate {}", gate.name()));
        errors.iter_mut().for_each(|error| error.help.clone_from(&help));
        Err(errors)
    }

    /// Returns the weights of all listed plugins that can score at the point. The point's own list takes precedence
    /// over `multiPoint`; the default weight is 1.
    fn weights(&self, point: ExtensionPoint, what: &str) -> Result<BTreeMap<&'a str, i64>, Vec<ConfigError>> {
        let plugins = &self.profile.plugins;
        let mut weights = BTreeMap::new();
        let mut total = 0_i64;
        for plugin in plugins.at(point).enabled.iter().chain(&plugins.multi_point.enabled) {
            if !self.may_extend(&plugin.name, point) || weights.contains_key(plugin.name.as_str()) {
                continue;
            }
            let weight = if plugin.weight == 0 { 1 } else { i64::from(plugin.weight) };
            let most = weight.wrapping_mul(MAX_SCORE);
            // As in kube-scheduler, the arithmetic wraps, and this check is the only one that catches negative weights.
            if most > i64::MAX.wrapping_sub(total) {
                let message = format!("{what}: total score of Score plugins could overflow");
                return Err(self.error(&format!("plugins.{}", point.field()), &message));
            }
            total = total.wrapping_add(most);
            weights.insert(plugin.name.as_str(), weight);
        }
        Ok(weights)
    }

    fn assemble(
        &self,
        lists: Lists<'_>,
        score: &BTreeMap<&str, i64>,
        placement: &BTreeMap<&str, i64>,
    ) -> ProfilePlan {
        let mut plan = ProfilePlan {
            scheduler_name: self.profile.scheduler_name.clone(),
            percentage_of_nodes_to_score: self
                .profile
                .percentage_of_nodes_to_score
                .or(self.config.percentage_of_nodes_to_score),
            ..ProfilePlan::default()
        };
        for (point, names) in lists {
            for name in names {
                let weight = match point {
                    ExtensionPoint::Score => score.get(name).copied().unwrap_or(1),
                    ExtensionPoint::PlacementScore => placement.get(name).copied().unwrap_or(1),
                    _ => 0,
                };
                // kube-scheduler calls no plugin whose gate is off.
                let is_active = self.in_tree(name).is_none_or(|plugin| plugin.active(self.features));
                let implements = self.catalog.points(name).is_some_and(|points| points.contains(point));
                if is_active && implements {
                    plan.points.entry(point).or_default().push((name.to_owned(), weight));
                }
            }
        }
        let needed = self.profile.plugins.names();
        let configs = self.profile.plugin_config.iter().filter(|c| needed.contains(&c.name.as_str()));
        plan.args = configs.filter_map(|c| Some((c.name.clone(), c.args.to_value()?))).collect();
        plan
    }

    /// Checks a profile against the previous profiles: their names must differ, and they must sort the queue in the
    /// same way.
    fn check_shared_queue(
        &self,
        previous: &[ProfilePlan],
        sort: &str,
        (first_sort, first): &(String, &Profile),
    ) -> Option<ConfigError> {
        let name = &self.profile.scheduler_name;
        let error = |field: &str, message: String| {
            let field = format!("profiles[{}].{field}", self.index);
            Some(self.config.source.error(field, format!("initializing profiles: {message}")))
        };
        if name.is_empty() {
            return error("schedulerName", "scheduler name is needed".to_owned());
        }
        if previous.iter().any(|plan| plan.scheduler_name == *name) {
            return error("schedulerName", format!("duplicate profile with scheduler name {name:?}"));
        }
        if sort != first_sort {
            let message =
                format!("different queue sort plugins for profile {name:?}: {sort:?}, first: {first_sort:?}");
            return error("plugins.queueSort", message);
        }
        if self.profile.args(sort) != first.args(sort) {
            return error("pluginConfig", format!("different queue sort plugin args for profile {name:?}"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use ExtensionPoint::{
        Bind, Filter, Permit, PostFilter, PreEnqueue, PreFilter, QueueSort, Reserve, Score,
    };
    use harbormaster_api::features::Feature;
    use serde_json::json;

    use super::*;
    use crate::load::load;

    #[test]
    fn a_plugin_whose_gate_is_off_is_not_called_even_if_it_is_listed() {
        let lists = "placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}";
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{{plugins: {{{lists}}}}}]"
        );
        let generators = |features: Features| {
            let config = load(&text, "f", &features).unwrap();
            let plans = plan_profiles(&config, &catalog, &features).unwrap();
            plans[0].at(ExtensionPoint::PlacementGenerate).len()
        };
        let off = Features::default();
        assert_eq!(generators(off), 0);
        assert_eq!(generators(off.with(Feature::TopologyAwareWorkloadScheduling, true)), 1);
    }

    /// Returns the points of an in-tree plugin or of one of three other plugins.
    fn catalog(name: &str) -> Option<PointSet> {
        match name {
            "Mine" => Some(PointSet::of(&[Filter, Score])),
            "OtherSort" => Some(PointSet::of(&[QueueSort])),
            "Generator" => Some(PointSet::of(&[ExtensionPoint::PlacementGenerate])),
            _ => in_tree(Features::default().release()).find(|p| p.name == name).map(|p| p.points),
        }
    }

    fn read(profiles: &str) -> KubeSchedulerConfiguration {
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        load(&format!("{head}profiles:\n{profiles}"), "f.yaml", &Features::default()).unwrap()
    }

    fn plan(plugins: &str) -> ProfilePlan {
        let config = read(&format!("- plugins: {plugins}\n"));
        plan_profiles(&config, &catalog, &Features::default()).unwrap().remove(0)
    }

    fn names(plan: &ProfilePlan, point: ExtensionPoint) -> Vec<&str> {
        plan.at(point).iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn the_default_lists_equal_those_of_kube_scheduler() {
        let plan = plan("{}");
        assert_eq!(names(&plan, PreEnqueue), ["SchedulingGates", "DynamicResources", "DefaultPreemption"]);
        assert_eq!(names(&plan, QueueSort), ["PrioritySort"]);
        assert_eq!(names(&plan, PostFilter), ["DynamicResources", "DefaultPreemption"]);
        assert_eq!(names(&plan, Reserve), ["VolumeBinding", "DynamicResources"]);
        assert_eq!(names(&plan, Bind), ["DefaultBinder"]);
        assert_eq!(names(&plan, PreFilter).len(), 11);
        let scores: Vec<_> = plan.at(Score).iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        assert_eq!(
            scores,
            [
                ("TaintToleration", 3),
                ("NodeAffinity", 2),
                ("NodeResourcesFit", 1),
                ("VolumeBinding", 1),
                ("PodTopologySpread", 2),
                ("InterPodAffinity", 2),
                ("DynamicResources", 2),
                ("NodeResourcesBalancedAllocation", 1),
                ("ImageLocality", 1),
            ]
        );
        assert_eq!(plan.args["DynamicResources"], json!({"filterTimeout": "10s", "bindingTimeout": "10m0s"}));
        assert_eq!(plan.args.len(), 8);
        assert_eq!(plan.scheduler_name, "default-scheduler");
        assert_eq!(plan.plugins().len(), 20);
    }

    #[test]
    fn lists_are_expanded_in_kube_schedulers_order() {
        for (what, plugins, point, expected) in [
            (
                "overriding entries of the point's list come first, the rest of that list last",
                "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, \
                 {name: NodeName}, {name: Mine}, {name: NodePorts}]}, \
                 filter: {enabled: [{name: NodeAffinity}, {name: NodePorts}, {name: NodeName}]}}",
                Filter,
                vec!["NodePorts", "NodeName", "Mine", "NodeAffinity"],
            ),
            (
                "a star at the point keeps all of multiPoint out",
                "{filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}]}}",
                Filter,
                vec!["NodeName"],
            ),
            (
                "one plugin is disabled at one point only",
                "{preEnqueue: {disabled: [{name: DynamicResources}]}}",
                PreEnqueue,
                vec!["SchedulingGates", "DefaultPreemption"],
            ),
            (
                "a plugin that the point disables and enables comes last",
                "{preEnqueue: {disabled: [{name: SchedulingGates}], enabled: [{name: SchedulingGates}]}}",
                PreEnqueue,
                vec!["DynamicResources", "DefaultPreemption", "SchedulingGates"],
            ),
            ("no default plugin implements Permit", "{}", Permit, vec![]),
        ] {
            assert_eq!(names(&plan(plugins), point), expected, "{what}");
        }
    }

    #[test]
    fn the_weight_at_the_point_overrides_that_in_multi_point_and_the_default_is_one() {
        let weight = |plugins: &str, name: &str| {
            plan(plugins).at(Score).iter().find(|(n, _)| n == name).map(|(_, weight)| *weight)
        };
        assert_eq!(
            weight("{multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}}", "NodeAffinity"),
            Some(7)
        );
        assert_eq!(weight("{score: {enabled: [{name: NodeAffinity}]}}", "NodeAffinity"), Some(1));
        let both =
            "{multiPoint: {enabled: [{name: Mine, weight: 3}]}, score: {enabled: [{name: Mine, weight: 9}]}}";
        assert_eq!(weight(both, "Mine"), Some(9));
        assert_eq!(weight("{score: {disabled: [{name: NodeAffinity}]}}", "NodeAffinity"), None);
    }

    #[test]
    fn a_profile_that_cannot_be_built_is_rejected_with_kube_schedulers_message() {
        for (plugins, message, line) in [
            (
                "{multiPoint: {enabled: [{name: NodeName},\n  {name: X}]}}",
                "PreFilterPlugin \"X\" does not exist",
                5,
            ),
            ("{filter: {enabled: [{name: X}]}}", "FilterPlugin \"X\" does not exist", 4),
            (
                "{filter: {enabled: [\n  {name: ImageLocality}]}}",
                "plugin \"ImageLocality\" does not extend FilterPlugin plugin",
                5,
            ),
            (
                "{score: {enabled: [{name: Mine},\n  {name: Mine}]}}",
                "plugin \"Mine\" already registered as \"ScorePlugin\"",
                5,
            ),
            (
                "{multiPoint: {enabled: [{name: Mine},\n  {name: Mine}]}}",
                "plugin \"Mine\" already registered as \"FilterPlugin\"",
                5,
            ),
            (
                "{queueSort: {disabled: [{name: '*'}]}}",
                "only one queue sort plugin required for profile with scheduler name \"default-scheduler\", but got 0",
                4,
            ),
            (
                "{multiPoint: {enabled: [{name: OtherSort}]}}",
                "only one queue sort plugin required for profile with scheduler name \"default-scheduler\", but got 2",
                4,
            ),
            (
                "{multiPoint: {disabled: [{name: DefaultBinder}]}}",
                "at least one bind plugin is needed for profile with scheduler name \"default-scheduler\"",
                4,
            ),
            (
                "{placementGenerate: {enabled: [{name: Generator}, {name: TopologyPlacementGenerator}]}}",
                "at most one placement generate plugin is allowed for profile with scheduler name \"default-scheduler\"",
                4,
            ),
            (
                "{score: {enabled: [{name: Mine, weight: -1}]}}",
                "score plugins: total score of Score plugins could overflow",
                4,
            ),
        ] {
            let config = read(&format!("- plugins: {plugins}\n"));
            let errors = plan_profiles(&config, &catalog, &Features::default()).unwrap_err();
            let prefix = "initializing profiles: creating profile for scheduler name default-scheduler: ";
            assert_eq!(errors.kube_text(), format!("{prefix}{message}"));
            assert_eq!(errors.errors[0].position.map(|at| at.line), Some(line), "{message}");
        }
    }

    #[test]
    fn a_plugin_that_does_not_exist_gets_a_suggestion() {
        let config = read("- plugins: {filter: {enabled: [{name: NodePort}]}}\n");
        let errors = plan_profiles(&config, &catalog, &Features::default()).unwrap_err();
        assert_eq!(errors.errors[0].help.as_deref(), Some("did you mean `NodePorts`?"));
    }

    #[test]
    fn arguments_of_node_resources_fit_are_checked_if_it_is_enabled() {
        let config =
            "- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy: {type: Foo}\n";
        let errors = plan_profiles(&read(config), &catalog, &Features::default()).unwrap_err();
        assert_eq!(
            errors.to_string(),
            "f.yaml:7:25: initializing profiles: creating profile for scheduler name default-scheduler: initializing \
             plugin \"NodeResourcesFit\": scoringStrategy.type: Unsupported value: \"Foo\": supported values: \
             \"LeastAllocated\", \"MostAllocated\", \"RequestedToCapacityRatio\""
        );
        let off = format!("{config}  plugins: {{multiPoint: {{disabled: [{{name: NodeResourcesFit}}]}}}}\n");
        assert!(plan_profiles(&read(&off), &catalog, &Features::default()).is_ok());
    }

    #[test]
    fn profiles_must_have_different_names_and_the_same_queue_sort_plugin() {
        let other_sort = "queueSort: {enabled: [{name: OtherSort}], disabled: [{name: '*'}]}";
        for (second, message) in [
            (
                format!("- schedulerName: b\n  plugins: {{{other_sort}}}"),
                "different queue sort plugins for profile \"b\": \"OtherSort\", first: \"PrioritySort\"",
            ),
            (
                "- schedulerName: b\n  pluginConfig: [{name: PrioritySort, args: {x: 1}}]".to_owned(),
                "different queue sort plugin args for profile \"b\"",
            ),
            ("- schedulerName: a".to_owned(), "duplicate profile with scheduler name \"a\""),
            ("- {}".to_owned(), "scheduler name is needed"),
        ] {
            let config = read(&format!("- schedulerName: a\n{second}\n"));
            let errors = plan_profiles(&config, &catalog, &Features::default()).unwrap_err();
            assert_eq!(errors.kube_text(), format!("initializing profiles: {message}"));
        }
    }

    #[test]
    fn the_errors_of_all_profiles_are_reported() {
        let config = read(
            "- schedulerName: a\n  plugins: {filter: {enabled: [{name: X}]}}\n- schedulerName: b\n  \
                           plugins: {bind: {disabled: [{name: '*'}]}}\n",
        );
        let errors = plan_profiles(&config, &catalog, &Features::default()).unwrap_err();
        assert_eq!(errors.errors.len(), 2);
    }

    #[test]
    fn an_in_tree_plugin_that_the_catalog_lacks_is_an_error_if_its_gate_is_on() {
        let without_gangs = |name: &str| (name != "GangScheduling").then(|| catalog(name)).flatten();
        let config = read("- plugins: {permit: {enabled: [{name: GangScheduling}]}}\n");
        let plan = |features: &Features| plan_profiles(&config, &without_gangs, features);
        let off = plan(&Features::default()).unwrap().remove(0);
        assert_eq!(names(&off, Permit), [""; 0]);
        let on = Features::default().with(Feature::GenericWorkload, true).with(Feature::GangScheduling, true);
        let error = plan(&on).unwrap_err().to_string();
        assert!(error.contains("plugin \"GangScheduling\" is not implemented"), "{error}");
        assert!(error.contains("turn off the feature gate GangScheduling"), "{error}");
    }

    #[test]
    fn the_error_for_a_removed_plugin_names_its_replacement() {
        let config = read("- plugins: {score: {enabled: [{name: NodeResourcesLeastAllocated}]}}\n");
        let errors = plan_profiles(&config, &catalog, &Features::default()).unwrap_err();
        assert!(
            errors
                .to_string()
                .ends_with("(use NodeResourcesFit with args.scoringStrategy.type: LeastAllocated)")
        );
    }

    #[test]
    fn the_percentage_of_the_profile_overrides_the_global_one() {
        let config = read(
            "- schedulerName: a\n  percentageOfNodesToScore: 20\n- schedulerName: b\npercentageOfNodesToScore: 70\n",
        );
        let plans = plan_profiles(&config, &catalog, &Features::default()).unwrap();
        let percentages: Vec<_> = plans.iter().map(|p| p.percentage_of_nodes_to_score).collect();
        assert_eq!(percentages, [Some(20), Some(70)]);
        assert_eq!(plan("{}").percentage_of_nodes_to_score, None);
    }
}
