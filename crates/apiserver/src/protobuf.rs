//! Request bodies in protobuf, the default format of client-go's typed clients, including those in kubectl. Bodies
//! are decoded with the table of types and become JSON. Objects are always returned as JSON, which those clients
//! accept too.

use base64::{Engine, engine::general_purpose::STANDARD};
use harbormaster_api::Timestamp;
use serde_json::{Map, Value, json};

use crate::schema::{self, Shape};

/// Prefix of every body in protobuf.
const MAGIC: &[u8] = b"k8s\0";
/// Maximum nesting depth of messages; deeper ones are refused.
const DEEPEST: u32 = 64;

/// Returns true if a body has the prefix of Kubernetes' protobuf encoding.
pub(crate) fn is_meant(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// Decodes a body into JSON.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let envelope =
        body.strip_prefix(MAGIC).ok_or("the body does not begin with the prefix of Kubernetes protobuf")?;
    let envelope = Fields::read(envelope)?;
    let type_meta = Fields::read(envelope.bytes(1))?;
    let (api_version, kind) = (type_meta.text(1)?, type_meta.text(2)?);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let names = [schema::type_name(group, version, &kind), format!("meta.{kind}")];
    let name = names.iter().find(|name| schema::find(name).is_some());
    let name = name.ok_or_else(|| format!("{kind} of {api_version} is supported in JSON only"))?;
    let mut object = message(name, envelope.bytes(2), 0)?;
    object.insert("kind".into(), kind.into());
    object.insert("apiVersion".into(), api_version.into());
    Ok(Value::Object(object))
}

/// A value on the wire.
#[derive(Clone, Copy)]
enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Fields of a message, in wire order. A lookup returns the last occurrence of a field. A missing field is 0 or
/// empty.
struct Fields<'a>(Vec<(u64, Raw<'a>)>);

impl<'a> Fields<'a> {
    fn read(mut rest: &'a [u8]) -> Result<Self, String> {
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let tag = varint(&mut rest)?;
            let raw = match tag & 7 {
                0 => Raw::Number(varint(&mut rest)?),
                1 => Raw::Number(fixed(take(&mut rest, 8)?)),
                2 => {
                    let length = usize::try_from(varint(&mut rest)?).map_err(|_| "a length is too large")?;
                    Raw::Bytes(take(&mut rest, length)?)
                }
                5 => Raw::Number(fixed(take(&mut rest, 4)?)),
                other => return Err(format!("wire type {other} is not used by Kubernetes")),
            };
            fields.push((tag >> 3, raw));
        }
        Ok(Self(fields))
    }

    fn last(&self, number: u64) -> Option<Raw<'a>> {
        self.0.iter().rev().find(|(found, _)| *found == number).map(|(_, raw)| *raw)
    }

    fn bytes(&self, number: u64) -> &'a [u8] {
        if let Some(Raw::Bytes(bytes)) = self.last(number) { bytes } else { &[] }
    }

    fn text(&self, number: u64) -> Result<String, String> {
        text(self.bytes(number))
    }

    fn integer(&self, number: u64) -> i64 {
        if let Some(Raw::Number(integer)) = self.last(number) { integer.cast_signed() } else { 0 }
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (taken, left) = rest.split_at_checked(length).ok_or("the body ends too early")?;
    *rest = left;
    Ok(taken)
}

fn fixed(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number is too long".to_owned())
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is not UTF-8".to_owned())
}

fn message(name: &str, bytes: &[u8], depth: u32) -> Result<Map<String, Value>, String> {
    if depth > DEEPEST {
        return Err("messages are nested too deeply".to_owned());
    }
    let of = schema::find(name).ok_or_else(|| format!("there is no message type {name}"))?;
    let mut object = Map::new();
    for (number, raw) in Fields::read(bytes)?.0 {
        let Some(field) = of.fields.get(&number) else { continue };
        match field.shape {
            Shape::Inline => {
                if let Value::Object(inner) = value(field.of, raw, depth)? {
                    object.extend(inner);
                }
            }
            Shape::List => {
                let element = value(field.of, raw, depth)?;
                if let Value::Array(list) = object.entry(field.name).or_insert_with(|| json!([])) {
                    list.push(element);
                }
            }
            Shape::Map => {
                let (key, element) = entry(field.of, raw, depth)?;
                if let Value::Object(map) = object.entry(field.name).or_insert_with(|| json!({})) {
                    map.insert(key, element);
                }
            }
            Shape::Single | Shape::NonZero => {
                let value = value(field.of, raw, depth)?;
                let zero = value == "" || value == 0 || value == false;
                if !(value.is_null() || zero && field.shape == Shape::NonZero) {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(object)
}

fn entry(of: &str, raw: Raw<'_>, depth: u32) -> Result<(String, Value), String> {
    let Raw::Bytes(bytes) = raw else { return Err("an entry of a map is not a message".to_owned()) };
    let fields = Fields::read(bytes)?;
    let element = fields.last(2).unwrap_or(Raw::Bytes(&[]));
    Ok((fields.text(1)?, value(of, element, depth)?))
}

fn value(of: &str, raw: Raw<'_>, depth: u32) -> Result<Value, String> {
    match (of, raw) {
        ("i" | "l", Raw::Number(number)) => Ok(number.cast_signed().into()),
        ("t", Raw::Number(number)) => Ok((number != 0).into()),
        ("d", Raw::Number(number)) => Ok(f64::from_bits(number).into()),
        ("s", Raw::Bytes(bytes)) => text(bytes).map(Value::from),
        ("b", Raw::Bytes(bytes)) => Ok(STANDARD.encode(bytes).into()),
        ("Quantity", Raw::Bytes(bytes)) => Fields::read(bytes)?.text(1).map(Value::from),
        ("Time", Raw::Bytes([])) => Ok(Value::Null),
        ("Time", Raw::Bytes(bytes)) => time(bytes),
        ("IntOrString", Raw::Bytes(bytes)) => int_or_string(bytes),
        ("RawExtension" | "FieldsV1", Raw::Bytes(bytes)) => {
            serde_json::from_slice(Fields::read(bytes)?.bytes(1)).map_err(|e| e.to_string())
        }
        (name, Raw::Bytes(bytes)) if name.len() > 1 => message(name, bytes, depth + 1).map(Value::Object),
        _ => Err("a field has the wrong wire type".to_owned()),
    }
}

fn time(bytes: &[u8]) -> Result<Value, String> {
    let fields = Fields::read(bytes)?;
    let (seconds, nanos) = (fields.integer(1), fields.integer(2));
    let at = Timestamp(seconds.saturating_mul(1_000_000_000).saturating_add(nanos));
    Ok(if nanos == 0 { at.to_rfc3339() } else { at.to_rfc3339_micro() }.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let fields = Fields::read(bytes)?;
    Ok(if fields.integer(1) == 1 { fields.text(3)?.into() } else { fields.integer(2).into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a field that contains bytes.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        out.extend_from_slice(content);
        out
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &meta), bytes(2, raw)].concat()
    }

    #[test]
    fn a_message_becomes_equivalent_json() {
        let label = [bytes(1, b"app"), bytes(2, b"web")].concat();
        let metadata = [bytes(1, b"a"), bytes(2, b""), bytes(8, b""), bytes(11, &label)].concat();
        let amount = [bytes(1, b"cpu"), bytes(2, &bytes(1, b"100m"))].concat();
        let container = [bytes(1, b"c"), bytes(2, b"i"), bytes(8, &bytes(2, &amount))].concat();
        let secret = [bytes(1, b"v"), bytes(2, &bytes(6, &bytes(1, b"s")))].concat();
        // Field 4, `terminationGracePeriodSeconds`, is optional, so an explicit 0 is kept.
        let spec = [bytes(1, &secret), bytes(2, &container), vec![4 << 3, 0]].concat();
        let pod = [bytes(1, &metadata), bytes(2, &spec)].concat();
        let expected = json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "a", "labels": {"app": "web"}},
            "spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}], "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
        });
        assert_eq!(decode(&body("v1", "Pod", &pod)), Ok(expected));
    }

    #[test]
    fn garbage_causes_errors_and_truncated_bodies_cause_no_panics() {
        let good = body("v1", "Pod", &bytes(1, &bytes(1, b"a")));
        for end in 0..good.len() {
            let _ = decode(&good[..end]);
        }
        assert!(decode(b"k8s\0\xff\xff\xff").is_err());
        assert!(decode(b"{}").is_err());
        assert!(decode(&body("v1", "Nonsense", b"")).unwrap_err().contains("supported in JSON only"));
        let mut deep = Vec::new();
        for _ in 0..200 {
            let length = deep.len();
            deep = [vec![2 << 3 | 2], vec![(length & 0x7f) as u8 | 0x80, (length >> 7) as u8], deep].concat();
        }
        let _ = message("core.Pod", &deep, 0);
    }
}
