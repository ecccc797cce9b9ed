//! Verdicts and their reasons.

use harbormaster_testkit::{NodeBuilder, cluster, node, pod};

use super::*;

const NOWHERE: &[PodBuilder] = &[];

fn in_region(name: &str, region: &str) -> NodeBuilder {
    node(name).label("region", region)
}

fn at(name: &str, region: &str, zone: &str) -> NodeBuilder {
    in_region(name, region).label("zone", zone)
}

fn service(names: &[&str]) -> Requirement {
    one_of("service", names)
}

/// Verdict for a single node `n` in region `r1` and zone `z1`.
fn on_one_node(pods: &[PodBuilder], incoming: PodBuilder) -> &'static str {
    on_one_node_in(Release::V1_36, pods, incoming)
}

fn on_one_node_in(release: Release, pods: &[PodBuilder], incoming: PodBuilder) -> &'static str {
    let pods = pods.iter().map(|p| p.clone().on("n"));
    let nodes = with_teams(cluster([at("n", "r1", "z1")], pods));
    verdicts_by(&trial_in(release), &nodes, &incoming.info())[0]
}

fn scan() -> PodBuilder {
    pod("scan").label("service", "scan")
}

fn secure() -> PodBuilder {
    pod("p").label("security", "S1")
}

#[test]
fn required_affinity_needs_a_matching_pod_in_the_domain() {
    for (case, pods, incoming, expected) in [
        ("no terms", vec![], pod("p"), SKIPPED),
        ("In", vec![scan()], secure().wants(term("region", &[service(&["scan", "x"])])), FITS),
        ("NotIn", vec![scan()], secure().wants(term("region", &[none_of("service", &["x"])])), FITS),
        (
            "NotIn without the label",
            vec![pod("q")],
            secure().wants(term("region", &[none_of("service", &["x"])])),
            FITS,
        ),
        ("other labels", vec![scan()], secure().wants(term("region", &[service(&["x"])])), AFFINITY),
        (
            "other namespace",
            vec![scan().namespace("ns")],
            secure().wants(term("region", &[service(&["scan"])])),
            AFFINITY,
        ),
        (
            "listed namespace",
            vec![scan().namespace("ns")],
            secure().wants(within(term("region", &[service(&["scan"])]), &["x", "ns"], None)),
            FITS,
        ),
        (
            "a list of namespaces excludes the pod's own",
            vec![scan()],
            secure().wants(within(term("region", &[service(&["scan"])]), &["ns"], None)),
            AFFINITY,
        ),
        (
            "requirements of a term are ANDed",
            vec![scan()],
            secure().wants(term("region", &[has("service"), has("x")])),
            AFFINITY,
        ),
        (
            "two terms of one pod",
            vec![scan()],
            secure()
                .wants(term("region", &[has("service"), lacks("x")]))
                .wants(term("region", &[service(&["scan"]), none_of("service", &["x"])])),
            FITS,
        ),
        (
            "the second of two terms does not match",
            vec![scan()],
            secure()
                .wants(term("region", &[has("service"), lacks("x")]))
                .wants(term("region", &[service(&["y"]), none_of("service", &["x"])])),
            AFFINITY,
        ),
        ("a term without selector", vec![scan()], secure().wants(without_selector("region")), AFFINITY),
        (
            "terminating pods count",
            vec![scan().terminating()],
            secure().wants(term("region", &[has("service")])),
            FITS,
        ),
        ("the node lacks the key", vec![scan()], secure().wants(term("rack", &[has("service")])), AFFINITY),
    ] {
        assert_eq!(on_one_node(&pods, incoming), expected, "{case}");
    }
}

fn without_selector(key: &str) -> PodAffinityTerm {
    PodAffinityTerm { label_selector: None, ..term(key, &[]) }
}

#[test]
fn anti_affinity_keeps_pods_apart_in_both_directions() {
    let scanned = |key| term(key, &[service(&["scan"])]);
    let labelled = |keys: &[&str]| keys.iter().fold(pod("p"), |pod, key| pod.label(key, ""));
    for (case, pods, incoming, expected) in [
        (
            "affinity holds and anti-affinity selects other pods",
            vec![scan()],
            secure().wants(scanned("region")).shuns(term("zone", &[service(&["x"])])),
            FITS,
        ),
        (
            "affinity holds, anti-affinity does not",
            vec![scan()],
            secure().wants(scanned("region")).shuns(scanned("zone")),
            ANTI,
        ),
        (
            "affinity is reported before anti-affinity",
            vec![scan().shuns(term("zone", &[has("security")]))],
            secure().wants(term("region", &[has("x")])).shuns(scanned("zone")),
            AFFINITY,
        ),
        (
            "own anti-affinity is reported before anti-affinity of others",
            vec![scan().shuns(term("zone", &[has("security")]))],
            secure().shuns(scanned("zone")),
            ANTI,
        ),
        ("anti-affinity of others alone", vec![scan().shuns(scanned("zone"))], scan(), OTHERS),
        (
            "anti-affinity of others that selects other pods",
            vec![scan().shuns(term("zone", &[none_of("service", &["scan"])]))],
            scan(),
            SKIPPED,
        ),
        (
            "anti-affinity of others, although the pod's own terms hold",
            vec![scan().shuns(scanned("zone"))],
            scan().wants(scanned("region")).shuns(term("rack", &[service(&["x"])])),
            OTHERS,
        ),
        (
            "one of two own terms matches",
            vec![labelled(&["def", "xyz"])],
            labelled(&["abc"]).shuns(term("zone", &[has("abc")])).shuns(term("zone", &[has("def")])),
            ANTI,
        ),
        (
            "one of two terms of the other pod matches",
            vec![labelled(&["def"]).shuns(term("zone", &[has("abc")])).shuns(term("zone", &[has("ghi")]))],
            labelled(&["abc"]),
            OTHERS,
        ),
        ("no node has the key", vec![scan()], secure().shuns(scanned("rack")), FITS),
        ("a term without selector", vec![scan()], secure().shuns(without_selector("zone")), FITS),
        ("terminating pods count", vec![scan().terminating()], secure().shuns(scanned("zone")), ANTI),
        (
            "terminating pods keep others away",
            vec![scan().terminating().shuns(scanned("zone"))],
            scan(),
            OTHERS,
        ),
    ] {
        assert_eq!(on_one_node(&pods, incoming), expected, "{case}");
    }
}

#[test]
fn namespace_selectors_match_the_labels_of_namespaces() {
    let team_a: &[Requirement] = &[one_of("team", &["a"])];
    let scanned = |by_labels| within(term("zone", &[service(&["scan"])]), &[], Some(by_labels));
    for (case, other, incoming, expected) in [
        ("affinity, matching", scan().namespace("a1"), secure().wants(scanned(team_a)), FITS),
        ("affinity, other team", scan().namespace("b1"), secure().wants(scanned(team_a)), AFFINITY),
        ("affinity, own namespace is not selected", scan(), secure().wants(scanned(team_a)), AFFINITY),
        ("anti, matching", scan().namespace("a2"), secure().namespace("a1").shuns(scanned(team_a)), ANTI),
        ("anti, other team", scan().namespace("b1"), secure().namespace("a1").shuns(scanned(team_a)), FITS),
        ("anti, all namespaces", scan().namespace("b1"), secure().shuns(scanned(&[])), ANTI),
        ("anti, an unknown namespace", scan().namespace("?"), secure().shuns(scanned(&[])), ANTI),
        (
            "anti, an unknown namespace and a required label",
            scan().namespace("?"),
            secure().shuns(scanned(team_a)),
            FITS,
        ),
        (
            "listed and selected",
            scan().namespace("b2"),
            secure().shuns(within(term("zone", &[service(&["scan"])]), &["b2"], Some(team_a))),
            ANTI,
        ),
    ] {
        assert_eq!(on_one_node(&[other], incoming), expected, "{case}");
    }
}

/// kube-scheduler 1.36 also evaluates the namespace selectors of the pod's own terms on empty labels. It evaluates the
/// namespace selectors of other pods' terms only on the labels of the incoming pod's namespace.
#[test]
fn a_negative_namespace_selector_matches_every_namespace_only_in_own_terms_of_1_36() {
    let not_a: &[Requirement] = &[none_of("team", &["a"])];
    let no_team: &[Requirement] = &[lacks("team")];
    for by_labels in [not_a, no_team] {
        let scanned = |key| within(term(key, &[service(&["scan"])]), &[], Some(by_labels));
        let other = || pod("other").shuns(scanned("zone"));
        for (release, wanted, shunned) in [(Release::V1_36, FITS, ANTI), (Release::V1_37, AFFINITY, FITS)] {
            let scanning = [scan().namespace("a1")];
            assert_eq!(on_one_node_in(release, &scanning, secure().wants(scanned("zone"))), wanted);
            assert_eq!(on_one_node_in(release, &scanning, secure().shuns(scanned("zone"))), shunned);
            assert_eq!(on_one_node_in(release, &[other()], scan().namespace("a1")), SKIPPED);
            assert_eq!(
                on_one_node_in(release, &[other()], scan().namespace("?")),
                OTHERS,
                "a namespace without an object has no labels"
            );
        }
    }
    let mixed: &[Requirement] = &[lacks("x"), has("team")];
    let scanned = within(term("zone", &[service(&["scan"])]), &[], Some(mixed));
    assert_eq!(on_one_node(&[scan().namespace("?")], secure().shuns(scanned.clone())), FITS);
    assert_eq!(on_one_node(&[scan().namespace("b1")], secure().shuns(scanned)), ANTI);
}

#[test]
fn all_nodes_of_a_domain_get_the_same_verdict() {
    let regions =
        || [in_region("n1", "China"), in_region("n2", "China").label("az", "az1"), in_region("n3", "India")];
    let foo = |value: &str, on: &str| pod("other").label("foo", value).on(on);
    let is = |value: &'static str| term("region", &[one_of("foo", &[value])]);
    for (case, pods, incoming, expected) in [
        ("affinity", vec![foo("bar", "n1")], pod("p").wants(is("bar")), [FITS, FITS, AFFINITY]),
        ("anti-affinity", vec![foo("abc", "n1")], pod("p").shuns(is("abc")), [ANTI, ANTI, FITS]),
        (
            "anti-affinity of a pod in another namespace does not select this one",
            vec![foo("bar", "n1"), pod("q").namespace("ns2").on("n3").shuns(is("123"))],
            pod("p").label("foo", "123").shuns(is("bar")),
            [ANTI, ANTI, FITS],
        ),
    ] {
        assert_eq!(verdicts(&cluster(regions(), pods), &incoming.info()), expected, "{case}");
    }
}

#[test]
fn every_term_counts_in_its_own_domain() {
    let nodes = || [at("na", "r1", "z1"), at("nb", "r1", "z2"), at("nc", "r1", "z3")];
    let with = |name: &str, keys: &[&str], on: &str| {
        keys.iter().fold(pod(name).on(on), |pod, key| pod.label(key, ""))
    };
    let t = |label: &str, key: &str| term(key, &[has(label)]);
    let both = || pod("p").label("foo", "").label("bar", "");
    for (case, pods, incoming, expected) in [
        (
            "one of the pod's anti-affinity terms is enough",
            vec![with("q", &["foo", "bar"], "na")],
            pod("p").shuns(t("foo", "region")).shuns(t("bar", "zone")),
            [ANTI, ANTI, ANTI],
        ),
        (
            "terms that two pods match",
            vec![with("q", &["foo"], "na"), with("r", &["bar"], "nb")],
            pod("p").shuns(t("foo", "zone")).shuns(t("bar", "zone")),
            [ANTI, ANTI, FITS],
        ),
        (
            "a term of the pod whose key no node has",
            vec![with("q", &["foo", "bar"], "na")],
            pod("p").shuns(t("foo", "rack")).shuns(t("bar", "zone")),
            [ANTI, FITS, FITS],
        ),
        (
            "terms of two other pods with different keys",
            vec![
                with("q", &[], "na").shuns(t("foo", "zone")),
                with("r", &[], "na").shuns(t("bar", "region")),
            ],
            both(),
            [OTHERS, OTHERS, OTHERS],
        ),
        (
            "a term of another pod whose key no node has",
            vec![with("q", &[], "na").shuns(t("foo", "rack")).shuns(t("bar", "zone"))],
            both(),
            [OTHERS, FITS, FITS],
        ),
        (
            "no term has a key of a node",
            vec![with("q", &[], "na").shuns(t("foo", "rack"))],
            both(),
            [SKIPPED; 3],
        ),
        (
            "one matching term of each of two other pods",
            vec![
                with("q", &[], "na").shuns(t("foo", "zone")).shuns(t("x", "zone")),
                with("r", &[], "nb").shuns(t("bar", "zone")).shuns(t("y", "zone")),
            ],
            both(),
            [OTHERS, OTHERS, FITS],
        ),
        (
            "affinity to one pod with two keys",
            vec![with("q", &["foo", "bar"], "na")],
            pod("p").wants(t("foo", "region")).wants(t("bar", "zone")),
            [FITS, AFFINITY, AFFINITY],
        ),
        (
            "affinity that two pods satisfy only together",
            vec![with("q", &["foo"], "na"), with("r", &["bar"], "nb")],
            pod("p").wants(t("foo", "region")).wants(t("bar", "zone")),
            [AFFINITY; 3],
        ),
    ] {
        let mut found = verdicts(&cluster(nodes(), pods), &incoming.info());
        found.resize(3, SKIPPED);
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn the_first_pod_of_a_group_needs_only_the_keys() {
    let nodes = |pods: &[PodBuilder]| cluster([at("na", "r1", "z1"), in_region("nb", "r1")], pods.to_vec());
    let group = || {
        let both = pod("p").label("foo", "bar").label("service", "scan");
        both.wants(term("zone", &[one_of("foo", &["bar"])])).wants(term("zone", &[service(&["scan"])]))
    };
    let partly = || pod("q").label("foo", "bar");
    assert_eq!(verdicts(&nodes(NOWHERE), &group().info()), [FITS, AFFINITY]);
    assert_eq!(
        verdicts(&nodes(&[partly().on("na")]), &group().info()),
        [FITS, AFFINITY],
        "the other pod matches only one of two terms"
    );
    let follower = || pod("p").wants(term("zone", &[one_of("foo", &["bar"])]));
    assert_eq!(verdicts(&nodes(NOWHERE), &follower().info()), [AFFINITY; 2], "the pod does not match itself");
    let elsewhere = || group().namespace("ns");
    assert_eq!(verdicts(&nodes(NOWHERE), &elsewhere().info()), [FITS, AFFINITY]);
}

#[test]
fn a_group_with_a_pod_in_any_domain_has_no_first_pod() {
    let nodes = |on: &str| {
        let member = pod("q").label("foo", "bar").on(on);
        cluster([at("na", "r1", "z1"), at("nb", "r1", "z2"), node("nc")], [member])
    };
    let group = pod("p").label("foo", "bar").wants(term("zone", &[one_of("foo", &["bar"])])).info();
    assert_eq!(verdicts(&nodes("na"), &group), [FITS, AFFINITY, AFFINITY]);
    assert_eq!(
        verdicts(&nodes("nc"), &group),
        [FITS, FITS, AFFINITY],
        "a pod outside of all domains does not count"
    );
    assert_eq!(
        verdicts(&nodes("unknown"), &group),
        [FITS, FITS, AFFINITY],
        "a pod on an unknown node does not count"
    );
}

#[test]
fn a_pod_whose_selector_has_a_syntax_error_fits_nowhere_and_the_reason_names_the_list() {
    let bad = || term("zone", &[service(&["{{.bad-value.}}"])]);
    let problem = "values[0][service]: Invalid value: \"{{.bad-value.}}\": a valid label must be an empty string or \
         consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
         (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let good = || term("zone", &[service(&["x"])]);
    let nodes = cluster([at("n", "r1", "z1")], []);
    for (pod, expected) in [
        (pod("first").wants(bad()).wants(good()), format!("requiredAffinityTerms: {problem}")),
        (pod("second").wants(good()).wants(bad()), format!("requiredAffinityTerms: {problem}")),
        (pod("anti").shuns(bad()), format!("requiredAntiAffinityTerms: {problem}")),
        (pod("preferred").likes(1, bad()), format!("preferredAffinityTerms: {problem}")),
        (pod("disliked").dislikes(1, bad()), format!("preferredAntiAffinityTerms: {problem}")),
        (
            pod("namespaces").shuns(within(good(), &[], Some(&[service(&["{{.bad-value.}}"])]))),
            format!("requiredAntiAffinityTerms: {problem}"),
        ),
        (
            pod("two").wants(bad()).likes(1, bad()),
            format!("[requiredAffinityTerms: {problem}, preferredAffinityTerms: {problem}]"),
        ),
    ] {
        let reject = rejection(trial().pre_filter(&nodes, &pod.info()).unwrap_err());
        assert_eq!(reject, Reject::unresolvable(format!("parsing pod: {expected}")));
    }
}

#[test]
fn a_bound_pods_list_of_terms_with_a_syntax_error_is_ignored() {
    let bad = || term("zone", &[service(&["{{.bad-value.}}"])]);
    let scanned = || term("zone", &[service(&["scan"])]);
    assert_eq!(on_one_node(&[pod("q").shuns(scanned()).shuns(bad())], scan()), SKIPPED);
    assert_eq!(on_one_node(&[pod("q").shuns(scanned()).dislikes(1, bad())], scan()), OTHERS);
}
