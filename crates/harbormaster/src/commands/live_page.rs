//! The page of a running scheduler: its data come from the engine, and so do the answers of its form.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use harbormaster_api::{Pod, wire::Decoder};
use harbormaster_core::{Dump, DumpedNode, pod_state::message};
use harbormaster_driver::{Console, Metrics};
use harbormaster_framework::pod::PodInfo;
use harbormaster_page::{Counters, Document, Member, Node, PlacedPod, Scene, WaitingRow};
use harbormaster_port::browser::{Answer, BrowserPage};
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::Instant};

use super::alike::{self, Row};

/// Time for which data are sent again. The engine is thus interrupted as often as by one viewer, however many there are.
const KEPT: Duration = Duration::from_secs(2);
/// Name of the pod that the form describes.
const QUESTION: &str = "question";

/// Returns the page of the scheduler behind a console. `metrics` returns its metrics once there are some.
pub(super) fn live_page(
    console: &Console,
    metrics: impl Fn() -> Option<Metrics> + Send + Sync + 'static,
) -> BrowserPage {
    let Document { html, policy } = Document::live();
    let (state, asked) = (console.clone(), console.clone());
    let (last, metrics) = (Arc::new(Mutex::new(None)), Arc::new(metrics));
    BrowserPage {
        html,
        policy,
        data: Arc::new(move || Box::pin(data(state.clone(), last.clone(), metrics.clone()))),
        fit: Arc::new(move |given| Box::pin(fit(asked.clone(), given))),
    }
}

/// Data that were sent, and when.
type Last = Arc<Mutex<Option<(Instant, Arc<str>)>>>;

async fn data(
    console: Console,
    last: Last,
    metrics: Arc<impl Fn() -> Option<Metrics> + Send + Sync + 'static>,
) -> Answer {
    // Held until there are data, so that viewers who come together cause one question.
    let mut last = last.lock().await;
    if let Some((at, json)) = &*last
        && at.elapsed() < KEPT
    {
        return Answer::Json(json.clone());
    }
    let dump = match console.state().await {
        Ok(dump) => dump,
        Err(unanswered) => return Answer::Unavailable(unanswered.to_string()),
    };
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let counters = metrics().map(|metrics| {
        let (placed, waited) = metrics.placed();
        Counters { at: u64::try_from(at).unwrap_or_default(), placed, waited }
    });
    // A large cluster takes longer than other requests to this thread should wait.
    let written = tokio::task::spawn_blocking(move || scene(&dump, counters).to_json()).await;
    match written {
        Ok(json) => {
            let json: Arc<str> = json.into();
            *last = Some((Instant::now(), json.clone()));
            Answer::Json(json)
        }
        Err(error) => Answer::Unavailable(error.to_string()),
    }
}

fn scene(dump: &Dump, counters: Option<Counters>) -> Scene {
    let nodes: Vec<&DumpedNode> = dump.nodes.iter().filter(|node| !node.deleted).collect();
    let placed = nodes.iter().enumerate().flat_map(|(at, node)| {
        node.pods.iter().map(move |pod| PlacedPod { node: at, pod: member(pod), before: None })
    });
    let parts = [
        ("active", &dump.active),
        ("backoff", &dump.backoff),
        ("unschedulable", &dump.unschedulable),
        ("gated", &dump.gated),
        ("incomplete", &dump.incomplete),
        ("of another scheduler, or ending", &dump.left_alone),
    ];
    Scene {
        title: "Harbormaster".to_owned(),
        pods: placed.collect(),
        nodes: nodes.iter().map(|node| boxed(node)).collect(),
        waiting: parts.into_iter().flat_map(|(state, pods)| rows(state, pods)).collect(),
        counters,
        ..Scene::default()
    }
}

fn boxed(node: &DumpedNode) -> Node {
    Node {
        name: node.name.to_string(),
        zone: node.zone.as_ref().map(ToString::to_string).unwrap_or_default(),
        requested: node.requested.clone(),
        allocatable: node.allocatable.clone(),
        mark: None,
    }
}

fn member(pod: &Arc<PodInfo>) -> Member {
    // What else is known about a pod is asked when it is opened.
    Member { name: pod.full_name(), request: pod.request().clone(), facts: Value::Null }
}

/// Returns the rows of one part of the queue, in the order of the pods' names.
fn rows(state: &str, pods: &[Arc<PodInfo>]) -> Vec<WaitingRow> {
    let by_name: BTreeMap<String, &Arc<PodInfo>> = pods.iter().map(|pod| (pod.full_name(), pod)).collect();
    let alike = by_name.iter().map(|(name, pod)| row(name, pod)).collect();
    let groups = alike::together(alike, true);
    let rows = groups.iter().map(|group| WaitingRow {
        pods: alike::pods(group).text().to_owned(),
        state: state.to_owned(),
        message: alike::message(group).text().to_owned(),
        members: group.iter().filter_map(|row| by_name.get(&row.pod)).map(|pod| member(pod)).collect(),
    });
    rows.collect()
}

fn row(name: &str, pod: &PodInfo) -> Row {
    let owner = pod.controller.as_ref();
    Row {
        pod: name.to_owned(),
        group: pod.group().map(ToString::to_string),
        owner: owner
            .map(|owner| format!("{} {}/{}", owner.kind, pod.namespace, owner.name))
            .unwrap_or_default(),
        place: "<none>".to_owned(),
        message: message(pod).unwrap_or_default().to_owned(),
        ..Row::default()
    }
}

/// Answers the form: whether a pod would fit, and how many copies.
async fn fit(console: Console, given: Vec<(String, String)>) -> Answer {
    let pod = match described(&given) {
        Ok(pod) => pod,
        Err(why) => return Answer::Refused(why),
    };
    let profile = pod.spec.scheduler_name.to_string();
    match console.room_for(pod).await {
        Ok(Some(room)) => match serde_json::to_string(&*room) {
            Ok(json) => Answer::Json(json.into()),
            Err(error) => Answer::Unavailable(error.to_string()),
        },
        Ok(None) => Answer::Refused(format!("no profile has the scheduler name {profile:?}")),
        Err(unanswered) => Answer::Unavailable(unanswered.to_string()),
    }
}

/// Returns the pod that a form describes.
fn described(given: &[(String, String)]) -> Result<Pod, String> {
    let mut fields: HashMap<&str, &str> = given
        .iter()
        .map(|(name, value)| (name.as_str(), value.trim()))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let mut requests = serde_json::Map::new();
    for name in ["cpu", "memory"] {
        if let Some(amount) = fields.remove(name) {
            requests.insert(name.to_owned(), amount.into());
        }
    }
    if let Some((name, amount)) = fields.remove("resource").map(|text| pair("resource", text)).transpose()? {
        requests.insert(name, amount.into());
    }
    let selector: serde_json::Map<String, Value> = match fields.remove("selector") {
        None => serde_json::Map::new(),
        Some(labels) => {
            let labels = labels.split(',').map(|label| pair("selector", label));
            labels.map(|label| label.map(|(name, value)| (name, value.into()))).collect::<Result<_, _>>()?
        }
    };
    let namespace = fields.remove("namespace").unwrap_or("default");
    let scheduler = fields.remove("scheduler").unwrap_or("default-scheduler");
    if let Some(name) = fields.keys().next() {
        return Err(format!(
            "{name:?} is unknown: expected cpu, memory, resource, selector, namespace and scheduler"
        ));
    }
    let manifest = json!({
        "metadata": {"name": QUESTION, "namespace": namespace, "uid": QUESTION},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": selector,
            "containers": [{"name": QUESTION, "image": QUESTION, "resources": {"requests": requests}}],
        },
    });
    Decoder::new().with_api_defaults().pod_value(&manifest).map_err(|error| error.to_string())
}

/// Parses `name=value`.
fn pair(field: &str, text: &str) -> Result<(String, String), String> {
    match text.trim().split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{field}: {text:?} is not of the form NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Resources;

    use super::*;

    fn read(fields: &[(&str, &str)]) -> Result<Pod, String> {
        let fields: Vec<(String, String)> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        described(&fields)
    }

    #[test]
    fn a_form_describes_a_pod() {
        let pod = read(&[
            ("cpu", "500m"),
            ("memory", " 1Gi "),
            ("resource", "example.com/gpu=2"),
            ("selector", "disk=ssd, zone=a"),
            ("namespace", ""),
        ]);
        let pod = PodInfo::standalone(pod.expect("a pod"));
        let scalars = vec![("example.com/gpu".into(), 2)];
        let expected = Resources { milli_cpu: 500, memory: 1 << 30, scalars, ..Resources::default() };
        assert_eq!(*pod.request(), expected);
        assert_eq!(pod.namespace, "default");
        assert_eq!(pod.spec.node_selector.as_ref().map(|labels| labels.iter().count()), Some(2));
    }

    #[test]
    fn mistakes_in_a_form_are_named() {
        for (field, value, expected) in [
            ("cpu", "much", "cpu"),
            ("resource", "example.com/gpu", "not of the form NAME=VALUE"),
            ("selector", "=a", "not of the form NAME=VALUE"),
            ("colour", "red", "\"colour\" is unknown"),
        ] {
            let error = read(&[(field, value)]).expect_err("a mistake");
            assert!(error.contains(expected), "{error}");
        }
    }
}
