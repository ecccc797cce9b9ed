//! From a request to its answer.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, Response, header},
};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    Options, discovery, forms,
    kinds::{Kind, Rules, SCALE, STATUS, text},
    object::Object,
    patch::Patch,
    pods, protobuf, read, reply,
    request::Request,
    reviews, scale,
    selector::Selector,
    shelf::Range,
    status::{Failure, Result, done, success},
    store::{Deleted, Deletion, Part, Store},
};

/// The largest body of a request: 3 MiB.
const MOST_BYTES: usize = 3 << 20;

/// A Kubernetes API server in memory. Clones share everything.
#[derive(Clone, Debug)]
pub struct ApiServer {
    store: Store,
    token: Arc<str>,
    /// Whether watches are to end.
    ending: watch::Sender<bool>,
}

/// What a path names.
struct Target {
    kind: Arc<Kind>,
    namespace: String,
    name: String,
    subresource: String,
}

impl ApiServer {
    /// A server with the namespaces and priority classes that every cluster has, and nothing else.
    pub fn new(options: Options) -> Self {
        let token = options.token.clone().unwrap_or_default().into();
        Self { store: Store::new(options), token, ending: watch::channel(false).0 }
    }

    /// The objects, for whoever works on them in the same process.
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// The server as a tower service; no socket is needed to talk to it.
    pub fn router(&self) -> Router {
        Router::new().fallback(handle).with_state(self.clone())
    }

    /// The same server, whose watches can be ended without those of others.
    pub(crate) fn with_watches_of_its_own(&self) -> Self {
        Self { ending: watch::channel(false).0, ..self.clone() }
    }

    /// Ends all watches, so that their connections can be closed.
    pub(crate) fn end_watches(&self) {
        self.ending.send_replace(true);
    }

    async fn answer(&self, request: Request, headers: &HeaderMap, body: Body) -> Result<Response<Body>> {
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
            ["version"] => Ok(reply::value(200, &discovery::version())),
            ["openapi", "v3", ..] => {
                let kinds = self.store.kinds();
                discovery::openapi(&kinds, &request.path[2..]).map(|document| reply::value(200, &document))
            }
            ["api" | "apis", ..] => {
                let (value, content_type) = discovery::discover(&self.store.kinds(), &request)?;
                Ok(reply::typed(200, content_type, value.to_string()))
            }
            [] => Ok(reply::value(
                200,
                &json!({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]}),
            )),
            _ => Err(Failure::no_such_path()),
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
        body: Body,
    ) -> Result<Response<Body>> {
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
        if request.method == Method::POST && name.is_empty() {
            if let Some(kind) = reviews::kind(group, version, plural) {
                let review = self.body(request, body).await?;
                return Ok(reply::value(201, &reviews::verdict(group, kind, review)));
            }
            if (group, plural) == ("", "bindings") {
                let binding = self.body(request, body).await?;
                let pod = text(&binding, "/metadata/name").to_owned();
                return self.bind(request, namespace, &pod, &binding);
            }
        }
        let kind = self.store.kinds().find(group, version, plural).ok_or_else(Failure::no_such_path)?;
        let in_namespace = !namespace.is_empty();
        if (in_namespace && !kind.is_namespaced())
            || (!name.is_empty() && kind.is_namespaced() && !in_namespace)
        {
            return Err(Failure::no_such_path());
        }
        if rest.len() > 3 && !discovery::needs_kubelet(&kind, subresource) {
            return Err(Failure::no_such_path());
        }
        let target = Target {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        };
        if target.name.is_empty() {
            self.collection(request, &target, body).await
        } else if target.subresource.is_empty() {
            self.single(request, &target, body).await
        } else {
            self.subresource(request, &target, body).await
        }
    }

    async fn collection(&self, request: &Request, target: &Target, body: Body) -> Result<Response<Body>> {
        let Target { kind, namespace, .. } = target;
        match request.method {
            Method::GET => {
                let ending = self.ending.subscribe();
                read::collection(&self.store, kind.clone(), namespace, "", request, ending).await
            }
            Method::POST if kind.is_namespaced() != namespace.is_empty() => {
                let (view, dry_run) = (request.view()?, request.dry_run()?);
                let object = self.body(request, body).await?;
                let created = self.store.create_in(kind, namespace, object, dry_run)?;
                Ok(read::object(kind, view, 201, &created))
            }
            Method::DELETE => {
                let how = self.deletion(request, body).await?;
                self.delete_collection(request, target, &how)
            }
            _ => Err(Failure::wrong_method()),
        }
    }

    async fn single(&self, request: &Request, target: &Target, body: Body) -> Result<Response<Body>> {
        let Target { kind, namespace, name, .. } = target;
        let view = request.view()?;
        match request.method {
            Method::GET if request.flag("watch") => {
                let ending = self.ending.subscribe();
                read::collection(&self.store, kind.clone(), namespace, name, request, ending).await
            }
            Method::GET => Ok(read::object(kind, view, 200, &*self.found(target)?)),
            Method::PUT | Method::PATCH => {
                let changed = self.change(request, target, Part::Main, body).await?;
                Ok(read::object(kind, view, 200, &changed))
            }
            Method::DELETE => {
                let how = self.deletion(request, body).await?;
                match self.store.delete_in(kind, namespace, name, &how)? {
                    Deleted::Ending(object) => Ok(read::object(kind, view, 200, &object)),
                    Deleted::Gone(object) if kind.has(crate::kinds::DELETED_OBJECT) => {
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

    fn found(&self, target: &Target) -> Result<Arc<Object>> {
        let key = crate::object::key(&target.namespace, &target.name);
        target.kind.shelf.get(&key).ok_or_else(|| Failure::not_found(target.kind.about(&target.name)))
    }

    async fn subresource(&self, request: &Request, target: &Target, body: Body) -> Result<Response<Body>> {
        let Target { kind, namespace, name, subresource } = target;
        let is_pod = kind.rules == Rules::Pod;
        match (subresource.as_str(), &request.method) {
            ("status", &Method::GET) if kind.has(STATUS) => {
                Ok(read::object(kind, request.view()?, 200, &*self.found(target)?))
            }
            ("status", &Method::PUT | &Method::PATCH) if kind.has(STATUS) => {
                let changed = self.change(request, target, Part::Status, body).await?;
                Ok(read::object(kind, request.view()?, 200, &changed))
            }
            ("scale", &Method::GET) if kind.has(SCALE) => {
                Ok(reply::value(200, &scale::of(&forms::shown(kind, &*self.found(target)?))))
            }
            ("scale", &Method::PUT | &Method::PATCH) if kind.has(SCALE) => {
                self.rescale(request, target, body).await
            }
            ("ephemeralcontainers", &Method::GET) if is_pod => {
                Ok(read::object(kind, request.view()?, 200, &*self.found(target)?))
            }
            ("ephemeralcontainers", &Method::PUT | &Method::PATCH) if is_pod => {
                let changed = self.change(request, target, Part::Whole, body).await?;
                Ok(read::object(kind, request.view()?, 200, &changed))
            }
            ("binding", &Method::POST) if is_pod => {
                let binding = self.body(request, body).await?;
                self.bind(request, namespace, name, &binding)
            }
            ("eviction", &Method::POST) if is_pod => {
                let eviction = self.body(request, body).await?;
                let mut how = deletion_of(&eviction["deleteOptions"])?;
                how.dry_run |= request.dry_run()?;
                pods::evict(&self.store, namespace, name, &how)?;
                Ok(reply::value(201, &done()))
            }
            (name, _) if discovery::needs_kubelet(kind, name) => {
                let message = format!("{}/{name} needs a kubelet, and this API server has none", kind.plural);
                Err(Failure::new(501, "NotImplemented", message))
            }
            ("status", _) if kind.has(STATUS) => Err(Failure::wrong_method()),
            ("scale", _) if kind.has(SCALE) => Err(Failure::wrong_method()),
            ("binding" | "eviction" | "ephemeralcontainers", _) if is_pod => Err(Failure::wrong_method()),
            _ => Err(Failure::no_such_path()),
        }
    }

    fn bind(&self, request: &Request, namespace: &str, pod: &str, binding: &Value) -> Result<Response<Body>> {
        pods::bind(&self.store, namespace, pod, binding, request.dry_run()?)?;
        Ok(reply::value(201, &done()))
    }

    /// Replaces or patches an object.
    async fn change(
        &self,
        request: &Request,
        target: &Target,
        part: Part,
        body: Body,
    ) -> Result<Arc<Object>> {
        let Target { kind, namespace, name, .. } = target;
        let dry_run = request.dry_run()?;
        let change = self.changer(request, kind, name, namespace, body).await?;
        self.store.modify(kind, namespace, name, part, dry_run, |old| {
            let new = change.apply(&kind.kind, old)?;
            if part != Part::Whole {
                return Ok(new);
            }
            // The one subresource that writes a part of the spec.
            let mut kept = old.clone();
            kept["spec"]["ephemeralContainers"] = new["spec"]["ephemeralContainers"].clone();
            Ok(kept)
        })
    }

    async fn rescale(&self, request: &Request, target: &Target, body: Body) -> Result<Response<Body>> {
        let Target { kind, namespace, name, .. } = target;
        let dry_run = request.dry_run()?;
        let change = self.changer(request, kind, name, namespace, body).await?;
        let changed = self.store.modify(kind, namespace, name, Part::Main, dry_run, |old| {
            let scaled = change.apply("Scale", &scale::of(old))?;
            let mut new = old.clone();
            scale::write(&scaled, &mut new);
            Ok(new)
        })?;
        Ok(reply::value(200, &scale::of(&forms::shown(kind, &changed))))
    }

    async fn changer(
        &self,
        request: &Request,
        kind: &Kind,
        name: &str,
        namespace: &str,
        body: Body,
    ) -> Result<Change> {
        if request.method == Method::PATCH {
            // Refuses what it does not know before it reads on.
            Patch::parse(&request.content_type, kind.custom, &json!({})).or_else(|failure| {
                if failure.code == 415 { Err(failure) } else { Ok(Patch::Merge(Value::Null)) }
            })?;
            let patch = parse_json(&bytes(body).await?)?;
            return Patch::parse(&request.content_type, kind.custom, &patch).map(Change::Patch);
        }
        let mut object = self.body(request, body).await?;
        let given = text(&object, "/metadata/name");
        if !given.is_empty() && given != name {
            let message =
                format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(Failure::bad_request(message));
        }
        let given = text(&object, "/metadata/namespace");
        if !given.is_empty() && given != namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if crate::rules::map(&mut object, "metadata").is_none() {
            return Err(Failure::bad_request(
                "the object provided is unrecognized: metadata is no JSON object",
            ));
        }
        object["metadata"]["name"] = name.into();
        Ok(Change::Replace(object))
    }

    async fn deletion(&self, request: &Request, body: Body) -> Result<Deletion> {
        let bytes = bytes(body).await?;
        let options = if bytes.is_empty() { Value::Null } else { parsed(request, &bytes)? };
        let mut how = deletion_of(&options)?;
        how.grace = request.number("gracePeriodSeconds")?.or(how.grace);
        how.dry_run |= request.dry_run()?;
        Ok(how)
    }

    fn delete_collection(
        &self,
        request: &Request,
        target: &Target,
        how: &Deletion,
    ) -> Result<Response<Body>> {
        let Target { kind, namespace, .. } = target;
        let (labels, fields) = (request.query("labelSelector"), request.query("fieldSelector"));
        let selector = Selector::parse(namespace, labels, fields, &kind.shelf.fields)?;
        let range = Range { namespace, ..Range::ALL };
        let page = kind.shelf.list(&range, |object| selector.matches(object)).unwrap_or_default();
        let mut items = Vec::new();
        for object in &page.objects {
            match self.store.delete_in(kind, object.namespace(), object.name(), how) {
                Ok(Deleted::Gone(object) | Deleted::Ending(object)) => items.push(forms::json(kind, &object)),
                // Somebody else was faster.
                Err(failure) if failure.code == 404 => {}
                Err(failure) => return Err(failure),
            }
        }
        let metadata = json!({"resourceVersion": self.store.version().to_string()});
        Ok(reply::list(&kind.list_kind, &kind.api_version(), &metadata, items))
    }

    async fn body(&self, request: &Request, body: Body) -> Result<Value> {
        parsed(request, &bytes(body).await?)
    }
}

/// How a request changes an object.
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
    server.answer(request, &parts.headers, body).await.unwrap_or_else(|failure| reply::failure(&failure))
}

/// The whole body, if it is not too large.
async fn bytes(body: Body) -> Result<Bytes> {
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece =
            piece.map_err(|e| Failure::bad_request(format!("the body of the request broke off: {e}")))?;
        if whole.len() + piece.len() > MOST_BYTES {
            let message = format!("Request entity too large: limit is {MOST_BYTES}");
            return Err(Failure::new(413, "RequestEntityTooLarge", message));
        }
        whole.extend_from_slice(&piece);
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

/// The body as its content type says.
fn parsed(request: &Request, bytes: &[u8]) -> Result<Value> {
    match request.content_type.as_str() {
        "" | "application/json" | "text/json" => parse_json(bytes),
        "application/yaml" | "text/yaml" | "application/x-yaml" => yaml(bytes),
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
    serde_saphyr::from_str(text)
        .map_err(|e| Failure::bad_request(format!("error converting YAML to JSON: {e}")))
}

/// `DeleteOptions`.
fn deletion_of(options: &Value) -> Result<Deletion> {
    let dry_run = match options.get("dryRun").and_then(Value::as_array).map(Vec::as_slice) {
        None | Some([]) => false,
        Some([all]) if all == "All" => true,
        Some(_) => return Err(Failure::bad_request("dryRun: Unsupported value: supported values: \"All\"")),
    };
    Ok(Deletion {
        grace: options.get("gracePeriodSeconds").and_then(Value::as_i64),
        uid: text(options, "/preconditions/uid").to_owned(),
        version: text(options, "/preconditions/resourceVersion").to_owned(),
        dry_run,
    })
}
