//! Help as people read it: commands in groups, and examples before details.
//!
//! Contract: [`arranged`] changes the order of what the definition of the flags says, never what it
//! defines. The first page lists every command in one group ([`GROUPS`]). The page of a command
//! begins with one sentence, then its examples (the paragraphs of its closing text that begin with
//! a heading and have nothing but indented lines after it, or those of [`EXAMPLES`]), then details,
//! then flags in groups, then the rest of the closing text. That of a command with others below it
//! lists those as the first page does, in groups where they are many ([`GROUPS_BELOW`]). Pure.

use clap::Command;

/// Columns of pages that list commands.
const WIDTH: usize = 100;

/// Commands in groups: what they are for, and their names.
type Groups<'a> = [(&'a str, &'a [&'a str])];

/// The commands, in groups.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Files of lines, records or tables",
        &[
            "sort", "shuffle", "unique", "dedup", "group-by", "window", "join", "diff", "comm",
            "split", "head", "tail", "sample", "verify", "convert", "info", "gen",
        ],
    ),
    (
        "Expressions over records",
        &[
            "map",
            "filter",
            "zip",
            "flat-map",
            "enumerate",
            "windows",
            "reverse",
            "merge",
            "reduce",
            "scan",
            "histogram",
            "count-by",
            "top",
            "find",
            "partition",
            "gather",
            "lookup",
        ],
    ),
    ("Vectors", &["vector", "knn", "kmeans"]),
    (
        "Sorted views and datasets",
        &["view", "volume", "put", "get", "ls", "rm", "cp"],
    ),
    ("Graphs", &["graph"]),
    (
        "Drives and measurements",
        &["demo", "drives", "bench", "replay", "scratch"],
    ),
    ("Simulation", &["sim"]),
    (
        "The command itself",
        &["config", "completions", "man", "help"],
    ),
];

/// The commands below one that has many, in groups, by its name.
const GROUPS_BELOW: [(&str, &Groups<'_>); 1] = [(
    "graph",
    &[
        (
            "Making and checking graphs",
            &["convert", "info", "degrees", "verify", "export"],
        ),
        ("Components and paths", &["cc", "scc", "bfs", "sssp"]),
        ("Ranks", &["pagerank", "hits"]),
        (
            "Communities and dense parts",
            &["lp", "louvain", "triangles", "kcore"],
        ),
        ("Samples for training", &["sample", "walk"]),
    ],
)];

/// Groups of flags that most commands have.
const SHARED: [&str; 5] = ["Messages", "Plan", "Recording", "Resources", "Volume"];

/// Examples of commands whose definition has none, by their names below the root.
const EXAMPLES: [(&str, &str); 45] = [
    (
        "graph",
        "outcore graph convert edges.txt -o web.graph --relabel\n\
         outcore graph info web.graph\n\
         outcore graph cc web.graph -o components.npy\n\
         outcore graph pagerank web.graph -o ranks.npy --top 20",
    ),
    (
        "view",
        "outcore view build keys.bin -o keys.view --type u64 --memory 2GiB\n\
         outcore view cat keys.view --from-key 5000 --to-key 6000 | od -t u8\n\
         outcore view append keys.view more.bin\n\
         outcore view materialize keys.view -o sorted.bin",
    ),
    (
        "vector",
        "outcore vector convert sift_base.fvecs -o sift.fbin\n\
         outcore vector index sift.fbin -o sift.vindex\n\
         outcore vector pairs sift.fbin --max-l2 0 -o equal.npy",
    ),
    (
        "volume",
        "outcore volume create --volume drives.toml\n\
         outcore volume status --volume drives.toml\n\
         outcore volume scrub --volume drives.toml",
    ),
    (
        "drives",
        "outcore drives probe /mnt/nvme0 /mnt/nvme1 -o drives.toml\n\
         outcore sort keys.bin -o sorted.bin --type u64 --drives drives.toml",
    ),
    (
        "scratch",
        "outcore scratch list /mnt/nvme0\n\
         outcore scratch clean /mnt/nvme0",
    ),
    (
        "bench",
        "outcore bench io /mnt/nvme0 /mnt/nvme1 -o report.html\n\
         outcore bench sort /mnt/nvme0 --size 8GiB --memory 2GiB -o sort.html\n\
         outcore bench graph /mnt/nvme0 --scale 24 --memory 2GiB",
    ),
    (
        "sim",
        "outcore sim presets\n\
         outcore sim run --preset pm9a3\n\
         outcore sim plan --size 1TiB --memory 16GiB\n\
         outcore sim gpu --workload bert",
    ),
    (
        "config",
        "outcore config show\n\
         OUTCORE_MEMORY=2GiB outcore config show",
    ),
    ("zip", "outcore zip a.npy --zip b.npy -o pairs.bin"),
    (
        "enumerate",
        "outcore enumerate keys.bin -o numbered.bin --type u64",
    ),
    (
        "windows",
        "outcore windows 3 prices.bin -o windows.bin --type f64",
    ),
    (
        "reverse",
        "outcore reverse keys.bin -o reversed.bin --type u64",
    ),
    (
        "scan",
        "outcore scan sum counts.npy -o offsets.npy --exclusive --map 'u64(x)'",
    ),
    (
        "histogram",
        "outcore histogram keys.bin --type u64 --bins 20 --range 0:1000",
    ),
    ("top", "outcore top 10 keys.bin --type u64"),
    ("find", "outcore find 'x > 1000' keys.bin --type u64"),
    (
        "gather",
        "outcore gather points.npy --at positions.npy -o chosen.npy",
    ),
    (
        "demo",
        "outcore demo --size 4GiB --memory 512MiB --dir /mnt/nvme0",
    ),
    ("scratch list", "outcore scratch list /mnt/nvme0"),
    ("scratch clean", "outcore scratch clean /mnt/nvme0"),
    ("config show", "outcore config show"),
    (
        "drives probe",
        "outcore drives probe /mnt/nvme0 /mnt/nvme1 -o drives.toml",
    ),
    (
        "volume create",
        "outcore drives probe /mnt/nvme0 /mnt/nvme1 -o drives.toml\n\
         outcore volume create --volume drives.toml",
    ),
    (
        "volume status",
        "outcore volume status --volume drives.toml",
    ),
    (
        "volume scrub",
        "outcore volume scrub --volume drives.toml\noutcore volume scrub @keys --volume drives.toml",
    ),
    (
        "ls",
        "outcore ls --volume drives.toml\noutcore ls @images --volume drives.toml",
    ),
    ("rm", "outcore rm @keys @old --volume drives.toml"),
    (
        "cp",
        "outcore cp @keys @copy --volume drives.toml\noutcore cp keys.bin @keys --volume drives.toml",
    ),
    ("view append", "outcore view append keys.view more.bin"),
    ("view info", "outcore view info keys.view"),
    ("view verify", "outcore view verify keys.view"),
    (
        "view materialize",
        "outcore view materialize keys.view -o sorted.bin",
    ),
    ("completions", "outcore completions bash > outcore.bash"),
    (
        "man",
        "outcore man | man -l -\nmkdir pages; outcore man pages",
    ),
    ("sim run", "outcore sim run --preset pm9a3"),
    ("sim presets", "outcore sim presets"),
    (
        "sim replay",
        "outcore sort keys.bin -o sorted.bin --type u64 --record-io sort.iotrace\n\
         outcore sim replay sort.iotrace",
    ),
    (
        "sim sweep",
        "outcore sim sweep --vary flash.channels=4,8,16 --vary flow.depth=1,16,256",
    ),
    ("sim calibrate", "outcore sim calibrate drives.toml"),
    ("sim plan", "outcore sim plan --size 1TiB --memory 16GiB"),
    ("sim allegro", "outcore sim allegro profile.json.gz"),
    ("sim activesort", "outcore sim activesort"),
    ("sim gpu", "outcore sim gpu --workload bert"),
    ("sim policies", "outcore sim policies"),
];

/// The definition, with its help arranged. `root` must not be built yet.
pub(crate) fn arranged(root: Command) -> Command {
    let root = root.mut_subcommands(|command| {
        let path = command.get_name().to_string();
        arrange(command, &path)
    });
    let page = page_of_groups(&root, "outcore", &GROUPS);
    // Flags of all commands stand on the pages of those below once the definition is built.
    let mut built = root.clone();
    built.build();
    let root = root.mut_subcommands(|command| {
        let whole = built.find_subcommand(command.get_name());
        match whole.filter(|_| command.has_subcommands()) {
            Some(whole) => {
                let page = page_below(whole, command.get_name());
                command.override_help(page)
            }
            None => command,
        }
    });
    root.override_help(page)
}

/// The page of a command, and those of the commands below it.
fn arrange(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        arrange(below, &path)
    });
    let about = text_of(command.get_about());
    let long = text_of(command.get_long_about());
    let details = long.strip_prefix(about.as_str()).unwrap_or(&long).trim();
    let Closing { examples, rest } = closing_of(&command, path);
    let mut page = vec![about.as_str()];
    page.extend(examples.iter().map(String::as_str));
    page.extend((!details.is_empty()).then_some(details));
    let page = page.join("\n\n");
    // The long page alone has the flags of all jobs.
    let command = command.mut_args(|arg| {
        let heading = arg.get_help_heading();
        let is_shared = heading.is_some_and(|heading| SHARED.contains(&heading));
        arg.hide_short_help(is_shared)
    });
    command.long_about(page).after_long_help(rest.join("\n\n"))
}

/// What the closing text of a command has, in paragraphs.
pub(crate) struct Closing {
    /// Each a heading and indented lines.
    pub(crate) examples: Vec<String>,
    /// Each in one line.
    pub(crate) rest: Vec<String>,
}

/// The examples of a command whose name below the root is `path`, and what else closes its page.
pub(crate) fn closing_of(command: &Command, path: &str) -> Closing {
    let closing = text_of(command.get_after_long_help());
    let (examples, rest): (Vec<&str>, Vec<&str>) = closing
        .split("\n\n")
        .filter(|paragraph| !paragraph.is_empty())
        .partition(|paragraph| is_examples(paragraph));
    let mut examples: Vec<String> = examples.into_iter().map(str::to_string).collect();
    let own = EXAMPLES.iter().find(|(known, _)| *known == path);
    let own = own.map(|(_, lines)| format!("Examples:\n  {}", lines.replace('\n', "\n  ")));
    if examples.is_empty() {
        examples.extend(own);
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

fn text_of(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// Whether a paragraph is a heading followed by indented lines only.
fn is_examples(paragraph: &str) -> bool {
    let mut lines = paragraph.lines();
    let is_heading = lines.next().is_some_and(|line| line.ends_with(':'));
    is_heading && lines.clone().next().is_some() && lines.all(|line| line.starts_with("  "))
}

/// The page of a command that has others below it, which are in one group if nothing else is said.
fn page_below(command: &Command, name: &str) -> String {
    if let Some((_, groups)) = GROUPS_BELOW.iter().find(|(known, _)| *known == name) {
        return page_of_groups(command, &format!("outcore {name}"), groups);
    }
    let shown = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let names = shown.map(Command::get_name);
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    page_of_groups(command, &format!("outcore {name}"), &[("Commands", &names)])
}

/// The page of the command `path`: its purpose, examples, the commands below it in groups, flags.
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

/// A paragraph in lines of at most [`WIDTH`] characters; examples as they are.
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::deferred::whole;
    use crate::cli::{Cli, gnu};

    /// The commands that do something, by their names below the root.
    fn leaves(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            let path = format!("{path} {}", below.get_name()).trim().to_string();
            match below.has_subcommands() {
                true => leaves(below, &path, found),
                false => found.push((path, below.clone())),
            }
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let root = whole(Cli::command);
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        let mut defined: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
        defined.push("help");
        grouped.sort_unstable();
        defined.sort_unstable();
        assert_eq!(grouped, defined);
    }

    #[test]
    fn commands_below_others_are_in_one_group_and_their_page_begins_with_examples() {
        let root = arranged(whole(Cli::command));
        let mut pages = 0;
        for command in root
            .get_subcommands()
            .filter(|command| command.has_subcommands())
        {
            let name = command.get_name();
            let page = command.clone().render_long_help().to_string();
            let (examples, listed) = page.split_once("\nUsage: outcore ").unwrap();
            let examples: Vec<&str> = examples
                .split("\n\n")
                .filter(|text| is_examples(text))
                .collect();
            let lines = examples.iter().flat_map(|text| text.lines().skip(1));
            let lines: Vec<&str> = lines.collect();
            assert!((2..=4).contains(&lines.len()), "{name}: {lines:?}");
            lines.into_iter().for_each(check_line);
            for below in command.get_subcommands() {
                let (below, is_hidden) = (below.get_name(), below.is_hide_set());
                let entries = listed.lines().filter(|line| {
                    line.starts_with("  ") && line.split_whitespace().next() == Some(below)
                });
                assert_eq!(entries.count(), usize::from(!is_hidden), "{name} {below}");
            }
            assert!(listed.contains("--quiet"), "{name} has the flags of all");
            assert!(!listed.contains("see a summary"), "{name} has one page");
            pages += 1;
        }
        assert_eq!(pages, 9);
        for (name, groups) in GROUPS_BELOW {
            let below = root.find_subcommand(name).unwrap();
            let names = groups.iter().flat_map(|(_, names)| *names);
            assert!(
                names
                    .into_iter()
                    .all(|name| below.find_subcommand(name).is_some())
            );
        }
    }

    #[test]
    fn every_command_has_examples_before_its_details_and_they_are_command_lines() {
        let mut found = Vec::new();
        leaves(&arranged(whole(Cli::command)), "", &mut found);
        assert!(found.len() > 40, "{}", found.len());
        for (path, command) in found {
            let page = command.get_long_about().unwrap().to_string();
            let mut paragraphs = page.split("\n\n");
            let about = paragraphs.next().unwrap();
            assert!(
                !about.contains('\n') && !about.ends_with('.'),
                "{path}: {about}"
            );
            let examples: Vec<&str> = paragraphs.take_while(|text| is_examples(text)).collect();
            assert!(!examples.is_empty(), "{path} has no examples");
            let lines = examples.iter().flat_map(|text| text.lines().skip(1));
            for line in lines {
                assert!(line.len() <= WIDTH, "{path}: {line}");
                if line.contains("outcore ") {
                    check_line(line);
                }
            }
            let closing = text_of(command.get_after_long_help());
            for paragraph in closing.split("\n\n") {
                assert!(!paragraph.contains('\n'), "{path}: {paragraph}");
            }
        }
    }

    /// Fails unless what a line says of `outcore` is a command line that the definition takes.
    #[track_caller]
    fn check_line(line: &str) {
        let from = line.find("outcore ").unwrap();
        // What it does may follow it.
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
                (sign, _) => words.last_mut().unwrap().push(sign),
            }
        }
        words.retain(|word| !word.is_empty());
        let words: Vec<_> = words.into_iter().map(std::ffi::OsString::from).collect();
        let mut of_one = gnu::definition_for(&words);
        let words = match gnu::read(words, &mut of_one).unwrap() {
            gnu::Read::Words(words) => words,
            gnu::Read::Version => return,
        };
        // The whole definition and that of the one command that is called take it alike.
        for definition in [whole(Cli::command), of_one] {
            let parsed = definition.try_get_matches_from(&words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
