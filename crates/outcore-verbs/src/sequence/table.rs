//! Verbs on sequences if the input is a table.
//!
//! Contract: as [`crate::tables`]. The meaning of `--where` is that of `filter`.

use std::path::Path;

use outcore::key::column::listed;
use outcore::key::expr::power_note;
use outcore::{Error, Result};
use outcore_table::expr::{Assignment, Expr};
use outcore_table::input::TextOptions;
use outcore_table::jobs::{self, Selection, TableOrder};

use super::args::{InputArgs, PassArgs, RowsArgs};
use super::input::resources_of;
use crate::host::Host;
use crate::report::WriteSummary;
use crate::tables::{READ, Request, keys_of, run, text};

/// The input and the output of a verb.
pub(crate) struct Ends<'a> {
    /// The input.
    pub(super) input: &'a InputArgs,
    /// The output; none for standard output.
    pub(super) output: Option<&'a Path>,
    /// How tables are read and written.
    pub(super) rows: &'a RowsArgs,
}

impl<'a> Ends<'a> {
    /// The input and the output of a verb that always has an output.
    pub(super) fn of(files: &'a PassArgs, rows: &'a RowsArgs) -> Self {
        Ends {
            input: &files.input,
            output: Some(&files.output.output),
            rows,
        }
    }

    /// How text is read.
    fn text(&self) -> Result<TextOptions> {
        let flags = self.rows.text.flags()?;
        text::options(&self.rows.tables, &flags, &self.input.inputs)
    }

    fn request(&self, text: &'a TextOptions) -> Request<'a> {
        Request {
            inputs: &self.input.inputs,
            output: self.output,
            tables: &self.rows.tables,
            force: self.input.force,
            replace: false,
            keeps_journal: false,
            record_io: &self.input.job.record_io,
            is_explained: self.input.explain,
            text,
        }
    }
}

/// Counts the values of `columns`, which are separated by commas.
pub(super) fn count_by(
    host: &dyn Host,
    ends: &Ends<'_>,
    columns: &str,
    is_by_count: bool,
) -> Result<WriteSummary> {
    let columns: Vec<String> = listed(columns).map(str::to_owned).collect();
    let keys = keys_of(&columns, false)?;
    let text = ends.text()?.needing_keys(&keys)?;
    let ran = run(
        host,
        &ends.request(&text),
        resources_of(host, ends.input)?,
        |job, ends| jobs::count_by(job, ends, &keys, is_by_count),
    )?;
    Ok(ran.report)
}

/// Keeps the rows for which `condition` holds.
pub(super) fn filter(host: &dyn Host, ends: &Ends<'_>, condition: &str) -> Result<WriteSummary> {
    power_note(condition)
        .into_iter()
        .for_each(|note| host.note(note));
    select(host, ends, Some(condition), Vec::new())
}

/// Computes columns by `expression`.
pub(super) fn map(host: &dyn Host, ends: &Ends<'_>, expression: &str) -> Result<WriteSummary> {
    power_note(expression)
        .into_iter()
        .for_each(|note| host.note(note));
    select(host, ends, None, Assignment::parse_all(expression)?)
}

/// Rows for which a condition holds, and those of `--where`, with computed columns.
fn select(
    host: &dyn Host,
    ends: &Ends<'_>,
    condition: Option<&str>,
    computed: Vec<Assignment>,
) -> Result<WriteSummary> {
    let further = ends.input.conditions.iter().map(String::as_str);
    let conditions = condition.into_iter().chain(further);
    let selection = Selection {
        conditions: conditions.map(Expr::parse).collect::<Result<_>>()?,
        computed,
    };
    if ends.rows.tables.parts.is_some() && !selection.conditions.is_empty() {
        let cause = "--parts needs the number of rows, which is not known with a condition";
        return Err(
            Error::usage(READ, cause).hint("write one file, then split it with `outcore split`")
        );
    }
    let text = ends.text()?.needing(selection.names_needed());
    let ran = run(
        host,
        &ends.request(&text),
        resources_of(host, ends.input)?,
        |job, ends| jobs::select(job, ends, &selection),
    )
    .map_err(not_a_text)?;
    Ok(ran.report)
}

/// The error for a word in an expression that is not a column of the text file. It is found before
/// the expression is evaluated.
fn not_a_text(error: Error) -> Error {
    let name = error.cause().strip_prefix("there is no column `");
    let name = name.and_then(|rest| rest.strip_suffix('`'));
    let is_word = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let (Some(name), Some(known)) = (name.filter(is_word), error.next_step()) else {
        return error;
    };
    match known.starts_with("the columns are") && !known.contains("in quotes") {
        true => {
            let hint = format!("{known}; a text is written in quotes: '{name}'");
            error.hint(hint)
        }
        false => error,
    }
}

/// Merges tables that are already sorted by columns.
pub(super) fn merge(
    host: &dyn Host,
    ends: &Ends<'_>,
    by: &[String],
    is_descending: bool,
) -> Result<WriteSummary> {
    let keys = keys_of(by, is_descending)?;
    let text = ends.text()?.needing_keys(&keys)?;
    let order = TableOrder {
        keys,
        is_stable: true,
        is_descending,
    };
    let ran = run(
        host,
        &ends.request(&text),
        resources_of(host, ends.input)?,
        |job, ends| jobs::merge(job, ends, &order),
    )?;
    Ok(ran.report)
}
