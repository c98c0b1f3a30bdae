//! Experiments as Markdown tables, CSV and charts in SVG.
//!
//! Contract: pure; equal experiments give equal text. A chart has one group of bars per row and one
//! colour per column; the value is printed above each bar if there is room. If values differ by
//! more than [`LOG_RATIO`], the axis is logarithmic and its label says so. Dots then replace bars,
//! whose length would have no meaning.

use std::fmt::Write;

use outcore_chart::{Axis, Chart, Scale, Series, Shape};
use outcore_io::units::Unit;
use outcore_io::{Error, Result};

use super::{Experiment, Metric, Point};

/// Ratio of the largest to the smallest value above which an axis is logarithmic.
const LOG_RATIO: f64 = 20.0;

impl Metric {
    /// Label of an axis.
    const fn label(self) -> &'static str {
        match self {
            Metric::Iops => "IOPS",
            Metric::Response => "device response, us",
            Metric::End => "end time, ms",
            Metric::EndToEnd => "arrival to completion, us",
        }
    }

    /// Unit of a value; for times the label contains the unit.
    const fn unit(self) -> Unit {
        match self {
            Metric::Iops => Unit::Iops,
            Metric::Response | Metric::End | Metric::EndToEnd => Unit::Count,
        }
    }

    fn of(self, point: &Point) -> f64 {
        match self {
            Metric::Iops => point.iops,
            Metric::Response => point.response_us,
            Metric::End => point.end_ms,
            Metric::EndToEnd => point.end_to_end_us.unwrap_or(0.0),
        }
    }
}

/// One Markdown table per metric.
pub(crate) fn to_table(experiment: &Experiment, metric: Metric) -> String {
    let mut text = String::new();
    let _ = write!(text, "| {} |", metric.label());
    for column in &experiment.columns {
        let _ = write!(text, " {column} |");
    }
    text.push_str("\n|---|");
    for _ in &experiment.columns {
        text.push_str("---|");
    }
    for row in &experiment.rows {
        let _ = write!(text, "\n| {row} |");
        for column in &experiment.columns {
            match experiment.point(row, column) {
                Some(point) => {
                    let _ = write!(text, " {} |", metric.unit().show(metric.of(point)));
                }
                None => text.push_str("  |"),
            }
        }
    }
    text.push('\n');
    text
}

/// Number of simulated kernels of every point, and the error of the sample if it is known; `None`
/// if nothing was sampled.
pub(crate) fn sampling_table(experiment: &Experiment) -> Option<String> {
    let mut text = String::from("| kernels simulated");
    if experiment.points.iter().all(|point| point.sample.is_none()) {
        return None;
    }
    let has_error = |point: &Point| point.sample.is_some_and(|s| s.end_error.is_some());
    if experiment.points.iter().any(has_error) {
        text.push_str(", error of the end time");
    }
    text.push_str(" |");
    for column in &experiment.columns {
        let _ = write!(text, " {column} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(experiment.columns.len()));
    let is_sampled = |row: &&String| {
        let mut points = experiment.points.iter();
        points.any(|point| point.row == **row && point.sample.is_some())
    };
    for row in experiment.rows.iter().filter(is_sampled) {
        let _ = write!(text, "\n| {row} |");
        for column in &experiment.columns {
            let point = experiment.point(row, column);
            if let Some(sample) = point.and_then(|point| point.sample) {
                let _ = write!(text, " {} of {}", sample.simulated, sample.kernels);
                if let Some(error) = sample.end_error {
                    let _ = write!(text, ", {:+.1} %", error * 100.0);
                }
            }
            text.push_str(" |");
        }
    }
    text.push('\n');
    Some(text)
}

/// How many times better `column` is than `base`, per metric and row.
pub(crate) fn to_gains(experiment: &Experiment, base: &str, column: &str) -> String {
    let mut text = format!("| {column} over {base} |");
    for metric in experiment.metrics {
        let _ = write!(text, " {} |", metric.label());
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(experiment.metrics.len()));
    for row in &experiment.rows {
        let _ = write!(text, "\n| {row} |");
        let points = experiment
            .point(row, base)
            .zip(experiment.point(row, column));
        for metric in experiment.metrics {
            let gain = points.map_or(f64::NAN, |(base, point)| match metric {
                Metric::Iops => metric.of(point) / metric.of(base),
                _ => metric.of(base) / metric.of(point),
            });
            let _ = write!(text, " {gain:.1} times |");
        }
    }
    text.push('\n');
    text
}

/// All points of all experiments, with a header.
pub(crate) fn to_csv(experiments: &[Experiment]) -> String {
    let mut text = String::from(
        "experiment,row,column,requests,iops,response_us,p99_us,end_ms,end_to_end_us,write_amplification,digest\n",
    );
    for experiment in experiments {
        for p in &experiment.points {
            let _ = writeln!(
                text,
                "{},\"{}\",\"{}\",{},{:.1},{:.3},{:.3},{:.6},{},{:.4},{}",
                experiment.name,
                p.row,
                p.column,
                p.requests,
                p.iops,
                p.response_us,
                p.p99_us,
                p.end_ms,
                p.end_to_end_us
                    .map_or_else(String::new, |us| format!("{us:.3}")),
                p.write_amplification,
                p.digest
            );
        }
    }
    text
}

/// A chart of one metric: the rows next to each other, one colour per column.
///
/// # Errors
/// No value is positive.
pub(crate) fn to_svg(experiment: &Experiment, metric: Metric) -> Result<String> {
    let label = metric.label();
    let values = || experiment.points.iter().map(|point| metric.of(point));
    let (low, high) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    if !(high > 0.0 && high.is_finite()) {
        return Err(Error::usage("draw chart", "there is no positive value"));
    }
    let is_log = low > 0.0 && high / low > LOG_RATIO;
    let (axis, scale, shape) = if is_log {
        (format!("{label}, logarithmic"), Scale::Log10, Shape::Dots)
    } else {
        (label.to_owned(), Scale::Linear, Shape::Bars)
    };
    let series = |column: &String| {
        let rows = experiment.rows.iter().enumerate();
        let points = rows.filter_map(|(place, row)| {
            let point = experiment.point(row, column)?;
            Some((place as f64, metric.of(point)))
        });
        Series::new(column, points.collect())
    };
    let figure = experiment.figure.map(|first| {
        let at = Metric::PAPER.iter().position(|m| *m == metric).unwrap_or(0);
        format!("Fig. {}: ", first + at as u32)
    });
    Chart {
        id: format!("{}-{}", experiment.name, metric.name()),
        title: format!(
            "{}{label}, {}",
            figure.unwrap_or_default(),
            experiment.title
        ),
        x: Axis::of_names("", experiment.rows.clone()),
        y: Axis::new(axis, metric.unit()).on(scale),
        shape,
        series: experiment.columns.iter().map(series).collect(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(values: [f64; 4]) -> Experiment {
        let at = |row: &str, column: &str, iops| Point {
            row: row.to_owned(),
            column: column.to_owned(),
            requests: 1,
            iops,
            response_us: 1.0,
            p99_us: 2.0,
            end_ms: 3.0,
            end_to_end_us: None,
            write_amplification: 1.0,
            digest: "0".to_owned(),
            sample: None,
        };
        Experiment {
            name: "networks",
            metrics: Metric::PAPER,
            figure: Some(4),
            title: "test".to_owned(),
            columns: vec!["a".to_owned(), "b".to_owned()],
            rows: vec!["x".to_owned(), "y".to_owned()],
            points: vec![
                at("x", "a", values[0]),
                at("x", "b", values[1]),
                at("y", "a", values[2]),
                at("y", "b", values[3]),
            ],
        }
    }

    #[test]
    fn tables_and_csv_have_every_point() {
        let e = experiment([1500.0, 2e6, 3.25, 40_000.0]);
        let table = to_table(&e, Metric::Iops);
        assert!(table.contains("| x | 1500 | 2 M |"), "{table}");
        assert!(table.contains("| y | 3.25 | 40 k |"), "{table}");
        assert_eq!(to_csv(&[e]).lines().count(), 5);
    }

    #[test]
    fn charts_turn_logarithmic_when_values_lie_far_apart() {
        let near = to_svg(&experiment([10.0, 20.0, 30.0, 40.0]), Metric::Iops).unwrap();
        assert!(near.contains("Fig. 4") && !near.contains("logarithmic"));
        let far = to_svg(&experiment([10.0, 20.0, 30.0, 4000.0]), Metric::Iops).unwrap();
        assert!(far.contains("logarithmic"));
        assert_eq!(near.matches("<rect class=\"m\"").count(), 4);
        assert_eq!(far.matches("<rect class=\"m\"").count(), 0);
        assert_eq!(far.matches("<circle class=\"m\"").count(), 4);
        assert!(far.contains("<title>b: y, 4000</title>"), "{far}");
    }

    #[test]
    fn a_chart_without_values_is_an_error() {
        assert!(to_svg(&experiment([0.0; 4]), Metric::Iops).is_err());
    }
}
