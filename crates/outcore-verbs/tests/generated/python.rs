//! Python's modules of verbs: a function for each verb, made from its options and rules.
//!
//! Contract: every verb has a function, or is a method of the class of its group, except for those
//! of [`OF_COMMAND`]. Its parameters are the [`Keyword`]s of its options. A keyword that several
//! functions have in the same words is documented by the first of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Args as _, Command};
use outcore_front::Spelling;
use outcore_verbs::report::Described;
use outcore_verbs::verb::{Inputs, Verb, VerbVisitor, group_of};
use outcore_verbs::visit_verbs;

use super::examples::calls;
use super::keywords::{Keyword, is_left_out, keyword, with_order};
use super::plain::plain;
use super::{LINE_COLUMNS, reports, wrapped};

const HEAD: &str = r#""""VerbKIND: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

"#;
/// The verb whose function documents what all of them raise.
const RAISING: &str = "sort";
/// A verb that returns a report if it has no output and its result is no table.
const REPORTING: &str = "count-by";
/// Verbs whose functions have other names, because a function with the verb's name takes data in
/// memory, or makes an object.
const FUNCTIONS: [(&str, &str); 7] = [
    ("config show", "settings"),
    ("drives probe", "probe_drives"),
    ("lookup", "lookup_file"),
    ("scratch clean", "clean_scratch"),
    ("scratch list", "list_scratch"),
    ("view build", BUILDING),
    ("volume create", "_create"),
];
/// The function that returns the view that its verb builds.
const BUILDING: &str = "sort_view";
/// The types of a keyword that determine the class of the view from [`BUILDING`].
const BUILT: [(&str, &str, &str); 5] = [
    ("lines", "Literal[True, \"any\"]", "LineView"),
    ("csv", "Literal[True]", "LineView"),
    ("jsonl", "Literal[True]", "LineView"),
    ("by", "Keys", "TableView"),
    ("", "", "View"),
];
/// Verbs that are of use only to the command: Python has views as objects.
const OF_COMMAND: [&str; 6] = [
    "view append",
    "view cat",
    "view info",
    "view materialize",
    "view mount",
    "view verify",
];

/// Whether the verb `name` has no function in Python.
pub(crate) fn is_of_command(name: &str) -> bool {
    OF_COMMAND.contains(&name)
}

/// The modules, and the end of the first line of each, after "Verb".
const MODULES: [(Place, &str); 8] = [
    (Place::Lines, "s on all of the lines, records or rows"),
    (
        Place::Parts,
        "s that take parts of lines, records and tables",
    ),
    (Place::Rows, "s on records and tables"),
    (Place::Tables, "s on tables"),
    (Place::Records, "s on records"),
    (Place::View, "s on sorted views"),
    (Place::Volume, "s on volumes, as methods"),
    (Place::Machine, "s on drives, scratch and settings"),
];

/// Verbs on any input that take parts of it.
const OF_PARTS: [&str; 4] = ["head", "sample", "split", "tail"];

/// The module that a verb is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Lines,
    Parts,
    Rows,
    Tables,
    Records,
    View,
    Volume,
    Machine,
    /// Programs have functions of their own.
    Arrays,
}

impl Place {
    fn of<V: Verb>() -> Self {
        let command = V::Args::augment_args(Command::new(V::NAME));
        let mut options = command.get_arguments();
        let group = group_of(V::NAME).map(|(group, _)| group);
        match V::INPUTS {
            _ if group == Some("view") => Place::View,
            _ if group == Some("volume") => Place::Volume,
            _ if matches!(group, Some("config" | "drives" | "scratch")) => Place::Machine,
            Inputs::Tables => Place::Tables,
            Inputs::Arrays => Place::Arrays,
            _ if OF_PARTS.contains(&V::NAME) => Place::Parts,
            _ if options.any(|arg| arg.get_id() == "is_lines") => Place::Lines,
            Inputs::Any => Place::Rows,
            _ => Place::Records,
        }
    }

    /// Whether the functions have a keyword for a volume.
    fn takes_volume(self) -> bool {
        !matches!(self, Place::Volume | Place::Machine)
    }

    /// The class that has the verbs as methods.
    fn class(self) -> Option<&'static str> {
        (self == Place::Volume).then_some("VolumeVerbs")
    }
}

/// The Python code that is generated from the verbs.
pub(crate) struct Package {
    /// The modules, in the order of [`MODULES`].
    pub(crate) modules: [String; 8],
    /// The statement that lists the names of the functions and report classes of the package.
    pub(crate) names: String,
}

/// The modules and their names.
pub(crate) fn package() -> Package {
    let mut documented = BTreeMap::new();
    let mut names = reports::names();
    let modules = MODULES.map(|(place, kind)| {
        let mut module = Module {
            documented: std::mem::take(&mut documented),
            ..Module::of(place)
        };
        visit_verbs(&mut module);
        documented = std::mem::take(&mut module.documented);
        if place.class().is_none() {
            names.extend(module.names.iter().cloned());
        }
        text_of(&module, kind)
    });
    let names = names.iter().map(|name| format!("\"{name}\","));
    let names = wrapped(&names.collect::<Vec<_>>().join(" "), "    ", "    ").join("\n");
    let names = format!("__all__ += [\n{names}\n]\n");
    Package { modules, names }
}

/// The module of options of verbs on graphs and vectors, whose functions are Python's own.
pub(crate) fn array_options() -> String {
    let mut module = Module::of(Place::Arrays);
    visit_verbs(&mut module);
    let head = HEAD.replace(
        "VerbKIND: a function for each.",
        "The options of verbs on graphs and vectors.",
    );
    let table = module.table().replace("_OPTIONS", "OPTIONS");
    format!("{head}from ._words import Option\n\n{table}")
}

/// Types that only checkers of types import.
const CHECKED: [(&str, &str); 3] = [
    ("npt", "    import numpy.typing as npt\n"),
    ("Table", "    from ._table import Table\n"),
    ("TableView", "    from ._table_view import TableView\n"),
];

/// The whole module.
fn text_of(module: &Module, kind: &str) -> String {
    let from = |from: &str, names: &[&str]| {
        let used = names.iter().filter(|name| has_word(&module.text, name));
        let used = used.copied().collect::<Vec<_>>().join(", ");
        match used.is_empty() {
            true => String::new(),
            false => format!("from {from} import {used}\n"),
        }
    };
    let arguments = ["Keys", "LinesHow", "Paths", "Record", "Size", "StrPath"];
    let words = ["report_on_tables", "run", "run_on_tables"];
    let class = module.place.class();
    let mut text = HEAD.replace("KIND", kind);
    text += &from("collections.abc", &["Mapping"]);
    let typing = |also: Option<&str>, names: &[&str]| match (also, from("typing", names)) {
        (None, some) => some,
        (Some(also), none) if none.is_empty() => format!("from typing import {also}\n"),
        (Some(also), some) => some.replace("import ", &format!("import {also}, ")),
    };
    let checked = CHECKED
        .iter()
        .filter(|(name, _)| has_word(&module.text, name));
    let checked: Vec<&str> = checked.map(|(_, line)| *line).collect();
    let is_checked = class.is_none() && !checked.is_empty();
    text += &match class {
        Some(_) => typing(Some("Any"), &["SupportsIndex"]),
        None => typing(
            is_checked.then_some("TYPE_CHECKING"),
            &["Literal", "SupportsIndex", "overload"],
        ),
    };
    text.push('\n');
    text += &from("._arguments", &arguments);
    text += &from("._column", &["Expression", "Expressions"]);
    text += &from("._held", &["TableSource"]);
    text += &from("._progress", &["Watcher"]);
    let is_of_places = matches!(module.place, Place::Volume | Place::Machine);
    text += &match is_of_places {
        true => from("._place_reports", &module.reports),
        false => from("._reports", &module.reports),
    };
    let is_called = |name: &&str| module.text.contains(&format!("return {name}("));
    let called = words.into_iter().filter(is_called);
    let called: Vec<&str> = ["Option"].into_iter().chain(called).collect();
    if module.text.contains(" built(") {
        text += "from ._view import LineView, View, built\n";
    }
    let _ = writeln!(text, "from ._words import {}", called.join(", "));
    if is_checked {
        text += "\nif TYPE_CHECKING:\n";
    }
    text += &checked.join("\n");
    text.push('\n');
    text += &module.table();
    if let Some(class) = class {
        let methods = module.text.trim_start().replace("\n\n\n", "\n\n");
        let lines = methods.lines().map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("    {line}\n"),
        });
        let methods: String = lines.collect();
        let _ = writeln!(
            text,
            "\n\nclass {class}:\n    \"\"\"The verbs as methods.\"\"\"\n\n    def _means(self) -> dict[str, \
             Any]:\n        \"\"\"Keywords that every call gets.\"\"\"\n        return {{}}\n\n{}",
            methods.trim_end()
        );
        return text;
    }
    text += &module.text;
    let names = module.names.iter().map(|name| format!("    \"{name}\",\n"));
    let names: String = names.collect();
    text + &format!("\n\n__all__ = [\n{names}]\n")
}

/// Whether `name` is a separate word somewhere in `text`.
fn has_word(text: &str, name: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + name.len()..]);
        !before.ends_with(is_letter) && !behind.starts_with(is_letter)
    })
}

/// A module that grows.
struct Module {
    place: Place,
    text: String,
    /// The names that it offers.
    names: Vec<String>,
    /// The reports that its functions give.
    reports: Vec<&'static str>,
    /// For each keyword, the texts of its options, each with the verbs that use that option.
    options: BTreeMap<String, BTreeMap<String, Vec<&'static str>>>,
    /// The functions that document keywords, by keyword and text.
    documented: BTreeMap<(String, String), String>,
}

impl VerbVisitor for Module {
    fn visit<V: Verb>(&mut self) {
        if Place::of::<V>() != self.place || is_of_command(V::NAME) {
            return;
        }
        if self.place == Place::Arrays {
            self.options::<V>();
            return;
        }
        self.names.push(function_name(V::NAME));
        if !self.reports.contains(&V::Report::NAME) {
            self.reports.push(V::Report::NAME);
            self.reports.sort_unstable();
        }
        self.verb::<V>();
    }
}

/// The function of the verb `name`.
fn function_name(name: &str) -> String {
    let known = FUNCTIONS.iter().find(|(verb, _)| *verb == name);
    let name = group_of(name).map_or(name, |(_, below)| below);
    known
        .map_or(name, |(_, function)| function)
        .replace('-', "_")
}

impl Module {
    fn of(place: Place) -> Self {
        Module {
            place,
            text: String::new(),
            names: Vec::new(),
            reports: Vec::new(),
            options: BTreeMap::new(),
            documented: BTreeMap::new(),
        }
    }

    /// Collects the options of a verb without making a function.
    fn options<V: Verb>(&mut self) {
        let command = V::Args::augment_args(Command::new(V::NAME));
        let options = command.get_arguments().filter(|arg| !arg.is_positional());
        for option in options.filter(|arg| !is_left_out(arg, V::INPUTS)) {
            self.option(V::NAME, &keyword(option, V::INPUTS));
        }
    }

    /// The table of options.
    fn table(&self) -> String {
        let mut text =
            "#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.\n".to_owned();
        text += "_OPTIONS: dict[str, Option] = {\n";
        for (keyword, options) in &self.options {
            let usual = options.iter().max_by_key(|(_, verbs)| verbs.len());
            let usual = usual.map(|(option, _)| option);
            for (option, verbs) in options {
                let own = verbs.iter().map(|verb| format!("{verb}.{keyword}"));
                let names = match Some(option) == usual {
                    true => vec![keyword.clone()],
                    false => own.collect(),
                };
                for name in names {
                    let _ = writeln!(text, "    \"{name}\": {option},");
                }
            }
        }
        text += "}\n";
        text
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn verb<V: Verb>(&mut self) {
        let class = self.place.class();
        let takes_tables = V::INPUTS != Inputs::Files;
        let is_of_tables = V::INPUTS == Inputs::Tables;
        let command = V::Args::augment_args(Command::new(V::NAME));
        let is_taken = |arg: &&Arg| !is_left_out(arg, V::INPUTS);
        let arguments = command.get_arguments().filter(is_taken);
        let keywords = arguments.map(|arg| keyword(arg, V::INPUTS));
        let keywords: Vec<Keyword> = with_order(keywords, &command);
        // The order of parameters is that of Python's own functions: the source, the destination,
        // the rest.
        let is_dst_optional = keywords
            .iter()
            .any(|keyword| keyword.name == "dst" && keyword.default.is_some());
        let keeps = takes_tables && is_dst_optional;
        let place = |keyword: &Keyword| match (&keyword.name[..], &keyword.option) {
            ("src" | "left", None) => Some(0),
            ("right", None) => Some(1),
            ("dst", _) => Some(3),
            ("by" | "on", _) if is_of_tables => Some(4),
            (_, Some((_, flag))) if !flag.starts_with('-') => match keyword.default {
                None => Some(2),
                Some(_) => Some(4),
            },
            _ if keyword.default.is_none() && !is_dst_optional => Some(5),
            _ => None,
        };
        let (mut operands, options): (Vec<_>, Vec<_>) = keywords
            .iter()
            .partition(|keyword| place(keyword).is_some());
        operands.sort_by_key(|keyword| place(keyword));
        let name = function_name(V::NAME);
        let takes_volume = self.place.takes_volume();
        let signature = |dst: Option<&str>| {
            let is_star = |keyword: &Keyword| {
                let option = keyword.option.as_ref();
                option.is_some_and(|(method, _)| *method == "datasets")
            };
            let parameter = |keyword: &&Keyword| match (&keyword.name[..], dst, &keyword.default) {
                (name, ..) if is_star(keyword) => format!("*{name}: {},", keyword.annotation),
                ("dst", Some(dst), _) => format!("dst: {dst},"),
                // Only a table is kept without an output, and a table is sorted by columns.
                ("by", Some(KEPT), _) if V::NAME == RAISING => "by: Keys,".to_owned(),
                (name, _, Some(default)) => format!("{name}: {} = {default},", keyword.annotation),
                (name, _, None) => format!("{name}: {},", keyword.annotation),
            };
            let mut parameters: Vec<String> =
                class.map(|_| "self,".to_owned()).into_iter().collect();
            parameters.extend(operands.iter().map(parameter));
            let has_star = operands.iter().any(|keyword| is_star(keyword));
            let is_watched = !V::PHASES.is_empty();
            if !has_star && (is_watched || !options.is_empty()) {
                parameters.push("*,".to_owned());
            }
            parameters.extend(options.iter().map(parameter));
            if takes_volume {
                parameters.push("volume: StrPath | None = None,".to_owned());
            }
            if is_watched {
                parameters.push("progress: Watcher | bool | None = None,".to_owned());
            }
            parameters
        };
        let report = V::Report::NAME;
        let either = format!("{report} | Table");
        let kept = if V::NAME == REPORTING {
            &either
        } else {
            "Table"
        };
        if keeps {
            self.overload(&name, &signature(Some("StrPath")), report);
            self.overload(&name, &signature(Some(KEPT)), kept);
        }
        let is_building = name == BUILDING;
        if is_building {
            self.built_overloads(&signature(None));
        }
        self.line(&format!("\n\ndef {name}("));
        self.parameters(&signature(None));
        let returned = match (keeps, is_building) {
            (true, _) => &either[..],
            (false, true) => "View | LineView | TableView",
            (false, false) => report,
        };
        self.line(&format!(") -> {returned}:"));
        self.docstring::<V>(&command, (&operands, &options), keeps);
        for keyword in &keywords {
            self.option(V::NAME, keyword);
        }
        let run = match (keeps, takes_tables) {
            _ if is_building => "built",
            (true, _) => "run_on_tables",
            (false, true) => "report_on_tables",
            (false, false) => "run",
        };
        self.call_of::<V>(run);
    }

    /// The statement with which a function ends: `run` with its arguments.
    fn call_of<V: Verb>(&mut self, run: &str) {
        let phases = V::PHASES.iter().map(|(name, _)| format!("\"{name}\""));
        let mut phases = phases.collect::<Vec<_>>().join(", ");
        if V::PHASES.len() == 1 {
            phases.push(',');
        }
        let given = match self.place.class() {
            Some(_) => "{**self._means(), **locals()}",
            None => "locals()",
        };
        self.line(&format!(
            "    return {run}(\"{}\", {}, ({phases}), _OPTIONS, {given})",
            V::NAME,
            V::Report::NAME,
        ));
    }

    /// The results of the function that builds views, by the arguments that give the kind of a
    /// view.
    fn built_overloads(&mut self, parameters: &[String]) {
        for (at, (said, annotation, class)) in BUILT.into_iter().enumerate() {
            let parameter = |parameter: &String| {
                let name = parameter.split(':').next().unwrap_or_default();
                let place = BUILT.iter().position(|(other, ..)| *other == name);
                match (place, name) {
                    (Some(_), name) if name == said => format!("{name}: {annotation},"),
                    (Some(place), "by") if place < at => "by: None = None,".to_owned(),
                    (Some(place), name) if place < at => {
                        format!("{name}: Literal[False] = False,")
                    }
                    _ => parameter.clone(),
                }
            };
            let parameters: Vec<String> = parameters.iter().map(parameter).collect();
            self.overload(BUILDING, &parameters, class);
        }
    }

    /// The result of a function, if the type of an argument determines it.
    fn overload(&mut self, name: &str, parameters: &[String], returned: &str) {
        self.line(&format!("\n\n@overload\ndef {name}("));
        self.parameters(parameters);
        self.line(&format!(") -> {returned}: ..."));
    }

    /// Parameters, as many as there is room for in each line.
    fn parameters(&mut self, parameters: &[String]) {
        let mut line = String::from("   ");
        for parameter in parameters {
            if line.len() + 1 + parameter.len() > LINE_COLUMNS {
                self.line(&std::mem::replace(&mut line, "   ".to_owned()));
            }
            line += &format!(" {parameter}");
        }
        self.line(&line);
    }

    fn docstring<V: Verb>(
        &mut self,
        command: &Command,
        (operands, options): (&[&Keyword], &[&Keyword]),
        keeps: bool,
    ) {
        let name = function_name(command.get_name());
        let of = |text: Option<&clap::builder::StyledStr>| {
            text.map(ToString::to_string).unwrap_or_default()
        };
        let about = of(command.get_long_about().or(command.get_about()));
        let help = of(command.get_after_long_help());
        let mut paragraphs = about.split("\n\n").map(plain);
        let first = format!("\"\"\"{}.", paragraphs.next().unwrap_or_default());
        for line in wrapped(&first, "    ", "    ") {
            self.line(&line);
        }
        let is_text = |paragraph: &&str| !paragraph.contains("\n  ");
        let behind = help.split("\n\n").filter(is_text).map(plain);
        let mut elsewhere = None;
        for paragraph in paragraphs.chain(behind).filter(|text| !text.is_empty()) {
            let key = (String::new(), paragraph.clone());
            if let Some(function) = self.documented.get(&key).cloned() {
                // An expression is a language of its own.
                elsewhere = paragraph
                    .starts_with("Records and tables")
                    .then_some(function)
                    .or(elsewhere);
                continue;
            }
            self.documented.insert(key, name.clone());
            self.line("");
            let lines = wrapped(&paragraph, "    ", "    ");
            lines.iter().for_each(|line| self.line(line));
        }
        if let Some(function) = elsewhere {
            self.line(&format!("\n    Expressions are those of `{function}`."));
        }
        let calls = calls::<V>(
            &help,
            &name,
            (operands, options),
            keeps && V::NAME != REPORTING,
        );
        if !calls.is_empty() {
            self.line("\n    Examples:");
            for call in calls {
                self.line(&format!("        >>> {call}"));
            }
        }
        let mut elsewhere: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut docs = Vec::new();
        for keyword in operands.iter().chain(options) {
            let mut doc = keyword.doc.clone();
            if keeps && keyword.name == "dst" {
                doc.push_str(match command.get_name() {
                    REPORTING => {
                        " Without it, counts of a table are a `Table`; others are in the report."
                    }
                    _ => " Without it the result is a `Table`.",
                });
            }
            docs.push((&keyword.name[..], doc));
        }
        if self.place.takes_volume() {
            docs.push(("volume", VOLUME.to_owned()));
        }
        if !V::PHASES.is_empty() {
            docs.push(("progress", PROGRESS.to_owned()));
        }
        if !docs.is_empty() {
            self.line("\n    Args:");
        }
        for (keyword, doc) in docs {
            let key = (keyword.to_owned(), doc.clone());
            if let Some(function) = self.documented.get(&key) {
                elsewhere.entry(function.clone()).or_default().push(keyword);
                continue;
            }
            self.documented.insert(key, name.clone());
            let doc = format!("{keyword}: {doc}");
            for line in wrapped(&doc, "        ", "            ") {
                self.line(&line);
            }
        }
        for (function, keywords) in elsewhere {
            let doc = format!("{}: As in `{function}`.", keywords.join(", "));
            for line in wrapped(&doc, "        ", "            ") {
                self.line(&line);
            }
        }
        self.line(match command.get_name() {
            RAISING => RAISES,
            _ => "\n    Raises: What `sort` raises.",
        });
        self.line("    \"\"\"");
    }

    fn option(&mut self, verb: &'static str, keyword: &Keyword) {
        let Some((method, flag)) = &keyword.option else {
            return;
        };
        let spelled = Spelling::Python.text(flag);
        // Messages name options by their long names.
        let is_short = !flag.starts_with("--");
        let is_spelled = is_short || spelled.split('=').next() == Some(&*keyword.name);
        let is_spelled = is_spelled || self.place == Place::Arrays;
        assert!(is_spelled, "messages call {} {spelled}", keyword.name);
        let default = match (&keyword.name[..], &keyword.default) {
            // The words do not show whether a table may be kept.
            ("dst", _) => "None",
            (_, default) => default.as_deref().unwrap_or("..."),
        };
        let option = format!("Option(\"{method}\", \"{flag}\", {default})");
        let options = self.options.entry(keyword.name.clone()).or_default();
        options.entry(option).or_default().push(verb);
    }
}

const RAISES: &str = "
    Raises:
        UsageError: The request is invalid, or an existing file is in the way.
        MemoryBudgetError: The allowed memory is too small; the text names an amount that is enough.
        NoSpaceError: Too little room for scratch or output.
        IoError: The system failed an operation.
        CorruptError: Scratch or an input is damaged, or an input changed while it was read.
        KeyboardInterrupt: Ctrl-C; nothing is left behind.";
/// The type and default of `dst` where the result is kept.
const KEPT: &str = "None = None";
const VOLUME: &str = "The drives file of a volume. In place of a file, `\"@name\"` is then a dataset on the volume. Default: \
                      `OUTCORE_VOLUME`.";
const PROGRESS: &str = "`True` for a bar, or a function that is called with a `Progress` a few times per second. An \
                        exception that it raises stops the job.";
