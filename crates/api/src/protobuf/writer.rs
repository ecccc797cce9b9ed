//! Objects that are sent in protobuf.

use super::MAGIC;
use crate::Timestamp;

/// Writes the fields of a message. Empty texts and zeros are left out, since they are what a reader assumes.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

/// Wire types.
const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// Returns an object in its envelope (`runtime.Unknown`). `fields` writes its fields.
pub fn object(api_version: &str, kind: &str, fields: impl FnOnce(&mut Writer)) -> Vec<u8> {
    /// More than most objects need.
    const LENGTH: usize = 512;
    let mut envelope = Writer(Vec::with_capacity(LENGTH));
    envelope.0.extend_from_slice(MAGIC);
    envelope.message(1, |type_meta| {
        type_meta.text(1, api_version);
        type_meta.text(2, kind);
    });
    envelope.message(2, fields);
    envelope.0
}

impl Writer {
    /// Writes a text.
    pub fn text(&mut self, number: u64, text: &str) {
        if !text.is_empty() {
            self.varint(number << 3 | BYTES);
            self.varint(text.len() as u64);
            self.0.extend_from_slice(text.as_bytes());
        }
    }

    /// Writes an integer.
    pub fn number(&mut self, number: u64, value: i64) {
        if value != 0 {
            self.varint(number << 3 | VARINT);
            // Negative integers are written as if they had no sign.
            self.varint(value as u64);
        }
    }

    /// Writes a message, whose fields are written by `fields`.
    pub fn message(&mut self, number: u64, fields: impl FnOnce(&mut Self)) {
        self.varint(number << 3 | BYTES);
        // Most messages are shorter than 128 bytes, so their length takes one byte.
        let at = self.0.len();
        self.0.push(0);
        fields(self);
        let length = self.0.len() - at - 1;
        if length < 0x80 {
            self.0[at] = length as u8;
        } else {
            let mut long = Self::default();
            long.varint(length as u64);
            self.0.splice(at..=at, long.0);
        }
    }

    /// Writes a `meta.MicroTime`.
    pub fn micro_time(&mut self, number: u64, time: Timestamp) {
        const MICRO: i64 = 1_000;
        const SECOND: i64 = 1_000_000_000;
        self.message(number, |fields| {
            fields.number(1, time.0.div_euclid(SECOND));
            fields.number(2, time.0.rem_euclid(SECOND) / MICRO * MICRO);
        });
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_an_envelope_with_its_type() {
        let bytes = object("v1", "Binding", |binding| {
            binding.message(2, |target| target.text(3, "node"));
        });
        let type_meta = b"\x0a\x0d\x0a\x02v1\x12\x07Binding";
        let content = b"\x12\x08\x12\x06\x1a\x04node";
        assert_eq!(bytes, [b"k8s\0".as_slice(), type_meta, content].concat());
    }

    #[test]
    fn a_length_of_more_than_127_takes_two_bytes() {
        let mut writer = Writer::default();
        writer.message(1, |inner| inner.text(1, &"x".repeat(300)));
        assert_eq!(writer.0[..6], [0x0a, 0xaf, 0x02, 0x0a, 0xac, 0x02]);
        assert_eq!(writer.0.len(), 306);
    }

    #[test]
    fn numbers_and_times_are_written_as_the_api_server_reads_them() {
        for (value, expected) in [
            (0, vec![]),
            (1, vec![8, 1]),
            (300, vec![8, 0xac, 2]),
            (-1, vec![8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut writer = Writer::default();
            writer.number(1, value);
            assert_eq!(writer.0, expected, "{value}");
        }
        let mut writer = Writer::default();
        writer.micro_time(2, Timestamp(5_000_001_999));
        assert_eq!(writer.0, [0x12, 5, 8, 5, 16, 0xe8, 7], "the time is cut to microseconds");
    }
}
