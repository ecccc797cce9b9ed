//! Tests of the backlog's order, limits and retries.

use harbormaster_core::PodEvent;
use harbormaster_testkit::pod;

use super::*;
use harbormaster_client::Refusal;

fn record(id: u64, warning: bool) -> Arc<Record> {
    let reason = if warning { "FailedScheduling" } else { "Scheduled" };
    let event = PodEvent {
        pod: pod(&format!("pod-{id}")).namespace("ns").uid("0123456789abcdef").info(),
        warning,
        reason,
        action: "Binding",
        note: format!("Successfully assigned ns/pod-{id} to node-with-some-name"),
        reporter: "default-scheduler".into(),
    };
    Arc::new(Record::new(id, event, Timestamp::from_secs(1_700_000_000)))
}

fn normal(id: u64) -> Arc<Record> {
    record(id, false)
}

fn warning(id: u64) -> Arc<Record> {
    record(id, true)
}

/// Returns a backlog with enough memory for `events` events of pods with three-digit numbers.
fn room_for(events: usize) -> Backlog {
    Backlog::new(events * PendingWrite::new(normal(100), Write::Create).size())
}

fn refusal(code: u16) -> Result<(), ApiError> {
    Err(ApiError::Refused(Refusal { code, message: "no".to_owned(), ..Refusal::default() }))
}

/// Takes all writes that can be taken now, and ends each with `outcome`. Returns the IDs of the writes' records.
fn drain(backlog: &mut Backlog, now: Instant, outcome: &dyn Fn() -> Result<(), ApiError>) -> Vec<u64> {
    let mut ids = Vec::new();
    while let Some(unwritten) = backlog.take(now) {
        ids.push(unwritten.record.id);
        backlog.ended(unwritten, outcome(), now);
    }
    ids
}

fn dropped(backlog: &mut Backlog) -> String {
    backlog.tally.take().get(&Trouble::Dropped).map(super::super::tally::Sum::reasons).unwrap_or_default()
}

#[test]
fn there_is_room_for_a_hundred_thousand_events_of_bound_pods() {
    let mut backlog = Backlog::new(ROOM);
    for id in 0..100_000 {
        assert!(backlog.add(normal(id), Write::Create));
    }
    assert_eq!((backlog.count(), dropped(&mut backlog)), (100_000, String::new()));
}

#[test]
fn a_full_backlog_drops_the_oldest_normal_events_and_then_the_oldest_warnings() {
    let mut backlog = room_for(4);
    for record in [warning(101), normal(102), normal(103)] {
        assert!(backlog.add(record, Write::Create));
    }
    // The reason of a warning is static, so a warning takes as much memory as a normal event.
    assert!(backlog.add(warning(104), Write::Create));
    assert!(backlog.add(warning(105), Write::Create), "102 is dropped");
    assert!(backlog.add(normal(106), Write::Create), "103 is dropped");
    assert!(backlog.add(warning(107), Write::Create), "106 is dropped");
    assert!(!backlog.add(normal(108), Write::Create), "a new normal event does not displace a warning");
    assert!(backlog.add(warning(109), Write::Create), "101 is dropped");
    assert_eq!(dropped(&mut backlog), "FailedScheduling: 1, Scheduled: 4");
    let left = drain(&mut backlog, Instant::now(), &|| Ok(()));
    assert_eq!((left, backlog.count(), backlog.used), (vec![104, 105, 107, 109], 0, 0));
}

#[test]
fn a_write_that_is_being_sent_keeps_its_room() {
    let mut backlog = room_for(2);
    backlog.add(normal(101), Write::Create);
    let first = backlog.take(Instant::now()).unwrap();
    backlog.add(normal(102), Write::Create);
    backlog.add(normal(103), Write::Create);
    assert_eq!((backlog.count(), dropped(&mut backlog).as_str()), (2, "Scheduled: 1"));
    backlog.ended(first, Ok(()), Instant::now());
    assert!(backlog.add(normal(104), Write::Create));
    assert_eq!(drain(&mut backlog, Instant::now(), &|| Ok(())), [103, 104]);
}

#[test]
fn warnings_and_normal_events_take_turns_and_keep_their_order() {
    let mut backlog = room_for(10);
    for id in [101, 102, 103] {
        backlog.add(normal(id), Write::Create);
    }
    for id in [201, 202] {
        backlog.add(warning(id), Write::Create);
    }
    assert_eq!(drain(&mut backlog, Instant::now(), &|| Ok(())), [201, 101, 202, 102, 103]);
}

#[test]
fn writes_for_one_event_are_sent_one_after_another_and_only_the_last_count_is_kept() {
    let mut backlog = room_for(10);
    let (event, now) = (warning(101), Instant::now());
    let count = |count| Write::Count { count, last: Timestamp::default() };
    backlog.add(event.clone(), Write::Create);
    let create = backlog.take(now).unwrap();
    backlog.add(event.clone(), count(2));
    backlog.add(event.clone(), count(30));
    assert!(backlog.take(now).is_none());
    assert_eq!(backlog.count(), 2);
    backlog.ended(create, Ok(()), now);
    let next = backlog.take(now).unwrap();
    assert_eq!(next.write, count(30));
    backlog.ended(next, Ok(()), now);
    assert_eq!((backlog.count(), backlog.used, backlog.under_way.len()), (0, 0, 0));
}

#[test]
fn a_series_of_failures_pauses_all_writes_and_a_success_ends_the_pause() {
    let mut backlog = room_for(200);
    let begun = Instant::now();
    for id in 101..201 {
        backlog.add(normal(id), Write::Create);
    }
    let mut now = begun;
    let mut pauses = Vec::new();
    for _ in 0..5 {
        assert_eq!(drain(&mut backlog, now, &|| refusal(503)).len(), FAILING as usize);
        let until = backlog.next_at().unwrap();
        pauses.push((until - now).as_secs());
        now = until;
    }
    assert!(pauses[0] == 1 && pauses.is_sorted() && pauses[4] >= 8, "{pauses:?}");
    let first = backlog.take(now).unwrap();
    backlog.ended(first, Ok(()), now);
    drain(&mut backlog, now, &|| Ok(()));
    let rested = now + REST * 2;
    drain(&mut backlog, rested, &|| Ok(()));
    assert_eq!((backlog.count(), backlog.used, backlog.next_at()), (0, 0, None));
}

#[test]
fn no_event_is_lost_while_a_busy_server_accepts_only_a_few() {
    let mut backlog = room_for(200);
    for id in 101..201 {
        backlog.add(normal(id), Write::Create);
    }
    let mut now = Instant::now();
    for _ in 0..50 {
        // One event is accepted; all others are refused with 429 (too many requests).
        backlog.add(normal(300), Write::Create);
        while let Some(unwritten) = backlog.take(now) {
            let outcome = if unwritten.record.id == 300 { Ok(()) } else { refusal(429) };
            backlog.ended(unwritten, outcome, now);
        }
        now += REST * 2;
    }
    assert_eq!(backlog.count(), 100);
    let troubles: Vec<Trouble> = backlog.tally.take().into_keys().collect();
    assert_eq!(troubles, [Trouble::Failed]);
}

#[test]
fn the_delay_that_a_server_requests_is_honored_for_a_minute_at_most() {
    for (asked, least, most) in [(1, 8, 12), (40, 40, 40), (3600, 60, 60)] {
        let mut backlog = room_for(2);
        backlog.add(normal(101), Write::Create);
        let now = Instant::now();
        let unwritten = backlog.take(now).unwrap();
        let retry_after = Some(Duration::from_secs(asked));
        let refusal = Refusal { code: 429, retry_after, ..Refusal::default() };
        backlog.ended(unwritten, Err(ApiError::Refused(refusal)), now);
        let rest = (backlog.next_at().unwrap() - now).as_secs_f64();
        assert!(f64::from(least) <= rest && rest <= f64::from(most), "{rest}");
    }
}
