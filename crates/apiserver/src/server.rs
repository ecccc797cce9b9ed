//! Request handling, from the parsed request to the response.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, Response, header},
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use crate::{
    Options, admission,
    apply::{Application, Writer},
    discovery, forms,
    kinds::{DELETED_OBJECT, Kind, REVIEW, Rules},
    object::StoredObject,
    openapi,
    patch::{self, Patch},
    pods, protobuf, read,
    reply::{self, Answer},
    request::{Request, Target, UnknownFields},
    reviews, scale, schema,
    shelf::Range,
    status::{About, Failure, FieldError, Result, done, success},
    store::{Deleted, Deletion, Manner, Part, Store, Tracking},
    time::now,
    tokens,
    value::{present, text},
};

/// Maximum size of a request body: 3 MiB.
const MOST_BYTES: usize = 3 << 20;
/// Number of bytes of an oversized body that are read before the server responds. A client may miss a response that
/// arrives while the client is still writing.
const MOST_IGNORED: usize = 4 * MOST_BYTES;
/// Maximum number of attempts at an apply while other clients create or delete the object.
const TRIES: u32 = 10;
/// Time limit for receiving a body.
const BODY_TIME: Duration = Duration::from_secs(60);

/// An in-memory Kubernetes API server. Clones share everything.
#[derive(Clone, Debug)]
pub struct ApiServer {
    store: Store,
    token: Arc<str>,
    /// True once watches and connections must end.
    ending: watch::Sender<bool>,
}

impl ApiServer {
    /// Creates a server with the objects that every cluster has, such as the `default` namespace, and nothing else.
    pub fn new(options: Options) -> Self {
        let token = options.token.clone().unwrap_or_default().into();
        Self { store: Store::new(options), token, ending: watch::channel(false).0 }
    }

    /// Returns the objects, for code in the same process.
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// Returns the server as a tower service, which can be called without a socket.
    pub fn router(&self) -> Router {
        Router::new().fallback(handle).with_state(self.clone())
    }

    /// Returns another handle to the same server. Ending one handle does not end the other.
    pub(crate) fn with_separate_end(&self) -> Self {
        Self { ending: watch::channel(false).0, ..self.clone() }
    }

    /// Ends all watches, and closes each connection when its requests are done.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Returns a receiver whose value becomes true when the server ends.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    async fn answer(&self, request: Request, headers: &HeaderMap, body: Bytes) -> Answer {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        if let ["healthz" | "livez" | "readyz", ..] = path.as_slice() {
            return Ok(reply::typed(200, "text/plain; charset=utf-8", "ok"));
        }
        self.authenticate(headers)?;
        match path.as_slice() {
            ["api", "v1", rest @ ..] if !rest.is_empty() => {
                self.resource(&request, "", "v1", rest, body).await
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                self.resource(&request, group, version, rest, body).await
            }
            _ if request.method != Method::GET => Err(Failure::wrong_method()),
            ["version"] => Ok(reply::value(200, &discovery::version(self.store.options()))),
            ["openapi", "v2"] if request.accepted().any(|accepted| accepted.name == openapi::ACCEPTED) => {
                let document = openapi::version_2(&self.store.kinds(), &self.store.kubernetes_version());
                Ok(reply::typed(200, openapi::PROTOBUF, document))
            }
            ["openapi", "v3", ..] => {
                let (kinds, version) = (self.store.kinds(), self.store.kubernetes_version());
                openapi::version_3(&kinds, &request.path[2..], &version)
                    .map(|document| reply::value(200, &document))
            }
            ["api" | "apis", ..] => {
                let (value, content_type) = discovery::discover(&self.store.kinds(), &request)?;
                Ok(reply::typed(200, content_type, value.to_string()))
            }
            [] => Ok(reply::value(
                200,
                &json!({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]}),
            )),
            _ => Err(Failure::no_such_page()),
        }
    }

    fn authenticate(&self, headers: &HeaderMap) -> Result<()> {
        let given =
            headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if self.token.is_empty() || given.strip_prefix("Bearer ").map(str::trim) == Some(&*self.token) {
            return Ok(());
        }
        Err(Failure::new(401, "Unauthorized", "Unauthorized"))
    }

    async fn resource(
        &self,
        request: &Request,
        group: &str,
        version: &str,
        rest: &[&str],
        body: Bytes,
    ) -> Answer {
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !matches!(rest, [] | ["status" | "finalize"]) => {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource, ..] => (*plural, *name, *subresource),
            [] => return Err(Failure::no_such_path()),
        };
        if request.method == Method::POST && name.is_empty() && (group, plural) == ("", "bindings") {
            let binding = self.body(request, &body)?;
            let pod = text(&binding, "/metadata/name").to_owned();
            return self.bind(request, namespace, &pod, &binding);
        }
        let kinds = self.store.kinds();
        let kind = kinds.find(group, version, plural).ok_or_else(|| kinds.nothing_there(group))?;
        let in_namespace = !namespace.is_empty();
        if (in_namespace && !kind.is_namespaced())
            || (!name.is_empty() && kind.is_namespaced() && !in_namespace)
        {
            return Err(kinds.nothing_there(group));
        }
        let goes_too_far = rest.len() > 3 && !discovery::needs_kubelet(&kind, subresource);
        if goes_too_far || (kind.has(REVIEW) && !name.is_empty()) {
            return Err(Failure::no_such_path());
        }
        let target = Target {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        };
        let answer = if target.name.is_empty() {
            self.collection(request, &target, body).await
        } else if target.subresource.is_empty() {
            self.single(request, &target, body).await
        } else {
            self.subresource(request, &target, body)
        };
        let answer = answer.unwrap_or_else(|failure| reply::failure(&failure));
        Ok(reply::with_warnings(answer, &target.kind, request))
    }

    async fn collection(&self, request: &Request, target: &Target, body: Bytes) -> Answer {
        let Target { kind, namespace, .. } = target;
        match request.method {
            Method::POST if kind.has(REVIEW) => {
                let review = self.body(request, &body)?;
                Ok(reply::value(201, &reviews::verdict(kind, review)))
            }
            _ if kind.has(REVIEW) => Err(Failure::wrong_method()),
            Method::GET => read::collection(&self.store, target, request, self.ending()).await,
            _ if kind.is_custom() && kind.is_namespaced() && namespace.is_empty() => {
                Err(Failure::no_such_page())
            }
            Method::POST if kind.is_namespaced() != namespace.is_empty() => {
                let (view, dry_run) = (request.view()?, request.dry_run()?);
                let object = self.body(request, &body)?;
                check_named(kind, &object)?;
                check_strictly(request, kind, &object)?;
                let manager = request.field_manager()?;
                let tracking = manager.map_or(Tracking::Nothing, |manager| {
                    Tracking::Update(Writer { manager, subresource: "" })
                });
                let created = self.store.create_in(kind, namespace, object, dry_run, tracking)?;
                if admission::may_warn(kind) {
                    admission::warnings(kind, None, &created.value())
                        .iter()
                        .for_each(|text| request.warn(text));
                }
                Ok(read::object(kind, view, 201, &created))
            }
            Method::DELETE
                if kind.is_namespaced() != namespace.is_empty() && kind.rules != Rules::Namespace =>
            {
                let how = self.deletion(request, &body)?;
                self.delete_collection(request, target, &how)
            }
            _ => Err(Failure::wrong_method()),
        }
    }

    async fn single(&self, request: &Request, target: &Target, body: Bytes) -> Answer {
        let Target { kind, namespace, name, .. } = target;
        let view = request.view()?;
        match request.method {
            Method::GET if request.flag("watch") => {
                read::collection(&self.store, target, request, self.ending()).await
            }
            Method::GET => Ok(read::object(kind, view, 200, &*self.found(target)?)),
            Method::PATCH if patch::is_apply(&request.content_type) => {
                let (code, object) = self.apply(request, target, Part::Main, &body)?;
                Ok(read::object(kind, view, code, &object))
            }
            Method::PUT | Method::PATCH => {
                let changed = self.change(request, target, Part::Main, body)?;
                Ok(read::object(kind, view, 200, &changed))
            }
            Method::DELETE => {
                let how = self.deletion(request, &body)?;
                match self.store.delete_in(kind, namespace, name, &how)? {
                    Deleted::Ending(object) => Ok(read::object(kind, view, 200, &object)),
                    Deleted::Gone(object) if kind.has(DELETED_OBJECT) => {
                        Ok(read::object(kind, view, 200, &object))
                    }
                    Deleted::Gone(object) => {
                        let uid = text(&object.value(), "/metadata/uid").to_owned();
                        let mut details = json!({"name": name, "kind": kind.plural, "uid": uid});
                        if !kind.group.is_empty() {
                            details["group"] = kind.group.as_str().into();
                        }
                        Ok(reply::value(200, &success(details)))
                    }
                }
            }
            _ => Err(Failure::wrong_method()),
        }
    }

    fn found(&self, target: &Target) -> Result<Arc<StoredObject>> {
        let key = crate::object::key(&target.namespace, &target.name);
        target.kind.shelf.get(&key).ok_or_else(|| Failure::not_found(target.kind.about(&target.name)))
    }

    fn subresource(&self, request: &Request, target: &Target, body: Bytes) -> Answer {
        let Target { kind, namespace, name, subresource } = target;
        self.check_containers(request, target)?;
        if !kind.subresources().iter().any(|(known, _)| known == subresource) {
            if kind.is_custom() {
                return Err(Failure::not_found(kind.about(name)));
            }
            if !discovery::needs_kubelet(kind, subresource) {
                return Err(Failure::no_such_path());
            }
            let message =
                format!("{}/{subresource} needs a kubelet, and this API server has none", kind.plural);
            return Err(Failure::new(501, "NotImplemented", message));
        }
        match (subresource.as_str(), &request.method) {
            ("status" | "ephemeralcontainers", &Method::GET) => {
                Ok(read::object(kind, request.view()?, 200, &*self.found(target)?))
            }
            ("status", &Method::PATCH) if patch::is_apply(&request.content_type) => {
                let (code, object) = self.apply(request, target, Part::Status, &body)?;
                Ok(read::object(kind, request.view()?, code, &object))
            }
            ("status" | "ephemeralcontainers", &Method::PUT | &Method::PATCH) => {
                let part = if subresource == "status" { Part::Status } else { Part::Whole };
                let changed = self.change(request, target, part, body)?;
                Ok(read::object(kind, request.view()?, 200, &changed))
            }
            ("scale", &Method::GET) => {
                let scale = scale::found(kind, &forms::shown(kind, &*self.found(target)?))?;
                Ok(reply::value(200, &scale::shown(scale, request.view()?)))
            }
            ("scale", &Method::PUT | &Method::PATCH) => self.rescale(request, target, body),
            ("binding", &Method::POST) => {
                let binding = self.body(request, &body)?;
                check_kind(&binding, "Binding")?;
                self.bind(request, namespace, name, &binding)
            }
            ("token", &Method::POST) => {
                let account = self.found(target)?.value();
                let wanted = self.body(request, &body)?;
                Ok(reply::value(201, &tokens::issue(&account, wanted, &self.store.new_uid(), now())?))
            }
            ("eviction", &Method::POST) => {
                let eviction = self.body(request, &body)?;
                let mut how = deletion_of(&eviction["deleteOptions"])?;
                how.dry_run |= request.dry_run()?;
                pods::evict(&self.store, namespace, name, &eviction, &how)?;
                Ok(reply::value(201, &done()))
            }
            _ => Err(Failure::wrong_method()),
        }
    }

    /// Refuses requests that need a container, if the options contain a reason for refusing them.
    fn check_containers(&self, request: &Request, target: &Target) -> Result<()> {
        let Target { kind, subresource, .. } = target;
        let makes_one = subresource == "ephemeralcontainers" && request.method != Method::GET;
        match &self.store.options().no_containers {
            Some(why) if makes_one || discovery::needs_kubelet(kind, subresource) => {
                Err(Failure::new(501, "NotImplemented", format!("{}/{subresource}: {why}", kind.plural)))
            }
            _ => Ok(()),
        }
    }

    fn bind(&self, request: &Request, namespace: &str, pod: &str, binding: &Value) -> Answer {
        pods::bind(&self.store, namespace, pod, binding, request.dry_run()?)?;
        Ok(reply::value(201, &done()))
    }

    /// Replaces or patches an object.
    fn change(
        &self,
        request: &Request,
        target: &Target,
        part: Part,
        body: Bytes,
    ) -> Result<Arc<StoredObject>> {
        let Target { kind, namespace, name, .. } = target;
        let subresource = if part == Part::Status { "status" } else { "" };
        let manner = manner(request, part, subresource)?;
        let change = self.changer(request, target, &body)?;
        let mut warnings = Vec::new();
        let changed = self.store.modify(kind, namespace, name, manner, |old| {
            let new = change.apply(&kind.kind, old)?;
            if part == Part::Main && admission::may_warn(kind) {
                warnings = admission::warnings(kind, Some(old), &new);
            }
            match &change {
                Change::Replace(_) => check_strictly(request, kind, &new)?,
                Change::Patch(_) => check_patched(request, kind, old, &new)?,
            }
            check_place(&new, namespace, name)?;
            if part != Part::Whole {
                return Ok(new);
            }
            // The `ephemeralcontainers` subresource changes only this field.
            let mut kept = old.clone();
            kept["spec"]["ephemeralContainers"] = new["spec"]["ephemeralContainers"].clone();
            admission::default_pod_spec(&mut kept["spec"]);
            Ok(kept)
        })?;
        warnings.iter().for_each(|text| request.warn(text));
        Ok(changed)
    }

    /// Applies a configuration (server-side apply). Returns the object, and code 201 if the object was created or 200
    /// otherwise.
    fn apply(
        &self,
        request: &Request,
        target: &Target,
        part: Part,
        body: &Bytes,
    ) -> Result<(u16, Arc<StoredObject>)> {
        let Target { kind, namespace, name, subresource } = target;
        let dry_run = request.dry_run()?;
        let manager = request.applier()?;
        let config = if body.first() == Some(&b'{') { parse_json(body)? } else { yaml(body)? };
        let writer = Writer { manager, subresource };
        let application = Application { writer, force: request.flag("force"), config: &config };
        let time = || now().to_rfc3339();
        for _ in 0..TRIES {
            let manner = Manner { part, dry_run, tracking: Tracking::Recorded };
            let changed = self.store.modify(kind, namespace, name, manner, |old| {
                application.check(kind)?;
                let new = application.apply(kind, Some(old), &time())?;
                check_place(&new, namespace, name)?;
                Ok(new)
            });
            match changed {
                Err(failure) if failure.code == 404 && part == Part::Main => {}
                changed => return changed.map(|object| (200, object)),
            }
            application.check(kind)?;
            let uid = text(&config, "/metadata/uid");
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(Failure::conflict(kind.about(name), &why));
            }
            let new = application.apply(kind, None, &time())?;
            check_place(&new, namespace, name)?;
            match self.store.create_in(kind, namespace, new, dry_run, Tracking::Recorded) {
                // Another client created the object first.
                Err(failure) if failure.code == 409 && failure.reason == "AlreadyExists" => {}
                created => return created.map(|object| (201, object)),
            }
        }
        Err(Failure::conflict(kind.about(name), "other clients kept creating or deleting the object"))
    }

    fn rescale(&self, request: &Request, target: &Target, body: Bytes) -> Answer {
        let Target { kind, namespace, name, .. } = target;
        let manner = manner(request, Part::Main, "scale")?;
        let change = self.changer(request, target, &body)?;
        let changed = self.store.modify(kind, namespace, name, manner, |old| {
            let scaled = change.apply("Scale", &scale::of(kind, old))?;
            let mut new = old.clone();
            scale::write(kind, &scaled, &mut new)?;
            Ok(new)
        })?;
        Ok(reply::value(200, &scale::of(kind, &forms::shown(kind, &changed))))
    }

    fn changer(&self, request: &Request, target: &Target, body: &Bytes) -> Result<Change> {
        let Target { kind, namespace, name, .. } = target;
        if request.method == Method::PATCH {
            if !request.query("force").is_empty() {
                let why = "may not be specified for non-apply patch";
                return Err(Failure::invalid_options("PatchOptions", FieldError::forbidden("force", why)));
            }
            // An unsupported type of patch is reported before errors in its body.
            Patch::parse(&request.content_type, kind.is_custom(), &json!({})).or_else(|failure| {
                if failure.code == 415 { Err(failure) } else { Ok(Patch::Merge(Value::Null)) }
            })?;
            let patch = parse_json(body)?;
            return Patch::parse(&request.content_type, kind.is_custom(), &patch).map(Change::Patch);
        }
        let mut object = self.body(request, body)?;
        check_named(kind, &object)?;
        forms::check(kind, &object)?;
        check_place(&object, namespace, name)?;
        object["metadata"]["name"] = name.as_str().into();
        Ok(Change::Replace(object))
    }

    fn deletion(&self, request: &Request, body: &Bytes) -> Result<Deletion> {
        let options = if body.is_empty() { Value::Null } else { parsed(request, body)? };
        let mut how = deletion_of(&options)?;
        how.grace = request.number("gracePeriodSeconds")?.or(how.grace);
        how.dry_run |= request.dry_run()?;
        Ok(how)
    }

    fn delete_collection(&self, request: &Request, target: &Target, how: &Deletion) -> Answer {
        let Target { kind, namespace, .. } = target;
        let (labels, fields) = (request.query("labelSelector"), request.query("fieldSelector"));
        let selector = kind.selector(namespace, labels, fields)?;
        let range = Range { namespace, ..Range::ALL };
        let page = kind.shelf.list(&range, |object| selector.matches(object)).unwrap_or_default();
        let mut items = Vec::new();
        for object in &page.objects {
            match self.store.delete_in(kind, object.namespace(), object.name(), how) {
                Ok(Deleted::Gone(object) | Deleted::Ending(object)) => items.push(forms::json(kind, &object)),
                // Another client deleted the object first.
                Err(failure) if failure.code == 404 => {}
                Err(failure) => return Err(failure),
            }
        }
        let mut metadata = json!({"resourceVersion": self.store.version().to_string()});
        if kind.is_custom() {
            metadata["continue"] = "".into();
        }
        Ok(reply::list(kind, &metadata, items))
    }

    /// Returns the object in a request body; `null` stands for an object without fields.
    fn body(&self, request: &Request, body: &Bytes) -> Result<Value> {
        let value = parsed(request, body)?;
        Ok(if value.is_null() { json!({}) } else { value })
    }
}

/// Returns the settings with which a request changes part of an object, including the writer to record.
fn manner<'a>(request: &'a Request, part: Part, subresource: &'a str) -> Result<Manner<'a>> {
    let tracking = match part {
        Part::Whole => Tracking::Nothing,
        Part::Main | Part::Status => Tracking::Update(Writer { manager: request.writer()?, subresource }),
    };
    Ok(Manner { part, dry_run: request.dry_run()?, tracking })
}

/// A change that a request makes to an object.
enum Change {
    Replace(Value),
    Patch(Patch),
}

impl Change {
    fn apply(&self, kind: &str, old: &Value) -> Result<Value> {
        match self {
            Self::Replace(new) => Ok(new.clone()),
            Self::Patch(patch) => {
                let mut new = old.clone();
                patch.apply(kind, &mut new)?;
                Ok(new)
            }
        }
    }
}

async fn handle(State(server): State<ApiServer>, request: axum::extract::Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let request = Request::new(parts.method, &parts.uri, &parts.headers);
    // The body is read even if it is not needed: a connection with an unread body cannot be reused.
    match bytes(body).await {
        Ok(body) => answered(server.answer(request, &parts.headers, body)).await,
        Err(failure) => reply::failure(&failure),
    }
}

/// Turns failures into responses. A panic, which is a defect of this server, becomes a response too, so that it does
/// not affect other requests.
async fn answered(answer: impl Future<Output = Answer>) -> Response<Body> {
    // State that outlives a request is protected by locks that remain usable after a panic.
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    answer.unwrap_or_else(|_| Err(Failure::panicked())).unwrap_or_else(|failure| reply::failure(&failure))
}

/// Reads the whole body, within the size and time limits.
async fn bytes(body: Body) -> Result<Bytes> {
    timeout(BODY_TIME, collected(body)).await.unwrap_or_else(|_| {
        let message = "Timeout: request did not complete within the allotted timeout";
        Err(Failure::new(504, "Timeout", message))
    })
}

async fn collected(body: Body) -> Result<Bytes> {
    let mut pieces = body.into_data_stream();
    let (mut whole, mut length) = (Vec::new(), 0);
    while let Some(piece) = pieces.next().await {
        let piece =
            piece.map_err(|e| Failure::bad_request(format!("the request body ended prematurely: {e}")))?;
        length += piece.len();
        if length <= MOST_BYTES {
            whole.extend_from_slice(&piece);
        } else if length > MOST_IGNORED {
            break;
        }
    }
    if length > MOST_BYTES {
        let message = format!("Request entity too large: limit is {MOST_BYTES}");
        return Err(Failure::new(413, "RequestEntityTooLarge", message));
    }
    Ok(whole.into())
}

fn parse_json(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|e| {
        Failure::bad_request(format!(
            "the object provided is unrecognized: couldn't get version/kind; json parse error: {e}"
        ))
    })
}

/// Parses the body according to its content type.
fn parsed(request: &Request, bytes: &[u8]) -> Result<Value> {
    match request.content_type.as_str() {
        "" | "application/json" | "text/json" => parse_json(bytes),
        "application/yaml" | "text/yaml" | "application/x-yaml" => yaml(bytes),
        "application/vnd.kubernetes.protobuf" if !protobuf::is_meant(bytes) => Err(Failure::bad_request(
            "the object provided is unrecognized: provided data does not appear to be a protobuf message",
        )),
        "application/vnd.kubernetes.protobuf" => protobuf::decode(bytes).map_err(|why| {
            Failure::unsupported_media(format!(
                "the body of the request cannot be read as protobuf: {why}; configure the client to use the content \
                 type application/json"
            ))
        }),
        _ => Err(Failure::unsupported_media(
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

fn yaml(bytes: &[u8]) -> Result<Value> {
    let text = std::str::from_utf8(bytes).map_err(|e| Failure::bad_request(format!("yaml: {e}")))?;
    let wrong = |why: String| Failure::bad_request(format!("error converting YAML to JSON: {why}"));
    let document = harbormaster_yaml::parse(text).map_err(|e| wrong(e.to_string()))?;
    match document.repeated_keys().first() {
        Some((key, _)) => Err(wrong(format!("key \"{key}\" already set in map"))),
        None => Ok(document.into_json()),
    }
}

fn check_strictly(request: &Request, kind: &Kind, object: &Value) -> Result<()> {
    let wanted = request.unknown_fields()?;
    if wanted == UnknownFields::Ignored {
        return Ok(());
    }
    let misfits = schema::inspect(kind, &mut object.clone());
    let known = check_unknown(request, wanted, &misfits);
    known.map_err(|why| Failure::bad_request(kind.cannot_be_handled(&why)))
}

/// Refuses unknown fields, or adds warnings about them.
fn check_unknown(
    request: &Request,
    wanted: UnknownFields,
    misfits: &schema::Misfits,
) -> std::result::Result<(), String> {
    let unknown = misfits.unknown_fields();
    match wanted {
        UnknownFields::Refused if !unknown.is_empty() => {
            return Err(format!("strict decoding error: {}", unknown.join(", ")));
        }
        UnknownFields::WarnedOf => unknown.iter().for_each(|field| request.warn(field)),
        UnknownFields::Refused | UnknownFields::Ignored => {}
    }
    Ok(())
}

/// Refuses a patch that changes the UID, or whose result does not fit the kind.
fn check_patched(request: &Request, kind: &Kind, old: &Value, object: &Value) -> Result<()> {
    let uid = text(object, "/metadata/uid");
    if !uid.is_empty() && uid != text(old, "/metadata/uid") {
        let error = FieldError::invalid("metadata.uid", uid, "field is immutable");
        return Err(Failure::invalid(kind.about(text(old, "/metadata/name")), &[error]));
    }
    let wanted = request.unknown_fields()?;
    let misfits = schema::inspect(kind, &mut object.clone());
    let fits = forms::check(kind, object).map_err(|failure| failure.message).and_then(|()| misfits.fit());
    fits.and_then(|()| check_unknown(request, wanted, &misfits)).map_err(|why| {
        let nothing = About { group: "", plural: "", kind: "", name: "" };
        Failure::invalid(nothing, &[FieldError::invalid("patch", object.to_string(), why)])
    })
}

/// Refuses an object without a name, and one whose name or namespace contradicts the path.
fn check_place(object: &Value, namespace: &str, name: &str) -> Result<()> {
    let given = text(object, "/metadata/name");
    if given.is_empty() {
        let message =
            format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Failure::bad_request(message));
    }
    if given != name {
        let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Failure::bad_request(message));
    }
    let given = text(object, "/metadata/namespace");
    if !given.is_empty() && given != namespace {
        return Err(Failure::other_namespace());
    }
    Ok(())
}

/// Refuses a custom resource without `kind` or `apiVersion`.
fn check_named(kind: &Kind, object: &Value) -> Result<()> {
    if !kind.is_custom() || !object.is_object() {
        return Ok(());
    }
    if text(object, "/kind").is_empty() {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{object}'",
            kind.kind
        )));
    }
    match text(object, "/apiVersion") {
        "" => Err(forms::other_version("", &kind.api_version())),
        _ => Ok(()),
    }
}

/// Refuses a subresource body that names a different `kind`.
fn check_kind(body: &Value, kind: &str) -> Result<()> {
    match text(body, "/kind") {
        given if given.is_empty() || given == kind => Ok(()),
        given => Err(Failure::bad_request(format!(
            "{given} in version \"v1\" cannot be handled as a {kind}: converting (v1.{given}) to (core.{kind}): unknown \
             conversion"
        ))),
    }
}

/// Parses `DeleteOptions`.
fn deletion_of(options: &Value) -> Result<Deletion> {
    let refused = |error| Err(Failure::invalid_options("DeleteOptions", error));
    let dry_run = match options.get("dryRun").and_then(Value::as_array).map(Vec::as_slice) {
        None | Some([]) => false,
        Some([all]) if all == "All" => true,
        Some(other) => return refused(FieldError::unsupported("dryRun", other.to_vec(), &["All"])),
    };
    let policy = text(options, "/propagationPolicy");
    if !policy.is_empty() && present(options, "/orphanDependents").is_some() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        return refused(FieldError::invalid("propagationPolicy", policy, why));
    }
    if !matches!(policy, "" | "Foreground" | "Background" | "Orphan") {
        let known = ["Foreground", "Background", "Orphan", "nil"];
        return refused(FieldError::unsupported("propagationPolicy", policy, &known));
    }
    Ok(Deletion {
        grace: options.get("gracePeriodSeconds").and_then(Value::as_i64),
        uid: text(options, "/preconditions/uid").to_owned(),
        version: text(options, "/preconditions/resourceVersion").to_owned(),
        dry_run,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_response_with_code_500() {
        let response = answered(async { panic!("on purpose") }).await;
        assert_eq!(response.status(), 500);
    }
}
