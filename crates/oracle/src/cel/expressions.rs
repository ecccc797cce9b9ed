//! Random expressions.

use super::literals;
use super::productions::PRODUCTIONS;
use super::types::{Bindings, Type};
use crate::generate::Random;

/// Types that a letter can stand for.
const ANY: &[&str] = &[
    "bool",
    "int",
    "int",
    "uint",
    "double",
    "string",
    "string",
    "string",
    "bytes",
    "duration",
    "timestamp",
    "null",
    "type",
    "any",
    "any",
    "quantity",
    "semver",
    "url",
    "ip",
    "cidr",
    "format",
    "list(int)",
    "list(string)",
    "list(any)",
    "map(string, int)",
    "map(int, string)",
    "map(string, any)",
    "optional(int)",
    "optional(string)",
    "optional(any)",
];
const KEYS: &[&str] = &["string", "string", "int", "uint", "bool"];
const COMPARABLE: &[&str] = &["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];
const NUMBERS: &[&str] = &["int", "uint", "double"];
/// Parts of long expressions: the beginning, a part that is repeated, the middle, and another part that is repeated
/// equally often.
const LONG: &[(&str, &str, &str, &str)] = &[
    ("", "true && ", "device.driver == 'x'", ""),
    ("", "false || ", "device.driver == 'x'", ""),
    ("", "1 + ", "1 > 1", ""),
    ("1", " * 2 + 3", " > 1", ""),
    ("1", " - 1", " < 1", ""),
    ("", "(", "true", ")"),
    ("", "[", "", "] == []"),
    ("size(", "[", "", "]) == 1"),
    ("", "!", "true", ""),
    ("", "-", "1 == 1", ""),
    ("", "true ? ", "true", " : false"),
    ("", "true ? true : ", "false", ""),
    ("dyn({})", ".a", " == 1", ""),
    ("{}", ".?a", ".hasValue()", ""),
    ("dyn([])", "[0]", " == 1", ""),
    ("", "[1].map(x, ", "1", ") == []"),
    ("", "[1].exists(x, ", "true", ")"),
    ("", "cel.bind(x, true, ", "x", ")"),
    ("", "dyn(", "true", ")"),
    ("", "{'a': ", "1", "} == {}"),
    ("'a'", ".trim()", " == 'a'", ""),
    ("[", "1, ", "1].sum() > 3", ""),
    ("{", "'a': 1, ", "'b': 2}.size() == 2", ""),
    ("device.driver in [", "'a', ", "'b']", ""),
    ("optional.none()", ".or(optional.none())", ".hasValue()", ""),
    ("('a'", " + 'b'", ").size() > 3", ""),
    ("([]", " + [1]", ").size() > 3", ""),
    ("1 in ", "lists.range(", "3", ")"),
    ("(((((((((", "1 + (", "1", ") "),
];
/// Names of variables. Some of them already have another meaning.
const NAMES: &[&str] = &["x", "y", "e", "x", "y", "int", "device", "net", "_a", "__result__"];

/// Generates an expression.
#[derive(Debug)]
pub(super) struct Expressions<'r> {
    random: &'r mut Random,
    /// Expressions that read an attribute or a capacity of the first device, with their types.
    reads: Vec<(String, Type)>,
    /// Variables of macros that are in scope, with their types.
    variables: Vec<(String, Type)>,
    /// Percentage of parts whose type is not the expected one.
    wrong: usize,
}

impl<'r> Expressions<'r> {
    /// Creates a generator. See [`super::devices::Device::reads`] for `reads`.
    pub(super) fn new(random: &'r mut Random, reads: Vec<(String, Type)>) -> Self {
        let wrong = *random.pick(&[0, 0, 0, 1, 2, 5]);
        Self { random, reads, variables: Vec::new(), wrong }
    }

    /// Returns a whole expression.
    pub(super) fn whole(&mut self) -> String {
        if self.random.chance(1) {
            return self.long();
        }
        let depth = self.random.range(1, 5);
        let wanted = if self.random.chance(3) { self.letter("T") } else { Type::simple("bool") };
        self.expression(&wanted, depth)
    }

    /// Returns an expression with a part that is repeated many times, in most cases close to a limit of the parser.
    fn long(&mut self) -> String {
        let count = *self.random.pick(&[20, 60, 123, 124, 125, 126, 245, 248, 249, 250, 251, 300, 600]);
        let (beginning, repeated, middle, end) = *self.random.pick(LONG);
        format!("{beginning}{}{middle}{}", repeated.repeat(count), end.repeat(count))
    }

    fn letter(&mut self, letter: &str) -> Type {
        let choices = match letter {
            "K" => KEYS,
            "C" => COMPARABLE,
            "N" | "M" => NUMBERS,
            _ => ANY,
        };
        let name: &str = self.random.pick::<&str>(choices);
        Type::parse(name)
    }

    fn expression(&mut self, wanted: &Type, depth: usize) -> String {
        if self.random.chance(self.wrong) {
            let other = self.letter("T");
            return self.expression(&other, depth.saturating_sub(1));
        }
        let is_any = wanted.name == "any";
        if self.random.chance(2) {
            return format!("dyn({})", self.expression(wanted, depth.saturating_sub(1)));
        }
        if !is_any && self.random.chance(5) {
            return self.expression(&Type::simple("any"), depth.saturating_sub(1));
        }
        let readable: Vec<String> = self
            .variables
            .iter()
            .filter(|(_, of)| of == wanted || of.name == "any" || is_any)
            .map(|(name, _)| name.clone())
            .collect();
        if !readable.is_empty() && self.random.chance(45) {
            let name = self.random.pick(&readable).clone();
            // A leading dot skips the variables of macros as of Kubernetes 1.37.
            return if self.random.chance(2) { format!(".{name}") } else { name };
        }
        if self.random.chance(15)
            && let Some(read) = self.read(wanted)
        {
            return read;
        }
        if depth == 0 || self.random.chance(12) {
            return self.leaf(wanted);
        }
        let mut fitting = Vec::new();
        for (result, forms) in PRODUCTIONS {
            let mut bindings = Bindings::new();
            let fits_letter = *result != "list(C)"
                || COMPARABLE.iter().any(|name| wanted.params.first().is_some_and(|of| of.name == *name));
            if fits_letter && Type::parse(result).bind(wanted, &mut bindings) {
                fitting.extend(forms.iter().map(|form| (*form, bindings.clone())));
            }
        }
        if fitting.is_empty() {
            return self.leaf(wanted);
        }
        let (form, mut bindings) = self.random.pick(&fitting).clone();
        let count = self.variables.len();
        let text = self.fill(form, &mut bindings, depth - 1);
        self.variables.truncate(count);
        text
    }

    /// Replaces the parts of a form that begin with `$`, `@` or `#`.
    fn fill(&mut self, form: &str, bindings: &mut Bindings, depth: usize) -> String {
        let mut text = String::new();
        let mut rest = form;
        while let Some(at) = rest.find(['$', '@', '#']) {
            let (before, found) = rest.split_at(at);
            text.push_str(before);
            let (kind, found) = found.split_at(1);
            match kind {
                "$" => {
                    let end = closing(found);
                    let of = self.bound(&found[1..end], bindings);
                    rest = &found[end + 1..];
                    let part = self.expression(&of, depth);
                    let is_operand = rest.starts_with(['.', '[']) || text.ends_with(['-', '!']);
                    let chance = if is_operand { 97 } else { 50 };
                    if part.contains(' ') && !part.starts_with(['[', '{']) && self.random.chance(chance) {
                        text.push_str(&format!("({part})"));
                    } else {
                        text.push_str(&part);
                    }
                }
                "@" => {
                    let (name, of) = found.split_once(':').unwrap_or((found, "any"));
                    let mut nested = 0;
                    let end = of.find(|c| {
                        nested += i32::from(c == '(') - i32::from(c == ')');
                        c == ',' && nested == 0
                    });
                    let end = end.unwrap_or(of.len());
                    let bound = self.bound(&of[..end], bindings);
                    let name = match self.random.chance(20) {
                        true => (*self.random.pick(NAMES)).to_owned(),
                        false => name.to_owned(),
                    };
                    text.push_str(&name);
                    self.variables.push((name, bound));
                    rest = &of[end..];
                }
                _ => {
                    let end = found.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(found.len());
                    text.push_str(&literals::text(self.random, &found[..end]));
                    rest = &found[end..];
                }
            }
        }
        text.push_str(rest);
        text
    }

    /// Returns an expression that reads an attribute or a capacity of the wanted type, if the device has one.
    fn read(&mut self, wanted: &Type) -> Option<String> {
        let is_any = wanted.name == "any";
        let fitting: Vec<&String> = self
            .reads
            .iter()
            .filter(|(_, of)| of == wanted || is_any && of.name != "quantity")
            .map(|(read, _)| read)
            .collect();
        (!fitting.is_empty()).then(|| (*self.random.pick(&fitting)).clone())
    }

    fn bound(&mut self, text: &str, bindings: &mut Bindings) -> Type {
        let parsed = Type::parse(text);
        parsed.bound(bindings, &mut |letter| self.letter(letter))
    }

    fn leaf(&mut self, wanted: &Type) -> String {
        let kind = match wanted.name.as_str() {
            "list" => {
                let count = self.random.below(3);
                let elements: Vec<String> = (0..count).map(|_| self.leaf(&wanted.params[0])).collect();
                return format!("[{}]", elements.join(", "));
            }
            "map" => {
                let count = self.random.below(3);
                let entry =
                    |it: &mut Self| format!("{}: {}", it.leaf(&wanted.params[0]), it.leaf(&wanted.params[1]));
                let entries: Vec<String> = (0..count).map(|_| entry(self)).collect();
                return format!("{{{}}}", entries.join(", "));
            }
            "optional" => {
                return match self.random.chance(30) {
                    true => "optional.none()".to_owned(),
                    false => format!("optional.of({})", self.leaf(&wanted.params[0])),
                };
            }
            "any" => {
                if self.random.chance(80)
                    && let Some(read) = self.read(wanted)
                {
                    return read;
                }
                let form = "device.attributes[#domain].#id";
                return self.fill(form, &mut Bindings::new(), 0);
            }
            "quantity" | "semver" | "url" | "ip" | "cidr" => {
                let text = literals::text(self.random, &wanted.name);
                return format!("{}({text})", wanted.name);
            }
            "duration" => "durationcall",
            "timestamp" => "timestampcall",
            "format" => return format!("format.{}()", literals::text(self.random, "formatcall")),
            name => name,
        };
        literals::text(self.random, kind)
    }
}

/// Returns the position of the parenthesis that closes the first one.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    let found = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    found.unwrap_or(text.len() - 1)
}
