use harbormaster_api::{
    Release, Timestamp,
    features::{Feature, Features},
};
use serde_json::{Value, json};

use super::super::{Context, Others, Refusal};
use crate::kinds;

const NOT_ONE: &str = "must specify one of: `basic`, `gang`";
const NO_CHANGE: &str = "Invalid value: null: field is immutable";

/// A cluster with two priority classes.
struct Classes;

impl Others for Classes {
    fn all(&self, resource: &str) -> Vec<Value> {
        self.get(resource, "high").into_iter().collect()
    }

    fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let policy = match name {
            "high" => "PreemptLowerPriority",
            "quiet" => "Never",
            _ => return None,
        };
        let class = json!({"metadata": {"name": name}, "value": 7, "preemptionPolicy": policy});
        (resource == "priorityclasses.scheduling.k8s.io").then_some(class)
    }
}

/// Admits a new object or, if `old` is given, a changed object. Returns the object, or the reasons why it is refused.
fn admit(old: Option<&Value>, object: &Value, status_only: bool) -> Result<Value, Vec<String>> {
    admit_with(false, old, object, status_only)
}

/// Like [`admit`], with or without the feature gate for topology constraints.
fn admit_with(
    topology: bool,
    old: Option<&Value>,
    object: &Value,
    status_only: bool,
) -> Result<Value, Vec<String>> {
    let gate = topology.then_some(Feature::TopologyAwareWorkloadScheduling);
    admit_with_gate(gate, old, object, status_only)
}

/// Like [`admit`], with a further feature gate.
fn admit_with_gate(
    gate: Option<Feature>,
    old: Option<&Value>,
    object: &Value,
    status_only: bool,
) -> Result<Value, Vec<String>> {
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
    let features = gate.map_or(features, |gate| features.with(gate, true));
    let mut object = object.clone();
    let kinds = kinds::table(features);
    let kind = kinds.iter().find(|kind| object["kind"] == kind.kind.as_str()).unwrap();
    let context = Context {
        kind,
        others: &Classes,
        now: Timestamp::default(),
        features,
        default_tolerations: false,
        taint_new_nodes: false,
        status_only,
    };
    let admitted = match old {
        None => context.create(&mut object),
        Some(old) => context.update(old, &mut object),
    };
    match admitted {
        Ok(()) => Ok(object),
        Err(Refusal::Invalid(errors)) => Err(errors.iter().map(ToString::to_string).collect()),
        Err(Refusal::Forbidden { why, .. }) => Err(vec![why]),
        Err(other) => panic!("{other:?}"),
    }
}

fn group(spec: Value) -> Value {
    json!({"kind": "PodGroup", "metadata": {"name": "a", "namespace": "default"}, "spec": spec})
}

fn gang(count: i64) -> Value {
    json!({"gang": {"minCount": count}})
}

fn workload(templates: Value) -> Value {
    json!({"kind": "Workload", "metadata": {"name": "a", "namespace": "default"},
           "spec": {"podGroupTemplates": templates}})
}

/// Admits a changed object. `from` is admitted as a new object first.
fn changed(from: &Value, to: &Value) -> Vec<String> {
    let old = admit(None, from, false).unwrap();
    admit(Some(&old), to, false).err().unwrap_or_default()
}

#[test]
fn a_new_group_gets_its_priority_its_protection_and_a_disruption_mode() {
    let spec = json!({"schedulingPolicy": gang(3), "priorityClassName": "high",
                      "schedulingConstraints": {"topology": [{"key": "rack"}]}, "preemptionPolicy": "Never"});
    let admitted = admit(None, &group(spec), false).unwrap();
    assert_eq!(
        admitted["spec"],
        json!({"schedulingPolicy": gang(3), "priorityClassName": "high", "priority": 7,
               "disruptionMode": {"single": {}}})
    );
    assert_eq!(admitted["metadata"]["finalizers"], json!([super::PROTECTION]));
    let again = admit(None, &admitted, false).unwrap();
    assert_eq!(again["metadata"]["finalizers"], json!([super::PROTECTION]));

    let without_class = admit(None, &group(json!({"schedulingPolicy": {"basic": {}}})), false).unwrap();
    assert_eq!(without_class["spec"]["priority"], 0);
}

#[test]
fn a_group_has_exactly_one_policy_and_valid_names() {
    for (spec, expected) in [
        (json!({}), &[format!("spec.schedulingPolicy: Invalid value: \"\": {NOT_ONE}")][..]),
        (
            json!({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}),
            &["spec.schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`"
                .to_owned()],
        ),
        (
            json!({"schedulingPolicy": gang(0)}),
            &["spec.schedulingPolicy.gang.minCount: Required value".to_owned()],
        ),
        (
            json!({"schedulingPolicy": gang(-1)}),
            &["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1".to_owned()],
        ),
        (
            json!({"schedulingPolicy": gang(1), "workloadRef": {"workloadName": "", "templateName": ""},
                   "disruptionMode": {}}),
            &[
                "spec.workloadRef.workloadName: Required value".to_owned(),
                "spec.workloadRef.templateName: Required value".to_owned(),
                "spec.disruptionMode: Invalid value: \"\": must specify one of: `single`, `all`".to_owned(),
            ],
        ),
        (
            json!({"schedulingPolicy": gang(1), "priorityClassName": "none"}),
            &["no PriorityClass with name none was found".to_owned()],
        ),
        (
            json!({"schedulingPolicy": gang(1), "priorityClassName": "high", "priority": 8}),
            &["priority set in the pod group (8) must match the priority computed (7) based on the priority class \
               set in the spec"
                .to_owned()],
        ),
    ] {
        assert_eq!(admit(None, &group(spec.clone()), false).unwrap_err(), expected, "{spec}");
    }
}

#[test]
fn only_the_minimum_of_a_gang_may_change() {
    let from = group(json!({"schedulingPolicy": gang(3), "priority": 0}));
    for (spec, expected) in [
        (json!({"schedulingPolicy": gang(5), "priority": 0}), Vec::new()),
        (
            json!({"schedulingPolicy": gang(0), "priority": 0}),
            vec!["spec.schedulingPolicy.gang.minCount: Required value".to_owned()],
        ),
        (
            json!({"schedulingPolicy": {"basic": {}}, "priority": 0}),
            vec![
                format!("spec.schedulingPolicy.basic: {NO_CHANGE}"),
                "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set"
                    .to_owned(),
            ],
        ),
        (
            json!({"schedulingPolicy": gang(3), "priority": 1, "priorityClassName": "high",
                   "disruptionMode": {"all": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}}),
            vec![
                format!("spec.workloadRef: {NO_CHANGE}"),
                format!("spec.disruptionMode: {NO_CHANGE}"),
                format!("spec.priorityClassName: {NO_CHANGE}"),
                format!("spec.priority: {NO_CHANGE}"),
            ],
        ),
    ] {
        assert_eq!(changed(&from, &group(spec.clone())), expected, "{spec}");
    }
}

#[test]
fn a_workload_has_valid_templates_of_one_priority_with_distinct_names() {
    let template = |name: &str| json!({"name": name, "schedulingPolicy": {"basic": {}}});
    let shown = "{\"name\":\"a\",\"schedulingPolicy\":{\"basic\":{}},\"schedulingConstraints\":null}";
    let of_class = json!({"name": "b", "schedulingPolicy": gang(2), "priorityClassName": "high"});
    let many: Vec<Value> = (0..9).map(|i| template(&format!("t{i}"))).collect();
    for (templates, expected) in [
        (
            json!([]),
            vec![
                "spec: Invalid value: \"\": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"
                    .to_owned(),
            ],
        ),
        (
            json!([template("a"), template("a")]),
            vec![format!("spec.podGroupTemplates[1]: Duplicate value: {shown}")],
        ),
        (
            json!([template("a"), of_class]),
            vec!["spec: Invalid value: null: detected multiple priority configurations".to_owned()],
        ),
        (
            json!([{"name": "", "schedulingPolicy": gang(-2)}]),
            vec![
                "spec.podGroupTemplates[0].name: Required value".to_owned(),
                "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Invalid value: -2: must be greater than or \
                 equal to 1"
                    .to_owned(),
            ],
        ),
        (json!(many), vec!["spec.podGroupTemplates: Too many: 9: must have at most 8 items".to_owned()]),
    ] {
        assert_eq!(admit(None, &workload(templates.clone()), false).unwrap_err(), expected, "{templates}");
    }
}

#[test]
fn templates_are_neither_added_nor_removed_but_the_minimum_of_their_gang_may_change() {
    let template = |name: &str, count| json!({"name": name, "schedulingPolicy": gang(count)});
    let from = workload(json!([template("a", 1), template("b", 1)]));
    for (templates, expected) in [
        (json!([template("b", 1), template("a", 4)]), Vec::new()),
        (
            json!([template("a", 1), template("c", 1)]),
            vec![
                "spec.podGroupTemplates[1]: Forbidden: item may not be added",
                "spec.podGroupTemplates: Forbidden: item may not be removed",
            ],
        ),
        (
            json!([template("a", 1), {"name": "b", "schedulingPolicy": gang(1), "disruptionMode": {"all": {}}}]),
            vec!["spec.podGroupTemplates[1].disruptionMode: Invalid value: null: field is immutable"],
        ),
    ] {
        assert_eq!(changed(&from, &workload(templates.clone())), expected, "{templates}");
    }
}

#[test]
fn topology_constraints_are_kept_only_with_their_gate_or_if_they_are_in_use() {
    let rack = json!({"topology": [{"key": "example.com/rack"}]});
    let group = group(json!({"schedulingPolicy": gang(3), "schedulingConstraints": rack}));
    let template = json!({"name": "a", "schedulingPolicy": gang(3), "schedulingConstraints": rack});
    for (object, place) in [
        (group, "/spec/schedulingConstraints"),
        (workload(json!([template])), "/spec/podGroupTemplates/0/schedulingConstraints"),
    ] {
        let constraints = |object: &Value| object.pointer(place).cloned().unwrap_or_default();
        let without = admit_with(false, None, &object, false).unwrap();
        assert_eq!(constraints(&without), Value::Null);
        let with = admit_with(true, None, &object, false).unwrap();
        assert_eq!(constraints(&with), rack);
        let still = admit_with(false, Some(&with), &with, false).unwrap();
        assert_eq!(constraints(&still), rack);
        let mut changed = with.clone();
        *changed.pointer_mut(place).unwrap() = json!({"topology": [{"key": "row"}]});
        let why = admit_with(true, Some(&with), &changed, false).unwrap_err();
        let path = place[1..].replace("/0/", "[0].").replace('/', ".");
        assert_eq!(why, [format!("{path}: {NO_CHANGE}")]);
    }
}

#[test]
fn a_group_has_at_most_one_topology_constraint_which_names_a_label() {
    let place = "spec.schedulingConstraints.topology";
    for (topology, expected) in [
        (json!([{"key": "a"}, {"key": "b"}]), format!("{place}: Too many: 2: must have at most 1 item")),
        (json!([{"key": ""}]), format!("{place}[0].key: Required value")),
        (json!([{}]), format!("{place}[0].key: Required value")),
        (
            json!([{"key": "/rack"}]),
            format!("{place}[0].key: Invalid value: \"/rack\": prefix part must be non-empty"),
        ),
    ] {
        let spec = json!({"schedulingPolicy": gang(3), "schedulingConstraints": {"topology": topology}});
        assert_eq!(admit_with(true, None, &group(spec), false).unwrap_err(), [expected]);
    }
    for constraints in [json!({}), json!({"topology": []}), Value::Null] {
        let spec = json!({"schedulingPolicy": gang(3), "schedulingConstraints": constraints});
        assert!(admit_with(true, None, &group(spec), false).is_ok(), "{constraints}");
    }
}

#[test]
fn the_conditions_of_a_group_are_complete_and_distinct() {
    let old = admit(None, &group(json!({"schedulingPolicy": gang(3)})), false).unwrap();
    let condition = |name: &str| {
        json!({"type": name, "status": "False", "reason": "Unschedulable", "message": "",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let mut new = old.clone();
    new["status"]["conditions"] = json!([condition("PodGroupInitiallyScheduled")]);
    assert!(admit(Some(&old), &new, true).is_ok());
    new["status"]["conditions"] = json!([condition("A"), condition("A"), {"type": "", "status": ""}]);
    assert_eq!(
        admit(Some(&old), &new, true).unwrap_err(),
        [
            "status.conditions[1]: Duplicate value: \"A\"",
            "status.conditions[2].type: Required value: is required",
            "status.conditions[2].status: Required value",
            "status.conditions[2].lastTransitionTime: Required value",
            "status.conditions[2].reason: Required value",
        ]
    );
}

#[test]
fn pod_groups_exist_only_from_1_37_on_and_only_with_their_gate() {
    let serves = |features| kinds::table(features).iter().any(|kind| kind.kind == "PodGroup");
    for &release in Release::ALL {
        let default = Features::of(release);
        assert!(!serves(default), "{release}");
        assert_eq!(
            serves(default.with(Feature::GenericWorkload, true)),
            release >= Release::V1_37,
            "{release}"
        );
    }
}

#[test]
fn with_the_feature_gate_a_group_has_the_preemption_policy_of_its_class() {
    let admit = |old: Option<&Value>, object: &Value| {
        admit_with_gate(Some(Feature::PodGroupPreemptionPolicy), old, object, false)
    };
    let of = |class: &str, policy: Option<&str>| {
        let mut object = group(json!({"schedulingPolicy": gang(1), "priorityClassName": class}));
        if let Some(policy) = policy {
            object["spec"]["preemptionPolicy"] = policy.into();
        }
        object
    };
    let policy = |admitted: &Value| admitted["spec"]["preemptionPolicy"].clone();
    assert_eq!(policy(&admit(None, &of("high", None)).unwrap()), "PreemptLowerPriority");
    let quiet = admit(None, &of("quiet", Some("Never"))).unwrap();
    assert_eq!(policy(&quiet), "Never");
    let differs = |given: &str, computed: &str| {
        format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod group spec; priority \
             admission controller computed {computed} from the given PriorityClass name"
        )
    };
    let expected = differs("PreemptLowerPriority", "Never");
    assert_eq!(admit(None, &of("quiet", None)), Err(vec![expected]), "the default is set before");
    assert_eq!(admit(None, &of("high", Some("No"))), Err(vec![differs("No", "PreemptLowerPriority")]));

    let mut changed = quiet.clone();
    changed["spec"]["preemptionPolicy"] = "PreemptLowerPriority".into();
    let fixed = format!("spec.preemptionPolicy: {NO_CHANGE}");
    assert_eq!(admit(Some(&quiet), &changed), Err(vec![fixed]));
    let without_gate = admit_with(false, Some(&quiet), &quiet, false).unwrap();
    assert_eq!(policy(&without_gate), "Never", "a policy that is there stays");
}

#[test]
fn templates_of_groups_have_known_preemption_policies() {
    let template = |policy: &str| {
        workload(json!([{"name": "a", "schedulingPolicy": gang(1), "preemptionPolicy": policy}]))
    };
    let admit = |gate, policy| admit_with_gate(gate, None, &template(policy), false);
    let gate = Some(Feature::PodGroupPreemptionPolicy);
    let kept = |admitted: Value| admitted["spec"]["podGroupTemplates"][0]["preemptionPolicy"].clone();
    assert_eq!(kept(admit(gate, "Never").unwrap()), "Never");
    assert_eq!(kept(admit(None, "Never").unwrap()), Value::Null);
    let unknown = "spec.podGroupTemplates[0].preemptionPolicy: Unsupported value: \"No\": supported values: \"Never\", \"PreemptLowerPriority\"";
    assert_eq!(admit(gate, "No"), Err(vec![unknown.to_owned()]));
}

/// A group with these claims.
fn claiming(claims: Value) -> Value {
    group(json!({"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}))
}

#[test]
fn claims_of_groups_are_kept_only_with_their_gate_or_if_they_are_in_use() {
    let claims = json!([{"name": "r", "resourceClaimName": "c"}]);
    let gate = Some(Feature::DRAWorkloadResourceClaims);
    let with = admit_with_gate(gate, None, &claiming(claims.clone()), false).unwrap();
    assert_eq!(with["spec"]["resourceClaims"], claims);
    let without = admit(None, &claiming(claims.clone()), false).unwrap();
    assert_eq!(without["spec"].get("resourceClaims"), None);
    let in_use = admit(Some(&with), &with, false).unwrap();
    assert_eq!(in_use["spec"]["resourceClaims"], claims);

    let mut named = with.clone();
    named["status"] = json!({"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}]});
    let statuses = named["status"].clone();
    assert_eq!(admit(Some(&with), &named, true).unwrap()["status"], statuses);
    let mut unclaimed = without.clone();
    unclaimed["status"] = statuses;
    assert_eq!(admit(Some(&without), &unclaimed, true).unwrap()["status"], json!({}));

    let template = json!([{"name": "t", "schedulingPolicy": {"basic": {}}, "resourceClaims": claims}]);
    let kept = admit_with_gate(gate, None, &workload(template.clone()), false).unwrap();
    assert_eq!(kept["spec"]["podGroupTemplates"][0]["resourceClaims"], claims);
    let dropped = admit(None, &workload(template), false).unwrap();
    assert_eq!(dropped["spec"]["podGroupTemplates"][0].get("resourceClaims"), None);
}

#[test]
fn each_claim_of_a_group_has_a_name_and_names_a_claim_or_a_template() {
    let gate = Some(Feature::DRAWorkloadResourceClaims);
    let one = |name: &str| json!({"name": name, "resourceClaimName": "c"});
    let many: Vec<Value> = ["a", "b", "c", "d", "e"].map(one).into();
    for (claims, expected) in [
        (json!([one("a"), {"name": "b", "resourceClaimTemplateName": "t"}]), &[][..]),
        (json!(many), &["spec.resourceClaims: Too many: 5: must have at most 4 items"]),
        (
            json!([one("a"), one("a")]),
            &["spec.resourceClaims[1]: Duplicate value: {\"name\":\"a\",\"resourceClaimName\":\"c\"}"],
        ),
        (
            json!([{"name": "a"}]),
            &["spec.resourceClaims[0]: Invalid value: \"\": must specify one of: `resourceClaimName`, \
               `resourceClaimTemplateName`"],
        ),
        (json!([{"resourceClaimName": "c"}]), &["spec.resourceClaims[0].name: Required value"]),
    ] {
        let errors = admit_with_gate(gate, None, &claiming(claims.clone()), false).err().unwrap_or_default();
        assert_eq!(errors, expected, "{claims}");
    }
    let old = admit_with_gate(gate, None, &claiming(json!([one("a")])), false).unwrap();
    let mut other = old.clone();
    other["spec"]["resourceClaims"] = json!([one("b")]);
    let errors = admit_with_gate(gate, Some(&old), &other, false).unwrap_err();
    assert_eq!(errors, [format!("spec.resourceClaims: {NO_CHANGE}")]);
    let mut named = old.clone();
    named["status"] = json!({"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "c"}]});
    let errors = admit_with_gate(gate, Some(&old), &named, true).unwrap_err();
    let why = "must match the name of an entry in `spec.resourceClaims`";
    assert_eq!(errors, [format!("status.resourceClaimStatuses[0].name: Invalid value: \"b\": {why}")]);
}
