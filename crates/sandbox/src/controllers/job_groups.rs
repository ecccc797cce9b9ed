//! Groups of the pods of Jobs, as with the feature gate WorkloadWithJob of Kubernetes 1.37: a Job that starts gets a
//! Workload with one template, a PodGroup that follows this template, and pods that belong to the group.
//!
//! Jobs of other controllers get no groups. In Kubernetes, such a controller may ask for them with an annotation.

use harbormaster_api::features::Feature;
use harbormaster_apiserver::{Failure, Store};
use serde_json::{Value, json};

use super::{OwnedObjects, hash, pod_control::PodControl};
use crate::{
    events::Kind,
    fields::{condition, controller, list, name, namespace, number, owned_by, text, uid},
    mirror::Mirror,
    sandbox::SandboxError,
};

/// Resource name of workloads.
pub(super) const WORKLOADS: &str = "workloads.scheduling.k8s.io";
const POD_GROUPS: &str = super::POD_GROUPS;
/// API version of workloads and pod groups.
const API_VERSION: &str = "scheduling.k8s.io/v1beta1";

/// Watch of workloads.
#[derive(Debug)]
pub(super) struct JobGroups {
    /// `None` if the feature gate is off.
    workloads: Option<Mirror>,
}

impl JobGroups {
    /// # Errors
    /// If the resource cannot be watched.
    pub(super) fn new(store: &Store) -> Result<Self, SandboxError> {
        let is_on = store.enabled(Feature::WorkloadWithJob) && store.serves(WORKLOADS);
        let workloads = is_on.then(|| Mirror::new(store, WORKLOADS)).transpose()?;
        Ok(Self { workloads })
    }

    pub(super) async fn changed(&mut self) {
        match &mut self.workloads {
            Some(workloads) => workloads.changed().await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn catch_up(&mut self) {
        if let Some(workloads) = &mut self.workloads {
            workloads.catch_up().await;
            workloads.take_gone();
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.workloads.iter().flat_map(Mirror::all)
    }

    /// Returns the workloads together with `groups`, which are all pod groups; `None` if Jobs get no groups.
    pub(super) fn with<'a>(&'a self, groups: impl Iterator<Item = &'a Value>) -> Option<OwnedGroups<'a>> {
        self.workloads.as_ref()?;
        Some(OwnedGroups { workloads: OwnedObjects::new(self.all()), groups: OwnedObjects::new(groups) })
    }
}

/// Workloads and pod groups, by the Job that manages them.
pub(super) struct OwnedGroups<'a> {
    workloads: OwnedObjects<'a>,
    groups: OwnedObjects<'a>,
}

impl OwnedGroups<'_> {
    /// Returns the group of a Job's pods, which is created for a Job that has never started; `None` if the Job has no
    /// group. Other Jobs keep the group that they have.
    ///
    /// # Errors
    /// The API server's reason for refusing a workload or a group.
    pub(super) fn ensure(&self, control: &PodControl<'_>, has_pods: bool) -> Result<Option<Value>, Failure> {
        let job = control.owner;
        let names_group = job.pointer("/spec/template/spec/schedulingGroup").is_some_and(|it| !it.is_null());
        if names_group || controller(job).is_some() {
            return Ok(None);
        }
        let is_new = !has_pods && has_never_started(job);
        let workload = match self.workloads.of(job) {
            [] if is_new => create_workload(control)?,
            [one] => (*one).clone(),
            _ => return Ok(None),
        };
        let group = match self.groups.of(job) {
            [] if is_new => create_group(control, &workload)?,
            [one] => (*one).clone(),
            _ => return Ok(None),
        };
        follow_minimum(&control.tools.store, job, &workload, &group)?;
        Ok(Some(group))
    }
}

/// Adds a pod to a group.
pub(super) fn join(pod: &mut Value, group: &Value) {
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": name(group)});
    push_owner(pod, "PodGroup", group);
}

fn has_never_started(job: &Value) -> bool {
    let status = &job["status"];
    let has_finished = |field: &str| number(status, field).is_some_and(|count| count != 0);
    !status["startTime"].is_string()
        && !has_finished("/succeeded")
        && !has_finished("/failed")
        && condition(job, "Suspended").is_none()
}

fn create_workload(control: &PodControl<'_>) -> Result<Value, Failure> {
    let job = control.owner;
    let workload = json!({
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": format!("{}-{}", name(job), hash(&uid(job).into())),
            "namespace": namespace(job),
            "ownerReferences": owned_by(job),
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": name(job)},
            "podGroupTemplates": [template(job)],
        },
    });
    match control.tools.store.create(WORKLOADS, workload) {
        Ok(created) => {
            let message = format!("Created Workload {} for Job {}", created.name(), name(job));
            control.tell(Kind::Normal, "WorkloadCreated", &message);
            Ok(created.value())
        }
        Err(failure) => {
            let message = format!("Failed to create Workload for Job {}: {failure}", name(job));
            control.tell(Kind::Warning, "FailedWorkloadCreate", &message);
            Err(failure)
        }
    }
}

fn create_group(control: &PodControl<'_>, workload: &Value) -> Result<Value, Failure> {
    let job = control.owner;
    let Some(template) = list(workload, "/spec/podGroupTemplates").first() else { return Ok(Value::Null) };
    let mut spec = template.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("name");
        spec.retain(|_, value| !value.is_null());
    }
    spec["workloadRef"] = json!({"workloadName": name(workload), "templateName": template["name"]});
    let hash = hash(&format!("{}{}", name(workload), text(template, "/name")).into());
    let mut group = json!({
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": format!("{}-{}-{hash}", name(workload), text(template, "/name")),
            "namespace": namespace(job),
            "ownerReferences": owned_by(job),
        },
        "spec": spec,
    });
    push_owner(&mut group, "Workload", workload);
    let created = control.tools.store.create(POD_GROUPS, group)?;
    let message = format!("Created PodGroup {} for Job {}", created.name(), name(job));
    control.tell(Kind::Normal, "PodGroupCreated", &message);
    Ok(created.value())
}

/// Adds an owner that does not manage the object.
fn push_owner(object: &mut Value, kind: &str, owner: &Value) {
    let reference = json!({"apiVersion": API_VERSION, "kind": kind, "name": name(owner), "uid": uid(owner)});
    if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
        owners.push(reference);
    }
}

/// Returns the template of a Job's group.
fn template(job: &Value) -> Value {
    let given = &job["spec"]["scheduling"];
    let policy = match minimum(job) {
        Some(count) => json!({"gang": {"minCount": count}}),
        None => json!({"basic": {}}),
    };
    let mut template = json!({"name": format!("{}-pgt-0", name(job)), "schedulingPolicy": policy});
    if !list(given, "/schedulingConstraints/topology").is_empty() {
        template["schedulingConstraints"] = given["schedulingConstraints"].clone();
    }
    for field in ["disruptionMode", "resourceClaims"] {
        if !given[field].is_null() {
            template[field] = given[field].clone();
        }
    }
    let class = text(job, "/spec/template/spec/priorityClassName");
    if !class.is_empty() {
        template["priorityClassName"] = class.into();
    }
    template
}

/// Returns the minimum of a Job's gang, which by default is all pods that run at the same time; `None` if the pods are
/// no gang.
fn minimum(job: &Value) -> Option<i64> {
    let gang = job.pointer("/spec/scheduling/schedulingPolicy/gang").filter(|gang| gang.is_object())?;
    let parallelism = number(job, "/spec/parallelism").unwrap_or(1);
    Some(number(gang, "/minCount").unwrap_or(parallelism.max(1)))
}

/// Changes the minimum of the workload and of the group to that of the Job.
fn follow_minimum(store: &Store, job: &Value, workload: &Value, group: &Value) -> Result<(), Failure> {
    let Some(wanted) = minimum(job) else { return Ok(()) };
    for (resource, object, place) in [
        (WORKLOADS, workload, "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount"),
        (POD_GROUPS, group, "/spec/schedulingPolicy/gang/minCount"),
    ] {
        if number(object, place).is_some_and(|known| known != wanted) {
            store.update(resource, namespace(object), name(object), |object| {
                if let Some(count) = object.pointer_mut(place) {
                    *count = wanted.into();
                }
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_a_gang_is_the_parallelism_unless_the_job_says_otherwise() {
        let gang = |gang: Value| json!({"schedulingPolicy": {"gang": gang}});
        for (spec, expected) in [
            (json!({}), None),
            (json!({"scheduling": {"schedulingPolicy": {"basic": {}}}, "parallelism": 3}), None),
            (json!({"scheduling": gang(json!({})), "parallelism": 3}), Some(3)),
            (json!({"scheduling": gang(json!({})), "parallelism": 0}), Some(1)),
            (json!({"scheduling": gang(json!({}))}), Some(1)),
            (json!({"scheduling": gang(json!({"minCount": 2})), "parallelism": 3}), Some(2)),
        ] {
            assert_eq!(minimum(&json!({"spec": spec})), expected, "{spec}");
        }
    }

    #[test]
    fn a_template_has_what_the_job_sets() {
        let job = json!({
            "metadata": {"name": "sums"},
            "spec": {
                "parallelism": 2,
                "scheduling": {
                    "schedulingPolicy": {"gang": {}},
                    "schedulingConstraints": {"topology": [{"key": "rack"}]},
                    "disruptionMode": {"all": {}},
                },
                "template": {"spec": {"priorityClassName": "high"}},
            },
        });
        let expected = json!({
            "name": "sums-pgt-0",
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
            "priorityClassName": "high",
        });
        assert_eq!(template(&job), expected);
        let plain = json!({"name": "sums-pgt-0", "schedulingPolicy": {"basic": {}}});
        assert_eq!(template(&json!({"metadata": {"name": "sums"}, "spec": {}})), plain);
    }
}
