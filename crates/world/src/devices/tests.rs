use super::*;

fn pod(name: &str, uid: &str, phase: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": uid},
           "spec": {"nodeName": "node", "resourceClaims": [
               {"name": "gpu", "resourceClaimTemplateName": "gpus"},
               {"name": "own", "resourceClaimName": "mine"},
               {"name": "none", "resourceClaimTemplateName": "gpus"},
               {"name": "new", "resourceClaimTemplateName": "gpus"}]},
           "status": {"phase": phase, "resourceClaimStatuses":
               [{"name": "gpu", "resourceClaimName": "a-gpu-x"}, {"name": "none"}]}})
}

/// Returns an allocated claim that pod `a` owns and these consumers use.
fn claim(consumers: &[(&str, &str)]) -> Value {
    let consumer = |(name, uid): &(&str, &str)| json!({"resource": "pods", "name": name, "uid": uid});
    let consumers: Vec<Value> = consumers.iter().map(consumer).collect();
    json!({"metadata": {"name": "a-gpu-x", "namespace": "n", "finalizers": [FINALIZER, "other"], "ownerReferences":
               [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true}]},
           "status": {"allocation": {"devices": {}}, "reservedFor": consumers}})
}

fn upkeep_among(claim: &Value, pods: &[Value]) -> Upkeep {
    upkeep(claim, |wanted: &str| pods.iter().find(|pod| name(pod) == wanted))
}

#[test]
fn the_claims_of_a_pod_are_read_from_its_spec_and_status() {
    let pod = pod("a", "1", "Running");
    let all: Vec<Entry<'_>> = entries(&pod).collect();
    assert_eq!(
        all,
        [
            Entry::Generated { entry: "gpu", template: "gpus", claim: "a-gpu-x" },
            Entry::Named("mine"),
            Entry::Needless,
            Entry::Wanted { entry: "new", template: "gpus" },
        ]
    );
}

#[test]
fn a_claim_from_a_template_belongs_to_its_pod() {
    let template = json!({"spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                                   "spec": {"devices": {"requests": []}}}});
    let pod = pod("a", "1", "Pending");
    let claim = of_template(&pod, "gpu", &template);
    assert_eq!(
        claim["metadata"],
        json!({"namespace": "n", "generateName": "a-gpu-", "labels": {"a": "b"}, "annotations": {"c": "d", ENTRY: "gpu"},
               "ownerReferences":
                   [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true}]})
    );
    assert_eq!(claim["spec"], json!({"devices": {"requests": []}}));
    assert!(is_for_entry(&pod, "gpu", &claim) && !is_for_entry(&pod, "new", &claim));
}

#[test]
fn long_names_are_shortened_in_proportion() {
    assert_eq!(prefix("web", "gpu"), "web-gpu-");
    let long = prefix(&"p".repeat(80), &"c".repeat(20));
    assert_eq!(long, format!("{}-{}", "p".repeat(44), "c".repeat(11)));
}

#[test]
fn a_claim_loses_its_devices_and_is_deleted_when_its_last_consumer_is_done() {
    let running = [pod("a", "1", "Running"), pod("b", "2", "Running")];
    assert_eq!(upkeep_among(&claim(&[("a", "1"), ("b", "2")]), &running), Upkeep::default());

    let one_left = upkeep_among(&claim(&[("a", "1"), ("b", "3")]), &running);
    let kept = claim(&[("a", "1")])["status"].clone();
    assert_eq!(one_left, Upkeep { status: Some(kept), ..Upkeep::default() });

    let finished = [pod("a", "1", "Succeeded")];
    let given_back = Upkeep { status: Some(json!({})), unprotect: true, delete: true };
    assert_eq!(upkeep_among(&claim(&[("a", "1")]), &finished), given_back);
    assert_eq!(upkeep_among(&claim(&[("a", "1")]), &[]), given_back);
    // A pod with the same name has replaced the owner.
    assert_eq!(upkeep_among(&claim(&[("a", "1")]), &[pod("a", "9", "Running")]), given_back);
}

#[test]
fn an_allocated_claim_that_never_had_a_consumer_keeps_its_devices_until_it_is_deleted() {
    let running = [pod("a", "1", "Running")];
    let mut unused = claim(&[]);
    assert_eq!(upkeep_among(&unused, &running), Upkeep::default());
    unused["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let given_back = upkeep_among(&unused, &running);
    assert_eq!((given_back.unprotect, given_back.delete), (true, false));
    assert_eq!(given_back.status.unwrap()["allocation"], Value::Null);
    unprotect(&mut unused);
    assert_eq!(unused["metadata"]["finalizers"], json!(["other"]));
}

#[test]
fn consumers_that_are_not_pods_are_kept() {
    let mut claim = claim(&[]);
    claim["status"]["reservedFor"] =
        json!([{"apiGroup": "x", "resource": "groups", "name": "g", "uid": "5"}]);
    assert_eq!(upkeep_among(&claim, &[pod("a", "1", "Running")]), Upkeep::default());
}

#[test]
fn devices_are_given_to_a_claim_and_taken_back_when_its_pod_is_gone() {
    let pod = pod("a", "1", "Running");
    let mut claim = json!({"metadata": {"name": "c", "namespace": "n"}});
    allot(&mut claim, Some(json!({"devices": {}})), consumer(&pod));
    allot(&mut claim, None, consumer(&pod));
    assert_eq!(
        claim,
        json!({"metadata": {"name": "c", "namespace": "n", "finalizers": [FINALIZER]},
               "status": {"allocation": {"devices": {}}, "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]}})
    );
    assert_eq!(upkeep_without(&claim, "2"), Upkeep::default());
    let given_back = Upkeep { status: Some(json!({})), unprotect: true, delete: false };
    assert_eq!(upkeep_without(&claim, "1"), given_back);
}

fn group(uid: &str) -> Value {
    json!({"kind": "PodGroup", "metadata": {"name": "g", "namespace": "n", "uid": uid},
           "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"},
                                       {"name": "own", "resourceClaimTemplateName": "mine"}]}})
}

fn member() -> Value {
    let mut member = pod("a", "1", "Running");
    member["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    member
}

/// The group with UID 1, if claims of groups are supported.
struct OneGroup(Option<Value>);

impl<'a> Users<'a> for &'a OneGroup {
    fn pod(&self, _: &str) -> Option<&'a Value> {
        None
    }

    fn group(&self, wanted: &str) -> Option<&'a Value> {
        self.0.as_ref().filter(|group| name(group) == wanted)
    }

    fn has_groups(&self) -> bool {
        self.0.is_some()
    }
}

#[test]
fn a_claim_belongs_to_the_group_if_pod_and_group_have_the_same_entry() {
    let (pod, group) = (member(), group("1"));
    assert!(is_of_group(&pod, "gpu", &group));
    assert!(!is_of_group(&pod, "own", &group), "the pod names a claim, the group a template");
    assert!(!is_of_group(&pod, "new", &group), "the group has no such entry");
}

#[test]
fn a_claim_from_a_template_of_a_group_is_owned_by_the_group_and_used_by_its_members() {
    let (single, pod, group) = (pod("a", "2", "Running"), member(), group("1"));
    let mut claim = of_template(&group, "gpu", &json!({"spec": {"spec": {}}}));
    assert_eq!(claim["metadata"]["generateName"], "g-gpu-");
    let owner = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": "1",
                       "controller": true});
    assert_eq!(claim["metadata"]["ownerReferences"], json!([owner]));
    assert!(is_for_group_of(&pod, &claim) && !is_for_group_of(&single, &claim));
    allot(&mut claim, Some(json!({"devices": {}})), consumer(&group));
    let expected = json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "1"});
    assert_eq!(claim["status"]["reservedFor"], json!([expected]));
    assert!(!lacks_consumer(&pod, &claim) && lacks_consumer(&single, &claim));
}

#[test]
fn a_claim_of_a_group_is_kept_until_the_group_is_gone() {
    let mut claim = of_template(&group("1"), "gpu", &json!({"spec": {"spec": {}}}));
    allot(&mut claim, Some(json!({"devices": {}})), consumer(&group("1")));
    let given_back = Upkeep { status: Some(json!({})), unprotect: true, delete: true };
    for (what, groups, expected) in [
        ("it exists", OneGroup(Some(group("1"))), Upkeep::default()),
        ("it was replaced", OneGroup(Some(group("2"))), given_back.clone()),
        ("it is gone", OneGroup(Some(json!({"metadata": {"name": "other"}}))), given_back),
        ("claims of groups are not supported", OneGroup(None), Upkeep::default()),
    ] {
        assert_eq!(upkeep(&claim, &groups), expected, "{what}");
    }
    assert_eq!(upkeep_without(&claim, "5"), Upkeep::default(), "a member is gone");
}
