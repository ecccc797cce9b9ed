//! What a benchmark found.

use std::fmt;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::workload::PLAIN;
use super::{Measurement, Size, chart};

/// How two contenders compare on every workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The contenders.
    pub names: [&'static str; 2],
    /// One for each workload, in order.
    pub workloads: Vec<Comparison>,
}

/// All runs of one workload, and how the second contender compares with the first.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The workload.
    pub name: &'static str,
    /// How large it was.
    pub size: Size,
    /// The runs of each contender, in order; equal positions are a pair.
    pub runs: [Vec<Measurement>; 2],
    /// Second divided by first: the median over the pairs, for each column.
    pub ratios: Vec<Ratio>,
    /// Each contender's CPU time per pod divided by its own with plain pods,
    /// both medians; unless it ran no plain pods or this is them.
    pub cpu_against_plain: [Option<f64>; 2],
    /// Why the runs are not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// One column of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// The column.
    pub name: &'static str,
    /// The median.
    pub median: f64,
    /// The smallest ratio of a pair.
    pub least: f64,
    /// The largest ratio of a pair.
    pub most: f64,
}

type Column = (&'static str, fn(&Measurement) -> f64);

const CPU: Column = ("CPU-ms/pod", |run| run.cpu_ms_per_pod);

/// All ratios; the text shows the first [`SHOWN`].
const COLUMNS: [Column; 7] = [
    ("pods/s", |run| run.pods_per_second),
    CPU,
    ("RSS MiB", |run| run.resident_mib),
    ("start→first s", |run| run.start_to_first_binding_s),
    ("start CPU-ms", |run| run.start_cpu_ms),
    ("peak MiB", |run| run.peak_mib),
    ("server CPU-ms/pod", |run| run.server_cpu_ms_per_pod),
];

const SHOWN: usize = 4;

impl Report {
    pub(super) fn new(names: [&'static str; 2], mut workloads: Vec<Comparison>) -> Self {
        if let Some(plain) = workloads.iter().find(|workload| workload.name == PLAIN) {
            let plain = [plain.median(0, CPU), plain.median(1, CPU)];
            for workload in workloads.iter_mut().filter(|workload| workload.name != PLAIN) {
                workload.cpu_against_plain =
                    [0, 1].map(|index| Some(workload.median(index, CPU)? / plain[index]?));
            }
        }
        Self { names, workloads }
    }

    /// The workloads that did not run to their end.
    pub fn failures(&self) -> impl Iterator<Item = &Comparison> {
        self.workloads.iter().filter(|workload| workload.failure.is_some())
    }

    fn table(&self) -> Table {
        let shown = COLUMNS.iter().take(SHOWN);
        // The last column has entries only beside plain pods.
        let against_plain = self.workloads.iter().any(|workload| workload.cpu_against_plain != [None, None]);
        let mut header = vec!["workload", "scheduler"];
        header.extend(shown.clone().map(|(name, _)| *name));
        header.extend(against_plain.then_some("CPU/pod ÷ own plain"));
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(header);
        for workload in &self.workloads {
            let mut title = workload.name;
            for (index, name) in self.names.iter().enumerate() {
                let medians = shown.clone().map(|column| workload.median(index, *column));
                let cells = medians.chain(against_plain.then_some(workload.cpu_against_plain[index]));
                let cells = cells.map(|value| value.map(number).unwrap_or_default());
                table.add_row([title, *name].map(str::to_owned).into_iter().chain(cells));
                title = "";
            }
            let ratios = workload.ratios.iter().take(SHOWN).map(Ratio::to_string);
            table.add_row([String::new(), "ratio".to_owned()].into_iter().chain(ratios));
        }
        table
    }

    fn chart(&self) -> String {
        let bars = |workload: &Comparison| {
            let bar = |(index, name): (usize, &&'static str)| Some((*name, workload.median(index, CPU)?));
            self.names.iter().enumerate().filter_map(bar).collect()
        };
        let groups: Vec<_> = self.workloads.iter().map(|workload| (workload.name, bars(workload))).collect();
        chart::bars(&groups)
    }
}

impl Comparison {
    pub(super) fn new(
        name: &'static str,
        size: Size,
        runs: [Vec<Measurement>; 2],
        failure: Option<String>,
    ) -> Self {
        let ratios = COLUMNS.iter().filter_map(|column| ratio(*column, &runs)).collect();
        Self { name, size, runs, ratios, cpu_against_plain: [None; 2], failure }
    }

    /// The median over the runs of one contender.
    fn median(&self, contender: usize, (_, value): Column) -> Option<f64> {
        median(&mut self.runs[contender].iter().map(value).collect::<Vec<_>>())
    }
}

fn ratio((name, value): Column, [left, right]: &[Vec<Measurement>; 2]) -> Option<Ratio> {
    let pairs = left.iter().zip(right);
    let mut ratios: Vec<f64> = pairs.map(|(left, right)| value(right) / value(left)).collect();
    let median = median(&mut ratios)?;
    Some(Ratio { name, median, least: *ratios.first()?, most: *ratios.last()? })
}

/// Sorts the values.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[middle - 1], upper) })
}

/// Three digits or so.
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
        for workload in self.failures() {
            writeln!(f, "{} failed: {}", workload.name, workload.failure.as_deref().unwrap_or_default())?;
        }
        write!(f, "\nCPU-ms per pod, shorter is better\n{}", self.chart().trim_end())
    }
}

#[cfg(test)]
mod tests;
