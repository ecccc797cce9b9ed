//! The version of the API server, which determines the release that `run` follows.

use harbormaster_client::{ApiClient, Backoff};
use serde::Deserialize;
use tokio::time::sleep;

/// Version of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerVersion {
    /// Full version of the program, for example `v1.36.1`.
    pub(super) git_version: String,
    /// Minor version of Kubernetes 1 whose API is served. A newer program may emulate an older version.
    pub(super) minor: u32,
}

/// The used fields of the response.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VersionInfo {
    git_version: String,
    major: String,
    minor: String,
    emulation_major: String,
    emulation_minor: String,
}

/// Asks the API server for its version until it answers. The client logs most failures; the others are logged here, once
/// per kind.
pub(super) async fn server_version(client: &ApiClient) -> ServerVersion {
    let mut backoff = Backoff::for_watches();
    let mut logged = Vec::new();
    loop {
        let (kind, why, is_logged, requested) = match client.get("/version").await {
            Ok(body) => match parse(&body) {
                Ok(version) => return version,
                Err(why) => (None, why, false, None),
            },
            Err(error) => {
                let is_logged = error.is_logged_by_client() && error.code() != Some(403);
                (error.code(), error.to_string(), is_logged, error.retry_after())
            }
        };
        if !is_logged && !logged.contains(&kind) {
            tracing::error!(
                server = client.host(),
                err = why,
                "The API server does not tell its version, which determines the release to follow; it is asked again \
                 until it does. To follow a certain release without asking, use --emulated-version"
            );
            logged.push(kind);
        }
        sleep(backoff.delay().max(requested.unwrap_or_default())).await;
    }
}

/// Parses the response to a request for `/version`.
///
/// # Errors
/// If it does not contain a version.
pub(super) fn parse(body: &[u8]) -> Result<ServerVersion, String> {
    let info: VersionInfo = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let (major, minor) = match info.emulation_minor.as_str() {
        "" => (&info.major, &info.minor),
        _ => (&info.emulation_major, &info.emulation_minor),
    };
    let wrong = || format!("{major:?}.{minor:?} is not a version");
    let minor = match number(major).ok_or_else(wrong)? {
        0 => 0,
        1 => number(minor).ok_or_else(wrong)?,
        // Newer than every minor version of Kubernetes 1.
        _ => u32::MAX,
    };
    Ok(ServerVersion { git_version: info.git_version, minor })
}

/// Parses the number at the beginning of a text: some distributions report minor versions such as `36+`.
fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minor_version_is_that_of_the_served_api() {
        for (body, expected) in [
            (r#"{"major": "1", "minor": "36", "gitVersion": "v1.36.1"}"#, Some(36)),
            (r#"{"major": "1", "minor": "36+"}"#, Some(36)),
            (r#"{"major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "36"}"#, Some(36)),
            (r#"{"major": "2", "minor": "0"}"#, Some(u32::MAX)),
            (r#"{"major": "0", "minor": "99"}"#, Some(0)),
            (r#"{"major": "", "minor": ""}"#, None),
            (r#"{"major": "1", "minor": "x"}"#, None),
            ("{}", None),
            ("<html>", None),
        ] {
            assert_eq!(parse(body.as_bytes()).ok().map(|version| version.minor), expected, "{body}");
        }
    }
}
