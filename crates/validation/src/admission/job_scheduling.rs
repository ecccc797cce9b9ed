//! `spec.scheduling` of Jobs, which defines the group of a Job's pods, as in Kubernetes 1.37 with the feature gate
//! WorkloadWithJob.

use harbormaster_api::features::Feature;
use serde_json::Value;

use super::{
    Context, Errors,
    pod_groups::{Field, check_topology, claims},
};
use crate::{
    FieldError,
    kinds::{Kind, Rules},
    value::remove,
};

/// Returns the path of the spec of the Job that an object is or that it creates.
fn spec_of_job(kind: &Kind) -> Option<&'static str> {
    match kind.rules {
        Rules::Job => Some("/spec"),
        Rules::CronJob => Some("/spec/jobTemplate/spec"),
        _ => None,
    }
}

/// Removes the field unless the feature gate is on or the old object has the field, too.
pub(super) fn drop_gated(context: &Context<'_>, old: Option<&Value>, object: &mut Value) {
    let Some(spec) = spec_of_job(context.kind) else { return };
    let is_in_use = old.and_then(|old| old.pointer(spec)).is_some_and(|spec| !spec["scheduling"].is_null());
    if !is_in_use
        && !context.features.enabled(Feature::WorkloadWithJob)
        && let Some(spec) = object.pointer_mut(spec)
    {
        remove(spec, "scheduling");
    }
}

/// Checks the field of a new or changed object.
pub(super) fn check(kind: &Kind, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let Some(pointer) = spec_of_job(kind) else { return };
    let Some(spec) = object.pointer(pointer) else { return };
    let place = pointer[1..].replace('/', ".");
    let spec = Field::new(place, spec, old.and_then(|old| old.pointer(pointer)));
    let scheduling = spec.field("scheduling");
    if scheduling.is_set() {
        check_directives(&scheduling, spec.new["parallelism"].as_i64().unwrap_or(1), errors);
        if kind.rules == Rules::Job {
            check_variant(&scheduling.field("schedulingPolicy"), errors);
        }
    }
    errors.declared(|errors| check_parts(&scheduling, errors));
}

/// Checks that the policy suits the Job and the disruption mode.
fn check_directives(scheduling: &Field<'_>, parallelism: i64, errors: &mut Errors) {
    let gang = scheduling.field("schedulingPolicy").field("gang");
    let count = gang.field("minCount");
    if let Some(number) = count.new.as_i64().filter(|number| *number > parallelism) {
        let why = format!("must not be greater than parallelism ({parallelism})");
        errors.push(FieldError::invalid(&count.place, number, why));
    }
    let mode = scheduling.field("disruptionMode");
    if mode.may_be_wrong() && mode.field("all").is_set() && !gang.is_set() {
        let why = "the disruptionMode `all` is not supported with the Basic scheduling policy";
        errors.push(FieldError::invalid(mode.place, "", why));
    }
}

/// Checks that a changed Job keeps the kind of its policy. The template of a CronJob's Jobs may have another one.
fn check_variant(policy: &Field<'_>, errors: &mut Errors) {
    let basic = policy.field("basic");
    let was_set = policy.old.is_some_and(|old| !old.is_null());
    if was_set && policy.is_set() && basic.old.map(|old| !old.is_null()) != Some(basic.is_set()) {
        let why = "the basic/gang policy variant is immutable after creation; only \
                   schedulingPolicy.gang.minCount may be updated";
        errors.push(FieldError::invalid(&policy.place, Value::Null, why));
    }
}

/// Checks what the parts of the field declare.
fn check_parts(scheduling: &Field<'_>, errors: &mut Errors) {
    if !may_be_set(scheduling, errors) || !scheduling.is_set() {
        return;
    }
    let policy = scheduling.field("schedulingPolicy");
    if may_be_set(&policy, errors) && policy.is_set() {
        policy.check_one_of(["basic", "gang"], errors);
        let count = policy.field("gang").field("minCount");
        if let Some(number) = count.new.as_i64().filter(|number| *number < 1 && count.may_be_wrong()) {
            errors.push(FieldError::invalid(&count.place, number, "must be greater than or equal to 1"));
        }
    }
    if let Some(constraints) = scheduling.fixed("schedulingConstraints", errors) {
        check_topology(&constraints.field("topology"), errors);
    }
    if let Some(mode) = scheduling.fixed("disruptionMode", errors) {
        mode.check_one_of(["single", "all"], errors);
    }
    if let Some(claims) = scheduling.fixed("resourceClaims", errors) {
        claims::check(&claims, errors);
    }
}

/// Checks that a change neither adds nor removes a field. Returns true if it does not.
fn may_be_set(field: &Field<'_>, errors: &mut Errors) -> bool {
    let why = match (field.old.map(Value::is_null), field.is_set()) {
        (Some(true), true) => "field cannot be set once created",
        (Some(false), false) => "field cannot be cleared once set",
        _ => return true,
    };
    errors.push(FieldError::invalid(&field.place, Value::Null, why));
    false
}
