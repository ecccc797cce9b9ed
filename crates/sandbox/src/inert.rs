//! Kinds that the API server accepts but no stand-in handles. The first object of each kind causes a notice.

use harbormaster_apiserver::{EventType, Store, Watch};
use tokio::{sync::mpsc, task::JoinSet};

use crate::sandbox::SandboxError;

/// Resource, plural of the kind, and the words with which the notice tells users that these objects have no effect.
const KINDS: [(&str, &str, &str); 15] = [
    ("resourcequotas", "ResourceQuotas", "limit nothing"),
    ("limitranges", "LimitRanges", "set no defaults and limit nothing"),
    ("ingresses.networking.k8s.io", "Ingresses", "route nothing"),
    ("networkpolicies.networking.k8s.io", "NetworkPolicies", "block no traffic"),
    ("podtemplates", "PodTemplates", "are not used by any controller"),
    ("devicetaintrules.resource.k8s.io", "DeviceTaintRules", "evict no pods"),
    ("horizontalpodautoscalers.autoscaling", "HorizontalPodAutoscalers", "scale nothing"),
    ("volumeattributesclasses.storage.k8s.io", "VolumeAttributesClasses", "change no volumes"),
    (
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "MutatingWebhookConfigurations",
        "call no webhooks",
    ),
    (
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "ValidatingWebhookConfigurations",
        "call no webhooks",
    ),
    ("mutatingadmissionpolicies.admissionregistration.k8s.io", "MutatingAdmissionPolicies", "change nothing"),
    (
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "ValidatingAdmissionPolicies",
        "refuse nothing",
    ),
    ("apiservices.apiregistration.k8s.io", "APIServices", "add no APIs"),
    ("roles.rbac.authorization.k8s.io", "Roles", "grant and deny nothing (everyone may do everything)"),
    (
        "clusterroles.rbac.authorization.k8s.io",
        "ClusterRoles",
        "grant and deny nothing (everyone may do everything)",
    ),
];

/// Watches of all inert kinds, and the notices that they cause.
#[derive(Debug)]
pub(crate) struct Inert {
    notices: mpsc::Receiver<String>,
    /// These tasks end when this value is dropped.
    _watchers: JoinSet<()>,
}

impl Inert {
    /// Watches all inert kinds. Existing objects cause notices too.
    ///
    /// # Errors
    /// If a resource cannot be watched.
    pub(crate) fn new(store: &Store) -> Result<Self, SandboxError> {
        let (sender, notices) = mpsc::channel(KINDS.len());
        let mut watchers = JoinSet::new();
        for (resource, kinds, what) in KINDS {
            let watch = store.watch(resource, "", "", "").map_err(|e| SandboxError::Store(e.to_string()))?;
            let sender = sender.clone();
            watchers.spawn(async move {
                if has_one(watch).await {
                    let notice = format!("{kinds} are stored and shown, but {what} in the sandbox");
                    // Sending fails if the sandbox has ended.
                    let _ = sender.send(notice).await;
                }
            });
        }
        Ok(Self { notices, _watchers: watchers })
    }

    /// Returns the next notice. Cancel-safe.
    pub(crate) async fn next(&mut self) -> String {
        match self.notices.recv().await {
            Some(notice) => notice,
            // Every watch has caused its notice or has failed, so no more notices will follow.
            None => std::future::pending().await,
        }
    }
}

/// Waits for the first object. Returns false if the watch fails before there is one.
async fn has_one(mut watch: Watch) -> bool {
    while let Ok(events) = watch.next().await {
        if events.iter().any(|event| event.event == EventType::Added) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use harbormaster_apiserver::{ApiServer, Options};
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn only_the_first_object_of_a_kind_causes_a_notice() {
        let store = ApiServer::new(Options::default()).store();
        let quota =
            |name: &str| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}});
        store.create("resourcequotas", quota("first")).unwrap();
        let mut inert = Inert::new(&store).unwrap();
        let told = timeout(Duration::from_secs(10), inert.next()).await.unwrap();
        assert!(told.starts_with("ResourceQuotas are stored and shown, but limit nothing"), "{told}");
        store.create("resourcequotas", quota("second")).unwrap();
        assert!(timeout(Duration::from_millis(100), inert.next()).await.is_err());
    }
}
