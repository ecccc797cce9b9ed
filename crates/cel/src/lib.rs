//! CEL expressions that select devices, as Kubernetes evaluates them (KEP-4381).
//!
//! ```
//! use harbormaster_cel::{Attribute, Device, Features, Selector};
//!
//! let selector = Selector::compile(r#"device.attributes["gpu.example.com"].model == "a1""#, Features::default())?;
//! let attributes = [("model".into(), Attribute::String("a1".into()))];
//! let device = Device { driver: "gpu.example.com", attributes: &attributes, ..Device::default() };
//! assert!(selector.matches(&device)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading order: `selector` (the stages of compiling), `parser` and `ast`, `checker` and `types`, `functions`
//! (signatures) and `library` (operations), `planner` and `plan`, `eval` and `value`, `cost` and `meter`.
//!
//! Invariants: no input causes a panic or an endless evaluation; the same expression and device give the same result.

mod amount;
mod ast;
mod attribute;
mod checker;
mod cidr;
mod constant;
mod convert;
mod cost;
mod device;
mod environment;
mod equality;
mod errors;
mod eval;
mod fuel;
mod functions;
mod inference;
mod lexer;
mod library;
mod list;
mod literal;
mod macros;
mod map;
mod meter;
mod named_format;
mod number;
mod parser;
mod pattern;
mod plan;
mod planner;
mod printed;
mod scope;
mod selector;
mod semver;
mod signature;
mod sort;
mod source;
mod stack;
mod time;
mod token;
mod types;
mod url;
mod validators;
mod value;

pub use attribute::Attribute;
pub use device::Device;
pub use errors::{CompileError, EvalError};
pub use selector::{Evaluation, Features, MAX_COST, Selector};

#[cfg(test)]
mod tests;
