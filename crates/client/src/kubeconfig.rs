//! Kubeconfig files, as `kubectl config` writes them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use base64::{DecodeError, Engine as _, prelude::BASE64_STANDARD};
use harbormaster_api::similar::did_you_mean;
use http::Uri;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::{
    access::ServerAccess,
    credentials::Credentials,
    exec_plugin::{ClusterInfo, ExecPlugin},
    tls::{Identity, TlsOptions},
};

/// The reason why a kubeconfig cannot be used.
#[derive(Debug, Error)]
pub enum KubeconfigError {
    /// The kubeconfig itself cannot be read.
    #[error(
        "cannot be read: {0}; name the right file with --kubeconfig, or with clientConnection.kubeconfig in the --config \
         file, which takes precedence"
    )]
    Read(#[source] io::Error),
    /// The file is not YAML.
    #[error("is not a valid kubeconfig: {0}")]
    Yaml(#[from] harbormaster_yaml::Error),
    /// A field has the wrong type.
    #[error("is not a valid kubeconfig: {}{field}: {message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Field {
        /// Line of the field, counted from 1, if the field is present.
        line: Option<u32>,
        /// Path of the field.
        field: String,
        /// The decoding error.
        message: String,
    },
    /// There is no current context.
    #[error(
        "has no current-context: choose one of its contexts with `kubectl config use-context NAME --kubeconfig {}`",
        .0.display()
    )]
    NoCurrentContext(PathBuf),
    /// The current context is not defined.
    #[error("current-context is {0:?}, but contexts has no such entry")]
    NoContext(String),
    /// The chosen context is not defined.
    #[error("contexts has no entry {name:?}{suggestion}")]
    NoSuchContext {
        /// Name of the context.
        name: String,
        /// A question about a context with a similar name; may be empty.
        suggestion: String,
    },
    /// The cluster of the current context is not defined.
    #[error("the current context is for the cluster {0:?}, but clusters has no such entry")]
    NoCluster(String),
    /// The user of the current context is not defined.
    #[error("the current context is for the user {0:?}, but users has no such entry")]
    NoUser(String),
    /// The cluster has no address.
    #[error("the cluster of the current context has no server")]
    NoServer,
    /// The cluster's address is not a URL.
    #[error("clusters[].cluster.server {server:?}: {source}")]
    Server {
        /// The address as written.
        server: String,
        /// The cause.
        source: http::uri::InvalidUri,
    },
    /// A field that should be base64 is not valid base64.
    #[error("{field} is not base64: {source}")]
    Base64 {
        /// Name of the field.
        field: &'static str,
        /// The cause.
        source: DecodeError,
    },
    /// A file that the kubeconfig names cannot be read.
    #[error("{field} {}: {source}", path.display())]
    NamedFile {
        /// Name of the field.
        field: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A certificate without a key, or a key without a certificate.
    #[error("the user of the current context has {has}, but no {lacks}")]
    HalfIdentity {
        /// Name of the field that is present.
        has: &'static str,
        /// Name of the field that is missing.
        lacks: &'static str,
    },
    /// An authentication provider that client-go no longer supports.
    #[error(
        "the user's auth-provider {0:?} is not supported: use an exec plugin instead, which kubectl has required since 1.26"
    )]
    AuthProvider(String),
}

impl KubeconfigError {
    /// Returns the text that joins the file's path and this error's message; the messages of some errors continue the
    /// sentence that begins with the path.
    pub(crate) fn joint(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::Yaml(_) | Self::Field { .. } | Self::NoCurrentContext(_) => " ",
            _ => ": ",
        }
    }
}

/// Reads a kubeconfig and returns the access that a context describes, by default the current one. Relative paths in the file are
/// resolved against the folder of the file. Runs no plugin and makes no connection.
///
/// # Errors
/// If the kubeconfig, or a file that it names, cannot be used.
pub(crate) fn read(path: &Path, context: Option<&str>) -> Result<ServerAccess, KubeconfigError> {
    let text = fs::read_to_string(path).map_err(KubeconfigError::Read)?;
    let file = Kubeconfig::parse(&text)?;
    let context = match context {
        Some(name) => file.context(name)?,
        None => file.current_context(path)?,
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let cluster = find(&file.clusters, &context.cluster)
        .ok_or_else(|| KubeconfigError::NoCluster(context.cluster.clone()))?;
    let user = match context.user.as_str() {
        "" => &User::default(),
        name => find(&file.users, name).ok_or_else(|| KubeconfigError::NoUser(name.to_owned()))?,
    };
    Ok(ServerAccess {
        server: cluster.address()?,
        tls: TlsOptions {
            authorities: cluster.authorities(folder)?,
            identity: user.identity(folder)?,
            server_name: cluster.tls_server_name.clone(),
            insecure: cluster.insecure_skip_tls_verify,
        },
        credentials: user.credentials(folder, cluster)?,
        impersonation: user.impersonation(),
    })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Kubeconfig {
    #[serde(deserialize_with = "null_as_default")]
    current_context: String,
    #[serde(deserialize_with = "null_as_default")]
    contexts: Vec<Named<Context>>,
    #[serde(deserialize_with = "null_as_default")]
    clusters: Vec<Named<Cluster>>,
    #[serde(deserialize_with = "null_as_default")]
    users: Vec<Named<User>>,
}

/// An entry of one of the lists. The field that contains the value is named after the kind of entry.
#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "context", alias = "cluster", alias = "user", deserialize_with = "null_as_default")]
    #[serde(bound(deserialize = "T: Default + Deserialize<'de>"), default)]
    value: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    #[serde(deserialize_with = "null_as_default")]
    user: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: Option<String>,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    tls_server_name: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    insecure_skip_tls_verify: bool,
    proxy_url: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    disable_compression: bool,
    /// The `client.authentication.k8s.io/exec` extension is passed to plugins.
    #[serde(deserialize_with = "null_as_default")]
    extensions: Vec<Extension>,
}

#[derive(Deserialize)]
struct Extension {
    name: String,
    #[serde(default)]
    extension: serde_json::Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<String>,
    exec: Option<ExecPlugin>,
    auth_provider: Option<AuthProvider>,
    #[serde(rename = "as")]
    acts_as: Option<String>,
    as_uid: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    as_groups: Vec<String>,
}

#[derive(Deserialize)]
struct AuthProvider {
    name: String,
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn find<'a, T>(entries: &'a [Named<T>], name: &str) -> Option<&'a T> {
    entries.iter().find(|entry| entry.name == name).map(|entry| &entry.value)
}

impl Kubeconfig {
    fn parse(text: &str) -> Result<Self, KubeconfigError> {
        let document = harbormaster_yaml::parse(text)?;
        let json = document.clone().into_json();
        let decoded: Result<Option<Self>, _> = serde_path_to_error::deserialize(&json);
        decoded.map(Option::unwrap_or_default).map_err(|error| {
            let field = error.path().to_string();
            KubeconfigError::Field {
                line: document.field(&field).map(|field| field.at.line),
                field,
                message: error.into_inner().to_string(),
            }
        })
    }

    fn current_context(&self, path: &Path) -> Result<&Context, KubeconfigError> {
        if self.current_context.is_empty() {
            return Err(KubeconfigError::NoCurrentContext(path.to_owned()));
        }
        find(&self.contexts, &self.current_context)
            .ok_or_else(|| KubeconfigError::NoContext(self.current_context.clone()))
    }

    fn context(&self, name: &str) -> Result<&Context, KubeconfigError> {
        find(&self.contexts, name).ok_or_else(|| KubeconfigError::NoSuchContext {
            name: name.to_owned(),
            suggestion: did_you_mean(name, self.contexts.iter().map(|known| &*known.name)),
        })
    }
}

impl Cluster {
    fn address(&self) -> Result<Uri, KubeconfigError> {
        let server = self.server.as_deref().filter(|server| !server.is_empty());
        let server = server.ok_or(KubeconfigError::NoServer)?;
        // An address without a scheme means plain HTTP, as in client-go.
        let full = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        full.parse().map_err(|source| KubeconfigError::Server { server: server.to_owned(), source })
    }

    fn authorities(&self, folder: &Path) -> Result<Option<Vec<u8>>, KubeconfigError> {
        let (data, file) = (&self.certificate_authority_data, &self.certificate_authority);
        data_or_file(("certificate-authority-data", data), ("certificate-authority", file), folder)
    }

    /// Returns the description of the cluster that plugins can request.
    fn info(&self, folder: &Path) -> Result<ClusterInfo, KubeconfigError> {
        let config = self.extensions.iter().find(|known| known.name == "client.authentication.k8s.io/exec");
        Ok(ClusterInfo {
            server: self.server.clone().unwrap_or_default(),
            tls_server_name: self.tls_server_name.clone(),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            certificate_authority_data: self.authorities(folder)?.map(|pem| BASE64_STANDARD.encode(pem)),
            proxy_url: self.proxy_url.clone(),
            disable_compression: self.disable_compression,
            config: config.map(|known| known.extension.clone()),
        })
    }
}

impl User {
    fn identity(&self, folder: &Path) -> Result<Option<Identity>, KubeconfigError> {
        let (data, file) = (&self.client_certificate_data, &self.client_certificate);
        let chain = data_or_file(("client-certificate-data", data), ("client-certificate", file), folder)?;
        let key = data_or_file(
            ("client-key-data", &self.client_key_data),
            ("client-key", &self.client_key),
            folder,
        )?;
        match (chain, key) {
            (Some(chain), Some(key)) => Ok(Some(Identity { chain, key })),
            (None, None) => Ok(None),
            (Some(_), None) => {
                Err(KubeconfigError::HalfIdentity { has: "client-certificate", lacks: "client-key" })
            }
            (None, Some(_)) => {
                Err(KubeconfigError::HalfIdentity { has: "client-key", lacks: "client-certificate" })
            }
        }
    }

    /// Returns the credentials that are sent with requests. As in client-go, a token file takes precedence over a
    /// token, a token over a password, and a password over a plugin.
    fn credentials(&self, folder: &Path, cluster: &Cluster) -> Result<Credentials, KubeconfigError> {
        if let Some(provider) = &self.auth_provider {
            return Err(KubeconfigError::AuthProvider(provider.name.clone()));
        }
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(file) = self.token_file.as_ref().filter(|file| !file.as_os_str().is_empty()) {
            return Ok(Credentials::TokenFile { path: folder.join(file), fallback: given(&self.token) });
        }
        if let Some(token) = given(&self.token) {
            return Ok(Credentials::Token(token));
        }
        if let Some(username) = given(&self.username) {
            let password = self.password.clone().unwrap_or_default();
            return Ok(Credentials::Password { username, password });
        }
        let Some(mut plugin) = self.exec.clone() else { return Ok(Credentials::None) };
        plugin.command = plugin.command_in(folder);
        plugin.cluster = plugin.provide_cluster_info.then(|| cluster.info(folder)).transpose()?;
        Ok(Credentials::Plugin(Box::new(plugin)))
    }

    /// Returns the headers that make the server treat requests as those of another user.
    fn impersonation(&self) -> Vec<(&'static str, String)> {
        let user = self.acts_as.iter().map(|user| ("impersonate-user", user.clone()));
        let uid = self.as_uid.iter().map(|uid| ("impersonate-uid", uid.clone()));
        let groups = self.as_groups.iter().map(|group| ("impersonate-group", group.clone()));
        user.chain(uid).chain(groups).filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Returns the content of a base64 field or, if the field is empty, of the file that another field names.
fn data_or_file(
    (data_field, data): (&'static str, &Option<String>),
    (file_field, file): (&'static str, &Option<PathBuf>),
    folder: &Path,
) -> Result<Option<Vec<u8>>, KubeconfigError> {
    if let Some(data) = data.as_deref().filter(|data| !data.is_empty()) {
        let decoded = BASE64_STANDARD.decode(data.trim());
        return decoded.map(Some).map_err(|source| KubeconfigError::Base64 { field: data_field, source });
    }
    let Some(file) = file.as_ref().filter(|file| !file.as_os_str().is_empty()) else { return Ok(None) };
    let path = folder.join(file);
    match fs::read(&path) {
        Ok(content) => Ok(Some(content)),
        Err(source) => Err(KubeconfigError::NamedFile { field: file_field, path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec_plugin::InteractiveMode;

    const CLUSTER: &str = "
current-context: here
contexts:
- {name: here, context: {cluster: home, user: me}}
- {name: there, context: {cluster: away, user: me}}
clusters:
- {name: home, cluster: {server: 'https://10.0.0.1:6443/base', certificate-authority: ca.crt, tls-server-name: api}}
- name: away
";

    /// Reads a kubeconfig with the given user. The files `ca.crt` and `me.key` are in its folder.
    fn with_user(user: &str) -> Result<ServerAccess, KubeconfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(folder.path().join("ca.crt"), "authorities").unwrap();
        fs::write(folder.path().join("me.key"), "key").unwrap();
        fs::write(&path, format!("{CLUSTER}users:\n- {{name: me, user: {user}}}\n")).unwrap();
        let mut access = read(&path, None)?;
        // The folder has a different name each time.
        if let Credentials::TokenFile { path, .. } = &mut access.credentials {
            *path = path.strip_prefix(folder.path()).unwrap().to_owned();
        }
        Ok(access)
    }

    #[test]
    fn the_current_context_selects_the_server_and_its_authorities() {
        let access = with_user("{}").unwrap();
        assert_eq!(access.server.to_string(), "https://10.0.0.1:6443/base");
        assert_eq!(access.tls.authorities.as_deref(), Some(b"authorities".as_slice()));
        assert_eq!(access.tls.server_name.as_deref(), Some("api"));
        assert!(!access.tls.insecure && access.tls.identity.is_none());
        assert!(matches!(access.credentials, Credentials::None));
    }

    #[test]
    fn a_named_context_is_used_instead_of_the_current_one() {
        let file = Kubeconfig::parse(CLUSTER).unwrap();
        assert_eq!(file.context("there").unwrap().cluster, "away");
        let error = file.context("ther").err().unwrap().to_string();
        assert_eq!(error, "contexts has no entry \"ther\" (did you mean `there`?)");
    }

    #[test]
    fn every_authentication_method_is_read() {
        let credentials = |user: &str| with_user(user).unwrap().credentials;
        assert!(matches!(credentials("{token: abc}"), Credentials::Token(token) if token == "abc"));
        let both = credentials("{token: abc, tokenFile: token}");
        let Credentials::TokenFile { path, fallback } = both else { panic!("{both:?}") };
        assert_eq!((path.to_str(), fallback.as_deref()), (Some("token"), Some("abc")));
        let password = credentials("{username: admin, password: secret}");
        assert!(matches!(password, Credentials::Password { username, password }
            if username == "admin" && password == "secret"));
        let plugin = credentials(
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [token], \
             env: [{name: A, value: b}], interactiveMode: Never, provideClusterInfo: true}}",
        );
        let Credentials::Plugin(plugin) = plugin else { panic!("{plugin:?}") };
        assert_eq!((plugin.command.as_str(), plugin.args), ("aws", Some(vec!["token".to_owned()])));
        assert_eq!(plugin.interactive_mode, InteractiveMode::Never);
        assert_eq!(plugin.cluster.unwrap().certificate_authority_data.as_deref(), Some("YXV0aG9yaXRpZXM="));
    }

    #[test]
    fn a_client_certificate_comes_from_data_or_files() {
        let access = with_user("{client-certificate-data: Y2hhaW4=, client-key: me.key}").unwrap();
        let identity = access.tls.identity.unwrap();
        assert_eq!(
            (identity.chain.as_slice(), identity.key.as_slice()),
            (b"chain".as_slice(), b"key".as_slice())
        );
    }

    #[test]
    fn impersonation_becomes_headers() {
        let access = with_user("{as: jane, as-groups: [dev, ops]}").unwrap();
        let headers = access.impersonation.iter().map(|(name, value)| format!("{name}={value}"));
        assert_eq!(
            headers.collect::<Vec<_>>(),
            ["impersonate-user=jane", "impersonate-group=dev", "impersonate-group=ops"]
        );
    }

    #[test]
    fn an_error_names_the_field() {
        for (user, expected) in [
            ("{client-certificate-data: Y2hhaW4=}", "has client-certificate, but no client-key"),
            ("{client-key: me.key}", "has client-key, but no client-certificate"),
            ("{client-key: none.key}", "client-key "),
            ("{client-key-data: '%'}", "client-key-data is not base64: "),
            ("{auth-provider: {name: gcp}}", "auth-provider \"gcp\" is not supported"),
            ("{as-groups: dev}", "line 10: users[0].user.as-groups: invalid type: string \"dev\""),
        ] {
            let error = with_user(user).unwrap_err().to_string();
            assert!(error.contains(expected), "{user}: {error}");
        }
    }

    #[test]
    fn a_command_without_a_folder_is_looked_up_on_the_path() {
        let plugin = |command: &str| ExecPlugin { command: command.to_owned(), ..ExecPlugin::default() };
        assert_eq!(plugin("aws").command_in(Path::new("/etc/k")), "aws");
        assert_eq!(plugin("./aws").command_in(Path::new("/etc/k")), "/etc/k/./aws");
        assert_eq!(plugin("/bin/aws").command_in(Path::new("/etc/k")), "/bin/aws");
    }
}
