//! Signatures.

use harbormaster_testkit::pod;

use super::*;

/// Keys of the signature; `None` if the pod cannot be signed.
fn keys(trial: &Trial, pod: PodBuilder) -> Option<Vec<&'static str>> {
    let fragments = trial.plugin().sign(&pod.info()).unwrap()?;
    Some(fragments.into_iter().map(|fragment| fragment.key).collect())
}

#[test]
fn pods_without_affinity_are_signed_by_their_labels() {
    let plain = || pod("p").label("foo", "bar");
    assert_eq!(keys(&trial(), plain()), Some(vec!["v1.Pod.Labels"]));
    assert_eq!(
        keys(&trial_with(1, true), plain()),
        Some(Vec::new()),
        "as in kube-scheduler, labels are left out if preferences of other pods are ignored"
    );
    for trial in [trial(), trial_with(1, true)] {
        assert_eq!(keys(&trial, plain().wants(term("zone", &[]))), None);
        assert_eq!(keys(&trial, plain().dislikes(1, term("zone", &[]))), None);
        let empty = plain().spec(|s| s.pod_anti_affinity = Some(PodAffinity::default()));
        assert_eq!(keys(&trial, empty), None, "even an empty affinity prevents signing");
    }
}
