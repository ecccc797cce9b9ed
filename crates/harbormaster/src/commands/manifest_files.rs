//! The manifests that `-f` names: files, directories and standard input.

use std::{fs, io::Read as _, path::Path};

use harbormaster_yaml::Source;

use super::files::{self, COMPRESSED, read};

/// Extensions of the files that are read from directories.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads all files. From a directory, reads the manifests that it directly contains, sorted by name. `-` stands for
/// standard input.
///
/// # Errors
///
/// Names the first file that cannot be read, or the first directory without manifests.
pub(crate) fn read_all(paths: &[String]) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    for path in paths {
        if path == "-" {
            let mut content = Vec::new();
            let read = std::io::stdin().read_to_end(&mut content).and_then(|_| files::text(content));
            let text = read.map_err(|e| format!("standard input: {e}"))?;
            sources.push(Source { name: "-".to_owned(), text });
        } else if Path::new(path).is_dir() {
            let found = manifests_in(Path::new(path)).map_err(|e| format!("{path}: {e}"))?;
            if found.is_empty() {
                return Err(format!("{path}: no file name ends with .{}", EXTENSIONS.join(", .")));
            }
            for path in found {
                sources.push(read(&path)?);
            }
        } else {
            sources.push(read(path)?);
        }
    }
    Ok(sources)
}

fn manifests_in(directory: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_compressed = path.extension().is_some_and(|extension| extension == COMPRESSED);
        let plain = if is_compressed { path.with_extension("") } else { path.clone() };
        let fits = plain.extension().is_some_and(|e| EXTENSIONS.iter().any(|known| e == *known));
        if fits && path.is_file() {
            found.push(path.to_string_lossy().into_owned());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_read_in_name_order_and_missing_files_are_named() {
        let directory = std::env::temp_dir().join(format!("harbormaster-files-{}", std::process::id()));
        fs::create_dir_all(directory.join("deeper")).unwrap();
        for name in ["b.yaml", "a.json", "notes.txt", "notes.zst", "c.yaml.zst"] {
            fs::write(directory.join(name), name).unwrap();
        }
        let sources = read_all(&[directory.to_string_lossy().into_owned()]).unwrap();
        let texts: Vec<_> = sources.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, ["a.json", "b.yaml", "c.yaml.zst"]);
        let empty = directory.join("deeper").to_string_lossy().into_owned();
        assert!(read_all(&[empty]).unwrap_err().ends_with("no file name ends with .yaml, .yml, .json"));
        assert!(read_all(&["/no/such/file".to_owned()]).unwrap_err().starts_with("/no/such/file: "));
        fs::remove_dir_all(directory).unwrap();
    }
}
