//! The sources of Kubernetes.

use std::fs;
use std::path::{Path, PathBuf};

use harbormaster_api::Release;

use super::go_build::Go;
use super::go_mod_file::required;
use super::real_binary::components;
use super::{Error, io_error};

/// Module with the sources.
const MODULE: &str = "k8s.io/kubernetes";

/// Returns the folder with the sources of Kubernetes in the version that is pinned for a release. Go downloads them if
/// they are not in its module cache.
pub fn kubernetes_source(release: Release) -> Result<PathBuf, Error> {
    let module = components(release);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(module.directory);
    let go = Go::new(&directory, module.versions);
    let go_mod = go.go_mod();
    let pinned = fs::read_to_string(&go_mod).map_err(io_error(format!("reading {}", go_mod.display())))?;
    let version = required(&pinned, MODULE).unwrap_or_default();
    let module = format!("{MODULE}@{version}");
    let cache = go.run(&["env", "GOMODCACHE"])?;
    let source = Path::new(cache.stdout.trim()).join(&module);
    if !source.is_dir() {
        let downloaded = go.run(&["mod", "download", &module])?;
        if !downloaded.succeeded {
            return Err(Error::Source { module, output: downloaded.stderr.trim().to_owned() });
        }
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_every_release_are_found() {
        for &release in Release::ALL {
            let source = kubernetes_source(release).unwrap();
            assert!(source.join("pkg/scheduler/scheduler.go").is_file(), "{}", source.display());
        }
    }
}
