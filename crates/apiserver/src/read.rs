//! Get, list and watch.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{body::Body, http::Response};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};

use crate::{
    forms,
    kinds::Kind,
    object::{StoredObject, parse_version},
    reply::{self, Answer},
    request::{Request, Target, View},
    selector::Selector,
    shelf::{Page, Range, TooOld},
    status::{Failure, FieldError, Result},
    store::Store,
    table::{Include, only_metadata, table},
    time::now,
    watch::{Event, Expired, Watch},
};

/// Interval between the bookmarks of an idle watch.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// Duration of a watch without `timeoutSeconds`.
const WATCH_TIME: Duration = Duration::from_secs(1800);
/// Tables and metadata lists of more objects than this are built outside the threads that answer requests.
const MANY_ROWS: usize = 200;

/// Continue token of a list: the version to read and the position at which the list continues.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    v: String,
    /// -1 for the latest version.
    rv: i64,
    start: String,
}

impl Continue {
    fn token(rv: i64, start: &str) -> String {
        let this = Self { v: "meta.k8s.io/v1".to_owned(), rv, start: start.to_owned() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&this).unwrap_or_default())
    }

    fn parse(token: &str) -> Result<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('='));
        let parsed = bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let why = "invalid continue token: continue key is not valid: it was not issued by this server";
        parsed.ok_or_else(|| Failure::bad_request(why))
    }
}

/// Returns one object in the requested form.
pub(crate) fn object(kind: &Kind, view: View, code: u16, object: &StoredObject) -> Response<Body> {
    match view {
        View::Plain => reply::json(code, forms::json(kind, object)),
        other => {
            let metadata = json!({"resourceVersion": object.version().to_string()});
            reply::value(code, &viewed(kind, other, object, metadata))
        }
    }
}

/// Converts an object to a table with one row, or to its metadata.
fn viewed(kind: &Kind, view: View, object: &StoredObject, metadata: Value) -> Value {
    let value = forms::shown(kind, object);
    match view {
        View::Plain => value,
        View::Metadata => only_metadata(value),
        // Table columns read `Event` objects in their stored form.
        View::Table(include) => rows(kind, &[object], include, metadata),
    }
}

fn rows(
    kind: &Kind,
    objects: &[impl std::ops::Deref<Target = StoredObject>],
    include: Include,
    metadata: Value,
) -> Value {
    table(&kind.columns, objects.iter().map(|object| object.value()), include, metadata, now())
}

/// Handles a list or a watch.
pub(crate) async fn collection(
    store: &Store,
    target: &Target,
    request: &Request,
    ending: Receiver<bool>,
) -> Answer {
    let Target { kind, namespace, name, .. } = target;
    let view = request.view()?;
    let mut fields = request.query("fieldSelector").to_owned();
    if !name.is_empty() {
        // The legacy way to watch a single object.
        fields = format!("metadata.name={name}{}{fields}", if fields.is_empty() { "" } else { "," });
    }
    let selector = kind.selector(namespace, request.query("labelSelector"), &fields)?;
    if request.flag("watch") {
        watch(store, target, selector, request, view, ending)
    } else {
        list(store, target, &selector, request, view).await
    }
}

async fn list(store: &Store, target: &Target, selector: &Selector, request: &Request, view: View) -> Answer {
    let kind = target.kind.clone();
    let (page, next) = page(store, target, selector, request)?;
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if kind.is_custom() && view == View::Plain {
        metadata["continue"] = "".into();
    }
    if !next.is_empty() {
        metadata["continue"] = next.into();
        if !selector.is_selective() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    }
    if view == View::Plain {
        let items = page.objects.iter().map(|object| forms::json(&kind, object)).collect();
        return Ok(reply::list(&kind, &metadata, items));
    }
    let many = page.objects.len() > MANY_ROWS;
    let make = move || match view {
        View::Table(include) => rows(&kind, &page.objects, include, metadata),
        _ => {
            let items: Vec<Value> =
                page.objects.iter().map(|o| only_metadata(forms::shown(&kind, o))).collect();
            let (kind, version) = ("PartialObjectMetadataList", "meta.k8s.io/v1");
            json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items})
        }
    };
    let made =
        if many { tokio::task::spawn_blocking(make).await.map_err(|_| Failure::panicked())? } else { make() };
    Ok(reply::value(200, &made))
}

/// Returns the objects of a list, and the token with which the client continues the list (empty if the list is
/// complete).
fn page(store: &Store, target: &Target, selector: &Selector, request: &Request) -> Result<(Page, String)> {
    let limit = request.number::<i64>("limit")?.unwrap_or(0);
    // A negative limit means no limit.
    let limit = usize::try_from(limit).unwrap_or(0);
    let version = version_of(request)
        .map_err(|error| Failure::bad_request(format!("invalid resource version: {error}")))?;
    let rule = request.query("resourceVersionMatch");
    let token = request.query("continue");
    check_rule(rule, version, token)?;
    let (at, behind) = if token.is_empty() {
        let now = store.version();
        match version {
            Some(version) if version > now => {
                return Err(too_large(version, now));
            }
            Some(version) if rule == "Exact" => (Some(version), String::new()),
            _ => (None, String::new()),
        }
    } else {
        if version.is_some_and(|version| version > 0) {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Continue::parse(token)?;
        (u64::try_from(token.rv).ok(), token.start)
    };
    let range = Range { namespace: &target.namespace, behind: &behind, limit, at };
    let page = target.kind.shelf.list(&range, |object| selector.matches(object));
    let page = page.map_err(|TooOld(oldest)| {
        if !token.is_empty() {
            return expired_token(&behind);
        }
        let asked = at.unwrap_or_default();
        Failure::expired(format!("The resourceVersion for the provided list is too old: {asked} ({oldest})"))
    })?;
    let next = match page.objects.last() {
        Some(last) if page.remaining > 0 => {
            Continue::token(i64::try_from(page.version).unwrap_or(-1), &last.key)
        }
        _ => String::new(),
    };
    Ok((page, next))
}

/// Returns kube-apiserver's failure for an expired token. It contains a new token with which the list can still be
/// continued.
fn expired_token(behind: &str) -> Failure {
    let mut failure = Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    failure.continue_token = Continue::token(-1, behind);
    failure
}

fn version_of(request: &Request) -> std::result::Result<Option<u64>, FieldError> {
    match request.query("resourceVersion") {
        "" => Ok(None),
        text => {
            parse_version(text).map(Some).map_err(|why| FieldError::invalid("resourceVersion", text, why))
        }
    }
}

/// Returns the failure for a version in the future. Clients check the cause in this failure.
fn too_large(version: u64, now: u64) -> Failure {
    let message = format!("Timeout: Too large resource version: {version}, current: {now}");
    let failure = Failure::new(504, "Timeout", message).with_retry_after(1);
    failure.with_cause("ResourceVersionTooLarge", "Too large resource version")
}

fn check_rule(rule: &str, version: Option<u64>, token: &str) -> Result<()> {
    let field = "resourceVersionMatch";
    let wrong = |why: &str| Err(Failure::invalid_options("ListOptions", FieldError::forbidden(field, why)));
    match (rule, version) {
        ("", _) => Ok(()),
        ("NotOlderThan" | "Exact", _) if !token.is_empty() => {
            wrong("resourceVersionMatch is forbidden when continue is provided")
        }
        ("NotOlderThan" | "Exact", None) => {
            wrong("resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        ("Exact", Some(0)) => wrong("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ("NotOlderThan" | "Exact", _) => Ok(()),
        (other, _) => {
            let error = FieldError::unsupported(field, other, &["Exact", "NotOlderThan", ""]);
            Err(Failure::invalid_options("ListOptions", error))
        }
    }
}

fn watch(
    store: &Store,
    target: &Target,
    selector: Selector,
    request: &Request,
    view: View,
    ending: Receiver<bool>,
) -> Answer {
    // An invalid version is a bad request in a list, but a server error in a watch.
    let version = version_of(request).map_err(|error| Failure::internal(error.to_string()))?;
    let streams_list = request.flag("sendInitialEvents");
    if streams_list && request.query("resourceVersionMatch") != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        let error = FieldError::forbidden("resourceVersionMatch", why);
        return Err(Failure::invalid_options("ListOptions", error));
    }
    let now = store.version();
    if let Some(version) = version.filter(|version| streams_list && *version > now) {
        return Err(too_large(version, now));
    }
    let shelf = target.kind.shelf.clone();
    let watch = match version {
        Some(version) if version > 0 && !streams_list => match Watch::behind(shelf, selector, version) {
            Ok(watch) => watch,
            Err(expired) => return Ok(reply::events(stream::iter([Ok(error_line(&expired))]))),
        },
        _ => Watch::from_now(shelf, &target.namespace, selector),
    };
    let time = request
        .number::<i64>("timeoutSeconds")?
        .filter(|seconds| *seconds != 0)
        .map_or(WATCH_TIME, |seconds| Duration::from_secs(seconds.max(0).unsigned_abs()));
    let start = Instant::now();
    let sender = Sender {
        kind: target.kind.clone(),
        watch,
        view,
        bookmarks: request.flag("allowWatchBookmarks"),
        initial_end: streams_list && request.flag("allowWatchBookmarks"),
        // The clock cannot represent absurdly long timeouts.
        deadline: start + time.min(Duration::from_secs(1 << 30)),
        next_bookmark: start + BOOKMARKS,
        ending,
        described: false,
        done: false,
    };
    let pieces = stream::unfold(sender, |mut sender| async {
        let piece = sender.next().await?;
        Some((Ok::<_, Infallible>(piece), sender))
    });
    Ok(reply::events(pieces))
}

fn error_line(expired: &Expired) -> Bytes {
    let failure = Failure::expired(expired.to_string());
    format!("{}\n", json!({"type": "ERROR", "object": failure.to_value()})).into()
}

/// A watch that is being sent to a client. It holds only a position in the history: if the client reads too slowly, the
/// position is lost and the watch ends.
struct Sender {
    kind: Arc<Kind>,
    watch: Watch,
    view: View,
    bookmarks: bool,
    /// True if the bookmark that ends the initial events has yet to be sent.
    initial_end: bool,
    deadline: Instant,
    next_bookmark: Instant,
    ending: Receiver<bool>,
    /// True if the table's columns have been sent.
    described: bool,
    done: bool,
}

impl Sender {
    /// Returns the next lines, or `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        if self.initial_end && self.watch.is_past_initial() {
            self.initial_end = false;
            return Some(self.bookmark(true));
        }
        let events = tokio::select! {
            events = self.watch.next() => events,
            () = sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark = Instant::now() + BOOKMARKS;
                Ok(Vec::new())
            }
            () = sleep_until(self.deadline) => return None,
            _ = self.ending.wait_for(|ending| *ending) => return None,
        };
        // After a quiet interval, catches up to the current version.
        let events = match events {
            Ok(events) if events.is_empty() => self.watch.poll(),
            events => events,
        };
        Some(match events {
            Ok(events) if events.is_empty() => self.bookmark(false),
            Ok(events) => self.lines(&events),
            Err(expired) => {
                self.done = true;
                error_line(&expired)
            }
        })
    }

    fn lines(&mut self, events: &[Event]) -> Bytes {
        let size: usize = events.iter().map(|event| event.object.json().len() + 48).sum();
        let mut lines = Vec::with_capacity(size);
        for event in events {
            lines.extend_from_slice(b"{\"type\":\"");
            lines.extend_from_slice(event.event.as_str().as_bytes());
            lines.extend_from_slice(b"\",\"object\":");
            match self.view {
                View::Plain => lines.extend_from_slice(&forms::json(&self.kind, &event.object)),
                view => {
                    let metadata = json!({"resourceVersion": event.object.version().to_string()});
                    let mut value = viewed(&self.kind, view, &event.object, metadata);
                    // Columns are sent only once.
                    if matches!(view, View::Table(_)) && std::mem::replace(&mut self.described, true) {
                        value["columnDefinitions"] = Value::Null;
                    }
                    lines.extend_from_slice(value.to_string().as_bytes());
                }
            }
            lines.extend_from_slice(b"}\n");
        }
        lines.into()
    }

    fn bookmark(&self, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.watch.version().to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.view {
            View::Plain => {
                json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata})
            }
            View::Metadata => only_metadata(json!({"metadata": metadata})),
            View::Table(_) => json!({
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "columnDefinitions": [],
                "rows": [{"cells": [], "object": {"metadata": metadata}}],
            }),
        };
        format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
    }
}
