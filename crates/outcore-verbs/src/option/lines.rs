//! The flags of lines: their kind, the orders of GNU sort, and the options of commands on lines.
//!
//! Contract: as [`super`]. Letters and long names are those of GNU `sort` if it has them, so that a
//! command line written for it has the same meaning here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use outcore::read::text_kind::TextKind;
use outcore::{Error, Result};
use outcore_front::content::Recognition;
use outcore_front::text::csv_files::CsvSort;
use outcore_front::text::gnu::{GnuSort, Key, OptionScope, Ordering};
use outcore_front::text::header::HeaderRule;
use outcore_front::text::order::OrderSpec;
use outcore_front::what::What;

const READ: &str = "read arguments";

/// Keys of lines, and the comparison of keys without letters of their own.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Order of lines")]
pub(crate) struct OrderArgs {
    /// Sort key from POS1 to the end of POS2, or of the line: F[.C][OPTS], field and byte counted
    /// from 1, OPTS out of [bdfghiMnRrV]. Repeat for secondary keys; most significant first
    #[arg(short = 'k', value_name = "POS1[,POS2]", allow_hyphen_values = true)]
    pub line_keys: Vec<String>,
    /// Field separator, one byte (\0 for NUL). Default: a field begins with the spaces and tabs in
    /// front of it
    #[arg(
        short = 't',
        long = "field-separator",
        value_name = "SEP",
        allow_hyphen_values = true
    )]
    separator: Option<OsString>,
    /// Ignore leading blanks in keys
    #[arg(short = 'b', long, overrides_with = "ignore_leading_blanks")]
    ignore_leading_blanks: bool,
    /// Compare blanks, letters and digits only
    #[arg(short = 'd', long, overrides_with = "dictionary_order")]
    dictionary_order: bool,
    /// Compare lower-case letters as upper-case
    #[arg(short = 'f', long, overrides_with = "ignore_case")]
    ignore_case: bool,
    /// Compare as floating-point numbers, as strtold reads them: exponents, hexadecimal, inf, nan
    #[arg(short = 'g', long, overrides_with = "general_numeric_sort")]
    general_numeric_sort: bool,
    /// Compare numbers with units: 2K before 1G. In a key, write the letter h. If the program is
    /// called `sort`, -h also works
    #[arg(long, overrides_with = "human_numeric_sort")]
    human_numeric_sort: bool,
    /// Compare printable characters only
    #[arg(short = 'i', long, overrides_with = "ignore_nonprinting")]
    ignore_nonprinting: bool,
    /// Compare as names of months, JAN to DEC
    #[arg(short = 'M', long, overrides_with = "month_sort")]
    month_sort: bool,
    /// Compare as decimal numbers of any length
    #[arg(short = 'n', long, overrides_with = "numeric_sort")]
    numeric_sort: bool,
    /// Random order that keeps equal keys together; differs in each run unless --seed or
    /// --random-source is given
    #[arg(short = 'R', long, overrides_with = "random_sort")]
    random_sort: bool,
    /// Compare version numbers within names
    #[arg(short = 'V', long, overrides_with = "version_sort")]
    version_sort: bool,
    /// One of the orders above, by name
    #[arg(long = "sort", value_name = "WORD", value_enum)]
    word: Option<OrderWord>,
}

/// The values of `--sort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderWord {
    /// -g
    GeneralNumeric,
    /// --human-numeric-sort
    HumanNumeric,
    /// -M
    Month,
    /// -n
    Numeric,
    /// -R
    Random,
    /// -V
    Version,
}

impl OrderArgs {
    /// The letters that are set.
    fn letters(&self) -> impl Iterator<Item = u8> {
        let word = |word| self.word == Some(word);
        let letters = [
            (b'b', self.ignore_leading_blanks),
            (b'd', self.dictionary_order),
            (b'f', self.ignore_case),
            (
                b'g',
                self.general_numeric_sort || word(OrderWord::GeneralNumeric),
            ),
            (
                b'h',
                self.human_numeric_sort || word(OrderWord::HumanNumeric),
            ),
            (b'i', self.ignore_nonprinting),
            (b'M', self.month_sort || word(OrderWord::Month)),
            (b'n', self.numeric_sort || word(OrderWord::Numeric)),
            (b'R', self.random_sort || word(OrderWord::Random)),
            (b'V', self.version_sort || word(OrderWord::Version)),
        ];
        let set = letters.into_iter().filter(|(_, is_set)| *is_set);
        set.map(|(letter, _)| letter)
    }

    /// Whether any of them is given, so that the input must be lines.
    pub(crate) fn is_given(&self) -> bool {
        self.separator.is_some() || self.is_of_lines()
    }

    /// Whether any is given except for the separator, which tables of CSV also have.
    pub(crate) fn is_of_lines(&self) -> bool {
        !self.line_keys.is_empty() || self.letters().next().is_some()
    }

    /// Whether the letters ask for a random order.
    pub(crate) fn is_random(&self) -> bool {
        self.letters().any(|letter| letter == b'R')
    }

    /// Whether lower-case letters compare as capitals.
    pub(crate) fn ignores_case(&self) -> bool {
        self.ignore_case
    }

    /// Whether a key or a letter is given, except for that of [`OrderArgs::ignores_case`].
    pub(crate) fn has_keys_or_kinds(&self) -> bool {
        !self.line_keys.is_empty() || self.letters().any(|letter| letter != b'f')
    }

    /// The letters alone.
    pub(crate) fn global(&self, reverse: bool) -> Ordering {
        let mut global = Ordering::default();
        for letter in self.letters() {
            global.set(letter, OptionScope::Both);
        }
        global.reverse = reverse;
        global
    }

    /// The options in the form of the order's rules, with these additional keys.
    ///
    /// # Errors
    /// Usage for invalid keys and separators.
    pub(crate) fn to_sort(&self, reverse: bool, keys: &[String]) -> Result<GnuSort> {
        let mut sort = GnuSort {
            separator: self.separator()?,
            global: self.global(reverse),
            ..GnuSort::default()
        };
        let keys = self.line_keys.iter().chain(keys).map(|key| Key::parse(key));
        sort.keys = keys.collect::<Result<_>>()?;
        Ok(sort)
    }

    /// The same in the words of a command line.
    ///
    /// # Errors
    /// Usage for invalid separators.
    pub(crate) fn to_spec(&self, descending: bool, stable: bool) -> Result<OrderSpec> {
        let letters = self.letters().map(char::from);
        Ok(OrderSpec {
            keys: self.line_keys.clone(),
            letters: letters.collect(),
            separator: self.separator()?,
            descending,
            stable,
            ..OrderSpec::default()
        })
    }

    /// The byte between fields.
    pub(crate) fn separator(&self) -> Result<Option<u8>> {
        self.separator.as_ref().map(separator_of).transpose()
    }
}

/// The byte that `-t` names.
pub(crate) fn separator_of(text: &OsString) -> Result<u8> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        b"\\0" => Ok(0),
        b"\\t" => Ok(b'\t'),
        [] => Err(Error::usage(READ, "-t: empty separator").hint("leave -t out for blanks")),
        _ => Err(
            Error::usage(READ, "-t: the separator is longer than one byte")
                .hint("give one byte, or \\0 for NUL"),
        ),
    }
}

/// CSV and JSON lines for verbs that do not order them.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "CSV and JSON lines")]
pub(crate) struct RowArgs {
    /// Input is CSV, whatever its name: quoted fields may contain separators and newlines. The
    /// first line of each file names the columns. It comes first in every output, and only once
    #[arg(long, conflicts_with_all = ["jsonl", "is_lines", "zero_terminated", "format", "record_bytes", "keys"])]
    pub csv: bool,
    /// Input is JSON lines, whatever its name: one JSON value per line
    #[arg(long, conflicts_with_all = ["is_lines", "format", "record_bytes", "keys"])]
    pub jsonl: bool,
    /// Input is FASTQ, whatever its name: records of four lines
    #[arg(long, conflicts_with_all = ["csv", "jsonl", "zero_terminated", "format", "record_bytes", "keys"])]
    pub fastq: bool,
    /// CSV inputs have no header line
    #[arg(long)]
    pub no_header: bool,
    /// Separator of the fields of CSV inputs. Default: inferred from a sample of the records
    #[arg(
        short = 't',
        long = "field-separator",
        value_name = "SEP",
        allow_hyphen_values = true
    )]
    separator: Option<OsString>,
}

/// The flags of CSV and JSON lines that become tables.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextFlags {
    /// They are CSV.
    pub csv: bool,
    /// They are JSON lines.
    pub jsonl: bool,
    /// They are FASTQ.
    pub fastq: bool,
    /// The CSV has no header.
    pub no_header: bool,
    /// The byte between fields.
    pub separator: Option<u8>,
}

impl TextFlags {
    /// The kind of text that they name, if any.
    pub fn kind(&self) -> Option<TextKind> {
        match (self.csv, self.jsonl, self.fastq) {
            (true, ..) => Some(TextKind::Csv),
            (_, true, _) => Some(TextKind::JsonLines),
            (.., true) => Some(TextKind::Fastq),
            _ => None,
        }
    }
}

impl RowArgs {
    /// Adopts the kind that the input turned out to have.
    pub(crate) fn settle(&mut self, what: What) {
        self.csv |= what == What::Csv;
        self.jsonl |= what == What::JsonLines;
        self.fastq |= what == What::Fastq;
    }

    /// The flags in the form for tables.
    ///
    /// # Errors
    /// Usage for invalid separators.
    pub(crate) fn text_flags(&self) -> Result<TextFlags> {
        Ok(TextFlags {
            csv: self.csv,
            jsonl: self.jsonl,
            fastq: self.fastq,
            no_header: self.no_header,
            separator: self.separator.as_ref().map(separator_of).transpose()?,
        })
    }

    /// The kind of lines that the flags choose.
    ///
    /// # Errors
    /// Usage for invalid separators.
    pub(crate) fn to_rows(&self) -> Result<Rows> {
        Ok(match (self.csv, self.jsonl) {
            (true, _) => Rows::Csv(CsvSort {
                separator: self.separator.as_ref().map(separator_of).transpose()?,
                has_header: !self.no_header,
                ..CsvSort::default()
            }),
            (_, true) => Rows::Json,
            _ if self.fastq => Rows::Fastq,
            _ => Rows::Lines,
        })
    }
}

/// The kind of lines.
#[derive(Debug, Clone)]
pub enum Rows {
    /// No kind is given.
    Lines,
    /// JSON values.
    Json,
    /// Records of FASTQ.
    Fastq,
    /// Records of CSV.
    Csv(CsvSort),
}

impl Rows {
    /// The word for one of them.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Rows::Fastq => "read",
            Rows::Lines | Rows::Json | Rows::Csv(_) => "line",
        }
    }

    /// The same in the plural.
    pub(crate) fn plural(&self) -> &'static str {
        match self {
            Rows::Fastq => "reads",
            Rows::Lines | Rows::Json | Rows::Csv(_) => "lines",
        }
    }

    /// The byte between the fields of CSV, if it is given.
    pub fn separator(&self) -> Option<u8> {
        match self {
            Rows::Csv(csv) => csv.separator,
            Rows::Lines | Rows::Json | Rows::Fastq => None,
        }
    }
}

/// The options of GNU sort.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "GNU sort compatibility")]
pub(crate) struct GnuArgs {
    /// Merge files that are already sorted
    #[arg(short = 'm', long)]
    pub merge: bool,
    /// As -c, but print nothing
    #[arg(short = 'C', conflicts_with_all = ["check", "output"])]
    pub check_silently: bool,
    /// Memory to use, as --memory; in KiB, or with a suffix of [b%KMGT]
    #[arg(short = 'S', long = "buffer-size", value_name = "SIZE", value_parser = parse_buffer_bytes, conflicts_with = "memory_bytes")]
    pub buffer_bytes: Option<u64>,
    /// Scratch directory, as --drive
    #[arg(short = 'T', long = "temporary-directory", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub temporary_dirs: Vec<PathBuf>,
    /// Number of threads, as --threads
    #[arg(long, value_name = "N", conflicts_with = "threads")]
    pub parallel: Option<usize>,
    /// Read the names of the inputs from FILE, each terminated by NUL
    #[arg(long = "files0-from", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "inputs")]
    pub files0_from: Option<PathBuf>,
    /// File whose bytes are the seed of -R
    #[arg(long = "random-source", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub random_source: Option<PathBuf>,
    /// Accepted for compatibility, ignored: outcore merges as many inputs at once as fit in memory
    #[arg(long = "batch-size", value_name = "N")]
    pub batch_count: Option<u64>,
    /// Underline the part of each line that is its key, and warn about options without effect
    #[arg(long, conflicts_with_all = ["output", "check", "check_silently", "csv", "jsonl", "fastq", "header_lines", "comment"])]
    pub debug: bool,
    /// Accepted for compatibility, ignored: scratch is not compressed
    #[arg(long = "compress-program", value_name = "PROG")]
    pub compress_program: Option<OsString>,
    /// Which of the keys were given as +POS1 [-POS2], counted from 0
    #[arg(long = "old-key", value_name = "N", hide = true)]
    pub old_keys: Vec<usize>,
}

impl GnuArgs {
    /// Whether a flag is given that only lines have.
    pub(crate) fn is_given(&self) -> bool {
        self.merge || self.debug || self.random_source.is_some() || self.files0_from.is_some()
    }
}

/// CSV and JSON lines.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "CSV and JSON lines")]
pub(crate) struct FormatArgs {
    /// Input is CSV: quoted fields may contain separators and newlines, and the first line names
    /// the columns and stays first. -t sets the separator (default: inferred from a sample of the
    /// records). Columns are compared as text; the form price:n compares numbers
    #[arg(long, conflicts_with_all = ["jsonl", "is_lines"])]
    pub csv: bool,
    /// Input is JSON lines: one JSON value per line. Types are ordered null, false, true,
    /// numbers, strings, arrays, objects
    #[arg(long, conflicts_with = "is_lines")]
    pub jsonl: bool,
    /// Input is FASTQ: records of four lines. Keys are name, sequence, quality and length; without
    /// a key, the name
    #[arg(long, conflicts_with_all = ["csv", "jsonl", "zero_terminated"])]
    pub fastq: bool,
    /// Sort keys, separated by commas, most significant first: a name, or for CSV the number
    /// (from 1) of a column, for JSON lines a path such as .user.id or .tags[0], for .npy a field.
    /// After colons, in any order: a type as in price:f64, asc or desc, nulls-first or nulls-last;
    /// for CSV also the letters of -k, as in price:nr. Null is an empty field of CSV. A name in
    /// backquotes may hold commas and colons
    #[arg(long, value_name = "FIELD")]
    pub by: Vec<String>,
    /// CSV inputs have no header line
    #[arg(long)]
    pub no_header: bool,
}

impl FormatArgs {
    /// The form and the order of lines, in words.
    pub(crate) fn said(&self, header: &HeaderArgs, order: &OrderSpec) -> String {
        let kind = match (self.csv, self.jsonl) {
            (true, _) if self.no_header => "CSV without a header",
            (true, _) => "CSV",
            (false, true) => "JSON lines",
            (false, false) => "lines",
        };
        match header.is_given() {
            true => format!("{kind} {order} after {header:?}"),
            false => format!("{kind} {order}"),
        }
    }

    /// Adopts the kind that the input turned out to have.
    pub(crate) fn settle(&mut self, what: What) {
        self.csv |= what == What::Csv;
        self.jsonl |= what == What::JsonLines;
        self.fastq |= what == What::Fastq;
    }

    /// The flags for text that becomes a table.
    pub(crate) fn text_flags(&self, separator: Option<u8>) -> TextFlags {
        TextFlags {
            csv: self.csv,
            jsonl: self.jsonl,
            fastq: self.fastq,
            no_header: self.no_header,
            separator,
        }
    }

    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.csv || self.jsonl || self.fastq || !self.by.is_empty()
    }

    /// Fails for flags that exclude each other, and if there is nothing to sort by.
    ///
    /// # Errors
    /// Usage.
    pub(crate) fn check(&self, order: &OrderArgs, lines: LineArgs) -> Result<()> {
        if (self.csv || self.jsonl) && self.by.is_empty() {
            let (flag, example) = match self.csv {
                true => ("--csv", "--by name, or --by 2 for the second column"),
                false => ("--jsonl", "--by .user.id"),
            };
            return Err(Error::usage(READ, format!("{flag} without --by"))
                .hint(format!("say what to sort by: {example}")));
        }
        self.check_together(order, lines)
    }

    /// The same for a command that may take whole lines.
    ///
    /// # Errors
    /// Usage.
    pub(crate) fn check_together(&self, order: &OrderArgs, lines: LineArgs) -> Result<()> {
        if self.is_given() && !order.line_keys.is_empty() {
            return Err(
                Error::usage(READ, "keys are given both with -k and with --by")
                    .hint("keep only --by: --by 2:n compares the numbers of the second column"),
            );
        }
        if self.csv && lines.zero_terminated {
            return Err(
                Error::usage(READ, "-z with --csv: its records end with newlines")
                    .hint("leave -z out"),
            );
        }
        Ok(())
    }
}

/// The bytes that may be lines if the caller treats the input as lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinesHow {
    /// Any bytes
    Any,
    /// Text; binary data are rejected
    Text,
}

/// Options that make the input lines, and set their terminator.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Lines")]
pub(crate) struct LineArgs {
    /// Treat the input as lines, whatever its content and name. Otherwise Parquet and Arrow files
    /// are tables, .npy files records, and other binary data (NULs, .npz, ...) is rejected.
    /// Compressed files (gzip, zstd, bzip2, xz, detected by content) are decompressed either way
    #[arg(
        id = "is_lines",
        long = "lines",
        value_name = "WHAT",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "any",
        overrides_with = "is_lines"
    )]
    how: Option<LinesHow>,
    /// Lines end with NUL instead of newline
    #[arg(short = 'z', long, overrides_with = "zero_terminated")]
    pub zero_terminated: bool,
}

impl LineArgs {
    /// Whether the caller says that the input is lines.
    pub(crate) fn is_lines(self) -> bool {
        self.how.is_some()
    }

    /// The byte that ends a line.
    pub(crate) fn terminator(self) -> u8 {
        if self.zero_terminated { 0 } else { b'\n' }
    }

    /// The data that may be read as lines, with `separator` between fields.
    pub(crate) fn recognition(self, separator: Option<u8>) -> Recognition {
        Recognition {
            insists_lines: self.how == Some(LinesHow::Any),
            takes_nuls: self.zero_terminated || separator == Some(0),
            takes_packed: false,
            tells_header: false,
        }
    }
}

/// Lines in front of the records.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Lines")]
pub(crate) struct HeaderArgs {
    /// The first N lines of each file are a header: they stay unchanged at the front of the output,
    /// once. With --comment, N does not include comments. Several inputs must have the same header
    #[arg(id = "header_lines", long = "header", value_name = "N")]
    lines: Option<u64>,
    /// Lines at the front of each file that begin with TEXT are comments: they stay unchanged at
    /// the front of the output, once. Repeat for several texts. Several inputs must have the same
    /// comments
    #[arg(
        id = "comment",
        long = "comment",
        value_name = "TEXT",
        allow_hyphen_values = true,
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    comments: Vec<String>,
}

impl HeaderArgs {
    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.lines.is_some() || !self.comments.is_empty()
    }

    /// The rule for lines that are not records.
    pub(crate) fn rule(&self) -> HeaderRule {
        let comments = self.comments.iter();
        HeaderRule {
            comments: comments.map(|mark| mark.clone().into_bytes()).collect(),
            lines: self.lines.unwrap_or(0),
        }
    }
}

/// The output of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckHow {
    /// Name the first item out of order
    DiagnoseFirst,
    /// Print nothing
    #[value(alias = "silent")]
    Quiet,
}

/// The memory that jobs on lines get if the user asks for less.
const BUFFER_BYTES_MIN: u64 = 32 << 20;

/// A size in the form of `sort -S`: in KiB, or with a suffix; with `%` a share of the memory.
pub fn parse_buffer_bytes(text: &str) -> Result<u64> {
    const UNITS: &str = "KMGTPEZYRQ";
    let wrong = |what: &str| {
        Error::usage("read size", format!("`{text}` {what}"))
            .hint("write it as for sort: 512M, 2G, 50%, or KiB without a suffix")
    };
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, suffix) = text.split_at(end.unwrap_or(text.len()));
    if digits.is_empty() {
        return Err(wrong("is not a size"));
    }
    let number: u64 = digits.parse().map_err(|_| wrong("is too large"))?;
    let bytes = match suffix {
        "b" => Some(number),
        "" => number.checked_mul(1 << 10),
        // More than 100 % means all memory.
        "%" => Some(memory_total_bytes() / 100 * number.min(100)),
        unit => {
            let power = UNITS.find(&unit.to_ascii_uppercase());
            let power = power
                .filter(|_| unit.len() == 1)
                .ok_or_else(|| wrong("is not a size"))?;
            let unit = 1_u64.checked_shl(10 * (power as u32 + 1));
            unit.filter(|unit| *unit > 1)
                .and_then(|unit| number.checked_mul(unit))
        }
    };
    // GNU sort accepts any size and uses the memory that it needs.
    bytes
        .map(|bytes| bytes.max(BUFFER_BYTES_MIN))
        .ok_or_else(|| wrong("is too large"))
}

fn memory_total_bytes() -> u64 {
    let facts = rustix::system::sysinfo();
    facts.totalram as u64 * u64::from(facts.mem_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_sort_reads_them() {
        assert_eq!(parse_buffer_bytes("1G").unwrap(), 1 << 30);
        assert_eq!(parse_buffer_bytes("1048576").unwrap(), 1 << 30);
        assert_eq!(parse_buffer_bytes("1").unwrap(), BUFFER_BYTES_MIN);
        assert_eq!(parse_buffer_bytes("2t").unwrap(), 2 << 40);
        assert!(parse_buffer_bytes("300%").is_ok());
        assert!(parse_buffer_bytes("100%").unwrap() >= parse_buffer_bytes("50%").unwrap());
        for text in ["", "x", "1X", "1KK", "-1", "99999999999999T", "1Z", "1Q"] {
            assert!(parse_buffer_bytes(text).is_err(), "{text}");
        }
    }
}
