//! The table of a benchmark.

use std::fmt;

use comfy_table::Table;
use serde::Serialize;

use super::Measurement;

/// All runs, and how the second contender compares with the first.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The contenders.
    pub names: [&'static str; 2],
    /// The runs of each, in order; equal positions are a pair.
    pub runs: [Vec<Measurement>; 2],
    /// Second divided by first: the median over the pairs, for each column.
    pub ratios: Vec<Ratio>,
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

const COLUMNS: [Column; 7] = [
    ("pods/s", |run| run.pods_per_second),
    ("CPU-ms/pod", |run| run.cpu_ms_per_pod),
    ("start CPU-ms", |run| run.start_cpu_ms),
    ("RSS MiB", |run| run.resident_mib),
    ("peak MiB", |run| run.peak_mib),
    ("start→first s", |run| run.start_to_first_binding_s),
    ("server CPU-ms/pod", |run| run.server_cpu_ms_per_pod),
];

impl Report {
    pub(super) fn new(names: [&'static str; 2], runs: [Vec<Measurement>; 2]) -> Self {
        let ratios = COLUMNS.iter().filter_map(|column| ratio(column, &runs)).collect();
        Self { names, runs, ratios }
    }
}

fn ratio((name, value): &Column, [left, right]: &[Vec<Measurement>; 2]) -> Option<Ratio> {
    let mut ratios: Vec<f64> =
        left.iter().zip(right).map(|(left, right)| value(right) / value(left)).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    let middle = ratios.len() / 2;
    let median = if ratios.len() % 2 == 1 {
        ratios[middle]
    } else {
        f64::midpoint(ratios[middle - 1], ratios[middle])
    };
    Some(Ratio { name, median, least, most })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.set_header(["scheduler"].into_iter().chain(COLUMNS.iter().map(|(name, _)| *name)));
        let pairs = self.runs.iter().map(Vec::len).max().unwrap_or(0);
        for pair in 0..pairs {
            for (name, runs) in self.names.iter().zip(&self.runs) {
                if let Some(run) = runs.get(pair) {
                    let cells = COLUMNS.iter().map(|(_, value)| format!("{:.2}", value(run)));
                    table.add_row(std::iter::once((*name).to_owned()).chain(cells));
                }
            }
        }
        let cell = |ratio: &Ratio| format!("{:.3} ({:.3}-{:.3})", ratio.median, ratio.least, ratio.most);
        let title = format!("{} ÷ {}", self.names[1], self.names[0]);
        table.add_row(std::iter::once(title).chain(self.ratios.iter().map(cell)));
        write!(f, "{table}\nthe last row: median over the pairs (least-most)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Vec<Measurement> {
        let run = |value: &f64| Measurement {
            pods_per_second: *value,
            cpu_ms_per_pod: 1.0,
            start_cpu_ms: 1.0,
            resident_mib: 1.0,
            peak_mib: 1.0,
            start_to_first_binding_s: 1.0,
            server_cpu_ms_per_pod: 1.0,
        };
        values.iter().map(run).collect()
    }

    #[test]
    fn the_ratio_is_the_median_over_pairs() {
        let report = Report::new(["a", "b"], [runs(&[1.0, 2.0, 4.0]), runs(&[3.0, 4.0, 20.0])]);
        let pods = &report.ratios[0];
        assert_eq!((pods.name, pods.median, pods.least, pods.most), ("pods/s", 3.0, 2.0, 5.0));
        let report = Report::new(["a", "b"], [runs(&[1.0, 1.0]), runs(&[2.0, 3.0])]);
        assert_eq!(report.ratios[0].median, 2.5);
        assert!(report.to_string().contains("b ÷ a"));
    }
}
