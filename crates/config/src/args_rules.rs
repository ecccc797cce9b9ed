//! Validation of plugin arguments, with kube-scheduler's messages.

use harbormaster_api::{
    args::{
        AddedAffinity, DefaultConstraint, DefaultPreemptionArgs, DefaultingType, DynamicResourcesArgs,
        NodeResourcesFitArgs, NodeSelectorTermArg, PodTopologySpreadArgs, RequirementArg, ResourceSpec,
        ScoringStrategyType, UtilizationShapePoint, VolumeBindingArgs,
    },
    features::{Feature, Features},
    labels,
};
use rustc_hash::FxHashSet;

use crate::{
    fields::{FieldErrors, quoted},
    plugin_args::{PluginArgs, binding_timeout_allowed},
};

/// Checks the arguments of any plugin except NodeResourcesFit, whose arguments [`check_fit`] checks.
pub(crate) fn check(path: &str, args: &PluginArgs, features: &Features, errors: &mut FieldErrors<'_>) {
    match args {
        PluginArgs::DefaultPreemption(args) => check_preemption(path, args, errors),
        PluginArgs::DynamicResources(args) => check_dynamic_resources(path, args, features, errors),
        PluginArgs::InterPodAffinity(args) => {
            let weight = args.hard_pod_affinity_weight;
            check_range(&format!("{path}.hardPodAffinityWeight"), weight, 100, errors);
        }
        PluginArgs::NodeAffinity(args) => {
            if let Some(affinity) = &args.added_affinity {
                check_affinity(&format!("{path}.addedAffinity"), affinity, errors);
            }
        }
        PluginArgs::NodeResourcesBalancedAllocation(args) => {
            check_balanced(&format!("{path}.resources"), &args.resources, errors);
        }
        PluginArgs::PodTopologySpread(args) => check_spread(path, args, errors),
        PluginArgs::VolumeBinding(args) => check_volume_binding(path, args, features, errors),
        PluginArgs::NodeResourcesFit(_) | PluginArgs::Other(_) | PluginArgs::Absent => {}
    }
}

fn check_range(path: &str, value: i32, max: i32, errors: &mut FieldErrors<'_>) {
    if !(0..=max).contains(&value) {
        errors.invalid(path, value, &format!("not in valid range [0, {max}]"));
    }
}

fn check_preemption(path: &str, args: &DefaultPreemptionArgs, errors: &mut FieldErrors<'_>) {
    let (percentage, absolute) = (args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute);
    let percentage_path = format!("{path}.minCandidateNodesPercentage");
    let absolute_path = format!("{path}.minCandidateNodesAbsolute");
    check_range(&percentage_path, percentage, 100, errors);
    if absolute < 0 {
        errors.invalid(&absolute_path, absolute, "not in valid range [0, inf)");
    }
    if percentage == 0 && absolute == 0 {
        let detail = "cannot be zero at the same time as minCandidateNodesAbsolute";
        errors.invalid(&percentage_path, 0, detail);
        errors.invalid(&absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage");
    }
}

fn check_dynamic_resources(
    path: &str,
    args: &DynamicResourcesArgs,
    features: &Features,
    errors: &mut FieldErrors<'_>,
) {
    if let Some(timeout) = args.filter_timeout {
        let path = format!("{path}.filterTimeout");
        if !features.enabled(Feature::DRASchedulerFilterTimeout) {
            errors.forbidden(&path, "DRASchedulingFilterTimeout feature gate is disabled");
        } else if timeout.nanos() < 0 {
            errors.invalid(&path, quoted(timeout), "must be zero or positive");
        }
    }
    if let Some(timeout) = args.binding_timeout {
        let path = format!("{path}.bindingTimeout");
        if !binding_timeout_allowed(features) {
            let detail =
                "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled";
            errors.forbidden(&path, detail);
        } else if timeout.nanos() < 1_000_000_000 {
            errors.invalid(&path, quoted(timeout), "must be at least 1 second");
        }
    }
}

fn check_affinity(path: &str, affinity: &AddedAffinity, errors: &mut FieldErrors<'_>) {
    if let Some(required) = &affinity.required {
        let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        for (i, term) in required.node_selector_terms.iter().enumerate() {
            check_term(&format!("{path}[{i}]"), term, errors);
        }
    }
    let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution");
    for (i, term) in affinity.preferred.iter().flatten().enumerate() {
        // A term with weight 0 has no effect, so it is not validated.
        if term.weight != 0 {
            check_term(&format!("{path}[{i}]"), &term.preference, errors);
        }
    }
}

fn check_term(path: &str, term: &NodeSelectorTermArg, errors: &mut FieldErrors<'_>) {
    for (i, requirement) in term.match_expressions.iter().enumerate() {
        check_expression(&format!("{path}.matchExpressions[{i}]"), requirement, errors);
    }
    for (i, requirement) in term.match_fields.iter().enumerate() {
        let path = format!("{path}.matchFields[{i}]");
        if !["In", "NotIn"].contains(&requirement.operator.as_str()) {
            errors.unsupported(&format!("{path}.operator"), &requirement.operator, &["In", "NotIn"]);
        } else if requirement.values.len() != 1 {
            errors.invalid(&format!("{path}.values"), list(&requirement.values), "must have one element");
        }
    }
}

fn check_expression(path: &str, requirement: &RequirementArg, errors: &mut FieldErrors<'_>) {
    const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    let RequirementArg { key, operator, values } = requirement;
    if !OPERATORS.contains(&operator.as_str()) {
        return errors.unsupported(&format!("{path}.operator"), operator, &OPERATORS);
    }
    let key_errors = labels::qualified_name_errors(key);
    if !key_errors.is_empty() {
        errors.invalid(&format!("{path}.key"), quoted(key), &key_errors.join("; "));
    }
    let values_path = format!("{path}.values");
    let wrong_count = match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => Some("for 'in', 'notin' operators, values set can't be empty"),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Some("values set must be empty for exists and does not exist")
        }
        "Gt" | "Lt" if values.len() != 1 => Some("for 'Gt', 'Lt' operators, exactly one value is required"),
        _ => None,
    };
    if let Some(detail) = wrong_count {
        errors.invalid(&values_path, list(values), detail);
    }
    if ["Gt", "Lt"].contains(&operator.as_str()) {
        for (i, value) in values.iter().enumerate().filter(|(_, v)| v.parse::<i64>().is_err()) {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.invalid(&format!("{values_path}[{i}]"), quoted(value), detail);
        }
    }
    for (i, value) in values.iter().enumerate() {
        let value_errors = labels::label_value_errors(value);
        if !value_errors.is_empty() {
            errors.invalid(&format!("{values_path}[{i}][{key}]"), quoted(value), &value_errors.join("; "));
        }
    }
}

/// Formats a list of strings as Kubernetes' field errors do: as JSON, with `null` for an empty list.
fn list(values: &[String]) -> String {
    match values {
        [] => "null".to_owned(),
        _ => serde_json::Value::from(values.to_vec()).to_string(),
    }
}

fn check_balanced(path: &str, resources: &[ResourceSpec], errors: &mut FieldErrors<'_>) {
    let mut seen = FxHashSet::default();
    for (i, resource) in resources.iter().enumerate() {
        if !seen.insert(resource.name.as_str()) {
            errors.duplicate(&format!("{path}[{i}].name"), quoted(&resource.name));
        }
        if resource.weight != 1 {
            errors.invalid(&format!("{path}[{i}].weight"), resource.weight, "must be 1");
        }
    }
}

fn check_spread(path: &str, args: &PodTopologySpreadArgs, errors: &mut FieldErrors<'_>) {
    let type_path = format!("{path}.defaultingType");
    match &args.defaulting_type {
        DefaultingType::Unknown(text) => errors.unsupported(&type_path, text, &["System", "List"]),
        DefaultingType::System if !args.default_constraints.is_empty() => {
            errors.invalid(&type_path, quoted("System"), "when .defaultConstraints are not empty");
        }
        _ => {}
    }
    for (i, constraint) in args.default_constraints.iter().enumerate() {
        let path = format!("{path}.defaultConstraints[{i}]");
        check_constraint(&path, constraint, errors);
        let same = |other: &DefaultConstraint| {
            (&other.topology_key, &other.when_unsatisfiable)
                == (&constraint.topology_key, &constraint.when_unsatisfiable)
        };
        if args.default_constraints[..i].iter().any(same) {
            let value = format!("{{{}, {}}}", constraint.topology_key, constraint.when_unsatisfiable);
            errors.duplicate(&path, quoted(value));
        }
    }
}

fn check_constraint(path: &str, constraint: &DefaultConstraint, errors: &mut FieldErrors<'_>) {
    if constraint.max_skew <= 0 {
        errors.invalid(&format!("{path}.maxSkew"), constraint.max_skew, "not in valid range (0, inf)");
    }
    let (key, key_path) = (&constraint.topology_key, format!("{path}.topologyKey"));
    if key.is_empty() {
        errors.required(&key_path, "can not be empty");
    } else {
        for error in labels::qualified_name_errors(key) {
            errors.invalid(&key_path, quoted(key), &error);
        }
    }
    let actions = ["DoNotSchedule", "ScheduleAnyway"];
    match constraint.when_unsatisfiable.as_str() {
        "" => errors.required(&format!("{path}.whenUnsatisfiable"), "can not be empty"),
        action if actions.contains(&action) => {}
        action => errors.unsupported(&format!("{path}.whenUnsatisfiable"), action, &actions),
    }
    if constraint.label_selector.is_some() {
        let detail = "constraint must not define a selector, as they deduced for each pod";
        errors.forbidden(&format!("{path}.labelSelector"), detail);
    }
}

fn check_volume_binding(
    path: &str,
    args: &VolumeBindingArgs,
    features: &Features,
    errors: &mut FieldErrors<'_>,
) {
    if args.bind_timeout_seconds < 0 {
        let detail = "invalid BindTimeoutSeconds, should not be a negative value";
        errors.invalid(&format!("{path}.bindTimeoutSeconds"), args.bind_timeout_seconds, detail);
    }
    let path = format!("{path}.shape");
    if features.enabled(Feature::StorageCapacityScoring) {
        check_shape(&path, &args.shape, errors);
    } else if !args.shape.is_empty() {
        let points: Vec<_> = args
            .shape
            .iter()
            .map(|p| format!("{{\"Utilization\":{},\"Score\":{}}}", p.utilization, p.score))
            .collect();
        let detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
        errors.invalid(&path, format!("[{}]", points.join(",")), detail);
    }
}

fn check_shape(path: &str, shape: &[UtilizationShapePoint], errors: &mut FieldErrors<'_>) {
    if shape.is_empty() {
        return errors.required(path, "at least one point must be specified");
    }
    if let Some(i) = (1..shape.len()).find(|&i| shape[i - 1].utilization >= shape[i].utilization) {
        let detail = "values must be sorted in increasing order";
        errors.invalid(&format!("{path}[{i}].utilization"), shape[i].utilization, detail);
    }
    for (i, point) in shape.iter().enumerate() {
        check_range(&format!("{path}[{i}].utilization"), point.utilization, 100, errors);
        check_range(&format!("{path}[{i}].score"), point.score, 10, errors);
    }
}

/// Checks the arguments of NodeResourcesFit. The paths in the errors are relative to these arguments.
pub(crate) fn check_fit(args: &NodeResourcesFitArgs, errors: &mut FieldErrors<'_>) {
    for (i, resource) in args.ignored_resources.iter().enumerate() {
        for error in labels::qualified_name_errors(resource) {
            errors.invalid(&format!("ignoredResources[{i}]"), quoted(resource), &error);
        }
    }
    for (i, group) in args.ignored_resource_groups.iter().enumerate() {
        let path = format!("ignoredResourceGroups[{i}]");
        if group.contains('/') {
            errors.invalid(&path, quoted(group), "resource group name can't contain '/'");
        }
        for error in labels::qualified_name_errors(group) {
            errors.invalid(&path, quoted(group), &error);
        }
    }
    let strategy = &args.scoring_strategy;
    if let ScoringStrategyType::Unknown(text) = &strategy.strategy {
        let supported = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];
        errors.unsupported("scoringStrategy.type", text, &supported);
    }
    for (i, resource) in strategy.resources.iter().enumerate() {
        if !(1..=100).contains(&resource.weight) {
            let detail = format!("resource weight of {} not in valid range (0, 100]", resource.name);
            errors.invalid(&format!("scoringStrategy.resources[{i}].weight"), resource.weight, &detail);
        }
    }
    let path = "scoringStrategy.requestedToCapacityRatio";
    match (&strategy.strategy, &strategy.requested_to_capacity_ratio) {
        (ScoringStrategyType::RequestedToCapacityRatio, None) => {
            errors.required(path, "must be specified when type is RequestedToCapacityRatio");
        }
        (ScoringStrategyType::RequestedToCapacityRatio, Some(ratio)) => {
            check_shape(&format!("{path}.shape"), &ratio.shape, errors);
        }
        (_, Some(_)) => errors.forbidden(path, "must be nil when type is not RequestedToCapacityRatio"),
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, validate::tests::errors_with};

    fn check_args(plugin: &str, args: &str, features: &Features) -> String {
        let errors = errors_with(
            &format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"),
            features,
        );
        errors.replace("profiles[0].pluginConfig[0].args.", "")
    }

    #[test]
    fn arguments_are_checked_with_kube_schedulers_messages() {
        let default = Features::default();
        let scoring = default.with(Feature::StorageCapacityScoring, true);
        let no_timeouts = default
            .with(Feature::DRASchedulerFilterTimeout, false)
            .with(Feature::DRADeviceBindingConditions, false);
        for (features, plugin, args, message) in [
            (
                default,
                "DefaultPreemption",
                "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
                "[minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100], \
                 minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)]",
            ),
            (
                default,
                "DefaultPreemption",
                "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
                "[minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as \
                 minCandidateNodesAbsolute, minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time \
                 as minCandidateNodesPercentage]",
            ),
            (
                default,
                "DynamicResources",
                "{filterTimeout: -1s, bindingTimeout: 500ms}",
                "[filterTimeout: Invalid value: \"-1s\": must be zero or positive, \
                 bindingTimeout: Invalid value: \"500ms\": must be at least 1 second]",
            ),
            (default, "DynamicResources", "{filterTimeout: 0s, bindingTimeout: 1s}", ""),
            (
                no_timeouts,
                "DynamicResources",
                "{filterTimeout: 1s, bindingTimeout: 1s}",
                "[filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled, bindingTimeout: Forbidden: \
                 DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled]",
            ),
            (no_timeouts, "DynamicResources", "{}", ""),
            (
                default,
                "InterPodAffinity",
                "{hardPodAffinityWeight: -1}",
                "hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]",
            ),
            (
                default,
                "NodeResourcesBalancedAllocation",
                "{resources: [{name: cpu, weight: 2}, {name: cpu}]}",
                "[resources[0].weight: Invalid value: 2: must be 1, resources[1].name: Duplicate value: \"cpu\"]",
            ),
            (
                default,
                "PodTopologySpread",
                "{defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}",
                "defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty",
            ),
            (
                default,
                "PodTopologySpread",
                "{defaultingType: Some}",
                "defaultingType: Unsupported value: \"Some\": supported values: \"System\", \"List\"",
            ),
            (
                default,
                "PodTopologySpread",
                "{defaultingType: List, defaultConstraints: [{}, {maxSkew: 1, topologyKey: z, whenUnsatisfiable: Maybe, \
                 labelSelector: {}}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: Maybe}]}",
                "[defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf), \
                 defaultConstraints[0].topologyKey: Required value: can not be empty, \
                 defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty, \
                 defaultConstraints[1].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: \
                 \"DoNotSchedule\", \"ScheduleAnyway\", \
                 defaultConstraints[1].labelSelector: Forbidden: constraint must not define a selector, as they deduced for \
                 each pod, defaultConstraints[2].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: \
                 \"DoNotSchedule\", \"ScheduleAnyway\", defaultConstraints[2]: Duplicate value: \"{z, Maybe}\"]",
            ),
            (
                default,
                "VolumeBinding",
                "{bindTimeoutSeconds: -1, shape: [{utilization: 0, score: 10}]}",
                "[bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value, \
                 shape: Invalid value: [{\"Utilization\":0,\"Score\":10}]: unexpected field `shape`, remove it or turn on \
                 the feature gate StorageCapacityScoring]",
            ),
            (scoring, "VolumeBinding", "{}", ""),
            (
                scoring,
                "VolumeBinding",
                "{shape: [{utilization: 5, score: 11}, {utilization: 5}, {utilization: 101}]}",
                "[shape[1].utilization: Invalid value: 5: values must be sorted in increasing order, \
                 shape[0].score: Invalid value: 11: not in valid range [0, 10], \
                 shape[2].utilization: Invalid value: 101: not in valid range [0, 100]]",
            ),
        ] {
            assert_eq!(check_args(plugin, args, &features), message, "{plugin} {args}");
        }
    }

    #[test]
    fn added_affinity_is_checked_like_a_node_selector() {
        let required = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
        for (term, message) in [
            ("{}", "".to_owned()),
            (
                "{matchExpressions: [{key: a, operator: Near}]}",
                format!(
                    "{required}.matchExpressions[0].operator: Unsupported value: \"Near\": supported values: \"In\", \
                     \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\""
                ),
            ),
            (
                "{matchExpressions: [{key: a, operator: In}]}",
                format!(
                    "{required}.matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, values set \
                     can't be empty"
                ),
            ),
            (
                "{matchExpressions: [{key: a, operator: Exists, values: [x]}]}",
                format!(
                    "{required}.matchExpressions[0].values: Invalid value: [\"x\"]: values set must be empty for exists \
                     and does not exist"
                ),
            ),
            (
                "{matchExpressions: [{key: a, operator: Gt, values: [x]}]}",
                format!(
                    "{required}.matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value \
                     must be an integer"
                ),
            ),
            (
                "{matchExpressions: [{key: a, operator: Lt}]}",
                format!(
                    "{required}.matchExpressions[0].values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one \
                     value is required"
                ),
            ),
            (
                "{matchFields: [{key: metadata.name, operator: Exists}, {key: metadata.name, operator: In}]}",
                format!(
                    "[{required}.matchFields[0].operator: Unsupported value: \"Exists\": supported values: \"In\", \
                     \"NotIn\", {required}.matchFields[1].values: Invalid value: null: must have one element]"
                ),
            ),
        ] {
            let args = format!(
                "{{addedAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}}}"
            );
            assert_eq!(check_args("NodeAffinity", &args, &Features::default()), message, "{term}");
        }
        let preferred = "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [\
            {preference: {matchExpressions: [{operator: Near}]}}, \
            {weight: 1, preference: {matchExpressions: [{key: '/', operator: In, values: [' ']}]}}]}}";
        let errors = check_args("NodeAffinity", preferred, &Features::default());
        let path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].matchExpressions[0]";
        assert!(errors.starts_with(&format!(
            "[{path}.key: Invalid value: \"/\": prefix part must be non-empty; name part"
        )));
        assert!(
            errors.contains(&format!("{path}.values[0][/]: Invalid value: \" \": a valid label must be"))
        );
        assert!(!errors.contains("Execution[0]"), "a term with weight 0 is not validated: {errors}");
    }

    #[test]
    fn arguments_of_node_resources_fit_are_checked_with_kube_schedulers_messages() {
        for (args, message) in [
            ("{}", ""),
            (
                "{scoringStrategy: {}}",
                "scoringStrategy.type: Unsupported value: \"\": supported values: \"LeastAllocated\", \
                 \"MostAllocated\", \"RequestedToCapacityRatio\"",
            ),
            (
                "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}, {name: a, weight: -1}]}}",
                "[scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range \
                 (0, 100], scoringStrategy.resources[1].weight: Invalid value: -1: resource weight of a not in valid \
                 range (0, 100]]",
            ),
            (
                "{ignoredResourceGroups: [a/b]}",
                "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
            ),
            (
                "{ignoredResources: [/b]}",
                "ignoredResources[0]: Invalid value: \"/b\": prefix part must be non-empty",
            ),
            (
                "{scoringStrategy: {type: RequestedToCapacityRatio}}",
                "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is \
                 RequestedToCapacityRatio",
            ),
            (
                "{scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {}}}",
                "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not \
                 RequestedToCapacityRatio",
            ),
            (
                "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}}",
                "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified",
            ),
        ] {
            let (read, _) = PluginArgs::read(
                "NodeResourcesFit",
                &harbormaster_yaml::parse(args).unwrap(),
                &Features::default(),
            );
            let Ok(PluginArgs::NodeResourcesFit(read)) = read else { panic!("{args}") };
            let source = Source::default();
            let mut errors = FieldErrors::new(&source);
            check_fit(&read, &mut errors);
            let errors = crate::ConfigErrors::from(errors.into_errors());
            let text = if errors.errors.is_empty() { String::new() } else { errors.kube_text() };
            assert_eq!(text, message, "{args}");
        }
    }
}
