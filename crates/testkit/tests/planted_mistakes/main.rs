//! Typical mistakes, planted one at a time into otherwise correct plugins. The conformance checks find each of them.
//! Mistakes that row scope prevents do not even compile, as `scope.rs` in the framework shows.
//!
//! This is a separate test program because it replaces the process's panic hook.

#![allow(clippy::unwrap_used, reason = "a failing setup fails the test")]

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

mod batches;
mod events;
mod hints;
mod indexes;
mod orders;
mod permits;
mod reads;
mod reserves;
mod resources;
mod scope;
mod scores;
mod states;

/// A mistake, and the check that finds it.
struct Planted {
    /// Description of the mistake.
    wrong: &'static str,
    /// Part of the check's message.
    said: &'static str,
    /// Runs the check.
    check: fn(),
}

/// Mistakes of the same kind.
struct Family {
    name: &'static str,
    /// Runs the checks with the correct plugin.
    right: fn(),
    mistakes: &'static [Planted],
}

const TABLE: [Family; 12] = [
    Family { name: "scope", right: scope::right, mistakes: scope::MISTAKES },
    Family { name: "states", right: states::right, mistakes: states::MISTAKES },
    Family { name: "reads", right: reads::right, mistakes: reads::MISTAKES },
    Family { name: "hints", right: hints::right, mistakes: hints::MISTAKES },
    Family { name: "batches", right: batches::right, mistakes: batches::MISTAKES },
    Family { name: "indexes", right: indexes::right, mistakes: indexes::MISTAKES },
    Family { name: "scores", right: scores::right, mistakes: scores::MISTAKES },
    Family { name: "events", right: events::right, mistakes: events::MISTAKES },
    Family { name: "resources", right: resources::right, mistakes: resources::MISTAKES },
    Family { name: "permits", right: permits::right, mistakes: permits::MISTAKES },
    Family { name: "orders", right: orders::right, mistakes: orders::MISTAKES },
    Family { name: "reserves", right: reserves::right, mistakes: reserves::MISTAKES },
];

/// Returns the check's message, or `None` if the check finds nothing.
fn found(check: fn()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(check)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

#[test]
fn the_checks_find_every_planted_mistake_and_accept_correct_plugins() {
    std::panic::set_hook(Box::new(|_| ()));
    let (mut table, mut missed) = (String::new(), Vec::new());
    for Family { name, right, mistakes } in TABLE {
        if let Some(said) = found(right) {
            missed.push(format!("{name}: the correct plugin fails: {said}"));
        }
        for Planted { wrong, said, check } in mistakes {
            let told = found(*check);
            table += &format!("{name} | {wrong} | {}\n", told.as_deref().unwrap_or("not found"));
            match told {
                None => missed.push(format!("{name}: {wrong}: not found")),
                Some(told) if !told.contains(said) => {
                    missed.push(format!("{name}: {wrong}: expected {said:?}, but the check says: {told}"));
                }
                Some(_) => {}
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "{}\n\n{table}", missed.join("\n"));
    let all: Vec<&str> =
        TABLE.iter().flat_map(|family| family.mistakes).map(|planted| planted.wrong).collect();
    assert!(all.len() >= 40 && TABLE.iter().all(|family| family.mistakes.len() >= 4), "{}", all.len());
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "a mistake is listed twice");
}
