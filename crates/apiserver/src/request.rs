//! Parsed requests.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, Method, Uri, header};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::{
    kinds::Kind,
    status::{Failure, FieldError, Result},
    table::Include,
};

/// Maximum length of a field manager's name.
const LONGEST_MANAGER: usize = 128;

/// A request without its body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Decoded segments of the path.
    pub(crate) path: Vec<String>,
    query: Vec<(String, String)>,
    accept: String,
    /// Program that sent the request, for example `kubectl`.
    agent: String,
    /// Content type without parameters.
    pub(crate) content_type: String,
    /// Warnings for the client.
    warnings: Arc<Mutex<Vec<String>>>,
}

/// Resource that is named by the path of a request.
pub(crate) struct Target {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

/// Form in which objects are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Plain,
    Table(Include),
    /// `PartialObjectMetadata`.
    Metadata,
}

/// Handling of unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    Refused,
    WarnedOf,
    Ignored,
}

/// One media type of an `Accept` header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted<'a> {
    pub(crate) name: &'a str,
    parameters: &'a str,
}

impl<'a> Accepted<'a> {
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        let mut pairs = self.parameters.split(';').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().trim_matches('"'))
    }

    fn is_json(&self) -> bool {
        matches!(self.name, "application/json" | "application/*" | "*/*")
    }
}

impl Request {
    pub(crate) fn new(method: Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let header = |name: header::HeaderName| {
            let values: Vec<&str> =
                headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
            values.join(",")
        };
        let content_type = header(header::CONTENT_TYPE);
        let content_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Self {
            method,
            path: uri.path().split('/').filter(|part| !part.is_empty()).map(decoded).collect(),
            query: uri.query().into_iter().flat_map(|query| query.split('&')).map(pair).collect(),
            accept: header(header::ACCEPT),
            agent: header(header::USER_AGENT)
                .split('/')
                .next()
                .unwrap_or_default()
                .chars()
                .take(LONGEST_MANAGER)
                .collect(),
            content_type,
            warnings: Arc::default(),
        }
    }

    /// Adds a warning for the client, unless it was added before.
    pub(crate) fn warn(&self, of: &str) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.iter().any(|known| known == of) {
            warnings.push(of.to_owned());
        }
    }

    /// Returns the warnings for the client.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a query parameter, or an empty string if it is missing.
    pub(crate) fn query(&self, name: &str) -> &str {
        self.query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.query(name), "true" | "1" | "True" | "TRUE" | "t" | "T")
    }

    /// Returns a numeric query parameter, or `None` if it is missing.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>> {
        match self.query(name) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => {
                    Err(Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
                }
            },
        }
    }

    /// Returns the field manager that the client specifies.
    pub(crate) fn field_manager(&self) -> Result<Option<&str>> {
        let name = self.query("fieldManager");
        if name.chars().count() > LONGEST_MANAGER {
            let error = FieldError::too_long("fieldManager", LONGEST_MANAGER);
            return Err(Failure::invalid_options(self.options(), error));
        }
        Ok(Some(name).filter(|name| !name.is_empty()))
    }

    /// Returns the field manager of an apply, which is required.
    pub(crate) fn applier(&self) -> Result<&str> {
        self.field_manager()?.ok_or_else(|| {
            Failure::invalid_options(
                self.options(),
                FieldError::required("fieldManager", "is required for apply patch"),
            )
        })
    }

    /// Returns the field manager, by default the name of the client program.
    pub(crate) fn writer(&self) -> Result<&str> {
        Ok(self.field_manager()?.unwrap_or(&self.agent))
    }

    /// Returns true for a dry run, which stores nothing.
    pub(crate) fn dry_run(&self) -> Result<bool> {
        match self.query("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(self.invalid("dryRun", vec![other], &["All"])),
        }
    }

    fn options(&self) -> &'static str {
        match self.method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            _ => "DeleteOptions",
        }
    }

    fn invalid(&self, name: &str, value: impl Into<Value>, supported: &[&'static str]) -> Failure {
        Failure::invalid_options(self.options(), FieldError::unsupported(name, value, supported))
    }

    /// Returns the requested handling of unknown fields.
    pub(crate) fn unknown_fields(&self) -> Result<UnknownFields> {
        match self.query("fieldValidation") {
            "Strict" => Ok(UnknownFields::Refused),
            "" | "Warn" => Ok(UnknownFields::WarnedOf),
            "Ignore" => Ok(UnknownFields::Ignored),
            other => Err(self.invalid("fieldValidation", other, &["", "Ignore", "Strict", "Warn"])),
        }
    }

    /// Returns the media types of the `Accept` header, in order.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = Accepted<'_>> {
        let types = self.accept.split(',').map(str::trim).filter(|text| !text.is_empty());
        types.map(|text| {
            let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
            Accepted { name: name.trim(), parameters }
        })
    }

    /// Returns the first form that the client accepts and the server supports.
    pub(crate) fn view(&self) -> Result<View> {
        let mut any = false;
        for accepted in self.accepted() {
            any = true;
            if !accepted.is_json() {
                continue;
            }
            let of_meta = accepted.parameter("g") == Some("meta.k8s.io");
            match accepted.parameter("as") {
                None => return Ok(View::Plain),
                Some("Table") if of_meta => {
                    let include = Include::parse(self.query("includeObject"));
                    return include.map(View::Table).ok_or_else(|| {
                        let error = FieldError::invalid(
                            "includeObject",
                            self.query("includeObject"),
                            "must be 'Metadata', 'Object', 'None', or empty",
                        );
                        Failure::bad_request(format!("Unable to convert to Table as requested: {error}"))
                    });
                }
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") if of_meta => {
                    return Ok(View::Metadata);
                }
                Some(_) => {}
            }
        }
        if !any {
            return Ok(View::Plain);
        }
        Err(Failure::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json (this API server sends no protobuf: \
             configure the client to accept application/json)",
        ))
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn pair(text: &str) -> (String, String) {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(&key.replace('+', " ")), decoded(&value.replace('+', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, accept: &str) -> Request {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Request::new(Method::GET, &uri.parse().unwrap(), &headers)
    }

    #[test]
    fn paths_and_queries_are_decoded() {
        let request = request("/api/v1//namespaces/a%2Fb?labelSelector=x%3Dy&watch=1&q=a+b&empty", "*/*");
        assert_eq!(request.path, ["api", "v1", "namespaces", "a/b"]);
        assert_eq!(
            (request.query("labelSelector"), request.query("q"), request.query("empty")),
            ("x=y", "a b", "")
        );
        assert!(request.flag("watch") && !request.flag("nothing"));
        assert!(request.number::<u64>("q").is_err());
    }

    #[test]
    fn the_first_form_that_can_be_served_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (accept, expected) in [
            ("application/json", Some(View::Plain)),
            ("", Some(View::Plain)),
            ("*/*", Some(View::Plain)),
            (kubectl, Some(View::Table(Include::Metadata))),
            ("application/vnd.kubernetes.protobuf,application/json", Some(View::Plain)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(View::Metadata)),
            ("application/json;as=Nonsense", None),
        ] {
            assert_eq!(request("/", accept).view().ok(), expected, "{accept}");
        }
    }
}
