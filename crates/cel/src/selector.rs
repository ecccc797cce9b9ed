//! Selectors, the public interface of the crate.

use std::sync::Arc;

use harbormaster_api::Release;

use crate::{
    checker,
    device::Device,
    environment::Environment,
    errors::{CompileError, EvalError},
    eval, parser,
    plan::Node,
    planner,
    source::Source,
    stack::on_large_stack,
    validators,
};

/// Maximum cost of one evaluation (`CELSelectorExpressionMaxCost`).
pub const MAX_COST: u64 = 1_000_000;

/// Maximum number of bytes other than ASCII letters and digits in an expression that is compiled on the caller's stack.
/// Every level of nesting takes at least one such byte.
const FEW_SEPARATORS: usize = 64;
/// Depth of the deepest expressions that are evaluated on the caller's stack.
const SHALLOW: usize = 32;
/// Error if the system cannot create a thread with a large stack.
const NO_STACK: &str = "internal error: cannot create a thread for a deeply nested expression";

/// Release of Kubernetes, and feature gates that decide which fields and functions expressions can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Release whose types, functions, costs and errors are reproduced.
    pub release: Release,
    /// `DRAConsumableCapacity`: `device.allowMultipleAllocations`. Stored expressions can always read it.
    pub consumable_capacity: bool,
    /// `DRAListTypeAttributes`: attributes that are lists, and `includes`. Stored expressions can always call
    /// `includes`, and as of Kubernetes 1.37 always read lists.
    pub list_attributes: bool,
}

impl Features {
    /// The features that are on by default.
    #[must_use]
    pub fn of(release: Release) -> Self {
        Self { release, consumable_capacity: true, list_attributes: false }
    }
}

impl Default for Features {
    fn default() -> Self {
        Self::of(Release::default())
    }
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Selector {
    root: Arc<Node>,
    features: Features,
    /// True if the evaluation may need a large stack.
    is_deep: bool,
}

/// Result and cost of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// True if the device matches.
    pub result: Result<bool, EvalError>,
    /// Cost of the evaluation; `None` if it did not begin.
    pub cost: Option<u64>,
}

impl Selector {
    /// Compiles an expression that is stored, as kube-scheduler does.
    ///
    /// # Errors
    /// When the expression has a syntax error or a type error, or its result cannot be a boolean.
    pub fn compile(expression: &str, features: Features) -> Result<Self, CompileError> {
        Self::compile_in(expression, Environment::new(features, false), features)
    }

    /// Compiles an expression that is being created or changed, as the API server does. Rejects the fields and
    /// functions of features that are off.
    ///
    /// # Errors
    /// See [`Self::compile`].
    pub fn compile_new(expression: &str, features: Features) -> Result<Self, CompileError> {
        Self::compile_in(expression, Environment::new(features, true), features)
    }

    fn compile_in(
        expression: &str,
        environment: Environment,
        features: Features,
    ) -> Result<Self, CompileError> {
        let compile = || {
            let source = Source::new(expression);
            let mut parsed = parser::parse(&source)?;
            let checked = checker::check(&source, &mut parsed, environment)?;
            validators::validate(&source, &parsed.root, &checked, environment)?;
            let result = checked.type_of(parsed.root.id);
            if !environment.accepts(result) {
                let found = result.declared();
                let message = format!("must evaluate to bool or the unknown type, not {found}");
                return Err(CompileError::new(message));
            }
            let is_deep = parsed.root.depth() > SHALLOW;
            Ok(Self {
                root: Arc::new(planner::plan(&parsed.root, &checked, environment)?),
                features,
                is_deep,
            })
        };
        let separators = expression.bytes().filter(|byte| !byte.is_ascii_alphanumeric()).count();
        if separators <= FEW_SEPARATORS {
            return compile();
        }
        on_large_stack(compile).unwrap_or_else(|| Err(CompileError::new(NO_STACK)))
    }

    /// Returns true if the device matches.
    ///
    /// # Errors
    /// When the expression cannot be evaluated for the device, for example because an attribute is missing.
    pub fn matches(&self, device: &Device<'_>) -> Result<bool, EvalError> {
        self.evaluate(device, MAX_COST).result
    }

    /// Like [`Self::matches`], but with a given cost limit. Also returns the cost.
    pub fn evaluate(&self, device: &Device<'_>, limit: u64) -> Evaluation {
        let reads_lists = self.features.list_attributes || self.features.release >= Release::V1_37;
        if let Err(why) = device.check(reads_lists) {
            return Evaluation { result: Err(why), cost: None };
        }
        let evaluate = || eval::evaluate(&self.root, device, limit, self.features.release);
        let evaluated = if self.is_deep { on_large_stack(evaluate) } else { Some(evaluate()) };
        match evaluated {
            Some(evaluated) => Evaluation { result: evaluated.result, cost: Some(evaluated.cost) },
            None => Evaluation { result: Err(EvalError::new(NO_STACK)), cost: None },
        }
    }
}
