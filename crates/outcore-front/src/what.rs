//! Determines the kind of an input: lines, CSV, JSON lines, FASTQ, records, a table or a view.
//!
//! Contract: [`Asked::what`] is the single rule, for the command and for Python. It checks, in this
//! order:
//! - the caller's statement (a type, lines, CSV, JSON lines, FASTQ);
//! - the first input (a directory, or the beginning of Parquet, Arrow or `.npy`);
//! - the extension of its name.
//!
//! Text whose extension does not show its kind is FASTQ if it begins with a whole record;
//! everything else is lines. CSV and JSON lines are rows of text. They are a table if the caller
//! names a column or a type, or writes Parquet, Arrow or text of the other kind. The reader checks
//! the rest of the file. This module reads only the beginning of the first input.

use std::path::{Path, PathBuf};

use outcore::Result;
use outcore::key::column::listed;
use outcore::read::fastq::is_begun_by;
use outcore::read::text_kind::TextKind;
use outcore_io::drive::objects::is_object;
use outcore_store::dataset::Named;
#[cfg(feature = "tables")]
use outcore_table::{
    input::{check_local, files_of, is_directory_of_tables},
    output::TableFormat,
};

use crate::content::{Content, HEAD_BYTES};
use crate::inputs::{self, Names, Streams, is_manifest};

/// Whether text can be read as a table.
const HAS_TABLES: bool = cfg!(feature = "tables");
/// The file in which a view describes itself.
const VIEW_NAME: &str = "view.json";

/// The kind of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Lines of text.
    Lines,
    /// Records of CSV, kept as they are written.
    Csv,
    /// Lines of JSON, kept as they are written.
    JsonLines,
    /// Records of one length.
    Records,
    /// A NumPy array.
    Array,
    /// Parquet or Arrow.
    Table,
    /// CSV whose columns have types.
    CsvTable,
    /// JSON lines whose fields are columns with types.
    JsonTable,
    /// Records of FASTQ, kept as they are written.
    Fastq,
    /// A directory with a sorted view.
    View,
}

impl What {
    /// All kinds.
    pub const ALL: [What; 10] = [
        What::Lines,
        What::Csv,
        What::JsonLines,
        What::Records,
        What::Array,
        What::Table,
        What::CsvTable,
        What::JsonTable,
        What::Fastq,
        What::View,
    ];

    /// Whether it is a table.
    pub fn is_table(self) -> bool {
        matches!(self, What::Table | What::CsvTable | What::JsonTable)
    }

    /// Whether it is text, row by row.
    pub fn is_text(self) -> bool {
        matches!(
            self,
            What::Lines | What::Csv | What::JsonLines | What::Fastq
        )
    }

    /// Whether it is records of one length.
    pub fn is_records(self) -> bool {
        matches!(self, What::Records | What::Array)
    }

    /// Its name as in "for tables".
    pub fn plural(self) -> &'static str {
        match self {
            What::Lines => "lines",
            What::Csv => "CSV",
            What::JsonLines => "JSON lines",
            What::Records => "records",
            What::Array => ".npy files",
            What::Table => "tables",
            What::CsvTable => "tables of CSV",
            What::JsonTable => "tables of JSON lines",
            What::Fastq => "FASTQ",
            What::View => "views",
        }
    }

    /// Rows of text of this kind.
    pub fn rows(kind: TextKind) -> Self {
        match kind {
            TextKind::Csv => What::Csv,
            TextKind::JsonLines => What::JsonLines,
            TextKind::Fastq => What::Fastq,
        }
    }

    /// Text of this kind as a table, if it can be one.
    pub(crate) fn table_of(kind: TextKind) -> Self {
        match kind {
            TextKind::Csv => What::CsvTable,
            TextKind::JsonLines => What::JsonTable,
            TextKind::Fastq => What::Fastq,
        }
    }
}

/// The caller's statements about an input.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// The names of the inputs; none for standard input.
    pub inputs: &'a [PathBuf],
    /// The name of the output, if given.
    pub output: Option<&'a Path>,
    /// The caller gave a type or a size of records.
    pub is_records: bool,
    /// The caller says that it is lines, or gave an option that only lines have.
    pub is_lines: bool,
    /// The caller says that it is text of this kind.
    pub text: Option<TextKind>,
    /// The caller gave an option that only tables have, so text is a table.
    pub is_table: bool,
    /// Standard input is a table: Arrow (`None`), or text of a kind.
    pub piped: Option<Option<TextKind>>,
    /// Columns that the caller named.
    pub by: &'a [String],
    /// Columns compare like text, in an order of GNU sort.
    pub is_text_order: bool,
}

impl Asked<'_> {
    /// The kind of the input.
    ///
    /// # Errors
    /// Usage: an address of an object store. The first input cannot be examined.
    pub fn what(&self, known: &dyn Names) -> Result<What> {
        if let Some(kind) = self.piped {
            return Ok(kind.map_or(What::Table, What::table_of));
        }
        if self.is_records {
            return Ok(What::Records);
        }
        if self.is_lines {
            // Lines with fields that are given by path are JSON.
            let is_path = |by: &String| by.starts_with('.');
            let named = self.by.iter().any(is_path).then_some(TextKind::JsonLines);
            return Ok(self.text.or(named).map_or(What::Lines, What::rows));
        }
        let first = self.inputs.first();
        if first.is_none() && self.text.is_none() && self.output.is_some_and(is_named_table) {
            return Ok(What::Table);
        }
        let held = first.map_or(Ok(None), |first| held_by(first, known))?;
        if let Some(found) = held.filter(|found| *found != What::Fastq) {
            return Ok(found);
        }
        if let Some(array) = self.inputs.iter().find_map(|name| records_named(name)) {
            return Ok(array);
        }
        let named = first.and_then(|first| text_named(first));
        if let Some(kind) = self.text.or(named) {
            return Ok(match self.is_table_of_text(kind) {
                true => What::table_of(kind),
                false => What::rows(kind),
            });
        }
        let named = self.output.and_then(records_named);
        Ok(held.or(named).unwrap_or(What::Lines))
    }

    /// Whether text of this kind is a table.
    fn is_table_of_text(&self, kind: TextKind) -> bool {
        let is_text_key = |list: &String| listed(list).any(is_text_key);
        let is_by = !self.by.is_empty() && self.text.is_none();
        let is_by_column = is_by && !self.is_text_order && !self.by.iter().any(is_text_key);
        let is_other = |output| {
            let written = TextKind::of_name(output);
            is_named_table(output) || (HAS_TABLES && written.is_some_and(|written| written != kind))
        };
        self.is_table || is_by_column || self.output.is_some_and(is_other)
    }
}

/// Whether a key belongs to rows of text and not to tables: a path of JSON, the number of a column,
/// or one with letters of GNU sort.
fn is_text_key(by: &str) -> bool {
    let (name, order) = by.split_once(':').unwrap_or((by, ""));
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let is_letters = |word: &str| {
        let is_word = matches!(word, "asc" | "desc" | "nulls-first" | "nulls-last");
        !is_word && !word.is_empty() && word.chars().all(|sign| "bdfghiMnrRV".contains(sign))
    };
    name.starts_with('.') || is_number || order.split(':').any(is_letters)
}

/// The kind of records that an extension indicates.
fn records_named(name: &Path) -> Option<What> {
    let is_array = name.extension().is_some_and(|end| end == "npy");
    match is_array {
        true => Some(What::Array),
        false => is_manifest(name).then_some(What::Records),
    }
}

/// The kind of text that the extension of a name, or of the files in a directory, indicates.
fn text_named(name: &Path) -> Option<TextKind> {
    #[cfg(feature = "tables")]
    if name.is_dir() {
        let files = files_of(&[name.to_path_buf()], true).ok()?;
        return TextKind::of_name(files.first()?);
    }
    TextKind::of_name(name)
}

/// The kind of an input according to its content; `None` if the content does not decide.
fn held_by(first: &Path, known: &dyn Names) -> Result<Option<What>> {
    #[cfg(feature = "tables")]
    check_local("open input", first)?;
    if first.is_dir() {
        return Ok(match first.join(VIEW_NAME).is_file() {
            true => Some(What::View),
            false => is_table_dir(first).then_some(What::Table),
        });
    }
    let is_stdin = first.as_os_str() == "-";
    if !first.is_file() && !is_stdin && !Named::is_mark(first) && !is_object(first) {
        // A stream. The kind of a missing file comes from its name; reading it reports the error.
        let is_table = is_named_table(first) && !first.exists();
        return Ok(is_table.then_some(What::Table));
    }
    let sources = inputs::find(&[first.to_path_buf()], Streams::Taken, known)?;
    Ok(match sources.first() {
        // An empty file has no content to examine, so its name decides.
        Some(source) if is_named_table(first) && source.is_empty()? => Some(What::Table),
        Some(source) if !source.is_stream() => {
            let head = source.head(HEAD_BYTES)?;
            match Content::of(&head) {
                Content::Array => Some(What::Array),
                content if content.is_table() => Some(What::Table),
                content if content.is_plain() => is_begun_by(&head).then_some(What::Fastq),
                _ => None,
            }
        }
        _ => None,
    })
}

#[cfg(feature = "tables")]
fn is_table_dir(dir: &Path) -> bool {
    is_directory_of_tables(dir)
}

#[cfg(not(feature = "tables"))]
fn is_table_dir(_: &Path) -> bool {
    false
}

/// Whether the extension is that of Parquet or Arrow.
#[cfg(feature = "tables")]
fn is_named_table(name: &Path) -> bool {
    TableFormat::of_name(name).is_some_and(|format| !format.is_text())
}

#[cfg(not(feature = "tables"))]
fn is_named_table(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::inputs::FilesOnly;

    fn what(names: &[&str], asked: Asked<'_>) -> What {
        let inputs: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        let asked = Asked {
            inputs: &inputs,
            ..asked
        };
        asked.what(&FilesOnly).unwrap()
    }

    #[test]
    fn names_say_what_inputs_are_and_flags_say_more() {
        let plain = Asked::default();
        assert_eq!(what(&[], plain), What::Lines);
        assert_eq!(what(&["none.txt"], plain), What::Lines);
        assert_eq!(what(&["none.csv.gz"], plain), What::Csv);
        assert_eq!(what(&["none.jsonl"], plain), What::JsonLines);
        assert_eq!(what(&["none.npy"], plain), What::Array);
        assert_eq!(what(&["none.json"], plain), What::JsonLines);
        assert_eq!(what(&["none.fq.gz"], plain), What::Fastq);
        assert_eq!(what(&["none.outcore.json"], plain), What::Records);
        let records = Asked {
            is_records: true,
            ..plain
        };
        assert_eq!(what(&["none.csv"], records), What::Records);
        let lines = Asked {
            is_lines: true,
            ..plain
        };
        assert_eq!(what(&["none.csv"], lines), What::Lines);
        let csv = Asked {
            text: Some(TextKind::Csv),
            ..plain
        };
        assert_eq!(what(&["none.txt"], csv), What::Csv);
        let table = Asked {
            is_table: true,
            ..csv
        };
        assert_eq!(what(&["none.txt"], table), What::CsvTable);
    }

    #[test]
    fn text_is_a_table_as_soon_as_a_column_is_named_that_text_alone_has_not() {
        for (by, wanted) in [
            ("price", What::CsvTable),
            ("price:desc:nulls-last", What::CsvTable),
            ("price:nr", What::Csv),
            ("price:n:desc", What::Csv),
            ("2", What::Csv),
            (".user.id", What::Csv),
        ] {
            let by = [by.to_owned()];
            let asked = Asked {
                by: &by,
                ..Asked::default()
            };
            assert_eq!(what(&["none.csv"], asked), wanted, "{by:?}");
            let said = Asked {
                text: Some(TextKind::Csv),
                ..asked
            };
            assert_eq!(what(&["none"], said), What::Csv, "{by:?}");
        }
    }

    #[test]
    fn content_counts_before_names() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let array = write("a.csv", b"\x93NUMPY\x01\0");
        assert_eq!(what(&[&array], Asked::default()), What::Array);
        let parquet = write("b.txt", b"PAR1\x15\x04\x15\0");
        assert_eq!(what(&[&parquet], Asked::default()), What::Table);
        let reads = b"@r\nAC\n+\nII\n";
        let fastq = write("c.txt", reads);
        assert_eq!(what(&[&fastq], Asked::default()), What::Fastq);
        let csv = write("c.csv", reads);
        assert_eq!(what(&[&csv], Asked::default()), What::Csv);
        let sam = write("c", b"@HD\tVN\n@SQ\tS\n@PG\n@CO\n");
        assert_eq!(what(&[&sam], Asked::default()), What::Lines);
        write(VIEW_NAME, b"{}");
        let view = dir.path().to_str().unwrap();
        assert_eq!(what(&[view], Asked::default()), What::View);
    }
}
