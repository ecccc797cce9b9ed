//! Values in templates.

use std::borrow::Cow;

use serde_json::Value;

/// A value during the execution of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Datum {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// A list or an object.
    Json(Value),
}

impl From<&Value> for Datum {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Nil,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(number) => Self::Int(number),
                None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => Self::Json(value.clone()),
        }
    }
}

impl Datum {
    /// Returns the field at a path of names. A field that does not exist is nil.
    pub(super) fn at(&self, path: &[String]) -> Result<Self, String> {
        let Some((first, rest)) = path.split_first() else { return Ok(self.clone()) };
        match self {
            Self::Json(Value::Object(fields)) => {
                Self::from(fields.get(first).unwrap_or(&Value::Null)).at(rest)
            }
            _ => Err(format!("{self} has no field {first}")),
        }
    }

    /// Returns the truth of a condition: empty values are false.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Json(Value::Array(list)) => !list.is_empty(),
            Self::Json(Value::Object(fields)) => !fields.is_empty(),
            Self::Json(_) => true,
        }
    }

    /// Returns the elements over which a loop runs: those of a list, or all numbers below a number.
    pub(super) fn elements(&self) -> Result<Vec<Self>, String> {
        match self {
            Self::Nil => Ok(Vec::new()),
            Self::Int(count) => Ok((0..*count).map(Self::Int).collect()),
            Self::Json(Value::Array(list)) => Ok(list.iter().map(Self::from).collect()),
            _ => Err(format!("{self} is neither a number nor a list")),
        }
    }

    /// Returns the number that the value is, or that its text means.
    pub(super) fn number(&self) -> Result<f64, String> {
        match self {
            Self::Int(number) => Ok(*number as f64),
            Self::Float(number) => Ok(*number),
            Self::Text(text) => text.parse().map_err(|_| format!("{self} is not a number")),
            _ => Err(format!("{self} is not a number")),
        }
    }

    /// Returns the text that an action prints.
    pub(super) fn text(&self) -> Result<Cow<'_, str>, String> {
        Ok(match self {
            Self::Nil => "<no value>".into(),
            Self::Bool(value) => value.to_string().into(),
            Self::Int(number) => number.to_string().into(),
            Self::Float(number) => number.to_string().into(),
            Self::Text(text) => text.into(),
            Self::Json(_) => return Err(format!("{self} can be printed only with JSON")),
        })
    }

    /// Returns the value as JSON.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Nil => Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Json(value) => value.clone(),
        }
    }
}

/// Formats the value for error messages.
impl std::fmt::Display for Datum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nil => f.write_str("a missing value"),
            other => other.to_json().fmt(f),
        }
    }
}
