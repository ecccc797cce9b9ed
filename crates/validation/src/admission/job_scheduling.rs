//! `spec.scheduling` of Jobs, which defines the group of a Job's pods, as in Kubernetes 1.37 with the feature gate
//! WorkloadWithJob.

use harbormaster_api::features::Feature;
use serde_json::Value;

use super::{
    Context, Errors,
    meta::label_errors,
    pod_groups::{Field, check_topology},
};
use crate::{
    FieldError,
    kinds::{Kind, Rules},
    value::{list, remove},
};

/// Maximum number of claims of a group.
const MOST_CLAIMS: usize = 4;

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
    // A CronJob may change its template.
    let old = old.filter(|_| kind.rules == Rules::Job).and_then(|old| old.pointer(pointer));
    let spec = Field::new(place, spec, old);
    let scheduling = spec.field("scheduling");
    if !may_be_set(&scheduling, errors) || !scheduling.is_set() {
        return;
    }
    let policy = scheduling.field("schedulingPolicy");
    if may_be_set(&policy, errors) && policy.is_set() {
        check_policy(&policy, spec.new["parallelism"].as_i64().unwrap_or(1), errors);
    }
    if let Some(constraints) = scheduling.fixed("schedulingConstraints", errors) {
        check_topology(&constraints.field("topology"), errors);
    }
    let mode = scheduling.fixed("disruptionMode", errors);
    if let Some(mode) = mode {
        mode.check_one_of(["single", "all"], errors);
        if !mode.new["all"].is_null() && policy.new["gang"].is_null() {
            let why = "the disruptionMode `all` is not supported with the Basic scheduling policy";
            errors.push(FieldError::invalid(mode.place, "", why));
        }
    }
    if let Some(claims) = scheduling.fixed("resourceClaims", errors) {
        check_claims(&claims, errors);
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

fn check_policy(policy: &Field<'_>, parallelism: i64, errors: &mut Errors) {
    policy.check_one_of(["basic", "gang"], errors);
    let count = policy.field("gang").field("minCount");
    if let Some(number) = count.new.as_i64().filter(|number| *number < 1) {
        errors.push(FieldError::invalid(&count.place, number, "must be greater than or equal to 1"));
    }
    if let Some(number) = count.new.as_i64().filter(|number| *number > parallelism) {
        let why = format!("must not be greater than parallelism ({parallelism})");
        errors.push(FieldError::invalid(&count.place, number, why));
    }
    let had_basic = policy.old.map(|old| !old["basic"].is_null());
    if had_basic.is_some_and(|had| had == policy.new["basic"].is_null()) {
        let why = "the basic/gang policy variant is immutable after creation; only \
                   schedulingPolicy.gang.minCount may be updated";
        errors.push(FieldError::invalid(&policy.place, Value::Null, why));
    }
}

fn check_claims(claims: &Field<'_>, errors: &mut Errors) {
    let all = list(claims.new, "");
    if all.len() > MOST_CLAIMS {
        errors.push(FieldError::too_many(&claims.place, all.len() as i64, MOST_CLAIMS as i64));
    }
    for (i, claim) in all.iter().enumerate() {
        let claim = Field::new(format!("{}[{i}]", claims.place), claim, None);
        claim.check_required("name", label_errors, errors);
        claim.check_one_of(["resourceClaimName", "resourceClaimTemplateName"], errors);
    }
}
