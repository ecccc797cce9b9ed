//! Events, as client-go's recorder writes them for controllers and kubelets.
//!
//! An owner of thousands of pods does not cause thousands of events: events of a component about one object are
//! counted, combined and finally dropped by the rules of client-go's correlator.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use harbormaster_apiserver::{Failure, Store};
use serde_json::{Value, json};

use crate::{
    fields::{name, namespace, now, text, uid},
    sandbox::carry_on,
};

/// Number of events that a component may send about one object in a burst.
const BURST: f64 = 25.0;
/// Number of further events about that object per second.
const REFILL: f64 = 1.0 / 300.0;
/// Number of different messages with the same reason at which new messages begin to be combined.
const MOST_SIMILAR: usize = 10;
/// Time without similar messages after which messages are no longer combined.
const SIMILAR_FOR: Duration = Duration::from_secs(600);
/// Maximum number of pairs of component and object whose events are remembered.
const MOST_TALKS: usize = 4096;
const COMBINED: &str = "(combined from similar events): ";

/// Source of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// For example `replicaset-controller`.
    pub(crate) component: &'a str,
    /// Name of the node if the component is a kubelet.
    pub(crate) host: &'a str,
}

impl<'a> Source<'a> {
    pub(crate) fn controller(component: &'a str) -> Self {
        Self { component, host: "" }
    }
}

/// Type of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Normal,
    Warning,
}

/// Writes events.
#[derive(Debug)]
pub(crate) struct Events {
    store: Store,
    /// Keyed by component, host and object.
    talks: Mutex<HashMap<String, ObjectEvents>>,
}

/// Events of a component about an object.
#[derive(Debug)]
struct ObjectEvents {
    budget: Budget,
    /// Keyed by reason.
    similar: HashMap<String, SimilarMessages>,
    /// Keyed by reason and message.
    told: HashMap<(String, String), SentEvent>,
}

#[derive(Debug)]
struct SimilarMessages {
    messages: HashSet<String>,
    last: Instant,
}

/// An event that was written, or will be, and the number of its occurrences.
#[derive(Debug, Default)]
struct SentEvent {
    name: String,
    count: u64,
}

impl Events {
    pub(crate) fn new(store: &Store) -> Self {
        Self { store: store.clone(), talks: Mutex::default() }
    }

    /// Sends an event about an object.
    pub(crate) fn tell(&self, source: Source<'_>, object: &Value, kind: Kind, reason: &str, message: &str) {
        self.tell_about(source, &reference(object), kind, reason, message);
    }

    /// Sends an event about the object that a reference names.
    pub(crate) fn tell_about(
        &self,
        source: Source<'_>,
        about: &Value,
        kind: Kind,
        reason: &str,
        message: &str,
    ) {
        let part = |field: &str| about[field].as_str().unwrap_or_default();
        let key = [
            source.component,
            source.host,
            part("kind"),
            part("namespace"),
            part("name"),
            part("uid"),
            part("fieldPath"),
        ]
        .join("/");
        let mut talks = self.talks.lock().unwrap_or_else(PoisonError::into_inner);
        if talks.len() >= MOST_TALKS && !talks.contains_key(&key) {
            talks.clear();
        }
        let talk = talks.entry(key).or_insert_with(ObjectEvents::new);
        let is_combined = talk.is_one_of_many(reason, message);
        let said = if is_combined { format!("{COMBINED}{message}") } else { message.to_owned() };
        let may_speak = talk.budget.spend();
        let series = if is_combined { COMBINED } else { message };
        let told = talk.told.entry((reason.to_owned(), series.to_owned())).or_default();
        told.count += 1;
        if !may_speak {
            return;
        }
        if !told.name.is_empty() && self.count(told, part("namespace"), &said) {
            return;
        }
        let event = event(source, about, kind, reason, &said, told.count);
        told.name = name(&event).to_owned();
        carry_on(source.component, self.store.create("events", event).map(|_| ()));
    }

    /// Updates the count of an event that was written earlier. Returns false if that event is gone.
    fn count(&self, told: &SentEvent, namespace: &str, message: &str) -> bool {
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let counted = self.store.update("events", namespace, &told.name, |event| {
            event["count"] = json!(told.count);
            event["lastTimestamp"] = now().into();
            event["message"] = message.into();
        });
        !matches!(counted, Err(Failure { code: 404, .. }))
    }
}

/// Token bucket that limits events.
#[derive(Debug)]
pub(crate) struct Budget {
    most: f64,
    per_second: f64,
    left: f64,
    refilled: Instant,
}

impl Budget {
    /// Creates a full budget.
    pub(crate) fn new(most: f64, per_second: f64) -> Self {
        Self { most, per_second, left: most, refilled: Instant::now() }
    }

    /// Takes one token. Returns false if none is left.
    pub(crate) fn spend(&mut self) -> bool {
        let now = Instant::now();
        let gained = now.duration_since(self.refilled).as_secs_f64() * self.per_second;
        (self.left, self.refilled) = ((self.left + gained).min(self.most), now);
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        true
    }
}

impl ObjectEvents {
    fn new() -> Self {
        let (similar, told) = (HashMap::new(), HashMap::new());
        Self { budget: Budget::new(BURST, REFILL), similar, told }
    }

    fn is_one_of_many(&mut self, reason: &str, message: &str) -> bool {
        let now = Instant::now();
        let new = || SimilarMessages { messages: HashSet::new(), last: now };
        let similar = self.similar.entry(reason.to_owned()).or_insert_with(new);
        if now.duration_since(similar.last) > SIMILAR_FOR {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.len() + 1 < MOST_SIMILAR {
            similar.messages.insert(message.to_owned());
        }
        !similar.messages.contains(message)
    }
}

/// Returns the reference by which events name an object.
pub(crate) fn reference(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": name(object),
        "namespace": namespace(object), "uid": uid(object),
        "resourceVersion": object["metadata"]["resourceVersion"],
    })
}

fn event(source: Source<'_>, about: &Value, kind: Kind, reason: &str, message: &str, count: u64) -> Value {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at = now();
    let space = match text(about, "/namespace") {
        "" => "default",
        namespace => namespace,
    };
    let mut about = about.clone();
    if let Some(fields) = about.as_object_mut() {
        fields.retain(|_, value| !value.is_null() && *value != "");
    }
    let mut from = json!({"component": source.component});
    if !source.host.is_empty() {
        from["host"] = source.host.into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{}.{:x}", text(&about, "/name"), since.as_nanos()), "namespace": space},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "source": from,
        "reportingComponent": source.component,
        "reportingInstance": source.host,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": count,
        "type": match kind {
            Kind::Normal => "Normal",
            Kind::Warning => "Warning",
        },
        "eventTime": null,
    })
}

#[cfg(test)]
mod tests {
    use harbormaster_apiserver::{ApiServer, Options};

    use crate::fields::number;

    use super::*;

    /// Returns the reasons and messages of all events, with their counts.
    fn all(store: &Store) -> Vec<(String, i64)> {
        let (events, _) = store.list("events", "", "", "").unwrap();
        let said = |event: &Value| format!("{}: {}", text(event, "/reason"), text(event, "/message"));
        let one = |event: Value| (said(&event), number(&event, "/count").unwrap());
        events.iter().map(|event| one(event.value())).collect()
    }

    fn set() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "5"}})
    }

    fn tell(events: &Events, message: &str) {
        events.tell(Source::controller("replicaset-controller"), &set(), Kind::Normal, "Created", message);
    }

    #[test]
    fn repeated_events_are_counted() {
        let store = ApiServer::new(Options::default()).store();
        let events = Events::new(&store);
        tell(&events, "one");
        tell(&events, "two");
        tell(&events, "one");
        assert_eq!(all(&store), [("Created: one".to_owned(), 2), ("Created: two".to_owned(), 1)]);
        let (written, _) = store.list("events", "default", "", "").unwrap();
        let event = written[0].value();
        assert_eq!(event["source"], json!({"component": "replicaset-controller"}));
        assert_eq!(event["involvedObject"]["uid"], "u");
    }

    #[test]
    fn many_similar_events_are_combined_and_finally_dropped() {
        let store = ApiServer::new(Options::default()).store();
        let events = Events::new(&store);
        for number in 1..=1000 {
            tell(&events, &format!("pod {number}"));
        }
        let mut told = all(&store);
        assert_eq!(told.len(), 10);
        told.retain(|(said, _)| said.contains(COMBINED));
        assert_eq!(told, [(format!("Created: {COMBINED}pod 25"), 16)]);
    }

    #[test]
    fn a_deleted_event_is_written_again() {
        let store = ApiServer::new(Options::default()).store();
        let events = Events::new(&store);
        tell(&events, "one");
        let (written, _) = store.list("events", "default", "", "").unwrap();
        store.delete("events", "default", written[0].name(), None).unwrap();
        tell(&events, "one");
        assert_eq!(all(&store), [("Created: one".to_owned(), 2)]);
    }
}
