//! Determines the type of records: from the caller or from `.npy` headers, or an error that lists
//! the possible types.
//!
//! Contract: [`decide`] returns the single format of all inputs and checks that each holds whole
//! records of it. The caller's type has precedence but must agree with the headers of the files.
//! Without it, the headers decide and must agree with each other. Without either, the error lists
//! the types that the size of the file would allow. A NumPy dtype is passed as the text that a
//! `.npy` header would have, so that there is only one parser of dtypes. Pure.

use std::path::Path;

use outcore::key::{KeyField, NpyHeader, RecordFormat};
use outcore::{Error, Result};
use outcore_io::units;

use crate::content::fitting_types;
use crate::inputs::{ResolvedInput, Source};

/// The operation in errors about the type of records.
pub const CHOOSE: &str = "choose type";
/// Bytes that are examined to distinguish text from records.
const TEXT_HEAD_BYTES: usize = 4096;
const READ_DTYPE: &str = "read dtype";

/// The caller's statements about the records; at most one of the first three.
#[derive(Debug, Clone, Default)]
pub struct TypeRequest {
    /// A named type.
    pub format: Option<RecordFormat>,
    /// A NumPy dtype in the form of the `descr` of a `.npy` header, and the shape of a row.
    pub descr: Option<(String, Vec<u64>)>,
    /// Size of a record.
    pub record_bytes: Option<usize>,
    /// Keys by position, or by the name of a field.
    pub keys: Vec<String>,
}

pub use outcore::dataset::ItemType as Decided;

/// The format that `request` determines without looking at a file, if it determines one.
///
/// # Errors
/// Usage for a dtype without an order, a key beyond the record, or a key together with a type.
pub fn named(request: &TypeRequest) -> Result<Option<Decided>> {
    if let Some((descr, row_shape)) = &request.descr {
        let header = header_of(descr, row_shape)?;
        let format = match request.keys.is_empty() {
            true => header.format.clone(),
            false => with_keys(&header, &request.keys)?,
        };
        let header = Some(header);
        return Ok(Some(Decided { format, header }));
    }
    match (&request.format, request.record_bytes) {
        (Some(_), _) if !request.keys.is_empty() => Err(Error::usage(
            CHOOSE,
            "the type defines its own key, so --key cannot be given with it",
        )
        .hint("give the keys with --record SIZE, or a structured dtype and the names of fields")),
        (Some(format), _) => Ok(Some(format.clone().into())),
        (None, Some(bytes)) => {
            let whole = [format!("0:{bytes}")];
            let keys = match request.keys.as_slice() {
                [] => &whole,
                keys => keys,
            };
            RecordFormat::parse_record(bytes, keys).map(|format| Some(format.into()))
        }
        (None, None) => Ok(None),
    }
}

/// The header of a `.npy` file of records that consist of an `item` and its count: the fields
/// `value` and `count`.
///
/// # Errors
/// Usage if NumPy cannot represent such records.
pub fn counted_header(item: &Decided) -> Result<NpyHeader> {
    let header = match &item.header {
        Some(header) => header.clone(),
        None => NpyHeader::of_format(&item.format, 0)?,
    };
    let value = nested(&header);
    let descr = format!("[('value', {value}), ('count', '<u8')]");
    header_of(&descr, &[])
}

/// The dtype of a field that holds one row of the array that `header` describes, with the row's
/// shape if there is one.
fn nested(header: &NpyHeader) -> String {
    let row: Vec<String> = header.row_shape().iter().map(u64::to_string).collect();
    match &row[..] {
        [] => header.descr().to_string(),
        [columns] => format!("{}, ({columns},)", header.descr()),
        _ => format!("{}, ({})", header.descr(), row.join(", ")),
    }
}

/// Records of a position and an item, and the header of a `.npy` file of them: the fields
/// `position` and `value`.
///
/// # Errors
/// Usage if NumPy cannot represent such records.
pub fn numbered(item: &Decided) -> Result<Decided> {
    let header = match &item.header {
        Some(header) => header.clone(),
        None => NpyHeader::of_format(&item.format, 0)?,
    };
    let value = nested(&header);
    let descr = format!("[('position', '<u8'), ('value', {value})]");
    let header = header_of(&descr, &[])?;
    Ok(Decided {
        format: header.format.clone(),
        header: Some(header),
    })
}

/// The format of all inputs.
///
/// # Errors
/// Usage if it is unknown, if files disagree, or if a file does not hold a whole number of records.
pub fn decide(request: &TypeRequest, inputs: &[ResolvedInput]) -> Result<Decided> {
    let from_caller = named(request)?;
    for input in inputs {
        let (name, is_typed) = (&input.source.name, from_caller.is_some());
        input.content.check_records(name, is_typed)?;
    }
    let first = inputs.iter().find_map(|input| input.npy.as_ref());
    let decided = match (from_caller, first) {
        (Some(named), _) => named,
        (None, Some(header)) => match request.keys.is_empty() {
            true => header.format.clone().into(),
            false => with_keys(header, &request.keys)?.into(),
        },
        (None, None) if !request.keys.is_empty() => {
            return Err(Error::usage(CHOOSE, "--key without --record")
                .hint("pass the length of a record with --record SIZE"));
        }
        (None, None) => return Err(unknown(inputs)),
    };
    // Files must match a dtype or a named type exactly. If the caller describes records by
    // positions, the dtypes of the files must only match each other.
    let wanted = match (&decided.header, &request.format) {
        (Some(header), _) => Some(&header.format),
        (None, Some(_)) => Some(&decided.format),
        (None, None) => first.map(|header| &header.format),
    };
    for input in inputs {
        if let (Some(header), Some(wanted)) = (&input.npy, wanted) {
            check_header(input, header, wanted, &decided.format)?;
            check_shape(input, header, first)?;
        }
        decided
            .format
            .records_in(input.data_bytes)
            .map_err(|error| error.path(&input.source.name))?;
    }
    let header = first.cloned().or(decided.header);
    let format = decided.format;
    Ok(Decided { format, header })
}

/// Fails if the input's header describes records other than `wanted`, or another length.
fn check_header(
    input: &ResolvedInput,
    header: &NpyHeader,
    wanted: &RecordFormat,
    format: &RecordFormat,
) -> Result<()> {
    let is_as_long = header.format.record_bytes() == format.record_bytes();
    if header.format == *wanted && is_as_long {
        return Ok(());
    }
    let other = if is_as_long { wanted } else { format };
    let cause = format!("its header says {}, not {other}", header.format);
    Err(Error::usage(CHOOSE, cause)
        .path(&input.source.name)
        .hint("leave --type and --record out, and pass files of different types one at a time"))
}

/// Fails if rows of the input have a different shape from those of the first array.
fn check_shape(input: &ResolvedInput, header: &NpyHeader, first: Option<&NpyHeader>) -> Result<()> {
    let shape = |header: &NpyHeader| {
        let sizes: Vec<String> = header.row_shape().iter().map(u64::to_string).collect();
        sizes.join(" x ")
    };
    match first {
        Some(first) if first.row_shape() != header.row_shape() => {
            let cause = format!("its rows are {}, not {}", shape(header), shape(first));
            Err(Error::usage(CHOOSE, cause)
                .path(&input.source.name)
                .hint("reshape the arrays to one shape, or pass only arrays of the same shape"))
        }
        _ => Ok(()),
    }
}

/// The header that NumPy would write for an array of this dtype without rows.
fn header_of(descr: &str, row_shape: &[u64]) -> Result<NpyHeader> {
    let shape: Vec<String> = row_shape.iter().map(|size| format!(" {size}")).collect();
    let shape = format!("(0,{})", shape.join(","));
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x03\x00".to_vec();
    let text_bytes = u32::try_from(text.len())
        .map_err(|_| Error::usage(READ_DTYPE, "its text has more than 4 GiB"))?;
    bytes.extend(text_bytes.to_le_bytes());
    bytes.extend(text.as_bytes());
    // The reader of files would call an invalid dtype a corrupt file.
    NpyHeader::parse(&bytes).map_err(|error| {
        let refused = Error::usage(READ_DTYPE, error.cause());
        match error.next_step() {
            Some(hint) => refused.hint(hint),
            None => refused.hint(
                "give a dtype of numbers or fixed-size strings, or of fields with such types",
            ),
        }
    })
}

/// Keys given by the names of fields, or by position.
fn with_keys(header: &NpyHeader, keys: &[String]) -> Result<RecordFormat> {
    let mut fields: Vec<KeyField> = Vec::with_capacity(keys.len());
    for key in keys {
        match key.parse() {
            Ok(field) => fields.push(field),
            Err(_) => fields.extend(header.with_keys(&[key])?.keys()),
        }
    }
    RecordFormat::new(header.format.record_bytes(), fields)
}

fn unknown(inputs: &[ResolvedInput]) -> Error {
    let error = Error::usage(CHOOSE, "the type of the records is not known");
    let Some(input) = inputs.first() else {
        return error;
    };
    let fitting = fitting_types(input.data_bytes);
    let hint = match fitting.as_slice() {
        _ if input.data_bytes == 0 => {
            "the file is empty: pass the --type of its records".to_string()
        }
        _ if is_text(&input.source) => {
            "this looks like text: sort, shuffle, unique, head, sample and split take its lines, \
             verify with --lines; group-by, count-by, map and filter take its columns with --csv"
                .to_string()
        }
        [] => format!(
            "its length, {}, is not a multiple of u32, u64 or gensort records; \
             give --record SIZE and --key OFFSET:LEN[:TYPE]",
            units::counted(input.data_bytes, "byte")
        ),
        _ => format!(
            "its length, {}, suits --type {}; or give --record SIZE and --key OFFSET:LEN",
            units::counted(input.data_bytes, "byte"),
            fitting.join(", ")
        ),
    };
    error.path(&input.source.name).hint(hint)
}

/// Whether the file begins like text: UTF-8 with lines and without control characters.
pub fn is_text(source: &Source) -> bool {
    let Ok(head) = source.head(TEXT_HEAD_BYTES) else {
        return false;
    };
    let valid_bytes = match std::str::from_utf8(&head) {
        Ok(_) => head.len(),
        // The last character may be incomplete because only the beginning was read.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return false,
    };
    let is_of_text = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n' | b'\r');
    head.contains(&b'\n') && head[..valid_bytes].iter().all(is_of_text)
}

/// The error for streams, whose size suggests no type.
pub(crate) fn unknown_of_stream(name: &Path) -> Error {
    Error::usage(CHOOSE, "the type of the records is not known")
        .path(name)
        .hint("give --type, for example --type u64, or --record SIZE and --key OFFSET:LEN; for rows of text --from csv or --from jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;

    fn input(name: &str, data_bytes: u64, npy: Option<&str>) -> ResolvedInput {
        let header = |descr: &str| header_of(&format!("'{descr}'"), &[]).unwrap();
        ResolvedInput {
            source: Source {
                name: name.into(),
                path: name.into(),
                key: None,
                identity: None,
                start_bytes: 0,
                manifest: None,
                sealed: None,
                object: None,
                content: None,
            },
            header_bytes: 0,
            data_bytes,
            npy: npy.map(header),
            content: Content::Plain { has_nuls: true },
        }
    }

    fn asked(name: &str) -> TypeRequest {
        TypeRequest {
            format: Some(RecordFormat::parse_type(name).unwrap()),
            ..TypeRequest::default()
        }
    }

    #[test]
    fn the_caller_decides_then_the_headers_then_nobody() {
        let (raw, npy) = (input("raw", 16, None), input("x.npy", 16, Some("<u8")));
        let none = TypeRequest::default();
        let decided = decide(&asked("u32"), std::slice::from_ref(&raw)).unwrap();
        assert_eq!(decided.format.to_string(), "u32");
        let both = [raw.clone(), npy.clone()];
        assert_eq!(decide(&none, &both).unwrap().format.to_string(), "u64");
        let error = decide(&asked("u32"), &both).unwrap_err();
        assert_eq!(error.cause(), "its header says u64, not u32");
        assert_eq!(error.file_path(), Some(Path::new("x.npy")));
        let error = decide(&none, &[raw]).unwrap_err();
        assert!(error.next_step().unwrap().contains("u64 (2 records)"));
    }

    #[test]
    fn files_hold_whole_records_and_agree() {
        let error = decide(&asked("u64"), &[input("cut", 15, None)]).unwrap_err();
        assert_eq!(error.file_path(), Some(Path::new("cut")));
        let files = [
            input("a.npy", 8, Some("<u8")),
            input("b.npy", 8, Some("<i8")),
        ];
        let error = decide(&TypeRequest::default(), &files).unwrap_err();
        assert_eq!(error.file_path(), Some(Path::new("b.npy")));
    }

    #[test]
    fn a_dtype_is_a_type_and_its_fields_are_keys() {
        let request = TypeRequest {
            descr: Some(("[('id', '<u4'), ('at', '<i8')]".to_string(), Vec::new())),
            keys: vec!["at".to_string()],
            ..TypeRequest::default()
        };
        let decided = named(&request).unwrap().unwrap();
        assert_eq!(decided.format.record_bytes(), 12);
        assert_eq!(decided.format.keys().len(), 1);
        let refused = named(&TypeRequest {
            keys: vec!["0:4".to_string()],
            ..asked("u64")
        });
        assert!(refused.unwrap_err().cause().contains("defines its own key"));
    }
}
