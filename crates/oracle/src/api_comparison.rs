//! The same requests to two API servers: the real one and another.
//!
//! A [`Script`] is a text file of kubectl commands and HTTP requests. A
//! [`Player`] sends them to one server and keeps what comes back.
//! [`compare`] holds the answers of both against each other, line by line,
//! after [`normalise`] has taken out what differs between any two clusters.
//! [`Wanted`] lists what may differ, and why; what is listed must differ.

mod compare;
mod diff;
mod normalise;
mod player;
mod process;
mod script;
mod wanted;

pub use compare::{compare, unused};
pub use normalise::normalise;
pub use player::{Answer, Player};
pub use script::{Action, Request, Script, Step};
pub use wanted::{Difference, Wanted};
