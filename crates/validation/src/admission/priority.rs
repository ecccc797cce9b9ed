//! Priority classes, and the priority of pods.

use harbormaster_api::features::Feature;
use serde_json::Value;

use super::{
    Context, Errors, Refusal,
    checks::{self, Check::Choice},
    forbidden,
};
use crate::{
    FieldError,
    value::{is_true, number, text},
};

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
/// Highest value of a class that a user may create.
const HIGHEST_OF_USERS: i64 = 1_000_000_000;
/// Classes that are reserved for the system.
pub const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub(super) fn check(class: &Value, old: Option<&Value>, errors: &mut Errors) {
    let value = number(class, "/value");
    let name = text(class, "/metadata/name");
    if let Some(old) = old {
        if old.get("value") != class.get("value") {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        if old.get("preemptionPolicy") != class.get("preemptionPolicy") {
            let policy = class.get("preemptionPolicy").cloned().unwrap_or_default();
            errors.push(FieldError::invalid("preemptionPolicy", policy, "field is immutable"));
        }
        return;
    }
    if name.starts_with("system-") {
        let problem = match SYSTEM_CLASSES.into_iter().find(|(known, ..)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, known, _)) if known != value => {
                Some(format!("value of {name} PriorityClass must be {known}"))
            }
            Some(_) if is_true(class, "/globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        errors.extend(problem.map(|problem| {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            );
            FieldError::forbidden("metadata.name", why)
        }));
    } else if value > HIGHEST_OF_USERS {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
        errors.push(FieldError::forbidden("value", why));
    }
    checks::check(class, "", &[("preemptionPolicy", Choice(&["PreemptLowerPriority", "Never"]))], errors);
}

/// Checks that only one class is the default.
pub(super) fn admit_class(context: &Context<'_>, class: &Value) -> Result<(), Refusal> {
    if !is_true(class, "/globalDefault") {
        return Ok(());
    }
    match global_default(context) {
        Some(other) if text(&other, "/metadata/name") != text(class, "/metadata/name") => {
            let name = text(&other, "/metadata/name");
            let why =
                format!("PriorityClass {name} is already marked as default. Only one default can exist");
            Err(forbidden("globalDefault", why))
        }
        _ => Ok(()),
    }
}

/// Returns the default class, or the default class with the lowest value if there are several.
fn global_default(context: &Context<'_>) -> Option<Value> {
    let all = context.others.all(CLASSES).into_iter();
    let defaults = all.filter(|class| is_true(class, "/globalDefault"));
    defaults.min_by_key(|class| class.get("value").and_then(Value::as_i64))
}

/// Returns the class that the spec of a pod or a pod group names or, if it names none, the default class.
fn class_of(context: &Context<'_>, spec: &Value) -> Result<Option<Value>, Refusal> {
    let name = text(spec, "/priorityClassName");
    if name.is_empty() {
        return Ok(global_default(context));
    }
    let class = context.others.get(CLASSES, name);
    let unknown = || format!("no PriorityClass with name {name} was found");
    class.map(Some).ok_or_else(|| forbidden("spec.priorityClassName", unknown()))
}

/// Returns the value of a class, or 0 without a class.
fn value_of(class: Option<&Value>) -> i64 {
    class.map_or(0, |class| number(class, "/value"))
}

/// Returns the preemption policy of a class, or the default one without a class.
fn policy_of(class: Option<&Value>) -> &str {
    class.map_or("PreemptLowerPriority", |class| text(class, "/preemptionPolicy"))
}

/// Sets the priority of a pod group from its class. The group's preemption policy must be that of the class: if the
/// class forbids preemption, the group must say so, too.
pub(super) fn admit_group(context: &Context<'_>, spec: &mut Value) -> Result<(), Refusal> {
    let class = class_of(context, spec)?;
    let value = value_of(class.as_ref());
    match spec.get("priority").and_then(Value::as_i64) {
        Some(given) if given != value => {
            let why = format!(
                "priority set in the pod group ({given}) must match the priority computed ({value}) based on the \
                 priority class set in the spec"
            );
            return Err(forbidden("spec.priority", why));
        }
        _ => {}
    }
    spec["priority"] = value.into();
    if let Some(class) = &class {
        spec["priorityClassName"] = text(class, "/metadata/name").into();
    }
    if context.features.enabled(Feature::PodGroupPreemptionPolicy) {
        let (policy, given) = (policy_of(class.as_ref()), text(spec, "/preemptionPolicy"));
        if given != policy {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod group spec; priority \
                 admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(forbidden("spec.preemptionPolicy", why));
        }
    }
    Ok(())
}

/// Sets a pod's priority from its class.
pub(super) fn admit_pod(context: &Context<'_>, spec: &mut Value) -> Result<(), Refusal> {
    let class = class_of(context, spec)?;
    let value = value_of(class.as_ref());
    let policy = policy_of(class.as_ref());
    match spec.get("priority").and_then(Value::as_i64) {
        Some(given) if given != value => {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
                 controller computed {value} from the given PriorityClass name"
            );
            return Err(forbidden("spec.priority", why));
        }
        _ => {}
    }
    let given = text(spec, "/preemptionPolicy");
    if !given.is_empty() && given != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden("spec.preemptionPolicy", why));
    }
    if let Some(class) = &class {
        spec["priorityClassName"] = text(class, "/metadata/name").into();
    }
    spec["priority"] = value.into();
    spec["preemptionPolicy"] = policy.into();
    Ok(())
}
