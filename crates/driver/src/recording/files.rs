//! The files of recordings: their names, and how they are read.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use harbormaster_api::Timestamp;

/// Beginning of the names of all files.
const PREFIX: &str = "recording-";
/// End of the names of all files.
const SUFFIX: &str = ".jsonl.zst";

/// Files that one process has written, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Start of the process and its ID, as in the names of the files.
    pub name: String,
    /// Numbers and paths of the files.
    pub files: Vec<(u64, PathBuf)>,
}

/// Returns the name of a run of a process that starts now.
pub(super) fn run_name(now: Timestamp) -> String {
    let time: String = now.to_rfc3339_micro().chars().filter(|char| !matches!(char, ':' | '-')).collect();
    format!("{time}-{}", std::process::id())
}

/// Returns the name of a file.
pub(super) fn file_name(run: &str, number: u64) -> String {
    format!("{PREFIX}{run}-{number:06}{SUFFIX}")
}

/// Returns the run and the number in the name of a file; `None` for other files.
fn parsed(name: &str) -> Option<(&str, u64)> {
    let (run, number) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.rsplit_once('-')?;
    Some((run, number.parse().ok()?))
}

/// Returns the recordings in a directory, oldest first.
///
/// # Errors
/// If the directory cannot be read.
pub fn runs(directory: &Path) -> io::Result<Vec<Run>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some((run, number)) = name.and_then(parsed) {
            found.push((run.to_owned(), number, path));
        }
    }
    found.sort();
    let mut runs: Vec<Run> = Vec::new();
    for (name, number, path) in found {
        match runs.last_mut() {
            Some(last) if last.name == name => last.files.push((number, path)),
            _ => runs.push(Run { name, files: vec![(number, path)] }),
        }
    }
    Ok(runs)
}

/// The lines of a file.
pub struct Lines {
    text: BufReader<zstd::stream::read::Decoder<'static, BufReader<File>>>,
    is_complete: bool,
}

impl Lines {
    /// Opens a file.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let decoder = zstd::stream::read::Decoder::new(File::open(path)?)?;
        Ok(Self { text: BufReader::new(decoder), is_complete: true })
    }

    /// Reads the next line into `line`. Returns false at the end, and if the rest is missing because the process was
    /// killed; `line` is then empty or incomplete.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn next(&mut self, line: &mut String) -> io::Result<bool> {
        line.clear();
        match self.text.read_line(line) {
            Ok(_) => Ok(line.ends_with('\n')),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_complete = false;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns false if the end of the file was found missing.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_names_in_the_order_in_which_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let start = run_name(Timestamp::from_secs(1_800_000_000));
        assert!(start.starts_with("20270115T080000.000000Z-"), "{start}");
        let others = ["notes.txt", "recording-x.jsonl.zst", "recording-x-y.jsonl.zst"];
        let names = [file_name("b-7", 1), file_name("a-9", 10), file_name("a-9", 9)];
        for name in names.iter().map(String::as_str).chain(others) {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let found: Vec<(String, Vec<u64>)> = runs(directory.path())
            .unwrap()
            .into_iter()
            .map(|run| (run.name, run.files.into_iter().map(|(number, _)| number).collect()))
            .collect();
        assert_eq!(found, [("a-9".to_owned(), vec![9, 10]), ("b-7".to_owned(), vec![1])]);
    }
}
