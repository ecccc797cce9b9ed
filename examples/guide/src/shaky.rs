//! Chapter 10. Shaky: a plugin with two mistakes.

use harbormaster::prelude::*;

/// Rejects nodes with odd numbers. Expects node names such as `rack-7`, and fails on all others.
#[derive(Default)]
pub struct Shaky;

impl Plugin for Shaky {
    const NAME: &'static str = "Shaky";
    implemented_points!();
}

impl Filter for Shaky {
    fn filter(&self, _: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let parts: Vec<&str> = node.name().split('-').collect();
        let number: u64 = parts[1].parse()?;
        if number % 2 == 1 {
            return Err(Reject::unresolvable("node(s) have odd numbers").into());
        }
        Ok(())
    }
}
