//! What objects consist of: the types of the Kubernetes API, and objects made to fit them.

use std::{collections::HashMap, sync::OnceLock};

use harbormaster_api::{Quantity, Timestamp};
use serde_json::{Map, Value, json};

use crate::{
    forms,
    kinds::{Form, Kind},
    value::shown,
};

/// A field of a type.
#[derive(Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// How often it holds its type, and whether zero is written.
    pub shape: Shape,
    /// The type of the field, or of its elements.
    pub of: &'static str,
    /// Written even when it is zero or absent.
    always: bool,
}

/// How a field holds its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Once.
    Single,
    /// Not written when zero.
    Shy,
    /// A list of it.
    List,
    /// A map from texts to it.
    Map,
    /// The fields of its type belong to the type around it.
    Inline,
}

/// The fields of a type, by their number in protobuf.
pub type Fields = HashMap<u64, Field>;

/// A type.
#[derive(Debug, Default)]
pub struct Type {
    /// Its fields.
    pub fields: Fields,
    /// Numbers by name; the fields of inlined types are in those.
    by_name: HashMap<&'static str, u64>,
}

/// A type of the table.
pub fn find(name: &str) -> Option<&'static Type> {
    types().get(name)
}

fn types() -> &'static HashMap<&'static str, Type> {
    static TYPES: OnceLock<HashMap<&'static str, Type>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let lines = include_str!("schema.txt").lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| {
                let mut words = line.split(' ');
                let name = words.next()?;
                let fields: Fields = words.filter_map(field).collect();
                let by_name = fields.iter().map(|(number, field)| (field.name, *number)).collect();
                Some((name, Type { fields, by_name }))
            })
            .collect()
    })
}

fn field(word: &'static str) -> Option<(u64, Field)> {
    let mut parts = word.splitn(3, ':');
    let (number, name, of) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (always, of) = of.strip_prefix('!').map_or((false, of), |of| (true, of));
    let shapes = [('?', Shape::Shy), ('*', Shape::List), ('%', Shape::Map), ('^', Shape::Inline)];
    let found = shapes.into_iter().find_map(|(sign, shape)| of.strip_prefix(sign).map(|of| (shape, of)));
    let (shape, of) = found.unwrap_or((Shape::Single, of));
    Some((number, Field { name, shape, of, always }))
}

/// The name of the type of a kind's objects as they are stored, if it is in the table.
fn type_of(kind: &Kind) -> Option<String> {
    let package = match (&kind.form, kind.group.split('.').next()) {
        (Form::NewEvents, _) | (_, None | Some("")) => "core",
        (_, Some(package)) => package,
    };
    let name = format!("{package}.{}", kind.kind);
    (!kind.custom && find(&name).is_some()).then_some(name)
}

/// Makes an object what its type says: unknown fields go, amounts are written as Kubernetes does, fields that are always
/// there are. Of kinds without a type it is the metadata that is looked at.
///
/// # Errors
/// Which value is of the wrong type, in the words of Go.
pub fn fit(kind: &Kind, object: &mut Value) -> Result<(), String> {
    Walk::default().root(kind, object)
}

/// Refuses an object with fields that its type does not have.
///
/// # Errors
/// Which fields those are.
pub fn check_strictly(kind: &Kind, object: &Value) -> Result<(), String> {
    let mut walk = Walk { notes: true, ..Walk::default() };
    let mut object = object.clone();
    forms::to_stored(kind, &mut object);
    // Wrong types are told of later.
    let _ = walk.root(kind, &mut object);
    if walk.unknown.is_empty() {
        Ok(())
    } else {
        Err(format!("strict decoding error: {}", walk.unknown.join(", ")))
    }
}

#[derive(Default)]
struct Walk {
    path: Vec<Step>,
    /// Whether unknown fields are written down.
    notes: bool,
    unknown: Vec<String>,
}

enum Step {
    Field(&'static str),
    Index(usize),
}

impl Walk {
    fn root(&mut self, kind: &Kind, object: &mut Value) -> Result<(), String> {
        if let Some(name) = type_of(kind) {
            return match object {
                Value::Object(map) => self.map(&name, map),
                other => Err(wrong(other, &format!("Go value of type v1.{}", kind.kind))),
            };
        }
        self.path.push(Step::Field("metadata"));
        match object.get_mut("metadata") {
            Some(Value::Object(metadata)) => self.map("meta.ObjectMeta", metadata),
            _ => Ok(()),
        }
    }

    fn map(&mut self, name: &str, map: &mut Map<String, Value>) -> Result<(), String> {
        let Some(of) = find(name) else { return Ok(()) };
        let is_object = of.by_name.contains_key("metadata");
        for (key, value) in std::mem::take(map) {
            if let Some((owner, field)) = field_named(name, of, &key) {
                self.path.push(Step::Field(field.name));
                if let Some(value) = self.field(owner, field, value)? {
                    map.insert(key, value);
                }
                self.path.pop();
            } else if is_object && matches!(key.as_str(), "kind" | "apiVersion") {
                map.insert(key, value);
            } else if self.notes {
                let path = self.shown(true);
                let dot = if path.is_empty() { "" } else { "." };
                self.unknown.push(format!("unknown field \"{path}{dot}{key}\""));
            }
        }
        fill(of, map);
        Ok(())
    }

    /// The value as the type has it; none if it is left out.
    fn field(&mut self, owner: &str, field: &Field, value: Value) -> Result<Option<Value>, String> {
        let value = match (field.shape, value) {
            (_, Value::Null) => return Ok(None),
            (Shape::List, Value::Array(list)) => {
                if list.is_empty() && !field.always {
                    return Ok(None);
                }
                let mut fitted = Vec::with_capacity(list.len());
                for (at, element) in list.into_iter().enumerate() {
                    self.path.push(Step::Index(at));
                    fitted.push(self.single(owner, field, element)?);
                    self.path.pop();
                }
                Value::Array(fitted)
            }
            (Shape::Map, Value::Object(map)) => {
                if map.is_empty() && !field.always {
                    return Ok(None);
                }
                let fitted =
                    map.into_iter().map(|(key, element)| Ok((key, self.single(owner, field, element)?)));
                Value::Object(fitted.collect::<Result<_, String>>()?)
            }
            (Shape::List, other) => {
                return Err(self.wrong_field(owner, &other, &format!("[]{}", name_of(field.of))));
            }
            (Shape::Map, other) => {
                let of = match field.of {
                    "Quantity" => "v1.ResourceList".to_owned(),
                    of => format!("map[string]{}", name_of(of)),
                };
                return Err(self.wrong_field(owner, &other, &of));
            }
            (_, value) => self.single(owner, field, value)?,
        };
        let zero = value == "" || value == 0 || value == false;
        Ok((field.shape != Shape::Shy || !zero).then_some(value))
    }

    fn single(&mut self, owner: &str, field: &Field, mut value: Value) -> Result<Value, String> {
        if value.is_null() {
            return Ok(zero(field.of));
        }
        let fits = match field.of {
            "s" | "b" => value.is_string(),
            "t" => value.is_boolean(),
            "d" => value.is_number(),
            "i" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            "l" => value.as_i64().is_some(),
            "Quantity" => {
                value = quantity(&value)?.into();
                true
            }
            "Time" => {
                time(&value)?;
                true
            }
            "IntOrString" => {
                if !(value.is_string() || value.as_i64().is_some()) {
                    return Err(wrong(&value, "Go value of type int32"));
                }
                true
            }
            name => match (&mut value, find(name)) {
                (Value::Object(map), Some(_)) => {
                    self.map(name, map)?;
                    true
                }
                (_, of) => of.is_none(),
            },
        };
        if fits { Ok(value) } else { Err(self.wrong_field(owner, &value, &name_of(field.of))) }
    }

    fn wrong_field(&self, owner: &str, value: &Value, of: &str) -> String {
        let owner = owner.rsplit('.').next().unwrap_or_default();
        wrong(value, &format!("Go struct field {owner}.{} of type {of}", self.shown(false)))
    }

    fn shown(&self, with_indices: bool) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if text.is_empty() => text.push_str(name),
                Step::Field(name) => text.extend([".", name]),
                Step::Index(at) if with_indices => text.push_str(&format!("[{at}]")),
                Step::Index(_) => {}
            }
        }
        text
    }
}

/// The field of a name, and the type that has it: the type itself or one that it inlines.
fn field_named<'a>(name: &'a str, of: &'static Type, key: &str) -> Option<(&'a str, &'static Field)> {
    if let Some(field) = of.by_name.get(key).and_then(|number| of.fields.get(number))
        && field.shape != Shape::Inline
    {
        return Some((name, field));
    }
    let inlined = of.fields.values().filter(|field| field.shape == Shape::Inline);
    inlined.filter_map(|field| field_named(field.of, find(field.of)?, key)).next()
}

/// Adds the fields that are always there.
fn fill(of: &'static Type, map: &mut Map<String, Value>) {
    for field in of.fields.values() {
        if field.shape == Shape::Inline {
            if let Some(inner) = find(field.of) {
                fill(inner, map);
            }
        } else if field.always && !map.contains_key(field.name) {
            let absent = if field.shape == Shape::Single { zero(field.of) } else { Value::Null };
            map.insert(field.name.to_owned(), absent);
        }
    }
}

fn zero(of: &str) -> Value {
    match of {
        "s" => json!(""),
        "i" | "l" | "d" | "IntOrString" => json!(0),
        "t" => json!(false),
        "Quantity" => json!("0"),
        name => match find(name) {
            Some(of) => {
                let mut map = Map::new();
                fill(of, &mut map);
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

/// How Go names the type of a field.
fn name_of(of: &str) -> String {
    match of {
        "s" => "string".to_owned(),
        "b" => "[]uint8".to_owned(),
        "i" => "int32".to_owned(),
        "l" => "int64".to_owned(),
        "t" => "bool".to_owned(),
        "d" => "float64".to_owned(),
        name => format!("v1.{}", name.rsplit('.').next().unwrap_or_default()),
    }
}

/// That a value is of the wrong type, in the words of Go.
pub fn wrong(value: &Value, into: &str) -> String {
    let what = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        // A number that is too large or broken is told, one in the place of something else is not.
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
    use super::*;
    use crate::kinds;

    fn pods() -> Kind {
        kinds::table().into_iter().find(|kind| kind.plural == "pods").unwrap()
    }

    #[test]
    fn every_type_of_the_table_is_known() {
        const BASIC: [&str; 11] =
            ["s", "b", "i", "l", "t", "d", "Quantity", "Time", "IntOrString", "RawExtension", "FieldsV1"];
        for (name, of) in types() {
            for field in of.fields.values() {
                assert!(BASIC.contains(&field.of) || find(field.of).is_some(), "{name}: {}", field.of);
            }
        }
        assert!(types().len() > 300);
    }

    #[test]
    fn an_object_is_made_to_fit() {
        let mut pod = json!({
            "kind": "Pod", "apiVersion": "v1", "more": 1,
            "metadata": {"name": "a", "labels": {}, "odd": 1},
            "spec": {"nodeName": "", "terminationGracePeriodSeconds": 0, "tolerations": null,
                     "volumes": [{"name": "v", "emptyDir": {}}],
                     "containers": [{"name": "c", "typo": 1, "args": [], "resources": {"limits": {"cpu": 1.5}}}]},
        });
        let unknown = check_strictly(&pods(), &pod).unwrap_err();
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
            "strict decoding error: unknown field \"metadata.odd\", unknown field \"more\", unknown field \
             \"spec.containers[0].typo\""
        );
    }

    #[test]
    fn values_of_the_wrong_type_are_named_as_in_go() {
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
