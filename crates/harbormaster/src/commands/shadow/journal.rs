//! A file with one line of JSON for each result.

use std::{
    fs::File,
    io::{LineWriter, Write as _},
};

use harbormaster_driver::Compared;
use serde::Serialize;

use super::tally::{EvictionExample, Example, caused};

/// The file, if one is wanted.
#[derive(Debug)]
pub(super) struct Journal(Option<LineWriter<File>>);

#[derive(Serialize)]
#[serde(untagged)]
enum Line {
    Decision {
        #[serde(flatten)]
        example: Example,
        result: &'static str,
        cause: String,
        milliseconds: f64,
    },
    Preemption(EvictionExample),
}

impl Line {
    fn of(compared: &Compared) -> Self {
        match compared {
            Compared::Decision(comparison) => {
                let (result, milliseconds) = (comparison.kind().name(), comparison.took.as_secs_f64() * 1e3);
                let (cause, example) = caused(comparison);
                Self::Decision { example, result, cause, milliseconds }
            }
            Compared::Preemption(preemption) => Self::Preemption(preemption.into()),
        }
    }
}

impl Journal {
    pub(super) fn create(path: Option<&str>) -> Result<Self, String> {
        let created = path.map(|path| File::create(path).map_err(|e| format!("{path}: {e}")));
        Ok(Self(created.transpose()?.map(LineWriter::new)))
    }

    /// Adds a line. If that fails, the file gets no further lines.
    pub(super) fn add(&mut self, compared: &Compared) {
        let Some(file) = &mut self.0 else { return };
        let written = serde_json::to_string(&Line::of(compared)).map_err(Into::into);
        if let Err(error) = written.and_then(|line| writeln!(file, "{line}")) {
            tracing::error!("--decisions: {error}; no more decisions are written");
            self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use harbormaster_core::shadow::{Comparison, Finding, Plan, Preemption};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_decision_and_every_preemption_is_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut journal = Journal::create(file.path().to_str()).unwrap();
        let same = Comparison {
            pod: "shop/a".to_owned(),
            scheduler: "default-scheduler".into(),
            theirs: Some("n".into()),
            finding: Finding::Same,
            has_raced: false,
            waited: None,
            took: Duration::from_micros(1500),
        };
        let plan = Plan { node: "n".into(), victims: vec!["shop/v".to_owned()] };
        let preemption = Preemption { pod: "shop/b".to_owned(), theirs: Some(plan), ours: None };
        journal.add(&Compared::Decision(same));
        journal.add(&Compared::Preemption(preemption));
        let text = std::fs::read_to_string(file.path()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let decision = json!({"pod": "shop/a", "theirs": "n", "ours": "n", "detail": "", "result": "same", "cause": "", "milliseconds": 1.5});
        let theirs = json!({"node": "n", "victims": ["shop/v"]});
        let preemption =
            json!({"pod": "shop/b", "preemption": "only_theirs", "theirs": theirs, "ours": null});
        assert_eq!(lines, [decision, preemption]);
    }
}
