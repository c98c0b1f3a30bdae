//! Detects what a file holds from its first bytes.
//!
//! Contract: [`Content::of`] recognises compressed text, arrays of NumPy and the common binary data
//! formats by their magic numbers, and reports NUL bytes. A magic number that is a word (`PAR1`,
//! `ORC`) counts only if bytes follow that no text contains; the magic number of a table also
//! counts if the file ends before such bytes. [`Recognition`] is the single rule for accepting
//! lines, and [`Content::check_records`] the one for records. Every input passes one of them
//! ([`crate::inputs`], [`crate::spool`], [`crate::text::reader`]). Pure.

use std::path::Path;

use outcore::job::Job;
use outcore::key::{NpyHeader, RecordFormat};
use outcore::read::separator::is_headed;
use outcore::{Error, Result};
use outcore_io::units;

use crate::compress::Compression;

/// No table is this short, so a file that begins like one was truncated.
const TABLE_BYTES_MIN: usize = 12;
/// Number of first bytes that are examined.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

const CONVERT: &str =
    "convert it first, for example with DuckDB or pyarrow: columns of numbers to .npy, rows to CSV";
const TABLE: &str = "sort, filter, map, group-by, join and other commands read tables; for this command, \
                     write the rows as text first: outcore convert FILE -o OUT.csv";
const UNPACK: &str = "unpack it first";
const NO_DATA: &str = "name a file of lines or records";
const TO_UTF_8: &str = "convert it first: iconv -f UTF-16 -t UTF-8 IN > OUT";

/// A known format that outcore does not read.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// Name with its article.
    name: &'static str,
    /// Next step for the user.
    hint: &'static str,
    at: usize,
    magic: &'static [u8],
    /// Whether text may begin with the magic number.
    is_word: bool,
    /// Extensions of such files.
    endings: &'static [&'static str],
    /// Whether it is a table, which some commands read.
    is_table: bool,
}

const fn known(
    name: &'static str,
    hint: &'static str,
    magic: &'static [u8],
    endings: &'static [&'static str],
) -> Format {
    Format {
        name,
        hint,
        at: 0,
        magic,
        is_word: false,
        endings,
        is_table: false,
    }
}

const fn word(format: Format) -> Format {
    Format {
        is_word: true,
        ..format
    }
}

const fn table(format: Format) -> Format {
    Format {
        is_table: true,
        hint: TABLE,
        ..format
    }
}

const fn at(at: usize, format: Format) -> Format {
    Format { at, ..format }
}

/// The first match wins.
static FORMATS: [Format; 38] = [
    table(word(known(
        "a Parquet file",
        CONVERT,
        b"PAR1",
        &["parquet", "pq"],
    ))),
    table(word(known(
        "an encrypted Parquet file",
        CONVERT,
        b"PARE",
        &["parquet", "pq"],
    ))),
    table(word(known(
        "an Arrow file",
        CONVERT,
        b"ARROW1",
        &["arrow", "feather", "ipc"],
    ))),
    table(word(known(
        "a Feather file",
        CONVERT,
        b"FEA1",
        &["feather"],
    ))),
    word(known("an ORC file", CONVERT, b"ORC", &["orc"])),
    known("an Avro file", CONVERT, b"Obj\x01", &["avro"]),
    known("a Hadoop sequence file", CONVERT, b"SEQ\x06", &["seq"]),
    known(
        "an HDF5 file",
        "save its arrays as .npy files first, for example with h5py and numpy.save",
        b"\x89HDF\r\n\x1a\n",
        &["h5", "hdf5", "hdf", "nc"],
    ),
    known("a NetCDF file", NETCDF, b"CDF\x01", &["nc"]),
    known("a NetCDF file", NETCDF, b"CDF\x02", &["nc"]),
    known("a NetCDF file", NETCDF, b"CDF\x05", &["nc"]),
    known(
        "an SQLite database",
        "export the table to CSV first: sqlite3 -csv -header FILE 'select * from TABLE'",
        b"SQLite format 3\0",
        &["sqlite", "sqlite3", "db"],
    ),
    at(
        8,
        word(known(
            "a DuckDB database",
            "export the table to CSV first, with COPY ... TO",
            b"DUCK",
            &["duckdb", "db"],
        )),
    ),
    known(
        "a ZIP archive",
        "unpack it first, for example with unzip",
        b"PK\x03\x04",
        &["zip"],
    ),
    known(
        "a ZIP archive",
        "it is empty; name a file of lines or records",
        b"PK\x05\x06",
        &["zip"],
    ),
    at(
        257,
        known(
            "a tar archive",
            "unpack it first: tar -xf",
            b"ustar\0",
            &["tar"],
        ),
    ),
    at(
        257,
        known(
            "a tar archive",
            "unpack it first: tar -xf",
            b"ustar ",
            &["tar"],
        ),
    ),
    known("a 7-Zip archive", UNPACK, b"7z\xbc\xaf\x27\x1c", &["7z"]),
    known("a RAR archive", UNPACK, b"Rar!\x1a\x07", &["rar"]),
    known(
        "compressed with lz4",
        "decompress it first: lz4 -d",
        b"\x04\x22\x4d\x18",
        &["lz4"],
    ),
    known(
        "compressed with lz4",
        "decompress it first: lz4 -d",
        b"\x02\x21\x4c\x18",
        &["lz4"],
    ),
    known(
        "compressed with lzip",
        "decompress it first: lzip -d",
        b"LZIP\x01",
        &["lz"],
    ),
    known(
        "compressed with lzop",
        "decompress it first: lzop -d",
        b"\x89LZO\0\r\n\x1a\n",
        &["lzo"],
    ),
    known(
        "compressed with compress",
        "decompress it first: gzip -d",
        b"\x1f\x9d",
        &["Z"],
    ),
    known(
        "compressed with Snappy",
        UNPACK,
        b"\xff\x06\0\0sNaPpY",
        &["sz", "snappy"],
    ),
    known(
        "text in UTF-32",
        "convert it first: iconv -f UTF-32 -t UTF-8 IN > OUT",
        b"\xff\xfe\0\0",
        &[],
    ),
    known(
        "text in UTF-32",
        "convert it first: iconv -f UTF-32 -t UTF-8 IN > OUT",
        b"\0\0\xfe\xff",
        &[],
    ),
    known("text in UTF-16", TO_UTF_8, b"\xff\xfe", &[]),
    known("text in UTF-16", TO_UTF_8, b"\xfe\xff", &[]),
    known("a program", NO_DATA, b"\x7fELF", &["so", "o"]),
    known("a PNG image", NO_DATA, b"\x89PNG\r\n\x1a\n", &["png"]),
    known("a JPEG image", NO_DATA, b"\xff\xd8\xff", &["jpg", "jpeg"]),
    word(known("a GIF image", NO_DATA, b"GIF87a", &["gif"])),
    word(known("a GIF image", NO_DATA, b"GIF89a", &["gif"])),
    word(known(
        "a PDF document",
        "extract its text first, for example with pdftotext",
        b"%PDF-",
        &["pdf"],
    )),
    known("a WebAssembly module", NO_DATA, b"\0asm", &["wasm"]),
    known(
        "a MATLAB file",
        "save its arrays as .npy files first, with scipy.io.loadmat and numpy.save",
        b"MATLAB 5.0 MAT-file",
        &["mat"],
    ),
    word(known("a GGUF model", NO_DATA, b"GGUF", &["gguf"])),
];
const NETCDF: &str = "save its arrays as .npy files first, for example with xarray and numpy.save";
static NPZ: Format = known(
    "an archive of NumPy arrays (.npz)",
    "save each array as a .npy file first: numpy.save",
    b"",
    &["npz"],
);
static ARROW_STREAM: Format = table(known(
    "an Arrow stream",
    CONVERT,
    b"",
    &["arrow", "arrows", "ipc"],
));

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// No known magic number.
    Plain {
        /// Whether it contains NULs, which text does not.
        has_nuls: bool,
    },
    /// Compressed in a form that outcore decompresses.
    Packed(Compression),
    /// An array of NumPy.
    Array,
    /// A known format that is not read.
    Other(&'static Format),
}

impl Content {
    /// Detects the content from `head`, the first [`HEAD_BYTES`] bytes or all bytes of a shorter
    /// file.
    pub fn of(head: &[u8]) -> Self {
        if NpyHeader::is_npy(head) {
            return Content::Array;
        }
        if let Some(compression) = Compression::begun_by(head) {
            return Content::Packed(compression);
        }
        let found = FORMATS.iter().find(|format| format.fits(head));
        match found {
            Some(format) if format.magic == b"PK\x03\x04" && is_npz(head) => Content::Other(&NPZ),
            Some(format) => Content::Other(format),
            None if is_arrow_stream(head) => Content::Other(&ARROW_STREAM),
            None => Content::Plain {
                has_nuls: memchr::memchr(0, head).is_some(),
            },
        }
    }

    /// Whether it is a table: any version of Parquet or Arrow.
    pub fn is_table(self) -> bool {
        matches!(self, Content::Other(format) if format.is_table)
    }

    /// Whether no magic number and no NUL was found.
    pub fn is_text(self) -> bool {
        self == Content::Plain { has_nuls: false }
    }

    /// Whether no magic number was recognised.
    pub(crate) fn is_plain(self) -> bool {
        matches!(self, Content::Plain { .. })
    }

    /// The data in the file `name`, if both its content and its extension show a format other than
    /// records.
    pub fn other_than_records(self, name: &Path) -> Option<&'static str> {
        match self {
            Content::Plain { .. } | Content::Array => None,
            Content::Packed(compression) => {
                Compression::of(name).is_some().then(|| compression.name())
            }
            Content::Other(format) => format.is_named(name).then_some(format.name),
        }
    }

    /// Fails if the file `name` does not hold records. If the caller gave a type, it fails only if
    /// the extension confirms the detected format.
    ///
    /// # Errors
    /// Usage, with a next step.
    pub fn check_records(self, name: &Path, is_typed: bool) -> Result<()> {
        let (cause, hint, is_named_so) = match self {
            Content::Plain { .. } | Content::Array => return Ok(()),
            Content::Packed(compression) => (
                format!("the file is compressed ({})", compression.name()),
                "decompress it first: only lines are read compressed".to_string(),
                Compression::of(name).is_some(),
            ),
            Content::Other(format) => (
                format!("the file is {}, not records", format.name),
                format.hint.to_string(),
                format.is_named(name),
            ),
        };
        match is_typed && !is_named_so {
            true => Ok(()),
            false => Err(Error::usage("choose type", cause).path(name).hint(hint)),
        }
    }
}

/// Whether it is a form of Arrow that tables are read from.
fn is_arrow(format: &'static Format) -> bool {
    format.magic == b"ARROW1" || std::ptr::eq(format, &ARROW_STREAM)
}

impl Format {
    /// Whether the extension of `name` is one of this format's.
    fn is_named(&self, name: &Path) -> bool {
        let end = name.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| self.endings.contains(&end))
    }

    fn fits(&self, head: &[u8]) -> bool {
        let begins = head
            .get(self.at..)
            .is_some_and(|head| head.starts_with(self.magic));
        let is_cut_short = self.is_table && head.len() <= TABLE_BYTES_MIN && !head.contains(&b'\n');
        begins && (!self.is_word || is_cut_short || !is_text(head))
    }
}

/// Whether all bytes may occur in text.
fn is_text(head: &[u8]) -> bool {
    let is_of_text = |byte: &u8| *byte >= b' ' || matches!(byte, 7..=13 | 27);
    head.iter().all(is_of_text)
}

/// Whether the first file in a ZIP archive is a NumPy array.
fn is_npz(head: &[u8]) -> bool {
    const NAME_AT: usize = 30;
    let name_bytes = match head.get(26..28) {
        Some(&[low, high]) => usize::from(u16::from_le_bytes([low, high])),
        _ => return false,
    };
    head.get(NAME_AT..NAME_AT + name_bytes)
        .is_some_and(|name| name.ends_with(b".npy"))
}

/// Whether it is a stream of Arrow messages: a continuation marker, and a length of metadata.
fn is_arrow_stream(head: &[u8]) -> bool {
    let Some((mark, rest)) = head.split_first_chunk::<4>() else {
        return false;
    };
    let length = rest
        .first_chunk::<4>()
        .map(|bytes| i32::from_le_bytes(*bytes));
    *mark == [0xff; 4]
        && length.is_some_and(|length| length > 0 && length < 1 << 24 && length % 8 == 0)
}

/// The rule for content that may be read as lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recognition {
    /// The caller insists that it is lines (`--lines`), regardless of its content.
    pub insists_lines: bool,
    /// NULs have a meaning: they end lines, or separate fields.
    pub takes_nuls: bool,
    /// Compressed data is not decompressed: its bytes are lines.
    pub takes_packed: bool,
    /// A note tells that the first line of a stream looks like a header of CSV.
    pub tells_header: bool,
}

impl Recognition {
    /// Accepts any content as it is, for data that was checked before or made by outcore.
    pub const ANYTHING: Recognition = Recognition {
        insists_lines: true,
        takes_nuls: true,
        takes_packed: true,
        tells_header: false,
    };

    /// As `self`, and adds a note about a header on streams, unless an option already says that the
    /// input is lines.
    pub fn telling_header(self, is_open: bool) -> Self {
        Recognition {
            tells_header: is_open && !self.insists_lines && !self.takes_nuls,
            ..self
        }
    }

    /// Notes that `head`, the beginning of the stream `name`, has a header that is treated as an
    /// ordinary line.
    pub(crate) fn tell_header(self, job: &Job, name: &Path, head: &[u8]) {
        if self.tells_header && is_headed(head, false) {
            job.control.note(format!(
                "{} is read as lines, header included; --csv keeps the header first",
                name.display()
            ));
        }
    }

    /// How the file `name` with `content` must be decompressed before its lines are read. The
    /// content decides. If only the extension shows a compression, decompression will fail.
    pub fn packed(self, name: &Path, content: Content) -> Option<Compression> {
        match content {
            _ if self.takes_packed => None,
            Content::Packed(compression) => Some(compression),
            Content::Plain { .. } => Compression::of(name),
            Content::Array | Content::Other(_) => None,
        }
    }

    /// Fails if the content of the input `name` is not lines, and decompression does not make it
    /// lines. NULs are checked in files, not in streams.
    ///
    /// # Errors
    /// Usage, with the detected format and a next step.
    pub fn check_lines(self, name: &Path, content: Content, is_file: bool) -> Result<()> {
        const READ: &str = "read lines";
        let (cause, hint) = match content {
            _ if self.insists_lines => return Ok(()),
            Content::Packed(_) => return Ok(()),
            Content::Plain { has_nuls } if self.takes_nuls || !has_nuls || !is_file => {
                return Ok(());
            }
            Content::Plain { .. } => (
                "the file contains NUL bytes, so it is binary and not lines".to_string(),
                "pass the type of its records with --type, for example --type u64",
            ),
            Content::Array => (
                "the file holds an array of NumPy, not lines".to_string(),
                "pass the type of its items with --type",
            ),
            Content::Other(format) => (
                format!("the file is {}, not lines", format.name),
                format.hint,
            ),
        };
        let hint = match content {
            Content::Other(Format { magic: b"PAR1", .. }) if !is_file => {
                "Parquet cannot be read from a pipe: name the file".to_owned()
            }
            Content::Other(format) if !is_file && is_arrow(format) => {
                "name standard input and its format: - --from arrow".to_owned()
            }
            _ => format!("{hint}; or pass --lines to treat its bytes as lines"),
        };
        Err(Error::usage(READ, cause).path(name).hint(hint))
    }

    /// As [`Recognition::check_lines`], for the first decompressed bytes.
    ///
    /// # Errors
    /// As [`Recognition::check_lines`]; usage for data that is compressed twice.
    pub(crate) fn check_unpacked(self, name: &Path, head: &[u8], is_file: bool) -> Result<()> {
        let content = Content::of(head);
        if let (Content::Packed(_), false) = (content, self.insists_lines) {
            return Err(Error::usage("read lines", "the file is compressed twice")
                .path(name)
                .hint("decompress it once first"));
        }
        let checked = self.check_lines(name, content, is_file);
        checked.map_err(|error| match content.is_table() {
            true => {
                error.hint("decompress it first, for example with gunzip: tables compress inside")
            }
            false => error,
        })
    }
}

/// Types to suggest, depending on the size of a file.
const SUGGESTED: [&str; 4] = ["u32", "u64", "u128", "gensort"];

/// The types whose records would fit a whole number of times into a file of `data_bytes`.
pub(crate) fn fitting_types(data_bytes: u64) -> Vec<String> {
    let fits = SUGGESTED.iter().filter_map(|name| {
        let format = RecordFormat::parse_type(name).ok()?;
        let records = format.records_in(data_bytes).ok()?;
        Some(format!("{name} ({})", units::counted(records, "record")))
    });
    fits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_begins_with_the_name_of_a_format_is_text() {
        for text in [
            "PAR1 is the first\n",
            "PAR1\n",
            "ARROW1 hits\n",
            "ORCHID\nROSE\n",
            "FEA1\n",
            "GIF89a is old\n",
            "%PDF-1.7 begins\n",
            "SEQ 1\n",
            "\u{feff}a,b\n",
            "BZh91 is none\n",
            "",
        ] {
            let plain = Content::Plain { has_nuls: false };
            assert_eq!(Content::of(text.as_bytes()), plain, "{text}");
        }
    }

    #[test]
    fn known_formats_are_told_by_name_and_nuls_are_seen() {
        let name = |head: &[u8]| match Content::of(head) {
            Content::Other(format) => format.name,
            other => panic!("{other:?}"),
        };
        assert_eq!(name(b"PAR1\x15\x04\x15"), "a Parquet file");
        assert_eq!(name(b"ARROW1\0\0\xff"), "an Arrow file");
        assert_eq!(name(b"PAR1"), "a Parquet file");
        assert_eq!(name(b"PAR1PAR1"), "a Parquet file");
        assert_eq!(name(b"ARROW1"), "an Arrow file");
        assert_eq!(name(b"\xff\xff\xff\xff\x78\0\0\0\x10"), "an Arrow stream");
        assert_eq!(name(b"ORC\x0a\x03\x00"), "an ORC file");
        assert_eq!(name(b"\xff\xfea\0\n\0"), "text in UTF-16");
        assert_eq!(name(b"\xff\xfe\0\0a\0\0\0"), "text in UTF-32");
        let mut archive = b"PK\x03\x04".to_vec();
        archive.resize(26, 0);
        archive.extend(b"\x09\0\0\0arr_0.npy");
        assert_eq!(name(&archive), NPZ.name);
        archive[26] = 5;
        assert_eq!(name(&archive), "a ZIP archive");
        let mut tar = vec![b'a'; 257];
        tar.extend(b"ustar\x0000");
        assert_eq!(name(&tar), "a tar archive");
        let nuls = Content::Plain { has_nuls: true };
        assert_eq!(Content::of(b"a\0b"), nuls);
        assert_eq!(Content::of(b"\x93NUMPY\x01\0"), Content::Array);
    }

    #[test]
    fn who_insists_takes_anything_and_a_type_what_its_name_does_not_deny() {
        let (strict, path) = (Recognition::default(), Path::new("x.parquet"));
        let parquet = Content::of(b"PAR1\x15\x04");
        for (is_file, hint) in [(true, "--lines"), (false, "name the file")] {
            let error = strict.check_lines(path, parquet, is_file).unwrap_err();
            assert_eq!(error.cause(), "the file is a Parquet file, not lines");
            assert!(error.next_step().unwrap().contains(hint));
        }
        assert!(
            Recognition::ANYTHING
                .check_lines(path, parquet, true)
                .is_ok()
        );
        let nuls = Content::Plain { has_nuls: true };
        assert!(strict.check_lines(path, nuls, true).is_err());
        assert!(strict.check_lines(path, nuls, false).is_ok());
        assert!(parquet.check_records(path, true).is_err());
        assert!(parquet.check_records(Path::new("x.bin"), true).is_ok());
        assert!(parquet.check_records(Path::new("x.bin"), false).is_err());
    }

    #[test]
    fn what_is_compressed_twice_or_holds_no_lines_inside_is_refused() {
        let (strict, path) = (Recognition::default(), Path::new("x.gz"));
        let gzip = b"\x1f\x8b\x08\0";
        assert_eq!(
            strict.packed(path, Content::of(gzip)),
            Some(Compression::Gzip)
        );
        assert_eq!(Recognition::ANYTHING.packed(path, Content::of(gzip)), None);
        let error = strict.check_unpacked(path, gzip, true).unwrap_err();
        assert_eq!(error.cause(), "the file is compressed twice");
        assert!(strict.check_unpacked(path, b"PAR1\x15\x04", true).is_err());
        assert!(strict.check_unpacked(path, b"a\n", true).is_ok());
    }
}
