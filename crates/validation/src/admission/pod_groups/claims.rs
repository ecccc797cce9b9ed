//! Resource claims of groups (feature gate DRAWorkloadResourceClaims).

use harbormaster_api::{features::Feature, labels::subdomain_errors};
use serde_json::Value;

use super::{
    super::{Context, Errors, checks::check_form},
    field::Field,
    short_name_errors,
};
use crate::{
    FieldError,
    value::{list, text},
};

/// Maximum number of claims of a group.
const MOST_CLAIMS: usize = 4;

/// Returns true if a group or a template of groups keeps its claims: the gate is on, or its previous version has some.
pub(super) fn are_kept(context: &Context<'_>, old: Option<&Value>) -> bool {
    context.features.enabled(Feature::DRAWorkloadResourceClaims)
        || old.is_some_and(|old| !list(old, "/resourceClaims").is_empty())
}

/// Checks that there are not too many claims, and that each names either a claim or a template.
pub(in crate::admission) fn check(claims: &Field<'_>, errors: &mut Errors) {
    let (place, all) = (&claims.place, list(claims.new, ""));
    if all.len() > MOST_CLAIMS {
        errors.push(FieldError::too_many(place, all.len() as i64, MOST_CLAIMS as i64));
        return;
    }
    for (i, claim) in all.iter().enumerate() {
        if all[..i].iter().any(|earlier| text(earlier, "/name") == text(claim, "/name")) {
            errors.push(FieldError::duplicate_shown(format!("{place}[{i}]"), &shown(claim)));
        }
    }
    for (i, claim) in all.iter().enumerate() {
        let claim = Field::new(format!("{place}[{i}]"), claim, None);
        claim.check_one_of(["resourceClaimName", "resourceClaimTemplateName"], errors);
        claim.check_required("name", short_name_errors, errors);
        for name in ["resourceClaimName", "resourceClaimTemplateName"] {
            let name = claim.field(name);
            if name.is_set() {
                name.check_form(subdomain_errors, errors);
            }
        }
    }
}

/// Checks the names of the claims that were generated for a group.
pub(super) fn check_names(group: &Value, errors: &mut Errors) {
    let place = "status.resourceClaimStatuses";
    let statuses = list(group, "/status/resourceClaimStatuses");
    for (i, status) in statuses.iter().enumerate() {
        let name = text(status, "/name");
        if !list(group, "/spec/resourceClaims").iter().any(|claim| text(claim, "/name") == name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(format!("{place}[{i}].name"), name, why));
        }
        if statuses[..i].iter().any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate_shown(format!("{place}[{i}]"), &shown(status)));
        }
        if let Some(claim) = status["resourceClaimName"].as_str() {
            check_form(claim, &format!("{place}[{i}].resourceClaimName"), subdomain_errors, errors);
        }
    }
}

/// Returns an entry in the order in which Kubernetes declares its fields.
fn shown(claim: &Value) -> String {
    let fields = ["name", "resourceClaimName", "resourceClaimTemplateName"];
    let fields = fields.iter().filter_map(|name| Some(format!("\"{name}\":{}", claim.get(*name)?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}
