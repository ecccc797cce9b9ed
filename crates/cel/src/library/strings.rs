//! Functions of strings. Positions count characters.

use super::{int, text};
use crate::{
    fuel::{Fuel, LARGEST},
    pattern::Pattern,
    printed::escape,
    value::{Error, Value},
};

fn out_of_range<'a>(index: i64) -> Value<'a> {
    Value::error(format!("index out of range: {index}"))
}

/// Returns the byte position of the character with an index. The position after the last character is valid.
fn byte_position(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    let positions = text.char_indices().map(|(at, _)| at);
    positions.chain([text.len()]).nth(index)
}

/// `size`, which checks its arguments itself.
pub(crate) fn size<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    args[0].size().map_or(Value::no_overload(), |size| Value::Int(size as i64))
}

/// Tests two arguments, after checking that they are strings.
fn test<'a>(args: &[Value<'a>], test: impl FnOnce(&str, &str) -> bool) -> Value<'a> {
    match (&args[0], &args[1]) {
        (Value::String(a), Value::String(b)) => Value::Bool(test(a.as_str(), b.as_str())),
        (Value::String(_), other) | (other, _) => other.clone().or_no_overload(),
    }
}

pub(crate) fn contains<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    test(args, |text, part| text.contains(part))
}

pub(crate) fn ends_with<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    test(args, |text, end| text.ends_with(end))
}

pub(crate) fn starts_with<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    test(args, |text, start| text.starts_with(start))
}

pub(crate) fn char_at<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let (text, index) = (text(args, 0), int(args, 1, 0));
    match byte_position(text, index) {
        Some(at) => Value::string(text[at..].chars().take(1).collect::<String>()),
        None => out_of_range(index),
    }
}

pub(crate) fn index_of<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let (text, part, start) = (text(args, 0), text(args, 1), int(args, 2, 0));
    if part.is_empty() {
        return Value::Int(start);
    }
    if start < 0 {
        return out_of_range(start);
    }
    let Some(from) = byte_position(text, start) else { return Value::Int(-1) };
    match text[from..].find(part) {
        Some(found) => Value::Int(start + text[from..from + found].chars().count() as i64),
        None => Value::Int(-1),
    }
}

pub(crate) fn last_index_of<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let (text, part) = (text(args, 0), text(args, 1));
    let length = text.chars().count() as i64;
    let default = if part.is_empty() { length } else { length - 1 };
    let last = int(args, 2, default);
    if part.is_empty() {
        return Value::Int(last);
    }
    if last < 0 && args.len() > 2 {
        return out_of_range(last);
    }
    if last >= length {
        return Value::Int(-1);
    }
    // `last` is the last position at which a match may begin.
    let end = byte_position(text, last).map(|at| text.len().min(at + part.len()));
    let mut end = end.unwrap_or(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    match text[..end].rfind(part) {
        Some(found) => Value::Int(text[..found].chars().count() as i64),
        None => Value::Int(-1),
    }
}

pub(crate) fn lower_ascii<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::string(text(args, 0).to_ascii_lowercase())
}

pub(crate) fn upper_ascii<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::string(text(args, 0).to_ascii_uppercase())
}

/// Returns the limit that an argument sets. A negative or missing argument means no limit.
fn limit(args: &[Value<'_>], at: usize) -> usize {
    usize::try_from(int(args, at, -1)).unwrap_or(usize::MAX)
}

pub(crate) fn replace<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let (text, old, new) = (text(args, 0), text(args, 1), text(args, 2));
    let size = text.len().saturating_add(new.len().saturating_mul(text.len() + 1));
    let is_too_large = size > LARGEST && text.matches(old).count().saturating_mul(new.len()) > LARGEST;
    if let Err(error) = spend(fuel, text.len(), is_too_large) {
        return Value::Error(error);
    }
    Value::string(text.replacen(old, new, limit(args, 3)))
}

fn spend(fuel: &Fuel, work: usize, is_too_large: bool) -> Result<(), Error> {
    if is_too_large { Err(Error::too_expensive()) } else { fuel.spend(work) }
}

pub(crate) fn split<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let (text, separator, most) = (text(args, 0), text(args, 1), limit(args, 2));
    if let Err(error) = fuel.spend(text.len()) {
        return Value::Error(error);
    }
    if most == 0 {
        return Value::list(Vec::new());
    }
    if !separator.is_empty() {
        return Value::strings(text.splitn(most, separator));
    }
    // Every part is one character, except that part number `most` is the rest of the text.
    let last = text.char_indices().map(|(at, _)| at).nth(most - 1).unwrap_or(text.len());
    let (characters, rest) = match text[last..].chars().nth(1) {
        Some(_) => text.split_at(last),
        None => (text, ""),
    };
    let characters = characters.chars().map(String::from);
    let rest = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
    Value::strings(characters.chain(rest))
}

pub(crate) fn substring<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let (text, start) = (text(args, 0), int(args, 1, 0));
    let end = match args.get(2) {
        Some(_) => int(args, 2, 0),
        None => i64::MAX,
    };
    if start > end {
        return Value::error(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let Some(from) = byte_position(text, start) else { return out_of_range(start) };
    if args.len() < 3 {
        return Value::string(&text[from..]);
    }
    match byte_position(text, end) {
        Some(to) => Value::string(&text[from..to]),
        None => out_of_range(end),
    }
}

pub(crate) fn trim<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::string(text(args, 0).trim())
}

/// Quotes a string as it is written in expressions.
pub(crate) fn quote<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let mut quoted = String::from("\"");
    for c in text(args, 0).chars() {
        match escape(c) {
            Some(escape) => quoted.push_str(escape),
            None => quoted.push(c),
        }
    }
    quoted.push('"');
    Value::string(quoted)
}

pub(crate) fn join<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let Some(list) = args[0].as_list() else { return Value::no_overload() };
    let separator = text(args, 1);
    let mut joined = String::new();
    for (at, element) in list.iter().enumerate() {
        if at > 0 {
            joined.push_str(separator);
        }
        let Some(part) = element.text() else {
            return Value::error(format!("join: invalid input: {}", element.go_print()));
        };
        joined.push_str(part);
        if let Err(error) = spend(fuel, 1, joined.len() > LARGEST) {
            return Value::Error(error);
        }
    }
    Value::string(joined)
}

/// `matches`, which checks its arguments itself.
pub(crate) fn matches<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match (&args[0], &args[1]) {
        (Value::String(text), Value::String(pattern)) => match Pattern::new(pattern.as_str()) {
            Ok(pattern) => Value::Bool(pattern.matches(text.as_str())),
            Err(why) => Value::error(why),
        },
        (_, other) => other.clone().or_no_overload(),
    }
}

/// Calls a function with the second argument as a pattern, or returns an error if the pattern is invalid.
fn with_pattern<'a>(args: &[Value<'a>], result: impl FnOnce(&Pattern) -> Value<'a>) -> Value<'a> {
    match Pattern::new(text(args, 1)) {
        Ok(pattern) => result(&pattern),
        Err(why) => Value::error(format!("Illegal regex: {why}")),
    }
}

pub(crate) fn find<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    with_pattern(args, |pattern| Value::string(pattern.find(text(args, 0))))
}

pub(crate) fn find_all<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    with_pattern(args, |pattern| Value::strings(pattern.find_all(text(args, 0), limit(args, 2))))
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Release;

    use super::*;

    fn called(op: crate::functions::Op, args: &[Value<'static>]) -> String {
        op(args, &Fuel::new(Release::V1_36)).go_print()
    }

    #[test]
    fn positions_count_characters() {
        let text = Value::string("häalloäal");
        let part = Value::string("äal");
        assert_eq!(called(char_at, &[text.clone(), Value::Int(1)]), "ä");
        assert_eq!(called(char_at, &[text.clone(), Value::Int(9)]), "");
        assert_eq!(called(char_at, &[text.clone(), Value::Int(10)]), "index out of range: 10");
        assert_eq!(called(index_of, &[text.clone(), part.clone()]), "1");
        assert_eq!(called(index_of, &[text.clone(), part.clone(), Value::Int(2)]), "6");
        assert_eq!(called(last_index_of, &[text.clone(), part.clone()]), "6");
        assert_eq!(called(last_index_of, &[text.clone(), part, Value::Int(5)]), "1");
        assert_eq!(called(substring, &[text.clone(), Value::Int(1), Value::Int(3)]), "äa");
        let wrong = "invalid substring range. start: 3, end: 1";
        assert_eq!(called(substring, &[text, Value::Int(3), Value::Int(1)]), wrong);
    }

    #[test]
    fn the_last_part_of_a_split_string_is_the_rest() {
        for (text, separator, most, expected) in [
            ("a-b-c", "-", -1, "[a, b, c]"),
            ("a-b-c", "-", 2, "[a, b-c]"),
            ("a-b-c", "-", 0, "[]"),
            ("äbc", "", -1, "[ä, b, c]"),
            ("äbc", "", 2, "[ä, bc]"),
            ("äbc", "", 3, "[ä, b, c]"),
            ("", "", -1, "[]"),
            ("", "-", -1, "[]"),
        ] {
            let args = [Value::string(text), Value::string(separator), Value::Int(most)];
            assert_eq!(called(split, &args), expected, "{text} {separator} {most}");
        }
    }
}
