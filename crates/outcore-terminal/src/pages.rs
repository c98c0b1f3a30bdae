//! Help for people: commands in groups, and examples before details.
//!
//! Contract: [`arranged`] changes only the order of the text in the definition of the flags, never
//! the definition itself. The first page lists every command in one group ([`Contents::groups`]).
//! The page of a command has, in this order, one sentence, examples, details, flags in groups, and
//! the rest of the closing text. Examples are the paragraphs of the closing text that have a
//! heading followed only by indented lines, or those of [`Contents::examples`]. The page of a
//! command with subcommands lists the subcommands as the first page lists commands, in groups if
//! there are many ([`Contents::groups_below`]). All functions are pure.

use clap::Command;

/// Columns of pages that list commands.
pub(crate) const WIDTH: usize = 100;

/// Groups of flags that most commands have.
const SHARED: [&str; 5] = ["Messages", "Plan", "Recording", "Resources", "Volume"];

/// Commands in groups: the purpose of each group, and the names.
pub type Groups<'a> = [(&'a str, &'a [&'a str])];

/// Groups and examples for the pages of a command, if they are not in its definition.
#[derive(Debug, Clone, Copy)]
pub struct Contents {
    /// The commands, in groups.
    pub groups: &'static Groups<'static>,
    /// The groups of a command with many subcommands, by its name.
    pub groups_below: &'static [(&'static str, &'static Groups<'static>)],
    /// Examples of commands without examples in their definition, by their names below the root.
    pub examples: &'static [(&'static str, &'static str)],
}

impl Contents {
    fn examples_of(&self, path: &str) -> Option<String> {
        let mut examples = self.examples.iter();
        let (_, lines) = examples.find(|(known, _)| *known == path)?;
        Some(format!("Examples:\n  {}", lines.replace('\n', "\n  ")))
    }
}

/// The definition, with its help arranged. `root` must not be built yet.
pub fn arranged(root: Command, contents: Contents) -> Command {
    let root = root.mut_subcommands(|command| {
        let path = command.get_name().to_string();
        arrange(command, &path, contents)
    });
    let name = root.get_name().to_string();
    let page = page_of_groups(&root, &name, contents.groups);
    // Once the definition is built, the flags of all commands are on the pages of subcommands.
    let mut built = root.clone();
    built.build();
    let root = root.mut_subcommands(|command| {
        let whole = built.find_subcommand(command.get_name());
        match whole.filter(|_| command.has_subcommands()) {
            Some(whole) => {
                let page = page_below(whole, &name, contents);
                command.override_help(page)
            }
            None => command,
        }
    });
    root.override_help(page)
}

/// The page of a command, and those of its subcommands.
fn arrange(command: Command, path: &str, contents: Contents) -> Command {
    let command = command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        arrange(below, &path, contents)
    });
    let about = text_of(command.get_about());
    let long = text_of(command.get_long_about());
    let details = long.strip_prefix(about.as_str()).unwrap_or(&long).trim();
    let Closing { examples, rest } = closing_of(&command, path, contents);
    let mut page = vec![about.as_str()];
    page.extend(examples.iter().map(String::as_str));
    page.extend((!details.is_empty()).then_some(details));
    let page = page.join("\n\n");
    // Only the long page shows the flags that most commands share.
    let command = command.mut_args(|arg| {
        let heading = arg.get_help_heading();
        let is_shared = heading.is_some_and(|heading| SHARED.contains(&heading));
        arg.hide_short_help(is_shared)
    });
    command.long_about(page).after_long_help(rest.join("\n\n"))
}

/// The closing text of a command, in paragraphs.
pub(crate) struct Closing {
    /// Each a heading and indented lines.
    pub(crate) examples: Vec<String>,
    /// Each in one line.
    pub(crate) rest: Vec<String>,
}

/// The examples of a command whose name below the root is `path`, and the rest of the text that
/// closes its page.
pub(crate) fn closing_of(command: &Command, path: &str, contents: Contents) -> Closing {
    let closing = text_of(command.get_after_long_help());
    let (examples, rest): (Vec<&str>, Vec<&str>) = closing
        .split("\n\n")
        .filter(|paragraph| !paragraph.is_empty())
        .partition(|paragraph| is_examples(paragraph));
    let mut examples: Vec<String> = examples.into_iter().map(str::to_string).collect();
    if examples.is_empty() {
        examples.extend(contents.examples_of(path));
    }
    Closing {
        examples,
        rest: rest.into_iter().map(flowing).collect(),
    }
}

/// A paragraph in one line, which is wrapped when it is printed.
fn flowing(paragraph: &str) -> String {
    let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
    lines.join(" ")
}

pub(crate) fn text_of(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// Whether a paragraph is a heading followed by indented lines only.
pub(crate) fn is_examples(paragraph: &str) -> bool {
    let mut lines = paragraph.lines();
    let is_heading = lines.next().is_some_and(|line| line.ends_with(':'));
    is_heading && lines.clone().next().is_some() && lines.all(|line| line.starts_with("  "))
}

/// The page of a command with subcommands, which are in one group by default.
fn page_below(command: &Command, root: &str, contents: Contents) -> String {
    let name = command.get_name();
    let path = format!("{root} {name}");
    let mut grouped = contents.groups_below.iter();
    if let Some((_, groups)) = grouped.find(|(known, _)| *known == name) {
        return page_of_groups(command, &path, groups);
    }
    let shown = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let names = shown.map(Command::get_name);
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    page_of_groups(command, &path, &[("Commands", &names)])
}

/// The page of the command `path`: its purpose, examples, subcommands in groups, and flags.
fn page_of_groups(command: &Command, path: &str, groups: &Groups<'_>) -> String {
    // Its flags, without the list of commands, which has no groups.
    let flags = command
        .clone()
        .mut_subcommands(|command| command.hide(true))
        .help_template("{all-args}")
        .render_long_help()
        .to_string()
        // The short flag prints the same page.
        .replace(" (see a summary with '-h')", "");
    let about = text_of(command.get_long_about().or(command.get_about()));
    let closing = text_of(command.get_after_long_help());
    let (examples, closing): (Vec<&str>, Vec<&str>) = closing
        .split("\n\n")
        .filter(|paragraph| !paragraph.is_empty())
        .partition(|paragraph| is_examples(paragraph));
    let head: Vec<String> = about.split("\n\n").chain(examples).map(wrapped).collect();
    let head = head.join("\n\n");
    let mut page =
        format!("{head}\n\nUsage: {path} [OPTIONS] <COMMAND>\n       {path} <COMMAND> --help\n");
    let names = groups.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    for (group, names) in groups {
        page.push_str(&format!("\n{group}:\n"));
        for name in *names {
            let about = match command.find_subcommand(name) {
                Some(command) => text_of(command.get_about()),
                None if *name == "help" => "Print the help of a command".to_string(),
                // A build without tables has no verbs on them.
                None => continue,
            };
            page.push_str(&format!("  {name:<width$}  {about}\n"));
        }
    }
    page.push_str(&format!("\n{}\n", flags.trim_end()));
    for paragraph in closing.into_iter().map(wrapped) {
        page.push_str(&format!("\n{paragraph}\n"));
    }
    page
}

/// A paragraph in lines of at most [`WIDTH`] characters; examples stay unchanged.
fn wrapped(paragraph: &str) -> String {
    if is_examples(paragraph) {
        return paragraph.to_string();
    }
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.join("\n")
}
