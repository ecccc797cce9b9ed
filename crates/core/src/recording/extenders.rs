//! Requests to extenders and their answers: recorded with an attempt, and used in its replay.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harbormaster_api::Str;
use harbormaster_framework::{
    extender::{ExtenderClient, Extenders, Filtered, NodeVictims, OnAnswer, Question, Remark},
    pod::PodInfo,
};
use serde::{Deserialize, Serialize};

/// A request to an extender and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ExtenderExchange {
    Filter(ExtenderRequest<Vec<Str>>, Result<Filtered, String>),
    Prioritize(ExtenderRequest<Vec<Str>>, Result<Vec<(Str, i64)>, String>),
    Preempt(ExtenderRequest<Vec<NodeVictims>>, Result<Vec<NodeVictims>, String>),
}

/// A request: the extender, the pod, and the nodes or evictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExtenderRequest<T> {
    extender: usize,
    pod: Str,
    about: T,
}

impl<T> ExtenderRequest<T> {
    fn new(extender: usize, pod: &PodInfo, about: T) -> Self {
        Self { extender, pod: pod.uid.clone(), about }
    }
}

/// Passes requests on and records them with their answers.
#[derive(Debug)]
pub(super) struct ExtenderRecorder {
    client: Arc<dyn ExtenderClient>,
    exchanges: Mutex<Vec<ExtenderExchange>>,
}

impl ExtenderRecorder {
    /// Wraps the client of the extenders; `None` if there is no client.
    pub(super) fn wrap(extenders: &mut Extenders) -> Option<Arc<Self>> {
        let recorder = Arc::new(Self { client: extenders.client()?.clone(), exchanges: Mutex::default() });
        *extenders = extenders.with_client(recorder.clone());
        Some(recorder)
    }

    /// Takes the exchanges since the last call.
    pub(super) fn take(&self) -> Vec<ExtenderExchange> {
        std::mem::take(&mut *locked(&self.exchanges))
    }
}

impl ExtenderClient for ExtenderRecorder {
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        let answer = self.client.filter(extender, pod, nodes);
        let request = ExtenderRequest::new(extender, pod, nodes.to_vec());
        locked(&self.exchanges).push(ExtenderExchange::Filter(request, answer.clone()));
        answer
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        let answer = self.client.prioritize(extenders, pod, nodes);
        let request = |extender: &usize| ExtenderRequest::new(*extender, pod, nodes.to_vec());
        let exchanges = extenders
            .iter()
            .zip(&answer)
            .map(|(at, answer)| ExtenderExchange::Prioritize(request(at), answer.clone()));
        locked(&self.exchanges).extend(exchanges);
        answer
    }

    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String> {
        let answer = self.client.preempt(extender, pod, plans);
        let request = ExtenderRequest::new(extender, pod, plans.to_vec());
        locked(&self.exchanges).push(ExtenderExchange::Preempt(request, answer.clone()));
        answer
    }

    /// Does not record the answer, which becomes an input.
    fn begin(&self, pod: &Arc<PodInfo>, question: Question, done: OnAnswer) {
        self.client.begin(pod, question, done);
    }

    fn remark(&self, extender: usize, pod: &PodInfo, remark: Remark<'_>) {
        self.client.remark(extender, pod, remark);
    }
}

/// Returns recorded answers.
#[derive(Debug)]
pub(super) struct ExtenderReplay {
    exchanges: Mutex<VecDeque<ExtenderExchange>>,
    /// True if requests must equal the recorded ones and arrive in the same order. Otherwise, a request gets the answer
    /// to the extender's first request about the same pod.
    is_exact: bool,
}

/// Error for a request that was not recorded.
fn not_recorded<T>(request: &ExtenderRequest<T>) -> String {
    format!("the recording has no answer from extender {} here", request.extender)
}

impl ExtenderReplay {
    pub(super) fn new(is_exact: bool) -> Self {
        Self { exchanges: Mutex::default(), is_exact }
    }

    /// Adds recorded exchanges for the next attempt.
    pub(super) fn add(&self, exchanges: Vec<ExtenderExchange>) {
        locked(&self.exchanges).extend(exchanges);
    }

    /// Drops the exchanges whose requests were not repeated and returns their number.
    pub(super) fn clear(&self) -> usize {
        locked(&self.exchanges).drain(..).count()
    }

    /// Takes the answer to a request. `of` returns the request and the answer of an exchange of the right kind.
    fn answer<T: PartialEq, A>(
        &self,
        request: &ExtenderRequest<T>,
        of: impl Fn(&ExtenderExchange) -> Option<(&ExtenderRequest<T>, &Result<A, String>)>,
    ) -> Result<A, String>
    where
        A: Clone,
    {
        let mut exchanges = locked(&self.exchanges);
        let at = match self.is_exact {
            true => 0,
            false => {
                let is_alike = |exchange: &ExtenderExchange| {
                    of(exchange).is_some_and(|(recorded, _)| {
                        (recorded.extender, &recorded.pod) == (request.extender, &request.pod)
                    })
                };
                exchanges.iter().position(is_alike).unwrap_or(usize::MAX)
            }
        };
        let taken = exchanges.remove(at);
        match taken.as_ref().and_then(of) {
            Some((recorded, answer)) if !self.is_exact || recorded == request => answer.clone(),
            _ => Err(not_recorded(request)),
        }
    }
}

impl ExtenderClient for ExtenderReplay {
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        self.answer(&ExtenderRequest::new(extender, pod, nodes.to_vec()), |exchange| match exchange {
            ExtenderExchange::Filter(request, answer) => Some((request, answer)),
            _ => None,
        })
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        let answer = |extender: &usize| {
            self.answer(&ExtenderRequest::new(*extender, pod, nodes.to_vec()), |exchange| match exchange {
                ExtenderExchange::Prioritize(request, answer) => Some((request, answer)),
                _ => None,
            })
        };
        extenders.iter().map(answer).collect()
    }

    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String> {
        self.answer(&ExtenderRequest::new(extender, pod, plans.to_vec()), |exchange| match exchange {
            ExtenderExchange::Preempt(request, answer) => Some((request, answer)),
            _ => None,
        })
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the content half updated.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
