//! Keywords of Python's functions: the options of a verb, with types, defaults and words.
//!
//! Contract: a keyword is an option of the verb, under the same name except for those of [`NAMES`].
//! Its type follows from the type that the option reads, and its documentation is the option's
//! help.

use std::any::TypeId;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, ValueHint};
use outcore_verbs::option::RecordCount;
use outcore_verbs::verb::Inputs;

use super::plain::plain;

/// Options whose keyword is not their name in the definition.
const NAMES: [(&str, &str); 26] = [
    ("bloom_filters", "bloom"),
    ("conditions", "where"),
    ("distribution", "dist"),
    ("file_bytes", "size"),
    ("files", "src"),
    ("format", "dtype"),
    ("inputs", "src"),
    ("keys", "key"),
    ("limit_bytes", "scratch_limit"),
    ("limit_bytes_per_s", "limit"),
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
    ("run_bytes", "run_size"),
    ("stripe_bytes", "stripe"),
    ("trace", "record_io"),
    ("unordered", "ordered"),
    ("wanted", "keys"),
];
/// Options that say the opposite of their keyword.
const OPPOSITES: [&str; 2] = ["no_header", "unordered"];
/// Options of no use to Python: `drives` takes the file of drives too, there are no streams, and a
/// plan is a value of its own. Python has `tabulate` for numbers that no file holds, and uses `key`
/// also for keys of lines. [`ORDER`] is the option for the letters of GNU sort.
const LEFT_OUT: [&str; 31] = [
    "cat",
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
    "integers",
    "line_keys",
    "ignore_leading_blanks",
    "dictionary_order",
    "ignore_case",
    "general_numeric_sort",
    "human_numeric_sort",
    "ignore_nonprinting",
    "month_sort",
    "numeric_sort",
    "random_sort",
    "version_sort",
];
/// Options of verbs on graphs and vectors that Python's functions never pass on.
const NOT_OF_ARRAYS: [&str; 12] = [
    "authorities",
    "distances",
    "edges",
    "explain",
    "fanouts",
    "labels",
    "limits",
    "names",
    "repeats_count",
    "source",
    "top",
    "trace",
];
/// The letters of GNU sort, each of which is an option of the command.
const ORDER: &str = "For lines and CSV, letters of GNU sort for keys without letters of their own: `\"n\"` compares numbers, `\"g\"` floating-point numbers, `\"h\"` sizes such as 2K, `\"M\"` months, `\"V\"` versions, `\"f\"` ignores case, `\"b\"` ignores leading blanks, `\"d\"` compares only blanks, letters and digits, `\"i\"` only printable characters, `\"R\"` is a random order that keeps equal keys together, `\"r\"` reverses";
/// Keywords that take more than texts, with their types and the functions that turn their values
/// into words.
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
/// Keywords of sizes in bytes, and of rates.
const SIZES: [&str; 8] = [
    "bytes",
    "limit",
    "line_bytes",
    "memory",
    "run_size",
    "scratch_limit",
    "size",
    "stripe",
];
/// Operands that are files or directories and no data.
const OPERANDS: [&str; 5] = ["dir", "dirs", "drives", "source", "target"];
/// Sentences that Python adds to the help of options.
const RECORDS: [(&str, &str); 4] = [
    (
        "dtype",
        "A dtype of NumPy also works. `u8` and `i8` mean one thing here and another to NumPy, and are rejected.",
    ),
    (
        "record",
        "A tuple gives the keys as well: `(100, \"0:10\")`.",
    ),
    ("key", ""),
    (
        "lines",
        "`True` accepts only text as lines, and `\"any\"` accepts any bytes.",
    ),
];
/// A keyword of a function.
pub(crate) struct Keyword {
    /// The options, by their names in the definition.
    pub(crate) ids: Vec<&'static str>,
    pub(crate) name: String,
    pub(crate) annotation: String,
    /// Nothing if the keyword must be given.
    pub(crate) default: Option<String>,
    /// The function that turns its value into words, and the option; none for files, which come
    /// after the words.
    pub(crate) option: Option<(&'static str, String)>,
    pub(crate) doc: String,
}

/// Names in the tables above that no option among `ids` has.
pub(crate) fn unknown(ids: &[String]) -> Vec<&'static str> {
    let names = NAMES.iter().map(|(id, _)| id);
    let left_out = LEFT_OUT.iter().chain(&NOT_OF_ARRAYS);
    let named = left_out.chain(&OPPOSITES).chain(names);
    let is_unknown = |id: &&str| !ids.iter().any(|known| known == id);
    named.copied().filter(is_unknown).collect()
}

/// Whether an option of a verb that reads `inputs` is of no use to Python.
pub(crate) fn is_left_out(arg: &Arg, inputs: Inputs) -> bool {
    let id = arg.get_id().as_str();
    let is_rejected = matches!(id, "parts" | "unique") && arg.is_hide_set();
    let is_never_passed = match inputs {
        Inputs::Arrays => NOT_OF_ARRAYS.contains(&id),
        Inputs::Tables => id == "infer",
        _ => false,
    };
    LEFT_OUT.contains(&id) || is_rejected || is_never_passed
}

/// The keywords of the verb `command`, with the keyword of the order of lines if the verb has one.
pub(crate) fn with_order(
    keywords: impl Iterator<Item = Keyword>,
    command: &Command,
) -> Vec<Keyword> {
    let mut keywords: Vec<Keyword> = keywords.collect();
    let is_ordered = command
        .get_arguments()
        .any(|arg| arg.get_id() == "numeric_sort");
    let key = keywords.iter().position(|keyword| keyword.name == "key");
    if let (true, Some(at)) = (is_ordered, key) {
        keywords[at].ids.push("line_keys");
        keywords[at].doc += " For lines, keys as GNU sort's `-k` has them: `\"2,2n\"`.";
        let order = Keyword {
            ids: Vec::new(),
            name: "order".to_owned(),
            annotation: "str".to_owned(),
            default: Some("\"\"".to_owned()),
            option: Some(("letters", "--order".to_owned())),
            doc: format!("{ORDER}."),
        };
        keywords.insert(at + 1, order);
    }
    keywords
}

/// The keyword of an option of a verb that reads `inputs`.
pub(crate) fn keyword(arg: &Arg, inputs: Inputs) -> Keyword {
    let id = arg.get_id().as_str();
    let known = NAMES.iter().find(|(known, _)| *known == id);
    let name = known.map_or(id, |(_, name)| name).to_owned();
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = || arg.get_short().map(|short| format!("-{short}"));
    // An argument before the files has the keyword's name in messages.
    let flag = long.or_else(short).unwrap_or_else(|| name.clone());
    let (annotation, default, method) = kind_of(arg, &name, inputs);
    let option = (method != "operands").then_some((method, flag));
    // Python's own functions on arrays have their own words.
    let help = match inputs {
        Inputs::Arrays => String::new(),
        _ => help_of(arg),
    };
    let mut doc = plain(&help.replace("\n\n", ". ")).replace('\\', "\\\\");
    if !doc.ends_with('.') {
        doc.push('.');
    }
    if OPPOSITES.contains(&id) {
        doc = format!("`False` means: {doc}");
    }
    if let Some((_, more)) = RECORDS
        .iter()
        .find(|(known, more)| *known == name && !more.is_empty() && !is_plain_flag(arg))
    {
        let _ = write!(doc, " {more}");
    }
    Keyword {
        ids: vec![id.to_owned().leak()],
        name,
        annotation,
        default,
        option,
        doc,
    }
}

/// The help of an option.
fn help_of(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    help.map(ToString::to_string).unwrap_or_default()
}

/// The values that an option takes, if only some, as Python writes them.
fn choices_of(arg: &Arg) -> String {
    if !matches!(arg.get_action(), ArgAction::Set) {
        return String::new();
    }
    let choices = arg.get_possible_values();
    let choices = choices
        .iter()
        .map(|choice| format!("\"{}\"", choice.get_name()));
    choices.collect::<Vec<_>>().join(", ")
}

/// Whether an option takes no value.
fn is_plain_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// The entry of [`SPECIAL`] for the keyword `name`. A verb may have a plain flag of such a name, as
/// `lookup` has `--lines`.
fn special_of(
    arg: &Arg,
    name: &str,
) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let mut special = SPECIAL.iter();
    special.find(|(known, ..)| *known == name && !is_plain_flag(arg))
}

/// The type of a keyword of records and keys, and the function that turns its value into words.
fn kind_of_keys(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "dtype" => Some(("npt.DTypeLike | None", "dtype")),
        "record" => Some(("Record | None", "record")),
        "key" => Some(("Keys | None", "texts")),
        "by" | "order" => Some(("Keys | None", "keys")),
        "on" => Some(("Keys | None", "columns")),
        _ => None,
    }
}

/// Whether the type that `is` recognises is one of whole numbers.
fn is_whole(is: &impl Fn(TypeId) -> bool) -> bool {
    let numbers = [
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<u128>(),
        TypeId::of::<usize>(),
        TypeId::of::<RecordCount>(),
    ];
    numbers.into_iter().any(is)
}

/// The type of the keyword `name`, its default, and the function that turns its value into words.
fn kind_of(arg: &Arg, name: &str, inputs: Inputs) -> (String, Option<String>, &'static str) {
    let many_values = arg
        .get_num_args()
        .is_some_and(|range| range.max_values() > 1);
    let is_many = matches!(arg.get_action(), ArgAction::Append) || many_values;
    let kind = arg.get_value_parser().type_id();
    let is = |wanted: TypeId| kind == wanted;
    let is_path = is(TypeId::of::<PathBuf>());
    let is_whole = is_whole(&is);
    let choices = choices_of(arg);
    let given = arg.get_default_values().first();
    let given = given.map(|value| value.to_string_lossy().into_owned());
    let special = special_of(arg, name).filter(|_| !is(TypeId::of::<f64>()));
    let of = |annotation: &str, default: &str, method| {
        (annotation.to_owned(), Some(default.to_owned()), method)
    };
    let takes_tables = !matches!(inputs, Inputs::Files | Inputs::Arrays);
    // Most whole numbers have 64 bits.
    let number = match is(TypeId::of::<u128>()) {
        true => "wide",
        false => "number",
    };
    let needs = |annotation: &str, method| (annotation.to_owned(), None, method);
    let value = arg.get_value_names().and_then(|names| names.first());
    if value.is_some_and(|value| value.starts_with('@')) {
        return match (is_many, arg.is_required_set()) {
            (true, _) => needs("str", "datasets"),
            (false, true) => needs("str", "dataset"),
            (false, false) => of("str | None", "None", "dataset"),
        };
    }
    if arg.is_positional() && is_path && OPERANDS.contains(&name) {
        return match is_many {
            true if arg.is_required_set() => needs("Paths", "paths"),
            true => of("Paths", "()", "paths"),
            false => needs("StrPath", "path"),
        };
    }
    if arg.is_positional() && is_path {
        let source = if takes_tables { "TableSource" } else { "Paths" };
        return needs(source, "operands");
    }
    // Python keeps a table where the command requires an output.
    let is_pattern = help_of(arg).contains("{part}");
    let is_stdout = given.as_deref() == Some("-");
    let is_required = arg.is_required_set() || is_stdout;
    // A directory is not kept.
    let is_dir = arg.get_value_hint() == ValueHint::DirPath;
    if name == "dst" && !is_dir && (takes_tables && !is_pattern || !is_required) {
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
            // `by` follows the output. The output may be left out, so `by` needs a default.
            "by" => of("Keys", "()", "listed"),
            _ if is_whole => needs("SupportsIndex", number),
            _ if !choices.is_empty() => needs(&format!("Literal[{choices}]"), "text"),
            _ => needs("str", "text"),
        };
    }
    if let Some((annotation, method)) = kind_of_keys(name) {
        return of(annotation, "None", method);
    }
    if is_required && is_path {
        return ("StrPath".to_owned(), None, "path");
    }
    if arg.is_required_set() && is_whole {
        return ("SupportsIndex".to_owned(), None, number);
    }
    if OPPOSITES.contains(&arg.get_id().as_str()) {
        return of("bool", "True", "unless");
    }
    if is_plain_flag(arg) {
        return of("bool", "False", "flag");
    }
    match given {
        Some(given) if SIZES.contains(&name) => of("Size", &format!("\"{given}\""), "size"),
        Some(given) if is_whole => of("SupportsIndex", &given, number),
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
        None if is_whole => of("SupportsIndex | None", "None", number),
        None if is(TypeId::of::<f64>()) => of("float | None", "None", "value"),
        None if !choices.is_empty() => of(&format!("Literal[{choices}] | None"), "None", "text"),
        None if is_many => of("Keys | None", "None", "texts"),
        None => of("str | None", "None", "text"),
    }
}
