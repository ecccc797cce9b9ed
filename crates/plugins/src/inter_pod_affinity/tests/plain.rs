//! What is read of a pod.

use harbormaster_testkit::pod;

use super::*;

fn keys(trial: &Trial, pod: PodBuilder) -> Result<Vec<&'static str>, Unsignable> {
    let fragments = trial.plugin().sign(&pod.info())?;
    Ok(fragments.into_iter().map(|fragment| fragment.key).collect())
}

#[test]
fn pods_without_affinity_are_signed_by_their_labels() {
    let plain = || pod("p").label("foo", "bar");
    assert_eq!(keys(&trial(), plain()), Ok(vec!["v1.Pod.Labels"]));
    assert_eq!(
        keys(&trial_with(1, true), plain()),
        Ok(Vec::new()),
        "labels matter to preferences of others only"
    );
    for trial in [trial(), trial_with(1, true)] {
        assert_eq!(keys(&trial, plain().wants(term("zone", &[]))), Err(Unsignable));
        assert_eq!(keys(&trial, plain().dislikes(1, term("zone", &[]))), Err(Unsignable));
        let empty = plain().spec(|s| s.pod_anti_affinity = Some(PodAffinity::default()));
        assert_eq!(keys(&trial, empty), Err(Unsignable), "present but empty");
    }
}
