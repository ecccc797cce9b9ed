use std::collections::BTreeSet;

use bytes::Bytes;
use harbormaster_api::{Node, Pod};
use harbormaster_client::{
    ApiError,
    fake_server::{FakeServer, json},
};
use harbormaster_core::Input;
use serde_json::json;

use super::*;
use crate::run::tests::first_fit;

fn node(name: &str) -> Input {
    Input::Node(Node { name: name.into(), ..Node::default() })
}

fn pod(node: Option<&str>) -> Input {
    let mut pod = Pod { uid: "p".into(), name: "p".into(), namespace: "ns".into(), ..Pod::default() };
    pod.spec =
        harbormaster_api::PodSpec { scheduler_name: "default-scheduler".into(), ..Default::default() }.into();
    pod.node_name = node.map(Into::into);
    Input::Pod(pod)
}

#[test]
fn comparisons_begin_when_all_objects_are_known_and_are_counted() {
    let mut told = Vec::new();
    let config = ShadowConfig::default();
    let (metrics, health) = (config.metrics.clone(), config.health.clone());
    let shadow = Shadow::new(&EngineConfig::new(vec![first_fit()]));
    let mut host = ShadowHost::new(shadow, 2, config, |compared| told.push(compared));
    host.take([EngineMessage::Synced, EngineMessage::Inputs(vec![node("full"), pod(None)])].into_iter());
    host.tick();
    assert!(!health.is_synced());
    host.take([EngineMessage::Synced, EngineMessage::Inputs(vec![pod(Some("full"))])].into_iter());
    host.end();
    assert!(health.is_synced());
    assert_eq!(told.len(), 1);
    let page = metrics.page();
    assert!(page.contains("harbormaster_shadow_pods_total{result=\"waiting\"} 1"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_shadow_sends_only_requests_that_read() {
    let server =
        FakeServer::always(|_| json(200, &json!({"metadata": {"resourceVersion": "1"}, "items": []})));
    let reader = Reader::of(&server.client());
    let error = reader.client().post("/api/v1/namespaces/ns/pods/p/binding", Bytes::new()).await.unwrap_err();
    assert!(matches!(error, ApiError::GateClosed(_)), "{error:?}");
    let engine = EngineConfig::new(vec![first_fit()]);
    let end = sleep(Duration::from_secs(5));
    shadow(&reader, ShadowConfig::default(), engine, |_| {}, end).await.unwrap();
    let methods: BTreeSet<String> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, BTreeSet::from(["GET".to_owned()]));
}
