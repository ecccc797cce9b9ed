//! The kubeconfig of a sandbox. The file belongs to one sandbox at a time and is removed when that sandbox ends.

use std::{
    fs::{self, File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

/// A line that every sandbox's kubeconfig contains but hardly any other file does.
const OURS: &str = "current-context: harbormaster\n";

/// A kubeconfig written by this process. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Kubeconfig {
    path: PathBuf,
    /// The locked file. The operating system releases the lock even if the process is killed.
    _file: File,
}

impl Kubeconfig {
    /// Writes the file. Replaces the file of a sandbox that is no longer running.
    ///
    /// # Errors
    ///
    /// If a running sandbox uses the file, if the file is not a sandbox's kubeconfig, or if it cannot be written.
    pub(super) fn write(path: &Path, text: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let refused =
            |why: &str| format!("{} {why}; --kubeconfig-out FILE selects another file", path.display());
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(refused("is used by another sandbox")),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut before = Vec::new();
        file.read_to_end(&mut before).map_err(failed)?;
        if !before.is_empty() && !String::from_utf8_lossy(&before).contains(OURS) {
            return Err(refused("was not written by a sandbox"));
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { path, _file: file })
    }

    /// Returns the absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // The user may have removed the file already.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_one_sandbox_at_a_time_and_is_removed_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        let first = Kubeconfig::write(&path, &format!("{OURS}server: 1\n")).unwrap();
        let refused = Kubeconfig::write(&path, OURS).unwrap_err();
        assert!(refused.contains("is used by another sandbox; --kubeconfig-out"), "{refused}");
        assert!(fs::read_to_string(&path).unwrap().contains("server: 1"));
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn a_leftover_sandbox_file_is_replaced_and_other_files_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        fs::write(&path, format!("{OURS}an old and much longer text\n")).unwrap();
        let kept = Kubeconfig::write(&path, OURS).unwrap();
        assert_eq!(fs::read_to_string(kept.path()).unwrap(), OURS);
        drop(kept);
        fs::write(&path, "current-context: work\n").unwrap();
        let refused = Kubeconfig::write(&path, OURS).unwrap_err();
        assert!(refused.contains("was not written by a sandbox"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "current-context: work\n");
    }
}
