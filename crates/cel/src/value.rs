//! Values.

use std::{net::IpAddr, rc::Rc};

use crate::{
    amount::Amount, ast::Literal, attribute::Attribute, cidr::Cidr, list::List, map::Map,
    named_format::NamedFormat, semver::Semver, time::Timestamp, url::Url,
};

/// A value during an evaluation. It borrows from the device and from the constants of the expression.
///
/// Errors are values, too: `&&` and `||` ignore an error if the other operand decides the result.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Value<'a>>>),
    /// The name of a type.
    Type(Text<'a>),
    Quantity(Quantity<'a>),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Format(&'static NamedFormat),
    Semver(Rc<Semver>),
    Error(Error),
}

/// A string.
#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

/// A quantity.
///
/// As in Kubernetes, `==` accepts a computed quantity as its left operand but not as its right one.
#[derive(Clone, Debug)]
pub(crate) struct Quantity<'a> {
    pub(crate) source: QuantitySource<'a>,
    pub(crate) is_computed: bool,
}

/// Origin of a quantity.
#[derive(Clone, Debug)]
pub(crate) enum QuantitySource<'a> {
    /// A capacity of the device.
    Device(&'a harbormaster_api::Quantity),
    Amount(Amount),
    /// An amount, and the text that is printed for it.
    Written(Amount, Text<'a>),
}

/// An error of an evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    pub(crate) text: Text<'static>,
    /// True if the evaluation must end, even within `||`.
    pub(crate) is_fatal: bool,
}

/// Text of the error for values that a function or operator does not support.
pub(crate) const NO_OVERLOAD: &str = "no such overload";
/// Text of the error for an evaluation that is too expensive.
pub(crate) const TOO_EXPENSIVE: &str = "operation cancelled: actual cost limit exceeded";

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl Error {
    pub(crate) fn new(text: impl Into<Rc<str>>) -> Self {
        Self { text: Text::Shared(text.into()), is_fatal: false }
    }

    pub(crate) const fn fixed(text: &'static str) -> Self {
        Self { text: Text::Borrowed(text), is_fatal: false }
    }

    /// Returns cel-go's error for a panic of Go's runtime.
    pub(crate) fn internal(text: &str) -> Self {
        Self::panic(&format!("runtime error: {text}"))
    }

    /// Returns cel-go's error for a panic in cel-go or Kubernetes.
    pub(crate) fn panic(text: &str) -> Self {
        Self { text: Text::Shared(format!("internal error: {text}").into()), is_fatal: true }
    }

    pub(crate) const fn too_expensive() -> Self {
        Self { text: Text::Borrowed(TOO_EXPENSIVE), is_fatal: true }
    }
}

impl Quantity<'_> {
    pub(crate) fn amount(&self) -> Amount {
        match &self.source {
            QuantitySource::Device(quantity) => Amount::of(quantity),
            QuantitySource::Amount(amount) | QuantitySource::Written(amount, _) => *amount,
        }
    }

    pub(crate) fn print(&self) -> String {
        match &self.source {
            QuantitySource::Written(_, text) => text.as_str().to_owned(),
            _ => self.amount().to_string(),
        }
    }
}

/// Properties of types that decide which operators a value supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits(u16);

impl Traits {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ADDER: Self = Self(1);
    pub(crate) const COMPARER: Self = Self(1 << 1);
    pub(crate) const CONTAINER: Self = Self(1 << 2);
    pub(crate) const DIVIDER: Self = Self(1 << 3);
    pub(crate) const INDEXER: Self = Self(1 << 4);
    pub(crate) const ITERABLE: Self = Self(1 << 5);
    pub(crate) const MATCHER: Self = Self(1 << 6);
    pub(crate) const MODDER: Self = Self(1 << 7);
    pub(crate) const MULTIPLIER: Self = Self(1 << 8);
    pub(crate) const NEGATOR: Self = Self(1 << 9);
    pub(crate) const RECEIVER: Self = Self(1 << 10);
    pub(crate) const SIZER: Self = Self(1 << 11);
    pub(crate) const SUBTRACTOR: Self = Self(1 << 12);
    pub(crate) const LISTER: Self =
        Self(Self::ADDER.0 | Self::CONTAINER.0 | Self::INDEXER.0 | Self::ITERABLE.0 | Self::SIZER.0);

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn contain(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

const NUMBER: Traits = Traits::ADDER
    .with(Traits::COMPARER)
    .with(Traits::DIVIDER)
    .with(Traits::MULTIPLIER)
    .with(Traits::SUBTRACTOR);

impl<'a> Value<'a> {
    pub(crate) fn string(text: impl Into<Rc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub(crate) fn list(elements: Vec<Value<'a>>) -> Self {
        Self::List(List::Values(elements.into()))
    }

    pub(crate) fn strings<T: Into<Rc<str>>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::list(texts.into_iter().map(Self::string).collect())
    }

    pub(crate) fn optional(value: Value<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub(crate) fn of_type(name: &'a str) -> Self {
        Self::Type(Text::Borrowed(name))
    }

    pub(crate) fn error(text: impl Into<Rc<str>>) -> Self {
        Self::Error(Error::new(text))
    }

    pub(crate) const fn fail(text: &'static str) -> Self {
        Self::Error(Error::fixed(text))
    }

    pub(crate) const fn no_overload() -> Self {
        Self::fail(NO_OVERLOAD)
    }

    /// Returns the value if it is an error, and otherwise the error for a value that is not supported.
    pub(crate) fn or_no_overload(self) -> Self {
        if self.is_error() { self } else { Self::no_overload() }
    }

    pub(crate) fn computed_amount(amount: Amount) -> Self {
        Self::Quantity(Quantity { source: QuantitySource::Amount(amount), is_computed: true })
    }

    /// Returns the quantity that was parsed from a text.
    pub(crate) fn written_amount(amount: Amount, text: &Text<'a>) -> Self {
        let source = match amount.is_printed_as(text.as_str()) {
            true => QuantitySource::Written(amount, text.clone()),
            false => QuantitySource::Amount(amount),
        };
        Self::Quantity(Quantity { source, is_computed: false })
    }

    /// Returns the value of an attribute. Version strings in the attribute must already have been checked.
    pub(crate) fn of_attribute(attribute: &'a Attribute) -> Self {
        match attribute {
            Attribute::Bool(value) => Self::Bool(*value),
            Attribute::Int(value) => Self::Int(*value),
            Attribute::String(value) => Self::String(Text::Borrowed(value)),
            Attribute::Version(value) => Self::version(value),
            Attribute::Bools(values) => Self::List(List::Bools(values)),
            Attribute::Ints(values) => Self::List(List::Ints(values)),
            Attribute::Strings(values) => Self::List(List::Strings(values)),
            Attribute::Versions(values) => Self::List(List::Versions(values)),
            Attribute::Unknown => Self::Null,
        }
    }

    pub(crate) fn version(text: &str) -> Self {
        Semver::parse(text).map_or_else(Self::error, |version| Self::Semver(Rc::new(version)))
    }

    pub(crate) fn of_literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Uint(value) => Self::Uint(*value),
            Literal::Double(value) => Self::Double(*value),
            Literal::String(text) => Self::String(Text::Borrowed(text)),
            Literal::Bytes(bytes) => Self::Bytes(bytes.as_slice().into()),
        }
    }

    /// Returns true if the value can be a key or index.
    pub(crate) fn is_qualifier(&self) -> bool {
        matches!(self, Self::Bool(_) | Self::Int(_) | Self::Uint(_) | Self::Double(_) | Self::String(_))
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&List<'a>> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// Name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Error(_) => "error",
        }
    }

    /// Name of the value's type in Go, which some errors contain.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(_) => "types.Timestamp",
            Self::List(list) => list.go_type(),
            Self::Map(map) => map.go_type(),
            Self::Optional(_) => "*types.Optional",
            Self::Type(_) => "*types.Type",
            Self::Quantity(quantity) if quantity.is_computed => "*cel.Quantity",
            Self::Quantity(_) => "cel.Quantity",
            Self::Url(_) => "cel.URL",
            Self::Ip(_) => "cel.IP",
            Self::Cidr(_) => "cel.CIDR",
            Self::Format(_) => "cel.Format",
            Self::Semver(_) => "cel.Semver",
            Self::Error(_) => "*types.Err",
        }
    }

    pub(crate) fn traits(&self) -> Traits {
        match self {
            Self::Bool(_) => Traits::COMPARER.with(Traits::NEGATOR),
            Self::Bytes(_) => Traits::ADDER.with(Traits::COMPARER).with(Traits::SIZER),
            Self::Double(_) => NUMBER.with(Traits::NEGATOR),
            Self::Int(_) => NUMBER.with(Traits::NEGATOR).with(Traits::MODDER),
            Self::Uint(_) => NUMBER.with(Traits::MODDER),
            Self::Duration(_) => Traits::ADDER
                .with(Traits::COMPARER)
                .with(Traits::NEGATOR)
                .with(Traits::RECEIVER)
                .with(Traits::SUBTRACTOR),
            Self::String(_) => Traits::ADDER
                .with(Traits::COMPARER)
                .with(Traits::MATCHER)
                .with(Traits::RECEIVER)
                .with(Traits::SIZER),
            Self::Timestamp(_) => {
                Traits::ADDER.with(Traits::COMPARER).with(Traits::RECEIVER).with(Traits::SUBTRACTOR)
            }
            Self::List(_) => Traits::LISTER,
            Self::Map(_) => {
                Traits::CONTAINER.with(Traits::INDEXER).with(Traits::ITERABLE).with(Traits::SIZER)
            }
            Self::Semver(_) | Self::Format(_) => Traits::INDEXER,
            _ => Traits::NONE,
        }
    }

    /// Number of elements, characters or bytes; `None` for values without a size.
    pub(crate) fn size(&self) -> Option<u64> {
        Some(match self {
            Self::String(text) => text.as_str().chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.size() as u64,
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => u64::from(cidr.bits).div_ceil(8),
            _ => return None,
        })
    }

    /// Returns true if the value is zero or empty.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.as_str().is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(nanos) => *nanos == 0,
            Self::Timestamp(time) => time.is_zero(),
            Self::List(list) => list.len() == 0,
            Self::Map(map) => map.is_zero(),
            _ => false,
        }
    }

    /// Converts the value to Go's own types and back, as cel-go does with the value of an optional before it selects
    /// from the value.
    ///
    /// Values of some of Kubernetes' types become errors.
    pub(crate) fn through_go(&self) -> Value<'a> {
        let lost = |go_type: &str, printed: String| {
            Self::error(format!("unsupported conversion to ref.Val: ({go_type}){printed}"))
        };
        match self {
            Self::Optional(Some(inner)) => inner.through_go(),
            Self::Optional(None) => Self::Null,
            Self::Type(name) => Self::String(name.clone()),
            Self::List(list) => Self::List(list.through_go()),
            Self::Map(map) => Self::Map(map.through_go()),
            Self::Quantity(quantity) => lost("*resource.Quantity", quantity.print()),
            Self::Url(url) => lost("*url.URL", url.to_string()),
            Self::Ip(ip) => lost("netip.Addr", crate::cidr::print_ip(*ip)),
            Self::Cidr(cidr) => lost("netip.Prefix", cidr.to_string()),
            Self::Semver(version) => lost("semver.Version", version.to_string()),
            Self::Error(error) => lost("*errors.errorString", error.text.as_str().to_owned()),
            other => other.clone(),
        }
    }
}
