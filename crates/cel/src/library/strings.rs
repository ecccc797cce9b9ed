//! Functions of strings. Positions count characters.

use regex::Regex;

use crate::{errors::EvalError, eval::Evaluated, functions::Function, value::Value};

/// Calls a function of strings; returns `None` for other functions and arguments.
pub(super) fn call<'a>(function: Function, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    use Function as F;
    if function == F::Join {
        return join(args);
    }
    let (Value::String(target), rest) = args.split_first()? else {
        return None;
    };
    let target = target.as_str();
    let bool = |value| Ok(Value::Bool(value));
    let string = |text: String| Ok(Value::string(text));
    let int = |number: usize| Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    Some(match (function, rest) {
        (F::Size, []) => int(target.chars().count()),
        (F::Trim, []) => string(target.trim().to_owned()),
        (F::LowerAscii, []) => string(target.to_ascii_lowercase()),
        (F::UpperAscii, []) => string(target.to_ascii_uppercase()),
        (F::Add, [Value::String(other)]) => string(format!("{target}{}", other.as_str())),
        (F::Contains, [Value::String(other)]) => bool(target.contains(other.as_str())),
        (F::StartsWith, [Value::String(other)]) => bool(target.starts_with(other.as_str())),
        (F::EndsWith, [Value::String(other)]) => bool(target.ends_with(other.as_str())),
        (F::Matches, [Value::String(pattern)]) => {
            compiled(pattern.as_str()).map(|it| Value::Bool(it.is_match(target)))
        }
        (F::Find, [Value::String(pattern)]) => compiled(pattern.as_str())
            .map(|it| Value::string(it.find(target).map(|found| found.as_str()).unwrap_or_default())),
        (F::FindAll, [Value::String(pattern)]) => find_all(target, pattern.as_str(), -1),
        (F::FindAll, [Value::String(pattern), Value::Int(limit)]) => {
            find_all(target, pattern.as_str(), *limit)
        }
        (F::CharAt, [Value::Int(at)]) => char_at(target, *at),
        (F::IndexOf, [Value::String(text)]) => index_of(target, text.as_str(), 0),
        (F::IndexOf, [Value::String(text), Value::Int(from)]) => index_of(target, text.as_str(), *from),
        (F::LastIndexOf, [Value::String(text)]) => last_index_of(target, text.as_str(), None),
        (F::LastIndexOf, [Value::String(text), Value::Int(from)]) => {
            last_index_of(target, text.as_str(), Some(*from))
        }
        (F::Replace, [Value::String(from), Value::String(to)]) => {
            string(target.replace(from.as_str(), to.as_str()))
        }
        (F::Replace, [Value::String(from), Value::String(to), Value::Int(count)]) => {
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            string(target.replacen(from.as_str(), to.as_str(), count))
        }
        (F::Split, [Value::String(separator)]) => split(target, separator.as_str(), -1),
        (F::Split, [Value::String(separator), Value::Int(limit)]) => {
            split(target, separator.as_str(), *limit)
        }
        (F::Substring, [Value::Int(from)]) => substring(target, *from, None),
        (F::Substring, [Value::Int(from), Value::Int(to)]) => substring(target, *from, Some(*to)),
        _ => return None,
    })
}

fn compiled(pattern: &str) -> Result<Regex, EvalError> {
    Regex::new(pattern).map_err(|_| EvalError::new(format!("error parsing regexp: {pattern}")))
}

fn find_all<'a>(target: &str, pattern: &str, limit: i64) -> Evaluated<'a> {
    let found = compiled(pattern)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = found.find_iter(target).take(limit);
    Ok(Value::list(found.map(|found| Value::string(found.as_str())).collect()))
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

fn char_at<'a>(target: &str, at: i64) -> Evaluated<'a> {
    let index = usize::try_from(at).map_err(|_| out_of_range(at))?;
    match target.chars().nth(index) {
        Some(found) => Ok(Value::string(found.to_string())),
        None if index == target.chars().count() => Ok(Value::string("")),
        None => Err(out_of_range(at)),
    }
}

fn index_of<'a>(target: &str, text: &str, from: i64) -> Evaluated<'a> {
    let target: Vec<char> = target.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let begin =
        usize::try_from(from).ok().filter(|from| *from <= target.len()).ok_or_else(|| out_of_range(from))?;
    let last = target.len().checked_sub(text.len());
    let found = last.and_then(|last| (begin..=last).find(|at| target[*at..].starts_with(&text)));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

fn last_index_of<'a>(target: &str, text: &str, from: Option<i64>) -> Evaluated<'a> {
    let target: Vec<char> = target.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let from = from.unwrap_or(target.len() as i64);
    let end =
        usize::try_from(from).ok().filter(|from| *from <= target.len()).ok_or_else(|| out_of_range(from))?;
    let last = target.len().checked_sub(text.len()).map(|last| last.min(end));
    let found = last.and_then(|last| (0..=last).rev().find(|at| target[*at..].starts_with(&text)));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

fn split<'a>(target: &str, separator: &str, limit: i64) -> Evaluated<'a> {
    let parts: Vec<String> = match (usize::try_from(limit), separator.is_empty()) {
        (Ok(0), _) => Vec::new(),
        (Ok(limit), false) => target.splitn(limit, separator).map(str::to_owned).collect(),
        (Err(_), false) => target.split(separator).map(str::to_owned).collect(),
        (limit, true) => {
            let characters: Vec<char> = target.chars().collect();
            let limit = limit.unwrap_or(usize::MAX).min(characters.len().max(1));
            let (single, rest) = characters.split_at(limit.saturating_sub(1).min(characters.len()));
            let rest = (!rest.is_empty()).then(|| rest.iter().collect());
            single.iter().map(char::to_string).chain(rest).collect()
        }
    };
    Ok(Value::list(parts.into_iter().map(Value::string).collect()))
}

fn substring<'a>(target: &str, from: i64, to: Option<i64>) -> Evaluated<'a> {
    let characters: Vec<char> = target.chars().collect();
    let index = |at: i64| {
        usize::try_from(at).ok().filter(|at| *at <= characters.len()).ok_or_else(|| out_of_range(at))
    };
    let begin = index(from)?;
    let end = to.map_or(Ok(characters.len()), index)?;
    if begin > end {
        let to = to.unwrap_or_default();
        return Err(EvalError::new(format!("invalid substring range. start: {from}, end: {to}")));
    }
    Ok(Value::string(characters[begin..end].iter().collect::<String>()))
}

fn join<'a>(args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return None,
    };
    let parts: Option<Vec<&str>> = list.iter().map(Value::text).collect();
    Some(parts.map(|parts| Value::string(parts.join(separator))).ok_or_else(EvalError::no_overload))
}
