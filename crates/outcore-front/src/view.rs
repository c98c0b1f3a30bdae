//! Parses the arguments of sorted views: directories, ranges of ranks, keys.
//!
//! Contract: [`range`] parses `I..J` as ranks; missing and negative values mean the same as in
//! Python. [`key`] turns the text of a key into a record with that key: the values of the key's
//! numbers or byte strings in order, separated by commas; bytes as text, or as hexadecimal digits
//! after `0x`. For a view of lines, the text of a key is a line with that key. The module for
//! tables parses the keys of tables. [`open`] opens a view of any kind. Pure, except for opening
//! the view.

use std::ops::Range;
use std::path::Path;

use outcore::job::Job;
use outcore::key::sort_key::SharedKey;
use outcore::key::{Endian, KeyKind, Number, NumberType, RecordFormat};
use outcore::runs::{SortedView, ViewType};
use outcore::{Error, Result};

use crate::text::order::order_of_name;

const RANGE: &str = "read range";
const KEY: &str = "read key";
/// Common beginning of the names of row orders.
const ROWS: &str = "rows of a table";

/// Opens the view in `dir`, whether of records, of lines or of a table.
///
/// # Errors
/// As [`SortedView::open`]; usage for a file.
pub fn open(job: &Job, dir: &Path) -> Result<SortedView> {
    if dir.is_file() {
        return Err(
            Error::usage("open view", "a view is a directory, but this is a file")
                .path(dir)
                .hint("make a view of it with `outcore view build`, and name the view"),
        );
    }
    SortedView::open_with(job, dir, &order_of_view)
}

/// The order of lines or rows whose name is in a manifest.
fn order_of_view(name: &str) -> Result<SharedKey> {
    match name.strip_prefix(ROWS) {
        Some(_) => order_of_rows(name),
        None => order_of_name(name),
    }
}

#[cfg(feature = "tables")]
fn order_of_rows(name: &str) -> Result<SharedKey> {
    match name {
        outcore_table::jobs::view::ROW_ORDER => Ok(outcore_table::jobs::view::row_order()),
        _ => order_of_name(name),
    }
}

#[cfg(not(feature = "tables"))]
fn order_of_rows(_: &str) -> Result<SharedKey> {
    Err(Error::usage(
        "open view",
        "it has a table, but this build of outcore does not read tables",
    )
    .hint("build outcore with the feature `tables`, which is on by default"))
}

/// The argument of [`outcore::runs::ViewReader::seek_key`] for the key in `text`.
///
/// # Errors
/// As [`key`].
pub fn key_of(text: &str, what: &ViewType) -> Result<Vec<u8>> {
    match what {
        ViewType::Records(format) => key(text, format),
        ViewType::Lines(_) => Ok(text.as_bytes().to_vec()),
        ViewType::Rows(_) => Err(Error::usage(KEY, "the view holds a table")
            .hint("search it with `outcore view cat --key`")),
    }
}

/// The ranks of `I..J` for `records` records; either end may be missing, and negative ones count
/// from the end.
///
/// # Errors
/// Usage for any other text.
pub fn range(text: &str, records: u64) -> Result<Range<u64>> {
    let wrong = || {
        Error::usage(RANGE, format!("`{text}` is not a range"))
            .hint("write I..J, I.. or ..J, counted from 0; -5.. are the last five")
    };
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let border = |text: &str, default: u64| -> Result<u64> {
        let digits: String = text.trim().chars().filter(|c| *c != '_').collect();
        if digits.is_empty() {
            return Ok(default);
        }
        let number: i128 = digits.parse().map_err(|_| wrong())?;
        let counted = match number < 0 {
            true => i128::from(records) + number,
            false => number,
        };
        Ok(counted.clamp(0, i128::from(records)) as u64)
    };
    let (from, to) = (border(from, 0)?, border(to, records)?);
    Ok(from..to.max(from))
}

/// A record of `format` with the key in `text`, and zeros elsewhere.
///
/// # Errors
/// Usage for too few, too many or invalid values.
pub fn key(text: &str, format: &RecordFormat) -> Result<Vec<u8>> {
    let mut record = vec![0; format.record_bytes()];
    let mut values = text.split(',');
    let mut wanted = 0;
    for field in format.keys() {
        let bytes = &mut record[field.offset_bytes..field.offset_bytes + field.len_bytes];
        let step = match field.kind {
            KeyKind::Bytes => field.len_bytes,
            KeyKind::Numbers(number) => number.bytes(),
        };
        for element in bytes.chunks_mut(step) {
            wanted += 1;
            let value = values.next().ok_or_else(|| count_is_wrong(text, wanted))?;
            match field.kind {
                KeyKind::Bytes => fill_bytes(value, element)?,
                KeyKind::Numbers(number) => fill_number(value.trim(), number, element)?,
            }
        }
    }
    match values.next() {
        None => Ok(record),
        Some(_) => Err(count_is_wrong(text, wanted)),
    }
}

fn count_is_wrong(text: &str, wanted: usize) -> Error {
    Error::usage(
        KEY,
        format!("`{text}` does not have the {wanted} values of the key"),
    )
    .hint("give a value for every number or byte string of the key, separated by commas")
}

fn fill_bytes(value: &str, element: &mut [u8]) -> Result<()> {
    let wrong = |cause: &str| {
        Error::usage(KEY, format!("`{value}` {cause}"))
            .hint("give text, or hexadecimal digits after 0x")
    };
    let bytes: Vec<u8> = match value.strip_prefix("0x") {
        None => value.as_bytes().to_vec(),
        Some(digits) => {
            let digits: Option<Vec<u8>> = digits
                .chars()
                .map(|c| c.to_digit(16).map(|digit| digit as u8))
                .collect();
            let digits = digits.ok_or_else(|| wrong("has other characters than digits"))?;
            let pair = |pair: &[u8]| pair[0] << 4 | pair.get(1).copied().unwrap_or(0);
            digits.chunks(2).map(pair).collect()
        }
    };
    if bytes.len() > element.len() {
        return Err(wrong(&format!("is longer than {} bytes", element.len())));
    }
    element[..bytes.len()].copy_from_slice(&bytes);
    Ok(())
}

fn fill_number(value: &str, number: Number, element: &mut [u8]) -> Result<()> {
    let bits: Option<u128> = match number.kind {
        NumberType::F16 => value
            .parse::<f32>()
            .ok()
            .map(|v| u128::from(half::f16::from_f32(v).to_bits())),
        NumberType::F32 => value.parse::<f32>().ok().map(|v| u128::from(v.to_bits())),
        NumberType::F64 => value.parse::<f64>().ok().map(|v| u128::from(v.to_bits())),
        NumberType::U128 => value.parse().ok(),
        kind if kind.is_signed_integer() => {
            let bits = 8 * number.bytes() as u32;
            let least = -(1i128 << (bits - 1));
            let signed = value.parse::<i128>().ok();
            let fits = signed.filter(|v| (least..-least).contains(v));
            fits.map(|v| v as u128)
        }
        _ => {
            let unsigned = value.parse::<u128>().ok();
            unsigned.filter(|v| *v < 1 << (8 * number.bytes()))
        }
    };
    let bits = bits.ok_or_else(|| {
        Error::usage(KEY, format!("`{value}` is not a {number}")).hint("give a number of that type")
    })?;
    let bytes = bits.to_le_bytes();
    element.copy_from_slice(&bytes[..element.len()]);
    if number.endian == Endian::Big {
        element.reverse();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_from_either_end_and_stay_inside() {
        for (text, expected) in [
            ("2..5", 2..5),
            ("..", 0..10),
            ("7..", 7..10),
            ("..3", 0..3),
            ("-4..", 6..10),
            ("..-1", 0..9),
            ("5..2", 5..5),
            ("1_0..99", 10..10),
        ] {
            assert_eq!(range(text, 10).unwrap(), expected, "{text}");
        }
        for text in ["", "5", "a..b", "1...2"] {
            assert!(range(text, 10).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_are_put_where_the_format_has_them() {
        let format = |text: &str| RecordFormat::parse_type(text).unwrap();
        assert_eq!(key("258", &format("u32")).unwrap(), [2, 1, 0, 0]);
        assert_eq!(key("-2", &format("i16be")).unwrap(), [255, 254]);
        assert_eq!(key("1.5", &format("f32be")).unwrap(), [0x3F, 0xC0, 0, 0]);
        assert_eq!(key("ab", &format("bytes4")).unwrap(), *b"ab\0\0");
        assert_eq!(key("0xff1", &format("bytes2")).unwrap(), [255, 16]);
        let two = format("8/4:2:u16,0:3");
        assert_eq!(key("7,xyz", &two).unwrap(), *b"xyz\0\x07\0\0\0");
        for (text, kind) in [
            ("256", "u8"),
            ("-129", "i8"),
            ("x", "f64"),
            ("1,2", "u64"),
            ("1", "u64x2"),
            ("abc", "bytes2"),
            ("0xg", "bytes2"),
        ] {
            assert!(key(text, &format(kind)).is_err(), "{text} as {kind}");
        }
    }
}
