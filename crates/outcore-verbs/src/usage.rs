//! Clap's errors about the arguments, in the command's own form.
//!
//! Contract: help and version go to standard output and are not errors; without a subcommand the
//! short help goes to standard error, before the error. Everything else becomes an [`Error`] of
//! kind usage: one line with the cause, one with the next step.

use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use outcore::Error;

use crate::synonym;

/// The hint if `--record-io` is given to a command without it.
const RECORDS_NOTHING: &str = "commands that move data have it, such as sort, gen, view or put; \
                               commands that measure, check, replay, simulate or list do not";

/// The result of parsing the arguments, if it is not a command.
pub enum Parsed {
    /// Text that the user asked for.
    Text(String),
    /// An invalid request.
    Wrong(Error),
    /// Nothing was requested; the help lists what can be requested.
    Nothing(Error, String),
}

/// The command that `words` call, after the name of the program: `root`, or one below it.
pub fn called<'c>(root: &'c Command, words: &[OsString]) -> &'c Command {
    let mut called = root;
    for word in words.iter().skip(1) {
        called = called.find_subcommand(word).unwrap_or(called);
    }
    called
}

/// Interprets clap's error about the arguments of a `command`.
pub fn read(error: &clap::Error, command: &Command) -> Parsed {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Parsed::Text(error.render().to_string())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Parsed::Nothing(
            Error::usage("read arguments", "no subcommand given").hint("see --help"),
            error.render().to_string(),
        ),
        _ => Parsed::Wrong(wrong(error, command)),
    }
}

fn wrong(error: &clap::Error, command: &Command) -> Error {
    use std::error::Error as _;
    // If one of our own parsers rejected a value, its error is better than clap's.
    if let Some(ours) = error
        .source()
        .and_then(|source| source.downcast_ref::<Error>())
    {
        let flag = error.get(ContextKind::InvalidArg);
        let cause = match flag {
            Some(flag) => format!("{}: {}", plain(&flag.to_string()), ours.cause()),
            None => ours.cause().to_string(),
        };
        let wrong = Error::usage("read arguments", cause);
        let is_dir = || {
            let value = error
                .get(ContextKind::InvalidValue)
                .map(ToString::to_string);
            value.is_some_and(|value| !value.starts_with(|c: char| c.is_ascii_digit()))
        };
        if flag.is_some_and(|flag| plain(&flag.to_string()) == "--scratch-limit") && is_dir() {
            return wrong
                .hint("it is a size, such as 100GiB; --drive DIR is a directory for scratch");
        }
        return match ours.next_step() {
            Some(hint) => wrong.hint(hint),
            None => wrong,
        };
    }
    if error.kind() == ErrorKind::MissingSubcommand {
        return Error::usage("read arguments", "a command is missing")
            .hint("--help lists the commands");
    }
    let known = || replaces_nothing(error).or_else(|| contradicts(error));
    if let Some(wrong) = not_a_number(error).or_else(known) {
        return wrong;
    }
    let text = error.render().to_string();
    let (mut cause, mut tip) = (Vec::new(), None);
    // If an argument is missing, the line `Usage:` shows which one.
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    let usage = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Usage: "))
        .filter(|_| is_missing);
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        match line.strip_prefix("tip: ") {
            Some(text) => tip = tip.or(Some(text)),
            None if !line.is_empty() => cause.push(line),
            None => {}
        }
    }
    let cause = cause.join(" ");
    let cause = cause.strip_prefix("error: ").unwrap_or(&cause).to_string();
    let text_of = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let hint = match error.kind() {
        ErrorKind::UnknownArgument => {
            unknown_option(text_of(ContextKind::InvalidArg), command, tip)
        }
        ErrorKind::InvalidSubcommand => {
            unknown_command(text_of(ContextKind::InvalidSubcommand), command)
        }
        ErrorKind::InvalidValue => value_hint(error, command)
            .or_else(|| tip.map(|tip| format!("{tip}; see --help")))
            .unwrap_or_else(|| "see --help".to_owned()),
        _ => {
            let usage_hint = || {
                let operand = missing_operand(command, usage?).unwrap_or("see --help");
                Some(format!("usage: {}; {operand}", usage?))
            };
            match tip
                .map(|tip| format!("{tip}; see --help"))
                .or_else(usage_hint)
            {
                Some(hint) => hint,
                None => "see --help".to_owned(),
            }
        }
    };
    Error::usage("read arguments", cause).hint(hint)
}

/// The hint for an option that `command` does not have. Clap's `tip` is right only for an operand;
/// for an option, it may name an unrelated option.
fn unknown_option(unknown: &str, command: &Command, tip: Option<&str>) -> String {
    let word = plain(unknown);
    if word == "--record-io" {
        return RECORDS_NOTHING.to_owned();
    }
    if let Some(meant) = synonym::of_option(&word, command) {
        return format!("{meant}; see --help");
    }
    if let Some(near) = synonym::near_option(&word, command) {
        return format!("did you mean {near}? see --help");
    }
    let rest = word.strip_prefix('-').unwrap_or_default();
    if rest.starts_with(|letter: char| letter.is_ascii_digit()) && has_count(command) {
        return "-n K is the number of items, as in -n 5; see --help".to_owned();
    }
    match tip {
        _ if unknown.starts_with('-') && Path::new(unknown).exists() => {
            format!("--help lists all options; for the file write ./{unknown}")
        }
        _ if unknown.starts_with('-') && takes_expression(command) => {
            "--help lists all options; -- goes before an expression that begins with a minus"
                .to_owned()
        }
        _ if unknown.starts_with('-') => "--help lists all options".to_owned(),
        _ if let Some(meant) = synonym::of_operand(unknown, command) => {
            format!("{meant}; see --help")
        }
        Some(tip) => format!("{tip}; see --help"),
        None => "see --help".to_owned(),
    }
}

/// The hint for a value that an option does not have, or for one that is missing.
fn value_hint(error: &clap::Error, command: &Command) -> Option<String> {
    let text_of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let flag = plain(text_of(ContextKind::InvalidArg)?);
    let value = text_of(ContextKind::InvalidValue).unwrap_or_default();
    let known = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) => known.as_slice(),
        _ => &[],
    };
    let lower = value.to_ascii_lowercase();
    match (flag.as_str(), value, command.get_name()) {
        ("--schema", "", "info") => {
            Some("info prints columns and types without an option; see --help".to_owned())
        }
        ("--lines", number, _) if number.parse::<u64>().is_ok() => Some(format!(
            "-n {number} is a number of lines; --lines says that files are text; see --help"
        )),
        ("--to", "parquet", _) => {
            Some("Parquet needs a file: -o OUT.parquet; see --help".to_owned())
        }
        _ if known.contains(&lower) => Some(format!("write {flag} {lower}")),
        _ => None,
    }
}

/// Whether `-n` gives the number of items that a command takes.
pub fn has_count(command: &Command) -> bool {
    let is_count = |option: &Arg| {
        option.get_short() == Some('n') && matches!(option.get_id().as_str(), "count" | "records")
    };
    command.get_arguments().any(is_count)
}

/// Whether the first operand of a command is an expression.
fn takes_expression(command: &Command) -> bool {
    let first = command.get_positionals().next();
    let names = first.and_then(Arg::get_value_names).unwrap_or_default();
    names
        .iter()
        .any(|name| matches!(name.as_str(), "EXPR" | "HOW"))
}

/// The hint for a missing operand that may be in an option or on standard input.
fn missing_operand(command: &Command, usage: &str) -> Option<&'static str> {
    let is_filter = command.get_name() == "filter" && usage.contains("--where <EXPR> <EXPR>");
    if is_filter {
        return Some(
            "the condition is the first operand: outcore filter 'price > 100' sales.parquet",
        );
    }
    if command.get_name() == "split" && usage.contains("--parts") {
        return Some("--parts 3 writes 3 parts, --by-lines 100 parts of 100 lines or rows each");
    }
    let reads_stdin = command
        .get_arguments()
        .any(|arg| arg.get_long() == Some("from"));
    (reads_stdin && usage.contains("<IN>")).then_some("- is standard input, with --from csv")
}

/// The hint for a command that is not below `command`.
fn unknown_command(word: &str, command: &Command) -> String {
    // The root has the name of the program, which is no group of verbs.
    let group = match command.get_name() {
        "outcore" | "outcore-lab" => "",
        group => group,
    };
    if let Some(meant) = synonym::of_command(group, word) {
        return format!("{meant}; see --help");
    }
    if matches!(word, "-h" | "--help") {
        return "outcore --help lists all commands; outcore help sort shows the help of one"
            .to_owned();
    }
    match synonym::near_command(word, command) {
        Some(near) => format!("did you mean {near}? see --help"),
        None if command.get_name() == "outcore-lab" => {
            "--help lists the commands on drives; outcore --help lists those on data".to_owned()
        }
        None => "--help lists all commands".to_owned(),
    }
}

/// The error for a value that is not a number, for which clap only repeats the message of Rust's
/// parser.
fn not_a_number(error: &clap::Error) -> Option<Error> {
    use std::error::Error as _;
    let source = error.source()?;
    let wanted = match source
        .downcast_ref::<ParseIntError>()
        .map(ParseIntError::kind)
    {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "a whole number in range",
        Some(_) => "a whole number",
        None if source.is::<ParseFloatError>() => "a number",
        None => return None,
    };
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let flag = plain(text(ContextKind::InvalidArg)?);
    let value = text(ContextKind::InvalidValue)?;
    let wanted = match value.strip_prefix('-').map(str::parse::<u64>) {
        Some(Ok(_)) => "a whole number from 0 on",
        _ => wanted,
    };
    let cause = format!("`{value}` is not {wanted}, which {flag} needs");
    let share = value
        .strip_suffix('%')
        .and_then(|share| share.parse::<f64>().ok());
    let hint = match (flag.as_str(), share) {
        ("--alpha" | "--jaccard" | "--min-cos" | "--rate" | "--train", Some(percent)) => {
            format!("write {flag} {}", percent / 100.0)
        }
        ("--threads", _) => {
            "leave --threads out for all processors, or give a number from 1 to 4096".to_owned()
        }
        ("--substring", _) => {
            "--substring 50 is the length of passages, and --of COLUMN the column of texts"
                .to_owned()
        }
        _ => "see --help for the arguments and their order".to_owned(),
    };
    Some(Error::usage("read arguments", cause).hint(hint))
}

/// An option without the names of its values, and an operand without brackets.
fn plain(option: &str) -> String {
    let option = option.trim_start_matches(['[', '<']);
    let option = option.trim_end_matches(['.', ']', '>']);
    let name = option.split([' ', '[', '=']).next();
    name.unwrap_or(option).to_owned()
}

/// The error for two options that cannot be given together, or for one that is given twice.
fn contradicts(error: &clap::Error) -> Option<Error> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let Some(ContextValue::String(one)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let others = match error.get(ContextKind::PriorArg)? {
        ContextValue::String(other) => plain(other),
        ContextValue::Strings(others) => {
            let others: Vec<String> = others.iter().map(|other| plain(other)).collect();
            others.join(" and ")
        }
        _ => return None,
    };
    let one = plain(one);
    let (cause, hint) = match one == others {
        true => (format!("{one} is given twice"), "give it once"),
        false => (
            format!("{one} cannot be used with {others}"),
            "leave one of them out",
        ),
    };
    Some(Error::usage("read arguments", cause).hint(hint))
}

/// The error for `--force` if the command could replace only the trace of `--record-io`, and that
/// is not requested.
fn replaces_nothing(error: &clap::Error) -> Option<Error> {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing,
        _ => return None,
    };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    if !is_missing || !matches!(&missing[..], [flag] if flag.starts_with("--record-io")) {
        return None;
    }
    let cause = "--force has nothing to replace: this command writes no file except a trace";
    Some(
        Error::usage("read arguments", cause)
            .hint("leave --force out, or name a trace with --record-io"),
    )
}
