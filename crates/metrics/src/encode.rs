//! Text in version 0.0.4 of Prometheus' exposition format, with numbers as Go writes them.
//!
//! Other encoders write `0.000015` where Go writes `1.5e-05`. Prometheus would treat these two spellings as two
//! buckets.

use harbormaster_api::Release;
use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use crate::families::Family;

/// Content type of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns a page with these families in the given order.
pub(crate) fn page(families: &[MetricFamily]) -> String {
    let mut page = String::new();
    for family in families {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            MetricType::SUMMARY => "summary",
            MetricType::UNTYPED => "untyped",
        };
        header(&mut page, family.name(), family.help(), kind);
        for metric in family.get_metric() {
            series(&mut page, family, metric);
        }
    }
    page
}

/// Writes the header of a family that does not depend on the release, and whose samples the caller writes one by one.
pub(crate) fn begin_family(page: &mut String, family: &Family) {
    header(page, family.name, &family.full_help(Release::NEWEST), family.kind.name());
}

/// Writes one sample, with labels in the given order.
pub(crate) fn sample<'a>(
    page: &mut String,
    name: &str,
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    value: f64,
) {
    page.push_str(name);
    let mut before = '{';
    for (label, text) in labels {
        page.push(before);
        page.push_str(label);
        page.push_str("=\"");
        push_escaped(page, text, true);
        page.push('"');
        before = ',';
    }
    if before == ',' {
        page.push('}');
    }
    page.push(' ');
    page.push_str(&float(value));
    page.push('\n');
}

fn header(page: &mut String, name: &str, help: &str, kind: &str) {
    page.push_str("# HELP ");
    page.push_str(name);
    page.push(' ');
    push_escaped(page, help, false);
    page.push_str("\n# TYPE ");
    page.push_str(name);
    page.push(' ');
    page.push_str(kind);
    page.push('\n');
}

fn series(page: &mut String, family: &MetricFamily, metric: &Metric) {
    let name = family.name();
    match family.get_field_type() {
        MetricType::COUNTER => sample(page, name, labels(metric), metric.get_counter().get_value()),
        MetricType::HISTOGRAM => buckets(page, name, metric),
        _ => sample(page, name, labels(metric), metric.get_gauge().get_value()),
    }
}

fn buckets(page: &mut String, name: &str, metric: &Metric) {
    let histogram = metric.get_histogram();
    let count = histogram.get_sample_count() as f64;
    let bounded = histogram.get_bucket().iter();
    let bounded = bounded.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count() as f64));
    let bounded = bounded.filter(|(bound, _)| bound.is_finite());
    for (bound, so_far) in bounded.chain([(f64::INFINITY, count)]) {
        let bound = float(bound);
        let labels = labels(metric).chain([("le", bound.as_str())]);
        sample(page, &format!("{name}_bucket"), labels, so_far);
    }
    sample(page, &format!("{name}_sum"), labels(metric), histogram.get_sample_sum());
    sample(page, &format!("{name}_count"), labels(metric), count);
}

fn labels(metric: &Metric) -> impl Iterator<Item = (&str, &str)> {
    metric.get_label().iter().map(|pair: &LabelPair| (pair.name(), pair.value()))
}

fn push_escaped(page: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => page.push_str("\\\\"),
            '\n' => page.push_str("\\n"),
            '"' if quotes => page.push_str("\\\""),
            c => page.push(c),
        }
    }
}

/// Formats a number as Go's `strconv.FormatFloat(value, 'g', -1, 64)` does: with the fewest digits that parse to the
/// same number, and with an exponent if the exponent is below -4 or above 5. Unlike Go, writes -0 as `0`.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    // Rust finds the same shortest digits, in the form `d.ddde-5`.
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..EXPONENT_FROM).contains(&exponent) {
        return if value == 0.0 { "0".to_owned() } else { format!("{value}") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Smallest power of ten that is written with an exponent.
const EXPONENT_FROM: i32 = 6;

#[cfg(test)]
mod tests {
    use prometheus::{HistogramOpts, HistogramVec, Opts, core::Collector, proto::MetricFamily};

    use super::*;

    /// The bits of floats, each with the output of Go's `strconv.FormatFloat(f, 'g', -1, 64)`, including the bounds of
    /// all buckets that start at 10 µs.
    const GO_FLOATS: &str = include_str!("encode/go_floats.txt");

    #[test]
    fn floats_are_formatted_as_in_go() {
        for line in GO_FLOATS.lines() {
            let (bits, text) = line.split_once(' ').unwrap();
            let value = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
            assert_eq!(float(value), text);
        }
        for (value, text) in
            [(0.0, "0"), (-0.0, "0"), (f64::INFINITY, "+Inf"), (f64::NEG_INFINITY, "-Inf"), (f64::NAN, "NaN")]
        {
            assert_eq!(float(value), text);
        }
    }

    fn gathered(collector: &dyn Collector) -> Vec<MetricFamily> {
        collector.collect()
    }

    #[test]
    fn a_histogram_ends_with_the_infinite_bucket_then_the_sum_then_the_count() {
        let opts = HistogramOpts::new("took_seconds", "[ALPHA] How long.").buckets(vec![0.000_01, 0.5]);
        let histogram = HistogramVec::new(opts, &["who", "where"]).unwrap();
        let series = histogram.with_label_values(&["a\"b\\c\nd", "x"]);
        [0.000_001, 0.25, 2.0].iter().for_each(|value| series.observe(*value));
        let expected = r#"# HELP took_seconds [ALPHA] How long.
# TYPE took_seconds histogram
took_seconds_bucket{where="x",who="a\"b\\c\nd",le="1e-05"} 1
took_seconds_bucket{where="x",who="a\"b\\c\nd",le="0.5"} 2
took_seconds_bucket{where="x",who="a\"b\\c\nd",le="+Inf"} 3
took_seconds_sum{where="x",who="a\"b\\c\nd"} 2.250001
took_seconds_count{where="x",who="a\"b\\c\nd"} 3
"#;
        assert_eq!(page(&gathered(&histogram)), expected);
    }

    #[test]
    fn samples_without_labels_have_no_braces_and_help_texts_keep_their_quotes() {
        let counter =
            prometheus::Counter::with_opts(Opts::new("things_total", "\"All\" \\ things.")).unwrap();
        counter.inc_by(3.0);
        let expected =
            "# HELP things_total \"All\" \\\\ things.\n# TYPE things_total counter\nthings_total 3\n";
        assert_eq!(page(&gathered(&counter)), expected);
    }
}
