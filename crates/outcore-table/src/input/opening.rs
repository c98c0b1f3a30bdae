//! Opens the files of a table, and determines their common columns.
//!
//! Contract: [`open_all`] opens the files on several threads and keeps their order. [`full_schema`]
//! has the columns of the files, followed by those of their directories.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{FieldRef, Schema, SchemaRef};
use outcore::Job;
use outcore_io::drive::objects::expanded;
use outcore_io::port::Volume;
use outcore_io::{Error, Result, threads};

use super::text::{NamedText, check_rows, settle};
use super::{
    FEW_FILES_BYTES, Format, InputOptions, NO_FILE, READ, TableFile, files_of, hive, source,
    too_many_files,
};
use crate::common::{FileSchema, united};
use crate::schema::{Widths, agree, check_names};

/// Opens all files on several threads: reads footers, and scans text.
pub(super) fn open_all(
    job: &Job,
    volume: &Arc<Volume>,
    paths: &[PathBuf],
    options: &InputOptions,
) -> Result<Vec<TableFile>> {
    let paths = expanded(volume.device().as_ref(), paths)?;
    let paths = files_of(&paths, options.text.is_some())?;
    if options.text.is_some() {
        let lens = paths
            .iter()
            .map(|path| path.metadata().map_or(0, |facts| facts.len()));
        job.control.begin_phase("scan", lens.sum());
    }
    let next = AtomicUsize::new(0);
    let opened: Mutex<Vec<Option<TableFile>>> = Mutex::new(paths.iter().map(|_| None).collect());
    let by_memory = job.budget.free_bytes() / source::STREAMED_BYTES;
    let by_memory = usize::try_from(by_memory).unwrap_or(usize::MAX);
    let threads_count = job.options.threads.min(paths.len()).min(by_memory).max(1);
    let held = AtomicU64::new(0);
    let work = |_thread: usize| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(number) else {
                return Ok(());
            };
            job.control.check()?;
            let file = TableFile::open(job, volume, path.clone(), options);
            if file.is_err() {
                // The other threads then start no further file.
                next.store(paths.len(), Ordering::Relaxed);
            }
            let file = file?;
            let held_bytes = file.held_bytes();
            let held_bytes = held_bytes + held.fetch_add(held_bytes, Ordering::Relaxed);
            let memory_bytes = job.options.memory_bytes;
            if held_bytes > (memory_bytes / 2).max(FEW_FILES_BYTES) {
                next.store(paths.len(), Ordering::Relaxed);
                // The estimate assumes that the other files have metadata of the same size.
                let times = paths.len() as f64 / (number + 1) as f64;
                let all_bytes = (held_bytes as f64 * times) as u64;
                return Err(too_many_files(paths.len(), all_bytes, memory_bytes));
            }
            opened.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(file);
        }
    };
    let done = threads::together("outcore-table-open", threads_count, work)?;
    done.into_iter().collect::<Result<()>>()?;
    let opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut files: Vec<TableFile> = opened.into_iter().flatten().collect();
    let mut texts: Vec<NamedText<'_>> = Vec::new();
    for file in &mut files {
        if let Some(Format::Text(text)) = Arc::get_mut(&mut file.format) {
            texts.push(NamedText {
                path: &file.path,
                file: text,
            });
        }
    }
    if let Some(text) = options.text.as_ref().filter(|_| !texts.is_empty()) {
        settle(&mut texts, text)?;
        check_rows(job, &mut texts, text)?;
    }
    Ok(files)
}

/// Returns the columns of all files, followed by those of directory names.
///
/// # Errors
/// Usage: no file, a repeated column name, files that differ.
pub(super) fn full_schema(files: &[TableFile], is_union: bool) -> Result<SchemaRef> {
    let Some(first) = files.first() else {
        return Err(Error::usage(READ, NO_FILE).hint("name a file or a directory of tables"));
    };
    for file in files {
        check_names(file.schema()).map_err(|error| error.path(&file.path))?;
    }
    if !is_union {
        for file in files {
            let (schema, path) = (first.schema(), &first.path);
            agree(schema, path, file.schema(), &file.path, Widths::Any)?;
        }
    }
    let schemas = files.iter().map(|file| FileSchema {
        schema: Arc::clone(file.schema()),
        path: &file.path,
    });
    let schemas: Vec<FileSchema<'_>> = schemas.collect();
    let own = united(&schemas)?;
    let mut fields: Vec<FieldRef> = own.fields().iter().cloned().collect();
    for file in files {
        for (name, _) in &file.hive {
            if fields.iter().any(|field| field.name() == name) {
                continue;
            }
            let value_of = |file: &'_ TableFile| {
                let mut values = file.hive.iter();
                values
                    .find(|(known, _)| known == name)
                    .and_then(|(_, value)| value.clone())
            };
            let values: Vec<Option<String>> = files.iter().map(value_of).collect();
            fields.push(hive::field_of(name, values.iter().map(Option::as_deref)));
        }
    }
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        own.metadata().clone(),
    )))
}
