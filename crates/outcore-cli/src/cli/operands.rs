//! Inputs that do not exist because a word of the command line is in the wrong place.
//!
//! Contract: an error about a missing input gets another hint if the words explain it: a unit that
//! is separated from its number, a file before an expression, or a number or a column without its
//! option. Reads at most the first bytes of a table of text.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ValueHint};
use outcore::{Error, Kind};
use outcore_front::inputs::{self, FilesOnly, Streams};
use outcore_io::units;
use outcore_verbs::usage::{called, has_count};

use super::Cli;

/// The error with a better hint, if a misplaced word explains it; `words` is the command line.
pub(crate) fn explain(error: Error, words: &[OsString]) -> Error {
    let of_kind = ["lines", "tables", "type of the records"];
    let is_of_kind = of_kind.iter().any(|word| error.cause().contains(word));
    if is_of_kind && error.kind() == Kind::Usage && words[1..].iter().any(is_packed_table) {
        return error.hint(
            "Parquet and Arrow files inside of a compressed file cannot be read: decompress it first, for example with gunzip; Parquet compresses columns itself",
        );
    }
    if is_header_of_lines(&error) && reads_csv(words) {
        return error.hint_left(
            "the first line is taken for the header: --no-header reads it as a row, and -t ' ' separates fields at blanks; the columns are then 1, 2, ...",
        );
    }
    let is_input = matches!(error.kind(), Kind::Io | Kind::Usage);
    let Some(missing) = error.file_path().filter(|path| is_input && !path.exists()) else {
        return error;
    };
    let Some(at) = words.iter().position(|word| word == missing.as_os_str()) else {
        return error;
    };
    if let Some(hint) = unit_apart(words, at) {
        let cause = format!(
            "a space separates the unit {} from its number",
            missing.display()
        );
        return Error::usage("read arguments", cause).hint(hint);
    }
    let is_unexplained = error.next_step() == Some("check the path");
    if is_unexplained && let Some(hint) = hint_of_option(missing, words, at) {
        return error.hint(hint);
    }
    let of_last = || hint_of_last(missing, words, at).filter(|_| is_unexplained);
    match hint_of_order(missing, words).or_else(of_last) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Whether a column is missing because a line of text is the name of the only column.
fn is_header_of_lines(error: &Error) -> bool {
    let step = error.next_step().unwrap_or_default();
    let only = step.strip_prefix("the columns are `");
    let only = only.and_then(|rest| rest.split('`').next());
    error.cause().starts_with("there is no column")
        && !step.contains("`, `")
        && only.is_some_and(|name| name.contains(' '))
}

/// Whether an option or the name of an input says that the input is CSV.
fn reads_csv(words: &[OsString]) -> bool {
    let is_output = |word: &OsString| word == "-o" || word == "--output";
    let from = |one: &OsString, next: Option<&OsString>| {
        one == "--from" && next.is_some_and(|next| next == "csv" || next == "tsv")
    };
    (1..words.len()).any(|at| {
        let word = &words[at];
        let path = Path::new(word);
        let inner = match is_packed(path) {
            true => path.file_stem().map_or(path, Path::new),
            false => path,
        };
        let is_named = matches!(end(inner), Some("csv" | "tsv"))
            && !word.to_string_lossy().starts_with('-')
            && !is_output(&words[at - 1]);
        let is_told = ["--csv", "--tsv", "--from=csv", "--from=tsv"]
            .iter()
            .any(|option| word == option);
        is_named || is_told || from(word, words.get(at + 1))
    })
}

/// The ending of a name, without the point.
fn end(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str)
}

/// Whether the ending of a name is that of a compressed file.
fn is_packed(path: &Path) -> bool {
    matches!(end(path), Some("gz" | "zst" | "bz2" | "xz"))
}

/// Whether a word names a compressed file with a table in it that is not text.
fn is_packed_table(word: &OsString) -> bool {
    let path = Path::new(word);
    let inner = path.file_stem().and_then(|stem| end(Path::new(stem)));
    let is_table = matches!(
        inner,
        Some("parquet" | "pq" | "arrow" | "arrows" | "feather")
    );
    is_packed(path) && is_table && path.is_file()
}

/// The hint for a missing input after another one, which may be a column or the output.
fn hint_of_last(missing: &Path, words: &[OsString], at: usize) -> Option<String> {
    let root = Cli::whole();
    let command = called(&root, words);
    let flags = |flag: &str| {
        let mut options = command.get_arguments();
        options.any(|option: &Arg| option.get_long() == Some(flag))
    };
    let name = missing.to_str()?;
    if name == "help" {
        return Some(format!("outcore {} --help", command.get_name()));
    }
    let table = words[1..].iter().find(|word| has_column(word, name));
    if let (Some(table), false) = (table, name.starts_with('-')) {
        let table = table.to_string_lossy();
        let step = match command.get_name() {
            "top" => format!("outcore sort --by {name}:desc {table}"),
            "histogram" => format!("outcore count-by {name} {table}"),
            _ if flags("by") => format!("--by {name}"),
            _ if flags("columns") => format!("--columns {name}"),
            _ => return None,
        };
        return Some(format!("check the path; for a column write {step}"));
    }
    let mut before = words[1..at].iter();
    if !before.any(|word| Path::new(word).is_file()) {
        return None;
    }
    let is_output = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "-o" || word.starts_with("--output") || word.starts_with("-o")
    };
    let is_last = words[at + 1..].iter().all(|word| !Path::new(word).exists());
    let has_one_input = command.get_positionals().count() == 1;
    let may_be_output = flags("output") && is_last && has_one_input;
    (may_be_output && !words.iter().any(is_output))
        .then(|| "check the path; to write the result there, name it with -o".to_owned())
}

/// The hint for a missing input behind an option or its value: the value needs a `=`, is itself a
/// file, or is one of several in a list.
fn hint_of_option(missing: &Path, words: &[OsString], at: usize) -> Option<String> {
    let root = Cli::whole();
    let command = called(&root, words);
    let option = |word: &OsString| {
        let long = word.to_str()?.strip_prefix("--")?;
        let mut options = command.get_arguments();
        options.find(|option| option.get_long() == Some(long))
    };
    let name = missing.to_str()?;
    if let Some(found) = option(&words[at - 1]) {
        let flag = found.get_long()?;
        return match found.is_require_equals_set() {
            true => Some(format!(
                "check the path; for the value of --{flag} write --{flag}={name}"
            )),
            false if found.get_action().takes_values() => {
                Some(format!("check the path; --{flag} takes a file"))
            }
            false => None,
        };
    }
    let flag = option(words.get(at.checked_sub(2)?)?)?.get_long()?;
    let value = words[at - 1].to_str()?;
    let listed = ["agg", "by", "columns", "on", "order"];
    if !listed.contains(&flag) || Path::new(value).exists() || name.contains(['.', '/', '@']) {
        return None;
    }
    Some(match name.to_ascii_lowercase().as_str() {
        order @ ("asc" | "desc") => format!("write --{flag} {value}:{order}"),
        _ => format!("check the path; for several columns write --{flag} {value},{name}"),
    })
}

/// Whether the word is a table that has a column of this name. Only the first line of CSV is read;
/// other tables may have any column whose name is a word.
fn has_column(table: &OsStr, name: &str) -> bool {
    const HEAD_BYTES: usize = 64 << 10;
    let path = Path::new(table);
    let end = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_word = !name.contains(['.', '/', '@']);
    if !is_word || !path.is_file() {
        return false;
    }
    match end {
        "parquet" | "pq" | "arrow" | "arrows" | "feather" | "jsonl" | "ndjson" => true,
        "csv" | "tsv" => {
            let found = inputs::find(&[path.to_path_buf()], Streams::Refused, &FilesOnly);
            let head = found.and_then(|found| match found.first() {
                Some(source) => source.head(HEAD_BYTES),
                None => Ok(Vec::new()),
            });
            let head = head.unwrap_or_default();
            let head = String::from_utf8_lossy(&head);
            let header = head.lines().next().unwrap_or_default();
            let mut columns = header.split([',', '\t', ';', '|']);
            columns.any(|column| column.trim().trim_matches('"') == name)
        }
        _ => false,
    }
}

/// The hint for a unit that follows the number of an option.
fn unit_apart(words: &[OsString], at: usize) -> Option<String> {
    let unit = words[at].to_str()?;
    let before = words.get(at.checked_sub(1)?)?.to_str()?;
    let (option, number) = match before.split_once('=') {
        Some((option, number)) => (format!("{option}="), number),
        None => {
            let option = words.get(at.checked_sub(2)?)?.to_str()?;
            (format!("{option} "), before)
        }
    };
    let is_size = units::parse_bytes(&format!("{number}{unit}")).is_ok();
    let is_apart = option.starts_with('-') && is_size && number.parse::<f64>().is_ok();
    is_apart.then(|| format!("write {option}{number}{unit} without a space"))
}

/// The hint for a file that was given in place of an expression, and for a number that was given in
/// place of a file.
fn hint_of_order(missing: &Path, words: &[OsString]) -> Option<String> {
    let root = Cli::whole();
    let (name, command) = words.iter().skip(1).find_map(|word| {
        let found = root.find_subcommand(word)?;
        Some((word.to_string_lossy(), found))
    })?;
    let text = missing.to_str()?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if let (Some(start), "tail") = (text.strip_prefix('+'), command.get_name())
        && is_number(start)
    {
        return Some(format!("-n {text} takes the items from number {start} on"));
    }
    let number = Some(text).filter(|text| is_number(text));
    if let (Some(number), true) = (number, has_count(command)) {
        return Some(format!("-n {number} is the number of items"));
    }
    if let (Some(number), "histogram") = (number, command.get_name()) {
        return Some(format!("--bins {number} is the number of bins"));
    }
    if missing == Path::new("x") && matches!(command.get_name(), "histogram" | "top" | "scan") {
        return Some(format!(
            "leave x out: {name} takes the numbers of the files"
        ));
    }
    let first = command.get_positionals().next()?;
    let is_path = |hint| !matches!(hint, ValueHint::Unknown | ValueHint::Other);
    if is_path(first.get_value_hint()) {
        return None;
    }
    let given = root.clone().try_get_matches_from(words).ok()?;
    let (_, given) = given.subcommand()?;
    let operand: &OsStr = given.get_raw(first.get_id().as_str())?.next()?;
    let is_file = Path::new(operand).exists();
    is_file.then(|| {
        let (text, file) = (missing.display(), operand.to_string_lossy());
        format!("the expression comes first: outcore {name} '{text}' {file}")
    })
}
