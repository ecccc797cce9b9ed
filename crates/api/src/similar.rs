//! Suggestions for misspelled names.

/// Returns the name in `known` that `written` probably stands for: the nearest name, if at most a third of its letters
/// (or one letter, if it has fewer than three) are wrong, missing, superfluous or swapped. Case is ignored. `written`
/// itself is never returned.
pub fn similar<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let near = |name: &'a str| {
        let wrong = strsim::osa_distance(&lower, &name.to_lowercase());
        (name != written && wrong <= name.chars().count().max(3) / 3).then_some((wrong, name))
    };
    known.into_iter().filter_map(near).min_by_key(|(wrong, _)| *wrong).map(|(_, name)| name)
}

/// Returns a suffix for a message about an unknown name: a space and `` (did you mean `name`?)``, or the empty string.
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    suggestion(similar(written, known))
}

/// Returns the suffix of [`did_you_mean`] for a given suggestion; empty for `None`.
pub fn suggestion(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let known = ["NodeName", "NodePorts", "NodeAffinity", "cpu"];
        for (written, expected) in [
            ("NodeNmae", Some("NodeName")),
            ("nodeports", Some("NodePorts")),
            ("NodeAfinity", Some("NodeAffinity")),
            ("cp", Some("cpu")),
            ("gpu", Some("cpu")),
            ("Something", None),
            ("", None),
        ] {
            assert_eq!(similar(written, known), expected, "{written}");
        }
        assert_eq!(did_you_mean("NodeNam", known), " (did you mean `NodeName`?)");
        assert_eq!(did_you_mean("Something", known), "");
    }

    #[test]
    fn a_name_is_not_suggested_for_itself() {
        assert_eq!(similar("NodeName", ["NodeName", "NodeNames"]), Some("NodeNames"));
    }
}
