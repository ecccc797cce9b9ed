//! The cost of plugins to plain pods that have no use for them: pods without claims with and without DynamicResources,
//! and pods without a group with and without GangScheduling.
//!
//! Runs with and without a plugin alternate, since the speed of a machine changes. The table shows medians.
//!
//! Pass `-- unused` to run only this benchmark.

use std::{sync::Arc, time::Duration};

use harbormaster_api::points::ExtensionPoint as P;
use harbormaster_framework::{profile::Profile, registry::Registry};

use super::{built, points, run};

const NODES: usize = 5000;
const PODS: usize = 5000;
/// Number of runs with and of runs without a plugin.
const PAIRS: usize = 15;

/// The default profile with GangScheduling, and without the plugin named `absent`.
fn profile_without(absent: &str) -> Arc<Profile> {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let mut points = points();
    points.push((P::Permit, vec![("GangScheduling".to_owned(), 0)]));
    points.push((P::PodGroupPostFilter, vec![("DefaultPreemption".to_owned(), 0)]));
    for (_, plugins) in &mut points {
        plugins.retain(|(name, _)| name != absent);
    }
    built(points, &registry)
}

fn median(mut of: Vec<Duration>) -> f64 {
    of.sort();
    of[of.len() / 2].as_secs_f64() * 1e6 / PODS as f64
}

pub(crate) fn compare() {
    println!();
    println!("{:<18}  {:>12}  {:>12}  {:>6}", "plugin", "us without", "us with", "ratio");
    for plugin in ["DynamicResources", "GangScheduling"] {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            without.push(run(profile_without(plugin), NODES, PODS, 1).1);
            with.push(run(profile_without(""), NODES, PODS, 1).1);
        }
        let (without, with) = (median(without), median(with));
        println!("{plugin:<18}  {without:>12.2}  {with:>12.2}  {:>6.3}", with / without);
    }
}
