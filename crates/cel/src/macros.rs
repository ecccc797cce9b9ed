//! Macros: calls that are replaced by other expressions during parsing.

use crate::{
    ast::{Builder, Comprehension, Expr, Kind, Literal, Select},
    source::Offset,
};

/// Name of the accumulator of most comprehensions. Expressions cannot contain it.
const RESULT: &str = "@result";
/// Former name of the accumulator. The variables of macros must not have this name.
const OLD_RESULT: &str = "__result__";
/// Name of the variable of comprehensions over an empty list.
const UNUSED: &str = "#unused";
/// Name of the variable that holds the list that `sortBy` sorts.
const SORTED: &str = "@__sortBy_input__";

/// An error about an argument of a macro.
#[derive(Debug)]
pub(crate) struct MacroError {
    pub(crate) at: Offset,
    pub(crate) message: String,
}

type Expanded = Result<Expr, MacroError>;

/// Expands the call of a macro. Creates an ordinary call if no macro has this name and number of arguments.
pub(crate) fn expand(
    builder: &mut Builder,
    at: Offset,
    name: &str,
    target: Option<Expr>,
    mut args: Vec<Expr>,
) -> Expanded {
    let mut macros = Macros { builder, at };
    let Some(target) = target else {
        if name == "has" && args.len() == 1 {
            return macros.has(args.swap_remove(0));
        }
        return Ok(macros.builder.call(at, name, args));
    };
    match (name, args.len()) {
        ("all", 2 | 3) => macros.quantifier(Quantifier::All, target, args),
        ("exists", 2 | 3) => macros.quantifier(Quantifier::Exists, target, args),
        ("exists_one", 2 | 3) | ("existsOne", 3) => macros.quantifier(Quantifier::ExistsOne, target, args),
        ("map", 2 | 3) => macros.map(target, args),
        ("filter", 2) => macros.filter(target, args),
        ("transformList", 3 | 4) => macros.transform_list(target, args),
        ("transformMap", 3 | 4) => macros.transform_map(target, args, true),
        ("transformMapEntry", 3 | 4) => macros.transform_map(target, args, false),
        ("optMap", 2) => macros.opt_map(target, args, true),
        ("optFlatMap", 2) => macros.opt_map(target, args, false),
        ("bind", 3) if target.as_ident() == Some("cel") => macros.bind(args),
        ("sortBy", 2) => macros.sort_by(target, args),
        _ => Ok(macros.builder.member_call(at, name, target, args)),
    }
}

enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// Variables of a comprehension.
struct Variables {
    first: String,
    second: Option<String>,
}

struct Macros<'b> {
    builder: &'b mut Builder,
    /// Position of the call.
    at: Offset,
}

fn fail<V>(at: Offset, message: impl Into<String>) -> Result<V, MacroError> {
    Err(MacroError { at, message: message.into() })
}

impl Macros<'_> {
    fn literal(&mut self, literal: Literal) -> Expr {
        self.builder.literal(self.at, literal)
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.builder.ident(self.at, name)
    }

    fn result(&mut self) -> Expr {
        self.ident(RESULT)
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.builder.list(self.at, elements)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.builder.call(self.at, function, args)
    }

    fn comprehension(&mut self, parts: Comprehension) -> Expr {
        self.builder.expr(self.at, Kind::Comprehension(Box::new(parts)))
    }

    fn has(&mut self, arg: Expr) -> Expanded {
        match arg.kind {
            Kind::Select(select) => {
                let select = Select { is_test: true, ..*select };
                Ok(self.builder.expr(self.at, Kind::Select(Box::new(select))))
            }
            _ => fail(arg.at, "invalid argument to has() macro"),
        }
    }

    /// Removes the names of one or two variables from the start of the arguments. `wrong` is the message about an
    /// argument that is not a name.
    fn variables(
        &mut self,
        args: &mut Vec<Expr>,
        has_two: bool,
        wrong: &str,
    ) -> Result<Variables, MacroError> {
        let name = |arg: &Expr| match arg.as_ident() {
            Some(name) => Ok(name.to_owned()),
            None => fail(arg.at, wrong),
        };
        let rest = args.split_off(1 + usize::from(has_two));
        let named = std::mem::replace(args, rest);
        let first = name(&named[0])?;
        let second = match named.get(1) {
            Some(arg) => Some(name(arg)?),
            None => None,
        };
        if let (Some(arg), Some(name)) = (named.get(1), &second)
            && *name == first
        {
            return fail(arg.at, format!("duplicate variable name: {first}"));
        }
        for (arg, name) in named.iter().zip([Some(&first), second.as_ref()].into_iter().flatten()) {
            if name == RESULT || name == OLD_RESULT {
                return fail(arg.at, "iteration variable overwrites accumulator variable");
            }
        }
        Ok(Variables { first, second })
    }

    fn quantifier(&mut self, kind: Quantifier, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let has_two = args.len() == 3;
        let variables = self.variables(&mut args, has_two, "argument must be a simple name")?;
        let predicate = args.swap_remove(0);
        let (init, condition, step, result);
        match kind {
            Quantifier::All => {
                init = self.literal(Literal::Bool(true));
                let so_far = self.result();
                condition = self.call("@not_strictly_false", vec![so_far]);
                let so_far = self.result();
                step = self.call("_&&_", vec![so_far, predicate]);
                result = self.result();
            }
            Quantifier::Exists => {
                init = self.literal(Literal::Bool(false));
                let so_far = self.result();
                let negated = self.call("!_", vec![so_far]);
                condition = self.call("@not_strictly_false", vec![negated]);
                let so_far = self.result();
                step = self.call("_||_", vec![so_far, predicate]);
                result = self.result();
            }
            Quantifier::ExistsOne => {
                init = self.literal(Literal::Int(0));
                condition = self.literal(Literal::Bool(true));
                let (so_far, one) = (self.result(), self.literal(Literal::Int(1)));
                let more = self.call("_+_", vec![so_far, one]);
                let so_far = self.result();
                step = self.call("_?_:_", vec![predicate, more, so_far]);
                let (so_far, one) = (self.result(), self.literal(Literal::Int(1)));
                result = self.call("_==_", vec![so_far, one]);
            }
        }
        Ok(self.loop_over(target, variables, init, condition, step, result))
    }

    fn loop_over(
        &mut self,
        range: Expr,
        variables: Variables,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        self.comprehension(Comprehension {
            range,
            variable: variables.first,
            variable2: variables.second,
            accumulator: RESULT.to_owned(),
            init,
            condition,
            step,
            result,
        })
    }

    /// Creates a loop over all elements. `step` computes the accumulator for the elements that pass the filter, or for
    /// all elements if there is no filter.
    fn collect(
        &mut self,
        range: Expr,
        variables: Variables,
        filter: Option<Expr>,
        init: Expr,
        mut step: Expr,
    ) -> Expr {
        let condition = self.literal(Literal::Bool(true));
        if let Some(filter) = filter {
            let so_far = self.result();
            step = self.call("_?_:_", vec![filter, step, so_far]);
        }
        let result = self.result();
        self.loop_over(range, variables, init, condition, step, result)
    }

    /// Creates an expression that appends an element to the accumulator.
    fn append(&mut self, element: Expr) -> Expr {
        let (so_far, element) = (self.result(), self.list(vec![element]));
        self.call("_+_", vec![so_far, element])
    }

    fn map(&mut self, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let variables = self.variables(&mut args, false, "argument is not an identifier")?;
        let transform = args.pop();
        let filter = args.pop();
        let init = self.list(Vec::new());
        let Some(transform) = transform else { return fail(self.at, "argument is not an identifier") };
        let step = self.append(transform);
        Ok(self.collect(target, variables, filter, init, step))
    }

    fn filter(&mut self, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let element = args[0].clone();
        let variables = self.variables(&mut args, false, "argument is not an identifier")?;
        let init = self.list(Vec::new());
        let step = self.append(element);
        Ok(self.collect(target, variables, args.pop(), init, step))
    }

    fn transform_list(&mut self, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let variables = self.variables(&mut args, true, "argument must be a simple name")?;
        let transform = args.pop();
        let filter = args.pop();
        let init = self.list(Vec::new());
        let Some(transform) = transform else { return fail(self.at, "argument must be a simple name") };
        let step = self.append(transform);
        Ok(self.collect(target, variables, filter, init, step))
    }

    /// Expands `transformMap`, which keeps the keys, or `transformMapEntry`, which does not.
    fn transform_map(&mut self, target: Expr, mut args: Vec<Expr>, keeps_keys: bool) -> Expanded {
        let variables = self.variables(&mut args, true, "argument must be a simple name")?;
        let transform = args.pop();
        let filter = args.pop();
        let mut inserted = vec![self.result()];
        if keeps_keys {
            inserted.push(self.ident(&variables.first));
        }
        inserted.extend(transform);
        let step = self.call("cel.@mapInsert", inserted);
        let init = self.builder.expr(self.at, Kind::Map(Vec::new()));
        Ok(self.collect(target, variables, filter, init, step))
    }

    /// Creates an expression that evaluates `body` with a variable.
    fn with_variable(&mut self, name: &str, value: Expr, body: Expr) -> Expr {
        let (range, condition, step) =
            (self.list(Vec::new()), self.literal(Literal::Bool(false)), self.ident(name));
        self.comprehension(Comprehension {
            range,
            variable: UNUSED.to_owned(),
            variable2: None,
            accumulator: name.to_owned(),
            init: value,
            condition,
            step,
            result: body,
        })
    }

    fn bind(&mut self, args: Vec<Expr>) -> Expanded {
        let Ok([variable, value, body]) = <[Expr; 3]>::try_from(args) else {
            return fail(self.at, "cel.bind() needs three arguments");
        };
        match variable.as_ident() {
            Some(name) => Ok(self.with_variable(name, value, body)),
            None => fail(variable.at, "cel.bind() variable names must be simple identifiers"),
        }
    }

    /// Expands `optMap`, which wraps the result in an optional, or `optFlatMap`, which does not.
    fn opt_map(&mut self, target: Expr, args: Vec<Expr>, wraps: bool) -> Expanded {
        let macro_name = if wraps { "optMap" } else { "optFlatMap" };
        let Ok([variable, body]) = <[Expr; 2]>::try_from(args) else {
            return fail(self.at, format!("{macro_name}() needs two arguments"));
        };
        let Some(name) = variable.as_ident() else {
            return fail(variable.at, format!("{macro_name}() variable name must be a simple identifier"));
        };
        let copy = self.builder.copy(&target);
        let value = self.builder.member_call(self.at, "value", copy, Vec::new());
        let mut then = self.with_variable(name, value, body);
        if wraps {
            then = self.call("optional.of", vec![then]);
        }
        let has_value = self.builder.member_call(self.at, "hasValue", target, Vec::new());
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![has_value, then, none]))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expanded {
        if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct(..) | Kind::Broken) {
            let kinds = "a list, identifier, comprehension, call or select expression";
            return fail(target.at, format!("sortBy can only be applied to {kinds}"));
        }
        let input = self.ident(SORTED);
        let keys = self.map(input, args)?;
        let input = self.ident(SORTED);
        let sorted = self.builder.member_call(self.at, "@sortByAssociatedKeys", input, vec![keys]);
        Ok(self.with_variable(SORTED, target, sorted))
    }
}
