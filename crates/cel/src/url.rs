//! URLs, as Go's `net/url` reads and prints them.

use std::fmt;

use crate::{cidr, printed::quoted};

/// A URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// Text after the scheme, if it does not begin with a slash.
    opaque: String,
    user: Option<(String, Option<String>)>,
    /// Host with its port.
    pub(crate) host: String,
    path: String,
    /// The path as it was written, if that differs from the default encoding of `path`.
    raw_path: Option<String>,
    has_empty_query: bool,
    query: String,
    fragment: String,
    raw_fragment: Option<String>,
    /// True if the path follows the scheme directly.
    lacks_host: bool,
}

/// Part of a URL. It determines which characters need not be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    QueryComponent,
    Fragment,
}

/// Maximum number of parameters of a query.
const MOST_PARAMETERS: usize = 10_000;

impl Url {
    /// Parses an absolute URL or an absolute path.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::check_request(text)?;
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::parse_part(rest, false).map_err(|why| failure(rest, &why))?;
        if !fragment.is_empty() {
            url.fragment = unescape(fragment, Part::Fragment).map_err(|why| failure(text, &why))?;
            let is_usual = escape(&url.fragment, Part::Fragment) == fragment;
            url.raw_fragment = (!is_usual).then(|| fragment.to_owned());
        }
        Ok(url)
    }

    /// Returns an error unless the text can be the URL of a request.
    pub(crate) fn check_request(text: &str) -> Result<(), String> {
        Self::parse_part(text, true).map(drop).map_err(|why| failure(text, &why))
    }

    fn parse_part(text: &str, is_request: bool) -> Result<Self, String> {
        if text.bytes().any(|c| c < b' ' || c == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && is_request {
            return Err("empty url".to_owned());
        }
        let mut url = Self::default();
        if text == "*" {
            url.path = text.to_owned();
            return Ok(url);
        }
        let (scheme, mut rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        if rest.ends_with('?') && rest.matches('?').count() == 1 {
            url.has_empty_query = true;
            rest = &rest[..rest.len() - 1];
        } else if let Some((before, query)) = rest.split_once('?') {
            url.query = query.to_owned();
            rest = before;
        }
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            if is_request {
                return Err("invalid URI for request".to_owned());
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let may_have_host = !url.scheme.is_empty() || !is_request && !rest.starts_with("///");
        if let Some(authority) = rest.strip_prefix("//").filter(|_| may_have_host) {
            let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
            rest = path;
            url.set_authority(authority)?;
        } else if !url.scheme.is_empty() && rest.starts_with('/') {
            url.lacks_host = true;
        }
        url.path = unescape(rest, Part::Path)?;
        url.raw_path = (escape(&url.path, Part::Path) != rest).then(|| rest.to_owned());
        Ok(url)
    }

    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let Some((user, host)) = authority.rsplit_once('@') else {
            self.host = parse_host(&self.scheme, authority)?;
            return Ok(());
        };
        self.host = parse_host(&self.scheme, host)?;
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user.chars().all(is_valid) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        self.user = Some(match user.split_once(':') {
            None => (unescape(user, Part::User)?, None),
            Some((name, password)) => (unescape(name, Part::User)?, Some(unescape(password, Part::User)?)),
        });
        Ok(())
    }

    fn split_host(&self) -> (&str, &str) {
        let (mut host, mut port) = (self.host.as_str(), "");
        if let Some(colon) = host.rfind(':')
            && is_port(&host[colon..])
        {
            (host, port) = (&host[..colon], &host[colon + 1..]);
        }
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (inner.unwrap_or(host), port)
    }

    pub(crate) fn host_name(&self) -> &str {
        self.split_host().0
    }

    pub(crate) fn port(&self) -> &str {
        self.split_host().1
    }

    pub(crate) fn escaped_path(&self) -> String {
        match &self.raw_path {
            Some(raw) if is_encoded(raw, Part::Path) => raw.clone(),
            _ if self.path == "*" => "*".to_owned(),
            _ => escape(&self.path, Part::Path),
        }
    }

    /// Names and values of the query's parameters, in the order of the query. Malformed parameters are left out. A
    /// query with more than `MOST_PARAMETERS` parameters has none.
    pub(crate) fn parameters(&self) -> Vec<(String, Vec<String>)> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        if self.query.matches('&').count() >= MOST_PARAMETERS {
            return all;
        }
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Ok(key), Ok(value)) =
                (unescape(key, Part::QueryComponent), unescape(value, Part::QueryComponent))
            else {
                continue;
            };
            match all.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => all.push((key, vec![value])),
            }
        }
        all
    }
}

fn failure(url: &str, why: &str) -> String {
    format!("parse {}: {why}", quoted(url))
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    const WRONG_IP: &str = "invalid IP-literal";
    match host.rfind('[') {
        Some(0) => {
            let Some(close) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
            let port = &host[close + 1..];
            if !is_port(port) {
                return Err(format!("invalid port {} after host", quoted(port)));
            }
            let port = unescape(port, Part::Host)?;
            let name = &host[1..close];
            let name = match name.find("%25") {
                Some(zone) => unescape(&name[..zone], Part::Host)? + &unescape(&name[zone..], Part::Zone)?,
                None => unescape(name, Part::Host)?,
            };
            match cidr::check_address(&name) {
                Err(why) => return Err(format!("invalid host: {why}")),
                Ok(ip) if ip.is_ipv4() => return Err(WRONG_IP.to_owned()),
                Ok(_) => {}
            }
            return Ok(format!("[{name}]{port}"));
        }
        Some(_) => return Err(WRONG_IP.to_owned()),
        None => {}
    }
    if let Some(first) = host.find(':') {
        let is_strict = scheme == "http" || scheme == "https";
        let colon = if is_strict { first } else { host.rfind(':').unwrap_or(first) };
        if !is_port(&host[colon..]) {
            return Err(format!("invalid port {} after host", quoted(&host[colon..])));
        }
    }
    unescape(host, Part::Host)
}

/// Returns true if the text is empty, or is a colon followed only by digits.
fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|c| c.is_ascii_digit()),
        None => text.is_empty(),
    }
}

fn must_escape(c: u8, part: Part) -> bool {
    match c {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => false,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'[' | b']'
        | b'<' | b'>' | b'"'
            if matches!(part, Part::Host | Part::Zone) =>
        {
            false
        }
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match part {
            Part::Path => c == b'?',
            Part::User => matches!(c, b'@' | b'/' | b'?' | b':'),
            Part::Fragment => false,
            Part::QueryComponent | Part::Host | Part::Zone => true,
        },
        b'!' | b'(' | b')' | b'*' => part != Part::Fragment,
        _ => true,
    }
}

/// Returns true if the text contains only characters that are allowed in an encoded text.
fn is_encoded(text: &str, part: Part) -> bool {
    text.bytes().all(|c| b"!$&'()*+,;=:@[]%".contains(&c) || !must_escape(c, part))
}

fn escape(text: &str, part: Part) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.bytes() {
        match c {
            b' ' if part == Part::QueryComponent => escaped.push('+'),
            c if must_escape(c, part) => escaped.push_str(&format!("%{c:02X}")),
            c => escaped.push(char::from(c)),
        }
    }
    escaped
}

fn unescape(text: &str, part: Part) -> Result<String, String> {
    let bytes = text.as_bytes();
    let is_host = matches!(part, Part::Host | Part::Zone);
    let wrong =
        |escape: &[u8]| Err(format!("invalid URL escape {}", quoted(&String::from_utf8_lossy(escape))));
    let mut unescaped = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(c) = bytes.get(at) {
        at += 1;
        match c {
            b'%' => {
                let digits = bytes.get(at..at + 2).and_then(|digits| std::str::from_utf8(digits).ok());
                let value = digits
                    .filter(|digits| digits.bytes().all(|c| c.is_ascii_hexdigit()))
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let sequence = &bytes[at - 1..bytes.len().min(at + 2)];
                let Some(value) = value else { return wrong(sequence) };
                let is_percent = sequence == b"%25";
                let is_wrong = match part {
                    Part::Host => value < 0x80 && !is_percent,
                    Part::Zone => !is_percent && value != b' ' && must_escape(value, Part::Host),
                    _ => false,
                };
                if is_wrong {
                    return wrong(sequence);
                }
                unescaped.push(value);
                at += 2;
            }
            b'+' if part == Part::QueryComponent => unescaped.push(b' '),
            c if is_host && c.is_ascii() && must_escape(*c, part) => {
                let character = quoted(&char::from(*c).to_string());
                return Err(format!("invalid character {character} in host name"));
            }
            c => unescaped.push(*c),
        }
    }
    Ok(String::from_utf8_lossy(&unescaped).into_owned())
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&self.scheme);
            text.push(':');
        }
        if self.opaque.is_empty() {
            let has_authority = !self.host.is_empty() || self.user.is_some();
            if has_authority || !self.scheme.is_empty() && !self.lacks_host {
                if has_authority || !self.path.is_empty() {
                    text.push_str("//");
                }
                if let Some((name, password)) = &self.user {
                    text.push_str(&escape(name, Part::User));
                    if let Some(password) = password {
                        text.push(':');
                        text.push_str(&escape(password, Part::User));
                    }
                    text.push('@');
                }
                text.push_str(&escape(&self.host, Part::Host));
            }
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                text.push('/');
            }
            if text.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                text.push_str("./");
            }
            text.push_str(&path);
        } else {
            text.push_str(&self.opaque);
        }
        if self.has_empty_query || !self.query.is_empty() {
            text.push('?');
            text.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            text.push('#');
            match &self.raw_fragment {
                Some(raw) if is_encoded(raw, Part::Fragment) => text.push_str(raw),
                _ => text.push_str(&escape(&self.fragment, Part::Fragment)),
            }
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_their_parts() {
        let url = Url::parse("HTTPS://user:p%40ss@[::1]:80/a b?k=1&k=2&x+y=%20#f").unwrap();
        assert_eq!((url.scheme.as_str(), url.host_name(), url.port()), ("https", "::1", "80"));
        assert_eq!(url.escaped_path(), "/a%20b");
        let parameters = url.parameters();
        assert_eq!(parameters[0], ("k".to_owned(), vec!["1".to_owned(), "2".to_owned()]));
        assert_eq!(parameters[1], ("x y".to_owned(), vec![" ".to_owned()]));
        assert_eq!(url.to_string(), "https://user:p%40ss@[::1]:80/a%20b?k=1&k=2&x+y=%20#f");
    }

    #[test]
    fn errors_say_what_is_wrong_with_a_url() {
        for (text, why) in [
            ("", "empty url"),
            ("a/b", "invalid URI for request"),
            (":a", "missing protocol scheme"),
            ("http://a:b/", "invalid port \":b\" after host"),
            ("http://a:b:1/", "invalid port \":b:1\" after host"),
            ("http://a b/", "invalid character \" \" in host name"),
            ("/%zz", "invalid URL escape \"%zz\""),
            ("http://[1/", "missing ']' in host"),
        ] {
            assert_eq!(Url::parse(text).unwrap_err(), format!("parse {text:?}: {why}"));
        }
    }
}
