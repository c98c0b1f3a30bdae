//! Python's module of verbs: a function and a dataclass of each.
//!
//! Contract: a keyword is an option of the verb, under the same name except for those of [`NAMES`].
//! Its type follows from the type that the option reads, its documentation is the option's help.

use std::any::TypeId;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Args as _, Command};
use outcore_front::Spelling;
use outcore_verbs::report::{Described, Field};
use outcore_verbs::verb::{Verb, VerbVisitor};
use outcore_verbs::visit_verbs;

const HEAD: &str = r#""""Verbs: a function for each, and what it reports.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, SupportsIndex

from ._arguments import Keys, Paths, Record, Size, StrPath
from ._progress import Watcher
from ._summary import JobSummary, Phase
from ._words import Words

if TYPE_CHECKING:
    import numpy.typing as npt
"#;
/// Options whose keyword is not their name in the definition.
const NAMES: [(&str, &str); 9] = [
    ("distribution", "dist"),
    ("output", "dst"),
    ("records", "count"),
    ("files", "src"),
    ("format", "dtype"),
    ("record_bytes", "record"),
    ("keys", "key"),
    ("memory_bytes", "memory"),
    ("trace", "record_io"),
];
/// What NumPy and tuples add to the options about records.
const RECORDS: [(&str, &str); 3] = [
    (
        "dtype",
        "Any dtype of NumPy's says it too. `u8` and `i8` mean one thing here and another to NumPy, and are rejected.",
    ),
    (
        "record",
        "A tuple gives the keys as well: `(100, \"0:10\")`.",
    ),
    ("key", ""),
];
const LINE_COLUMNS: usize = 110;

/// A keyword of a function.
struct Keyword {
    name: String,
    annotation: String,
    default: Option<String>,
    /// The line that makes words of it; nothing for one that another has made.
    words: Option<String>,
    doc: String,
}

/// The whole module.
pub(crate) fn module() -> String {
    let mut module = Module {
        text: HEAD.to_owned(),
        names: Vec::new(),
    };
    visit_verbs(&mut module);
    let names = module.names.iter().map(|name| format!("    \"{name}\",\n"));
    let names: String = names.collect();
    module.text + &format!("\n\n__all__ = [\n{names}]\n")
}

/// A module that grows.
struct Module {
    text: String,
    /// What it offers.
    names: Vec<String>,
}

impl VerbVisitor for Module {
    fn visit<V: Verb>(&mut self) {
        // The functions of other verbs are written by hand.
        if !["gen", "verify"].contains(&V::NAME) {
            return;
        }
        self.names.push(V::Report::NAME.to_owned());
        self.names.push(V::NAME.replace('-', "_"));
        verb::<V>(&mut self.text);
    }
}

fn verb<V: Verb>(text: &mut String) {
    class::<V::Report>(text);
    let command = V::Args::augment_args(Command::new(V::NAME));
    let arguments = command.get_arguments();
    // `drives` takes directories and the file that describes them.
    let arguments = arguments.filter(|arg| arg.get_id() != "drives_file");
    let keywords: Vec<Keyword> = arguments.map(keyword).collect();
    let (mut operands, options): (Vec<_>, Vec<_>) = keywords
        .iter()
        .partition(|keyword| keyword.default.is_none());
    // As in Python's own functions: what, whereto, and the rest.
    operands.sort_by_key(|keyword| match &keyword.name[..] {
        "src" | "dtype" => 0,
        "dst" => 1,
        _ => 2,
    });
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("\n\ndef {}(", V::NAME.replace('-', "_")));
    for keyword in &operands {
        line(format!("    {}: {},", keyword.name, keyword.annotation));
    }
    line("    *,".to_owned());
    for keyword in &options {
        let default = keyword.default.as_deref().unwrap_or("None");
        line(format!(
            "    {}: {} = {default},",
            keyword.name, keyword.annotation
        ));
    }
    line("    volume: StrPath | None = None,".to_owned());
    line("    progress: Watcher | bool | None = None,".to_owned());
    line(format!(") -> {}:", V::Report::NAME));
    let about = command.get_long_about().or(command.get_about());
    let about = Spelling::Python.text(&about.map(ToString::to_string).unwrap_or_default());
    let mut paragraphs = about.split("\n\n");
    line(format!(
        "    \"\"\"{}.",
        paragraphs.next().unwrap_or_default()
    ));
    for paragraph in paragraphs {
        line(String::new());
        wrapped(paragraph, "    ", "    ")
            .into_iter()
            .for_each(&mut line);
    }
    line("\n    Args:".to_owned());
    for keyword in operands.iter().chain(&options) {
        let doc = format!("{}: {}", keyword.name, keyword.doc);
        wrapped(&doc, "        ", "            ")
            .into_iter()
            .for_each(&mut line);
    }
    for doc in [
        "volume: The drives file of a volume: where a file is taken, `\"@name\"` is a dataset on it. By default \
         that of `OUTCORE_VOLUME`.",
        "progress: `True` for a bar, or a function that is called with a `Progress` a few times a second. What it \
         raises stops the job.",
    ] {
        wrapped(doc, "        ", "            ")
            .into_iter()
            .for_each(&mut line);
    }
    line("\n    Raises: What `sort` raises.".to_owned());
    line("    \"\"\"".to_owned());
    line("    words = Words()".to_owned());
    for words in keywords.iter().filter_map(|keyword| keyword.words.as_ref()) {
        line(format!("    words.{words}"));
    }
    let phases = V::PHASES.iter().map(|(name, _)| format!("\"{name}\","));
    line(format!(
        "    return words.run(\"{}\", {}, volume, progress, ({}))",
        V::NAME,
        V::Report::NAME,
        phases.collect::<String>()
    ));
}

/// The dataclass of a report.
fn class<T: Described>(text: &mut String) {
    let fields: Vec<Field> = T::fields();
    let base = fields.iter().find(|field| field.is_flat);
    let base = base.map(|field| format!("({})", field.python_type));
    let head = "\n\n@dataclass(frozen=True, repr=False)";
    let _ = write!(
        text,
        "{head}\nclass {}{}:\n",
        T::NAME,
        base.unwrap_or_default()
    );
    let _ = writeln!(text, "    \"\"\"{}\"\"\"\n", joined(T::DOC));
    for field in fields.iter().filter(|field| !field.is_flat) {
        for line in wrapped(&joined(field.doc), "    #: ", "    #: ") {
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "    {}: {}", field.name, field.python_type);
    }
    if fields.iter().any(|field| field.name == "text") {
        text.push_str("\n    def __str__(self) -> str:\n        return self.text\n");
    }
}

/// Lines of a comment as one.
fn joined(doc: &str) -> String {
    let lines = doc.lines().map(str::trim);
    lines.collect::<Vec<_>>().join(" ").trim().to_owned()
}

fn keyword(arg: &Arg) -> Keyword {
    let id = arg.get_id().as_str();
    let known = NAMES.iter().find(|(known, _)| *known == id);
    let name = known.map_or(id, |(_, name)| name).to_owned();
    let flag = arg.get_long().map(|long| format!("--{long}"));
    let flag = flag.unwrap_or_default();
    let is_many = matches!(arg.get_action(), ArgAction::Append)
        || arg
            .get_num_args()
            .is_some_and(|range| range.max_values() > 1);
    let kind = arg.get_value_parser().type_id();
    let is = |wanted: TypeId| kind == wanted;
    let whole = [
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<u128>(),
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
    let (choice, quoted);
    let records = RECORDS.iter().find(|(known, _)| *known == name);
    let given = arg.get_default_values().first();
    let given = given.map(|value| value.to_string_lossy().into_owned());
    let (annotation, default, method) = if arg.is_positional() && name == "dtype" {
        ("npt.DTypeLike", None, "dtype")
    } else if arg.is_positional() {
        ("Paths", None, "operands")
    } else if arg.is_required_set() && is(TypeId::of::<PathBuf>()) {
        ("StrPath", None, "path")
    } else if arg.is_required_set() {
        ("SupportsIndex", None, "number")
    } else if let Some((known, _)) = records {
        let annotation = match *known {
            "dtype" => "npt.DTypeLike | None",
            "record" => "Record | None",
            _ => "Keys | None",
        };
        (annotation, Some("None"), "records")
    } else if matches!(arg.get_action(), ArgAction::SetTrue) {
        ("bool", Some("False"), "flag")
    } else if is(TypeId::of::<PathBuf>()) && is_many {
        ("Paths", Some("()"), "paths")
    } else if is(TypeId::of::<PathBuf>()) {
        ("StrPath | None", Some("None"), "path")
    } else if is(TypeId::of::<u64>()) && name == "memory" {
        ("Size | None", Some("None"), "size")
    } else if is_whole && given.is_some() {
        ("SupportsIndex", given.as_deref(), "number")
    } else if is_whole {
        ("SupportsIndex | None", Some("None"), "number")
    } else if !choices.is_empty() {
        choice = format!("Literal[{choices}] | None");
        (&choice[..], Some("None"), "text")
    } else if is_many {
        ("Keys | None", Some("None"), "texts")
    } else if let Some(given) = &given {
        quoted = format!("\"{given}\"");
        ("str", Some(&quoted[..]), "text")
    } else {
        ("str | None", Some("None"), "text")
    };
    let words = match (method, &name[..]) {
        ("operands" | "dtype", _) => Some(format!("{method}({name})")),
        (_, "drives") => Some("drives(drives)".to_owned()),
        ("records", "dtype") => Some("records(dtype, record, key)".to_owned()),
        ("records", _) => None,
        _ => Some(format!("{method}(\"{flag}\", {name})")),
    };
    let help = arg.get_long_help().or(arg.get_help());
    let mut doc = Spelling::Python.text(&help.map(ToString::to_string).unwrap_or_default());
    doc.push('.');
    if let Some((_, more)) = records.filter(|(_, more)| !more.is_empty()) {
        let _ = write!(doc, " {more}");
    }
    let default = default.map(str::to_owned);
    let annotation = annotation.to_owned();
    Keyword {
        name,
        annotation,
        default,
        words,
        doc,
    }
}

/// A text in lines of at most [`LINE_COLUMNS`].
fn wrapped(text: &str, first: &str, rest: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > LINE_COLUMNS {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}
