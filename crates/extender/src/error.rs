//! Errors returned by the functions that serve verbs.

use std::fmt;

/// An error returned by a function that serves a verb. The scheduler receives the error instead of an answer. `?`
/// converts other error types into `Error`; [`Error::new`] creates an `Error` from a message.
///
/// If the verb's answer has an `Error` field (filter, bind), the scheduler receives the message in that field, and
/// kube-scheduler puts it into the pod's `FailedScheduling` event. Otherwise, the response has the HTTP status 500. The
/// extender logs the message in both cases.
pub struct Error(String);

impl Error {
    /// Returns an error with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// `Error` does not implement `std::error::Error`; otherwise, this impl would overlap with `impl From<T> for T`.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_message = cause.to_string();
            if !message.contains(&cause_message) {
                message = format!("{message}: {cause_message}");
            }
            source = cause.source();
        }
        Self(message)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, num::ParseIntError};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the size of the node")]
    struct Outer(#[source] ParseIntError);

    #[test]
    fn an_error_contains_each_cause_once() {
        let cause = "x".parse::<u8>().unwrap_err();
        assert_eq!(
            Error::from(Outer(cause)).to_string(),
            "the size of the node: invalid digit found in string"
        );
        assert_eq!(Error::from(io::Error::other("gone")).to_string(), "gone");
        assert_eq!(format!("{:?}", Error::new("no")), "no");
    }
}
