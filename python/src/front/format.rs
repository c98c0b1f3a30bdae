//! What the records are: from the caller, from `.npy` headers, or a question with an answer to
//! choose.
//!
//! Contract: [`decide`] gives the one format of all inputs and checks that each holds whole
//! records of it. What the caller says wins, but must agree with the headers of the files; without
//! it the headers decide and must agree with each other; without either the error says which types
//! the size of the file would allow. A NumPy dtype comes in as the text that a `.npy` header would
//! have, so that there is one reader of dtypes.

use outcore::data::{KeyField, NpyHeader, RecordFormat};
use outcore::{Error, Result, units};

use super::inputs::Input;

const CHOOSE: &str = "choose type";
const READ_DTYPE: &str = "read dtype";
/// Types to suggest by the size of a file.
const SUGGESTED: [&str; 4] = ["u32", "u64", "u128", "gensort"];

/// What the caller says about the records; at most one of the first three.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypeRequest {
    /// A type as the command's `--type` takes it.
    pub(crate) name: Option<String>,
    /// A NumPy dtype, as the `descr` of a `.npy` header has it, and the columns of a row.
    pub(crate) descr: Option<(String, Option<u64>)>,
    /// Size of a record.
    pub(crate) record_bytes: Option<usize>,
    /// Keys by place, or by the name of a field.
    pub(crate) keys: Vec<String>,
}

/// What the records are, and the header that a `.npy` file of them has.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    /// Size and keys.
    pub(crate) format: RecordFormat,
    /// The header of the first input, or of the dtype that was given.
    pub(crate) header: Option<NpyHeader>,
}

/// The format that the caller names without help from a file, if it does.
pub(crate) fn named(request: &TypeRequest) -> Result<Option<Decided>> {
    let bare = |format| {
        Some(Decided {
            format,
            header: None,
        })
    };
    if let Some((descr, columns)) = &request.descr {
        let header = header_of(descr, *columns)?;
        let format = match request.keys.is_empty() {
            true => header.format.clone(),
            false => with_keys(&header, &request.keys)?,
        };
        let header = Some(header);
        return Ok(Some(Decided { format, header }));
    }
    match (&request.name, request.record_bytes) {
        (Some(_), _) if !request.keys.is_empty() => Err(Error::usage(
            CHOOSE,
            "a key beside a type that has its own",
        )
        .hint("give the keys with --record SIZE, or a structured dtype and the names of fields")),
        (Some(name), _) => RecordFormat::parse_type(name).map(bare),
        (None, Some(bytes)) => RecordFormat::parse_record(bytes, &request.keys).map(bare),
        (None, None) => Ok(None),
    }
}

/// The format of all inputs.
///
/// # Errors
/// Usage if it is unknown, if files disagree, or if a file holds no whole number of records.
pub(crate) fn decide(request: &TypeRequest, inputs: &[Input]) -> Result<Decided> {
    let first = inputs.iter().find_map(|input| input.npy.as_ref());
    let decided = match (named(request)?, first) {
        (Some(named), _) => named,
        (None, Some(header)) => Decided {
            format: match request.keys.is_empty() {
                true => header.format.clone(),
                false => with_keys(header, &request.keys)?,
            },
            header: None,
        },
        (None, None) if !request.keys.is_empty() => {
            return Err(Error::usage(CHOOSE, "--key without --record")
                .hint("say how long a record is with --record SIZE"));
        }
        (None, None) => return Err(unknown(inputs)),
    };
    // A record that is described by places may be any part of a dtype; a dtype is one dtype.
    let wanted = match (&decided.header, &request.name) {
        (Some(header), _) => Some(&header.format),
        (None, Some(_)) => Some(&decided.format),
        (None, None) => first.map(|header| &header.format),
    };
    for input in inputs {
        if let (Some(header), Some(wanted)) = (&input.npy, wanted) {
            check_header(input, header, wanted, &decided.format)?;
        }
        decided
            .format
            .records_in(input.data_bytes)
            .map_err(|error| error.path(&input.path))?;
    }
    let header = first.cloned().or(decided.header);
    let format = decided.format;
    Ok(Decided { format, header })
}

/// Fails if the input's header tells of other records than `wanted`, or of another length.
fn check_header(
    input: &Input,
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
        .path(&input.path)
        .hint("leave --type out, and sort files of different types one by one"))
}

/// A header as NumPy would write it for no rows of this dtype.
fn header_of(descr: &str, columns: Option<u64>) -> Result<NpyHeader> {
    let shape = columns.map_or("(0,)".to_string(), |columns| format!("(0, {columns})"));
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x03\x00".to_vec();
    let text_bytes = u32::try_from(text.len())
        .map_err(|_| Error::usage(READ_DTYPE, "its text has more than 4 GiB"))?;
    bytes.extend(text_bytes.to_le_bytes());
    bytes.extend(text.as_bytes());
    // The reader of files would call a wrong dtype a corrupt file.
    NpyHeader::parse(&bytes).map_err(|error| {
        let refused = Error::usage(READ_DTYPE, error.cause());
        match error.next_step() {
            Some(hint) => refused.hint(hint),
            None => refused.hint("give a dtype of numbers, fixed-size strings or such fields"),
        }
    })
}

/// Keys given by the names of fields, or by their place.
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

fn unknown(inputs: &[Input]) -> Error {
    let error = Error::usage(CHOOSE, "the type of the records is not known");
    let Some(input) = inputs.first() else {
        return error;
    };
    let fitting: Vec<String> = SUGGESTED
        .iter()
        .filter_map(|name| {
            let format = RecordFormat::parse_type(name).ok()?;
            let records = format.records_in(input.data_bytes).ok()?;
            Some(format!("{name} ({} records)", units::count(records)))
        })
        .collect();
    let size = units::count(input.data_bytes);
    let hint = match fitting.as_slice() {
        _ if input.data_bytes == 0 => {
            "it is empty; give the --type that its records would have".to_string()
        }
        [] => format!(
            "its {size} bytes are no whole number of u32, u64 or gensort records; \
             give --record SIZE and --key OFFSET:LEN[:TYPE]"
        ),
        _ => format!(
            "its {size} bytes would suit --type {}; or give --record SIZE and --key OFFSET:LEN",
            fitting.join(", ")
        ),
    };
    error.path(&input.path).hint(hint)
}
