//! The engine's notes as log lines, in kube-scheduler's words where kube-scheduler has an equivalent.

use harbormaster_core::Note;
use harbormaster_framework::index::Contradiction;

/// Writes the log line for a note.
pub(crate) fn log(note: &Note) {
    match note {
        Note::PluginFailed { pod, error } => {
            let pod = pod.as_ref().map(|pod| pod.full_name()).unwrap_or_default();
            tracing::error!(pod, err = error, "A plugin failed");
        }
        Note::Undecodable(why) => tracing::error!(
            kind = why.kind,
            object = why.name,
            field = why.field,
            err = why.message,
            "A custom object cannot be decoded and counts as absent for the plugins that read its kind"
        ),
        Note::Contradiction(Contradiction { problem, subject, objects }) => {
            let objects = objects.join(" ");
            tracing::warn!(problem, subject, objects, "Objects contradict each other");
        }
        Note::Stuck { pod, why } => {
            tracing::error!(
                pod = pod.full_name(),
                why = why.name(),
                "A pod would wait for ever and is tried again, if that is safe"
            );
        }
        Note::Rejected { pod, plugin, reason, nodes } => {
            tracing::trace!(v = 4, pod = pod.full_name(), plugin, reason, nodes, "Pod rejected by plugin");
        }
        Note::Moved { pod, from, to, event } => tracing::trace!(
            v = 5,
            pod = pod.full_name(),
            event = %event,
            from = %from,
            queue = %to,
            "Pod moved to an internal scheduling queue"
        ),
        Note::Scored { pod, node, plugin, score } => {
            tracing::trace!(
                v = 10,
                pod = pod.full_name(),
                plugin,
                node = %node,
                score,
                "Plugin scored node for pod"
            );
        }
        Note::Total { pod, node, score } => {
            tracing::trace!(
                v = 10,
                pod = pod.full_name(),
                node = %node,
                score,
                "Calculated node's final score for pod"
            );
        }
    }
}
