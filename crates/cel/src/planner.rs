//! Compiles checked expressions.
//!
//! The planner evaluates lists and maps of constants, and conversions of constants to other types. It also compiles
//! constant patterns. A failed conversion or an invalid pattern is a compile error.

use std::{collections::HashSet, sync::Arc};

use crate::{
    ast::{Call as CallExpr, Comprehension, Expr, Kind},
    checker::{Checked, Reference},
    constant::Constant,
    cost,
    environment::{DEVICE, Environment},
    errors::CompileError,
    eval,
    functions::{Binding, Function, Overload},
    map::Key,
    pattern::Pattern,
    plan::{
        Attribute, Base, Call, Conditional, Element, Entry, Field, Loop, Matching, MatchingKind, Membership,
        Message, Node, Qualifier, QualifierKey, Role, Target, Variable,
    },
    types::TypeKind,
    value::Value,
};

/// Functions that the planner evaluates if their only argument is a constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// Compiles a checked tree.
pub(crate) fn plan(root: &Expr, checked: &Checked, environment: Environment) -> Result<Node, CompileError> {
    Planner { checked, environment, scopes: Vec::new() }.plan(root)
}

type Planned<V = Node> = Result<V, CompileError>;

struct Planner<'c> {
    checked: &'c Checked,
    environment: Environment,
    /// Variables of loops, the innermost last.
    scopes: Vec<Scope>,
}

/// Variables of a loop.
struct Scope {
    accumulator: String,
    first: String,
    second: Option<String>,
    /// True while the result of the loop is planned. The result can read only the accumulator.
    is_result: bool,
}

fn fail<V>(text: &str) -> Planned<V> {
    Err(CompileError::of_plan(text))
}

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Planned {
        match &expr.kind {
            Kind::Literal(literal) => Ok(Node::Constant(Constant::of(&Value::of_literal(literal)))),
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select(select) => {
                let operand = self.plan(&select.operand)?;
                let mut attribute = Attribute::of(operand);
                let field = Constant::String(select.field.as_str().into());
                let key =
                    if select.is_test { QualifierKey::Test(field) } else { QualifierKey::Constant(field) };
                attribute.add(Arc::new(Qualifier { key, is_optional: false }));
                let attribute = Box::new(attribute);
                Ok(if select.is_test { Node::Has(attribute) } else { Node::Attribute(attribute) })
            }
            Kind::Call(call) => self.call(expr, call),
            Kind::List(elements) => {
                let elements = elements.iter().map(|element| {
                    Ok(Element { value: self.plan(&element.value)?, is_optional: element.is_optional })
                });
                let elements: Box<[Element]> = elements.collect::<Planned<_>>()?;
                let is_constant = elements.iter().all(|element| element.value.as_constant().is_some());
                self.folded(Node::List(elements), is_constant)
            }
            Kind::Map(entries) => {
                let entries = entries.iter().map(|entry| {
                    let key = self.plan(&entry.key)?;
                    Ok(Entry { key, value: self.plan(&entry.value)?, is_optional: entry.is_optional })
                });
                let entries: Box<[Entry]> = entries.collect::<Planned<_>>()?;
                let is_constant = |node: &Node| node.as_constant().is_some();
                let is_constant = entries.iter().all(|it| is_constant(&it.key) && is_constant(&it.value));
                self.folded(Node::Map(entries), is_constant)
            }
            Kind::Struct(name, fields) => {
                let fields = fields.iter().map(|field| {
                    let value = self.plan(&field.value)?;
                    Ok(Field { name: field.name.clone(), value, is_optional: field.is_optional })
                });
                let fields = fields.collect::<Planned<_>>()?;
                Ok(Node::Message(Box::new(Message { name: name.clone(), fields })))
            }
            Kind::Comprehension(loops) => self.comprehension(loops),
            Kind::Broken => fail("unsupported expression"),
        }
    }

    /// Evaluates a node if it is constant.
    fn folded(&self, node: Node, is_constant: bool) -> Planned {
        if !is_constant {
            return Ok(node);
        }
        let value = eval::constant(&node, self.environment.release());
        match &value {
            Value::Error(error) if error.is_fatal => Err(CompileError::new(error.text.as_str())),
            value => Ok(Node::Constant(Constant::of(value))),
        }
    }

    fn ident(&self, expr: &Expr, name: &str) -> Planned {
        if let Reference::Constant(value) = self.checked.reference(expr.id) {
            return Ok(Node::Constant(Constant::Int(*value)));
        }
        // Like cel-go, treats a variable whose value is a type as the name of a type.
        if self.checked.type_of(expr.id).kind() == TypeKind::Meta {
            return match Environment::is_value(name) {
                true => Ok(Node::Constant(Constant::Type(name.into()))),
                false => fail(&format!("reference to undefined type: {name}")),
            };
        }
        let base = match self.variable(name) {
            Some(variable) => Base::Variable(variable),
            None if name.trim_start_matches('.') == DEVICE => Base::Device,
            None => return fail(&format!("no such attribute(s): {name}")),
        };
        Ok(Node::Attribute(Box::new(Attribute::new(base))))
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        self.scopes.iter().rev().zip(0..).find_map(|(scope, up)| {
            let role = match () {
                () if scope.accumulator == name => Role::Accumulator,
                () if scope.is_result => return None,
                () if scope.first == name => Role::First,
                () if scope.second.as_deref() == Some(name) => Role::Second,
                () => return None,
            };
            Some(Variable { up, role })
        })
    }

    fn call(&mut self, expr: &Expr, call: &CallExpr) -> Planned {
        let args = call.target.iter().chain(&call.args);
        let args: Vec<Node> = args.map(|arg| self.plan(arg)).collect::<Planned<_>>()?;
        let overloads = self.checked.overloads(expr.id);
        let overload = match overloads {
            [only] => Some(*only),
            _ => None,
        };
        let args = match <[Node; 2]>::try_from(args) {
            Err(args) => args,
            Ok(both) => match call.function.as_str() {
                "_&&_" => return Ok(Node::And(Box::new(both))),
                "_||_" => return Ok(Node::Or(Box::new(both))),
                "_==_" => return Ok(Node::Equals(Box::new(both))),
                "_!=_" => return Ok(Node::NotEquals(Box::new(both))),
                "or" => return Ok(Node::OrOptional(Box::new(both))),
                "orValue" => return Ok(Node::OrValue(Box::new(both))),
                "_[_]" => return indexed(both, false),
                "_[?_]" | "_?._" => return indexed(both, true),
                _ => both.into(),
            },
        };
        let args = match <[Node; 3]>::try_from(args) {
            Ok([condition, then, otherwise]) if call.function == "_?_:_" => {
                let (then, otherwise) = (Attribute::of(then), Attribute::of(otherwise));
                let base = Base::Conditional(Box::new(Conditional { condition, then, otherwise }));
                return Ok(Node::Attribute(Box::new(Attribute::new(base))));
            }
            Ok(three) => three.into(),
            Err(args) => args,
        };
        let Some(function) = self.environment.function(&call.function) else {
            return fail(&format!("no such overload: {}()", call.function));
        };
        let call = resolved(function, overload, args);
        if overload.is_some_and(|overload| overload.id == "in_list") {
            return membership(call);
        }
        if let Some(kind) = matching_kind(function.name)
            && let Some(Node::Constant(Constant::String(text))) = call.args.get(1)
        {
            return match Pattern::new(text) {
                Ok(pattern) => {
                    let call = Call { stops_at_error: true, ..call };
                    Ok(Node::Matching(Box::new(Matching { call, kind, pattern })))
                }
                Err(why) => fail(&why),
            };
        }
        let is_conversion = CONVERSIONS.contains(&function.name)
            && matches!(&*call.args, [argument] if argument.as_constant().is_some());
        if !is_conversion {
            return Ok(Node::Call(Box::new(call)));
        }
        match self.folded(Node::Call(Box::new(call)), true)? {
            Node::Constant(Constant::Error(text)) => fail(&text),
            constant => Ok(constant),
        }
    }

    fn comprehension(&mut self, loops: &Comprehension) -> Planned {
        let init = self.plan(&loops.init)?;
        let range = self.plan(&loops.range)?;
        self.scopes.push(Scope {
            accumulator: loops.accumulator.clone(),
            first: loops.variable.clone(),
            second: loops.variable2.clone(),
            is_result: false,
        });
        let condition = self.plan(&loops.condition)?;
        let step = self.plan(&loops.step)?;
        if let Some(scope) = self.scopes.last_mut() {
            scope.is_result = true;
        }
        let result = self.plan(&loops.result)?;
        self.scopes.pop();
        let has_two_variables = loops.variable2.is_some();
        Ok(Node::Loop(Box::new(Loop { range, has_two_variables, init, condition, step, result })))
    }
}

/// Chooses the operation that computes a call.
fn resolved(function: &'static Function, overload: Option<&'static Overload>, args: Vec<Node>) -> Call {
    let mut stops_at_error = false;
    let target = match (function.binding, overload) {
        (Binding::Single(op, traits), _) => Target::Single(op, traits),
        (Binding::Evaluator, _) => Target::NotStrictlyFalse,
        (binding, overload) => {
            // If a function has only one overload, all calls use that overload.
            let only = match function.overloads {
                [only] => Some(only),
                _ => overload,
            };
            stops_at_error = only.is_none_or(|only| only.stops_at_error);
            match (binding, only) {
                (Binding::Unguarded, Some(only)) => Target::Unguarded(only),
                (_, Some(only)) => Target::Overload(only),
                (Binding::Unguarded, None) => Target::UnguardedDispatch,
                (_, None) => Target::Dispatch,
            }
        }
    };
    let cost = cost::of_call(function.name, overload.map_or("", |overload| overload.id), args.len());
    Call { function, target, args: args.into(), stops_at_error, cost }
}

fn matching_kind(function: &str) -> Option<MatchingKind> {
    Some(match function {
        "matches" => MatchingKind::Matches,
        "find" => MatchingKind::Find,
        "findAll" => MatchingKind::FindAll,
        _ => return None,
    })
}

fn indexed([operand, index]: [Node; 2], is_optional: bool) -> Planned {
    let key = match index {
        Node::Constant(constant) => {
            let value = constant.value();
            if !value.is_qualifier() {
                return fail(&format!("invalid qualifier type: {}", value.go_type()));
            }
            QualifierKey::Constant(constant)
        }
        other => QualifierKey::Attribute(Attribute::of(other)),
    };
    let mut attribute = Attribute::of(operand);
    attribute.add(Arc::new(Qualifier { key, is_optional }));
    Ok(Node::Attribute(Box::new(attribute)))
}

/// Turns a constant list into a set if all elements are strings, booleans or numbers.
fn membership(call: Call) -> Planned {
    let Some(Node::Constant(Constant::List(list))) = call.args.get(1) else {
        return Ok(Node::Call(Box::new(call)));
    };
    let elements = list.elements();
    if elements.is_empty() {
        return Ok(Node::Constant(Constant::Bool(false)));
    }
    let (mut strings, mut set) = (HashSet::new(), HashSet::new());
    for element in elements {
        let value = element.value();
        let others = match &value {
            Value::String(text) => {
                strings.insert(text.as_str().into());
                continue;
            }
            Value::Bool(_) => [None, None],
            Value::Int(_) => [Some(value.to_double()), Some(value.to_uint())],
            Value::Uint(_) => [Some(value.to_double()), Some(value.to_int())],
            Value::Double(number) => {
                let [int, uint] = [value.to_int(), value.to_uint()];
                let is_same = |other: &Value<'_>| match other {
                    Value::Int(other) => *other as f64 == *number,
                    Value::Uint(other) => *other as f64 == *number,
                    _ => false,
                };
                [Some(int).filter(is_same), Some(uint).filter(is_same)]
            }
            _ => return Ok(Node::Call(Box::new(call))),
        };
        for value in [Some(value.clone())].into_iter().chain(others).flatten() {
            set.extend(Key::of(&value).ok().filter(|key| *key != Key::Unique));
        }
    }
    let element = Vec::from(call.args).swap_remove(0);
    Ok(Node::Membership(Box::new(Membership { element, strings, others: set })))
}
