//! Label selectors in objects.

use harbormaster_api::{
    Labels, Str,
    selector::{LabelSelector, Operator, Requirement},
};
use serde_json::Value;

use crate::value::{entries, list, text};

/// Returns true if a `metav1.LabelSelector` matches. An absent selector matches nothing.
pub fn label_selector_matches(selector: Option<&Value>, labels: &Labels) -> bool {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else { return false };
    let requirement = |expression: &Value| Requirement {
        key: text(expression, "/key").into(),
        operator: Operator::parse(text(expression, "/operator")),
        values: list(expression, "/values").iter().filter_map(Value::as_str).map(Str::from).collect(),
    };
    let selector = LabelSelector {
        match_labels: entries(selector, "/matchLabels").map(|(k, v)| (k.as_str(), text(v, ""))).collect(),
        match_expressions: list(selector, "/matchExpressions").iter().map(requirement).collect(),
    };
    selector.matches(labels)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_selector_object_matches_by_all_its_parts() {
        let labels: Labels = [("app", "web"), ("tier", "1")].into_iter().collect();
        for (selector, expected) in [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
        ] {
            assert_eq!(label_selector_matches(Some(&selector), &labels), expected, "{selector}");
        }
    }
}
