//! Checks requested columns against CSV headers before the files are scanned.
//!
//! Contract: [`check`] fails for a name that no header and no directory has. The job would fail
//! with the same error, but only after reading all text. It checks nothing if there are no CSV
//! files, or if there are JSON lines, because their columns are in no header. It reads only the
//! beginning of each text file.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use outcore::Job;
use outcore_io::Result;
use outcore_io::drive::objects::expanded;
use outcore_io::port::Volume;

use super::opening::open_all;
use super::text::{Notes, OnBadRow, TextKind, TextOptions};
use super::{InputOptions, READ, files_of};
use crate::schema::FieldPlace;

/// See the module.
///
/// # Errors
/// Usage: a missing column. Errors of opening the files.
pub(super) fn check(
    job: &Job,
    volume: &Arc<Volume>,
    paths: &[PathBuf],
    options: &InputOptions,
) -> Result<()> {
    let whole = options.text.as_ref();
    let Some(text) = whole.filter(|text| text.rows_max.is_none()) else {
        return Ok(());
    };
    let asked = options.columns.iter().flatten().chain(&text.needs);
    let asked: Vec<&String> = asked.collect();
    if asked.is_empty() && text.schema.is_empty() {
        return Ok(());
    }
    let files = expanded(volume.device().as_ref(), paths)?;
    let files = files_of(&files, true)?;
    let is_there = |kind| files.iter().any(|name| text.kind_of(name) == Some(kind));
    if !is_there(TextKind::Csv) || is_there(TextKind::JsonLines) {
        return Ok(());
    }
    let beginnings = InputOptions {
        text: Some(TextOptions {
            rows_max: Some(1),
            on_bad: OnBadRow::Fail,
            notes: Notes::default(),
            bad_rows: Notes::default(),
            ..text.clone()
        }),
        ..options.clone()
    };
    let mut fields: Vec<FieldRef> = Vec::new();
    for file in open_all(job, volume, &files, &beginnings)? {
        let own = file.schema().fields().iter().cloned();
        let directories = file.hive.iter();
        let directories =
            directories.map(|(name, _)| Arc::new(Field::new(name, DataType::Utf8, true)));
        for field in own.chain(directories) {
            if !fields.iter().any(|known| known.name() == field.name()) {
                fields.push(field);
            }
        }
    }
    let schema = Schema::new(fields);
    for name in asked {
        FieldPlace::of(&schema, name, READ)?;
    }
    Ok(())
}
