//! Paths and queries of requests, parsed as in Go's HTTP server.

use percent_encoding::percent_decode_str;

/// Returns the path with percent-encoding decoded; `None` if an escape sequence is invalid.
pub(crate) fn path(raw: &str) -> Option<String> {
    decoded(raw)
}

/// Returns the names and values in a query; omits invalid pairs.
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .filter_map(|(name, value)| {
            Some((decoded(&name.replace('+', " "))?, decoded(&value.replace('+', " "))?))
        })
        .collect()
}

fn decoded(raw: &str) -> Option<String> {
    let sound = raw
        .split('%')
        .skip(1)
        .all(|rest| rest.len() >= 2 && rest.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit));
    sound.then(|| percent_decode_str(raw).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_invalid_ones_detected() {
        for (raw, expected) in [
            ("/healthz", Some("/healthz")),
            ("/health%7A/a%20b", Some("/healthz/a b")),
            ("/%zz", None),
            ("/%4", None),
            ("/%", None),
            ("/%é", None),
        ] {
            assert_eq!(path(raw).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn queries_are_parsed_as_in_go() {
        let read = |query| -> Vec<String> {
            pairs(query).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        assert_eq!(read("verbose"), ["verbose="]);
        assert_eq!(read("exclude=a&exclude=b%2Bc&x=1+2"), ["exclude=a", "exclude=b+c", "x=1 2"]);
        assert_eq!(read("a;b&%zz=1&&c=d=e"), ["c=d=e"]);
    }
}
