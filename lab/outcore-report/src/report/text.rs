//! A report as text: aligned tables for a terminal, and CSV for programs.
//!
//! Contract: pure. Lines are as wide as their table; numbers are right-aligned, with their unit.
//! CSV follows RFC 4180 with one value per line, so that one file holds tables of any shape.

use std::fmt::Write;

use super::{Cell, Column, Report, Section, Table};

/// The text of a cell.
pub(crate) fn show(cell: &Cell, column: &Column) -> String {
    match cell {
        Cell::Number(value) => column.unit.show(*value),
        Cell::Other(value, unit) => unit.show(*value),
        Cell::Text(text) => text.clone(),
        Cell::None => "-".to_owned(),
    }
}

/// The heading of a column, with the unit if the numbers do not carry it.
pub(crate) fn head(column: &Column) -> String {
    match column.unit.title() {
        "" => column.name.clone(),
        title => format!("{} ({title})", column.name),
    }
}

pub(crate) fn report(report: &Report) -> String {
    let mut out = format!("{}\n", report.title);
    if !report.headlines.is_empty() {
        out.push('\n');
    }
    let wide = report
        .headlines
        .iter()
        .map(|h| h.name.chars().count())
        .max();
    for headline in &report.headlines {
        let _ = writeln!(
            out,
            "  {:<wide$}  {:>10}  {}",
            headline.name,
            headline.unit.show(headline.value),
            headline.note,
            wide = wide.unwrap_or(0)
        );
    }
    if !report.verdict.is_empty() {
        out.push('\n');
    }
    for sentence in &report.verdict {
        let _ = writeln!(out, "  * {sentence}");
    }
    // Sections with only charts have nothing for a terminal.
    let has_text = |section: &&Section| !section.tables.is_empty() || !section.notes.is_empty();
    for section in report.sections.iter().filter(has_text) {
        let _ = write!(out, "\n== {} ==\n", section.title);
        for table in &section.tables {
            out.push('\n');
            out.push_str(&self::table(table));
        }
        for note in &section.notes {
            let _ = writeln!(out, "  note: {note}");
        }
    }
    let facts = |out: &mut String, title: &str, facts: &[super::Fact]| {
        if facts.is_empty() {
            return;
        }
        let _ = write!(out, "\n{title}:");
        for (at, fact) in facts.iter().enumerate() {
            let _ = write!(
                out,
                "{} {} {}",
                if at > 0 { "," } else { "" },
                fact.name,
                fact.value
            );
        }
        out.push('\n');
    };
    facts(&mut out, "options", &report.options);
    facts(&mut out, "machine", &report.machine);
    out
}

fn table(table: &Table) -> String {
    let mut lines = vec![table.columns.iter().map(head).collect::<Vec<_>>()];
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns);
        lines.push(cells.map(|(cell, column)| show(cell, column)).collect());
    }
    let is_text = |at: usize| {
        table
            .rows
            .iter()
            .all(|row| matches!(row.get(at), Some(Cell::Text(_) | Cell::None)))
    };
    let widths: Vec<(usize, bool)> = (0..table.columns.len())
        .map(|at| {
            let wide = lines.iter().map(|line| line[at].chars().count()).max();
            (wide.unwrap_or(0), is_text(at))
        })
        .collect();
    let mut out = format!("{}\n", table.title);
    for (number, line) in lines.iter().enumerate() {
        let mut text = String::from(" ");
        for (cell, (wide, is_text)) in line.iter().zip(&widths) {
            let _ = match is_text {
                true => write!(text, " {cell:<wide$} "),
                false => write!(text, " {cell:>wide$} "),
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
        if number == 0 {
            let rule: usize = widths.iter().map(|(wide, _)| wide + 2).sum();
            let _ = writeln!(out, "  {}", "-".repeat(rule.saturating_sub(2)));
        }
    }
    out
}

pub(crate) fn csv(report: &Report) -> String {
    let mut out = String::from("section,table,row,column,unit,value\n");
    for section in &report.sections {
        for table in &section.tables {
            for row in &table.rows {
                let name = row.first().map(bare).unwrap_or_default();
                for (cell, column) in row.iter().zip(&table.columns).skip(1) {
                    let unit = match cell {
                        Cell::Number(_) => column.unit.name(),
                        Cell::Other(_, unit) => unit.name(),
                        Cell::Text(_) | Cell::None => "",
                    };
                    let fields = [
                        &section.id,
                        &table.id,
                        &name,
                        &column.name,
                        unit,
                        &bare(cell),
                    ];
                    let fields = fields.map(quote);
                    let _ = writeln!(out, "{}", fields.join(","));
                }
            }
        }
    }
    out
}

/// The value of a cell, unrounded and without its unit.
fn bare(cell: &Cell) -> String {
    match cell {
        Cell::Number(value) | Cell::Other(value, _) if value.is_finite() => value.to_string(),
        Cell::Text(text) => text.clone(),
        _ => String::new(),
    }
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;

    #[test]
    fn columns_are_aligned_and_no_line_ends_in_spaces() {
        let text = sample().to_text();
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
        let of = |word: &str| {
            let line = text.lines().find(|line| line.contains(word)).unwrap();
            line.find(word).map(|at| at + word.len())
        };
        assert_eq!(of("4 KiB"), of("512 B"));
    }
}
