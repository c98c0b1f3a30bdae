//! Converts failures and panics of the Arrow and Parquet libraries to errors of outcore.
//!
//! Contract: [`arrow`] and [`parquet`] keep the library's message as the cause, and the system's
//! error if there is one below it. [`guarded`] calls a library on untrusted bytes: a panic there
//! becomes a corrupt-data error, so that a damaged file never ends the program. [`written`] does
//! the same for a library that writes. The caller adds file, column and place, which the libraries
//! do not know.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;
use outcore_io::{Error, Kind, Result};
use parquet::errors::ParquetError;

/// The hint for a file that cannot be decoded.
const DAMAGED: &str = "the file is damaged or was cut short: copy or write it again";

/// Converts an error of an Arrow library during `operation`.
pub(crate) fn arrow(operation: &str, error: &ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) if is_of_system(source) => passed_through(operation, source),
        // Drops the kind of error that the library puts before its message; the error reports it
        // anyway.
        ArrowError::ParquetError(cause) => Error::corrupt(operation, one_line(cause)).hint(DAMAGED),
        ArrowError::ExternalError(source) => external(operation, source.as_ref()),
        ArrowError::NotYetImplemented(cause) => Error::usage(
            operation,
            format!("the Arrow library cannot do this: {cause}"),
        ),
        ArrowError::MemoryError(cause) => {
            Error::new(Kind::Memory, operation, cause.clone()).hint("allow more with --memory")
        }
        other => Error::corrupt(operation, one_line(&other.to_string())).hint(DAMAGED),
    }
}

/// Converts an error of the Parquet library during `operation`.
pub(crate) fn parquet(operation: &str, error: &ParquetError) -> Error {
    match error {
        ParquetError::External(source) => external(operation, source.as_ref()),
        ParquetError::NYI(cause) => Error::usage(
            operation,
            format!("the Parquet library cannot do this: {cause}"),
        )
        .hint("write the file again with other encodings or types"),
        other => Error::corrupt(operation, one_line(&other.to_string())).hint(DAMAGED),
    }
}

/// Converts an error of one of our own readers or writers that a library passed through.
fn external(operation: &str, source: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
    if let Some(own) = source.downcast_ref::<Error>() {
        return own.clone();
    }
    let io = source.downcast_ref::<std::io::Error>();
    if let Some(io) = io.filter(|io| is_of_system(io)) {
        return passed_through(operation, io);
    }
    let below = source.source().map(|below| format!(": {below}"));
    let cause = format!("{source}{}", below.unwrap_or_default());
    Error::corrupt(operation, one_line(&cause)).hint(DAMAGED)
}

/// Whether an error is the system's or one of ours. A codec that cannot decode reports neither.
fn is_of_system(source: &std::io::Error) -> bool {
    let inner = source.get_ref();
    source.raw_os_error().is_some() || inner.is_some_and(|inner| inner.is::<Error>())
}

/// Converts an error of the system, or an error of ours that was wrapped as a system error.
pub(crate) fn passed_through(operation: &str, source: &std::io::Error) -> Error {
    let own = source
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    own.cloned().unwrap_or_else(|| Error::io(operation, source))
}

/// Calls `work`, which passes untrusted bytes to a library; a panic there becomes an error.
pub(crate) fn guarded<T>(operation: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that `work` borrowed is used again: its owner drops it after an error.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let cause = format!("the data cannot be decoded: {}", words_of(&*panic));
        Err(Error::corrupt(operation, one_line(&cause)).hint(DAMAGED))
    })
}

/// Calls `work`, which passes values of any type to a library that writes them. A panic there
/// becomes an error of `operation`.
pub(crate) fn written<T>(operation: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let cause = format!("the library cannot write this table: {}", words_of(&*panic));
        Err(Error::usage(operation, one_line(&cause))
            .hint("write another format, or leave columns of rare types out with --columns"))
    })
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_library_is_an_error_of_corrupt_data() {
        let result: Result<()> = guarded("decode", || panic!("index 7 of\n 3"));
        let error = result.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("index 7 of 3"), "{error}");
    }

    #[test]
    fn an_error_of_ours_passes_through_a_library_unchanged() {
        let own = Error::errno("read", 5).path("t.parquet").offset(12);
        let through = parquet("decode", &ParquetError::External(Box::new(own.clone())));
        assert_eq!(through.to_string(), own.to_string());
        let wrapped = std::io::Error::other(own.clone());
        let through = arrow("decode", &ArrowError::IoError(String::new(), wrapped));
        assert_eq!(through.to_string(), own.to_string());
    }

    #[test]
    fn what_a_codec_cannot_decode_is_corrupt_and_what_the_system_says_is_not() {
        let codec = std::io::Error::other("DecompressionError(OffsetOutOfBounds)");
        let error = arrow("decode", &ArrowError::IoError(String::new(), codec));
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.next_step().is_some());
        let system = std::io::Error::from_raw_os_error(5);
        let error = arrow("decode", &ArrowError::IoError(String::new(), system));
        assert_eq!(error.kind(), Kind::Io);
    }
}
