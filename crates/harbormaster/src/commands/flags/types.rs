//! Types of flags: parsing and formatting of their values, as in Go's flag library.

use harbormaster_api::{args::GoDuration, quantity::Quantity};

use crate::commands::metric_limits::{self, Pairs};

/// Type of a flag's value.
pub(crate) trait FlagType: Sized {
    /// Name of the type in the help.
    const NAME: &'static str;
    /// True if all values of a repeated flag are used; otherwise the last value wins.
    const REPEATED: bool = false;
    /// True if the value may be omitted, which means `true`.
    const IS_SWITCH: bool = false;

    /// Parses the strings given for a flag.
    ///
    /// # Errors
    ///
    /// Returns the first invalid string and the reason.
    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)>;

    /// Formats the value as Go's flags do.
    fn show(&self) -> String;
}

/// Parses the last of the given strings.
fn last<'a, T>(
    texts: impl Iterator<Item = &'a str>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, (&'a str, String)> {
    let text = texts.last().unwrap_or_default();
    parse(text).map_err(|why| (text, why))
}

/// Returns the error of Go's `strconv` for a string that a parser rejects.
fn invalid(parser: &str, text: &str) -> String {
    format!("strconv.{parser}: parsing {text:?}: invalid syntax")
}

impl FlagType for bool {
    const NAME: &'static str = "bool";
    const IS_SWITCH: bool = true;

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        last(texts, |text| match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err(invalid("ParseBool", text)),
        })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl FlagType for String {
    const NAME: &'static str = "string";

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        last(texts, |text| Ok(text.to_owned()))
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl FlagType for i32 {
    const NAME: &'static str = "int";

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        last(texts, |text| text.parse().map_err(|_| invalid("ParseInt", text)))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl FlagType for f32 {
    const NAME: &'static str = "float";

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        last(texts, |text| text.parse().map_err(|_| invalid("ParseFloat", text)))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl FlagType for GoDuration {
    const NAME: &'static str = "duration";

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        last(texts, |text| {
            text.parse().map_err(|error: harbormaster_api::args::DurationError| error.to_string())
        })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl FlagType for Quantity {
    const NAME: &'static str = "quantity";

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        last(texts, |text| {
            text.parse().map_err(|error: harbormaster_api::quantity::QuantityError| error.problem.to_string())
        })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Strings given for a flag that may be repeated. Commas separate the entries of a string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List(Vec<String>);

impl List {
    /// Returns the strings as given.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the entries of all strings; an empty string has none.
    pub(crate) fn entries(&self) -> Vec<String> {
        let texts = self.texts().filter(|text| !text.is_empty());
        texts.flat_map(|text| text.split(',')).map(str::to_owned).collect()
    }
}

impl<const N: usize> From<[&str; N]> for List {
    fn from(texts: [&str; N]) -> Self {
        Self(texts.map(str::to_owned).into())
    }
}

impl FlagType for List {
    const NAME: &'static str = "list";
    const REPEATED: bool = true;

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        Ok(Self(texts.map(str::to_owned).collect()))
    }

    fn show(&self) -> String {
        format!("[{}]", self.0.join(","))
    }
}

/// `name=value` pairs of a flag that may be repeated, as strings. They are shown without brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings(List);

impl Settings {
    /// Returns the strings as given.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.texts()
    }
}

impl From<[&str; 0]> for Settings {
    fn from(none: [&str; 0]) -> Self {
        Self(none.into())
    }
}

impl FlagType for Settings {
    const NAME: &'static str = "list";
    const REPEATED: bool = true;

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        List::parse(texts).map(Self)
    }

    fn show(&self) -> String {
        self.0.0.join(",")
    }
}

/// Allowed values of labels: `metric,label=value,value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelValues {
    texts: List,
    pairs: Pairs,
}

impl LabelValues {
    /// Returns the values, keyed by metric and label. If a key is repeated, its last value wins.
    pub(crate) fn pairs(&self) -> &Pairs {
        &self.pairs
    }
}

impl FlagType for LabelValues {
    const NAME: &'static str = "map";
    const REPEATED: bool = true;

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        let mut all = Self::default();
        for text in texts {
            all.pairs.extend(metric_limits::pairs(text).map_err(|why| (text, why))?);
            all.texts.0.push(text.to_owned());
        }
        Ok(all)
    }

    fn show(&self) -> String {
        self.texts.show()
    }
}

/// Form in which the version is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionRequest {
    None,
    Plain,
    /// Everything known about the build.
    Raw,
}

impl FlagType for VersionRequest {
    const NAME: &'static str = "string";
    const IS_SWITCH: bool = true;

    fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, (&'a str, String)> {
        last(texts, |text| match text {
            "false" => Ok(Self::None),
            "true" => Ok(Self::Plain),
            "raw" => Ok(Self::Raw),
            _ => Err(invalid("ParseBool", text)),
        })
    }

    fn show(&self) -> String {
        match self {
            Self::None => "false",
            Self::Plain => "true",
            Self::Raw => "raw",
        }
        .to_owned()
    }
}
