//! Python's module of verbs: a function of each, as its options and its rules say.
//!
//! Contract: a keyword is an option of the verb, under the same name except for those of [`NAMES`].
//! Its type follows from the type that the option reads, its documentation is the option's help. A
//! keyword that several functions have in the same words is documented by the first of them.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Args as _, Command};
use outcore_front::Spelling;
use outcore_verbs::option::RecordCount;
use outcore_verbs::report::Described;
use outcore_verbs::verb::{Inputs, Verb, VerbVisitor};
use outcore_verbs::visit_verbs;

use super::wrapped;

const HEAD: &str = r#""""VerbsKIND: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, SupportsIndex

from ._arguments import ARGUMENTS
from ._held import TableSource
from ._progress import Watcher
REPORTS
from ._words import Option, WORDS

if TYPE_CHECKING:
NUMPY    from ._table import Table
"#;
/// The verbs whose functions are made here; those of the others are written by hand.
const VERBS: [&str; 17] = [
    "sort", "unique", "comm", "shuffle", "head", "tail", "sample", "split", "gen", "verify",
    "convert", "info", "dedup", "group-by", "window", "join", "diff",
];
/// Options whose keyword is not their name in the definition.
const NAMES: [(&str, &str); 18] = [
    ("bloom_filters", "bloom"),
    ("distribution", "dist"),
    ("files", "src"),
    ("format", "dtype"),
    ("inputs", "src"),
    ("keys", "key"),
    ("limit_bytes", "scratch_limit"),
    ("line_keys", "line_key"),
    ("memory_bytes", "memory"),
    ("no_header", "header"),
    ("is_lines", "lines"),
    ("output", "dst"),
    ("part_bytes", "bytes"),
    ("part_lines", "by_lines"),
    ("record_bytes", "record"),
    ("records", "count"),
    ("trace", "record_io"),
    ("unordered", "ordered"),
];
/// Options that say the opposite of their keyword.
const OPPOSITES: [&str; 2] = ["no_header", "unordered"];
/// Options of no use to Python: `drives` takes the file of drives too, there are no streams, and a
/// plan is a value of its own. Python has the flags of GNU sort and not the words of `--sort`.
const LEFT_OUT: [&str; 18] = [
    "drives_file",
    "from",
    "to",
    "dry_run",
    "word",
    "buffer_bytes",
    "temporary_dirs",
    "parallel",
    "batch_count",
    "compress_program",
    "debug",
    "check_silently",
    "old_keys",
    "files0_from",
    "random_source",
    "merge",
    "check",
    "delete_input",
];
/// A verb whose function stands behind one that is written by hand.
const BEHIND: &str = "sort";
/// Keywords that take more than texts, with their types and what makes words of them.
const SPECIAL: [(&str, &str, &str); 6] = [
    ("lines", "LinesHow", "lines"),
    ("bloom", "Keys | None", "columns"),
    ("columns", "Keys | None", "columns"),
    ("schema", "str | Mapping[str, str] | None", "schema"),
    ("tolerance", "str | float | None", "value"),
    ("drives", "Paths", "drives"),
];
/// Keywords of sizes in bytes.
const SIZES: [&str; 3] = ["bytes", "memory", "scratch_limit"];
/// What Python adds to options.
const RECORDS: [(&str, &str); 4] = [
    (
        "dtype",
        "Any dtype of NumPy's says it too. `u8` and `i8` mean one thing here and another to NumPy, and are rejected.",
    ),
    (
        "record",
        "A tuple gives the keys as well: `(100, \"0:10\")`.",
    ),
    ("key", ""),
    (
        "lines",
        "`True` takes text alone for lines, and `\"any\"` any bytes.",
    ),
];
/// A keyword of a function.
struct Keyword {
    name: String,
    annotation: String,
    /// Nothing where it has to be given.
    default: Option<String>,
    /// What makes words of it, and of which option; nothing for what stands behind the options.
    option: Option<(&'static str, String)>,
    doc: String,
}

/// The modules of verbs on files of any kind, and of those on nothing but tables.
pub(crate) fn modules() -> [String; 2] {
    let mut of_files = Module::default();
    visit_verbs(&mut of_files);
    let mut of_tables = Module {
        is_of_tables: true,
        documented: of_files.documented.clone(),
        ..Module::default()
    };
    visit_verbs(&mut of_tables);
    [of_files, of_tables].map(|module| text_of(&module))
}

/// The whole module.
fn text_of(module: &Module) -> String {
    let reports = module.reports.join(", ");
    let reports = format!("from ._reports import {reports}");
    let (kind, words) = match module.is_of_tables {
        false => ("", "report_on_tables, run, run_on_tables"),
        true => (" on tables", "report_on_tables, run_on_tables"),
    };
    let mut text = HEAD.replace("REPORTS", &reports);
    text = text.replace("KIND", kind).replace("WORDS", words);
    let names = ["Keys", "LinesHow", "Paths", "Record", "Size", "StrPath"];
    let is_used = |name: &&str| module.text.contains(&format!(": {name}"));
    let names: Vec<&str> = names.into_iter().filter(is_used).collect();
    let numpy = match module.text.contains("npt.") {
        true => "    import numpy.typing as npt\n\n",
        false => "",
    };
    text = text
        .replace("ARGUMENTS", &names.join(", "))
        .replace("NUMPY", numpy);
    if !module.text.contains("Mapping[") {
        text = text.replace("from collections.abc import Mapping\n", "");
    }
    text.push_str("\n#: The words of keywords; a verb that differs has its name in front.\n");
    text.push_str("_OPTIONS: dict[str, Option] = {\n");
    for (keyword, option) in &module.options {
        let _ = writeln!(text, "    \"{keyword}\": {option},");
    }
    text.push_str("}\n");
    text.push_str(&module.text);
    let names = module.names.iter().map(|name| format!("    \"{name}\",\n"));
    let names: String = names.collect();
    text + &format!("\n\n__all__ = [\n{names}]\n")
}

/// A module that grows.
#[derive(Default)]
struct Module {
    is_of_tables: bool,
    text: String,
    /// What it offers.
    names: Vec<String>,
    /// The reports that its functions give.
    reports: Vec<&'static str>,
    options: BTreeMap<String, String>,
    /// The functions that document keywords, by keyword and text.
    documented: BTreeMap<(String, String), String>,
}

impl VerbVisitor for Module {
    fn visit<V: Verb>(&mut self) {
        let is_of_tables = V::INPUTS == Inputs::Tables;
        if !VERBS.contains(&V::NAME) || is_of_tables != self.is_of_tables {
            return;
        }
        if V::NAME != BEHIND {
            self.names.push(function_name(V::NAME));
        }
        if !self.reports.contains(&V::Report::NAME) {
            self.reports.push(V::Report::NAME);
            self.reports.sort_unstable();
        }
        self.verb::<V>();
    }
}

/// The function of the verb `name`.
fn function_name(name: &str) -> String {
    name.replace('-', "_")
}

impl Module {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn verb<V: Verb>(&mut self) {
        let takes_tables = V::INPUTS != Inputs::Files;
        let is_of_tables = V::INPUTS == Inputs::Tables;
        let command = V::Args::augment_args(Command::new(V::NAME));
        let is_left_out = |arg: &&Arg| {
            let id = arg.get_id().as_str();
            LEFT_OUT.contains(&id) || is_of_tables && id == "infer"
        };
        let arguments = command.get_arguments().filter(|arg| !is_left_out(arg));
        let keywords: Vec<Keyword> = arguments.map(|arg| keyword(arg, V::INPUTS)).collect();
        // As in Python's own functions: what, whereto, and the rest.
        let is_dst_optional = keywords
            .iter()
            .any(|keyword| keyword.name == "dst" && keyword.default.is_some());
        let keeps = takes_tables && is_dst_optional;
        let place = |keyword: &Keyword| match &keyword.name[..] {
            "src" | "dtype" if keyword.default.is_none() => Some(0),
            "left" => Some(1),
            "right" => Some(2),
            "dst" => Some(3),
            "by" | "on" if is_of_tables => Some(4),
            _ if keyword.default.is_none() && !is_dst_optional => Some(5),
            _ => None,
        };
        let (mut operands, options): (Vec<_>, Vec<_>) = keywords
            .iter()
            .partition(|keyword| place(keyword).is_some());
        operands.sort_by_key(|keyword| place(keyword));
        let name = function_name(V::NAME);
        let parameter = |keyword: &Keyword| match &keyword.default {
            Some(default) => format!("    {}: {} = {default},", keyword.name, keyword.annotation),
            None => format!("    {}: {},", keyword.name, keyword.annotation),
        };
        self.line(&format!("\n\ndef {name}("));
        operands
            .iter()
            .for_each(|keyword| self.line(&parameter(keyword)));
        self.line("    *,");
        options
            .iter()
            .for_each(|keyword| self.line(&parameter(keyword)));
        self.line("    volume: StrPath | None = None,");
        self.line("    progress: Watcher | bool | None = None,");
        let or_table = if keeps { " | Table" } else { "" };
        self.line(&format!(") -> {}{or_table}:", V::Report::NAME));
        self.docstring(&command, (&operands, &options), keeps);
        for keyword in &keywords {
            self.option(V::NAME, keyword);
        }
        let phases = V::PHASES.iter().map(|(name, _)| format!("\"{name}\""));
        let mut phases = phases.collect::<Vec<_>>().join(", ");
        if V::PHASES.len() == 1 {
            phases.push(',');
        }
        let run = match (keeps, takes_tables) {
            (true, _) => "run_on_tables",
            (false, true) => "report_on_tables",
            (false, false) => "run",
        };
        self.line(&format!(
            "    return {run}(\"{}\", {}, ({phases}), _OPTIONS, locals())",
            V::NAME,
            V::Report::NAME,
        ));
    }

    fn docstring(
        &mut self,
        command: &Command,
        (operands, options): (&[&Keyword], &[&Keyword]),
        keeps: bool,
    ) {
        let name = function_name(command.get_name());
        if name == BEHIND {
            self.line(
                "    \"\"\"The verb, for the function of the same name that documents it.\"\"\"",
            );
            return;
        }
        let of = |text: Option<&clap::builder::StyledStr>| {
            Spelling::Python.text(&text.map(ToString::to_string).unwrap_or_default())
        };
        let about = of(command.get_long_about().or(command.get_about()));
        let mut paragraphs = about.split("\n\n");
        let first = format!("\"\"\"{}.", paragraphs.next().unwrap_or_default());
        for line in wrapped(&first, "    ", "    ") {
            self.line(&line);
        }
        let behind = of(command.get_after_long_help());
        // Examples are those of the command.
        let is_text = |paragraph: &&str| !paragraph.contains("\n  ");
        let behind = behind.split("\n\n").filter(is_text);
        for paragraph in paragraphs.chain(behind).filter(|text| !text.is_empty()) {
            self.line("");
            let lines = wrapped(paragraph, "    ", "    ");
            lines.iter().for_each(|line| self.line(line));
        }
        self.line("\n    Args:");
        let mut elsewhere: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut docs = Vec::new();
        for keyword in operands.iter().chain(options) {
            let mut doc = keyword.doc.clone();
            if keeps && keyword.name == "dst" {
                doc.push_str(" Without it the result is a `Table`.");
            }
            docs.push((&keyword.name[..], doc));
        }
        docs.push(("volume", VOLUME.to_owned()));
        docs.push(("progress", PROGRESS.to_owned()));
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
        self.line("\n    Raises: What `sort` raises.");
        self.line("    \"\"\"");
    }

    fn option(&mut self, verb: &str, keyword: &Keyword) {
        let Some((method, flag)) = &keyword.option else {
            return;
        };
        let spelled = Spelling::Python.text(flag);
        // Messages name options by their long names.
        let is_short = !flag.starts_with("--");
        let is_spelled = is_short || spelled.split('=').next() == Some(&keyword.name);
        assert!(is_spelled, "messages call {} {spelled}", keyword.name);
        let default = match (&keyword.name[..], &keyword.default) {
            // Whether a table may be kept is no matter of words.
            ("dst", _) => "None",
            (_, default) => default.as_deref().unwrap_or("..."),
        };
        let option = format!("Option(\"{method}\", \"{flag}\", {default})");
        match self.options.get(&keyword.name) {
            None => {
                self.options.insert(keyword.name.clone(), option);
            }
            Some(known) if *known == option => {}
            Some(_) => {
                let name = format!("{verb}.{}", keyword.name);
                self.options.insert(name, option);
            }
        }
    }
}

const VOLUME: &str = "The drives file of a volume: where a file is taken, `\"@name\"` is a dataset on it. By default \
                      that of `OUTCORE_VOLUME`.";
const PROGRESS: &str = "`True` for a bar, or a function that is called with a `Progress` a few times a second. What it \
                        raises stops the job.";

fn keyword(arg: &Arg, inputs: Inputs) -> Keyword {
    let id = arg.get_id().as_str();
    let known = NAMES.iter().find(|(known, _)| *known == id);
    let name = known.map_or(id, |(_, name)| name).to_owned();
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = || arg.get_short().map(|short| format!("-{short}"));
    let flag = long.or_else(short).unwrap_or_default();
    let (annotation, default, method) = kind_of(arg, &name, inputs);
    let option = match method {
        "operands" => None,
        _ => Some((method, flag)),
    };
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut doc = Spelling::Python.text(&help).replace('\\', "\\\\");
    doc.push('.');
    if OPPOSITES.contains(&id) {
        doc = format!("If it is `False`: {doc}");
    }
    if let Some((_, more)) = RECORDS
        .iter()
        .find(|(known, more)| *known == name && !more.is_empty())
    {
        let _ = write!(doc, " {more}");
    }
    Keyword {
        name,
        annotation,
        default,
        option,
        doc,
    }
}

/// The type of the keyword `name`, its default, and what makes words of it.
fn kind_of(arg: &Arg, name: &str, inputs: Inputs) -> (String, Option<String>, &'static str) {
    let many_values = arg
        .get_num_args()
        .is_some_and(|range| range.max_values() > 1);
    let is_many = matches!(arg.get_action(), ArgAction::Append) || many_values;
    let kind = arg.get_value_parser().type_id();
    let is = |wanted: TypeId| kind == wanted;
    let is_path = is(TypeId::of::<PathBuf>());
    let whole = [
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<u128>(),
        TypeId::of::<RecordCount>(),
    ];
    let is_whole = whole.into_iter().any(is);
    let choices = arg.get_possible_values();
    let choices = choices
        .iter()
        .map(|choice| format!("\"{}\"", choice.get_name()));
    let choices = match arg.get_action() {
        ArgAction::Set => choices.collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    let given = arg.get_default_values().first();
    let given = given.map(|value| value.to_string_lossy().into_owned());
    let special = SPECIAL.iter().find(|(known, ..)| *known == name);
    let of = |annotation: &str, default: &str, method| {
        (annotation.to_owned(), Some(default.to_owned()), method)
    };
    let takes_tables = inputs != Inputs::Files;
    if arg.is_positional() {
        return match (name, takes_tables) {
            ("dtype", _) => ("npt.DTypeLike".to_owned(), None, "operands"),
            (_, true) => ("TableSource".to_owned(), None, "operands"),
            (_, false) => ("Paths".to_owned(), None, "operands"),
        };
    }
    // Python keeps a table where the command requires an output.
    if name == "dst" && (inputs == Inputs::Tables || !arg.is_required_set()) {
        return of("StrPath | None", "None", "path");
    }
    if let Some((_, annotation, method)) = special {
        let default = match *annotation {
            "Paths" => "()",
            "LinesHow" => "False",
            _ => "None",
        };
        return of(annotation, default, method);
    }
    match name {
        "dtype" => return of("npt.DTypeLike | None", "None", "dtype"),
        "record" => return of("Record | None", "None", "record"),
        "key" => return of("Keys | None", "None", "texts"),
        _ => {}
    }
    if arg.is_required_set() && is_path {
        return ("StrPath".to_owned(), None, "path");
    }
    if arg.is_required_set() && is_whole {
        return ("SupportsIndex".to_owned(), None, "number");
    }
    if OPPOSITES.contains(&arg.get_id().as_str()) {
        return of("bool", "True", "unless");
    }
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return of("bool", "False", "flag");
    }
    match given {
        Some(given) if is_whole => of("SupportsIndex", &given, "number"),
        Some(given) if is(TypeId::of::<f64>()) => of("float", &given, "value"),
        Some(given) => of("str", &format!("\"{given}\""), "text"),
        None if is_path && is_many => of("Paths", "()", "paths"),
        None if is_path => of("StrPath | None", "None", "path"),
        None if SIZES.contains(&name) => of("Size | None", "None", "size"),
        None if is_whole => of("SupportsIndex | None", "None", "number"),
        None if is(TypeId::of::<f64>()) => of("float | None", "None", "value"),
        None if !choices.is_empty() => of(&format!("Literal[{choices}] | None"), "None", "text"),
        None if is_many => of("Keys | None", "None", "texts"),
        None => of("str | None", "None", "text"),
    }
}
