//! Weights of scores, and arguments of plugins, that do not do what they seem to do.

use harbormaster_api::points::ExtensionPoint;
use harbormaster_config::{PluginArgs, Profile, ProfilePlan, in_tree};

use ExtensionPoint::Score;

use super::finding::{Finding, Subject, runs};

/// A plugin dominates if its weight is at least this many times the sum of the other weights. Scores end at 100, so
/// one point of the plugin then outweighs everything that the others can say.
const DOMINATES: i64 = 100;

/// Arguments that have an effect only if the plugin scores.
const SCORE_ARGS: [(&str, &str); 3] = [
    ("NodeResourcesFit", "scoringStrategy"),
    ("InterPodAffinity", "hardPodAffinityWeight"),
    ("InterPodAffinity", "ignorePreferredTermsOfExistingPods"),
];

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, profile, plan) in subject.profiles() {
        findings.extend(dominating(subject, at, profile, plan));
        findings.extend(lost_weights(subject, at, profile, plan));
        findings.extend(overridden_weights(subject, at, profile, plan));
        findings.extend(unused_arguments(subject, at, profile, plan));
    }
    findings.extend(replaced_resources(subject));
    findings
}

/// Returns the path of the plugin's entry in the file: in the list of Score, or else in that of multiPoint.
fn entry(at: usize, profile: &Profile, plugin: &str) -> Option<String> {
    let own = profile.plugins.at(Score).enabled.iter().position(|one| one.name == plugin);
    let multi = || profile.multi_point_in_file.iter().rposition(|name| name == plugin);
    let path = |list: &str, entry: usize| format!("profiles[{at}].plugins.{list}.enabled[{entry}]");
    own.map(|entry| path("score", entry)).or_else(|| multi().map(|entry| path("multiPoint", entry)))
}

/// Finds a plugin that scores so heavily that the others do not count.
fn dominating(subject: &Subject<'_>, at: usize, profile: &Profile, plan: &ProfilePlan) -> Option<Finding> {
    let scores = plan.at(Score);
    let total: i64 = scores.iter().map(|(_, weight)| *weight).fold(0, i64::saturating_add);
    let (plugin, weight) = scores.iter().max_by_key(|(_, weight)| *weight)?;
    let others = total.saturating_sub(*weight);
    if others <= 0 || *weight / others < DOMINATES {
        return None;
    }
    let field = entry(at, profile, plugin).unwrap_or_else(|| format!("profiles[{at}].plugins.score"));
    let message = format!(
        "the weight {weight} of {plugin} is so high that the other plugins, with {others} together, only break ties"
    );
    let help = "lower the weight if the other scores should count, or disable the others";
    Some(subject.note("weight-dominates", field, message, help))
}

/// Finds default plugins that lose their weight because the file lists them without one.
fn lost_weights(subject: &Subject<'_>, at: usize, profile: &Profile, plan: &ProfilePlan) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (plugin, weight) in plan.at(Score) {
        let known = in_tree(subject.features().release()).find(|known| known.name == plugin);
        let Some(default) = known.map(|known| i64::from(known.default_weight)) else { continue };
        let Some(field) = entry(at, profile, plugin) else { continue };
        // A weight of 0 has a finding of its own.
        if default > 1 && *weight == 1 && !subject.sets(&format!("{field}.weight")) {
            let message =
                format!("{plugin} is listed without a weight, so it scores with 1 instead of {default}");
            let help = format!("add `weight: {default}` to keep the default, or `weight: 1` if you mean it");
            findings.push(subject.warning("weight-lost", field, message, help));
        }
    }
    findings
}

/// Finds weights in multiPoint that the list of Score overrides.
fn overridden_weights(
    subject: &Subject<'_>,
    at: usize,
    profile: &Profile,
    plan: &ProfilePlan,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (entry, plugin) in profile.multi_point_in_file.iter().enumerate() {
        let field = format!("profiles[{at}].plugins.multiPoint.enabled[{entry}].weight");
        let in_score = profile.plugins.at(Score).enabled.iter().any(|one| one.name == *plugin);
        let given = profile.plugins.multi_point.enabled.iter().find(|one| one.name == *plugin);
        let (Some(given), true, true) = (given, in_score, subject.sets(&field)) else { continue };
        let used = plan.at(Score).iter().find(|(name, _)| name == plugin).map(|(_, weight)| *weight);
        if let Some(used) = used.filter(|used| given.weight != 0 && *used != i64::from(given.weight)) {
            let message = format!("the entry of {plugin} in plugins.score replaces this weight by {used}");
            let help = "remove one of the weights";
            findings.push(subject.warning("weight-overridden", field, message, help));
        }
    }
    findings
}

/// Finds arguments of plugins that do not run, or do not run where the arguments matter.
fn unused_arguments(subject: &Subject<'_>, at: usize, profile: &Profile, plan: &ProfilePlan) -> Vec<Finding> {
    let mut findings = Vec::new();
    let running = plan.plugins();
    for (entry, config) in profile.plugin_config.iter().enumerate() {
        let field = format!("profiles[{at}].pluginConfig[{entry}]");
        // The defaults of other plugins follow the file's own entries.
        if !subject.sets(&field) {
            continue;
        }
        let name = config.name.as_str();
        let known = in_tree(subject.features().release()).find(|known| known.name == name);
        if !running.contains(&name) {
            // A plugin that does not exist at all has a finding of its own.
            let exists = known.is_some() || subject.choices.plugins.points(name).is_some();
            let gate = known.and_then(|known| known.gate.filter(|gate| !subject.features().enabled(*gate)));
            let help = match gate {
                Some(gate) => format!("turn on the feature gate {}, or remove the arguments", gate.name()),
                None => format!("enable {name}, or remove the arguments"),
            };
            if exists {
                let message = format!("{name} does not run in this profile, so its arguments have no effect");
                findings.push(subject.warning("args-unused", field, message, help));
            }
            continue;
        }
        let scores = runs(plan, Score, name);
        for (_, argument) in SCORE_ARGS.iter().filter(|(plugin, _)| *plugin == name && !scores) {
            let field = format!("{field}.args.{argument}");
            if subject.sets(&field) {
                let message = format!("{name} does not score in this profile, so {argument} has no effect");
                let help = format!("enable {name} at score, or remove {argument}");
                findings.push(subject.warning("args-unused", field, message, help));
            }
        }
        findings.extend(flat_shape(subject, &field, &config.args));
    }
    findings
}

/// Finds a shape that gives every node the same score.
fn flat_shape(subject: &Subject<'_>, entry: &str, args: &PluginArgs) -> Option<Finding> {
    let PluginArgs::NodeResourcesFit(args) = args else { return None };
    let shape = &args.scoring_strategy.requested_to_capacity_ratio.as_ref()?.shape;
    let first = shape.first()?;
    shape.iter().all(|point| point.score == first.score).then(|| {
        let field = format!("{entry}.args.scoringStrategy.requestedToCapacityRatio.shape");
        let message =
            format!("every point has the score {}, so NodeResourcesFit prefers no node", first.score);
        subject.warning("shape-flat", field, message, "give the points different scores")
    })
}

/// Finds ignored resources that those of the extenders replace.
fn replaced_resources(subject: &Subject<'_>) -> Vec<Finding> {
    let managed = subject.config.extenders.iter().flat_map(|extender| &extender.managed_resources);
    let ignored: Vec<&str> = managed
        .filter(|resource| resource.ignored_by_scheduler)
        .map(|resource| resource.name.as_str())
        .collect();
    if ignored.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, profile, _) in subject.profiles() {
        for (entry, _) in
            profile.plugin_config.iter().enumerate().filter(|(_, config)| config.name == "NodeResourcesFit")
        {
            let field = format!("profiles[{at}].pluginConfig[{entry}].args.ignoredResources");
            if subject.sets(&field) {
                let message = format!(
                    "the resources that extenders mark with ignoredByScheduler replace this list: {}",
                    ignored.join(", ")
                );
                let help = "mark all resources in managedResources, or use ignoredResourceGroups";
                findings.push(subject.warning("ignored-resources-replaced", field, message, help));
            }
        }
    }
    findings
}
