//! The program `chromium`, from the system or from Debian's package manager.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use super::{Error, go_build::progress, io_error};

/// Names under which distributions install the browser.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const INSTALL: [&str; 6] =
    ["install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "chromium"];

/// Returns the path of the program. Installs it if it is missing and this process may do so; concurrent processes
/// install it once.
pub(super) fn find() -> Result<PathBuf, Error> {
    if let Some(found) = on_path() {
        return Ok(found);
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/real");
    fs::create_dir_all(&directory).map_err(io_error(format!("creating {}", directory.display())))?;
    let lock = directory.join("chromium.lock");
    let file = File::create(&lock).map_err(io_error(format!("creating {}", lock.display())))?;
    file.lock().map_err(io_error(format!("locking {}", lock.display())))?;
    if let Some(installed_meanwhile) = on_path() {
        return Ok(installed_meanwhile);
    }
    progress("installing chromium with apt-get (once) ...");
    if apt_get(&INSTALL).is_err() {
        // The lists of packages may be missing or old.
        apt_get(&["update"]).and_then(|()| apt_get(&INSTALL)).map_err(Error::BrowserMissing)?;
    }
    on_path().ok_or_else(|| Error::BrowserMissing("apt-get has installed no such command".to_owned()))
}

fn on_path() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    let candidates = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|path| path.is_file())
}

/// Runs `apt-get`. Returns the last line of its errors if it fails.
fn apt_get(args: &[&str]) -> Result<(), String> {
    let command = Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive").output();
    let output = command.map_err(|error| format!("apt-get: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("apt-get {}: {}", args.join(" "), errors.lines().last().unwrap_or_default()))
}
