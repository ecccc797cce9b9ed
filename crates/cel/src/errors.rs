//! Errors of compilation and evaluation, with the texts of cel-go and Kubernetes.

use std::sync::Arc;

/// The reason why an expression cannot be compiled. Prints the words that kube-scheduler prints after
/// `CEL compile error: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(Arc<str>);

impl CompileError {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// An error from planning, which evaluates the constant parts of an expression.
    pub(crate) fn of_plan(text: &str) -> Self {
        Self::new(format!("program instantiation failed: {text}"))
    }
}

/// The reason why an evaluation failed. Prints the words that kube-scheduler prints after `CEL runtime error: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(Arc<str>);

impl EvalError {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }
}
