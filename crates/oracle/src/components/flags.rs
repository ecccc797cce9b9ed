//! Merging of default flags with a caller's flags.

/// Returns `defaults` without the flags that `extra` sets, followed by `extra`. Every flag has the form `--name=value`.
/// Defaults are removed because some Kubernetes components join the values of a list flag that is passed twice.
pub(super) fn merge(defaults: Vec<String>, extra: &[String]) -> Vec<String> {
    let mut flags = defaults;
    flags.retain(|flag| !extra.iter().any(|other| name(other) == name(flag)));
    flags.extend_from_slice(extra);
    flags
}

fn name(flag: &str) -> &str {
    flag.split_once('=').map_or(flag, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(flags: &[&str]) -> Vec<String> {
        flags.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_extra_flag_replaces_the_default_of_the_same_name() {
        let merged = merge(strings(&["--a=1", "--ab=2", "-v=0"]), &strings(&["--a=3", "--c=4"]));
        assert_eq!(merged, strings(&["--ab=2", "-v=0", "--a=3", "--c=4"]));
    }
}
