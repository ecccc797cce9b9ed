//! Tests of both modes. `README.md` lists the mistakes of the original that `mode: corrected` avoids.

use std::slice;

use harbormaster::{
    api::Pod,
    serde_json::{Value, json},
    testkit::{
        FakeApi, Happening, NodeBuilder, PodBuilder, Trial, adding_and_removing_is_neutral,
        batch_equals_single, cluster, custom, labels, node, pod, random::Dice, scores_are_valid, set_custom,
        trial::finished, what_helps_wakes,
    },
};

use super::*;
use crate::{
    cards::{CLOCK_NOT_FIT, MEMORY_NOT_FIT, NUMBER_NOT_FIT},
    request::{CLOCK, LEVEL, MEMORY, NUMBER, PRIORITY},
    scv::Card,
};

fn yoda(mode: Mode) -> Yoda {
    Yoda { mode, stale_after: Duration::from_secs(60), chosen: Mutex::default() }
}

fn corrected() -> Trial {
    Trial::of(yoda(Mode::Corrected))
}

fn card(id: u32, total: u64, free: u64) -> Card {
    Card {
        id,
        health: "Healthy".to_owned(),
        model: "V100".to_owned(),
        power: 250,
        total_memory: total,
        clock: 5705,
        free_memory: free,
        core: 1500,
        bandwidth: 15760,
    }
}

fn scv_at(node: &str, seconds: i64, cards: &[Card]) -> Value {
    let status = crate::ScvStatus::of(cards.to_vec(), Timestamp::from_secs(seconds));
    json!({"metadata": {"name": node}, "status": status})
}

fn scv(node: &str, cards: &[Card]) -> Value {
    scv_at(node, 1000, cards)
}

/// Returns a cluster with nodes of the given names, pods on the nodes, and sniffer reports.
fn nodes<const N: usize>(
    names: [&str; N],
    pods: impl IntoIterator<Item = PodBuilder>,
    scvs: impl IntoIterator<Item = Value>,
) -> Cluster {
    made_of(names.map(node), pods, scvs)
}

fn made_of<const N: usize>(
    nodes: [NodeBuilder; N],
    pods: impl IntoIterator<Item = PodBuilder>,
    scvs: impl IntoIterator<Item = Value>,
) -> Cluster {
    let mut cluster = cluster(nodes, pods);
    set_custom::<Scv>(&mut cluster, scvs);
    cluster
}

fn asks(name: &str, pairs: &[(&str, &str)]) -> PodBuilder {
    pairs.iter().fold(pod(name), |pod, (label, value)| pod.label(label, value))
}

/// Returns a pod on `n` that holds the given cards.
fn holds(name: &str, ids: &str, pairs: &[(&str, &str)]) -> PodBuilder {
    asks(name, pairs).on("n").pod(|pod| pod.annotations = labels(&[(CARDS, ids)]))
}

#[track_caller]
fn is(nodes: &Cluster, pairs: &[(&str, &str)], expected: Result<(), Reject>) {
    assert_eq!(corrected().verdict(nodes, &asks("p", pairs).info(), "n"), expected, "{pairs:?}");
}

fn no(reason: &'static str) -> Result<(), Reject> {
    Err(Reject::unresolvable(reason))
}

fn full(reason: &'static str) -> Result<(), Reject> {
    Err(Reject::evictable(reason))
}

#[test]
fn in_literal_mode_scores_equal_those_of_the_original() {
    let n1 = scv("n1", &[card(0, 16000, 8000), card(1, 16000, 16000)]);
    let n2 = scv("n2", &[card(0, 16000, 16000)]);
    let nodes = nodes(["n1", "n2"], [asks("other", &[(MEMORY, "1000")]).on("n1")], [n1, n2]);
    let (trial, pod) = (Trial::of(yoda(Mode::Literal)), asks("p", &[(MEMORY, "1000")]).info());
    assert_eq!(trial.raw_scores(&nodes, &pod).unwrap(), Some(vec![1610, 1136]));
    assert_eq!(trial.scores(&nodes, &pod).unwrap(), Some(vec![100, 0]));
}

#[test]
fn the_clock_of_a_card_is_scored_relative_to_the_fastest_clock() {
    // A card with half the clock loses 50 points. In the original, which divides by the greatest bandwidth, the card
    // would lose only 6.
    let slow = Card { clock: 1000, ..card(0, 16000, 16000) };
    let fast = Card { clock: 2000, ..card(0, 16000, 16000) };
    let nodes = nodes(["n", "m"], [], [scv("n", &[slow]), scv("m", &[fast])]);
    let scores = corrected().raw_scores(&nodes, &asks("p", &[(NUMBER, "1")]).info());
    assert_eq!(scores.unwrap(), Some(vec![1150, 1200]));
}

#[test]
fn a_card_with_at_least_the_requested_clock_is_fast_enough() {
    let nodes = nodes(["n"], [], [scv("n", &[card(0, 16000, 16000)])]);
    for (clock, expected) in [("5000", Ok(())), ("5705", Ok(())), ("5706", no(CLOCK_NOT_FIT))] {
        is(&nodes, &[(CLOCK, clock)], expected);
    }
}

#[test]
fn the_same_card_must_have_the_memory_and_the_clock() {
    let fast = Card { clock: 6000, ..card(0, 16000, 1000) };
    let nodes = nodes(["n"], [], [scv("n", &[fast, card(1, 16000, 16000)])]);
    is(&nodes, &[(CLOCK, "6000")], Ok(()));
    is(&nodes, &[(MEMORY, "8000")], Ok(()));
    is(&nodes, &[(CLOCK, "6000"), (MEMORY, "8000")], full(MEMORY_NOT_FIT));
}

#[test]
fn unhealthy_cards_neither_count_nor_skew_scores() {
    let dead = Card { health: "Unhealthy".to_owned(), power: 1000, ..card(1, 32000, 32000) };
    let spelt = Card { health: "healthy".to_owned(), ..card(0, 16000, 16000) };
    let alone = nodes(["n"], [], [scv("n", slice::from_ref(&dead))]);
    is(&alone, &[(NUMBER, "1")], no(NUMBER_NOT_FIT));
    let both = nodes(["n"], [], [scv("n", &[spelt, dead])]);
    is(&both, &[(NUMBER, "2")], no(NUMBER_NOT_FIT));
    let scores = corrected().raw_scores(&both, &asks("p", &[(NUMBER, "1")]).info());
    assert_eq!(scores.unwrap(), Some(vec![1200]), "only the healthy card counts toward the greatest values");
}

#[test]
fn many_half_used_cards_do_not_beat_a_free_one() {
    let n1 = scv("n1", &[card(0, 16000, 8000), card(1, 16000, 8000), card(2, 16000, 8000)]);
    let n2 = scv("n2", &[card(0, 16000, 16000)]);
    let nodes = nodes(["n1", "n2"], [], [n1, n2]);
    let pod = asks("p", &[(MEMORY, "1000")]).info();
    // The terms are: 500 for bandwidth, clock, core, power and total memory; the weighted free memory of the card; and
    // the weighted shares of the node's memory that are measured as free and that no pod holds.
    let expected = vec![500 + 100 + 2 * 50 + 3 * 100, 500 + 200 + 2 * 100 + 3 * 100];
    assert_eq!(corrected().raw_scores(&nodes, &pod).unwrap(), Some(expected));
    assert_eq!(corrected().scores(&nodes, &pod).unwrap(), Some(vec![0, 100]));
}

#[test]
fn only_the_requested_number_of_best_cards_counts() {
    let mixed = scv("n", &[card(0, 16000, 2000), card(1, 16000, 16000), card(2, 16000, 12000)]);
    let nodes = nodes(["n"], [], [mixed]);
    let ids = |pairs: &[(&str, &str)]| {
        let (pod, yoda) = (asks("p", pairs).info(), yoda(Mode::Corrected));
        let indexes = corrected().indexes(&nodes, &pod);
        let cx = Cycle::with_indexes(&nodes, &indexes, &pod);
        let row = nodes.find("n").unwrap();
        let state = yoda.prepare(&cx).unwrap();
        yoda.offer(&cx, &state, &Request::of(&pod.labels).unwrap().unwrap(), nodes.node(row))
            .map(|offer| offer.ids)
            .unwrap()
    };
    assert_eq!(ids(&[(MEMORY, "1000")]), [1]);
    assert_eq!(ids(&[(MEMORY, "1000"), (NUMBER, "2")]), [1, 2]);
    assert_eq!(ids(&[(NUMBER, "3")]), [1, 2, 0]);
}

#[test]
fn held_cards_are_not_assigned_again_before_the_sniffer_reports_them() {
    let report = || scv("n", &[card(0, 16000, 16000), card(1, 16000, 16000)]);
    let one_whole = nodes(["n"], [holds("a", "0", &[(NUMBER, "1")])], [report()]);
    is(&one_whole, &[(NUMBER, "1")], Ok(()));
    is(&one_whole, &[(NUMBER, "2")], full(NUMBER_NOT_FIT));
    is(&one_whole, &[(NUMBER, "2"), (MEMORY, "1")], full(MEMORY_NOT_FIT));
    is(&one_whole, &[(NUMBER, "3")], no(NUMBER_NOT_FIT));
    let shared = nodes(["n"], [holds("a", "0,1", &[(NUMBER, "2"), (MEMORY, "10000")])], [report()]);
    is(&shared, &[(MEMORY, "6000")], Ok(()));
    is(&shared, &[(MEMORY, "6001")], full(MEMORY_NOT_FIT));
    is(&shared, &[(MEMORY, "16001")], no(MEMORY_NOT_FIT));
    is(&shared, &[(NUMBER, "1")], full(NUMBER_NOT_FIT));
}

#[test]
fn memory_that_a_pod_holds_and_uses_is_not_counted_twice() {
    let used = scv("n", &[card(0, 16000, 6500)]);
    let nodes = nodes(["n"], [holds("a", "0", &[(MEMORY, "10000")])], [used]);
    is(&nodes, &[(MEMORY, "6000")], Ok(()));
    is(&nodes, &[(MEMORY, "6001")], full(MEMORY_NOT_FIT));
}

#[test]
fn memory_in_use_that_no_pod_holds_is_not_assigned() {
    let used = scv("n", &[card(0, 16000, 3000), card(1, 16000, 0)]);
    let nodes = nodes(["n"], [], [used]);
    is(&nodes, &[(MEMORY, "3000")], Ok(()));
    is(&nodes, &[(MEMORY, "3001")], full(MEMORY_NOT_FIT));
    is(&nodes, &[(NUMBER, "2")], full(NUMBER_NOT_FIT));
}

#[test]
fn a_pod_takes_memory_on_each_of_its_cards_but_a_finished_pod_takes_none() {
    let report = || scv("n", &[card(0, 16000, 16000), card(1, 16000, 16000)]);
    let pairs = [(NUMBER, "2"), (MEMORY, "8000")];
    let score = |pods: Vec<PodBuilder>| {
        let nodes = nodes(["n"], pods, [report()]);
        corrected().raw_scores(&nodes, &asks("p", &[(MEMORY, "1000")]).info()).unwrap().unwrap()[0]
    };
    // The pod holds half of the memory of both cards, which halves both shares of the node's memory.
    assert_eq!(score(vec![]), 700 + 200 + 300);
    assert_eq!(score(vec![holds("a", "0,1", &pairs)]), 700 + 100 + 150);
    let finished = |pod: &mut Pod| pod.status.phase = harbormaster::api::pod::Phase::Succeeded;
    assert_eq!(score(vec![holds("a", "0,1", &pairs).pod(finished)]), 700 + 200 + 300);
}

#[test]
fn a_pod_with_invalid_labels_is_rejected() {
    let nodes = nodes(["n"], [], [scv("n", &[card(0, 16000, 16000)])]);
    for (label, value, why) in [
        (NUMBER, "0", "label scv/number: \"0\" is not a whole number above zero"),
        (MEMORY, "-1", "label scv/memory: \"-1\" is not a whole number above zero"),
        (LEVEL, "Ultra", "label scv/Level: \"Ultra\" is not High, Medium or Low"),
        (PRIORITY, "high", "label scv/priority: \"high\" is not a whole number"),
    ] {
        is(&nodes, &[(label, value)], no(why));
    }
    let empty = nodes_without_cards();
    is(&empty, &[(NUMBER, "1")], no(NUMBER_NOT_FIT));
}

fn nodes_without_cards() -> Cluster {
    nodes(["n"], [], [scv("n", &[])])
}

#[test]
fn a_pod_that_requests_no_card_is_ignored() {
    let nodes = nodes(["n"], [], []);
    let pod = asks("p", &[("app", "web"), (PRIORITY, "7")]).info();
    assert!(matches!(corrected().pre_filter(&nodes, &pod), Ok(PreFiltered::Skip)));
    assert_eq!(corrected().raw_scores(&nodes, &pod).unwrap(), None);
}

#[test]
fn a_node_without_a_report_has_no_gpu() {
    let nodes = nodes(["n", "m"], [], [scv("m", &[card(0, 16000, 16000)])]);
    is(&nodes, &[(NUMBER, "1")], no(NO_GPU));
}

#[test]
fn the_queue_is_ordered_by_priority_then_label_then_level_then_time() {
    let plugin = yoda(Mode::Corrected);
    let ordered = [
        asks("class", &[]).priority(10),
        asks("label", &[(PRIORITY, "5")]),
        asks("high", &[(LEVEL, "High")]),
        asks("medium", &[(LEVEL, "Medium")]),
        asks("low", &[(LEVEL, "Low")]),
        asks("first", &[]),
        asks("second", &[]),
        asks("negative", &[(PRIORITY, "-5")]),
    ]
    .map(PodBuilder::info);
    let queued = |at: usize| {
        // Earlier pods in the list entered the queue later, except the two that differ only in time.
        let since = Timestamp(if at == 6 { 100 } else { 50 - at as i64 });
        Queued::pod(&ordered[at], since)
    };
    for a in 0..ordered.len() {
        for b in 0..ordered.len() {
            assert_eq!(plugin.less(queued(a), queued(b)), a < b, "{:?} before {:?}", ordered[a], ordered[b]);
        }
    }
    let (early, late) =
        (asks("a", &[(PRIORITY, "1")]).priority(10).info(), asks("b", &[(PRIORITY, "2")]).info());
    let at = |pod, since| Queued::pod(pod, Timestamp(since));
    assert!(yoda(Mode::Literal).less(at(&late, 2), at(&early, 1)), "the original orders by its label alone");
}

#[test]
fn a_report_that_is_much_older_than_the_newest_is_not_used() {
    let full_card = [card(0, 16000, 16000)];
    for (age, expected) in [(0, Ok(())), (60, Ok(())), (61, no(STALE))] {
        let nodes =
            nodes(["n", "m"], [], [scv_at("n", 1000 - age, &full_card), scv_at("m", 1000, &full_card)]);
        is(&nodes, &[(NUMBER, "1")], expected);
    }
    let mut never = scv("n", &full_card);
    never["status"]["updateTime"] = Value::Null;
    is(&nodes(["n"], [], [never]), &[(NUMBER, "1")], no(STALE));
}

#[test]
fn a_requested_level_must_match_the_level_of_the_node() {
    for (of_node, expected) in
        [(Some("High"), Ok(())), (Some("Low"), no(LEVEL_NOT_FIT)), (None, no(LEVEL_NOT_FIT))]
    {
        let node = of_node.iter().fold(node("n"), |node, level| node.label(LEVEL, level));
        let nodes = made_of([node], [], [scv("n", &[card(0, 16000, 16000)])]);
        is(&nodes, &[(LEVEL, "High")], expected);
        is(&nodes, &[(NUMBER, "1")], Ok(()));
    }
}

#[test]
fn a_pod_placed_by_another_scheduler_holds_the_most_likely_cards() {
    let report = || scv("n", &[card(0, 16000, 16000), card(1, 16000, 5000)]);
    let stranger = |pairs: &[(&str, &str)]| asks("a", pairs).on("n");
    // The pod runs on card 1, where 11000 MiB are in use that no known pod explains.
    let runs = nodes(["n"], [stranger(&[(MEMORY, "4000")])], [report()]);
    is(&runs, &[(MEMORY, "16000")], Ok(()));
    is(&runs, &[(MEMORY, "5000"), (NUMBER, "2")], Ok(()));
    // The pod holds a whole card.
    let whole = nodes(["n"], [stranger(&[(NUMBER, "1")])], [report()]);
    is(&whole, &[(NUMBER, "1")], Ok(()));
    is(&whole, &[(NUMBER, "2")], full(NUMBER_NOT_FIT));
    // Two pods cannot hold the same card.
    let two = nodes(["n"], [stranger(&[(NUMBER, "1")]), asks("b", &[(NUMBER, "1")]).on("n")], [report()]);
    is(&two, &[(NUMBER, "1")], full(NUMBER_NOT_FIT));
    // The pod holds more cards than the node has.
    let many = nodes(["n"], [stranger(&[(NUMBER, "9")])], [report()]);
    is(&many, &[(MEMORY, "1")], full(MEMORY_NOT_FIT));
}

#[test]
fn invalid_annotations_are_ignored_and_pods_with_invalid_labels_hold_whole_cards() {
    let report = || scv("n", &[card(0, 16000, 16000), card(1, 16000, 16000)]);
    let nonsense = nodes(["n"], [holds("a", "first", &[(NUMBER, "1")])], [report()]);
    is(&nonsense, &[(NUMBER, "2")], full(NUMBER_NOT_FIT));
    is(&nonsense, &[(NUMBER, "1")], Ok(()));
    let unreadable = nodes(["n"], [holds("a", "0,1", &[(NUMBER, "many")])], [report()]);
    is(&unreadable, &[(MEMORY, "1")], full(MEMORY_NOT_FIT));
    let pulled = nodes(["n"], [holds("a", "7", &[(NUMBER, "1")])], [report()]);
    is(&pulled, &[(NUMBER, "2")], Ok(()));
}

#[test]
fn evicting_a_pod_frees_its_cards_and_the_memory_that_it_uses() {
    let victim = holds("victim", "0", &[(MEMORY, "10000")]);
    let stays = holds("stays", "0", &[(MEMORY, "2000")]);
    let report = scv("n", &[card(0, 16000, 4500)]);
    let nodes = nodes(["n"], [victim.clone(), stays], [report]);
    let victim = victim.info();
    let (pod, plugin) = (asks("p", &[(MEMORY, "14000")]).info(), yoda(Mode::Corrected));
    let indexes = corrected().indexes(&nodes, &pod);
    let cx = Cycle::with_indexes(&nodes, &indexes, &pod);
    let node = nodes.node(nodes.find("n").unwrap());
    let mut state = plugin.prepare(&cx).unwrap();
    assert!(plugin.filter(&cx, &state, node).is_err());
    plugin.remove_pod(&cx, &mut state, &victim, node).unwrap();
    assert!(plugin.filter(&cx, &state, node).is_ok());
    plugin.add_pod(&cx, &mut state, &victim, node).unwrap();
    assert!(plugin.filter(&cx, &state, node).is_err());
}

#[test]
fn the_plugin_passes_the_conformance_checks_of_the_framework() {
    let cards = [card(0, 16000, 8000), card(1, 16000, 16000)];
    let pods = || [holds("a", "1", &[(MEMORY, "5000")]), asks("b", &[(NUMBER, "1")]).on("m")];
    let scvs = || [scv("n", &cards), scv("m", &cards), scv_at("k", 1, &cards)];
    for mode in [Mode::Corrected, Mode::Literal] {
        let trial = Trial::of(yoda(mode));
        let mut nodes = nodes(["n", "m", "k", "none"], pods(), scvs());
        for pairs in
            [&[][..], &[(NUMBER, "1")], &[(MEMORY, "9000")], &[(NUMBER, "2"), (CLOCK, "1")], &[(NUMBER, "0")]]
        {
            let pod = asks("p", pairs).info();
            batch_equals_single(&trial, &nodes, &pod);
            let other = asks("other", &[(NUMBER, "1")]).info();
            adding_and_removing_is_neutral(&trial, &mut nodes, &pod, &other);
            if mode == Mode::Corrected {
                scores_are_valid(&trial, &nodes, &pod);
            }
        }
    }
}

/// Returns a random change that affects cards, pods with cards, or the waiting pod.
fn happening(dice: &mut Dice, now: &mut i64) -> Happening {
    let names = ["n", "m", "k"];
    let (name, uid) = (dice.pick(&names), format!("holder-{}", dice.below(4)));
    match dice.below(8) {
        0..=3 => {
            *now += dice.below(90) as i64 - 5;
            let mut of = |id| card(id, dice.pick(&[8000, 16000]), dice.pick(&[1000, 8000, 16000]));
            Happening::custom::<Scv>(&scv_at(name, *now, &[of(0), of(1)]))
        }
        4 => Happening::custom_gone::<Scv>("", name),
        5 => {
            let holder = pod(&uid).uid(&uid).annotation(CARDS, dice.pick(&["0", "1"]));
            let holder = holder.label(MEMORY, dice.pick(&["1000", "7000", "15000"]));
            Happening::Pod(Box::new(holder.on(name).build()))
        }
        6 => Happening::PodGone(name.into(), uid.as_str().into()),
        _ => {
            let pairs = [(MEMORY, dice.pick(&["1000", "9000"])), (NUMBER, dice.pick(&["1", "2"]))];
            Happening::Own(Box::new(asks("p", &pairs).build()))
        }
    }
}

#[test]
fn any_change_that_helps_a_pod_wakes_it() {
    let mut helped = 0;
    for seed in 0..60 {
        let (mut dice, mut now) = (Dice::new(seed), 1000);
        let mut nodes = nodes(["n", "m", "k"], [], [scv("n", &[card(0, 16000, 8000)])]);
        let happenings: Vec<_> = (0..60).map(|_| happening(&mut dice, &mut now)).collect();
        let pod = asks("p", &[(MEMORY, "9000")]).info();
        helped += what_helps_wakes(&corrected(), &mut nodes, &pod, happenings);
    }
    assert!(helped > 200, "the changes vary too little: {helped}");
}

#[test]
fn the_best_node_gets_100_and_the_worst_0() {
    for (raw, expected) in [
        (vec![10, 20, 15], vec![0, 100, 50]),
        (vec![7, 7], vec![100, 100]),
        (vec![i64::MIN, i64::MAX], vec![0, 100]),
        (vec![], vec![]),
    ] {
        let mut scores = raw;
        let at: Vec<usize> = (0..scores.len()).collect();
        spread(&mut scores, &at);
        assert_eq!(scores, expected);
    }
}

fn scv_hint(pairs: &[(&str, &str)], old: Option<&[Card]>, new: Option<&[Card]>) -> Option<Hint> {
    let object = |cards: &[Card], at| custom::<Scv>(&scv_at("n", at, cards));
    let (old, new) = (old.map(|cards| object(cards, 1000)), new.map(|cards| object(cards, 1001)));
    corrected().custom_hint(&asks("p", pairs).info(), old.as_ref(), new.as_ref())
}

#[test]
fn a_report_wakes_the_pods_that_it_helps_and_no_others() {
    let (used, free) = ([card(0, 16000, 7000)], [card(0, 16000, 9000)]);
    let dead = [Card { health: "Unhealthy".to_owned(), ..card(0, 16000, 16000) }];
    let large = [card(0, 32000, 9000)];
    for (why, pairs, old, new, expected) in [
        ("a card has enough memory now", (MEMORY, "8000"), Some(&used), Some(&free), Hint::Queue),
        ("the card had enough before", (MEMORY, "6000"), Some(&used), Some(&free), Hint::Skip),
        ("the card still has too little", (MEMORY, "9001"), Some(&used), Some(&free), Hint::Skip),
        ("less is free", (MEMORY, "6000"), Some(&free), Some(&used), Hint::Skip),
        ("one card is not two", (NUMBER, "2"), Some(&dead), Some(&free), Hint::Skip),
        ("a card is healthy again", (NUMBER, "1"), Some(&dead), Some(&free), Hint::Queue),
        ("the card is larger", (MEMORY, "8000"), Some(&free), Some(&large), Hint::Queue),
        ("the card is too slow", (CLOCK, "9999"), Some(&used), Some(&free), Hint::Skip),
        ("a new node", (MEMORY, "8000"), None, Some(&free), Hint::Queue),
        ("a new node that is too small", (MEMORY, "9001"), None, Some(&free), Hint::Skip),
        ("nothing has changed", (NUMBER, "1"), Some(&free), Some(&free), Hint::Skip),
        (
            "the report is deleted, so other reports may count as fresh",
            (NUMBER, "1"),
            Some(&free),
            None,
            Hint::Queue,
        ),
        ("the pod has an invalid label", (NUMBER, "0"), None, Some(&free), Hint::Skip),
    ] {
        let (old, new) = (old.map(|cards| &cards[..]), new.map(|cards| &cards[..]));
        assert_eq!(scv_hint(&[pairs], old, new), Some(expected), "{why}");
    }
}

#[test]
fn a_sniffer_that_reports_after_a_long_pause_or_sets_its_clock_back_wakes_pods() {
    let at = |seconds| custom::<Scv>(&scv_at("n", seconds, &[card(0, 16000, 16000)]));
    let pod = asks("p", &[(NUMBER, "1")]).info();
    for (old, new, expected) in
        [(1000, 1010, Hint::Skip), (1000, 1100, Hint::Queue), (1000, 900, Hint::Queue)]
    {
        assert_eq!(
            corrected().custom_hint(&pod, Some(&at(old)), Some(&at(new))),
            Some(expected),
            "{old} {new}"
        );
    }
}

#[test]
fn of_other_pods_only_those_that_release_cards_wake_the_pod() {
    use harbormaster::framework::ClusterEvent;
    let waiting = asks("p", &[(NUMBER, "1")]).info();
    let hint = |event, action, old: Option<&Pod>, new: Option<&Pod>| {
        corrected().hint(ClusterEvent::new(event, action), &waiting, &Change::Pod { old, new })
    };
    let (holder, web) = (holds("a", "0", &[(NUMBER, "1")]).build(), pod("web").on("n").build());
    let gone = |pod: &Pod| hint(EventResource::AssignedPod, Action::DELETE, Some(pod), None);
    assert_eq!(gone(&holder), Some(Hint::Queue));
    assert_eq!(gone(&web), Some(Hint::Skip));
    let less = asks("a", &[(MEMORY, "1")]).on("n").build();
    let relabelled = Action::UPDATE_POD_LABEL;
    assert_eq!(hint(EventResource::AssignedPod, relabelled, Some(&holder), Some(&less)), Some(Hint::Queue));
    assert_eq!(hint(EventResource::AssignedPod, relabelled, Some(&web), Some(&web)), Some(Hint::Skip));
    let (own, others) = (&*waiting.pod, asks("q", &[(NUMBER, "1")]).build());
    assert_eq!(hint(EventResource::UnschedulablePod, relabelled, Some(own), Some(own)), Some(Hint::Queue));
    assert_eq!(
        hint(EventResource::UnschedulablePod, relabelled, Some(&others), Some(&others)),
        Some(Hint::Skip)
    );
}

#[test]
fn a_node_wakes_the_pod_only_if_it_newly_fits_the_requested_level() {
    use harbormaster::framework::ClusterEvent;
    let (plain, high) = (node("n").build(), node("n").label(LEVEL, "High").build());
    let hint = |pairs: &[(&str, &str)], action, old, new| {
        let change = Change::Node { old, new: Some(new) };
        corrected().hint(ClusterEvent::new(EventResource::Node, action), &asks("p", pairs).info(), &change)
    };
    let (any, wants) = ([(NUMBER, "1")], [(LEVEL, "High")]);
    assert_eq!(hint(&any, Action::ADD, None, &plain), Some(Hint::Queue));
    assert_eq!(hint(&wants, Action::ADD, None, &plain), Some(Hint::Skip));
    assert_eq!(hint(&wants, Action::UPDATE_NODE_LABEL, Some(&plain), &high), Some(Hint::Queue));
    assert_eq!(hint(&wants, Action::UPDATE_NODE_LABEL, Some(&high), &high), Some(Hint::Skip));
    assert_eq!(hint(&any, Action::UPDATE_NODE_LABEL, Some(&plain), &high), Some(Hint::Skip));
}

#[test]
fn in_literal_mode_every_event_wakes_the_pod() {
    assert!(yoda(Mode::Literal).events().is_none());
}

#[test]
fn reserve_takes_the_best_cards_and_pre_bind_writes_them_to_the_pod() {
    let (plugin, api) = (corrected(), FakeApi::default());
    let mut nodes =
        nodes(["n"], [], [scv("n", &[card(0, 16000, 9000), card(1, 16000, 16000), card(2, 16000, 9000)])]);
    let p = asks("p", &[(NUMBER, "2"), (MEMORY, "8000")]).info();
    api.set_pod(&p);
    let placement = plugin.reserve(&mut nodes, &p, "n").unwrap();
    finished(plugin.pre_bind(&placement, &api.api())).unwrap();
    assert_eq!(api.object(&ObjectPath::pod(&p))["metadata"]["annotations"], json!({CARDS: "1,0"}));
    // Unreserve removes the annotation.
    let calls = plugin.unreserve(&mut nodes, &placement);
    assert_eq!(calls.len(), 1, "{calls:?}");
    finished(api.api().call(calls[0].clone())).unwrap();
    assert_eq!(api.object(&ObjectPath::pod(&p))["metadata"]["annotations"], json!({}));
}

#[test]
fn cards_chosen_by_reserve_override_an_old_annotation_and_are_freed_by_unreserve() {
    let plugin = corrected();
    let mut nodes = nodes(["n"], [], [scv("n", &[card(0, 16000, 16000)])]);
    let (first, second) = (asks("first", &[(NUMBER, "1")]).info(), asks("second", &[(NUMBER, "1")]).info());
    let placement = plugin.reserve(&mut nodes, &first, "n").unwrap();
    // The pod in the state that the engine assumes. Its annotation from an earlier attempt on another node is ignored.
    let leftover =
        asks("first", &[(NUMBER, "1")]).on("n").pod(|pod| pod.annotations = labels(&[(CARDS, "7")]));
    nodes.add_pod(&"n".into(), leftover.info());
    nodes.refresh();
    assert_eq!(plugin.verdict(&nodes, &second, "n"), full(NUMBER_NOT_FIT));
    assert!(plugin.reserve(&mut nodes, &second, "n").is_err(), "Reserve checks again");
    assert!(plugin.reserve(&mut nodes, &first, "n").is_ok(), "a pod does not block itself");
    let calls = plugin.unreserve(&mut nodes, &placement);
    assert!(calls.is_empty(), "nothing was written: {calls:?}");
    nodes.remove_pod("n", &first.uid);
    nodes.refresh();
    assert_eq!(plugin.verdict(&nodes, &second, "n"), Ok(()));
}

#[test]
fn nothing_is_written_to_a_pod_that_takes_no_card() {
    let mut nodes = nodes(["n"], [], [scv("n", &[card(0, 16000, 16000)])]);
    for (mode, pairs) in [(Mode::Corrected, &[][..]), (Mode::Literal, &[(NUMBER, "1")])] {
        let placement = Trial::of(yoda(mode)).reserve(&mut nodes, &asks("p", pairs).info(), "n").unwrap();
        assert!(matches!(yoda(mode).pre_flight(&placement), Ok(PreFlight::NothingToDo)));
    }
}
