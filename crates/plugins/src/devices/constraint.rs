//! Constraints on the devices of a claim.

use harbormaster_api::Str;

use super::{
    claim::DeviceConstraint,
    slice::{Attribute, Device},
};

/// A request or one of its alternatives, as constraints name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestName<'a> {
    /// Name of the request.
    pub(super) request: &'a str,
    /// Name of the alternative; `None` for a request without alternatives.
    pub(super) alternative: Option<&'a str>,
}

/// A constraint and the devices that it has accepted. Devices are removed in the reverse order in which they were
/// added.
#[derive(Clone, Debug)]
pub(super) enum Constraint<'a> {
    /// All devices have the same value of the attribute.
    Match { spec: &'a DeviceConstraint, attribute: &'a str, value: Option<&'a Attribute>, devices: usize },
    /// All devices have different values of the attribute.
    Distinct {
        spec: &'a DeviceConstraint,
        attribute: &'a str,
        /// Values by request. With [`AllocatorRules::distinct_by_request`](super::allocator::AllocatorRules), only the
        /// latest value of a request counts.
        values: Vec<(&'a str, &'a Attribute)>,
        devices: usize,
        by_request: bool,
    },
}

impl<'a> Constraint<'a> {
    /// Returns the constraint; `None` if it is of an unknown kind.
    pub(super) fn new(spec: &'a DeviceConstraint, by_request: bool) -> Option<Self> {
        if let Some(attribute) = &spec.match_attribute {
            return Some(Self::Match { spec, attribute, value: None, devices: 0 });
        }
        let attribute = spec.distinct_attribute.as_ref()?;
        Some(Self::Distinct { spec, attribute, values: Vec::new(), devices: 0, by_request })
    }

    pub(super) fn is_distinct(&self) -> bool {
        matches!(self, Self::Distinct { .. })
    }

    /// Adds a device, or returns false if the constraint does not allow it.
    pub(super) fn add(&mut self, name: RequestName<'a>, driver: &str, device: &'a Device) -> bool {
        if !applies(self.spec(), name) {
            return true;
        }
        match self {
            Self::Match { attribute, value, devices, .. } => {
                let Some(found) = lookup(device, driver, attribute) else { return false };
                match value {
                    Some(known) if *devices > 0 && !are_same(known, found) => return false,
                    Some(_) if *devices > 0 => {}
                    _ => *value = Some(found),
                }
                *devices += 1;
            }
            Self::Distinct { attribute, values, devices, by_request, .. } => {
                let Some(found) = lookup(device, driver, attribute) else { return false };
                let is_taken = |known: &Attribute| !is_scalar(found) || are_same(known, found);
                if *devices > 0 && values.iter().any(|(_, known)| is_taken(known)) {
                    return false;
                }
                if *by_request {
                    values.retain(|(request, _)| *request != name.request);
                }
                values.push((name.request, found));
                *devices += 1;
            }
        }
        true
    }

    /// Removes a device that was added.
    pub(super) fn remove(&mut self, name: RequestName<'_>) {
        if !applies(self.spec(), name) {
            return;
        }
        match self {
            Self::Match { devices, .. } => *devices = devices.saturating_sub(1),
            Self::Distinct { values, devices, by_request, .. } => {
                *devices = devices.saturating_sub(1);
                match by_request {
                    true => values.retain(|(request, _)| *request != name.request),
                    false => drop(values.pop()),
                }
            }
        }
    }

    fn spec(&self) -> &'a DeviceConstraint {
        match self {
            Self::Match { spec, .. } | Self::Distinct { spec, .. } => spec,
        }
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

/// Returns an attribute of a device. An unqualified name of the device stands for a name in the driver's domain.
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

/// Returns the name under which a result refers to a request.
pub(super) fn result_name(name: RequestName<'_>) -> Str {
    match name.alternative {
        Some(alternative) => format!("{}/{alternative}", name.request).into(),
        None => name.request.into(),
    }
}
