//! Metadata, which is read of every object of every event, so it is read without serde.

use serde_json::Error;

use super::{
    fields::{Raw, find, next},
    nanoseconds, text,
};

/// `metadata` of an object. Like the table of fields, it has only what schedulers read.
#[derive(Debug, Default, PartialEq)]
pub struct ObjectMeta<'a> {
    /// `name`
    pub name: &'a str,
    /// `namespace`
    pub namespace: &'a str,
    /// `uid`
    pub uid: &'a str,
    /// `resourceVersion`
    pub resource_version: &'a str,
    /// `generation`
    pub generation: i64,
    /// `deletionTimestamp` in nanoseconds since 1970.
    pub deletion: Option<i64>,
    /// `labels`: keys and values.
    pub labels: Vec<(&'a str, &'a str)>,
    /// `annotations`: keys and values.
    pub annotations: Vec<(&'a str, &'a str)>,
    /// `ownerReferences`
    pub owners: Vec<Owner<'a>>,
}

/// An entry of `ownerReferences`.
#[derive(Debug, Default, PartialEq)]
pub struct Owner<'a> {
    /// `apiVersion`
    pub api_version: &'a str,
    /// `kind`
    pub kind: &'a str,
    /// `name`
    pub name: &'a str,
    /// `uid`
    pub uid: &'a str,
    /// `controller`
    pub controls: bool,
}

/// The texts of an object's metadata that are needed to see which object it is, and in which state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) version: &'a str,
}

impl<'a> Identity<'a> {
    /// Finds the texts in an object without an envelope. A text that cannot be read is empty; whoever reads the whole
    /// object gets an error.
    pub(crate) fn of(object: &'a [u8]) -> Self {
        let Ok(Some(Raw::Bytes(mut metadata))) = find(object, 1) else { return Self::default() };
        let mut all = Self::default();
        while let Ok(Some((number, raw))) = next(&mut metadata) {
            let of = match number {
                1 => &mut all.name,
                3 => &mut all.namespace,
                5 => &mut all.uid,
                6 => &mut all.version,
                _ => continue,
            };
            *of = text(raw).unwrap_or_default();
        }
        all
    }
}

impl<'a> ObjectMeta<'a> {
    /// Reads the metadata of an object of any kind, given without its envelope.
    ///
    /// # Errors
    /// If the bytes are not an object.
    pub fn of(mut object: &'a [u8]) -> Result<Self, Error> {
        let mut all = Self::default();
        while let Some((number, raw)) = next(&mut object)? {
            if number == 1 {
                all = Self::read(raw.bytes()?)?;
            }
        }
        Ok(all)
    }

    fn read(mut metadata: &'a [u8]) -> Result<Self, Error> {
        let mut all = Self::default();
        while let Some((number, raw)) = next(&mut metadata)? {
            match number {
                1 => all.name = text(raw)?,
                3 => all.namespace = text(raw)?,
                5 => all.uid = text(raw)?,
                6 => all.resource_version = text(raw)?,
                7 => all.generation = raw.number()?,
                9 => all.deletion = time(raw)?,
                11 => all.labels.push(entry(raw)?),
                12 => all.annotations.push(entry(raw)?),
                13 => all.owners.push(Owner::read(raw.bytes()?)?),
                _ => {}
            }
        }
        Ok(all)
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations.iter().rfind(|(of, _)| *of == key).map(|(_, value)| *value)
    }
}

impl<'a> Owner<'a> {
    fn read(mut owner: &'a [u8]) -> Result<Self, Error> {
        let mut all = Self::default();
        while let Some((number, raw)) = next(&mut owner)? {
            match number {
                1 => all.kind = text(raw)?,
                3 => all.name = text(raw)?,
                4 => all.uid = text(raw)?,
                5 => all.api_version = text(raw)?,
                6 => all.controls = raw.number()? != 0,
                _ => {}
            }
        }
        Ok(all)
    }
}

/// Returns a time; an empty message stands for none.
fn time(raw: Raw<'_>) -> Result<Option<i64>, Error> {
    let bytes = raw.bytes()?;
    (!bytes.is_empty()).then(|| nanoseconds(bytes)).transpose()
}

/// Returns the key and the value of an entry of a map.
fn entry(raw: Raw<'_>) -> Result<(&str, &str), Error> {
    let (mut key, mut value, mut rest) = ("", "", raw.bytes()?);
    while let Some((number, raw)) = next(&mut rest)? {
        match number {
            1 => key = text(raw)?,
            2 => value = text(raw)?,
            _ => {}
        }
    }
    Ok((key, value))
}
