//! Functions of IP addresses and networks.

use std::net::IpAddr;

use super::text;
use crate::{
    cidr::{self, Cidr, print_ip},
    fuel::Fuel,
    value::Value,
};

fn ip<'a>(args: &[Value<'a>], result: impl FnOnce(IpAddr) -> Value<'a>) -> Value<'a> {
    match &args[0] {
        Value::Ip(ip) => result(*ip),
        _ => Value::no_overload(),
    }
}

fn network<'a>(args: &[Value<'a>], result: impl FnOnce(Cidr) -> Value<'a>) -> Value<'a> {
    match &args[0] {
        Value::Cidr(cidr) => result(*cidr),
        _ => Value::no_overload(),
    }
}

pub(crate) fn parse_ip<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    cidr::parse_ip(text(args, 0)).map_or_else(Value::error, Value::Ip)
}

pub(crate) fn ip_of_cidr<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    network(args, |cidr| Value::Ip(cidr.ip))
}

pub(crate) fn is_ip<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(cidr::parse_ip(text(args, 0)).is_ok())
}

pub(crate) fn is_canonical<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let text = text(args, 0);
    cidr::parse_ip(text).map_or_else(Value::error, |ip| Value::Bool(print_ip(ip) == text))
}

pub(crate) fn family<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    ip(args, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 }))
}

pub(crate) fn is_unspecified<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    ip(args, |ip| Value::Bool(ip.is_unspecified()))
}

pub(crate) fn is_loopback<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    ip(args, |ip| Value::Bool(ip.is_loopback()))
}

pub(crate) fn is_link_local_multicast<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    ip(args, |ip| Value::Bool(cidr::is_link_local_multicast(ip)))
}

pub(crate) fn is_link_local_unicast<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    ip(args, |ip| Value::Bool(cidr::is_link_local_unicast(ip)))
}

pub(crate) fn is_global_unicast<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    ip(args, |ip| Value::Bool(cidr::is_global_unicast(ip)))
}

fn network_of<'a>(text: &str) -> Result<Cidr, Value<'a>> {
    Cidr::parse(text).map_err(|why| {
        Value::error(format!("network address parse error during conversion from string: {why}"))
    })
}

pub(crate) fn parse_cidr<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    network_of(text(args, 0)).map_or_else(|error| error, Value::Cidr)
}

pub(crate) fn is_cidr<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(Cidr::parse(text(args, 0)).is_ok())
}

/// Returns true if the network contains an address, which can be given as a text. As in Kubernetes, the error for an
/// invalid text says only that there is no such overload.
pub(crate) fn contains_ip<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    network(args, |network| match &args[1] {
        Value::Ip(ip) => Value::Bool(network.contains_ip(*ip)),
        Value::String(text) => match cidr::parse_ip(text.as_str()) {
            Ok(ip) => Value::Bool(network.contains_ip(ip)),
            Err(_) => Value::no_overload(),
        },
        _ => Value::no_overload(),
    })
}

/// Returns true if the network contains another one, which can be given as a text.
pub(crate) fn contains_cidr<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    network(args, |network| {
        let other = match &args[1] {
            Value::Cidr(cidr) => Ok(*cidr),
            _ => network_of(text(args, 1)),
        };
        other.map_or_else(|error| error, |other| Value::Bool(network.contains(&other)))
    })
}

pub(crate) fn prefix_length<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    network(args, |cidr| Value::Int(cidr.bits.into()))
}

pub(crate) fn masked<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    network(args, |cidr| Value::Cidr(cidr.masked()))
}
