//! Priority classes: what kube-apiserver's Priority admission does to new pods.

use harbormaster_api::PriorityClass;
use serde_json::Value;

/// The classes that every cluster has.
const SYSTEM: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// All classes.
#[derive(Debug)]
pub(crate) struct PriorityClasses(Vec<PriorityClass>);

impl Default for PriorityClasses {
    fn default() -> Self {
        let system = |(name, value): (&str, i32)| PriorityClass {
            name: name.into(),
            value,
            ..PriorityClass::default()
        };
        Self(SYSTEM.into_iter().map(system).collect())
    }
}

impl PriorityClasses {
    pub(crate) fn add(&mut self, class: PriorityClass) {
        self.0.retain(|known| known.name != class.name);
        self.0.push(class);
    }

    /// Sets `spec.priority` and `spec.preemptionPolicy` of a pod that has no priority yet. The error is a field and
    /// what is wrong with it.
    pub(crate) fn resolve(&self, pod: &mut Value) -> Result<(), (String, String)> {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        if spec.get("priority").is_some_and(|p| !p.is_null()) {
            return Ok(());
        }
        let class =
            match spec.get("priorityClassName").and_then(Value::as_str).filter(|name| !name.is_empty()) {
                Some(name) => self.0.iter().find(|class| class.name == *name).ok_or_else(|| {
                    let message = format!("no PriorityClass with name {name} was found");
                    ("spec.priorityClassName".to_owned(), message)
                })?,
                // Of several global defaults the smallest counts.
                None => {
                    match self.0.iter().filter(|class| class.global_default).min_by_key(|class| class.value) {
                        Some(class) => class,
                        None => return Ok(()),
                    }
                }
            };
        spec.insert("priority".into(), class.value.into());
        if class.never_preempts {
            spec.entry("preemptionPolicy").or_insert_with(|| "Never".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_get_the_priority_of_their_class_or_of_the_default() {
        let mut classes = PriorityClasses::default();
        classes.add(PriorityClass {
            name: "high".into(),
            value: 1000,
            never_preempts: true,
            ..PriorityClass::default()
        });
        let resolved = |classes: &PriorityClasses, spec: Value| {
            let mut pod = json!({"spec": spec});
            classes.resolve(&mut pod).map(|()| pod["spec"].clone())
        };
        assert_eq!(resolved(&classes, json!({})).unwrap(), json!({}));
        let usual =
            PriorityClass { name: "usual".into(), value: 5, global_default: true, never_preempts: false };
        classes.add(usual);
        assert_eq!(resolved(&classes, json!({})).unwrap()["priority"], 5);
        assert_eq!(resolved(&classes, json!({"priority": 7})).unwrap()["priority"], 7);
        let high = resolved(&classes, json!({"priorityClassName": "high"})).unwrap();
        assert_eq!((&high["priority"], &high["preemptionPolicy"]), (&json!(1000), &json!("Never")));
        let critical = resolved(&classes, json!({"priorityClassName": "system-node-critical"})).unwrap();
        assert_eq!(critical["priority"], 2_000_001_000);
        let (field, message) = resolved(&classes, json!({"priorityClassName": "none"})).unwrap_err();
        assert_eq!(field, "spec.priorityClassName");
        assert_eq!(message, "no PriorityClass with name none was found");
    }
}
