//! Functions of URLs.

use std::rc::Rc;

use super::text;
use crate::{fuel::Fuel, map::Entries, url::Url, value::Value};

fn part<'a>(args: &[Value<'a>], part: impl FnOnce(&Url) -> &str) -> Value<'a> {
    match &args[0] {
        Value::Url(url) => Value::string(part(url)),
        _ => Value::no_overload(),
    }
}

pub(crate) fn parse<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match Url::parse(text(args, 0)) {
        Ok(url) => Value::Url(Rc::new(url)),
        Err(why) => Value::error(format!("URL parse error during conversion from string: {why}")),
    }
}

pub(crate) fn is_valid<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(Url::check_request(text(args, 0)).is_ok())
}

pub(crate) fn scheme<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |url| &url.scheme)
}

pub(crate) fn host<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |url| &url.host)
}

pub(crate) fn host_name<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, Url::host_name)
}

pub(crate) fn port<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, Url::port)
}

pub(crate) fn escaped_path<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match &args[0] {
        Value::Url(url) => Value::string(url.escaped_path()),
        _ => Value::no_overload(),
    }
}

pub(crate) fn query<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let Value::Url(url) = &args[0] else { return Value::no_overload() };
    let mut entries = Entries::default();
    for (name, values) in url.parameters() {
        if let Err(error) = entries.set(Value::string(name), Value::strings(values)) {
            return Value::Error(error);
        }
    }
    entries.into()
}
