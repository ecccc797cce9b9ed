//! Handling of a request: authentication, authorization and content.

use std::{panic::AssertUnwindSafe, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use harbormaster_serve::Client;
use http::{HeaderValue, Request, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::{
    authentication::Authenticator,
    authorization::{Authorizer, Decision},
    pages::{RequestInfo, Site},
    query,
    reply::{self, Reply, Status},
    zpages::error_wants_indent,
};

/// Maximum length of a request's body, in bytes. The only body that is read is the number in `PUT /debug/flags/v`.
const MAX_BODY: usize = 1024;
/// Time limit for reading a body.
const BODY_LIMIT: Duration = Duration::from_secs(10);

/// Answers requests.
pub(crate) struct Chain {
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) site: Site,
}

impl Chain {
    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Incoming>, client: &Client) -> Reply {
        let answer = AssertUnwindSafe(self.judged(request, client)).catch_unwind().await;
        let mut reply = answer.unwrap_or_else(|_| {
            let why = "This request caused a panic in the server, which is a bug: see the log.";
            reply::error(StatusCode::INTERNAL_SERVER_ERROR, why)
        });
        let headers = reply.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        reply
    }

    async fn judged(&self, request: Request<Incoming>, client: &Client) -> Reply {
        let (parts, body) = request.into_parts();
        let Some(path) = query::path(parts.uri.path()) else {
            return reply::text(StatusCode::BAD_REQUEST, "400 Bad Request".to_owned());
        };
        let asked = RequestInfo {
            method: &parts.method,
            path: &path,
            query: parts.uri.query().unwrap_or_default(),
            headers: &parts.headers,
        };
        let user = self.authenticator.user(&client.certificates, &parts.headers).await;
        // With HTTP/2, a client can send many requests concurrently. Anonymous clients get only one request per
        // connection.
        if parts.version == Version::HTTP_2 && user.as_ref().map_or(true, |user| user.is_anonymous()) {
            client.connection.close_soon();
        }
        let user = match user {
            Ok(user) => user,
            Err(why) => {
                tracing::debug!(v = 2, err = why, path, "Unable to authenticate the request");
                return Status::unauthorized().reply(error_wants_indent(&asked));
            }
        };
        let verb = parts.method.as_str().to_ascii_lowercase();
        match self.authorizer.decide(&user, &verb, &path).await {
            Ok(Decision::Allowed) => self.site.answer(&asked, whole(body)).await,
            Ok(Decision::Forbidden(why)) => {
                let refused = Status::forbidden(&user.name, &verb, &path, &why);
                reply::nosniff(refused.reply(error_wants_indent(&asked)))
            }
            Err(why) => {
                tracing::error!(
                    err = why,
                    user = user.name,
                    path,
                    "The authorization of a request cannot be determined"
                );
                let uri = parts.uri.path_and_query().map_or(path.as_str(), |uri| uri.as_str());
                reply::internal_error(uri, &why)
            }
        }
    }
}

/// Reads a short body.
async fn whole(mut body: Incoming) -> Result<Bytes, String> {
    let reading = async {
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(piece) = frame.map_err(|e| e.to_string())?.into_data() {
                read.extend_from_slice(&piece);
            }
            if read.len() > MAX_BODY {
                return Err("http: request body too large".to_owned());
            }
        }
        Ok(read.freeze())
    };
    timeout(BODY_LIMIT, reading)
        .await
        .unwrap_or_else(|_| Err(format!("no complete body within {BODY_LIMIT:?}")))
}
