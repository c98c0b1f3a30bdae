//! Errors as one value that names the cause, the place and the next step.
//!
//! Contract: every failure of the engine is an [`Error`]. It has:
//! - its [`Kind`], which determines the exit code of the command and the Python exception
//! - the operation that failed
//! - the place: drive, path, byte offset
//! - the system's own error, if there is one
//! - a hint that says what to try next
//!
//! `Display` is one line: `operation: cause (place); hint`. Code builds an error where the facts
//! are known; from there it is only passed to callers.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result type of the whole engine.
pub type Result<T> = std::result::Result<T, Error>;

/// The class of a failure; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The answer to a check that the user asked for is no (`verify`, `sort --check`).
    CheckFailed,
    /// The request itself is wrong: an unknown type, a size that is not a multiple of the record.
    Usage,
    /// A system call failed.
    Io,
    /// Data differ from what was written, or changed while they were read.
    Corrupt,
    /// A drive has too little room.
    NoSpace,
    /// The memory allowed is below what the job needs.
    Memory,
    /// The user or a signal stopped the job.
    Interrupted,
}

impl Kind {
    /// Exit code of the command: 1 check false, 2 usage, 3 I/O, 4 corrupt, 5 space, 6 memory,
    /// 130 interrupted.
    pub const fn exit_code(self) -> u8 {
        match self {
            Kind::CheckFailed => 1,
            Kind::Usage => 2,
            Kind::Io => 3,
            Kind::Corrupt => 4,
            Kind::NoSpace => 5,
            Kind::Memory => 6,
            Kind::Interrupted => 130,
        }
    }

    /// The name used in JSON output.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::CheckFailed => "check_failed",
            Kind::Usage => "usage",
            Kind::Io => "io",
            Kind::Corrupt => "corrupt",
            Kind::NoSpace => "no_space",
            Kind::Memory => "memory",
            Kind::Interrupted => "interrupted",
        }
    }
}

/// The hint of [`Error::interrupted`].
const NOTHING_LEFT: &str = "nothing was left behind";
/// Prefix of the cause of an error about a panic.
const PANICKED: &str = "outcore or a library of it panicked";

/// One failure with all known facts. Boxed, so `Result` stays small.
#[derive(Debug, Clone)]
pub struct Error(Box<Facts>);

#[derive(Debug, Clone)]
struct Facts {
    kind: Kind,
    operation: String,
    cause: String,
    drive: Option<String>,
    path: Option<PathBuf>,
    offset_bytes: Option<u64>,
    errno: Option<i32>,
    hint: Option<String>,
}

impl Error {
    /// A failure of `kind` while doing `operation` ("read input"), because of `cause`.
    pub fn new(kind: Kind, operation: impl Into<String>, cause: impl Into<String>) -> Self {
        Error(Box::new(Facts {
            kind,
            operation: operation.into(),
            cause: cause.into(),
            drive: None,
            path: None,
            offset_bytes: None,
            errno: None,
            hint: None,
        }))
    }

    /// A wrong request.
    pub fn usage(operation: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(Kind::Usage, operation, cause)
    }

    /// Damaged or changed data; see [`Kind::Corrupt`].
    pub fn corrupt(operation: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, operation, cause)
    }

    /// An input that another program changed while it was read.
    pub fn changed_input(operation: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::corrupt(operation, cause).hint("work on a copy that no program changes")
    }

    /// A panic that was caught during `operation`: the error that the panic carries, or an error
    /// about a defect.
    pub fn panicked(operation: impl Into<String>, panic: Box<dyn Any + Send>) -> Self {
        let panic = match panic.downcast::<Error>() {
            Ok(error) => return *error,
            Err(panic) => panic,
        };
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("it gave no reason");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self::new(Kind::Io, operation, format!("{PANICKED}: {text}")).hint(
            "a bug: please report it with what the environment variable RUST_BACKTRACE=1 adds",
        )
    }

    /// Whether the error is about a panic.
    pub fn is_panic(&self) -> bool {
        self.0.cause.starts_with(PANICKED)
    }

    /// The job was stopped by a signal or by the caller.
    pub fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "job", "interrupted").hint(NOTHING_LEFT)
    }

    /// A system error; `ENOSPC` and `EDQUOT` become [`Kind::NoSpace`], all others [`Kind::Io`]. The
    /// hint is as general as the cause; a caller that knows more about the failure sets a better
    /// one.
    pub fn io(operation: impl Into<String>, source: &io::Error) -> Self {
        let errno = source.raw_os_error();
        let is_space = errno == Some(rustix::io::Errno::NOSPC.raw_os_error())
            || errno == Some(rustix::io::Errno::DQUOT.raw_os_error());
        let kind = if is_space { Kind::NoSpace } else { Kind::Io };
        let mut error = Self::new(kind, operation, source.to_string());
        error.0.errno = errno;
        error.0.hint = next_step_of(source).map(str::to_string);
        error
    }

    /// A system error given by its number.
    pub fn errno(operation: impl Into<String>, errno: i32) -> Self {
        Self::io(operation, &io::Error::from_raw_os_error(errno))
    }

    /// Adds the drive's name.
    #[must_use]
    pub fn drive(mut self, name: impl Into<String>) -> Self {
        self.0.drive = Some(name.into());
        self
    }

    /// Adds the file or directory.
    #[must_use]
    pub fn path(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path = Some(path.as_ref().to_path_buf());
        self
    }

    /// Adds the byte offset in the file.
    #[must_use]
    pub fn offset(mut self, offset_bytes: u64) -> Self {
        self.0.offset_bytes = Some(offset_bytes);
        self
    }

    /// Adds what to try next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds a text about what is left to the hint. It replaces that of [`Error::interrupted`].
    pub fn hint_left(self, left: &str) -> Self {
        let step = self.next_step().filter(|step| *step != NOTHING_LEFT);
        let hint = step.map_or_else(|| left.to_owned(), |step| format!("{step}; {left}"));
        self.hint(hint)
    }

    /// The class of the failure.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// Why the operation failed.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// The drive, if one caused the failure.
    pub fn drive_name(&self) -> Option<&str> {
        self.0.drive.as_deref()
    }

    /// The file or directory, if known.
    pub fn file_path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The byte offset in the file, if known.
    pub fn offset_bytes(&self) -> Option<u64> {
        self.0.offset_bytes
    }

    /// The system's error number, if there is one.
    pub fn raw_errno(&self) -> Option<i32> {
        self.0.errno
    }

    /// What to try next.
    pub fn next_step(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

/// What to try next, as far as the system error shows it.
fn next_step_of(source: &io::Error) -> Option<&'static str> {
    use io::ErrorKind as Cause;
    match source.kind() {
        Cause::NotFound | Cause::NotADirectory => Some("check the path"),
        Cause::PermissionDenied => Some("check who may read and write there"),
        Cause::ReadOnlyFilesystem => Some("name a place that can be written"),
        Cause::StorageFull | Cause::QuotaExceeded => {
            Some("free some space there, or name another place")
        }
        Cause::IsADirectory => Some("name a file"),
        Cause::InvalidData => Some("check whether this is the right file"),
        _ if source.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
            Some("the stream is closed: open it, or name a file")
        }
        Cause::FileTooLarge => Some(
            "raise the limit of file sizes (ulimit -f), or name a file system that takes larger files",
        ),
        _ if source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            Some("the kernel's log (dmesg) may say more")
        }
        _ => None,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &self.0;
        write!(f, "{}: {}", facts.operation, facts.cause)?;
        let mut place = Vec::new();
        if let Some(drive) = facts.drive.as_ref().filter(|drive| !drive.is_empty()) {
            place.push(format!("drive {drive}"));
        }
        if let Some(path) = &facts.path {
            place.push(path.display().to_string());
        }
        if let Some(offset) = facts.offset_bytes {
            place.push(format!("at byte {offset}"));
        }
        if !place.is_empty() {
            write!(f, " ({})", place.join(", "))?;
        }
        if let Some(hint) = &facts.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_cause_place_and_next_step() {
        let error = Error::errno("write scratch", 28)
            .drive("nvme0")
            .path("/mnt/nvme0/x")
            .offset(4096)
            .hint("free some space or add a drive");
        assert_eq!(error.kind(), Kind::NoSpace);
        assert_eq!(error.kind().exit_code(), 5);
        let text = error.to_string();
        assert!(
            text.starts_with("write scratch: No space left on device"),
            "{text}"
        );
        assert!(
            text.contains("(drive nvme0, /mnt/nvme0/x, at byte 4096)"),
            "{text}"
        );
        assert!(text.ends_with("; free some space or add a drive"), "{text}");
        assert!(!text.contains('\n'));
    }

    #[test]
    fn a_panic_is_an_error_with_its_words_or_the_error_that_it_carries() {
        let caught = |work: fn()| std::panic::catch_unwind(work).unwrap_err();
        let error = Error::panicked("sort", caught(|| panic!("index {}\nof 3", 7)));
        assert!(
            error.is_panic() && error.to_string().contains("index 7 of 3"),
            "{error}"
        );
        let carried = caught(|| std::panic::resume_unwind(Box::new(Error::errno("read", 5))));
        let error = Error::panicked("sort", carried);
        assert!(!error.is_panic() && error.raw_errno() == Some(5), "{error}");
    }

    #[test]
    fn common_system_errors_say_what_to_try_next_until_somebody_knows_better() {
        for errno in [2, 5, 13, 20, 21, 28, 30, 122] {
            let error = Error::errno("open input", errno);
            assert!(error.next_step().is_some(), "{error}");
        }
        let error = Error::errno("open input", 2).hint("mount the drive");
        assert_eq!(error.next_step(), Some("mount the drive"));
    }
}
