//! Checks of workloads: numeric fields, selectors and templates.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{
    Errors,
    checks::{
        self, AT_LEAST_ZERO,
        Check::{self, By, Choice, Declared, Fields, OneOf},
        Checks,
    },
    pod_checks::{SELECTOR, check_pod},
};
use crate::{
    FieldError,
    kinds::Kind,
    selector::label_selector_matches,
    value::{list, name, present, text},
};

const REPLICAS: Checks = &[("spec", Fields(&[("replicas", AT_LEAST_ZERO)]))];
const DEPLOYMENT: Checks = &[(
    "spec",
    Fields(&[
        ("replicas", AT_LEAST_ZERO),
        ("minReadySeconds", AT_LEAST_ZERO),
        ("revisionHistoryLimit", AT_LEAST_ZERO),
        ("strategy", By(check_strategy)),
    ]),
)];
const STATEFUL_SET: Checks = &[(
    "spec",
    Fields(&[
        ("podManagementPolicy", OneOf(&["OrderedReady", "Parallel"])),
        ("updateStrategy", Fields(&[("type", OneOf(&["OnDelete", "RollingUpdate"]))])),
        ("replicas", AT_LEAST_ZERO),
    ]),
)];
const DAEMON_SET: Checks =
    &[("spec", Fields(&[("updateStrategy", Fields(&[("type", OneOf(&["OnDelete", "RollingUpdate"]))]))]))];
const JOB_SPEC: Checks = &[
    ("parallelism", AT_LEAST_ZERO),
    ("completions", AT_LEAST_ZERO),
    ("activeDeadlineSeconds", AT_LEAST_ZERO),
    ("backoffLimit", AT_LEAST_ZERO),
    ("ttlSecondsAfterFinished", AT_LEAST_ZERO),
    ("completionMode", OneOf(&["Indexed", "NonIndexed"])),
];
const JOB: Checks = &[("spec", Fields(JOB_SPEC))];
const CRON_JOB: Checks = &[(
    "spec",
    Fields(&[
        ("schedule", Declared(&Check::Required(""))),
        ("schedule", By(check_schedule)),
        ("startingDeadlineSeconds", AT_LEAST_ZERO),
        ("concurrencyPolicy", Choice(&["Allow", "Forbid", "Replace"])),
        ("successfulJobsHistoryLimit", AT_LEAST_ZERO),
        ("failedJobsHistoryLimit", AT_LEAST_ZERO),
        ("jobTemplate", Fields(JOB)),
    ]),
)];

/// Checks a new or changed workload.
pub(super) fn check(kind: &Kind, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let template = "spec.template";
    match kind.kind.as_str() {
        "Job" => {
            checks::check(object, "", JOB, errors);
            check_template_of(&object["spec"]["template"], template, &["OnFailure", "Never"], errors);
            return;
        }
        "CronJob" => {
            checks::check(object, "", CRON_JOB, errors);
            let of_job = &object["spec"]["jobTemplate"]["spec"]["template"];
            check_template_of(of_job, "spec.jobTemplate.spec.template", &["OnFailure", "Never"], errors);
            return;
        }
        "Deployment" => checks::check(object, "", DEPLOYMENT, errors),
        "StatefulSet" => checks::check(object, "", STATEFUL_SET, errors),
        "DaemonSet" => checks::check(object, "", DAEMON_SET, errors),
        "ReplicationController" => errors.declared(|errors| checks::check(object, "", REPLICAS, errors)),
        _ => checks::check(object, "", REPLICAS, errors),
    }
    if kind.kind == "ReplicationController" {
        check_map_selector(object, errors);
    } else {
        check_selector(object, errors);
    }
    check_template_of(&with_claims(object), template, &["Always"], errors);
    let (before, after) = (old.unwrap_or(object).pointer("/spec/selector"), object.pointer("/spec/selector"));
    if let Some(after) = after
        && kind.kind != "ReplicationController"
        && before.is_some_and(|before| before != after)
    {
        errors.push(FieldError::invalid("spec.selector", after.clone(), "field is immutable"));
    }
}

/// Returns the pod template. For a StatefulSet, the template includes the volumes for each pod's own claims.
fn with_claims(object: &Value) -> Cow<'_, Value> {
    let template = &object["spec"]["template"];
    let claims = list(object, "/spec/volumeClaimTemplates").iter().map(name);
    let volumes: Vec<Value> =
        claims.map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect();
    if volumes.is_empty() || !template["spec"].is_object() {
        return Cow::Borrowed(template);
    }
    let mut template = template.clone();
    let mut all = list(&template, "/spec/volumes").to_vec();
    all.retain(|volume| volumes.iter().all(|own| own["name"] != volume["name"]));
    all.extend(volumes);
    template["spec"]["volumes"] = all.into();
    Cow::Owned(template)
}

/// Checks a pod template, whose restart policy must be one of `restarts`.
fn check_template_of(template: &Value, place: &str, restarts: &[&str], errors: &mut Errors) {
    check_pod(template, place, errors);
    let policy = text(template, "/spec/restartPolicy");
    if matches!(policy, "Always" | "OnFailure" | "Never") && !restarts.contains(&policy) {
        errors.push(FieldError::unsupported(format!("{place}.spec.restartPolicy"), policy, restarts));
    }
    if restarts == ["Always"] && present(template, "/spec/activeDeadlineSeconds").is_some() {
        let why = "activeDeadlineSeconds in ReplicaSet is not Supported";
        errors.push(FieldError::forbidden(format!("{place}.spec.activeDeadlineSeconds"), why));
    }
}

fn check_strategy(strategy: &Value, place: &str, errors: &mut Errors) {
    let rolling = present(strategy, "/rollingUpdate");
    match text(strategy, "/type") {
        "Recreate" if rolling.is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(FieldError::forbidden(format!("{place}.rollingUpdate"), why));
        }
        "RollingUpdate" => {
            let place = format!("{place}.rollingUpdate");
            let Some(rolling) = rolling else { return };
            let amounts: Checks = &[
                ("maxUnavailable", By(super::others::check_amount)),
                ("maxSurge", By(super::others::check_amount)),
            ];
            checks::check(rolling, &place, amounts, errors);
            let is_zero = |field: &str| matches!(&rolling[field], value if *value == 0 || *value == "0%");
            if is_zero("maxUnavailable") && is_zero("maxSurge") {
                let why = "may not be 0 when `maxSurge` is 0";
                let value = rolling["maxUnavailable"].clone();
                errors.push(FieldError::invalid(format!("{place}.maxUnavailable"), value, why));
            }
        }
        "Recreate" => {}
        other => {
            // The message shows the fields under their Go names.
            let shown = json!({"Type": other, "RollingUpdate": rolling});
            errors.push(FieldError::unsupported(place, shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// Checks that the selector exists and matches the template.
fn check_selector(object: &Value, errors: &mut Errors) {
    let selector = object.pointer("/spec/selector").filter(|selector| selector.is_object());
    if selector.is_none() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    checks::check(object, "", &[("spec", Fields(&[("selector", Fields(SELECTOR))]))], errors);
    let known = ["In", "NotIn", "Exists", "DoesNotExist"];
    let expressions = selector.map_or(&[][..], |selector| list(selector, "/matchExpressions"));
    if let Some(selector) = selector
        && expressions.iter().any(|expression| !known.contains(&text(expression, "/operator")))
    {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "invalid label selector"));
        return;
    }
    check_labels_of_template(object, selector, errors);
}

/// Checks the selector of a ReplicationController, which is a map.
fn check_map_selector(object: &Value, errors: &mut Errors) {
    match object.pointer("/spec/selector").and_then(Value::as_object).filter(|map| !map.is_empty()) {
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(map) => check_labels_of_template(object, Some(&json!({"matchLabels": map})), errors),
    }
}

fn check_labels_of_template(object: &Value, selector: Option<&Value>, errors: &mut Errors) {
    let labels = object.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()));
    if !label_selector_matches(selector, &pairs.collect()) {
        let labels = object.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
    }
}

/// Parts of a schedule, each with its least value, its greatest value and the names of its values.
const SCHEDULE: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

fn check_schedule(schedule: &Value, place: &str, errors: &mut Errors) {
    let schedule = schedule.as_str().unwrap_or_default();
    if !schedule.is_empty()
        && let Some(why) = wrong_schedule(schedule)
    {
        errors.push(FieldError::invalid(place, schedule, why));
    }
}

/// Returns the error for an invalid cron schedule.
fn wrong_schedule(schedule: &str) -> Option<String> {
    if schedule.contains("TZ") {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    if let Some(name) = schedule.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        let known = known.contains(&name) || name.starts_with("every ");
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != SCHEDULE.len() {
        let (count, parts) = (parts.len(), parts.join(" "));
        return Some(format!("expected exactly 5 fields, found {count}: [{parts}]"));
    }
    let wrong = |(part, of): (&&str, &(u32, u32, &[&str]))| {
        part.split(',').find(|range| !is_range(range, of)).map(|range| format!("failed to parse {range}"))
    };
    parts.iter().zip(&SCHEDULE).find_map(wrong)
}

/// Returns true for `*`, `5`, `1-5` or `mon-fri`, optionally with `/2`.
fn is_range(range: &str, (least, most, names): &(u32, u32, &[&str])) -> bool {
    let number = |text: &str| {
        let named = names.iter().zip(*least..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        let number = named.map(|(_, number)| number).or_else(|| text.parse().ok())?;
        (*least..=*most).contains(&number).then_some(number)
    };
    let (range, step) = range.split_once('/').map_or((range, "1"), |(range, step)| (range, step));
    let is_range = match range.split_once('-') {
        _ if matches!(range, "*" | "?") => true,
        Some((from, to)) => number(from).zip(number(to)).is_some_and(|(from, to)| from <= to),
        None => number(range).is_some(),
    };
    is_range && step.parse::<u32>().is_ok_and(|step| step > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_the_syntax_of_cron() {
        for right in ["* * * * *", "*/5 0-6,12 1 jan-mar,DEC sun", "@hourly", "@every 1h", "0 3 ? * 1-5"] {
            assert_eq!(wrong_schedule(right), None, "{right}");
        }
        for wrong in
            ["* * * *", "60 * * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *", "@often", "TZ=UTC * * * * *"]
        {
            assert!(wrong_schedule(wrong).is_some(), "{wrong}");
        }
    }
}
