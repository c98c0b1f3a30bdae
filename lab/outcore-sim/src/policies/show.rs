//! Experiments as Markdown tables, CSV and charts in SVG.
//!
//! Contract: pure; equal experiments give equal text. A chart is drawn in pixels of its own: bars in
//! groups of a row, a colour a column, the value above each bar where there is room. Where values differ by
//! more than [`LOG_RATIO`] the axis is logarithmic and says so, and dots stand for bars, whose length would
//! mean nothing there.

use std::fmt::Write;

use outcore::error::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Experiment, Metric, Point};

/// Largest over smallest value from which on an axis is logarithmic.
const LOG_RATIO: f64 = 20.0;
const LEFT: i32 = 96;
const RIGHT: i32 = 20;
const TOP: i32 = 84;
const BOTTOM: i32 = 44;
const HEIGHT: i32 = 440;
const DOT_RADIUS: i32 = 5;
/// A palette that colour-blind readers can tell apart (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];

/// One Markdown table a metric.
pub fn to_table(experiment: &Experiment, metric: Metric) -> String {
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
                    let _ = write!(text, " {} |", number(metric.of(point)));
                }
                None => text.push_str("  |"),
            }
        }
    }
    text.push('\n');
    text
}

/// How many kernels of every point were simulated, and how far off that is where it is known; `None`
/// where nothing was sampled.
pub fn sampling_table(experiment: &Experiment) -> Option<String> {
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
    for row in &experiment.rows {
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

/// All points of all experiments, with a header.
pub fn to_csv(experiments: &[Experiment]) -> String {
    let mut text = String::from(
        "experiment,row,column,requests,iops,response_us,p99_us,end_ms,write_amplification,digest\n",
    );
    for experiment in experiments {
        for p in &experiment.points {
            let _ = writeln!(
                text,
                "{},\"{}\",\"{}\",{},{:.1},{:.3},{:.3},{:.6},{:.4},{}",
                experiment.name,
                p.row,
                p.column,
                p.requests,
                p.iops,
                p.response_us,
                p.p99_us,
                p.end_ms,
                p.write_amplification,
                p.digest
            );
        }
    }
    text
}

/// Three digits, with k and M for thousands and millions.
fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (scaled, unit) = match value.abs() {
        v if v >= 999_500.0 => (value / 1e6, "M"),
        v if v >= 9_995.0 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{unit}")
}

/// The same for a round value, without zeros that say nothing: 10k, 2.5.
fn tick_label(value: f64) -> String {
    let text = number(value);
    let (digits, unit) = match text.strip_suffix(['k', 'M']) {
        Some(digits) => (digits, &text[digits.len()..]),
        None => (text.as_str(), ""),
    };
    match digits.contains('.') {
        true => format!(
            "{}{unit}",
            digits.trim_end_matches('0').trim_end_matches('.')
        ),
        false => text,
    }
}

/// The vertical axis.
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    fn of(values: &[f64]) -> Result<Scale> {
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        if !(high > 0.0 && high.is_finite() && low >= 0.0) {
            return Err(Error::usage("draw chart", "there is no positive value"));
        }
        if low > 0.0 && high / low > LOG_RATIO {
            return Ok(Scale {
                low: libm::pow(10.0, libm::floor(libm::log10(low * 0.9))),
                high: high * 1.4,
                is_log: true,
            });
        }
        let step = nice_step(high * 1.1 / 5.0);
        Ok(Scale {
            low: 0.0,
            high: libm::ceil(high * 1.1 / step) * step,
            is_log: false,
        })
    }

    /// Pixels above the axis.
    fn pixels(&self, value: f64) -> i32 {
        let share = if self.is_log {
            (libm::log10(value) - libm::log10(self.low))
                / (libm::log10(self.high) - libm::log10(self.low))
        } else {
            value / self.high
        };
        (share.clamp(0.0, 1.0) * f64::from(HEIGHT - TOP - BOTTOM)) as i32
    }

    fn ticks(&self) -> Vec<f64> {
        let mut ticks = Vec::new();
        if self.is_log {
            let mut tick = self.low;
            while tick <= self.high * 1.01 {
                ticks.push(tick);
                tick *= 10.0;
            }
            return ticks;
        }
        let step = nice_step(self.high / 5.0);
        let mut tick = 0.0;
        while tick <= self.high * 1.001 {
            ticks.push(tick);
            tick += step;
        }
        ticks
    }
}

/// The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is not below `step`.
fn nice_step(step: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(step)));
    let factors = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fits = factors
        .iter()
        .find(|factor| **factor * power >= step * 0.999);
    fits.unwrap_or(&10.0) * power
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn failed<E: std::fmt::Display>(error: E) -> Error {
    Error::usage("draw chart", error.to_string())
}

fn text(area: &Area<'_>, said: &str, at: (i32, i32), pixels: i32, h: HPos) -> Result<()> {
    let style = ("sans-serif", pixels).into_font().color(&BLACK);
    let style = style.pos(Pos::new(h, VPos::Center));
    area.draw(&Text::new(said.to_owned(), at, style))
        .map_err(failed)
}

/// A bar chart of one metric.
///
/// # Errors
/// No value is positive.
pub fn to_svg(experiment: &Experiment, metric: Metric) -> Result<String> {
    let values: Vec<f64> = experiment.points.iter().map(|p| metric.of(p)).collect();
    let scale = Scale::of(&values)?;
    let columns = experiment.columns.len().max(1) as i32;
    let rows = experiment.rows.len().max(1) as i32;
    let bar = (720 / (rows * (columns + 1))).clamp(14, 60);
    let group = bar * (columns + 1);
    let width = (LEFT + group * rows + RIGHT).max(640);
    let mut svg = String::new();
    {
        let size = (width as u32, HEIGHT as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        axis(&area, &scale, metric, width)?;
        let mut title = match experiment.figure {
            Some(first) => {
                let at = Metric::ALL.iter().position(|m| *m == metric).unwrap_or(0);
                format!("Fig. {}: ", first + at as u32)
            }
            None => String::new(),
        };
        title.push_str(metric.label());
        title.push_str(", ");
        title.push_str(&experiment.title);
        text(&area, &title, (LEFT, 20), 16, HPos::Left)?;
        legend(&area, &experiment.columns, width)?;
        let first = LEFT + (width - LEFT - RIGHT - group * rows) / 2;
        values_of(&area, experiment, metric, &scale, (first, bar, group))?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn axis(area: &Area<'_>, scale: &Scale, metric: Metric, width: i32) -> Result<()> {
    let floor = HEIGHT - BOTTOM;
    let kind = if scale.is_log { ", logarithmic" } else { "" };
    let font = ("sans-serif", 13).into_font();
    let style = font.transform(FontTransform::Rotate270).color(&BLACK);
    let style = style.pos(Pos::new(HPos::Center, VPos::Center));
    let said = format!("{}{kind}", metric.label());
    let middle = (TOP + HEIGHT - BOTTOM) / 2;
    area.draw(&Text::new(said, (20, middle), style))
        .map_err(failed)?;
    for tick in scale.ticks() {
        let y = floor - scale.pixels(tick);
        let line = vec![(LEFT, y), (width - RIGHT, y)];
        let style = if y == floor {
            BLACK.mix(1.0)
        } else {
            BLACK.mix(0.15)
        };
        area.draw(&PathElement::new(line, style)).map_err(failed)?;
        text(area, &tick_label(tick), (LEFT - 8, y), 13, HPos::Right)?;
    }
    Ok(())
}

fn legend(area: &Area<'_>, columns: &[String], width: i32) -> Result<()> {
    let a_line = 3.min(columns.len().max(1)) as i32;
    let step = (width - LEFT - RIGHT) / a_line;
    for (at, column) in columns.iter().enumerate() {
        let x = LEFT + at as i32 % a_line * step;
        let y = 42 + at as i32 / a_line * 18;
        let swatch = Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour(at).filled());
        area.draw(&swatch).map_err(failed)?;
        text(area, column, (x + 16, y), 13, HPos::Left)?;
    }
    Ok(())
}

fn colour(at: usize) -> RGBColor {
    COLOURS[at % COLOURS.len()]
}

fn values_of(
    area: &Area<'_>,
    experiment: &Experiment,
    metric: Metric,
    scale: &Scale,
    (first, bar, group): (i32, i32, i32),
) -> Result<()> {
    let floor = HEIGHT - BOTTOM;
    for (r, row) in experiment.rows.iter().enumerate() {
        let left = first + bar / 2 + r as i32 * group;
        for (c, column) in experiment.columns.iter().enumerate() {
            let Some(point) = experiment.point(row, column) else {
                continue;
            };
            let value = metric.of(point);
            let x = left + c as i32 * bar;
            let y = floor - scale.pixels(value);
            let paint = colour(c).filled();
            if scale.is_log {
                let dot = Circle::new((x + bar / 2 - 1, y), DOT_RADIUS, paint);
                area.draw(&dot).map_err(failed)?;
            } else {
                let shape = Rectangle::new([(x, y), (x + bar - 2, floor)], paint);
                area.draw(&shape).map_err(failed)?;
            }
            // Narrow bars leave no room for numbers side by side.
            if bar >= 30 {
                text(
                    area,
                    &number(value),
                    (
                        x + bar / 2 - 1,
                        y - 8 - DOT_RADIUS * i32::from(scale.is_log),
                    ),
                    11,
                    HPos::Center,
                )?;
            }
        }
        let middle = left + (group - bar) / 2;
        text(area, row, (middle, floor + 18), 13, HPos::Center)?;
    }
    Ok(())
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
            write_amplification: 1.0,
            digest: "0".to_owned(),
            sample: None,
        };
        Experiment {
            name: "networks",
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
        assert!(table.contains("| x | 1500 | 2.00M |"), "{table}");
        assert!(table.contains("| y | 3.25 | 40.0k |"), "{table}");
        assert_eq!(to_csv(&[e]).lines().count(), 5);
    }

    #[test]
    fn charts_turn_logarithmic_when_values_lie_far_apart() {
        let near = to_svg(&experiment([10.0, 20.0, 30.0, 40.0]), Metric::Iops).unwrap();
        assert!(near.contains("Fig. 4") && !near.contains("logarithmic"));
        let far = to_svg(&experiment([10.0, 20.0, 30.0, 4000.0]), Metric::Iops).unwrap();
        assert!(far.contains("logarithmic"));
        assert_eq!(near.matches("<rect").count(), 1 + 2 + 4);
        assert_eq!(far.matches("<rect").count(), 1 + 2);
        assert_eq!(far.matches("<circle").count(), 4);
    }

    #[test]
    fn ticks_have_no_digits_that_say_nothing() {
        let labels = [0.0, 2.5, 20.0, 250.0, 1000.0, 10_000.0, 12_500.0, 1e6].map(tick_label);
        assert_eq!(
            labels,
            ["0", "2.5", "20", "250", "1000", "10k", "12.5k", "1M"]
        );
    }

    #[test]
    fn a_chart_without_values_is_an_error() {
        assert!(to_svg(&experiment([0.0; 4]), Metric::Iops).is_err());
    }

    #[test]
    fn axes_have_round_ticks_up_to_the_highest_value() {
        let scale = Scale::of(&[37.0, 81.0]).unwrap();
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert!(Scale::of(&[3.0, 900.0]).unwrap().is_log);
    }
}
