//! Constraints on the devices of a claim.

use harbormaster_api::Str;
use harbormaster_cel::Attribute;

use super::{DeviceGates, claim::DeviceConstraint, slice::Device};

/// A request or one of its alternatives, as constraints name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestName<'a> {
    /// Name of the request.
    pub(super) request: &'a str,
    /// Name of the alternative; `None` for a request without alternatives.
    pub(super) alternative: Option<&'a str>,
}

impl<'a> RequestName<'a> {
    /// Name of the alternative, or of the request if it has no alternatives.
    pub(super) fn own(self) -> &'a str {
        self.alternative.unwrap_or(self.request)
    }
}

/// A constraint and the devices that it has accepted. Devices are removed in the reverse order of their addition.
#[derive(Clone, Debug)]
pub(super) struct Constraint<'a> {
    spec: &'a DeviceConstraint,
    attribute: &'a str,
    condition: Condition,
    gates: DeviceGates,
    /// Values of the accepted devices, with the names of their requests. With
    /// [`DeviceRules::distinct_by_request`](super::rules::DeviceRules), `distinctAttribute` keeps only the latest value
    /// of each request.
    values: Vec<(&'a str, &'a Attribute)>,
    devices: usize,
}

/// Property that the values of all devices must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Equal,
    Distinct,
}

impl<'a> Constraint<'a> {
    /// Returns the constraint; `None` if it is of an unknown kind.
    pub(super) fn new(spec: &'a DeviceConstraint, gates: DeviceGates) -> Option<Self> {
        let (attribute, condition) = match (&spec.match_attribute, &spec.distinct_attribute) {
            (Some(attribute), _) => (attribute, Condition::Equal),
            (None, Some(attribute)) => (attribute, Condition::Distinct),
            (None, None) => return None,
        };
        Some(Self { spec, attribute, condition, gates, values: Vec::new(), devices: 0 })
    }

    pub(super) fn is_distinct(&self) -> bool {
        self.condition == Condition::Distinct
    }

    /// Adds a device, or returns false if the constraint does not allow it.
    pub(super) fn add(&mut self, name: RequestName<'a>, driver: &str, device: &'a Device) -> bool {
        if !applies(self.spec, name) {
            return true;
        }
        let Some(found) = lookup(device, driver, self.attribute) else { return false };
        if !self.allows(found) {
            return false;
        }
        if self.keeps_latest() {
            self.values.retain(|(request, _)| *request != name.request);
        }
        self.values.push((name.request, found));
        self.devices += 1;
        true
    }

    fn allows(&self, found: &Attribute) -> bool {
        let mut known = self.values.iter().map(|(_, known)| *known);
        if self.gates.list_constraints {
            let elements = elements(found);
            return match self.condition {
                Condition::Equal => {
                    elements.iter().any(|element| known.clone().all(|known| contains(known, element)))
                }
                Condition::Distinct => {
                    let is_known = |element: &Attribute| known.clone().any(|known| contains(known, element));
                    !elements.is_empty() && !elements.iter().any(is_known)
                }
            };
        }
        // The first device can have any value.
        self.devices == 0
            || match self.condition {
                Condition::Equal => known.next().is_none_or(|first| are_same(first, found)),
                Condition::Distinct => !known.any(|known| !is_scalar(found) || are_same(known, found)),
            }
    }

    /// Removes a device that was added.
    pub(super) fn remove(&mut self, name: RequestName<'_>) {
        if !applies(self.spec, name) {
            return;
        }
        self.devices = self.devices.saturating_sub(1);
        match self.keeps_latest() {
            true => self.values.retain(|(request, _)| *request != name.request),
            false => drop(self.values.pop()),
        }
    }

    /// Returns true if only the latest value of each request counts.
    fn keeps_latest(&self) -> bool {
        self.is_distinct() && self.gates.rules.distinct_by_request
    }
}

fn applies(spec: &DeviceConstraint, name: RequestName<'_>) -> bool {
    spec.requests.is_empty()
        || spec.requests.iter().any(|named| {
            *named == *name.request
                || name
                    .alternative
                    .is_some_and(|alternative| named.split_once('/') == Some((name.request, alternative)))
        })
}

/// Returns an attribute of a device. In the device, an unqualified name stands for a name in the driver's domain.
pub(super) fn lookup<'a>(device: &'a Device, driver: &str, qualified: &str) -> Option<&'a Attribute> {
    if let Some(found) = device.attributes.get(qualified) {
        return Some(found);
    }
    let (domain, id) = qualified.split_once('/')?;
    (domain == driver).then(|| device.attributes.get(id))?
}

fn is_scalar(attribute: &Attribute) -> bool {
    use Attribute::{Bool, Int, String, Version};
    matches!(attribute, Bool(_) | Int(_) | String(_) | Version(_))
}

/// Returns true if both attributes have the same kind and value. Versions are compared as text, since every version
/// has only one valid spelling. Lists are never the same.
fn are_same(a: &Attribute, b: &Attribute) -> bool {
    is_scalar(a) && a == b
}

/// Returns the elements of a list, or the value itself.
fn elements(attribute: &Attribute) -> Vec<Attribute> {
    match attribute {
        Attribute::Ints(list) => list.iter().copied().map(Attribute::Int).collect(),
        Attribute::Bools(list) => list.iter().copied().map(Attribute::Bool).collect(),
        Attribute::Strings(list) => list.iter().cloned().map(Attribute::String).collect(),
        Attribute::Versions(list) => list.iter().cloned().map(Attribute::Version).collect(),
        Attribute::Unknown => Vec::new(),
        scalar => vec![scalar.clone()],
    }
}

/// Returns true if the attribute is this value, or a list that contains it.
fn contains(attribute: &Attribute, value: &Attribute) -> bool {
    match (attribute, value) {
        (Attribute::Ints(list), Attribute::Int(value)) => list.contains(value),
        (Attribute::Bools(list), Attribute::Bool(value)) => list.contains(value),
        (Attribute::Strings(list), Attribute::String(value)) => list.contains(value),
        (Attribute::Versions(list), Attribute::Version(value)) => list.contains(value),
        (known, value) => are_same(known, value),
    }
}

/// Returns the name under which a result refers to a request.
pub(super) fn result_name(name: RequestName<'_>) -> Str {
    match name.alternative {
        Some(alternative) => format!("{}/{alternative}", name.request).into(),
        None => name.request.into(),
    }
}
