//! Layouts of times, as in Go's package `time`: a layout shows how the reference time, Mon Jan 2 15:04:05 MST 2006, is
//! written.

/// A layout, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Element(Element),
}

/// A part of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    LongYear,
    Year,
    LongMonth,
    ShortMonth,
    /// In this and the following elements, `true` means exactly two digits.
    Month(bool),
    LongWeekday,
    ShortWeekday,
    Day(bool),
    /// Padded with a space.
    SpacedDay,
    /// Three digits.
    DayOfYear,
    /// Padded with spaces.
    SpacedDayOfYear,
    Hour,
    Hour12(bool),
    Minute(bool),
    Second(bool),
    /// Exactly this many digits after a dot or comma.
    Fraction(usize),
    /// Any digits after a dot or comma, or nothing.
    OptionalFraction,
    Noon(bool),
    ZoneName,
    Offset(Offset),
}

/// Form of an offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    /// `Z` stands for UTC.
    z: bool,
    /// Number of pairs of digits: hours, minutes, seconds.
    pairs: usize,
    colons: bool,
}

/// Elements by their text. If one text is the start of another, the longer one comes first.
const ELEMENTS: &[(&str, Element)] = &[
    ("January", Element::LongMonth),
    ("Jan", Element::ShortMonth),
    ("Monday", Element::LongWeekday),
    ("Mon", Element::ShortWeekday),
    ("MST", Element::ZoneName),
    ("2006", Element::LongYear),
    ("002", Element::DayOfYear),
    ("01", Element::Month(true)),
    ("02", Element::Day(true)),
    ("03", Element::Hour12(true)),
    ("04", Element::Minute(true)),
    ("05", Element::Second(true)),
    ("06", Element::Year),
    ("15", Element::Hour),
    ("__2", Element::SpacedDayOfYear),
    ("_2", Element::SpacedDay),
    ("1", Element::Month(false)),
    ("2", Element::Day(false)),
    ("3", Element::Hour12(false)),
    ("4", Element::Minute(false)),
    ("5", Element::Second(false)),
    ("PM", Element::Noon(true)),
    ("pm", Element::Noon(false)),
    ("-07:00:00", offset(false, 3, true)),
    ("-070000", offset(false, 3, false)),
    ("-07:00", offset(false, 2, true)),
    ("-0700", offset(false, 2, false)),
    ("-07", offset(false, 1, false)),
    ("Z07:00:00", offset(true, 3, true)),
    ("Z070000", offset(true, 3, false)),
    ("Z07:00", offset(true, 2, true)),
    ("Z0700", offset(true, 2, false)),
    ("Z07", offset(true, 1, false)),
];

const fn offset(z: bool, pairs: usize, colons: bool) -> Element {
    Element::Offset(Offset { z, pairs, colons })
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Layout {
    /// Splits a layout. Every text is a layout.
    pub fn new(text: &str) -> Self {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(next) = rest.chars().next() {
            let Some((length, element)) = element(rest) else {
                literal.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Element(element));
            rest = &rest[length..];
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Self(parts)
    }

    /// Returns the time in seconds since 1970, or `None` if the text does not have this layout. Without an offset, the
    /// time is in UTC. Fractions of a second are dropped.
    pub fn parse(&self, text: &str) -> Option<i64> {
        let (mut time, mut rest) = (Time::default(), text);
        for (at, part) in self.0.iter().enumerate() {
            rest = match part {
                Part::Literal(literal) => rest.strip_prefix(literal.as_str())?,
                Part::Element(element) => {
                    let rest = time.read(*element, rest)?;
                    let is_fraction_next = matches!(
                        self.0.get(at + 1),
                        Some(Part::Element(Element::Fraction(_) | Element::OptionalFraction))
                    );
                    // A fraction may follow the seconds even if the layout has none.
                    match element {
                        Element::Second(_) if !is_fraction_next => without_fraction(rest),
                        _ => rest,
                    }
                }
            };
        }
        if rest.is_empty() { time.seconds() } else { None }
    }
}

/// Returns the element at the start of the text, with its length.
fn element(text: &str) -> Option<(usize, Element)> {
    if let Some(fraction) = text.strip_prefix(['.', ',']) {
        let digit = fraction.chars().next().filter(|first| ['0', '9'].contains(first))?;
        let count = fraction.chars().take_while(|next| *next == digit).count();
        // Digits after the fraction make it something else.
        if fraction[count..].starts_with(|next: char| next.is_ascii_digit()) {
            return None;
        }
        let element = if digit == '0' { Element::Fraction(count) } else { Element::OptionalFraction };
        return Some((count + 1, element));
    }
    let (name, element) = ELEMENTS.iter().find(|(name, _)| text.starts_with(name))?;
    let continues = text[name.len()..].starts_with(|next: char| next.is_ascii_lowercase());
    match element {
        // "Janet" is not a month.
        Element::ShortMonth | Element::ShortWeekday if continues => None,
        // In "_2006", the underscore is literal.
        Element::SpacedDay if text.starts_with("_2006") => None,
        _ => Some((name.len(), *element)),
    }
}

fn without_fraction(text: &str) -> &str {
    let Some(digits) = text.strip_prefix(['.', ',']) else { return text };
    let rest = digits.trim_start_matches(|next: char| next.is_ascii_digit());
    if rest.len() == digits.len() { text } else { rest }
}

/// The parts of a time that have been read.
#[derive(Debug, Default)]
struct Time {
    year: i64,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    is_afternoon: Option<bool>,
    /// Seconds east of UTC.
    offset: i64,
}

impl Time {
    /// Reads an element at the start of the text. Returns the rest.
    fn read<'a>(&mut self, element: Element, text: &'a str) -> Option<&'a str> {
        let rest;
        match element {
            Element::LongYear => {
                let (year, after) = exactly(4, text)?;
                (self.year, rest) = (i64::from(year), after);
            }
            Element::Year => {
                let (year, after) = exactly(2, text)?;
                self.year = i64::from(year) + if year >= 69 { 1900 } else { 2000 };
                rest = after;
            }
            Element::LongMonth => (self.month, rest) = named(&MONTHS, text, usize::MAX)?,
            Element::ShortMonth => (self.month, rest) = named(&MONTHS, text, 3)?,
            Element::LongWeekday => (_, rest) = named(&WEEKDAYS, text, usize::MAX)?,
            Element::ShortWeekday => (_, rest) = named(&WEEKDAYS, text, 3)?,
            Element::Month(fixed) => (self.month, rest) = number(fixed, text, 1..=12)?,
            Element::Day(fixed) => (self.day, rest) = number(fixed, text, 1..=31)?,
            Element::SpacedDay => {
                let text = text.strip_prefix(' ').unwrap_or(text);
                (self.day, rest) = number(false, text, 1..=31)?;
            }
            Element::DayOfYear | Element::SpacedDayOfYear => {
                let padded = element == Element::SpacedDayOfYear;
                let spaces =
                    if padded { text.bytes().take(2).take_while(|next| *next == b' ').count() } else { 0 };
                let (day, after) = exactly(3 - spaces, &text[spaces..])?;
                self.day_of_year = Some(day).filter(|day| (1..=366).contains(day));
                self.day_of_year?;
                rest = after;
            }
            Element::Hour => (self.hour, rest) = some(number(false, text, 0..=23)?)?,
            Element::Hour12(fixed) => (self.hour, rest) = some(number(fixed, text, 0..=12)?)?,
            Element::Minute(fixed) => (self.minute, rest) = some(number(fixed, text, 0..=59)?)?,
            Element::Second(fixed) => (self.second, rest) = some(number(fixed, text, 0..=59)?)?,
            Element::Fraction(digits) => {
                let text = text.strip_prefix(['.', ','])?;
                let all = text.len() >= digits && text.as_bytes()[..digits].iter().all(u8::is_ascii_digit);
                rest = if all { &text[digits..] } else { return None };
            }
            Element::OptionalFraction => rest = without_fraction(text),
            Element::Noon(upper) => {
                let (am, pm) = if upper { ("AM", "PM") } else { ("am", "pm") };
                let afternoon = text.strip_prefix(pm);
                self.is_afternoon = Some(afternoon.is_some());
                rest = afternoon.or_else(|| text.strip_prefix(am))?;
            }
            Element::ZoneName => {
                let letters = text.bytes().take_while(u8::is_ascii_uppercase).count();
                rest = if (3..=5).contains(&letters) { &text[letters..] } else { return None };
            }
            Element::Offset(form) => (self.offset, rest) = read_offset(form, text)?,
        }
        Some(rest)
    }

    /// Returns the seconds since 1970. `None` if the day does not exist.
    fn seconds(&self) -> Option<i64> {
        let hour = match self.is_afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let january_first = days_before(self.year, 1, 1);
        let days = match self.day_of_year {
            Some(day) => {
                let date = january_first + i64::from(day) - 1;
                let start = |month: u32| days_before(self.year, month, 1);
                let month = (1..=12).rev().find(|month| start(*month) <= date)?;
                let is_in_year = date < days_before(self.year + 1, 1, 1);
                let agrees = self.month.is_none_or(|known| known == month)
                    && self.day.is_none_or(|known| i64::from(known) == date - start(month) + 1);
                if !is_in_year || !agrees {
                    return None;
                }
                date
            }
            None => {
                let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
                let next = if month == 12 {
                    days_before(self.year + 1, 1, 1)
                } else {
                    days_before(self.year, month + 1, 1)
                };
                let date = days_before(self.year, month, day);
                if date >= next {
                    return None;
                }
                date
            }
        };
        let seconds = i64::from(hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        Some(days * 86_400 + seconds - self.offset)
    }
}

/// Number of days from 1970-01-01 to a date of the Gregorian calendar.
fn days_before(year: i64, month: u32, day: u32) -> i64 {
    // Years start in March here, so that the leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), i64::from(month + 9) % 12);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Reads exactly this many digits.
fn exactly(digits: usize, text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    number.bytes().all(|next| next.is_ascii_digit()).then_some(())?;
    Some((number.parse().ok()?, rest))
}

/// Reads two digits, or one if the number may have a single digit. The number must be in the range.
fn number(fixed: bool, text: &str, range: std::ops::RangeInclusive<u32>) -> Option<(Option<u32>, &str)> {
    let (number, rest) = match exactly(2, text) {
        None if !fixed => exactly(1, text)?,
        two => two?,
    };
    range.contains(&number).then_some((Some(number), rest))
}

fn some((number, rest): (Option<u32>, &str)) -> Option<(u32, &str)> {
    Some((number?, rest))
}

/// Reads one of the names, of which only the first `length` letters are written, in any case. Returns its number,
/// starting at one.
fn named<'a>(names: &[&str], text: &'a str, length: usize) -> Option<(Option<u32>, &'a str)> {
    let mut names = names.iter().zip(1..).map(|(name, number)| (&name[..length.min(name.len())], number));
    let starts = |name: &str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let (name, number) = names.find(|(name, _)| starts(name))?;
    Some((Some(number), &text[name.len()..]))
}

fn read_offset(form: Offset, text: &str) -> Option<(i64, &str)> {
    if let Some(rest) = text.strip_prefix('Z').filter(|_| form.z) {
        return Some((0, rest));
    }
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-'])?;
    let mut offset = 0;
    for (pair, (unit, most)) in [(3600, 24), (60, 60), (1, 60)].into_iter().take(form.pairs).enumerate() {
        if pair > 0 && form.colons {
            rest = rest.strip_prefix(':')?;
        }
        let (number, after) = exactly(2, rest)?;
        if number > most {
            return None;
        }
        offset += i64::from(number) * unit;
        rest = after;
    }
    Some((if negative { -offset } else { offset }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of Go's `time.Parse`; texts that it refuses for a layout are not listed with it.
    const PARSED: &[(&str, &str, i64)] = &[
        ("2006-01-02T15:04:05Z07:00", "2024-02-29T12:30:45Z", 1709209845),
        ("2006-01-02T15:04:05Z07:00", "2024-02-29T12:30:45+02:00", 1709202645),
        ("2006-01-02T15:04:05Z07:00", "2024-02-29T12:30:45.5-01:30", 1709215245),
        ("2006-01-02T15:04:05Z07:00", "2024-06-01T1:20:30Z", 1717204830),
        ("2006-01-02T15:04:05.999999999Z07:00", "2024-02-29T12:30:45Z", 1709209845),
        ("2006-01-02T15:04:05.999999999Z07:00", "2024-02-29T12:30:45+02:00", 1709202645),
        ("2006-01-02T15:04:05.999999999Z07:00", "2024-02-29T12:30:45.5-01:30", 1709215245),
        ("2006-01-02T15:04:05.999999999Z07:00", "2024-06-01T1:20:30Z", 1717204830),
        ("2006-01-02", "2024-02-29", 1709164800),
        ("2006-01-02T15-04-05Z", "2024-06-01T10-20-30Z", 1717237230),
        ("20060102150405", "20240601102030", 1717237230),
        ("Mon, 02 Jan 2006 15:04:05 MST", "Mon, 02 Jan 2006 15:04:05 MST", 1136214245),
        ("Mon, 02 Jan 2006 15:04:05 -0700", "Mon, 02 Jan 2006 15:04:05 -0700", 1136239445),
        ("Mon Jan _2 15:04:05 2006", "Mon Jan  2 15:04:05 2006", 1136214245),
        ("Mon Jan _2 15:04:05 MST 2006", "Mon Jan  2 15:04:05 UTC 2006", 1136214245),
        ("Monday, 02-Jan-06 15:04:05 MST", "Monday, 02-Jan-06 15:04:05 GMT", 1136214245),
        ("3:04PM", "3:04PM", -62167164960),
        ("Jan _2 2006", "jan  5 1999", 915494400),
        ("Jan _2 2006", "JAN 15 1999", 916358400),
        ("2006-002", "2024-366", 1735603200),
        ("2006-002", "2024-060", 1709164800),
        ("2006 __2", "2024  60", 1709164800),
        ("06.1.2 3:4:5 pm", "99.12.31 12:05:09 am", 946598709),
        ("06.1.2 3:4:5 pm", "68.1.1 1:1:1 pm", 3092648461),
        ("2006-01-02 15:04:05.000", "2024-06-01 10:20:30.123", 1717237230),
        ("2006-01-02 15:04:05.999 -0700", "2024-06-01 10:20:30 +0130", 1717231830),
        ("2006-01-02 15:04:05.999 -0700", "2024-06-01 10:20:30.77 -0830", 1717267830),
        ("_2006", "_2024", 1704067200),
        ("Janet 2006", "Janet 2024", 1704067200),
        ("2006-01-02T15_04_05-07", "2024-06-01T10_20_30+05", 1717219230),
        ("January 2, 2006 03PM", "December 31, 1969 11PM", -3600),
    ];

    /// Texts that some layouts refuse.
    const OTHERS: &[&str] = &[
        "2023-02-29T00:00:00Z",
        "2024-2-29",
        "2023-366",
        "2024-06-01 10:20:30",
        "2024-06-01T25:00:00Z",
        "2024-13-01",
        "x",
        "",
        "2024-06-01T10:20:60Z",
        "2024-06-01T10:20:30Zx",
        "2024-06-01T10:20:30+25:00",
        "2024-06-01T10:20:30\u{e4}",
        "\u{e4}\u{e4}\u{e4}\u{e4}",
    ];

    #[test]
    fn texts_are_parsed_as_in_go() {
        let texts = || PARSED.iter().map(|(_, text, _)| text).chain(OTHERS);
        for (layout, _, _) in PARSED {
            for text in texts() {
                let expected = PARSED.iter().find(|(other, parsed, _)| (other, parsed) == (layout, text));
                let expected = expected.map(|(_, _, seconds)| *seconds);
                assert_eq!(Layout::new(layout).parse(text), expected, "{text:?} as {layout:?}");
            }
        }
    }
}
