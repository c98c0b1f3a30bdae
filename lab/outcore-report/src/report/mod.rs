//! One report in several representations: on a terminal, as JSON, as CSV, as one HTML file.
//!
//! Contract: plain data. A [`Report`] contains the findings ([`Headline`]s, a verdict), the data
//! (sections of tables and charts), and the circumstances (machine, options), so that it can be
//! read on its own and years later. Numbers are stored as measured, with their [`Unit`]; only the
//! representations round them.
//!
//! Schema of the JSON ([`Report::to_json`]): the fields below under their own names. A cell is a
//! number, a text or null. `v` changes when a name changes its meaning.

mod args;
pub mod diff;
mod html;
mod machine;
mod save;
mod text;

use outcore_chart::Chart;
use outcore_io::units::Unit;
use serde::{Deserialize, Serialize};

pub use args::ReportArgs;
pub use save::Saver;

/// Version of the schema.
const VERSION: u32 = 1;

/// A named value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name, such as `kernel`.
    pub name: String,
    /// Its value as text.
    pub value: String,
}

impl Fact {
    /// Creates a fact.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Fact {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// A main result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// Its name, such as `sequential read`.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// The circumstances, such as `1 MiB, 16 in flight`.
    pub note: String,
}

/// The content of a table cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number in its column's unit.
    Number(f64),
    /// A number with a unit of its own.
    Other(f64, Unit),
    /// A text.
    Text(String),
    /// Nothing was measured.
    None,
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::Number(value)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Cell::None, Cell::Number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Unit of its numbers.
    pub unit: Unit,
}

/// Rows of cells under named columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Table {
    /// Name for programs: `read-by-depth`.
    pub id: String,
    /// Title.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows; each has as many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// All numbers except for those of the first column are comparable; they are also shown as
    /// shades.
    #[serde(skip)]
    pub is_map: bool,
}

impl Table {
    /// A table without rows.
    pub fn new(id: impl Into<String>, title: impl Into<String>, columns: &[(&str, Unit)]) -> Self {
        Table {
            id: id.into(),
            title: title.into(),
            columns: columns
                .iter()
                .map(|(name, unit)| Column {
                    name: (*name).to_owned(),
                    unit: *unit,
                })
                .collect(),
            ..Table::default()
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }
}

/// A part of a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Section {
    /// Name for programs and links.
    pub id: String,
    /// Title.
    pub title: String,
    /// What was measured, and the source of the method.
    pub text: String,
    /// Tables of the values.
    pub tables: Vec<Table>,
    /// Charts of the values.
    #[serde(skip_deserializing)]
    pub charts: Vec<Chart>,
    /// Remarks about these values.
    pub notes: Vec<String>,
}

impl Section {
    /// A section without content.
    pub fn new(id: &str, title: &str, text: &str) -> Self {
        Section {
            id: id.to_owned(),
            title: title.to_owned(),
            text: text.to_owned(),
            ..Section::default()
        }
    }

    /// Whether it has no content.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.charts.is_empty() && self.notes.is_empty()
    }
}

/// All results of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the schema.
    pub v: u32,
    /// The command, such as `bench io`.
    pub command: String,
    /// Title.
    pub title: String,
    /// Start time, UTC, in the format of RFC 3339.
    pub started: String,
    /// Duration.
    pub seconds: f64,
    /// Main results.
    pub headlines: Vec<Headline>,
    /// Main conclusions.
    pub verdict: Vec<String>,
    /// The machine.
    pub machine: Vec<Fact>,
    /// The options.
    pub options: Vec<Fact>,
    /// The detailed results.
    pub sections: Vec<Section>,
}

impl Report {
    /// A report of `command` that begins now on this machine.
    pub fn new(command: &str, title: impl Into<String>) -> Self {
        Report {
            v: VERSION,
            command: command.to_owned(),
            title: title.into(),
            started: machine::now_utc(),
            seconds: 0.0,
            headlines: Vec::new(),
            verdict: Vec::new(),
            machine: machine::facts(),
            options: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Adds a main result.
    pub fn headline(&mut self, name: &str, value: f64, unit: Unit, note: impl Into<String>) {
        self.headlines.push(Headline {
            name: name.to_owned(),
            value,
            unit,
            note: note.into(),
        });
    }

    /// Adds an option.
    pub fn option(&mut self, name: &str, value: impl Into<String>) {
        self.options.push(Fact::new(name, value));
    }

    /// Adds a section, unless it is empty.
    pub fn section(&mut self, section: Section) {
        if !section.is_empty() {
            self.sections.push(section);
        }
    }

    /// All charts, in order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.sections.iter().flat_map(|section| &section.charts)
    }

    /// The report for a terminal.
    pub fn to_text(&self) -> String {
        text::report(self)
    }

    /// The report as one JSON value.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    /// The report as CSV, one value per line: section, table, row, column, unit, value. The first
    /// cell of a row is its name.
    pub fn to_csv(&self) -> String {
        text::csv(self)
    }

    /// The report as one self-contained HTML file.
    ///
    /// # Errors
    /// A chart without points.
    pub fn to_html(&self) -> outcore_io::Result<String> {
        html::page(self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use outcore_chart::{Axis, Scale, Series};

    use super::*;

    pub(crate) fn sample() -> Report {
        let mut report = Report::new("bench test", "A <test>");
        report.headline("read", 3.2e9, Unit::BytesPerS, "1 MiB");
        report
            .verdict
            .push("the drive is the bound & so on".to_owned());
        report.option("size", "1 GiB");
        let mut section = Section::new("blocks", "Block sizes", "As the paper.");
        let mut table = Table::new(
            "blocks",
            "Reads",
            &[
                ("block", Unit::Bytes),
                ("rate", Unit::BytesPerS),
                ("note", Unit::Count),
            ],
        );
        table.row([
            Cell::from(4096.0),
            Cell::from(1.5e8),
            Cell::from("a, \"b\""),
        ]);
        table.row([
            Cell::from(512.0),
            Cell::None,
            Cell::Other(0.25, Unit::Share),
        ]);
        section.tables.push(table);
        section.charts.push(Chart {
            id: "blocks".to_owned(),
            title: "Reads".to_owned(),
            x: Axis::new("block", Unit::Bytes).on(Scale::Log2),
            y: Axis::new("rate", Unit::BytesPerS),
            series: vec![Series::new("read", vec![(4096.0, 1.5e8), (8192.0, 2e8)])],
            ..Chart::default()
        });
        section.notes.push("a note".to_owned());
        report.section(section);
        report.section(Section::new("empty", "Nothing", "came of it"));
        report
    }

    #[test]
    fn every_face_has_every_value() {
        let report = sample();
        assert_eq!(report.sections.len(), 1);
        let text = report.to_text();
        for wanted in [
            "A <test>", "3.2 GB/s", "4 KiB", "150 MB/s", "25 %", "a note", "kernel",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
        let json = report.to_json();
        assert_eq!(json["sections"][0]["tables"][0]["rows"][0][1], 1.5e8);
        assert_eq!(
            json["sections"][0]["tables"][0]["rows"][1][1],
            serde_json::Value::Null
        );
        assert_eq!(
            json["sections"][0]["charts"][0]["series"][0]["points"][1][0],
            8192.0
        );
        let csv = report.to_csv();
        assert_eq!(
            csv.lines().next(),
            Some("section,table,row,column,unit,value")
        );
        assert!(
            csv.contains("blocks,blocks,4096,rate,bytes_per_s,150000000\n"),
            "{csv}"
        );
        assert!(
            csv.contains("blocks,blocks,4096,note,,\"a, \"\"b\"\"\"\n"),
            "{csv}"
        );
        let html = report.to_html().unwrap();
        for wanted in [
            "A &lt;test&gt;",
            "<svg",
            "150 MB/s",
            "3.2 GB/s",
            "is the bound &amp; so",
        ] {
            assert!(html.contains(wanted), "{wanted} is missing");
        }
        assert!(
            !html.contains("http://") || !html.contains("src=\"http"),
            "needs nothing else"
        );
    }
}
