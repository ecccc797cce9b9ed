//! Versions in a file that pins them, such as `go.mod`.

/// Returns the version of `module` that the file requires.
pub(super) fn required<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next()).flatten().filter(|word| word.starts_with('v'))
    })
}

/// Returns the Kubernetes version that a module version belongs to: staging modules (`k8s.io/kubectl`, …) have v0 where
/// Kubernetes has v1.
pub(super) fn kubernetes_version(version: &str) -> String {
    match version.strip_prefix("v0.") {
        Some(rest) => format!("v1.{rest}"),
        None => version.to_owned(),
    }
}

/// Changes every Kubernetes module at version `from` to version `to`, because Kubernetes modules are released together.
pub(super) fn with_kubernetes_moved(go_mod: &str, from: &str, to: &str) -> String {
    let (from, to) = (kubernetes_version(from), kubernetes_version(to));
    let staging = |version: &str| version.replacen("v1.", "v0.", 1);
    let moved = |line: &str| {
        let mut kubernetes = false;
        let words = line.split(' ').map(|word| {
            let at_version = kubernetes && (word == from || word == staging(&from));
            kubernetes |= word.trim_start().starts_with("k8s.io/");
            match at_version {
                true if word == from => to.clone(),
                true => staging(&to),
                false => word.to_owned(),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    go_mod.lines().map(|line| moved(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "module x\n\nrequire (\n\tgoogle.golang.org/protobuf v1.36.1 // indirect\n\tk8s.io/api v0.36.1\n\tk8s.io/klog/v2 v2.140.0\n\tk8s.io/kubernetes v1.36.1 // indirect\n)\n\nreplace (\n\tk8s.io/cri-api => k8s.io/cri-api v0.36.1\n)\n\nrequire k8s.io/kubectl v0.36.1\n";

    #[test]
    fn the_pinned_version_is_that_of_the_release() {
        let go_mod = include_str!("../../../../tests/real/go.mod");
        assert_eq!(required(go_mod, "k8s.io/kubernetes"), Some(harbormaster_api::Release::V1_36.version()));
    }

    #[test]
    fn the_required_version_is_found_in_blocks_and_single_lines() {
        assert_eq!(required(FILE, "k8s.io/kubernetes"), Some("v1.36.1"));
        assert_eq!(required(FILE, "k8s.io/kubectl"), Some("v0.36.1"));
        assert_eq!(required(FILE, "k8s.io/cri-api"), None);
    }

    #[test]
    fn all_kubernetes_modules_change_version_together_and_no_other_module_changes() {
        let moved = with_kubernetes_moved(FILE, "v1.36.1", "v1.36.3");
        assert_eq!(
            moved,
            FILE.replace("v0.36.1", "v0.36.3").replace("kubernetes v1.36.1", "kubernetes v1.36.3")
        );
        assert_eq!(with_kubernetes_moved(FILE, "v0.36.1", "v0.36.3"), moved);
    }
}
