//! The API server's rules, applied with the classes from the manifests.

use harbormaster_api::{Timestamp, features::Features};
use harbormaster_validation::{
    Kind,
    admission::{Context, Others, Refusal, SYSTEM_CLASSES},
    kinds::{Rules, STATUS_AT_ONCE},
    value::{name, remove},
};
use serde_json::{Map, Value, json};

/// Objects that rules look up: priority and runtime classes.
#[derive(Debug)]
pub(crate) struct Classes {
    priority_classes: Vec<Value>,
    runtime_classes: Vec<Value>,
}

impl Default for Classes {
    /// Returns the classes that every cluster has.
    fn default() -> Self {
        let class = |(name, value, _): (&str, i64, &str)| json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"});
        Self {
            priority_classes: SYSTEM_CLASSES.into_iter().map(class).collect(),
            runtime_classes: Vec::new(),
        }
    }
}

impl Classes {
    /// Adds an object in its stored form, if it is a class.
    pub(crate) fn add(&mut self, kind: &Kind, object: &Value) {
        let classes = match kind.rules {
            Rules::PriorityClass => &mut self.priority_classes,
            Rules::RuntimeClass => &mut self.runtime_classes,
            _ => return,
        };
        classes.retain(|class| name(class) != name(object));
        classes.push(object.clone());
    }

    pub(crate) fn admission<'a>(&'a self, kind: &'a Kind, features: Features) -> Admission<'a> {
        Admission(Context {
            kind,
            others: self,
            now: Timestamp::default(),
            features,
            default_tolerations: true,
            taint_new_nodes: false,
            status_only: false,
        })
    }

    fn of(&self, resource: &str) -> &[Value] {
        match resource {
            "priorityclasses.scheduling.k8s.io" => &self.priority_classes,
            "runtimeclasses.node.k8s.io" => &self.runtime_classes,
            _ => &[],
        }
    }
}

impl Others for Classes {
    fn all(&self, resource: &str) -> Vec<Value> {
        self.of(resource).to_vec()
    }

    fn get(&self, resource: &str, wanted: &str) -> Option<Value> {
        self.of(resource).iter().find(|class| name(class) == wanted).cloned()
    }
}

/// The API server's rules for objects of one kind.
pub(crate) struct Admission<'a>(Context<'a>);

impl Admission<'_> {
    /// Converts an object to the form that an API server would store. The status is kept, because dumps contain it and
    /// scheduling depends on it.
    pub(crate) fn create(&self, object: &mut Value) -> Result<(), Refusal> {
        let kept = self.0.kind.has(STATUS_AT_ONCE);
        let status = if kept { None } else { remove(object, "status") };
        self.0.create(object)?;
        if let (Some(Value::Object(given)), Some(object)) = (status, object.as_object_mut()) {
            let status = object.entry("status").or_insert_with(|| Map::new().into());
            if let Some(status) = status.as_object_mut() {
                given.into_iter().for_each(|(field, value)| drop(status.insert(field, value)));
            }
        }
        Ok(())
    }

    /// Checks a change to an existing object.
    pub(crate) fn update(&self, old: &Value, new: &mut Value) -> Result<(), Refusal> {
        self.0.update(old, new)
    }
}
