//! Changes of single fields of a configuration, as a person writes them on a command line: `PATH=VALUE`.
//!
//! A path is a list of fields with dots between them. `[2]`, `[NAME]` and `[+]` after a field select an element of a
//! list by its number, by its name, or append one. The change is made in the file's own document, so the result is what
//! the file would mean if it contained the change. Only the plugins' arguments are completed with their defaults first,
//! so that each of them can be named.

use std::{fmt, str::FromStr};

use serde_json::{Map, Value, json};

use crate::{
    ConfigErrors, KubeSchedulerConfiguration,
    config::{API_VERSION, KIND},
    write::config_value,
};

/// Fields that name an element of a list.
const NAMES: [&str; 3] = ["name", "schedulerName", "urlPrefix"];

/// A change of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Path of the field.
    pub path: String,
    /// Its new value.
    pub value: Value,
}

/// A step from a value to one of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Field(&'a str),
    Element(&'a str),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::String(text) => write!(f, "{}={text}", self.path),
            value => write!(f, "{}={value}", self.path),
        }
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut depth = 0;
        let is_end = |c: char| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            c == '=' && depth == 0
        };
        let at = text.find(is_end).ok_or("expected PATH=VALUE")?;
        let (path, value) = (&text[..at], &text[at + 1..]);
        parts(path)?;
        let value =
            harbormaster_yaml::parse(value).map_err(|error| format!("the value: {}", error.message))?;
        Ok(Self { path: path.to_owned(), value: value.into_json() })
    }
}

impl Setting {
    /// Makes the change in a document.
    ///
    /// # Errors
    /// If the path is malformed, or leads to something that is not there.
    fn apply(&self, document: &mut Value) -> Result<(), String> {
        let mut target = document;
        let mut begun = String::new();
        for part in parts(&self.path)? {
            target = match part {
                Part::Field(name) => field(target, &begun, name)?,
                Part::Element(which) => element(target, &begun, which)?,
            };
            match part {
                Part::Field(name) if begun.is_empty() => begun += name,
                Part::Field(name) => begun.extend([".", name]),
                Part::Element(which) => begun.extend(["[", which, "]"]),
            }
        }
        *target = self.value.clone();
        Ok(())
    }
}

/// Returns the text of a configuration with changes. `text` is the file and `config` what was read from it, or the
/// default configuration. The result must be read and validated as a file is.
///
/// # Errors
/// The index of the first change that cannot be made, and the reason.
pub fn with_settings(
    text: Option<&str>,
    config: &KubeSchedulerConfiguration,
    settings: &[Setting],
) -> Result<String, (usize, String)> {
    let mut document = document(text, config);
    for (at, setting) in settings.iter().enumerate() {
        setting.apply(&mut document).map_err(|why| (at, why))?;
    }
    Ok(harbormaster_yaml::write(&document))
}

impl ConfigErrors {
    /// Removes the positions, because nobody sees the text that they are about.
    #[must_use]
    pub fn without_positions(mut self) -> Self {
        self.errors.iter_mut().for_each(|error| error.position = None);
        self
    }
}

/// Returns the file's document with the name and all arguments of each profile.
fn document(text: Option<&str>, config: &KubeSchedulerConfiguration) -> Value {
    // A file that cannot be parsed has been refused before.
    let read = text.and_then(|text| harbormaster_yaml::parse(text).ok()).map(|root| root.into_json());
    let mut document = match read {
        Some(Value::Object(fields)) => Value::Object(fields),
        _ => json!({"apiVersion": API_VERSION, "kind": KIND}),
    };
    let mut written = match document["profiles"].take() {
        Value::Array(profiles) => profiles,
        _ => Vec::new(),
    };
    written.resize(config.profiles.len(), Value::Null);
    for (profile, value) in config.profiles.iter().zip(&mut written) {
        if !value.is_object() {
            *value = json!({});
        }
        value["schedulerName"] = json!(profile.scheduler_name);
        value["pluginConfig"] = profile.plugin_config.iter().filter_map(config_value).collect();
    }
    document["profiles"] = written.into();
    document
}

/// Splits a path into its parts.
fn parts(path: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (which, after) = inner.split_once(']').ok_or_else(|| format!("{path:?}: [ without ]"))?;
            parts.push(Part::Element(which));
            rest = after;
        } else {
            let dot = usize::from(!parts.is_empty());
            if dot == 1 && !rest.starts_with('.') {
                return Err(format!("{path:?}: expected a dot or [ before {rest:?}"));
            }
            let name = &rest[dot..];
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return Err(format!("{path:?}: a field without a name"));
            }
            parts.push(Part::Field(&name[..end]));
            rest = &name[end..];
        }
    }
    match parts.first() {
        Some(Part::Field(_)) => Ok(parts),
        _ => Err(format!("{path:?}: a path begins with a field, such as profiles[0].schedulerName")),
    }
}

/// Returns a field of an object, which is created if it is not there.
fn field<'a>(value: &'a mut Value, path: &str, name: &str) -> Result<&'a mut Value, String> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    let there = described(value);
    match value {
        Value::Object(fields) => Ok(fields.entry(name).or_insert(Value::Null)),
        _ => Err(format!("{path} has no field {name}: it is {there}")),
    }
}

/// Returns an element of a list.
fn element<'a>(value: &'a mut Value, path: &str, which: &str) -> Result<&'a mut Value, String> {
    if value.is_null() && which == "+" {
        *value = Value::Array(Vec::new());
    }
    let there = described(value);
    let missing = || format!("{path} has no element [{which}]: it is {there}");
    let Value::Array(items) = value else { return Err(missing()) };
    if which == "+" {
        items.push(Value::Null);
    }
    let at = match which.parse() {
        _ if which == "+" => Some(items.len() - 1),
        Ok(number) => Some(number),
        Err(_) => items.iter().position(|item| names(item).any(|name| name == which)),
    };
    at.and_then(|at| items.get_mut(at)).ok_or_else(missing)
}

/// Names of an element of a list.
fn names(item: &Value) -> impl Iterator<Item = &str> {
    NAMES.into_iter().filter_map(|field| item.get(field)?.as_str())
}

/// Returns what a value is and contains, for errors.
fn described(value: &Value) -> String {
    match value {
        Value::Null => "not there".to_owned(),
        Value::Object(fields) => {
            format!("an object with {}", listed(fields.keys().map(String::as_str), "no fields"))
        }
        Value::Array(items) => {
            let named = items.iter().enumerate().map(|(at, item)| match names(item).next() {
                Some(name) => format!("[{at}] {name}"),
                None => format!("[{at}]"),
            });
            let named: Vec<String> = named.collect();
            format!("a list with {}", listed(named.iter().map(String::as_str), "no elements"))
        }
        other => format!("the value {other}"),
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>, none: &str) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::features::Features;

    use super::*;
    use crate::load;

    const FILE: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                        - plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}\n- schedulerName: second\n";

    /// Returns the configuration with changes.
    fn changed(text: Option<&str>, settings: &[&str]) -> Result<KubeSchedulerConfiguration, String> {
        let features = Features::default();
        let text = text.map(|text| text.replace("- plugins", "- schedulerName: first\n  plugins"));
        let before = match &text {
            Some(text) => load(text, "f", &features).expect("the file is valid"),
            None => KubeSchedulerConfiguration::default_for(&features),
        };
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let text = with_settings(text.as_deref(), &before, &settings).map_err(|(_, why)| why)?;
        load(&text, "f", &features).map_err(|errors| errors.without_positions().to_string())
    }

    #[test]
    fn fields_are_set_by_number_by_name_and_at_the_end_of_lists() {
        let config = changed(
            Some(FILE),
            &[
                "percentageOfNodesToScore=50",
                "profiles[1].percentageOfNodesToScore=20",
                "profiles[second].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated",
                "profiles[first].plugins.multiPoint.disabled[+].name=ImageLocality",
                "profiles[first].plugins.score.enabled[+]={name: NodeAffinity, weight: 9}",
            ],
        )
        .expect("the changes are right");
        assert_eq!(config.percentage_of_nodes_to_score, Some(50));
        let [first, second] = &config.profiles[..] else { panic!("two profiles") };
        assert_eq!(
            (first.percentage_of_nodes_to_score, second.percentage_of_nodes_to_score),
            (None, Some(20))
        );
        let fit = |profile: &crate::Profile| {
            profile.args("NodeResourcesFit").and_then(|args| args.to_value()).expect("its arguments")
        };
        assert_eq!(fit(first)["scoringStrategy"]["type"], "LeastAllocated");
        assert_eq!(fit(second)["scoringStrategy"]["type"], "MostAllocated");
        let of = |profile: &crate::Profile| {
            profile.plugins.multi_point.enabled.iter().map(|plugin| plugin.name.clone()).collect::<Vec<_>>()
        };
        for plugin in ["ImageLocality", "NodeAffinity"] {
            let (first, second) = (of(first), of(second));
            assert!(!first.iter().any(|name| name == plugin), "{plugin} is disabled: {first:?}");
            assert!(second.iter().any(|name| name == plugin), "{plugin} stays: {second:?}");
        }
    }

    #[test]
    fn a_configuration_without_changes_means_the_same() {
        for text in [None, Some(FILE)] {
            let (with, without) = (changed(text, &[]).unwrap(), changed(text, &["parallelism=16"]).unwrap());
            let release = Features::default().release();
            assert_eq!(with.to_yaml(release), without.to_yaml(release));
            if text.is_none() {
                assert_eq!(
                    with.to_yaml(release),
                    KubeSchedulerConfiguration::default_config().to_yaml(release)
                );
            }
        }
    }

    #[test]
    fn wrong_paths_say_what_exists_there() {
        for (setting, expected) in [
            ("percentageOfNodesToScore", "expected PATH=VALUE"),
            ("=1", "a path begins with a field"),
            ("[0]=1", "a path begins with a field"),
            ("a..b=1", "a field without a name"),
            ("profiles[0=1", "expected PATH=VALUE"),
            ("profiles[0]x=1", "expected a dot or [ before \"x\""),
            ("a=[", "the value: "),
            (
                "profiles[2].schedulerName=x",
                "profiles has no element [2]: it is a list with [0] first, [1] second",
            ),
            (
                "profiles[third].schedulerName=x",
                "profiles has no element [third]: it is a list with [0] first",
            ),
            ("profles[0].schedulerName=x", "profles has no element [0]: it is not there"),
            ("kind.x=1", "kind has no field x: it is the value \"KubeSchedulerConfiguration\""),
            (
                "profiles[0].plugins.multiPoint[0]=x",
                "profiles[0].plugins.multiPoint has no element [0]: it is an object with disabled",
            ),
            (
                "profiles[0].pluginConfig[Nothing].args.x=1",
                "has no element [Nothing]: it is a list with [0] ",
            ),
            ("percentageOfNodesToScor=50", "unknown field \"percentageOfNodesToScor\""),
            (
                "profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.typ=x",
                "scoringStrategy.typ\"",
            ),
        ] {
            let told = changed(Some(FILE), &[setting]).expect_err(setting);
            assert!(told.contains(expected), "{setting}: {told}");
        }
    }

    #[test]
    fn a_value_is_yaml_and_an_element_may_be_named_with_any_characters() {
        let setting: Setting = "a[x.y=z].b={c: [1, 2s]}".parse().expect("a setting");
        assert_eq!(setting.path, "a[x.y=z].b");
        assert_eq!(setting.value, json!({"c": [1, "2s"]}));
        let mut document = json!({"a": [{"name": "x.y=z"}]});
        setting.apply(&mut document).expect("the element is there");
        assert_eq!(document, json!({"a": [{"name": "x.y=z", "b": {"c": [1, "2s"]}}]}));
    }
}
