//! Comparison of our YAML library with the YAML library of Kubernetes and kubectl.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use harbormaster_oracle::components::YamlLibrary;
use harbormaster_yaml::{parse, write};
use serde_json::{Map, Value, json};

/// Number of random maps. There are four times as many random scalars.
const CASES: u64 = 10_000;

/// Fragments of strings that may be mistaken for values of other types.
const FRAGMENTS: [&str; 76] = [
    "0",
    "1",
    "7",
    "8",
    "9",
    "00",
    "12",
    "1234",
    "e",
    "E",
    "e5",
    "e567",
    "+",
    "-",
    ".",
    "_",
    ":",
    "0x",
    "0X",
    "0b",
    "0o",
    "0O",
    "0B",
    "f",
    "d",
    "y",
    "Y",
    "n",
    "yes",
    "No",
    "on",
    "OFF",
    "true",
    "False",
    "null",
    "~",
    ".inf",
    "-.INF",
    ".nan",
    "<<",
    "=",
    "&a",
    "*a",
    "!",
    "!!str",
    "%",
    "@",
    "`",
    "|",
    ">",
    "?",
    "[",
    "]",
    "{",
    "}",
    ",",
    "#",
    "'",
    "\"",
    "\\",
    " ",
    "  ",
    ": ",
    " #",
    "- ",
    "\n",
    "\n\n",
    "\t",
    "---",
    "...",
    "é",
    "\u{1f600}",
    "\u{a0}",
    "\u{feff}",
    "2024-01-02",
    "quite a long word and then another one",
];

/// Pseudo-random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).expect("it is less than `sides`")
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.throw(from.len())]
    }

    /// Returns digits and letters as in a commit hash, or a string of fragments.
    fn text(&mut self) -> String {
        match self.throw(4) {
            0 => {
                (0..5 + self.throw(10)).map(|_| char::from(b"0123456789e012345678"[self.throw(20)])).collect()
            }
            1 => (0..1 + self.throw(4)).map(|_| FRAGMENTS[self.throw(25)]).collect(),
            _ => (0..self.throw(6)).map(|_| self.pick(&FRAGMENTS)).collect(),
        }
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.throw(if depth < 3 { 12 } else { 8 }) {
            0 => json!(self.throw(2) == 0),
            1 => json!(self.throw(1_000_000) as i64 - 500_000),
            2 => json!(self.throw(1_000_000) as f64 / 64.0),
            3 => Value::Null,
            4..8 => json!(self.text()),
            8..10 => (0..self.throw(4)).map(|_| self.value(depth + 1)).collect(),
            _ => self.map(depth + 1),
        }
    }

    fn map(&mut self, depth: usize) -> Value {
        let fields: Map<String, Value> =
            (0..self.throw(5)).map(|_| (self.text(), self.value(depth))).collect();
        fields.into()
    }
}

/// Returns the Go library's output for each string.
fn ask(role: &str, texts: &[String]) -> Vec<Value> {
    let library = YamlLibrary::ensure().expect("Go builds the library");
    let mut child = Command::new(library.path())
        .arg(role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the library starts");
    let mut to = child.stdin.take().expect("standard input is a pipe");
    let lines: String = texts.iter().map(|text| format!("{}\n", json!(text))).collect();
    let writer = std::thread::spawn(move || to.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("the library exits");
    writer.join().expect("the writer does not panic").expect("it reads everything");
    let answers = String::from_utf8(output.stdout).expect("answers are UTF-8");
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), texts.len());
    answers
}

fn maps() -> Vec<Value> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    (0..CASES).map(|_| dice.map(0)).collect()
}

/// Panics with the first eight cases that differ, if there are any.
fn assert_none(differ: Vec<String>, of: usize) {
    assert!(
        differ.is_empty(),
        "{} of {of} differ:\n{}",
        differ.len(),
        differ[..differ.len().min(8)].join("\n")
    );
}

#[test]
fn we_read_what_kubectl_writes() {
    let maps = maps();
    let texts: Vec<String> = maps.iter().map(ToString::to_string).collect();
    let written: Vec<String> =
        ask("write", &texts).iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect();
    let (mut differ, mut lost) = (Vec::new(), 0);
    for ((map, text), theirs) in maps.iter().zip(&written).zip(ask("read", &written)) {
        let ours = parse(text).map_or(Value::Null, harbormaster_yaml::Node::into_json);
        // The library cannot read some of its own output: it writes the key `<<` without quotes.
        if comparable(&theirs) != comparable(map) {
            lost += 1;
        } else if comparable(&ours) != comparable(map) {
            differ.push(format!("{map}\n{text}{ours}\n"));
        }
    }
    assert_none(differ, maps.len());
    assert!(lost < maps.len() / 50, "{lost} of {} could not be compared", maps.len());
}

#[test]
fn kubernetes_reads_what_we_write() {
    let maps = maps();
    let texts: Vec<String> = maps.iter().map(write).collect();
    let mut differ = Vec::new();
    for ((map, text), read) in maps.iter().zip(&texts).zip(ask("read", &texts)) {
        if comparable(map) != comparable(&read) {
            differ.push(format!("{map}\n{text}{read}\n"));
        }
    }
    assert_none(differ, maps.len());
}

#[test]
fn plain_scalars_mean_the_same_in_both_libraries() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let is_plain = |text: &String| !text.contains(['\n', '\t', '#', '\'', '"', '\u{feff}']);
    let scalars: Vec<String> =
        std::iter::repeat_with(|| dice.text()).filter(is_plain).take(4 * CASES as usize).collect();
    let texts: Vec<String> = scalars
        .iter()
        .flat_map(|text| [format!("key: {text}\n"), format!("{text}: value\n"), format!("- {text}\n")])
        .filter(|text| !text.contains(['{', '[', '&', '*', '|', '>', '?', '%', '@', '`', '!', ',', ']', '}']))
        .collect();
    let mut differ = Vec::new();
    for (text, theirs) in texts.iter().zip(ask("read", &texts)) {
        let ours = parse(text).map_or(Value::Null, harbormaster_yaml::Node::into_json);
        if comparable(&theirs) != comparable(&ours) {
            differ.push(format!("{text}theirs {theirs}\nours {ours} {:?}", parse(text).err()));
        }
    }
    assert_none(differ, texts.len());
}

/// Rounds numbers to 15 digits, so that values can be compared.
fn comparable(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            number.as_f64().map_or(Value::Null, |float| format!("{:.14e}", float + 0.0).into())
        }
        Value::Array(items) => items.iter().map(comparable).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), comparable(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}
