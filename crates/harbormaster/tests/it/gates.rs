//! Every feature gate of every release is honored, accepted because it changes no decision, or reported.

use std::{fs, path::Path};

use harbormaster_api::{
    Release,
    features::{Feature, Features, GateState, Support},
};
use harbormaster_setup::{Choices, Setup};

/// Gates that are on by default although their features are not implemented.
const MISSING: &[Feature] = &[Feature::DRADeviceTaintRules];
/// Files that name every gate.
const TABLES: [&str; 1] = ["api/src/features.rs"];

/// Returns the sources of all crates, without tests and tables.
fn sources() -> String {
    let mut sources = String::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![crates.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the entry can be read").path();
            let name = path.strip_prefix(&crates).expect("the path is below the folder").to_string_lossy();
            let is_left_out =
                name.contains("tests") || name.starts_with("oracle") || TABLES.contains(&&*name);
            if is_left_out {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && name.contains("/src/") {
                let text = fs::read_to_string(&path).expect("the file can be read");
                sources.push_str(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
            }
        }
    }
    sources
}

/// Returns true if the sources contain the gate as a variant, or its name as a string.
fn is_read(gate: Feature, sources: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    let variant = format!("Feature::{gate}");
    sources.match_indices(&variant).any(|(at, _)| is_end(&sources[at + variant.len()..]))
        || sources.contains(&format!("\"{gate}\""))
}

fn setup(features: Features) -> Result<Setup, String> {
    let choices = Choices { features, ..Choices::default() };
    Setup::read(None, &choices).map_err(|errors| errors.to_string())
}

#[test]
fn no_gate_is_silently_ignored() {
    let sources = sources();
    for &release in Release::ALL {
        let default = Features::of(release);
        for &gate in Feature::ALL {
            let GateState::Exists(state) = gate.history().state(release, release.minor()) else { continue };
            let changed = setup(default.with(gate, !state.on));
            match gate.support() {
                support if support.is_refused_in(release) && !state.on => {
                    let expected = format!("the feature gate {gate} is not supported: leave it off");
                    assert_eq!(changed.err(), Some(expected), "{release}");
                }
                Support::Honored | Support::HonoredFrom(_) => {
                    assert!(is_read(gate, &sources), "{gate} is not read");
                }
                Support::Neutral => {
                    assert!(!is_read(gate, &sources), "{gate} is read");
                    assert!(changed.is_ok_and(|setup| setup.warnings.is_empty()), "{release} {gate}");
                }
                Support::AlwaysOn => {
                    assert!(state.on, "{release} {gate}");
                    let warnings = changed.map(|setup| setup.warnings).unwrap_or_default();
                    assert!(warnings.iter().any(|warning| warning.contains(gate.name())), "{release} {gate}");
                }
                Support::Refused => assert!(MISSING.contains(&gate), "{release} {gate}"),
            }
        }
    }
}
