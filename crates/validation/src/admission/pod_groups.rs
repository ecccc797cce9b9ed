//! Pod groups, and workloads, which have templates of pod groups, as in Kubernetes 1.37 with the feature gate
//! GenericWorkload. Of the other gates of pod groups, only TopologyAwareWorkloadScheduling, PodGroupPreemptionPolicy and
//! DRAWorkloadResourceClaims can be on.

pub(super) mod claims;
mod field;

use std::collections::BTreeSet;

use harbormaster_api::{
    features::Feature,
    labels::{qualified_name_errors, subdomain_errors},
};
use serde_json::{Value, json};

pub(super) use self::field::Field;
use super::{
    Context, Errors, Refusal, conditions,
    meta::{in_bytes, label_errors, path_segment_errors},
    priority,
};
use crate::{
    FieldError,
    kinds::Rules,
    value::{default, list, list_mut, map, remove, text},
};

/// Finalizer of pod groups that may have unfinished pods.
pub const PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";

/// Maximum number of templates in a workload.
const MOST_TEMPLATES: usize = 8;
/// Highest priority of a pod group.
const HIGHEST_PRIORITY: i64 = 1_000_000_000;
const PREEMPTION_POLICIES: [&str; 2] = ["Never", "PreemptLowerPriority"];
const IMMUTABLE: &str = "field is immutable";

pub(super) fn defaults(context: &Context<'_>, object: &mut Value) {
    if context.kind.rules == Rules::PodGroup {
        if map(object, "spec").is_some() {
            default(&mut object["spec"], "disruptionMode", json!({"single": {}}));
            if context.features.enabled(Feature::PodGroupPreemptionPolicy) {
                default(&mut object["spec"], "preemptionPolicy", json!("PreemptLowerPriority"));
            }
        }
        return;
    }
    for template in list_mut(object, "/spec/podGroupTemplates") {
        // The API shows this field even if it is not set.
        if let Some(fields) = template.as_object_mut() {
            fields.entry("schedulingConstraints").or_insert(Value::Null);
        }
    }
}

/// Sets the priority and the finalizer of a new group, and removes the fields whose feature gates are off.
pub(super) fn admit(context: &Context<'_>, group: &mut Value) -> Result<(), Refusal> {
    if map(group, "spec").is_some() {
        priority::admit_group(context, &mut group["spec"])?;
    }
    if !list(group, "/metadata/finalizers").iter().any(|finalizer| finalizer == PROTECTION)
        && let Some(metadata) = map(group, "metadata")
    {
        let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut() {
            finalizers.push(PROTECTION.into());
        }
    }
    drop_gated(context, None, group);
    Ok(())
}

/// Removes the fields of a group or a workload whose feature gates are off. Topology constraints, preemption policies and
/// resource claims stay if the old object has them, too.
pub(super) fn drop_gated(context: &Context<'_>, old: Option<&Value>, object: &mut Value) {
    let has_topology = context.features.enabled(Feature::TopologyAwareWorkloadScheduling);
    let has_policies = context.features.enabled(Feature::PodGroupPreemptionPolicy);
    let had = |old: Option<&Value>, field: &str| old.is_some_and(|old| !old[field].is_null());
    let keeps = |old: Option<&Value>| has_topology || had(old, "schedulingConstraints");
    let keeps_policy = |old: Option<&Value>| has_policies || had(old, "preemptionPolicy");
    let old_spec = old.map(|old| &old["spec"]);
    let keeps_claims = |old: Option<&Value>| claims::are_kept(context, old);
    let old_templates = old.map_or(&[][..], |old| list(old, "/spec/podGroupTemplates"));
    for (i, template) in list_mut(object, "/spec/podGroupTemplates").iter_mut().enumerate() {
        let Some(template) = template.as_object_mut() else { continue };
        if !keeps_claims(old_templates.get(i)) {
            template.remove("resourceClaims");
        }
        if !keeps_policy(old_templates.get(i)) {
            template.remove("preemptionPolicy");
        }
        if !keeps(old_templates.get(i)) {
            template.insert("schedulingConstraints".to_owned(), Value::Null);
        }
    }
    if let Some(spec) = object.get_mut("spec") {
        if !keeps(old.map(|old| &old["spec"])) {
            remove(spec, "schedulingConstraints");
        }
        if !keeps_policy(old.map(|old| &old["spec"])) {
            remove(spec, "preemptionPolicy");
        }
        if !keeps_claims(old_spec) {
            remove(spec, "resourceClaims");
        }
        for name in ["parentCompositePodGroupName", "compositePodGroupTemplates"] {
            remove(spec, name);
        }
    }
    if !keeps_claims(old_spec)
        && let Some(status) = object.get_mut("status")
    {
        remove(status, "resourceClaimStatuses");
    }
}

/// Removes the group that a pod or a pod template names, unless the feature gate is on or the old object names a group
/// too.
pub(super) fn drop_membership(context: &Context<'_>, old: Option<&Value>, object: &mut Value) {
    let spec = match context.kind.rules {
        Rules::Pod => "/spec",
        Rules::Workload | Rules::Job => "/spec/template/spec",
        Rules::CronJob => "/spec/jobTemplate/spec/template/spec",
        _ => return,
    };
    let names_group = |spec: &Value| spec.get("schedulingGroup").is_some();
    let is_in_use = || old.and_then(|old| old.pointer(spec)).is_some_and(names_group);
    if !context.features.enabled(Feature::GenericWorkload)
        && let Some(spec) = object.pointer_mut(spec).filter(|spec| names_group(spec))
        && !is_in_use()
    {
        remove(spec, "schedulingGroup");
    }
}

/// Checks a new or changed group or workload; `old` is its previous version.
pub(super) fn check(context: &Context<'_>, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = Field::new("spec", &object["spec"], old.map(|old| &old["spec"]));
    match context.kind.rules {
        Rules::PodGroup if context.status_only => {
            let conditions = &object["status"]["conditions"];
            conditions::check(conditions, "status.conditions", errors);
            claims::check_names(object, errors);
        }
        Rules::PodGroup => {
            check_workload_reference(&spec, errors);
            check_group(&spec, errors);
        }
        _ => {
            check_priorities(object, errors);
            check_workload(&spec, errors);
        }
    }
}

fn check_workload_reference(spec: &Field<'_>, errors: &mut Errors) {
    if let Some(reference) = spec.fixed("workloadRef", errors) {
        reference.check_required("workloadName", subdomain_errors, errors);
        reference.check_required("templateName", short_name_errors, errors);
    }
}

/// Checks the fields that groups and templates of groups have in common.
fn check_group(spec: &Field<'_>, errors: &mut Errors) {
    let policy = spec.field("schedulingPolicy");
    if policy.may_be_wrong() {
        check_policy(&policy, errors);
    }
    if let Some(constraints) = spec.fixed("schedulingConstraints", errors) {
        check_topology(&constraints.field("topology"), errors);
    }
    if let Some(claims) = spec.fixed("resourceClaims", errors) {
        claims::check(&claims, errors);
    }
    if let Some(mode) = spec.fixed("disruptionMode", errors) {
        mode.check_one_of(["single", "all"], errors);
    }
    if let Some(class) = spec.fixed("priorityClassName", errors) {
        class.check_form(subdomain_errors, errors);
    }
    if let Some(priority) = spec.fixed("priority", errors)
        && let Some(number) = priority.new.as_i64().filter(|number| *number > HIGHEST_PRIORITY)
    {
        let why = format!("must be less than or equal to {HIGHEST_PRIORITY}");
        errors.push(FieldError::invalid(priority.place, number, why));
    }
    if let Some(policy) = spec.fixed("preemptionPolicy", errors)
        && !policy.new.as_str().is_some_and(|policy| PREEMPTION_POLICIES.contains(&policy))
    {
        errors.push(FieldError::unsupported(policy.place, policy.new.clone(), &PREEMPTION_POLICIES));
    }
}

/// Checks that there is at most one topology constraint, and that it names a label.
pub(super) fn check_topology(topology: &Field<'_>, errors: &mut Errors) {
    let constraints = list(topology.new, "");
    if constraints.len() > 1 {
        errors.push(FieldError::too_many(&topology.place, constraints.len() as i64, 1));
        return;
    }
    for constraint in constraints {
        let constraint = Field::new(format!("{}[0]", topology.place), constraint, None);
        constraint.check_required("key", label_key_errors, errors);
    }
}

/// Checks that there is one policy, and that a change keeps it. `minCount` may change.
fn check_policy(policy: &Field<'_>, errors: &mut Errors) {
    policy.check_one_of(["basic", "gang"], errors);
    // If this field is set, it has no fields of its own to check.
    policy.fixed("basic", errors);
    let gang = policy.field("gang");
    let wrong = match (gang.old.is_none_or(Value::is_null), gang.is_set()) {
        (true, true) if gang.old.is_some() => Some("field cannot be set once created"),
        (false, false) => Some("field cannot be cleared once set"),
        _ => None,
    };
    if let Some(why) = wrong {
        errors.push(FieldError::invalid(gang.place, Value::Null, why));
        return;
    }
    let count = gang.field("minCount");
    if !gang.is_set() || !count.may_be_wrong() {
        return;
    }
    match count.new.as_i64().unwrap_or(0) {
        0 => errors.push(FieldError::required(count.place, "")),
        number @ ..0 => {
            errors.push(FieldError::invalid(count.place, number, "must be greater than or equal to 1"));
        }
        _ => {}
    }
}

/// Checks that all templates have the same priority.
fn check_priorities(workload: &Value, errors: &mut Errors) {
    let mut priorities = list(workload, "/spec/podGroupTemplates")
        .iter()
        .map(|template| (text(template, "/priorityClassName"), template.get("priority")));
    let first = priorities.next();
    if priorities.any(|priority| Some(priority) != first) {
        errors.push(FieldError::invalid("spec", Value::Null, "detected multiple priority configurations"));
    }
}

fn check_workload(spec: &Field<'_>, errors: &mut Errors) {
    spec.check_one_of(["podGroupTemplates", "compositePodGroupTemplates"], errors);
    if let Some(controller) = spec.fixed("controllerRef", errors) {
        let group = controller.field("apiGroup");
        if group.is_set() {
            group.check_form(subdomain_errors, errors);
        }
        controller.check_required("kind", path_segment_errors, errors);
        controller.check_required("name", path_segment_errors, errors);
    }
    let templates = spec.field("podGroupTemplates");
    if templates.may_be_wrong() && are_the_same_number(&templates, errors) {
        check_templates(&templates, errors);
    }
}

/// Checks that there are not too many templates, and that a change neither adds nor removes one.
fn are_the_same_number(templates: &Field<'_>, errors: &mut Errors) -> bool {
    let place = &templates.place;
    let (new, before) = (list(templates.new, ""), errors.len());
    if new.len() > MOST_TEMPLATES {
        errors.push(FieldError::too_many(place, new.len() as i64, MOST_TEMPLATES as i64));
    }
    if let Some(old) = templates.old.map(|old| list(old, "")) {
        let names = |all: &'_ [Value]| -> BTreeSet<String> {
            all.iter().map(|template| text(template, "/name").to_owned()).collect()
        };
        let (had, has) = (names(old), names(new));
        for (i, _) in new.iter().enumerate().filter(|(_, template)| !had.contains(text(template, "/name"))) {
            errors.push(FieldError::forbidden(format!("{place}[{i}]"), "item may not be added"));
        }
        for _ in old.iter().filter(|template| !has.contains(text(template, "/name"))) {
            errors.push(FieldError::forbidden(place, "item may not be removed"));
        }
    }
    errors.len() == before
}

fn check_templates(templates: &Field<'_>, errors: &mut Errors) {
    let (place, new) = (&templates.place, list(templates.new, ""));
    let named = |all: &'_ [Value], wanted: &Value| all.iter().position(|one| one["name"] == wanted["name"]);
    for (i, template) in new.iter().enumerate().filter(|(i, template)| named(new, template) != Some(*i)) {
        errors.push(FieldError::duplicate_shown(format!("{place}[{i}]"), &shown(template)));
    }
    for (i, template) in new.iter().enumerate() {
        let old = templates.old.map(|old| list(old, ""));
        let old = old.and_then(|old| old.get(named(old, template)?));
        let template = Field::new(format!("{place}[{i}]"), template, old);
        if template.may_be_wrong() {
            template.check_required("name", short_name_errors, errors);
            check_group(&template, errors);
        }
    }
}

/// Returns a template in the order in which Kubernetes declares its fields.
fn shown(template: &Value) -> String {
    const FIELDS: [&str; 8] = [
        "name",
        "schedulingPolicy",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
        "preemptionPolicy",
    ];
    let fields = FIELDS.iter().filter_map(|name| Some(format!("\"{name}\":{}", template.get(*name)?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Returns the errors in a string that must be a DNS label.
fn short_name_errors(name: &str) -> Vec<String> {
    in_bytes(label_errors(name))
}

/// Returns the errors in a string that must be the key of a label.
fn label_key_errors(key: &str) -> Vec<String> {
    in_bytes(qualified_name_errors(key))
}

#[cfg(test)]
mod tests;
