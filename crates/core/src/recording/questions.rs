//! Questions to extenders while decisions are compared: the engine's questions may differ from the recorded ones.

use harbormaster_framework::extender::{Answer, Question};
use serde_json::Value;

use super::results::RecordedQuestion;
use crate::{effect::AskTask, input::Input};

/// Open questions of both sides.
#[derive(Debug, Default)]
pub(super) struct Questions {
    recorded: Vec<RecordedQuestion>,
    here: Vec<AskTask>,
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

    /// Returns the input for this engine to which a recorded answer corresponds; `None` if it has asked nothing about
    /// the pod.
    pub(super) fn answered(&mut self, number: u64, answer: &Answer) -> Option<Input> {
        let at = self.recorded.iter().position(|recorded| recorded.number == number)?;
        let recorded = self.recorded.remove(at);
        let here = self.here.iter().position(|task| task.pod.uid == recorded.pod)?;
        let AskTask { number, question, .. } = self.here.remove(here);
        Some(Input::Answered { number, answer: translated(&recorded.question, answer, &question) })
    }

    /// Ends the questions about pods about which nothing is asked in the recording: no answer will come.
    pub(super) fn give_up(&mut self) -> Vec<Input> {
        let is_open = |task: &AskTask| self.recorded.iter().any(|recorded| recorded.pod == task.pod.uid);
        let (open, given_up) = std::mem::take(&mut self.here).into_iter().partition(is_open);
        self.here = open;
        let given_up: Vec<AskTask> = given_up;
        let input = |AskTask { number, question, .. }| Input::Answered {
            number,
            answer: question.failed(not_recorded),
        };
        given_up.into_iter().map(input).collect()
    }
}

fn not_recorded(extender: usize) -> String {
    format!("the recording has no answer from extender {extender} here")
}

/// Returns the answer to `question` that is contained in the answer to a recorded one.
fn translated(recorded: &Question, answer: &Answer, question: &Question) -> Answer {
    match (recorded, answer, question) {
        (Question::Filter { extender: a, .. }, Answer::Filter(_), Question::Filter { extender: b, .. })
            if a == b =>
        {
            answer.clone()
        }
        (
            Question::Prioritize { extenders, .. },
            Answer::Prioritize(answers),
            Question::Prioritize { extenders: here, .. },
        ) => {
            let of = |at: &usize| {
                let answer = extenders.iter().zip(answers).find(|(recorded, _)| *recorded == at);
                answer.map_or_else(|| Err(not_recorded(*at)), |(_, answer)| answer.clone())
            };
            Answer::Prioritize(here.iter().map(of).collect())
        }
        _ => question.failed(not_recorded),
    }
}
