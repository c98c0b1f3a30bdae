//! Charts of one run: response times by share and over time, and request rates over time.
//!
//! Contract: pure; the same log gives the same text. A line has at most [`POINTS_MAX`] points,
//! independent of the number of requests.

use std::str::FromStr;

use outcore_chart::{Axis, Chart, Scale, Series};
use outcore_io::units::Unit;
use outcore_io::{Error, Result};

use crate::drive::Done;
use crate::quantities::{Ps, SECOND};

/// Maximum number of points of a line over time.
const POINTS_MAX: usize = 200;

/// A kind of chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Response time over the share of requests that are faster.
    Latency,
    /// Completed requests per second over time.
    Iops,
    /// Median and 99th percentile of the response over the time of completion.
    Response,
}

impl FromStr for View {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "latency" => Ok(View::Latency),
            "iops" => Ok(View::Iops),
            "response" => Ok(View::Response),
            other => Err(
                Error::usage("draw chart", format!("there is no chart `{other}`"))
                    .hint("use latency, iops or response"),
            ),
        }
    }
}

/// The requests of `log` as a chart, one line per flow of `names`.
pub(crate) fn chart_of(title: &str, names: &[String], log: &[Done], view: View) -> Chart {
    let chart = match view {
        View::Latency => {
            let series = by_flow(names, log, |done| {
                latencies(done.iter().map(|d| d.completed - d.enqueued))
            });
            let longest = series.iter().map(|line| line.points.len()).max();
            let shown = &PERCENTILES[..longest.unwrap_or(0).min(PERCENTILES.len())];
            let names = shown.iter().map(|(name, _)| (*name).to_owned()).collect();
            Chart {
                x: Axis::of_names("of the requests stay below", names),
                y: Axis::new("response time", Unit::Seconds).on(Scale::Log10),
                series,
                ..Chart::default()
            }
        }
        View::Iops => {
            let end = log.iter().map(|done| done.completed).max().unwrap_or(0);
            Chart {
                x: Axis::new("time", Unit::Seconds),
                y: Axis::new("requests completed per second", Unit::Iops),
                series: by_flow(names, log, |done| {
                    rates(done.iter().map(|d| d.completed), end)
                }),
                ..Chart::default()
            }
        }
        View::Response => Chart {
            x: Axis::new("time", Unit::Seconds),
            y: Axis::new("response time", Unit::Seconds).on(Scale::Log10),
            series: responses(names, log),
            ..Chart::default()
        },
    };
    let what = match view {
        View::Latency => "response time by share of the requests",
        View::Iops => "requests over time",
        View::Response => "response time over time",
    };
    Chart {
        title: format!("{title}: {what}"),
        ..chart
    }
}

/// Draws the requests of `log` as SVG, one line per flow of `names`.
///
/// # Errors
/// No request was completed.
pub fn run_svg(title: &str, names: &[String], log: &[Done], view: View) -> Result<String> {
    chart_of(title, names, log, view).svg()
}

/// One line per flow, computed from its requests.
fn by_flow(
    names: &[String],
    log: &[Done],
    points: impl Fn(&[&Done]) -> Vec<(f64, f64)>,
) -> Vec<Series> {
    let line = |(at, name): (usize, &String)| {
        let done = log.iter().filter(|done| usize::from(done.queue) == at);
        Series::new(name, points(&done.collect::<Vec<_>>()))
    };
    names.iter().enumerate().map(line).collect()
}

/// Percentiles that are drawn: label at the axis, and share.
const PERCENTILES: [(&str, f64); 9] = [
    ("50 %", 0.5),
    ("75 %", 0.75),
    ("90 %", 0.9),
    ("95 %", 0.95),
    ("99 %", 0.99),
    ("99.9 %", 0.999),
    ("99.99 %", 0.9999),
    ("99.999 %", 0.999_99),
    ("all", 1.0),
];

/// Response in seconds at each of [`PERCENTILES`].
fn latencies(responses: impl Iterator<Item = Ps>) -> Vec<(f64, f64)> {
    let mut all: Vec<Ps> = responses.collect();
    all.sort_unstable();
    let places = PERCENTILES.iter().enumerate();
    places
        .filter_map(|(place, (_, share))| {
            Some((
                place as f64,
                percentile(&all, *share)? as f64 / SECOND as f64,
            ))
        })
        .collect()
}

/// Percentiles of the response that are drawn over time: name, and share.
const OVER_TIME: [(&str, f64); 2] = [("median", 0.5), ("99 %", 0.99)];
/// A step holds this many requests on average, so that its 99th percentile is one of them.
const STEP_REQUESTS: usize = 200;

/// One line per flow and percentile: seconds of simulated time, and the response in seconds of the
/// requests that were completed in that step. Steps without requests have no point.
fn responses(names: &[String], log: &[Done]) -> Vec<Series> {
    let first = log.iter().map(|done| done.completed).min().unwrap_or(0);
    let last = log.iter().map(|done| done.completed).max().unwrap_or(0);
    let steps = (log.len() / STEP_REQUESTS).clamp(1, POINTS_MAX);
    let step_ps = ((last - first) / steps as u64 + 1).max(1);
    let mut lines = Vec::new();
    for (flow, name) in names.iter().enumerate() {
        let mut by_step: Vec<Vec<Ps>> = vec![Vec::new(); steps];
        for done in log.iter().filter(|done| usize::from(done.queue) == flow) {
            let step = ((done.completed - first) / step_ps) as usize;
            by_step[step.min(steps - 1)].push(done.completed - done.enqueued);
        }
        for list in &mut by_step {
            list.sort_unstable();
        }
        for (what, share) in OVER_TIME {
            let steps = by_step.iter().enumerate();
            let points = steps.filter_map(|(at, list)| {
                let middle = first as f64 + (at as f64 + 0.5) * step_ps as f64;
                let response = percentile(list, share)?;
                Some((middle / SECOND as f64, response as f64 / SECOND as f64))
            });
            lines.push(Series::new(format!("{name}, {what}"), points.collect()));
        }
    }
    lines
}

/// The smallest value of a sorted list such that `share` of the list's values do not exceed it.
fn percentile(sorted: &[Ps], share: f64) -> Option<Ps> {
    let rank = libm::ceil(sorted.len() as f64 * share) as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Requests per second over seconds.
fn rates(completions: impl Iterator<Item = Ps>, end: Ps) -> Vec<(f64, f64)> {
    let all: Vec<Ps> = completions.collect();
    if all.is_empty() {
        return Vec::new();
    }
    // A step holds enough requests for its count to be meaningful.
    let steps = (all.len() / 50).clamp(1, POINTS_MAX);
    let step_ps = (end / steps as u64 + 1).max(1);
    let mut counts = vec![0u64; steps];
    for completed in all {
        counts[((completed / step_ps) as usize).min(steps - 1)] += 1;
    }
    let seconds = step_ps as f64 / SECOND as f64;
    counts
        .iter()
        .enumerate()
        .map(|(at, count)| ((at as f64 + 0.5) * seconds, *count as f64 / seconds))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Op, Status};
    use crate::quantities::NS;

    fn done(at: u64) -> Done {
        Done {
            tag: 0,
            queue: (at % 2) as u16,
            op: Op::Read,
            status: Status::Success,
            lba: 0,
            sectors: 8,
            arrival: 0,
            enqueued: at * NS * 1000,
            completed: at * NS * 1000 + (100 + at % 10) * NS * 1000,
        }
    }

    #[test]
    fn a_run_is_drawn_with_a_line_for_every_flow() {
        let log: Vec<Done> = (0..5000).map(done).collect();
        let names = ["reads".to_owned(), "log".to_owned()];
        for view in [View::Latency, View::Iops, View::Response] {
            let svg = run_svg("a drive", &names, &log, view).unwrap();
            for text in ["a drive", "reads", "log"] {
                assert!(svg.contains(text), "{text} is missing");
            }
            assert!(run_svg("a drive", &names, &[], view).is_err());
        }
        assert!("speed".parse::<View>().is_err());
    }

    #[test]
    fn the_response_over_time_has_the_percentiles_of_each_step() {
        // Requests that take ten times as long in the second half.
        let log: Vec<Done> = (0..80_000)
            .map(|at| {
                let us = (1 + at % 100) * if at < 40_000 { 1 } else { 10 };
                Done {
                    queue: 0,
                    enqueued: at * NS * 1000,
                    completed: (at + us) * NS * 1000,
                    ..done(at)
                }
            })
            .collect();
        let lines = responses(&["reads".to_owned()], &log);
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["reads, median", "reads, 99 %"]);
        for (line, us) in lines.iter().zip([50.0, 99.0]) {
            assert_eq!(line.points.len(), POINTS_MAX);
            for (seconds, response) in &line.points {
                // Long requests of the first steps end later, and steps around the change have
                // requests of both halves.
                let factor = match *seconds {
                    early if (0.001..0.039).contains(&early) => 1.0,
                    late if late > 0.042 && late < 0.0795 => 10.0,
                    _ => continue,
                };
                let expected = us * factor * 1e-6;
                let off = (response / expected - 1.0).abs();
                assert!(off < 0.06, "{seconds}: {response}, {expected}");
            }
        }
    }

    #[test]
    fn percentiles_and_rates_are_those_of_the_requests() {
        let points = latencies((1..=100_000).map(|us| us * NS * 1000));
        let ms: Vec<f64> = points.iter().map(|(_, seconds)| seconds * 1e3).collect();
        let expected = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0];
        assert_eq!(ms.len(), expected.len());
        for (seen, expected) in ms.iter().zip(expected) {
            assert!((seen - expected).abs() < 0.0011, "{seen} {expected}");
        }
        // One request per microsecond.
        let rates = rates((0..100_000).map(|us| us * NS * 1000), 100_000 * NS * 1000);
        assert!(
            rates
                .iter()
                .all(|(_, rate)| (rate / 1e6 - 1.0).abs() < 0.02),
            "{rates:?}"
        );
    }
}
