//! Yoda: places pods by the GPUs they ask for, down to the card.
//!
//! A sniffer on every node reports its cards in an [`Scv`] object named after the node; pods say with labels what they
//! want of cards. The plugin [`Yoda`] finds nodes whose cards satisfy that, prefers the better ones, and keeps a ledger of
//! which pod holds which card. Labels, fields and formulas are those of the Yoda scheduler of 2020/21; `README.md` says
//! where `mode: corrected` differs from `mode: literal`.
//!
//! Reading order: [`scv`] (what a node has), [`wish`] (what a pod wants), [`cards`] (what is left of cards, and which are
//! taken), [`ledger`] (who holds what), [`score`] (what cards are worth), [`literal`] (the original's arithmetic),
//! [`plugin`] with [`hints`] (all of it at the points of the framework). [`sniffer`] is the other program.
//!
//! Invariants: what a pod holds is told by its labels and its annotation [`ledger::CARDS`] alone once it is bound, so a
//! scheduler that starts knows as much as the one that ended. Labels, annotations and Scv objects come from outside:
//! whatever they say, nothing here panics.

pub mod args;
pub mod cards;
pub mod hints;
pub mod ledger;
pub mod literal;
pub mod plugin;
pub mod score;
pub mod scv;
pub mod sniffer;
pub mod wish;

pub use args::{Args, Mode};
pub use plugin::Yoda;
pub use scv::{Card, Scv, ScvSpec, ScvStatus};
