//! Comparison of two API servers, the real one and another, by the same requests.
//!
//! A [`Script`] is a text file of kubectl commands and HTTP requests. A
//! [`Player`] runs it on one server and records the answers. [`compare`] compares
//! the answers of both line by line after [`normalise`] has replaced what differs
//! between any two clusters. [`ExpectedDifferences`] lists what must differ, and
//! why.

mod compare;
mod diff;
mod expected;
mod normalise;
mod player;
mod process;
mod script;

pub use compare::{compare, unused};
pub use expected::{ExpectedDifference, ExpectedDifferences};
pub use normalise::normalise;
pub use player::{Answer, Player};
pub use script::{Action, Request, Script, Step};
