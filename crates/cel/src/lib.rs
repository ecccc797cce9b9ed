//! CEL expressions that select devices, as Kubernetes 1.36 evaluates them (KEP-4381).
//!
//! ```
//! use harbormaster_cel::{Attribute, Device, Features, Selector};
//!
//! let selector = Selector::compile(r#"device.attributes["gpu.example.com"].model == "a1""#, Features::default())?;
//! let attributes = [("model", Attribute::String("a1"))];
//! let device = Device { driver: "gpu.example.com", attributes: &attributes, ..Device::default() };
//! assert!(selector.matches(&device)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading order: `ast`, `lexer` and `parser` (text to tree, macros included), `types`, `functions` and `checker` (types
//! and overloads), `value` and `device` (what expressions read), `eval` with `library` (evaluation). `errors` prints
//! errors as cel-go does.
//!
//! Not everything of Kubernetes' environment is there: times, durations, URLs, IP addresses, formats, comprehensions
//! with two variables, and some functions of strings and lists are compile errors that say so. The text of a syntax
//! error differs from ANTLR's. The cost of an evaluation is counted in steps, which are close to cel-go's cost but
//! not the same.
//!
//! Invariants: no input causes a panic or an endless evaluation; the same expression and device give the same result.

mod ast;
mod checker;
mod device;
mod errors;
mod eval;
mod functions;
mod lexer;
mod library;
mod parser;
mod semver;
mod types;
mod value;

pub use device::{Attribute, Device};
pub use errors::{CompileError, EvalError};

/// Maximum cost of one evaluation (`CELSelectorExpressionMaxCost`).
const MAX_COST: u64 = 1_000_000;

/// Feature gates that decide what expressions can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `DRAConsumableCapacity`: `device.allowMultipleAllocations`.
    pub consumable_capacity: bool,
    /// `DRAListTypeAttributes`: attributes that are lists.
    pub list_attributes: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { consumable_capacity: true, list_attributes: false }
    }
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Selector {
    expression: ast::Expr,
    features: Features,
}

impl Selector {
    /// Compiles an expression.
    ///
    /// # Errors
    /// When the expression has a syntax error or a type error, or does not evaluate to a truth value.
    pub fn compile(expression: &str, features: Features) -> Result<Self, CompileError> {
        let parsed = parser::parse(expression)?;
        checker::check(expression, &parsed, features)?;
        Ok(Self { expression: parsed, features })
    }

    /// Returns true if the device matches.
    ///
    /// # Errors
    /// When the expression cannot be evaluated for the device, for example because an attribute is missing.
    pub fn matches(&self, device: &Device<'_>) -> Result<bool, EvalError> {
        device.check(self.features.list_attributes)?;
        eval::evaluate(&self.expression, device, MAX_COST)
    }
}

#[cfg(test)]
mod tests;
