//! Adds the kubeconfig to a KubeSchedulerConfiguration, because kube-scheduler ignores `--kubeconfig` if it has a
//! configuration file.

use std::path::Path;

use serde_json::{Value, json};

use super::Error;

/// Placeholder for the path of the kubeconfig.
const PLACEHOLDER: &str = "$KUBECONFIG";

const EMPTY: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// Sets `clientConnection.kubeconfig` in `text` (YAML or JSON, empty for the defaults). YAML with its own
/// `clientConnection` must contain `kubeconfig: $KUBECONFIG`.
pub(super) fn with_kubeconfig(text: &str, kubeconfig: &Path) -> Result<String, Error> {
    let path = kubeconfig.display().to_string();
    let text = if text.trim().is_empty() { EMPTY } else { text };
    if text.contains(PLACEHOLDER) {
        return Ok(text.replace(PLACEHOLDER, &path));
    }
    if text.trim_start().starts_with('{') {
        let mut config: Value = serde_json::from_str(text).map_err(Error::SchedulerConfig)?;
        config["clientConnection"]["kubeconfig"] = json!(path);
        return Ok(config.to_string());
    }
    Ok(format!("{}\nclientConnection:\n  kubeconfig: {path}\n", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_is_added_to_every_form_of_configuration() {
        let path = Path::new("/tmp/k");
        for (text, expected) in [
            ("", format!("{EMPTY}clientConnection:\n  kubeconfig: /tmp/k\n")),
            ("a: 1\n", "a: 1\nclientConnection:\n  kubeconfig: /tmp/k\n".to_owned()),
            (
                "clientConnection: {qps: 9, kubeconfig: $KUBECONFIG}",
                "clientConnection: {qps: 9, kubeconfig: /tmp/k}".to_owned(),
            ),
            (
                r#"{"clientConnection":{"qps":9}}"#,
                r#"{"clientConnection":{"kubeconfig":"/tmp/k","qps":9}}"#.to_owned(),
            ),
        ] {
            assert_eq!(with_kubeconfig(text, path).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn broken_json_is_an_error() {
        assert!(with_kubeconfig("{", Path::new("/tmp/k")).is_err());
    }
}
