//! Equality and order of values.

use std::cmp::Ordering;

use crate::{fuel::Fuel, value::Value};

/// Text of the error for comparisons with NaN.
const UNORDERED: &str = "NaN values cannot be ordered";
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

impl<'a> Value<'a> {
    /// Compares as `==` does. If this value has one of Kubernetes' own types, the result is an error for a value of
    /// another type and for a computed quantity, but false for null.
    pub(crate) fn equals_or_null(&self, other: &Value<'a>, fuel: &Fuel) -> Value<'a> {
        match (self, other) {
            (Self::Null, other) => Self::Bool(matches!(other, Self::Null)),
            (_, Self::Null) => Self::Bool(false),
            _ => self.equals(other, fuel),
        }
    }

    /// Like [`Self::equals_or_null`], but if this value has one of Kubernetes' own types, the result is also an error
    /// for null.
    pub(crate) fn equals(&self, other: &Value<'a>, fuel: &Fuel) -> Value<'a> {
        if let Err(error) = fuel.spend(1) {
            return Self::Error(error);
        }
        let is_equal = match (self, other) {
            (Self::Null, other) => matches!(other, Self::Null),
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => a.as_str() == b.as_str(),
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a.instant() == b.instant(),
            (Self::Type(a), Self::Type(b)) => a.as_str() == b.as_str(),
            (Self::List(a), Self::List(b)) => return a.equals(b, fuel),
            (Self::Map(a), Self::Map(b)) => return a.equals(b, fuel),
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => return a.equals(b, fuel),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Self::Quantity(a), Self::Quantity(b)) if !b.is_computed => {
                a.amount().compare(&b.amount()) == Ordering::Equal
            }
            (Self::Url(a), Self::Url(b)) => a.to_string() == b.to_string(),
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Format(a), Self::Format(b)) => a.name == b.name,
            (Self::Semver(a), Self::Semver(b)) => a.compare(b) == Ordering::Equal,
            (Self::Error(_), _) => return self.clone(),
            (
                Self::Quantity(_)
                | Self::Url(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Format(_)
                | Self::Semver(_),
                other,
            ) => return other.clone().or_no_overload(),
            (a, b) => matches!(compare_numbers(a, b), Some(Some(Ordering::Equal))),
        };
        Self::Bool(is_equal)
    }

    /// Returns the order of two values, or an error if they have none.
    pub(crate) fn compare(&self, other: &Value<'a>) -> Result<Ordering, Value<'a>> {
        Ok(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.as_str().cmp(b.as_str()),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Duration(a), Self::Duration(b)) => a.cmp(b),
            (Self::Timestamp(a), Self::Timestamp(b)) => a.instant().cmp(&b.instant()),
            // NaN has no order, whatever the other value is.
            (Self::Double(a), _) if a.is_nan() => return Err(Self::fail(UNORDERED)),
            (a, b) => match compare_numbers(a, b) {
                Some(order) => order.ok_or(Self::fail(UNORDERED))?,
                None => return Err(other.clone().or_no_overload()),
            },
        })
    }
}

/// Compares two numbers of any types as cel-go does. The outer `None` means that the values are not both numbers; the
/// inner `None` means that the numbers have no order.
fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Option<Ordering>> {
    use Value::{Double, Int, Uint};
    Some(match (a, b) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Uint(a), Uint(b)) => Some(a.cmp(b)),
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Int(a), Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Uint(a), Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Double(a), Int(b)) => with_int(*a, *b),
        (Int(a), Double(b)) => with_int(*b, *a).map(Ordering::reverse),
        (Double(a), Uint(b)) => with_uint(*a, *b),
        (Uint(a), Double(b)) => with_uint(*b, *a).map(Ordering::reverse),
        _ => return None,
    })
}

fn with_int(a: f64, b: i64) -> Option<Ordering> {
    if a < -TWO_TO_63 {
        return Some(Ordering::Less);
    }
    if a > TWO_TO_63 {
        return Some(Ordering::Greater);
    }
    a.partial_cmp(&(b as f64))
}

fn with_uint(a: f64, b: u64) -> Option<Ordering> {
    if a < 0.0 {
        return Some(Ordering::Less);
    }
    if a > TWO_TO_64 {
        return Some(Ordering::Greater);
    }
    a.partial_cmp(&(b as f64))
}
