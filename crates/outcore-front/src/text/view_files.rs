//! Files of text in a form that a view can use.
//!
//! Contract: [`settle`] prepares the files of a new view, and [`settle_further`] those that are
//! added to one. CSV is used without its headers, JSON lines without byte order marks, and both
//! without blank lines ([`super::csv_files`], [`super::json_files`]); other lines are used as they
//! are.

use outcore::Result;
use outcore::job::Job;
use outcore::runs::LineType;

use super::order::OrderSpec;
use super::{csv_files, json_files};
use crate::inputs::Source;
use crate::spool::{LateSpool, Spool};

/// The text format of a view.
#[derive(Debug, Clone, Copy)]
pub enum ViewText {
    /// Records of CSV.
    Csv {
        /// The first line of each file names the columns.
        has_header: bool,
    },
    /// JSON values or other lines, depending on their order.
    Lines {
        /// The byte that ends a line.
        terminator: u8,
    },
}

/// The lines of a view in the order of `spec`. Copies of files go to `spool`.
///
/// # Errors
/// An invalid order; a failure to examine or copy the files.
pub fn settle(
    spec: OrderSpec,
    text: ViewText,
    job: &Job,
    files: &mut [Source],
    mut spool: LateSpool<'_, impl Fn() -> Result<Spool>>,
) -> Result<LineType> {
    match text {
        ViewText::Csv { has_header } => csv_files::settle_view(spec, has_header, job, files, spool),
        ViewText::Lines { terminator } => {
            let lines = spec.to_lines(terminator)?;
            if spec.is_json() {
                json_files::without_blanks(job, files, terminator, &mut spool)?;
            }
            Ok(lines)
        }
    }
}

/// Prepares files that are added to a view of `lines`.
///
/// # Errors
/// As [`settle`]; usage for CSV that does not match that of the view.
pub fn settle_further(
    lines: &LineType,
    job: &Job,
    files: &mut [Source],
    mut spool: LateSpool<'_, impl Fn() -> Result<Spool>>,
) -> Result<()> {
    let spec = OrderSpec::of_name(&lines.order_name)?;
    match &spec.csv {
        Some(csv) => csv_files::settle_further(csv, lines, job, files, spool),
        None if spec.is_json() => {
            json_files::without_blanks(job, files, lines.terminator, &mut spool)
        }
        None => Ok(()),
    }
}
