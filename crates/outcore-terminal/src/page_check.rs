//! Finds faults in the pages of a command, for its tests.
//!
//! Contract: [`faults`] is empty if every command is in one group and every page begins with
//! examples, which are lines that the command accepts. Pure, except for the caller's reader of
//! lines.

use std::ffi::OsString;

use clap::Command;

use crate::pages::{Contents, Groups, WIDTH, arranged, is_examples, text_of};

/// Lines of examples on the page of a command with subcommands.
const EXAMPLES: std::ops::RangeInclusive<usize> = 2..=4;

/// Reads a command line; an error says why it is invalid.
pub type TakeLine<'a> = &'a dyn Fn(Vec<OsString>) -> Result<(), String>;

/// The faults in the pages of `root`, which must not be built yet.
pub fn faults(root: &Command, contents: Contents, take: TakeLine<'_>) -> Vec<String> {
    let mut check = Check {
        faults: Vec::new(),
        take,
    };
    check.groups(root, contents);
    let root = arranged(root.clone(), contents);
    for command in root.get_subcommands() {
        if command.has_subcommands() {
            check.list(&root, command);
        }
    }
    check.leaves(&root, "");
    check.faults
}

struct Check<'a> {
    faults: Vec<String>,
    take: TakeLine<'a>,
}

impl Check<'_> {
    fn must(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(fault());
        }
    }

    /// Checks that every command is in one group, and that groups contain no other names.
    fn groups(&mut self, root: &Command, contents: Contents) {
        let mut grouped = names_in(contents.groups);
        let mut defined: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
        defined.push("help");
        grouped.sort_unstable();
        defined.sort_unstable();
        let is_same = grouped == defined;
        self.must(is_same, || {
            format!("in groups: {grouped:?}; defined: {defined:?}")
        });
        for (name, groups) in contents.groups_below {
            for below in names_in(groups) {
                let command = root.find_subcommand(name);
                let is_there = command.is_some_and(|it| it.find_subcommand(below).is_some());
                self.must(is_there, || format!("there is no {name} {below}"));
            }
        }
    }

    /// Checks that the page of a command with subcommands has examples and lists each subcommand
    /// once.
    fn list(&mut self, root: &Command, command: &Command) {
        let name = command.get_name();
        let page = command.clone().render_long_help().to_string();
        let usage = format!("\nUsage: {} ", root.get_name());
        let (examples, listed) = page.split_once(&usage).unwrap_or_default();
        let examples = examples.split("\n\n").filter(|text| is_examples(text));
        let lines: Vec<&str> = examples.flat_map(|text| text.lines().skip(1)).collect();
        let is_short = EXAMPLES.contains(&lines.len());
        self.must(is_short, || format!("{name} has {} examples", lines.len()));
        lines.into_iter().for_each(|line| self.line(name, line));
        for below in command.get_subcommands() {
            let (below, is_hidden) = (below.get_name(), below.is_hide_set());
            let entries = listed.lines().filter(|line| {
                line.starts_with("  ") && line.split_whitespace().next() == Some(below)
            });
            let is_listed = entries.count() == usize::from(!is_hidden);
            self.must(is_listed, || format!("{name} does not list {below} once"));
        }
        self.must(listed.contains("--quiet"), || {
            format!("{name} does not have the flags of all")
        });
        self.must(!listed.contains("see a summary"), || {
            format!("{name} has a second page")
        });
    }

    /// Checks the pages of the other commands: one sentence, examples, and paragraphs that can be
    /// wrapped.
    fn leaves(&mut self, command: &Command, path: &str) {
        let below = command.get_subcommands();
        for below in below.filter(|below| !below.is_hide_set()) {
            let path = format!("{path} {}", below.get_name()).trim().to_string();
            match below.has_subcommands() {
                true => self.leaves(below, &path),
                false => self.leaf(below, &path),
            }
        }
    }

    fn leaf(&mut self, command: &Command, path: &str) {
        let page = text_of(command.get_long_about());
        let mut paragraphs = page.split("\n\n");
        let about = paragraphs.next().unwrap_or_default();
        let is_sentence = !about.contains('\n') && !about.ends_with('.');
        self.must(is_sentence, || format!("{path}: {about}"));
        let examples: Vec<&str> = paragraphs.take_while(|text| is_examples(text)).collect();
        self.must(!examples.is_empty(), || format!("{path} has no examples"));
        for line in examples.iter().flat_map(|text| text.lines().skip(1)) {
            self.must(line.len() <= WIDTH, || format!("{path}: {line} is long"));
            if line.contains("outcore ") {
                self.line(path, line);
            }
        }
        for paragraph in text_of(command.get_after_long_help()).split("\n\n") {
            self.must(!paragraph.contains('\n'), || format!("{path}: {paragraph}"));
        }
    }

    /// Checks a line: the part that starts with `outcore` is a command line.
    fn line(&mut self, path: &str, line: &str) {
        match words_of(line).map(self.take) {
            Some(Ok(())) => {}
            Some(Err(why)) => self.faults.push(format!("{path}: {line}: {why}")),
            None => self.faults.push(format!("{path}: {line}: not of outcore")),
        }
    }
}

fn names_in(groups: &Groups<'static>) -> Vec<&'static str> {
    let names = groups.iter().flat_map(|(_, names)| *names);
    names.copied().collect()
}

/// The words of the command in a line of an example, as a shell reads them.
fn words_of(line: &str) -> Option<Vec<OsString>> {
    let from = line.find("outcore ")?;
    // An explanation may follow after two spaces.
    let line = &line[..line[from..].find("  ").map_or(line.len(), |len| from + len)];
    let mut words = vec![String::new()];
    let (mut quote, mut is_open) = (None, false);
    for sign in line[from..].chars() {
        match (sign, quote) {
            ('\'' | '"', None) => (quote, is_open) = (Some(sign), true),
            (sign, Some(open)) if sign == open => quote = None,
            (' ', None) if is_open || words.last().is_some_and(|word| !word.is_empty()) => {
                words.push(String::new());
                is_open = false;
            }
            (' ', None) => {}
            ('|' | '>' | '#' | '&' | ';', None) => break,
            (sign, _) => {
                if let Some(word) = words.last_mut() {
                    word.push(sign);
                }
            }
        }
    }
    words.retain(|word| !word.is_empty());
    Some(words.into_iter().map(OsString::from).collect())
}
