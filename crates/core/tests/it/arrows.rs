//! The direction of dependencies between the crates, as reported by cargo.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

/// Each crate, with the crates of the workspace that it may use, not counting development dependencies.
const MAY_USE: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("framework", &["api"]),
    ("cel", &["api"]),
    ("plugins", &["api", "cel", "framework"]),
    ("yaml", &[]),
    ("config", &["api", "yaml"]),
    ("core", &["api", "framework"]),
    ("testkit", &["api", "framework"]),
    ("metrics", &["api", "framework", "core"]),
    ("client", &["api", "yaml"]),
    ("driver", &["api", "client", "framework", "core", "metrics"]),
    ("serve", &[]),
    ("page", &["api"]),
    ("port", &["client", "serve"]),
    ("setup", &["api", "framework", "config", "core", "plugins"]),
    ("manifests", &["api", "yaml", "validation"]),
    ("world", &["api", "framework", "validation", "plugins"]),
    ("sim", &["api", "validation", "framework", "config", "core", "plugins", "setup", "manifests", "world"]),
    (
        "oracle",
        &["api", "cel", "framework", "core", "plugins", "setup", "sim", "apiserver", "scheduler-plugins"],
    ),
    ("guide", &["harbormaster"]),
    ("validation", &["api", "cel"]),
    ("apiserver", &["api", "yaml", "validation", "serve"]),
    (
        "sandbox",
        &["api", "validation", "config", "core", "driver", "setup", "manifests", "world", "apiserver"],
    ),
    (
        "harbormaster",
        &[
            "api",
            "client",
            "framework",
            "config",
            "core",
            "driver",
            "setup",
            "plugins",
            "port",
            "page",
            "manifests",
            "sim",
            "sandbox",
            "testkit",
            "yaml",
        ],
    ),
    // For authors of extenders, who need only the server.
    ("extender", &["serve"]),
    // Like any extender, this crate uses only the extender kit. It is not a scheduler, so it does not use the
    // library for schedulers.
    ("metrics-extender", &["extender"]),
    // Like any custom scheduler, these crates use only the library for plugin authors.
    ("capacity-scheduling", &["harbormaster", "status-controller"]),
    ("coscheduling", &["harbormaster", "status-controller"]),
    ("network-overhead", &["harbormaster"]),
    ("node-metadata", &["harbormaster"]),
    ("node-resource-topology-match", &["harbormaster"]),
    ("node-resources-allocatable", &["harbormaster"]),
    ("pod-state", &["harbormaster"]),
    ("preemption-toleration", &["harbormaster"]),
    ("qos-sort", &["harbormaster"]),
    (
        "scheduler-plugins",
        &[
            "harbormaster",
            "capacity-scheduling",
            "coscheduling",
            "network-overhead",
            "node-metadata",
            "node-resource-topology-match",
            "node-resources-allocatable",
            "pod-state",
            "preemption-toleration",
            "qos-sort",
            "sysched",
            "trimaran",
        ],
    ),
    ("status-controller", &["harbormaster"]),
    ("stickyvm", &["harbormaster"]),
    ("sysched", &["harbormaster"]),
    ("trimaran", &["harbormaster"]),
    ("yoda", &["harbormaster"]),
];

/// Crates that do I/O.
const OUTSIDE: &[&str] = &[
    "client",
    "serve",
    "driver",
    "port",
    "harbormaster",
    "oracle",
    "apiserver",
    "sandbox",
    "extender",
    "metrics-extender",
    "status-controller",
    "yoda",
];
/// Libraries that only the crates in [`OUTSIDE`] may use.
const ONLY_OUTSIDE: &[&str] =
    &["tokio", "hyper", "hyper-util", "kube", "k8s-openapi", "ureq", "rustls", "tower"];

/// Returns the dependencies of each crate of the workspace, not counting development dependencies.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).expect("cargo metadata is JSON");
    let short =
        |name: &Value| name.as_str().unwrap_or_default().trim_start_matches("harbormaster-").to_owned();
    let packages = metadata["packages"].as_array().expect("packages").iter();
    packages
        .map(|package| {
            let all = package["dependencies"].as_array().expect("dependencies").iter();
            let normal = all.filter(|d| d["kind"] != "dev").map(|d| short(&d["name"]));
            (short(&package["name"]), normal.collect())
        })
        .collect()
}

#[test]
fn crates_depend_only_in_the_allowed_direction() {
    let dependencies = dependencies();
    for (name, uses) in &dependencies {
        let rule = MAY_USE.iter().find(|(known, _)| known == name);
        let (_, allowed) = rule.unwrap_or_else(|| panic!("crate {name} has no rule: add one to MAY_USE"));
        let own = uses.iter().filter(|used| dependencies.contains_key(*used));
        let broken: Vec<_> = own.filter(|used| !allowed.contains(&used.as_str())).collect();
        assert!(broken.is_empty(), "crate {name} must not depend on {broken:?}");
        let distinct: BTreeSet<_> = allowed.iter().collect();
        assert_eq!(distinct.len(), allowed.len(), "the rule for {name} lists a crate twice");
    }
    assert_eq!(dependencies.len(), MAY_USE.len(), "a rule names a crate that does not exist");
}

#[test]
fn only_the_outer_crates_use_network_and_runtime_libraries() {
    for (name, uses) in dependencies() {
        if OUTSIDE.contains(&name.as_str()) {
            continue;
        }
        let broken: Vec<_> = uses.iter().filter(|used| ONLY_OUTSIDE.contains(&used.as_str())).collect();
        assert!(broken.is_empty(), "crate {name} must not depend on {broken:?}");
    }
}
