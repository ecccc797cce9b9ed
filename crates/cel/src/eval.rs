//! Evaluation.

use crate::{
    ast::{Comprehension, Expr, Kind, Literal},
    device::Device,
    errors::EvalError,
    functions::Function,
    library,
    value::{NotAMap, Text, Value},
};

pub(crate) type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// Evaluates a selector for a device.
pub(crate) fn evaluate(expression: &Expr, device: &Device<'_>, max_cost: u64) -> Result<bool, EvalError> {
    let mut evaluation = Evaluation { device, variables: Vec::new(), cost: 0, max_cost };
    match evaluation.eval(expression)? {
        Value::Bool(result) => Ok(result),
        other => {
            let name = other.type_name();
            Err(EvalError::new(format!(
                "CEL result of type {name} could not be converted to bool: unsupported type conversion from '{name}' \
                 to bool"
            )))
        }
    }
}

struct Evaluation<'a, 'e> {
    device: &'a Device<'a>,
    /// Variables in scope, the innermost last.
    variables: Vec<(&'e str, Value<'a>)>,
    cost: u64,
    max_cost: u64,
}

impl<'a, 'e> Evaluation<'a, 'e> {
    /// Adds to the cost, which must stay within the limit.
    fn spend(&mut self, cost: usize) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        match self.cost > self.max_cost {
            true => Err(EvalError::new("operation cancelled: actual cost limit exceeded")),
            false => Ok(()),
        }
    }

    fn eval(&mut self, expression: &'e Expr) -> Evaluated<'a> {
        match &expression.kind {
            Kind::Literal(literal) => Ok(of_literal(literal)),
            Kind::Ident(name) => {
                self.spend(1)?;
                self.variable(name)
            }
            Kind::Select { operand, field, test, optional } => {
                let operand = self.eval(operand)?;
                self.spend(usize::from(!test))?;
                select(&operand, field, *test, *optional)
            }
            Kind::Call { function, target, args } => self.call(*function, target.as_deref(), args),
            Kind::Unknown { name, .. } => Err(EvalError::new(format!("no such overload: {name}"))),
            Kind::List(elements) => {
                let mut list = Vec::with_capacity(elements.len());
                for (element, is_optional) in elements {
                    let element = self.eval(element)?;
                    list.extend(if *is_optional { unwrapped(element)? } else { Some(element) });
                }
                self.spend(10)?;
                Ok(Value::list(list))
            }
            Kind::Map(entries) => {
                let mut map: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(entries.len());
                for (key, value, is_optional) in entries {
                    let (key, value) = (self.eval(key)?, self.eval(value)?);
                    let value = if *is_optional { unwrapped(value)? } else { Some(value) };
                    if map.iter().any(|(known, _)| known.equals(&key)) {
                        return Err(EvalError::new(format!("duplicate key: {}", library::printed(&key))));
                    }
                    map.extend(value.map(|value| (key, value)));
                }
                self.spend(30)?;
                Ok(Value::Map(map.into()))
            }
            Kind::Comprehension(looped) => self.comprehension(looped),
        }
    }

    fn variable(&self, name: &'e str) -> Evaluated<'a> {
        if let Some((_, value)) = self.variables.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        Ok(match name {
            "device" => Value::Device(self.device),
            "bool" => Value::Type("bool"),
            "int" => Value::Type("int"),
            "uint" => Value::Type("uint"),
            "double" => Value::Type("double"),
            "string" => Value::Type("string"),
            "bytes" => Value::Type("bytes"),
            "list" => Value::Type("list"),
            "map" => Value::Type("map"),
            "null_type" => Value::Type("null_type"),
            "type" => Value::Type("type"),
            _ => return Err(EvalError::new(format!("no such attribute(s): {name}"))),
        })
    }

    fn call(&mut self, function: Function, target: Option<&'e Expr>, args: &'e [Expr]) -> Evaluated<'a> {
        match (function, args) {
            (Function::And, [left, right]) => return self.logical(left, right, false),
            (Function::Or, [left, right]) => return self.logical(left, right, true),
            (Function::Conditional, [condition, then, otherwise]) => {
                return match self.eval(condition)? {
                    Value::Bool(true) => self.eval(then),
                    Value::Bool(false) => self.eval(otherwise),
                    _ => Err(EvalError::no_overload()),
                };
            }
            (Function::NotStrictlyFalse, [value]) => {
                return Ok(Value::Bool(!matches!(self.eval(value), Ok(Value::Bool(false)))));
            }
            (Function::OptionalOr, [other]) => return self.optional_or(target, other, false),
            (Function::OptionalOrValue, [other]) => return self.optional_or(target, other, true),
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for argument in target.into_iter().chain(args) {
            values.push(self.eval(argument)?);
        }
        self.spend(library::cost(function, &values))?;
        library::call(function, values)
    }

    /// `&&` and `||`. An operand that decides the result makes the other one irrelevant, even if that is an error.
    fn logical(&mut self, left: &'e Expr, right: &'e Expr, deciding: bool) -> Evaluated<'a> {
        let mut error = None;
        for operand in [left, right] {
            match self.eval(operand) {
                Ok(Value::Bool(value)) if value == deciding => return Ok(Value::Bool(deciding)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or(Some(EvalError::no_overload())),
                Err(why) if self.cost > self.max_cost => return Err(why),
                Err(why) => error = error.or(Some(why)),
            }
        }
        error.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    /// `or` and `orValue`, which evaluate the alternative only if there is no value.
    fn optional_or(&mut self, target: Option<&'e Expr>, other: &'e Expr, unwraps: bool) -> Evaluated<'a> {
        let Some(target) = target else { return Err(EvalError::no_overload()) };
        match self.eval(target)? {
            Value::Optional(Some(value)) if unwraps => Ok((*value).clone()),
            Value::Optional(Some(value)) => Ok(Value::Optional(Some(value))),
            Value::Optional(None) => self.eval(other),
            _ => Err(EvalError::no_overload()),
        }
    }

    fn comprehension(&mut self, looped: &'e Comprehension) -> Evaluated<'a> {
        let range = self.eval(&looped.range)?;
        let elements = match &range {
            Value::List(elements) => elements.to_vec(),
            other => other.keys().ok_or_else(EvalError::no_overload)?,
        };
        let init = self.eval(&looped.init)?;
        let outer = self.variables.len();
        self.variables.push((&looped.accumulator, init));
        for element in elements {
            self.variables.push((&looped.variable, element));
            let step = self.step(looped);
            self.variables.truncate(outer + 1);
            match step? {
                Some(value) => self.variables[outer].1 = value,
                None => break,
            }
        }
        let result = self.eval(&looped.result);
        self.variables.truncate(outer);
        result
    }

    /// Runs the loop once. Returns the new value of the accumulator; `None` if the condition ends the loop.
    fn step(&mut self, looped: &'e Comprehension) -> Result<Option<Value<'a>>, EvalError> {
        match self.eval(&looped.condition)? {
            Value::Bool(false) => Ok(None),
            _ => self.eval(&looped.step).map(Some),
        }
    }
}

fn of_literal<'a>(literal: &Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::string(text.as_str()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

/// Returns the value of an optional element; `None` if it is empty.
fn unwrapped(element: Value<'_>) -> Result<Option<Value<'_>>, EvalError> {
    match element {
        Value::Optional(value) => Ok(value.map(|value| (*value).clone())),
        _ => Err(EvalError::no_overload()),
    }
}

fn select<'a>(operand: &Value<'a>, field: &str, test: bool, optional: bool) -> Evaluated<'a> {
    let (operand, is_optional) = match operand {
        Value::Optional(Some(value)) => (&**value, true),
        Value::Optional(None) if test => return Ok(Value::Bool(false)),
        Value::Optional(None) => return Ok(Value::optional(None)),
        other => (other, optional),
    };
    let key = Value::String(Text::Shared(field.into()));
    if test {
        return operand.has_key(&key).map(Value::Bool).map_err(|NotAMap| EvalError::no_overload());
    }
    let found = operand.entry(&key).map_err(|NotAMap| EvalError::no_overload())?;
    match (found, is_optional) {
        (found, true) => Ok(Value::optional(found)),
        (Some(found), false) => Ok(found),
        (None, false) => Err(EvalError::new(format!("no such key: {field}"))),
    }
}
