//! Credentials that are sent with every request.

use std::{
    fmt, fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, header::InvalidHeaderValue};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};

use crate::{
    exec_plugin::{ExecPlugin, PluginError, PrintedCredentials},
    tls::Identity,
};

/// Time for which the content of a token file is used before the file is read again, as in client-go.
const TOKEN_FILE_AGE: Duration = Duration::from_secs(60);
/// A plugin runs again when its credentials expire within this time.
const PLUGIN_MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// Credentials of a client, as configured.
#[derive(Clone)]
pub(crate) enum Credentials {
    None,
    Token(String),
    /// A token file, which is read periodically; `fallback` is used if the file cannot be read at the start.
    TokenFile {
        path: PathBuf,
        fallback: Option<String>,
    },
    Password {
        username: String,
        password: String,
    },
    Plugin(Box<ExecPlugin>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token",
            Self::TokenFile { .. } => "TokenFile",
            Self::Password { .. } => "Password",
            Self::Plugin(_) => "Plugin",
        })
    }
}

/// The reason why there are no credentials for a request.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// The token file cannot be read.
    #[error("token file {}: {source}", path.display())]
    TokenFile {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The credentials contain characters that are not allowed in a header.
    #[error("the credentials cannot be sent in a header: {0}")]
    Header(#[from] InvalidHeaderValue),
    /// The plugin provided no credentials.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

/// Creates the `Authorization` header of requests and keeps it up to date.
pub(crate) enum Authorizer {
    /// The same header for every request, or none.
    Fixed(Option<HeaderValue>),
    TokenFile {
        path: PathBuf,
        last: Mutex<TokenRead>,
    },
    Plugin {
        plugin: Arc<ExecPlugin>,
        /// Locked while the plugin runs, so that one run serves all waiting requests.
        last: AsyncMutex<Option<PluginHeader>>,
    },
}

/// The last token that was read from a file.
pub(crate) struct TokenRead {
    header: HeaderValue,
    at: Instant,
}

/// The header with the token that a plugin printed.
pub(crate) struct PluginHeader {
    header: Option<HeaderValue>,
    expires: Option<Timestamp>,
}

impl PluginHeader {
    fn of(printed: &PrintedCredentials) -> Result<Self, InvalidHeaderValue> {
        let header = printed.token.as_deref().map(bearer).transpose()?;
        Ok(Self { header, expires: printed.expires })
    }

    fn is_fresh(&self) -> bool {
        self.expires.is_none_or(|end| Timestamp::now().duration_until(end) > PLUGIN_MARGIN)
    }
}

fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    sensitive(format!("Bearer {}", token.trim()))
}

fn sensitive(text: String) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(text)?;
    value.set_sensitive(true);
    Ok(value)
}

impl Authorizer {
    /// Prepares the credentials, running the plugin if there is one. Returns the client certificate that the plugin
    /// printed, if any.
    ///
    /// # Errors
    /// If the token file cannot be read, the plugin fails, or the credentials cannot be sent in a header.
    pub(crate) async fn new(credentials: Credentials) -> Result<(Self, Option<Identity>), CredentialsError> {
        let authorizer = match credentials {
            Credentials::None => Self::Fixed(None),
            Credentials::Token(token) => Self::Fixed(Some(bearer(&token)?)),
            Credentials::Password { username, password } => {
                let pair = BASE64_STANDARD.encode(format!("{username}:{password}"));
                Self::Fixed(Some(sensitive(format!("Basic {pair}"))?))
            }
            Credentials::TokenFile { path, fallback } => {
                let token = match (fs::read_to_string(&path), fallback) {
                    (Ok(token), _) | (Err(_), Some(token)) => token,
                    (Err(source), None) => return Err(CredentialsError::TokenFile { path, source }),
                };
                let last = TokenRead { header: bearer(&token)?, at: Instant::now() };
                Self::TokenFile { path, last: Mutex::new(last) }
            }
            Credentials::Plugin(plugin) => {
                let plugin = Arc::<ExecPlugin>::from(plugin);
                let printed = run(&plugin).await?;
                let last = AsyncMutex::new(Some(PluginHeader::of(&printed)?));
                return Ok((Self::Plugin { plugin, last }, printed.identity));
            }
        };
        Ok((authorizer, None))
    }

    /// Returns the `Authorization` header for a request that is about to be sent.
    ///
    /// # Errors
    /// If the plugin must be run again, and fails or prints credentials that cannot be sent in a header.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, CredentialsError> {
        match self {
            Self::Fixed(header) => Ok(header.clone()),
            Self::TokenFile { path, last } => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.at.elapsed() >= TOKEN_FILE_AGE {
                    last.at = Instant::now();
                    // If the file is being replaced or has been removed, the last token stays in use.
                    let read = fs::read_to_string(path).ok().filter(|token| !token.trim().is_empty());
                    if let Some(header) = read.and_then(|token| bearer(&token).ok()) {
                        last.header = header;
                    }
                }
                Ok(Some(last.header.clone()))
            }
            Self::Plugin { plugin, last } => {
                let mut last = last.lock().await;
                let fresh = match last.take().filter(PluginHeader::is_fresh) {
                    Some(fresh) => fresh,
                    None => PluginHeader::of(&run(plugin).await?)?,
                };
                Ok(last.insert(fresh).header.clone())
            }
        }
    }

    /// Records that the server did not accept the credentials. A plugin is then run again before the next request.
    pub(crate) async fn refused(&self) {
        if let Self::Plugin { last, .. } = self {
            *last.lock().await = None;
        }
    }
}

/// Runs a plugin on a thread that may block.
async fn run(plugin: &Arc<ExecPlugin>) -> Result<PrintedCredentials, PluginError> {
    let plugin = plugin.clone();
    let command = plugin.command.clone();
    let ended = spawn_blocking(move || plugin.run()).await;
    ended.unwrap_or_else(|error| Err(PluginError::Output { command, reason: error.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn first_header(credentials: Credentials) -> String {
        let (authorizer, _) = Authorizer::new(credentials).await.unwrap();
        let header = authorizer.header().await.unwrap().unwrap();
        assert!(header.is_sensitive());
        header.to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn tokens_and_passwords_become_headers() {
        assert_eq!(first_header(Credentials::Token("abc".to_owned())).await, "Bearer abc");
        let (username, password) = ("admin".to_owned(), "secret".to_owned());
        assert_eq!(
            first_header(Credentials::Password { username, password }).await,
            "Basic YWRtaW46c2VjcmV0"
        );
        assert!(Authorizer::new(Credentials::None).await.unwrap().0.header().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_token_file_is_read_again_after_a_minute_and_may_vanish() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "first\n").unwrap();
        let credentials = Credentials::TokenFile { path: path.clone(), fallback: None };
        let (authorizer, _) = Authorizer::new(credentials).await.unwrap();
        let header = async || authorizer.header().await.unwrap().unwrap().to_str().unwrap().to_owned();
        let a_minute_passes = || {
            let Authorizer::TokenFile { last, .. } = &authorizer else {
                panic!("the authorizer reads a file")
            };
            last.lock().unwrap().at -= TOKEN_FILE_AGE;
        };
        assert_eq!(header().await, "Bearer first");
        fs::write(&path, "second").unwrap();
        assert_eq!(header().await, "Bearer first");
        a_minute_passes();
        assert_eq!(header().await, "Bearer second");
        fs::remove_file(&path).unwrap();
        a_minute_passes();
        assert_eq!(header().await, "Bearer second");
    }

    #[tokio::test]
    async fn a_token_file_that_is_missing_at_the_start_is_an_error_unless_there_is_a_token() {
        let path = PathBuf::from("/no/such/token");
        let fallback = Some("abc".to_owned());
        assert_eq!(first_header(Credentials::TokenFile { path: path.clone(), fallback }).await, "Bearer abc");
        let error = Authorizer::new(Credentials::TokenFile { path, fallback: None }).await.err().unwrap();
        assert!(error.to_string().starts_with("token file /no/such/token: "), "{error}");
    }

    /// Returns a plugin whose token is the number of its runs so far. `expires` is the expiry field in the plugin's
    /// output; if it is empty, the token does not expire.
    fn counting(folder: &std::path::Path, expires: &str) -> Credentials {
        let script = format!(
            "echo >>{0}/runs; printf '{{\"apiVersion\": \"v1\", \"kind\": \"ExecCredential\", \"status\": \
             {{\"token\": \"%s\"{expires}}}}}' $(wc -l <{0}/runs)",
            folder.display()
        );
        Credentials::Plugin(Box::new(ExecPlugin {
            api_version: "v1".to_owned(),
            command: "/bin/sh".to_owned(),
            args: Some(vec!["-c".to_owned(), script]),
            ..ExecPlugin::default()
        }))
    }

    #[tokio::test]
    async fn a_plugin_runs_again_when_its_token_expires_or_is_refused() {
        for (expires, second) in [
            ("", "Bearer 1"),
            (", \"expirationTimestamp\": \"2999-01-01T00:00:00Z\"", "Bearer 1"),
            (", \"expirationTimestamp\": \"2001-01-01T00:00:00Z\"", "Bearer 2"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (authorizer, identity) = Authorizer::new(counting(folder.path(), expires)).await.unwrap();
            assert!(identity.is_none());
            assert_eq!(authorizer.header().await.unwrap().unwrap(), second);
            authorizer.refused().await;
            let third = if second == "Bearer 1" { "Bearer 2" } else { "Bearer 3" };
            assert_eq!(authorizer.header().await.unwrap().unwrap(), third);
        }
    }
}
