//! Schemas: the types of the Kubernetes API, and the conversion of objects to conform to them.

mod declared_order;

use std::sync::OnceLock;

use harbormaster_api::{Quantity, Release, Timestamp, similar::similar};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

pub(crate) use self::declared_order::in_declared_order;
use crate::{
    custom::Pruned,
    forms,
    kinds::{Form, Kind},
    value::shown,
};

/// A field of a type.
#[derive(Debug)]
pub struct Field {
    /// Name of the field in JSON.
    pub name: &'static str,
    /// Multiplicity of the field's type, and treatment of zero.
    pub shape: Shape,
    /// Type of the field, or of its elements.
    pub of: &'static str,
    /// True if the field is written even when it is zero or absent.
    always: bool,
    /// True if the field is required in the oldest release that has it.
    required: bool,
    /// True for a map that is owned as a whole.
    pub whole: bool,
    /// Identity of list elements.
    pub identity: Identity<'static>,
    /// The first release that has the field.
    since: Release,
    /// True if the feature gate of the field is off by default, so that its value is never kept.
    is_off: bool,
    /// Change in the newest release.
    change: Option<Change>,
}

/// A change of a field in the newest release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The release has no such field.
    Removed,
    /// The field becomes required, or is no longer required.
    Requirement,
}

impl Field {
    /// Returns true if the release has the field.
    pub fn is_in(&self, release: Release) -> bool {
        self.since <= release && self.change_in(release) != Some(Change::Removed)
    }

    /// Returns true if the field is required in a release.
    pub fn is_required(&self, release: Release) -> bool {
        self.required != (self.change_in(release) == Some(Change::Requirement))
    }

    fn change_in(&self, release: Release) -> Option<Change> {
        self.change.filter(|_| release >= Release::NEWEST)
    }
}

/// Identity of list elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity<'a> {
    /// Elements have no identity: the list is one value.
    #[default]
    Whole,
    /// Elements are identified by their values: the list is a set.
    Values,
    /// Elements are identified by the values of these fields, each with the default that applies if it is absent.
    Keys(Vec<(&'a str, Option<&'a str>)>),
}

/// Multiplicity of a field's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A single value.
    Single,
    /// A single value that is not written when it is zero.
    NonZero,
    /// A list of values of the type.
    List,
    /// A map from strings to values of the type.
    Map,
    /// A value whose fields are inlined into the enclosing type.
    Inline,
}

/// Fields of a type, by protobuf number.
pub type Fields = FxHashMap<u64, Field>;

/// A type of the Kubernetes API.
#[derive(Debug, Default)]
pub struct Type {
    /// Fields of the type.
    pub fields: Fields,
    /// True if values of the type are owned as a whole.
    pub whole: bool,
    /// Field numbers by name. The fields of an inlined type are listed in that type.
    by_name: FxHashMap<&'static str, u64>,
    /// Numbers of the fields that are always written, and of those whose type is inlined.
    filled: Vec<u64>,
}

impl Type {
    /// Returns the field with the given JSON name, from this type or from a type that it inlines.
    pub fn field(&'static self, name: &str) -> Option<&'static Field> {
        field_named("", self, name).map(|(_, field)| field)
    }

    /// Returns all fields in a release, including those of inlined types, in name order.
    pub fn all_fields(&'static self, release: Release) -> Vec<&'static Field> {
        let mut all = Vec::new();
        for field in self.fields.values().filter(|field| field.is_in(release)) {
            match find(field.of).filter(|_| field.shape == Shape::Inline) {
                Some(inlined) => all.extend(inlined.all_fields(release)),
                None => all.push(field),
            }
        }
        all.sort_unstable_by_key(|field| field.name);
        all
    }
}

/// Type of a field that the newest release removes.
const REMOVED: &str = "-";

/// Returns a type of the table.
pub fn find(name: &str) -> Option<&'static Type> {
    types().get(name)
}

fn types() -> &'static FxHashMap<&'static str, Type> {
    static TYPES: OnceLock<FxHashMap<&'static str, Type>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let texts = [
            include_str!("schema.txt"),
            include_str!("schema_definitions.txt"),
            include_str!("schema_1.37.txt"),
        ];
        let mut types: FxHashMap<&'static str, Type> = FxHashMap::default();
        for line in texts.into_iter().flat_map(str::lines).filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ').peekable();
            let name = words.next().unwrap_or_default();
            // Only the table of the newest release adds fields to types of another table, and changes their fields.
            let since = if words.peek() == Some(&"+") { Release::NEWEST } else { Release::ALL[0] };
            let of = types.entry(name).or_default();
            of.whole |= words.peek() == Some(&"@");
            for (number, field) in words.filter_map(|word| field(word, since)) {
                match of.fields.get_mut(&number) {
                    Some(known) if field.of == REMOVED => known.change = Some(Change::Removed),
                    Some(known) if known.required != field.required => {
                        known.change = Some(Change::Requirement);
                    }
                    Some(_) => {}
                    None => {
                        if field.always || field.shape == Shape::Inline {
                            of.filled.push(number);
                        }
                        of.by_name.insert(field.name, number);
                        of.fields.insert(number, field);
                    }
                }
            }
        }
        types
    })
}

fn field(word: &'static str, since: Release) -> Option<(u64, Field)> {
    let (is_off, word) = word.strip_suffix('~').map_or((false, word), |word| (true, word));
    let mut parts = word.splitn(3, ':');
    let (number, name, of) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let sign = |of: &'static str, sign: char| of.strip_prefix(sign).map_or((false, of), |of| (true, of));
    let (required, of) = sign(of, '+');
    let (always, of) = sign(of, '!');
    let (whole, of) = sign(of, '@');
    let shapes = [('?', Shape::NonZero), ('*', Shape::List), ('%', Shape::Map), ('^', Shape::Inline)];
    let found = shapes.into_iter().find_map(|(sign, shape)| of.strip_prefix(sign).map(|of| (shape, of)));
    let (shape, of) = found.unwrap_or((Shape::Single, of));
    let (identity, of) = match of.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        None => (Identity::Whole, of),
        Some(("", of)) => (Identity::Values, of),
        Some((keys, of)) => {
            let key = |key: &'static str| {
                let (key, default) = key.split_once('=').unwrap_or((key, ""));
                (key, Some(default))
            };
            (Identity::Keys(keys.split(',').map(key).collect()), of)
        }
    };
    let change = None;
    Some((number, Field { name, shape, of, always, required, whole, identity, since, is_off, change }))
}

/// Returns the type name of a kind, such as `apps.Deployment`. For versions other than `v1`, the name includes the
/// version, as in `autoscalingv2.HorizontalPodAutoscaler`.
pub fn type_name(group: &str, version: &str, kind: &str) -> String {
    let package = group.split('.').next().filter(|package| !package.is_empty()).unwrap_or("core");
    let version = if version == "v1" { "" } else { version };
    format!("{package}{version}.{kind}")
}

/// Returns the type name of a kind's stored objects, if the type is in the table.
pub fn type_of(kind: &Kind) -> Option<String> {
    let group = kind.group.as_str();
    let (group, version) = match &kind.form {
        Form::NewEvents => ("", "v1"),
        Form::OldAutoscalers => (group, "v2"),
        Form::Stored => (group, kind.version.as_str()),
        Form::Version(stored) => (group, stored.rsplit('/').next().unwrap_or_default()),
    };
    let name = type_name(group, version, &kind.kind);
    (!kind.is_custom() && find(&name).is_some()).then_some(name)
}

/// Makes an object conform to its type: removes unknown fields, writes quantities as Kubernetes does, and adds the
/// fields that are always present. A custom resource conforms to its definition's schema instead. For other kinds
/// without a type, only the metadata is processed.
///
/// # Errors
/// The first value of the wrong type, in Go's wording.
pub fn fit(kind: &Kind, object: &mut Value) -> Result<(), String> {
    let mut walk = Walk::new(kind, false);
    walk.root(kind, object);
    walk.wrong.into_iter().next().map_or(Ok(()), |wrong| Err(wrong.in_go))
}

/// Makes an object conform to its type, and returns all differences.
pub fn inspect(kind: &Kind, object: &mut Value) -> Misfits {
    let mut walk = Walk::new(kind, true);
    forms::to_stored(kind, object);
    walk.root(kind, object);
    Misfits { unknown: walk.unknown, wrong: walk.wrong }
}

/// Differences between an object and its type.
#[derive(Debug, Default)]
pub struct Misfits {
    /// Fields that the type does not have.
    pub unknown: Vec<UnknownField>,
    /// Values of the wrong type for their field.
    pub wrong: Vec<WrongValue>,
}

impl Misfits {
    /// Returns a message for each field that the type does not have, such as `unknown field "spec.containers[0].imge"`.
    pub fn unknown_fields(&self) -> Vec<String> {
        self.unknown.iter().map(|unknown| format!("unknown field \"{}\"", unknown.field)).collect()
    }

    /// Checks that the object conforms to its type. Unknown fields are allowed.
    ///
    /// # Errors
    /// The first value of the wrong type, in Go's wording.
    pub fn fit(&self) -> Result<(), String> {
        self.wrong.first().map_or(Ok(()), |wrong| Err(wrong.in_go.clone()))
    }
}

/// A field that a type does not have.
#[derive(Debug)]
pub struct UnknownField {
    /// Path of the field: `spec.containers[0].resource`.
    pub field: String,
    /// Similar field of the type that may have been meant.
    pub similar: Option<String>,
}

/// A value of the wrong type for its field.
#[derive(Debug)]
pub struct WrongValue {
    /// Path of the field: `spec.containers[0].image`.
    pub field: String,
    /// Message for users.
    pub problem: String,
    /// Message in Go's wording.
    in_go: String,
}

struct Walk {
    release: Release,
    path: Vec<Step>,
    /// True if unknown fields are collected.
    notes: bool,
    unknown: Vec<UnknownField>,
    wrong: Vec<WrongValue>,
}

enum Step {
    Field(&'static str),
    Index(usize),
    Key(String),
}

impl Walk {
    fn new(kind: &Kind, notes: bool) -> Self {
        Self { release: kind.release, path: Vec::new(), notes, unknown: Vec::new(), wrong: Vec::new() }
    }

    fn root(&mut self, kind: &Kind, object: &mut Value) {
        if let Some(name) = type_of(kind) {
            return match object {
                Value::Object(map) => self.map(&name, map),
                other => self.is_wrong(other, "an object", &format!("Go value of type {}", name_of(&name))),
            };
        }
        self.path.push(Step::Field("metadata"));
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            self.map("meta.ObjectMeta", metadata);
        }
        self.path.pop();
        if let Some(custom) = &kind.custom {
            let pruned = custom.schema.prune(object);
            custom.schema.drop_nulls(object);
            self.unknown
                .extend(pruned.into_iter().map(|Pruned { field, similar }| UnknownField { field, similar }));
        }
    }

    fn map(&mut self, name: &str, map: &mut Map<String, Value>) {
        let Some(of) = find(name) else { return };
        let is_object = of.by_name.contains_key("metadata");
        map.retain(|key, value| {
            let known = field_named(name, of, key).filter(|(_, field)| field.is_in(self.release));
            if known.is_some_and(|(_, field)| field.is_off) {
                return false;
            }
            if let Some((owner, field)) = known {
                self.path.push(Step::Field(field.name));
                let fitted = self.field(owner, field, value.take());
                self.path.pop();
                let is_kept = fitted.is_some();
                *value = fitted.unwrap_or_default();
                return is_kept;
            }
            if is_object && matches!(key.as_str(), "kind" | "apiVersion") {
                return true;
            }
            if self.notes {
                let path = self.shown(true);
                let dot = if path.is_empty() { "" } else { "." };
                let similar = similar(key, names(of, self.release)).map(str::to_owned);
                self.unknown.push(UnknownField { field: format!("{path}{dot}{key}"), similar });
            }
            false
        });
        fill(of, self.release, map);
    }

    /// Returns the value as the type requires it, or `None` if it is to be omitted.
    fn field(&mut self, owner: &str, field: &Field, value: Value) -> Option<Value> {
        let value = match (field.shape, value) {
            (_, Value::Null) => return None,
            (Shape::List, Value::Array(mut list)) => {
                if list.is_empty() && !field.always {
                    return None;
                }
                for (at, element) in list.iter_mut().enumerate() {
                    self.path.push(Step::Index(at));
                    *element = self.single(owner, field, element.take());
                    self.path.pop();
                }
                Value::Array(list)
            }
            (Shape::Map, Value::Object(mut map)) => {
                if map.is_empty() && !field.always {
                    return None;
                }
                for (key, element) in &mut map {
                    self.path.push(Step::Key(key.clone()));
                    *element = self.single(owner, field, element.take());
                    self.path.pop();
                }
                Value::Object(map)
            }
            (Shape::List, other) => {
                self.wrong_field(owner, &other, "a list", &format!("[]{}", name_of(field.of)));
                return None;
            }
            (Shape::Map, other) => {
                let of = match field.of {
                    "Quantity" => "v1.ResourceList".to_owned(),
                    of => format!("map[string]{}", name_of(of)),
                };
                self.wrong_field(owner, &other, "a map", &of);
                return None;
            }
            (_, value) => self.single(owner, field, value),
        };
        let zero = value == "" || value == 0 || value == false;
        (field.shape != Shape::NonZero || !zero).then_some(value)
    }

    fn single(&mut self, owner: &str, field: &Field, mut value: Value) -> Value {
        if value.is_null() {
            return zero(field.of, self.release);
        }
        let fits = match field.of {
            "s" | "b" => value.is_string(),
            "t" => value.is_boolean(),
            "d" => value.is_number(),
            "i" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            "l" => value.as_i64().is_some(),
            "Quantity" => {
                match quantity(&value) {
                    Ok(quantity) => value = quantity.into(),
                    Err(why) => self.is_malformed(&value, "a quantity", why),
                }
                true
            }
            "Time" => {
                match time(&value) {
                    Ok(()) => {}
                    Err(why) => self.is_malformed(&value, "a time", why),
                }
                true
            }
            "IntOrString" => {
                if !(value.is_string() || value.as_i64().is_some()) {
                    self.is_wrong(&value, "a number or a string", "Go value of type int32");
                }
                true
            }
            "SchemaOrMore" => {
                if let Value::Object(map) = &mut value {
                    self.map("apiextensions.JSONSchemaProps", map);
                }
                true
            }
            name => match (&mut value, find(name)) {
                (Value::Object(map), Some(_)) => {
                    self.map(name, map);
                    true
                }
                (_, of) => of.is_none(),
            },
        };
        if !fits {
            let wanted = match field.of {
                "s" | "b" => "a string",
                "t" => "true or false",
                "d" => "a number",
                "i" => "a 32-bit integer",
                "l" => "an integer",
                _ => "an object",
            };
            self.wrong_field(owner, &value, wanted, &name_of(field.of));
        }
        value
    }

    fn wrong_field(&mut self, owner: &str, value: &Value, wanted: &str, of: &str) {
        let owner = owner.rsplit('.').next().unwrap_or_default();
        let into = format!("Go struct field {owner}.{} of type {of}", self.shown(false));
        self.is_wrong(value, wanted, &into);
    }

    /// Reports a value of the wrong type.
    fn is_wrong(&mut self, value: &Value, wanted: &str, into: &str) {
        let got = match value {
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            value => value.to_string(),
        };
        let problem = format!("expected {wanted}, got {got}");
        self.wrong.push(WrongValue { field: self.shown(true), problem, in_go: wrong(value, into) });
    }

    /// Reports a value that has the right type but is malformed.
    fn is_malformed(&mut self, value: &Value, what: &str, in_go: String) {
        let problem = format!("{value} is not {what}");
        self.wrong.push(WrongValue { field: self.shown(true), problem, in_go });
    }

    fn shown(&self, exactly: bool) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if text.is_empty() => text.push_str(name),
                Step::Field(name) => text.extend([".", name]),
                Step::Index(at) if exactly => text.push_str(&format!("[{at}]")),
                Step::Key(key) if exactly => text.extend([".", key]),
                Step::Index(_) | Step::Key(_) => {}
            }
        }
        text
    }
}

/// Returns the names of a type's fields in a release, including those of inlined types.
fn names(of: &'static Type, release: Release) -> Vec<&'static str> {
    of.all_fields(release).into_iter().map(|field| field.name).collect()
}

/// Returns the field with the given name and the name of the type that contains it: the type itself or a type that it
/// inlines.
fn field_named<'a>(name: &'a str, of: &'static Type, key: &str) -> Option<(&'a str, &'static Field)> {
    if let Some(field) = of.by_name.get(key).and_then(|number| of.fields.get(number))
        && field.shape != Shape::Inline
    {
        return Some((name, field));
    }
    let inlined = of.fields.values().filter(|field| field.shape == Shape::Inline);
    inlined.filter_map(|field| field_named(field.of, find(field.of)?, key)).next()
}

/// Adds the fields that are always present.
fn fill(of: &'static Type, release: Release, map: &mut Map<String, Value>) {
    let fields = of.filled.iter().filter_map(|number| of.fields.get(number));
    for field in fields.filter(|field| field.is_in(release)) {
        if field.shape == Shape::Inline {
            if let Some(inner) = find(field.of) {
                fill(inner, release, map);
            }
        } else if field.always && !map.contains_key(field.name) {
            let absent = if field.shape == Shape::Single { zero(field.of, release) } else { Value::Null };
            map.insert(field.name.to_owned(), absent);
        }
    }
}

fn zero(of: &str, release: Release) -> Value {
    match of {
        "s" => json!(""),
        "i" | "l" | "d" | "IntOrString" => json!(0),
        "t" => json!(false),
        "Quantity" => json!("0"),
        name => match find(name) {
            Some(of) => {
                let mut map = Map::new();
                fill(of, release, &mut map);
                Value::Object(map)
            }
            None => Value::Null,
        },
    }
}

fn quantity(value: &Value) -> Result<String, String> {
    let parsed = shown(value).parse::<Quantity>();
    parsed.map(|quantity| quantity.to_string()).map_err(|error| error.problem.to_string())
}

fn time(value: &Value) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Err(wrong(value, "Go value of type string")) };
    let layout = "2006-01-02T15:04:05Z07:00";
    let parsed = Timestamp::parse(text);
    parsed
        .map(|_| ())
        .map_err(|_| format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
}

/// Returns Go's name for the type of a field.
fn name_of(of: &str) -> String {
    match of {
        "s" => "string".to_owned(),
        "b" => "[]uint8".to_owned(),
        "i" => "int32".to_owned(),
        "l" => "int64".to_owned(),
        "t" => "bool".to_owned(),
        "d" => "float64".to_owned(),
        name => {
            let (package, name) = name.rsplit_once('.').unwrap_or(("", name));
            format!("{}.{name}", version_of(package))
        }
    }
}

/// Returns the version in the name of a package such as `autoscalingv2`.
fn version_of(package: &str) -> &str {
    let mut ends = package.rmatch_indices('v').map(|(at, _)| &package[at..]);
    ends.find(|end| end[1..].starts_with(|c: char| c.is_ascii_digit())).unwrap_or("v1")
}

/// Returns the error for a value of the wrong type, in Go's wording.
pub fn wrong(value: &Value, into: &str) -> String {
    let what = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        // The message includes the number only if the field is an integer: the number is then too large or not an
        // integer.
        Value::Number(number) if into.ends_with("int32") || into.ends_with("int64") => {
            format!("number {number}")
        }
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    format!("json: cannot unmarshal {what} into {into}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use harbormaster_api::{
        features::Features,
        protobuf::{self, messages},
    };

    use super::*;
    use crate::kinds;

    fn pods() -> Kind {
        kinds::table(Features::default()).into_iter().find(|kind| kind.plural == "pods").unwrap()
    }

    #[test]
    fn every_field_in_the_table_has_a_known_type() {
        const BASIC: [&str; 12] = [
            "s",
            "b",
            "i",
            "l",
            "t",
            "d",
            "Quantity",
            "Time",
            "IntOrString",
            "RawExtension",
            "FieldsV1",
            "SchemaOrMore",
        ];
        for (name, of) in types() {
            for field in of.fields.values() {
                assert!(BASIC.contains(&field.of) || find(field.of).is_some(), "{name}: {}", field.of);
            }
        }
        assert!(types().len() > 300);
    }

    /// Checks a message of the scheduler's table of protobuf, and the messages in it.
    fn check_message(message: &protobuf::Message, seen: &mut BTreeSet<&'static str>) {
        // The table of types lacks those that a server only sends.
        if message.name.starts_with("meta.Status") || !seen.insert(message.name) {
            return;
        }
        let of = find(message.name).unwrap_or_else(|| panic!("{}", message.name));
        for field in message.fields {
            let known = of.fields.get(&field.number);
            let of = match field.of {
                protobuf::Kind::Text => vec!["s"],
                protobuf::Kind::Number => vec!["i", "l"],
                protobuf::Kind::Bool => vec!["t"],
                protobuf::Kind::Quantity => vec!["Quantity"],
                protobuf::Kind::Time | protobuf::Kind::TimeAsText => vec!["Time"],
                protobuf::Kind::Json => vec!["RawExtension"],
                protobuf::Kind::Message(inner) => vec![inner.name],
            };
            let shapes = match field.shape {
                protobuf::Shape::One => vec![Shape::Single, Shape::NonZero],
                protobuf::Shape::List => vec![Shape::List],
                protobuf::Shape::Map => vec![Shape::Map],
                protobuf::Shape::Inline => vec![Shape::Inline],
            };
            let name = if field.shape == protobuf::Shape::Inline { "-" } else { field.name };
            let agrees = known.is_some_and(|known| {
                known.name == name && of.contains(&known.of) && shapes.contains(&known.shape)
            });
            assert!(agrees, "{}: {field:?} but {known:?}", message.name);
            if let protobuf::Kind::Message(inner) = field.of {
                check_message(inner, seen);
            }
        }
    }

    #[test]
    fn the_scheduler_reads_protobuf_by_the_same_types() {
        let mut seen = BTreeSet::new();
        for message in [
            &messages::POD,
            &messages::NODE,
            &messages::NAMESPACE,
            &messages::SERVICE,
            &messages::REPLICATION_CONTROLLER,
            &messages::REPLICA_SET,
            &messages::STATEFUL_SET,
            &messages::POD_DISRUPTION_BUDGET,
            &messages::devices::RESOURCE_CLAIM,
            &messages::devices::RESOURCE_SLICE,
            &messages::devices::DEVICE_CLASS,
            &messages::storage::PERSISTENT_VOLUME,
            &messages::storage::PERSISTENT_VOLUME_CLAIM,
            &messages::storage::CSI_NODE,
        ] {
            check_message(message, &mut seen);
        }
        assert!(seen.len() > 50, "{seen:?}");
    }

    #[test]
    fn an_object_is_made_to_conform_to_its_type() {
        let mut pod = json!({
            "kind": "Pod", "apiVersion": "v1", "more": 1,
            "metadata": {"name": "a", "labels": {}, "odd": 1},
            "spec": {"nodeName": "", "terminationGracePeriodSeconds": 0, "tolerations": null,
                     "volumes": [{"name": "v", "emptyDir": {}}],
                     "containers": [{"name": "c", "typo": 1, "args": [], "resources": {"limits": {"cpu": 1.5}}}]},
        });
        let unknown = inspect(&pods(), &mut pod.clone()).unknown_fields().join(", ");
        fit(&pods(), &mut pod).unwrap();
        let expected = json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "a"},
            "spec": {"terminationGracePeriodSeconds": 0, "volumes": [{"name": "v", "emptyDir": {}}],
                     "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}}}]},
            "status": {},
        });
        assert_eq!(pod, expected);
        assert_eq!(
            unknown,
            "unknown field \"metadata.odd\", unknown field \"more\", unknown field \
             \"spec.containers[0].typo\""
        );
    }

    #[test]
    fn values_of_the_wrong_type_are_reported_as_in_go() {
        for (spec, message) in [
            (json!(5), "json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"),
            (
                json!({"containers": 5}),
                "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                json!({"containers": [{"image": {}}]}),
                "json: cannot unmarshal object into Go struct field Container.spec.containers.image of type string",
            ),
            (
                json!({"priority": 3_000_000_000_u64}),
                "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
            ),
            (
                json!({"nodeSelector": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
            ),
        ] {
            assert_eq!(fit(&pods(), &mut json!({"spec": spec})), Err(message.to_owned()));
        }
    }
}
