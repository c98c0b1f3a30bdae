//! What the records are: from flags, from `.npy` headers, or a question with an answer to choose.
//!
//! Contract: [`decide`] gives the one format of all inputs and checks that each holds whole
//! records of it. Flags win, but must agree with the headers of the files; without flags the
//! headers decide and must agree with each other; without either the error says which types the
//! size of the file would allow.

use outcore::data::{KeyField, NpyHeader, RecordFormat};
use outcore::{Error, Result, units};

use crate::cli::TypeArgs;
use crate::inputs::Input;

const CHOOSE: &str = "choose type";
/// Types to suggest by the size of a file.
const SUGGESTED: [&str; 4] = ["u32", "u64", "u128", "gensort"];

/// The format that the flags name, if they name one without help from a header.
pub(crate) fn from_flags(args: &TypeArgs) -> Result<Option<RecordFormat>> {
    match (&args.format, args.record_bytes) {
        (Some(format), _) => Ok(Some(format.clone())),
        (None, Some(bytes)) => RecordFormat::parse_record(bytes, &args.keys).map(Some),
        (None, None) => Ok(None),
    }
}

/// The format of all inputs.
///
/// # Errors
/// Usage if it is unknown, if files disagree, or if a file holds no whole number of records.
pub(crate) fn decide(args: &TypeArgs, inputs: &[Input]) -> Result<RecordFormat> {
    let header = inputs.iter().find_map(|input| input.npy.as_ref());
    let format = match (from_flags(args)?, header) {
        (Some(format), _) => format,
        (None, Some(header)) if args.keys.is_empty() => header.format.clone(),
        (None, Some(header)) => with_keys(header, &args.keys)?,
        (None, None) if !args.keys.is_empty() => {
            return Err(Error::usage(CHOOSE, "--key without --record")
                .hint("say how long a record is with --record SIZE"));
        }
        (None, None) => return Err(unknown(inputs)),
    };
    let has_directed_type = args.format.is_some();
    for input in inputs {
        check_header(input, header, &format, has_directed_type)?;
        format
            .records_in(input.data_bytes)
            .map_err(|error| error.path(&input.source.name))?;
    }
    Ok(format)
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

/// Fails if the input's header tells of other records than `format`, or than the `first` header.
fn check_header(
    input: &Input,
    first: Option<&NpyHeader>,
    format: &RecordFormat,
    is_type_given: bool,
) -> Result<()> {
    let (Some(header), Some(first)) = (&input.npy, first) else {
        return Ok(());
    };
    let is_same = if is_type_given {
        header.format == *format
    } else {
        header.format.record_bytes() == format.record_bytes() && header.format == first.format
    };
    if is_same {
        return Ok(());
    }
    let other = if is_type_given { format } else { &first.format };
    let cause = format!("its header says {}, not {other}", header.format);
    Err(Error::usage(CHOOSE, cause)
        .path(&input.source.name)
        .hint("leave --type out, and sort files of different types one by one"))
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
    error.path(&input.source.name).hint(hint)
}

/// The error for streams: their size suggests nothing.
pub(crate) fn unknown_of_stream(name: &str) -> Error {
    Error::usage(CHOOSE, "the type of the records is not known")
        .path(name)
        .hint("give --type, for example --type u64, or --record SIZE and --key OFFSET:LEN")
}
