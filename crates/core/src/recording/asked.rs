//! What extenders were asked, and what they said: taken down beside an attempt, and said again when it is played.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use harbormaster_api::Str;
use harbormaster_framework::{
    extender::{AskExtenders, Extenders, Filtered, NodeVictims, Remark},
    pod::PodInfo,
};
use serde::{Deserialize, Serialize};

/// One question with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Asked {
    Filter(Question<Vec<Str>>, Result<Filtered, String>),
    Prioritize(Question<Vec<Str>>, Result<Vec<(Str, i64)>, String>),
    Preempt(Question<Vec<NodeVictims>>, Result<Vec<NodeVictims>, String>),
}

/// Whom it was put to, and about what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Question<T> {
    extender: usize,
    pod: Str,
    about: T,
}

impl<T> Question<T> {
    fn new(extender: usize, pod: &PodInfo, about: T) -> Self {
        Self { extender, pod: pod.uid.clone(), about }
    }
}

/// Hands questions on, and takes everything down.
#[derive(Debug)]
pub(super) struct Tape {
    host: Arc<dyn AskExtenders>,
    taken: Mutex<Vec<Asked>>,
}

impl Tape {
    /// Puts a tape between the engine and its host; `None` if nobody can be asked anyway.
    pub(super) fn between(extenders: &mut Extenders) -> Option<Arc<Self>> {
        let tape = Arc::new(Self { host: extenders.host()?.clone(), taken: Mutex::default() });
        *extenders = extenders.lent(tape.clone());
        Some(tape)
    }

    /// What was asked since the last call.
    pub(super) fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut *locked(&self.taken))
    }
}

impl AskExtenders for Tape {
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        let said = self.host.filter(extender, pod, nodes);
        let question = Question::new(extender, pod, nodes.to_vec());
        locked(&self.taken).push(Asked::Filter(question, said.clone()));
        said
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        let said = self.host.prioritize(extenders, pod, nodes);
        let question = |extender: &usize| Question::new(*extender, pod, nodes.to_vec());
        let asked =
            extenders.iter().zip(&said).map(|(at, said)| Asked::Prioritize(question(at), said.clone()));
        locked(&self.taken).extend(asked);
        said
    }

    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String> {
        let said = self.host.preempt(extender, pod, plans);
        let question = Question::new(extender, pod, plans.to_vec());
        locked(&self.taken).push(Asked::Preempt(question, said.clone()));
        said
    }

    fn remark(&self, extender: usize, pod: &PodInfo, remark: Remark<'_>) {
        self.host.remark(extender, pod, remark);
    }
}

/// Says what was said, as long as the same is asked.
#[derive(Debug, Default)]
pub(super) struct Playback(Mutex<VecDeque<Asked>>);

/// To a question that was not asked when it was recorded.
fn not_recorded<T>(question: &Question<T>) -> String {
    format!("the recording has no answer of extender {} here", question.extender)
}

impl Playback {
    /// What is to be said next.
    pub(super) fn put(&self, asked: Vec<Asked>) {
        locked(&self.0).extend(asked);
    }

    /// How many answers nobody has asked for; they are dropped.
    pub(super) fn drop_rest(&self) -> usize {
        locked(&self.0).drain(..).count()
    }
}

impl AskExtenders for Playback {
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        let question = Question::new(extender, pod, nodes.to_vec());
        match locked(&self.0).pop_front() {
            Some(Asked::Filter(recorded, said)) if recorded == question => said,
            _ => Err(not_recorded(&question)),
        }
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        let mut answers = locked(&self.0);
        let mut say = |extender: &usize| {
            let question = Question::new(*extender, pod, nodes.to_vec());
            match answers.pop_front() {
                Some(Asked::Prioritize(recorded, said)) if recorded == question => said,
                _ => Err(not_recorded(&question)),
            }
        };
        extenders.iter().map(&mut say).collect()
    }

    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String> {
        let question = Question::new(extender, pod, plans.to_vec());
        match locked(&self.0).pop_front() {
            Some(Asked::Preempt(recorded, said)) if recorded == question => said,
            _ => Err(not_recorded(&question)),
        }
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic can leave nothing half done in there.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
