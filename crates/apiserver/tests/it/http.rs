//! The server from its clients' perspective: requests and responses, without a socket.

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
};
use futures_util::StreamExt;
use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_apiserver::{ApiServer, Options};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const JSON: &str = "application/json";
const PODS: &str = "/api/v1/namespaces/default/pods";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A client with its own server.
struct Client {
    router: Router,
    server: ApiServer,
}

impl Client {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let server = ApiServer::new(options);
        Self { router: server.router(), server }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let code = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
        (code.as_u16(), serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &[], Body::empty()).await
    }

    async fn post(&self, path: &str, object: &Value) -> (u16, Value) {
        self.send("POST", path, &[("content-type", JSON)], object.to_string()).await
    }

    async fn patch(&self, path: &str, kind: &str, patch: &Value) -> (u16, Value) {
        let content_type = format!("application/{kind}+json");
        self.send("PATCH", path, &[("content-type", &content_type)], patch.to_string()).await
    }

    async fn delete(&self, path: &str) -> (u16, Value) {
        self.send("DELETE", path, &[], Body::empty()).await
    }

    /// Returns the lines that a watch sends until it pauses for a moment.
    async fn watch(&self, path: &str, accept: &str) -> Vec<Value> {
        let request = Request::builder().uri(path).header("accept", accept).body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let mut pieces = response.into_body().into_data_stream();
        let mut all = Vec::new();
        let moment = std::time::Duration::from_millis(100);
        while let Ok(Some(piece)) = tokio::time::timeout(moment, pieces.next()).await {
            all.extend_from_slice(&piece.unwrap());
        }
        let lines = all.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"n": name}},
           "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn message(answer: &(u16, Value)) -> &str {
    answer.1["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn refused_requests_get_a_status() {
    let client = Client::new();
    client.post(PODS, &pod("a")).await;
    let long = "x".repeat(4 << 20);
    let json = [("content-type", JSON)];
    for (method, path, headers, body, code, reason) in [
        ("GET", "/api/v1/nonsense", &json[..], "", 404, "NotFound"),
        ("GET", "/apis/apps/v9/deployments", &json, "", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", &json, "", 404, "NotFound"),
        ("GET", "/api/v1/pods/a", &json, "", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/pods/nope", &json, "", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/pods/a/nonsense", &json, "", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/pods/a/log", &json, "", 501, "NotImplemented"),
        ("POST", "/api/v1/namespaces/default/pods/a/exec?command=ls", &json, "", 501, "NotImplemented"),
        ("POST", "/api/v1/pods", &json, "{}", 405, "MethodNotAllowed"),
        ("PUT", PODS, &json, "{}", 405, "MethodNotAllowed"),
        ("POST", "/version", &json, "{}", 405, "MethodNotAllowed"),
        ("POST", PODS, &json, "{\"a\":", 400, "BadRequest"),
        ("POST", PODS, &json, "[]", 400, "BadRequest"),
        ("POST", PODS, &json, "\u{1}\u{2}\u{3}", 400, "BadRequest"),
        ("POST", PODS, &json, "{\"metadata\":5}", 400, "BadRequest"),
        ("POST", PODS, &json, "{\"kind\":\"Node\",\"apiVersion\":\"v1\"}", 400, "BadRequest"),
        ("POST", PODS, &json, "{\"kind\":\"Pod\",\"apiVersion\":\"v2\"}", 400, "BadRequest"),
        ("POST", PODS, &json, &long, 413, "RequestEntityTooLarge"),
        ("POST", PODS, &[("content-type", "text/html")], "x", 415, "UnsupportedMediaType"),
        ("GET", PODS, &[("accept", "application/vnd.kubernetes.protobuf")], "", 406, "NotAcceptable"),
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/a",
            &[("content-type", "application/apply-patch+yaml")],
            "{}",
            422,
            "Invalid",
        ),
        ("PATCH", "/api/v1/namespaces/default/pods/a", &json, "{}", 415, "UnsupportedMediaType"),
        ("GET", "/api/v1/pods?labelSelector=a%20b", &json, "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?fieldSelector=spec.foo=x", &json, "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?resourceVersion=abc", &json, "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?resourceVersion=999999", &json, "", 504, "Timeout"),
        ("GET", "/api/v1/pods?continue=abc", &json, "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?watch=1&sendInitialEvents=true", &json, "", 422, "Invalid"),
    ] {
        let answer = client.send(method, path, headers, body.to_owned()).await;
        let short: String = body.chars().take(40).collect();
        assert_eq!(
            (answer.0, &answer.1["reason"]),
            (code, &json!(reason)),
            "{method} {path} {short}: {}",
            answer.1
        );
        assert_eq!(
            (&answer.1["kind"], &answer.1["status"]),
            (&json!("Status"), &json!("Failure")),
            "{method} {path}"
        );
        assert_ne!(message(&answer), "", "{method} {path}");
    }
}

#[tokio::test]
async fn an_update_of_an_old_version_is_a_conflict() {
    let client = Client::new();
    let (code, created) = client.post(PODS, &pod("a")).await;
    assert_eq!(code, 201);
    let path = format!("{PODS}/a");
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    assert_eq!(client.patch(&path, "merge-patch", &labels).await.0, 200);
    let stale = client.send("PUT", &path, &[("content-type", JSON)], created.to_string()).await;
    assert_eq!(stale.0, 409);
    assert_eq!(
        message(&stale),
        "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the \
         latest version and try again"
    );
    let mut fresh = client.get(&path).await.1;
    fresh["metadata"]["labels"] = json!({"z": "z"});
    assert_eq!(client.send("PUT", &path, &[("content-type", JSON)], fresh.to_string()).await.0, 200);
    fresh["metadata"]["name"] = json!("b");
    let other = client.send("PUT", &path, &[("content-type", JSON)], fresh.to_string()).await;
    assert_eq!(message(&other), "the name of the object (b) does not match the name on the URL (a)");
}

#[tokio::test]
async fn yaml_is_accepted_and_a_dry_run_stores_nothing() {
    let client = Client::new();
    // A label that is all digits except for an `e` is a string, as in kube-apiserver.
    let yaml = "metadata:\n  name: m\n  labels:\n    commit: 1234e567\ndata:\n  a: 'yes'\n";
    let path = "/api/v1/namespaces/default/configmaps";
    let headers = [("content-type", "application/yaml")];
    assert_eq!(client.send("POST", &format!("{path}?dryRun=All"), &headers, yaml).await.0, 201);
    assert_eq!(client.get(&format!("{path}/m")).await.0, 404);
    let (code, created) = client.send("POST", path, &headers, yaml).await;
    assert_eq!((code, &created["data"]["a"]), (201, &json!("yes")));
    assert_eq!(created["metadata"]["labels"]["commit"], json!("1234e567"));
    assert_eq!(client.delete(&format!("{path}/m?dryRun=All")).await.0, 200);
    assert_eq!(client.get(&format!("{path}/m")).await.0, 200);
    assert_eq!(client.delete(&format!("{path}/m")).await.1["status"], json!("Success"));
}

#[tokio::test]
async fn a_list_in_pages_is_consistent_despite_concurrent_writes() {
    let client = Client::with(Options { history: 6, ..Options::default() });
    for name in ["a", "b", "c", "d"] {
        client.post(PODS, &pod(name)).await;
    }
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = client.get("/api/v1/pods?limit=2").await.1;
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a".into(), "b".into()], &json!(2))
    );
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    client.post(PODS, &pod("c2")).await;
    client.delete(&format!("{PODS}/d")).await;
    let second = client.get(&format!("/api/v1/pods?limit=2&continue={token}")).await.1;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(second["metadata"].get("continue"), None);
    for name in ["e", "f", "g", "h", "i", "j"] {
        client.post(PODS, &pod(name)).await;
    }
    let late = client.get(&format!("/api/v1/pods?limit=2&continue={token}")).await;
    assert_eq!((late.0, &late.1["reason"]), (410, &json!("Expired")));
    assert!(message(&late).starts_with("The provided continue parameter is too old"), "{}", late.1);
    let token = late.1["metadata"]["continue"].as_str().unwrap();
    let rest = client.get(&format!("/api/v1/pods?continue={token}")).await.1;
    assert_eq!(names(&rest)[..2], ["c", "c2"]);
}

#[tokio::test]
async fn a_watch_reports_what_its_selectors_match() {
    let client = Client::new();
    let version =
        client.get("/api/v1/pods").await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for name in ["a", "b"] {
        client.post(PODS, &pod(name)).await;
    }
    client.server.store().bind("default", "a", "n1").unwrap();
    client.delete(&format!("{PODS}/b")).await;
    let seen = async |query: &str| -> Vec<String> {
        let lines =
            client.watch(&format!("/api/v1/pods?watch=true&resourceVersion={version}{query}"), JSON).await;
        let text = |line: &Value| {
            format!(
                "{} {}",
                line["type"].as_str().unwrap(),
                line["object"]["metadata"]["name"].as_str().unwrap()
            )
        };
        lines.iter().map(text).collect()
    };
    assert_eq!(seen("").await, ["ADDED a", "ADDED b", "MODIFIED a", "MODIFIED b", "DELETED b"]);
    assert_eq!(
        seen("&fieldSelector=spec.nodeName%3D").await,
        ["ADDED a", "ADDED b", "DELETED a", "MODIFIED b", "DELETED b"]
    );
    assert_eq!(seen("&fieldSelector=spec.nodeName%3Dn1").await, ["ADDED a"]);
    assert_eq!(seen("&labelSelector=n%3Db").await, ["ADDED b", "MODIFIED b", "DELETED b"]);
    let table = client.watch(&format!("/api/v1/pods?watch=true&resourceVersion={version}"), TABLE).await;
    assert_eq!(table[0]["object"]["kind"], json!("Table"));
    assert_eq!(table[0]["object"]["rows"][0]["cells"][0], json!("a"));
}

#[tokio::test]
async fn a_streaming_list_ends_with_an_annotated_bookmark() {
    let client = Client::new();
    client.post(PODS, &pod("a")).await;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let lines = client.watch(&format!("/api/v1/pods?{query}"), JSON).await;
    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["ADDED", "BOOKMARK"]);
    let metadata = &lines[1]["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], json!("true"));
    assert_eq!(
        metadata["resourceVersion"],
        client.get("/api/v1/pods").await.1["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn a_watch_from_a_forgotten_version_fails_as_too_old() {
    let client = Client::with(Options { history: 2, ..Options::default() });
    for name in ["a", "b", "c", "d"] {
        client.post(PODS, &pod(name)).await;
    }
    let lines = client.watch("/api/v1/pods?watch=true&resourceVersion=2", JSON).await;
    assert_eq!((lines.len(), &lines[0]["type"]), (1, &json!("ERROR")));
    let status = &lines[0]["object"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    assert!(status["message"].as_str().unwrap().starts_with("too old resource version: 2 ("), "{status}");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_contain_the_latest_version_and_watches_time_out() {
    let client = Client::new();
    let path = "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion=";
    let version =
        client.get("/api/v1/pods").await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let request = Request::builder().uri(format!("{path}{version}")).body(Body::empty()).unwrap();
    let response = client.router.clone().oneshot(request).await.unwrap();
    client.post("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    let all = response.into_body().collect().await.unwrap().to_bytes();
    let lines: Vec<Value> = all
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "one bookmark a minute");
    let told: u64 = lines[0]["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(told > version.parse().unwrap(), "{told} {version}");
}

#[tokio::test]
async fn tables_have_the_columns_of_kubectl() {
    let client = Client::new();
    client.post(PODS, &pod("a")).await;
    let (_, table) = client.send("GET", PODS, &[("accept", TABLE)], "").await;
    let heads: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(heads[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..4],
        [json!("a"), json!("0/1"), json!("Pending"), json!("0")]
    );
    assert_eq!(table["rows"][0]["object"]["kind"], json!("PartialObjectMetadata"));
}

/// The columns of the definitions in `contrib/` are those that scheduler-plugins' definitions have.
#[tokio::test]
async fn custom_resources_of_scheduler_plugins_have_their_columns() {
    let client = Client::new();
    let contrib = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib");
    let (plain, age) = (vec!["Name", "Age"], "Age");
    for (file, group, version, resource, heads) in [
        (
            "node-resource-topology-match",
            "topology.node.k8s.io",
            "v1alpha2",
            "noderesourcetopologies",
            plain.clone(),
        ),
        ("network-overhead", "appgroup.diktyo.x-k8s.io", "v1alpha1", "appgroups", plain.clone()),
        ("network-overhead", "networktopology.diktyo.x-k8s.io", "v1alpha1", "networktopologies", plain),
        (
            "coscheduling",
            "scheduling.x-k8s.io",
            "v1alpha1",
            "podgroups",
            vec!["Name", "Phase", "MinMember", "Running", "Succeeded", "Failed", age],
        ),
        (
            "sysched",
            "security-profiles-operator.x-k8s.io",
            "v1beta1",
            "seccompprofiles",
            vec!["Name", "Status", age],
        ),
    ] {
        let text = std::fs::read_to_string(format!("{contrib}/{file}/deploy/crd.yaml")).unwrap();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for document in text.split("\n---\n") {
            let headers = [("content-type", "application/yaml")];
            let (code, answer) = client.send("POST", path, &headers, document.to_owned()).await;
            assert!([201, 409].contains(&code), "{file}: {answer}");
        }
        let path = format!("/apis/{group}/{version}/{resource}");
        let (code, table) = client.send("GET", &path, &[("accept", TABLE)], "").await;
        assert_eq!((code, &table["kind"]), (200, &json!("Table")), "{resource}: {table}");
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        let shown = columns.filter(|column| column["priority"] == 0);
        assert_eq!(
            shown.map(|column| column["name"].as_str().unwrap()).collect::<Vec<_>>(),
            heads,
            "{resource}"
        );
    }
}

#[tokio::test]
async fn scale_and_status_are_written_separately() {
    let client = Client::new();
    let web = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
                     "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let base = "/apis/apps/v1/namespaces/default/deployments";
    client.post(base, &web).await;
    let scale = client.get(&format!("{base}/d/scale")).await.1;
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!("Scale"), &json!(1), &json!("a=b"))
    );
    let scaled =
        client.patch(&format!("{base}/d/scale"), "merge-patch", &json!({"spec": {"replicas": 4}})).await;
    assert_eq!((scaled.0, &scaled.1["spec"]["replicas"]), (200, &json!(4)));
    let status = json!({"status": {"readyReplicas": 3}, "spec": {"replicas": 9}});
    client.patch(&format!("{base}/d/status"), "strategic-merge-patch", &status).await;
    let now = client.get(&format!("{base}/d")).await.1;
    assert_eq!((&now["spec"]["replicas"], &now["status"]["readyReplicas"]), (&json!(4), &json!(3)));
}

#[tokio::test]
async fn evictions_spend_the_disruption_budget() {
    let client = Client::new();
    let store = client.server.store();
    for name in ["a", "b"] {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({"app": "x"});
        client.post(PODS, &pod).await;
        store.bind("default", name, "n").unwrap();
        store.merge("pods", "default", name, true, &json!({"status": {"phase": "Running"}})).unwrap();
    }
    let budget = json!({"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    store.create("poddisruptionbudgets.policy", budget).unwrap();
    let evict = async |name: &str| {
        let body = json!({"metadata": {"name": name}});
        client.post(&format!("{PODS}/{name}/eviction"), &body).await
    };
    let unseen = evict("a").await;
    assert_eq!(
        (unseen.0, message(&unseen)),
        (429, "Cannot evict pod as it would violate the pod's disruption budget.")
    );
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}});
    store.merge("poddisruptionbudgets.policy", "default", "p", true, &status).unwrap();
    assert_eq!(evict("a").await.0, 201);
    assert!(client.get(&format!("{PODS}/a")).await.1["metadata"]["deletionTimestamp"].is_string());
    let spent = evict("b").await;
    assert_eq!((spent.0, &spent.1["details"]["causes"][0]["reason"]), (429, &json!("DisruptionBudget")));
}

#[tokio::test]
async fn discovery_lists_the_same_groups_in_both_forms_and_the_subresources_of_pods() {
    let client = Client::new();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (_, aggregated) = client.send("GET", "/apis", &[("accept", accept)], "").await;
    assert_eq!(aggregated["kind"], json!("APIGroupDiscoveryList"));
    let groups = client.get("/apis").await.1;
    let names = |items: &Value, pointer: &str| -> Vec<Value> {
        items.as_array().unwrap().iter().map(|item| item.pointer(pointer).cloned().unwrap()).collect()
    };
    assert_eq!(names(&aggregated["items"], "/metadata/name"), names(&groups["groups"], "/name"));
    let pods = client.get("/api/v1").await.1;
    let of_pods: Vec<Value> = names(&pods["resources"], "/name")
        .into_iter()
        .filter(|n| n.as_str().unwrap().starts_with("pods"))
        .collect();
    assert_eq!(
        of_pods,
        ["pods", "pods/binding", "pods/ephemeralcontainers", "pods/eviction", "pods/status"].map(Value::from)
    );
    let index = client.get("/openapi/v3").await.1;
    for (_, place) in index["paths"].as_object().unwrap() {
        let document = client.get(place["serverRelativeURL"].as_str().unwrap()).await.1;
        let paths = document["paths"].as_object().unwrap();
        for (path, item) in paths.iter().filter(|(path, _)| path.ends_with("/{name}")) {
            let parameters = names(&item["patch"]["parameters"], "/name");
            assert!(parameters.contains(&json!("fieldValidation")), "{path}");
        }
    }
}

#[tokio::test]
async fn groups_of_pods_have_two_versions_of_the_same_objects() {
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
    let client = Client::with(Options { minor_version: 37, features, ..Options::default() });
    let path = |version: &str| format!("/apis/scheduling.k8s.io/{version}/namespaces/default/podgroups");
    let group = |version: &str, name: &str| {
        json!({"apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "PodGroup",
               "metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    };
    let (code, created) = client.post(&path("v1alpha3"), &group("v1alpha3", "g")).await;
    assert_eq!((code, &created["apiVersion"]), (201, &json!("scheduling.k8s.io/v1alpha3")), "{created}");
    let patch = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}});
    let (code, changed) = client.patch(&format!("{}/g", path("v1beta1")), "merge-patch", &patch).await;
    assert_eq!((code, &changed["apiVersion"]), (200, &json!("scheduling.k8s.io/v1beta1")), "{changed}");
    let (_, list) = client.get(&path("v1alpha3")).await;
    assert_eq!(list["apiVersion"], "scheduling.k8s.io/v1alpha3");
    assert_eq!(list["items"][0]["spec"]["schedulingPolicy"]["gang"]["minCount"], 3);
    assert_eq!(list["items"][0]["spec"]["disruptionMode"], json!({"single": {}}), "{list}");
    assert!(list["items"][0].get("kind").is_none(), "as in every list of a built-in kind: {list}");
    let lines = client.watch(&format!("{}?watch=true", path("v1alpha3")), JSON).await;
    assert_eq!(lines[0]["object"]["apiVersion"], "scheduling.k8s.io/v1alpha3", "{lines:?}");
    let (code, _) = client.post(&path("v1alpha3"), &group("v1beta1", "h")).await;
    assert_eq!(code, 400, "an object has the version of its path");
    let wrong = json!({"metadata": {"name": "h"}, "spec": {"schedulingPolicy": {"gang": {"minCount": "x"}}}});
    let (code, _) = client.post(&path("v1alpha3"), &wrong).await;
    assert_eq!(code, 400, "the version has the types of the other one");
}

#[tokio::test]
async fn with_a_token_no_other_credentials_are_accepted() {
    let client = Client::with(Options { token: Some("secret".into()), ..Options::default() });
    assert_eq!(client.get("/api/v1/pods").await.0, 401);
    assert_eq!(client.get("/healthz").await.0, 200);
    let wrong = client.send("GET", "/api/v1/pods", &[("authorization", "Bearer secre")], "").await;
    assert_eq!(wrong.0, 401);
    let right = client.send("GET", "/api/v1/pods", &[("authorization", "Bearer secret")], "").await;
    assert_eq!(right.0, 200);
}

#[tokio::test]
async fn reviews_allow_everything() {
    let client = Client::new();
    let (code, review) =
        client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &json!({"spec": {}})).await;
    assert_eq!((code, &review["status"]["allowed"]), (201, &json!(true)));
    let (_, review) =
        client.post("/apis/authentication.k8s.io/v1/tokenreviews", &json!({"spec": {"token": "x"}})).await;
    assert_eq!(review["status"]["authenticated"], json!(true));
}

#[tokio::test]
async fn any_bytes_get_a_response() {
    let client = Client::new();
    let mut state = 7u64;
    for i in 0..300 {
        let body: Vec<u8> = (0..i % 64)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if i % 2 == 0 { (state >> 33) as u8 } else { b"{}[]\":,0a"[(state >> 33) as usize % 9] }
            })
            .collect();
        for kind in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
            let (code, _) = client.send("POST", PODS, &[("content-type", kind)], body.clone()).await;
            assert!((400..500).contains(&code), "{code} {body:?}");
        }
    }
}

/// Puts unusual values at random positions of an object.
fn twisted(object: &Value, random: &mut impl FnMut(usize) -> usize) -> Value {
    let odd = [
        json!(null),
        json!("x"),
        json!(-1),
        json!([]),
        json!({}),
        json!([{}]),
        json!([5]),
        json!({"a": {"b": []}}),
        json!(true),
    ];
    let mut object = object.clone();
    for _ in 0..=random(2) {
        // A random walk from the top; the path is recorded as a pointer.
        let mut way = String::new();
        loop {
            let next = match object.pointer(&way) {
                Some(Value::Object(map)) if !map.is_empty() => map.keys().nth(random(map.len())).cloned(),
                Some(Value::Array(list)) if !list.is_empty() => Some(random(list.len()).to_string()),
                _ => None,
            };
            let Some(next) = next else { break };
            way = format!("{way}/{next}");
            if random(4) == 0 {
                break;
            }
        }
        *object.pointer_mut(&way).unwrap() = odd[random(odd.len())].clone();
    }
    object
}

#[tokio::test]
async fn odd_objects_are_accepted_or_refused_without_a_panic() {
    let client = Client::new();
    let mut state = 11u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let whole = json!({
        "metadata": {"name": "o", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": [], "ownerReferences": [{}]},
        "spec": {"nodeName": "n", "replicas": 1, "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{}]}, "taints": [{}],
                 "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{}]}}, "strategy": {"rollingUpdate": {}},
                 "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 1}]}],
                 "tolerations": [{}], "topologySpreadConstraints": [{}], "schedulingGates": [{}], "volumes": [{"name": "v"}],
                 "affinity": {"nodeAffinity": {}, "podAffinity": {}}, "names": {"kind": "K", "plural": "ks"}, "versions": [{}]},
        "status": {"capacity": {"cpu": "1"}, "conditions": [{}], "phase": "p", "disruptionsAllowed": 1, "disruptedPods": {}},
        "value": 1, "target": {"kind": "Node", "name": "n"}, "deleteOptions": {"preconditions": {}},
    });
    let resources = [
        "/api/v1/nodes",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/replicationcontrollers",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/batch/v1/namespaces/default/jobs",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default/services",
        "/api/v1/persistentvolumes",
        "/apis/events.k8s.io/v1/namespaces/default/events",
    ];
    for round in 0..600 {
        let path = resources[round % resources.len()];
        let object = twisted(&whole, &mut random);
        let (code, answer) = client.post(path, &object).await;
        assert!(code == 201 || (400..500).contains(&code), "{code} {object} {answer}");
        let base = if path.ends_with("pods") {
            json!({"spec": {"containers": [{"name": "c", "image": "i"}]}})
        } else {
            json!({})
        };
        let mut plain = base;
        plain["metadata"] = json!({"name": "o"});
        client.post(path, &plain).await;
        for (sub, kind) in [
            ("", "merge-patch"),
            ("/status", "merge-patch"),
            ("/scale", "merge-patch"),
            ("", "strategic-merge-patch"),
            ("/ephemeralcontainers", "strategic-merge-patch"),
        ] {
            let patch = twisted(&whole, &mut random);
            let (code, answer) = client.patch(&format!("{path}/o{sub}"), kind, &patch).await;
            // A list element without its merge key is a server error, as in kube-apiserver.
            assert!(code == 200 || (400..=500).contains(&code), "{code} {patch} {answer}");
            assert!(!message(&(code, answer.clone())).contains("panic"), "{patch}");
        }
        for sub in ["binding", "eviction"] {
            let (code, _) = client.post(&format!("{path}/o/{sub}"), &twisted(&whole, &mut random)).await;
            assert!(code == 201 || (400..=500).contains(&code), "{code}");
        }
        assert_eq!(client.send("GET", path, &[("accept", TABLE)], "").await.0, 200);
        client.delete(&format!("{path}/o?gracePeriodSeconds=0")).await;
    }
}

#[tokio::test]
async fn claims_are_reserved_and_released_with_patches_of_their_status() {
    let client = Client::new();
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    let claim = json!({"metadata": {"name": "c", "finalizers": ["resource.kubernetes.io/delete-protection"]},
                       "spec": {"devices": {"requests": [request]}}});
    assert_eq!(client.post(claims, &claim).await.0, 201);
    let status = format!("{claims}/c/status");
    let result = json!({"request": "r", "driver": "d.example", "pool": "n", "device": "gpu-0"});
    let consumer = |uid: &str| json!({"resource": "pods", "name": "p", "uid": uid});
    let patch = json!({"metadata": {"labels": {"a": "b"}, "finalizers": null},
                       "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer("1")]}});
    assert_eq!(client.patch(&status, "strategic-merge-patch", &patch).await.0, 200);
    let more = json!({"status": {"reservedFor": [consumer("2")]}});
    let (_, claim) = client.patch(&status, "strategic-merge-patch", &more).await;
    assert_eq!(claim["metadata"]["labels"], Value::Null);
    assert_eq!(claim["metadata"]["finalizers"], json!(["resource.kubernetes.io/delete-protection"]));
    assert_eq!(claim["status"]["reservedFor"].as_array().map(Vec::len), Some(2));

    let table = client.send("GET", claims, &[("accept", TABLE)], "").await.1;
    assert_eq!(table["rows"][0]["cells"][1], "allocated,reserved");
    let less = json!({"status": {"reservedFor": [{"uid": "2", "$patch": "delete"}]}});
    let (_, claim) = client.patch(&status, "strategic-merge-patch", &less).await;
    assert_eq!(claim["status"]["reservedFor"], json!([consumer("1")]));

    client.send("DELETE", &format!("{claims}/c"), &[], "").await;
    let free = json!({"status": {"allocation": null, "reservedFor": null}});
    assert_eq!(client.patch(&status, "merge-patch", &free).await.0, 200);
    let unprotected = json!({"metadata": {"finalizers": null}});
    assert_eq!(client.patch(&format!("{claims}/c"), "merge-patch", &unprotected).await.0, 200);
    assert_eq!(client.get(&format!("{claims}/c")).await.0, 404);
}

#[tokio::test]
async fn slices_are_selected_by_node_and_driver() {
    let client = Client::new();
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    for (name, node, driver) in
        [("a", Some("n"), "d.example"), ("b", Some("m"), "d.example"), ("c", None, "E.example")]
    {
        let all = node.is_none().then_some(true);
        let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
        let slice = json!({"metadata": {"name": name},
                           "spec": {"driver": driver, "pool": pool, "nodeName": node, "allNodes": all}});
        assert_eq!(client.post(slices, &slice).await.0, 201);
    }
    for (selector, expected) in [
        ("spec.nodeName=n", vec!["a"]),
        ("spec.nodeName=", vec!["c"]),
        ("spec.driver=d.example,spec.nodeName!=n", vec!["b"]),
        ("metadata.name=c", vec!["c"]),
    ] {
        let (_, list) = client.get(&format!("{slices}?fieldSelector={selector}")).await;
        let names: Vec<_> =
            list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
        assert_eq!(names, expected, "{selector}");
    }
}
