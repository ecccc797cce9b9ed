//! Label and field selectors as written in the query of a request.

use harbormaster_api::{
    Str,
    selector::{Operator, Requirement},
};
use serde_json::Value;

use crate::{
    object::StoredObject,
    status::Failure,
    value::{entries, list, text},
};

/// Filter for the objects that a list or a watch shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    namespace: String,
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug)]
struct FieldTerm {
    field: Field,
    value: String,
    equal: bool,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    /// Index in the kind's list of fields.
    Of(usize),
}

impl Selector {
    /// Parses selectors. `known` contains the fields that the kind's field selectors may name in addition to name and
    /// namespace; it is `None` for built-in kinds without such fields.
    pub(crate) fn parse(
        namespace: &str,
        labels: &str,
        fields: &str,
        known: Option<&[String]>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            namespace: namespace.to_owned(),
            labels: parse_labels(labels)?,
            fields: parse_fields(fields, known)?,
        })
    }

    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        (self.namespace.is_empty() || object.namespace() == self.namespace)
            && self.labels.iter().all(|requirement| requirement.matches(&object.labels))
            && self.fields.iter().all(|term| term.matches(object))
    }

    /// Returns true if the filter selects by more than the namespace.
    pub(crate) fn is_selective(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }
}

impl FieldTerm {
    fn matches(&self, object: &StoredObject) -> bool {
        let value = match self.field {
            Field::Name => object.name(),
            Field::Namespace => object.namespace(),
            Field::Of(index) => object.fields.get(index).map_or("", Str::as_str),
        };
        (value == self.value) == self.equal
    }
}

fn parse_fields(text: &str, known: Option<&[String]>) -> Result<Vec<FieldTerm>, Failure> {
    let (mut terms, mut escaped) = (Vec::new(), false);
    let is_end = |c: char| {
        let is_end = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    };
    for term in text.split(is_end).filter(|term| !term.is_empty()) {
        let Some((path, equal, value)) = operator_of(term) else {
            let message = format!("invalid selector: '{text}'; can't understand '{term}'");
            return Err(Failure::bad_request(message));
        };
        // Selectors of events may also use the field names of `events.k8s.io/v1`.
        let path = &match path.strip_prefix("regarding.") {
            Some(rest) => format!("involvedObject.{rest}"),
            None if path == "reportingController" => "reportingComponent".to_owned(),
            None if path == "source" => "source.component".to_owned(),
            None => path.to_owned(),
        };
        let field = match path.as_str() {
            "metadata.name" => Field::Name,
            "metadata.namespace" => Field::Namespace,
            path => match known.unwrap_or_default().iter().position(|field| field == path) {
                Some(index) => Field::Of(index),
                None => return Err(Failure::bad_request(unknown_field(path, known.is_some()))),
            },
        };
        terms.push(FieldTerm { field, value: unescaped(value), equal });
    }
    Ok(terms)
}

fn unknown_field(path: &str, others_known: bool) -> String {
    if others_known {
        return format!("field label not supported: {path}");
    }
    format!("\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

/// Splits a term into the path, the operator (true if it means "equal") and the value.
fn operator_of(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    let (path, rest) = term.split_at(at);
    let (equal, value) = match rest.strip_prefix("!=") {
        Some(value) => (false, value),
        None => (true, rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?),
    };
    Some((path, equal, value))
}

/// Removes backslashes that escape the next character.
fn unescaped(value: &str) -> String {
    let mut escapes = false;
    let is_meant = |c: &char| {
        escapes = *c == '\\' && !escapes;
        !escapes
    };
    value.chars().filter(is_meant).collect()
}

/// Parses a label selector such as `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`.
fn parse_labels(text: &str) -> Result<Vec<Requirement>, Failure> {
    let refused = |why: &str| Failure::bad_request(format!("unable to parse requirement: {why}"));
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let (mut requirements, mut depth) = (Vec::new(), 0);
    let is_end = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    for term in text.split(is_end) {
        let term = term.trim();
        if term.is_empty() {
            return Err(Failure::bad_request("found ',', expected: identifier after ','"));
        }
        let (key, operator, values) = label_term(term).map_err(|why| refused(&why))?;
        let requirement =
            Requirement { key: key.into(), operator, values: values.into_iter().map(Str::from).collect() };
        if let Some(error) = requirement.errors("").first() {
            return Err(refused(error));
        }
        requirements.push(requirement);
    }
    Ok(requirements)
}

fn label_term(term: &str) -> Result<(&str, Operator, Vec<&str>), String> {
    if let Some(key) = term.strip_prefix('!') {
        return Ok((key.trim(), Operator::DoesNotExist, Vec::new()));
    }
    if let Some(at) = term.find(['=', '!', '<', '>']) {
        let (key, rest) = term.split_at(at);
        let operators = [
            ("==", Operator::In),
            ("=", Operator::In),
            ("!=", Operator::NotIn),
            (">", Operator::Gt),
            ("<", Operator::Lt),
        ];
        let found = operators.into_iter().find_map(|(sign, op)| rest.strip_prefix(sign).map(|v| (op, v)));
        let (operator, value) = found.ok_or_else(|| format!("found '{rest}', expected: an operator"))?;
        return Ok((key.trim(), operator, vec![value.trim()]));
    }
    let Some((key, rest)) = term.split_once(char::is_whitespace) else {
        return Ok((term, Operator::Exists, Vec::new()));
    };
    let rest = rest.trim_start();
    let (operator, list) = match (rest.strip_prefix("notin"), rest.strip_prefix("in")) {
        (Some(list), _) => (Operator::NotIn, list),
        (_, Some(list)) => (Operator::In, list),
        _ => return Err(format!("found '{rest}', expected: in, notin, =, ==, !=, gt, lt")),
    };
    let list = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')'));
    let list = list.ok_or_else(|| format!("found '{rest}', expected: '('"))?;
    Ok((key, operator, list.split(',').map(str::trim).collect()))
}

/// Formats a `metav1.LabelSelector`, or the map that older kinds have instead, as kubectl prints it.
pub(crate) fn as_text(selector: &Value) -> String {
    let is_map = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let equal = entries(selector, if is_map { "" } else { "/matchLabels" });
    let expressions = list(selector, "/matchExpressions").iter().map(|expression| {
        let mut values: Vec<&str> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let (key, values) = (text(expression, "/key"), values.join(","));
        match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    });
    let parts = equal.map(|(key, value)| format!("{key}={}", text(value, ""))).chain(expressions);
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Draft;
    use serde_json::json;

    fn pod() -> StoredObject {
        let value = json!({
            "metadata": {"name": "a", "namespace": "b", "labels": {"app": "web", "tier": "1"}},
            "spec": {"nodeName": "n,1"},
        });
        Draft::new(&value, &["spec.nodeName".to_owned()]).seal(1)
    }

    #[test]
    fn label_selectors_match_as_in_kube_apiserver() {
        for (selector, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("app=web,tier==1", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web)", true),
            ("app notin (db,web),tier", false),
            ("other notin (a)", true),
            ("tier>0,tier<2", true),
            ("tier>1", false),
        ] {
            let selector =
                Selector::parse("", selector, "", None).unwrap_or_else(|e| panic!("{selector}: {e}"));
            assert_eq!(selector.matches(&pod()), expected, "{selector:?}");
        }
        for wrong in ["a=b,,", "a in b", "a in (b", "-a", "a~b c", "a>x", "=b"] {
            assert_eq!(Selector::parse("", wrong, "", None).map(|_| ()).unwrap_err().code, 400, "{wrong}");
        }
    }

    #[test]
    fn field_selectors_accept_the_fields_of_the_kind() {
        let known = ["spec.nodeName".to_owned()];
        for (selector, expected) in [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("metadata.namespace==b,metadata.name=a", true),
            ("spec.nodeName=n\\,1", true),
            ("spec.nodeName=", false),
            ("spec.nodeName!=", true),
        ] {
            let selector = Selector::parse("", "", selector, Some(&known)).unwrap();
            assert_eq!(selector.matches(&pod()), expected, "{selector:?}");
        }
        let unknown = Selector::parse("", "", "spec.foo=x", Some(&known)).unwrap_err();
        assert_eq!(unknown.message, "field label not supported: spec.foo");
        assert!(Selector::parse("", "", "nonsense", Some(&known)).is_err());
    }
}
