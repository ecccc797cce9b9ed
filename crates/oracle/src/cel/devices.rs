//! Random devices.

use std::collections::BTreeMap;

use harbormaster_api::{Quantity, Str};
use harbormaster_cel::Attribute;
use serde_json::{Value, json};

use super::{
    literals::{DOMAINS, IDS},
    types::Type,
};
use crate::generate::Random;

/// A device.
#[derive(Debug, Clone)]
pub(super) struct Device {
    pub(super) driver: &'static str,
    pub(super) attributes: BTreeMap<Str, Attribute>,
    pub(super) capacity: Vec<(String, Quantity)>,
    pub(super) allow_multiple_allocations: bool,
}

const VERSIONS: &[&str] = &["1.10.0", "1.2.3", "0.0.1-alpha.1", "2.0.0+build"];
/// Amounts that fit in 64 bits. Kubernetes adds to larger amounts in place, which changes the device.
const QUANTITIES: &[&str] = &["80Gi", "1", "0", "1500m", "10M", "1k", "123456789012", "5n", "-3"];
const TEXTS: &[&str] = &["a1", "b2", "", "gpu.example.com", "äö", "abcabc", "1.2.3", "10.0.0.1", "80Gi"];

impl Device {
    pub(super) fn random(random: &mut Random, list_attributes: bool) -> Self {
        let attributes = random.below(7);
        let attributes = names(random, attributes).into_iter();
        let attributes = attributes.map(|name| (name.into(), attribute(random, list_attributes))).collect();
        let capacity = random.below(4);
        let capacity = names(random, capacity).into_iter();
        let capacity =
            capacity.filter_map(|name| Some((name, random.pick(QUANTITIES).parse().ok()?))).collect();
        Self {
            driver: *random.pick(&["gpu.example.com", "gpu.example.com", "other.example.com"]),
            attributes,
            capacity,
            allow_multiple_allocations: random.chance(50),
        }
    }

    /// Expressions that read an attribute or a capacity, such as `device.attributes["x"].a`, with their types.
    pub(super) fn reads(&self) -> Vec<(String, Type)> {
        let attributes = self.attributes.iter().filter_map(|(name, attribute)| {
            Some((format!("device.attributes{}", self.path(name)), type_of(attribute)?))
        });
        let capacity = self.capacity.iter();
        let quantity = Type::simple("quantity");
        let capacity =
            capacity.map(|(name, _)| (format!("device.capacity{}", self.path(name)), quantity.clone()));
        attributes.chain(capacity).collect()
    }

    fn path(&self, name: &str) -> String {
        let (domain, id) = name.split_once('/').unwrap_or((self.driver, name));
        format!("[\"{domain}\"].{id}")
    }

    pub(super) fn json(&self) -> Value {
        let attributes =
            self.attributes.iter().map(|(name, attribute)| (name.to_string(), json_of(attribute)));
        let capacity = self.capacity.iter();
        let capacity =
            capacity.map(|(name, quantity)| (name.clone(), json!({ "value": quantity.to_string() })));
        json!({
            "driver": self.driver,
            "attributes": attributes.collect::<serde_json::Map<_, _>>(),
            "capacity": capacity.collect::<serde_json::Map<_, _>>(),
            "allowMultipleAllocations": self.allow_multiple_allocations,
        })
    }
}

/// Returns different names, with and without a domain.
fn names(random: &mut Random, count: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for _ in 0..count {
        let id = *random.pick(&IDS[..8]);
        // A name without a domain must not mean the same as one with the domain of the driver.
        let name = match random.chance(60) {
            true => id.to_owned(),
            false => format!("{}/{id}", random.pick(&DOMAINS[1..])),
        };
        let means_same = |other: &String| other.rsplit('/').next() == name.rsplit('/').next();
        if !names.iter().any(means_same) {
            names.push(name);
        }
    }
    names.sort();
    names
}

fn attribute(random: &mut Random, list_attributes: bool) -> Attribute {
    let text = |random: &mut Random, texts: &[&str]| Str::from(*random.pick(texts));
    let count = random.below(4);
    match random.below(if list_attributes { 8 } else { 4 }) {
        0 => Attribute::Bool(random.chance(60)),
        1 => Attribute::Int(*random.pick(&[0, 1, 2, 80, -1, i64::MAX])),
        2 => Attribute::String(text(random, TEXTS)),
        3 if random.chance(1) => Attribute::Version("bad".into()),
        3 if random.chance(1) => Attribute::Unknown,
        3 => Attribute::Version(text(random, VERSIONS)),
        4 => Attribute::Bools((0..=count).map(|_| random.chance(50)).collect()),
        5 if random.chance(5) => Attribute::Ints((0..60).collect()),
        5 => Attribute::Ints((0..=count).map(|_| *random.pick(&[0, 1, 2, 80])).collect()),
        6 => Attribute::Strings((0..=count).map(|_| text(random, TEXTS)).collect()),
        _ => Attribute::Versions((0..=count).map(|_| text(random, VERSIONS)).collect()),
    }
}

/// Type of the value in expressions; `None` if expressions cannot read it.
fn type_of(attribute: &Attribute) -> Option<Type> {
    let list = |of| Type::new("list", vec![Type::simple(of)]);
    Some(match attribute {
        Attribute::Bool(_) => Type::simple("bool"),
        Attribute::Int(_) => Type::simple("int"),
        Attribute::String(_) => Type::simple("string"),
        Attribute::Version(_) => Type::simple("semver"),
        Attribute::Bools(_) => list("bool"),
        Attribute::Ints(_) => list("int"),
        Attribute::Strings(_) => list("string"),
        Attribute::Versions(_) => list("semver"),
        Attribute::Unknown => return None,
    })
}

fn json_of(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Bool(value) => json!({ "bool": value }),
        Attribute::Int(value) => json!({ "int": value }),
        Attribute::String(value) => json!({ "string": value }),
        Attribute::Version(value) => json!({ "version": value }),
        Attribute::Bools(values) => json!({ "bools": values }),
        Attribute::Ints(values) => json!({ "ints": values }),
        Attribute::Strings(values) => json!({ "strings": values }),
        Attribute::Versions(values) => json!({ "versions": values }),
        Attribute::Unknown => json!({}),
    }
}
