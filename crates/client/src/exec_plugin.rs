//! Plugins that print credentials (`users[].user.exec`, KEP-541).

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    path::Path,
    process::{Command, Stdio},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::tls::Identity;

/// The program that prints credentials, as a kubeconfig describes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecPlugin {
    pub api_version: String,
    pub command: String,
    #[serde(default)]
    pub args: Option<Vec<String>>,
    #[serde(default)]
    pub env: Option<Vec<Variable>>,
    #[serde(default)]
    pub install_hint: String,
    #[serde(default)]
    pub provide_cluster_info: bool,
    #[serde(default)]
    pub interactive_mode: InteractiveMode,
    /// Description of the cluster; present if `provide_cluster_info` is set.
    #[serde(skip)]
    pub cluster: Option<ClusterInfo>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Variable {
    pub name: String,
    pub value: String,
}

/// A plugin's use of standard input.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) enum InteractiveMode {
    Never,
    #[default]
    IfAvailable,
    Always,
}

/// `spec.cluster` of an `ExecCredential`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ClusterInfo {
    pub server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_compression: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
}

/// Credentials that a plugin printed.
#[derive(Clone, Default)]
pub(crate) struct PrintedCredentials {
    pub token: Option<String>,
    pub identity: Option<Identity>,
    /// Time after which the credentials are invalid; unknown if absent.
    pub expires: Option<Timestamp>,
}

/// The reason why a plugin provided no credentials.
#[derive(Debug, Error)]
pub enum PluginError {
    /// The plugin could not be started.
    #[error("exec: {command}: {source}{}", hint(install_hint))]
    Start {
        /// The program.
        command: String,
        /// The cause.
        source: io::Error,
        /// The kubeconfig's installation hint for the plugin.
        install_hint: String,
    },
    /// The plugin failed.
    #[error("exec: executable {command} failed with {status}: {text}")]
    Failed {
        /// The program.
        command: String,
        /// Exit status.
        status: std::process::ExitStatus,
        /// Content of the plugin's standard error; empty if the plugin was interactive.
        text: String,
    },
    /// The plugin requires interaction with a user.
    #[error("exec plugin cannot support interactive mode: standard input is not a terminal")]
    NoTerminal,
    /// The plugin printed something other than credentials.
    #[error("exec: executable {command} printed no ExecCredential: {reason}")]
    Output {
        /// The program.
        command: String,
        /// The reason.
        reason: String,
    },
}

fn hint(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n\n{text}") }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: String,
    kind: String,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    expiration_timestamp: Option<String>,
    #[serde(default)]
    client_certificate_data: Option<String>,
    #[serde(default)]
    client_key_data: Option<String>,
}

impl ExecPlugin {
    /// Returns the program to run. A relative path with a slash is resolved against the kubeconfig's folder; a name
    /// without a slash is looked up on the `PATH`.
    pub(crate) fn command_in(&self, folder: &Path) -> String {
        if self.command.contains('/') {
            folder.join(&self.command).to_string_lossy().into_owned()
        } else {
            self.command.clone()
        }
    }

    /// Runs the plugin and waits for it to exit.
    ///
    /// # Errors
    /// If the plugin cannot be started, fails, or prints no credentials.
    pub(crate) fn run(&self) -> Result<PrintedCredentials, PluginError> {
        let interactive = match self.interactive_mode {
            InteractiveMode::Never => false,
            InteractiveMode::IfAvailable => io::stdin().is_terminal(),
            InteractiveMode::Always if !io::stdin().is_terminal() => return Err(PluginError::NoTerminal),
            InteractiveMode::Always => true,
        };
        let variables: BTreeMap<_, _> =
            self.env.iter().flatten().map(|variable| (&variable.name, &variable.value)).collect();
        let output = Command::new(&self.command)
            .args(self.args.iter().flatten())
            .envs(variables)
            .env("KUBERNETES_EXEC_INFO", self.request(interactive).to_string())
            .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
            .stderr(if interactive { Stdio::inherit() } else { Stdio::piped() })
            .output()
            .map_err(|source| PluginError::Start {
                command: self.command.clone(),
                source,
                install_hint: self.install_hint.clone(),
            })?;
        if !output.status.success() {
            return Err(PluginError::Failed {
                command: self.command.clone(),
                status: output.status,
                text: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
            });
        }
        self.parse(&output.stdout)
            .map_err(|reason| PluginError::Output { command: self.command.clone(), reason })
    }

    fn request(&self, interactive: bool) -> Value {
        let mut spec = json!({"interactive": interactive});
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = json!(cluster);
        }
        json!({"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec})
    }

    fn parse(&self, printed: &[u8]) -> Result<PrintedCredentials, String> {
        let text = std::str::from_utf8(printed).map_err(|error| error.to_string())?;
        let document = harbormaster_yaml::parse(text).map_err(|error| error.to_string())?;
        let printed: ExecCredential =
            serde_json::from_value(document.into_json()).map_err(|error| error.to_string())?;
        if (printed.kind.as_str(), &printed.api_version) != ("ExecCredential", &self.api_version) {
            let (kind, version) = (printed.kind, printed.api_version);
            return Err(format!(
                "it is a {kind} of {version}, not an ExecCredential of {}",
                self.api_version
            ));
        }
        let status = printed.status.ok_or("it has no status")?;
        let identity = match (status.client_certificate_data, status.client_key_data) {
            (Some(chain), Some(key)) => Some(Identity { chain: chain.into_bytes(), key: key.into_bytes() }),
            (None, None) => None,
            _ => return Err("clientCertificateData and clientKeyData must be used together".to_owned()),
        };
        if status.token.is_none() && identity.is_none() {
            return Err("its status has neither a token nor a client certificate".to_owned());
        }
        let expires = status.expiration_timestamp.map(|end| end.parse()).transpose();
        let expires = expires.map_err(|error: jiff::Error| format!("status.expirationTimestamp: {error}"))?;
        Ok(PrintedCredentials { token: status.token, identity, expires })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "client.authentication.k8s.io/v1";

    fn shell(script: &str) -> ExecPlugin {
        ExecPlugin {
            api_version: V1.to_owned(),
            command: "/bin/sh".to_owned(),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            env: Some(vec![Variable { name: "GREETING".to_owned(), value: "hello".to_owned() }]),
            interactive_mode: InteractiveMode::Never,
            install_hint: "get it from your administrator".to_owned(),
            ..ExecPlugin::default()
        }
    }

    fn printing(status: &str) -> ExecPlugin {
        shell(&format!("echo '{{\"apiVersion\": \"{V1}\", \"kind\": \"ExecCredential\"{status}}}'"))
    }

    #[test]
    fn a_plugin_prints_a_token_and_its_expiration_time() {
        let status = ", \"status\": {\"token\": \"abc\", \"expirationTimestamp\": \"2030-01-01T00:00:00Z\"}";
        let printed = printing(status).run().unwrap();
        assert_eq!(printed.token.as_deref(), Some("abc"));
        assert_eq!(printed.expires.unwrap().to_string(), "2030-01-01T00:00:00Z");
    }

    #[test]
    fn a_plugin_finds_its_request_and_variables_in_the_environment() {
        let script = format!(
            "echo '{{\"apiVersion\": \"{V1}\", \"kind\": \"ExecCredential\", \"status\": {{\"token\": '\
             $(printf '%s' \"$GREETING $KUBERNETES_EXEC_INFO\" | sed 's/\"/\\\\\"/g; s/^/\"/; s/$/\"/' | tr ' ' _)'}}}}'"
        );
        let printed = shell(&script).run().unwrap();
        let token = printed.token.unwrap();
        let request: Value = serde_json::from_str(token.strip_prefix("hello_").unwrap()).unwrap();
        assert_eq!(
            request,
            json!({"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": false}})
        );
    }

    #[test]
    fn the_error_of_a_plugin_says_why_it_provided_no_credentials() {
        for (plugin, expected) in [
            (shell("echo no luck >&2; exit 3"), "/bin/sh failed with exit status: 3: no luck"),
            (shell("echo '{}'"), "printed no ExecCredential: missing field `apiVersion`"),
            (printing(""), "it has no status"),
            (printing(", \"status\": {}"), "neither a token nor a client certificate"),
            (printing(", \"status\": {\"clientKeyData\": \"a\"}"), "must be used together"),
            (ExecPlugin { api_version: "v2".to_owned(), ..printing("") }, "not an ExecCredential of v2"),
            (ExecPlugin { command: "/no/such".to_owned(), ..shell("") }, "get it from your administrator"),
        ] {
            let error = plugin.run().map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
