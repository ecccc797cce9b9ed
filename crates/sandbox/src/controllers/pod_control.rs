//! Creation and deletion of an owner's pods, with events.

use harbormaster_apiserver::Failure;
use serde_json::Value;

use super::ControllerContext;
use crate::{
    events::{Kind, Source},
    fields::{name, namespace},
    sandbox::{carry_on, is_passing},
};

/// A controller's access to the pods of one owner (`PodControlInterface`).
#[derive(Clone, Copy, Debug)]
pub(super) struct PodControl<'a> {
    pub(super) tools: &'a ControllerContext,
    /// Name of the controller in events.
    pub(super) component: &'a str,
    pub(super) owner: &'a Value,
    pub(super) words: EventWording,
}

/// Wording of a controller's events about pods.
#[derive(Clone, Copy, Debug)]
pub(super) enum EventWording {
    /// Wording of almost all controllers.
    Usual,
    /// Wording of the StatefulSet controller.
    StatefulSet,
}

impl PodControl<'_> {
    /// Creates a pod. Transient failures are ignored.
    ///
    /// # Errors
    /// The API server's reason for refusing the pod.
    pub(super) fn create(&self, pod: Value) -> Result<(), Failure> {
        let wanted = name(&pod).to_owned();
        match self.tools.store.create("pods", pod) {
            Ok(created) => self.succeeded("Create", "Created", created.name()),
            Err(failure) if is_passing(&failure) => {}
            Err(failure) => {
                let message = match self.words {
                    EventWording::Usual => format!("Error creating: {failure}"),
                    EventWording::StatefulSet => {
                        let set = name(self.owner);
                        format!("create Pod {wanted} in StatefulSet {set} failed error: {failure}")
                    }
                };
                self.tell(Kind::Warning, "FailedCreate", &message);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Deletes a pod.
    pub(super) fn delete(&self, pod: &Value) {
        let done = self.tools.store.delete("pods", namespace(pod), name(pod), None);
        if done.is_ok() {
            self.succeeded("Delete", "Deleted", name(pod));
        }
        carry_on(self.component, done);
    }

    fn succeeded(&self, verb: &str, past: &str, pod: &str) {
        let message = match self.words {
            EventWording::Usual => format!("{past} pod: {pod}"),
            EventWording::StatefulSet => {
                format!("{} Pod {pod} in StatefulSet {} successful", verb.to_lowercase(), name(self.owner))
            }
        };
        self.tell(Kind::Normal, &format!("Successful{verb}"), &message);
    }

    /// Sends an event about the owner.
    pub(super) fn tell(&self, kind: Kind, reason: &str, message: &str) {
        self.tools.events.tell(Source::controller(self.component), self.owner, kind, reason, message);
    }
}
