//! The answer of a running scheduler to `why`, together with what a simulation of its cluster says.

use harbormaster_client::ConnectionConfig;
use harbormaster_port::why::{self as port, NOT_WAITING};
use harbormaster_sim::{Why, report::Fate};
use harbormaster_yaml::Source;
use serde::Serialize;
use serde_json::Value;

use super::{
    layout::{Style, Table},
    running::with_query,
    why,
};

/// State of a pod in a running scheduler, and in a simulation of the cluster. The JSON form is stable, since tools read
/// it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Running {
    /// The engine's answer, an object.
    #[serde(flatten)]
    state: Value,
    /// The answer of the simulation, as without `--from`.
    simulation: Option<Why>,
    /// The reason why there is no simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_simulated: Option<String>,
}

impl Running {
    /// # Errors
    /// If the scheduler does not wait with the pod, and the simulation does not know it.
    pub(super) fn new(state: Value, simulation: Result<Why, String>) -> Result<Self, String> {
        match simulation {
            Ok(why) => Ok(Self { state, simulation: Some(why), not_simulated: None }),
            Err(why) if state["state"] == NOT_WAITING => Err(format!("{}; {why}", headline(&state))),
            Err(why) => Ok(Self { state, simulation: None, not_simulated: Some(why) }),
        }
    }
}

/// Asks the scheduler behind the secure port `from` about a pod (`namespace/name`, or a name in the namespace `default`).
///
/// # Errors
/// If the port cannot be reached or refuses the question.
pub(super) fn ask(from: &str, connection: &ConnectionConfig, pod: &str) -> Result<Value, String> {
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    let is_sound = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
    if name.is_empty() || !is_sound(namespace) || !is_sound(name) {
        return Err(format!("{pod:?} is not the name of a pod: expected NAME or NAMESPACE/NAME"));
    }
    let told = get(from, connection, &with_query(port::PATH, [("namespace", namespace), ("pod", name)]))?;
    match told.is_object() {
        true => Ok(told),
        false => Err(format!("{from}: not an answer of a scheduler")),
    }
}

/// Returns the scheduler's configuration. Without it, prints a note and returns `None`.
pub(super) fn configuration(from: &str, connection: &ConnectionConfig) -> Option<Source> {
    match get(from, connection, "/configz") {
        Ok(told) => {
            Some(Source { name: format!("{from}/configz"), text: told["componentconfig"].to_string() })
        }
        Err(why) => {
            eprintln!(
                "note: changes are looked for with the default configuration, because the scheduler's cannot be read ({why}); \
                 --config names a file"
            );
            None
        }
    }
}

fn get(from: &str, connection: &ConnectionConfig, path: &str) -> Result<Value, String> {
    let reply = super::runtime()?.block_on(async {
        let client = connection.client(1).await.map_err(|e| e.to_string())?;
        client.get(path).await.map_err(|e| format!("{from}: {}", e.to_string().trim_end()))
    })?;
    serde_json::from_slice(&reply).map_err(|e| format!("{from}: not an answer of a scheduler: {e}"))
}

/// Renders the answer: what the engine says, then the changes.
pub(super) fn render(told: &Running, style: Style) -> String {
    let simulated = match (&told.simulation, &told.not_simulated) {
        // The engine says nothing about the pod.
        (Some(why), _) if told.state["state"] == NOT_WAITING => why::render(why, style),
        (Some(why), _) if why.pod.fate() == Fate::Placed => {
            let node = why.pod.node.as_deref().unwrap_or_default();
            style.paragraph(&format!("In a simulation of the cluster as it is now, it gets node {node}."))
        }
        (Some(why), _) => why::changes(why, style),
        (None, why) => {
            let why = why.as_deref().unwrap_or_default();
            style.paragraph(&format!("Changes that would place it are unknown: {why}"))
        }
    };
    let gap = if simulated.starts_with('\n') { "" } else { "\n" };
    state(&told.state, style) + gap + &simulated
}

/// Renders what the engine says.
pub(super) fn state(told: &Value, style: Style) -> String {
    let text = |field: &str| told[field].as_str().unwrap_or_default();
    let mut out = style.title(&format!("State of {}", text("pod"))) + &style.paragraph(&headline(told));
    let list = |field: &str| told[field].as_array().map(Vec::as_slice).unwrap_or_default();
    if !list("reasons").is_empty() {
        let mut table = Table::new(["NODES", "REASON"]);
        for reason in list("reasons") {
            let why = reason["reason"].as_str().unwrap_or_default();
            table.add([reason["nodes"].as_u64().unwrap_or_default().into(), why.into()]);
        }
        out += &format!("\n{}", table.render(style));
    }
    if !list("wokenBy").is_empty() {
        let mut table = Table::new(["REJECTED BY", "IS TRIED AGAIN AFTER"]);
        for waker in list("wokenBy") {
            let events = waker["events"].as_array().map(Vec::as_slice).unwrap_or_default();
            let events: Vec<&str> = events.iter().filter_map(Value::as_str).collect();
            table.add([waker["plugin"].as_str().unwrap_or_default().into(), events.join("; ").into()]);
        }
        out += &format!("\n{}", table.render(style));
    }
    let mut last = Vec::new();
    if !text("nominatedNode").is_empty() {
        last.push(format!(
            "It is nominated to node {}, which other pods leave for it.",
            text("nominatedNode")
        ));
    }
    if !text("triedAgainBy").is_empty() {
        last.push(format!("It is tried again at {} at the latest.", text("triedAgainBy")));
    }
    if !last.is_empty() {
        out += &format!("\n{}", style.paragraph(&last.join(" ")));
    }
    out
}

fn headline(told: &Value) -> String {
    let text = |field: &str| told[field].as_str().unwrap_or_default();
    let attempts = told["attempts"].as_u64().unwrap_or_default();
    let tried = match attempts {
        0 => "not tried yet".to_owned(),
        1 => "tried once".to_owned(),
        times => format!("tried {times} times"),
    };
    let state = match text("state") {
        "active" => "is ready to be tried".to_owned(),
        "backoff" => format!("backs off until {}", text("backoffUntil")),
        "gated" => format!("is held back by {}", text("gatedBy")),
        "unschedulable" => "waits for an event".to_owned(),
        "incomplete" => "waits for its group, which does not exist".to_owned(),
        "asking" => "waits for an extender's answer".to_owned(),
        "permit" => {
            let waits = told["permit"].as_array().map(Vec::as_slice).unwrap_or_default();
            let of = |wait: &Value, field: &str| wait[field].as_str().unwrap_or_default().to_owned();
            let waits: Vec<String> = waits
                .iter()
                .map(|wait| format!("{} until {}", of(wait, "plugin"), of(wait, "until")))
                .collect();
            format!("gets node {}, if Permit allows it: waits for {}", text("node"), waits.join(", "))
        }
        "binding" => format!("is being bound to node {}", text("node")),
        NOT_WAITING => return format!("{} {}", text("pod"), text("message")),
        other => format!("is in the state {other}"),
    };
    let since = if text("since").is_empty() { String::new() } else { format!(" since {}", text("since")) };
    let message = if text("message").is_empty() { String::new() } else { format!(": {}", text("message")) };
    format!("{} {state}{since}, {tried}{message}", text("pod"))
}

#[cfg(test)]
mod tests {
    use harbormaster_sim::PodReport;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_state_is_told_in_a_sentence() {
        for (told, expected) in [
            (json!({"state": "active", "attempts": 0}), "p is ready to be tried, not tried yet"),
            (
                json!({"state": "backoff", "attempts": 1, "backoffUntil": "12:00", "message": "full"}),
                "p backs off until 12:00, tried once: full",
            ),
            (json!({"state": "gated", "gatedBy": "SchedulingGates"}), "p is held back by SchedulingGates"),
            (
                json!({"state": "unschedulable", "since": "11:00", "attempts": 3}),
                "waits for an event since 11:00, tried 3 times",
            ),
            (
                json!({"state": "permit", "node": "n", "permit": [{"plugin": "Gang", "until": "12:00"}]}),
                "gets node n, if Permit allows it: waits for Gang until 12:00",
            ),
            (json!({"state": "binding", "node": "n"}), "p is being bound to node n"),
        ] {
            let mut told = told;
            told["pod"] = "p".into();
            let said = state(&told, Style::default());
            assert!(said.contains(expected), "{said}");
        }
        let told = json!({"pod": "p", "state": "unschedulable", "reasons": [{"nodes": 3, "reason": "Insufficient cpu"}],
            "wokenBy": [{"plugin": "NodeResourcesFit", "events": ["a node appears", "a pod goes"]}],
            "nominatedNode": "n", "triedAgainBy": "12:05"});
        let said = state(&told, Style::default());
        for part in [
            "3      Insufficient cpu",
            "NodeResourcesFit  a node appears; a pod goes",
            "nominated to node n",
            "at 12:05 at the latest",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn names_that_are_none_are_refused_before_anybody_is_asked() {
        for pod in ["", "a/", "a/b&c", "a/b/c"] {
            let told = ask("https://localhost:1", &ConnectionConfig::default(), pod)
                .expect_err("no pod has this name");
            assert!(told.contains("is not the name of a pod"), "{told}");
        }
    }

    #[test]
    fn the_simulation_adds_changes_and_answers_where_the_engine_cannot() {
        let told = |state: &str, simulation| {
            let state = json!({"pod": "p", "state": state, "attempts": 2, "message": "m"});
            Running::new(state, simulation)
        };
        let why = |node: Option<&str>| Why {
            pod: PodReport { pod: "p".to_owned(), node: node.map(str::to_owned), ..PodReport::default() },
            group: None,
            explanation: None,
            standing: None,
            woken_by: Vec::new(),
            evicts: None,
            remedies: Vec::new(),
        };
        for (state, simulation, expected) in [
            (
                "unschedulable",
                Ok(why(None)),
                "p waits for an event, tried 2 times: m\n\nNo change that was tried",
            ),
            ("active", Ok(why(Some("n"))), "In a simulation of the cluster as it is now, it gets node n."),
            ("active", Err("refused".to_owned()), "\n\nChanges that would place it are unknown: refused"),
            (NOT_WAITING, Ok(why(Some("n"))), "p m\n\np is on node n"),
        ] {
            let said = render(&told(state, simulation).expect("an answer"), Style::default());
            assert!(said.contains(expected), "{said}");
        }
        let error = told(NOT_WAITING, Err("refused".to_owned())).expect_err("nobody knows the pod");
        assert_eq!(error, "p m; refused");
        let told = serde_json::to_value(told("active", Err("refused".to_owned())).expect("an answer"));
        let told = told.expect("JSON");
        assert_eq!((&told["state"], &told["simulation"]), (&json!("active"), &Value::Null));
        assert_eq!(told["notSimulated"], "refused");
    }
}
