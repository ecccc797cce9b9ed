//! Reasons a workload of `scheduler_perf` cannot run.

use std::fmt;

/// The reason a workload cannot run here, and its place in the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Obstacle {
    /// The configuration file; empty until it is known, as are the other places.
    file: String,
    /// Test case, or `TEST CASE/WORKLOAD`.
    workload: String,
    /// Operation, such as `op 2 (createPods)`.
    op: String,
    field: String,
    problem: String,
}

impl Obstacle {
    /// Creates an obstacle without a place.
    pub(super) fn new(problem: impl Into<String>) -> Self {
        let [file, workload, op, field] = Default::default();
        Self { file, workload, op, field, problem: problem.into() }
    }

    pub(super) fn in_workload(self, file: &str, workload: &str) -> Self {
        Self { file: file.to_owned(), workload: workload.to_owned(), ..self }
    }

    /// Adds the operation. `index` counts from 0, as in the messages of `scheduler_perf`.
    pub(super) fn in_op(self, index: usize, opcode: &str) -> Self {
        Self { op: format!("op {index} ({opcode})"), ..self }
    }

    /// Adds the field, which may contain the field that is known already.
    pub(super) fn in_field(self, field: &str) -> Self {
        let field = if self.field.is_empty() { field.to_owned() } else { format!("{field}.{}", self.field) };
        Self { field, ..self }
    }

    /// Returns the test case or workload.
    pub(super) fn workload(&self) -> &str {
        &self.workload
    }

    /// Returns the reason without the file and the workload, for tables that name both.
    #[must_use]
    pub fn reason(&self) -> String {
        let field = if self.field.is_empty() { String::new() } else { format!("`{}`", self.field) };
        let place = [&self.op, &field].into_iter().filter(|part| !part.is_empty()).cloned();
        let place = place.collect::<Vec<_>>().join(", ");
        if place.is_empty() { self.problem.clone() } else { format!("{place}: {}", self.problem) }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file, self.workload, self.reason())
    }
}
