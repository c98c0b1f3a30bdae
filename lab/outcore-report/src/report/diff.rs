//! Two reports of one command, compared figure by figure.
//!
//! Contract: [`diff`] is pure. It pairs tables by their names, and rows by their first cell and
//! their texts. A figure that only one of the reports has is counted, and not compared. The result
//! is a report again. For each table it has the figures before and after, and their ratio. Above
//! the tables it has the largest changes, and the differences of machines and options.

use std::collections::HashMap;
use std::path::Path;

use outcore_io::drive::paths;
use outcore_io::units::Unit;
use outcore_io::{Error, Kind, Result};

use super::text::show;
use super::{Cell, Fact, Report, Section, Table};

const OPERATION: &str = "compare reports";
/// A smaller change counts as none, because repeated runs also differ by this much.
const NOISE: f64 = 0.05;
/// Changes that are listed above the tables.
const NAMED: usize = 8;

/// Reads a report that a benchmark wrote as JSON.
///
/// # Errors
/// I/O; corrupt: the file holds something else.
pub fn read(path: &Path) -> Result<Report> {
    let text = paths::read_text(OPERATION, path)?;
    serde_json::from_str(&text).map_err(|error| {
        let cause = format!("this is not a report as JSON: {error}");
        Error::new(Kind::Corrupt, OPERATION, cause)
            .path(path)
            .hint("write one with `outcore bench ... -o report.json`")
    })
}

/// Compares two reports.
///
/// # Errors
/// Usage: they are of different commands, or have no figure in common.
pub fn diff(before: &Report, after: &Report) -> Result<Report> {
    if before.command != after.command {
        let cause = format!("one is of `{}`, one of `{}`", before.command, after.command);
        return Err(Error::usage(OPERATION, cause).hint("name two reports of one command"));
    }
    let title = format!("{}: before and after", before.title);
    let mut report = Report::new("bench diff", title);
    report.machine = after.machine.clone();
    report.options = after.options.clone();
    let mut changes = Vec::new();
    let mut alone = 0;
    for section in &after.sections {
        let old = before.sections.iter().find(|old| old.id == section.id);
        let old_tables = old.map_or(&[][..], |old| &old.tables);
        let mut compared = Section::new(&section.id, &section.title, &section.text);
        for table in &section.tables {
            let old = old_tables.iter().find(|old| old.id == table.id);
            let pairs = pairs_of(old, table);
            alone += pairs.alone;
            if !pairs.pairs.is_empty() {
                compared.tables.push(table_of(table, &pairs.pairs));
            }
            changes.extend(pairs.pairs);
        }
        report.section(compared);
    }
    if changes.is_empty() {
        let cause = "the reports have no figure in common";
        return Err(Error::usage(OPERATION, cause).hint("name two reports with the same options"));
    }
    report.verdict = verdict(&mut changes, alone);
    let machines = differences(&before.machine, &after.machine);
    let options = differences(&before.options, &after.options);
    report.verdict.extend(machines.chain(options));
    Ok(report)
}

/// One figure in both reports.
#[derive(Debug, Clone)]
struct Pair {
    row: String,
    figure: String,
    unit: Unit,
    before: f64,
    after: f64,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.after / self.before
    }

    /// How far the figure is from no change, up or down.
    fn change(&self) -> f64 {
        self.ratio().ln().abs()
    }
}

/// The figures of a table that both reports have, and the number of figures that only one has.
#[derive(Default)]
struct Pairs {
    pairs: Vec<Pair>,
    alone: usize,
}

/// A figure's row and its column.
type Place = (String, String);

/// The figures of a table in order, with their units.
fn figures(table: &Table) -> Vec<(Place, (f64, Unit))> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut figures = Vec::new();
    for cells in &table.rows {
        let first = cells.first().zip(table.columns.first());
        let mut names: Vec<String> = first
            .iter()
            .map(|(cell, column)| show(cell, column))
            .collect();
        let texts = cells.iter().skip(1).filter_map(|cell| match cell {
            Cell::Text(text) => Some(text.clone()),
            _ => None,
        });
        names.extend(texts);
        let mut row = names.join(", ");
        // Rows with the same name are distinguished by their order.
        let count = seen.entry(row.clone()).or_default();
        *count += 1;
        if *count > 1 {
            row.push_str(&format!(" #{count}"));
        }
        for (cell, column) in cells.iter().zip(&table.columns).skip(1) {
            let figure = match cell {
                Cell::Number(value) => (*value, column.unit),
                Cell::Other(value, unit) => (*value, *unit),
                Cell::Text(_) | Cell::None => continue,
            };
            figures.push(((row.clone(), column.name.clone()), figure));
        }
    }
    figures
}

fn pairs_of(before: Option<&Table>, after: &Table) -> Pairs {
    let mut old: HashMap<Place, (f64, Unit)> = before.map(figures).into_iter().flatten().collect();
    let mut found = Pairs::default();
    for ((row, figure), (after, unit)) in figures(after) {
        match old.remove(&(row.clone(), figure.clone())) {
            Some((before, old_unit)) if old_unit == unit => found.pairs.push(Pair {
                row,
                figure,
                unit,
                before,
                after,
            }),
            _ => found.alone += 1,
        }
    }
    found.alone += old.len();
    found
}

fn table_of(table: &Table, pairs: &[Pair]) -> Table {
    let first = table.columns.first().map_or("row", |column| &column.name);
    let columns = [
        (first, Unit::Count),
        ("figure", Unit::Count),
        ("before", Unit::Count),
        ("after", Unit::Count),
        ("after / before", Unit::Times),
    ];
    let mut compared = Table::new(&table.id, &table.title, &columns);
    for pair in pairs {
        compared.row([
            Cell::from(pair.row.as_str()),
            Cell::from(pair.figure.as_str()),
            Cell::Other(pair.before, pair.unit),
            Cell::Other(pair.after, pair.unit),
            Cell::from(Some(pair.ratio()).filter(|ratio| ratio.is_finite())),
        ]);
    }
    compared
}

/// How many figures changed, and the largest changes.
fn verdict(changes: &mut Vec<Pair>, alone: usize) -> Vec<String> {
    let figures = changes.len();
    changes.retain(|pair| pair.change().is_finite() && pair.change() > NOISE.ln_1p());
    let mut verdict = vec![format!(
        "{} of {figures} figures changed by more than {:.0} %",
        changes.len(),
        100.0 * NOISE
    )];
    changes.sort_by(|one, other| other.change().total_cmp(&one.change()));
    verdict.extend(changes.iter().take(NAMED).map(|pair| {
        let unit = pair.unit;
        format!(
            "{}, {}: {} before, {} after ({:.2} times)",
            pair.row,
            pair.figure,
            unit.show(pair.before),
            unit.show(pair.after),
            pair.ratio()
        )
    }));
    if alone > 0 {
        verdict.push(format!("{alone} figures are in only one of the reports"));
    }
    verdict
}

/// The differences between two lists of facts.
fn differences<'a>(
    before: &'a [Fact],
    after: &'a [Fact],
) -> impl Iterator<Item = String> + use<'a> {
    after.iter().filter_map(|fact| {
        let old = before.iter().find(|old| old.name == fact.name);
        let old = old.map_or("nothing", |old| &old.value);
        (old != fact.value).then(|| format!("{}: {old} before, {} after", fact.name, fact.value))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_report_that_was_written_is_read_again_and_equals_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        std::fs::write(&path, sample().to_json().to_string()).unwrap();
        let same = diff(&read(&path).unwrap(), &sample()).unwrap();
        assert!(
            same.verdict[0].starts_with("0 of 2 figures changed"),
            "{same:?}"
        );
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), Kind::Corrupt);
    }

    #[test]
    fn changes_are_named_largest_first_and_missing_figures_are_counted() {
        let before = sample();
        let mut after = sample();
        let table = &mut after.sections[0].tables[0];
        table.rows[0][1] = Cell::from(3.0e8);
        table.rows[1][2] = Cell::Other(0.24, Unit::Share);
        table.row([Cell::from(1024.0), Cell::from(1.0), Cell::None]);
        after.machine[0].value = "9.9".to_owned();
        let report = diff(&before, &after).unwrap();
        assert_eq!(report.verdict[0], "1 of 2 figures changed by more than 5 %");
        assert!(report.verdict[1].contains("150 MB/s before, 300 MB/s after (2.00 times)"));
        assert_eq!(
            report.verdict[2],
            "1 figures are in only one of the reports"
        );
        assert!(
            report.verdict[3].ends_with("before, 9.9 after"),
            "{report:?}"
        );
        assert_eq!(report.sections[0].tables[0].rows[0][4], Cell::Number(2.0));
        assert!(report.to_html().is_ok());
    }

    #[test]
    fn reports_of_different_commands_are_rejected() {
        let mut other = sample();
        other.command = "bench io".to_owned();
        assert!(diff(&sample(), &other).is_err());
    }
}
