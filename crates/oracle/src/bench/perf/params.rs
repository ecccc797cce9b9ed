//! Parameters of a workload.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};

use super::obstacle::Obstacle;
use super::op::Count;

/// Parameters of a workload. Remembers which of them the operations use.
#[derive(Debug)]
pub(super) struct Params<'a> {
    values: &'a Map<String, Value>,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Params<'a> {
    pub(super) fn new(values: &'a Map<String, Value>) -> Self {
        Self { values, used: RefCell::default() }
    }

    /// Returns the first parameter that no operation uses. Code of the test in Go may use it, which does not run here.
    pub(super) fn unused(&self) -> Option<&str> {
        let used = self.used.borrow();
        self.values.keys().find(|name| !used.contains(*name)).map(String::as_str)
    }

    /// Returns a number, or `default` if the operation does not set it.
    pub(super) fn count(&self, count: &Count, field: &str, default: usize) -> Result<usize, Obstacle> {
        match &count.parameter {
            Some(parameter) => {
                let field = format!("{field}Param");
                let value = self.get(parameter, &field)?;
                let number = value.as_f64().filter(|number| *number >= 0.0);
                let number =
                    number.ok_or_else(|| unsuitable(parameter, value, "a number").in_field(&field))?;
                Ok(number as usize)
            }
            None => Ok(count.value.unwrap_or(default)),
        }
    }

    /// Returns the value of a flag, which a parameter overrides.
    pub(super) fn flag(&self, value: bool, parameter: Option<&str>, field: &str) -> Result<bool, Obstacle> {
        let Some(parameter) = parameter else { return Ok(value) };
        let value = self.get(parameter, field)?;
        value.as_bool().ok_or_else(|| unsuitable(parameter, value, "true or false").in_field(field))
    }

    /// Returns a duration, which a parameter overrides; zero by default.
    pub(super) fn duration(
        &self,
        value: Option<&str>,
        parameter: Option<&str>,
    ) -> Result<Duration, Obstacle> {
        let (text, field) = match parameter {
            Some(parameter) => {
                let field = "durationParam";
                let value = self.get(parameter, field)?;
                let text = value.as_str();
                (text.ok_or_else(|| unsuitable(parameter, value, "a duration").in_field(field))?, field)
            }
            None => (value.unwrap_or("0s"), "duration"),
        };
        parse_duration(text)
            .ok_or_else(|| Obstacle::new(format!("\"{text}\" is not a duration such as 10s")).in_field(field))
    }

    /// Replaces the values of the form `$name` or `$name|default` by parameters.
    pub(super) fn resolve(
        &self,
        template_params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Obstacle> {
        template_params.iter().map(|(key, value)| Ok((key.clone(), self.resolved(value)?))).collect()
    }

    fn resolved(&self, value: &Value) -> Result<Value, Obstacle> {
        let Some(reference) = value.as_str().and_then(|text| text.strip_prefix('$')) else {
            return Ok(value.clone());
        };
        let (name, default) = match reference.split_once('|') {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        match default {
            Some(default) if !self.values.contains_key(name) => {
                let problem = |error| {
                    Obstacle::new(format!("the default of {reference} is not YAML: {error}"))
                        .in_field("templateParams")
                };
                if default.is_empty() {
                    Ok(Value::Null)
                } else {
                    serde_saphyr::from_str(default).map_err(problem)
                }
            }
            _ => self.get(&format!("${name}"), "templateParams").cloned(),
        }
    }

    /// Returns the parameter with the name `$name`.
    fn get(&self, parameter: &str, field: &str) -> Result<&'a Value, Obstacle> {
        let Some(name) = parameter.strip_prefix('$') else {
            return Err(Obstacle::new(format!("\"{parameter}\" does not start with $")).in_field(field));
        };
        self.used.borrow_mut().insert(name.to_owned());
        let missing = || Obstacle::new(format!("the workload has no parameter {name}")).in_field(field);
        self.values.get(name).ok_or_else(missing)
    }
}

fn unsuitable(parameter: &str, value: &Value, expected: &str) -> Obstacle {
    Obstacle::new(format!("the parameter {parameter} is {value}, not {expected}"))
}

/// Parses a duration as Go writes it, such as `1m30s`.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number * unit).ok()?;
        rest = &rest[end..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("not an object") };
        map
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, milliseconds) in [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1500)),
            ("250ms", Some(250)),
            ("0s", Some(0)),
            ("10", None),
            ("", None),
            ("s", None),
        ] {
            assert_eq!(parse_duration(text), milliseconds.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn template_parameters_are_resolved_and_have_defaults() {
        let values = map(json!({"a": 5, "unused": 1}));
        let params = Params::new(&values);
        let given =
            map(json!({"x": "$a", "y": "$b|[1, two]", "z": "$c|", "w": "plain", "v": 3, "u": "$a|7"}));
        let expected = map(json!({"x": 5, "y": [1, "two"], "z": null, "w": "plain", "v": 3, "u": 5}));
        assert_eq!(params.resolve(&given), Ok(expected));
        assert_eq!(params.unused(), Some("unused"));
        let error = params.resolve(&map(json!({"x": "$missing"}))).unwrap_err();
        assert_eq!(error.reason(), "`templateParams`: the workload has no parameter missing");
    }

    #[test]
    fn a_parameter_of_the_wrong_type_is_an_obstacle() {
        let values = map(json!({"text": "x", "number": 4, "time": "2s"}));
        let params = Params::new(&values);
        let of = |parameter: &str| Count { value: Some(9), parameter: Some(parameter.to_owned()) };
        assert_eq!(params.count(&of("$number"), "count", 0), Ok(4));
        assert_eq!(params.count(&Count::default(), "count", 7), Ok(7));
        let error = params.count(&of("$text"), "count", 0).unwrap_err();
        assert_eq!(error.reason(), "`countParam`: the parameter $text is \"x\", not a number");
        let error = params.count(&of("number"), "count", 0).unwrap_err();
        assert_eq!(error.reason(), "`countParam`: \"number\" does not start with $");
        assert_eq!(params.duration(Some("1s"), Some("$time")), Ok(Duration::from_secs(2)));
        assert!(params.flag(false, Some("$number"), "steadyStateParam").is_err());
    }
}
