//! Requests to one extender.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use harbormaster_client::{
    Identity, TlsError, TlsOptions,
    body::whole,
    client::JSON,
    error_chain,
    network::{Connector, Pool, connector},
};
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use tokio::time::{Instant, timeout_at};

use super::{DEFAULT_TIMEOUT, ExtenderConfig};

/// Maximum length of a reply in bytes, in addition to twice the length of its request: a reply contains no more nodes
/// than its request.
const LARGEST_REPLY: usize = 64 << 20;

/// `ExtenderTLSConfig`. The `*_data` fields are base64 and take precedence over the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the usual files and data of a TLS client")]
pub struct ExtenderTls {
    pub insecure: bool,
    pub server_name: String,
    pub cert_file: String,
    pub key_file: String,
    pub ca_file: String,
    pub cert_data: String,
    pub key_data: String,
    pub ca_data: String,
}

/// Connections to an extender. Connections are reused; over HTTPS, they use HTTP/2 if the extender supports it, as in
/// Go.
pub(super) struct Connection {
    /// The URL prefix without any trailing slashes.
    prefix: String,
    limit: Duration,
    pool: Pool,
}

impl Connection {
    pub(super) fn new(config: &ExtenderConfig) -> Result<Self, String> {
        let limit = if config.timeout.is_zero() { DEFAULT_TIMEOUT } else { config.timeout };
        let pool = Pool::new(secure(config)?);
        let prefix = config.extender.name.trim_end_matches('/').to_owned();
        Ok(Self { prefix, limit, pool })
    }

    /// Returns the time limit for a call.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Sends a `POST` request with a JSON body to the URL of a verb. Returns the body of the reply if its status is
    /// 200.
    ///
    /// Redirects are not followed: the configuration alone decides where pods are sent.
    pub(super) async fn call(&self, verb: &str, body: Bytes) -> Result<Bytes, String> {
        let url = format!("{}/{verb}", self.prefix);
        let failed = |why: &str| format!("Post {url:?}: {why}");
        let address: Uri = url.parse().map_err(|error: http::uri::InvalidUri| failed(&error.to_string()))?;
        if address.scheme().is_none() || address.host().is_none() {
            return Err(failed("the URL must have the form http://HOST/PATH or https://HOST/PATH"));
        }
        let largest = LARGEST_REPLY + 2 * body.len();
        let request = Request::builder()
            .method(Method::POST)
            .uri(address)
            .header(header::CONTENT_TYPE, HeaderValue::from_static(JSON))
            .body(body.into())
            .map_err(|error| failed(&error.to_string()))?;
        let deadline = Instant::now() + self.limit;
        let reply = match timeout_at(deadline, self.pool.request(request)).await {
            Ok(reply) => reply.map_err(|error| failed(&error_chain(&*error)))?,
            Err(_) => {
                return Err(failed(
                    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                ));
            }
        };
        if reply.status() != StatusCode::OK {
            let code = reply.status().as_u16();
            return Err(format!("failed {verb} with extender at URL {url}, code {code}"));
        }
        if let Some(encoding) =
            reply.headers().get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity")
        {
            return Err(failed(&format!("the reply is encoded as {encoding:?}, which was not requested")));
        }
        match timeout_at(deadline, whole(reply.into_body(), largest)).await {
            Ok(read) => read.map_err(|why| failed(&why)),
            Err(_) => Err(failed(
                "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
            )),
        }
    }
}

/// Returns a connector with TLS configured as in kube-scheduler.
fn secure(config: &ExtenderConfig) -> Result<Connector, String> {
    let tls = config.tls.clone().unwrap_or_default();
    let authorities = pem(("caData", &tls.ca_data), ("caFile", &tls.ca_file))?;
    let is_https = config.extender.name.starts_with("https:");
    let insecure = tls.insecure || (config.enable_https && authorities.is_none());
    if insecure && authorities.is_some() {
        return Err("specifying a root certificates file with the insecure flag is not allowed".to_owned());
    }
    let chain = pem(("certData", &tls.cert_data), ("certFile", &tls.cert_file))?;
    let key = pem(("keyData", &tls.key_data), ("keyFile", &tls.key_file))?;
    let options = TlsOptions {
        authorities,
        identity: chain.zip(key).map(|(chain, key)| Identity { chain, key }),
        server_name: (!tls.server_name.is_empty()).then(|| tls.server_name.clone()),
        // The system's certificate authorities are read only if they are needed.
        insecure: insecure || !is_https,
    };
    let failed = |error| match error {
        TlsError::NoAuthority | TlsError::Authorities(_) => {
            let field = if tls.ca_data.is_empty() { "caFile" } else { "caData" };
            format!("tlsConfig.{field}: {error}")
        }
        error => format!("tlsConfig: {}", error_chain(&error)),
    };
    let name = options
        .expected_name()
        .map_err(|_| format!("tlsConfig.serverName {:?} is not a valid server name", tls.server_name));
    Ok(connector(options.client_config().map_err(failed)?, name?, true))
}

/// Returns the content of a base64 field or, if the field is empty, of the file that another field names.
fn pem(
    (data_field, data): (&str, &str),
    (file_field, file): (&str, &str),
) -> Result<Option<Vec<u8>>, String> {
    if !data.is_empty() {
        let decoded = BASE64_STANDARD.decode(data);
        return decoded.map(Some).map_err(|error| format!("tlsConfig.{data_field}: {error}"));
    }
    if file.is_empty() {
        return Ok(None);
    }
    let content = std::fs::read(file);
    content.map(Some).map_err(|error| format!("tlsConfig.{file_field} {file}: {error}"))
}
