//! The page for a browser: nodes as boxes, their pods, and the pods that wait.
//!
//! Reading order: [`scene`] (the data), [`document`] (the HTML around it), then `page.html`, `page.css`, and
//! `page.js` with `charts.js` and `sections.js`.
//!
//! Invariants:
//! - the page loads nothing from anywhere, apart from the data of a live page, which come from the same server;
//! - names and messages are hostile: the script inserts them only as text, and the content security policy runs only
//!   the page's own script;
//! - the number of elements does not grow with the cluster: boxes are drawn on a canvas, and long tables have pages.

pub mod document;
pub mod scene;

pub use document::Document;
pub use scene::{Counters, Mark, Member, Node, PlacedPod, Scene, Section, Size, Total, WaitingRow};
