//! A [`Chart`] as SVG: title, legend, grid, axes, and lines, bars or dots.
//!
//! Contract: pure text of 760 x 420 pixels, wider for many bars or dots, that scales with its page.
//! [`STYLE`] sets the colours as CSS variables, so that a page can follow the reader's choice of
//! light or dark. Readers with red-green colour blindness can distinguish the colours: most are
//! from Okabe and Ito, "Color Universal Design", 2008, and two are added. Each mark has a `<title>`
//! that browsers show when the reader points at it. Text widths are generous estimates, because no
//! font is available here.

use std::fmt::Write;

use outcore_io::{Error, Result};

use crate::axis::{Span, is_shown};
use crate::chart::{Chart, Series, Shape};

/// Smallest width.
const WIDTH: f64 = 760.0;
/// Largest width to which a chart grows for the values above its bars or dots.
const WIDTH_WITH_VALUES: f64 = 880.0;
const HEIGHT: f64 = 420.0;
/// Room for a tick such as `300 MB/s` next to the axis title.
const LEFT: f64 = 92.0;
const RIGHT: f64 = 30.0;
const BOTTOM: f64 = 56.0;
/// Baseline of the title.
const TITLE_Y: f64 = 24.0;
/// Baseline of the legend's first line.
const LEGEND_Y: f64 = 48.0;
const LEGEND_LINE: f64 = 18.0;
/// Estimated width of a letter of 12 px.
const LETTER: f64 = 6.8;
/// Estimated width of a letter of 11 px, used for the values above bars and dots.
const VALUE_LETTER: f64 = 6.2;
/// Smallest and largest width of the column of one bar or dot.
const COLUMN_MIN: f64 = 14.0;
const COLUMN_MAX: f64 = 64.0;
const DOT_RADIUS: f64 = 5.0;
/// Number of colours; further series start again with the first.
const COLORS: usize = 8;

/// The colours on a light background.
const LIGHT: [&str; COLORS] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f4fc0", "#59636e",
];

/// Colours and fonts of all charts, for light and dark backgrounds. A page may choose one of the
/// two by setting the variables `--oc-*` on `:root[data-theme]`. Programs without support for
/// variables (most converters to PDF and PNG) use the plain colours that precede them.
pub const STYLE: &str = "\
.oc-chart{--oc-ink:#1f2328;--oc-dim:#59636e;--oc-grid:#d9dee3;--oc-c0:#0072b2;--oc-c1:#d55e00;\
--oc-c2:#009e73;--oc-c3:#cc79a7;--oc-c4:#56b4e9;--oc-c5:#e69f00;--oc-c6:#6f4fc0;--oc-c7:#59636e;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px;\
font-variant-numeric:tabular-nums}\
@media(prefers-color-scheme:dark){.oc-chart{--oc-ink:#e6edf3;--oc-dim:#9aa4af;--oc-grid:#32383f;\
--oc-c0:#3d9be9;--oc-c1:#f07f35;--oc-c2:#2fc49a;--oc-c3:#e39ac4;--oc-c4:#a9dcff;--oc-c5:#f2b632;\
--oc-c6:#b39ddb;--oc-c7:#9aa4af}}\
.oc-chart text{fill:#59636e;fill:var(--oc-dim)}\
.oc-chart .t{fill:#1f2328;fill:var(--oc-ink);font-size:15px;font-weight:600}\
.oc-chart .k{fill:#1f2328;fill:var(--oc-ink)}.oc-chart .v{font-size:11px}\
.oc-chart .g{stroke:#d9dee3;stroke:var(--oc-grid);stroke-width:1}\
.oc-chart .a{stroke:#59636e;stroke:var(--oc-dim);stroke-width:1}.oc-chart .l{fill:none;stroke-width:2;\
stroke-linejoin:round;stroke-linecap:round}.oc-chart .r{stroke-dasharray:5 4;stroke-width:1.5}\
.oc-chart .m:hover{stroke:#1f2328;stroke:var(--oc-ink);stroke-width:2}";

/// A series, and its points that have a place.
type Shown<'a> = (&'a Series, Vec<(f64, f64)>);

impl Chart {
    /// The chart as the text of an SVG file that contains [`STYLE`].
    ///
    /// # Errors
    /// There is no point.
    pub fn svg(&self) -> Result<String> {
        svg(self, true)
    }

    /// The chart for a page that already contains [`STYLE`].
    ///
    /// # Errors
    /// There is no point.
    pub fn svg_inline(&self) -> Result<String> {
        svg(self, false)
    }
}

/// The chart; with `is_alone`, as a separate file.
fn svg(chart: &Chart, is_alone: bool) -> Result<String> {
    let shown: Vec<Shown<'_>> = chart
        .series
        .iter()
        .map(|series| {
            let points = series.points.iter().copied();
            let points = points.filter(|(x, y)| is_shown(&chart.x, *x) && is_shown(&chart.y, *y));
            (series, points.collect())
        })
        .collect();
    let all = || shown.iter().flat_map(|(_, points)| points.iter());
    let x = Span::of(&chart.x, all().map(|point| point.0), false);
    let y = Span::of(&chart.y, all().map(|point| point.1), true);
    let (Some(x), Some(y)) = (x, y) else {
        return Err(
            Error::usage("draw chart", format!("`{}` has no points", chart.title))
                .hint("a run that measured something has some"),
        );
    };
    let mut out = String::with_capacity(16 << 10);
    let columns = Columns::of(chart, &x, &y, &shown);
    let legend = Legend::of(chart, columns.width);
    let names = names_of(&x, columns.slot);
    let frame = Frame {
        top: LEGEND_Y + LEGEND_LINE * legend.lines as f64 - 4.0,
        floor: HEIGHT - BOTTOM - if names.are_broken { 12.0 } else { 0.0 },
        right: columns.width - RIGHT,
        x,
        y,
    };
    write_head(&mut out, chart, columns.width, is_alone);
    out.push_str(&legend.text);
    frame.write_axes(&mut out, chart, &names.names);
    match chart.shape {
        Shape::Lines => frame.write_lines(&mut out, &shown),
        Shape::Bars | Shape::Dots => frame.write_columns(&mut out, chart.shape, &columns, &shown),
    }
    out.push_str("</svg>\n");
    Ok(out)
}

fn write_head(out: &mut String, chart: &Chart, width: f64, is_alone: bool) {
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"oc-chart\" viewBox=\"0 0 {width:.0} {HEIGHT}\" \
         width=\"{width:.0}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(&chart.title)
    );
    if is_alone {
        let _ = write!(
            out,
            "<style>{STYLE}.oc-back{{fill:#fff}}@media(prefers-color-scheme:dark){{\
             .oc-back{{fill:#0d1117}}}}</style>\
             <rect class=\"oc-back\" width=\"100%\" height=\"100%\"/>"
        );
    }
    let _ = writeln!(
        out,
        "\n<text class=\"t\" x=\"{LEFT}\" y=\"{TITLE_Y}\">{}</text>",
        escape(&chart.title)
    );
}

/// The places of bars and dots: one slot per name of the x axis, divided into one column per
/// series.
struct Columns {
    /// Width of the whole chart.
    width: f64,
    slot: f64,
    count: usize,
    column: f64,
    /// Whether there is room for values above the columns.
    have_values: bool,
}

impl Columns {
    fn of(chart: &Chart, x: &Span<'_>, y: &Span<'_>, shown: &[Shown<'_>]) -> Self {
        let margins = LEFT + RIGHT;
        let slots = x.ticks.len().max(1) as f64;
        let columns = || shown.iter().filter(|(series, _)| !series.is_reference);
        let count = columns().count().max(1);
        // A fifth of the slot stays free, less if there are many columns.
        let share = (count as f64 / (count + 1) as f64).max(0.8);
        let width_for = |column: f64| margins + slots * count as f64 * column / share;
        let values = columns().flat_map(|(_, points)| points.iter());
        let letters = values
            .map(|(_, value)| y.show(*value).chars().count())
            .max();
        let with_values = width_for(4.0 + VALUE_LETTER * letters.unwrap_or(0) as f64);
        let have_values = with_values <= WIDTH_WITH_VALUES;
        let width = match chart.shape {
            Shape::Lines => WIDTH,
            Shape::Bars | Shape::Dots if have_values => with_values.max(WIDTH),
            Shape::Bars | Shape::Dots => width_for(COLUMN_MIN).max(WIDTH),
        };
        let slot = (width - margins) / slots;
        Columns {
            width,
            slot,
            count,
            column: (slot * share / count as f64).min(COLUMN_MAX),
            have_values,
        }
    }
}

/// The text below a tick.
struct TickName {
    first_line: String,
    /// Empty for a name in one line.
    second_line: String,
}

/// The texts below the ticks of the x axis, in two lines if one of the names is wider than its
/// slot.
struct Names {
    names: Vec<TickName>,
    are_broken: bool,
}

fn names_of(x: &Span<'_>, slot: f64) -> Names {
    let names: Vec<String> = x.ticks.iter().map(|tick| x.show(*tick)).collect();
    let is_wide = |name: &String| name.chars().count() as f64 * LETTER > slot - 6.0;
    let are_broken = x.has_names() && names.iter().any(is_wide);
    let broken = |name: String| {
        let spaces = name.char_indices().filter(|(_, letter)| *letter == ' ');
        match spaces.min_by_key(|(at, _)| at.abs_diff(name.len() / 2)) {
            Some((at, _)) if are_broken => TickName {
                first_line: name[..at].to_owned(),
                second_line: name[at + 1..].to_owned(),
            },
            _ => TickName {
                first_line: name,
                second_line: String::new(),
            },
        }
    };
    Names {
        names: names.into_iter().map(broken).collect(),
        are_broken,
    }
}

/// Names and colours of the series, in as many lines as they need.
struct Legend {
    text: String,
    lines: usize,
}

impl Legend {
    fn of(chart: &Chart, width: f64) -> Self {
        let mut legend = Legend {
            text: String::new(),
            lines: 0,
        };
        if chart.series.len() < 2 {
            return legend;
        }
        legend.lines = 1;
        let (mut left, mut base) = (LEFT, LEGEND_Y);
        for (at, series) in chart.series.iter().enumerate() {
            let wide = 40.0 + LETTER * series.name.chars().count() as f64;
            if left > LEFT && left + wide > width - RIGHT {
                (left, base) = (LEFT, base + LEGEND_LINE);
                legend.lines += 1;
            }
            let mark = match (chart.shape, series.is_reference) {
                (Shape::Bars, false) => format!(
                    "<rect style=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"1.5\"/>",
                    paint("fill", at),
                    left + 8.0,
                    base - 10.0
                ),
                (Shape::Dots, false) => format!(
                    "<circle style=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{DOT_RADIUS}\"/>",
                    paint("fill", at),
                    left + 14.0,
                    base - 4.0
                ),
                _ => format!(
                    "<path class=\"{}\" style=\"{}\" d=\"M{left:.1} {:.1}h20\"/>",
                    line_class(series),
                    paint("stroke", at),
                    base - 4.0
                ),
            };
            let _ = writeln!(
                legend.text,
                "{mark}<text class=\"k\" x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
                left + 26.0,
                escape(&series.name)
            );
            left += wide;
        }
        legend
    }
}

fn line_class(series: &Series) -> &'static str {
    if series.is_reference { "l r" } else { "l" }
}

/// The attribute that gives a mark the colour of its series.
fn paint(property: &str, at: usize) -> String {
    let (number, light) = (at % COLORS, LIGHT[at % COLORS]);
    format!("{property}:{light};{property}:var(--oc-c{number})")
}

/// The area of the values on the page.
struct Frame<'a> {
    top: f64,
    floor: f64,
    right: f64,
    x: Span<'a>,
    y: Span<'a>,
}

impl Frame<'_> {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (
            LEFT + self.x.place(x) * (self.right - LEFT),
            self.floor - self.y.place(y) * (self.floor - self.top),
        )
    }

    fn write_axes(&self, out: &mut String, chart: &Chart, names: &[TickName]) {
        let (floor, right) = (self.floor, self.right);
        let lowest = self.y.ticks.first().copied().unwrap_or(0.0);
        let leftmost = self.x.ticks.first().copied().unwrap_or(0.0);
        for tick in &self.y.ticks {
            let (_, y) = self.at(leftmost, *tick);
            let _ = writeln!(
                out,
                "<path class=\"g\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                escape(&self.y.show(*tick))
            );
        }
        for (tick, name) in self.x.ticks.iter().zip(names) {
            let (x, _) = self.at(*tick, lowest);
            let _ = write!(
                out,
                "<path class=\"a\" d=\"M{x:.1} {floor}v5\"/><text x=\"{x:.1}\" y=\"{}\" \
                 text-anchor=\"middle\">{}",
                floor + 19.0,
                escape(&name.first_line)
            );
            if !name.second_line.is_empty() {
                let rest = escape(&name.second_line);
                let _ = write!(out, "<tspan x=\"{x:.1}\" dy=\"14\">{rest}</tspan>");
            }
            out.push_str("</text>\n");
        }
        let _ = writeln!(
            out,
            "<path class=\"a\" d=\"M{LEFT} {floor}H{right}\"/>\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 14.0,
            escape(&chart.x.label),
            (self.top + floor) / 2.0,
            escape(&chart.y.label)
        );
    }

    /// The text that a mark shows when the reader points at it.
    fn say(&self, series: &Series, x: f64, y: f64) -> String {
        let text = format!("{}: {}, {}", series.name, self.x.show(x), self.y.show(y));
        escape(&text)
    }

    fn write_lines(&self, out: &mut String, shown: &[Shown<'_>]) {
        for (at, (series, points)) in shown.iter().enumerate() {
            let mut path = String::new();
            for (number, (x, y)) in points.iter().enumerate() {
                let (x, y) = self.at(*x, *y);
                let _ = write!(path, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
            }
            let (class, stroke, fill) =
                (line_class(series), paint("stroke", at), paint("fill", at));
            let _ = writeln!(
                out,
                "<path class=\"{class}\" style=\"{stroke}\" d=\"{path}\"/>"
            );
            if series.is_reference {
                continue;
            }
            for (place, value) in points {
                let (x, y) = self.at(*place, *value);
                let _ = writeln!(
                    out,
                    "<circle class=\"m\" style=\"{fill}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\">\
                     <title>{}</title></circle>",
                    self.say(series, *place, *value)
                );
            }
        }
    }

    /// Bars or dots in groups; references are lines across their slot.
    fn write_columns(
        &self,
        out: &mut String,
        shape: Shape,
        columns: &Columns,
        shown: &[Shown<'_>],
    ) {
        let shift = columns.column * columns.count as f64 / 2.0;
        let mut number = 0.0;
        for (at, (series, points)) in shown.iter().enumerate() {
            let (stroke, fill) = (paint("stroke", at), paint("fill", at));
            for (place, value) in points {
                let (middle, y) = self.at(*place, *value);
                if series.is_reference {
                    let _ = writeln!(
                        out,
                        "<path class=\"l r\" style=\"{stroke}\" d=\"M{:.1} {y:.1}h{:.1}\"/>",
                        middle - columns.slot * 0.45,
                        columns.slot * 0.9
                    );
                    continue;
                }
                let left = middle - shift + number * columns.column;
                let center = left + columns.column / 2.0 - 1.0;
                let said = self.say(series, *place, *value);
                let above = match shape {
                    Shape::Dots => {
                        let _ = writeln!(
                            out,
                            "<circle class=\"m\" style=\"{fill}\" cx=\"{center:.1}\" cy=\"{y:.1}\" \
                             r=\"{DOT_RADIUS}\"><title>{said}</title></circle>"
                        );
                        5.0 + DOT_RADIUS
                    }
                    Shape::Bars | Shape::Lines => {
                        let _ = writeln!(
                            out,
                            "<rect class=\"m\" style=\"{fill}\" x=\"{left:.1}\" y=\"{y:.1}\" \
                             width=\"{:.1}\" height=\"{:.1}\" rx=\"1.5\"><title>{said}</title></rect>",
                            (columns.column - 2.0).max(1.0),
                            (self.floor - y).max(0.0)
                        );
                        5.0
                    }
                };
                if columns.have_values {
                    let _ = writeln!(
                        out,
                        "<text class=\"v\" x=\"{center:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                        y - above,
                        escape(&self.y.show(*value))
                    );
                }
            }
            number += f64::from(u8::from(!series.is_reference));
        }
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Scale};
    use outcore_io::units::Unit;

    fn chart() -> Chart {
        Chart {
            title: "title <here>".to_owned(),
            x: Axis::new("depth", Unit::Count).on(Scale::Log2),
            y: Axis::new("IOPS", Unit::Iops),
            series: vec![
                Series::new("one", vec![(1.0, 10.0), (8.0, 100.0)]),
                Series::new(
                    "two",
                    vec![(1.0, 20.0), (8.0, 50.0), (0.0, 3.0), (2.0, f64::NAN)],
                ),
                Series::reference("ideal", vec![(1.0, 20.0), (8.0, 160.0)]),
            ],
            ..Chart::default()
        }
    }

    #[test]
    fn the_title_of_the_axis_is_not_written_over_its_ticks() {
        let mut chart = chart();
        chart.y = Axis::new("rate", Unit::BytesPerS);
        chart.series = vec![Series::new("one", vec![(1.0, 0.0), (2.0, 5.9e8)])];
        let svg = chart.svg().unwrap();
        assert!(svg.contains(">300 MB/s<"), "{svg}");
        // The text of a tick ends 8 px before the axis. The letters of the title have their
        // baseline at 16 px and reach 4 px below it.
        let ticks = svg.split("text-anchor=\"end\">").skip(1);
        let longest = ticks
            .map(|text| text.split('<').next().unwrap().len())
            .max();
        assert!(LEFT - 8.0 - longest.unwrap() as f64 * LETTER > 16.0 + 4.0);
    }

    #[test]
    fn every_series_and_label_is_in_the_chart_and_it_is_the_same_every_time() {
        let chart = chart();
        let svg = chart.svg().unwrap();
        for text in [
            "title &lt;here&gt;",
            "depth",
            "IOPS",
            ">one<",
            ">two<",
            ">ideal<",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        // Points without a place are omitted; references have no marks.
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg.matches("<title>").count(), 4);
        assert!(svg.contains("<title>two: 8, 50</title>"), "{svg}");
        assert_eq!(svg, chart.svg().unwrap());
        assert!(!chart.svg_inline().unwrap().contains("<style>"));
        assert!(Chart::default().svg().is_err());
    }

    #[test]
    fn bars_stand_on_the_floor_over_their_names() {
        let chart = Chart {
            title: "bars".to_owned(),
            x: Axis::of_names("", vec!["a".to_owned(), "b".to_owned()]),
            y: Axis::new("rate", Unit::BytesPerS),
            shape: Shape::Bars,
            series: vec![
                Series::new("read", vec![(0.0, 2e9), (1.0, 1e9)]),
                Series::new("write", vec![(0.0, 5e8), (1.0, 1e8)]),
            ],
            ..Chart::default()
        };
        let svg = chart.svg_inline().unwrap();
        assert_eq!(svg.matches("<rect class=\"m\"").count(), 4);
        let keys = svg.matches("width=\"12\"").count();
        assert_eq!(keys, 2, "in the legend");
        assert!(svg.contains(">a<") && svg.contains(">2 GB/s<"), "{svg}");
    }

    /// Dots of `rows` names and `columns` series.
    fn dots(rows: usize, columns: usize) -> Chart {
        let names = (0..rows).map(|row| format!("a long name, depth {row}"));
        let points: Vec<_> = (0..rows)
            .map(|row| (row as f64, 1e3 * (row + 1) as f64))
            .collect();
        Chart {
            title: "dots".to_owned(),
            x: Axis::of_names("", names.collect()),
            y: Axis::new("IOPS", Unit::Iops).on(Scale::Log10),
            shape: Shape::Dots,
            series: (0..columns)
                .map(|at| Series::new(format!("column {at}"), points.clone()))
                .collect(),
            ..Chart::default()
        }
    }

    #[test]
    fn dots_have_their_values_above_them_where_there_is_room() {
        let few = dots(3, 2).svg_inline().unwrap();
        assert_eq!(few.matches("<circle class=\"m\"").count(), 6);
        assert_eq!(few.matches("class=\"v\"").count(), 6);
        assert_eq!(few.matches("<tspan").count(), 0);
        assert!(few.contains("width=\"760\"") && !few.contains("<rect"));
    }

    #[test]
    fn a_chart_of_many_columns_grows_and_long_names_take_two_lines() {
        let many = dots(9, 6).svg_inline().unwrap();
        assert_eq!(many.matches("<circle class=\"m\"").count(), 54);
        assert_eq!(many.matches("class=\"v\"").count(), 0);
        assert_eq!(many.matches("<tspan").count(), 9);
        assert!(many.contains(">a long name,<tspan"), "{many}");
        let head = many.split("width=\"").nth(1).unwrap();
        let width: f64 = head.split('"').next().unwrap().parse().unwrap();
        assert!(width > WIDTH);
        // Adjacent dots do not touch.
        let places = many
            .split("cx=\"")
            .skip(7)
            .map(|text| text.split('"').next().unwrap());
        let mut places: Vec<f64> = places.map(|text| text.parse().unwrap()).collect();
        places.sort_by(f64::total_cmp);
        assert_eq!(places.len(), 54);
        assert!(
            places
                .windows(2)
                .all(|two| two[1] - two[0] > 2.0 * DOT_RADIUS)
        );
    }

    #[test]
    fn what_knows_no_variables_finds_every_colour() {
        let svg = chart().svg().unwrap();
        for (number, light) in LIGHT.iter().enumerate() {
            assert!(
                STYLE.contains(&format!("--oc-c{number}:{light}")),
                "{light}"
            );
        }
        assert!(!svg.contains("{fill:var") && !svg.contains("\"fill:var"));
        assert!(!svg.contains("{stroke:var") && !svg.contains("\"stroke:var"));
    }

    #[test]
    fn long_legends_take_more_lines() {
        let mut chart = chart();
        assert_eq!(Legend::of(&chart, WIDTH).lines, 1);
        chart.series[0].name =
            "a name that is long enough for half of a line of the legend".to_owned();
        chart.series[1].name = chart.series[0].name.clone();
        assert_eq!(Legend::of(&chart, WIDTH).lines, 2);
        chart.series.truncate(1);
        assert_eq!(Legend::of(&chart, WIDTH).lines, 0);
    }
}
