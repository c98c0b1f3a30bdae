//! The kind of text in a file, by its name.
//!
//! Contract: the only list of extensions that determine it; one further extension of a compressed
//! file is ignored. Pure.

use std::path::Path;

/// Extensions and their kinds.
const ENDINGS: [(&str, TextKind); 7] = [
    ("csv", TextKind::Csv),
    ("tsv", TextKind::Csv),
    ("jsonl", TextKind::JsonLines),
    ("ndjson", TextKind::JsonLines),
    ("json", TextKind::JsonLines),
    ("fastq", TextKind::Fastq),
    ("fq", TextKind::Fastq),
];
/// Extensions of compressed text files.
const PACKED: [&str; 4] = ["gz", "zst", "bz2", "xz"];

/// The kind of a text's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// Records of CSV.
    Csv,
    /// A JSON object on each line.
    JsonLines,
    /// Records of FASTQ, which are never a table.
    Fastq,
}

impl TextKind {
    /// The kind by the file name, without one further extension for compressed files.
    pub fn of_name(name: &Path) -> Option<Self> {
        let ending = ending_of(name)?;
        let known = ENDINGS.iter().find(|(known, _)| *known == ending);
        known.map(|(_, kind)| *kind)
    }

    /// Like `of_name`, for text that can be a table.
    pub fn of_table_name(name: &Path) -> Option<Self> {
        Self::of_name(name).filter(|kind| *kind != TextKind::Fastq)
    }
}

/// The separator of CSV fields in a file of this name, unless its records show another one.
pub fn usual_separator(name: &Path) -> u8 {
    match ending_of(name).as_deref() {
        Some("tsv") => b'\t',
        _ => b',',
    }
}

/// The extension of a name, without that of a compressed file.
fn ending_of(name: &Path) -> Option<String> {
    let ending = name.extension()?.to_str()?;
    match PACKED.contains(&ending) {
        true => ending_of(Path::new(name.file_stem()?)),
        false => Some(ending.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_text_holds_and_what_stands_between_its_fields() {
        let of = |name: &str| TextKind::of_name(Path::new(name));
        assert_eq!(of("a/b.csv"), Some(TextKind::Csv));
        assert_eq!(of("b.tsv.gz"), Some(TextKind::Csv));
        assert_eq!(of("b.ndjson.zst"), Some(TextKind::JsonLines));
        assert_eq!(of("b.fq.gz"), Some(TextKind::Fastq));
        assert_eq!(TextKind::of_table_name(Path::new("b.fastq")), None);
        assert_eq!((of("csv"), of("b.txt"), of("b.gz")), (None, None, None));
        let between = |name: &str| usual_separator(Path::new(name));
        assert_eq!((between("a.tsv.xz"), between("a.tsv")), (b'\t', b'\t'));
        assert_eq!((between("a.csv"), between("tsv")), (b',', b','));
    }
}
