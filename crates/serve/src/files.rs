//! Files that may change while they are in use.

use std::{fs, path::PathBuf, time::Duration};

/// Interval between two checks of the files.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// Files, with their contents when they were last read.
#[derive(Debug)]
pub struct WatchedFiles {
    paths: Vec<PathBuf>,
    last: Result<Vec<Vec<u8>>, String>,
}

impl WatchedFiles {
    /// Reads the files. Returns their contents in the same order.
    ///
    /// # Errors
    /// If a file cannot be read or is empty; the message contains its path.
    pub fn open(paths: Vec<PathBuf>) -> Result<(Self, Vec<Vec<u8>>), String> {
        let texts = read(&paths)?;
        Ok((Self { paths, last: Ok(texts.clone()) }, texts))
    }

    /// Reads the files again. Returns their contents or the error; `None` if the result has not changed.
    pub fn changed(&mut self) -> Option<Result<Vec<Vec<u8>>, String>> {
        let now = read(&self.paths);
        if now == self.last {
            return None;
        }
        self.last.clone_from(&now);
        Some(now)
    }

    /// Returns the paths, for messages.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        names.join(", ")
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    let texts = paths.iter().map(|path| match fs::read(path) {
        Ok(text) if text.is_empty() => Err(format!("{} is empty", path.display())),
        Ok(text) => Ok(text),
        Err(error) => Err(format!("{}: {error}", path.display())),
    });
    texts.collect()
}
