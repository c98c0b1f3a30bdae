//! Keywords of Python's functions: the options of a verb, with types, defaults and words.
//!
//! Contract: a keyword is an option of the verb, under the same name except for those of [`NAMES`].
//! Its type follows from the type that the option reads, its documentation is the option's help.

use std::any::TypeId;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction};
use outcore_front::Spelling;
use outcore_verbs::verb::Inputs;

/// Options whose keyword is not their name in the definition.
const NAMES: [(&str, &str); 24] = [
    ("bloom_filters", "bloom"),
    ("conditions", "where"),
    ("distribution", "dist"),
    ("files", "src"),
    ("format", "dtype"),
    ("inputs", "src"),
    ("keys", "key"),
    ("limit_bytes", "scratch_limit"),
    ("line_keys", "line_key"),
    ("lookup_index", "index"),
    ("memory_bytes", "memory"),
    ("no_header", "header"),
    ("is_lines", "lines"),
    ("output", "dst"),
    ("part_bytes", "bytes"),
    ("part_lines", "by_lines"),
    ("positions", "at"),
    ("positions_type", "at_type"),
    ("record_bytes", "record"),
    ("records", "count"),
    ("trace", "record_io"),
    ("unordered", "ordered"),
    ("wanted", "keys"),
    ("window_records", "length"),
];
/// Options that say the opposite of their keyword.
const OPPOSITES: [&str; 2] = ["no_header", "unordered"];
/// Options of no use to Python: `drives` takes the file of drives too, there are no streams, and a
/// plan is a value of its own. Python has the flags of GNU sort and not the words of `--sort`, and
/// `tabulate` for numbers that no file holds.
const LEFT_OUT: [&str; 19] = [
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
    "numbers",
];
/// Keywords that take more than texts, with their types and what makes words of them.
const SPECIAL: [(&str, &str, &str); 9] = [
    ("lines", "LinesHow", "lines"),
    ("bloom", "Keys | None", "columns"),
    ("columns", "Keys | None", "columns"),
    ("schema", "str | Mapping[str, str] | None", "schema"),
    ("tolerance", "str | float | None", "value"),
    ("drives", "Paths", "drives"),
    ("map", "Expression | None", "text"),
    ("range", "tuple[float, float] | None", "pair"),
    ("where", "Expressions", "expressions"),
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
pub(crate) struct Keyword {
    pub(crate) name: String,
    pub(crate) annotation: String,
    /// Nothing where it has to be given.
    pub(crate) default: Option<String>,
    /// What makes words of it, and of which option; nothing for files that stand behind the options.
    pub(crate) option: Option<(&'static str, String)>,
    pub(crate) doc: String,
}

/// Whether an option of a verb that reads `inputs` is of no use to Python.
pub(crate) fn is_left_out(arg: &Arg, inputs: Inputs) -> bool {
    let id = arg.get_id().as_str();
    LEFT_OUT.contains(&id) || inputs == Inputs::Tables && id == "infer"
}

/// The keyword of an option of a verb that reads `inputs`.
pub(crate) fn keyword(arg: &Arg, inputs: Inputs) -> Keyword {
    let id = arg.get_id().as_str();
    let known = NAMES.iter().find(|(known, _)| *known == id);
    let name = known.map_or(id, |(_, name)| name).to_owned();
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = || arg.get_short().map(|short| format!("-{short}"));
    // What stands in front of the files has the keyword's name in messages.
    let flag = long.or_else(short).unwrap_or_else(|| name.clone());
    let (annotation, default, method) = kind_of(arg, &name, inputs);
    let option = (method != "operands").then_some((method, flag));
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
    let numbers = [
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<u128>(),
        TypeId::of::<usize>(),
    ];
    let is_whole = numbers.into_iter().any(is);
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
    let needs = |annotation: &str, method| (annotation.to_owned(), None, method);
    if arg.is_positional() && is_path {
        let source = if takes_tables { "TableSource" } else { "Paths" };
        return needs(source, "operands");
    }
    // Python keeps a table where the command requires an output.
    if name == "dst" && (takes_tables || !arg.is_required_set()) {
        return of("StrPath | None", "None", "path");
    }
    if let Some((_, annotation, method)) = special {
        let default = match *annotation {
            "Paths" | "Expressions" => "()",
            "LinesHow" => "False",
            _ => "None",
        };
        return of(annotation, default, method);
    }
    if arg.is_positional() {
        return match name {
            "dtype" => needs("npt.DTypeLike", "dtype"),
            "condition" | "expression" | "how" => needs("Expression", "text"),
            "expressions" => needs("Expressions", "joined"),
            // Behind the output, which may be left out.
            "by" => of("Keys", "()", "listed"),
            _ if is_whole => needs("SupportsIndex", "number"),
            _ if !choices.is_empty() => needs(&format!("Literal[{choices}]"), "text"),
            _ => needs("str", "text"),
        };
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
        Some(given) if !choices.is_empty() => of(
            &format!("Literal[{choices}]"),
            &format!("\"{given}\""),
            "text",
        ),
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
