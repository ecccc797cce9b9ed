//! The function `format`, and the reader of format strings that it shares with the validator.
//!
//! As in Kubernetes, two clauses write numbers in the American style: `%f` puts commas between groups of digits, and
//! `%e` writes a power of ten.

use std::fmt::Write;

use crate::{
    fuel::{Fuel, LARGEST},
    list::List,
    map::Map,
    number,
    printed::quoted,
    value::{Error, Value},
};

/// A clause of a format, which stands for an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Text,
    Decimal,
    /// A number with this many digits after the decimal point; `None` for the usual number of digits.
    Fixed(Option<u64>),
    /// A number with a power of ten. The value is the precision in the clause, which is used as the width.
    Scientific(Option<u64>),
    Binary,
    Hex {
        is_upper: bool,
    },
    Octal,
}

/// Reason why a text cannot be formatted.
#[derive(Debug)]
pub(crate) enum FormatError<E> {
    Text(String),
    /// An argument that does not fit its clause.
    Argument(E),
}

const TEXT: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                    durations, and timestamps, was given";
const USUAL_PRECISION: u64 = 6;

impl Clause {
    /// Text of the error for an argument of the wrong type.
    pub(crate) fn misfit(self, type_name: &str) -> String {
        let requirement = match self {
            Self::Text => TEXT,
            Self::Decimal => "decimal clause can only be used on integers, was given",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles, was given",
            Self::Scientific(_) => "scientific clause can only be used on doubles, was given",
            Self::Binary => "only integers and bools can be formatted as binary, was given",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex, was given",
            Self::Octal => "octal clause can only be used on integers, was given",
        };
        format!("{requirement} {type_name}")
    }

    /// Reads a clause after its percent sign, and returns its length.
    fn read(text: &[u8]) -> Result<(Self, usize), String> {
        let mut precision = None;
        let mut at = 0;
        if text.first() == Some(&b'.') {
            let digits = text[1..].iter().take_while(|c| c.is_ascii_digit()).count();
            at = digits + 1;
            let precision_error = |why: String| Err(format!("error while parsing precision: {why}"));
            if at >= text.len() {
                return precision_error("could not find end of precision specifier".to_owned());
            }
            let digits = String::from_utf8_lossy(&text[1..at]);
            precision = match digits.parse::<u64>().ok().filter(|it| *it <= i64::MAX as u64) {
                Some(precision) => Some(precision),
                None => {
                    let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                    let parsing = format!("strconv.Atoi: parsing {}: {why}", quoted(&digits));
                    return precision_error(format!(
                        "error while converting precision to integer: {parsing}"
                    ));
                }
            };
        }
        let kind = text.get(at).copied().unwrap_or_default();
        let clause = match kind {
            b's' => Self::Text,
            b'd' => Self::Decimal,
            b'f' => Self::Fixed(precision),
            b'e' => Self::Scientific(precision),
            b'b' => Self::Binary,
            b'x' => Self::Hex { is_upper: false },
            b'X' => Self::Hex { is_upper: true },
            b'o' => Self::Octal,
            other => return Err(format!("unrecognized formatting clause \"{}\"", char::from(other))),
        };
        Ok((clause, at + 1))
    }
}

/// Reads a format. `count` is the number of arguments, and `write` appends the argument with the given index.
///
/// If the format ends after a percent sign and no argument is left, the error during evaluation (`is_running`) is about
/// the missing argument, and the error during compilation is about the early end.
///
/// Returns the text, and the number of arguments that the format used.
pub(crate) fn read<E>(
    text: &str,
    count: usize,
    is_running: bool,
    mut write: impl FnMut(Clause, usize, &mut Vec<u8>) -> Result<(), E>,
) -> Result<(String, usize), FormatError<E>> {
    let fail = |why: String| Err(FormatError::Text(why));
    let bytes = text.as_bytes();
    let (mut at, mut argument) = (0, 0);
    let mut into = Vec::new();
    while let Some(c) = bytes.get(at) {
        at += 1;
        if *c != b'%' {
            into.push(*c);
            continue;
        }
        if bytes.get(at) == Some(&b'%') {
            at += 1;
            into.push(b'%');
            continue;
        }
        let is_missing = argument >= count;
        if at >= bytes.len() && !(is_missing && is_running) {
            return fail("unexpected end of string".to_owned());
        }
        if is_missing {
            return fail(format!("index {argument} out of range"));
        }
        let (clause, length) = match Clause::read(&bytes[at..]) {
            Ok(found) => found,
            Err(why) => return fail(format!("could not parse formatting clause: {why}")),
        };
        write(clause, argument, &mut into).map_err(FormatError::Argument)?;
        at += length;
        argument += 1;
    }
    Ok((String::from_utf8_lossy(&into).into_owned(), argument))
}

pub(crate) fn format<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let Some(list) = args[1].as_list() else { return Value::no_overload() };
    let result = read(super::text(args, 0), list.len(), true, |clause, at, into| {
        let Some(arg) = list.get(at) else { return Ok(()) };
        let writer = Writer { fuel };
        let text = writer.clause(clause, &arg)?;
        if into.len() + text.len() > LARGEST {
            return Err(Error::too_expensive());
        }
        into.extend_from_slice(text.as_bytes());
        Ok(())
    });
    match result {
        Ok((text, _)) => Value::string(text),
        Err(FormatError::Text(why)) => Value::error(why),
        Err(FormatError::Argument(error)) if error.is_fatal => Value::Error(error),
        Err(FormatError::Argument(error)) => {
            Value::error(format!("error during formatting: {}", error.text.as_str()))
        }
    }
}

type Written = Result<String, Error>;

struct Writer<'f> {
    fuel: &'f Fuel,
}

impl Writer<'_> {
    fn clause(&self, clause: Clause, arg: &Value<'_>) -> Written {
        let misfit = || Err(Error::new(clause.misfit(arg.type_name())));
        Ok(match (clause, arg) {
            (Clause::Text, arg) => return self.text(arg),
            (Clause::Decimal, Value::Int(value)) => value.to_string(),
            (Clause::Decimal, Value::Uint(value)) => value.to_string(),
            (Clause::Fixed(precision), arg) => match double(arg) {
                Some(value) => fixed(value, precision.unwrap_or(USUAL_PRECISION)),
                None => return misfit(),
            },
            (Clause::Scientific(width), arg) => match double(arg) {
                Some(value) => scientific(value, width.unwrap_or(USUAL_PRECISION)),
                None => return misfit(),
            },
            (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
            (Clause::Binary, Value::Int(value)) => signed(*value, format!("{:b}", value.unsigned_abs())),
            (Clause::Binary, Value::Uint(value)) => format!("{value:b}"),
            (Clause::Octal, Value::Int(value)) => signed(*value, format!("{:o}", value.unsigned_abs())),
            (Clause::Octal, Value::Uint(value)) => format!("{value:o}"),
            (Clause::Hex { is_upper }, arg) => {
                let lower = match arg {
                    Value::Int(value) => signed(*value, format!("{:x}", value.unsigned_abs())),
                    Value::Uint(value) => format!("{value:x}"),
                    Value::String(text) => hex(text.as_str().as_bytes()),
                    Value::Bytes(bytes) => hex(bytes),
                    _ => return misfit(),
                };
                if is_upper { lower.to_ascii_uppercase() } else { lower }
            }
            _ => return misfit(),
        })
    }

    fn text(&self, arg: &Value<'_>) -> Written {
        match arg {
            Value::List(list) => self.list(list),
            Value::Map(map) => self.map(map),
            Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Bool(_)
            | Value::String(_)
            | Value::Timestamp(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Type(_)
            | Value::Null => match arg.to_text() {
                Value::Error(error) => {
                    let shown = quoted(error.text.as_str());
                    Err(Error::new(format!("could not convert argument {shown} to string")))
                }
                text => Ok(text.text().unwrap_or_default().to_owned()),
            },
            _ => Err(Error::new(Clause::Text.misfit(arg.type_name()))),
        }
    }

    /// Writes an element of a list, or a key or value of a map.
    fn inner(&self, value: &Value<'_>) -> Written {
        self.fuel.spend(1)?;
        Ok(match value {
            Value::Timestamp(time) => format!("timestamp({})", quoted(&time.print())),
            Value::Duration(_) => format!("duration({})", quoted(&self.text(value)?)),
            Value::Double(number) => {
                let text = number::print_fixed(*number, USUAL_PRECISION as usize);
                if number.is_finite() { text } else { quoted(&text) }
            }
            Value::String(text) => quoted(text.as_str()),
            Value::Bytes(_) => format!("b{}", quoted(&self.text(value)?)),
            Value::Quantity(_)
            | Value::Url(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Semver(_)
            | Value::Optional(_)
            | Value::Error(_) => {
                return Err(Error::new(format!("no formatting function for {}", value.type_name())));
            }
            other => self.text(other)?,
        })
    }

    fn list(&self, list: &List<'_>) -> Written {
        let mut text = String::from("[");
        for (at, element) in list.iter().enumerate() {
            if at > 0 {
                text.push_str(", ");
            }
            text.push_str(&self.inner(&element)?);
            if text.len() > LARGEST {
                return Err(Error::too_expensive());
            }
        }
        text.push(']');
        Ok(text)
    }

    fn map(&self, map: &Map<'_>) -> Written {
        let mut pairs = Vec::with_capacity(map.size());
        for (key, value) in map.entries() {
            let key = match key {
                Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => self.inner(&key)?,
                other => {
                    let why = format!("no formatting function for map key of type {}", other.type_name());
                    return Err(Error::new(why));
                }
            };
            pairs.push((key, self.inner(&value)?));
            if pairs.len() > map.size() {
                return Err(Error::internal(&format!(
                    "index out of range [{0}] with length {0}",
                    map.size()
                )));
            }
        }
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
        Ok(format!("{{{}}}", pairs.join(", ")))
    }
}

fn signed(value: i64, digits: String) -> String {
    if value < 0 { format!("-{digits}") } else { digits }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns a number, or the special value (NaN or an infinity) that a string names.
fn double(arg: &Value<'_>) -> Option<f64> {
    match arg {
        Value::Double(value) => Some(*value),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Go's output if the precision or width is too large.
const TOO_LARGE: &str = "%!(NOVERB)";

fn is_too_large(number: u64) -> bool {
    number / 10 > 1_000_000
}

fn special(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// Writes a number with digits after the point. Like Go, keeps only the low bits of a large precision.
fn fixed(value: f64, precision: u64) -> String {
    if is_too_large(precision) {
        return TOO_LARGE.to_owned();
    }
    if let Some(special) = special(value) {
        return special.to_owned();
    }
    let least = usize::from(precision as u8);
    let size = value.abs();
    let digits = match usize::try_from(precision as i16) {
        Ok(most) => format!("{size:.most$}"),
        Err(_) => number::print_positional(size),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let fraction = format!("{:0<least$}", fraction.trim_end_matches('0'));
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    number::push_grouped(whole, &mut text);
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(&fraction);
    }
    text
}

/// Writes a number with a power of ten. The precision of the clause is used as the width, as in Go.
fn scientific(value: f64, width: u64) -> String {
    if is_too_large(width) {
        return TOO_LARGE.to_owned();
    }
    let width = usize::from(width as u16);
    if let Some(special) = special(value) {
        return format!("{special:>width$}");
    }
    let (digits, exponent) = number::scientific(value.abs(), USUAL_PRECISION as usize);
    let raised = |c: char| match c {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4'..='9' => char::from_u32('⁰' as u32 + c as u32 - '0' as u32).unwrap_or(c),
        _ => '⁰',
    };
    let sign = if value < 0.0 { "-" } else { "" };
    let exponent_sign = if exponent < 0 { "⁻" } else { "" };
    let exponent: String = format!("{:02}", exponent.unsigned_abs()).chars().map(raised).collect();
    format!("{:>width$}", format!("{sign}{digits}×10{exponent_sign}{exponent}"))
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Release;

    use super::*;

    fn formatted(format_text: &str, args: Vec<Value<'static>>) -> String {
        format(&[Value::string(format_text), Value::list(args)], &Fuel::new(Release::V1_36)).go_print()
    }

    #[test]
    fn clauses_write_arguments() {
        for (text, arg, expected) in [
            ("%s!", Value::string("a"), "a!"),
            ("100%% %d", Value::Int(-5), "100% -5"),
            ("%f", Value::Double(1_234_567.5), "1,234,567.500000"),
            ("%.1f", Value::Double(-0.01), "-0.0"),
            ("%.256f", Value::Double(1.5), "1.5"),
            ("%e", Value::Double(-0.000_25), "-2.500000×10⁻⁰⁴"),
            ("%.15e", Value::Double(1e300), " 1.000000×10³⁰⁰"),
            ("%e", Value::string("Infinity"), "     ∞"),
            ("%b", Value::Int(-5), "-101"),
            ("%X", Value::string("az"), "617A"),
            ("%o", Value::Uint(8), "10"),
            (
                "%s",
                Value::list(vec![Value::Double(1.5), Value::string("x"), Value::Null]),
                "[1.500000, \"x\", null]",
            ),
            ("%s", Value::Duration(3_600_000_000_000), "3600s"),
            ("%s", Value::list(vec![Value::Duration(1_000_000_000)]), "[duration(\"1s\")]"),
        ] {
            assert_eq!(formatted(text, vec![arg]), expected, "{text}");
        }
    }

    #[test]
    fn wrong_clauses_and_arguments_are_errors() {
        for (text, expected) in [
            ("%s %s", "index 1 out of range"),
            ("%", "unexpected end of string"),
            ("%q", "could not parse formatting clause: unrecognized formatting clause \"q\""),
            ("%d", "error during formatting: decimal clause can only be used on integers, was given bool"),
            (
                "%.3",
                "could not parse formatting clause: error while parsing precision: could not find end of precision \
                 specifier",
            ),
        ] {
            assert_eq!(formatted(text, vec![Value::Bool(true)]), expected);
        }
    }
}
