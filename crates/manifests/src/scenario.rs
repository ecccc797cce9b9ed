//! Scenarios: lists of edits in YAML.
//!
//! ```yaml
//! - drain: node-a1
//! - remove: node-b1
//! - add: 5
//!   like: node-b2
//! - scale: deployment/shop/web
//!   replicas: 10
//! - delete: job/batch/report
//! - repack: all
//! - set: percentageOfNodesToScore
//!   to: 50
//! ```

use harbormaster_api::similar::did_you_mean;
use harbormaster_yaml::{Content, Entry, Node, Source, parse};

use crate::edits::{Edit, Step};

/// Fields of a step: the one that names the edit, and the one that the edit needs in addition.
const FIELDS: [(&str, Option<&str>); 7] = [
    ("drain", None),
    ("remove", None),
    ("add", Some("like")),
    ("scale", Some("replicas")),
    ("delete", None),
    ("repack", None),
    ("set", Some("to")),
];

/// Reads a scenario.
///
/// # Errors
/// All mistakes, one line each, with file, line and field.
pub fn read(source: &Source) -> Result<Vec<Step>, String> {
    let name = &source.name;
    let root = parse(&source.text).map_err(|error| match error.at {
        Some(at) => format!("{name}:{}: {}", at.line, error.message),
        None => format!("{name}: {}", error.message),
    })?;
    if !matches!(root.content, Content::Sequence(_)) {
        return Err(format!(
            "{name}:{}: expected a list of steps, got {}",
            root.at.line.max(1),
            root.type_name()
        ));
    }
    let (mut steps, mut errors) = (Vec::new(), Vec::new());
    for (index, item) in root.items().iter().enumerate() {
        match step(item) {
            Ok((entry, edit)) => steps.push(Step {
                edit,
                source: name.as_str().into(),
                line: Some(entry.at.line.into()),
                field: format!("[{index}].{}", entry.key),
            }),
            Err(Mistake { line, field, message }) => {
                let dot = if field.is_empty() { "" } else { "." };
                errors.push(format!("{name}:{line}: [{index}]{dot}{field}: {message}"));
            }
        }
    }
    if errors.is_empty() { Ok(steps) } else { Err(errors.join("\n")) }
}

/// A mistake in a step.
struct Mistake {
    line: u32,
    field: String,
    message: String,
}

impl Mistake {
    fn at(node: &Node, message: impl Into<String>) -> Self {
        Self { line: node.at.line, field: String::new(), message: message.into() }
    }

    fn of(entry: &Entry, message: impl Into<String>) -> Self {
        Self { line: entry.at.line, field: entry.key.clone(), message: message.into() }
    }
}

/// Reads one step. Returns the entry that names the edit, too.
fn step(item: &Node) -> Result<(&Entry, Edit), Mistake> {
    if !matches!(item.content, Content::Mapping(_)) {
        return Err(Mistake::at(item, format!("expected a step, got {}", item.type_name())));
    }
    let known = || FIELDS.into_iter().flat_map(|(field, more)| [Some(field), more]).flatten();
    if let Some(odd) = item.entries().iter().find(|entry| !known().any(|field| field == entry.key)) {
        return Err(Mistake::of(odd, format!("unknown field{}", did_you_mean(&odd.key, known()))));
    }
    if let Some((_, at)) = item.repeated_keys().first() {
        let again = item.entries().iter().rev().find(|entry| entry.at == *at).map(|entry| entry.key.clone());
        let (line, field) = (at.line, again.unwrap_or_default());
        return Err(Mistake { line, field, message: "duplicate field".to_owned() });
    }
    let names = FIELDS.map(|(field, _)| field).join(", ");
    let mut named = FIELDS.into_iter().filter_map(|(field, more)| Some((item.entry(field)?, more)));
    let Some((entry, more)) = named.next() else {
        return Err(Mistake::at(item, format!("a step has one of the fields {names}")));
    };
    if let Some((other, _)) = named.next() {
        return Err(Mistake::of(other, format!("a step has only one of the fields {names}")));
    }
    let stranger = item.entries().iter().find(|field| field.key != entry.key && Some(&*field.key) != more);
    if let Some(stranger) = stranger {
        return Err(Mistake::of(stranger, format!("the step {} does not have this field", entry.key)));
    }
    let second = more.map(|field| {
        let missing = || Mistake::of(entry, format!("the step also needs the field {field}"));
        item.entry(field).ok_or_else(missing)
    });
    let edit = match (entry.key.as_str(), second.transpose()?) {
        ("drain", _) => Edit::Drain { node: text(entry)? },
        ("remove", _) => Edit::Remove { node: text(entry)? },
        ("add", Some(like)) => Edit::Add { count: number(entry)?, like: text(like)? },
        ("scale", Some(replicas)) => Edit::Scale { workload: object(entry)?, replicas: number(replicas)? },
        ("set", Some(to)) => Edit::Set { path: text(entry)?, value: to.value.clone().into_json() },
        ("repack", _) => match text(entry)?.as_str() {
            "all" => Edit::Repack,
            other => return Err(Mistake::of(entry, format!("expected all, got {other}"))),
        },
        _ => Edit::Delete { object: object(entry)? },
    };
    Ok((entry, edit))
}

fn text(entry: &Entry) -> Result<String, Mistake> {
    match entry.value.text() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        Some(_) => Err(Mistake::of(entry, "Required value")),
        None => Err(Mistake::of(entry, format!("expected a string, got {}", entry.value.type_name()))),
    }
}

fn object<T: std::str::FromStr<Err = String>>(entry: &Entry) -> Result<T, Mistake> {
    text(entry)?.parse().map_err(|message: String| Mistake::of(entry, message))
}

fn number<T: TryFrom<i128>>(entry: &Entry) -> Result<T, Mistake> {
    let whole = match entry.value.content {
        Content::Int(number) => T::try_from(number).ok(),
        _ => None,
    };
    whole.ok_or_else(|| {
        let written = match entry.value.written.as_ref() {
            "" => entry.value.type_name(),
            written => written,
        };
        Mistake::of(entry, format!("expected a whole number that is not negative, got {written}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edits::ObjectName;

    fn read(text: &str) -> Result<Vec<Step>, String> {
        super::read(&Source { name: "plan.yaml".to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_scenario_is_a_list_of_edits_with_their_lines() {
        let text = "# first the node\n- drain: a\n- remove: b\n- {add: 5, like: c}\n- scale: deploy/shop/web\n  \
                    replicas: 0\n- delete: job/report\n- repack: all\n- set: a.b\n  to: [1]\n";
        let steps = read(text).unwrap();
        let name = |text: &str| text.parse::<ObjectName>().unwrap();
        let edits = [
            (2, "[0].drain", Edit::Drain { node: "a".into() }),
            (3, "[1].remove", Edit::Remove { node: "b".into() }),
            (4, "[2].add", Edit::Add { count: 5, like: "c".into() }),
            (5, "[3].scale", Edit::Scale { workload: name("deploy/shop/web"), replicas: 0 }),
            (7, "[4].delete", Edit::Delete { object: name("job/report") }),
            (8, "[5].repack", Edit::Repack),
            (9, "[6].set", Edit::Set { path: "a.b".into(), value: serde_json::json!([1]) }),
        ];
        let expected = edits.map(|(line, field, edit)| Step {
            edit,
            source: "plan.yaml".into(),
            line: Some(line),
            field: field.into(),
        });
        assert_eq!(steps, expected);
        assert_eq!(read("[]").unwrap(), []);
    }

    #[test]
    fn mistakes_name_file_line_and_field() {
        for (text, expected) in [
            ("drain: a\n", "plan.yaml:1: expected a list of steps, got object"),
            ("", "plan.yaml:1: expected a list of steps, got null"),
            ("- [\n", "plan.yaml:1: unclosed bracket"),
            ("- drain: a\n- b\n", "plan.yaml:2: [1]: expected a step, got string"),
            ("- drian: a\n", "plan.yaml:1: [0].drian: unknown field (did you mean `drain`?)"),
            (
                "- {}\n",
                "plan.yaml:1: [0]: a step has one of the fields drain, remove, add, scale, delete, repack, set",
            ),
            ("- like: a\n", "plan.yaml:1: [0]: a step has one of the fields"),
            ("- drain: a\n  remove: b\n", "plan.yaml:2: [0].remove: a step has only one of the fields"),
            ("- drain: a\n  drain: b\n", "plan.yaml:2: [0].drain: duplicate field"),
            ("- drain: a\n  like: b\n", "plan.yaml:2: [0].like: the step drain does not have this field"),
            ("- drain: 7\n", "plan.yaml:1: [0].drain: expected a string, got number"),
            ("- repack: web\n", "plan.yaml:1: [0].repack: expected all, got web"),
            ("- drain: ''\n", "plan.yaml:1: [0].drain: Required value"),
            ("- add: 5\n", "plan.yaml:1: [0].add: the step also needs the field like"),
            ("- add: -1\n  like: a\n", "expected a whole number that is not negative, got -1"),
            (
                "- scale: web\n  replicas: 2\n",
                "plan.yaml:1: [0].scale: expected KIND/NAME or KIND/NAMESPACE/NAME",
            ),
            ("- scale: deploy/web\n  replicas: many\n", "plan.yaml:2: [0].replicas: expected a whole number"),
            ("- delete: a//b\n", "plan.yaml:1: [0].delete: expected KIND/NAME"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.contains(expected), "{text:?}: {told}");
        }
        let told = read("- drian: a\n- add: 1\n").unwrap_err();
        assert_eq!(told.lines().count(), 2, "{told}");
    }
}
