//! Tests of the election rules, with scripted and random sequences.

use std::time::Duration;

use harbormaster_testkit::random::Dice;
use serde_json::Value;

use super::*;
use crate::leader::tests::{LeaseServer, PERIOD};

/// One instance, whose times the test chooses (in seconds from the start).
struct Instance {
    elector: Elector,
    begun: Instant,
    /// The time that the instance writes into the lease.
    wall: Timestamp,
}

impl Instance {
    fn new(identity: &str) -> Self {
        let begun = Instant::now();
        let elector = Elector::new(LeaseElection::default(), identity.to_owned(), begun);
        Self { elector, begun, wall: Timestamp::from_secs(1_000_000) }
    }

    fn at(&self, seconds: f64) -> Instant {
        self.begun + Duration::from_secs_f64(seconds)
    }

    fn step(&mut self, seconds: f64) -> Step {
        self.elector.step(self.at(seconds), self.wall)
    }

    /// Returns the request that the instance sends at the given time.
    fn sends(&mut self, seconds: f64) -> (Purpose, Request) {
        match self.step(seconds) {
            Step::Send(purpose, request) => (purpose, request),
            other => panic!("at {seconds}: {other:?}"),
        }
    }

    fn hears(&mut self, seconds: f64, answer: Answer) {
        self.elector.answered(answer, self.at(seconds));
    }

    /// Sends all requests that are due; answers arrive immediately. Returns the purposes of the requests.
    fn tries(&mut self, seconds: f64, server: &mut LeaseServer) -> Vec<Purpose> {
        let mut asked = Vec::new();
        while let Step::Send(purpose, request) = self.step(seconds) {
            asked.push(purpose);
            self.hears(seconds, answer(server, &request));
        }
        asked
    }

    fn leads(&self, seconds: f64) -> bool {
        self.elector.leads_until().is_some_and(|end| self.at(seconds) < end)
    }

    /// Returns the time until the next try, in seconds.
    fn waits(&mut self, seconds: f64) -> f64 {
        match self.step(seconds) {
            Step::Wait(until) => (until - self.at(seconds)).as_secs_f64(),
            other => panic!("at {seconds}: {other:?}"),
        }
    }
}

fn value(lease: &Lease) -> Value {
    serde_json::from_slice(&lease.to_json()).unwrap()
}

fn answer(server: &mut LeaseServer, request: &Request) -> Answer {
    let outcome = match request {
        Request::Read => server.read(),
        Request::Create(lease) => server.create(value(lease)),
        Request::Update(lease) => server.update(value(lease)),
    };
    match outcome {
        Ok(lease) => Answer::Lease(Lease::parse(lease.to_string().as_bytes()).unwrap()),
        Err(404) if *request == Request::Read => Answer::Absent,
        Err(_) => Answer::Failed,
    }
}

/// Returns a server, and an instance that has been the leader since second 0.
fn leading() -> (LeaseServer, Instance) {
    let (mut server, mut a) = (LeaseServer::default(), Instance::new("a"));
    assert_eq!(a.tries(0.0, &mut server), [Purpose::Read, Purpose::Create]);
    (server, a)
}

#[test]
fn a_missing_lease_is_created_and_then_renewed_without_being_read() {
    let (mut server, mut a) = leading();
    assert!(a.leads(0.0) && !a.leads(10.0));
    assert_eq!(server.holder(), "a");
    assert_eq!(server.spec("leaseDurationSeconds"), 15);
    assert_eq!(server.spec("leaseTransitions"), 0);
    assert_eq!(server.spec("acquireTime"), "1970-01-12T13:46:40.000000Z");
    assert_eq!(a.waits(0.0), PERIOD.as_secs_f64());
    a.wall = a.wall + PERIOD;
    assert_eq!(a.tries(2.0, &mut server), [Purpose::Prolong]);
    assert_eq!(server.spec("acquireTime"), "1970-01-12T13:46:40.000000Z");
    assert_eq!(server.spec("renewTime"), "1970-01-12T13:46:42.000000Z");
    assert!(a.leads(11.9));
}

#[test]
fn a_lease_may_be_taken_over_after_no_change_was_seen_for_its_duration() {
    let hour = 3600.0;
    for (what, holder, seconds, renewed, after, expected) in [
        ("just seen", "b", 15, "1970-01-01T00:00:00.000000Z", 0.0, None),
        ("seen for less than its duration", "b", 15, "1970-01-01T00:00:00.000000Z", 14.9, None),
        ("seen for its duration", "b", 15, "2999-01-01T00:00:00.000000Z", 15.0, Some(6)),
        ("the duration in the lease is decisive", "b", 3600, "1970-01-01T00:00:00.000000Z", 3599.0, None),
        ("the duration in the lease has passed", "b", 3600, "2999-01-01T00:00:00.000000Z", hour, Some(6)),
        ("without a duration", "b", 0, "2999-01-01T00:00:00.000000Z", 0.0, Some(6)),
        ("released", "", 1, "2999-01-01T00:00:00.000000Z", 0.0, Some(6)),
        (
            "written by this instance, but the answer was lost",
            "a",
            15,
            "1970-01-01T00:00:00.000000Z",
            0.0,
            Some(5),
        ),
    ] {
        let (mut server, mut a) = (LeaseServer::default(), Instance::new("a"));
        server.say(holder, seconds, renewed);
        let first = a.tries(0.0, &mut server);
        if after > 0.0 {
            assert_eq!(first, [Purpose::Read], "{what}");
            a.tries(after, &mut server);
        }
        assert_eq!(a.leads(after), expected.is_some(), "{what}");
        if let Some(transitions) = expected {
            assert_eq!(server.spec("leaseTransitions"), transitions, "{what}");
            assert_eq!(server.holder(), "a", "{what}");
        } else {
            assert_eq!(a.elector.other_holder(), Some("b"), "{what}");
        }
    }
}

#[test]
fn a_renewal_counts_as_a_change_and_a_new_label_does_not() {
    let (mut server, mut a) = (LeaseServer::default(), Instance::new("a"));
    server.say("b", 15, "1970-01-01T00:00:00.000000Z");
    a.tries(0.0, &mut server);
    server.say("b", 15, "1970-01-01T00:00:00.000001Z");
    a.tries(14.0, &mut server);
    assert_eq!(a.tries(28.9, &mut server), [Purpose::Read], "the duration counts from the renewal");
    let mut labelled = server.read().unwrap();
    labelled["metadata"]["labels"] = serde_json::json!({"a": "b"});
    server.update(labelled).unwrap();
    assert_eq!(a.tries(34.0, &mut server), [Purpose::Read, Purpose::TakeOver]);
    assert_eq!(server.lease.as_ref().unwrap()["metadata"]["labels"]["a"], "b");
}

#[test]
fn only_one_of_two_instances_that_find_the_lease_free_gets_it() {
    let (mut server, mut a, mut b) = (LeaseServer::default(), Instance::new("a"), Instance::new("b"));
    server.say("", 1, "1970-01-01T00:00:00.000000Z");
    for instance in [&mut a, &mut b] {
        let (_, read) = instance.sends(0.0);
        instance.hears(0.0, answer(&mut server, &read));
    }
    assert_eq!(a.tries(0.1, &mut server), [Purpose::TakeOver]);
    assert_eq!(b.tries(0.1, &mut server), [Purpose::TakeOver]);
    assert!(a.leads(0.2) && !b.leads(0.2));
    assert_eq!(b.tries(5.0, &mut server), [Purpose::Read]);
    assert_eq!(b.elector.other_holder(), Some("a"));
}

#[test]
fn standbys_spread_their_tries_and_leaders_do_not() {
    let (mut server, mut a) = (LeaseServer::default(), Instance::new("a"));
    server.say("b", 15, "1970-01-01T00:00:00.000000Z");
    let mut waits = Vec::new();
    for _ in 0..50 {
        a.elector.next = Next::Try(a.begun);
        a.tries(1.0, &mut server);
        waits.push(a.waits(1.0));
    }
    let (least, most) =
        (waits.iter().copied().fold(f64::MAX, f64::min), waits.iter().copied().fold(0.0, f64::max));
    assert!(least >= 2.0 && most < 4.4 && most - least > 1.0, "{waits:?}");
    let (_, mut a) = leading();
    assert_eq!(a.waits(0.5), 1.5);
}

#[test]
fn a_failed_renewal_is_retried_until_the_deadline() {
    let (mut server, mut a) = leading();
    let fail = |a: &mut Instance, at: f64| {
        for expected in [Purpose::Prolong, Purpose::Read] {
            assert_eq!(a.sends(at).0, expected);
            a.hears(at, Answer::Failed);
        }
    };
    for at in [2.0, 4.0, 6.0, 8.0] {
        fail(&mut a, at);
        assert_eq!(a.waits(at), 2.0);
    }
    assert!(a.leads(9.9));
    assert!(a.tries(9.5, &mut server).is_empty(), "the next try begins one period after the last");
    assert_eq!(a.step(10.0), Step::Lost);
    assert_eq!(a.step(100.0), Step::Lost);
    assert!(!a.leads(10.0) && !a.elector.may_hold());
    // This outage is shorter than the deadline.
    let (mut server, mut a) = leading();
    fail(&mut a, 2.0);
    fail(&mut a, 4.0);
    assert_eq!(a.tries(6.0, &mut server), [Purpose::Prolong]);
    assert!(a.leads(15.9) && !a.leads(16.0));
}

#[test]
fn a_slow_try_is_followed_by_the_next_immediately_and_no_wait_exceeds_the_deadline() {
    let (_, mut a) = leading();
    assert_eq!(a.sends(2.0).0, Purpose::Prolong);
    a.hears(7.0, Answer::Failed);
    assert_eq!(a.sends(7.0).0, Purpose::Read);
    a.hears(8.5, Answer::Failed);
    assert_eq!(a.sends(8.5).0, Purpose::Prolong);
    // The leader waits until the deadline at the latest.
    a.hears(9.5, Answer::Failed);
    a.sends(9.5);
    a.hears(9.6, Answer::Failed);
    assert!((a.waits(9.6) - 0.4).abs() < 1e-6);
}

#[test]
fn a_renewal_counts_from_the_time_it_was_sent_and_is_ignored_after_the_deadline() {
    for (sent, heard, until) in [(2.0, 6.0, Some(12.0)), (8.0, 9.9, Some(18.0)), (8.0, 10.0, None)] {
        let (mut server, mut a) = leading();
        let (_, renewal) = a.sends(sent);
        let answer = answer(&mut server, &renewal);
        a.hears(heard, answer);
        match until {
            Some(until) => assert!(a.leads(until - 0.01) && !a.leads(until), "{sent} {heard}"),
            None => assert_eq!(a.step(heard), Step::Lost, "{sent} {heard}"),
        }
    }
}

#[test]
fn an_acquisition_that_is_answered_after_the_deadline_does_not_count() {
    let (mut server, mut a) = (LeaseServer::default(), Instance::new("a"));
    let (_, read) = a.sends(0.0);
    a.hears(0.0, answer(&mut server, &read));
    let (_, create) = a.sends(0.0);
    // The process was paused for a while.
    let created = answer(&mut server, &create);
    a.hears(12.0, created);
    assert!(!a.leads(12.0));
    assert_eq!(a.tries(17.0, &mut server), [Purpose::Read, Purpose::Renew]);
    assert!(a.leads(26.9));
}

#[test]
fn a_lease_that_another_client_has_changed_is_read_again() {
    type Change = fn(&mut LeaseServer);
    let cases: [(&str, Change, &[Purpose], bool); 4] = [
        (
            "it was labeled",
            |server| {
                let mut lease = server.read().unwrap();
                lease["metadata"]["labels"] = serde_json::json!({"a": "b"});
                server.update(lease).unwrap();
            },
            &[Purpose::Prolong, Purpose::Read, Purpose::Renew],
            true,
        ),
        (
            "it was deleted",
            |server| server.lease = None,
            &[Purpose::Prolong, Purpose::Read, Purpose::Create],
            true,
        ),
        (
            "it was released",
            |server| server.say("", 1, "1970-01-01T00:00:00.000000Z"),
            &[Purpose::Prolong, Purpose::Read, Purpose::TakeOver],
            true,
        ),
        (
            "it was stolen",
            |server| server.say("thief", 15, "1970-01-01T00:00:00.000000Z"),
            &[Purpose::Prolong, Purpose::Read],
            false,
        ),
    ];
    for (what, change, asked, leads) in cases {
        let (mut server, mut a) = leading();
        change(&mut server);
        assert_eq!(a.tries(2.0, &mut server), asked, "{what}");
        assert_eq!(a.leads(2.0), leads, "{what}");
        assert_eq!(a.step(2.0) == Step::Lost, !leads, "{what}");
    }
}

#[test]
fn an_instance_that_was_paused_for_a_long_time_sends_nothing_more() {
    let (mut server, mut a) = leading();
    assert_eq!(a.step(30.0), Step::Lost);
    // The same happens if the pause comes during a request.
    let (mut other, mut b) = leading();
    let (_, renewal) = b.sends(2.0);
    let renewed = answer(&mut other, &renewal);
    b.hears(30.0, renewed);
    assert_eq!(b.step(30.0), Step::Lost);
    assert!(a.tries(31.0, &mut server).is_empty());
}

#[test]
fn an_instance_releases_only_a_lease_that_it_holds() {
    let (server, a) = leading();
    assert!(a.elector.may_hold());
    let held = Lease::parse(server.read().unwrap().to_string().as_bytes()).unwrap();
    let given_up = value(&a.elector.given_up(&held, Timestamp::from_secs(5)).unwrap());
    assert_eq!(given_up["metadata"], server.lease.as_ref().unwrap()["metadata"]);
    assert_eq!(
        given_up["spec"],
        serde_json::json!({
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": "1970-01-01T00:00:05.000000Z",
            "renewTime": "1970-01-01T00:00:05.000000Z",
            "leaseTransitions": 0,
        })
    );
    let b = Instance::new("b");
    assert!(b.elector.given_up(&held, Timestamp::from_secs(5)).is_none());
    assert!(!b.elector.may_hold());
    // A write may have succeeded even though its answer was not received.
    let (mut server, mut c) = (LeaseServer::default(), Instance::new("c"));
    let (_, read) = c.sends(0.0);
    c.hears(0.0, answer(&mut server, &read));
    c.sends(0.0);
    assert!(c.elector.may_hold());
    c.hears(5.0, Answer::Failed);
    assert!(c.elector.may_hold());
    server.say("a", 15, "1970-01-01T00:00:00.000000Z");
    c.tries(10.0, &mut server);
    assert!(!c.elector.may_hold());
}

#[test]
fn fractions_of_a_second_are_rounded_up() {
    for (millis, seconds) in [(15_000, 15), (15_001, 16), (300, 1)] {
        let election =
            LeaseElection { lease_duration: Duration::from_millis(millis), ..LeaseElection::default() };
        let elector = Elector::new(election, "a".to_owned(), Instant::now());
        assert_eq!(elector.claim(None, Timestamp::default(), 0).seconds, seconds);
    }
}

/// An instance in a simulation in which any step may take a long time.
struct Unlucky {
    instance: Instance,
    /// Reading of the instance's clock when the simulation starts.
    clock: Timestamp,
    /// Time of the instance's next step, in seconds.
    wakes: f64,
    request: Option<UnderWay>,
    /// Requests that the instance no longer waits for, with the times at which they arrive.
    strays: Vec<(f64, Request)>,
    lost: bool,
}

/// A request in progress. Times are in seconds.
struct UnderWay {
    request: Request,
    /// Time when the request arrives; `None` if it never arrives or has arrived.
    arrives: Option<f64>,
    answer: Option<Answer>,
    /// Time when the answer arrives or the time limit expires.
    heard: f64,
}

#[test]
fn two_instances_never_lead_at_the_same_time_whatever_happens_to_requests_and_processes() {
    let mut terms = 0;
    for seed in 0..100 {
        terms += play(seed);
    }
    assert!(terms > 300, "{terms} terms in 100 worlds");
}

/// Runs three instances for ten minutes. Returns the number of times that an instance became the leader.
fn play(seed: u64) -> usize {
    let (mut dice, mut server) = (Dice::new(seed), LeaseServer::default());
    let begun = Instant::now();
    let new = |name: String, wall: u64, at: f64| {
        let mut instance = Instance::new(&name);
        instance.begun = begun;
        instance.elector.next = Next::Try(instance.at(at));
        // The instance's clock may be off by years.
        let clock = Timestamp::from_secs(i64::try_from(wall).unwrap());
        Unlucky { instance, clock, wakes: at, request: None, strays: Vec::new(), lost: false }
    };
    let mut all: Vec<_> = (0..3).map(|n| new(format!("i{n}"), dice.below(1 << 31), 0.0)).collect();
    let (mut now, mut terms, mut replaced, mut led) = (0.0_f64, 0, 0, [false; 3]);
    while now < 600.0 {
        // The next event: a request arrives or an instance wakes.
        let next = all.iter().map(Unlucky::next).fold(f64::MAX, f64::min);
        now = next.max(now);
        for unlucky in &mut all {
            unlucky.go_on(now, &mut server, &mut dice);
        }
        for (at, unlucky) in all.iter_mut().enumerate() {
            let leads = unlucky.instance.leads(now);
            terms += usize::from(leads && !led[at]);
            led[at] = leads;
            if unlucky.lost {
                // The process ends, and another one starts.
                replaced += 1;
                *unlucky = new(format!("i{at}-{replaced}"), dice.below(1 << 31), now + 1.0);
            }
        }
        assert!(led.iter().filter(|leads| **leads).count() <= 1, "seed {seed}: {led:?} after {now} s");
    }
    terms
}

impl Unlucky {
    fn next(&self) -> f64 {
        let arrives = self.request.as_ref().and_then(|request| request.arrives);
        let strays = self.strays.iter().map(|(at, _)| *at);
        strays.chain(arrives).fold(self.wakes, f64::min)
    }

    fn go_on(&mut self, now: f64, server: &mut LeaseServer, dice: &mut Dice) {
        if let Some(under_way) = &mut self.request
            && under_way.arrives.is_some_and(|at| at <= now)
        {
            under_way.arrives = None;
            let answer = answer(server, &under_way.request);
            under_way.answer = Some(answer);
        }
        while let Some(at) = self.strays.iter().position(|(at, _)| *at <= now) {
            answer(server, &self.strays.remove(at).1);
        }
        if now < self.wakes {
            return;
        }
        // Occasionally, a process is paused.
        if dice.one_in(40) {
            self.wakes = now + dice.below(40) as f64;
            return;
        }
        if let Some(under_way) = self.request.take_if(|request| request.heard <= now) {
            self.instance.hears(now, under_way.answer.unwrap_or(Answer::Failed));
            self.strays.extend(under_way.arrives.map(|at| (at, under_way.request)));
        }
        self.instance.wall = self.clock + Duration::from_secs_f64(now);
        match self.instance.step(now) {
            Step::Lost => self.lost = true,
            Step::Wait(until) => self.wakes = (until - self.instance.begun).as_secs_f64() + 1e-6,
            Step::Send(_, request) => {
                const LIMIT: f64 = 5.0;
                let (there, back) = (delay(dice), delay(dice));
                let heard = if there + back < LIMIT { now + there + back } else { now + LIMIT };
                let arrives = (!dice.one_in(6)).then_some(now + there);
                self.request = Some(UnderWay { request, arrives, answer: None, heard });
                self.wakes = heard;
            }
        }
    }
}

/// Returns the delay of a request or a response: most are short, some exceed the time limit of a request.
fn delay(dice: &mut Dice) -> f64 {
    match dice.below(10) {
        0 => dice.below(100) as f64 / 10.0,
        1 | 2 => dice.below(20) as f64 / 10.0,
        _ => dice.below(50) as f64 / 1000.0,
    }
}
