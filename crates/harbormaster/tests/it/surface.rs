//! `surface/surface.txt` lists everything that plugin authors may rely on, so that a removal or change is noticed here
//! first.
//!
//! The text is generated from the sources: first all paths under which items can be imported, then the definitions of
//! these items.

#[path = "surface/listing.rs"]
mod listing;
#[path = "surface/sources.rs"]
mod sources;

use std::{collections::BTreeSet, fs, path::Path, sync::LazyLock};

static SURFACE: LazyLock<String> = LazyLock::new(|| listing::surface("harbormaster"));

#[test]
fn the_surface_equals_the_recorded_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surface/surface.txt");
    let now = SURFACE.as_str();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, now).expect("the surface can be written");
        return;
    }
    let written = fs::read_to_string(&path).expect("the surface is written down");
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (written.lines().collect(), now.lines().collect());
    let lines = |sign: &str, lines: Vec<&&str>| -> String {
        lines.into_iter().map(|line| format!("{sign} {}\n", line.trim_end())).collect()
    };
    let changes = lines("-", old.difference(&new).collect()) + &lines("+", new.difference(&old).collect());
    assert!(
        written == now,
        "the interface that plugin authors rely on has changed:\n{changes}\nLines with - break plugins: keep the old name, \
         or say in CHANGELOG.md what to do instead. Then renew the list:\n  UPDATE_GOLDEN=1 cargo test -p harbormaster \
         --test it surface::"
    );
}

#[test]
fn imports_are_found_through_re_exports_and_private_modules() {
    let now = SURFACE.as_str();
    for line in [
        "harbormaster::main = harbormaster::main",
        "harbormaster::prelude::Filter = harbormaster_framework::plugin::Filter",
        "harbormaster::sandbox::Sandbox = harbormaster_sandbox::sandbox::Sandbox",
        "struct harbormaster::scheduler::Scheduler",
        "  pub fn builder() -> Builder",
        "struct harbormaster_sandbox::sandbox::Sandbox",
        "  pub async fn start(Options) -> Result<Self, SandboxError>",
        "  pub board: Board",
    ] {
        assert!(now.lines().any(|it| it == line), "{line} is not in\n{now}");
    }
    for name in ["harbormaster::commands", "ErasedPlugin", "_build_"] {
        assert!(!now.lines().any(|it| it.starts_with("harbormaster::") && it.contains(name)), "{name}");
    }
}
