//! Building the Go modules under `tests/`, each into one program in `target/real`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::go_build::{Go, ModFiles, progress};
use super::go_mod_file::{kubernetes_version, required};
use super::go_substitute::Substitute;
use super::{Error, io_error};

/// A Go module with one program.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoModule {
    /// Where it lies, under the workspace.
    pub(super) directory: &'static str,
    /// Package that is built: `.`, or one of another module.
    pub(super) package: &'static str,
    /// The program is `target/real/NAME-KEY`, with the key of its sources.
    pub(super) name: &'static str,
    /// The module whose version in `go.mod` says which version of Kubernetes
    /// the program is.
    pub(super) reference: &'static str,
    /// What it is, for people.
    pub(super) what: &'static str,
    /// How long the first build takes on 2 cores, in minutes.
    pub(super) minutes: u32,
}

/// A built program.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The version of Kubernetes that it is: `v1.36.1`.
    pub(super) version: String,
}

impl GoModule {
    /// Returns the program, building it first when it does not exist for the
    /// present content of the module. Processes that run side by side build it
    /// once. Progress goes to stderr, past the capture of test output.
    pub(super) fn ensure(&self) -> Result<Program, Error> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = workspace.join(self.directory);
        let directory = workspace.join("target/real");
        let key = source_key(&sources).map_err(io_error(format!("reading {}", sources.display())))?;
        let path = directory.join(format!("{}-{key:016x}", self.name));
        if !path.exists() {
            fs::create_dir_all(&directory).map_err(io_error(format!("creating {}", directory.display())))?;
            self.build_once(&sources, &directory, &path)?;
        }
        let version = fs::read_to_string(version_file(&path))
            .map_err(io_error(format!("reading {}", version_file(&path).display())))?;
        Ok(Program { path, version })
    }

    /// Builds `path` unless another process has done so while we waited for it.
    fn build_once(&self, sources: &Path, directory: &Path, path: &Path) -> Result<(), Error> {
        let Self { what, minutes, .. } = self;
        let lock_path = directory.join("lock");
        let lock = File::create(&lock_path).map_err(io_error(format!("creating {}", lock_path.display())))?;
        if lock.try_lock().is_err() {
            progress(&format!("{what}: waiting for another process that builds ..."));
            lock.lock().map_err(io_error(format!("locking {}", lock_path.display())))?;
        }
        if path.exists() {
            return Ok(());
        }
        let unfinished = directory.join("unfinished");
        progress(&format!("building {what} with Go (about {minutes} min on 2 cores, once) ..."));
        let start = Instant::now();
        let version = self.build(sources, &unfinished)?;
        progress(&format!("built {what} {version} in {} s", start.elapsed().as_secs()));
        self.remove_outdated(directory);
        fs::write(version_file(path), version)
            .map_err(io_error(format!("creating {}", version_file(path).display())))?;
        fs::rename(&unfinished, path).map_err(io_error(format!("creating {}", path.display())))
    }

    /// Builds the version that is pinned, or where that is not served the
    /// nearest that is. Returns which.
    fn build(&self, sources: &Path, output: &Path) -> Result<String, Error> {
        let go_mod = sources.join("go.mod");
        let pinned =
            fs::read_to_string(&go_mod).map_err(io_error(format!("reading {}", go_mod.display())))?;
        let pinned = kubernetes_version(required(&pinned, self.reference).unwrap_or_default());
        let go = Go::in_directory(sources);
        let failure = match go.build(self.package, output, &pinned, ModFiles::AsTheyAre) {
            Err(failure @ Error::Build { .. }) => failure,
            done => return done.map(|()| pinned),
        };
        let copy = output.with_file_name(format!("{}-substitute", self.name));
        let Some(substitute) = Substitute::find(&go, &copy, self.reference)? else { return Err(failure) };
        progress(&format!(
            "{}: some versions are not served, so others stand in for them: {}",
            self.what,
            substitute.description()
        ));
        let version = kubernetes_version(&substitute.version()?);
        substitute.go().build(self.package, output, &version, ModFiles::Updated)?;
        Ok(version)
    }

    /// An outdated build would keep up to 140 MB. A process that runs one is
    /// not hurt.
    fn remove_outdated(&self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let file = entry.file_name();
            let file = file.to_string_lossy();
            if file.strip_prefix(self.name).is_some_and(is_key) {
                // It only costs disk if it stays.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The file beside a program that tells its version.
fn version_file(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".version");
    name.into()
}

/// Whether a file name goes on with `-` and a key, as those of a program and of
/// its version do.
fn is_key(rest: &str) -> bool {
    let rest = rest.strip_suffix(".version").unwrap_or(rest);
    rest.strip_prefix('-').is_some_and(|key| key.len() == 16 && u64::from_str_radix(key, 16).is_ok())
}

/// A key over names and contents of the module's files: FNV-1a, 64 bits, which
/// is the same in every process and every release of Rust.
fn source_key(sources: &Path) -> io::Result<u64> {
    let mut key = Fnv::default();
    for path in source_files(sources)? {
        key.write(path.file_name().unwrap_or_default().as_encoded_bytes());
        key.write(&[0]);
        key.write(&fs::read(&path)?);
        key.write(&[0]);
    }
    Ok(key.0)
}

/// The files of a Go module, in the order of their names.
pub(super) fn source_files(sources: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(sources)? {
        let path = entry?.path();
        let kind = path.extension().and_then(|extension| extension.to_str());
        if matches!(kind, Some("go" | "mod" | "sum")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_builds_of_the_same_name_are_outdated() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            "kubectl-1.27-0123456789abcdef",
            "kubectl-1.27-0123456789abcdef.version",
            "kubectl-1.2-0123456789abcdef",
            "kubectl-1.27-x",
        ];
        for file in files {
            fs::write(directory.path().join(file), "").unwrap();
        }
        let module = GoModule {
            directory: "",
            package: ".",
            name: "kubectl-1.27",
            reference: "",
            what: "",
            minutes: 0,
        };
        module.remove_outdated(directory.path());
        assert_eq!(files.map(|file| directory.path().join(file).exists()), [false, false, true, true]);
    }

    #[test]
    fn the_key_changes_with_content_and_name_of_go_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let key = || source_key(directory.path()).unwrap();
        write("a.go", "package main");
        write("go.sum", "");
        let first = key();
        assert_eq!(first, key());
        write("notes.txt", "hello");
        assert_eq!(first, key());
        write("go.sum", "h1");
        let second = key();
        assert_ne!(first, second);
        fs::rename(directory.path().join("a.go"), directory.path().join("b.go")).unwrap();
        assert_ne!(second, key());
    }
}
