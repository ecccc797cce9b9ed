//! Files named by flags.

use std::{
    fs,
    io::{self, Read},
};

use harbormaster_yaml::Source;

/// Extension of compressed files.
pub(crate) const COMPRESSED: &str = "zst";
/// The bytes with which a compressed file begins (RFC 8878, section 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads one file, which may be compressed with zstd.
///
/// # Errors
/// If the file cannot be read; the error names the file.
pub(crate) fn read(path: &str) -> Result<Source, String> {
    let text = fs::read(path).and_then(text).map_err(|e| format!("{path}: {e}"))?;
    Ok(Source { name: path.to_owned(), text })
}

/// Returns the content of a file as text.
///
/// # Errors
/// If a compressed content is damaged, or the content is not text.
pub(crate) fn text(mut content: Vec<u8>) -> io::Result<String> {
    if content.starts_with(&MAGIC) {
        let mut plain = Vec::new();
        zstd::stream::read::Decoder::new(content.as_slice())?.read_to_end(&mut plain)?;
        content = plain;
    }
    String::from_utf8(content).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_files_are_read_as_text() {
        let compressed = zstd::stream::encode_all("kind: Pod".as_bytes(), 0).unwrap();
        assert_eq!(text(compressed.clone()).unwrap(), "kind: Pod");
        assert_eq!(text(b"kind: Pod".to_vec()).unwrap(), "kind: Pod");
        assert!(text(compressed[..compressed.len() - 3].to_vec()).is_err(), "a damaged file is an error");
        assert_eq!(text(vec![0xff]).unwrap_err().to_string(), "not UTF-8 text");
    }
}
