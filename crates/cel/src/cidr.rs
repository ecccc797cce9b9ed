//! IP addresses and networks, as Go's `net/netip` reads and prints them.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::printed::quoted;

/// A network. Bits of the address after the prefix may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) ip: IpAddr,
    /// Length of the prefix.
    pub(crate) bits: u8,
}

/// Parses an address. Zones and IPv4-mapped IPv6 addresses are not allowed.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let parsed = parse_address(text).map_err(|why| {
        format!("IP Address {} parse error during conversion from string: {why}", quoted(text))
    })?;
    if parsed.zone.is_some() {
        return Err(format!("IP address {} with zone value is not allowed", quoted(text)));
    }
    if is_mapped(parsed.ip) {
        return Err(mapped(text));
    }
    Ok(parsed.ip)
}

fn mapped(text: &str) -> String {
    format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text))
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Prints an address.
pub(crate) fn print_ip(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => print_v6(ip),
    }
}

/// Prints an IPv6 address. The longest run of at least two zero groups is shortened to `::`.
fn print_v6(ip: Ipv6Addr) -> String {
    if let Some(v4) = ip.to_ipv4_mapped() {
        return format!("::ffff:{v4}");
    }
    let groups = ip.segments();
    let (mut start, mut end) = (8, 8);
    let mut at = 0;
    while at < 8 {
        let zeros = groups[at..].iter().take_while(|group| **group == 0).count();
        if zeros >= 2 && zeros > end - start {
            (start, end) = (at, at + zeros);
        }
        at += zeros.max(1);
    }
    let print = |groups: &[u16]| groups.iter().map(|it| format!("{it:x}")).collect::<Vec<_>>().join(":");
    match start {
        8 => print(&groups),
        _ => format!("{}::{}", print(&groups[..start]), print(&groups[end..])),
    }
}

/// Parses an address of any form, which may have a zone.
pub(crate) fn check_address(text: &str) -> Result<IpAddr, String> {
    parse_address(text).map(|address| address.ip)
}

struct Address<'t> {
    ip: IpAddr,
    zone: Option<&'t str>,
}

fn failure(text: &str, message: &str, at: Option<&str>) -> String {
    match at {
        None => format!("ParseAddr({}): {message}", quoted(text)),
        Some(at) => format!("ParseAddr({}): {message} (at {})", quoted(text), quoted(at)),
    }
}

fn parse_address(text: &str) -> Result<Address<'_>, String> {
    match text.chars().find(|c| matches!(c, '.' | ':' | '%')) {
        Some('.') => parse_v4(text, text).map(|ip| Address { ip: IpAddr::V4(ip), zone: None }),
        Some(':') => parse_v6(text),
        Some(_) => Err(failure(text, "missing IPv6 address", None)),
        None => Err(failure(text, "unable to parse IP", None)),
    }
}

/// Parses an IPv4 address, which may be a part of `whole`.
fn parse_v4(whole: &str, text: &str) -> Result<Ipv4Addr, String> {
    let fail = |message: &str, at: Option<&str>| Err(failure(whole, message, at));
    let (mut fields, mut field, mut value, mut digits) = ([0u8; 4], 0, 0u32, 0);
    for (at, c) in text.char_indices() {
        if let Some(digit) = c.to_digit(10) {
            if digits == 1 && value == 0 {
                return fail("IPv4 field has octet with leading zero", None);
            }
            value = value * 10 + digit;
            digits += 1;
            if value > 255 {
                return fail("IPv4 field has value >255", None);
            }
        } else if c == '.' {
            // .1.2.3, 1.2.3. and 1..2.3
            if at == 0 || at == text.len() - 1 || text.as_bytes()[at - 1] == b'.' {
                return fail("IPv4 field must have at least one digit", Some(&text[at..]));
            }
            if field == 3 {
                return fail("IPv4 address too long", None);
            }
            fields[field] = value as u8;
            field += 1;
            (value, digits) = (0, 0);
        } else {
            return fail("unexpected character", Some(&text[at..]));
        }
    }
    if field < 3 {
        return fail("IPv4 address too short", None);
    }
    fields[3] = value as u8;
    Ok(fields.into())
}

fn parse_v6(text: &str) -> Result<Address<'_>, String> {
    let fail = |message: &str, at: Option<&str>| Err(failure(text, message, at));
    let (address, zone) = text.split_once('%').map_or((text, None), |(ip, zone)| (ip, Some(zone)));
    if zone == Some("") {
        return fail("zone must be a non-empty string", None);
    }
    let mut rest = address;
    let mut bytes = [0u8; 16];
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok(Address { ip: IpAddr::V6(Ipv6Addr::UNSPECIFIED), zone });
        }
    }
    let mut filled = 0;
    while filled < 16 {
        let mut value = 0u32;
        let mut offset = 0;
        for c in rest.bytes() {
            let Some(digit) = char::from(c).to_digit(16) else { break };
            value = (value << 4) + digit;
            if offset > 3 {
                return fail("each group must have 4 or less digits", Some(rest));
            }
            if value > 0xffff {
                return fail("IPv6 field has value >=2^16", Some(rest));
            }
            offset += 1;
        }
        if offset == 0 {
            return fail("each colon-separated field must have at least one digit", Some(rest));
        }
        if rest.as_bytes().get(offset) == Some(&b'.') {
            if ellipsis.is_none() && filled != 12 {
                return fail(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    Some(rest),
                );
            }
            if filled + 4 > 16 {
                return fail(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    Some(rest),
                );
            }
            let end = zone.map_or(text.len(), |zone| text.len() - zone.len() - 1);
            let v4 = parse_v4(text, &text[end - rest.len()..end])?;
            bytes[filled..filled + 4].copy_from_slice(&v4.octets());
            rest = "";
            filled += 4;
            break;
        }
        bytes[filled..filled + 2].copy_from_slice(&(value as u16).to_be_bytes());
        filled += 2;
        rest = &rest[offset..];
        if rest.is_empty() {
            break;
        }
        if !rest.starts_with(':') {
            return fail("unexpected character, want colon", Some(rest));
        }
        if rest.len() == 1 {
            return fail("colon must be followed by more characters", Some(rest));
        }
        rest = &rest[1..];
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return fail("multiple :: in address", Some(rest));
            }
            ellipsis = Some(filled);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return fail("trailing garbage after address", Some(rest));
    }
    match ellipsis {
        None if filled < 16 => return fail("address string too short", None),
        Some(_) if filled == 16 => return fail("the :: must expand to at least one field of zeros", None),
        Some(at) if filled < 16 => {
            let tail = filled - at;
            bytes.copy_within(at..filled, 16 - tail);
            bytes[at..16 - tail].fill(0);
        }
        _ => {}
    }
    Ok(Address { ip: IpAddr::V6(bytes.into()), zone })
}

impl Cidr {
    /// Parses a network.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parsed = Self::parse_prefix(text)
            .map_err(|why| format!("network address parse error during conversion from string: {why}"))?;
        if is_mapped(parsed.ip) {
            return Err(mapped(text));
        }
        Ok(parsed)
    }

    fn parse_prefix(text: &str) -> Result<Self, String> {
        let fail = |message: &str| Err(format!("netip.ParsePrefix({}): {message}", quoted(text)));
        let Some((address, bits)) = text.rsplit_once('/') else { return fail("no '/'") };
        let address = match parse_address(address) {
            Ok(address) => address,
            Err(why) => return fail(&why),
        };
        if address.zone.is_some() && address.ip.is_ipv6() {
            return fail("IPv6 zones cannot be present in a prefix");
        }
        let digits = bits.bytes();
        let is_number = !bits.is_empty() && digits.clone().all(|c| c.is_ascii_digit());
        if !is_number || bits.len() > 1 && bits.starts_with('0') {
            return fail(&format!("bad bits after slash: {}", quoted(bits)));
        }
        let most = if address.ip.is_ipv4() { 32 } else { 128 };
        let Ok(bits) = bits.parse::<i64>() else {
            return fail(&format!("bad bits after slash: {}", quoted(bits)));
        };
        match u8::try_from(bits).ok().filter(|bits| *bits <= most) {
            Some(bits) => Ok(Self { ip: address.ip, bits }),
            None => fail("prefix length out of range"),
        }
    }

    /// The network with all bits after the prefix cleared.
    pub(crate) fn masked(&self) -> Self {
        Self { ip: masked(self.ip, self.bits), bits: self.bits }
    }

    pub(crate) fn contains_ip(&self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4() && masked(ip, self.bits) == masked(self.ip, self.bits)
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.contains_ip(other.ip)
    }
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", print_ip(self.ip), self.bits)
    }
}

/// Returns true for every address that is not unspecified, loopback, multicast, link-local or the IPv4 broadcast
/// address.
pub(crate) fn is_global_unicast(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(is_broadcast
        || ip.is_unspecified()
        || ip.is_loopback()
        || ip.is_multicast()
        || is_link_local_unicast(ip))
}

pub(crate) fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(crate) fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_printed_in_canonical_form() {
        for (text, expected) in [
            ("1.2.3.4", Ok("1.2.3.4")),
            ("2001:DB8:0:0:1:0:0:1", Ok("2001:db8::1:0:0:1")),
            ("::", Ok("::")),
            ("1:0:2:3:4:5:6:7", Ok("1:0:2:3:4:5:6:7")),
            ("::1.2.3.4", Ok("::102:304")),
            ("::ffff:1.2.3.4", Err("IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed")),
            ("fe80::1%eth0", Err("IP address \"fe80::1%eth0\" with zone value is not allowed")),
        ] {
            let printed = parse_ip(text).map(print_ip);
            assert_eq!(printed.as_deref().map_err(String::as_str), expected);
        }
    }

    #[test]
    fn errors_say_what_is_wrong_with_an_address() {
        for (text, expected) in [
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("1..2.3", "IPv4 field must have at least one digit (at \".2.3\")"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("1:2", "address string too short"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("x", "unable to parse IP"),
        ] {
            let error = parse_ip(text).unwrap_err();
            assert!(error.ends_with(&format!("ParseAddr({text:?}): {expected}")), "{error}");
        }
    }

    #[test]
    fn networks_contain_addresses_and_smaller_networks() {
        let net = Cidr::parse("10.1.0.0/16").unwrap();
        assert!(net.contains_ip("10.1.2.3".parse().unwrap()));
        assert!(!net.contains_ip("::1".parse().unwrap()));
        assert!(net.contains(&Cidr::parse("10.1.5.0/24").unwrap()));
        assert!(!net.contains(&Cidr::parse("10.0.0.0/8").unwrap()));
        assert_eq!(Cidr::parse("10.1.2.3/16").unwrap().masked().to_string(), "10.1.0.0/16");
        assert!(Cidr::parse("10.1.2.3/33").is_err());
    }
}
