//! Label selectors in queries.

use super::plan::Labels;

/// Returns the selector of some labels as the value of a query parameter.
pub(super) fn selector(labels: &Labels) -> String {
    let terms: Vec<_> = labels.iter().map(|(key, value)| format!("{key}%3D{value}")).collect();
    terms.join("%2C").replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_encoded_for_a_query() {
        let labels =
            [("a/b", "c"), ("type", "unsched")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(selector(&labels.into()), "a%2Fb%3Dc%2Ctype%3Dunsched");
        assert_eq!(selector(&Labels::new()), "");
    }
}
