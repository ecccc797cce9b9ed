//! Places pods on nodes with a fast disk, preferably in their own rack.

use harbormaster_extender::{Ask, Error, Extender, Filtered, Reject, Scores};

async fn filter(ask: Ask) -> Result<Filtered, Error> {
    ask.need_objects()?;
    Ok(ask.filter(|node| match node.label("disk") {
        Some("ssd") => Ok(()),
        _ => Err(Reject::unresolvable("node(s) have no fast disk")),
    }))
}

async fn prioritize(ask: Ask) -> Result<Scores, Error> {
    let rack = ask.pod.metadata.label("rack");
    Ok(ask.score(|node| if node.label("rack") == rack { 10 } else { 0 }))
}

fn main() -> std::process::ExitCode {
    Extender::new().filter(filter).prioritize(prioritize).main()
}
