//! Yoda: places pods by the GPUs that they request, card by card.
//!
//! A sniffer on every node reports the node's cards in an [`Scv`] object named after the node; labels on pods request
//! cards. The plugin [`Yoda`] finds nodes whose cards satisfy the request, prefers better cards, and keeps a ledger of
//! the cards that each pod holds. Labels, fields and formulas follow the Yoda scheduler of 2020/21.
//! `README.md` lists the differences between `mode: corrected` and `mode: literal`.
//!
//! Reading order: [`scv`] (reported cards), [`request`] (requested cards), [`cards`] (free memory, choice of cards),
//! [`ledger`] (cards held by pods), [`score`], [`literal`] (the original's arithmetic), [`plugin`] with [`hints`].
//! [`sniffer`] is the second program.
//!
//! Invariants: once a pod is bound, what it holds depends only on its labels and its annotation [`ledger::CARDS`], so a
//! restarted scheduler has the same information as the previous one. Labels, annotations and Scv objects are untrusted
//! input and never cause a panic.

pub mod args;
pub mod cards;
pub mod hints;
pub mod ledger;
pub mod literal;
pub mod plugin;
pub mod request;
pub mod score;
pub mod scv;
pub mod sniffer;

pub use args::{Args, Mode};
pub use plugin::Yoda;
pub use scv::{Card, Scv, ScvSpec, ScvStatus};
