//! Checks of pods, mainly of the parts that matter to scheduling.

use std::collections::BTreeSet;

use harbormaster_api::{
    Quantity,
    labels::{is_qualified_name, label_value_errors, qualified_name_errors},
    resources::is_pod_level,
};
use serde_json::{Value, json};

use super::{
    Errors,
    checks::{
        Check::{self, By, Choice, Each, Fields, Number, OneOf, Required, Unique},
        Checks, LABEL, LABEL_VALUE, PORT_NUMBER, POSITIVE, QUALIFIED_NAME, SUBDOMAIN, check, check_form,
        elements, unique,
    },
    meta::{check_labels, label_errors, long_name_errors},
    pod::requests_of_containers,
};
use crate::{
    FieldError,
    value::{entries, is_true, list, number, present, text},
};

const POD: Checks = &[("spec", Fields(SPEC))];
const SPEC: Checks = &[
    ("volumes", Each(VOLUME)),
    ("volumes", Unique("name")),
    ("resourceClaims", Each(CLAIM)),
    ("resourceClaims", Unique("name")),
    ("containers", Required("")),
    ("containers", Each(CONTAINER)),
    ("initContainers", Each(CONTAINER)),
    ("", By(check_mounts)),
    ("", By(check_names_of_containers)),
    ("", By(check_host_ports)),
    ("", By(check_resources_of_pod)),
    ("restartPolicy", Choice(&["Always", "OnFailure", "Never"])),
    ("dnsPolicy", Choice(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"])),
    ("nodeSelector", By(check_labels)),
    ("affinity", Fields(AFFINITY)),
    ("readinessGates", Each(&[("conditionType", QUALIFIED_NAME)])),
    ("schedulingGates", By(check_gates)),
    ("topologySpreadConstraints", By(check_spread)),
    ("nodeName", SUBDOMAIN),
    ("activeDeadlineSeconds", Number(1..=MOST, "must be between 1 and 2147483647, inclusive")),
    ("hostname", LABEL),
    ("tolerations", Each(TOLERATION)),
    ("overhead", By(check_overhead)),
    ("schedulingGroup", By(check_pod_group)),
];
/// Largest 32-bit integer.
const MOST: i64 = i32::MAX as i64;

const VOLUME: Checks = &[
    ("", By(check_volume)),
    ("persistentVolumeClaim", Fields(&[("claimName", Required(""))])),
    ("name", By(check_name)),
];
const CLAIM: Checks = &[
    ("name", By(check_name)),
    ("", By(check_claim)),
    ("resourceClaimName", SUBDOMAIN),
    ("resourceClaimTemplateName", SUBDOMAIN),
];
const CONTAINER: Checks = &[
    ("name", By(check_name)),
    ("image", Required("")),
    ("ports", Each(PORT)),
    ("ports", Unique("name")),
    ("env", Each(&[("name", Required(""))])),
    ("restartPolicy", OneOf(&["Always", "OnFailure", "Never"])),
    ("livenessProbe", By(check_probe)),
    ("readinessProbe", By(check_probe)),
    ("startupProbe", By(check_probe)),
    ("imagePullPolicy", Choice(&["Always", "IfNotPresent", "Never"])),
    ("resources", By(check_resources_of_container)),
];
const PORT: Checks = &[
    ("name", By(check_port_name)),
    ("containerPort", By(check_port)),
    ("hostPort", PORT_NUMBER),
    ("protocol", Choice(&["SCTP", "TCP", "UDP"])),
];

pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const TOLERATION: Checks =
    &[("key", QUALIFIED_NAME), ("", By(check_toleration)), ("effect", OneOf(&EFFECTS))];

const SPREAD: Checks = &[
    ("maxSkew", POSITIVE),
    ("topologyKey", Required("can not be empty")),
    ("whenUnsatisfiable", OneOf(&["DoNotSchedule", "ScheduleAnyway"])),
];
/// Checks of a spread constraint that run after its comparison with the other constraints.
const REST_OF_SPREAD: Checks = &[
    ("minDomains", POSITIVE),
    ("", By(check_least_domains)),
    ("nodeAffinityPolicy", OneOf(&["Honor", "Ignore"])),
    ("nodeTaintsPolicy", OneOf(&["Honor", "Ignore"])),
    ("", By(check_label_keys)),
    ("labelSelector", Fields(SELECTOR)),
];

const AFFINITY: Checks = &[
    (
        "nodeAffinity",
        Fields(&[
            (REQUIRED, Fields(NODE_SELECTOR)),
            (PREFERRED, Each(&[("weight", WEIGHT), ("preference", Fields(PREFERRED_NODE_TERM))])),
        ]),
    ),
    ("podAffinity", Fields(POD_AFFINITY)),
    ("podAntiAffinity", Fields(POD_AFFINITY)),
];
pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT: Check = Number(1..=100, "must be in the range 1-100");
const POD_AFFINITY: Checks = &[
    (REQUIRED, Each(POD_TERM)),
    (PREFERRED, Each(&[("weight", WEIGHT), ("podAffinityTerm", Fields(POD_TERM))])),
];
const POD_TERM: Checks = &[
    ("labelSelector", Fields(SELECTOR)),
    ("namespaceSelector", Fields(SELECTOR)),
    ("", By(check_namespaces)),
    ("", By(check_label_keys)),
    ("topologyKey", Required("can not be empty")),
    ("topologyKey", QUALIFIED_NAME),
];
const VALUES: Check = Each(&[("", LABEL_VALUE)]);
const NODE_SELECTOR: Checks = &[
    ("nodeSelectorTerms", Required("must have at least one node selector term")),
    ("nodeSelectorTerms", Each(NODE_TERM)),
];
const NODE_TERM: Checks = &[
    ("matchExpressions", Each(&[("", By(check_node_operator)), ("key", QUALIFIED_NAME), ("values", VALUES)])),
    ("matchFields", Each(MATCH_FIELD)),
];
/// Checks of a preferred node term. The values of its expressions are not checked.
const PREFERRED_NODE_TERM: Checks = &[
    ("matchExpressions", Each(&[("", By(check_node_operator)), ("key", QUALIFIED_NAME)])),
    ("matchFields", Each(MATCH_FIELD)),
];
const MATCH_FIELD: Checks = &[("", By(check_match_field))];

/// Checks of a `metav1.LabelSelector`.
pub(super) const SELECTOR: Checks = &[
    ("matchLabels", By(check_labels)),
    ("matchExpressions", Each(&[("", By(check_set_operator)), ("key", QUALIFIED_NAME), ("values", VALUES)])),
];

/// Checks a new pod.
pub(super) fn check_new(pod: &Value, errors: &mut Errors) {
    check_pod(pod, "", errors);
    if !list(pod, "/spec/schedulingGates").is_empty() && !text(pod, "/spec/nodeName").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", why));
    }
    if !list(pod, "/spec/ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
}

/// Checks a new or existing pod, or a pod template.
pub(super) fn check_pod(pod: &Value, place: &str, errors: &mut Errors) {
    check(pod, place, POD, errors);
}

/// Checks a node selector.
pub(super) fn check_node_selector(selector: &Value, place: &str, errors: &mut Errors) {
    check(selector, place, NODE_SELECTOR, errors);
}

fn check_name(name: &Value, place: &str, errors: &mut Errors) {
    match name.as_str() {
        None | Some("") => errors.push(FieldError::required(place, "")),
        Some(name) => check_form(name, place, label_errors, errors),
    }
}

/// Checks that an entry of `resourceClaims` names either a claim or a template.
fn check_claim(claim: &Value, place: &str, errors: &mut Errors) {
    let (name, template) = (&claim["resourceClaimName"], &claim["resourceClaimTemplateName"]);
    let why = match (name.is_null(), template.is_null()) {
        (true, true) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        (false, false) => {
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        }
        _ => return,
    };
    // The message shows the fields under their Go names.
    let shown =
        json!({"Name": claim["name"], "ResourceClaimName": name, "ResourceClaimTemplateName": template});
    errors.push(FieldError::invalid(place, shown, why));
}

fn check_names_of_containers(spec: &Value, place: &str, errors: &mut Errors) {
    let all = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|kind| elements(&spec[kind], format!("{place}.{kind}")));
    let names = all.map(|(place, container)| (format!("{place}.name"), text(container, "/name").to_owned()));
    unique(names.filter(|(_, name)| !name.is_empty()), errors);
}

/// Sources of a volume, in the order of the checks.
const VOLUMES: [&str; 28] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "portworxVolume",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];
const PROBES: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// Checks that a volume has at most one source.
fn check_volume(volume: &Value, place: &str, errors: &mut Errors) {
    check_single(volume, place, &VOLUMES, "volume", errors);
}

/// Checks that a probe has exactly one handler.
fn check_probe(probe: &Value, place: &str, errors: &mut Errors) {
    if PROBES.iter().all(|handler| probe[*handler].is_null()) {
        errors.push(FieldError::required(place, "must specify a handler type"));
    }
    check_single(probe, place, &PROBES, "handler", errors);
}

/// Refuses all of the given fields except the first that is set.
fn check_single(value: &Value, place: &str, fields: &[&str], what: &str, errors: &mut Errors) {
    let given = fields.iter().filter(|field| !value[**field].is_null());
    for field in given.skip(1) {
        let why = format!("may not specify more than 1 {what} type");
        errors.push(FieldError::forbidden(format!("{place}.{field}"), why));
    }
}

/// Checks that containers mount existing volumes, each at a different path.
fn check_mounts(spec: &Value, place: &str, errors: &mut Errors) {
    let volumes: BTreeSet<&str> = list(spec, "/volumes").iter().map(|volume| text(volume, "/name")).collect();
    for kind in ["containers", "initContainers"] {
        for (place, container) in elements(&spec[kind], format!("{place}.{kind}")) {
            let mut paths = BTreeSet::new();
            for (place, mount) in elements(&container["volumeMounts"], format!("{place}.volumeMounts")) {
                let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
                if name.is_empty() {
                    errors.push(FieldError::required(format!("{place}.name"), ""));
                } else if !volumes.contains(name) {
                    errors.push(FieldError::not_found(format!("{place}.name"), name));
                }
                if path.is_empty() {
                    errors.push(FieldError::required(format!("{place}.mountPath"), ""));
                } else if !paths.insert(path) {
                    errors.push(FieldError::invalid(format!("{place}.mountPath"), path, "must be unique"));
                }
            }
        }
    }
}

fn check_port_name(name: &Value, place: &str, errors: &mut Errors) {
    if name != "" {
        check_form(name.as_str().unwrap_or_default(), place, port_name_errors, errors);
    }
}

/// Returns the errors in a string that must be a port name.
fn port_name_errors(name: &str) -> Vec<String> {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let wrong = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            !name.bytes().all(is_inner),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, why)| why.to_owned()).collect()
}

fn check_port(port: &Value, place: &str, errors: &mut Errors) {
    if port == 0 {
        errors.push(FieldError::required(place, ""));
    } else {
        PORT_NUMBER.ask(port, place, errors);
    }
}

/// Checks that host ports are unique, and that they match the container ports on the host network. Containers share the
/// ports of their node. Init containers run one after the other, so each is checked alone; as in kube-apiserver, the
/// messages about all of them use the path of the first init container.
fn check_host_ports(spec: &Value, place: &str, errors: &mut Errors) {
    let shared = |(place, port): (String, &Value)| {
        let (protocol, address) = (text(port, "/protocol"), text(port, "/hostIP"));
        (place, format!("{protocol}/{address}/{}", port["hostPort"]))
    };
    let containers = elements(&spec["containers"], format!("{place}.containers"));
    let ports: Vec<_> = containers.flat_map(|(place, container)| host_ports(container, &place)).collect();
    unique(ports.iter().cloned().map(shared), errors);
    for container in list(spec, "/initContainers") {
        unique(host_ports(container, &format!("{place}.initContainers[0]")).into_iter().map(shared), errors);
    }
    for (place, port) in ports {
        if is_true(spec, "/hostNetwork") && port["hostPort"] != port["containerPort"] {
            let why = "must match `containerPort` when `hostNetwork` is true";
            errors.push(FieldError::invalid(place, port["hostPort"].clone(), why));
        }
    }
}

/// Returns the host ports of a container, with their field paths.
fn host_ports<'a>(container: &'a Value, place: &str) -> Vec<(String, &'a Value)> {
    let ports = elements(&container["ports"], format!("{place}.ports"));
    let of_node = ports.filter(|(_, port)| number(port, "/hostPort") != 0);
    of_node.map(|(place, port)| (format!("{place}.hostPort"), port)).collect()
}

fn check_gates(gates: &Value, place: &str, errors: &mut Errors) {
    for (place, gate) in elements(gates, place) {
        check_form(text(gate, "/name"), &place, qualified_name_errors, errors);
    }
    unique(elements(gates, place).map(|(place, gate)| (place, text(gate, "/name").to_owned())), errors);
}

fn check_resources_of_container(resources: &Value, place: &str, errors: &mut Errors) {
    check_resources(
        resources,
        place,
        |name, place| {
            let known =
                matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
            if name.contains('/') || known {
                return Vec::new();
            }
            // Some standard resources do not apply to containers.
            let elsewhere = matches!(name, "storage" | "pods" | "services");
            let words = [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for containers",
            ];
            words[usize::from(elsewhere)..].iter().map(|why| FieldError::invalid(place, name, why)).collect()
        },
        errors,
    );
}

fn check_resources_of_pod(spec: &Value, place: &str, errors: &mut Errors) {
    let (resources, place) = (&spec["resources"], format!("{place}.resources"));
    let known = |name: &str, place: &str| {
        let wrong = (!is_pod_level(name))
            .then(|| FieldError::unsupported(place, name, &["cpu", "hugepages-", "memory"]));
        wrong.into_iter().collect()
    };
    check_resources(resources, &place, known, errors);
    if resources.is_null() {
        return;
    }
    for (name, asked) in requests_of_containers(spec) {
        if let Some(given) = amount(&resources["requests"][&name]).filter(|given| *given < asked) {
            let why = format!("must be greater than or equal to aggregate container requests of {asked}");
            errors.push(FieldError::invalid(format!("{place}.requests[{name}]"), given.to_string(), why));
        }
    }
    for (at, container) in elements(&spec["containers"], format!("{place}.containers")) {
        for (name, limit) in entries(container, "/resources/limits") {
            let (limit, most) = (amount(limit), amount(&resources["limits"][name]));
            if let (Some(limit), Some(most)) = (limit, most)
                && limit > most
            {
                let why = format!("must be less than or equal to pod limits of {most}");
                errors.push(FieldError::invalid(format!("{at}[{name}].limits"), limit.to_string(), why));
            }
        }
    }
}

fn check_pod_group(group: &Value, place: &str, errors: &mut Errors) {
    let place = format!("{place}.podGroupName");
    match group["podGroupName"].as_str() {
        Some(name) => check_form(name, &place, long_name_errors, errors),
        None => {
            let why = "must specify one of: `podGroupName`";
            errors.push(FieldError::invalid(place, Value::Null, why));
        }
    }
}

fn check_overhead(overhead: &Value, place: &str, errors: &mut Errors) {
    check_resources_of_container(&json!({"limits": overhead}), place, errors);
}

/// Checks limits and requests. `unknown` returns the errors for a resource name that is well-formed but may be unknown.
fn check_resources(
    resources: &Value,
    place: &str,
    unknown: fn(&str, &str) -> Vec<FieldError>,
    errors: &mut Errors,
) {
    let (mut huge_pages, mut usual) = (false, false);
    for part in ["limits", "requests"] {
        for (name, quantity) in entries(resources, &format!("/{part}")) {
            huge_pages |= name.starts_with("hugepages-");
            usual |= matches!(&**name, "cpu" | "memory");
            let field = format!("{place}.{part}[{name}]");
            check_form(name, &field, qualified_name_errors, errors);
            if is_qualified_name(name) {
                errors.extend(unknown(name, &field));
            }
            let Some(quantity) = amount(quantity) else { continue };
            if quantity < Quantity::default() {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(&*field, quantity.to_string(), why));
            }
            if is_extended(name) && quantity.milli_value() % 1000 != 0 {
                errors.push(FieldError::invalid(&*field, quantity.to_string(), "must be an integer"));
            }
            if part == "requests" {
                errors.extend(check_request(name, quantity, amount(&resources["limits"][name]), place));
            }
        }
    }
    if huge_pages && !usual {
        errors.push(FieldError::forbidden(place, "HugePages require cpu or memory"));
    }
}

fn amount(quantity: &Value) -> Option<Quantity> {
    quantity.as_str()?.parse().ok()
}

/// Checks that a request is at most the limit, and equal to the limit if the resource cannot be overcommitted.
fn check_request(name: &str, request: Quantity, limit: Option<Quantity>, place: &str) -> Option<FieldError> {
    let overcommit = !is_extended(name) && !name.starts_with("hugepages-");
    let how = match limit {
        Some(limit) if request != limit && !overcommit => "equal to",
        Some(limit) if request > limit => "less than or equal to",
        None if !overcommit => {
            let why = "Limit must be set for non overcommitable resources";
            return Some(FieldError::required(format!("{place}.limits"), why));
        }
        _ => return None,
    };
    let why = format!("must be {how} {name} limit of {}", limit?);
    Some(FieldError::invalid(format!("{place}.requests"), request.to_string(), why))
}

/// Returns true for a resource that is not one of Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

fn check_toleration(toleration: &Value, place: &str, errors: &mut Errors) {
    let at = |name: &str| text(toleration, name);
    let (operator, value, effect) = (at("/operator"), at("/value"), at("/effect"));
    let of_operator = format!("{place}.operator");
    if at("/key").is_empty() && operator != "Exists" {
        let why =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&*of_operator, operator, why));
    }
    if present(toleration, "/tolerationSeconds").is_some() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(format!("{place}.effect"), effect, why));
    }
    match operator {
        "Equal" | "" => {
            let wrong = label_value_errors(value);
            if !wrong.is_empty() {
                errors.push(FieldError::invalid(of_operator, value, wrong.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(of_operator, value, why));
        }
        "Exists" => {}
        "Lt" | "Gt" => {
            let known = ["Equal", "Exists", "Lt", "Gt"];
            errors.push(FieldError::unsupported(of_operator, operator, &known));
        }
        other => errors.push(FieldError::unsupported(of_operator, other, &["Equal", "Exists"])),
    }
}

fn check_least_domains(constraint: &Value, place: &str, errors: &mut Errors) {
    let when = text(constraint, "/whenUnsatisfiable");
    if let Some(least) = present(constraint, "/minDomains")
        && when != "DoNotSchedule"
    {
        let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
        errors.push(FieldError::invalid(format!("{place}.minDomains"), least.clone(), why));
    }
}

fn check_spread(constraints: &Value, place: &str, errors: &mut Errors) {
    let kind = |constraint| (text(constraint, "/topologyKey"), text(constraint, "/whenUnsatisfiable"));
    for (i, (place, constraint)) in elements(constraints, place).enumerate() {
        check(constraint, &place, SPREAD, errors);
        let (key, when) = kind(constraint);
        if list(constraints, "")[i + 1..].iter().any(|later| kind(later) == (key, when)) {
            let place = format!("{place}.{{topologyKey, whenUnsatisfiable}}");
            errors.push(FieldError::duplicate(place, format!("{{{key}, {when}}}")));
        }
        check(constraint, &place, REST_OF_SPREAD, errors);
    }
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`. They add to a selector, which must exist and must not contain the
/// same labels.
fn check_label_keys(term: &Value, place: &str, errors: &mut Errors) {
    let keys = |name: &str| list(term, name).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let (equal, unequal) = (keys("/matchLabelKeys"), keys("/mismatchLabelKeys"));
    let selector = present(term, "/labelSelector");
    for (name, keys) in [("matchLabelKeys", &equal), ("mismatchLabelKeys", &unequal)] {
        if selector.is_none() && !keys.is_empty() {
            let why = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(format!("{place}.{name}"), why));
        }
    }
    if selector.is_some() {
        const NAMES: Check = Each(&[("", QUALIFIED_NAME)]);
        check(term, place, &[("matchLabelKeys", NAMES), ("mismatchLabelKeys", NAMES)], errors);
    }
    let selector = selector.unwrap_or(&Value::Null);
    let mut selected: BTreeSet<&str> = entries(selector, "/matchLabels").map(|(key, _)| &**key).collect();
    for key in list(selector, "/matchExpressions").iter().map(|expression| text(expression, "/key")) {
        if let Some(i) = equal.iter().rposition(|equal| *equal == key)
            && !selected.insert(key)
        {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(format!("{place}[{i}]"), key, why));
        }
    }
    for (i, key) in equal.iter().enumerate().filter(|(_, key)| unequal.contains(key)) {
        let why = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(FieldError::invalid(format!("{place}.matchLabelKeys[{i}]"), *key, why));
    }
}

fn check_namespaces(term: &Value, place: &str, errors: &mut Errors) {
    for name in list(term, "/namespaces").iter().filter_map(Value::as_str) {
        check_form(name, &format!("{place}.namespace"), label_errors, errors);
    }
}

fn check_node_operator(expression: &Value, place: &str, errors: &mut Errors) {
    match (text(expression, "/operator"), list(expression, "/values").len()) {
        ("Gt" | "Lt", 1) => {}
        ("Gt" | "Lt", _) => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(format!("{place}.values"), why));
        }
        _ => check_set_operator(expression, place, errors),
    }
}

fn check_set_operator(expression: &Value, place: &str, errors: &mut Errors) {
    match (text(expression, "/operator"), list(expression, "/values").len()) {
        ("In" | "NotIn", 0) => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{place}.values"), why));
        }
        ("Exists" | "DoesNotExist", 1..) => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{place}.values"), why));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        (other, _) => {
            let why = "not a valid selector operator";
            errors.push(FieldError::invalid(format!("{place}.operator"), other, why));
        }
    }
}

fn check_match_field(expression: &Value, place: &str, errors: &mut Errors) {
    let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
    if !matches!(operator, "In" | "NotIn") {
        let why = "not a valid selector operator";
        errors.push(FieldError::invalid(format!("{place}.operator"), operator, why));
    } else if list(expression, "/values").len() != 1 {
        let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        errors.push(FieldError::required(format!("{place}.values"), why));
    }
    if key == "metadata.name" {
        check(expression, place, &[("values", Each(&[("", SUBDOMAIN)]))], errors);
    } else {
        errors.push(FieldError::invalid(format!("{place}.key"), key, "not a valid field selector key"));
    }
}
