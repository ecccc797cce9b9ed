//! Evaluates compiled expressions.
//!
//! Errors are values until the end, because a loop or `&&` may ignore them. Only a fatal error, such as exceeding the
//! cost limit, ends the evaluation at once.

use harbormaster_api::Release;

use crate::{
    cost,
    device::{Device, NO_DEVICE},
    errors::EvalError,
    fuel::Fuel,
    functions::no_such_overload,
    list::List,
    map::{Entries, Key, Map},
    meter::Meter,
    plan::{
        Attribute, Base, Call, Element, Entry, Loop, Matching, MatchingKind, Membership, Message, Node,
        Qualifier, QualifierKey, Role, Target, Variable,
    },
    scope::Scope,
    value::{Error, Text, Traits, Value},
};

/// Result of an evaluation, with its cost.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) result: Result<bool, EvalError>,
    pub(crate) cost: u64,
}

/// Evaluates an expression for a device.
pub(crate) fn evaluate(node: &Node, device: &Device<'_>, limit: u64, release: Release) -> Evaluated {
    let evaluator = Evaluator { device, meter: Meter::new(limit), fuel: Fuel::new(release) };
    let result = evaluator.eval(node, None);
    let cost = evaluator.meter.cost();
    let result = match result {
        Value::Error(error) => Err(EvalError::new(error.text.as_str())),
        value => value.as_result().map_err(|why| {
            let of = value.type_name();
            EvalError::new(format!("CEL result of type {of} could not be converted to bool: {why}"))
        }),
    };
    Evaluated { result, cost }
}

/// Evaluates a part of an expression that reads neither the device nor variables of loops.
pub(crate) fn constant(node: &Node, release: Release) -> Value<'_> {
    Evaluator { device: &NO_DEVICE, meter: Meter::new(u64::MAX), fuel: Fuel::new(release) }.eval(node, None)
}

type Evaled<'a> = Result<Value<'a>, Error>;

/// The innermost loop around an expression, if there is one. The expression can read the variables of this loop and of
/// the loops around it.
type Scopes<'s, 'a> = Option<&'s Scope<'s, 'a>>;

struct Evaluator<'a> {
    device: &'a Device<'a>,
    meter: Meter,
    fuel: Fuel,
}

fn into_value(evaled: Evaled<'_>) -> Value<'_> {
    evaled.unwrap_or_else(Value::Error)
}

/// Returns the text of a string or type, or of one within an optional.
fn text_within<'a>(value: &Value<'a>) -> Option<Text<'a>> {
    match value {
        Value::String(text) | Value::Type(text) => Some(text.clone()),
        Value::Optional(Some(inner)) => text_within(inner),
        _ => None,
    }
}

fn is_fatal(value: &Value<'_>) -> bool {
    matches!(value, Value::Error(error) if error.is_fatal)
}

impl<'a> Evaluator<'a> {
    fn eval(&self, node: &'a Node, scope: Scopes<'_, 'a>) -> Value<'a> {
        match node {
            Node::Constant(constant) => constant.value(),
            Node::Attribute(attribute) => {
                let value = into_value(self.resolve(attribute, scope));
                if attribute.is_conditional() { value } else { self.meter.charge(1, value) }
            }
            Node::Has(attribute) => self.has(attribute, scope),
            Node::And(terms) => self.logic(terms, false, scope),
            Node::Or(terms) => self.logic(terms, true, scope),
            Node::Equals(both) => self.equality(both, false, scope),
            Node::NotEquals(both) => self.equality(both, true, scope),
            Node::Call(call) => self.call(call, scope),
            Node::Matching(matching) => self.matching(matching, scope),
            Node::Membership(membership) => self.membership(membership, scope),
            Node::OrOptional(both) => match self.eval(&both[0], scope) {
                Value::Optional(None) => self.eval(&both[1], scope),
                some @ Value::Optional(_) => some,
                other => self.without_optional(other),
            },
            Node::OrValue(both) => match self.eval(&both[0], scope) {
                Value::Optional(None) => self.eval(&both[1], scope),
                Value::Optional(Some(value)) => (*value).clone(),
                other => self.without_optional(other),
            },
            Node::List(elements) => self.meter.charge(cost::LIST, into_value(self.list(elements, scope))),
            Node::Map(entries) => self.meter.charge(cost::MAP, into_value(self.map(entries, scope))),
            Node::Message(message) => {
                self.meter.charge(cost::MESSAGE, Value::Error(self.message(message, scope)))
            }
            Node::Loop(node) => self.run_loop(node, scope),
        }
    }

    fn has(&self, attribute: &'a Attribute, scope: Scopes<'_, 'a>) -> Value<'a> {
        let value = match into_value(self.resolve(attribute, scope)) {
            Value::Optional(inner) => Value::Bool(inner.is_some()),
            other => other,
        };
        // cel-go's presence test subtracts 1, the cost of reading an attribute. Reading a conditional attribute
        // costs nothing, so its test costs -1.
        if attribute.is_conditional() { self.meter.charge(u64::MAX, value) } else { value }
    }

    /// Evaluates `&&` or `||`. If one operand has the value `decisive`, the other operand does not matter, unless a
    /// fatal error in the first operand ends the evaluation.
    fn logic(&self, terms: &'a [Node; 2], decisive: bool, scope: Scopes<'_, 'a>) -> Value<'a> {
        let mut error = None;
        for term in terms {
            match self.eval(term, scope) {
                Value::Bool(value) if value == decisive => return Value::Bool(decisive),
                Value::Bool(_) => {}
                other if is_fatal(&other) => return other,
                other => error = error.or(Some(other.or_no_overload())),
            }
        }
        error.unwrap_or(Value::Bool(!decisive))
    }

    /// Returns the result of `or` and `orValue` for a value that is not an optional. Before Kubernetes 1.37, this is the
    /// value itself.
    fn without_optional(&self, value: Value<'a>) -> Value<'a> {
        if self.fuel.is_since_1_37() { value.or_no_overload() } else { value }
    }

    fn equality(&self, both: &'a [Node; 2], is_negated: bool, scope: Scopes<'_, 'a>) -> Value<'a> {
        let left = self.eval(&both[0], scope);
        if is_fatal(&left) {
            return left;
        }
        let right = self.eval(&both[1], scope);
        if is_fatal(&right) {
            return right;
        }
        let cost = cost::of_equality(&left, &right, is_negated);
        let result = match (&left, &right) {
            (Value::Error(_), _) => left,
            (_, Value::Error(_)) => right,
            _ => match left.equals_or_null(&right, &self.fuel) {
                fatal if is_fatal(&fatal) => fatal,
                equal if is_negated => Value::Bool(!matches!(equal, Value::Bool(true))),
                equal => equal,
            },
        };
        self.meter.charge(cost, result)
    }

    fn list(&self, elements: &'a [Element], scope: Scopes<'_, 'a>) -> Evaled<'a> {
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            match self.eval(&element.value, scope) {
                Value::Error(error) => return Err(error),
                value if !element.is_optional => values.push(value),
                Value::Optional(None) => {}
                Value::Optional(Some(value)) => values.push((*value).clone()),
                other => {
                    let shown = other.go_print();
                    return Err(Error::new(format!(
                        "cannot initialize optional list element from non-optional value {shown}"
                    )));
                }
            }
        }
        Ok(Value::list(values))
    }

    fn map(&self, entries: &'a [Entry], scope: Scopes<'_, 'a>) -> Evaled<'a> {
        let mut map = Entries::default();
        for entry in entries {
            let key = match self.eval(&entry.key, scope) {
                Value::Error(error) => return Err(error),
                key => key,
            };
            match self.eval(&entry.value, scope) {
                Value::Error(error) => return Err(error),
                value if !entry.is_optional => map.set(key, value)?,
                Value::Optional(None) => map.remove(&key)?,
                Value::Optional(Some(value)) => map.set(key, (*value).clone())?,
                other => return Err(not_optional(&key.go_print(), &other)),
            }
        }
        Ok(map.into())
    }

    /// Evaluates the fields of a message. Returns the error of a field, or else the error that the type of the message
    /// is unknown.
    fn message(&self, message: &'a Message, scope: Scopes<'_, 'a>) -> Error {
        for field in &message.fields {
            match self.eval(&field.value, scope) {
                Value::Error(error) => return error,
                Value::Optional(_) => {}
                other if field.is_optional => return not_optional(&field.name, &other),
                _ => {}
            }
        }
        Error::new(format!("unknown type '{}'", message.name))
    }

    /// Evaluates the arguments of a call, and computes its result.
    ///
    /// An error in one argument can prevent the evaluation of the others. In that case, the error is the result, and
    /// the call costs nothing.
    fn with_args(
        &self,
        call: &'a Call,
        scope: Scopes<'_, 'a>,
        compute: impl FnOnce(&[Value<'a>]) -> Value<'a>,
    ) -> Value<'a> {
        match &*call.args {
            [only] => {
                let args = [self.eval(only, scope)];
                self.computed(call, &args, compute)
            }
            [first, second] => {
                let first = self.eval(first, scope);
                if is_fatal(&first) || call.stops_at_error && first.is_error() {
                    return first;
                }
                let args = [first, self.eval(second, scope)];
                self.computed(call, &args, compute)
            }
            nodes => {
                let mut args = Vec::with_capacity(nodes.len());
                for (at, node) in nodes.iter().enumerate() {
                    let value = self.eval(node, scope);
                    if is_fatal(&value) || value.is_error() && at + 1 < nodes.len() {
                        return value;
                    }
                    args.push(value);
                }
                self.computed(call, &args, compute)
            }
        }
    }

    fn computed(
        &self,
        call: &'a Call,
        args: &[Value<'a>],
        compute: impl FnOnce(&[Value<'a>]) -> Value<'a>,
    ) -> Value<'a> {
        if let Some(fatal) = args.iter().find(|arg| is_fatal(arg)) {
            return fatal.clone();
        }
        let error =
            args.iter().find(|arg| arg.is_error() && !matches!(call.target, Target::NotStrictlyFalse));
        let result = error.cloned().unwrap_or_else(|| compute(args));
        let cost = (call.cost)(args, &result, &self.fuel);
        if self.fuel.is_spent() {
            return Value::Error(Error::too_expensive());
        }
        match cost {
            Ok(cost) => self.meter.charge(cost, result),
            Err(error) => Value::Error(error),
        }
    }

    fn call(&self, call: &'a Call, scope: Scopes<'_, 'a>) -> Value<'a> {
        self.with_args(call, scope, |args| self.dispatched(call, args))
    }

    fn dispatched(&self, call: &'a Call, args: &[Value<'a>]) -> Value<'a> {
        let name = call.function.name;
        match call.target {
            Target::Overload(overload) if overload.fits(args) => (overload.op)(args, &self.fuel),
            Target::Overload(_) => no_such_overload(name, args),
            Target::Unguarded(overload) => (overload.op)(args, &self.fuel),
            Target::Dispatch => call.function.call(args, &self.fuel),
            Target::UnguardedDispatch => {
                match call.function.overloads.iter().find(|overload| overload.args.len() == args.len()) {
                    Some(overload) => (overload.op)(args, &self.fuel),
                    None => no_such_overload(name, args),
                }
            }
            Target::Single(op, traits) => match args.first().map_or(Traits::NONE, Value::traits) {
                found if found.contain(traits) => op(args, &self.fuel),
                found if found.contain(Traits::RECEIVER) => Value::no_overload(),
                _ => Value::error(format!("no such overload: {name}")),
            },
            Target::NotStrictlyFalse => match args.first() {
                Some(Value::Bool(value)) => Value::Bool(*value),
                _ => Value::Bool(true),
            },
        }
    }

    fn matching(&self, matching: &'a Matching, scope: Scopes<'_, 'a>) -> Value<'a> {
        self.with_args(&matching.call, scope, |args| {
            let Some(text) = args.first().and_then(text_within) else { return Value::no_overload() };
            let (text, pattern) = (text.as_str(), &matching.pattern);
            match (matching.kind, args.get(2)) {
                (MatchingKind::Matches, _) => Value::Bool(pattern.matches(text)),
                (MatchingKind::Find, _) => Value::string(pattern.find(text)),
                (MatchingKind::FindAll, None) => Value::strings(pattern.find_all(text, usize::MAX)),
                (MatchingKind::FindAll, Some(Value::Int(most))) => {
                    let most = usize::try_from(*most).unwrap_or(usize::MAX);
                    Value::strings(pattern.find_all(text, most))
                }
                (MatchingKind::FindAll, Some(_)) => Value::no_overload(),
            }
        })
    }

    fn membership(&self, membership: &'a Membership, scope: Scopes<'_, 'a>) -> Value<'a> {
        match self.eval(&membership.element, scope) {
            Value::Error(error) => Value::Error(error),
            Value::String(text) => Value::Bool(membership.strings.contains(text.as_str())),
            value => match Key::of(&value) {
                Ok(key) => Value::Bool(membership.others.contains(&key)),
                Err(error) => Value::Error(error),
            },
        }
    }

    fn run_loop(&self, node: &'a Loop, outer: Scopes<'_, 'a>) -> Value<'a> {
        let range = match self.eval(&node.range, outer) {
            Value::Error(error) => return Value::Error(error),
            range => range,
        };
        let scope = Scope::new(node, outer);
        let looped = match (&range, node.has_two_variables) {
            (Value::List(list), false) => {
                self.run_all(&scope, list.iter().map(|element| (element, Value::Null)))
            }
            (Value::List(list), true) => self.run_all(&scope, (0..).map(Value::Int).zip(list.iter())),
            (Value::Map(map), false) => {
                self.run_all(&scope, map.keys().into_iter().map(|key| (key, Value::Null)))
            }
            (Value::Map(map), true) => self.run_all(&scope, map.entries().into_iter()),
            (other, true) => {
                return Value::error(format!("unsupported comprehension range type: {}", other.go_type()));
            }
            (other, false) => {
                return Value::error(format!("got '{}', expected iterable type", other.go_type()));
            }
        };
        if let Err(fatal) = looped {
            return Value::Error(fatal);
        }
        match self.eval(&node.result, Some(&scope)) {
            Value::List(list) if scope.is_mutable.get() => Value::List(list.frozen()),
            Value::Map(map) if scope.is_mutable.get() => Value::Map(map.frozen()),
            other => other,
        }
    }

    /// Runs the steps of a loop. Fails only with fatal errors.
    fn run_all(
        &self,
        scope: &Scope<'_, 'a>,
        elements: impl Iterator<Item = (Value<'a>, Value<'a>)>,
    ) -> Result<(), Error> {
        for (first, second) in elements {
            self.fuel.spend(1)?;
            scope.first.replace(first);
            scope.second.replace(second);
            match self.eval(&scope.node.condition, Some(scope)) {
                Value::Bool(false) => break,
                Value::Error(error) if error.is_fatal => return Err(error),
                _ => {}
            }
            match self.eval(&scope.node.step, Some(scope)) {
                Value::Error(error) if error.is_fatal => return Err(error),
                next => scope.accumulator.replace(Some(next)),
            };
        }
        Ok(())
    }

    fn variable(&self, variable: Variable, scope: Scopes<'_, 'a>) -> Value<'a> {
        let Some(scope) = scope.and_then(|scope| scope.up(variable.up)) else { return Value::Null };
        match variable.role {
            Role::First => scope.first.borrow().clone(),
            Role::Second => scope.second.borrow().clone(),
            Role::Accumulator => {
                if let Some(value) = &*scope.accumulator.borrow() {
                    return value.clone();
                }
                let init = match self.eval(&scope.node.init, scope.outer) {
                    Value::List(list) if list.len() == 0 => Value::List(List::mutable()),
                    Value::Map(map) if map.size() == 0 => Value::Map(Map::mutable()),
                    other => other,
                };
                scope
                    .is_mutable
                    .set(matches!(init, Value::List(List::Mutable(_)) | Value::Map(Map::Mutable(_))));
                scope.accumulator.replace(Some(init.clone()));
                init
            }
        }
    }

    /// Returns the value of an attribute.
    fn resolve(&self, attribute: &'a Attribute, scope: Scopes<'_, 'a>) -> Evaled<'a> {
        let value = match &attribute.base {
            Base::Device => Value::Map(Map::Device(self.device)),
            Base::Variable(variable) => self.variable(*variable, scope),
            Base::Value(node) => self.eval(node, scope),
            Base::Conditional(both) => {
                return match self.eval(&both.condition, scope) {
                    Value::Bool(true) => self.resolve(&both.then, scope),
                    Value::Bool(false) => self.resolve(&both.otherwise, scope),
                    Value::Error(error) => Err(error),
                    _ => Err(Error::fixed(crate::value::NO_OVERLOAD)),
                };
            }
        };
        self.qualified(value, &attribute.qualifiers, scope)
    }

    fn qualified(
        &self,
        value: Value<'a>,
        qualifiers: &'a [std::sync::Arc<Qualifier>],
        scope: Scopes<'_, 'a>,
    ) -> Evaled<'a> {
        let (mut value, mut is_optional) = match value {
            Value::Error(error) => return Err(error),
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) if self.fuel.is_since_1_37() => ((*inner).clone(), true),
            Value::Optional(Some(inner)) => (inner.through_go(), true),
            value => (value, false),
        };
        for qualifier in qualifiers {
            is_optional |= qualifier.is_optional;
            let found = self.qualify(&value, &qualifier.key, is_optional, scope);
            match found {
                Err(error) if is_optional || error.is_fatal => return Err(error),
                Ok(None) => return Ok(Value::Optional(None)),
                found => {
                    self.meter.add(1)?;
                    if let Some(found) = found? {
                        value = found;
                    }
                }
            }
        }
        Ok(if is_optional { Value::optional(value) } else { value })
    }

    /// Returns a field, entry or element. A missing one is `None` if `is_optional`, and an error otherwise. A presence
    /// test that is not optional returns a boolean instead.
    fn qualify(
        &self,
        value: &Value<'a>,
        key: &'a QualifierKey,
        is_optional: bool,
        scope: Scopes<'_, 'a>,
    ) -> Result<Option<Value<'a>>, Error> {
        match key {
            QualifierKey::Constant(key) => select(value, &key.value(), is_optional),
            QualifierKey::Test(key) => {
                let found = select(value, &key.value(), true)?;
                Ok(if is_optional { found } else { Some(Value::Bool(found.is_some())) })
            }
            QualifierKey::Attribute(attribute) => {
                let key = self.resolve(attribute, scope)?;
                if !key.is_qualifier() {
                    let of = match &key {
                        Value::Map(Map::Device(_)) if attribute.can_be_device() => "map[string]interface {}",
                        key => key.go_type(),
                    };
                    return Err(Error::new(format!("invalid qualifier type: {of}")));
                }
                select(value, &key, is_optional)
            }
        }
    }
}

fn not_optional(name: &str, value: &Value<'_>) -> Error {
    let shown = value.go_print();
    Error::new(format!("cannot initialize optional entry '{name}' from non-optional value {shown}"))
}

/// Returns an entry of a map or an element of a list. See [`Evaluator::qualify`].
fn select<'a>(value: &Value<'a>, key: &Value<'a>, is_optional: bool) -> Result<Option<Value<'a>>, Error> {
    let missing = |what: &str| match is_optional {
        true => Ok(None),
        false => Err(Error::new(format!("{what}: {}", key.go_print()))),
    };
    match value {
        Value::Error(error) => Err(error.clone()),
        Value::Map(map) => match map.find(key)? {
            Some(Value::Error(error)) => Err(error),
            Some(found) => Ok(Some(found)),
            None => missing("no such key"),
        },
        Value::List(list) => match list.get(index_of(key)?) {
            Some(found) => Ok(Some(found)),
            None => missing("index out of bounds"),
        },
        _ => missing("no such key"),
    }
}

/// Converts a key to an index. A negative key becomes an index beyond the end of every list.
fn index_of(key: &Value<'_>) -> Result<usize, Error> {
    let unsupported = || Error::new(format!("unsupported index value {} in list", key.go_print()));
    let index = match key {
        Value::Int(index) => *index,
        Value::Uint(index) => i64::try_from(*index).map_err(|_| unsupported())?,
        Value::Double(index) => match crate::convert::double_to_int(*index) {
            Some(int) if int as f64 == *index => int,
            _ => return Err(unsupported()),
        },
        other => {
            return Err(Error::new(format!("unsupported index type '{}' in list", other.type_name())));
        }
    };
    Ok(usize::try_from(index).unwrap_or(usize::MAX))
}

impl Value<'_> {
    /// Converts the value to a boolean. `Err` contains the reason for a failure.
    fn as_result(&self) -> Result<bool, &str> {
        Err(match self {
            Self::Bool(value) => return Ok(*value),
            Self::Optional(Some(inner)) => return inner.as_result(),
            Self::Optional(None) => "optional.none() dereference",
            Self::Null => "type conversion error from 'null_type' to 'bool'",
            Self::Int(_) => "unsupported type conversion from 'int' to bool",
            Self::Uint(_) => "unsupported type conversion from 'uint' to bool",
            Self::Double(_) => "type conversion error from Double to 'bool'",
            Self::String(_) => "unsupported native conversion from string to 'bool'",
            Self::Bytes(_) => "type conversion error from Bytes to 'bool'",
            Self::Duration(_) => "type conversion error from 'Duration' to 'bool'",
            Self::Timestamp(_) => "type conversion error from 'Timestamp' to 'bool'",
            Self::List(_) => "type conversion error from list to 'bool'",
            Self::Map(_) => "type conversion error from map to 'bool'",
            Self::Type(_) => "type conversion not supported for 'type'",
            Self::Quantity(_) => "type conversion error from 'Quantity' to 'bool'",
            Self::Url(_) => "type conversion error from 'URL' to 'bool'",
            Self::Ip(_) => "type conversion error from 'IP' to 'bool'",
            Self::Cidr(_) => "type conversion error from 'CIDR' to 'bool'",
            Self::Format(_) => "type conversion error from 'Format' to 'bool'",
            Self::Semver(_) => "type conversion error from 'Semver' to 'bool'",
            Self::Error(error) => error.text.as_str(),
        })
    }
}
