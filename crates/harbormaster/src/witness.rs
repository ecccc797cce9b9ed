//! Records the failures of extenders during a simulation: after a failure, the result may differ from what a scheduler
//! would do in the cluster.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use harbormaster_api::Str;
use harbormaster_framework::{
    extender::{ExtenderClient, Extenders, Filtered, NodeVictims, Remark},
    pod::PodInfo,
};

/// Forwards calls to another [`ExtenderClient`] and records the extenders' failures.
#[derive(Debug)]
pub(crate) struct Witness {
    extenders: Extenders,
    host: Arc<dyn ExtenderClient>,
    seen: Mutex<RecordedFailures>,
}

#[derive(Debug, Default)]
struct RecordedFailures {
    /// The first failure of an extender that is not ignorable. After this failure, no extender is called.
    failure: Option<String>,
    /// Number of ignored failures, keyed by message.
    ignored: BTreeMap<String, usize>,
}

impl Witness {
    pub(crate) fn new(extenders: Extenders, host: Arc<dyn ExtenderClient>) -> Arc<Self> {
        Arc::new(Self { extenders, host, seen: Mutex::default() })
    }

    /// Returns the first failure of an extender that is not ignorable, if there was one.
    pub(crate) fn failure(&self) -> Option<String> {
        self.seen().failure.clone()
    }

    /// Returns one line for each distinct message of the ignored failures. A message that occurred more than once is
    /// followed by the number of times.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let times = |(why, times): (&String, &usize)| match times {
            1 => why.clone(),
            times => format!("{why} ({times} times)"),
        };
        self.seen().ignored.iter().map(times).collect()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, RecordedFailures> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked<T>(
        &self,
        extender: usize,
        verb: &str,
        ask: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        if let Some(why) = self.failure() {
            return Err(why);
        }
        let answer = ask();
        if let Err(why) = &answer
            && !self.extenders.all().get(extender).is_some_and(|extender| extender.ignorable)
        {
            self.seen().failure.get_or_insert_with(|| self.told(extender, verb, why));
        }
        answer
    }

    fn told(&self, extender: usize, what: &str, why: &str) -> String {
        let name = self.extenders.all().get(extender).map_or("", |extender| extender.name.as_str());
        format!("extender {name:?} failed to {what}: {why}")
    }

    fn ignored(&self, extender: usize, what: &str, why: &str) {
        *self.seen().ignored.entry(self.told(extender, what, why)).or_default() += 1;
    }
}

impl ExtenderClient for Witness {
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        self.asked(extender, "filter", || self.host.filter(extender, pod, nodes))
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        match self.failure() {
            Some(why) => extenders.iter().map(|_| Err(why.clone())).collect(),
            None => self.host.prioritize(extenders, pod, nodes),
        }
    }

    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String> {
        self.asked(extender, "preempt", || self.host.preempt(extender, pod, plans))
    }

    fn remark(&self, extender: usize, pod: &PodInfo, remark: Remark<'_>) {
        match remark {
            Remark::Skipped(why) => self.ignored(extender, "answer and is ignored", why),
            Remark::NoScores(why) if self.failure().is_none() => {
                self.ignored(extender, "prioritize, so its scores are missing", why);
            }
            remark => self.host.remark(extender, pod, remark),
        }
    }
}
