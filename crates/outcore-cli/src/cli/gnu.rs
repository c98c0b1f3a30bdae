//! Translates the command line of GNU `sort` to the one that the flags of `sort` define.
//!
//! Contract: [`read`] takes the words of a command. It returns them unchanged unless they call
//! `sort`, as `outcore sort` or by the name of the program. For `sort` it returns every option in
//! the form of the definition, then `--`, then the operands. It translates the forms that only GNU
//! has:
//! - abbreviated long options (GNU's own come first);
//! - `+POS1 [-POS2]`, `-y`, and words for `--sort` and `--check`;
//! - options that may be repeated, and those that must then agree;
//! - `-k` and `--key` in one order.
//!
//! The definition tells which options take a value, so a value is never taken for an option. `-h`
//! has GNU's meaning, except in an `outcore sort` that has nothing to sort: without operands and
//! with a terminal as its input it prints help. An unknown option is passed on unchanged. All
//! functions are pure, except that they read two environment variables that POSIX defines for
//! `sort`.

mod names;

use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::vec::IntoIter;

use clap::{Arg, ArgAction, Args, CommandFactory, ValueHint};
use outcore::{Error, Result};
use outcore_front::text::gnu::of_old_form;

use outcore_terminal::common::Common;

use super::Cli;
use names::{
    CHECKS, EQUAL, LONGS, VERSION, WORDS, check_batch_size, joined, joined_to, name_of, one_of,
};
use outcore_verbs::option::lines::parse_buffer_bytes;

const READ: &str = "read arguments";
const NAME: &str = "sort";
/// The option that lists the keys in the old form, by their positions among all keys.
const OLD_KEYS: &str = "old_keys";
const HINT: &str = "see --help";
/// The versions of POSIX without `+POS1 -POS2`: the second, and later ones up to the third.
const NEW_KEYS_ONLY: std::ops::Range<u32> = 200_112..200_809;

/// The result of reading a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Words for the definition of the flags.
    Words(Vec<OsString>),
    /// A request for the version of `sort`.
    Version,
}

/// Whether the program was called by the name of `sort`.
pub(crate) fn is_called_sort(words: &[OsString]) -> bool {
    let name = words.first().and_then(|name| Path::new(name).file_name());
    name.is_some_and(|name| name == NAME)
}

/// The definition that a command line needs: that of the command that it calls, or of all commands
/// if it calls none.
pub(crate) fn definition_for(words: &[OsString]) -> clap::Command {
    let name = match is_called_sort(words) {
        true => Some(OsStr::new(NAME)),
        false => position_of_command(words).map(|at| words[at].as_os_str()),
    };
    name.and_then(Cli::with_only).unwrap_or_else(Cli::command)
}

/// Reads a command line; see the module. `definition` is the one that [`definition_for`] returns
/// for it. A caller that parses the result should reuse it: the flags of `sort` take time to build.
///
/// # Errors
/// Usage, in GNU's words.
pub(crate) fn read(words: Vec<OsString>, definition: &mut clap::Command) -> Result<Read> {
    let is_gnu = is_called_sort(&words);
    if !is_gnu && !words.iter().any(|word| word == NAME) {
        return Ok(Read::Words(words));
    }
    let at = match is_gnu {
        true => 1,
        false => match position_of_command(&words) {
            Some(at) if words[at] == NAME => at + 1,
            _ => return Ok(Read::Words(words)),
        },
    };
    // Without any flag on the line, the definition is not needed.
    let is_name = |word: &OsString| !matches!(word.as_bytes().first(), Some(b'-' | b'+'));
    if !is_gnu && words[at..].iter().all(is_name) {
        return Ok(Read::Words(words));
    }
    definition.build();
    let Some(sort) = definition.find_subcommand(NAME) else {
        return Ok(Read::Words(words));
    };
    let mut front = words;
    let rest = front.split_off(at);
    if is_gnu {
        front.push(NAME.into());
    }
    let mut line = Line::new(sort, is_gnu);
    if line.scan(rest.into_iter().peekable())? == Seen::Version {
        return Ok(Read::Version);
    }
    line.settle()?;
    if line.has_h && !is_gnu && line.operands.is_empty() && !has_piped_input() {
        line.items.insert(0, Item::Unknown("-h".into()));
    }
    front.extend(line.into_words());
    Ok(Read::Words(front))
}

/// The position of the subcommand, after the flags of every command.
pub(crate) fn position_of_command(words: &[OsString]) -> Option<usize> {
    let root = Common::augment_args(clap::Command::new(""));
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(long) = word.as_bytes().strip_prefix(b"--") else {
            match word.as_bytes().first() {
                Some(b'-') => at += 1,
                _ => return Some(at),
            }
            continue;
        };
        let mut flags = root.get_arguments();
        let takes_value = flags.any(|flag| {
            let is_it = flag.get_long().is_some_and(|name| name.as_bytes() == long);
            is_it && flag.get_action().takes_values()
        });
        at += 1 + usize::from(takes_value);
    }
    None
}

/// Whether the whole line has been read.
#[derive(PartialEq, Eq)]
enum Seen {
    All,
    Version,
}

/// An option, by its name in the definition, or a word that is not an option.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    Flag(String),
    Value(String, OsString),
    /// `-k` or `--key`.
    Key(OsString, KeyForm),
    Unknown(OsString),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyForm {
    Short,
    Long,
}

/// A command line of `sort` during the translation.
struct Line<'a> {
    sort: &'a clap::Command,
    is_gnu: bool,
    items: Vec<Item>,
    operands: Vec<OsString>,
    /// `c` or `C`.
    check: Option<char>,
    /// Whether `-h` was read.
    has_h: bool,
}

/// Whether standard input is a pipe, a file or a socket, so that a sort without operands has
/// something to read.
fn has_piped_input() -> bool {
    use rustix::fs::FileType;
    let facts = rustix::fs::fstat(std::io::stdin().as_fd());
    let kind = facts.map(|facts| FileType::from_raw_mode(facts.st_mode));
    matches!(
        kind,
        Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket)
    )
}

fn wrong(cause: impl Into<String>) -> Error {
    Error::usage(READ, cause).hint(HINT)
}

impl<'a> Line<'a> {
    fn new(sort: &'a clap::Command, is_gnu: bool) -> Self {
        Line {
            sort,
            is_gnu,
            items: Vec::new(),
            operands: Vec::new(),
            check: None,
            has_h: false,
        }
    }

    fn scan(&mut self, mut words: Peekable<IntoIter<OsString>>) -> Result<Seen> {
        let is_posix = std::env::var_os("POSIXLY_CORRECT").is_some();
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                break;
            }
            if is_posix && !self.operands.is_empty() {
                self.operands.push(word);
                break;
            }
            if let Some(long) = bytes.strip_prefix(b"--") {
                if self.long(&word, long, &mut words)? == Seen::Version {
                    return Ok(Seen::Version);
                }
            } else if bytes.len() > 1 && bytes[0] == b'-' {
                self.shorts(&word, &mut words)?;
            } else {
                self.operand(word, is_posix, &mut words)?;
            }
        }
        self.operands.extend(words);
        Ok(Seen::All)
    }

    /// `--name`, `--name=value`, `--name value`.
    fn long(
        &mut self,
        word: &OsStr,
        long: &[u8],
        words: &mut Peekable<IntoIter<OsString>>,
    ) -> Result<Seen> {
        let (name, value) = match long.iter().position(|byte| *byte == b'=') {
            Some(at) => (&long[..at], Some(&long[at + 1..])),
            None => (long, None),
        };
        let Some((id, flag)) = self.find_long(name)? else {
            if self.is_gnu {
                let name = String::from_utf8_lossy(name);
                return Err(wrong(format!("unrecognized option '--{name}'")));
            }
            self.items.push(Item::Unknown(word.to_os_string()));
            return Ok(Seen::All);
        };
        if id == VERSION {
            return Ok(Seen::Version);
        }
        let said = || flag.and_then(Arg::get_long).unwrap_or_default().to_string();
        let value = value.map(|value| OsStr::from_bytes(value).to_os_string());
        let takes_value = flag.is_some_and(|flag| flag.get_action().takes_values());
        match (takes_value, value) {
            _ if id == "check" && word.as_bytes().len() == 2 + name.len() => self.set_check('c')?,
            (true, Some(value)) => self.value(&id, value, KeyForm::Long)?,
            (true, None) if flag.is_some_and(Arg::is_require_equals_set) => self.flag(id),
            (true, None) => {
                let missing = || wrong(format!("option '--{}' requires an argument", said()));
                let value = words.next().ok_or_else(missing)?;
                self.check_file_name(flag, &value)?;
                self.value(&id, value, KeyForm::Long)?;
            }
            (false, None) => self.flag(id),
            (false, Some(_)) => {
                return Err(wrong(format!(
                    "option '--{}' doesn't allow an argument",
                    said()
                )));
            }
        }
        Ok(Seen::All)
    }

    /// The meaning of a long name: itself, or the beginning of a name of GNU or of outcore.
    fn find_long(&self, name: &[u8]) -> Result<Option<(String, Option<&'a Arg>)>> {
        let ours = || {
            let flags = self.sort.get_arguments();
            flags.filter_map(|flag| Some((flag.get_long()?, flag)))
        };
        let by_id = |id: &str| self.sort.get_arguments().find(|flag| flag.get_id() == id);
        if let Some((_, id)) = LONGS.iter().find(|(long, _)| long.as_bytes() == name) {
            return Ok(Some(((*id).to_string(), by_id(id))));
        }
        if let Some((_, flag)) = ours().find(|(long, _)| long.as_bytes() == name) {
            return Ok(Some((flag.get_id().to_string(), Some(flag))));
        }
        let begins = |long: &&str| long.as_bytes().starts_with(name) && !name.is_empty();
        let ambiguous = |found: &[&str]| {
            let found: Vec<String> = found.iter().map(|long| format!("'--{long}'")).collect();
            let (name, found) = (String::from_utf8_lossy(name), found.join(" "));
            wrong(format!(
                "option '--{name}' is ambiguous; possibilities: {found}"
            ))
        };
        let gnu: Vec<&(&str, &str)> = LONGS.iter().filter(|(long, _)| begins(long)).collect();
        match gnu.as_slice() {
            [(_, id)] => return Ok(Some(((*id).to_string(), by_id(id)))),
            [] => {}
            several => {
                let several: Vec<&str> = several.iter().map(|(long, _)| *long).collect();
                return Err(ambiguous(&several));
            }
        }
        let ours: Vec<(&str, &Arg)> = ours().filter(|(long, _)| begins(long)).collect();
        match ours.as_slice() {
            [(_, flag)] => Ok(Some((flag.get_id().to_string(), Some(flag)))),
            [] => Ok(None),
            several => {
                let several: Vec<&str> = several.iter().map(|(long, _)| *long).collect();
                Err(ambiguous(&several))
            }
        }
    }

    /// `-abc`, `-kVALUE`, `-k VALUE`.
    fn shorts(&mut self, word: &OsStr, words: &mut Peekable<IntoIter<OsString>>) -> Result<()> {
        let letters = &word.as_bytes()[1..];
        for (at, letter) in letters.iter().enumerate() {
            let letter = char::from(*letter);
            let rest = &letters[at + 1..];
            match letter {
                'c' | 'C' => {
                    self.set_check(letter)?;
                    continue;
                }
                'y' => {
                    // Another system's sort takes a size here, so the digits that follow belong to
                    // the option.
                    let is_number =
                        |next: &OsString| next.as_bytes().iter().all(u8::is_ascii_digit);
                    if rest.is_empty() && words.peek().is_none() {
                        return Err(wrong("option requires an argument -- 'y'"));
                    }
                    if rest.is_empty() {
                        words.next_if(is_number);
                    }
                    return Ok(());
                }
                'h' => {
                    self.flag("human_numeric_sort".to_string());
                    self.has_h = true;
                    continue;
                }
                _ => {}
            }
            let mut flags = self.sort.get_arguments();
            let Some(flag) = flags.find(|flag| flag.get_short() == Some(letter)) else {
                if self.is_gnu {
                    return Err(wrong(format!("invalid option -- '{letter}'")));
                }
                self.items.push(Item::Unknown(word.to_os_string()));
                return Ok(());
            };
            let id = flag.get_id().to_string();
            if !flag.get_action().takes_values() {
                self.flag(id);
                continue;
            }
            let missing = || wrong(format!("option requires an argument -- '{letter}'"));
            let value = match rest {
                [] => {
                    let value = words.next().ok_or_else(missing)?;
                    self.check_file_name(Some(flag), &value)?;
                    value
                }
                rest => OsStr::from_bytes(rest).to_os_string(),
            };
            return self.value(&id, value, KeyForm::Short);
        }
        Ok(())
    }

    /// A file, or a key in the old form.
    fn operand(
        &mut self,
        word: OsString,
        is_posix: bool,
        words: &mut Peekable<IntoIter<OsString>>,
    ) -> Result<()> {
        let is_end = |next: &OsString| matches!(next.as_bytes(), [b'-', digit, ..] if digit.is_ascii_digit());
        let Some(start) = word.to_str().filter(|text| text.starts_with('+')) else {
            self.operands.push(word);
            return Ok(());
        };
        let end = words.peek().filter(|next| is_end(next));
        let end = end.map(|next| next.to_string_lossy().into_owned());
        let version = std::env::var("_POSIX2_VERSION").ok();
        let version = version.and_then(|version| version.parse::<u32>().ok());
        let is_new_only = version.is_some_and(|version| NEW_KEYS_ONLY.contains(&version));
        let is_old = !is_new_only || (end.is_some() && !is_posix);
        match is_old
            .then(|| of_old_form(start, end.as_deref()))
            .transpose()?
            .flatten()
        {
            Some(key) => {
                let keys = self.items.iter();
                let keys = keys.filter(|item| matches!(item, Item::Key(..)));
                let place = keys.count().to_string();
                self.items
                    .push(Item::Value(OLD_KEYS.to_owned(), place.into()));
                self.items.push(Item::Key(key.into(), KeyForm::Short));
                if end.is_some() {
                    words.next();
                }
            }
            None => self.operands.push(word),
        }
        Ok(())
    }

    /// Fails for an option in place of the name of a file or directory, as every other command of
    /// outcore does; GNU's `sort` takes it for the name.
    fn check_file_name(&self, flag: Option<&Arg>, value: &OsStr) -> Result<()> {
        let is_option = value.as_bytes().starts_with(b"--") && value.len() > 2;
        let hint = flag.map_or(ValueHint::Unknown, Arg::get_value_hint);
        let is_name = matches!(hint, ValueHint::FilePath | ValueHint::DirPath);
        let Some(flag) = flag.filter(|_| is_option && is_name && !self.is_gnu) else {
            return Ok(());
        };
        let (flag, value) = (
            format!("--{}", flag.get_long().unwrap_or_default()),
            value.to_string_lossy(),
        );
        let cause = format!("{flag} needs a name, but the option {value} follows");
        let hint = format!("give the name; for a file called {value} write {flag}=./{value}");
        Err(Error::usage(READ, cause).hint(hint))
    }

    fn flag(&mut self, id: String) {
        let flag = Item::Flag(id);
        if !self.items.contains(&flag) {
            self.items.push(flag);
        }
    }

    fn set_check(&mut self, how: char) -> Result<()> {
        match self.check.replace(how) {
            Some(before) if before != how => Err(wrong("options '-cC' are incompatible")),
            _ => Ok(()),
        }
    }

    fn value(&mut self, id: &str, value: OsString, form: KeyForm) -> Result<()> {
        let text = value.to_string_lossy().into_owned();
        match id {
            "line_keys" | "keys" => {
                self.items.push(Item::Key(value, form));
                return Ok(());
            }
            "word" => {
                let (_, id) = one_of(&WORDS, &text, "--sort")?;
                self.flag((*id).to_string());
                return Ok(());
            }
            "check" => {
                let (_, how) = one_of(&CHECKS, &text, "--check")?;
                return self.set_check(*how);
            }
            "batch_count" => check_batch_size(&text)?,
            "buffer_bytes" => {
                parse_buffer_bytes(&text)?;
            }
            // In all other commands of outcore, this text means a tab.
            "separator" if self.is_gnu && text == "\\t" => {
                return Err(wrong("multi-character tab '\\t'"));
            }
            "parallel" => return self.parallel(&text),
            _ => {}
        }
        let is_it = |item: &&mut Item| matches!(item, Item::Value(known, _) if known == id);
        let takes_many = self
            .sort
            .get_arguments()
            .any(|flag| flag.get_id() == id && matches!(flag.get_action(), ArgAction::Append));
        let known = self.items.iter_mut().find(is_it).filter(|_| !takes_many);
        let Some(Item::Value(_, known)) = known else {
            self.items.push(Item::Value(id.to_string(), value));
            return Ok(());
        };
        if let Some((_, cause)) = EQUAL.iter().find(|(name, _)| *name == id)
            && *known != value
        {
            return Err(wrong(*cause));
        }
        // The largest of several sizes; for other options, the last value.
        let size = |text: &OsStr| parse_buffer_bytes(&text.to_string_lossy()).ok();
        if id != "buffer_bytes" || size(&value) >= size(known) {
            *known = value;
        }
        Ok(())
    }

    /// As many threads as requested, but no more than there are processors.
    fn parallel(&mut self, text: &str) -> Result<()> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits {
            return Err(wrong(format!("invalid --parallel argument '{text}'")));
        }
        let count = text.parse::<usize>().unwrap_or(usize::MAX);
        if count == 0 {
            return Err(wrong("number in parallel must be nonzero"));
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = count.min(processors).to_string();
        self.items
            .retain(|item| !matches!(item, Item::Value(id, _) if id == "parallel"));
        self.items
            .push(Item::Value("parallel".to_string(), count.into()));
        Ok(())
    }

    /// Checks that need the whole line.
    fn settle(&mut self) -> Result<()> {
        let has = |wanted: &str| {
            self.items.iter().any(|item| match item {
                Item::Flag(id) | Item::Value(id, _) => id == wanted,
                _ => false,
            })
        };
        if let Some(how) = self.check
            && has("output")
        {
            let cause = format!("options '-{how}o' are incompatible");
            return Err(Error::usage(READ, cause).hint("--check only reads: leave -o out"));
        }
        if has("debug") && (self.check.is_some() || has("output")) {
            let letter = self.check.unwrap_or('o');
            return Err(wrong(format!(
                "options '-{letter} --debug' are incompatible"
            )));
        }
        if let Some(extra) = self.operands.first()
            && has("files0_from")
        {
            let cause = format!(
                "extra operand '{}': file operands cannot be combined with --files0-from",
                extra.to_string_lossy()
            );
            return Err(wrong(cause));
        }
        let is_short = |item: &Item| matches!(item, Item::Key(_, KeyForm::Short));
        if self.is_gnu || self.items.iter().any(is_short) {
            // In this case, all keys are keys of lines, in the order of the command line.
            for item in &mut self.items {
                if let Item::Key(_, form) = item {
                    *form = KeyForm::Short;
                }
            }
        }
        Ok(())
    }

    fn into_words(self) -> Vec<OsString> {
        let by_id = |id: &str| self.sort.get_arguments().find(|flag| flag.get_id() == id);
        let mut words = Vec::new();
        for item in &self.items {
            match item {
                Item::Unknown(word) => words.push(word.clone()),
                Item::Key(key, KeyForm::Short) => words.extend(["-k".into(), key.clone()]),
                Item::Key(key, KeyForm::Long) => words.push(joined("--key=", key)),
                Item::Flag(id) => words.extend(by_id(id).map(|flag| name_of(flag, ""))),
                Item::Value(id, value) => {
                    words.extend(by_id(id).map(|flag| joined_to(name_of(flag, "="), value)));
                }
            }
        }
        words.extend(self.check.map(|how| format!("-{how}").into()));
        words.push("--".into());
        words.extend(self.operands);
        words
    }
}

#[cfg(test)]
mod tests;
