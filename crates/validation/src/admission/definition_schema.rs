//! Checks of the schemas, subresources and columns in custom resource definitions.
//!
//! Mistakes that all versions of a definition share are reported for the definition, not for each version.

use regex::Regex;
use serde_json::{Value, json};

use super::{Errors, checks::elements};
use crate::{
    FieldError,
    custom::{Schema, is_known_format},
    value::{entries, is_true, list, present, text},
};

/// Types of columns.
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
/// Formats of columns.
const COLUMN_FORMATS: [&str; 9] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "name", "password"];
/// Types of values.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// Go names and JSON names of the only keywords that a schema's root may have if there is a `status` subresource: a
/// status is checked without the root.
const AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];

/// Returns the value that all versions have in a field, if they agree.
fn shared<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    let mut versions = list(definition, "/spec/versions").iter().map(|version| version.get(name));
    let first = versions.next()?;
    versions.all(|other| other == first).then_some(first)?
}

/// Checks that every version has a schema, and that `preserveUnknownFields` is not combined with defaults.
pub(super) fn check_presence(definition: &Value, errors: &mut Errors) {
    let mut has_defaults = false;
    for (place, version) in elements(&definition["spec"]["versions"], "spec.versions") {
        match present(version, "/schema/openAPIV3Schema") {
            None => errors.push(FieldError::required(format!("{place}.schema.openAPIV3Schema"), "")),
            Some(schema) => has_defaults |= any_default(schema),
        }
    }
    if has_defaults && is_true(definition, "/spec/preserveUnknownFields") {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
}

fn any_default(schema: &Value) -> bool {
    present(schema, "/default").is_some() || inner(schema).any(|(_, inner)| any_default(inner))
}

/// Returns the unknown formats in all schemas.
pub(super) fn unknown_formats(definition: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    for version in list(definition, "/spec/versions") {
        if let Some(schema) = present(version, "/schema/openAPIV3Schema") {
            find_unknown_formats(schema, &mut unknown);
        }
    }
    unknown
}

fn find_unknown_formats(schema: &Value, unknown: &mut Vec<String>) {
    let format = text(schema, "/format");
    if !format.is_empty() && !is_known_format(format, text(schema, "/type")) {
        unknown.push(format.to_owned());
    }
    inner(schema).chain(alternatives(schema)).for_each(|(_, inner)| find_unknown_formats(inner, unknown));
}

/// Checks the deprecation warning of a version, and the parts that differ between versions.
pub(super) fn check_version(definition: &Value, version: &Value, place: &str, errors: &mut Errors) {
    if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
        let why = match warning {
            _ if !is_true(version, "/deprecated") => "can only be set for deprecated versions",
            "" => "must not be an empty string",
            long if long.len() > 256 => "must be <= 256 characters long",
            _ => "",
        };
        if !why.is_empty() {
            errors.push(FieldError::invalid(format!("{place}.deprecationWarning"), warning, why));
        }
    }
    let own = |name: &str| version.get(name).filter(|_| shared(definition, name).is_none());
    if let Some(schema) = own("schema") {
        check_root(schema, has_status(version), &format!("{place}.schema"), errors);
    }
    if let Some(subresources) = own("subresources") {
        check_subresources(subresources, &format!("{place}.subresources"), errors);
    }
    check_columns(own("additionalPrinterColumns"), &format!("{place}.additionalPrinterColumns"), errors);
    if let Some(fields) = own("selectableFields") {
        check_selectable(fields, version, &format!("{place}.selectableFields"), errors);
    }
}

/// Checks the parts that are the same in all versions.
pub(super) fn check_shared(definition: &Value, errors: &mut Errors) {
    let versions = list(definition, "/spec/versions");
    if let Some(schema) = shared(definition, "schema") {
        check_root(schema, versions.iter().any(has_status), "spec.validation", errors);
    }
    if let Some(subresources) = shared(definition, "subresources") {
        check_subresources(subresources, "spec.subresources", errors);
    }
    check_columns(shared(definition, "additionalPrinterColumns"), "spec.additionalPrinterColumns", errors);
    if let (Some(fields), Some(version)) = (shared(definition, "selectableFields"), versions.first()) {
        check_selectable(fields, version, "spec.selectableFields", errors);
    }
}

fn has_status(version: &Value) -> bool {
    present(version, "/subresources/status").is_some()
}

fn check_subresources(subresources: &Value, place: &str, errors: &mut Errors) {
    let Some(scale) = present(subresources, "/scale") else { return };
    for (name, under) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (field, path) = (format!("{place}.scale.{name}"), text(&scale[name], ""));
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if check_path(path, &field, errors) && !path.starts_with(&format!("{under}.")) {
            errors.push(FieldError::invalid(field, path, format!("should be a json path under {under}")));
        }
    }
    let (field, path) = (format!("{place}.scale.labelSelectorPath"), text(scale, "/labelSelectorPath"));
    let is_inside = [".spec.", ".status."].iter().any(|under| path.starts_with(under));
    if !path.is_empty() && check_path(path, &field, errors) && !is_inside {
        let why = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(field, path, why));
    }
}

/// Returns true if a path begins correctly, and reports an error otherwise.
fn check_path(path: &str, field: &str, errors: &mut Errors) -> bool {
    let good = path.starts_with('.');
    if !good {
        let why = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(field, path, why));
    }
    good
}

fn check_columns(columns: Option<&Value>, place: &str, errors: &mut Errors) {
    let nothing = Value::Null;
    for (place, column) in elements(columns.unwrap_or(&nothing), place) {
        if text(column, "/name").is_empty() {
            errors.push(FieldError::required(format!("{place}.name"), ""));
        }
        let (field, why) = (format!("{place}.type"), format!("must be one of {COLUMN_TYPES}"));
        match text(column, "/type") {
            "" => errors.push(FieldError::required(field, &why)),
            known if COLUMN_TYPES.split(',').any(|of| of == known) => {}
            other => errors.push(FieldError::invalid(field, other, why)),
        }
        let format = text(column, "/format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(format!("{place}.format"), format, why));
        }
        let (field, path) = (format!("{place}.JSONPath"), text(column, "/jsonPath"));
        match path {
            "" => errors.push(FieldError::required(field, "")),
            path => {
                check_path(path, &field, errors);
            }
        }
    }
}

fn check_selectable(fields: &Value, version: &Value, place: &str, errors: &mut Errors) {
    let mut seen = Vec::new();
    for (place, field) in elements(fields, place) {
        let (field, path) = (format!("{place}.jsonPath"), text(field, "/jsonPath"));
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let mut schema = present(version, "/schema/openAPIV3Schema");
        for name in path.trim_start_matches('.').split('.') {
            schema = schema.and_then(|schema| schema.get("properties")?.get(name));
        }
        let Some(schema) = schema.filter(|_| path.starts_with('.')) else {
            let why = "is an invalid path: it does not lead to a field of the schema";
            errors.push(FieldError::invalid(field, path, why));
            continue;
        };
        if path.starts_with(".metadata") {
            errors.push(FieldError::invalid(&field, path, "must not point to fields in metadata"));
        }
        if !matches!(text(schema, "/type"), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                       formats are allowed.";
            errors.push(FieldError::invalid(&field, path, why));
        }
        if seen.contains(&path) {
            errors.push(FieldError::duplicate(field, path));
        } else {
            seen.push(path);
        }
    }
    if seen.len() > 8 {
        errors.push(FieldError::too_many(place, i64::try_from(seen.len()).unwrap_or(i64::MAX), 8));
    }
}

/// Checks a whole schema.
fn check_root(validation: &Value, has_status: bool, place: &str, errors: &mut Errors) {
    let Some(schema) = present(validation, "/openAPIV3Schema") else { return };
    let place = format!("{place}.openAPIV3Schema");
    if has_status {
        check_beside_status(schema, &place, errors);
    }
    if is_true(schema, "/nullable") {
        let why = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{place}.nullable"), why));
    }
    let mut structure = Errors::new(errors.release());
    check_structure(schema, Level::Root, &place, &mut structure);
    check_complete(schema, Some(schema), &place, &place, &mut structure);
    let mut structure = structure.into_vec();
    structure.sort_by_cached_key(ToString::to_string);
    if structure.is_empty() {
        check_defaults(schema, &place, errors);
    }
    errors.extend(structure);
    check_words(schema, &place, SchemaContext { root: true, ..SchemaContext::default() }, errors);
}

fn check_beside_status(schema: &Value, place: &str, errors: &mut Errors) {
    let of = text(schema, "/type");
    if !of.is_empty() && of != "object" {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(format!("{place}.type"), of, why));
    }
    if entries(schema, "").any(|(name, _)| !AT_ROOT.iter().any(|(_, known)| known == name)) {
        let known: Vec<&str> = AT_ROOT.iter().map(|(name, _)| *name).collect();
        let why = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            known.join(" ")
        );
        errors.push(FieldError::invalid(place, schema.clone(), why));
    }
}

/// Position of a schema in its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns the direct subschemas that define a schema's structure, with their relative paths.
fn inner(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    let single = |name: &'static str| {
        schema.get(name).filter(|inner| inner.is_object()).map(|inner| (format!(".{name}"), inner))
    };
    let properties =
        entries(schema, "/properties").map(|(name, inner)| (format!(".properties[{name}]"), inner));
    single("items").into_iter().chain(single("additionalProperties")).chain(properties)
}

/// Returns the alternatives directly within a schema (`anyOf`, `allOf`, `oneOf` and `not`), with their relative paths.
fn alternatives(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    let lists = ["anyOf", "allOf", "oneOf"].into_iter().flat_map(|name| {
        let all = list(&schema[name], "").iter().enumerate();
        all.map(move |(i, inner)| (format!(".{name}[{i}]"), inner))
    });
    lists.chain(schema.get("not").filter(|not| not.is_object()).map(|not| (".not".to_owned(), not)))
}

/// Checks that a schema is structural, that is, that it specifies the type of every value.
fn check_structure(schema: &Value, level: Level, place: &str, errors: &mut Errors) {
    let of = text(schema, "/type");
    let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let (embedded, preserves, either) = (
        flag("x-kubernetes-embedded-resource"),
        flag("x-kubernetes-preserve-unknown-fields"),
        flag("x-kubernetes-int-or-string"),
    );
    if of == "array" && present(schema, "/items").is_none() {
        errors.push(FieldError::required(format!("{place}.items"), "must be specified"));
    }
    for (step, inner) in inner(schema) {
        let level = if step == ".items" { Level::Item } else { Level::Field };
        check_structure(inner, level, &format!("{place}{step}"), errors);
    }
    let additional = format!("{place}.additionalProperties");
    let has_additional = present(schema, "/additionalProperties").is_some();
    if has_additional && level == Level::Root {
        errors.push(FieldError::forbidden(&additional, "must not be used at the root"));
    }
    for (name, wrong) in
        [("x-kubernetes-preserve-unknown-fields", preserves), ("x-kubernetes-embedded-resource", embedded)]
    {
        if either && wrong {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{place}.{name}"), true, why));
        }
    }
    check_alternatives(schema, place, errors);
    check_type(of, level, place, [embedded, preserves, either], errors);
    if embedded && has_additional {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(additional, why));
    }
    check_metadata(schema, level, embedded, place, errors);
    if embedded && !preserves && entries(schema, "/properties").next().is_none() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{place}.properties"), why));
    }
}

fn check_type(of: &str, level: Level, place: &str, flags: [bool; 3], errors: &mut Errors) {
    let [embedded, preserves, either] = flags;
    let field = format!("{place}.type");
    if embedded && of != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match of {
            "" => FieldError::required(&field, why),
            of => FieldError::invalid(&field, of, why),
        });
    } else if of.is_empty() && !either && !preserves {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&field, why));
    }
    if level == Level::Root && !of.is_empty() && of != "object" {
        errors.push(FieldError::invalid(field, of, "must be object at the root"));
    }
}

/// Checks the types of `kind`, `apiVersion` and `metadata`, and that the root of a schema restricts nothing in metadata
/// except names.
fn check_metadata(schema: &Value, level: Level, embedded: bool, place: &str, errors: &mut Errors) {
    let is_object = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(inner) = schema.pointer(&format!("/properties/{name}"))
            && is_object
            && text(inner, "/type") != "string"
        {
            let field = format!("{place}.properties[{name}].type");
            errors.push(FieldError::invalid(field, text(inner, "/type"), "must be string"));
        }
    }
    let Some(metadata) = schema.pointer("/properties/metadata") else { return };
    let place = format!("{place}.properties[metadata]");
    if is_object && text(metadata, "/type") != "object" {
        errors.push(FieldError::invalid(format!("{place}.type"), text(metadata, "/type"), "must be object"));
    }
    let known = |name: &str| match name {
        "type" | "default" => true,
        "properties" => {
            let mut names = entries(metadata, "/properties").map(|(name, _)| name.as_str());
            names.all(|name| matches!(name, "name" | "generateName"))
        }
        _ => false,
    };
    if level == Level::Root && !entries(metadata, "").all(|(name, _)| known(name)) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(place, why));
    }
}

/// Checks that alternatives only restrict values and do not define structure.
fn check_alternatives(schema: &Value, place: &str, errors: &mut Errors) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let any_of = schema.get("anyOf") == Some(&either);
    let first_of_all = schema.pointer("/allOf/0/anyOf") == Some(&either);
    for (step, inner) in alternatives(schema) {
        if any_of && step.starts_with(".anyOf") {
            continue;
        }
        check_alternative(inner, first_of_all && step == ".allOf[0]", &format!("{place}{step}"), errors);
    }
    let pattern = text(schema, "/pattern");
    if let Err(why) = Regex::new(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(format!("{place}.pattern"), pattern, why));
    }
}

fn check_alternative(schema: &Value, is_either: bool, place: &str, errors: &mut Errors) {
    const EMPTY: [&str; 5] =
        ["type", "title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"];
    const UNDEFINED: [&str; 4] =
        ["additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type"];
    const FALSE: [&str; 4] = [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ];
    if !is_either {
        check_alternatives(schema, place, errors);
    }
    for (step, inner) in inner(schema).filter(|(step, _)| step != ".additionalProperties") {
        check_alternative(inner, false, &format!("{place}{step}"), errors);
    }
    for (names, what) in [
        (EMPTY.as_slice(), "must be empty to be structural"),
        (UNDEFINED.as_slice(), "must be undefined to be structural"),
        (FALSE.as_slice(), "must be false to be structural"),
    ] {
        for name in names {
            let said = schema.get(name).is_some_and(|said| !said.is_null() && said != false);
            if said {
                errors.push(FieldError::forbidden(format!("{place}.{name}"), what));
            }
        }
    }
    if schema.pointer("/properties/metadata").is_some() {
        let why = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(format!("{place}.properties[metadata]"), why));
    }
}

/// Checks that every field that alternatives mention is defined in the structure.
fn check_complete(said: &Value, schema: Option<&Value>, place: &str, said_at: &str, errors: &mut Errors) {
    let Some(schema) = schema else {
        errors.push(FieldError::required(place, &format!("because it is defined in {said_at}")));
        return;
    };
    for (step, alternative) in alternatives(said) {
        check_nested(alternative, schema, place, &format!("{said_at}{step}"), errors);
    }
}

fn check_nested(said: &Value, schema: &Value, place: &str, said_at: &str, errors: &mut Errors) {
    check_complete(said, Some(schema), place, said_at, errors);
    for (step, inner) in inner(said).filter(|(step, _)| step != ".additionalProperties") {
        let (place, said_at) = (format!("{place}{step}"), format!("{said_at}{step}"));
        let name = step.strip_prefix(".properties[").and_then(|rest| rest.strip_suffix(']'));
        let of_schema = match name {
            Some(name) => schema.get("properties").and_then(|all| all.get(name)),
            None => present(schema, "/items"),
        };
        match of_schema {
            Some(schema) => check_nested(inner, schema, &place, &said_at, errors),
            None => check_complete(inner, None, &place, &said_at, errors),
        }
    }
}

/// Checks that defaults conform to their schema.
fn check_defaults(schema: &Value, place: &str, errors: &mut Errors) {
    if let Some(default) = present(schema, "/default") {
        let field = format!("{place}.default");
        let parsed = Schema::parse(schema);
        let mut holder = json!({"x": default});
        let around = Schema::parse(&json!({"properties": {"x": schema}}));
        if !around.prune(&mut holder).is_empty() {
            errors.push(FieldError::invalid(&field, default.clone(), "must not have unknown fields"));
        }
        errors.extend(parsed.check(&field, default, None));
    }
    for (step, inner) in inner(schema).filter(|(step, _)| step != ".additionalProperties") {
        check_defaults(inner, &format!("{place}{step}"), errors);
    }
}

/// Facts about the schemas that enclose a schema.
#[derive(Clone, Copy, Default)]
struct SchemaContext {
    root: bool,
    /// True within the metadata of an object.
    meta: bool,
    /// The reason why no default is allowed here, if any.
    no_default: Option<&'static str>,
}

impl SchemaContext {
    /// Returns the context one level deeper. `embedded` is true if the step starts at the schema of an embedded object.
    fn step(self, step: &str, embedded: bool) -> Self {
        let inside = Self { root: false, ..self };
        if step == ".additionalProperties" && self.meta {
            return Self {
                no_default: Some("inside additionalProperties applying to object metadata"),
                ..inside
            };
        }
        let name = step.strip_prefix(".properties[").and_then(|rest| rest.strip_suffix(']'));
        let why = match name {
            Some("metadata") => "in top-level metadata",
            Some("kind") => "in top-level kind",
            Some("apiVersion") => "in top-level apiVersion",
            _ => return inside,
        };
        match (self.root, embedded) {
            (true, _) => Self { meta: true, no_default: Some(why), ..inside },
            (false, true) => Self { meta: true, ..inside },
            (false, false) => inside,
        }
    }
}

/// Refuses keywords that are unsupported or misplaced, or whose value is not allowed.
fn check_words(schema: &Value, place: &str, inside: SchemaContext, errors: &mut Errors) {
    let of = text(schema, "/type");
    if !of.is_empty() && !TYPES.contains(&of) {
        errors.push(FieldError::unsupported(format!("{place}.type"), of, &TYPES));
    }
    if let (Some(why), Some(_)) = (inside.no_default, present(schema, "/default")) {
        errors.push(FieldError::forbidden(format!("{place}.default"), format!("must not be set {why}")));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(name).is_some_and(|said| !said.is_null()) {
            errors.push(FieldError::forbidden(format!("{place}.{name}"), format!("{name} is not supported")));
        }
    }
    if of == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(format!("{place}.type"), why));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let why = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(format!("{place}.items"), why));
    }
    let embedded = is_true(schema, "/x-kubernetes-embedded-resource");
    if inside.meta && embedded {
        let why = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(format!("{place}.x-kubernetes-embedded-resource"), why));
    }
    if is_true(schema, "/uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{place}.uniqueItems"), why));
    }
    let additional = schema.get("additionalProperties").filter(|said| !said.is_null());
    if entries(schema, "/properties").next().is_some() && additional.is_some_and(|said| *said != true) {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{place}.additionalProperties"), why));
    }
    for (step, inner) in inner(schema) {
        check_words(inner, &format!("{place}{step}"), inside.step(&step, embedded), errors);
    }
    for (step, inner) in alternatives(schema) {
        check_words(inner, &format!("{place}{step}"), SchemaContext { root: false, ..inside }, errors);
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{place}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, false, "must be true or undefined"));
    }
    check_list(schema, place, errors);
}

/// Checks the declared types of lists and maps.
fn check_list(schema: &Value, place: &str, errors: &mut Errors) {
    let of = text(schema, "/type");
    for (name, wanted, known) in [
        ("x-kubernetes-map-type", "object", ["atomic", "granular"].as_slice()),
        ("x-kubernetes-list-type", "array", ["atomic", "set", "map"].as_slice()),
    ] {
        let Some(kind) = schema.get(name).and_then(Value::as_str) else { continue };
        let why = format!("must be {wanted} if {name} is specified");
        if of.is_empty() {
            errors.push(FieldError::required(format!("{place}.type"), &why));
        } else if of != wanted {
            errors.push(FieldError::invalid(format!("{place}.type"), of, why));
        }
        if !known.contains(&kind) {
            errors.push(FieldError::unsupported(format!("{place}.{name}"), kind, known));
        }
    }
    let (kind, keys) = (text(schema, "/x-kubernetes-list-type"), &schema["x-kubernetes-list-map-keys"]);
    let (field, items) = (format!("{place}.x-kubernetes-list-map-keys"), present(schema, "/items"));
    if !list(keys, "").is_empty() && kind != "map" {
        let (field, why) = (
            format!("{place}.x-kubernetes-list-type"),
            "must be map if x-kubernetes-list-map-keys is non-empty",
        );
        errors.push(match kind {
            "" => FieldError::required(field, why),
            kind => FieldError::invalid(field, kind, why),
        });
    }
    if let Some(items) = items
        && matches!(kind, "set" | "map")
        && is_true(items, "/nullable")
    {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.push(FieldError::forbidden(format!("{place}.items.nullable"), why));
    }
    if kind != "map" {
        return;
    }
    if list(keys, "").is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&field, why));
    }
    let Some(items) = items else {
        let why = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{place}.items"), why));
        return;
    };
    if text(items, "/type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{place}.items.type"), text(items, "/type"), why));
        return;
    }
    for key in list(keys, "").iter().filter_map(Value::as_str) {
        let place = format!("{place}.items.properties[{key}]");
        let Some(property) = items.get("properties").and_then(|all| all.get(key)) else {
            let why = "entries must all be names of item properties";
            errors.push(FieldError::invalid(&field, keys.clone(), why));
            continue;
        };
        if matches!(text(property, "/type"), "array" | "object") {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(format!("{place}.type"), text(items, "/type"), why));
        }
        let is_required = list(items, "/required").iter().any(|name| name == key);
        if !is_required && present(property, "/default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                       property";
            errors.push(FieldError::required(format!("{place}.default"), why));
        }
    }
}
