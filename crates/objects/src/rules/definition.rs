//! Custom resource definitions, and the kinds that they define.

use harbormaster_api::Timestamp;
use serde_json::{Value, json};

use super::{
    Errors,
    checks::{
        Check::{Choice, Fields, Required},
        Checks, check as check_fields,
    },
};
use crate::{
    FieldError,
    kinds::{Form, GENERATION, Kind, NAMESPACED, Rules, SCALE, STATUS, VERSIONED, api_version},
    value::{default, is_true, list, map, text},
};

const DEFINITION: Checks = &[(
    "spec",
    Fields(&[
        ("group", Required("")),
        ("names", Fields(&[("plural", Required("")), ("kind", Required(""))])),
        ("scope", Choice(&["Cluster", "Namespaced"])),
    ]),
)];

pub(super) fn defaults(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    if map(definition, "spec").is_some() && map(&mut definition["spec"], "names").is_some() {
        default(&mut definition["spec"]["names"], "singular", kind.to_lowercase());
        default(&mut definition["spec"]["names"], "listKind", format!("{kind}List"));
        default(&mut definition["spec"], "conversion", json!({"strategy": "None"}));
    }
}

/// Writes the status that its controllers would come to.
pub fn establish(definition: &mut Value, now: Timestamp) {
    let now = now.to_rfc3339();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now});
    definition["status"] = json!({
        "acceptedNames": definition.pointer("/spec/names").cloned().unwrap_or_default(),
        "storedVersions": [stored_version(definition)],
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
}

pub(super) fn check(definition: &Value, errors: &mut Errors) {
    check_fields(definition, "", DEFINITION, errors);
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let name = text(definition, "/metadata/name");
    if name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    let versions = &definition["spec"]["versions"];
    if list(versions, "").iter().filter(|version| is_true(version, "/storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", versions.clone(), why));
    }
}

fn stored_version(definition: &Value) -> &str {
    let versions = list(definition, "/spec/versions");
    let stored = versions.iter().find(|version| is_true(version, "/storage"));
    stored.map_or("", |version| text(version, "/name"))
}

/// Fields that may be selected by, from all versions.
pub fn selectable_fields(definition: &Value) -> Vec<String> {
    let fields =
        list(definition, "/spec/versions").iter().flat_map(|version| list(version, "/selectableFields"));
    let mut paths: Vec<String> =
        fields.map(|field| text(field, "/jsonPath").trim_start_matches('.').to_owned()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The kinds of a definition: one for each version that is served.
pub fn kinds_of_definition(definition: &Value) -> Vec<Kind> {
    let at = |pointer: &str| text(definition, pointer).to_owned();
    let texts = |pointer: &str| -> Vec<String> {
        list(definition, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (group, stored) = (at("/spec/group"), stored_version(definition));
    let fields = selectable_fields(definition);
    let versions = list(definition, "/spec/versions").iter();
    let served = versions.filter(|version| is_true(version, "/served"));
    served
        .map(|version| {
            let name = text(version, "/name");
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
            Kind {
                group: group.clone(),
                version: name.to_owned(),
                plural: at("/spec/names/plural"),
                singular: at("/spec/names/singular"),
                kind: at("/spec/names/kind"),
                list_kind: at("/spec/names/listKind"),
                short_names: texts("/spec/names/shortNames"),
                categories: texts("/spec/names/categories"),
                flags,
                fields: fields.clone(),
                defaults: &[],
                rules: Rules::None,
                form: if name == stored { Form::Stored } else { Form::Version(api_version(&group, stored)) },
                custom: true,
            }
        })
        .collect()
}
