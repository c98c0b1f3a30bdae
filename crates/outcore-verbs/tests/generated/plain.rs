//! Translates the help of the command to Python's documentation.
//!
//! Contract: [`plain`] writes options as keywords, values as names of parameters and verbs as
//! functions, and leaves out what is only for a shell. [`wrong`] returns the texts that still have
//! words of a shell; improve these texts, or [`PHRASES`].

use std::sync::Mutex;

use outcore_front::Spelling;

/// Phrases that the texts for Python replace or leave out.
const PHRASES: [(&str, &str); 82] = [
    (
        "If the program is called `sort` (ln -s \"$(command -v outcore)\" ~/bin/sort), it behaves as GNU sort does: \
         errors exit with 2, inputs are lines, and file names say nothing about contents (x.gz is not decompressed).",
        "",
    ),
    // Letters of GNU uniq, comm and head.
    (
        ", and not only neighbours. The options of GNU uniq (-c -d -D -u -i -f -s -w -z) have the \
         same meaning. With -f, -s or -w, the compared part of a line is its key, and lines are in \
         the order of their keys",
        ". With skip_fields, skip_chars or check_chars, the compared part of a line is its key, \
         and lines are in the order of their keys",
    ),
    (
        "keep one of the three columns, for example with -12",
        "keep one of the three columns",
    ),
    (
        "; -5 prints all but the last 5",
        "; a negative number takes all but that many at the end",
    ),
    ("; +5 starts at the fifth one", ""),
    (", as `shuf -n` does", ""),
    // Standard input and output.
    (
        "; - is standard input, which is the default for lines. To read records from standard \
         input, pass - and a type",
        "",
    ),
    ("; - is standard input, which is the default", ""),
    (
        "; - is standard input, which is copied to scratch first",
        "",
    ),
    ("; - is standard input", ""),
    (". Default: standard input", ""),
    (
        ". Default: standard output. Lines replace an existing file, even an input; CSV and JSON lines only with --force",
        "",
    ),
    (". Default: standard output", ""),
    (", - for standard output", ""),
    (", or - for standard output", ""),
    ("; with a single input it may be left out", ""),
    (
        ". Inputs never change, unless you pass --replace, --delete-input or, for lines, -o with \
         the name of an input",
        ". Inputs never change, unless you pass --replace",
    ),
    (
        "Rows of tables are printed in the format of the first input: those of Parquet and Arrow \
         as CSV, or as JSON lines if a column has lists or objects",
        "",
    ),
    (". Needs -o", ""),
    (
        "Prints each value and its count, in the order of the values; with -o, writes them as records of the value and an 8-byte count",
        "The report has each value and its count, in the order of the values. With `dst` they are written as records of the value and an 8-byte count",
    ),
    (
        "Prints the borders of each bin and its count, one bin per line",
        "The report has the range of all bins, and the count of each",
    ),
    (
        "Exits with 4 if anything is damaged; drive, file and offset go to standard output. ",
        "The report has dataset, drive, file and offset of each damage. ",
    ),
    (
        "A file, a directory, or - for standard input",
        "A file or a directory",
    ),
    (
        "Store a file, a directory or standard input",
        "Store a file or a directory",
    ),
    ("@NAME/FILE", "name/file"),
    // A function returns the text that the command prints.
    (
        "Print the first lines, records or rows of the input",
        "Take the first lines, records or rows of the input",
    ),
    (
        "Print randomly chosen lines, records or rows, in input order",
        "Take randomly chosen lines, records or rows, in input order",
    ),
    (
        "Print the rows, columns and row groups of tables",
        "Report the rows, columns and row groups of tables",
    ),
    (
        "Print the largest numbers, largest first",
        "Find the largest numbers, largest first",
    ),
    (
        "Print the smallest numbers, smallest first",
        "Find the smallest numbers, smallest first",
    ),
    (
        "Print the position of the first record",
        "Find the first record",
    ),
    ("How many numbers to print", "How many numbers to find"),
    ("records to print", "records to take"),
    (
        "Stops reading there. Exits with 1 if there is no such record",
        "Stops reading there. `position` is `None` if there is no such record",
    ),
    ("Exits with 1 if they differ. ", ""),
    (
        "A negative result is not an error: the command exits with 1 if a record is out of order, \
         and Python's report has `ok`",
        "A negative result is not an error: `ok` of the report is `False` if a record is out of \
         order",
    ),
    (
        "Print the plan (runs, blocks, merges beforehand, predicted traffic), then run",
        "Print the plan on `sys.stderr`, then run",
    ),
    (
        "Print the plan (predicted traffic and time), then run",
        "Print the plan on `sys.stderr`, then run",
    ),
    (
        "Print the plan (passes, buffers, predicted traffic and time), then run",
        "Print the plan on `sys.stderr`, then run",
    ),
    (
        "Print the plan (passes and buffers; by hashing or by sorting), then run",
        "Print the plan on `sys.stderr`, then run",
    ),
    (
        "Print the plan of each sort (passes, buffers, predicted traffic and time), then run",
        "Print the plan of each sort on `sys.stderr`, then run",
    ),
    (
        "Print the plan, then run",
        "Print the plan on `sys.stderr`, then run",
    ),
    (
        "commands that take only tables",
        "functions that take only tables",
    ),
    // Options that are given several times.
    (
        "Repeat for secondary keys; most significant first",
        "Several keys are a list, the most significant first",
    ),
    (
        "A directory on a drive; repeat for more drives",
        "Directories on drives, or the name of a drives.toml",
    ),
    (
        "repeat for nested directories",
        "a list makes nested directories",
    ),
    ("Repeat for several texts", "A list for several texts"),
    ("repeat for several columns", "a list for several columns"),
    ("Repeat for several columns", "A list for several columns"),
    ("repeat for several", "a list for several"),
    (
        "; repeat to AND conditions",
        "; several conditions must all be true",
    ),
    // Tools and options of a shell.
    (
        "The output is that of `sort -u`; with --count, that of `sort | uniq -c`, or for records each record followed by an 8-byte count. With keys (-k, or --by for CSV, JSON lines and FASTQ)",
        "The output is in order. With --count, each line follows its count, as GNU uniq writes it, and each record precedes an 8-byte count. With keys (--key, or --by for columns)",
    ),
    ("as with `split -n l/K`, ", ""),
    ("With -n, parts", "With --parts, parts"),
    (
        "-t sets the separator (default: inferred from a sample of the records)",
        "--field-separator is by default inferred from a sample of the records",
    ),
    (
        "also the letters of -k, as in",
        "also the letters of `order`, as in",
    ),
    (
        "Field separator, one byte (\\0 for NUL)",
        "Field separator, one byte",
    ),
    (
        "-R. Without a seed, -R has a different order in each run. Only the output of -R depends on the seed",
        "the random order of `R`. Without a seed, that order differs in each run. Only the output of `R` depends on the seed",
    ),
    (
        "Lines are merged by `outcore sort -m`",
        "`Lines.merge` merges lines",
    ),
    (
        "with the options of GNU sort in the C locale and byte-identical output",
        "as GNU sort does in the C locale, byte for byte",
    ),
    (
        "(`LC_ALL=C sort`)",
        "(as GNU sort orders them in the C locale)",
    ),
    (
        "as `sort` writes them without --stable",
        "as `sort` writes them unless it is `stable`",
    ),
    ("the output of `outcore sort`", "the output of `sort`"),
    (
        "Expressions are those of `outcore map --help`; with --where there is no index",
        "Expressions are those of `map`; with --where there is no index",
    ),
    (
        "`outcore unique --count` counts whole records of any kind, and lines",
        "`unique` with --count counts whole records of any kind, and lines",
    ),
    (
        "For tables, EXPR is one column or several separated by commas, and OUT is a table of these columns and `count`",
        "For tables, `by` is one column or several, and the result is a table of these columns and `count`",
    ),
    (
        "Record type, as in `sort --type`;",
        "Record type, as in `sort`;",
    ),
    ("as in `sort --key`", "as in `sort`"),
    (", as in `outcore sort --by`", ", as in `sort`"),
    (
        "What to compute: expressions, separated by commas",
        "What to compute: a list of expressions, or a text of expressions separated by commas",
    ),
    (", separated by commas", ""),
    (". Separate columns with commas", ""),
    (
        "As --lines, for lines that end with NUL",
        "As `lines`, for lines that end with NUL",
    ),
    (
        "in FILE (an I/O trace; see docs/formats/io-trace.md). FILE appears",
        "in this file (an I/O trace). It appears",
    ),
    (
        "With --map, the values of EXPR for the records are reduced",
        "With --map, the values of that expression for the records are reduced",
    ),
    (
        "Apply EXPR to each record first",
        "Apply this expression to each record first",
    ),
    (
        "Keep only records for which EXPR is true",
        "Keep only records for which this is true",
    ),
    (
        "Zip IN with another file of the same number of records. Its numbers are y",
        "Files of the same number of records, which are zipped with `src`. The numbers of the \
         first are y",
    ),
    (
        "and those of a third file are z",
        "and those of the second are z",
    ),
    (
        "Count only numbers from LOW to HIGH",
        "Count only numbers in this range, including its ends",
    ),
    ("; those of --train", "; those of `train`"),
    ("Write N Parquet files", "Write this many Parquet files"),
];
/// Names of values that are parameters.
const VALUES: [(&str, &str); 4] = [
    ("OUT", "`dst`"),
    ("IN", "`src`"),
    ("LEFT", "`left`"),
    ("RIGHT", "`right`"),
];
/// Words that only a shell has.
const OF_SHELLS: [&str; 10] = [
    "--",
    " -",
    "(-",
    "standard input",
    "standard output",
    "`outcore ",
    "EXPR",
    "FILE",
    "Repeat",
    "Exits",
];

static WRONG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Texts that still have words of a shell.
pub(crate) fn wrong() -> Vec<String> {
    std::mem::take(&mut *WRONG.lock().unwrap())
}

/// A text of the command's help for Python.
pub(crate) fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    for (said, meant) in PHRASES {
        text = text.replace(said, meant);
    }
    text = Spelling::Python.text(&as_functions(&text));
    for (value, parameter) in VALUES {
        text = replace_word(&text, value, parameter);
    }
    // Python starts commands of the shell with this variable as well.
    let dashes = text
        .replace(" - ", " ")
        .replace(" -> ", " ")
        .replace("$FILE", "");
    let found = OF_SHELLS.iter().find(|word| dashes.contains(**word));
    let found = found.filter(|_| !text.starts_with("Records and tables share one language"));
    if let Some(word) = found {
        let mut wrong = WRONG.lock().unwrap();
        wrong.push(format!("`{word}` is of a shell: {text}"));
    }
    match text.trim() {
        "." => String::new(),
        text => text.to_owned(),
    }
}

/// The text with `outcore group-by` as `group_by`.
fn as_functions(text: &str) -> String {
    let mut parts = text.split("`outcore ");
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (call, rest) = part.split_once('`').unwrap_or((part, ""));
        let (verb, further) = call.split_once(' ').unwrap_or((call, ""));
        said.push('`');
        said.push_str(&verb.replace('-', "_"));
        said.push('`');
        if !further.is_empty() {
            said.push_str(" with ");
            said.push_str(further);
        }
        said.push_str(rest);
    }
    said
}

/// The text with `other` in place of each separate `word`.
fn replace_word(text: &str, word: &str, other: &str) -> String {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, behind) = (&rest[..at], &rest[at + word.len()..]);
        replaced.push_str(before);
        let is_alone = !replaced.ends_with(is_letter) && !behind.starts_with(is_letter);
        replaced.push_str(if is_alone { other } else { word });
        rest = behind;
    }
    replaced + rest
}
