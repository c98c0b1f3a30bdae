//! Line charts as SVG.
//!
//! Contract: pure; the same values give the same text. Points without a positive value are left out
//! of a logarithmic axis; a chart without points is an error.

use outcore::error::{Error, Result};
use plotters::prelude::*;

/// A chart of several lines over one axis.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// What the points are over.
    pub x: Axis,
    /// What they show.
    pub y: Axis,
    /// Lines: name, points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// One axis.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// Equal distances are equal ratios.
    pub is_logarithmic: bool,
    /// Names of the values 0, 1, 2 and so on, where they are no numbers.
    pub names: Vec<String>,
}

impl Axis {
    fn place(&self, value: f64) -> Option<f64> {
        if !self.is_logarithmic {
            return value.is_finite().then_some(value);
        }
        (value > 0.0 && value.is_finite()).then(|| libm::log10(value))
    }

    fn show(&self, place: f64) -> String {
        if !self.names.is_empty() {
            let at = place.round();
            let is_whole = (place - at).abs() < 1e-6 && at >= 0.0;
            let name = self.names.get(at as usize).filter(|_| is_whole);
            return name.cloned().unwrap_or_default();
        }
        number(if self.is_logarithmic {
            libm::pow(10.0, place)
        } else {
            place
        })
    }
}

/// A number as short as it can be said: `1.2 M`, `350 k`, `0.015`.
fn number(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{unit}")
}

/// The extent of values with a margin.
fn span(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return None;
    }
    let margin = ((high - low) * 0.04).max(high.abs() * 0.01).max(1e-9);
    Some((low - margin, high + margin))
}

impl Chart {
    /// The chart as the text of an SVG file.
    ///
    /// # Errors
    /// There is no point, or it cannot be drawn.
    pub fn svg(&self) -> Result<String> {
        let wrong = |cause: String| Error::usage("draw chart", cause);
        let lines: Vec<(&str, Vec<(f64, f64)>)> = self
            .lines
            .iter()
            .map(|(name, points)| {
                let places = points
                    .iter()
                    .filter_map(|(x, y)| Some((self.x.place(*x)?, self.y.place(*y)?)));
                (name.as_str(), places.collect())
            })
            .collect();
        let all = || lines.iter().flat_map(|(_, points)| points.iter().copied());
        let (Some(x), Some(y)) = (span(all().map(|p| p.0)), span(all().map(|p| p.1))) else {
            return Err(wrong("there are no points".to_owned()));
        };
        // A linear axis shows zero.
        let y = if self.y.is_logarithmic {
            y
        } else {
            (y.0.min(0.0), y.1)
        };
        let mut text = String::new();
        self.draw(&lines, x, y, &mut text)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(text)
    }

    fn draw(
        &self,
        lines: &[(&str, Vec<(f64, f64)>)],
        x: (f64, f64),
        y: (f64, f64),
        text: &mut String,
    ) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(text, (800, 500)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
        let mut mesh = chart.configure_mesh();
        if !self.x.names.is_empty() {
            mesh.x_labels(2 * self.x.names.len() + 1);
        }
        mesh.x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|place| self.x.show(*place))
            .y_label_formatter(&|place| self.y.show(*place))
            .draw()?;
        for (at, (name, points)) in lines.iter().enumerate() {
            let color = Palette99::pick(at).to_rgba();
            chart
                .draw_series(LineSeries::new(
                    points.iter().copied(),
                    color.stroke_width(2),
                ))?
                .label(*name)
                .legend(move |(x, y)| {
                    PathElement::new(vec![(x, y), (x + 18, y)], color.stroke_width(2))
                });
            chart.draw_series(
                points
                    .iter()
                    .map(|point| Circle::new(*point, 3, color.filled())),
            )?;
        }
        if lines.len() > 1 {
            chart
                .configure_series_labels()
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .position(SeriesLabelPosition::UpperLeft)
                .draw()?;
        }
        root.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_and_label_is_in_the_chart_and_it_is_the_same_every_time() {
        let chart = Chart {
            title: "title here".to_owned(),
            x: Axis {
                label: "depth".to_owned(),
                is_logarithmic: true,
                names: Vec::new(),
            },
            y: Axis {
                label: "IOPS".to_owned(),
                ..Axis::default()
            },
            lines: vec![
                ("one".to_owned(), vec![(1.0, 10.0), (10.0, 100.0)]),
                (
                    "two".to_owned(),
                    vec![(1.0, 20.0), (10.0, 50.0), (0.0, 3.0)],
                ),
            ],
        };
        let svg = chart.svg().unwrap();
        for text in ["title here", "depth", "IOPS", "one", "two"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        // Points on a logarithmic axis at zero are left out.
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg, chart.svg().unwrap());
        assert!(Chart::default().svg().is_err());
    }

    #[test]
    fn numbers_are_short() {
        let seen = [0.0, 0.015, 3.5, 120.0, 25_000.0, 1_400_000.0, 6.8e9].map(number);
        assert_eq!(seen, ["0", "0.015", "3.5", "120", "25 k", "1.4 M", "6.8 G"]);
    }
}
