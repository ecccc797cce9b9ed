//! Report of a benchmark.

use std::fmt;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::workload::PLAIN;
use super::{Measurement, Size, chart, svg};

/// Comparison of two contenders on all workloads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Names of the contenders.
    pub names: [&'static str; 2],
    /// One comparison per workload, in order.
    pub workloads: Vec<Comparison>,
}

/// All runs of one workload, and the ratios of the second contender to the first.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Name of the workload.
    pub name: String,
    /// Size of the workload.
    pub size: Size,
    /// Runs of each contender in order; runs with the same index are a pair.
    pub runs: [Vec<Measurement>; 2],
    /// Ratios of the second contender to the first, one per column. Each is computed from the pairs that did equal
    /// work.
    pub ratios: Vec<Ratio>,
    /// Pairs that did unequal work, which are excluded from the ratios.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unequal: Vec<UnequalPair>,
    /// Each contender's CPU time per pod divided by the same contender's CPU time per plain pod. Both are medians over
    /// the runs that delivered all events. `None` if there are no such runs, and for the workload of plain pods.
    pub cpu_against_plain: [Option<f64>; 2],
    /// The reason the runs are incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A pair of runs in which the contenders wrote different numbers of objects per measured pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnequalPair {
    /// Number of the pair, from 1.
    pub pair: usize,
    /// [`Measurement::events`] of each contender.
    pub events: [usize; 2],
    /// [`Measurement::volume_writes`] of each contender.
    pub volume_writes: [usize; 2],
}

impl UnequalPair {
    fn of(pair: usize, left: &Measurement, right: &Measurement) -> Option<Self> {
        let events = [left.events, right.events];
        let volume_writes = [left.volume_writes, right.volume_writes];
        let missing_events = [left, right].map(|run| run.pods.saturating_sub(run.events));
        let differ = |[left, right]: [usize; 2]| left != right;
        (differ(missing_events) || differ(volume_writes)).then_some(Self { pair, events, volume_writes })
    }
}

/// Ratio of the contenders' values in one column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// Name of the column.
    pub name: &'static str,
    /// Median over the pairs.
    pub median: f64,
    /// Smallest ratio of any pair.
    pub least: f64,
    /// Largest ratio of any pair.
    pub most: f64,
}

type Column = (&'static str, fn(&Measurement) -> f64);

const CPU: Column = ("CPU-ms/pod", |run| run.cpu_ms_per_pod);

/// Columns that the text shows.
const SHOWN: [Column; 3] = [("pods/s", |run| run.pods_per_second), CPU, ("RSS MiB", |run| run.resident_mib)];

/// Columns that the text shows, too, if pods were waiting when the scheduler started.
const FIRST: [Column; 1] = [("start→first s", |run| run.start_to_first_binding_s.unwrap_or(f64::NAN))];

/// Columns that the text shows, too, if times from creation to binding were measured.
const LATENCY: [Column; 2] = [
    ("p50 ms", |run| run.latency.map_or(f64::NAN, |latency| latency.p50_ms)),
    ("p99 ms", |run| run.latency.map_or(f64::NAN, |latency| latency.p99_ms)),
];

/// Columns that the text shows, too, if starts were measured.
const START: [Column; 3] = [
    ("start CPU-ms", |run| run.start_cpu_ms),
    ("peak MiB", |run| run.peak_mib),
    ("lists s", |run| run.lists.map_or(f64::NAN, |lists| lists.seconds)),
];

/// Columns that only the machine-readable output always has.
const FURTHER: [Column; 3] = [START[0], START[1], ("server CPU-ms/pod", |run| run.server_cpu_ms_per_pod)];

impl Report {
    pub(super) fn new(names: [&'static str; 2], mut workloads: Vec<Comparison>) -> Self {
        if let Some(plain) = workloads.iter().find(|workload| workload.name == PLAIN) {
            let plain = [plain.complete_cpu(0), plain.complete_cpu(1)];
            for workload in workloads.iter_mut().filter(|workload| workload.name != PLAIN) {
                workload.cpu_against_plain =
                    [0, 1].map(|index| Some(workload.complete_cpu(index)? / plain[index]?));
            }
        }
        Self { names, workloads }
    }

    /// Returns the workloads that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Comparison> {
        self.workloads.iter().filter(|workload| workload.failure.is_some())
    }

    /// Chart of the CPU time per pod of every workload, as an SVG document.
    pub fn svg(&self) -> String {
        let values = |workload: &Comparison| [0, 1].map(|index| workload.median(index, CPU));
        let groups: Vec<_> =
            self.workloads.iter().map(|workload| (workload.name.as_str(), values(workload))).collect();
        svg::bars("CPU time per pod in milliseconds (logarithmic)", self.names, &groups)
    }

    fn table(&self) -> Table {
        let has_latency = self.workloads.iter().any(Comparison::has_latency);
        let has_lists = self.workloads.iter().any(Comparison::has_lists);
        let has_first = self.workloads.iter().any(Comparison::has_first);
        let shown = SHOWN.iter().chain(FIRST.iter().filter(|_| has_first));
        let shown = shown.chain(LATENCY.iter().filter(|_| has_latency));
        let shown = shown.chain(START.iter().filter(|_| has_lists));
        // The last column compares the other workloads with plain pods, so it is omitted if plain pods were not
        // measured.
        let against_plain = self.workloads.iter().any(|workload| workload.cpu_against_plain != [None, None]);
        let mut header = vec!["workload", "scheduler"];
        header.extend(shown.clone().map(|(name, _)| *name));
        header.push("events");
        header.extend(against_plain.then_some("CPU/pod ÷ own plain"));
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(header);
        for workload in &self.workloads {
            let mut title = workload.name.as_str();
            for (index, name) in self.names.iter().enumerate() {
                let text = |value: Option<f64>| value.map(number).unwrap_or_default();
                let mut row = [title, *name].map(str::to_owned).to_vec();
                row.extend(shown.clone().map(|column| text(workload.median(index, *column))));
                row.push(workload.events(index));
                row.extend(against_plain.then(|| text(workload.cpu_against_plain[index])));
                table.add_row(row);
                title = "";
            }
            let mut row = vec![String::new(), "ratio".to_owned()];
            let ratio = |name: &str| workload.ratios.iter().find(|ratio| ratio.name == name);
            let ratios = shown.clone().map(|(name, _)| ratio(name).map(Ratio::to_string).unwrap_or_default());
            row.extend(ratios.filter(|_| !workload.ratios.is_empty()));
            if workload.ratios.is_empty() && !workload.unequal.is_empty() {
                row.push("none: unequal work".to_owned());
            }
            table.add_row(row);
        }
        table
    }

    fn chart(&self) -> String {
        let bars = |workload: &Comparison| {
            let bar = |(index, name): (usize, &&'static str)| Some((*name, workload.median(index, CPU)?));
            self.names.iter().enumerate().filter_map(bar).collect()
        };
        let groups: Vec<_> =
            self.workloads.iter().map(|workload| (workload.name.as_str(), bars(workload))).collect();
        chart::bars(&groups)
    }
}

impl Comparison {
    pub(super) fn new(
        name: impl Into<String>,
        size: Size,
        runs: [Vec<Measurement>; 2],
        failure: Option<String>,
    ) -> Self {
        let pairs = || runs[0].iter().zip(&runs[1]);
        let equal: Vec<_> =
            pairs().filter(|(left, right)| UnequalPair::of(0, left, right).is_none()).collect();
        let has_latency = runs.iter().flatten().any(|run| run.latency.is_some());
        let latency = LATENCY.iter().filter(|_| has_latency);
        let lists = START[2..].iter().filter(|_| runs.iter().flatten().any(|run| run.lists.is_some()));
        let first =
            FIRST.iter().filter(|_| runs.iter().flatten().any(|run| run.start_to_first_binding_s.is_some()));
        let columns = SHOWN.iter().chain(first).chain(latency).chain(lists).chain(&FURTHER);
        let ratios = columns.filter_map(|column| ratio(*column, &equal)).collect();
        let unequal =
            (1..).zip(pairs()).filter_map(|(pair, (left, right))| UnequalPair::of(pair, left, right));
        let unequal = unequal.collect();
        Self { name: name.into(), size, runs, ratios, unequal, cpu_against_plain: [None; 2], failure }
    }

    fn has_first(&self) -> bool {
        self.runs.iter().flatten().any(|run| run.start_to_first_binding_s.is_some())
    }

    fn has_latency(&self) -> bool {
        self.runs.iter().flatten().any(|run| run.latency.is_some())
    }

    fn has_lists(&self) -> bool {
        self.runs.iter().flatten().any(|run| run.lists.is_some())
    }

    /// Median CPU time per pod of one contender's runs that delivered all events.
    fn complete_cpu(&self, contender: usize) -> Option<f64> {
        let complete = self.runs[contender].iter().filter(|run| run.events == run.pods);
        median(&mut complete.map(CPU.1).collect::<Vec<_>>())
    }

    /// Formats the number of events that one contender's runs delivered. If events are missing, adds the expected
    /// number.
    fn events(&self, contender: usize) -> String {
        let runs = &self.runs[contender];
        let events = || runs.iter().map(|run| run.events);
        let (Some(least), Some(most)) = (events().min(), events().max()) else { return String::new() };
        let range = if least == most { least.to_string() } else { format!("{least}-{most}") };
        if runs.iter().all(|run| run.events == run.pods) {
            return range;
        }
        format!("{range} of {}", runs.iter().map(|run| run.pods).max().unwrap_or_default())
    }

    /// Median over the runs of one contender.
    fn median(&self, contender: usize, (_, value): Column) -> Option<f64> {
        median(&mut self.runs[contender].iter().map(value).collect::<Vec<_>>())
    }
}

fn ratio((name, value): Column, pairs: &[(&Measurement, &Measurement)]) -> Option<Ratio> {
    let mut ratios: Vec<f64> = pairs.iter().map(|(left, right)| value(right) / value(left)).collect();
    let median = median(&mut ratios)?;
    Some(Ratio { name, median, least: *ratios.first()?, most: *ratios.last()? })
}

/// Sorts the values and returns their median.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[middle - 1], upper) })
}

/// Formats a number with about three digits.
pub(super) fn number(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.median)?;
        if self.least < self.most {
            write!(f, " ({:.3}-{:.3})", self.least, self.most)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right] = self.names;
        writeln!(f, "{}", self.table())?;
        writeln!(f, "medians over the runs; ratio: {right} ÷ {left}, median over the pairs (least-most)")?;
        for workload in &self.workloads {
            for UnequalPair { pair, events, volume_writes } in &workload.unequal {
                write!(
                    f,
                    "{}, pair {pair}: unequal work: {left} wrote {} events, {right} {}; ",
                    workload.name, events[0], events[1]
                )?;
                if volume_writes[0] != volume_writes[1] {
                    write!(
                        f,
                        "{left} wrote volumes {} times, {right} {}; ",
                        volume_writes[0], volume_writes[1]
                    )?;
                }
                writeln!(f, "the pair has no ratio")?;
            }
        }
        for workload in self.failures() {
            writeln!(f, "{} failed: {}", workload.name, workload.failure.as_deref().unwrap_or_default())?;
        }
        write!(f, "\nCPU-ms per pod, shorter is better\n{}", self.chart().trim_end())
    }
}

#[cfg(test)]
mod tests;
