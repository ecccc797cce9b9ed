//! Comparison of the real API server with another one, made by sending the same requests to both.
//!
//! A [`Script`] is a text file of kubectl commands and HTTP requests. A [`Player`] runs it on one server and records
//! the answers. [`compare`] compares the answers of both servers line by line, after [`normalise`] has replaced the
//! values that differ between any two clusters. [`ExpectedDifferences`] lists the lines that must differ, with the
//! reasons.

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
