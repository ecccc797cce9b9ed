//! Device classes.

use harbormaster_api::{labels::qualified_name_errors, resources::is_extended};
use serde_json::Value;

use super::{
    super::{Errors, checks::check_form, meta::in_bytes},
    each,
    selector::{self, MOST, check_configuration},
};

pub(super) fn check(class: &Value, errors: &mut Errors) {
    let spec = &class["spec"];
    selector::check(&spec["selectors"], "spec.selectors", errors);
    each(&spec["config"], "spec.config", MOST, errors, check_configuration);
    if let Some(name) = spec["extendedResourceName"].as_str()
        && !is_extended(name)
    {
        let errors_of = if errors.has_declarations() {
            extended_name_errors
        } else {
            |_: &str| vec!["must be a valid extended resource name".to_owned()]
        };
        errors.declared(|errors| check_form(name, "spec.extendedResourceName", errors_of, errors));
    }
}

/// Returns the errors in the name of an extended resource.
fn extended_name_errors(name: &str) -> Vec<String> {
    const NATIVE: &str = "kubernetes.io/";
    const QUOTA: &str = "requests.";
    let mut errors = Vec::new();
    if !name.contains('/') {
        errors.push("a name must be a domain-prefixed path, such as 'example.com/my-prop'".to_owned());
    } else if name.contains(NATIVE) {
        errors.push(format!("must not have {NATIVE:?} domain"));
    }
    if name.starts_with(QUOTA) {
        errors.push(format!("must not have {QUOTA:?} prefix"));
    }
    // Quotas limit the resource under this name.
    errors.extend(in_bytes(qualified_name_errors(&format!("{QUOTA}{name}"))));
    errors
}
