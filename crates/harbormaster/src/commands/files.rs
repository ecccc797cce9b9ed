//! Files named by flags.

use std::fs;

use harbormaster_yaml::Source;

/// Reads one file.
///
/// # Errors
/// If the file cannot be read; the error names the file.
pub(crate) fn read(path: &str) -> Result<Source, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    Ok(Source { name: path.to_owned(), text })
}
