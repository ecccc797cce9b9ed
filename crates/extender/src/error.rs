//! Errors of authors' functions.

use std::fmt;

/// The error of a function, which the scheduler gets instead of an answer. `?` makes it from any error, [`Error::new`] from a
/// message.
///
/// If the protocol has a field `Error` (filter, bind), the scheduler gets the message, and kube-scheduler puts it into the pod's
/// `FailedScheduling` event. Otherwise the answer is HTTP 500, and the message is in the extender's log.
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

// `Error` is no `std::error::Error` itself, so that this does not overlap with `From<Error>`.
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
    fn an_error_tells_its_causes_once() {
        let cause = "x".parse::<u8>().unwrap_err();
        assert_eq!(
            Error::from(Outer(cause)).to_string(),
            "the size of the node: invalid digit found in string"
        );
        assert_eq!(Error::from(io::Error::other("gone")).to_string(), "gone");
        assert_eq!(format!("{:?}", Error::new("no")), "no");
    }
}
