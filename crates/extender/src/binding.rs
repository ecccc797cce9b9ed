//! The request for the bind verb.

use crate::wire::ExtenderBindingArgs;

/// A pod to bind to a node. An answer without an error means that the pod is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The pod's name.
    pub pod_name: String,
    /// The pod's namespace.
    pub pod_namespace: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The node's name.
    pub node: String,
}

impl Binding {
    /// Converts a request from the wire format.
    ///
    /// # Errors
    /// If a field is missing; the error contains the field's name. Schedulers always send all fields.
    pub fn new(args: ExtenderBindingArgs) -> Result<Self, String> {
        let fields = [
            ("PodName", &args.pod_name),
            ("PodNamespace", &args.pod_namespace),
            ("PodUID", &args.pod_uid),
            ("Node", &args.node),
        ];
        if let Some((field, _)) = fields.iter().find(|(_, value)| value.is_empty()) {
            return Err(format!("{field}: missing"));
        }
        let ExtenderBindingArgs { pod_name, pod_namespace, pod_uid, node } = args;
        Ok(Self { pod_name, pod_namespace, pod_uid, node })
    }
}
