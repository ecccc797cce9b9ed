//! The report, as text and as a document. The document is stable, since tools read it.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
    time::Duration,
};

use harbormaster_core::shadow::{Accord, Kind};
use serde::Serialize;

use super::{
    super::layout::{Style, Table},
    durations::Summary,
    tally::{EvictionExample, EvictionPlan, Example, Tally, whole_seconds},
};

/// Result of a comparison of two schedulers.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// Duration of the comparison.
    seconds: f64,
    /// Number of decisions that were compared.
    decisions: u64,
    /// Number of decisions that were alike.
    alike: u64,
    /// Number of decisions by result.
    results: BTreeMap<&'static str, u64>,
    /// Causes of differences, the most frequent first.
    causes: Vec<CauseReport>,
    /// Number of preemptions by result.
    preemptions: BTreeMap<&'static str, u64>,
    /// Examples of preemptions that differ.
    other_preemptions: Vec<EvictionExample>,
    /// Time from the appearance of a pod to its binding, as seen through the watch.
    until_bound: Summary,
    /// Duration of Harbormaster's decisions.
    decision: Summary,
    /// Processor time of this process in seconds.
    cpu_seconds: f64,
    /// Resident memory of this process in bytes.
    memory_bytes: u64,
    notes: Vec<&'static str>,
}

/// Differences with one cause.
#[derive(Clone, Debug, Serialize)]
struct CauseReport {
    result: &'static str,
    cause: String,
    count: u64,
    examples: Vec<Example>,
}

impl Report {
    pub(super) fn of(tally: &Tally, (cpu_seconds, memory_bytes): (f64, f64)) -> Self {
        let causes = tally.causes.iter().map(|((kind, name), cause)| {
            let (count, examples) = (cause.count, cause.examples.clone());
            CauseReport { result: kind.name(), cause: name.clone(), count, examples }
        });
        let mut causes: Vec<CauseReport> = causes.collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
        let evictions = |accord| tally.preemptions.get(&accord).map_or(0, |evictions| evictions.count);
        Self {
            seconds: tally.begun.elapsed().as_secs_f64(),
            decisions: tally.total(),
            alike: tally.agreed(),
            results: Kind::ALL.into_iter().map(|kind| (kind.name(), tally.count(kind))).collect(),
            causes,
            preemptions: Accord::ALL.into_iter().map(|accord| (accord.name(), evictions(accord))).collect(),
            other_preemptions: tally.preemptions.values().flat_map(|one| one.examples.clone()).collect(),
            until_bound: tally.theirs.summary(),
            decision: tally.ours.summary(),
            cpu_seconds,
            memory_bytes: memory_bytes as u64,
            notes: tally.notes.clone(),
        }
    }
}

/// Returns a part of all, in percent.
fn share(count: u64, all: u64) -> String {
    let percent = if all == 0 { 0.0 } else { 100.0 * count as f64 / all as f64 };
    format!("{percent:>6.2} %")
}

/// Returns the description of a result.
const fn meaning(kind: Kind) -> &'static str {
    match kind {
        Kind::Same => "the same node",
        Kind::Equal => "a node with the same score",
        Kind::BothWait => "both found no node",
        Kind::Raced => "differ only because pods came or went in between",
        Kind::Elsewhere => "another node: theirs fits, but scores less",
        Kind::Rejected => "another node: theirs does not fit",
        Kind::Waits => "no node: theirs does not fit either",
        Kind::Places => "a node, although they found none",
        Kind::Failed => "not decided, because of an error",
    }
}

/// Returns the description of a result of preemptions.
const fn meaning_of_preemption(accord: Accord) -> &'static str {
    match accord {
        Accord::Equal => "the same pods",
        Accord::OtherNode => "pods of another node",
        Accord::OtherVictims => "other pods of the same node",
        Accord::OnlyOurs => "pods, although they evicted none",
        Accord::OnlyTheirs => "no pod, although they evicted some",
    }
}

impl Report {
    /// Renders the report.
    pub(super) fn render(&self, style: Style) -> String {
        let time = whole_seconds(Duration::from_secs_f64(self.seconds));
        let begin = format!("{} decisions of the cluster's scheduler in {time}", self.decisions);
        let mut text = style.title("Comparison of two schedulers") + &style.paragraph(&begin);
        text += &self.results(style);
        for cause in &self.causes {
            text += &format!("\n{}", cause.render(style));
        }
        text += &self.evictions(style);
        let lines = [
            format!("From the appearance of a pod to its binding: {}", Shown(self.until_bound)),
            format!("Harbormaster's decision about a pod: {}", Shown(self.decision)),
            format!(
                "This process: {:.1} s of processor time, {:.0} MiB of memory",
                self.cpu_seconds,
                self.memory_bytes as f64 / f64::from(1 << 20)
            ),
        ];
        let lines = lines.iter().map(String::as_str).chain(self.notes.iter().copied());
        text + "\n" + &lines.map(|line| style.paragraph(line)).collect::<String>()
    }

    fn results(&self, style: Style) -> String {
        let mut table = Table::new(["    COUNT", "   SHARE", "HARBORMASTER WOULD HAVE CHOSEN"]);
        let mut add = |count: u64, meaning: &str| {
            let share = share(count, self.decisions);
            table.add([format!("{count:>9}").into(), share.into(), meaning.into()]);
        };
        for kind in Kind::ALL {
            add(self.results.get(kind.name()).copied().unwrap_or(0), meaning(kind));
        }
        add(self.alike, "alike (the first three)");
        table.render(style)
    }

    /// Renders the preemptions, if there were any.
    fn evictions(&self, style: Style) -> String {
        let all: u64 = self.preemptions.values().sum();
        if all == 0 {
            return String::new();
        }
        let mut table = Table::new(["    COUNT", "   SHARE", "HARBORMASTER WOULD HAVE EVICTED"]);
        for accord in Accord::ALL {
            let count = self.preemptions.get(accord.name()).copied().unwrap_or(0);
            let meaning = meaning_of_preemption(accord);
            table.add([format!("{count:>9}").into(), share(count, all).into(), meaning.into()]);
        }
        let mut text = format!("\n{}", table.render(style));
        if !self.other_preemptions.is_empty() {
            let mut table = Table::new(["FOR POD", "THEY EVICTED", "OURS"]);
            for EvictionExample { pod, theirs, ours, .. } in &self.other_preemptions {
                table.add([pod.into(), told(theirs.as_ref()).into(), told(ours.as_ref()).into()]);
            }
            text += &format!("\n{}", table.render(style));
        }
        text
    }
}

impl CauseReport {
    fn render(&self, style: Style) -> String {
        let heading = style.heading(&format!("{} {}, {}", self.count, self.result, self.cause));
        let mut table = Table::new(["POD", "THEIRS", "OURS", "WHY"]);
        for Example { pod, theirs, ours, detail } in &self.examples {
            let node = |node: &Option<String>| node.clone().unwrap_or_else(|| "<none>".to_owned());
            table.add([pod.into(), node(theirs).into(), node(ours).into(), detail.into()]);
        }
        match self.examples.is_empty() {
            true => heading,
            false => heading + &table.render(style),
        }
    }
}

/// Tells which pods are evicted.
fn told(plan: Option<&EvictionPlan>) -> String {
    match plan {
        Some(EvictionPlan { node, victims }) if victims.is_empty() => format!("no pod seen, from {node}"),
        Some(EvictionPlan { node, victims }) => format!("{} from {node}", victims.join(", ")),
        None => "<none>".to_owned(),
    }
}

/// Durations in a line of the text.
struct Shown(Summary);

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Summary { count, p50, p99, max } = self.0;
        let ms = |seconds: f64| format!("{:.1} ms", seconds * 1000.0);
        match count {
            0 => f.write_str("none seen"),
            _ => write!(f, "median {}, 99th percentile {}, at most {}", ms(p50), ms(p99), ms(max)),
        }
    }
}
