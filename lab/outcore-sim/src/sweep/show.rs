//! The points of a sweep as CSV and as a chart.
//!
//! Contract: pure; equal points give equal text.

use outcore_chart::{Axis, Chart, Scale, Series};
use outcore_io::Result;
use outcore_io::units::{self, Unit};

use super::{Metric, Point, Setting};

impl Metric {
    /// How a metric appears in a chart: its label, the unit of the axis, and the factor to that
    /// unit.
    fn shown(self) -> (&'static str, Unit, f64) {
        match self {
            Metric::Iops => ("requests per second", Unit::Iops, 1.0),
            Metric::BytesPerS => ("bytes per second", Unit::BytesPerS, 1.0),
            Metric::MeanNs => ("mean response", Unit::Seconds, 1e-9),
            Metric::P99Ns => ("99th percentile of the response", Unit::Seconds, 1e-9),
            Metric::EndNs => ("simulated time", Unit::Seconds, 1e-9),
            Metric::WriteAmplification => ("write amplification", Unit::Count, 1.0),
        }
    }
}

/// The points as CSV, one per line.
pub(crate) fn to_csv(points: &[Point]) -> String {
    let mut text = String::new();
    let quoted = |value: &str| {
        if value.contains([',', '"']) {
            format!("\"{}\"", value.replace('"', "\"\""))
        } else {
            value.to_owned()
        }
    };
    let Some(first) = points.first() else {
        return text;
    };
    let settings = first.settings.iter();
    let keys: Vec<String> = settings.map(|setting| quoted(&setting.key)).collect();
    text.push_str(&keys.join(","));
    text.push_str(
        ",requests,iops,bytes_per_s,mean_response_ns,p50_response_ns,p99_response_ns,p999_response_ns,p9999_response_ns,sim_end_ns,write_amplification,energy_joules,digest\n",
    );
    for point in points {
        for setting in &point.settings {
            text.push_str(&quoted(&setting.value));
            text.push(',');
        }
        let total = &point.summary.total;
        text.push_str(&format!(
            "{},{},{},{},{},{},{},{},{},{},{},{}\n",
            total.requests,
            total.iops,
            total.bytes_per_s,
            total.mean_response_ns,
            total.p50_response_ns,
            total.p99_response_ns,
            total.p999_response_ns,
            total.p9999_response_ns,
            total.sim_end_ns,
            point.summary.write_amplification,
            point.summary.energy_joules,
            point.summary.digest
        ));
    }
    text
}

/// The chart of [`chart_of`] as SVG.
///
/// # Errors
/// There are no points.
pub(crate) fn to_svg(points: &[Point], metric: Metric) -> Result<String> {
    chart_of(points, metric).svg()
}

/// A chart of `metric` over the first axis, one line per combination of the other axes.
pub(crate) fn chart_of(points: &[Point], metric: Metric) -> Chart {
    let (label, unit, factor) = metric.shown();
    let mut names: Vec<String> = Vec::new();
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let numbers: Vec<Option<f64>> = points.iter().map(value_of).collect();
    let are_numbers = numbers.iter().all(Option::is_some);
    for (point, number) in points.iter().zip(&numbers) {
        let Some((Setting { value, .. }, others)) = point.settings.split_first() else {
            continue;
        };
        let others: Vec<String> = others
            .iter()
            .map(|Setting { key, value }| format!("{key}={value}"))
            .collect();
        let name = others.join(" ");
        let x = match number {
            Some(number) if are_numbers => *number,
            _ => {
                let at = names.iter().position(|known| known == value);
                at.unwrap_or_else(|| {
                    names.push(value.clone());
                    names.len() - 1
                }) as f64
            }
        };
        let place = (x, metric.of(&point.summary) * factor);
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, line)) => line.push(place),
            None => lines.push((name, vec![place])),
        }
    }
    let xs = || lines.iter().flat_map(|(_, line)| line.iter().map(|p| p.0));
    let least = xs().fold(f64::MAX, f64::min);
    let is_logarithmic = are_numbers && least > 0.0 && xs().fold(0.0, f64::max) / least > 16.0;
    let key = points.first().and_then(|point| point.settings.first());
    let key = key.map(|setting| setting.key.clone()).unwrap_or_default();
    let doubles = xs().all(|x| (x / least).log2().fract() == 0.0);
    let scale = match (is_logarithmic, doubles) {
        (true, true) => Scale::Log2,
        (true, false) => Scale::Log10,
        (false, _) => Scale::Linear,
    };
    Chart {
        title: format!("{label} over {key}"),
        x: Axis {
            label: key,
            scale,
            names,
            ..Axis::default()
        },
        y: Axis::new(label, unit),
        series: lines
            .into_iter()
            .map(|(name, points)| Series::new(name, points))
            .collect(),
        ..Chart::default()
    }
}

/// The first setting as a number: `16`, or a quantity, whose parser drops the unit.
fn value_of(point: &Point) -> Option<f64> {
    let Setting { value, .. } = point.settings.first()?;
    value.parse().ok().or_else(|| {
        let parsed = units::parse_bytes(value)
            .or_else(|_| units::parse_rate(value))
            .or_else(|_| crate::quantities::parse_time(value).map(|ps| ps / 1_000));
        parsed.ok().map(|value| value as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{SweepOptions, sweep};
    use super::*;
    use crate::config::DriveConfig;
    use crate::workload_file::WorkloadFile;

    #[test]
    fn points_are_lines_of_csv_and_lines_of_a_chart() {
        let mut drive = DriveConfig::default();
        drive.flash.blocks = 64;
        drive.flash.pages = 32;
        let axes = ["flash.channels=2,4", "flow.depth=1,8,32"].map(|text| text.parse().unwrap());
        let workload = WorkloadFile::one().set("requests", "200").unwrap();
        let points = sweep(&drive, &workload, &axes, SweepOptions::default()).unwrap();
        let csv = to_csv(&points);
        assert_eq!(csv.lines().count(), 7);
        assert!(csv.starts_with("flash.channels,flow.depth,requests,iops"));
        let svg = to_svg(&points, Metric::Iops).unwrap();
        assert!(
            svg.contains("flow.depth=32")
                && svg.contains("requests per second over flash.channels")
        );
        let svg = to_svg(&points, Metric::MeanNs).unwrap();
        assert!(
            svg.contains("mean response over") && svg.contains(" us<"),
            "{svg}"
        );
    }
}
