//! Custom resource definitions, and the kinds that they define.

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{Release, labels::subdomain_errors};
use serde_json::{Value, json};

use super::{
    Errors,
    checks::{check_form, elements},
    definition_schema,
    definition_status::is_established,
    meta::label_1035_errors,
};
use crate::{
    FieldError,
    custom::Custom,
    kinds::{Form, GENERATION, Kind, NAMESPACED, Rules, SCALE, STATUS, VERSIONED, api_version},
    value::{default, is_true, list, map, present, text},
};

/// Annotation that approves definitions in Kubernetes' own groups.
const APPROVAL: &str = "api-approved.kubernetes.io";

pub(super) fn defaults(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    let stored = stored_version(definition).to_owned();
    let Some(spec) = definition.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if map(spec, "names").is_some() {
        let names = &mut spec["names"];
        if text(names, "/singular").is_empty() && !kind.is_empty() {
            names["singular"] = kind.to_lowercase().into();
        }
        if text(names, "/listKind").is_empty() && !kind.is_empty() {
            names["listKind"] = format!("{kind}List").into();
        }
    }
    default(spec, "conversion", json!({"strategy": "None"}));
    if map(definition, "status").is_some() && list(definition, "/status/storedVersions").is_empty() {
        let versions: Vec<String> = (!stored.is_empty()).then_some(stored).into_iter().collect();
        definition["status"]["storedVersions"] = versions.into();
    }
}

/// Adds the storage version of a changed definition to `status.storedVersions`.
pub(super) fn admit_update(definition: &mut Value) {
    let stored = Value::from(stored_version(definition));
    let versions = definition.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut);
    if let Some(versions) = versions
        && !versions.contains(&stored)
        && stored != ""
    {
        versions.push(stored);
    }
}

pub(super) fn check(definition: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let name = text(definition, "/metadata/name");
    if old.is_none() && name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    check_group(group, errors);
    match text(definition, "/spec/scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            errors.push(FieldError::unsupported("spec.scope", other, &["Cluster", "Namespaced"]));
        }
    }
    definition_schema::check_presence(definition, errors);
    check_versions(definition, errors);
    let names = &definition["spec"]["names"];
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&names[field], "").is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    check_names(names, errors);
    definition_schema::check_shared(definition, errors);
    check_conversion(definition, errors);
    if let Some(old) = old {
        check_unchanged(old, definition, errors);
    }
    check_stored_versions(definition, errors);
    check_approval(definition, old, errors);
    if is_true(definition, "/spec/preserveUnknownFields") {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                   instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
}

fn check_group(group: &str, errors: &mut Errors) {
    let wrong = subdomain_errors(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
}

fn check_versions(definition: &Value, errors: &mut Errors) {
    let versions = &definition["spec"]["versions"];
    let mut names = BTreeSet::new();
    let mut is_unique = true;
    for (place, version) in elements(versions, "spec.versions") {
        let name = text(version, "/name");
        is_unique &= names.insert(name);
        check_form(name, &format!("{place}.name"), label_1035_errors, errors);
        definition_schema::check_version(definition, version, &place, errors);
    }
    if !is_unique {
        errors.push(FieldError::invalid(
            "spec.versions",
            versions.clone(),
            "must contain unique version names",
        ));
    }
    if list(versions, "").iter().filter(|version| is_true(version, "/storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", versions.clone(), why));
    }
    // kube-apiserver checks an internal form in which the first version represents all versions.
    if let Some(first) = list(versions, "").first() {
        check_form(text(first, "/name"), "spec.version", label_1035_errors, errors);
    }
}

fn check_names(names: &Value, errors: &mut Errors) {
    let mut check = |field: String, name: &str, is_kind: bool| {
        let wrong = label_1035_errors(&if is_kind { name.to_lowercase() } else { name.to_owned() });
        if !wrong.is_empty() && !name.is_empty() {
            let but = if is_kind { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(field, name, format!("{but}{}", wrong.join(","))));
        }
    };
    for (field, is_kind) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        check(format!("spec.names.{field}"), text(&names[field], ""), is_kind);
    }
    for (place, name) in elements(&names["shortNames"], "spec.names.shortNames") {
        check(place, text(name, ""), false);
    }
    let (kind, list_kind) = (text(names, "/kind"), text(names, "/listKind"));
    if !kind.is_empty() && kind == list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", list_kind, why));
    }
    for (place, name) in elements(&names["categories"], "spec.names.categories") {
        check_form(text(name, ""), &place, label_1035_errors, errors);
    }
}

fn check_conversion(definition: &Value, errors: &mut Errors) {
    let Some(conversion) = present(definition, "/spec/conversion") else { return };
    let place = "spec.conversion";
    match text(conversion, "/strategy") {
        "" => errors.push(FieldError::required(format!("{place}.strategy"), "")),
        "None" | "Webhook" => {}
        other => {
            let field = format!("{place}.strategy");
            errors.push(FieldError::unsupported(field, other, &["None", "Webhook"]));
        }
    }
    let client = present(conversion, "/webhook/clientConfig");
    let reviews = list(conversion, "/webhook/conversionReviewVersions");
    if text(conversion, "/strategy") == "Webhook" {
        if client.is_none() {
            let why = "required when strategy is set to Webhook";
            errors.push(FieldError::required(format!("{place}.webhookClientConfig"), why));
        }
        if reviews.is_empty() {
            errors.push(FieldError::required(format!("{place}.conversionReviewVersions"), ""));
        }
        return;
    }
    let why = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        errors.push(FieldError::forbidden(format!("{place}.webhookClientConfig"), why));
    }
    if !reviews.is_empty() {
        errors.push(FieldError::forbidden(format!("{place}.conversionReviewVersions"), why));
    }
}

/// Refuses changes of the group and the plural name and, once objects can exist, of the scope and the kind.
fn check_unchanged(old: &Value, definition: &Value, errors: &mut Errors) {
    let fixed: &[&str] = match is_established(old) {
        true => &["scope", "names/kind", "group", "names/plural"],
        false => &["group", "names/plural"],
    };
    for field in fixed {
        let pointer = format!("/spec/{field}");
        let new = definition.pointer(&pointer);
        if new != old.pointer(&pointer) {
            let field = format!("spec.{}", field.replace('/', "."));
            errors.push(FieldError::invalid(field, new.cloned().unwrap_or_default(), "field is immutable"));
        }
    }
}

fn check_stored_versions(definition: &Value, errors: &mut Errors) {
    let field = "status.storedVersions";
    let stored = &definition["status"]["storedVersions"];
    if list(stored, "").is_empty() {
        let why = "must have at least one stored version";
        errors.push(FieldError::invalid(field, json!([]), why));
        return;
    }
    let versions = list(definition, "/spec/versions");
    let mut left: Vec<&Value> = list(stored, "").iter().collect();
    for version in versions {
        let known = left.contains(&&version["name"]);
        left.retain(|name| **name != version["name"]);
        if is_true(version, "/storage") && !known {
            let why = format!("must have the storage version {}", text(version, "/name"));
            errors.push(FieldError::invalid(field, stored.clone(), why));
        }
    }
    for (place, name) in elements(stored, field) {
        if !versions.iter().any(|version| version["name"] == *name) {
            let name = text(name, "");
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(place, name, why));
        }
    }
}

/// Outcome of checking the approval annotation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

/// Returns the approval of a definition in one of Kubernetes' own groups, with a message; `None` for other groups.
pub(super) fn approval(definition: &Value) -> Option<(Approval, String)> {
    let group = text(definition, "/spec/group");
    let of =
        |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if !of("k8s.io") && !of("kubernetes.io") {
        return None;
    }
    let annotation = definition["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default();
    let needed = format!("protected groups must have approval annotation {APPROVAL:?}");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    Some(match annotation {
        "" => (Approval::Missing, format!("{needed}, {see}")),
        text if text.starts_with("unapproved") => (Approval::Bypassed, format!("not approved: {text:?}")),
        text if text
            .split_once("://")
            .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()) =>
        {
            (Approval::Approved, format!("approved in {text}"))
        }
        _ => {
            let why = format!("{needed} with either a URL or a reason starting with \"unapproved\", {see}");
            (Approval::Invalid, why)
        }
    })
}

fn check_approval(definition: &Value, old: Option<&Value>, errors: &mut Errors) {
    let before = old.and_then(approval).map(|(approval, _)| approval);
    let field = format!("metadata.annotations[{APPROVAL}]");
    match approval(definition) {
        Some((now, _)) if before == Some(now) => {}
        Some((Approval::Missing, why)) => errors.push(FieldError::required(field, &why)),
        Some((Approval::Invalid, why)) => {
            let given = definition["metadata"]["annotations"][APPROVAL].clone();
            errors.push(FieldError::invalid(field, given, why));
        }
        _ => {}
    }
}

fn stored_version(definition: &Value) -> &str {
    let versions = list(definition, "/spec/versions");
    let stored = versions.iter().find(|version| is_true(version, "/storage"));
    stored.map_or("", |version| text(version, "/name"))
}

/// Returns the fields that field selectors may name, from all versions.
fn selectable_fields(definition: &Value) -> Vec<String> {
    let fields =
        list(definition, "/spec/versions").iter().flat_map(|version| list(version, "/selectableFields"));
    let mut paths: Vec<String> =
        fields.map(|field| text(field, "/jsonPath").trim_start_matches('.').to_owned()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the kinds that a definition defines, one for each served version. `names` contains the requested or the
/// accepted names.
pub fn kinds_of_definition(definition: &Value, names: &Value) -> Vec<Kind> {
    let versions = list(definition, "/spec/versions").iter();
    let served = versions.filter(|version| is_true(version, "/served"));
    served.map(|version| kind_of_version(definition, version, names)).collect()
}

/// Returns the kind of the stored version, whether that version is served or not.
pub fn stored_kind_of_definition(definition: &Value, names: &Value) -> Option<Kind> {
    let mut versions = list(definition, "/spec/versions").iter();
    let stored = versions.find(|version| is_true(version, "/storage"))?;
    Some(kind_of_version(definition, stored, names))
}

/// Makes a stored object conform to the current definition of its kind.
pub fn restore(kind: &Kind, object: &mut Value) {
    if let Some(custom) = &kind.custom {
        object["apiVersion"] = kind.api_version().into();
        custom.schema.shape(object);
        custom.schema.fill(object);
    }
}

fn kind_of_version(definition: &Value, version: &Value, names: &Value) -> Kind {
    let name = |pointer: &str| text(names, pointer).to_owned();
    let texts = |pointer: &str| -> Vec<String> {
        list(names, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let or = |name: String, other: String| if name.is_empty() { other } else { name };
    let (group, stored) = (text(definition, "/spec/group").to_owned(), stored_version(definition));
    let of_version = text(version, "/name");
    let mut flags = GENERATION | VERSIONED;
    for (flag, wanted) in [
        (NAMESPACED, text(definition, "/spec/scope") == "Namespaced"),
        (STATUS, version.pointer("/subresources/status").is_some()),
        (SCALE, version.pointer("/subresources/scale").is_some()),
    ] {
        if wanted {
            flags |= flag;
        }
    }
    let kind = name("/kind");
    Kind {
        version: of_version.to_owned(),
        plural: name("/plural"),
        singular: or(name("/singular"), kind.to_lowercase()),
        list_kind: or(name("/listKind"), format!("{kind}List")),
        kind,
        short_names: texts("/shortNames"),
        categories: texts("/categories"),
        flags,
        fields: selectable_fields(definition),
        defaults: [&[], &[]],
        rules: Rules::None,
        form: match of_version == stored {
            true => Form::Stored,
            false => Form::Version(api_version(&group, stored)),
        },
        group,
        custom: Some(Arc::new(Custom::new(definition, version))),
        // Releases do not differ in the fields of custom resources.
        release: Release::NEWEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a definition in which one part is replaced.
    fn with(pointer: &str, value: Value) -> Value {
        let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let mut definition = json!({
            "metadata": {"name": "ships.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "ships", "kind": "Ship"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        });
        if let Some(part) = definition.pointer_mut(pointer) {
            *part = value;
        }
        defaults(&mut definition);
        definition
    }

    fn told(definition: &Value, old: Option<&Value>) -> String {
        let mut errors = Errors::new(Release::default());
        check(definition, old, &mut errors);
        errors.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn common_mistakes_have_the_messages_of_the_api_server() {
        const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        for (pointer, value, expected) in [
            ("/nothing", json!(null), ""),
            (
                "/metadata/name",
                json!("ship"),
                "metadata.name: Invalid value: \"ship\": must be spec.names.plural+\".\"+spec.group",
            ),
            (
                "/spec/scope",
                json!("World"),
                "spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\"",
            ),
            ("/spec/versions/0/schema", json!({}), "spec.versions[0].schema.openAPIV3Schema: Required value"),
            (
                SPEC,
                json!({"properties": {}}),
                "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object \
                 fields",
            ),
            (
                SPEC.trim_end_matches("/properties/spec"),
                json!({"type": "object", "anyOf": [{"properties": {"a": {}}}]}),
                "spec.validation.openAPIV3Schema.properties[a]: Required value: because it is defined in \
                 spec.validation.openAPIV3Schema.anyOf[0].properties[a]",
            ),
            (
                SPEC,
                json!({"type": "object", "default": {"odd": 1}}),
                "spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: {\"odd\":1}: must not have unknown \
                 fields",
            ),
            (SPEC, json!({"type": "string", "pattern": "("}), "must be a valid regular expression"),
        ] {
            let told = told(&with(pointer, value), None);
            assert!(
                told == expected || (expected.starts_with("must be") && told.contains(expected)),
                "{told:?} instead of {expected:?}"
            );
        }
    }

    #[test]
    fn the_scope_may_not_change_once_the_definition_is_established() {
        let mut old = with("/nothing", json!(null));
        let new = with("/spec/scope", json!("Namespaced"));
        assert_eq!(told(&new, Some(&old)), "");
        old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        assert_eq!(told(&new, Some(&old)), "spec.scope: Invalid value: \"Namespaced\": field is immutable");
    }
}
