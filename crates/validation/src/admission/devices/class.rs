//! Device classes.

use harbormaster_api::resources::is_extended;
use serde_json::Value;

use super::{
    super::Errors,
    each,
    selector::{self, MOST, check_configuration},
};
use crate::FieldError;

pub(super) fn check(class: &Value, errors: &mut Errors) {
    let spec = &class["spec"];
    selector::check(&spec["selectors"], "spec.selectors", errors);
    each(&spec["config"], "spec.config", MOST, errors, check_configuration);
    if let Some(name) = spec["extendedResourceName"].as_str()
        && !is_extended(name)
    {
        let why = "must be a valid extended resource name";
        errors.push(FieldError::invalid("spec.extendedResourceName", name, why));
    }
}
