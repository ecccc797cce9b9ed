//! Substitutes for versions of Go modules that the module proxy no longer serves.
//!
//! If the proxy refuses a pinned version, the Go module is copied to `target/`, and the nearest available version
//! replaces the pinned one in the copy. The files that are checked in do not change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::go_build::{Go, GoOutput};
use super::go_mod_file::{required, with_kubernetes_moved};
use super::go_versions::{GoVersion, any_minor, same_minor};
use super::{Error, io_error};

/// Maximum number of times that the copy is searched for refused versions. Each replacement may introduce further
/// refused versions.
const ROUNDS: usize = 40;

/// Maximum number of versions that are tried as a substitute for a refused version.
const CANDIDATES: usize = 12;

/// A module and its version.
type Pinned = (String, String);

/// A copy of a Go module in which versions have been replaced.
#[derive(Debug)]
pub(super) struct Substitute {
    /// The `go` command in the copy.
    go: Go,
    /// The `go` command in an empty module, for queries to the module proxy. In the copy, queries would fail because of
    /// versions that are not served.
    query: Go,
    /// The module whose version is the version of the program.
    reference: &'static str,
    /// The substitute for each pinned version that was replaced.
    replaced: BTreeMap<Pinned, String>,
}

impl Substitute {
    /// Copies the Go module of `go` to `directory` and replaces versions that are not served. Returns `None` if no
    /// version was replaced; the build then failed for another reason.
    pub(super) fn find(go: &Go, directory: &Path, reference: &'static str) -> Result<Option<Self>, Error> {
        copy(go.directory(), directory)?;
        let mut substitute = Self {
            go: go.at(directory),
            query: go.at(&empty_module(directory)?),
            reference,
            replaced: BTreeMap::new(),
        };
        substitute.replace_reference()?;
        substitute.replace_dependencies()?;
        Ok(Some(substitute).filter(|substitute| !substitute.replaced.is_empty()))
    }

    /// The `go` command in the copy.
    pub(super) fn go(&self) -> &Go {
        &self.go
    }

    /// The current version of the reference module.
    pub(super) fn version(&self) -> Result<String, Error> {
        let go_mod = self.go_mod()?;
        Ok(required(&go_mod, self.reference).unwrap_or_default().to_owned())
    }

    /// Formats the substitutes: `k8s.io/kubernetes v1.36.3 for v1.36.99, …`.
    pub(super) fn description(&self) -> String {
        let each = |((module, version), by): (&Pinned, &String)| format!("{module} {by} for {version}");
        self.replaced.iter().map(each).collect::<Vec<_>>().join(", ")
    }

    /// Replaces the version of the reference module if it is not served. The substitute has the same minor version,
    /// because other programs are compared with the result.
    fn replace_reference(&mut self) -> Result<(), Error> {
        let go_mod = self.go_mod()?;
        let Some(version) = required(&go_mod, self.reference) else { return Ok(()) };
        let pinned = (self.reference.to_owned(), version.to_owned());
        if self.is_served(&pinned)? {
            return Ok(());
        }
        let Some(served) = self.served(self.reference)? else { return Ok(()) };
        let substitute = self.first_served(&pinned, &served, same_minor)?;
        let moved = with_kubernetes_moved(&go_mod, &pinned.1, substitute.as_str());
        let path = self.go.go_mod();
        fs::write(&path, moved).map_err(io_error(format!("writing {}", path.display())))?;
        self.replaced.insert(pinned, substitute.as_str().to_owned());
        Ok(())
    }

    fn replace_dependencies(&mut self) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let GoOutput { succeeded, stderr, .. } = self.go.find_packages()?;
            if succeeded {
                break;
            }
            let mut any = false;
            for pinned in refused(&stderr) {
                any |= self.replace_dependency(pinned)?;
            }
            if !any {
                break;
            }
        }
        Ok(())
    }

    /// Replaces `pinned` if it is not served. Returns true if it was replaced.
    fn replace_dependency(&mut self, pinned: Pinned) -> Result<bool, Error> {
        if self.replaced.contains_key(&pinned) || self.is_served(&pinned)? {
            return Ok(false);
        }
        let Some(mut served) = self.served(&pinned.0)? else { return Ok(false) };
        // Some modules have no releases, only a latest commit.
        served.extend(self.latest(&pinned.0)?);
        let substitute = self.first_served(&pinned, &served, any_minor)?;
        let GoOutput { succeeded, .. } = self.go.replace(&pinned.0, substitute.as_str())?;
        if succeeded {
            self.replaced.insert(pinned, substitute.as_str().to_owned());
        }
        Ok(succeeded)
    }

    /// Returns the best substitute that is served. Each candidate is downloaded, because the proxy may refuse listed
    /// versions.
    fn first_served(
        &self,
        pinned: &Pinned,
        served: &[GoVersion],
        order: fn(&GoVersion, &[GoVersion]) -> Vec<GoVersion>,
    ) -> Result<GoVersion, Error> {
        let (module, version) = pinned;
        let fitting = GoVersion::parse(version).map(|pinned| order(&pinned, served)).unwrap_or_default();
        for candidate in fitting.into_iter().take(CANDIDATES) {
            if self.is_served(&(module.clone(), candidate.as_str().to_owned()))? {
                return Ok(candidate);
            }
        }
        Err(Error::NotServed {
            module: module.clone(),
            version: version.clone(),
            served: served.iter().map(|version| version.as_str().to_owned()).collect(),
            go_mod: self.go.go_mod(),
        })
    }

    /// Returns the versions that the proxy lists; `None` if the query fails.
    fn served(&self, module: &str) -> Result<Option<Vec<GoVersion>>, Error> {
        // Without `-retracted`, go would read the latest version to exclude retracted ones, and the proxy may refuse
        // that version.
        let GoOutput { succeeded, stdout, .. } =
            self.query.run(&["list", "-m", "-versions", "-retracted", module])?;
        let versions = stdout.split_whitespace().skip(1).filter_map(GoVersion::parse).collect();
        Ok(succeeded.then_some(versions))
    }

    fn latest(&self, module: &str) -> Result<Option<GoVersion>, Error> {
        let query = format!("{module}@latest");
        let GoOutput { succeeded, stdout, .. } =
            self.query.run(&["list", "-m", "-f", "{{.Version}}", &query])?;
        Ok(GoVersion::parse(stdout.trim()).filter(|_| succeeded))
    }

    fn is_served(&self, (module, version): &Pinned) -> Result<bool, Error> {
        let query = format!("{module}@{version}");
        Ok(self.query.run(&["mod", "download", &query])?.succeeded)
    }

    fn go_mod(&self) -> Result<String, Error> {
        let path = self.go.go_mod();
        fs::read_to_string(&path).map_err(io_error(format!("reading {}", path.display())))
    }
}

fn copy(sources: &Path, directory: &Path) -> Result<(), Error> {
    let failed = |path: &Path| io_error(format!("copying {} to {}", path.display(), directory.display()));
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(sources)(error)),
        _ => {}
    }
    fs::create_dir_all(directory).map_err(failed(sources))?;
    for path in super::go_module::source_files(sources).map_err(failed(sources))? {
        fs::copy(&path, directory.join(path.file_name().unwrap_or_default())).map_err(failed(&path))?;
    }
    Ok(())
}

fn empty_module(directory: &Path) -> Result<PathBuf, Error> {
    let empty = directory.join("query");
    let failed = || io_error(format!("creating {}", empty.display()));
    fs::create_dir_all(&empty).map_err(failed())?;
    fs::write(empty.join("go.mod"), "module query\n").map_err(failed())?;
    Ok(empty)
}

/// Refused versions in error messages of `go`, of the form `MODULE@VERSION:`. Versions with a wrong checksum are
/// ignored, because they must not be replaced.
fn refused(printed: &str) -> Vec<Pinned> {
    let lines = printed.lines().filter(|line| !line.contains("verifying "));
    let mut found: Vec<Pinned> = lines
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.strip_suffix(':'))
        .filter_map(|word| word.trim_matches(['(', ')']).split_once("@v"))
        .map(|(module, version)| (module.to_owned(), format!("v{version}")))
        .filter(|(module, version)| !module.contains("/pkg/mod/") && !version.contains(['/', ':']))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests;
