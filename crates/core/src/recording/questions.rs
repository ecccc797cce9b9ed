//! Questions to extenders while decisions are compared: the engine's questions may differ from the recorded ones, and
//! come earlier or later.
//!
//! A question gets the recorded answers about the same pod. If the recording has decided about the pod without being
//! asked, the extender counts as failed.

use harbormaster_api::Str;
use harbormaster_framework::extender::{Answer, Filtered, Question};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::results::RecordedQuestion;
use crate::{effect::AskTask, input::Input};

/// Maximum number of pods whose answers are kept.
const PODS: usize = 1_000;

/// Open questions of both sides, and the recorded answers.
#[derive(Debug, Default)]
pub(super) struct Questions {
    recorded: Vec<RecordedQuestion>,
    here: Vec<AskTask>,
    /// By UID of the pod.
    answers: FxHashMap<Str, Vec<(Question, Answer)>>,
    /// UIDs of the pods that the recording has decided about.
    decided: FxHashSet<Str>,
}

impl Questions {
    /// Adds a question of this engine.
    pub(super) fn ask(&mut self, task: AskTask) {
        self.here.push(task);
    }

    /// Adds a recorded effect if it is a question.
    pub(super) fn recorded(&mut self, effect: &Value) {
        let question = effect.get("ask").map(|ask| serde_json::from_value(ask.clone()));
        self.recorded.extend(question.and_then(Result::ok));
    }

    /// Adds the recorded result of an attempt for a pod or a group.
    pub(super) fn attempted(&mut self, result: &Value) {
        let pods = result.as_array().map_or(std::slice::from_ref(result), Vec::as_slice);
        let decided = pods.iter().filter(|pod| pod["outcome"] != "asking");
        self.decided.extend(decided.filter_map(|pod| pod["pod"].as_str()).map(Str::from));
    }

    /// Adds a recorded answer.
    pub(super) fn answered(&mut self, number: u64, answer: Answer) {
        let Some(at) = self.recorded.iter().position(|recorded| recorded.number == number) else { return };
        let RecordedQuestion { pod, question, .. } = self.recorded.remove(at);
        if self.answers.len() >= PODS {
            self.answers.clear();
        }
        self.answers.entry(pod).or_default().push((question, answer));
    }

    /// Returns the answers to those of this engine's questions whose answers are known, or will not come.
    pub(super) fn take_answers(&mut self) -> Vec<Input> {
        let (mut open, mut inputs) = (Vec::new(), Vec::new());
        for task in std::mem::take(&mut self.here) {
            match self.answer(&task) {
                Some(answer) => inputs.push(Input::Answered { number: task.number, answer }),
                None => open.push(task),
            }
        }
        self.here = open;
        inputs
    }

    fn answer(&self, AskTask { pod, question, .. }: &AskTask) -> Option<Answer> {
        if self.recorded.iter().any(|recorded| recorded.pod == pod.uid) {
            return None;
        }
        let known = self.answers.get(&pod.uid).into_iter().flatten();
        let known = known.rev().find_map(|(recorded, answer)| translated(recorded, answer, question));
        known.or_else(|| self.decided.contains(&pod.uid).then(|| question.failed(not_recorded)))
    }
}

fn not_recorded(extender: usize) -> String {
    format!("the recording has no answer from extender {extender} here")
}

/// Returns the answer to `question` that is contained in the answer to a recorded one of the same kind.
fn translated(recorded: &Question, answer: &Answer, question: &Question) -> Option<Answer> {
    match (recorded, answer, question) {
        (
            Question::Filter { extender: a, .. },
            Answer::Filter(answer),
            Question::Filter { extender: b, nodes },
        ) if a == b => Some(Answer::Filter(answer.clone().map(|answer| about(answer, nodes)))),
        (
            Question::Prioritize { extenders, .. },
            Answer::Prioritize(answers),
            Question::Prioritize { extenders: here, .. },
        ) => {
            let of = |at: &usize| {
                let answer = extenders.iter().zip(answers).find(|(recorded, _)| *recorded == at);
                answer.map_or_else(|| Err(not_recorded(*at)), |(_, answer)| answer.clone())
            };
            Some(Answer::Prioritize(here.iter().map(of).collect()))
        }
        _ => None,
    }
}

/// Removes other nodes from an answer.
fn about(mut answer: Filtered, nodes: &[Str]) -> Filtered {
    let asked: FxHashSet<&Str> = nodes.iter().collect();
    answer.nodes.retain(|node| asked.contains(node));
    answer
}
