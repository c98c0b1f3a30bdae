//! Headers of NumPy's `.npy` files, versions 1 to 3, read and written.
//!
//! Contract: only the header is handled here; the caller reads and writes the bytes. A header
//! becomes a [`RecordFormat`]:
//!
//! - a one-dimensional array of numbers is a file of numbers;
//! - a row of an array with several dimensions is a record: a vector of all elements of the row;
//! - a structured dtype is a record whose fields are the keys in order, or those chosen by name.
//!
//! Some types are read as others: booleans as `u8`, dates and time spans as `i64` (NaT is the
//! smallest), complex numbers as two floats, `S` strings as bytes, `U` strings as code points. Void
//! fields are carried but are not keys. Floats of more than 8 bytes, and rows too long for a key,
//! have no order. Everything else is an error with a reason. A header is written with exactly the
//! dtype text that was read. It has the same length for every number of rows, so it can be written
//! last. Source: numpy/lib/format.py's specification of the format ("NEP 1").

use super::dtype::{Element, NpyField, corrupt, describe, refused, shape};
use super::literal::{self, Entry, Literal};
use super::record::{KeyField, RecordFormat};
use outcore_io::units::nearest;
use outcore_io::{Error, Result, units};

/// Start of every `.npy` file.
const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Number of bytes that [`NpyHeader::len_bytes`] needs.
pub const PREFIX_BYTES: usize = 12;

/// Longest accepted header.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// The data begins at a multiple of this.
const ALIGNMENT_BYTES: usize = 64;

/// Space reserved for the number of rows: the digits of 2^64.
const ROWS_DIGITS: usize = 20;

fn cut_header() -> Error {
    corrupt("the file ends inside its header").hint("check whether the file is complete")
}

/// An array in a `.npy` file, with elements of any type.
#[derive(Debug, Clone, PartialEq)]
pub struct NpyArray {
    /// The dtype as written in the header: a Python literal.
    pub descr: String,
    /// Bytes before the data.
    pub header_bytes: usize,
    /// The first dimension.
    pub rows: u64,
    /// The other dimensions.
    pub row_shape: Vec<u64>,
    dtype: Literal,
}

/// The header of a `.npy` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpyHeader {
    /// The record; its keys are all fields in order.
    pub format: RecordFormat,
    /// Bytes before the data.
    pub header_bytes: usize,
    /// Number of records.
    pub rows: u64,
    /// The fields of a structured dtype, in order; empty for plain arrays.
    pub fields: Vec<NpyField>,
    /// All dimensions except for the first.
    row_shape: Vec<u64>,
    /// The dtype as written in the header.
    descr: String,
}

impl NpyArray {
    /// Parses the header at the start of `bytes`, which may be longer.
    ///
    /// # Errors
    /// Corrupt: a broken header. Usage: Fortran order, no dimension.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let header_bytes = NpyHeader::len_bytes(bytes)?;
        let start = if bytes[6] == 1 { 10 } else { 12 };
        let raw = bytes.get(start..header_bytes).ok_or_else(cut_header)?;
        let text = match bytes[6] {
            3 => std::str::from_utf8(raw)
                .map_err(|_| corrupt("the header is not UTF-8"))?
                .to_string(),
            _ => raw.iter().map(|byte| char::from(*byte)).collect(),
        };
        let literal = literal::parse(&text).map_err(corrupt)?;
        let Literal::Dict(entries) = literal else {
            return Err(corrupt("the header is not a dict"));
        };
        let descr = entry(&entries, "descr")?;
        let shape = shape(&entry(&entries, "shape")?.value)?;
        let is_fortran = match entry(&entries, "fortran_order")?.value {
            Literal::Bool(is_fortran) => is_fortran,
            _ => return Err(corrupt("`fortran_order` is not a boolean")),
        };
        let (rows, row_shape) = rows_of(&shape, is_fortran)?;
        Ok(NpyArray {
            descr: text[descr.span.clone()].to_string(),
            header_bytes,
            rows,
            row_shape,
            dtype: descr.value.clone(),
        })
    }
}

/// The elements of a row.
fn row_elements(row_shape: &[u64]) -> Result<u64> {
    let count = row_shape.iter().copied().try_fold(1, u64::checked_mul);
    count.ok_or_else(|| corrupt("its shape is larger than memory"))
}

impl NpyHeader {
    /// True if a file with this prefix is a `.npy` file.
    pub fn is_npy(prefix: &[u8]) -> bool {
        prefix.starts_with(MAGIC)
    }

    /// Length of the header, from the first [`PREFIX_BYTES`] bytes of the file.
    ///
    /// Errors (corrupt): too short, not a `.npy` file, an unknown version, an absurd length.
    pub fn len_bytes(prefix: &[u8]) -> Result<usize> {
        if !Self::is_npy(prefix) {
            return Err(corrupt("the file does not begin like a .npy file"));
        }
        let lengths = (prefix.get(6), prefix.get(8..10), prefix.get(8..12));
        let (start, text_bytes) = match lengths {
            (Some(1), Some(length), _) => (10, u16::from_le_bytes([length[0], length[1]]) as usize),
            (Some(2 | 3), _, Some(length)) => {
                let length = [length[0], length[1], length[2], length[3]];
                (12, u32::from_le_bytes(length) as usize)
            }
            (Some(version @ (0 | 4..)), ..) => {
                return Err(corrupt(format!(
                    "format version {version} is unknown (1 to 3 are)"
                )));
            }
            _ => return Err(cut_header()),
        };
        if text_bytes > HEADER_BYTES_MAX {
            return Err(corrupt(format!(
                "a header of {text_bytes} bytes; at most {HEADER_BYTES_MAX}"
            )));
        }
        Ok(start + text_bytes)
    }

    /// Parses the header at the start of `bytes`, which may be longer.
    ///
    /// Errors: corrupt for a broken header; usage for arrays that are not a table of records
    /// (Fortran order, objects).
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let array = NpyArray::parse(bytes)?;
        let element = Element::read(&array.dtype)?;
        let fields = element.fields.clone();
        Ok(NpyHeader {
            format: element.format(row_elements(&array.row_shape)?)?,
            header_bytes: array.header_bytes,
            rows: array.rows,
            fields,
            row_shape: array.row_shape,
            descr: array.descr,
        })
    }

    /// A header for records of `format`; `header_bytes` is the length that [`NpyHeader::encode`]
    /// writes.
    ///
    /// Numbers and vectors become plain arrays; other records get a structured dtype whose fields
    /// are the keys (`key0`, `key1`) and the bytes between them (void), in the order of the record.
    ///
    /// A dtype has no directions, so a descending key is read back as ascending.
    ///
    /// Errors (usage): 128-bit integers, which NumPy lacks; keys that overlap or are not in the
    /// record's order, because their weights could not be read back.
    pub fn of_format(format: &RecordFormat, rows: u64) -> Result<Self> {
        let (descr, row_shape) = describe(format)?;
        Self::parse(&encode(&descr, &row_shape, rows))
    }

    /// The format with the named fields as keys, in this order; `name:desc` is largest first.
    ///
    /// Errors (usage): not a structured dtype, an unknown name, a void field.
    pub fn with_keys<S: AsRef<str>>(&self, names: &[S]) -> Result<RecordFormat> {
        let key = |text: &S| {
            let text = text.as_ref();
            let (name, descending) = match text.strip_suffix(":desc") {
                Some(name) => (name, true),
                None => (text.strip_suffix(":asc").unwrap_or(text), false),
            };
            let field = self.field(name)?;
            let kind = field.kind.ok_or_else(|| {
                Error::usage(
                    "choose keys",
                    format!("field `{name}` is void and has no order"),
                )
            })?;
            let (offset_bytes, len_bytes) = (field.offset_bytes, field.len_bytes);
            Ok(KeyField {
                offset_bytes,
                len_bytes,
                kind,
                descending,
            })
        };
        let keys: Result<Vec<KeyField>> = names.iter().map(key).collect();
        RecordFormat::new(self.format.record_bytes(), keys?)
    }

    /// The dtype as in the header's text: a Python literal.
    pub fn descr(&self) -> &str {
        &self.descr
    }

    /// The shape of a row: all dimensions except for the first.
    pub fn row_shape(&self) -> &[u64] {
        &self.row_shape
    }

    fn field(&self, name: &str) -> Result<&NpyField> {
        if self.fields.is_empty() {
            return Err(Error::usage(
                "choose keys",
                format!("no field `{name}`: the dtype has no fields"),
            )
            .hint("leave the key out: a number or a row is its own key"));
        }
        self.fields
            .iter()
            .find(|field| field.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = self
                    .fields
                    .iter()
                    .map(|field| field.name.as_str())
                    .collect();
                let meant = nearest(name, &known).map(|near| format!("did you mean `{near}`? "));
                Error::usage("choose keys", format!("no field `{name}`")).hint(format!(
                    "{}fields: {}",
                    meant.unwrap_or_default(),
                    known.join(", ")
                ))
            })
    }

    /// Size of the whole file.
    pub fn file_bytes(&self) -> u64 {
        let data_bytes = self.rows.saturating_mul(self.format.record_bytes() as u64);
        data_bytes.saturating_add(self.header_bytes as u64)
    }

    /// Checks the size of the file against the header; the caller adds the path.
    ///
    /// Errors (corrupt): more or fewer bytes than the rows need.
    pub fn check_file_bytes(&self, file_bytes: u64) -> Result<()> {
        let wanted_bytes = self.file_bytes();
        if file_bytes == wanted_bytes {
            return Ok(());
        }
        Err(corrupt(format!(
            "its header promises {} of {}, which is a file of {wanted_bytes} bytes, but it has \
             {file_bytes}",
            units::counted(self.rows, "row"),
            units::counted(self.format.record_bytes() as u64, "byte")
        ))
        .hint("check whether the file is complete"))
    }

    /// The bytes of a header with the same dtype for `rows` records: a multiple of 64 bytes, with
    /// the same length for every number of rows.
    pub fn encode(&self, rows: u64) -> Vec<u8> {
        encode(&self.descr, &self.row_shape, rows)
    }
}

fn entry<'a>(entries: &'a [Entry], key: &str) -> Result<&'a Entry> {
    entries
        .iter()
        .find(|entry| matches!(&entry.key, Literal::Text(text) if text == key))
        .ok_or_else(|| corrupt(format!("the header has no `{key}`")))
}

fn rows_of(shape: &[u64], is_fortran: bool) -> Result<(u64, Vec<u64>)> {
    // Both orders are the same if only one dimension is longer than 1.
    let is_by_columns = is_fortran && shape.iter().filter(|size| **size > 1).count() > 1;
    match *shape {
        [] => Err(refused(
            "the file holds a single value, not an array",
            "reshape it to one dimension",
        )),
        [_, ..] if is_by_columns => {
            let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
            let sizes = sizes.join(" x ");
            Err(refused(
                format!("the array of {sizes} is stored by columns (Fortran order)"),
                "save it with numpy.ascontiguousarray, so that a row is a record",
            ))
        }
        [_, ref row @ ..] if row.contains(&0) => Err(refused(
            "its rows have no columns",
            "a record needs at least one byte",
        )),
        [rows, ref row @ ..] => Ok((rows, row.to_vec())),
    }
}

/// A whole header. Spaces replace the missing digits of `rows`.
fn encode(descr: &str, row_shape: &[u64], rows: u64) -> Vec<u8> {
    let shape = match row_shape {
        [] => format!("({rows},)"),
        _ => {
            let row: Vec<String> = row_shape.iter().map(u64::to_string).collect();
            format!("({rows}, {})", row.join(", "))
        }
    };
    let padding = ROWS_DIGITS - rows.to_string().len();
    frame(&format!(
        "{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}{:padding$}",
        ""
    ))
}

/// Adds magic, version, length and padding to the header's text. Uses the oldest version that can
/// hold the text, as NumPy does.
fn frame(text: &str) -> Vec<u8> {
    let is_latin = text.chars().all(|char| u32::from(char) < 256);
    let body: Vec<u8> = if is_latin {
        text.chars().map(|char| char as u8).collect()
    } else {
        text.as_bytes().to_vec()
    };
    let is_short = is_latin && body.len() + ALIGNMENT_BYTES < usize::from(u16::MAX);
    let start = if is_short { 10 } else { 12 };
    let total = (start + body.len() + 1).next_multiple_of(ALIGNMENT_BYTES);
    let mut bytes = MAGIC.to_vec();
    bytes.extend(match (is_short, is_latin) {
        (true, _) => [1, 0],
        (false, true) => [2, 0],
        (false, false) => [3, 0],
    });
    let text_bytes = (total - start) as u32;
    bytes.extend(&text_bytes.to_le_bytes()[..start - 8]);
    bytes.extend(body);
    bytes.resize(total - 1, b' ');
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore_io::Kind;
    use proptest::prelude::*;

    fn file(version: u8, text: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        let length = (text.len() as u32).to_le_bytes();
        bytes.extend(&length[..if version == 1 { 2 } else { 4 }]);
        bytes.extend(text.as_bytes());
        bytes
    }

    fn read(descr: &str, fortran: &str, shape: &str) -> Result<NpyHeader> {
        let text =
            format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}  \n");
        NpyHeader::parse(&file(1, &text))
    }

    #[test]
    fn arrays_of_numbers_become_records() {
        for (descr, shape, format, rows) in [
            ("'<u8'", "(5,)", "u64", 5),
            ("'>f4'", "(3, 32)", "f32bex32", 3),
            ("'|u1'", "(0,)", "u8", 0),
            ("'|b1'", "(4, 3)", "u8x3", 4),
            ("'<i2'", "(2, 1)", "i16", 2),
            ("'<M8[ns]'", "(2,)", "i64", 2),
            ("'|S12'", "(7,)", "bytes12", 7),
            ("'<U3'", "(7,)", "u32x3", 7),
            ("'|V9'", "(7L,)", "bytes9", 7),
            ("'<f2'", "(5,)", "f16", 5),
            ("'>c8'", "(5,)", "f32bex2", 5),
            ("'<c16'", "(5, 2)", "f64x4", 5),
            ("'<V2'", "(5, 4)", "bytes8", 5),
            ("'|u1'", "(5, 2, 3, 4)", "u8x24", 5),
            ("'<f16'", "(5,)", "16/", 5),
            ("'<f4'", "(5, 224, 224, 3)", "602112/", 5),
        ] {
            let header = read(descr, "False", shape).unwrap();
            assert_eq!(header.format.to_string(), format, "{descr}");
            assert_eq!(header.rows, rows);
            assert!(header.fields.is_empty());
        }
    }

    #[test]
    fn a_structured_dtype_is_a_record_whose_fields_are_the_keys() {
        let descr = "[('id', '<u4'), ('', '|V4'), ('pos', '>f8', (2,)), ('raw', '|V3'), \
                     (('title', 'tag'), '|S5'), ('in', [('a', '|i1'), ('b', '<u2')])]";
        let header = read(descr, "False", "(10,)").unwrap();
        let keys = "35/0:4:u32,8:16:f64be,27:5,32:1:i8,33:2:u16";
        assert_eq!(header.format.to_string(), keys);
        let names: Vec<&str> = header
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        assert_eq!(names, ["id", "pos", "raw", "tag", "in.a", "in.b"]);
        let chosen = header.with_keys(&["tag:desc", "id"]).unwrap();
        assert_eq!(chosen.to_string(), "35/27:5:desc,0:4:u32");
        let text = header.with_keys(&["tga"]).unwrap_err().to_string();
        assert!(
            text.contains("did you mean `tag`?") && text.contains("in.b"),
            "{text}"
        );
        assert!(
            header
                .with_keys(&["raw"])
                .unwrap_err()
                .to_string()
                .contains("void")
        );
        let plain = read("'<u8'", "False", "(1,)").unwrap();
        assert!(
            plain
                .with_keys(&["x"])
                .unwrap_err()
                .to_string()
                .contains("no fields")
        );
    }

    #[test]
    fn arrays_that_are_no_table_of_records_are_refused_with_a_remedy() {
        for (descr, fortran, shape, wanted) in [
            ("'<u8'", "True", "(3, 4)", "ascontiguousarray"),
            ("'|O'", "False", "(3,)", "Python objects"),
            ("[('a', '|O')]", "False", "(3,)", "Python objects"),
            ("'<u8'", "True", "(3, 4, 5)", "3 x 4 x 5"),
            ("'<u8'", "False", "()", "single value"),
            ("'<u8'", "False", "(3, 0)", "no columns"),
            ("'<f3'", "False", "(3,)", "float32"),
            ("[('a', '<u8')]", "False", "(3, 4)", "structs"),
            (
                "[('a', [('b', '<u8')], (2,))]",
                "False",
                "(3,)",
                "array of structs",
            ),
            ("'|V0'", "False", "(3,)", "0 bytes"),
            ("[('a', '|V4')]", "False", "(3,)", "no key"),
        ] {
            let error = read(descr, fortran, shape).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{error}");
            assert!(error.to_string().contains(wanted), "{error} lacks {wanted}");
        }
        // One row, or one column, has the same layout either way.
        assert_eq!(
            read("'<u8'", "True", "(1, 4)").unwrap().format.to_string(),
            "u64x4"
        );
    }

    #[test]
    fn broken_headers_are_corrupt_and_never_a_panic() {
        for (descr, fortran, shape) in [
            ("'<q8'", "False", "(3,)"),
            ("''", "False", "(3,)"),
            ("3", "False", "(3,)"),
            ("'<u8'", "0", "(3,)"),
            ("'<u8'", "False", "3"),
            ("'<u8'", "False", "('x',)"),
            ("'<u8'", "False", "(3,"),
            ("[('a',)]", "False", "(3,)"),
            (
                "[('a', '|S99999999999999999', (99999999999999,))]",
                "False",
                "(3,)",
            ),
        ] {
            assert_eq!(
                read(descr, fortran, shape).unwrap_err().kind(),
                Kind::Corrupt,
                "{descr}"
            );
        }
        assert_eq!(
            NpyHeader::parse(b"not an array").unwrap_err().kind(),
            Kind::Corrupt
        );
        assert!(
            NpyHeader::parse(&file(9, "{}"))
                .unwrap_err()
                .to_string()
                .contains("version 9")
        );
        assert!(
            NpyHeader::parse(&file(1, "{}"))
                .unwrap_err()
                .to_string()
                .contains("`descr`")
        );
        let whole = read("'<u8'", "False", "(3,)").unwrap().encode(3);
        for end in 0..whole.len() {
            assert!(NpyHeader::parse(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn all_versions_are_read_and_non_latin_names_come_back() {
        let text = "{'descr': [('\u{3b1}', '<u8')], 'fortran_order': False, 'shape': (3,), }\n";
        let header = NpyHeader::parse(&file(3, text)).unwrap();
        assert_eq!(header.fields[0].name, "\u{3b1}");
        let again = header.encode(4);
        assert_eq!(again[6], 3);
        assert_eq!(NpyHeader::parse(&again).unwrap().fields, header.fields);
        let many: Vec<String> = (0..5000)
            .map(|field| format!("('f{field}', '<u2')"))
            .collect();
        let text = format!(
            "{{'descr': [{}], 'fortran_order': False, 'shape': (3,), }}\n",
            many.join(", ")
        );
        let header = NpyHeader::parse(&file(2, &text)).unwrap();
        assert_eq!(header.format.record_bytes(), 10_000);
        let again = header.encode(4);
        assert_eq!(again[6], 2);
        assert_eq!(NpyHeader::parse(&again).unwrap().format, header.format);
    }

    #[test]
    fn the_size_of_the_file_must_be_the_headers() {
        let header = read("'<u8'", "False", "(5,)").unwrap();
        let wanted = header.header_bytes as u64 + 40;
        header.check_file_bytes(wanted).unwrap();
        for size in [wanted - 1, wanted + 1, 0] {
            assert_eq!(
                header.check_file_bytes(size).unwrap_err().kind(),
                Kind::Corrupt
            );
        }
        let absurd = read("'<u8'", "False", "(18446744073709551615,)").unwrap();
        assert!(absurd.check_file_bytes(1000).is_err());
    }

    #[test]
    fn formats_get_a_header_of_their_own() {
        for (format, wanted) in [
            ("u64", "'<u8'"),
            ("f32bex32", "'>f4'"),
            ("gensort", "[('key0', '|S10'), ('rest10', '|V90')]"),
            (
                "24/4:4:i32,8:8:u16",
                "[('rest0', '|V4'), ('key0', '<i4'), ('key1', '<u2', (4,))",
            ),
        ] {
            let format = RecordFormat::parse_type(format).unwrap();
            let header = NpyHeader::of_format(&format, 9).unwrap();
            assert!(header.descr.starts_with(wanted), "{}", header.descr);
            assert_eq!((&header.format, header.rows), (&format, 9));
            assert_eq!(NpyHeader::parse(&header.encode(9)).unwrap(), header);
        }
        let format = RecordFormat::parse_type("600/").unwrap();
        let header = NpyHeader::of_format(&format, 9).unwrap();
        assert_eq!(
            (&header.descr[..], header.format.record_bytes()),
            ("'|V600'", 600)
        );
        for format in ["16/8:8,0:8", "16/0:8,4:8", "u128"] {
            let format = RecordFormat::parse_type(format).unwrap();
            assert_eq!(
                NpyHeader::of_format(&format, 9).unwrap_err().kind(),
                Kind::Usage
            );
        }
    }

    proptest! {
        #[test]
        fn a_written_header_is_read_back_and_its_length_does_not_depend_on_the_rows(
            rows: u64, columns in 1u64..100, width in 0usize..3,
        ) {
            let shape = match columns {
                1 => "(7,)".to_string(),
                _ if columns % 2 == 0 => format!("(7, {}, 2)", columns / 2),
                _ => format!("(7, {columns})"),
            };
            let descr = ["'<u8'", "'>f4'", "'|i1'"][width];
            let header = read(descr, "False", &shape).unwrap();
            let bytes = header.encode(rows);
            prop_assert_eq!(bytes.len() % 64, 0);
            prop_assert_eq!(bytes.len(), header.encode(0).len());
            let again = NpyHeader::parse(&bytes).unwrap();
            prop_assert_eq!(again.header_bytes, bytes.len());
            prop_assert_eq!(again.rows, rows);
            prop_assert_eq!(again.row_shape(), header.row_shape());
            prop_assert_eq!(again.format, header.format);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0u8..5,
        ) {
            let _ = NpyHeader::parse(&bytes);
            if bytes.len() > 12 {
                bytes[..6].copy_from_slice(MAGIC);
                bytes[6] = version;
                bytes[8] = (bytes.len() - 12) as u8;
                bytes[9..12].fill(0);
                let _ = NpyHeader::parse(&bytes);
            }
        }
    }
}
