//! A table of the workloads of `scheduler_perf`.

use std::fmt;

use comfy_table::{Table, presets};

use super::catalog::Entry;

/// Workloads, and whether they can run, as text.
#[derive(Debug)]
pub struct Listing<'a>(pub &'a [Entry]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["configuration", "workload", "labels", "parameters", "runs"]);
        let mut last = "";
        for entry in self.0 {
            let file = entry.file.trim_end_matches("/performance-config.yaml");
            let shown = if file == last { "" } else { file };
            last = file;
            table.add_row([shown, &entry.name, &entry.labels.join(" "), &entry.parameters, &outcome(entry)]);
        }
        writeln!(f, "{table}")?;
        let runnable = self.0.iter().filter(|entry| entry.plan.is_ok()).count();
        write!(f, "{runnable} of {} workloads can run", self.0.len())
    }
}

fn outcome(entry: &Entry) -> String {
    match &entry.plan {
        Ok(plan) if plan.notes.is_empty() => "yes".to_owned(),
        Ok(plan) => format!("yes; {}", plan.notes.join("; ")),
        Err(obstacle) => format!("no: {}", obstacle.reason()),
    }
}
