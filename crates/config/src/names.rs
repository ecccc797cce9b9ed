//! Names of extended resources.

use harbormaster_api::labels::qualified_name_errors;

/// Returns true if a qualified name can be an extended resource: its prefix does not belong to Kubernetes, and its
/// `requests.` form, which quotas use, is valid.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && qualified_name_errors(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_resources_have_a_prefix_that_does_not_belong_to_kubernetes() {
        for (name, extended) in [
            ("example.com/gpu", true),
            ("cpu", false),
            ("kubernetes.io/x", false),
            ("requests.example.com/x", false),
        ] {
            assert_eq!(is_extended_resource(name), extended, "{name}");
        }
    }
}
