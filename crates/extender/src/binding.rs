//! What bind is asked.

use crate::wire::ExtenderBindingArgs;

/// A pod that has a node and waits for being bound to it. Who answers without an error has bound it.
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
    /// Makes what an author sees of what was sent.
    ///
    /// # Errors
    /// With the name of what is missing. Schedulers always send everything.
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
