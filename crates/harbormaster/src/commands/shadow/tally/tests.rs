use serde_json::{Value, json};

use super::*;
use crate::commands::{layout::Style, shadow::report::Report};

fn compared(pod: &str, theirs: Option<&str>, finding: Finding) -> Comparison {
    Comparison {
        pod: format!("shop/{pod}"),
        scheduler: "default-scheduler".into(),
        theirs: theirs.map(Into::into),
        finding,
        has_raced: false,
        waited: Some(Duration::from_millis(100)),
        took: Duration::from_millis(1),
    }
}

fn lower_score(plugin: &'static str) -> Finding {
    let gaps =
        vec![Gap { plugin, ours: 90, theirs: 70 }, Gap { plugin: "ImageLocality", ours: 0, theirs: 5 }];
    Finding::Elsewhere { ours: "b".into(), gaps }
}

fn rejected(plugin: &'static str, reason: &str) -> Finding {
    Finding::Rejected { ours: "b".into(), plugin: Some(plugin), reason: reason.to_owned() }
}

/// One comparison of each kind, and two of one cause.
fn one_of_each() -> Tally {
    let mut tally = Tally::new(vec!["A note."]);
    let waits = Finding::Waits { message: "0/3 nodes are available".to_owned(), plugin: Some("NodePorts") };
    for one in [
        compared("a", Some("a"), Finding::Same),
        compared("b", Some("a"), Finding::Equal { ours: "b".into() }),
        compared("c", None, Finding::BothWait),
        compared("d", Some("a"), lower_score("NodeResourcesFit")),
        compared("e", Some("a"), lower_score("NodeResourcesFit")),
        compared("f", Some("a"), rejected("TaintToleration", "untolerated taint(s)")),
        compared("g", Some("a"), waits),
        compared("h", None, Finding::Places { ours: "b".into() }),
        compared("i", Some("a"), Finding::Failed { error: "a plugin panicked".to_owned() }),
        Comparison { has_raced: true, ..compared("j", Some("a"), lower_score("NodeAffinity")) },
    ] {
        tally.add(&Compared::Decision(one));
    }
    let plan = |node: &str| Some(Plan { node: node.into(), victims: vec![format!("shop/on-{node}")] });
    for (pod, theirs, ours) in
        [("k", plan("a"), plan("a")), ("l", plan("a"), plan("b")), ("m", None, plan("b"))]
    {
        tally.add(&Compared::Preemption(Preemption { pod: format!("shop/{pod}"), theirs, ours }));
    }
    tally
}

#[test]
fn the_report_in_json_has_all_results_causes_and_times() {
    let report = Report::of(&one_of_each(), (1.5, 1048576.0));
    let mut json = serde_json::to_value(&report).unwrap();
    assert!(json["seconds"].take().as_f64().is_some_and(|seconds| seconds < 60.0));
    let mut expected: Value = serde_json::from_str(include_str!("report.json")).unwrap();
    expected["seconds"] = Value::Null;
    assert_eq!(json, expected, "{}", serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn the_report_as_text_names_the_plugins_that_make_the_differences() {
    let text = Report::of(&one_of_each(), (1.5, 1048576.0)).render(Style::default());
    for line in [
        "10 decisions of the cluster's scheduler in 0s",
        "    COUNT     SHARE  HARBORMASTER WOULD HAVE CHOSEN",
        "        2   20.00 %  another node: theirs fits, but scores less",
        "        3   30.00 %  alike (the first three)",
        "2 elsewhere, NodeResourcesFit",
        "shop/d  a       b     NodeResourcesFit 90 against 70, ImageLocality 0 against 5",
        "1 rejected, TaintToleration: untolerated taint(s)",
        "1 waiting, NodePorts",
        "shop/h  <none>  b",
        "1 raced, elsewhere",
        "        1   33.33 %  pods of another node",
        "shop/l   shop/on-a from a  shop/on-b from b",
        "shop/m   <none>            shop/on-b from b",
        "This process: 1.5 s of processor time, 1 MiB of memory",
        "A note.",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
}

#[test]
fn examples_and_causes_are_limited() {
    let mut tally = Tally::new(Vec::new());
    for number in 0..100 {
        for (pod, reason) in [("p", number.to_string()), ("q", "often".to_owned())] {
            tally.add(&Compared::Decision(compared(pod, Some("a"), rejected("Filter", &reason))));
        }
    }
    assert_eq!((tally.total(), tally.causes.len()), (200, CAUSES + 1));
    let often = &tally.causes[&(Kind::Rejected, "Filter: often".to_owned())];
    assert_eq!((often.count, often.examples.len()), (100, EXAMPLES));
    let other = &tally.causes[&(Kind::Rejected, OTHER.to_owned())];
    assert_eq!(other.count, 51);
}

#[test]
fn the_progress_counts_what_differs() {
    let line = one_of_each().line();
    assert_eq!(line, "0s: 10 decisions compared, 3 alike, 1 raced, 5 differ, 1 failed");
    assert_eq!(
        Tally::new(Vec::new()).line(),
        "0s: 0 decisions compared, 0 alike, 0 raced, 0 differ, 0 failed"
    );
    assert_eq!(json!(Tally::new(Vec::new()).theirs.summary())["count"], 0);
}
