//! The cost of thousands of pods that wait on Permit.
//!
//! Pods are scheduled, and a plugin delays them; each new pod triggers a tick, as it would in a host. While the pods
//! wait, other pods come and go on the nodes, and the plugin listens to these events. Then either one more pod arrives,
//! which releases all waiting pods, or the waiting pods time out. The table shows the cost per pod, and the cost per
//! event while pods wait, with few and with many waiting pods. On a busy machine, ratios within one run are more
//! reliable than absolute times.
//!
//! Pass `-- permit [PODS]` to run only this benchmark, for example to count instructions with `valgrind
//! --tool=callgrind`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{Pod, Str, Timestamp};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};
use harbormaster_framework::prelude::*;

use super::{memory_in_use, node, pod, profile_with};

const NODES: usize = 1000;
/// Numbers of waiting pods.
const SIZES: [usize; 2] = [1000, 10_000];
/// Number of pods that come and go while pods wait, per waiting pod.
const MEANWHILE: usize = 2;

/// Delays pods until a pod arrives whose name begins with `open`.
#[derive(Default)]
struct Gatekeeper;

impl Plugin for Gatekeeper {
    const NAME: &'static str = "Gatekeeper";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::hinted(EventResource::Pod, Action::ADD | Action::DELETE, |_, _, change| {
            let opens = matches!(change, Change::Pod { new: Some(new), .. } if new.name.starts_with("open"));
            Ok(if opens { Hint::Queue } else { Hint::Skip })
        })])
    }
}

impl Permit for Gatekeeper {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        if cx.pod.name.starts_with("open") {
            for (pod, _) in waiting.list() {
                waiting.allow(&pod.uid);
            }
            return Ok(Permitted::Allow);
        }
        Ok(Permitted::Wait(Duration::from_secs(600)))
    }
}

struct Hall {
    engine: Engine,
    now: Timestamp,
    pods: usize,
}

/// Duration of each phase, divided by the number of its steps.
struct Costs {
    come: Duration,
    event: Duration,
    /// Memory for the events, in KiB.
    events_kib: u64,
    let_go: Duration,
    time_out: Duration,
}

impl Hall {
    fn new() -> Self {
        let profile = profile_with(|registry| {
            registry.register::<Gatekeeper>();
            vec![(harbormaster_api::points::ExtensionPoint::Permit, vec![("Gatekeeper".to_owned(), 0)])]
        });
        let now = Timestamp::from_secs(1_000_000);
        let mut engine = Engine::new(EngineConfig::new(vec![profile]));
        (0..NODES).for_each(|at| engine.handle(Input::Node(node(at)), now));
        Self { engine, now, pods: 0 }
    }

    /// Advances the clock by `time` and calls the engine's `tick`, as a host does after each step.
    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.engine.tick(self.now);
        std::hint::black_box(self.engine.next_wakeup());
    }

    fn small(&mut self, prefix: &str) -> Pod {
        self.pods += 1;
        let mut pod = pod(self.pods, 0);
        let mut spec = harbormaster_api::PodSpec::clone(&pod.spec);
        spec.containers[0].requests = vec![("cpu".into(), 1)];
        pod.spec = Arc::new(spec);
        pod.name = format!("{prefix}-{}", self.pods).into();
        pod
    }

    fn come(&mut self, prefix: &str) {
        let pod = self.small(prefix);
        self.engine.handle(Input::Pod(pod), self.now);
        self.engine.schedule_one(self.now);
    }

    fn come_and_go_elsewhere(&mut self) {
        let node = format!("node-{}", self.pods % NODES);
        let other = Pod { node_name: Some(node.as_str().into()), ..self.small("other") };
        let uid = other.uid.clone();
        self.engine.handle(Input::Pod(other), self.now);
        self.engine.handle(Input::PodGone(uid), self.now);
    }

    fn confirm(&mut self) -> usize {
        let mut bound = 0;
        for effect in self.engine.take_effects() {
            if let Effect::Bind(task) = effect {
                let there = Pod { node_name: Some(task.node().clone()), ..Pod::clone(&task.pod().pod) };
                let uid = there.uid.clone();
                self.engine.handle(Input::Pod(there), self.now);
                self.engine.handle(Input::BindFinished { uid, outcome: BindOutcome::Bound }, self.now);
                bound += 1;
            }
        }
        bound
    }

    fn wait(&mut self, pods: usize) -> Duration {
        timed(|| {
            for _ in 0..pods {
                self.come("held");
                self.pass(Duration::from_millis(10));
            }
        }) / pods as u32
    }

    fn costs(pods: usize) -> Costs {
        let mut hall = Self::new();
        let come = hall.wait(pods);
        assert_eq!(hall.engine.bindings_in_progress(), pods, "all wait");
        hall.engine.take_effects();
        let (before, events) = (memory_in_use(), pods * MEANWHILE);
        let meanwhile = timed(|| {
            for _ in 0..events {
                hall.come_and_go_elsewhere();
                hall.pass(Duration::from_millis(1));
            }
        });
        let events_kib = memory_in_use().saturating_sub(before);
        let let_go = timed(|| {
            hall.come("open");
            assert_eq!(hall.confirm(), pods + 1, "all pods are released");
        });
        hall.wait(pods);
        hall.engine.take_effects();
        (0..events).for_each(|_| hall.come_and_go_elsewhere());
        let time_out = timed(|| {
            while hall.engine.bindings_in_progress() > 0 {
                hall.pass(Duration::from_millis(100));
            }
        });
        let each = |phase: Duration| phase / pods as u32;
        Costs {
            come,
            event: meanwhile / events as u32,
            events_kib,
            let_go: each(let_go),
            time_out: each(time_out),
        }
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// Prints a table of the costs by number of waiting pods.
pub(crate) fn compare(selected: Option<usize>) {
    let sizes = selected.map_or(SIZES.to_vec(), |pods| vec![pods]);
    println!(
        "\n{:<22}  {:>12}  {:>12}  {:>14}  {:>13}  {:>14}",
        "pods waiting on Permit",
        "us to arrive",
        "us per event",
        "KiB for events",
        "us to release",
        "us to time out"
    );
    for pods in sizes {
        let Costs { come, event, events_kib, let_go, time_out } = Hall::costs(pods);
        let [come, event, let_go, time_out] = [come, event, let_go, time_out].map(|d| d.as_secs_f64() * 1e6);
        println!(
            "{pods:<22}  {come:>12.1}  {event:>12.1}  {events_kib:>14}  {let_go:>13.1}  {time_out:>14.1}"
        );
    }
}
