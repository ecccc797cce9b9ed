//! Builds the Go modules under `tests/`, each into one program in `target/real`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::go_build::{Go, ModFiles, Versions, progress};
use super::go_mod_file::{kubernetes_version, required};
use super::go_substitute::Substitute;
use super::{Error, io_error};

/// A Go module with one program.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoModule {
    /// Directory, relative to the workspace.
    pub(super) directory: &'static str,
    /// Package to build: `.`, or a package of another module.
    pub(super) package: &'static str,
    /// NAME in the program's path, `target/real/NAME-KEY`, where KEY is a hash of its sources.
    pub(super) name: &'static str,
    /// Versions of its dependencies.
    pub(super) versions: Versions,
    /// Module whose version determines the Kubernetes version of the program.
    pub(super) reference: &'static str,
    /// Description for messages.
    pub(super) description: &'static str,
    /// Duration of the first build on 2 cores, in minutes.
    pub(super) minutes: u32,
}

/// A built program.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The program's Kubernetes version, such as `v1.36.1`.
    pub(super) version: String,
}

impl GoModule {
    /// Returns the program that belongs to the current content of the module, and builds it if it does not exist yet.
    /// Concurrent processes build it once. Progress is written to stderr, bypassing the capture of test output.
    pub(super) fn ensure(&self) -> Result<Program, Error> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = workspace.join(self.directory);
        let directory = workspace.join("target/real");
        let key = source_key(&sources, self.versions)
            .map_err(io_error(format!("reading {}", sources.display())))?;
        let path = directory.join(format!("{}-{key:016x}", self.name));
        if !path.exists() {
            fs::create_dir_all(&directory).map_err(io_error(format!("creating {}", directory.display())))?;
            self.build_once(&sources, &directory, &path)?;
        }
        let version = fs::read_to_string(version_file(&path))
            .map_err(io_error(format!("reading {}", version_file(&path).display())))?;
        Ok(Program { path, version })
    }

    /// Builds `path`, unless another process built it while this one was waiting.
    fn build_once(&self, sources: &Path, directory: &Path, path: &Path) -> Result<(), Error> {
        let Self { description, minutes, .. } = self;
        let lock_path = directory.join("lock");
        let lock = File::create(&lock_path).map_err(io_error(format!("creating {}", lock_path.display())))?;
        if lock.try_lock().is_err() {
            progress(&format!("{description}: waiting for another process to finish building ..."));
            lock.lock().map_err(io_error(format!("locking {}", lock_path.display())))?;
        }
        if path.exists() {
            return Ok(());
        }
        let unfinished = directory.join("unfinished");
        progress(&format!("building {description} with Go (once, about {minutes} min on 2 cores) ..."));
        let start = Instant::now();
        let version = self.build(sources, &unfinished)?;
        progress(&format!("built {description} {version} in {} s", start.elapsed().as_secs()));
        self.remove_outdated(directory);
        fs::write(version_file(path), version)
            .map_err(io_error(format!("creating {}", version_file(path).display())))?;
        fs::rename(&unfinished, path).map_err(io_error(format!("creating {}", path.display())))
    }

    /// Builds the pinned version, or the nearest one if the module proxy does not serve it. Returns the version.
    fn build(&self, sources: &Path, output: &Path) -> Result<String, Error> {
        let go = Go::new(sources, self.versions);
        let go_mod = go.go_mod();
        let pinned =
            fs::read_to_string(&go_mod).map_err(io_error(format!("reading {}", go_mod.display())))?;
        let pinned = kubernetes_version(required(&pinned, self.reference).unwrap_or_default());
        let failure = match go.build(self.package, output, &pinned, ModFiles::ReadOnly) {
            Err(failure @ Error::Build { .. }) => failure,
            done => return done.map(|()| pinned),
        };
        let copy = output.with_file_name(format!("{}-substitute", self.name));
        let Some(substitute) = Substitute::find(&go, &copy, self.reference)? else { return Err(failure) };
        progress(&format!(
            "{}: replaced versions that the module proxy does not serve: {}",
            self.description,
            substitute.description()
        ));
        let version = kubernetes_version(&substitute.version()?);
        substitute.go().build(self.package, output, &version, ModFiles::Writable)?;
        Ok(version)
    }

    /// Deletes outdated builds, each of which takes up to 140 MB. Processes that are still running an outdated build
    /// are not affected.
    fn remove_outdated(&self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let file = entry.file_name();
            let file = file.to_string_lossy();
            if file.strip_prefix(self.name).is_some_and(is_key) {
                // A leftover file only takes up disk space.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Path of the file that contains a program's version.
fn version_file(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".version");
    name.into()
}

/// Returns true if the rest of a file name is `-` and a key, as in the names of a program and its version file.
fn is_key(rest: &str) -> bool {
    let rest = rest.strip_suffix(".version").unwrap_or(rest);
    rest.strip_prefix('-').is_some_and(|key| key.len() == 16 && u64::from_str_radix(key, 16).is_ok())
}

/// Hash of the names and contents of the module's files, without the files that belong to other versions only: 64-bit
/// FNV-1a, which is the same in every process and Rust release.
fn source_key(sources: &Path, versions: Versions) -> io::Result<u64> {
    let go_mod = Path::new(versions.go_mod);
    let go_sum = go_mod.with_extension("sum");
    let mut key = Fnv::default();
    for path in source_files(sources)? {
        let is_source = path.extension().is_some_and(|extension| extension == "go");
        if !is_source && !path.ends_with(go_mod) && !path.ends_with(&go_sum) {
            continue;
        }
        key.write(path.file_name().unwrap_or_default().as_encoded_bytes());
        key.write(&[0]);
        key.write(&fs::read(&path)?);
        key.write(&[0]);
    }
    Ok(key.0)
}

/// Returns the files of a Go module, sorted by name.
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
            versions: Versions::MAIN,
            reference: "",
            description: "",
            minutes: 0,
        };
        module.remove_outdated(directory.path());
        assert_eq!(files.map(|file| directory.path().join(file).exists()), [false, false, true, true]);
    }

    #[test]
    fn the_key_changes_with_content_and_name_of_go_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let key = || source_key(directory.path(), Versions::MAIN).unwrap();
        write("a.go", "package main");
        write("go.sum", "");
        let first = key();
        assert_eq!(first, key());
        write("notes.txt", "hello");
        write("other.mod", "module main");
        assert_eq!(first, key());
        write("go.sum", "h1");
        let second = key();
        assert_ne!(first, second);
        fs::rename(directory.path().join("a.go"), directory.path().join("b.go")).unwrap();
        assert_ne!(second, key());
    }
}
