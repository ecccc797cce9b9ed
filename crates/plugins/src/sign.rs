//! Fragments of a pod's signature (KEP-5598): the parts of a pod that plugins read, under kube-scheduler's names.

use harbormaster_api::{
    pod::VolumeSource,
    requests,
    selector::{NodeSelectorTerm, Requirement},
    taint::Toleration,
};
use harbormaster_framework::{
    plugin::{SignFragment, Unsignable},
    pod::PodInfo,
};

fn fragment(key: &'static str, value: impl std::fmt::Debug) -> SignFragment {
    SignFragment { key, value: format!("{value:?}") }
}

pub(crate) fn node_name(pod: &PodInfo) -> SignFragment {
    fragment("v1.Pod.Spec.NodeName", pod.node_name.as_deref().unwrap_or_default())
}

/// Sorts the tolerations, since their order has no meaning.
pub(crate) fn tolerations(pod: &PodInfo) -> SignFragment {
    let mut sorted: Vec<&Toleration> = pod.spec.tolerations.iter().collect();
    sorted.sort_unstable_by(|a, b| (&a.key, &a.value, a).cmp(&(&b.key, &b.value, b)));
    fragment("v1.Pod.Spec.Tolerations", sorted)
}

pub(crate) fn resources(pod: &PodInfo) -> SignFragment {
    // Scores use defaults per container, so pods with equal requests may score differently.
    let value = (&pod.derived.request, &pod.derived.score_request);
    fragment("v1.Pod.Spec.ContainerRequestsAndOverheads()", value)
}

/// Includes addresses and protocols, since two pods with equal port numbers may fit on different nodes.
pub(crate) fn host_ports(pod: &PodInfo) -> SignFragment {
    let mut ports = pod.derived.host_ports.clone();
    ports.sort_unstable();
    ports.dedup();
    fragment("v1.Pod.Spec.HostPorts()", ports)
}

pub(crate) fn images(pod: &PodInfo) -> SignFragment {
    let spec = &pod.spec;
    let named = requests::container_images(spec).chain(requests::volume_images(spec));
    let mut names: Vec<_> = named.map(|image| requests::normalized_image(image)).collect();
    names.sort_unstable();
    let containers = spec.containers.len() + spec.init_containers.len();
    fragment("v1.Pod.Spec.CanonicalImageNames()", (names, containers))
}

pub(crate) fn node_affinity(pod: &PodInfo) -> [SignFragment; 2] {
    let spec = &pod.spec;
    let affinity = spec.node_affinity.as_ref().map(|affinity| {
        let mut required: Option<Vec<_>> =
            affinity.required.as_ref().map(|r| r.terms.iter().map(canonical).collect());
        required.iter_mut().for_each(|terms| terms.sort_unstable());
        let mut preferred: Option<Vec<_>> = affinity
            .preferred
            .as_ref()
            .map(|terms| terms.iter().map(|t| (t.weight, canonical(&t.preference))).collect());
        preferred.iter_mut().for_each(|terms| terms.sort_unstable());
        (required, preferred)
    });
    [
        fragment("v1.Pod.Spec.Affinity.NodeAffinity", affinity),
        fragment("v1.Pod.Spec.Affinity.NodeSelector", &spec.node_selector),
    ]
}

type CanonicalTerm = (Vec<String>, Vec<String>);

fn canonical(term: &NodeSelectorTerm) -> CanonicalTerm {
    let sorted = |requirements: &[Requirement]| {
        let mut texts: Vec<String> = requirements
            .iter()
            .map(|r| {
                let mut values = r.values.clone();
                values.sort_unstable();
                format!("{:?}", (&r.key, &r.operator, values))
            })
            .collect();
        texts.sort_unstable();
        texts
    };
    (sorted(&term.match_expressions), sorted(&term.match_fields))
}

pub(crate) fn features(bits: &str) -> SignFragment {
    SignFragment { key: "v1.Pod.Spec.RequiredFeatures()", value: bits.to_owned() }
}

pub(crate) fn labels(pod: &PodInfo) -> SignFragment {
    fragment("v1.Pod.Labels", (&pod.namespace, &pod.labels))
}

/// Includes the namespace, since claims are namespaced. A pod with ephemeral volumes has no signature, since the names
/// of their claims contain the pod's name.
pub(crate) fn volumes(pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
    let sources = pod.spec.volumes.iter().map(|volume| &volume.source);
    if sources.clone().any(|source| matches!(source, VolumeSource::Ephemeral)) {
        return Err(Unsignable);
    }
    let mut texts: Vec<String> = sources.map(|source| format!("{source:?}")).collect();
    texts.sort_unstable();
    let namespace = (!texts.is_empty()).then_some(&pod.namespace);
    Ok(vec![fragment("v1.Pod.Spec.Volumes.NonSyntheticSources()", (namespace, texts))])
}

#[cfg(test)]
mod tests {
    use harbormaster_testkit::{pod, tolerates};

    use super::*;

    #[test]
    fn order_does_not_matter_where_it_has_no_meaning() {
        let (a, b) = (tolerates("a", "NoSchedule"), tolerates("b", ""));
        let one = pod("one").tolerate(a.clone()).tolerate(b.clone()).host_port(1).host_port(2).info();
        let two = pod("two").tolerate(b).tolerate(a).host_port(2).host_port(1).host_port(2).info();
        assert_eq!(tolerations(&one), tolerations(&two));
        assert_eq!(host_ports(&one), host_ports(&two));
        let one = pod("one").requires_node_label("k", &["x", "y"]).requires_node_label("l", &["z"]).info();
        let two = pod("two").requires_node_label("l", &["z"]).requires_node_label("k", &["y", "x"]).info();
        assert_eq!(node_affinity(&one), node_affinity(&two));
    }

    #[test]
    fn pods_that_may_get_different_answers_have_different_signatures() {
        let plain = pod("p").info();
        assert_ne!(resources(&plain), resources(&pod("p").cpu("1").info()));
        assert_ne!(
            resources(&plain),
            resources(&pod("p").container().info()),
            "defaults apply per container"
        );
        assert_ne!(images(&plain), images(&pod("p").image("other").info()));
        assert_eq!(images(&pod("p").image("x").info()), images(&pod("p").image("x:latest").info()));
        assert_ne!(node_affinity(&plain), node_affinity(&pod("p").node_selector("k", "v").info()));
        assert_ne!(
            host_ports(&pod("p").host_port(1).info()),
            host_ports(&pod("p").host_port_on("UDP", "0.0.0.0", 1).info())
        );
        assert_ne!(labels(&plain), labels(&pod("p").namespace("other").info()));
        assert_ne!(node_name(&plain), node_name(&pod("p").on("n").info()));
    }
}
