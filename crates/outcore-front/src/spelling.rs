//! Translates options in texts into the caller's notation.
//!
//! Contract: errors of the engine and of this crate use the command's options (`--force`,
//! `--memory 12MiB`). [`Spelling::error`] returns the same error with the caller's options
//! (`force=True`, `memory="12MiB"`); kind, place and everything else are unchanged. Texts that are
//! not options of the table stay unchanged. Pure.
//!
//! A word after an option counts as its value only if it has a digit or an upper-case letter, or is
//! one of the known values of the option (`--io buffered`).

mod commands;

use outcore::Error;

use commands::in_python;

/// A notation of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `--force`, `--memory 12MiB`.
    Command,
    /// `force=True`, `memory="12MiB"`.
    Python,
}

/// The value of an option.
#[derive(Clone, Copy)]
enum Takes {
    /// None: it is on or off.
    Nothing,
    /// A number or a name, without quotes.
    Unquoted,
    /// Text in quotes.
    Text,
    /// Several values, each preceded by the option.
    Several,
    /// Two numbers with a colon between them, a tuple in Python.
    Pair,
}

/// Options of the command and their names in Python, if these differ or values follow. All other
/// options have the same name in Python.
const OPTIONS: [(&str, &str, Takes); 42] = [
    ("--field-separator", "separator", Takes::Text),
    ("--scratch-limit", "scratch_limit", Takes::Text),
    ("--delete-input", "delete_input", Takes::Nothing),
    ("--descending", "descending", Takes::Nothing),
    ("--record-io", "record_io", Takes::Text),
    ("--relabel", "relabel", Takes::Nothing),
    ("--threads", "threads", Takes::Unquoted),
    ("--explain", "explain", Takes::Nothing),
    ("--on-error", "on_error", Takes::Text),
    ("--replace", "replace", Takes::Nothing),
    ("--against", "against", Takes::Text),
    ("--columns", "columns", Takes::Text),
    ("--skewed", "skewed", Takes::Nothing),
    ("--output", "dst", Takes::Text),
    ("--drives", "drives", Takes::Text),
    ("--memory", "memory", Takes::Text),
    ("--record", "record", Takes::Unquoted),
    ("--header", "header_lines", Takes::Unquoted),
    ("--stable", "stable", Takes::Nothing),
    ("--unique", "unique", Takes::Nothing),
    ("--volume", "volume", Takes::Text),
    ("--schema", "schema", Takes::Text),
    ("--suffix", "suffix", Takes::Text),
    ("--ascii", "ascii", Takes::Nothing),
    ("--codec", "codec", Takes::Text),
    ("--drive", "drives", Takes::Several),
    ("--agg", "aggregates", Takes::Text),
    ("--add", "added", Takes::Text),
    ("--first", "first", Takes::Unquoted),
    ("--force", "force", Takes::Nothing),
    ("--dist", "dist", Takes::Text),
    ("--seed", "seed", Takes::Unquoted),
    ("--type", "dtype", Takes::Text),
    ("--from", "format", Takes::Text),
    ("--union", "union", Takes::Nothing),
    ("--asof", "asof", Takes::Text),
    ("--range", "range", Takes::Pair),
    ("--null", "null", Takes::Text),
    ("--how", "how", Takes::Text),
    ("--key", "key", Takes::Text),
    ("--by", "by", Takes::Text),
    ("--io", "io", Takes::Text),
];
/// Values that look like words.
const WORDS: [&str; 12] = [
    "inner",
    "right",
    "scale",
    "wrap",
    "auto",
    "direct",
    "buffered",
    "gensort",
    "uniform",
    "skip",
    "null",
    "drives.toml",
];
/// Longer texts that have no option, or spell an option in another form.
const PHRASES: [(&str, &str); 19] = [
    (
        "pass --lines to treat its bytes as lines",
        "pass lines=\"any\" to treat its bytes as lines",
    ),
    (
        "--columns SOURCE,TARGET",
        "columns=[\"SOURCE\", \"TARGET\"]",
    ),
    ("--schema NAME:TYPE,...", "schema=\"NAME:TYPE,...\""),
    (
        "pass the type of its items with --type",
        "leave lines=True out",
    ),
    ("a smaller count with -n", "a smaller count"),
    ("--no-header", "header=False"),
    ("--unordered", "ordered=False"),
    ("with --map or in the expression", "with map()"),
    (
        "sort lines with -t and -k",
        "sort lines with separator and key",
    ),
    ("use -k for", "use line_key= for"),
    ("see --help", "see help()"),
    ("use `-o -`", "use the command: outcore sort -o -"),
    (
        "--csv or --jsonl reads the lines as a table, and --csv -t ' ' --no-header fields between blanks as the columns 1, 2, ...",
        "outcore.convert(src, csv=True) reads the lines as a table, and with separator=\" \" and header=False fields between blanks as the columns 1, 2, ...",
    ),
    (
        "compute on it with another command of `outcore graph`",
        "compute on it with a method of that object",
    ),
    (
        "`outcore.verify(..., --lines)` counts",
        "`outcore.open(src).count()` counts",
    ),
    (
        "`outcore.reduce(\"count\")` counts",
        "`outcore.open(src).count()` counts",
    ),
    (
        "`outcore.merge(...)` merges and `outcore sort -c` checks",
        "`outcore.open(src).merge()` merges and `outcore.open(src).check()` checks",
    ),
    (". Default: standard output", ""),
    ("; -t names another separator", "; separator= names another"),
];

impl Spelling {
    /// This error with the caller's options in its cause and hint.
    pub fn error(self, error: &Error) -> Error {
        if self == Spelling::Command {
            return error.clone();
        }
        let cause = self.text(error.cause());
        let hint = error.next_step().map(|hint| self.text(hint));
        let mut said = if cause == error.cause() {
            // Only a clone preserves the number of a system error, whose text contains no options.
            error.clone()
        } else {
            let mut said = Error::new(error.kind(), error.operation(), cause);
            if let Some(drive) = error.drive_name() {
                said = said.drive(drive);
            }
            if let Some(path) = error.file_path() {
                said = said.path(path);
            }
            if let Some(offset_bytes) = error.offset_bytes() {
                said = said.offset(offset_bytes);
            }
            said
        };
        if let Some(hint) = hint {
            said = said.hint(hint);
        }
        said
    }

    /// A text with the caller's options.
    pub fn text(self, text: &str) -> String {
        if self == Spelling::Command {
            return text.to_string();
        }
        let mut text = in_python(&with_invalid_value(text));
        for (said, meant) in PHRASES {
            text = text.replace(said, meant);
        }
        let text = with_long_names(text);
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find("--") {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let is_start = !out.ends_with(|c: char| c.is_alphanumeric() || c == '-');
            match option_at(rest).filter(|_| is_start) {
                Some(option) => rest = without_short(say(option, rest, &mut out)),
                None => {
                    let name = if is_start { flag_at(rest) } else { "" };
                    let known = name.replace('-', "_");
                    let flag = &rest[..2 + name.len()];
                    rest = match name {
                        "" => {
                            out.push_str("--");
                            &rest[2..]
                        }
                        _ => without_short(say((flag, &known, Takes::Text), rest, &mut out)),
                    };
                }
            }
        }
        out.push_str(rest);
        out
    }
}

/// Replaces the parser's sentence about a value, `invalid value '0' for '--bins <N>': ...`, by one
/// with the argument, `bins=0 ...`.
fn with_invalid_value(text: &str) -> String {
    invalid_value(text).unwrap_or_else(|| text.to_string())
}

fn invalid_value(text: &str) -> Option<String> {
    let (before, behind) = text.split_once("invalid value '")?;
    let (value, behind) = behind.split_once("' for '--")?;
    let (flag, why) = behind.split_once('\'')?;
    let flag = flag.split([' ', '=']).next()?;
    let name = match option_at(&format!("--{flag}")) {
        Some((_, python, _)) => python.to_owned(),
        None => flag.replace('-', "_"),
    };
    let value = match value.parse::<f64>() {
        Ok(_) => value.to_owned(),
        Err(_) => format!("{value:?}"),
    };
    let why = why.strip_prefix(':').unwrap_or(why).trim_start();
    let bounds = why
        .split_once(" is not in ")
        .and_then(|(_, range)| range.split_once("..="));
    let known = why
        .strip_prefix("[possible values: ")
        .and_then(|values| values.split_once(']'));
    Some(match (bounds, known) {
        (Some((first, last)), _) => {
            format!("{before}{name}={value} is not between {first} and {last}")
        }
        (None, Some((values, rest))) => {
            format!("{before}{name}={value} is not one of {values}{rest}")
        }
        (None, None) => format!("{before}{name}={value} is invalid: {why}"),
    })
}

/// Replaces `-k` and `-o` by the arguments, outside commands.
fn with_long_names(text: String) -> String {
    if text.contains("outcore ") || !text.contains(" -") {
        return text;
    }
    let spelled = text.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ';', '.', ':']);
        let name = match bare {
            "-k" => "k=",
            "-o" => "dst=",
            _ => return word.to_string(),
        };
        format!("{name}{}", &word[bare.len()..])
    });
    // A value in quotes follows its argument at once.
    let spelled = spelled.collect::<Vec<_>>().join(" ");
    spelled.replace("dst= '", "dst='").replace("k= '", "k='")
}

type Known<'a> = (&'a str, &'a str, Takes);

/// The option at the start of `text`.
fn option_at(text: &str) -> Option<Known<'static>> {
    OPTIONS.into_iter().find(|(name, ..)| {
        text.strip_prefix(name)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
    })
}

/// The rest after the short form of an option, such as ` (-t)`.
fn without_short(rest: &str) -> &str {
    let short = rest.strip_prefix(" (-");
    let behind = short.and_then(|short| short.get(1..)?.strip_prefix(')'));
    behind.unwrap_or(rest)
}

/// The name of the flag at the start of `text`; empty if there is none.
fn flag_at(text: &str) -> &str {
    let text = &text[2..];
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '-');
    let name = text[..end.unwrap_or(text.len())].trim_end_matches('-');
    let is_flag = name.starts_with(|c: char| c.is_ascii_lowercase());
    if is_flag { name } else { "" }
}

/// Writes the option at the start of `text`, and its values. Returns the rest.
fn say<'a>((name, python, takes): Known<'_>, text: &'a str, out: &mut String) -> &'a str {
    let mut rest = &text[name.len()..];
    out.push_str(python);
    // A value after `=` is one of a few words.
    if let Some(word) = rest.strip_prefix('=') {
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, behind) = word.split_at(end.unwrap_or(word.len()));
        out.push_str(&format!("=\"{word}\""));
        return behind;
    }
    let value = match takes {
        Takes::Nothing => {
            out.push_str("=True");
            return rest;
        }
        _ => value_of(rest),
    };
    // The rest of the text says what is wrong with the value.
    if rest.starts_with(": unknown") {
        return rest;
    }
    out.push('=');
    let Some(first) = value else {
        return rest;
    };
    rest = &rest[1 + first.len()..];
    match takes {
        Takes::Text if first.starts_with('\'') => out.push_str(first),
        Takes::Text => out.push_str(&format!("\"{first}\"")),
        Takes::Unquoted | Takes::Nothing => out.push_str(first),
        Takes::Pair => out.push_str(&format!("({})", first.replace(':', ", "))),
        Takes::Several => {
            out.push_str(&format!("[{first}"));
            while let Some(next) = rest.strip_prefix(&format!(" {name}"))
                && let Some(value) = value_of(next)
            {
                out.push_str(&format!(", {value}"));
                rest = &next[1 + value.len()..];
            }
            out.push(']');
        }
    }
    rest
}

/// The value at the start of the text after an option, if there is one.
fn value_of(rest: &str) -> Option<&str> {
    let word = rest.strip_prefix(' ')?;
    let end = word
        .find([' ', '\n', ',', ';', ')', '`'])
        .unwrap_or(word.len());
    let more = if word[end..].starts_with(",...") {
        4
    } else {
        0
    };
    let word = match more {
        0 => word[..end].trim_end_matches('.'),
        _ => &word[..end + more],
    };
    let is_quoted = word.starts_with('\'') && word.ends_with('\'');
    let is_value =
        is_quoted || word.contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
    (is_value || WORDS.contains(&word)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_graphs_are_those_of_python() {
        for (command, python) in [
            (
                "`outcore verify --lines` counts lines, `outcore reduce count` counts records",
                "`outcore.open(src).count()` counts lines, `outcore.open(src).count()` counts records",
            ),
            (
                "describe it with `outcore graph info`, or compute on it with another command of \
                 `outcore graph`",
                "describe it with `outcore.graph.Graph(...)`, or compute on it with a method of \
                 that object",
            ),
        ] {
            assert_eq!(Spelling::Python.text(command), python);
        }
    }

    #[test]
    fn python_reads_its_own_arguments() {
        for (command, python) in [
            (
                "allow overwriting with --force",
                "allow overwriting with force=True",
            ),
            (
                "allow at least --memory 12.5MiB, or fewer --threads",
                "allow at least memory=\"12.5MiB\", or fewer threads=",
            ),
            (
                "raise --scratch-limit or --memory",
                "raise scratch_limit= or memory=",
            ),
            ("--key without --record", "key= without record="),
            (
                "would suit --type u32 (2,000 records), u64 (1,000 records); or give --record SIZE \
                 and --key OFFSET:LEN",
                "would suit dtype=\"u32\" (2,000 records), u64 (1,000 records); or give \
                 record=SIZE and key=\"OFFSET:LEN\"",
            ),
            (
                "name a directory on each drive: --drive DIR --drive DIR",
                "name a directory on each drive: drives=[DIR, DIR]",
            ),
            ("add a --drive", "add a drives="),
            (
                "write for example -o 'part-{part}.bin'",
                "write for example dst='part-{part}.bin'",
            ),
            (
                "number them with --relabel (--relabel=text, if the first ids are numbers)",
                "number them with relabel=True (relabel=\"text\", if the first ids are numbers)",
            ),
            ("give one: --range 0:100", "give one: range=(0, 100)"),
            (
                "name columns: --by NAME[:desc][:nulls-first],...",
                "name columns: by=\"NAME[:desc][:nulls-first],...\"",
            ),
            (
                "invalid value '0' for '--bins <N>': 0 is not in 1..=4294967295",
                "bins=0 is not between 1 and 4294967295",
            ),
            (
                "invalid value 'euclid' for '--metric <METRIC>' [possible values: l2, ip, cos]",
                "metric=\"euclid\" is not one of l2, ip, cos",
            ),
            (
                "invalid value 'x' for '--type <TYPE>': it is empty",
                "dtype=\"x\" is invalid: it is empty",
            ),
            ("--memory: unknown unit `abc`", "memory: unknown unit `abc`"),
            ("use --io auto or buffered", "use io=\"auto\" or buffered"),
            (
                "use them with `outcore gen gensort` and without --dist",
                "use them with `outcore.gen(\"gensort\")` and without dist=",
            ),
            ("--group-rows a--force --", "group_rows= a--force --"),
            ("--field-separator (-t) is", "separator= is"),
            ("leave --no-header out", "leave header=False out"),
            ("--key OFFSET:LEN.", "key=\"OFFSET:LEN\"."),
            (
                "let the name end in .gz or .zst, and leave --codec out",
                "let the name end in .gz or .zst, and leave codec= out",
            ),
            (
                "correct the line; --on-error null reads such texts as null",
                "correct the line; on_error=\"null\" reads such texts as null",
            ),
            (
                "name its type with --schema: 'a:text'",
                "name its type with schema=: 'a:text'",
            ),
            (
                "read it with --schema 'a:text'",
                "read it with schema='a:text'",
            ),
            (
                "choose one number of each record, for example x[0], with --map or in the expression",
                "choose one number of each record, for example x[0], with map()",
            ),
            (
                "choose -k between 1 and the number of rows",
                "choose k= between 1 and the number of rows",
            ),
            (
                "write it with `outcore sort --replace`, or name it with -o.",
                "write it with `outcore.sort(..., replace=True)`, or name it with dst=.",
            ),
            (
                "make one with `outcore volume create`",
                "make one with `outcore.Volume.create(...)`",
            ),
        ] {
            assert_eq!(Spelling::Python.text(command), python);
            assert_eq!(Spelling::Command.text(command), command);
        }
    }

    #[test]
    fn all_else_that_an_error_tells_stays() {
        let error = Error::usage("create output", "--replace, but it is none")
            .path("p")
            .drive("d")
            .offset(7)
            .hint("leave --replace out");
        let said = Spelling::Python.error(&error);
        assert_eq!(
            said.to_string(),
            "create output: replace=True, but it is none (drive d, p, at byte 7); leave \
             replace=True out"
        );
        assert_eq!(said.kind(), error.kind());
        let system = Error::errno("open", 17).hint("use --force");
        let said = Spelling::Python.error(&system);
        assert_eq!(said.raw_errno(), Some(17));
        assert_eq!(said.next_step(), Some("use force=True"));
    }
}
